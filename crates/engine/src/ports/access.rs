//! Reads of users and roles.

use domain::access::{Role, User};
use domain::{Seq, Timestamp};

use super::{Page, StoreError};

/// Reads of users and roles.
pub trait AccessQueries: Send + Sync {
    /// A user, deleted or not.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn user(&self, username: &str) -> Result<Option<User>, StoreError>;
    /// Users, deleted or not, by name.
    fn users(&self, page: Page) -> Result<Vec<UserView>, StoreError>;
    fn role(&self, name: &str) -> Result<Option<Role>, StoreError>;
    /// All roles, by name.
    fn roles(&self) -> Result<Vec<Role>, StoreError>;
    /// The newest change of users, roles, tenants or tenants' values.
    fn access_head(&self) -> Result<Seq, StoreError>;
}

/// A user, as operators see them: without the password's hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserView {
    pub username: String,
    /// Names of roles.
    pub roles: Vec<String>,
    /// False once the user was deleted.
    pub active: bool,
    /// Domain time of the batch that changed the user last.
    pub updated_at: Timestamp,
}
