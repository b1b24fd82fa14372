//! Requests are submitted here. Before an unknown or pending outcome of a payment makes the domain refuse a
//! command, the payment's gateway is asked what became of it.

use std::pin::Pin;

use domain::command::{BillingCommand, PaymentCommand};
use domain::{Command, PaymentId, PaymentRejection, Rejection, Request};

use super::control::Controlled;
use crate::partition::{Answer, has_open_transaction};
use crate::{Engine, Unavailable};

impl Engine {
    /// Executes a request. Returns once its answer is durable; where a gateway is called, once
    /// the outcome is, or the deadline has passed.
    ///
    /// Control programs that a payment command names are asked first.
    ///
    /// Where a payment command is refused because a call of its payment runs, it waits for its turn and is
    /// executed once more under a new id. Where the reason may be an outcome that the gateway knows by
    /// now, the gateway is asked first; a front leaves that to the processors.
    ///
    /// # Errors
    /// [`Unavailable`]: nothing happened, or a retry reveals the outcome.
    #[must_use = "nothing is submitted before the future is awaited"]
    pub fn submit(
        &self,
        request: Request,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, Unavailable>> + Send + '_>> {
        // Boxed: an `async fn` would be compiled again into every crate that awaits it.
        if self.awaits_control(&request.command) {
            Box::pin(async move {
                match self.controlled(request).await? {
                    Controlled::GoesOn(request) => self.submit_or_repair(*request).await,
                    Controlled::Answered(answer) => Ok(answer),
                }
            })
        } else if continued(&request.command).is_some() || start(&request.command).is_some() {
            Box::pin(self.submit_or_repair(request))
        } else {
            Box::pin(self.submit_once(request))
        }
    }

    async fn submit_or_repair(&self, request: Request) -> Result<Answer, Unavailable> {
        let again = Request { id: self.mint(), ..request.clone() };
        // A refusal may be stored under the request's key, and is then the answer to every retry.
        if request.idempotency.is_some() && continued(&request.command).is_some() {
            self.repair(&again).await?;
        }
        let behind = continued(&request.command).filter(|it| self.has_queue((request.tenant, *it)));
        let answer = match behind {
            Some(payment) => self.submit_through_queue(&again, payment).await?,
            None => None,
        };
        let answer = match answer {
            Some(answer) => answer,
            None => self.through_queue(self.submit_once(request).await?, &again).await?,
        };
        match answer {
            Answer::Refused(rejection) if may_be_outdated(&rejection) => {
                if self.repair(&again).await? {
                    let answer = self.submit_once(again.clone()).await?;
                    self.through_queue(answer, &again).await
                } else {
                    Ok(Answer::Refused(rejection))
                }
            }
            answer @ (Answer::Replied(_)
            | Answer::Refused(_)
            | Answer::StillRunning
            | Answer::AnotherRequest) => Ok(answer),
        }
    }

    /// Asks the gateway about open transactions of the request's payment; false where there are
    /// none, and on a front.
    async fn repair(&self, request: &Request) -> Result<bool, Unavailable> {
        if self.is_front() {
            return Ok(false);
        }
        let tenant = request.tenant;
        let (id, payment_key, transaction_key) = match start(&request.command) {
            Some(Started { payment, payment_key, transaction_key }) => {
                (payment, payment_key.cloned(), transaction_key.cloned())
            }
            None => (continued(&request.command), None, None),
        };
        let find = self.read(move |queries| {
            let mut found = match (id, payment_key) {
                (Some(id), _) => queries.payment(tenant, id)?,
                (None, Some(key)) => queries.payment_by_key(tenant, &key)?,
                (None, None) => None,
            };
            if let (None, Some(key)) = (&found, transaction_key) {
                found = queries.payment_of_transaction_key(tenant, &key)?;
            }
            Ok(found)
        });
        let Some(file) = find.await?.filter(has_open_transaction) else { return Ok(false) };
        self.refresh(tenant, file.payment.id).await?;
        Ok(true)
    }
}

/// The names that the start of a payment has for it.
struct Started<'a> {
    payment: Option<PaymentId>,
    payment_key: Option<&'a String>,
    transaction_key: Option<&'a String>,
}

/// The start of a payment that a command is.
const fn start(command: &Command) -> Option<Started<'_>> {
    if let Command::Billing(BillingCommand::Pay(it)) = command {
        return Some(Started {
            payment: it.call.payment,
            payment_key: it.call.payment_key.as_ref(),
            transaction_key: it.call.transaction_key.as_ref(),
        });
    }
    let Command::Payment(command) = command else { return None };
    if let PaymentCommand::Authorize(it)
    | PaymentCommand::Purchase(it)
    | PaymentCommand::Credit(it) = command
    {
        return Some(Started {
            payment: it.payment,
            payment_key: it.payment_key.as_ref(),
            transaction_key: it.transaction_key.as_ref(),
        });
    }
    if let PaymentCommand::InitiateCombo(it) = command {
        return Some(Started {
            payment: it.payment,
            payment_key: it.payment_key.as_ref(),
            transaction_key: it.transaction_key.as_ref(),
        });
    }
    None
}

/// The payment that a command continues.
const fn continued(command: &Command) -> Option<PaymentId> {
    let Command::Payment(command) = command else { return None };
    if let PaymentCommand::Capture(it)
    | PaymentCommand::Refund(it)
    | PaymentCommand::Void(it)
    | PaymentCommand::Chargeback(it)
    | PaymentCommand::ReverseChargeback(it) = command
    {
        return Some(it.payment);
    }
    if let PaymentCommand::Complete(it) = command {
        return Some(it.payment);
    }
    None
}

/// Refusals that an outcome which is still open may have caused.
fn may_be_outdated(rejection: &Rejection) -> bool {
    match rejection {
        Rejection::Payment(it) => match it {
            PaymentRejection::InDoubt { .. } | PaymentRejection::InvalidTransition { .. } => true,
            PaymentRejection::GatewayNotRegistered { .. }
            | PaymentRejection::NotFound { .. }
            | PaymentRejection::TransactionNotFound { .. }
            | PaymentRejection::OfAnotherAccount { .. }
            | PaymentRejection::TransactionOfAnotherAccount { .. }
            | PaymentRejection::TransactionKeySucceeded { .. }
            | PaymentRejection::NoSuchSuccess { .. } => false,
        },
        Rejection::InvalidParameter { field, .. } => field == "amount",
        Rejection::Tenant(_)
        | Rejection::Access(_)
        | Rejection::Flag(_)
        | Rejection::Account(_)
        | Rejection::Entitlement(_)
        | Rejection::Billing(_)
        | Rejection::Customer(_) => false,
    }
}
