//! Entities: rows with a history. Each change of one is an image in the journal that names the image before.

use std::fmt::Debug;

use crate::rows::Keyed;
use crate::{AccountId, Revision};

/// A stored row with a history in the journal.
pub trait Entity: Keyed + Clone + Debug + PartialEq + 'static {
    /// Its name in reports of problems, such as `account 018f...`.
    fn name(&self) -> String;

    /// The billing account that it belongs to.
    fn account(&self) -> Option<AccountId> {
        None
    }

    fn revision(&self) -> Revision;

    fn revision_mut(&mut self) -> &mut Revision;

    /// The image as the journal has it: without personal data and secrets.
    #[must_use]
    fn journalled(self) -> Self {
        self
    }
}
