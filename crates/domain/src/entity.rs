//! Entities: rows with a history. Each change of one is an image in the journal that names the image before.

use std::fmt::Debug;

use uuid::Uuid;

use crate::rows::Keyed;
use crate::{AccountId, Revision};

/// A stored row with a history in the journal.
pub trait Entity: Keyed + Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Its name in reports of problems, such as `account 018f...`.
    fn name(&self) -> String;

    /// The id that its history is asked for by; `None` where it has another name.
    fn id(&self) -> Option<Uuid> {
        None
    }

    /// The billing account that it belongs to.
    fn account(&self) -> Option<AccountId> {
        None
    }

    fn revision(&self) -> Revision;

    fn revision_mut(&mut self) -> &mut Revision;

    /// The image as the journal has it: without personal data and secrets.
    #[must_use]
    fn journalled(mut self) -> Self {
        self.erase();
        self
    }

    /// Erases personal data, once the person of its account is erased.
    fn erase(&mut self) {}
}

/// An operation on an entity of any kind: see [`Change::entity`](crate::change::Change::entity).
pub trait Visitor<'a> {
    type Output;

    fn visit<T: Entity>(self, entity: &'a T) -> Self::Output;
}

/// The result of a visit.
pub type Visited<T> = Result<T, NoEntity>;

/// A row that is no entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoEntity {
    /// The billing account that it belongs to.
    pub account: Option<AccountId>,
}

impl NoEntity {
    pub(crate) const fn of(account: AccountId) -> Self {
        Self { account: Some(account) }
    }
}
