//! The subscribers of an environment: connections that are woken by its changes.
//!
//! A change wakes the tasks of all subscribers and waits for none of them; each task compares the
//! environment's state with what it sent last.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures_util::task::AtomicWaker;

/// How many subscribers are woken before the lock is released for others.
const WAKE_BATCH: usize = 1_024;

/// The end of a connection that the cache can signal.
#[derive(Default)]
pub struct Subscriber {
    waker: AtomicWaker,
    /// The code to close with; 0: stay open.
    close_code: AtomicU16,
}

impl Subscriber {
    /// Registers the task to wake.
    pub fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Wakes the connection's task.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Asks the connection to close with this code; only the first code counts.
    pub fn close(&self, code: u16) {
        let swapped =
            self.close_code.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
        if swapped.is_ok() {
            self.wake();
        }
    }

    /// The code to close with, where the connection was asked to close.
    pub fn close_code(&self) -> Option<u16> {
        Some(self.close_code.load(Ordering::Acquire)).filter(|code| *code > 0)
    }
}

/// The subscribers of one environment.
#[derive(Default)]
pub struct Subscribers {
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    subscribers: Vec<Option<Arc<Subscriber>>>,
    free: Vec<usize>,
}

impl Subscribers {
    /// Adds a subscriber, unless there are `subscribers_max`; returns its slot, for `remove`.
    pub(crate) fn add(
        &self,
        subscriber: &Arc<Subscriber>,
        subscribers_max: usize,
    ) -> Option<usize> {
        let mut slots = self.slots();
        if slots.subscribers.len() - slots.free.len() >= subscribers_max {
            return None;
        }
        if let Some(slot) = slots.free.pop() {
            slots.subscribers[slot] = Some(Arc::clone(subscriber));
            return Some(slot);
        }
        slots.subscribers.push(Some(Arc::clone(subscriber)));
        Some(slots.subscribers.len() - 1)
    }

    /// Removes the subscriber in a slot.
    pub(crate) fn remove(&self, slot: usize) {
        let mut slots = self.slots();
        slots.subscribers[slot] = None;
        slots.free.push(slot);
    }

    /// Wakes all of them. One that is added meanwhile has seen the change already.
    pub fn wake_all(&self) {
        let mut from = 0;
        loop {
            let slots = self.slots();
            let rest = slots.subscribers.get(from..).filter(|rest| !rest.is_empty());
            let Some(rest) = rest else { return };
            for subscriber in rest.iter().take(WAKE_BATCH).flatten() {
                subscriber.wake();
            }
            from += WAKE_BATCH;
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Subscriber>> {
        self.slots().subscribers.iter().flatten().cloned().collect()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the open connections of all environments, up to a bound.
#[derive(Default)]
pub struct Permits {
    in_use: AtomicUsize,
}

/// The right to one open connection; dropping it gives it back.
pub struct Permit {
    permits: Arc<Permits>,
}

impl Permits {
    /// A permit, unless `permits_max` are in use.
    pub fn acquire(self: &Arc<Self>, permits_max: usize) -> Option<Permit> {
        let permit = Permit { permits: Arc::clone(self) };
        let before = self.in_use.fetch_add(1, Ordering::AcqRel);
        (before < permits_max).then_some(permit)
    }

    /// How many are in use.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.in_use.fetch_sub(1, Ordering::AcqRel);
    }
}
