//! The follower: reads the journal, schedules deliveries on the lanes, and records its cursor.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use domain::tenant::PUSH_CALLBACK;
use domain::{Seq, TenantNo, Timestamp};
use engine::ports::{Bookkeeping, Delivery, DeliveryId, JournalRow, Queries, StoreError};
use engine::{Engine, Reason};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::body::body;
use super::lanes::{Admission, CallbackResponse, Destination, Job, Lanes};
use super::options::{FOLLOWER, Options, RETRY_DELAYS};
use super::post::{Failure, Poster};

/// The maximum number of journal rows per read.
const ROWS_MAX: usize = 1_024;
/// The maximum number of postponed deliveries per read.
const DUE_MAX: usize = 256;
/// The maximum number of rows per write.
const WRITES_MAX: usize = 1_024;

/// The delay of the next read of the journal after a read to its end, so that small commits are read
/// together.
const READ_INTERVAL: Duration = Duration::from_millis(20);
/// The interval of reads of due deliveries.
const DUE_INTERVAL: Duration = Duration::from_millis(250);
/// The delay of a retry after a failure of the store.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// The interval of the removal of unused callbacks.
const TICK: Duration = Duration::from_millis(100);
/// The delay of the next read of the journal while deliveries are backlogged.
const BACKLOG_DELAY: Duration = Duration::from_millis(200);
/// The postponement of a delivery that exceeds the queue.
const FULL_DELAY: Duration = Duration::from_secs(5);
/// The interval of writes of the cursor alone. After a crash, deliveries since the last one are
/// repeated.
const CURSOR_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum length of a stored failure reason.
const REASON_CHARS_MAX: usize = 255;

/// Journal rows with the callbacks of their tenants.
struct Batch {
    rows: Vec<JournalRow>,
    callbacks: BTreeMap<TenantNo, String>,
    upto: Seq,
}

/// A postponed delivery with its journal row and the tenant's current callback.
struct Due {
    delivery: Delivery,
    row: Option<JournalRow>,
    callback: Option<String>,
}

/// The result of a delivery.
struct Finished {
    job: Job,
    result: Result<(), Failure>,
}

/// A journal row with undelivered events.
struct OpenRow {
    seq: Seq,
    jobs: usize,
    committed_at: Timestamp,
}

struct Follower {
    engine: Engine,
    poster: Poster,
    lanes: Lanes,
    posts: JoinSet<Finished>,
    open: VecDeque<OpenRow>,
    /// The last journal row that was read.
    read_upto: Seq,
    /// The last journal row whose events are all delivered or postponed, for waiters.
    position: watch::Sender<Seq>,
    recorded: Seq,
    recorded_at: Instant,
    writes: VecDeque<Bookkeeping>,
    writing: JoinSet<Vec<Bookkeeping>>,
    /// Stored deliveries in progress, whose rows in the store are outdated.
    in_progress: HashSet<DeliveryId>,
    backlogged_since: Option<Instant>,
}

/// Follows the journal until the runtime shuts down.
pub(super) async fn run(engine: Engine, options: Options, position: watch::Sender<Seq>) {
    let cursor = loop {
        match engine.read(|queries| queries.followed(FOLLOWER)).await {
            Ok(cursor) => break cursor,
            Err(_) => sleep(RETRY_DELAY).await,
        }
    };
    let mut follower = Follower {
        poster: Poster { reach: options.reach, timeout: options.timeout, tls: options.tls },
        lanes: Lanes::new(options.lanes),
        posts: JoinSet::new(),
        open: VecDeque::new(),
        read_upto: cursor,
        position,
        recorded: cursor,
        recorded_at: Instant::now(),
        writes: VecDeque::new(),
        writing: JoinSet::new(),
        in_progress: HashSet::new(),
        backlogged_since: None,
        engine: engine.clone(),
    };
    // Its tasks end when this function ends.
    let mut readers = JoinSet::new();
    let (batches, mut batch_receiver) = mpsc::channel(1);
    let (dues, mut due_receiver) = mpsc::channel(1);
    readers.spawn(read_journal(engine.clone(), cursor, batches));
    readers.spawn(read_due(engine, dues));
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            Some(finished) = follower.posts.join_next() => {
                let Some(finished) = unless_stopped(finished) else { return };
                follower.finished(finished);
            }
            Some(written) = follower.writing.join_next() => {
                let Some(written) = unless_stopped(written) else { return };
                follower.written(&written);
            }
            Some(batch) = batch_receiver.recv(), if follower.has_room() => follower.add(batch),
            Some(due) = due_receiver.recv() => follower.add_due(due),
            _ = tick.tick() => follower.lanes.remove_unused(Instant::now()),
        }
        follower.publish();
    }
}

/// The result of a task; `None` if the runtime is shutting down. A panic is propagated, because it is
/// unknown what was delivered; the follower then restarts from its cursor.
fn unless_stopped<T>(joined: Result<T, JoinError>) -> Option<T> {
    match joined {
        Ok(returned) => Some(returned),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

impl Follower {
    /// Too many unwritten rows stop the reading. A backlogged callback only slows it down, because other
    /// callbacks must not wait for it.
    fn has_room(&mut self) -> bool {
        if self.writes.len() >= WRITES_MAX {
            return false;
        }
        if !self.lanes.is_backlogged() {
            self.backlogged_since = None;
            return true;
        }
        self.backlogged_since.get_or_insert_with(Instant::now).elapsed() >= BACKLOG_DELAY
    }

    fn add(&mut self, batch: Batch) {
        self.backlogged_since = None;
        for row in &batch.rows {
            let Some(url) = batch.callbacks.get(&row.tenant) else { continue };
            let jobs: Vec<Job> = jobs(row).collect();
            if jobs.is_empty() {
                continue;
            }
            let (seq, committed_at) = (row.seq, row.committed_at);
            self.open.push_back(OpenRow { seq, jobs: jobs.len(), committed_at });
            for job in jobs {
                self.offer(job, url);
            }
        }
        self.read_upto = self.read_upto.max(batch.upto);
    }

    fn add_due(&mut self, due: Vec<Due>) {
        for Due { delivery, row, callback } in due {
            if !self.in_progress.insert(delivery.id) {
                continue;
            }
            let ordinal = usize::from(delivery.id.ordinal);
            let job = row.as_ref().and_then(|row| job(row, ordinal));
            match (job, callback) {
                (Some(job), Some(url)) => {
                    let attempts = delivery.attempts;
                    self.offer(Job { attempts, is_stored: true, ..job }, &url);
                }
                // The tenant has removed its callback.
                (None, _) | (_, None) => {
                    count("dropped");
                    self.writes.push_back(Bookkeeping::DeliveryClosed { id: delivery.id });
                }
            }
        }
    }

    fn offer(&mut self, job: Job, url: &str) {
        let admission = self.lanes.offer(job, url, Instant::now());
        self.execute(admission);
    }

    /// Executes a decision; returns whether the lane is free for another job.
    fn execute(&mut self, admission: Admission) -> bool {
        match admission {
            Admission::Start(job, destination) => {
                self.posts.spawn(deliver(self.poster.clone(), destination, job));
                false
            }
            Admission::Queued => false,
            Admission::Full(job) => {
                count("postponed");
                let attempts = job.attempts;
                self.postpone(&job, attempts, FULL_DELAY, "the callback is slower than its events");
                true
            }
            Admission::Unresponsive(job) => {
                self.failed(&job, "the callback is unresponsive; it was not tried");
                true
            }
        }
    }

    fn finished(&mut self, finished: Finished) {
        let Finished { job, result } = finished;
        let response = match &result {
            Err(Failure::TimedOut) => CallbackResponse::TimedOut,
            Ok(()) | Err(Failure::Refused(_)) => CallbackResponse::Received,
        };
        self.lanes.finished(&job, response, Instant::now());
        match result {
            Ok(()) => self.delivered(&job),
            Err(failure) => self.failed(&job, &failure.reason()),
        }
        while let Some(next) = self.lanes.next_after(&job, Instant::now()) {
            if !self.execute(next) {
                break;
            }
        }
    }

    fn delivered(&mut self, job: &Job) {
        count("delivered");
        if job.is_stored {
            self.writes.push_back(Bookkeeping::DeliveryClosed { id: job.id });
        } else {
            metrics::histogram!("faregate_push_delivery_seconds")
                .record(self.seconds_since(job.committed_at));
        }
        self.done(job);
    }

    fn failed(&mut self, job: &Job, reason: &str) {
        let delay = usize::try_from(job.attempts).ok().and_then(|at| RETRY_DELAYS.get(at));
        if let Some(delay) = delay {
            count("failed");
            self.postpone(job, job.attempts + 1, *delay, reason);
            return;
        }
        count("dropped");
        tracing::warn!(
            tenant = job.tenant.0,
            seq = job.id.seq.0,
            ordinal = job.id.ordinal,
            reason,
            "a push notification is dropped after its last attempt"
        );
        if job.is_stored {
            self.writes.push_back(Bookkeeping::DeliveryClosed { id: job.id });
        }
        self.done(job);
    }

    fn postpone(&mut self, job: &Job, attempts: u32, delay: Duration, reason: &str) {
        let delay_us = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        self.writes.push_back(Bookkeeping::DeliveryPostponed(Delivery {
            id: job.id,
            tenant: job.tenant,
            attempts,
            due_at: self.engine.clock().now().plus_us(delay_us),
            error: reason.chars().take(REASON_CHARS_MAX).collect(),
        }));
        self.done(job);
    }

    /// Counts a first attempt as made, whether it succeeded or not.
    fn done(&mut self, job: &Job) {
        if job.is_stored {
            return;
        }
        if let Ok(at) = self.open.binary_search_by_key(&job.id.seq, |open| open.seq) {
            self.open[at].jobs -= 1;
        }
        while self.open.front().is_some_and(|open| open.jobs == 0) {
            self.open.pop_front();
        }
    }

    /// The last journal row whose events are all delivered or postponed.
    fn done_upto(&self) -> Seq {
        self.open.front().map_or(self.read_upto, |open| Seq(open.seq.0 - 1))
    }

    /// Publishes the position, and starts a write if one is due.
    fn publish(&mut self) {
        let upto = self.done_upto();
        let lag = self.open.front().map_or(0.0, |open| self.seconds_since(open.committed_at));
        metrics::gauge!("faregate_push_lag_seconds").set(lag);
        let moved = upto > self.recorded;
        let is_due =
            !self.writes.is_empty() || moved && self.recorded_at.elapsed() >= CURSOR_INTERVAL;
        if is_due && self.writing.is_empty() {
            let count = self.writes.len().min(WRITES_MAX);
            let mut rows: Vec<Bookkeeping> = self.writes.drain(..count).collect();
            // The cursor never passes a row whose postponed deliveries are not recorded with it.
            if moved && self.writes.is_empty() {
                rows.push(Bookkeeping::Followed { follower: FOLLOWER, upto });
                self.recorded = upto;
            }
            self.recorded_at = Instant::now();
            self.writing.spawn(record(self.engine.clone(), rows));
        }
        self.position.send_replace(upto);
    }

    fn written(&mut self, rows: &[Bookkeeping]) {
        for row in rows {
            match row {
                Bookkeeping::DeliveryPostponed(Delivery { id, .. })
                | Bookkeeping::DeliveryClosed { id } => {
                    self.in_progress.remove(id);
                }
                Bookkeeping::Followed { .. }
                | Bookkeeping::MailPostponed(_)
                | Bookkeeping::MailClosed { .. }
                | Bookkeeping::OperationNotified { .. }
                | Bookkeeping::Quarantined(_)
                | Bookkeeping::Released { .. }
                | Bookkeeping::Over(_) => {}
            }
        }
    }

    fn seconds_since(&self, at: Timestamp) -> f64 {
        let us = self.engine.clock().real_now().0.saturating_sub(at.0);
        Duration::from_micros(u64::try_from(us).unwrap_or(0)).as_secs_f64()
    }
}

fn count(result: &'static str) {
    metrics::counter!("faregate_push_deliveries_total", "result" => result).increment(1);
}

fn jobs(row: &JournalRow) -> impl Iterator<Item = Job> {
    (0..row.events.len()).filter_map(|ordinal| job(row, ordinal))
}

/// The first attempt at an event; `None` for an event that is not notified.
fn job(row: &JournalRow, ordinal: usize) -> Option<Job> {
    let event = row.events.get(ordinal)?;
    Some(Job {
        id: DeliveryId { seq: row.seq, ordinal: u16::try_from(ordinal).ok()? },
        tenant: row.tenant,
        account: event.account(),
        body: body(event)?,
        attempts: 0,
        is_stored: false,
        committed_at: row.committed_at,
    })
}

async fn deliver(poster: Poster, destination: Destination, job: Job) -> Finished {
    let result = match &destination.callback {
        Ok(callback) => poster.post(callback, &destination.idle, job.body.clone()).await,
        Err(error) => Err(Failure::Refused(format!("the callback's URL {error}"))),
    };
    Finished { job, result }
}

/// Writes rows, with retries until the engine stops: an unwritten postponement would be lost, and an
/// unwritten closing would repeat its delivery.
async fn record(engine: Engine, rows: Vec<Bookkeeping>) -> Vec<Bookkeeping> {
    while let Err(error) = engine.record(rows.clone()).await {
        if matches!(error.reason, Reason::Stopping | Reason::NotOwner) {
            break;
        }
        sleep(RETRY_DELAY).await;
    }
    rows
}

async fn read_journal(engine: Engine, cursor: Seq, batches: mpsc::Sender<Batch>) {
    let (mut head, mut position) = (engine.head(), cursor);
    loop {
        let upto = *head.borrow_and_update();
        if upto <= position {
            if head.changed().await.is_err() {
                return;
            }
            continue;
        }
        match engine.read(move |queries| batch(queries, position)).await {
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

fn batch(queries: &dyn Queries, after: Seq) -> Result<Batch, StoreError> {
    // The head is read before the callbacks: the event of a callback that is registered in between is
    // behind that head.
    let head = queries.journal_head()?;
    if !queries.is_value_in_use(PUSH_CALLBACK)? {
        return Ok(Batch { rows: vec![], callbacks: BTreeMap::new(), upto: head });
    }
    let (rows, upto) = queries.journal_after(after, ROWS_MAX)?;
    let mut callbacks: BTreeMap<TenantNo, Option<String>> = BTreeMap::new();
    for row in &rows {
        if let Entry::Vacant(unknown) = callbacks.entry(row.tenant) {
            unknown.insert(callback(queries, row.tenant)?);
        }
    }
    let upto = rows.last().map_or(upto, |last| upto.max(last.seq));
    let found = callbacks.into_iter().filter_map(|(tenant, url)| Some((tenant, url?)));
    Ok(Batch { rows, callbacks: found.collect(), upto })
}

fn callback(queries: &dyn Queries, tenant: TenantNo) -> Result<Option<String>, StoreError> {
    Ok(queries.tenant_value(tenant, PUSH_CALLBACK)?.and_then(|value| value.value))
}

async fn read_due(engine: Engine, dues: mpsc::Sender<Vec<Due>>) {
    loop {
        let now = engine.clock().now();
        match engine.read(move |queries| due(queries, now)).await {
            Ok(due) if due.is_empty() => {}
            Ok(due) => {
                if dues.send(due).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(error = %error, "failed to read postponed push notifications; retrying");
            }
        }
        sleep(DUE_INTERVAL).await;
    }
}

fn due(queries: &dyn Queries, now: Timestamp) -> Result<Vec<Due>, StoreError> {
    let deliveries = queries.deliveries_due(now, DUE_MAX)?;
    let read = |delivery: Delivery| {
        let row = queries.journal_row(delivery.id.seq)?;
        let callback = callback(queries, delivery.tenant)?;
        Ok(Due { delivery, row, callback })
    };
    deliveries.into_iter().map(read).collect()
}
