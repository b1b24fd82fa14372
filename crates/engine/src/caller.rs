//! The user of a request.

use domain::access::grants;

/// An authenticated user.
#[derive(Debug)]
pub struct Caller {
    /// The name they log in with.
    pub username: String,
    /// The permissions that their roles grant, normalized, sorted.
    pub permissions: Vec<String>,
}

impl Caller {
    /// Whether they may do something, such as `payment:trigger`.
    #[must_use]
    pub fn may(&self, permission: &str) -> bool {
        self.permissions.iter().any(|held| grants(held, permission))
    }
}
