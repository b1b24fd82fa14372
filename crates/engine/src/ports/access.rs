//! Reads of users and roles.

use domain::Seq;
use domain::access::{Role, User};

use super::StoreError;

/// Reads of users and roles.
pub trait AccessQueries: Send + Sync {
    /// A user, deleted or not.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn user(&self, username: &str) -> Result<Option<User>, StoreError>;
    fn role(&self, name: &str) -> Result<Option<Role>, StoreError>;
    /// All roles, by name.
    fn roles(&self) -> Result<Vec<Role>, StoreError>;
    /// The newest change of users, roles, tenants or tenants' values.
    fn access_head(&self) -> Result<Seq, StoreError>;
}
