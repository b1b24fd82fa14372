//! Commands about users and roles.

use serde::{Deserialize, Serialize};

use crate::access::{CreateUser, PutRole, UpdateUser};
use crate::read::{AccessRead, Read};

/// A command about a user or a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessCommand {
    CreateUser(CreateUser),
    UpdateUser(UpdateUser),
    PutRole(PutRole),
}

impl AccessCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateUser(_) => "CreateUser",
            Self::UpdateUser(_) => "UpdateUser",
            Self::PutRole(_) => "PutRole",
        }
    }

    /// The rows that executing it may look at.
    pub(crate) fn reads(&self, read: &mut impl FnMut(Read)) {
        match self {
            Self::CreateUser(it) => read(AccessRead::User(it.username.clone()).into()),
            Self::UpdateUser(it) => read(AccessRead::User(it.username.clone()).into()),
            Self::PutRole(it) => read(AccessRead::Role(it.name.clone()).into()),
        }
    }
}
