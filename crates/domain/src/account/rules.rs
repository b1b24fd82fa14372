//! The rules of accounts and what belongs to them, payments aside.

pub(crate) mod account;
pub(crate) mod blocking_state;
pub(crate) mod closed;
pub(crate) mod custom_field;
pub(crate) mod default_method;
pub(crate) mod email;
pub(crate) mod import;
pub(crate) mod method_step;
pub(crate) mod payment_method;
pub(crate) mod tag;

use crate::account::command::AccountCommand;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &AccountCommand, cx: &mut Context) -> Outcome {
    match command {
        AccountCommand::Create(it) => account::create(state, it, cx),
        AccountCommand::Update(it) => account::update(state, it, cx),
        AccountCommand::Erase(it) => account::erase(state, it, cx),
        AccountCommand::Release(it) => account::release(it, cx),
        AccountCommand::AddEmail(it) => email::add(state, it, cx),
        AccountCommand::RemoveEmail(it) => email::remove(state, it, cx),
        AccountCommand::Close(it) => blocking_state::close(state, it, cx),
        AccountCommand::AddBlockingState(it) => blocking_state::add(state, it, cx),
        AccountCommand::AddTags(it) => tag::add(state, it, cx),
        AccountCommand::RemoveTags(it) => tag::remove(state, it, cx),
        AccountCommand::AddCustomFields(it) => custom_field::add(state, it, cx),
        AccountCommand::UpdateCustomFields(it) => custom_field::update(state, it, cx),
        AccountCommand::RemoveCustomFields(it) => custom_field::remove(state, it, cx),
        AccountCommand::CreatePaymentMethod(it) => payment_method::create(state, it, cx),
        AccountCommand::SetDefaultPaymentMethod(it) => payment_method::set_default(state, it, cx),
        AccountCommand::DeletePaymentMethod(it) => payment_method::delete(state, it, cx),
        AccountCommand::MethodAnswered(it) => method_step::answered(state, it, cx),
        AccountCommand::ContinueMethod(it) => method_step::proceed(state, it, cx),
        AccountCommand::Import(it) => import::account(state, it, cx),
    }
}
