//! A batch before it is processed: its works, and the waiter of each.

use std::time::Instant;

use domain::account::payment_method::MethodTask;
use domain::{Command, EffectId};
use tokio::sync::oneshot;

use crate::lane::Lane;
use crate::partition::{Answer, Work};
use crate::queue::QueuePosition;
use crate::{Reason, Unavailable};

/// Works that are processed together.
#[derive(Default)]
pub(crate) struct PendingBatch {
    pub(crate) works: Vec<Work>,
    /// One for each of the first works.
    pub(crate) waiters: Vec<Waiter>,
}

impl PendingBatch {
    pub(crate) fn add(
        &mut self,
        work: Work,
        answer: oneshot::Sender<Result<Answer, Unavailable>>,
        (lane, position): (Lane, Option<QueuePosition>),
        now: Instant,
    ) {
        let offset = position.map(|position| position.offset);
        let outcome_of = outcome_of(&work);
        let expired = position.filter(|position| position.expires_at.is_some_and(|at| at < now));
        self.works.push(expired.map_or(work, |position| Work::ReadOn(position.offset + 1)));
        let expired = expired.is_some();
        self.waiters.push(Waiter { answer, outcome_of, lane, offset, expired });
    }

    /// Where to read on in the queue afterwards.
    pub(crate) fn read_on(&self) -> Option<i64> {
        self.waiters.iter().filter_map(|waiter| waiter.offset).max().map(|offset| offset + 1)
    }

    /// Its second half, which is to come after the first.
    pub(crate) fn split_off(&mut self) -> Self {
        let at = self.waiters.len() / 2;
        self.works.truncate(self.waiters.len());
        Self { works: self.works.split_off(at), waiters: self.waiters.split_off(at) }
    }

    /// Leaves out what a queue brought.
    pub(crate) fn refuse_queued(self) -> Self {
        let mut left = Self::default();
        for (work, waiter) in self.works.into_iter().zip(self.waiters) {
            if waiter.offset.is_some() {
                drop(waiter.answer.send(Err(Reason::NotOwner.into())));
            } else {
                left.works.push(work);
                left.waiters.push(waiter);
            }
        }
        left
    }
}

/// Where a work's answer goes.
pub(crate) struct Waiter {
    pub(crate) answer: oneshot::Sender<Result<Answer, Unavailable>>,
    pub(crate) outcome_of: Option<EffectId>,
    /// The lane in which the work came.
    pub(crate) lane: Lane,
    /// Where the work was, if a queue brought it.
    pub(crate) offset: Option<i64>,
    /// The client had stopped waiting before it was begun: only its queue offset is committed.
    pub(crate) expired: bool,
}

/// The effect whose outcome a work brings, for the waiter of its call. The answer to an inquiry
/// does not go to that waiter.
fn outcome_of(work: &Work) -> Option<EffectId> {
    let Work::Request(request) = work else { return None };
    match &request.command {
        Command::Payment(it) => it.replied().map(EffectId::Transaction),
        Command::Account(it) => it
            .answered()
            .filter(|it| it.task == MethodTask::Attach)
            .map(|it| EffectId::PaymentMethod(it.payment_method)),
        Command::Tenant(_)
        | Command::Access(_)
        | Command::Flag(_)
        | Command::Customer(_)
        | Command::Entitlement(_)
        | Command::Billing(_) => None,
    }
}
