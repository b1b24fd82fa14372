//! The follower: reads the journal, schedules deliveries on the lanes, and records its cursor.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::{Seq, TenantNo, Timestamp};
use engine::ports::{Bookkeeping, CALLBACK, Delivery, DeliveryId, JournalRow, Queries, StoreError};
use engine::webhooks::{DeliveryTry, TryOutcome};
use engine::{Engine, Reason};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use secrets::webhook;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::body::body;
use super::endpoint::Format;
use super::event::{EventOfRow, event_id, event_of, events_of, sequence};
use super::lanes::{Admission, Destination, EndpointResponse, Job, Lanes, Now};
use super::options::{FOLLOWER, Options};
use super::post::{Failure, Posted, Poster, common_headers};
use super::targets::{Target, Targets};

/// The maximum number of journal rows per read.
const ROWS_MAX: usize = 1_024;
/// The maximum number of postponed deliveries per read.
const DUE_MAX: usize = 1_024;
/// The maximum number of rows per write.
const WRITES_MAX: usize = 1_024;

/// The delay of the next read of the journal after a read to its end, so that small commits are read
/// together.
const READ_INTERVAL: Duration = Duration::from_millis(20);
/// The interval of reads of due deliveries.
const DUE_INTERVAL: Duration = Duration::from_millis(250);
/// The delay of a retry after a failure of the store.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// The interval of the removal of unused endpoints.
const TICK: Duration = Duration::from_millis(100);
/// The delay of the next read of the journal while deliveries are backlogged.
const BACKLOG_DELAY: Duration = Duration::from_millis(200);
/// The interval of writes of the cursor alone. After a crash, deliveries since the last one are
/// repeated.
const CURSOR_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum length of a stored failure reason.
const REASON_CHARS_MAX: usize = 255;

/// The header with the number of an event that grows from one event of an account to the next.
const SEQUENCE: HeaderName = HeaderName::from_static("x-faregate-sequence");

/// What the tenants' events are delivered to.
type TargetsOf = BTreeMap<TenantNo, Arc<Vec<Arc<Target>>>>;

/// Stored deliveries in progress, whose rows in the store are outdated.
type InProgress = Arc<Mutex<HashSet<DeliveryId>>>;

/// Journal rows with what the events of their tenants are delivered to.
struct Batch {
    rows: Vec<Arc<JournalRow>>,
    targets: TargetsOf,
    upto: Seq,
}

/// A postponed delivery with its journal row and its target as it is now.
struct Due {
    delivery: Delivery,
    row: Option<JournalRow>,
    target: Option<Arc<Target>>,
}

/// The result of a delivery.
struct Finished {
    job: Job,
    target: Arc<Target>,
    posted: Posted,
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
    in_progress: InProgress,
    backlogged_since: Option<Instant>,
    /// Takes what is logged, where anything is.
    log: Option<mpsc::Sender<DeliveryTry>>,
}

/// Follows the journal until the runtime shuts down.
pub(super) async fn run(engine: Engine, options: Options, position: watch::Sender<Seq>) {
    let cursor = loop {
        match engine.read(|queries| queries.followed(FOLLOWER)).await {
            Ok(cursor) => break cursor,
            Err(_) => sleep(RETRY_DELAY).await,
        }
    };
    let targets = Arc::new(Targets::new(options.sealer.clone()));
    let in_progress = InProgress::default();
    let mut follower = Follower {
        poster: Poster::new(&options),
        lanes: Lanes::new(options.lanes),
        posts: JoinSet::new(),
        open: VecDeque::new(),
        read_upto: cursor,
        position,
        recorded: cursor,
        recorded_at: Instant::now(),
        writes: VecDeque::new(),
        writing: JoinSet::new(),
        in_progress: Arc::clone(&in_progress),
        backlogged_since: None,
        log: options.log,
        engine: engine.clone(),
    };
    // Its tasks end when this function ends.
    let mut readers = JoinSet::new();
    let (batches, mut batch_receiver) = mpsc::channel(1);
    let (dues, mut due_receiver) = mpsc::channel(1);
    readers.spawn(read_journal((engine.clone(), Arc::clone(&targets)), cursor, batches));
    readers.spawn(read_due((engine, targets), in_progress, dues));
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            Some(finished) = follower.posts.join_next() => {
                // Those that have finished meanwhile as well: what comes after costs the same for all.
                let mut next = Some(finished);
                while let Some(finished) = next {
                    let Some(finished) = unless_stopped(finished) else { return };
                    follower.finished(finished);
                    next = follower.posts.try_join_next();
                }
            }
            Some(written) = follower.writing.join_next() => {
                let Some(written) = unless_stopped(written) else { return };
                follower.written(&written);
            }
            Some(batch) = batch_receiver.recv(), if follower.has_room() => follower.add(&batch),
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
    /// Too many unwritten rows stop the reading. A backlogged endpoint only slows it down, because others must
    /// not wait for it.
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

    fn add(&mut self, batch: &Batch) {
        self.backlogged_since = None;
        for row in &batch.rows {
            let Some(targets) = batch.targets.get(&row.tenant) else { continue };
            let jobs: Vec<(Job, &Arc<Target>)> =
                events_of(row).flat_map(|event| jobs(event, targets)).collect();
            if jobs.is_empty() {
                continue;
            }
            let (seq, committed_at) = (row.seq, row.committed_at);
            self.open.push_back(OpenRow { seq, jobs: jobs.len(), committed_at });
            for (job, target) in jobs {
                self.offer(job, target);
            }
        }
        self.read_upto = self.read_upto.max(batch.upto);
    }

    fn add_due(&mut self, due: Vec<Due>) {
        for Due { delivery, row, target } in due {
            if !locked(&self.in_progress).insert(delivery.id) {
                continue;
            }
            let event = row.as_ref().and_then(|row| event_of(row, delivery.id.ordinal));
            let target = target.filter(|target| target.is_on());
            let job = event.zip(target.as_ref()).and_then(|(it, target)| job(it, target));
            match (job, target) {
                (Some(job), Some(target)) => {
                    let attempts = delivery.attempts;
                    self.offer(Job { attempts, is_stored: true, ..job }, &target);
                }
                // The tenant has removed the endpoint, or switched it off.
                (None, _) | (_, None) => {
                    count("dropped");
                    if let Some(event) = event {
                        self.log_given_up(&delivery, event.kind);
                    }
                    self.writes.push_back(Bookkeeping::DeliveryClosed { id: delivery.id });
                }
            }
        }
    }

    fn offer(&mut self, job: Job, target: &Arc<Target>) {
        let admission = self.lanes.offer(job, target, self.now());
        self.execute(admission, target);
    }

    fn now(&self) -> Now {
        Now { real: Instant::now(), domain: self.engine.clock().now() }
    }

    /// Executes a decision; returns whether the lane is free for another job.
    fn execute(&mut self, admission: Admission, target: &Arc<Target>) -> bool {
        match admission {
            Admission::Start(job, destination) => {
                let timestamp_s = self.engine.clock().real_now().0.div_euclid(Timestamp::SECOND_US);
                let now = self.engine.clock().now();
                let headers = headers(&destination.target, &job, (now, timestamp_s));
                self.posts.spawn(deliver(self.poster.clone(), destination, job, headers));
                false
            }
            Admission::Queued => false,
            Admission::Postponed(job, delay, reason) => {
                count("postponed");
                let attempts = job.attempts;
                self.postpone(&job, attempts, delay, reason);
                true
            }
            Admission::Unresponsive(job) => {
                self.failed(&job, target, None, "the endpoint is unresponsive; it was not tried");
                true
            }
            Admission::Gone(job) => {
                self.give_up(&job, None, "the endpoint has gone; it was not tried");
                true
            }
        }
    }

    fn finished(&mut self, finished: Finished) {
        let Finished { job, target, posted } = finished;
        let response = self.response(&job, &posted);
        self.lanes.finished(&job, response, self.now());
        match (&posted.result, response) {
            (Ok(()), _) => self.delivered(&job, &posted),
            (Err(failure), EndpointResponse::Gone) => {
                self.give_up(&job, Some(&posted), &failure.reason());
            }
            (Err(failure), _) => self.failed(&job, &target, Some(&posted), &failure.reason()),
        }
        while let Some(next) = self.lanes.next_after(&job, self.now()) {
            if !self.execute(next, &target) {
                break;
            }
        }
    }

    fn response(&self, job: &Job, posted: &Posted) -> EndpointResponse {
        let Some(response) = &posted.response else {
            return match &posted.result {
                Err(Failure::TimedOut) => EndpointResponse::TimedOut,
                Ok(()) | Err(Failure::Refused(_)) => EndpointResponse::Received,
            };
        };
        match response.retry_after {
            // As in Kill Bill, a callback stays until its tenant removes it.
            _ if response.status == StatusCode::GONE && job.id.endpoint != CALLBACK => {
                EndpointResponse::Gone
            }
            Some(pause) => EndpointResponse::Resting(self.after(pause)),
            None => EndpointResponse::Received,
        }
    }

    /// Domain time after a delay.
    fn after(&self, delay: Duration) -> Timestamp {
        let delay_us = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        self.engine.clock().now().plus_us(delay_us)
    }

    fn delivered(&mut self, job: &Job, posted: &Posted) {
        count("delivered");
        self.log_try(job, TryOutcome::Delivered, Some(posted), (None, None));
        if job.is_stored {
            self.writes.push_back(Bookkeeping::DeliveryClosed { id: job.id });
        } else {
            metrics::histogram!("faregate_push_delivery_seconds")
                .record(self.seconds_since(job.committed_at));
        }
        self.done(job);
    }

    fn failed(&mut self, job: &Job, target: &Target, posted: Option<&Posted>, reason: &str) {
        let delays = target.retry_delays();
        let delay = usize::try_from(job.attempts).ok().and_then(|at| delays.get(at));
        let Some(delay) = delay else {
            tracing::warn!(
                tenant = job.tenant.0,
                endpoint = %job.id.endpoint,
                event = event_id(job.id.seq, job.id.ordinal),
                reason,
                "an event is not delivered after the last attempt"
            );
            return self.give_up(job, posted, reason);
        };
        count("failed");
        let pause = posted.and_then(|it| it.response.as_ref()?.retry_after);
        let delay = pause.unwrap_or_default().max(*delay);
        if posted.is_some() {
            let next_at = Some(self.after(delay));
            self.log_try(job, TryOutcome::Failed, posted, (Some(reason), next_at));
        }
        self.postpone(job, job.attempts + 1, delay, reason);
    }

    /// Ends a delivery that did not succeed.
    fn give_up(&mut self, job: &Job, posted: Option<&Posted>, reason: &str) {
        count("dropped");
        self.log_try(job, TryOutcome::GivenUp, posted, (Some(reason), None));
        if job.is_stored {
            self.writes.push_back(Bookkeeping::DeliveryClosed { id: job.id });
        }
        self.done(job);
    }

    fn postpone(&mut self, job: &Job, attempts: u32, delay: Duration, reason: &str) {
        self.writes.push_back(Bookkeeping::DeliveryPostponed(Delivery {
            id: job.id,
            tenant: job.tenant,
            attempts,
            due_at: self.after(delay),
            error: reason.chars().take(REASON_CHARS_MAX).collect(),
        }));
        self.done(job);
    }

    fn log_try(
        &self,
        job: &Job,
        outcome: TryOutcome,
        posted: Option<&Posted>,
        (error, next_at): (Option<&str>, Option<Timestamp>),
    ) {
        let response = posted.and_then(|it| it.response.as_ref());
        let body = response.map(|it| &it.body).filter(|body| !body.is_empty());
        let took = posted.map_or(0, |it| it.took.as_millis());
        self.log(DeliveryTry {
            id: job.id,
            tenant: job.tenant,
            event_type: job.kind.to_owned(),
            attempt: job.attempts + u32::from(posted.is_some()),
            at: self.engine.clock().now(),
            outcome,
            status: response.map(|it| it.status.as_u16()),
            took_ms: u32::try_from(took).unwrap_or(u32::MAX),
            answer: body.map(|body| text(body)),
            error: error.map(str::to_owned),
            next_at,
        });
    }

    fn log_given_up(&self, delivery: &Delivery, kind: &str) {
        self.log(DeliveryTry {
            id: delivery.id,
            tenant: delivery.tenant,
            event_type: kind.to_owned(),
            attempt: delivery.attempts,
            at: self.engine.clock().now(),
            outcome: TryOutcome::GivenUp,
            status: None,
            took_ms: 0,
            answer: None,
            error: Some("the endpoint is off, or is no more".to_owned()),
            next_at: None,
        });
    }

    /// The log never delays a delivery: what it cannot take is counted.
    fn log(&self, it: DeliveryTry) {
        if let Some(log) = &self.log
            && log.try_send(it).is_err()
        {
            metrics::counter!("faregate_webhook_log_dropped_total").increment(1);
        }
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
                    locked(&self.in_progress).remove(id);
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

fn locked(in_progress: &InProgress) -> MutexGuard<'_, HashSet<DeliveryId>> {
    in_progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How an answer begins, as text that databases take.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// The first attempts at an event. Those of one format share its body.
fn jobs<'t>(event: EventOfRow<'_>, targets: &'t [Arc<Target>]) -> Vec<(Job, &'t Arc<Target>)> {
    let mut bodies: [Option<Bytes>; 2] = [None, None];
    let mut jobs = vec![];
    for target in targets.iter().filter(|target| target.wants(event.kind)) {
        let body = &mut bodies[usize::from(target.format == Format::KillBill)];
        if body.is_none() {
            *body = body_of(event, target.format);
        }
        // Kill Bill does not have all events.
        let Some(body) = body.clone() else { continue };
        jobs.push((job_with(event, target, body), target));
    }
    jobs
}

/// The first attempt at an event; `None` where the target's format does not have the event.
fn job(event: EventOfRow<'_>, target: &Target) -> Option<Job> {
    body_of(event, target.format).map(|body| job_with(event, target, body))
}

fn body_of(event: EventOfRow<'_>, format: Format) -> Option<Bytes> {
    match format {
        Format::Standard => Some(event.standard_body()),
        Format::KillBill => body(event.event),
    }
}

fn job_with(event: EventOfRow<'_>, target: &Target, body: Bytes) -> Job {
    Job {
        id: DeliveryId { seq: event.row.seq, ordinal: event.ordinal, endpoint: target.endpoint },
        tenant: event.row.tenant,
        account: event.event.account(),
        kind: event.kind,
        body,
        attempts: 0,
        is_stored: false,
        committed_at: event.row.committed_at,
    }
}

/// The headers of a delivery, signed at a domain time and for a real one.
fn headers(target: &Target, job: &Job, (now, timestamp_s): (Timestamp, i64)) -> HeaderMap {
    let DeliveryId { seq, ordinal, .. } = job.id;
    let (id, timestamp) = (event_id(seq, ordinal), timestamp_s.to_string());
    let signature = target.signer.as_ref().map(|it| it.sign(now, &id, &timestamp, &job.body));
    let mut headers = common_headers();
    let ours = [
        (HeaderName::from_static(webhook::ID), Some(id)),
        (HeaderName::from_static(webhook::TIMESTAMP), Some(timestamp)),
        (HeaderName::from_static(webhook::SIGNATURE), signature),
        (SEQUENCE, Some(sequence(seq, ordinal).to_string())),
    ];
    for (name, value) in ours {
        // Ids, numbers and base64.
        if let Some(value) = value.and_then(|it| HeaderValue::try_from(it).ok()) {
            headers.insert(name, value);
        }
    }
    headers.extend(target.headers.iter().cloned());
    headers
}

async fn deliver(
    poster: Poster,
    destination: Destination,
    job: Job,
    headers: HeaderMap,
) -> Finished {
    let Destination { target, callback, idle } = destination;
    let mut posted = match &callback {
        Ok(callback) => poster.post(callback, &idle, (headers, job.body.clone())).await,
        Err(error) => Posted::impossible(format!("the callback's URL {error}")),
    };
    if let Some(response) = &mut posted.response {
        response.body = target.masked(&text(&response.body)).into_bytes();
    }
    Finished { job, target, posted }
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

async fn read_journal(
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
async fn read_due(
    (engine, targets): (Engine, Arc<Targets>),
    in_progress: InProgress,
    dues: mpsc::Sender<Vec<Due>>,
) {
    let mut after = None;
    loop {
        let now = engine.clock().now();
        let (targets, in_progress) = (Arc::clone(&targets), Arc::clone(&in_progress));
        let read = move |queries: &dyn Queries| {
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
    let waiting = |it: &Delivery| !locked(in_progress).contains(&it.id);
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
