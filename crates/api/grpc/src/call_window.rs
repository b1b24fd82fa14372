//! How many calls are executed at a time. Of many calls that arrive at once, those behind the window wait
//! undecoded, in their order: otherwise all of them are decoded and sent to the queue before the first is
//! answered.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metrics::Gauge;
use tokio::sync::Semaphore;

/// A window is refilled by a quarter of it at once, so that the queue's batches stay large.
const BLOCKS: usize = 4;

/// How long a call counts. One that takes longer waits for a gateway, and makes room for others: so at
/// least a window of calls begins each second, however slow gateways are.
const COUNTS_FOR: Duration = Duration::from_secs(1);

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

    /// Runs `call` once the window has room, in the order of arrival.
    pub(crate) async fn run<F: Future>(&self, call: F) -> F::Output {
        let place = self.enter().await;
        let mut call = pin!(call);
        if let Ok(output) = tokio::time::timeout(COUNTS_FOR, call.as_mut()).await {
            return output;
        }
        drop(place);
        call.await
    }

    async fn enter(&self) -> Place<'_> {
        // With calls in the queue there is never a permit left, so that none is overtaken.
        let permit = match self.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                let _waiting = Waiting::begin(&self.waiting);
                self.permits.acquire().await.expect("the semaphore is never closed")
            }
        };
        permit.forget();
        Place(self)
    }
}

/// One call that waits, counted.
struct Waiting<'a>(&'a Gauge);

impl<'a> Waiting<'a> {
    fn begin(gauge: &'a Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// One call's permit.
struct Place<'a>(&'a CallWindow);

impl Drop for Place<'_> {
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;

    /// Calls that wait until they are ended, through one window.
    struct Calls {
        window: Arc<CallWindow>,
        running: Arc<AtomicUsize>,
        ends: Vec<oneshot::Sender<()>>,
    }

    impl Calls {
        async fn begin(window: usize, count: usize) -> Self {
            let window = Arc::new(CallWindow::new(window));
            let mut calls = Self { window, running: Arc::default(), ends: vec![] };
            for _ in 0..count {
                let (end, ended) = oneshot::channel();
                let (window, running) = (Arc::clone(&calls.window), Arc::clone(&calls.running));
                tokio::spawn(async move {
                    let call = async {
                        running.fetch_add(1, Ordering::Relaxed);
                        drop(ended.await);
                    };
                    window.run(call).await;
                    running.fetch_sub(1, Ordering::Relaxed);
                });
                calls.ends.push(end);
            }
            calls
        }

        /// How many run once every task has done what it can.
        async fn running(&self) -> usize {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            self.running.load(Ordering::Relaxed)
        }

        fn end_first(&mut self) {
            self.ends.remove(0).send(()).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_is_refilled_by_a_quarter_of_it() {
        let mut calls = Calls::begin(8, 20).await;
        assert_eq!(calls.running().await, 8);
        calls.end_first();
        assert_eq!(calls.running().await, 7, "its place is kept until there are two");
        calls.end_first();
        assert_eq!(calls.running().await, 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_makes_room() {
        let window = CallWindow::new(1);
        let given_up = window.run(std::future::pending::<()>());
        drop(futures_util::future::select(Box::pin(given_up), std::future::ready(())).await);
        assert_eq!(window.run(std::future::ready(7)).await, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_longer_than_a_second_makes_room() {
        let calls = Calls::begin(2, 4).await;
        assert_eq!(calls.running().await, 2);
        tokio::time::advance(COUNTS_FOR).await;
        assert_eq!(calls.running().await, 4);
    }
}
