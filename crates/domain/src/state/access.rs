//! Users and roles.

use super::State;
use crate::access::{Role, User};
use crate::change::AccessChange;
use crate::rows::Rows;

/// A row of access control that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessRead {
    User(String),
    Role(String),
}

#[derive(Clone, Debug, Default)]
pub struct AccessState {
    pub users: Rows<User>,
    pub roles: Rows<Role>,
}

impl State {
    pub(crate) fn user(&self, username: &str) -> Option<&User> {
        self.access.users.get(&username.to_owned())
    }

    pub(crate) fn role(&self, name: &str) -> Option<&Role> {
        self.access.roles.get(&name.to_owned())
    }
}

impl AccessState {
    pub(super) fn apply(&mut self, change: &AccessChange) {
        match change {
            AccessChange::User(it) => drop(self.users.put(it.clone())),
            AccessChange::Role(it) => drop(self.roles.put(it.clone())),
        }
    }
}
