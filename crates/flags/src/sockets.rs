//! The sockets of an environment: who is told of its changes.
//!
//! Nobody waits for a socket. A change wakes the tasks of all sockets, and each looks for itself
//! what is newer than what it has sent.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures_util::task::AtomicWaker;

/// How many sockets are woken before others may come and go.
const WOKEN_AT_ONCE: usize = 1_024;

/// What a socket hears from those who are not its client.
#[derive(Default)]
pub(crate) struct Seat {
    waker: AtomicWaker,
    /// The code to close with; 0: stay.
    order: AtomicU16,
}

impl Seat {
    /// Has the socket's task woken by what comes.
    pub(crate) fn listen(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Wakes the socket's task.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Tells the socket to close with this code; the first one who says so is heard.
    pub(crate) fn close(&self, code: u16) {
        let told = self.order.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
        if told.is_ok() {
            self.wake();
        }
    }

    /// The code to close with, if it was told to.
    pub(crate) fn order(&self) -> Option<u16> {
        Some(self.order.load(Ordering::Acquire)).filter(|code| *code > 0)
    }
}

/// The sockets that are open to an environment.
#[derive(Default)]
pub(crate) struct Sockets {
    row: Mutex<Row>,
}

#[derive(Default)]
struct Row {
    seats: Vec<Option<Arc<Seat>>>,
    free: Vec<usize>,
}

impl Sockets {
    /// Takes a place, to be given back.
    pub(crate) fn enter(&self, seat: &Arc<Seat>) -> usize {
        let mut row = self.row();
        if let Some(place) = row.free.pop() {
            row.seats[place] = Some(Arc::clone(seat));
            return place;
        }
        row.seats.push(Some(Arc::clone(seat)));
        row.seats.len() - 1
    }

    /// Gives a place back.
    pub(crate) fn leave(&self, place: usize) {
        let mut row = self.row();
        row.seats[place] = None;
        row.free.push(place);
    }

    /// Wakes them all. One that comes meanwhile has seen what they are woken for.
    pub(crate) fn wake(&self) {
        let mut from = 0;
        loop {
            let row = self.row();
            let Some(rest) = row.seats.get(from..).filter(|rest| !rest.is_empty()) else { return };
            for seat in rest.iter().take(WOKEN_AT_ONCE).flatten() {
                seat.wake();
            }
            from += WOKEN_AT_ONCE;
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Seat>> {
        self.row().seats.iter().flatten().cloned().collect()
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many sockets are open, of all environments and of none.
#[derive(Default)]
pub(crate) struct Open {
    count: AtomicUsize,
}

/// An open socket's place among them, as long as it lives.
pub(crate) struct Place {
    open: Arc<Open>,
}

impl Open {
    /// Counts another socket, if there may be one.
    pub(crate) fn enter(self: &Arc<Self>, sockets_max: usize) -> Option<Place> {
        let place = Place { open: Arc::clone(self) };
        let before = self.count.fetch_add(1, Ordering::AcqRel);
        (before < sockets_max).then_some(place)
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.count.fetch_sub(1, Ordering::AcqRel);
    }
}
