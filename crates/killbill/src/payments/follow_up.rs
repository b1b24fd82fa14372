//! What may follow on a payment, by its id in the path or by id or key in the body: capture, refund,
//! void, chargeback, its reversal, and the completion of what is pending.

use domain::payment::{Complete, FollowUp};
use domain::{Command, PaymentId};

use super::answer;
use super::body::{JSON, TransactionBody};
use super::repair::{self, Subject};
use super::view::TransactionJson;
use crate::call::Call;
use crate::error::{ErrorJson, Failure, code, no_such_payment};
use crate::reply::Answered;
use crate::request::{plugin_properties, refuse_control_plugins};

/// What a route does with a payment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Capture,
    Refund,
    Void,
    Chargeback,
    ReverseChargeback,
    Complete,
}

/// Where a route finds the payment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    InPath,
    InBody,
}

/// Captures an authorization.
#[utoipa::path(post, path = "/1.0/kb/payments/{paymentId}", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 201, description = "Captured, or pending; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>), (status = "5XX", body = ErrorJson<'static>)))]
pub(crate) async fn capture(call: Call) -> Answered {
    perform(&call, Operation::Capture, Named::InPath).await
}

/// Captures an authorization, by the payment's key.
#[utoipa::path(post, path = "/1.0/kb/payments", tag = "Payment",
    params(("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 201, description = "Captured, or pending; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>), (status = "5XX", body = ErrorJson<'static>)))]
pub(crate) async fn capture_by_key(call: Call) -> Answered {
    perform(&call, Operation::Capture, Named::InBody).await
}

/// Refunds a payment.
#[utoipa::path(post, path = "/1.0/kb/payments/{paymentId}/refunds", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 201, description = "Refunded, or pending; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>), (status = "5XX", body = ErrorJson<'static>)))]
pub(crate) async fn refund(call: Call) -> Answered {
    perform(&call, Operation::Refund, Named::InPath).await
}

/// Refunds a payment, by its key.
#[utoipa::path(post, path = "/1.0/kb/payments/refunds", tag = "Payment",
    params(("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 201, description = "Refunded, or pending; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>), (status = "5XX", body = ErrorJson<'static>)))]
pub(crate) async fn refund_by_key(call: Call) -> Answered {
    perform(&call, Operation::Refund, Named::InBody).await
}

/// Voids an authorization.
#[utoipa::path(delete, path = "/1.0/kb/payments/{paymentId}", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 204, description = "Voided, or declined: read the payment"),
        (status = "4XX", body = ErrorJson<'static>), (status = "5XX", body = ErrorJson<'static>)))]
pub(crate) async fn void(call: Call) -> Answered {
    perform(&call, Operation::Void, Named::InPath).await
}

/// Voids an authorization, by the payment's key.
#[utoipa::path(delete, path = "/1.0/kb/payments", tag = "Payment",
    params(("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 204, description = "Voided, or declined: read the payment"),
        (status = "4XX", body = ErrorJson<'static>), (status = "5XX", body = ErrorJson<'static>)))]
pub(crate) async fn void_by_key(call: Call) -> Answered {
    perform(&call, Operation::Void, Named::InBody).await
}

/// Records a chargeback.
#[utoipa::path(post, path = "/1.0/kb/payments/{paymentId}/chargebacks", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn chargeback(call: Call) -> Answered {
    perform(&call, Operation::Chargeback, Named::InPath).await
}

/// Records a chargeback, by the payment's key.
#[utoipa::path(post, path = "/1.0/kb/payments/chargebacks", tag = "Payment",
    params(("pluginProperty" = Option<Vec<String>>, Query)), request_body = TransactionJson<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn chargeback_by_key(call: Call) -> Answered {
    perform(&call, Operation::Chargeback, Named::InBody).await
}

/// Records that a chargeback was reversed.
#[utoipa::path(post, path = "/1.0/kb/payments/{paymentId}/chargebackReversals", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn reverse_chargeback(call: Call) -> Answered {
    perform(&call, Operation::ReverseChargeback, Named::InPath).await
}

/// Records that a chargeback was reversed, by the payment's key.
#[utoipa::path(post, path = "/1.0/kb/payments/chargebackReversals", tag = "Payment",
    params(("pluginProperty" = Option<Vec<String>>, Query)), request_body = TransactionJson<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn reverse_chargeback_by_key(call: Call) -> Answered {
    perform(&call, Operation::ReverseChargeback, Named::InBody).await
}

/// Completes a pending transaction.
#[utoipa::path(put, path = "/1.0/kb/payments/{paymentId}", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 204, description = "Completed, or declined: read the payment"),
        (status = "4XX", body = ErrorJson<'static>), (status = "5XX", body = ErrorJson<'static>)))]
pub(crate) async fn complete(call: Call) -> Answered {
    perform(&call, Operation::Complete, Named::InPath).await
}

/// Completes a pending transaction, by the payment's key.
#[utoipa::path(put, path = "/1.0/kb/payments", tag = "Payment",
    params(("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 204, description = "Completed, or declined: read the payment"),
        (status = "4XX", body = ErrorJson<'static>), (status = "5XX", body = ErrorJson<'static>)))]
pub(crate) async fn complete_by_key(call: Call) -> Answered {
    perform(&call, Operation::Complete, Named::InBody).await
}

async fn perform(call: &Call, operation: Operation, named: Named) -> Answered {
    refuse_control_plugins(call.query())?;
    let body: Option<TransactionBody<'_>> = call.optional_body(JSON)?;
    let optional = matches!(operation, Operation::Void | Operation::Complete);
    if body.is_none() && !optional {
        return Err(JSON.missing_body());
    }
    let body = body.unwrap_or_default();
    if operation == Operation::ReverseChargeback && body.transaction_key()?.is_none() {
        return Err(JSON.missing("transactionExternalKey"));
    }
    let payment = match named {
        Named::InPath => call.param_id("paymentId")?,
        Named::InBody => payment_of(call, &body).await?,
    };
    let command = || command(call, operation, payment, &body);
    let reply = repair::submit(call, Subject::Payment(payment), command).await?;
    match operation {
        Operation::Void | Operation::Complete => answer::of_completion(call, reply),
        Operation::Capture
        | Operation::Refund
        | Operation::Chargeback
        | Operation::ReverseChargeback => answer::of(call, reply),
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

fn command(
    call: &Call,
    operation: Operation,
    payment: PaymentId,
    body: &TransactionBody<'_>,
) -> Result<Command, Failure> {
    body.check_ignored()?;
    let mut properties = body.properties()?;
    properties.extend(plugin_properties(call.query())?);
    let transaction_key = body.transaction_key()?;
    let (amount, currency) = (body.amount()?, body.currency()?);
    let make: fn(FollowUp) -> Command = match operation {
        Operation::Capture => Command::Capture,
        Operation::Refund => Command::Refund,
        Operation::Void => Command::Void,
        Operation::Chargeback => Command::Chargeback,
        Operation::ReverseChargeback => Command::ReverseChargeback,
        Operation::Complete => {
            return Ok(Command::Complete(Complete {
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
    Ok(make(FollowUp { payment, transaction_key, amount, currency, properties }))
}
