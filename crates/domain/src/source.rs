//! Where rows are loaded from.

use crate::entity::Entity;
use crate::rows::{Part, Parts, Rows};

/// Loads entities of any kind by key: a store, or the rows of a test.
pub trait Source {
    type Error;

    /// Loads the rows with these keys; a key without a row is noted as looked for.
    ///
    /// # Errors
    /// Where they cannot be read; here and below.
    fn rows<T: Entity>(&self, keys: Vec<T::Key>, loaded: &mut Rows<T>) -> Result<(), Self::Error>;

    /// Loads all active parts of these owners.
    fn parts<T: Entity + Part>(
        &self,
        owners: Vec<T::Owner>,
        loaded: &mut Parts<T>,
    ) -> Result<(), Self::Error>;
}
