//! The rules of subscriptions and invoices.

mod books;
mod continued;
mod follow;
mod plan;
mod run;
mod subscribe;
#[cfg(test)]
mod tests;

use crate::billing::command::BillingCommand;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;

pub(crate) use follow::follow;

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &BillingCommand, cx: &mut Context) -> Outcome {
    match command {
        BillingCommand::Subscribe(it) => subscribe::subscribe(state, it, cx),
        BillingCommand::Continue(it) => continued::proceed(state, it, cx),
    }
}
