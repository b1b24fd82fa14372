//! Schedules deliveries: each endpoint has several lanes, and each lane makes one delivery at a time, in
//! order.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{AccountId, TenantNo, Timestamp, WebhookEndpointId};
use engine::ports::DeliveryId;
use outbound::{Callback, CallbackError, Idle};
use tokio::time::Instant;

use crate::targets::Target;

/// The numbers of queued deliveries from which the follower reads the journal more slowly.
const BACKLOGGED: Limits = Limits { per_endpoint: 2_048, all: 16_384 };
/// The maximum numbers of queued deliveries. Further ones are postponed.
const FULL: Limits = Limits { per_endpoint: 4_096, all: 32_768 };
/// The maximum number of queued deliveries of a tenant's endpoints, which leaves room for those of others.
const FULL_TENANT: usize = FULL.all / 4;
/// The maximum number of queued deliveries of an endpoint that has answered none for [`ANSWERED_WITHIN`], so that
/// endpoints that hang leave room for the others.
const FULL_UNANSWERED: usize = 256;
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// The least postponement of a delivery that exceeds the queue.
const FULL_DELAY: Duration = Duration::from_secs(1);
/// How far such deliveries are apart when they become due again.
const FULL_STEP: Duration = Duration::from_micros(250);

/// The number of consecutive timeouts after which an endpoint counts as unresponsive.
const UNRESPONSIVE_AFTER: u32 = 8;
/// The interval of attempts at an unresponsive endpoint.
const UNRESPONSIVE_INTERVAL: Duration = Duration::from_secs(30);

/// How long the state of an unused endpoint is kept.
const UNUSED_MAX: Duration = Duration::from_secs(60);

struct Limits {
    per_endpoint: usize,
    all: usize,
}

/// An event to be delivered to an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: DeliveryId,
    pub(crate) tenant: TenantNo,
    pub(crate) account: Option<AccountId>,
    /// The event's type.
    pub(crate) kind: &'static str,
    pub(crate) body: Bytes,
    /// The number of failed attempts.
    pub(crate) attempts: u32,
    pub(crate) origin: Origin,
    /// The commit time of its journal row.
    pub(crate) committed_at: Timestamp,
}

/// Where a job comes from, which decides what remembers that it is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The first attempt: the cursor stays before its journal row.
    Journal,
    /// A postponed delivery: its row in the store must be closed.
    Stored,
    /// An event that is delivered again: its page is not done.
    Resent,
}

/// The target of deliveries.
#[derive(Clone)]
pub(crate) struct Destination {
    pub(crate) target: Arc<Target>,
    pub(crate) callback: Result<Arc<Callback>, CallbackError>,
    pub(crate) idle: Arc<Idle>,
}

/// The decision about a job.
pub(crate) enum Admission {
    /// The caller delivers the job now and calls [`Lanes::finished`] afterwards.
    Start(Job, Destination),
    /// The job is queued.
    Queued,
    /// The job waits for so long without an attempt, and for this reason.
    Postponed(Job, Duration, &'static str),
    /// The job fails without an attempt: its endpoint is unresponsive.
    Unresponsive(Job),
    /// The endpoint has gone; its tenant has not switched it on since.
    Gone(Job),
}

/// The response of an endpoint to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointResponse {
    /// The endpoint accepted or refused the delivery.
    Received,
    /// The endpoint did not respond in time.
    TimedOut,
    /// The endpoint wants no delivery before this time.
    Resting(Timestamp),
    /// The endpoint answered that it has gone.
    Gone,
}

/// The time, of the process and of the domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) real: Instant,
    pub(crate) domain: Timestamp,
}

/// The queues of all endpoints.
pub(crate) struct Lanes {
    per_endpoint: usize,
    endpoints: HashMap<(TenantNo, WebhookEndpointId), EndpointQueue>,
    queued: usize,
    queued_of_tenants: HashMap<TenantNo, usize>,
}

struct EndpointQueue {
    destination: Destination,
    lanes: Vec<Lane>,
    queued: usize,
    busy: usize,
    timeouts_in_row: u32,
    /// The time of the last timeout of an unresponsive endpoint.
    unresponsive_since: Option<Instant>,
    is_probing: bool,
    /// Domain time before which nothing is delivered.
    resting_until: Option<Timestamp>,
    has_gone: bool,
    /// When it answered last, or got the first delivery after a pause.
    answered: Instant,
    /// When the last delivery becomes due again of those that exceeded the queue.
    full_until: Instant,
    used: Instant,
}

#[derive(Default)]
struct Lane {
    queued: VecDeque<Job>,
    is_busy: bool,
}

impl Lanes {
    pub(crate) fn new(per_endpoint: usize) -> Self {
        Self {
            per_endpoint: per_endpoint.max(1),
            endpoints: HashMap::new(),
            queued: 0,
            queued_of_tenants: HashMap::new(),
        }
    }

    /// Admits a job for its endpoint as it is now.
    pub(crate) fn offer(&mut self, job: Job, target: &Arc<Target>, now: Now) -> Admission {
        let lanes = self.per_endpoint;
        let queue = self.endpoints.entry((job.tenant, job.id.endpoint));
        let queue = queue.or_insert_with(|| EndpointQueue::new(target, lanes, now.real));
        queue.set_target(target);
        queue.used = now.real;
        let at = lane_of(&job, lanes);
        if !queue.lanes[at].is_busy {
            return queue.admit(at, job, now);
        }
        let of_tenant = self.queued_of_tenants.get(&job.tenant).copied().unwrap_or_default();
        let is_full = of_tenant >= FULL_TENANT || self.queued >= FULL.all;
        if is_full || queue.queued >= queue.queued_max(now.real) {
            let delay = queue.delay_of_full(now.real);
            return Admission::Postponed(job, delay, "the endpoint is slower than its events");
        }
        self.queued_of_tenants.insert(job.tenant, of_tenant + 1);
        queue.lanes[at].queued.push_back(job);
        queue.queued += 1;
        self.queued += 1;
        Admission::Queued
    }

    /// Frees the lane of a job that was started.
    pub(crate) fn finished(&mut self, job: &Job, response: EndpointResponse, now: Now) {
        let at = lane_of(job, self.per_endpoint);
        if let Some(queue) = self.endpoints.get_mut(&(job.tenant, job.id.endpoint)) {
            queue.lanes[at].is_busy = false;
            queue.busy -= 1;
            queue.used = now.real;
            queue.record_response(response, now.real);
        }
    }

    /// Admits the next job of the lane of a finished job.
    pub(crate) fn next_after(&mut self, job: &Job, now: Now) -> Option<Admission> {
        let at = lane_of(job, self.per_endpoint);
        let queue = self.endpoints.get_mut(&(job.tenant, job.id.endpoint))?;
        if queue.lanes[at].is_busy {
            return None;
        }
        let next = queue.lanes[at].queued.pop_front()?;
        queue.queued -= 1;
        self.queued -= 1;
        if let Entry::Occupied(mut of_tenant) = self.queued_of_tenants.entry(job.tenant) {
            *of_tenant.get_mut() -= 1;
            if *of_tenant.get() == 0 {
                of_tenant.remove();
            }
        }
        Some(queue.admit(at, next, now))
    }

    /// Whether so many deliveries are queued that the follower should read more slowly.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.queued >= BACKLOGGED.all
            || self.endpoints.values().any(|it| it.queued >= BACKLOGGED.per_endpoint)
    }

    /// Drops the state and the connections of unused endpoints.
    pub(crate) fn remove_unused(&mut self, now: Instant) {
        self.endpoints.retain(|_, it| {
            it.queued > 0 || it.busy > 0 || now.duration_since(it.used) < UNUSED_MAX
        });
    }
}

/// The index of the lane of a job's account. Jobs without an account share a lane.
fn lane_of(job: &Job, lanes: usize) -> usize {
    let (_, low) = job.account.map_or((0, 0), |account| account.uuid().as_u64_pair());
    usize::try_from(low % lanes as u64).expect("an index of a lane fits")
}

impl EndpointQueue {
    fn new(target: &Arc<Target>, lanes: usize, now: Instant) -> Self {
        Self {
            destination: Destination::new(target),
            lanes: std::iter::repeat_with(Lane::default).take(lanes).collect(),
            queued: 0,
            busy: 0,
            timeouts_in_row: 0,
            unresponsive_since: None,
            is_probing: false,
            resting_until: None,
            has_gone: false,
            answered: now,
            full_until: now,
            used: now,
        }
    }

    /// Switches to what the tenant has changed. A new URL is another receiver.
    fn set_target(&mut self, target: &Arc<Target>) {
        if Arc::ptr_eq(&self.destination.target, target) {
            return;
        }
        if self.destination.target.url == target.url {
            self.destination.target = Arc::clone(target);
        } else {
            self.destination = Destination::new(target);
            self.resting_until = None;
            self.record_response(EndpointResponse::Received, self.used);
        }
        self.has_gone = false;
    }

    fn queued_max(&self, now: Instant) -> usize {
        let answers = now.duration_since(self.answered) < ANSWERED_WITHIN;
        if answers { FULL.per_endpoint } else { FULL_UNANSWERED }
    }

    /// Deliveries that exceed the queue become due one after another.
    fn delay_of_full(&mut self, now: Instant) -> Duration {
        self.full_until = (self.full_until + FULL_STEP).max(now + FULL_DELAY);
        self.full_until.duration_since(now)
    }

    fn admit(&mut self, at: usize, job: Job, now: Now) -> Admission {
        if self.has_gone {
            return Admission::Gone(job);
        }
        if let Some(until) = self.resting_until.filter(|until| now.domain < *until) {
            let rest_us = u64::try_from(until.0 - now.domain.0).unwrap_or_default();
            let delay = Duration::from_micros(rest_us);
            return Admission::Postponed(job, delay, "the endpoint asked for a pause");
        }
        if let Some(since) = self.unresponsive_since {
            if self.is_probing || now.real.duration_since(since) < UNRESPONSIVE_INTERVAL {
                return Admission::Unresponsive(job);
            }
            self.is_probing = true;
        }
        if self.busy == 0 {
            self.answered = now.real;
        }
        self.lanes[at].is_busy = true;
        self.busy += 1;
        Admission::Start(job, self.destination.clone())
    }

    fn record_response(&mut self, response: EndpointResponse, now: Instant) {
        match response {
            EndpointResponse::Received | EndpointResponse::Resting(_) | EndpointResponse::Gone => {
                self.timeouts_in_row = 0;
                self.unresponsive_since = None;
                self.answered = now;
            }
            EndpointResponse::TimedOut => {
                self.timeouts_in_row = self.timeouts_in_row.saturating_add(1);
                self.unresponsive_since =
                    (self.timeouts_in_row >= UNRESPONSIVE_AFTER).then_some(now);
            }
        }
        match response {
            EndpointResponse::Resting(until) => self.resting_until = Some(until),
            EndpointResponse::Gone => self.has_gone = true,
            EndpointResponse::Received | EndpointResponse::TimedOut => {}
        }
        self.is_probing = false;
    }
}

impl Destination {
    fn new(target: &Arc<Target>) -> Self {
        Self {
            target: Arc::clone(target),
            callback: Callback::parse(&target.url).map(Arc::new),
            idle: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Seq;
    use uuid::Uuid;

    use crate::targets::Target;

    fn job(number: i64, tenant: u32, account: u128) -> Job {
        Job {
            id: DeliveryId { seq: Seq(number), ordinal: 0, endpoint: engine::ports::CALLBACK },
            tenant: TenantNo(tenant),
            account: Some(AccountId::new(Uuid::from_u128(account))),
            kind: "account.changed",
            body: Bytes::new(),
            attempts: 0,
            origin: Origin::Journal,
            committed_at: Timestamp(0),
        }
    }

    fn shown(next: Option<&Admission>) -> String {
        match next {
            None => "-".to_owned(),
            Some(Admission::Start(job, _)) => format!("start {}", job.id.seq.0),
            Some(Admission::Queued) => "queued".to_owned(),
            Some(Admission::Postponed(job, delay, _)) => {
                format!("postponed {} for {delay:?}", job.id.seq.0)
            }
            Some(Admission::Gone(job)) => format!("gone {}", job.id.seq.0),
            Some(Admission::Unresponsive(job)) => format!("unresponsive {}", job.id.seq.0),
        }
    }

    fn target() -> Arc<Target> {
        Arc::new(Target::for_test("http://example.com/cb"))
    }

    fn now() -> Now {
        Now { real: Instant::now(), domain: Timestamp(0) }
    }

    #[test]
    fn an_account_has_one_delivery_at_a_time_and_others_are_independent() {
        let (mut lanes, target, now) = (Lanes::new(4), target(), now());
        let mut offer = |job| shown(Some(&lanes.offer(job, &target, now)));
        assert_eq!(offer(job(1, 1, 0)), "start 1");
        assert_eq!(offer(job(2, 1, 0)), "queued");
        assert_eq!(offer(job(3, 1, 1)), "start 3");
        assert_eq!(offer(job(4, 2, 0)), "start 4");
        assert_eq!(offer(job(5, 1, 4)), "queued");
        assert_eq!(shown(lanes.next_after(&job(1, 1, 0), now).as_ref()), "-");
        lanes.finished(&job(1, 1, 0), EndpointResponse::Received, now);
        assert_eq!(shown(lanes.next_after(&job(1, 1, 0), now).as_ref()), "start 2");
        lanes.finished(&job(2, 1, 0), EndpointResponse::Received, now);
        assert_eq!(shown(lanes.next_after(&job(2, 1, 0), now).as_ref()), "start 5");
        assert_eq!((lanes.queued, lanes.queued_of_tenants.len()), (0, 0));
    }

    #[test]
    fn endpoints_of_a_tenant_are_independent() {
        let (mut lanes, target, now) = (Lanes::new(1), target(), now());
        assert_eq!(shown(Some(&lanes.offer(job(1, 1, 0), &target, now))), "start 1");
        let mut other = job(2, 1, 0);
        other.id.endpoint = WebhookEndpointId::new(Uuid::from_u128(2));
        assert_eq!(shown(Some(&lanes.offer(other, &target, now))), "start 2");
    }

    #[test]
    fn jobs_above_the_queue_limit_become_due_one_after_another() {
        let (mut lanes, target, now) = (Lanes::new(1), target(), now());
        for number in 0..=i64::try_from(FULL.per_endpoint).unwrap() {
            let next = lanes.offer(job(number, 1, 0), &target, now);
            assert!(matches!(next, Admission::Start(..) | Admission::Queued), "{number}");
        }
        assert!(lanes.is_backlogged());
        let mut offer = |tenant| shown(Some(&lanes.offer(job(9_999, tenant, 0), &target, now)));
        assert_eq!(offer(1), "postponed 9999 for 1s");
        assert_eq!(offer(1), "postponed 9999 for 1.00025s");
        assert_eq!(offer(2), "start 9999");
    }

    #[test]
    fn a_tenant_with_many_endpoints_leaves_room_for_others() {
        let (mut lanes, target, now) = (Lanes::new(1), target(), now());
        let mut offer = |number: usize, tenant| {
            let mut it = job(9_999, tenant, 0);
            let endpoint = u128::try_from(number / FULL.per_endpoint).unwrap();
            it.id.endpoint = WebhookEndpointId::new(Uuid::from_u128(endpoint));
            shown(Some(&lanes.offer(it, &target, now)))
        };
        let last = (0..FULL_TENANT + 4).map(|number| offer(number, 1)).last();
        assert_eq!(last.unwrap(), "postponed 9999 for 1s");
        assert_eq!([offer(0, 2), offer(0, 2)], ["start 9999", "queued"]);
    }

    #[test]
    fn an_endpoint_that_hangs_has_a_short_queue() {
        let (mut lanes, target, begun) = (Lanes::new(1), target(), now());
        assert_eq!(shown(Some(&lanes.offer(job(0, 1, 0), &target, begun))), "start 0");
        let later = Now { real: begun.real + ANSWERED_WITHIN, ..begun };
        for number in 0..i64::try_from(FULL_UNANSWERED).unwrap() {
            assert_eq!(shown(Some(&lanes.offer(job(number, 1, 0), &target, later))), "queued");
        }
        let shown = shown(Some(&lanes.offer(job(7, 1, 0), &target, later)));
        assert_eq!(shown, "postponed 7 for 1s");
        assert!(!lanes.is_backlogged(), "the journal is read as fast as before");
    }

    #[test]
    fn an_unresponsive_endpoint_is_tried_periodically() {
        let (mut lanes, target, mut now) = (Lanes::new(64), target(), now());
        let offer = |lanes: &mut Lanes, number: i64, now| {
            let account = u128::try_from(number).unwrap();
            shown(Some(&lanes.offer(job(number, 1, account), &target, now)))
        };
        for number in 0..i64::from(UNRESPONSIVE_AFTER) {
            assert_eq!(offer(&mut lanes, number, now), format!("start {number}"));
            let one = job(number, 1, u128::try_from(number).unwrap());
            lanes.finished(&one, EndpointResponse::TimedOut, now);
        }
        assert_eq!(offer(&mut lanes, 50, now), "unresponsive 50");
        now.real += UNRESPONSIVE_INTERVAL;
        assert_eq!(offer(&mut lanes, 51, now), "start 51");
        assert_eq!(offer(&mut lanes, 52, now), "unresponsive 52");
        lanes.finished(&job(51, 1, 51), EndpointResponse::Received, now);
        assert_eq!(offer(&mut lanes, 53, now), "start 53");
        lanes.remove_unused(now.real + UNUSED_MAX);
        assert_eq!(lanes.endpoints.len(), 1, "a delivery is in progress");
        lanes.finished(&job(53, 1, 53), EndpointResponse::Received, now);
        lanes.remove_unused(now.real + UNUSED_MAX);
        assert_eq!(lanes.endpoints.len(), 0);
    }

    #[test]
    fn pauses_that_an_endpoint_asks_for_are_kept_and_one_that_has_gone_gets_nothing() {
        let (mut lanes, target, mut now) = (Lanes::new(64), target(), now());
        let one = job(1, 1, 1);
        let offer =
            |lanes: &mut Lanes, target, now| shown(Some(&lanes.offer(one.clone(), target, now)));
        assert_eq!(offer(&mut lanes, &target, now), "start 1");
        lanes.finished(&one, EndpointResponse::Resting(Timestamp(3_000_000)), now);
        assert_eq!(offer(&mut lanes, &target, now), "postponed 1 for 3s");
        now.domain = Timestamp(3_000_000);
        assert_eq!(offer(&mut lanes, &target, now), "start 1");
        lanes.finished(&one, EndpointResponse::Gone, now);
        assert_eq!(offer(&mut lanes, &target, now), "gone 1");
        let changed = self::target();
        assert_eq!(offer(&mut lanes, &changed, now), "start 1");
    }
}
