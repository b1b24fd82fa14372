//! Attempts that wait for their retries: the timers of them, and how they end.

use crate::Timestamp;
use crate::change::{PaymentChange, TimerChange};
use crate::context::Context;
use crate::payment::attempt::{AttemptState, PaymentAttempt};
use crate::timer::{Timer, TimerKey, TimerKind};

pub(crate) fn key_of(attempt: &PaymentAttempt) -> TimerKey {
    TimerKey { kind: TimerKind::PaymentRetry, object: attempt.id.uuid() }
}

pub(crate) fn timer_of(attempt: &PaymentAttempt, due: Timestamp) -> Timer {
    let (tenant, account) = (attempt.tenant, attempt.account_id);
    Timer { tenant, key: key_of(attempt), account, due }
}

/// Ends what a scheduled attempt waits for.
pub(crate) fn cancel(attempt: &PaymentAttempt, cx: &mut Context) {
    cx.change(TimerChange::Cleared(key_of(attempt)));
    end(attempt, AttemptState::Aborted, cx);
}

pub(crate) fn end(attempt: &PaymentAttempt, state: AttemptState, cx: &mut Context) {
    let revision = attempt.revision.next(cx.seq);
    let ended = PaymentAttempt { state, due_at: None, revision, ..attempt.clone() };
    cx.change(PaymentChange::Attempt(ended));
}

/// Lets the retries go on that the tags of an account suspended, in the order in which they were due.
pub(crate) fn resume(scheduled: &[PaymentAttempt], cx: &mut Context) {
    for attempt in scheduled {
        if let Some(due) = attempt.due_at {
            cx.change(TimerChange::Set(timer_of(attempt, due)));
        }
    }
}
