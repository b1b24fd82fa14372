//! The follower's reads from the store: the journal, and the deliveries that are due.

use std::collections::btree_map::Entry;
use std::collections::hash_map::Entry as HashEntry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{Seq, TenantNo};
use engine::Engine;
use engine::ports::{Delivery, DeliveryId, JournalRow, Queries, StoreError};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::targets::{Target, Targets};

/// The maximum number of journal rows per read.
const ROWS_MAX: usize = 1_024;
/// The maximum number of postponed deliveries per read.
const DUE_MAX: usize = 1_024;
/// The delay of the next read of the journal after a read to its end, so that small commits are read
/// together.
const READ_INTERVAL: Duration = Duration::from_millis(20);
/// The interval of reads of due deliveries.
const DUE_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum number of ended deliveries that a read of due ones skips. Further ones may be made twice.
const ENDED_MAX: usize = 65_536;
/// The delay of a retry after a failure of the store.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The targets of each tenant's events.
type TargetsOf = BTreeMap<TenantNo, Arc<Vec<Arc<Target>>>>;

/// See [`DeliveriesInProgress`].
pub(crate) type InProgress = Arc<Mutex<DeliveriesInProgress>>;

/// Stored deliveries, first attempts that became rows, and those of events that are delivered again, with the
/// numbers of their pages: while they are in progress, their rows in the store, if any, are outdated.
#[derive(Default)]
pub(crate) struct DeliveriesInProgress {
    current: HashMap<DeliveryId, Option<u64>>,
    /// Those that ended since the latest read of due deliveries began: it may have found rows that are no more.
    ended: HashSet<DeliveryId>,
}

impl DeliveriesInProgress {
    /// False where it was in progress already.
    pub(crate) fn begin(&mut self, id: DeliveryId, page: Option<u64>) -> bool {
        match self.current.entry(id) {
            HashEntry::Occupied(_) => false,
            HashEntry::Vacant(new) => {
                new.insert(page);
                true
            }
        }
    }

    /// Notes that a delivery in progress has a row; returns the page that it was of.
    pub(crate) fn begin_as_row(&mut self, id: DeliveryId) -> Option<u64> {
        self.current.insert(id, None).flatten()
    }

    /// Returns the page that it was of.
    pub(crate) fn end(&mut self, id: DeliveryId) -> Option<u64> {
        let page = self.current.remove(&id)?;
        if self.ended.len() < ENDED_MAX {
            self.ended.insert(id);
        }
        page
    }

    fn read_begins(&mut self) {
        self.ended.clear();
    }

    fn is_outdated(&self, row: DeliveryId) -> bool {
        self.current.contains_key(&row) || self.ended.contains(&row)
    }
}

/// Journal rows with what the events of their tenants are delivered to.
pub(crate) struct Batch {
    pub(crate) rows: Vec<Arc<JournalRow>>,
    pub(crate) targets: TargetsOf,
    pub(crate) upto: Seq,
}

/// A postponed delivery with its journal row and its target as it is now.
pub(crate) struct Due {
    pub(crate) delivery: Delivery,
    pub(crate) row: Option<JournalRow>,
    pub(crate) target: Option<Arc<Target>>,
}

pub(crate) fn locked(in_progress: &InProgress) -> MutexGuard<'_, DeliveriesInProgress> {
    in_progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the journal behind `cursor`.
pub(crate) async fn read_journal(
    (engine, targets): (Engine, Arc<Targets>),
    cursor: Seq,
    batches: mpsc::Sender<Batch>,
) {
    let (mut head, mut position) = (engine.head(), cursor);
    loop {
        let upto = *head.borrow_and_update();
        if upto <= position {
            if head.changed().await.is_err() {
                return;
            }
            continue;
        }
        let targets = Arc::clone(&targets);
        match engine.read(move |queries| batch(queries, &targets, position)).await {
            Ok(batch) => {
                position = batch.upto.max(position);
                let is_full = batch.rows.len() == ROWS_MAX;
                if batches.send(batch).await.is_err() {
                    return;
                }
                if is_full {
                    continue;
                }
            }
            Err(error) => {
                tracing::warn!(error = %error, "failed to read the journal for push notifications; retrying");
                sleep(RETRY_DELAY).await;
            }
        }
        sleep(READ_INTERVAL).await;
    }
}

fn batch(queries: &dyn Queries, targets: &Targets, after: Seq) -> Result<Batch, StoreError> {
    // The head is read before the targets: the event of one that is registered in between is behind that
    // head.
    let head = queries.journal_head()?;
    if !Targets::are_there(queries)? {
        return Ok(Batch { rows: vec![], targets: BTreeMap::new(), upto: head });
    }
    let (rows, upto) = queries.journal_after(after, ROWS_MAX)?;
    let mut found = TargetsOf::new();
    for row in &rows {
        if let Entry::Vacant(unknown) = found.entry(row.tenant) {
            unknown.insert(targets.of(queries, row.tenant)?);
        }
    }
    let upto = rows.last().map_or(upto, |last| upto.max(last.seq));
    Ok(Batch { rows, targets: found, upto })
}

/// Reads what is due, again and again, in pages: what is in progress does not stand in the way of what is
/// behind it.
pub(crate) async fn read_due(
    (engine, targets): (Engine, Arc<Targets>),
    in_progress: InProgress,
    dues: mpsc::Sender<Vec<Due>>,
) {
    let mut after = None;
    loop {
        let now = engine.clock().now();
        let (targets, in_progress) = (Arc::clone(&targets), Arc::clone(&in_progress));
        let read = move |queries: &dyn Queries| {
            locked(&in_progress).read_begins();
            let deliveries = queries.deliveries_due(now, after, DUE_MAX)?;
            let last = deliveries.last().filter(|_| deliveries.len() == DUE_MAX);
            let last = last.map(|it| (it.due_at, it.id));
            Ok((due(queries, &targets, (deliveries, &in_progress))?, last))
        };
        match engine.read(read).await {
            Ok((due, last)) => {
                after = last;
                if !due.is_empty() && dues.send(due).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(error = %error, "failed to read postponed push notifications; retrying");
                after = None;
            }
        }
        if after.is_none() {
            sleep(DUE_INTERVAL).await;
        }
    }
}

fn due(
    queries: &dyn Queries,
    targets: &Targets,
    (deliveries, in_progress): (Vec<Delivery>, &InProgress),
) -> Result<Vec<Due>, StoreError> {
    let mut found = TargetsOf::new();
    let waiting = |it: &Delivery| !locked(in_progress).is_outdated(it.id);
    let mut dues = vec![];
    for delivery in deliveries.into_iter().filter(waiting) {
        let of_tenant = match found.entry(delivery.tenant) {
            Entry::Vacant(unknown) => unknown.insert(targets.of(queries, delivery.tenant)?),
            Entry::Occupied(known) => known.into_mut(),
        };
        let target = of_tenant.iter().find(|it| it.endpoint == delivery.id.endpoint).cloned();
        let row = queries.journal_row(delivery.id.seq)?;
        dues.push(Due { delivery, row, target });
    }
    Ok(dues)
}
