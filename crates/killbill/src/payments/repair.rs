//! Repair on the fly: before a payment's doubtful or pending transaction stands in the way of a
//! request, its gateway is asked what became of it.

use domain::payment::PaymentFile;
use domain::{Command, PaymentId, Rejection, Reply};

use super::body::TransactionBody;
use crate::call::Call;
use crate::error::Failure;

/// Which payment a request is about.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// This one.
    Payment(PaymentId),
    /// The one that the body of a start names, if it names one that there is.
    Start(&'a TransactionBody<'a>),
}

/// Submits a command about a payment. Where it is refused for what may no longer be so, the gateway
/// is asked, and the command submitted once more.
///
/// # Errors
/// See [`Call::submit`].
pub(crate) async fn submit<F>(
    call: &Call,
    subject: Subject<'_>,
    command: F,
) -> Result<Reply, Failure>
where
    F: Fn() -> Result<Command, Failure>,
{
    let first = command()?;
    // A refusal is kept under the request's key and would be given again: here it is too late to
    // ask afterwards.
    if call.may_come_again() && matches!(subject, Subject::Payment(_)) {
        repair(call, subject).await?;
    }
    match call.submit(first).await {
        Err(Failure::Refused(rejection)) if may_be_outdated(&rejection) => {
            if repair(call, subject).await? {
                call.submit_again(command()?).await
            } else {
                Err(Failure::Refused(rejection))
            }
        }
        other => other,
    }
}

/// Asks the gateway about a payment that has something open; whether there was something to ask.
///
/// # Errors
/// Where the core could not.
pub(crate) async fn repair(call: &Call, subject: Subject<'_>) -> Result<bool, Failure> {
    let tenant = call.tenant();
    let found = match subject {
        Subject::Payment(id) => call.read(move |queries| queries.payment(tenant, id)).await?,
        Subject::Start(body) => {
            let (id, key) = (body.payment_id()?, body.payment_key()?);
            let transaction_key = body.transaction_key()?;
            let find = call.read(move |queries| {
                let mut found = match (id, key) {
                    (Some(id), _) => queries.payment(tenant, id)?,
                    (None, Some(key)) => queries.payment_by_key(tenant, &key)?,
                    (None, None) => None,
                };
                if let (None, Some(key)) = (&found, transaction_key) {
                    found = queries.payment_of_transaction_key(tenant, &key)?;
                }
                Ok(found)
            });
            find.await?
        }
    };
    match found {
        Some(file) if has_open(&file) => {
            call.door.engine().refresh(tenant, file.payment.id).await?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    }
}

/// Whether a gateway may know more about a payment than we do.
pub(crate) fn has_open(file: &PaymentFile) -> bool {
    file.transactions.iter().any(|transaction| transaction.status.is_open())
}

/// Refusals that an outcome which is still open may have caused.
fn may_be_outdated(rejection: &Rejection) -> bool {
    match rejection {
        Rejection::PaymentInDoubt { .. } | Rejection::InvalidTransition { .. } => true,
        Rejection::InvalidParameter { field, .. } => field == "amount",
        Rejection::TenantAlreadyExists { .. }
        | Rejection::UserAlreadyExists { .. }
        | Rejection::UserNotFound { .. }
        | Rejection::RoleAlreadyExists { .. }
        | Rejection::RoleNotFound { .. }
        | Rejection::EnvironmentAlreadyExists { .. }
        | Rejection::EnvironmentNotFound { .. }
        | Rejection::SecretNotFound { .. }
        | Rejection::DefinitionChanged { .. }
        | Rejection::ApprovalNeeded { .. }
        | Rejection::Customer(_)
        | Rejection::ChangeNotFound { .. }
        | Rejection::ChangeNotWaiting { .. }
        | Rejection::ApprovalByAuthor { .. }
        | Rejection::WithdrawalByAnother { .. }
        | Rejection::PermissionInvalid { .. }
        | Rejection::AccountAlreadyExists { .. }
        | Rejection::AccountNotFound { .. }
        | Rejection::AccountKeyIsFixed { .. }
        | Rejection::AccountFieldIsFixed { .. }
        | Rejection::TagDefinitionNotFound { .. }
        | Rejection::TagNotFound { .. }
        | Rejection::TagNotApplicable { .. }
        | Rejection::PaymentMethodNotFound { .. }
        | Rejection::ExternalPaymentMethodExists { .. }
        | Rejection::DefaultPaymentMethodInUse { .. }
        | Rejection::GatewayNotRegistered { .. }
        | Rejection::PaymentNotFound { .. }
        | Rejection::TransactionNotFound { .. }
        | Rejection::PaymentOfAnotherAccount { .. }
        | Rejection::TransactionOfAnotherAccount { .. }
        | Rejection::TransactionKeySucceeded { .. }
        | Rejection::NoSuchSuccess { .. } => false,
    }
}
