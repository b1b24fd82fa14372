//! The rules of features, offers, purchases and usage.

pub(crate) mod account_user;
pub(crate) mod entitlement;
pub(crate) mod offer;
pub(crate) mod plan_features;
pub(crate) mod purchase;
pub(crate) mod usage;

use crate::context::Context;
use crate::entitlement::command::EntitlementCommand;
use crate::reply::Outcome;
use crate::state::State;

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &EntitlementCommand, cx: &mut Context) -> Outcome {
    match command {
        EntitlementCommand::PutFeature(it) => offer::put_feature(state, it, cx),
        EntitlementCommand::PutOffer(it) => offer::put_offer(state, it, cx),
        EntitlementCommand::PutPlanFeatures(it) => plan_features::put(state, it, cx),
        EntitlementCommand::Grant(it) => entitlement::grant(state, it, cx),
        EntitlementCommand::Revoke(it) => entitlement::revoke(state, it, cx),
        EntitlementCommand::Continue(it) => entitlement::proceed(state, it, cx),
        EntitlementCommand::SetUsers(it) => account_user::set(state, it, cx),
        EntitlementCommand::RecordUsage(it) => usage::record(state, it, cx),
        EntitlementCommand::RecordUsages(it) => usage::record_all(state, it, cx),
        EntitlementCommand::Reserve(it) => usage::reserve(state, it, cx),
        EntitlementCommand::Confirm(it) => usage::confirm(state, it, cx),
        EntitlementCommand::Release(it) => usage::release(state, it, cx),
    }
}
