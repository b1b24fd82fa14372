//! Transactions: read the payment of one, and report the outcome of a pending one.

use domain::command::PaymentCommand;
use domain::payment::{ResolvePending, TransactionStatus};
use domain::{Command, PaymentId, PaymentRejection, Rejection, TransactionId};

use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, code};
use crate::payment_rules::own_control_plugins;
use crate::payment_states as state;
use crate::payments::body::{JSON, TransactionBody};
use crate::payments::read;
use crate::payments::view::PaymentJson;
use crate::reply;
use crate::request::printable;

/// Reads the payment of a transaction.
#[utoipa::path(get, path = "/1.0/kb/paymentTransactions/{transactionId}",
    tag = "PaymentTransaction",
    params(("transactionId" = Uuid, Path), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: TransactionId = call.param_id("transactionId")?;
    let name = id.to_string();
    read::one(&call, &name, move |queries, tenant| queries.payment_of_transaction(tenant, id)).await
}

/// Reads the payment of a transaction, by the transaction's key.
#[utoipa::path(get, path = "/1.0/kb/paymentTransactions", tag = "PaymentTransaction",
    params(("transactionExternalKey" = String, Query), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_key(call: Call) -> HandlerResult {
    let key = call.query().text("transactionExternalKey")?.map(|key| key.into_owned());
    let Some(key) = key else {
        return Err(Failure::illegal("Payment transactionExternalKey needs to be specified"));
    };
    let wanted = key.clone();
    let find = move |queries: &dyn engine::ports::Queries, tenant| {
        queries.payment_of_transaction_key(tenant, &wanted)
    };
    read::one(&call, &key, find).await
}

/// Reports the outcome of a pending transaction: `SUCCESS` or `PAYMENT_FAILURE`.
#[utoipa::path(post, path = "/1.0/kb/paymentTransactions/{transactionId}",
    tag = "PaymentTransaction", params(("transactionId" = Uuid, Path),
        ("controlPluginName" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses((status = 201, description = "Recorded; Location names the payment"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn notify(call: Call) -> HandlerResult {
    own_control_plugins(call.query())?;
    let transaction: TransactionId = call.param_id("transactionId")?;
    let body: TransactionBody<'_> = call.body(JSON)?;
    body.check_ignored()?;
    let payment = body.payment_id()?.ok_or_else(|| JSON.missing("paymentId"))?;
    let status = body.status()?.ok_or_else(|| JSON.missing("status"))?;
    let success = success(&status, payment)?;
    let command = Command::Payment(PaymentCommand::ResolvePending(ResolvePending {
        payment,
        transaction,
        success,
    }));
    match call.submit(command).await {
        Ok(_) => {
            let payment = payment.to_string();
            Ok(reply::created(call.location(&["/1.0/kb/payments/", &payment, "/"])))
        }
        // Kill Bill refuses an unknown transaction as an illegal argument.
        Err(Failure::Refused(refused))
            if matches!(
                *refused,
                Rejection::Payment(PaymentRejection::TransactionNotFound { .. })
            ) =>
        {
            let message = format!("Payment transaction {transaction} does not exist");
            Err(Failure::illegal(message))
        }
        Err(failure) => Err(failure),
    }
}

/// Whether a status means success of a pending transaction; `None` leaves it pending.
fn success(status: &str, payment: PaymentId) -> Result<Option<bool>, Failure> {
    match state::status(status) {
        Some(TransactionStatus::Success) => Ok(Some(true)),
        Some(TransactionStatus::PaymentFailure) => Ok(Some(false)),
        Some(TransactionStatus::Unknown | TransactionStatus::Pending) => Ok(None),
        Some(TransactionStatus::PluginFailure | TransactionStatus::InFlight) | None => {
            let message = format!(
                "Payment {payment} did not succeed (status should be SUCCESS or PAYMENT_FAILURE, \
                 not {})",
                printable(status)
            );
            Err(Failure::coded(code::NO_SUCH_SUCCESS, message))
        }
    }
}
