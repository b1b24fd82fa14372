//! Users, roles and feature flags, as they are written.

use domain::change::{AccessChange, FlagChange};

use super::Tables;

impl Tables {
    pub(super) fn change_access(&mut self, change: AccessChange) {
        match change {
            AccessChange::User(it) => drop(self.users.insert(it.username.clone(), it)),
            AccessChange::Role(it) => drop(self.roles.insert(it.name.clone(), it)),
        }
    }

    pub(super) fn change_flag(&mut self, change: FlagChange) {
        match change {
            FlagChange::Environment(it) => {
                self.environments.insert((it.tenant, it.id), it);
            }
            FlagChange::Secret(it) => drop(self.secrets.insert((it.tenant, it.id), it)),
            FlagChange::Definition(it) => {
                self.definitions.insert((it.tenant, it.key.clone()), it);
            }
            FlagChange::ChangeRequest(it) => {
                self.change_requests.insert((it.tenant, it.id), it);
            }
        }
    }
}
