//! Cancels the retry of a transaction that failed.

use domain::Command;
use domain::TransactionId;
use domain::command::PaymentCommand;
use domain::payment::PaymentFile;
use domain::payment::attempt::CancelRetries;

use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, code, no_such_payment};
use crate::reply;

/// Cancels the retry of a transaction, named by its id.
#[utoipa::path(delete, path = "/1.0/kb/payments/{paymentTransactionId}/cancelScheduledPaymentTransaction",
    tag = "Payment", operation_id = "cancel_retry", params(("paymentTransactionId" = Uuid, Path)),
    responses((status = 204, description = "None is scheduled now"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn cancel(call: Call) -> HandlerResult {
    let id: TransactionId = call.param_id("paymentTransactionId")?;
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.payment_of_transaction(tenant, id)).await?;
    let file = found.ok_or_else(|| missing(&id.to_string()))?;
    cancel_in(&call, &file, |it| it == id).await
}

/// Cancels the retries of a transaction, named by its key.
#[utoipa::path(delete, path = "/1.0/kb/payments/cancelScheduledPaymentTransaction", tag = "Payment",
    operation_id = "cancel_retry_by_key", params(("transactionExternalKey" = String, Query)),
    responses((status = 204, description = "None is scheduled now"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn cancel_by_key(call: Call) -> HandlerResult {
    let name = "transactionExternalKey";
    let key = call.query().text(name)?.map(|text| text.into_owned());
    let key = key.filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| Failure::illegal(format!("{name} needs to be set")))?;
    let (tenant, wanted) = (call.tenant(), key.clone());
    let find = call.read(move |queries| queries.payment_of_transaction_key(tenant, &wanted));
    let file = find.await?.ok_or_else(|| missing(&key))?;
    let named: Vec<TransactionId> = file.named(&key).map(|it| it.id).collect();
    cancel_in(&call, &file, |it| named.contains(&it)).await
}

async fn cancel_in(
    call: &Call,
    file: &PaymentFile,
    is_meant: impl Fn(TransactionId) -> bool,
) -> HandlerResult {
    for transaction in file.transactions.iter().map(|it| it.id).filter(|id| is_meant(*id)) {
        let it = CancelRetries { payment: file.payment.id, transaction };
        call.submit_change(Command::Payment(PaymentCommand::CancelRetries(it))).await?;
    }
    Ok(reply::no_content())
}

fn missing(name: &str) -> Failure {
    Failure::coded(code::NO_SUCH_PAYMENT, no_such_payment(name))
}
