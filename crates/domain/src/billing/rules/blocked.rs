//! What a blocking state does to billing.

use super::books::Books;
use super::run;
use crate::account::blocking_state::Blockable;
use crate::billing::subscription::Subscription;
use crate::context::Context;
use crate::state::State;
use crate::{AccountId, Timestamp};

/// Bills an account by a state that was recorded: at once, or when the state takes effect.
pub(crate) fn blocked(
    state: &State,
    (account, of): (AccountId, Blockable),
    from: Timestamp,
    cx: &mut Context,
) {
    let Ok(mut books) = Books::open(state, account, cx) else { return };
    let is_of = |it: &Subscription| match of {
        Blockable::Account => true,
        Blockable::Bundle(id) => it.bundle_id == id,
        Blockable::Subscription(id) => it.id == id,
    };
    let places: Vec<_> =
        (0..books.subscriptions.len()).filter(|at| is_of(&books.subscriptions[*at])).collect();
    for at in &places {
        books.reopen(*at, from);
    }
    if from <= cx.now && !places.is_empty() {
        run::at(&mut books, from, cx);
    }
    books.close(cx);
}
