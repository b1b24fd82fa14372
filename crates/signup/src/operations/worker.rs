//! Makes the registrations that wait, and tells those who asked to be told.
//!
//! Which ones wait is in the store: nothing is lost with a process. Whoever owns a partition makes
//! those of its accounts, and the owner of the first one tells. A registration is made by a request of the operation's own id, and by a commit that
//! ends the operation, so that it is made once, however often it is tried.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::customer::{CustomerCommand, CustomerRefusal};
use domain::operation::{FailOperation, Operation};
use domain::{AccountId, OperationId, RequestId, TenantNo, Timestamp};
use engine::access::ClientAddress;
use engine::ports::Bookkeeping;
use engine::{Engine, Unavailable};
use futures_util::stream::{self, StreamExt as _};

use super::callback::Callback;
use super::{Kept, NOTIFY_DELAYS, Post, explanation};
use crate::SignUp;
use crate::native::problem::Problem;
use crate::seal::Purpose;
use crate::service::{Asked, Error, How, registration};

/// How often it looks for registrations that wait.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long it waits where one could not be made.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// How many operations it asks for at a time.
const OPERATIONS_MAX: usize = 32;

/// How many registrations are made at the same time: so few that those whose clients wait for the
/// answer find the password threads free.
const REGISTRATIONS_MAX: usize = 2;

/// How many calls are made at the same time.
const CALLS_MAX: usize = 8;

/// What the worker works with.
#[derive(Clone)]
pub struct Worker {
    /// Sign-up, on the engine of the partition.
    pub signup: SignUp,
    /// The same engine, which remembers who was told.
    pub keeper: Engine,
    /// Whether the account that a registration will make is one of the partition's.
    pub is_mine: IsMine,
    /// Calls those who want to be told, whichever partition they are of: the first one's owner does,
    /// and nobody where there is none.
    pub post: Option<Post>,
}

/// Whether an account is one of a partition.
pub type IsMine = Arc<dyn Fn(TenantNo, AccountId) -> bool + Send + Sync>;

/// Makes registrations and calls until `stop` is ready.
pub async fn run(worker: Worker, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let working = async {
        let making = repeat(|| make_all(&worker), "registrations wait to be made");
        let telling = repeat(|| tell_all(&worker), "ends of operations wait to be told");
        tokio::join!(making, telling)
    };
    // A command that was begun is carried out or not, whether somebody waits for it or not.
    tokio::select! {
        _ = working => {}
        () = &mut stop => {}
    }
}

/// Passes, one after another; each says how long to wait before the next.
async fn repeat<F: Future<Output = Result<Duration, Unavailable>>>(
    pass: impl Fn() -> F,
    what: &'static str,
) {
    loop {
        let pause = pass().await.unwrap_or_else(|error| {
            tracing::warn!(error = %error, "{what}");
            AFTER_FAILURE
        });
        tokio::time::sleep(pause).await;
    }
}

/// Makes all that wait.
async fn make_all(worker: &Worker) -> Result<Duration, Unavailable> {
    let (mut after, mut pause) = (None, LOOK_EVERY);
    loop {
        let read =
            worker.signup.read(move |queries| queries.operations_waiting(after, OPERATIONS_MAX));
        let waiting = read.await?;
        let is_last = waiting.len() < OPERATIONS_MAX;
        after = waiting.last().map(|it| it.id);
        let mine = waiting.into_iter().filter(|it| (worker.is_mine)(it.tenant, account(it)));
        let mut made = stream::iter(mine)
            .map(|operation| async {
                let id = operation.id;
                (id, make(&worker.signup, operation).await)
            })
            .buffer_unordered(REGISTRATIONS_MAX);
        while let Some((id, made)) = made.next().await {
            match made {
                Ok(()) => {}
                // There is no room for more: those who wait for an answer go first. It asks for the
                // next place that is free, and not when a client is told to come back, by which time
                // others have taken it again and again.
                Err(Error::Busy { .. } | Error::TooMany { .. }) => return Ok(LOOK_EVERY),
                Err(error) => {
                    tracing::warn!(operation.id = %id, error = %error, "a registration waits");
                    pause = AFTER_FAILURE;
                }
            }
        }
        if is_last {
            return Ok(pause);
        }
    }
}

/// The account that a registration will make: it is made by a request of the operation's id.
fn account(operation: &Operation) -> AccountId {
    RequestId(operation.id.uuid()).entity(0)
}

/// Makes a registration, or ends its operation where it cannot be made.
async fn make(signup: &SignUp, operation: Operation) -> Result<(), Error> {
    let id = operation.id;
    // Whoever asked was counted when it was kept.
    let asked = Asked {
        tenant: operation.tenant,
        id: RequestId(id.uuid()),
        idempotency_key: None,
        from: ClientAddress::UNKNOWN,
        is_exempt: true,
    };
    let sealed = operation.sealed.as_deref().unwrap_or_default();
    let opened = signup.sealer().open(Purpose::Request, id.uuid(), sealed);
    let kept: Option<Kept> = opened.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(kept) = kept else {
        tracing::error!(operation.id = %id, "a registration was stored with another key");
        let lost = Unavailable::from(engine::Reason::Bug);
        return fail(signup, &asked, id, lost.into()).await;
    };
    let how = How { taken: kept.taken(), operation: Some(id), ..How::DISCREETLY };
    let made = match registration(&kept.entered()) {
        Ok(new) => signup.register(&asked, new, how).await.map(drop),
        Err(invalid) => Err(Error::Fields(invalid)),
    };
    match made {
        // Somebody was quicker: a pass before, whose answer did not come.
        Ok(())
        | Err(Error::Refused(
            CustomerRefusal::OperationSettled | CustomerRefusal::OperationNotFound,
        )) => Ok(()),
        Err(refused @ (Error::Refused(_) | Error::Fields(_))) => {
            fail(signup, &asked, id, refused.into()).await
        }
        Err(error) => Err(error),
    }
}

async fn fail(
    signup: &SignUp,
    asked: &Asked,
    operation: OperationId,
    problem: Problem,
) -> Result<(), Error> {
    let explanation = explanation(problem);
    // Not the operation's id: nothing was made by a request of that one.
    let asked = Asked { id: signup.engine().mint(), ..asked.clone() };
    let command = CustomerCommand::FailOperation(FailOperation { operation, explanation });
    match signup.submit(&asked, command).await {
        Ok(_) | Err(Error::Refused(CustomerRefusal::OperationSettled)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Tells all ends that are to be told.
async fn tell_all(worker: &Worker) -> Result<Duration, Unavailable> {
    let Some(post) = &worker.post else { return Ok(AFTER_FAILURE) };
    let now = worker.signup.engine().clock().now();
    let read = worker.signup.read(move |queries| queries.operations_to_notify(now, OPERATIONS_MAX));
    let ended = read.await?;
    let is_all = ended.len() < OPERATIONS_MAX;
    let told = stream::iter(ended)
        .map(|operation| tell(&worker.signup, post, operation))
        .buffer_unordered(CALLS_MAX);
    let told: Vec<Bookkeeping> = told.collect().await;
    if !told.is_empty() {
        worker.keeper.record(told).await?;
    }
    Ok(if is_all { LOOK_EVERY } else { Duration::ZERO })
}

/// Tells one, and says what is to be remembered of it.
async fn tell(signup: &SignUp, post: &Post, operation: Operation) -> Bookkeeping {
    let (tenant, id) = (operation.tenant, operation.id);
    let notified =
        |again_at, attempts| Bookkeeping::OperationNotified { tenant, id, again_at, attempts };
    let Some((callback, manner)) = Callback::open(signup.sealer(), &operation) else {
        tracing::error!(operation.id = %id, "a callback was stored with another key");
        return notified(None, operation.notify_attempts);
    };
    let clock = signup.engine().clock();
    let delivery = callback.delivery(&operation, manner, clock.real_now());
    let Err(error) = post(delivery).await else {
        return notified(None, operation.notify_attempts);
    };
    let again_at = again_at(clock.now(), operation.notify_attempts);
    // Where it was to go is the client's own, and may have a key in it.
    tracing::warn!(operation.id = %id, error, again = again_at.is_some(), "nobody was told");
    notified(again_at, operation.notify_attempts.saturating_add(1))
}

/// When a call that failed this often before is tried again, if it is.
fn again_at(now: Timestamp, failed_before: u32) -> Option<Timestamp> {
    let delay = NOTIFY_DELAYS.get(usize::try_from(failed_before).ok()?)?;
    Some(now.plus_us(i64::try_from(delay.as_micros()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_tried_again_later_and_later_and_then_given_up() {
        let at = |failed| again_at(Timestamp(0), failed).map(|at| at.0 / 1_000_000);
        assert_eq!((at(0), at(1), at(8)), (Some(5), Some(300), Some(86_400)));
        assert_eq!(at(9), None);
        assert_eq!(at(u32::MAX), None);
    }
}
