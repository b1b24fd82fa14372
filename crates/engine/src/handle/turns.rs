//! Turns: an operation on a payment waits while a gateway call of the payment runs, instead of being
//! refused for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::payment::{PaymentFile, TransactionStatus};
use domain::{PaymentId, PaymentRejection, Rejection, Request, TenantNo, TransactionId};
use tokio::time::{sleep, timeout_at};

use crate::partition::Answer;
use crate::{Engine, Reason, Unavailable};

/// How many operations of a payment may wait for their turn; more are refused.
pub const WAITING_MAX: usize = 64;

/// How often to look whether a call has ended that is not among this process's.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The operations that wait for their turn, by payment.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<(TenantNo, PaymentId), Turn>>);

#[derive(Default)]
struct Turn {
    waiting: usize,
    /// Held by the operation whose turn is next until it has ended; the others get it in the order in
    /// which they came.
    next: Arc<tokio::sync::Mutex<()>>,
}

/// A place among the operations that wait; given up when dropped.
struct Place<'t> {
    turns: &'t Turns,
    of: (TenantNo, PaymentId),
    next: Arc<tokio::sync::Mutex<()>>,
}

impl Turns {
    /// `None` where too many wait already.
    fn join(&self, of: (TenantNo, PaymentId)) -> Option<Place<'_>> {
        let mut turns = self.lock();
        let turn = turns.entry(of).or_default();
        if turn.waiting >= WAITING_MAX {
            return None;
        }
        turn.waiting += 1;
        Some(Place { turns: self, of, next: Arc::clone(&turn.next) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(TenantNo, PaymentId), Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut turns = self.turns.lock();
        let Some(turn) = turns.get_mut(&self.of) else { return };
        turn.waiting -= 1;
        if turn.waiting == 0 {
            turns.remove(&self.of);
        }
    }
}

/// The payment whose open outcome a command was refused for.
pub(super) const fn in_doubt(answer: &Answer) -> Option<PaymentId> {
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
    /// Executes a request that was refused because an outcome of this payment is not known: once no call
    /// of the payment runs, in turn with others that wait. `None`, and nothing was executed, where an
    /// outcome is unknown, and not merely to come.
    ///
    /// # Errors
    /// [`Reason::QueueFull`] where [`WAITING_MAX`] operations wait, [`Reason::Expired`] after as long as a
    /// gateway may take to answer: nothing happened.
    pub(super) async fn submit_in_turn(
        &self,
        request: &Request,
        payment: PaymentId,
    ) -> Result<Option<Answer>, Unavailable> {
        let of = (request.tenant, payment);
        if matches!(self.doubt(of).await?, Doubt::Unknown) {
            return Ok(None);
        }
        let until = Instant::now() + self.longest_call();
        let place = self.shared().turns.join(of).ok_or(Reason::QueueFull)?;
        let expired = |_| Unavailable::from(Reason::Expired);
        let _turn = timeout_at(until.into(), place.next.lock()).await.map_err(expired)?;
        loop {
            if timeout_at(until.into(), self.calls_end(of)).await.map_err(expired)?? {
                return Ok(None);
            }
            let again = Request { id: self.mint(), ..request.clone() };
            let answer = self.submit_once(again).await?;
            if in_doubt(&answer) != Some(payment) {
                return Ok(Some(answer));
            }
        }
    }

    /// Returns once no call of the payment runs; true where an outcome is unknown.
    async fn calls_end(&self, of: (TenantNo, PaymentId)) -> Result<bool, Unavailable> {
        loop {
            let running = match self.doubt(of).await? {
                Doubt::None => return Ok(false),
                Doubt::Unknown => return Ok(true),
                Doubt::Running(transaction) => transaction,
            };
            match self.shared().calls.ended(running) {
                Some(ended) => ended.await,
                // It is another process's, or about to begin.
                None => sleep(LOOK_EVERY).await,
            }
        }
    }

    async fn doubt(&self, (tenant, payment): (TenantNo, PaymentId)) -> Result<Doubt, Unavailable> {
        let file = self.read(move |queries| queries.payment(tenant, payment)).await?;
        Ok(file.as_ref().map_or(Doubt::None, doubt_of))
    }

    /// How long a gateway may take to answer, at most.
    fn longest_call(&self) -> Duration {
        let timeouts = self.settings().gateways.values().map(|gateway| gateway.timeout_us);
        Duration::from_micros(timeouts.max().and_then(|us| u64::try_from(us).ok()).unwrap_or(0))
    }
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
        let turns = Turns::default();
        let of = |number| (TenantNo(1), PaymentId::new(Uuid::from_u128(number)));
        let mut places: Vec<_> = (0..WAITING_MAX).filter_map(|_| turns.join(of(1))).collect();
        assert_eq!(places.len(), WAITING_MAX);
        assert!(turns.join(of(1)).is_none(), "one more");
        assert!(turns.join(of(2)).is_some(), "another payment's");
        places.pop();
        assert!(turns.join(of(1)).is_some(), "a place was given up");
        drop(places);
        assert!(turns.lock().is_empty(), "nothing is kept of payments that nobody waits for");
    }
}
