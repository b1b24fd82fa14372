//! Reads: blocking queries on threads of their own, so many at a time and no more. Tenants share the threads:
//! those of a tenant that reads much wait for each other, and not others for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::TenantNo;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use crate::holdings::Holdings;
use crate::ports::{Queries, ReadLimits, StoreError};
use crate::{Reason, Unavailable, client};

/// How long a read may take, with the time that it waits to begin.
pub(crate) const READ_WITHIN: Duration = Duration::from_secs(2);

/// One in so many threads is left to others by the tenant that uses all the rest.
const PART_FOR_OTHERS: usize = 4;

/// A query that sends its result where it is awaited.
type Query = Box<dyn FnOnce(&dyn Queries) + Send>;

pub(crate) struct Readers {
    queries: Arc<dyn Queries>,
    queue: Arc<ReaderQueue>,
}

impl Readers {
    pub(crate) fn new(queries: Arc<dyn Queries>, readers: usize, waiting_max: usize) -> Self {
        Self { queries, queue: ReaderQueue::new(readers.max(1), waiting_max) }
    }

    /// Reads within [`READ_WITHIN`]; a caller who waits no longer ends the read. It is a read of the tenant
    /// that this task serves.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let (sender, result) = oneshot::channel();
        self.run(Box::new(move |queries| {
            // The reader may be gone; then the result is of no use.
            let _ = sender.send(query(queries));
        }))
        .await?;
        answer(result.await)
    }

    /// Runs a query once a reader is free. Not generic: a task of tokio is much code, and there are
    /// more than a hundred queries.
    async fn run(&self, query: Query) -> Result<(), Unavailable> {
        let (limits, _awaited) = ReadLimits::new(READ_WITHIN);
        let permit = match self.queue.take(client::tenant())? {
            Admitted::Now(permit) => permit,
            Admitted::Later(permit) => match tokio::time::timeout(READ_WITHIN, permit).await {
                Ok(permit) => permit.map_err(|_| Unavailable::from(Reason::Stopping))?,
                Err(_) => return Err(refused_full()),
            },
        };
        let queries = Arc::clone(&self.queries);
        let ran = tokio::task::spawn_blocking(move || {
            query(&*queries.within(limits));
            drop(permit);
        });
        ran.await.map_err(|_| Reason::Bug.into())
    }
}

/// The result of a read. Logs its failure, or counts it where the read took too long.
pub(crate) fn answer<T>(
    result: Result<Result<T, StoreError>, RecvError>,
) -> Result<T, Unavailable> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(StoreError::ReadTooLong)) => {
            let reason = Reason::ReadTooLong;
            metrics::counter!("faregate_refused_total", "reason" => reason.label()).increment(1);
            Err(reason.into())
        }
        Ok(Err(error)) => {
            tracing::error!(error = %error, "a read failed");
            Err(Reason::from(&error).into())
        }
        Err(_) => Err(Reason::Bug.into()),
    }
}

/// The refusal of a read for which there is no room, counted.
pub(crate) fn refused_full() -> Unavailable {
    let reason = Reason::ReadersFull;
    metrics::counter!("faregate_refused_total", "reason" => reason.label()).increment(1);
    reason.into()
}

/// Whose a read is; `None` for those without a tenant, which share as one tenant would.
type Whose = Option<TenantNo>;

/// Who reads and who waits.
struct ReaderQueue {
    readers: usize,
    /// The number of readers that one tenant may have at most.
    of_tenant_max: usize,
    waiting_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Of each tenant that has some.
    running_of: Holdings<Whose>,
    waiting: usize,
    /// Of each tenant that has some.
    waiting_of: BTreeMap<Whose, VecDeque<oneshot::Sender<ReaderPermit>>>,
    /// The tenants with waiting reads, the one whose turn is next first.
    order: VecDeque<Whose>,
}

/// The right to one reader, until it is dropped.
struct ReaderPermit {
    queue: Arc<ReaderQueue>,
    whose: Whose,
}

enum Admitted {
    Now(ReaderPermit),
    Later(oneshot::Receiver<ReaderPermit>),
}

impl ReaderQueue {
    fn new(readers: usize, waiting_max: usize) -> Arc<Self> {
        let for_others = (readers / PART_FOR_OTHERS).max(1);
        let of_tenant_max = readers.saturating_sub(for_others).max(1);
        Arc::new(Self { readers, of_tenant_max, waiting_max, state: Mutex::default() })
    }

    /// A reader, now or when it is this tenant's turn.
    fn take(self: &Arc<Self>, whose: Whose) -> Result<Admitted, Unavailable> {
        let mut state = self.state();
        if state.may_run(self, whose) && !state.waiting_of.contains_key(&whose) {
            state.begin(whose);
            return Ok(Admitted::Now(ReaderPermit { queue: Arc::clone(self), whose }));
        }
        if state.waiting >= self.waiting_max {
            state.forget_gone();
            if state.waiting >= self.waiting_max {
                drop(state);
                return Err(refused_full());
            }
        }
        let (sender, permit) = oneshot::channel();
        state.wait(whose, sender);
        Ok(Admitted::Later(permit))
    }

    /// Ends a read, and begins those whose turn it is.
    fn end(self: &Arc<Self>, whose: Whose) {
        let mut state = self.state();
        state.end(whose);
        let next = state.next(self);
        drop(state);
        for (whose, sender) in next {
            // One that waits no longer drops its turn, which is the next one's.
            drop(sender.send(ReaderPermit { queue: Arc::clone(self), whose }));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked, so that it is whole even if somebody poisoned it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        self.queue.end(self.whose);
    }
}

impl State {
    fn may_run(&self, queue: &ReaderQueue, whose: Whose) -> bool {
        self.running < queue.readers && self.running_of.of(&whose) < queue.of_tenant_max
    }

    fn begin(&mut self, whose: Whose) {
        self.running += 1;
        self.running_of.add(whose, 1);
    }

    fn end(&mut self, whose: Whose) {
        self.running -= 1;
        self.running_of.remove(&whose, 1);
    }

    fn wait(&mut self, whose: Whose, sender: oneshot::Sender<ReaderPermit>) {
        self.waiting += 1;
        let own = self.waiting_of.entry(whose).or_default();
        if own.is_empty() {
            self.order.push_back(whose);
        }
        own.push_back(sender);
    }

    /// Begins the reads for which there are readers, one of each tenant in turn.
    fn next(&mut self, queue: &ReaderQueue) -> Vec<(Whose, oneshot::Sender<ReaderPermit>)> {
        let mut next = vec![];
        while let Some(at) = self.order.iter().position(|it| self.may_run(queue, *it)) {
            let Some(whose) = self.order.remove(at) else { break };
            let Some(own) = self.waiting_of.get_mut(&whose) else { continue };
            let sender = own.pop_front();
            if own.is_empty() {
                self.waiting_of.remove(&whose);
            } else {
                self.order.push_back(whose);
            }
            let Some(sender) = sender else { continue };
            self.waiting -= 1;
            if !sender.is_closed() {
                self.begin(whose);
                next.push((whose, sender));
            }
        }
        next
    }

    /// Forgets the reads that wait no longer.
    fn forget_gone(&mut self) {
        for own in self.waiting_of.values_mut() {
            own.retain(|it| !it.is_closed());
        }
        self.waiting_of.retain(|_, own| !own.is_empty());
        self.order.retain(|it| self.waiting_of.contains_key(it));
        self.waiting = self.waiting_of.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Whose = Some(TenantNo(1));
    const B: Whose = Some(TenantNo(2));

    fn now(queue: &Arc<ReaderQueue>, whose: Whose) -> Option<ReaderPermit> {
        match queue.take(whose) {
            Ok(Admitted::Now(permit)) => Some(permit),
            Ok(Admitted::Later(_)) | Err(_) => None,
        }
    }

    fn later(queue: &Arc<ReaderQueue>, whose: Whose) -> oneshot::Receiver<ReaderPermit> {
        match queue.take(whose) {
            Ok(Admitted::Later(permit)) => permit,
            Ok(Admitted::Now(_)) | Err(_) => panic!("it has to wait"),
        }
    }

    #[test]
    fn a_tenant_leaves_a_quarter_of_the_readers_to_others() {
        let queue = ReaderQueue::new(8, 100);
        let held: Vec<ReaderPermit> = (0..6).map(|_| now(&queue, A).unwrap()).collect();
        let mut waits = later(&queue, A);
        let others = [now(&queue, B).unwrap(), now(&queue, None).unwrap()];
        assert!(now(&queue, B).is_none(), "all eight read");
        drop(others);
        assert!(waits.try_recv().is_err(), "it has its six");
        drop(held);
        assert!(waits.try_recv().is_ok());
        let state = queue.state();
        assert!(state.running_of.is_empty() && state.order.is_empty());
        drop(state);
        let one = ReaderQueue::new(1, 100);
        assert!(now(&one, A).is_some(), "one reader is for anybody");
    }

    #[test]
    fn tenants_that_wait_read_in_turn() {
        let queue = ReaderQueue::new(1, 100);
        let held = now(&queue, A).unwrap();
        let mut of_a: Vec<_> = (0..16).map(|_| later(&queue, A)).collect();
        let mut of_b = later(&queue, B);
        drop(held);
        let first = of_a[0].try_recv().unwrap();
        assert!(of_b.try_recv().is_err());
        drop(first);
        let second = of_b.try_recv().unwrap();
        assert!(of_a[1].try_recv().is_err());
        drop(second);
        assert!(of_a[1].try_recv().is_ok());
    }

    #[test]
    fn a_read_that_waits_no_longer_takes_no_turn_and_no_room() {
        let queue = ReaderQueue::new(1, 2);
        let held = now(&queue, A).unwrap();
        let (gone, mut waits) = (later(&queue, A), later(&queue, B));
        assert!(queue.take(B).is_err(), "two may wait");
        drop(gone);
        let mut more = later(&queue, B);
        drop(held);
        assert!(waits.try_recv().is_ok());
        assert!(more.try_recv().is_ok());
        let state = queue.state();
        assert_eq!((state.running, state.waiting), (0, 0));
    }
}
