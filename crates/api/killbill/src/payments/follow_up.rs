//! Operations on a payment, named by its id in the path or by id or key in the body: capture, refund,
//! void, chargeback, its reversal, and the completion of a pending transaction.

use domain::PaymentId;
use domain::command::PaymentCommand;
use domain::payment::{Complete, FollowUp, TransactionType};

use super::body::{JSON, TransactionBody};
use super::response::{self, TransactionResponses, UnknownResponses};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, code, no_such_payment};
use crate::payment_rules::{control_plugins, own_control_plugins};
use crate::request::plugin_properties;

/// The permission to refund, and to complete a refund.
const REFUND: &str = "payment:refund";

/// The operation of a route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Capture,
    Refund,
    Void,
    Chargeback,
    ReverseChargeback,
    Complete,
}

/// The part of the request that names the payment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamedIn {
    Path,
    Body,
}

/// Captures an authorization.
#[utoipa::path(post, path = "/1.0/kb/payments/{paymentId}", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses(TransactionResponses, UnknownResponses))]
pub(crate) async fn capture(call: Call) -> HandlerResult {
    perform(&call, Operation::Capture, NamedIn::Path).await
}

/// Captures an authorization, by the payment's key.
#[utoipa::path(post, path = "/1.0/kb/payments", tag = "Payment",
    params(("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses(TransactionResponses, UnknownResponses))]
pub(crate) async fn capture_by_key(call: Call) -> HandlerResult {
    perform(&call, Operation::Capture, NamedIn::Body).await
}

/// Refunds a payment.
#[utoipa::path(post, path = "/1.0/kb/payments/{paymentId}/refunds", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses(TransactionResponses, UnknownResponses))]
pub(crate) async fn refund(call: Call) -> HandlerResult {
    perform(&call, Operation::Refund, NamedIn::Path).await
}

/// Refunds a payment, by its key.
#[utoipa::path(post, path = "/1.0/kb/payments/refunds", tag = "Payment",
    params(("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses(TransactionResponses, UnknownResponses))]
pub(crate) async fn refund_by_key(call: Call) -> HandlerResult {
    perform(&call, Operation::Refund, NamedIn::Body).await
}

/// Voids an authorization.
#[utoipa::path(delete, path = "/1.0/kb/payments/{paymentId}", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = Option<TransactionBody<'static>>,
    responses((status = 204, description = "Done, or declined: read the payment"), UnknownResponses))]
pub(crate) async fn void(call: Call) -> HandlerResult {
    perform(&call, Operation::Void, NamedIn::Path).await
}

/// Voids an authorization, by the payment's key.
#[utoipa::path(delete, path = "/1.0/kb/payments", tag = "Payment",
    params(("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = Option<TransactionBody<'static>>,
    responses((status = 204, description = "Done, or declined: read the payment"), UnknownResponses))]
pub(crate) async fn void_by_key(call: Call) -> HandlerResult {
    perform(&call, Operation::Void, NamedIn::Body).await
}

/// Records a chargeback.
#[utoipa::path(post, path = "/1.0/kb/payments/{paymentId}/chargebacks", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn chargeback(call: Call) -> HandlerResult {
    perform(&call, Operation::Chargeback, NamedIn::Path).await
}

/// Records a chargeback, by the payment's key.
#[utoipa::path(post, path = "/1.0/kb/payments/chargebacks", tag = "Payment",
    params(("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)), request_body = TransactionBody<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn chargeback_by_key(call: Call) -> HandlerResult {
    perform(&call, Operation::Chargeback, NamedIn::Body).await
}

/// Records that a chargeback was reversed.
#[utoipa::path(post, path = "/1.0/kb/payments/{paymentId}/chargebackReversals", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn reverse_chargeback(call: Call) -> HandlerResult {
    perform(&call, Operation::ReverseChargeback, NamedIn::Path).await
}

/// Records that a chargeback was reversed, by the payment's key.
#[utoipa::path(post, path = "/1.0/kb/payments/chargebackReversals", tag = "Payment",
    params(("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)), request_body = TransactionBody<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn reverse_chargeback_by_key(call: Call) -> HandlerResult {
    perform(&call, Operation::ReverseChargeback, NamedIn::Body).await
}

/// Completes a pending transaction.
///
/// A refund needs `payment:refund` too.
#[utoipa::path(put, path = "/1.0/kb/payments/{paymentId}", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = Option<TransactionBody<'static>>,
    responses((status = 204, description = "Done, or declined: read the payment"), UnknownResponses))]
pub(crate) async fn complete(call: Call) -> HandlerResult {
    perform(&call, Operation::Complete, NamedIn::Path).await
}

/// Completes a pending transaction, by the payment's key.
///
/// A refund needs `payment:refund` too.
#[utoipa::path(put, path = "/1.0/kb/payments", tag = "Payment",
    params(("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = Option<TransactionBody<'static>>,
    responses((status = 204, description = "Done, or declined: read the payment"), UnknownResponses))]
pub(crate) async fn complete_by_key(call: Call) -> HandlerResult {
    perform(&call, Operation::Complete, NamedIn::Body).await
}

async fn perform(call: &Call, operation: Operation, named_in: NamedIn) -> HandlerResult {
    let control = match operation {
        // What completes was begun before, and its gateway has decided about it.
        Operation::Complete => own_control_plugins(call.query())?,
        Operation::Capture
        | Operation::Refund
        | Operation::Void
        | Operation::Chargeback
        | Operation::ReverseChargeback => control_plugins(call)?,
    };
    let body: Option<TransactionBody<'_>> = call.optional_body(JSON)?;
    let optional = matches!(operation, Operation::Void | Operation::Complete);
    if body.is_none() && !optional {
        return Err(JSON.missing_body());
    }
    let body = body.unwrap_or_default();
    if operation == Operation::ReverseChargeback && body.transaction_key()?.is_none() {
        return Err(JSON.missing("transactionExternalKey"));
    }
    let payment = match named_in {
        NamedIn::Path => call.param_id("paymentId")?,
        NamedIn::Body => payment_of(call, &body).await?,
    };
    let mut command = command(call, operation, (payment, control), &body)?;
    if let PaymentCommand::Complete(it) = &mut command {
        bind_permission(call, it).await?;
    }
    let reply = call.submit(command.into()).await?;
    match operation {
        Operation::Void | Operation::Complete => response::of_completion(call, reply),
        Operation::Capture
        | Operation::Refund
        | Operation::Chargeback
        | Operation::ReverseChargeback => response::of(call, reply),
    }
}

async fn payment_of(call: &Call, body: &TransactionBody<'_>) -> Result<PaymentId, Failure> {
    if let Some(id) = body.payment_id()? {
        return Ok(id);
    }
    let Some(key) = body.payment_key()? else {
        return Err(Failure::illegal("Need to set either paymentId or payment externalKey"));
    };
    let (tenant, wanted) = (call.tenant(), key.clone());
    match call.read(move |queries| queries.payment_by_key(tenant, &wanted)).await? {
        Some(file) => Ok(file.payment.id),
        None => Err(Failure::coded(code::NO_SUCH_PAYMENT, no_such_payment(&key))),
    }
}

/// Completing a refund needs the permission to refund. A caller without it completes a transaction of
/// the type that was checked here, or none.
async fn bind_permission(call: &Call, it: &mut Complete) -> Result<(), Failure> {
    if call.caller.may(REFUND) {
        return Ok(());
    }
    let (tenant, payment) = (call.tenant(), it.payment);
    let Some(file) = call.read(move |queries| queries.payment(tenant, payment)).await? else {
        return Ok(());
    };
    // One that cannot be completed is refused by the rules.
    let Ok(kind) = it.chosen(&file).map(|chosen| chosen.kind) else { return Ok(()) };
    if kind == TransactionType::Refund {
        return Err(Failure::forbidden(REFUND));
    }
    it.kind = Some(kind);
    Ok(())
}

fn command(
    call: &Call,
    operation: Operation,
    (payment, control): (PaymentId, Vec<String>),
    body: &TransactionBody<'_>,
) -> Result<PaymentCommand, Failure> {
    body.check_ignored()?;
    let mut properties = body.properties()?;
    properties.extend(plugin_properties(call.query())?);
    let transaction_key = body.transaction_key()?;
    let (amount, currency) = (body.amount()?, body.currency()?);
    let make: fn(FollowUp) -> PaymentCommand = match operation {
        Operation::Capture => PaymentCommand::Capture,
        Operation::Refund => PaymentCommand::Refund,
        Operation::Void => PaymentCommand::Void,
        Operation::Chargeback => PaymentCommand::Chargeback,
        Operation::ReverseChargeback => PaymentCommand::ReverseChargeback,
        Operation::Complete => {
            return Ok(PaymentCommand::Complete(Complete {
                payment,
                transaction: body.transaction_id()?,
                transaction_key,
                kind: body.transaction_type()?,
                amount,
                currency,
                properties,
            }));
        }
    };
    let approved = vec![];
    Ok(make(FollowUp { payment, transaction_key, amount, currency, properties, control, approved }))
}
