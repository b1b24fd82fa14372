//! Users and roles: how they are created and changed.

use crate::access::command::AccessCommand;
use crate::access::{CreateUser, PutRole, Role, UpdateUser, User, normalize_permission};
use crate::change::AccessChange;
use crate::context::Context;
use crate::reply::{AccessReply, Outcome};
use crate::state::State;
use crate::tenant::PROBE;
use crate::{Accepted, AccessRejection, Rejection, Reply, Revision};

/// Executes a command of this group.
pub(crate) fn execute(state: &State, command: &AccessCommand, cx: &mut Context) -> Outcome {
    match command {
        AccessCommand::CreateUser(it) => create_user(state, it, cx),
        AccessCommand::UpdateUser(it) => update_user(state, it, cx),
        AccessCommand::PutRole(it) => put_role(state, it, cx),
    }
}

pub(crate) fn create_user(state: &State, it: &CreateUser, cx: &mut Context) -> Outcome {
    let before = state.user(&it.username);
    // With the probe's name one could take its tenant's.
    if it.username == PROBE || before.is_some_and(|user| user.active) {
        return Err(AccessRejection::UserAlreadyExists { username: it.username.clone() }.into());
    }
    cx.change(AccessChange::User(User {
        username: it.username.clone(),
        password_hash: it.password_hash.clone(),
        roles: it.roles.clone(),
        active: true,
        revision: before.map_or(Revision::first(cx.seq), |user| user.revision.next(cx.seq)),
    }));
    Ok(Accepted::now(Reply::Access(AccessReply::UserCreated(it.username.clone()))))
}

pub(crate) fn update_user(state: &State, it: &UpdateUser, cx: &mut Context) -> Outcome {
    let before = state.user(&it.username).filter(|user| user.active);
    let Some(before) = before else {
        return Err(AccessRejection::UserNotFound { username: it.username.clone() }.into());
    };
    let mut user = before.clone();
    if let Some(password_hash) = &it.password_hash {
        user.password_hash.clone_from(password_hash);
    }
    if let Some(roles) = &it.roles {
        user.roles.clone_from(roles);
    }
    user.active = it.active.unwrap_or(true);
    if !user.active {
        user.password_hash = String::new();
    }
    user.revision = before.revision.next(cx.seq);
    cx.change(AccessChange::User(user));
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn put_role(state: &State, it: &PutRole, cx: &mut Context) -> Outcome {
    let before = state.role(&it.name);
    match (before, it.create) {
        (Some(_), true) => {
            return Err(AccessRejection::RoleAlreadyExists { role: it.name.clone() }.into());
        }
        (None, false) => return Err(AccessRejection::RoleNotFound { role: it.name.clone() }.into()),
        (None, true) | (Some(_), false) => {}
    }
    let mut permissions = Vec::with_capacity(it.permissions.len());
    for permission in &it.permissions {
        permissions.push(normalize_permission(permission).ok_or_else(|| {
            Rejection::Access(AccessRejection::PermissionInvalid { permission: permission.clone() })
        })?);
    }
    cx.change(AccessChange::Role(Role {
        name: it.name.clone(),
        permissions,
        revision: before.map_or(Revision::first(cx.seq), |role| role.revision.next(cx.seq)),
    }));
    Ok(Accepted::now(Reply::Access(AccessReply::RoleCreated(it.name.clone()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::grants;
    use crate::command::AccessCommand;

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
    fn held_permissions_grant_requested_ones() {
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
            Command::Access(AccessCommand::CreateUser(CreateUser {
                username,
                password_hash,
                roles: vec![],
            }))
        };
        let update = |active| {
            let (username, password_hash) = ("joe".to_owned(), None);
            Command::Access(AccessCommand::UpdateUser(UpdateUser {
                username,
                password_hash,
                roles: None,
                active,
            }))
        };
        rows.run(create()).unwrap();
        assert!(matches!(
            rows.run(create()),
            Err(Rejection::Access(AccessRejection::UserAlreadyExists { .. }))
        ));
        rows.run(update(Some(false))).unwrap();
        assert!(matches!(
            rows.run(update(None)),
            Err(Rejection::Access(AccessRejection::UserNotFound { .. }))
        ));
        rows.run(create()).unwrap();
        assert!(rows.state.user("joe").unwrap().revision.previous.is_some());
    }
}
