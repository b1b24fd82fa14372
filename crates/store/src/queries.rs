//! Reads of committed rows: the engine's port, over a bounded pool of read-only connections.
//!
//! One file per aggregate below, which implements one of the supertraits of the port.

mod access;
mod accounts;
mod billing;
mod changes;
mod custom_fields;
mod customers;
mod disputes;
mod entitlements;
mod export;
mod flags;
mod followers;
mod history;
mod insights;
mod ledger;
mod mails;
mod operations;
mod outcomes;
mod payment_methods;
mod payments;
mod rows;
mod tags;
mod tenants;
mod timers;
mod usage;
mod window;

use std::path::Path;
use std::sync::Arc;

use domain::claim::ClaimKind;
use domain::{PartitionNo, TenantNo};
use engine::ports::{Queries, ReadLimits, StoreError};

pub(crate) use self::followers::journal_end;
pub(crate) use self::operations::expiries;
use self::window::Key;
use crate::catalogs::Catalogs;
use crate::claims::{Claims, RecentClaims};
use crate::journal_tail::JournalTail;
use crate::pool::{ReaderPool, Source};
use crate::{Options, Reader, Server};

/// The port's implementation.
pub struct SqlQueries {
    pool: Arc<ReaderPool>,
    claims: Arc<RecentClaims>,
    catalogs: Arc<Catalogs>,
    /// Of `partition`.
    journal: Arc<JournalTail>,
    partition: PartitionNo,
    limits: Option<ReadLimits>,
}

impl Queries for SqlQueries {
    fn within(&self, limits: ReadLimits) -> Box<dyn Queries> {
        Box::new(Self { limits: Some(limits), ..self.with_tail(Arc::clone(&self.journal)) })
    }
}

impl SqlQueries {
    /// Reads the database at `path` with at most `readers_max` connections. Finding what has a key
    /// is slow; in the process that writes, see [`crate::SqlStore::queries`].
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open(path: &Path, options: &Options, readers_max: usize) -> Result<Self, StoreError> {
        Self::open_source(Source::File(path.to_owned(), *options), readers_max)
    }

    /// [`SqlQueries::open`] of a database in a file or on a server, where a key is found at once.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open_source(source: Source, readers_max: usize) -> Result<Self, StoreError> {
        Self::beside(Arc::default(), source, readers_max)
    }

    /// Reads the database of a server with at most `readers_max` connections.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be reached.
    pub fn of_server(server: &Server, readers_max: usize) -> Result<Self, StoreError> {
        // Claims are put into their table at once there.
        let claims = Claims::new(None);
        Self::beside(Arc::clone(claims.recent()), Source::Server(server.clone()), readers_max)
    }

    /// Reads beside the writer, whose recent claims are `claims`.
    pub(crate) fn beside(
        claims: Arc<RecentClaims>,
        source: Source,
        readers_max: usize,
    ) -> Result<Self, StoreError> {
        let pool = Arc::new(ReaderPool::open(source, readers_max)?);
        let (journal, catalogs) = (Arc::default(), Arc::default());
        Ok(Self { pool, claims, catalogs, journal, partition: PartitionNo::FIRST, limits: None })
    }

    /// The same, of another partition.
    #[must_use]
    pub fn of(&self, partition: PartitionNo) -> Self {
        Self { partition, ..self.with_tail(Arc::default()) }
    }

    /// The same, beside the writer whose newest journal rows are `journal`.
    pub(crate) fn with_tail(&self, journal: Arc<JournalTail>) -> Self {
        let (pool, claims) = (Arc::clone(&self.pool), Arc::clone(&self.claims));
        let (partition, limits) = (self.partition, self.limits.clone());
        let catalogs = Arc::clone(&self.catalogs);
        Self { pool, claims, catalogs, journal, partition, limits }
    }

    /// Begins to look for what has a key; before the snapshot begins.
    fn seek<'k>(&self, no: TenantNo, kind: ClaimKind, key: &'k str) -> Key<'k> {
        Key::seek(&self.claims, (no, kind), key)
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.pool.read(self.limits.as_ref(), query)
    }

    /// Several statements that must see the same state of the database.
    fn snapshot<T>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.pool.read(self.limits.as_ref(), |reader| reader.snapshot(query))
    }
}
