//! Who may do what: users, roles and the one table of permissions.

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::execute::{Accepted, Outcome};
use crate::state::{Change, State};
use crate::{Rejection, Reply, Revision};

/// Every permission there is, as `group:value`: Kill Bill's names (contract section 5), and behind
/// them those of feature flags, of mails and of customers.
/// A role may also hold `group:*` or `*:*`.
pub const PERMISSIONS: &[&str] = &[
    "account:create",
    "account:update",
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
    "mail:read",
    "mail:send",
    "customer:read",
    "customer:write",
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

/// Somebody who may call.
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
    /// Its history.
    pub revision: Revision,
}

/// A named set of permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Unique on the installation.
    pub name: String,
    /// Normalized permissions ([`normalize_permission`]).
    pub permissions: Vec<String>,
    /// Its history.
    pub revision: Revision,
}

/// Makes a user, or one that was deleted anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateUser {
    /// See [`User::username`].
    pub username: String,
    /// See [`User::password_hash`].
    pub password_hash: String,
    /// See [`User::roles`].
    pub roles: Vec<String>,
}

/// Changes a user: what is `None` stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateUser {
    /// Whom.
    pub username: String,
    /// A new password's hash.
    pub password_hash: Option<String>,
    /// New roles in place of the old.
    pub roles: Option<Vec<String>>,
    /// `Some(false)` deletes.
    pub active: Option<bool>,
}

/// Makes a role, or gives an existing one other permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutRole {
    /// See [`Role::name`].
    pub name: String,
    /// Not yet normalized.
    pub permissions: Vec<String>,
    /// True makes a new one and refuses an existing; false the other way round.
    pub create: bool,
}

pub(crate) fn create_user(state: &State, it: &CreateUser, cx: &mut Context) -> Outcome {
    let before = state.user(&it.username);
    if before.is_some_and(|user| user.active) {
        return Err(Rejection::UserAlreadyExists { username: it.username.clone() });
    }
    cx.change(Change::User(User {
        username: it.username.clone(),
        password_hash: it.password_hash.clone(),
        roles: it.roles.clone(),
        active: true,
        revision: before.map_or(Revision::first(cx.seq), |user| user.revision.next(cx.seq)),
    }));
    Ok(Accepted::now(Reply::UserCreated(it.username.clone())))
}

pub(crate) fn update_user(state: &State, it: &UpdateUser, cx: &mut Context) -> Outcome {
    let before = state.user(&it.username).filter(|user| user.active);
    let Some(before) = before else {
        return Err(Rejection::UserNotFound { username: it.username.clone() });
    };
    let mut user = before.clone();
    if let Some(password_hash) = &it.password_hash {
        user.password_hash.clone_from(password_hash);
    }
    if let Some(roles) = &it.roles {
        user.roles.clone_from(roles);
    }
    user.active = it.active.unwrap_or(true);
    user.revision = before.revision.next(cx.seq);
    cx.change(Change::User(user));
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn put_role(state: &State, it: &PutRole, cx: &mut Context) -> Outcome {
    let before = state.role(&it.name);
    match (before, it.create) {
        (Some(_), true) => return Err(Rejection::RoleAlreadyExists { role: it.name.clone() }),
        (None, false) => return Err(Rejection::RoleNotFound { role: it.name.clone() }),
        (None, true) | (Some(_), false) => {}
    }
    let mut permissions = Vec::with_capacity(it.permissions.len());
    for permission in &it.permissions {
        permissions.push(
            normalize_permission(permission)
                .ok_or_else(|| Rejection::PermissionInvalid { permission: permission.clone() })?,
        );
    }
    cx.change(Change::Role(Role {
        name: it.name.clone(),
        permissions,
        revision: before.map_or(Revision::first(cx.seq), |role| role.revision.next(cx.seq)),
    }));
    Ok(Accepted::now(Reply::RoleCreated(it.name.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_normalized_and_unknown_ones_refused() {
        let normal = |text| normalize_permission(text);
        assert_eq!(normal("account"), Some("account:*".to_owned()));
        assert_eq!(normal("account:create"), Some("account:create".to_owned()));
        assert_eq!(normal("*"), Some("*:*".to_owned()));
        assert_eq!(normal("foo:bar"), None);
        assert_eq!(normal("account:bar"), None);
        assert_eq!(normal("*:create"), None);
        assert_eq!(normal(""), None);
    }

    #[test]
    fn what_is_held_grants_what_is_wanted() {
        assert!(grants("*:*", "account:create"));
        assert!(grants("account:*", "account:create"));
        assert!(grants("account:create", "account:create"));
        assert!(!grants("account:*", "payment:trigger"));
        assert!(!grants("account:create", "account:update"));
    }

    #[test]
    fn a_deleted_user_can_be_made_anew() {
        use crate::{Command, testing::Rows};
        let mut rows = Rows::new();
        let create = || {
            let (username, password_hash) = ("joe".to_owned(), "h".to_owned());
            Command::CreateUser(CreateUser { username, password_hash, roles: vec![] })
        };
        let update = |active| {
            let (username, password_hash) = ("joe".to_owned(), None);
            Command::UpdateUser(UpdateUser { username, password_hash, roles: None, active })
        };
        rows.run(create()).unwrap();
        assert!(matches!(rows.run(create()), Err(Rejection::UserAlreadyExists { .. })));
        rows.run(update(Some(false))).unwrap();
        assert!(matches!(rows.run(update(None)), Err(Rejection::UserNotFound { .. })));
        rows.run(create()).unwrap();
        assert!(rows.state.user("joe").unwrap().revision.previous.is_some());
    }
}
