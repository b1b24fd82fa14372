//! What is due of an account's subscriptions: one instant after the other.

use super::books::Books;
use super::{announce, run};
use crate::billing::reads::timer_of;
use crate::billing::subscription::ContinueBilling;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::timer::rules as timer;
use crate::{Accepted, Reply};

/// Does what is due at the instant of the account's timer, and sets the timer for the next one, which may be in the
/// past as well.
pub(crate) fn proceed(state: &State, it: &ContinueBilling, cx: &mut Context) -> Outcome {
    if timer::take(state, (timer_of(it.account), it.due), cx) {
        // An account without a currency has nothing to be billed.
        let Ok(mut books) = Books::open(state, it.account, cx) else {
            return Ok(Accepted::now(Reply::Done));
        };
        books.billing.due = None;
        books.until = it.due;
        run::at(&mut books, it.due, cx);
        announce::upcoming(&books, cx);
        books.close(cx);
    }
    Ok(Accepted::now(Reply::Done))
}
