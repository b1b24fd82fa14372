//! Scans: reads that look at every row of a tenant. They have a connection of their own and a thread of
//! low priority, and each tenant has one at a time, so that they delay no other read and no payment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::TenantNo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::ports::{Queries, ReadLimits, StoreError};
use crate::readers::{READ_WITHIN, answer, refused_full};
use crate::{Reason, Unavailable, priority};

/// Scans at the same time; as many connections are open for them.
pub const SCANS_MAX: usize = 1;

/// How long a scan waits to begin.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Scans of one tenant that run or wait; more are refused at once.
const SCANS_OF_TENANT_MAX: usize = 16;

/// Scans of all tenants that run or wait; more are refused at once.
const SCANS_OF_ALL_MAX: usize = 256;

pub(crate) struct Scans {
    queries: Arc<dyn Queries>,
    free: Arc<Semaphore>,
    tenants: Arc<Mutex<BTreeMap<TenantNo, ScanQueue>>>,
}

/// The scans of a tenant that has some.
struct ScanQueue {
    /// One permit: the scan that runs, or is the next of its tenant to run.
    free: Arc<Semaphore>,
    /// Those that run or wait.
    scans: usize,
}

impl Scans {
    pub(crate) fn new(queries: Arc<dyn Queries>) -> Self {
        let free = Arc::new(Semaphore::new(SCANS_MAX));
        Self { queries, free, tenants: Arc::default() }
    }

    pub(crate) async fn scan<T, F>(&self, tenant: TenantNo, query: F) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let ticket = ScanTicket::take(&self.tenants, tenant)?;
        let permits = tokio::time::timeout(WAIT_MAX, self.permits(&ticket)).await;
        let permits = permits.map_err(|_| refused_full())??;
        let (limits, _awaited) = ReadLimits::new(READ_WITHIN);
        let (sender, result) = oneshot::channel();
        let queries = Arc::clone(&self.queries);
        let began = std::thread::Builder::new().name("scan".to_owned()).spawn(move || {
            priority::lower("scan");
            let found = query(&*queries.within(limits.from_now()));
            // The next scan finds the connection returned, whether or not this one is awaited.
            drop((permits, ticket));
            let _ = sender.send(found);
        });
        if began.is_err() {
            return Err(refused_full());
        }
        answer(result.await)
    }

    /// The tenant's permit first: a tenant waits in the queue of all with one scan.
    async fn permits(&self, ticket: &ScanTicket) -> Result<[OwnedSemaphorePermit; 2], Unavailable> {
        let stopping = |_| Unavailable::from(Reason::Stopping);
        let of_tenant = Arc::clone(&ticket.free).acquire_owned().await.map_err(stopping)?;
        let of_all = Arc::clone(&self.free).acquire_owned().await.map_err(stopping)?;
        Ok([of_tenant, of_all])
    }
}

/// A scan among those that run or wait, as long as it lives.
struct ScanTicket {
    tenants: Arc<Mutex<BTreeMap<TenantNo, ScanQueue>>>,
    tenant: TenantNo,
    free: Arc<Semaphore>,
}

impl ScanTicket {
    fn take(
        tenants: &Arc<Mutex<BTreeMap<TenantNo, ScanQueue>>>,
        tenant: TenantNo,
    ) -> Result<Self, Unavailable> {
        let mut all = lock(tenants);
        let of_all: usize = all.values().map(|queue| queue.scans).sum();
        let of_tenant = all.get(&tenant).map_or(0, |queue| queue.scans);
        if of_tenant >= SCANS_OF_TENANT_MAX || of_all >= SCANS_OF_ALL_MAX {
            return Err(refused_full());
        }
        let new = || ScanQueue { free: Arc::new(Semaphore::new(1)), scans: 0 };
        let queue = all.entry(tenant).or_insert_with(new);
        queue.scans += 1;
        let free = Arc::clone(&queue.free);
        drop(all);
        Ok(Self { tenants: Arc::clone(tenants), tenant, free })
    }
}

impl Drop for ScanTicket {
    fn drop(&mut self) {
        let mut all = lock(&self.tenants);
        if let Some(queue) = all.get_mut(&self.tenant) {
            queue.scans -= 1;
            if queue.scans == 0 {
                all.remove(&self.tenant);
            }
        }
    }
}

fn lock(
    tenants: &Mutex<BTreeMap<TenantNo, ScanQueue>>,
) -> MutexGuard<'_, BTreeMap<TenantNo, ScanQueue>> {
    // Nothing panics while it is locked, so that it is whole even if somebody poisoned it.
    tenants.lock().unwrap_or_else(PoisonError::into_inner)
}
