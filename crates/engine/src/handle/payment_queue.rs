//! Payment queues: an operation on a payment waits while a gateway call of the payment runs, instead of
//! being refused for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::payment::{PaymentFile, TransactionStatus};
use domain::{EffectId, PaymentId, PaymentRejection, Rejection, Request, TenantNo, TransactionId};
use tokio::time::{sleep, timeout_at};

use crate::partition::Answer;
use crate::{Engine, Reason, Unavailable, client};

/// How many operations of a payment may wait in its queue; more are refused.
pub const WAITING_MAX: usize = 64;

/// How often in a row an operation is refused for doubt where no call runs, before that is its answer: a
/// call may have begun and ended between.
const IN_VAIN_MAX: u32 = 3;

/// How long a call may take where this process has no gateway that it could ask: a front need not know those
/// of the processors.
const CALL_MAX: Duration = Duration::from_secs(30);

/// How often to look whether a call has ended that is not among this process's.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The queues of operations, by payment.
#[derive(Default)]
pub(crate) struct PaymentQueues(Mutex<HashMap<(TenantNo, PaymentId), PaymentQueue>>);

#[derive(Default)]
struct PaymentQueue {
    waiting: usize,
    /// Held by the operation whose turn is next until it has ended; the others get it in the order in
    /// which they came here.
    next: Arc<tokio::sync::Mutex<()>>,
}

/// A ticket of an operation that waits; given back when dropped.
struct Ticket<'t> {
    queues: &'t PaymentQueues,
    of: (TenantNo, PaymentId),
    next: Arc<tokio::sync::Mutex<()>>,
}

impl PaymentQueues {
    /// `None` where too many wait already.
    fn join(&self, of: (TenantNo, PaymentId)) -> Option<Ticket<'_>> {
        let mut queues = self.lock();
        let queue = queues.entry(of).or_default();
        if queue.waiting >= WAITING_MAX {
            return None;
        }
        queue.waiting += 1;
        Some(Ticket { queues: self, of, next: Arc::clone(&queue.next) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(TenantNo, PaymentId), PaymentQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&self.of) else { return };
        queue.waiting -= 1;
        if queue.waiting == 0 {
            queues.remove(&self.of);
        }
    }
}

/// The payment whose open outcome a command was refused for.
const fn in_doubt(answer: &Answer) -> Option<PaymentId> {
    match answer {
        Answer::Refused(Rejection::Payment(PaymentRejection::InDoubt { payment, .. })) => {
            Some(*payment)
        }
        Answer::Refused(_) | Answer::Replied(_) | Answer::StillRunning | Answer::AnotherRequest => {
            None
        }
    }
}

impl Engine {
    /// Whether operations on a payment wait: one that comes later waits behind them.
    pub(super) fn has_queue(&self, of: (TenantNo, PaymentId)) -> bool {
        self.shared().payment_queues.lock().contains_key(&of)
    }

    /// The answer to a request, where it was refused because an outcome of a payment is to come: the one
    /// that it gets in turn.
    ///
    /// # Errors
    /// See [`Engine::submit_through_queue`].
    pub(super) async fn through_queue(
        &self,
        answer: Answer,
        request: &Request,
    ) -> Result<Answer, Unavailable> {
        let Some(payment) = in_doubt(&answer) else { return Ok(answer) };
        Ok(self.submit_through_queue(request, payment).await?.unwrap_or(answer))
    }

    /// Executes a request once no call of the payment runs, in turn with others that wait. `None`, and
    /// nothing was executed, where an outcome is unknown, and not merely to come.
    ///
    /// # Errors
    /// [`Reason::QueueFull`] where [`WAITING_MAX`] operations wait, [`Reason::Expired`] after as long as a
    /// gateway may take to answer or where the client has gone, [`Reason::Stopping`]: nothing happened.
    pub(super) async fn submit_through_queue(
        &self,
        request: &Request,
        payment: PaymentId,
    ) -> Result<Option<Answer>, Unavailable> {
        let of = (request.tenant, payment);
        let file = self.payment(of).await?;
        if file.as_ref().is_some_and(|file| matches!(doubt_of(file), Doubt::Unknown)) {
            return Ok(None);
        }
        let until = Instant::now() + self.longest_call(file.as_ref());
        let ticket = self.shared().payment_queues.join(of).ok_or(Reason::QueueFull)?;
        let expired = |_| Unavailable::from(Reason::Expired);
        let _next = timeout_at(until.into(), ticket.next.lock()).await.map_err(expired)?;
        let mut in_vain = 0;
        loop {
            match timeout_at(until.into(), self.calls_end(of)).await.map_err(expired)?? {
                Waited::OutcomeUnknown => return Ok(None),
                Waited::ForCalls => in_vain = 0,
                Waited::ForNothing => in_vain += 1,
            }
            if self.is_draining() {
                return Err(Reason::Stopping.into());
            }
            // Nobody would see what comes of it, and its client may have sent it again.
            if client::is_gone() {
                return Err(Reason::Expired.into());
            }
            let again = Request { id: self.mint(), ..request.clone() };
            let answer = self.submit_once(again).await?;
            // A pending transaction refuses its key to others as well, and that does not pass.
            if in_doubt(&answer) != Some(payment) || in_vain >= IN_VAIN_MAX {
                return Ok(Some(answer));
            }
        }
    }

    /// Returns once no call of the payment runs.
    async fn calls_end(&self, of: (TenantNo, PaymentId)) -> Result<Waited, Unavailable> {
        let mut waited = Waited::ForNothing;
        loop {
            let running = match self.doubt(of).await? {
                Doubt::None => return Ok(waited),
                Doubt::Unknown => return Ok(Waited::OutcomeUnknown),
                Doubt::Running(transaction) => transaction,
            };
            waited = Waited::ForCalls;
            match self.shared().calls.ended(EffectId::Transaction(running)) {
                Some(ended) => ended.await,
                // It is another process's, or about to begin.
                None => sleep(LOOK_EVERY).await,
            }
        }
    }

    async fn doubt(&self, of: (TenantNo, PaymentId)) -> Result<Doubt, Unavailable> {
        Ok(self.payment(of).await?.as_ref().map_or(Doubt::None, doubt_of))
    }

    async fn payment(
        &self,
        (tenant, payment): (TenantNo, PaymentId),
    ) -> Result<Option<PaymentFile>, Unavailable> {
        self.read(move |queries| queries.payment(tenant, payment)).await
    }

    /// How long a gateway of the payment may take to answer, at most.
    fn longest_call(&self, file: Option<&PaymentFile>) -> Duration {
        let gateways = file.into_iter().flat_map(|file| &file.transactions).map(|it| &it.gateway);
        let known = gateways.filter_map(|name| self.settings().gateway(name));
        let timeouts = known.map(|gateway| gateway.timeout_us);
        let longest = timeouts.max().and_then(|us| u64::try_from(us).ok()).filter(|us| *us > 0);
        longest.map_or(CALL_MAX, Duration::from_micros)
    }
}

/// The reason why a wait ended.
enum Waited {
    /// No call ran.
    ForNothing,
    ForCalls,
    /// An outcome is unknown: there is nothing to wait for.
    OutcomeUnknown,
}

/// Why a payment is in doubt.
enum Doubt {
    /// It is not.
    None,
    /// Only because of calls that run, one of them this transaction's.
    Running(TransactionId),
    /// An outcome is unknown.
    Unknown,
}

fn doubt_of(file: &PaymentFile) -> Doubt {
    let with = |status| file.transactions.iter().find(move |it| it.status == status);
    match (with(TransactionStatus::Unknown), with(TransactionStatus::InFlight)) {
        (Some(_), _) => Doubt::Unknown,
        (None, Some(transaction)) => Doubt::Running(transaction.id),
        (None, None) => Doubt::None,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn so_many_wait_and_no_more_and_nothing_stays_behind() {
        let queues = PaymentQueues::default();
        let of = |number| (TenantNo(1), PaymentId::new(Uuid::from_u128(number)));
        let mut places: Vec<_> = (0..WAITING_MAX).filter_map(|_| queues.join(of(1))).collect();
        assert_eq!(places.len(), WAITING_MAX);
        assert!(queues.join(of(1)).is_none(), "one more");
        assert!(queues.join(of(2)).is_some(), "another payment's");
        places.pop();
        assert!(queues.join(of(1)).is_some(), "a ticket was given back");
        drop(places);
        assert!(queues.lock().is_empty(), "nothing is kept of payments that nobody waits for");
    }
}
