//! The object that a change of rights or secrets is about, for the log.

use domain::access::{Role, User};
use domain::account::tag::TagDefinition;
use domain::card_data::contains_pan;
use domain::change::{Change, Image};
use domain::entity::Entity;
use domain::flag::environment::Secret;
use domain::tenant::payment_rules::PaymentRules;
use domain::tenant::{Tenant, TenantValue, is_reserved_key};

/// The object that a change of rights or secrets is about, with its name or id; `None` of other changes. A name
/// that a client chose for its own values is not logged.
pub(super) fn object_of(change: &Change) -> Option<String> {
    if let Some(it) = User::of(change) {
        return Some(format!("user {}", named(&it.username)));
    }
    if let Some(it) = Role::of(change) {
        return Some(format!("role {}", named(&it.name)));
    }
    if let Some(it) = Tenant::of(change) {
        return Some(format!("tenant {}", it.id));
    }
    if let Some(it) = TenantValue::of(change) {
        return Some(match is_reserved_key(&it.key) {
            true => format!("value {}", named(&it.key)),
            false => format!("value {}", it.id),
        });
    }
    if let Some(it) = Secret::of(change) {
        return Some(format!("secret {} of environment {}", it.id, it.environment));
    }
    let of_tenant = TagDefinition::of(change).map(Entity::name);
    of_tenant.or_else(|| PaymentRules::of(change).map(Entity::name))
}

/// A name, unless it is a card number in the wrong place.
fn named(name: &str) -> &str {
    if contains_pan(name) { "(a number)" } else { name }
}
