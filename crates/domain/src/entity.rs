//! Entities: rows with a history. Each change of one is an image in the journal that names the image before.

use std::fmt::Debug;

use uuid::Uuid;

use crate::rows::{Keyed, Part, Parts, Rows};
use crate::{AccountId, Id, Revision};

/// A stored row with a history in the journal.
pub trait Entity: Keyed + Clone + Debug + PartialEq + Send + Sync + 'static {
    fn facts(&self) -> Facts;

    /// Its name in reports of problems, such as `account 018f...`.
    fn name(&self) -> String {
        let Facts { kind, id, .. } = self.facts();
        id.map_or_else(|| kind.to_owned(), |id| format!("{kind} {id}"))
    }

    fn revision(&self) -> Revision {
        self.facts().revision
    }

    fn revision_mut(&mut self) -> &mut Revision;

    /// The image as the journal has it: without personal data and secrets, which serde skips.
    #[must_use]
    fn journalled(mut self) -> Self {
        self.erase();
        self
    }

    /// Erases personal data, once the person of its account is erased.
    fn erase(&mut self) {}
}

/// The facts that an entity of any kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its kind, as reports of problems name it.
    pub kind: &'static str,
    /// The id that its history is asked for by; `None` where it has another name.
    pub id: Option<Uuid>,
    /// The billing account that it belongs to.
    pub account: Option<AccountId>,
    pub revision: Revision,
}

impl Facts {
    pub(crate) const fn new<K>(kind: &'static str, id: Id<K>, revision: Revision) -> Self {
        Self { kind, id: Some(id.uuid()), account: None, revision }
    }

    /// Those of an entity that has no id, and a name of its own.
    pub(crate) const fn nameless(revision: Revision) -> Self {
        Self { kind: "", id: None, account: None, revision }
    }

    /// The same, of an account.
    pub(crate) const fn of(self, account: AccountId) -> Self {
        Self { account: Some(account), ..self }
    }
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

impl<T: Entity> Rows<T> {
    /// Erases personal data in the rows that are somebody's own.
    pub(crate) fn erase(&mut self, is_own: impl Fn(&T) -> bool) {
        self.iter_mut().filter(|it| is_own(it)).for_each(Entity::erase);
    }
}

impl<T: Entity + Part> Parts<T> {
    /// Erases personal data in the parts that are somebody's own, and takes away those that are none without it.
    pub(crate) fn erase(&mut self, is_own: impl Fn(&T) -> bool) {
        self.iter_mut().filter(|it| is_own(it)).for_each(Entity::erase);
        self.retain(Part::is_active);
    }
}
