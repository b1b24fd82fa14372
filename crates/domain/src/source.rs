//! Where rows are loaded from.

use crate::entity::Entity;
use crate::rows::{Part, Parts, Rows};

/// Loads entities of any kind by key: a store, or the rows of a test.
pub trait Source {
    type Error;

    /// Loads the rows that are looked for.
    ///
    /// # Errors
    /// Where they cannot be read; here and below.
    fn rows<T: Entity>(&self, loaded: &mut Rows<T>) -> Result<(), Self::Error>;

    /// Loads all active parts of the owners that are looked for.
    fn parts<T: Entity + Part>(&self, loaded: &mut Parts<T>) -> Result<(), Self::Error>;
}
