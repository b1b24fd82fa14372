//! The follower: reads the journal, schedules deliveries on the lanes, and records its cursor.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Seq, TenantNo, Timestamp};
use engine::ports::{Bookkeeping, Delivery, DeliveryId};
use engine::webhooks::{DeliveryTry, TryOutcome};
use engine::{Engine, Reason};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use secrets::webhook;
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};

use crate::body::body;
use crate::delayed::Delayed;
use crate::endpoint::Format;
use crate::event::{EventOfRow, endpoint_name, event_id, event_of, events_of, sequence};
use crate::failing::FailingEndpoints;
use crate::lanes::{Admission, Destination, EndpointResponse, Job, Lanes, Now, Origin};
use crate::open_rows::{OpenRow, OpenRows};
use crate::options::{FOLLOWER, Options};
use crate::post::{Failure, Posted, Poster, common_headers};
use crate::readers::{Batch, Due, InProgress, RETRY_DELAY, locked, read_due, read_journal};
use crate::resend::{Done, Resent, ResentPages};
use crate::targets::{Target, Targets};

/// The maximum number of rows per write.
const WRITES_MAX: usize = 1_024;

/// The interval of what is not caused by an event: the removal of unused endpoints, rows for what waits.
const TICK: Duration = Duration::from_millis(100);
/// The delay of the next read of the journal while deliveries are backlogged.
const BACKLOG_DELAY: Duration = Duration::from_millis(200);
/// How long a first attempt may hold the cursor: one that is not done by then becomes a row of the store, which
/// the cursor may pass. With [`CURSOR_INTERVAL`] and [`TICK`] it adds up to the second of events that a crash
/// repeats to an endpoint that answers.
const HOLDS_MAX: Duration = Duration::from_millis(700);
/// The interval of writes of the cursor alone.
const CURSOR_INTERVAL: Duration = Duration::from_millis(200);
/// How long deliveries in progress may take when the follower stops; what is not answered by then is repeated
/// after the next start.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// How long the last writes may take when the follower stops. What is not written is repeated.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);
/// The maximum length of a stored failure reason.
const REASON_CHARS_MAX: usize = 255;

/// The header with the number of an event that grows from one event of an account to the next.
const SEQUENCE: HeaderName = HeaderName::from_static("x-faregate-sequence");

/// The result of a delivery.
struct Finished {
    job: Job,
    target: Arc<Target>,
    posted: Posted,
}

/// A row to be written.
struct Write {
    row: Bookkeeping,
    /// The journal row of a first attempt that nothing else remembers: the cursor passes it only with this.
    first_of: Option<Seq>,
    /// Whether the delivery goes on in memory.
    goes_on: bool,
}

impl Write {
    /// A row that no first attempt depends on, and which ends what is in progress.
    const fn end(row: Bookkeeping) -> Self {
        Self { row, first_of: None, goes_on: false }
    }
}

/// A page of events that are delivered again, and not all done yet.
struct OpenPage {
    jobs: usize,
    deliveries: usize,
    done: Done,
}

struct Follower {
    engine: Engine,
    poster: Poster,
    lanes: Lanes,
    delayed: Delayed,
    posts: JoinSet<Finished>,
    open: OpenRows,
    open_pages: BTreeMap<u64, OpenPage>,
    pages: u64,
    /// The last journal row that was read.
    read_upto: Seq,
    /// The last journal row whose events are all delivered or postponed, for waiters.
    position: watch::Sender<Seq>,
    recorded: Seq,
    recorded_at: Instant,
    writes: VecDeque<Write>,
    writing: JoinSet<Vec<Write>>,
    /// How many rows of first attempts are not written yet.
    unwritten_firsts: usize,
    in_progress: InProgress,
    backlogged_since: Option<Instant>,
    failing: FailingEndpoints,
    /// Takes what is logged, where anything is.
    log: Option<mpsc::Sender<DeliveryTry>>,
}

/// The follower's inputs beside the journal.
#[derive(Clone)]
pub(crate) struct Inputs {
    pub(crate) targets: Arc<Targets>,
    /// Only one follower at a time takes them.
    pub(crate) resent: Arc<AsyncMutex<ResentPages>>,
    /// True, or closed: the follower stops.
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Follows the journal until it is stopped, or the runtime shuts down.
pub(crate) async fn run(
    engine: Engine,
    options: Options,
    position: watch::Sender<Seq>,
    Inputs { targets, resent, mut stopped }: Inputs,
) {
    let mut resent = resent.lock().await;
    let cursor = loop {
        match engine.read(|queries| queries.followed(FOLLOWER)).await {
            Ok(cursor) => break cursor,
            Err(_) if *stopped.borrow() => return,
            Err(_) => sleep(RETRY_DELAY).await,
        }
    };
    let mut follower = Follower::new(&engine, options, cursor, position);
    let in_progress = Arc::clone(&follower.in_progress);
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
                    follower.finished(&finished);
                    next = follower.posts.try_join_next();
                }
            }
            Some(written) = follower.writing.join_next() => {
                let Some(written) = unless_stopped(written) else { return };
                follower.written(&written);
            }
            Some(batch) = batch_receiver.recv(), if follower.has_room() => follower.add(&batch),
            Some(due) = due_receiver.recv() => follower.add_due(due),
            Some((page, done)) = resent.recv(), if follower.writes.len() < WRITES_MAX => {
                follower.add_resent(&page, done);
            }
            () = follower.delayed.is_due() => follower.offer_delayed(),
            _ = tick.tick() => {
                follower.lanes.remove_unused(Instant::now());
                follower.keep_waiting(HOLDS_MAX);
            }
            () = until(&mut stopped) => return follower.stop().await,
        }
        follower.publish();
    }
}

/// Ready once the value is true, or its sender is gone.
pub(crate) async fn until(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
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
    fn new(engine: &Engine, options: Options, cursor: Seq, position: watch::Sender<Seq>) -> Self {
        Self {
            poster: Poster::new(&options),
            lanes: Lanes::new(options.lanes),
            delayed: Delayed::new(options.killbill_delay),
            posts: JoinSet::new(),
            open: OpenRows::default(),
            open_pages: BTreeMap::new(),
            pages: 0,
            read_upto: cursor,
            position,
            recorded: cursor,
            recorded_at: Instant::now(),
            writes: VecDeque::new(),
            writing: JoinSet::new(),
            unwritten_firsts: 0,
            in_progress: InProgress::default(),
            backlogged_since: None,
            failing: FailingEndpoints::default(),
            log: options.log,
            engine: engine.clone(),
        }
    }

    /// Too many unwritten rows stop the reading. A backlogged endpoint only slows it down, because others must
    /// not wait for it.
    fn has_room(&mut self) -> bool {
        if self.writes.len() >= WRITES_MAX || self.delayed.is_full() {
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
        let read_at = Instant::now();
        for row in &batch.rows {
            let Some(targets) = batch.targets.get(&row.tenant) else { continue };
            let jobs: Vec<(Job, &Arc<Target>)> =
                events_of(row).flat_map(|event| jobs(event, targets.iter())).collect();
            if jobs.is_empty() {
                continue;
            }
            self.open.push(OpenRow {
                seq: row.seq,
                tenant: row.tenant,
                jobs: jobs.iter().map(|(job, _)| job.id).collect(),
                committed_at: row.committed_at,
                read_at,
            });
            for (job, target) in jobs {
                let now = self.engine.clock().real_now();
                if let Some((job, target)) = self.delayed.unless_later((job, target), now) {
                    self.offer(job, target);
                }
            }
        }
        self.read_upto = self.read_upto.max(batch.upto);
    }

    fn add_due(&mut self, due: Vec<Due>) {
        for Due { delivery, row, target } in due {
            if !self.begin(delivery.id, None) {
                continue;
            }
            let event = row.as_ref().and_then(|row| event_of(row, delivery.id.ordinal));
            let target = target.filter(|target| target.is_on());
            let job = event.zip(target.as_ref()).and_then(|(it, target)| job(it, target));
            match (job, target) {
                (Some(job), Some(target)) => {
                    let attempts = delivery.attempts;
                    self.offer(Job { attempts, origin: Origin::Stored, ..job }, &target);
                }
                // The tenant has removed the endpoint, or switched it off.
                (None, _) | (_, None) => {
                    count("dropped");
                    if let Some(event) = event {
                        self.log_given_up(&delivery, event.kind);
                    }
                    let Delivery { id, attempts, .. } = delivery;
                    let closed = Bookkeeping::DeliveryClosed { id, attempts };
                    self.writes.push_back(Write::end(closed));
                }
            }
        }
    }

    fn add_resent(&mut self, page: &Resent, done: Done) {
        let (number, mut deliveries) = (self.pages, vec![]);
        self.pages += 1;
        for event in page.events() {
            for (job, target) in jobs(event, page.targets()) {
                if self.begin(job.id, Some(number)) {
                    deliveries.push((Job { origin: Origin::Resent, ..job }, target));
                } else {
                    // One that is being made is made anew behind that: it may be given up.
                    self.queue(&job);
                }
            }
        }
        // The page stays open until all of it is offered.
        let count = deliveries.len();
        let open = OpenPage { jobs: count + 1, deliveries: count, done };
        self.open_pages.insert(number, open);
        for (job, target) in deliveries {
            self.offer(job, target);
        }
        self.done_of_page(number);
    }

    /// Queues a delivery as one that was never tried, and is due.
    fn queue(&mut self, job: &Job) {
        let row = Bookkeeping::DeliveryPostponed(self.untried(job.id, job.tenant));
        self.writes.push_back(Write::end(row));
    }

    /// The row of a delivery that was never tried, and is due.
    fn untried(&self, id: DeliveryId, tenant: TenantNo) -> Delivery {
        let due_at = self.engine.clock().now();
        Delivery { id, tenant, attempts: 0, due_at, error: String::new() }
    }

    /// Has first attempts that hold the cursor for so long become rows, while they go on in memory.
    fn keep_waiting(&mut self, for_at_least: Duration) {
        let Some(read_by) = Instant::now().checked_sub(for_at_least) else { return };
        let room = WRITES_MAX.saturating_sub(self.writes.len());
        for (id, tenant) in self.open.take(read_by, room) {
            // One that is sent again as well needs no page: its row remembers it.
            let page = locked(&self.in_progress).begin_as_row(id);
            if let Some(page) = page {
                self.done_of_page(page);
            }
            let row = Bookkeeping::DeliveryPostponed(self.untried(id, tenant));
            self.unwritten_firsts += 1;
            self.writes.push_back(Write { row, first_of: Some(id.seq), goes_on: true });
        }
    }

    /// Notes that a delivery is in progress; false where it was already.
    fn begin(&self, id: DeliveryId, page: Option<u64>) -> bool {
        locked(&self.in_progress).begin(id, page)
    }

    /// Notes that a delivery is in progress no more: there is no row of it, or the row says how it stands.
    fn end(&mut self, id: DeliveryId) {
        let page = locked(&self.in_progress).end(id);
        if let Some(page) = page {
            self.done_of_page(page);
        }
    }

    fn offer(&mut self, job: Job, target: &Arc<Target>) {
        let admission = self.lanes.offer(job, target, self.now());
        self.execute(admission, target);
    }

    fn offer_delayed(&mut self) {
        while let Some((job, target)) = self.delayed.next_due() {
            self.offer(job, &target);
        }
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
                self.give_up(&job, target, None, "the endpoint has gone; it was not tried");
                true
            }
        }
    }

    fn finished(&mut self, finished: &Finished) {
        self.ended(finished);
        let Finished { job, target, .. } = finished;
        while let Some(next) = self.lanes.next_after(job, self.now()) {
            if !self.execute(next, target) {
                break;
            }
        }
    }

    /// Frees the lane, and notes what came of the delivery.
    fn ended(&mut self, Finished { job, target, posted }: &Finished) {
        let response = self.response(target, posted);
        self.lanes.finished(job, response, self.now());
        match (&posted.result, response) {
            (Ok(()), _) => self.delivered(job, target, posted),
            (Err(failure), EndpointResponse::Gone) => {
                self.give_up(job, target, Some(posted), &failure.reason());
            }
            (Err(failure), _) => self.failed(job, target, Some(posted), &failure.reason()),
        }
    }

    fn response(&self, target: &Target, posted: &Posted) -> EndpointResponse {
        let Some(response) = &posted.response else {
            return match &posted.result {
                Err(Failure::TimedOut) => EndpointResponse::TimedOut,
                Ok(()) | Err(Failure::Refused(_)) => EndpointResponse::Received,
            };
        };
        match response.retry_after {
            _ if response.status == StatusCode::GONE && target.may_be_switched_off() => {
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

    fn delivered(&mut self, job: &Job, target: &Target, posted: &Posted) {
        count("delivered");
        self.log_try((job, target), TryOutcome::Delivered, Some(posted), (None, None));
        if job.origin == Origin::Journal {
            metrics::histogram!("faregate_push_delivery_seconds")
                .record(self.seconds_since(job.committed_at));
        }
        self.close(job);
    }

    fn failed(&mut self, job: &Job, target: &Target, posted: Option<&Posted>, reason: &str) {
        let delays = target.retry_delays();
        let delay = usize::try_from(job.attempts).ok().and_then(|at| delays.get(at));
        let Some(delay) = delay else {
            warn(job, reason, "an event is not delivered after the last attempt");
            return self.give_up(job, target, posted, reason);
        };
        count("failed");
        if self.failing.is_news((job.tenant, job.id.endpoint), Instant::now()) {
            let what = "an event does not reach a webhook endpoint, and is sent again later; GET /v1/webhooks/deliveries lists each try";
            warn(job, reason, what);
        }
        let pause = posted.and_then(|it| it.response.as_ref()?.retry_after);
        let delay = pause.unwrap_or_default().max(*delay);
        if posted.is_some() {
            let next_at = Some(self.after(delay));
            self.log_try((job, target), TryOutcome::Failed, posted, (Some(reason), next_at));
        }
        self.postpone(job, job.attempts + 1, delay, reason);
    }

    /// Ends a delivery that did not succeed.
    fn give_up(&mut self, job: &Job, target: &Target, posted: Option<&Posted>, reason: &str) {
        count("dropped");
        self.log_try((job, target), TryOutcome::GivenUp, posted, (Some(reason), None));
        self.close(job);
    }

    /// Ends a delivery that is not tried again.
    fn close(&mut self, job: &Job) {
        let has_row = match job.origin {
            Origin::Journal => !self.open.done(job.id),
            Origin::Stored => true,
            Origin::Resent => return self.end(job.id),
        };
        if has_row {
            let Job { id, attempts, .. } = *job;
            self.writes.push_back(Write::end(Bookkeeping::DeliveryClosed { id, attempts }));
        }
    }

    fn postpone(&mut self, job: &Job, attempts: u32, delay: Duration, reason: &str) {
        let row = Bookkeeping::DeliveryPostponed(Delivery {
            id: job.id,
            tenant: job.tenant,
            attempts,
            due_at: self.after(delay),
            error: reason.chars().take(REASON_CHARS_MAX).collect(),
        });
        let is_first = match job.origin {
            Origin::Journal => self.open.done(job.id),
            Origin::Stored | Origin::Resent => false,
        };
        self.unwritten_firsts += usize::from(is_first);
        let first_of = is_first.then_some(job.id.seq);
        self.writes.push_back(Write { row, first_of, goes_on: false });
    }

    fn log_try(
        &self,
        (job, target): (&Job, &Target),
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
            receiver: target.receiver,
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
            receiver: delivery.id.endpoint,
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

    fn done_of_page(&mut self, number: u64) {
        let Entry::Occupied(mut page) = self.open_pages.entry(number) else { return };
        page.get_mut().jobs -= 1;
        if page.get().jobs == 0 {
            let OpenPage { deliveries, done, .. } = page.remove();
            // The replay may have ended.
            let _ = done.send(deliveries);
        }
    }

    /// The last journal row whose events are all delivered, given up, or rows, be they written or not.
    fn done_upto(&self) -> Seq {
        self.open.oldest().map_or(self.read_upto, |open| Seq(open.seq.0 - 1))
    }

    /// Publishes the position, and starts a write if one is due.
    fn publish(&mut self) {
        let lag = self.open.oldest().map_or(0.0, |open| self.seconds_since(open.committed_at));
        metrics::gauge!("faregate_push_lag_seconds").set(lag);
        if !self.writes.is_empty() || self.recorded_at.elapsed() >= CURSOR_INTERVAL {
            self.write();
        }
        if self.unwritten_firsts == 0 {
            self.position.send_replace(self.done_upto());
        }
    }

    /// Starts a write where there is anything to write, and no write is in progress.
    fn write(&mut self) {
        if !self.writing.is_empty() {
            return;
        }
        let count = self.writes.len().min(WRITES_MAX);
        let mut writes: Vec<Write> = self.writes.drain(..count).collect();
        // The cursor never passes an event whose row is not recorded with it.
        let unwritten = self.writes.iter().filter_map(|it| it.first_of).min();
        let upto = self.done_upto();
        let upto = unwritten.map_or(upto, |first| upto.min(Seq(first.0 - 1)));
        if upto > self.recorded {
            writes.push(Write::end(Bookkeeping::Followed { follower: FOLLOWER, upto }));
            self.recorded = upto;
        }
        if !writes.is_empty() {
            self.recorded_at = Instant::now();
            self.writing.spawn(record(self.engine.clone(), writes));
        }
    }

    fn written(&mut self, writes: &[Write]) {
        for Write { row, first_of, goes_on } in writes {
            self.unwritten_firsts -= usize::from(first_of.is_some());
            match row {
                Bookkeeping::DeliveryPostponed(_) if *goes_on => {}
                Bookkeeping::DeliveryPostponed(Delivery { id, .. })
                | Bookkeeping::DeliveryClosed { id, .. } => self.end(*id),
                Bookkeeping::Followed { .. }
                | Bookkeeping::MailPostponed(_)
                | Bookkeeping::MailClosed { .. }
                | Bookkeeping::OperationNotified { .. }
                | Bookkeeping::Quarantined(_)
                | Bookkeeping::Released { .. }
                | Bookkeeping::Expired(_) => {}
            }
        }
    }

    /// Waits for what is in progress, for a while, and writes down the rest: as rows, which are due. What was
    /// delivered is not delivered again after the next start.
    async fn stop(mut self) {
        let until = Instant::now() + ANSWERED_WITHIN;
        while let Ok(Some(finished)) = timeout_at(until, self.posts.join_next()).await {
            let Some(finished) = unless_stopped(finished) else { return };
            self.ended(&finished);
        }
        if timeout(WRITTEN_WITHIN, self.write_all()).await.is_err() {
            tracing::warn!(
                "failed to write down in time what was delivered; some events are delivered again after the next start"
            );
        }
    }

    async fn write_all(&mut self) {
        loop {
            self.keep_waiting(Duration::ZERO);
            self.write();
            let Some(written) = self.writing.join_next().await else { return };
            let Some(written) = unless_stopped(written) else { return };
            self.written(&written);
        }
    }

    fn seconds_since(&self, at: Timestamp) -> f64 {
        let us = self.engine.clock().real_now().0.saturating_sub(at.0);
        Duration::from_micros(u64::try_from(us).unwrap_or(0)).as_secs_f64()
    }
}

fn warn(job: &Job, reason: &str, what: &'static str) {
    tracing::warn!(
        tenant = job.tenant.0,
        endpoint = %endpoint_name(job.id.endpoint),
        event = event_id(job.id.seq, job.id.ordinal),
        reason,
        "{what}"
    );
}

fn count(result: &'static str) {
    metrics::counter!("faregate_push_deliveries_total", "result" => result).increment(1);
}

/// How an answer begins, as text that databases take.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

/// The first attempts at an event. Those of one format share its body.
fn jobs<'t>(
    event: EventOfRow<'_>,
    targets: impl Iterator<Item = &'t Arc<Target>>,
) -> Vec<(Job, &'t Arc<Target>)> {
    let mut bodies: [Option<Bytes>; 2] = [None, None];
    let mut jobs = vec![];
    for target in targets.filter(|target| target.wants(event.kind)) {
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
        origin: Origin::Journal,
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
/// unwritten closing would repeat its delivery. Returns what was written: nothing where the engine has stopped.
async fn record(engine: Engine, writes: Vec<Write>) -> Vec<Write> {
    let rows = || writes.iter().map(|it| it.row.clone()).collect();
    while let Err(error) = engine.record(rows()).await {
        if matches!(error.reason, Reason::Stopping | Reason::NotOwner) {
            return vec![];
        }
        sleep(RETRY_DELAY).await;
    }
    writes
}
