//! Users and roles, as rules look them up.

use crate::access::{Role, User};
use crate::state::State;

impl State {
    pub(crate) fn user(&self, username: &str) -> Option<&User> {
        self.access.users.get(&username.to_owned())
    }

    pub(crate) fn role(&self, name: &str) -> Option<&Role> {
        self.access.roles.get(&name.to_owned())
    }
}
