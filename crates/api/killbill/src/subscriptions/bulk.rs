//! Several subscriptions in one request: a base product with its add-ons, or several of those. All are made, or none.

use domain::billing::subscription::{SUBSCRIBED_MAX, Subscribe, SubscribeAll};
use domain::command::BillingCommand;
use domain::reply::BillingReply;
use domain::{AccountId, BundleId, Command, Reply};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{JSON, SubscriptionBody, Times};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::json::{Json, Raw, parse};
use crate::reply;

const BULK_JSON: Json = Json("BulkSubscriptionsBundleJson");

const ENTRIES: &str = "baseEntitlementAndAddOns";

/// How many bundles `Location` names at most. Beyond them it is the list of all bundles of the account.
const LOCATED_MAX: usize = 100;

/// Kill Bill's `BulkSubscriptionsBundleJson`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BulkSubscriptionsBundleRequest)]
pub(crate) struct BulkBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Vec<SubscriptionBody<'static>>)]
    base_entitlement_and_add_ons: Raw<'a>,
}

impl<'a> BulkBody<'a> {
    fn entries(self) -> Result<Vec<Raw<'a>>, Failure> {
        let raw = self.base_entitlement_and_add_ons;
        let entries = BULK_JSON.items_up_to(ENTRIES, raw, SUBSCRIBED_MAX)?;
        entries.ok_or_else(|| BULK_JSON.missing(ENTRIES))
    }
}

/// Subscribes an account to a base product and its add-ons in one bundle: to all, or to none
///
/// The base comes first. The first entry names the account and the bundle, and each its own plan.
#[utoipa::path(post, path = "/1.0/kb/subscriptions/createSubscriptionWithAddOns", tag = "Subscription",
    operation_id = "create_subscription_with_add_ons",
    params(
        ("entitlementDate" = Option<String>, Query, description = "From when on the products may be used: a date or a time"),
        ("billingDate" = Option<String>, Query, description = "From when on they are billed: a date or a time"),
        ("callCompletion" = Option<bool>, Query, description = "Taken for Kill Bill's clients: the first invoice is always there"),
        ("callTimeoutSec" = Option<u64>, Query, description = "Taken for Kill Bill's clients, likewise")),
    request_body = Vec<SubscriptionBody<'static>>,
    responses((status = 201, description = "Location names the bundle"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn with_add_ons(call: Call) -> HandlerResult {
    let entries = JSON.array(JSON.0, &call.body, SUBSCRIBED_MAX)?;
    let (_, bundles) = subscribe(&call, &[entries]).await?;
    let Some(bundle) = bundles.first() else {
        return Err(Failure::illegal("subscribing made no bundle"));
    };
    Ok(reply::created(call.location(&["/1.0/kb/bundles/", &bundle.to_string()])))
}

/// Subscribes an account to several base products, each with its add-ons in a bundle: to all, or to none.
#[utoipa::path(post, path = "/1.0/kb/subscriptions/createSubscriptionsWithAddOns", tag = "Subscription",
    operation_id = "create_subscriptions_with_add_ons",
    params(
        ("entitlementDate" = Option<String>, Query, description = "From when on the products may be used: a date or a time"),
        ("billingDate" = Option<String>, Query, description = "From when on they are billed: a date or a time"),
        ("callCompletion" = Option<bool>, Query, description = "Taken for Kill Bill's clients: the first invoice is always there"),
        ("callTimeoutSec" = Option<u64>, Query, description = "Taken for Kill Bill's clients, likewise")),
    request_body = Vec<BulkBody<'static>>,
    responses((status = 201, description = "Location lists the bundles"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn several_with_add_ons(call: Call) -> HandlerResult {
    let bodies: Vec<BulkBody<'_>> = BULK_JSON.objects(&call.body)?;
    let bundles: Vec<_> = bodies.into_iter().map(BulkBody::entries).collect::<Result<_, _>>()?;
    let (account, bundles) = subscribe(&call, &bundles).await?;
    let named = bundles.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let filter = if bundles.len() > LOCATED_MAX { "" } else { &format!("?bundlesFilter={named}") };
    let location = ["/1.0/kb/accounts/", &account.to_string(), "/bundles", filter];
    Ok(reply::created(call.location(&location)))
}

/// Subscribes to all entries. The account, and the bundles in their order.
async fn subscribe(
    call: &Call,
    bundles: &[Vec<Raw<'_>>],
) -> Result<(AccountId, Vec<BundleId>), Failure> {
    let it = read(bundles, Times::read(call)?)?;
    let account = it.account;
    let command = Command::Billing(BillingCommand::SubscribeAll(Box::new(it)));
    let reply = call.submit(command).await?;
    let Reply::Billing(BillingReply::SubscribedAll { bundles }) = reply else {
        return Err(Failure::illegal("subscribing was answered by something else"));
    };
    Ok((account, bundles))
}

/// The command of a request's entries, of which the first one names the account.
fn read(bundles: &[Vec<Raw<'_>>], times: Times) -> Result<SubscribeAll, Failure> {
    if bundles.is_empty() || bundles.iter().any(Vec::is_empty) {
        return Err(Failure::illegal("Subscription bulk list mustn't be null or empty."));
    }
    if bundles.iter().map(Vec::len).sum::<usize>() > SUBSCRIBED_MAX {
        let message = format!("a request should have at most {SUBSCRIBED_MAX} subscriptions");
        return Err(Failure::illegal(message));
    }
    let mut account = None;
    let mut all = Vec::with_capacity(bundles.len());
    for (bundle, entries) in bundles.iter().enumerate() {
        let entries = entries.iter().enumerate().map(|(entry, raw)| {
            let it = read_entry(*raw, account, times);
            let it = it.map_err(|why| why.of_entry(bundle + 1, entry + 1))?;
            account = Some(it.account);
            Ok(it)
        });
        all.push(entries.collect::<Result<_, Failure>>()?);
    }
    let account = account.ok_or_else(|| JSON.missing("accountId"))?;
    Ok(SubscribeAll { account, bundles: all })
}

fn read_entry(
    raw: Raw<'_>,
    account: Option<AccountId>,
    times: Times,
) -> Result<Subscribe, Failure> {
    let body = match raw {
        Some(raw) => parse::<SubscriptionBody<'_>>(JSON, raw.get().as_bytes())?,
        None => None,
    };
    let body = body.ok_or_else(|| JSON.missing_body())?;
    let named: Option<AccountId> = JSON.id("accountId", body.account_id)?;
    let of = account.or(named).ok_or_else(|| JSON.missing("accountId"))?;
    if named.is_some_and(|named| named != of) {
        return Err(Failure::parameter("accountId", "should be that of the first entry"));
    }
    body.subscribe(of, times)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const ACCOUNT: &str = r#""accountId":"00000000-0000-0000-0000-000000000003""#;

    fn check(entries: &[&[&str]], expected: Expect) {
        let texts = entries.iter().map(|it| format!("[{}]", it.join(",")));
        let texts: Vec<String> = texts.map(|it| it.replace("ACCOUNT", ACCOUNT)).collect();
        let bundles = texts.iter().map(|it| JSON.array(JSON.0, it.as_bytes(), 3));
        let bundles = bundles.collect::<Result<Vec<_>, _>>();
        let read = bundles.and_then(|it| read(&it, Times::default()));
        let text = match read {
            Ok(it) => format!("{:?}", it.bundles.iter().map(Vec::len).collect::<Vec<_>>()),
            Err(Failure::Problem(problem)) => problem.message,
            Err(other) => format!("{other:?}"),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn the_first_entry_names_the_account_and_a_wrong_one_is_named() {
        let (base, add_on) = (r#"{ACCOUNT,"planName":"pro"}"#, r#"{"planName":"extra"}"#);
        check(&[&[base, add_on], &[base]], expect!["[2, 1]"]);
        check(&[], expect!["Subscription bulk list mustn't be null or empty."]);
        check(&[&[base], &[]], expect!["Subscription bulk list mustn't be null or empty."]);
        check(
            &[&[add_on]],
            expect!["entry 1 of bundle 1: SubscriptionJson accountId needs to be set"],
        );
        check(
            &[&[base, "null"]],
            expect!["entry 2 of bundle 1: SubscriptionJson body should be specified"],
        );
        check(
            &[&[base], &[add_on, r#"{"planName":"extra","quantity":0}"#]],
            expect![[r#"
                entry 2 of bundle 2: Invalid parameter quantity: should be from 1 to 2147483647"#]],
        );
        let other = r#"{"accountId":"00000000-0000-0000-0000-000000000004","planName":"extra"}"#;
        check(
            &[&[base, other]],
            expect![
                "entry 2 of bundle 1: Invalid parameter accountId: should be that of the first entry"
            ],
        );
        check(
            &[&[base, add_on, add_on, add_on]],
            expect!["SubscriptionJson SubscriptionJson should have at most 3 elements"],
        );
    }
}
