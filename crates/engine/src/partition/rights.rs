//! What a change of rights or secrets is about, for the log.

use domain::card_data::contains_pan;
use domain::change::{AccessChange, Change, FlagChange, TenantChange};
use domain::tenant::is_reserved_key;

/// The object that a change of rights or secrets is about, with its name or id; `None` of other changes. A name
/// that a client chose for its own values is not logged.
pub(super) fn object_of(change: &Change) -> Option<String> {
    let object = match change {
        Change::Access(AccessChange::User(it)) => format!("user {}", named(&it.username)),
        Change::Access(AccessChange::Role(it)) => format!("role {}", named(&it.name)),
        Change::Tenant(TenantChange::Tenant(it)) => format!("tenant {}", it.id),
        Change::Tenant(TenantChange::Value(it)) if is_reserved_key(&it.key) => {
            format!("value {}", named(&it.key))
        }
        Change::Tenant(TenantChange::Value(it)) => format!("value {}", it.id),
        Change::Tenant(TenantChange::TagDefinition(it)) => format!("tag definition {}", it.id),
        Change::Tenant(TenantChange::PaymentRules(it)) => {
            format!("payment rules of {}", it.tenant.0)
        }
        Change::Flag(FlagChange::Secret(it)) => {
            format!("secret {} of environment {}", it.id, it.environment)
        }
        Change::Flag(
            FlagChange::Environment(_) | FlagChange::Definition(_) | FlagChange::ChangeRequest(_),
        )
        | Change::Account(_)
        | Change::Customer(_)
        | Change::Payment(_)
        | Change::Entitlement(_)
        | Change::Claim(_)
        | Change::Timer(_)
        | Change::ReplySettled { .. } => return None,
    };
    Some(object)
}

/// A name, unless it is a card number in the wrong place.
fn named(name: &str) -> &str {
    if contains_pan(name) { "(a number)" } else { name }
}
