//! The one branch on [`Command`], and what executing one yields.

use crate::command::{Command, Request};
use crate::context::{Context, Done, Sequences, Stamp};
use crate::reply::Reply;
use crate::state::State;
use crate::{Rejection, access, account, billing, customer, entitlement, flag, payment, tenant};

/// An executed command: its reply, what it did, and the numbers that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// `None`: the command that brings the outcome replies.
    pub reply: Option<Reply>,
    /// The changes, events and effects to commit.
    pub done: Done,
    /// The numbers to hand out next.
    pub sequences: Sequences,
}

/// Executes a request against the loaded rows. Pure: the state is not touched, and the same
/// arguments give the same result.
///
/// # Errors
/// A [`Rejection`] is an answer; nothing is to be written for it.
///
/// # Panics
/// Where an invariant is broken; the caller catches it, and nothing is written.
pub fn execute(state: &State, request: &Request, stamp: Stamp<'_>) -> Result<Executed, Rejection> {
    let cx = &mut Context::new(request, stamp);
    let accepted = match &request.command {
        Command::Tenant(it) => tenant::rules::execute(state, it, cx),
        Command::Access(it) => access::rules::execute(state, it, cx),
        Command::Flag(it) => flag::rules::execute(state, it, cx),
        Command::Account(it) => account::rules::execute(state, it, cx),
        Command::Customer(it) => customer::rules::execute(state, it, cx),
        Command::Payment(it) => payment::rules::execute(state, it, cx),
        Command::Entitlement(it) => entitlement::rules::execute(state, it, cx),
        Command::Billing(it) => billing::rules::execute(state, it, cx),
    }?;
    let sequences = cx.sequences();
    Ok(Executed { reply: accepted.reply, done: std::mem::take(&mut cx.done), sequences })
}
