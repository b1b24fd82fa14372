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
    /// Loads the rows of reads.
    ///
    /// # Errors
    /// Those of the source.
    pub fn load<'a, S: Source>(
        &mut self,
        reads: impl IntoIterator<Item = &'a AccessRead>,
        from: &S,
    ) -> Result<(), S::Error> {
        let (mut users, mut roles) = (vec![], vec![]);
        for read in reads {
            match read {
                AccessRead::User(name) => users.push(name.clone()),
                AccessRead::Role(name) => roles.push(name.clone()),
            }
        }
        from.rows(users, &mut self.users)?;
        from.rows(roles, &mut self.roles)
    }

    pub(crate) fn apply(&mut self, change: &AccessChange) {
        match change {
            AccessChange::User(it) => drop(self.users.put(it.clone())),
            AccessChange::Role(it) => drop(self.roles.put(it.clone())),
        }
    }
}
