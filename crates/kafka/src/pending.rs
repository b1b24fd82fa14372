//! Requests that wait for replies: a bounded table of slots, whose numbers name the requests.

use std::sync::{Mutex, PoisonError};

use engine::Reason;
use tokio::sync::oneshot;

use crate::envelope::ReplyBody;

/// The reply to a waiting request, or the reason why there is none.
pub(crate) type ReplyResult = Result<ReplyBody, Reason>;

/// The bounded table of requests that wait for replies.
pub(crate) struct Pending {
    table: Mutex<Table>,
    waiting_max: usize,
}

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    /// How often it was used: a late reply to an earlier request of the slot finds no waiter.
    generation: u32,
    waiter: Option<oneshot::Sender<ReplyResult>>,
}

impl Pending {
    pub(crate) fn new(waiting_max: usize) -> Self {
        let waiting_max = waiting_max.min(usize::try_from(u32::MAX).unwrap_or(usize::MAX));
        Self { table: Mutex::default(), waiting_max }
    }

    /// A number for a request, and where its reply comes; `None` where too many wait.
    pub(crate) fn begin(&self) -> Option<(u64, oneshot::Receiver<ReplyResult>)> {
        let (sender, receiver) = oneshot::channel();
        let mut table = self.table();
        let at = match table.free.pop() {
            Some(at) => at,
            None if table.slots.len() < self.waiting_max => {
                table.slots.push(Slot { generation: 0, waiter: None });
                u32::try_from(table.slots.len() - 1).expect("waiting_max is a u32")
            }
            None => return None,
        };
        let slot = &mut table.slots[usize::try_from(at).expect("usize has 32 bits or more")];
        slot.generation = slot.generation.wrapping_add(1);
        slot.waiter = Some(sender);
        Some(((u64::from(slot.generation) << 32) | u64::from(at), receiver))
    }

    /// Completes a request; false where none waits under this number.
    pub(crate) fn complete(&self, number: u64, result: ReplyResult) -> bool {
        // A waiter that has just gone away is no error.
        self.end(number).map(|waiter| drop(waiter.send(result))).is_some()
    }

    /// Removes a request whose waiter has gone away.
    pub(crate) fn forget(&self, number: u64) {
        drop(self.end(number));
    }

    /// Whether a request waits under this number.
    pub(crate) fn is_waiting(&self, number: u64) -> bool {
        let Ok(at) = usize::try_from(number & u64::from(u32::MAX)) else { return false };
        let table = self.table();
        table
            .slots
            .get(at)
            .is_some_and(|slot| slot.waiter.is_some() && u64::from(slot.generation) == number >> 32)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        let table = self.table();
        table.slots.len() - table.free.len()
    }

    fn end(&self, number: u64) -> Option<oneshot::Sender<ReplyResult>> {
        let at = u32::try_from(number & u64::from(u32::MAX)).ok()?;
        let mut table = self.table();
        let slot = table.slots.get_mut(usize::try_from(at).ok()?)?;
        let waiter = slot.waiter.take_if(|_| u64::from(slot.generation) == number >> 32)?;
        table.free.push(at);
        Some(waiter)
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_completes_its_request_once() {
        let pending = Pending::new(2);
        let (first, mut reply) = pending.begin().unwrap();
        let (second, _) = pending.begin().unwrap();
        assert!(pending.begin().is_none(), "two may wait");
        assert!(pending.is_waiting(first) && !pending.is_waiting(u64::MAX));
        assert!(pending.complete(first, Ok(ReplyBody::Expired)));
        assert_eq!(reply.try_recv().unwrap(), Ok(ReplyBody::Expired));
        assert!(!pending.complete(first, Ok(ReplyBody::Expired)), "it has its reply");
        let (third, mut reply) = pending.begin().unwrap();
        assert!(pending.is_waiting(third) && !pending.is_waiting(first));
        assert_eq!(third & 0xffff_ffff, first & 0xffff_ffff, "the slot is used again");
        assert!(!pending.complete(first, Ok(ReplyBody::Expired)), "a late reply finds no waiter");
        assert_eq!(reply.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        pending.forget(third);
        pending.forget(second);
        assert_eq!(pending.waiting(), 0);
        assert!(!pending.complete(u64::MAX, Ok(ReplyBody::Expired)), "no such slot");
    }
}
