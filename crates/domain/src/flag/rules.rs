//! The rules of environments, definitions and changes that are kept for later.

pub(crate) mod change_request;
pub(crate) mod definition;
pub(crate) mod environment;

use crate::context::Context;
use crate::flag::command::FlagCommand;
use crate::reply::Outcome;
use crate::state::State;

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &FlagCommand, cx: &mut Context) -> Outcome {
    match command {
        FlagCommand::CreateEnvironment(it) => environment::create(state, it, cx),
        FlagCommand::UpdateEnvironment(it) => environment::update(state, it, cx),
        FlagCommand::AddSecret(it) => environment::add_secret(state, it, cx),
        FlagCommand::AddSecrets(it) => environment::add_secrets(state, it, cx),
        FlagCommand::ExpireSecrets(it) => environment::expire_secrets(state, it, cx),
        FlagCommand::ExpireSecret(it) => environment::expire_secret(state, it, cx),
        FlagCommand::PutDefinitions(it) => definition::put(state, it, cx),
        FlagCommand::RequestChange(it) => change_request::request(state, it, cx),
        FlagCommand::DecideChange(it) => change_request::decide(state, it, cx),
        FlagCommand::ApplyChange(it) => change_request::apply(state, it, cx),
    }
}
