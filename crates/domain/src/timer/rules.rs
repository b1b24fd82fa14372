//! Timers: how they are set, and how a command that a timer is for finds out whether it is to be executed.

use crate::change::TimerChange;
use crate::context::Context;
use crate::state::State;
use crate::timer::{Timer, TimerKey};
use crate::{AccountId, Timestamp};

/// Sets the timer of an object of the account.
pub(crate) fn set((key, account): (TimerKey, AccountId), due: Timestamp, cx: &mut Context) {
    cx.change(TimerChange::Set(Timer { tenant: cx.tenant, key, account, due }));
}

/// Clears the timer that was due at `due`; false where it is not set for that time. The same firing may come
/// again after a crash, and from a process that no longer owns the partition.
pub(crate) fn take(state: &State, (key, due): (TimerKey, Timestamp), cx: &mut Context) -> bool {
    let is_due = state.timer(cx.tenant, key).is_some_and(|it| it.due == due && due <= cx.now);
    if is_due {
        cx.change(TimerChange::Cleared(key));
    }
    is_due
}
