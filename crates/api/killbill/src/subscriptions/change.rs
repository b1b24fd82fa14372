//! Changes of subscriptions: another plan, an end, another quantity or bill cycle day.

use domain::billing::subscription::{
    CancelSubscription, ChangePlan, OfAccount, SetBillCycleDay, SetQuantity,
};
use domain::catalog::rules::Policy;
use domain::command::BillingCommand;
use domain::{AccountId, Command, SubscriptionId};

use super::{JSON, SubscriptionBody, no_such_subscription, when};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::reply;
use crate::request::printable;

/// Changes the plan of a subscription: at the date that the policy gives, or at a requested one.
#[utoipa::path(put, path = "/1.0/kb/subscriptions/{subscriptionId}", tag = "Subscription",
    operation_id = "change_plan",
    params(("subscriptionId" = Uuid, Path, description = "The subscription"),
        ("requestedDate" = Option<String>, Query),
        ("billingPolicy" = Option<String>, Query, description = "`IMMEDIATE` or `END_OF_TERM`; by default as the catalog's rules say"),
        ("callCompletion" = Option<bool>, Query, description = "Taken for Kill Bill's clients: the invoice is always there"),
        ("callTimeoutSec" = Option<u64>, Query, description = "Taken for Kill Bill's clients, likewise")),
    request_body = SubscriptionBody<'static>,
    responses((status = 204, description = "Changed, or to be changed"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn plan(call: Call) -> HandlerResult {
    let OfAccount { account, subscription } = of_account(&call).await?;
    let body: SubscriptionBody<'_> = call.body(JSON)?;
    let it = ChangePlan {
        account,
        subscription,
        plan: body.plan()?,
        phase: body.phase()?,
        policy: policy(&call, "billingPolicy")?,
        requested: when(&call, "requestedDate")?,
        price_overrides: body.price_overrides()?,
    };
    submit(&call, BillingCommand::ChangePlan(Box::new(it))).await
}

/// Takes back a change of the plan that is to come.
#[utoipa::path(put, path = "/1.0/kb/subscriptions/{subscriptionId}/undoChangePlan", tag = "Subscription",
    operation_id = "undo_change",
    params(("subscriptionId" = Uuid, Path, description = "The subscription")),
    responses((status = 204, description = "It goes on with its plan"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn undo(call: Call) -> HandlerResult {
    let it = of_account(&call).await?;
    submit(&call, BillingCommand::UndoChange(it)).await
}

/// Cancels a subscription, and with a base product its add-ons.
#[utoipa::path(delete, path = "/1.0/kb/subscriptions/{subscriptionId}", tag = "Subscription",
    operation_id = "cancel",
    params(("subscriptionId" = Uuid, Path, description = "The subscription"),
        ("requestedDate" = Option<String>, Query),
        ("entitlementPolicy" = Option<String>, Query, description = "`IMMEDIATE` or `END_OF_TERM`: until when the product may be used"),
        ("billingPolicy" = Option<String>, Query, description = "`IMMEDIATE`, `END_OF_TERM` or `START_OF_TERM`; by default as the catalog's rules say"),
        ("useRequestedDateForBilling" = Option<bool>, Query, description = "Whether it is billed until the requested date"),
        ("callCompletion" = Option<bool>, Query, description = "Taken for Kill Bill's clients: the invoice is always there"),
        ("callTimeoutSec" = Option<u64>, Query, description = "Taken for Kill Bill's clients, likewise")),
    responses((status = 204, description = "Cancelled, or to be cancelled"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn cancel(call: Call) -> HandlerResult {
    let OfAccount { account, subscription } = of_account(&call).await?;
    let it = CancelSubscription {
        account,
        subscription,
        entitlement: policy(&call, "entitlementPolicy")?,
        billing: policy(&call, "billingPolicy")?,
        requested: when(&call, "requestedDate")?,
        bills_until_requested: call.query().flag("useRequestedDateForBilling"),
    };
    submit(&call, BillingCommand::Cancel(it)).await
}

/// Takes back a cancellation that is to come.
#[utoipa::path(put, path = "/1.0/kb/subscriptions/{subscriptionId}/uncancel", tag = "Subscription",
    operation_id = "uncancel",
    params(("subscriptionId" = Uuid, Path, description = "The subscription")),
    responses((status = 204, description = "It goes on"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn uncancel(call: Call) -> HandlerResult {
    let it = of_account(&call).await?;
    submit(&call, BillingCommand::Uncancel(it)).await
}

/// Gives a subscription a bill cycle day of its own, from the next such day on.
#[utoipa::path(put, path = "/1.0/kb/subscriptions/{subscriptionId}/bcd", tag = "Subscription",
    operation_id = "set_bill_cycle_day",
    params(("subscriptionId" = Uuid, Path, description = "The subscription"),
        ("effectiveFromDate" = Option<String>, Query, description = "From the next such day on or after this one; today by default"),
        ("forceNewBcdWithPastEffectiveDate" = Option<bool>, Query, description = "Whether a past day is taken")),
    request_body = SubscriptionBody<'static>,
    responses((status = 204, description = "Set"), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn bill_cycle_day(call: Call) -> HandlerResult {
    let OfAccount { account, subscription } = of_account(&call).await?;
    let body: SubscriptionBody<'_> = call.body(JSON)?;
    let it = SetBillCycleDay {
        account,
        subscription,
        day: body.bill_cycle_day()?.ok_or_else(|| JSON.missing("billCycleDayLocal"))?,
        from: when(&call, "effectiveFromDate")?,
        forces_past: call.query().flag("forceNewBcdWithPastEffectiveDate"),
    };
    submit(&call, BillingCommand::SetBillCycleDay(it)).await
}

/// Gives a subscription another quantity.
#[utoipa::path(put, path = "/1.0/kb/subscriptions/{subscriptionId}/quantity", tag = "Subscription",
    operation_id = "set_quantity",
    params(("subscriptionId" = Uuid, Path, description = "The subscription"),
        ("effectiveFromDate" = Option<String>, Query, description = "From when on; now by default"),
        ("forceNewQuantityWithPastEffectiveDate" = Option<bool>, Query, description = "Whether a past time is taken")),
    request_body = SubscriptionBody<'static>,
    responses((status = 204, description = "Set"), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn quantity(call: Call) -> HandlerResult {
    let OfAccount { account, subscription } = of_account(&call).await?;
    let body: SubscriptionBody<'_> = call.body(JSON)?;
    let it = SetQuantity {
        account,
        subscription,
        quantity: body.quantity()?.ok_or_else(|| JSON.missing("quantity"))?,
        from: when(&call, "effectiveFromDate")?,
        forces_past: call.query().flag("forceNewQuantityWithPastEffectiveDate"),
    };
    submit(&call, BillingCommand::SetQuantity(it)).await
}

async fn submit(call: &Call, command: BillingCommand) -> HandlerResult {
    call.submit_change(Command::Billing(command)).await?;
    Ok(reply::no_content())
}

/// The subscription of the path, with its account.
pub(crate) async fn of_account(call: &Call) -> Result<OfAccount, Failure> {
    let subscription: SubscriptionId = call.param_id("subscriptionId")?;
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.subscription(tenant, subscription)).await?;
    let found = found.ok_or_else(|| no_such_subscription(subscription))?;
    let account: AccountId = found.subscription.account_id;
    Ok(OfAccount { account, subscription })
}

/// A policy in a query parameter.
fn policy(call: &Call, name: &'static str) -> Result<Option<Policy>, Failure> {
    let Some(text) = call.query().text(name)? else { return Ok(None) };
    policy_named(name, &text).map(Some)
}

/// A policy by its name.
pub(super) fn policy_named(field: &'static str, text: &str) -> Result<Policy, Failure> {
    match text {
        "IMMEDIATE" => Ok(Policy::Immediate),
        "END_OF_TERM" => Ok(Policy::EndOfTerm),
        "START_OF_TERM" => Ok(Policy::StartOfTerm),
        "ILLEGAL" => Ok(Policy::Illegal),
        _ => {
            let reason = format!(
                "{} is not one of IMMEDIATE, END_OF_TERM, START_OF_TERM, ILLEGAL",
                printable(text)
            );
            Err(Failure::parameter(field, &reason))
        }
    }
}
