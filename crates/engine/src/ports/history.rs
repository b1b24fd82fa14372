//! Reads of the states that entities had.

use std::any::TypeId;
use std::collections::BTreeMap;

use domain::change::Change;
use domain::entity::{Entity, Visitor};
use domain::import::AuditKind;
use domain::payment::Actor;
use domain::{AccountId, Person, Seq, TenantNo, Timestamp};
use uuid::Uuid;

use super::StoreError;

/// Reads of the states that entities had.
pub trait HistoryQueries: Send + Sync {
    /// The history of one entity, oldest first; empty where there is no such entity.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn history(&self, no: TenantNo, of: HistoryOf) -> Result<Vec<HistoryRow>, StoreError>;
    /// The histories of an account and of all that belongs to it and is shown in its audit, each oldest first, one kind
    /// after another; at most `limit` rows.
    fn account_histories(
        &self,
        no: TenantNo,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError>;
    /// The first state of each of these entities that is there, by id. Nothing that is kept out of the journal is filled in;
    /// here and below.
    fn first_states(
        &self,
        no: TenantNo,
        of: &[HistoryOf],
    ) -> Result<BTreeMap<Uuid, HistoryRow>, StoreError>;
    /// The state of an entity that a journal row wrote; `None`: it wrote none of it.
    fn state_in(
        &self,
        no: TenantNo,
        of: HistoryOf,
        seq: Seq,
    ) -> Result<Option<HistoryRow>, StoreError>;
    /// The state that an entity had after a journal row; `None`: it was not there yet.
    fn state_at(
        &self,
        no: TenantNo,
        of: HistoryOf,
        seq: Seq,
    ) -> Result<Option<HistoryRow>, StoreError>;
}

/// The entity whose history is read: its kind, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryOf {
    pub kind: TypeId,
    pub id: Uuid,
}

impl HistoryOf {
    /// The entity of a kind with an id.
    #[must_use]
    pub fn new<T: Entity>(id: Uuid) -> Self {
        Self { kind: TypeId::of::<T>(), id }
    }

    /// The entity whose image a change is; `None` where it has no history of its own.
    #[must_use]
    pub fn in_change(change: &Change) -> Option<Self> {
        change.entity(ReadHistoryOf).flatten()
    }
}

struct ReadHistoryOf;

impl Visitor<'_> for ReadHistoryOf {
    type Output = Option<HistoryOf>;

    fn visit<T: Entity>(self, entity: &T) -> Option<HistoryOf> {
        entity.facts().id.map(HistoryOf::new::<T>)
    }
}

/// One state that an entity had.
#[derive(Clone, Debug)]
pub struct HistoryRow {
    /// The journal row.
    pub seq: Seq,
    pub at: Timestamp,
    pub actor: Actor,
    /// The entity as it was, with the fields that are kept out of the journal filled in from its table.
    pub image: Change,
    /// For an account: what was known of the person then.
    pub person: Option<Person>,
    /// Set for an entry of another system's audit log. The image is that of the import then.
    pub imported: Option<AuditKind>,
}
