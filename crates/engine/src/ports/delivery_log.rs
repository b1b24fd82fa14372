//! The log of webhook deliveries, what is known of endpoints, and replays: beside the journal, so that payments do not
//! wait for it, and it may be lost.

use domain::{PartitionNo, TenantNo, Timestamp, WebhookEndpointId};
use uuid::Uuid;

use super::{ReadLimits, StoreError};
use crate::webhooks::{
    DeliveryTry, Health, LogRetention, LoggedTry, RefusedEndpoint, Replay, ReplayProgress,
    TryFilter,
};

/// Where the log is. Connections to it are beside those that own partitions.
pub trait DeliveryLogSource: Send + Sync {
    /// Opens a connection that writes a partition's part of the log.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn open(&self, partition: PartitionNo) -> Result<Box<dyn DeliveryLog>, StoreError>;
    /// Opens a connection to the replays.
    fn open_replays(&self) -> Result<Box<dyn Replays>, StoreError>;
}

/// Writes a partition's part of the log. After an error it is of no more use.
pub trait DeliveryLog: Send {
    /// Adds tries, and what is known of endpoints since; all or nothing.
    ///
    /// # Errors
    /// [`StoreError`]: nothing was added, except where the outcome is not known.
    fn add(
        &mut self,
        tries: &[DeliveryTry],
        health: &[((TenantNo, WebhookEndpointId), Health)],
    ) -> Result<(), StoreError>;
    /// Deletes some of the oldest rows that are not kept; whether there may be more.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn forget(&mut self, kept: LogRetention) -> Result<bool, StoreError>;
    /// The partition's record of an endpoint's health; the default where it has none.
    fn health(&self, tenant: TenantNo, endpoint: WebhookEndpointId) -> Result<Health, StoreError>;
    /// Whether an endpoint received since then, by what any partition knows.
    fn has_received(
        &self,
        of: (TenantNo, WebhookEndpointId),
        since: Timestamp,
    ) -> Result<bool, StoreError>;
    /// The endpoints that are to be switched off, of all partitions.
    fn refused(&self) -> Result<Vec<RefusedEndpoint>, StoreError>;
    /// Forgets what is known of an endpoint: it was switched off, or is no more.
    fn forget_health(&self, it: RefusedEndpoint) -> Result<(), StoreError>;
}

/// Reads of the log.
pub trait DeliveryLogQueries: Send + Sync {
    /// A tenant's tries, the newest first. Looks at rows of the tenant that do not match, too, within these limits.
    ///
    /// # Errors
    /// [`StoreError`].
    fn tries(
        &self,
        tenant: TenantNo,
        filter: &TryFilter,
        limits: (u64, &ReadLimits),
    ) -> Result<Vec<LoggedTry>, StoreError>;
}

/// Replays: what was asked for, and how far each partition is. After an error it is of no more use.
pub trait Replays: Send {
    /// Adds a replay, and deletes old ones of the tenant that are done in all of so many partitions. False, and it
    /// was not added, where [`REPLAYS_MAX`](crate::webhooks::REPLAYS_MAX) of them are not.
    ///
    /// # Errors
    /// [`StoreError`]: it was not added, except where the outcome is not known.
    fn add(&self, it: &Replay, partitions: usize) -> Result<bool, StoreError>;
    /// The replays that a partition is not done with, the oldest first.
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn running(&self, partition: PartitionNo) -> Result<Vec<(Replay, ReplayProgress)>, StoreError>;
    /// Records how far a partition is with a replay.
    fn advance(
        &self,
        replay: (TenantNo, Uuid),
        partition: PartitionNo,
        it: ReplayProgress,
    ) -> Result<(), StoreError>;
    /// A replay of a tenant, and how far each partition is that has begun with it.
    fn find(
        &self,
        tenant: TenantNo,
        id: Uuid,
    ) -> Result<Option<(Replay, Vec<ReplayProgress>)>, StoreError>;
}
