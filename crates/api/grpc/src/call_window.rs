//! How many calls are executed at a time. Of many calls that arrive at once, those behind the window wait
//! undecoded, in their order: otherwise all of them are decoded and sent to the queue before the first is
//! answered. A connection many of whose calls wait is not read from for a while, because reading is a good
//! part of a call's cost: the calls that are in the window need that time.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use metrics::Gauge;
use tokio::sync::Semaphore;

/// A window is refilled by half of it at once, so that the queue's batches stay large.
const BLOCKS: usize = 2;

/// Calls of a connection that wait before it is not read from. As long as they are more than half of it,
/// what the client has sent stays in the kernel.
const WAITING_OF_CONNECTION_MAX: usize = 256;

/// How long a call counts. One that takes longer is taken to wait for a gateway, and makes room for others:
/// so at least a window of calls begins every three seconds, however slow gateways are. Less would let too
/// many in while a busy cluster takes over a second for each.
const COUNTS_FOR: Duration = Duration::from_secs(3);

/// The window of a server.
pub(crate) struct CallWindow {
    permits: Semaphore,
    block: usize,
    /// Permits that wait for their block.
    returned: AtomicUsize,
    /// Calls that wait for room.
    waiting: Gauge,
}

impl CallWindow {
    /// The recorder of metrics must be installed before.
    pub(crate) fn new(calls_max: usize) -> Self {
        let calls_max = calls_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Semaphore::new(calls_max),
            block: calls_max.div_ceil(BLOCKS),
            returned: AtomicUsize::new(0),
            waiting: metrics::gauge!("faregate_grpc_calls_waiting"),
        }
    }

    /// Runs `call` of a connection once the window has room, in the order of arrival.
    pub(crate) async fn run<F: Future>(&self, backlog: &Backlog, call: F) -> F::Output {
        let permit = self.enter(backlog).await;
        let mut call = pin!(call);
        if let Ok(output) = tokio::time::timeout(COUNTS_FOR, call.as_mut()).await {
            return output;
        }
        drop(permit);
        call.await
    }

    async fn enter(&self, backlog: &Backlog) -> Permit<'_> {
        // With calls in the queue there is never a permit left, so that none is overtaken.
        let permit = match self.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                let _waiting = Waiting::begin(&self.waiting, backlog);
                self.permits.acquire().await.expect("the semaphore is never closed")
            }
        };
        permit.forget();
        Permit(self)
    }
}

/// The calls of one connection that wait for room, and the connection's reader, which waits while they are
/// many.
#[derive(Default)]
pub(crate) struct Backlog {
    waiting: AtomicUsize,
    reader: AtomicWaker,
}

impl Backlog {
    /// Ready once the connection may be read from.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        self.reader.register(cx.waker());
        // They may have become few before the waker was there.
        if self.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn has_room(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) < WAITING_OF_CONNECTION_MAX
    }
}

/// One call that waits, counted.
struct Waiting<'a> {
    of_all: &'a Gauge,
    of_connection: &'a Backlog,
}

impl<'a> Waiting<'a> {
    fn begin(of_all: &'a Gauge, of_connection: &'a Backlog) -> Self {
        of_all.increment(1.0);
        of_connection.waiting.fetch_add(1, Ordering::SeqCst);
        Self { of_all, of_connection }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.of_all.decrement(1.0);
        let Backlog { waiting, reader } = self.of_connection;
        // Once, where they have become few: the reader is not woken for every call.
        if waiting.fetch_sub(1, Ordering::SeqCst) == WAITING_OF_CONNECTION_MAX / 2 {
            reader.wake();
        }
    }
}

/// One call's permit.
struct Permit<'a>(&'a CallWindow);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let CallWindow { permits, block, returned, waiting: _ } = self.0;
        let before = returned.fetch_add(1, Ordering::Relaxed);
        // Only the call that completes a block returns it.
        if (before + 1).is_multiple_of(*block) {
            permits.add_permits(*block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;

    /// Calls that wait until they are ended, through one window.
    struct Calls {
        window: Arc<CallWindow>,
        backlog: Arc<Backlog>,
        running: Arc<AtomicUsize>,
        ends: Vec<oneshot::Sender<()>>,
    }

    impl Calls {
        async fn begin(window: usize, count: usize) -> Self {
            let window = Arc::new(CallWindow::new(window));
            let backlog = Arc::default();
            let mut calls = Self { window, backlog, running: Arc::default(), ends: vec![] };
            for _ in 0..count {
                let (end, ended) = oneshot::channel();
                let (window, running) = (Arc::clone(&calls.window), Arc::clone(&calls.running));
                let backlog = Arc::clone(&calls.backlog);
                tokio::spawn(async move {
                    let call = async {
                        running.fetch_add(1, Ordering::Relaxed);
                        drop(ended.await);
                    };
                    window.run(&backlog, call).await;
                    running.fetch_sub(1, Ordering::Relaxed);
                });
                calls.ends.push(end);
            }
            calls
        }

        /// How many run once every task has done what it can.
        async fn running(&self) -> usize {
            // The runtime comes back after 61 tasks.
            for _ in 0..self.ends.len().div_ceil(61) + 3 {
                tokio::task::yield_now().await;
            }
            self.running.load(Ordering::Relaxed)
        }

        fn end_first(&mut self) {
            self.ends.remove(0).send(()).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_is_refilled_by_half_of_it() {
        let mut calls = Calls::begin(4, 20).await;
        assert_eq!(calls.running().await, 4);
        calls.end_first();
        assert_eq!(calls.running().await, 3, "its permit is kept until there are two");
        calls.end_first();
        assert_eq!(calls.running().await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_makes_room() {
        let window = CallWindow::new(1);
        let backlog = Backlog::default();
        let given_up = window.run(&backlog, std::future::pending::<()>());
        drop(futures_util::future::select(Box::pin(given_up), std::future::ready(())).await);
        assert_eq!(window.run(&backlog, std::future::ready(7)).await, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_longer_than_it_counts_makes_room() {
        let calls = Calls::begin(2, 4).await;
        assert_eq!(calls.running().await, 2);
        tokio::time::advance(COUNTS_FOR).await;
        assert_eq!(calls.running().await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_read_from_while_many_of_its_calls_wait() {
        let waiting = WAITING_OF_CONNECTION_MAX;
        let mut calls = Calls::begin(waiting, 2 * waiting).await;
        assert_eq!(calls.running().await, waiting, "as many wait");
        let backlog = Arc::clone(&calls.backlog);
        let reader = tokio::spawn(poll_fn(move |cx| backlog.poll_room(cx)));
        for _ in 1..waiting / 2 {
            calls.end_first();
        }
        calls.running().await;
        assert!(!reader.is_finished(), "their permits are kept until they are a half");
        calls.end_first();
        assert_eq!(calls.running().await, waiting);
        assert!(!reader.is_finished(), "half of them wait");
        for _ in 0..waiting / 2 {
            calls.end_first();
        }
        calls.running().await;
        assert!(reader.is_finished());
    }
}
