//! Users and roles.

use crate::access::{Role, User};
use crate::change::AccessChange;
use crate::rows::Rows;
use crate::source::Source;

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

impl AccessState {
    pub(crate) fn look_for(&mut self, read: &AccessRead) {
        match read {
            AccessRead::User(name) => self.users.look_for(name.clone()),
            AccessRead::Role(name) => self.roles.look_for(name.clone()),
        }
    }

    /// Loads the rows that are looked for.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load<S: Source>(&mut self, from: &S) -> Result<(), S::Error> {
        from.rows(&mut self.users)?;
        from.rows(&mut self.roles)
    }

    pub(crate) fn apply(&mut self, change: &AccessChange) {
        match change {
            AccessChange::User(it) => drop(self.users.put(it.clone())),
            AccessChange::Role(it) => drop(self.roles.put(it.clone())),
        }
    }
}
