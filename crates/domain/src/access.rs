//! Who may do what: users, roles and the one table of permissions.

pub(crate) mod change;
pub(crate) mod command;
mod lookup;
pub(crate) mod read;
pub(crate) mod rules;

use serde::{Deserialize, Serialize};

use crate::Revision;
use crate::entity::{Entity, Facts};
use crate::rows::Keyed;

/// Every permission there is, as `group:value`: Kill Bill's names (contract section 5), and behind
/// them those of feature flags, of gateways, of mails and of customers.
/// A role may also hold `group:*` or `*:*`.
pub const PERMISSIONS: &[&str] = &[
    "account:create",
    "account:update",
    "account:erase",
    "account:release",
    "account:add_emails",
    "account:delete_emails",
    "account:charge",
    "account:credit",
    "catalog:config_upload",
    "catalog:delete",
    "custom_field:add",
    "custom_field:update",
    "custom_field:delete",
    "entitlement:create",
    "entitlement:change_plan",
    "entitlement:pause_resume",
    "entitlement:cancel",
    "entitlement:transfer",
    "invoice:credit",
    "invoice:item_adjust",
    "invoice:delete_cba",
    "invoice:trigger",
    "invoice:dry_run",
    "invoice:write_off",
    "invoice:commit",
    "invoice:void",
    "overdue:config_upload",
    "payment:trigger",
    "payment:refund",
    "payment:chargeback",
    "payment:transition",
    "payment:notification",
    "payment_method:create",
    "payment_method:update",
    "payment_method:delete",
    "tag:create_tag_definition",
    "tag:delete_tag_definition",
    "tag:add",
    "tag:delete",
    "tenant:create",
    "tenant_kvs:add",
    "tenant_kvs:delete",
    "usage:record",
    "user:create",
    "admin:update",
    "admin:export",
    "admin:trigger_command",
    "environment:create",
    "environment:read",
    "environment:update",
    "flag:read",
    "flag:write",
    "flag:approve",
    "flag:secrets",
    "gateway:read",
    "gateway:write",
    "mail:read",
    "mail:send",
    "customer:read",
    "customer:write",
    "tenant:update",
    "webhook:read",
    "webhook:write",
    "event:read",
    "event:resend",
    "tenant:administer",
    "routing:read",
    "routing:override",
    "dispute:read",
    "feature:read",
    "feature:write",
    "offer:read",
    "offer:write",
    "entitlement:read",
    "entitlement:grant",
    "entitlement:users",
    "usage:read",
    "usage:write",
];

/// Writes a permission the way it is stored: `account` becomes `account:*`; `None` where nothing
/// in [`PERMISSIONS`] matches.
#[must_use]
pub fn normalize_permission(text: &str) -> Option<String> {
    let (group, value) = text.split_once(':').unwrap_or((text, "*"));
    if group == "*" {
        return (value == "*").then(|| "*:*".to_owned());
    }
    let known = PERMISSIONS.iter().filter_map(|known| known.split_once(':'));
    let mut matching = known.filter(|(g, v)| *g == group && (value == "*" || *v == value));
    matching.next().map(|_| format!("{group}:{value}"))
}

/// Whether `held` (of a role, normalized) grants `wanted` (`group:value`).
#[must_use]
pub fn grants(held: &str, wanted: &str) -> bool {
    held == "*:*"
        || held == wanted
        || held.strip_suffix(":*").is_some_and(|group| {
            wanted.split_once(':').is_some_and(|(wanted_group, _)| wanted_group == group)
        })
}

/// A user who may log in to the APIs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name to log in with; unique on the installation.
    pub username: String,
    /// argon2id hash (PHC string) of the password. Never journalled.
    #[serde(skip)]
    pub password_hash: String,
    /// Names of roles; one that does not exist grants nothing.
    pub roles: Vec<String>,
    /// False once the user was deleted.
    pub active: bool,
    pub revision: Revision,
}

impl Keyed for User {
    type Key = String;

    fn key(&self) -> Self::Key {
        self.username.clone()
    }
}

impl Entity for User {
    fn name(&self) -> String {
        format!("user {}", self.username)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn journalled(self) -> Self {
        Self { password_hash: String::new(), ..self }
    }
}

/// A named set of permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Unique on the installation.
    pub name: String,
    /// Normalized permissions ([`normalize_permission`]).
    pub permissions: Vec<String>,
    pub revision: Revision,
}

impl Keyed for Role {
    type Key = String;

    fn key(&self) -> Self::Key {
        self.name.clone()
    }
}

impl Entity for Role {
    fn name(&self) -> String {
        format!("role {}", self.name)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// Creates a user, or recreates a deleted one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateUser {
    pub username: String,
    /// argon2id hash (PHC string) of the password.
    pub password_hash: String,
    pub roles: Vec<String>,
}

/// Changes a user; `None` keeps a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateUser {
    pub username: String,
    /// A new password's hash.
    pub password_hash: Option<String>,
    /// New roles in place of the old.
    pub roles: Option<Vec<String>>,
    /// `Some(false)` deletes.
    pub active: Option<bool>,
}

/// Creates a role, or replaces the permissions of an existing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutRole {
    pub name: String,
    /// Not yet normalized.
    pub permissions: Vec<String>,
    /// True creates a role and refuses an existing one; false replaces and refuses an unknown one.
    pub create: bool,
}
