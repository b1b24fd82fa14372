//! Operators' requests: set the status of a transaction whose outcome the gateway does not report, and take this
//! process out of rotation, and bill accounts that wait for somebody.

use std::collections::BTreeMap;

use domain::command::{BillingCommand, PaymentCommand};
use domain::payment::FixTransaction;
use domain::reply::BillingReply;
use domain::{AccountId, Command, Reply};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::json::{Json, Raw};
use crate::page;
use crate::payment_states as state;
use crate::reply;
use crate::request::printable;

const JSON: Json = Json("AdminPaymentJson");

/// The longest name of a state or status, in characters.
const NAME_CHARS_MAX: usize = 64;

/// Kill Bill's `AdminPaymentJson`. The payment's states follow from its transactions, so only the
/// transaction's status is used.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AdminPaymentRequest)]
struct AdminPaymentBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    last_success_payment_state: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    current_payment_state_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = String)]
    transaction_status: Raw<'a>,
}

/// Gives a transaction a status.
///
/// The way out of an unknown outcome. A transaction that has an outcome needs `X-Killbill-Reason`.
#[utoipa::path(put, tag = "Admin",
    path = "/1.0/kb/admin/payments/{paymentId}/transactions/{paymentTransactionId}",
    params(("paymentId" = Uuid, Path), ("paymentTransactionId" = Uuid, Path)),
    request_body = AdminPaymentBody<'static>,
    responses((status = 204, description = "The transaction has the status"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn fix_transaction(call: Call) -> HandlerResult {
    let body: AdminPaymentBody<'_> = call.body(JSON)?;
    JSON.text("lastSuccessPaymentState", body.last_success_payment_state, NAME_CHARS_MAX)?;
    JSON.text("currentPaymentStateName", body.current_payment_state_name, NAME_CHARS_MAX)?;
    let status = JSON.text("transactionStatus", body.transaction_status, NAME_CHARS_MAX)?;
    let status = status.ok_or_else(|| JSON.missing("transactionStatus"))?;
    let status = state::status(&status).ok_or_else(|| {
        let status = printable(&status);
        Failure::illegal(format!("AdminPaymentJson transactionStatus cannot be {status}"))
    })?;
    let it = FixTransaction {
        payment: call.param_id("paymentId")?,
        transaction: call.param_id("paymentTransactionId")?,
        status,
    };
    call.submit_change(Command::Payment(PaymentCommand::FixTransaction(it))).await?;
    Ok(reply::no_content())
}

/// Takes this process out of rotation: `/health/ready` is 503 and `/1.0/healthcheck` 500 until it is put back
/// or started again. It serves on.
#[utoipa::path(delete, path = "/1.0/kb/admin/healthcheck", tag = "Admin", operation_id = "leave_rotation",
    responses((status = 204, description = "It is out of rotation"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn leave_rotation(call: Call) -> HandlerResult {
    rotate(&call, true)
}

/// Puts this process back into rotation.
#[utoipa::path(put, path = "/1.0/kb/admin/healthcheck", tag = "Admin", operation_id = "join_rotation",
    responses((status = 204, description = "It is in rotation"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn join_rotation(call: Call) -> HandlerResult {
    rotate(&call, false)
}

fn rotate(call: &Call, is_out: bool) -> HandlerResult {
    let user = call.caller.username.as_str();
    match is_out {
        true => tracing::warn!(user, "this process is taken out of rotation, until it is put back"),
        false => tracing::warn!(user, "this process is put back into rotation"),
    }
    call.api.settings().rotation.set_out(is_out);
    Ok(reply::no_content())
}

/// Bills the tenant's accounts again that cannot be billed until somebody acts, a page of them.
#[utoipa::path(post, path = "/1.0/kb/admin/invoices", tag = "Admin", operation_id = "bill_parked_accounts",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query)),
    responses((status = 200, body = Object, description = "Each account with `OK`, or with `PARKED` where it still cannot be billed"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn bill_parked(call: Call) -> HandlerResult {
    let (tenant, page) = (call.tenant(), page::parse(call.query())?);
    let parked = call.read(move |queries| queries.parked_accounts(tenant, page)).await?;
    let mut states: BTreeMap<AccountId, &str> = BTreeMap::new();
    for account in parked {
        let command = Command::Billing(BillingCommand::Unpark(account));
        let reply = call.submit_part(call.api.engine().mint(), command).await?;
        let is_parked = matches!(reply, Reply::Billing(BillingReply::Billed { is_parked: true }));
        states.insert(account, if is_parked { "PARKED" } else { "OK" });
    }
    Ok(reply::ok(&states))
}
