//! The rules of customers, their mails and operations.

pub(crate) mod customer;
pub(crate) mod mail;
pub(crate) mod operation;

use crate::context::Context;
use crate::customer::command::CustomerCommand;
use crate::reply::Outcome;
use crate::state::State;

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &CustomerCommand, cx: &mut Context) -> Outcome {
    match command {
        CustomerCommand::Register(it) => customer::register(state, it, cx),
        CustomerCommand::VerifyEmail(it) => customer::verify_email(state, it, cx),
        CustomerCommand::RequestToken(it) => customer::request_token(state, it, cx),
        CustomerCommand::SetPassword(it) => customer::set_password(state, it, cx),
        CustomerCommand::OpenSession(it) => customer::open_session(state, it, cx),
        CustomerCommand::RefreshSession(it) => customer::refresh_session(state, it, cx),
        CustomerCommand::CloseSessions(it) => customer::close_sessions(state, it, cx),
        CustomerCommand::Update(it) => customer::update(state, it, cx),
        CustomerCommand::Erase(it) => customer::erase(state, it, cx),
        CustomerCommand::QueueRegistration(it) => operation::queue(it, cx),
        CustomerCommand::FailOperation(it) => operation::fail(state, it, cx),
    }
}
