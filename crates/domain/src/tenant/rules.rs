//! The rules of tenants.

pub(crate) mod catalog;
pub(crate) mod routing_rules;
pub(crate) mod tenant;

use crate::account::rules::import;
use crate::account::rules::tag;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::tenant::command::TenantCommand;

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &TenantCommand, cx: &mut Context) -> Outcome {
    match command {
        TenantCommand::Create(it) => tenant::create(state, it, cx),
        TenantCommand::SetValue(it) => tenant::set_value(state, it, cx),
        TenantCommand::AppendValue(it) => tenant::append_value(state, it, cx),
        TenantCommand::DefineTag(it) => tag::define(state, it, cx),
        TenantCommand::UndefineTag(id) => tag::undefine(state, *id, cx),
        TenantCommand::ImportTagDefinition(it) => import::tag_definition(state, it, cx),
        TenantCommand::RotateSecret(it) => tenant::rotate_secret(state, it, cx),
        TenantCommand::WithdrawPreviousSecret => tenant::withdraw_previous_secret(state, cx),
        TenantCommand::SetActive(is_active) => tenant::set_active(state, *is_active, cx),
        TenantCommand::SetWebhookEndpoints(it) => tenant::set_webhook_endpoints(state, it, cx),
        TenantCommand::UploadCatalog(it) => catalog::upload(state, it, cx),
        TenantCommand::AddSimplePlan(it) => catalog::add_simple_plan(state, it, cx),
        TenantCommand::WithdrawCatalog => catalog::withdraw(state, cx),
    }
}
