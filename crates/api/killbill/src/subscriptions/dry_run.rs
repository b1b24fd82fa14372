//! Dry runs: the invoice that an account would get, of which nothing is written.

use domain::billing::dry_run::{DryRun, DryRunAction, DryRunOf};
use domain::billing::subscription::{CancelSubscription, ChangePlan, When};
use domain::catalog::rules::Policy;
use domain::{AccountId, BundleId, SubscriptionId};
use engine::ports::InvoiceFile;
use jiff::civil::Date;
use serde::Deserialize;
use utoipa::ToSchema;

use super::change::policy_named;
use super::{SubscriptionBody, Times};
use crate::call::Call;
use crate::date;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::invoices::{InvoiceJson, target_date};
use crate::json::{Json, Raw};
use crate::reply;
use crate::request::printable;

const JSON: Json = Json("InvoiceDryRunJson");

/// The longest word of a field, in characters.
const WORD_CHARS_MAX: usize = 255;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = InvoiceDryRunRequest)]
pub(crate) struct DryRunBody<'a> {
    /// `TARGET_DATE`, `UPCOMING_INVOICE` or `SUBSCRIPTION_ACTION`
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    dry_run_type: Raw<'a>,
    /// `START_BILLING`, `CHANGE` or `STOP_BILLING`, with `SUBSCRIPTION_ACTION`
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    dry_run_action: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    phase_type: Raw<'a>,
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
    price_list_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    plan_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    subscription_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    bundle_id: Raw<'a>,
    /// The day of what would be done; today by default
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    effective_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    billing_policy: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    price_overrides: Raw<'a>,
}

/// Shows the invoice that an account would get: until a day, next, or after something is done with a subscription.
#[utoipa::path(post, path = "/1.0/kb/invoices/dryRun", tag = "Invoice", operation_id = "dry_run",
    params(("accountId" = Uuid, Query),
        ("targetDate" = Option<String>, Query, description = "A day, at most 36 months ahead; today by default, or the day of what would be done"),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body = DryRunBody<'static>,
    responses((status = 200, body = InvoiceJson<'static>),
        (status = 204, description = "There is nothing to invoice"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn dry_run(call: Call) -> HandlerResult {
    let account: Option<AccountId> = call.query_id("accountId")?;
    let account = account.ok_or_else(|| Failure::illegal("accountId needs to be set"))?;
    let target = target_date(&call)?;
    let body: DryRunBody<'_> = call.optional_body(JSON)?.unwrap_or(DryRunBody::NONE);
    let it = DryRun { account, of: body.asked(account, target)? };
    let engine = call.api.engine();
    let (tenant, now, id) = (call.tenant(), engine.clock().now(), engine.mint());
    let found = call.read(move |queries| {
        let state = queries.rows(&it.reads(tenant))?;
        Ok(it.run(&state, (tenant, now, id)))
    });
    let found = found.await?.map_err(|why| Failure::Refused(Box::new(why)))?;
    let Some(dry) = found else { return Ok(reply::no_content()) };
    let file = InvoiceFile { invoice: dry.invoice, items: dry.items };
    Ok(reply::ok(&InvoiceJson::of(&file, true).unwritten()))
}

impl<'a> DryRunBody<'a> {
    const NONE: Self = Self {
        dry_run_type: None,
        dry_run_action: None,
        phase_type: None,
        product_name: None,
        product_category: None,
        billing_period: None,
        price_list_name: None,
        plan_name: None,
        subscription_id: None,
        bundle_id: None,
        effective_date: None,
        billing_policy: None,
        price_overrides: None,
    };

    fn asked(&self, account: AccountId, target: Option<Date>) -> Result<DryRunOf, Failure> {
        let kind = JSON.text("dryRunType", self.dry_run_type, WORD_CHARS_MAX)?;
        match kind.as_deref() {
            None | Some("TARGET_DATE") => Ok(DryRunOf::Target(target)),
            Some("UPCOMING_INVOICE") => Ok(DryRunOf::Upcoming {
                bundle: self.bundle()?,
                subscription: JSON.id("subscriptionId", self.subscription_id)?,
            }),
            Some("SUBSCRIPTION_ACTION") => {
                Ok(DryRunOf::After(Box::new(self.action(account)?), target))
            }
            Some(other) => {
                let reason = format!(
                    "{} is not one of TARGET_DATE, UPCOMING_INVOICE, SUBSCRIPTION_ACTION",
                    printable(other)
                );
                Err(Failure::parameter("dryRunType", &reason))
            }
        }
    }

    fn action(&self, account: AccountId) -> Result<DryRunAction, Failure> {
        let requested = self.effective_date()?;
        let action = JSON.text("dryRunAction", self.dry_run_action, WORD_CHARS_MAX)?;
        match action.as_deref() {
            Some("START_BILLING") => {
                let times = Times { entitled_from: requested, billed_from: requested };
                self.subscription().subscribe(account, times).map(DryRunAction::Subscribe)
            }
            Some("CHANGE") => {
                let new = self.subscription();
                Ok(DryRunAction::Change(ChangePlan {
                    account,
                    subscription: self.of()?,
                    plan: new.plan()?,
                    phase: new.phase()?,
                    policy: self.policy()?,
                    requested,
                    price_overrides: new.price_overrides()?,
                }))
            }
            Some("STOP_BILLING") => Ok(DryRunAction::Cancel(CancelSubscription {
                account,
                subscription: self.of()?,
                entitlement: None,
                billing: self.policy()?,
                requested,
                bills_until_requested: requested.is_some(),
            })),
            Some(other) => {
                let reason = format!(
                    "{} is not one of START_BILLING, CHANGE, STOP_BILLING",
                    printable(other)
                );
                Err(Failure::parameter("dryRunAction", &reason))
            }
            None => Err(JSON.missing("dryRunAction")),
        }
    }

    /// What would be subscribed to.
    fn subscription(&self) -> SubscriptionBody<'a> {
        SubscriptionBody {
            bundle_id: self.bundle_id,
            plan_name: self.plan_name,
            product_name: self.product_name,
            product_category: self.product_category,
            billing_period: self.billing_period,
            price_list: self.price_list_name,
            phase_type: self.phase_type,
            price_overrides: self.price_overrides,
            ..SubscriptionBody::default()
        }
    }

    fn of(&self) -> Result<SubscriptionId, Failure> {
        let id = JSON.id("subscriptionId", self.subscription_id)?;
        id.ok_or_else(|| JSON.missing("subscriptionId"))
    }

    fn bundle(&self) -> Result<Option<BundleId>, Failure> {
        JSON.id("bundleId", self.bundle_id)
    }

    fn policy(&self) -> Result<Option<Policy>, Failure> {
        let Some(text) = JSON.text("billingPolicy", self.billing_policy, WORD_CHARS_MAX)? else {
            return Ok(None);
        };
        policy_named("billingPolicy", &text).map(Some)
    }

    fn effective_date(&self) -> Result<Option<When>, Failure> {
        let Some(text) = JSON.text("effectiveDate", self.effective_date, WORD_CHARS_MAX)? else {
            return Ok(None);
        };
        let when = date::day(&text).map(When::Day).or_else(|| date::parse(&text).map(When::At));
        let no_date =
            || Failure::parameter("effectiveDate", &format!("{} is no date", printable(&text)));
        when.map(Some).ok_or_else(no_date)
    }
}
