//! Subscriptions: how an account is subscribed, and what it has.

pub(crate) mod bulk;
pub(crate) mod change;
pub(crate) mod dry_run;
pub(crate) mod events;
mod overrides;
pub(crate) mod view;

use domain::billing::overrides::PriceOverride;
use domain::billing::subscription::{PlanChoice, Subscribe, When};
use domain::catalog::period::BillingPeriod;
use domain::catalog::{PhaseType, ProductCategory};
use domain::command::BillingCommand;
use domain::reply::BillingReply;
use domain::{AccountId, BillingRejection, Command, Rejection, Reply, SubscriptionId};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::call::Call;
use crate::date;
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::json::{Json, Raw};
use crate::reply;
use crate::request::printable;
use overrides::PhasePriceBody;
use view::{AsOf, Shown, SubscriptionJson};

const JSON: Json = Json("SubscriptionJson");

/// The longest name of a plan or a product, in characters.
const NAME_CHARS_MAX: usize = 255;

#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = SubscriptionRequest)]
pub(crate) struct SubscriptionBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Uuid)]
    account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    bundle_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    bundle_external_key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    external_key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    plan_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    product_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    product_category: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    billing_period: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    price_list: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    phase_type: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<i32>)]
    bill_cycle_day_local: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<i32>)]
    quantity: Raw<'a>,
    /// These and the ones below come back from a read, and have no effect.
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    subscription_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    start_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    state: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    source_type: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    cancelled_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    charged_through_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    billing_start_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    billing_end_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    events: Raw<'a>,
    /// Prices that replace those of the plan's phases, until the plan changes
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<PhasePriceBody<'static>>>)]
    price_overrides: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    prices: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

/// Subscribes an account to a plan. What is due at once is invoiced, and its payment is started, in the same commit.
#[utoipa::path(post, path = "/1.0/kb/subscriptions", tag = "Subscription", operation_id = "create_subscription",
    params(
        ("entitlementDate" = Option<String>, Query, description = "From when on the product may be used: a date or a time"),
        ("billingDate" = Option<String>, Query, description = "From when on it is billed: a date or a time"),
        ("callCompletion" = Option<bool>, Query, description = "Taken for Kill Bill's clients: the first invoice is always there"),
        ("callTimeoutSec" = Option<u64>, Query, description = "Taken for Kill Bill's clients, likewise")),
    request_body = SubscriptionBody<'static>,
    responses((status = 201, description = "Location names the subscription"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create(call: Call) -> HandlerResult {
    let body: SubscriptionBody<'_> = call.body(JSON)?;
    let account = JSON.id("accountId", body.account_id)?;
    let account = account.ok_or_else(|| JSON.missing("accountId"))?;
    let it = body.subscribe(account, Times::read(&call)?)?;
    let reply = call.submit(Command::Billing(BillingCommand::Subscribe(Box::new(it)))).await?;
    let Reply::Billing(BillingReply::Subscribed { subscription, .. }) = reply else {
        return Err(Failure::illegal("subscribing was answered by something else"));
    };
    Ok(reply::created(call.location(&["/1.0/kb/subscriptions/", &subscription.to_string()])))
}

/// From when on a subscription counts.
#[derive(Clone, Copy, Default)]
struct Times {
    entitled_from: Option<When>,
    billed_from: Option<When>,
}

impl Times {
    fn read(call: &Call) -> Result<Self, Failure> {
        let entitled_from = when(call, "entitlementDate")?;
        Ok(Self { entitled_from, billed_from: when(call, "billingDate")? })
    }
}

impl SubscriptionBody<'_> {
    fn subscribe(&self, account: AccountId, times: Times) -> Result<Subscribe, Failure> {
        // They come back from a read.
        let _read = [self.subscription_id, self.start_date, self.state, self.source_type];
        let _dates = [self.cancelled_date, self.charged_through_date];
        let _billing = [self.billing_start_date, self.billing_end_date];
        let _lists = [self.events, self.prices, self.audit_logs];
        let Times { entitled_from, billed_from } = times;
        Ok(Subscribe {
            account,
            bundle: JSON.id("bundleId", self.bundle_id)?,
            bundle_key: JSON.key(
                "bundleExternalKey",
                self.bundle_external_key,
                class::ENTITLEMENT,
            )?,
            external_key: JSON.key("externalKey", self.external_key, class::ENTITLEMENT)?,
            plan: self.plan()?,
            phase: self.phase()?,
            bill_cycle_day: self.bill_cycle_day()?,
            quantity: self.quantity()?,
            entitled_from,
            billed_from,
            price_overrides: self.price_overrides()?,
        })
    }

    fn phase(&self) -> Result<Option<PhaseType>, Failure> {
        word(JSON, "phaseType", self.phase_type, &PhaseType::ALL.map(|it| (it.name(), it)))
    }

    fn bill_cycle_day(&self) -> Result<Option<u8>, Failure> {
        self.number("billCycleDayLocal", self.bill_cycle_day_local, 31)
    }

    fn quantity(&self) -> Result<Option<u32>, Failure> {
        self.number("quantity", self.quantity, i32::MAX)
    }

    fn plan(&self) -> Result<PlanChoice, Failure> {
        if let Some(name) = self.name("planName", self.plan_name)? {
            return Ok(PlanChoice::Named(name));
        }
        let categories = ProductCategory::ALL.map(|it| (it.name(), it));
        word(JSON, "productCategory", self.product_category, &categories)?;
        let periods = BillingPeriod::ALL.map(|it| (it.name(), it));
        let product = self.name("productName", self.product_name)?;
        let period = word(JSON, "billingPeriod", self.billing_period, &periods)?;
        Ok(PlanChoice::Offered {
            product: product.ok_or_else(|| {
                Failure::illegal(
                    "SubscriptionJson needs planName, or productName and billingPeriod",
                )
            })?,
            period: period.ok_or_else(|| JSON.missing("billingPeriod"))?,
            price_list: self.name("priceList", self.price_list)?,
        })
    }

    fn price_overrides(&self) -> Result<Vec<PriceOverride>, Failure> {
        overrides::read(JSON, self.price_overrides)
    }

    fn name(&self, field: &'static str, raw: Raw<'_>) -> Result<Option<String>, Failure> {
        Ok(JSON.text(field, raw, NAME_CHARS_MAX)?.filter(|it| !it.is_empty()))
    }

    /// A number from 1 to a largest one.
    fn number<T: TryFrom<i32>>(
        &self,
        field: &'static str,
        raw: Raw<'_>,
        most: i32,
    ) -> Result<Option<T>, Failure> {
        let Some(number) = JSON.integer(field, raw)? else { return Ok(None) };
        let fits = (1..=most).contains(&number);
        match T::try_from(number).ok().filter(|_| fits) {
            Some(number) => Ok(Some(number)),
            None => Err(Failure::parameter(field, &format!("should be from 1 to {most}"))),
        }
    }
}

/// The one of several words that a field has.
pub(crate) fn word<T: Copy>(
    json: Json,
    field: &'static str,
    raw: Raw<'_>,
    words: &[(&str, T)],
) -> Result<Option<T>, Failure> {
    let Some(text) = json.text(field, raw, NAME_CHARS_MAX)? else { return Ok(None) };
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, it)| *it);
    match found {
        Some(it) => Ok(Some(it)),
        None => {
            let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let reason = format!("{} is not one of {}", printable(&text), all.join(", "));
            Err(Failure::parameter(field, &reason))
        }
    }
}

/// A day or a time in a query parameter.
pub(crate) fn when(call: &Call, name: &'static str) -> Result<Option<When>, Failure> {
    let Some(text) = call.query().text(name)? else { return Ok(None) };
    if let Some(day) = date::day(&text) {
        return Ok(Some(When::Day(day)));
    }
    Ok(call.query().date(name)?.map(When::At))
}

/// Reads a subscription.
#[utoipa::path(get, path = "/1.0/kb/subscriptions/{subscriptionId}", tag = "Subscription",
    operation_id = "subscription",
    params(("subscriptionId" = Uuid, Path, description = "The subscription"), ("audit" = Option<String>, Query)),
    responses((status = 200, body = SubscriptionJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: SubscriptionId = call.param_id("subscriptionId")?;
    let (tenant, as_of) = (call.tenant(), AsOf::of(&call)?);
    let found = call.read(move |queries| {
        let Some(file) = queries.subscription(tenant, id)? else { return Ok(None) };
        let of_bundle = queries.subscriptions_of_bundle(tenant, file.bundle.id)?;
        Shown::read(queries, (tenant, file.subscription.account_id), of_bundle, as_of)
    });
    let shown = found.await?.ok_or_else(|| no_such_subscription(id))?;
    let json = shown.json().find(|it| it.is_of(id)).ok_or_else(|| no_such_subscription(id))?;
    Ok(reply::ok(&json))
}

/// Reads the subscription that has a key; of several the newest.
#[utoipa::path(get, path = "/1.0/kb/subscriptions", tag = "Subscription",
    operation_id = "subscription_by_key",
    params(("externalKey" = String, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = SubscriptionJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_key(call: Call) -> HandlerResult {
    let key = call.query().text("externalKey")?.unwrap_or_default().into_owned();
    let (tenant, as_of, wanted) = (call.tenant(), AsOf::of(&call)?, key.clone());
    let found = call.read(move |queries| {
        let Some(file) = queries.subscription_by_key(tenant, &wanted)? else { return Ok(None) };
        let of_bundle = queries.subscriptions_of_bundle(tenant, file.bundle.id)?;
        let account = file.subscription.account_id;
        let shown = Shown::read(queries, (tenant, account), of_bundle, as_of)?;
        Ok(shown.map(|shown| (shown, file.subscription.id)))
    });
    let absent = || {
        let message = format!("there is no subscription with the key {}", printable(&key));
        Failure::coded(code::NO_SUCH_SUBSCRIPTION, message)
    };
    let (shown, id) = found.await?.ok_or_else(absent)?;
    let json = shown.json().find(|it| it.is_of(id)).ok_or_else(absent)?;
    Ok(reply::ok(&json))
}

pub(crate) fn no_such_subscription(id: SubscriptionId) -> Failure {
    let rejection = BillingRejection::NoSuchSubscription { subscription: id };
    Failure::Refused(Box::new(Rejection::Billing(rejection)))
}
