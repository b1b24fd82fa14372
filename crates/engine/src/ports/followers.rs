//! Reads for followers of the journal: its rows, their progress, and deliveries.

use std::sync::Arc;

use domain::{AccountId, Event, Seq, TenantNo, Timestamp, WebhookEndpointId};
use uuid::Uuid;

use super::{Entry, StoreError};
use crate::webhooks::DeliveryId;

/// Reads for followers of the journal: its rows, their progress, and deliveries.
pub trait FollowerQueries: Send + Sync {
    /// Journal rows with events after `after`, in order; at most `limit`. The second value is the
    /// last row looked at: rows without events are skipped, and a follower need not see them again.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn journal_after(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<(Vec<Arc<JournalRow>>, Seq), StoreError>;
    /// One journal row's events.
    fn journal_row(&self, seq: Seq) -> Result<Option<JournalRow>, StoreError>;
    /// The last journal row written; 0 for none.
    fn journal_head(&self) -> Result<Seq, StoreError>;
    /// The last journal row of each partition, in their order.
    fn journal_heads(&self) -> Result<Vec<Seq>, StoreError>;
    /// The domain time of the last journal rows of all partitions, the latest of them; `None` where there is none.
    fn journal_heads_at(&self) -> Result<Option<Timestamp>, StoreError>;
    /// The last row that a follower has processed; 0 at first.
    fn followed(&self, follower: &str) -> Result<Seq, StoreError>;
    /// Deliveries due at `now` behind `after`, in the order in which they are due.
    fn deliveries_due(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, DeliveryId)>,
        limit: usize,
    ) -> Result<Vec<Delivery>, StoreError>;
    /// How many deliveries wait for another attempt.
    fn deliveries_waiting(&self) -> Result<i64, StoreError>;
    /// Deliveries to a tenant's callback that wait for another attempt, in the order of the journal. Looks at
    /// those of all tenants: for `Engine::scan`.
    fn deliveries_of(
        &self,
        no: TenantNo,
        account: Option<AccountId>,
        window: QueueWindow<DeliveryId>,
    ) -> Result<Vec<WaitingDelivery>, StoreError>;
}

/// A part of what a tenant has in a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueWindow<K> {
    /// The last row before it; `None`: it begins with the first row.
    pub after: Option<K>,
    /// The first and the last time of its rows.
    pub times: (Timestamp, Timestamp),
    pub limit: u64,
}

/// A delivery that waits for another attempt, with its event.
#[derive(Clone, Debug)]
pub struct WaitingDelivery {
    pub delivery: Delivery,
    /// Domain time of the event's batch.
    pub at: Timestamp,
    /// Names the event's request to its caller.
    pub token: Uuid,
    pub event: Event,
}

/// A journal row, as followers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRow {
    pub seq: Seq,
    /// Domain time of its batch.
    pub at: Timestamp,
    /// Real time of the commit, for measuring lag.
    pub committed_at: Timestamp,
    pub tenant: TenantNo,
    pub events: Vec<Event>,
}

impl JournalRow {
    /// The row of a command that was committed at a time.
    #[must_use]
    pub fn of(entry: &Entry, committed_at: Timestamp) -> Self {
        let Entry { seq, at, tenant, events, .. } = entry;
        Self { seq: *seq, at: *at, committed_at, tenant: *tenant, events: events.clone() }
    }
}

/// The endpoint that a tenant's callback of Kill Bill's counts as.
pub const CALLBACK: WebhookEndpointId = WebhookEndpointId::new(Uuid::nil());

/// The id of a registration of that callback, where it matters whether it receives: the next one is not switched off
/// for the one before. `registered` is the journal row. No endpoint has such an id.
#[must_use]
pub fn callback_of(registered: Seq) -> WebhookEndpointId {
    WebhookEndpointId::new(Uuid::from_u128(u128::from(registered.0.unsigned_abs())))
}

/// The journal row of the registration that an id means; `None` for an endpoint's.
#[must_use]
pub fn registration_of(id: WebhookEndpointId) -> Option<Seq> {
    i64::try_from(id.uuid().as_u128()).ok().map(Seq)
}

/// An event that could not be delivered to an endpoint so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub tenant: TenantNo,
    /// How many attempts have failed.
    pub attempts: u32,
    /// Domain time of the next attempt.
    pub due_at: Timestamp,
    /// Why the last attempt failed.
    pub error: String,
}
