//! Schedules deliveries: each callback has several lanes, and each lane makes one delivery at a time, in
//! order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{AccountId, TenantNo, Timestamp};
use engine::ports::DeliveryId;
use tokio::time::Instant;

use crate::callback::{Callback, CallbackError};
use crate::outbound::Idle;

/// The numbers of queued deliveries from which the follower reads the journal more slowly.
const BACKLOGGED: Limits = Limits { per_callback: 2_048, all: 16_384 };
/// The maximum numbers of queued deliveries. Further ones are postponed.
const FULL: Limits = Limits { per_callback: 4_096, all: 32_768 };

/// The number of consecutive timeouts after which a callback counts as unresponsive.
const UNRESPONSIVE_AFTER: u32 = 8;
/// The interval of attempts at an unresponsive callback.
const UNRESPONSIVE_INTERVAL: Duration = Duration::from_secs(30);

/// How long the state of an unused callback is kept.
const UNUSED_MAX: Duration = Duration::from_secs(60);

struct Limits {
    per_callback: usize,
    all: usize,
}

/// A notification to be delivered to a callback.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: DeliveryId,
    pub(super) tenant: TenantNo,
    pub(super) account: Option<AccountId>,
    pub(super) body: Bytes,
    /// The number of failed attempts.
    pub(super) attempts: u32,
    /// Whether the store has a row of the delivery, which must be closed.
    pub(super) is_stored: bool,
    /// The commit time of its journal row.
    pub(super) committed_at: Timestamp,
}

/// The target of deliveries.
#[derive(Clone)]
pub(super) struct Destination {
    pub(super) callback: Result<Arc<Callback>, CallbackError>,
    pub(super) idle: Arc<Idle>,
}

/// The decision about a job.
pub(super) enum Admission {
    /// The caller delivers the job now and calls [`Lanes::finished`] afterwards.
    Start(Job, Destination),
    /// The job is queued.
    Queued,
    /// The queue is full.
    Full(Job),
    /// The job fails without an attempt: its callback is unresponsive.
    Unresponsive(Job),
}

/// The response of a callback to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallbackResponse {
    /// The callback accepted or refused the delivery.
    Received,
    /// The callback did not respond in time.
    TimedOut,
}

/// The queues of all callbacks.
pub(super) struct Lanes {
    per_callback: usize,
    callbacks: HashMap<TenantNo, CallbackQueue>,
    queued: usize,
}

struct CallbackQueue {
    url: String,
    destination: Destination,
    lanes: Vec<Lane>,
    queued: usize,
    busy: usize,
    timeouts_in_row: u32,
    /// The time of the last timeout of an unresponsive callback.
    unresponsive_since: Option<Instant>,
    is_probing: bool,
    used: Instant,
}

#[derive(Default)]
struct Lane {
    queued: VecDeque<Job>,
    is_busy: bool,
}

impl Lanes {
    pub(super) fn new(per_callback: usize) -> Self {
        Self { per_callback: per_callback.max(1), callbacks: HashMap::new(), queued: 0 }
    }

    /// Admits a job for the current callback of its tenant.
    pub(super) fn offer(&mut self, job: Job, url: &str, now: Instant) -> Admission {
        let lanes = self.per_callback;
        let queue = self.callbacks.entry(job.tenant);
        let queue = queue.or_insert_with(|| CallbackQueue::new(url, lanes, now));
        queue.set_url(url);
        queue.used = now;
        let at = lane_of(&job, lanes);
        if !queue.lanes[at].is_busy {
            return queue.admit(at, job, now);
        }
        if queue.queued >= FULL.per_callback || self.queued >= FULL.all {
            return Admission::Full(job);
        }
        queue.lanes[at].queued.push_back(job);
        queue.queued += 1;
        self.queued += 1;
        Admission::Queued
    }

    /// Frees the lane of a job that was started.
    pub(super) fn finished(&mut self, job: &Job, response: CallbackResponse, now: Instant) {
        let at = lane_of(job, self.per_callback);
        if let Some(queue) = self.callbacks.get_mut(&job.tenant) {
            queue.lanes[at].is_busy = false;
            queue.busy -= 1;
            queue.used = now;
            queue.record_response(response, now);
        }
    }

    /// Admits the next job of the lane of a finished job.
    pub(super) fn next_after(&mut self, job: &Job, now: Instant) -> Option<Admission> {
        let at = lane_of(job, self.per_callback);
        let queue = self.callbacks.get_mut(&job.tenant)?;
        if queue.lanes[at].is_busy {
            return None;
        }
        let next = queue.lanes[at].queued.pop_front()?;
        queue.queued -= 1;
        self.queued -= 1;
        Some(queue.admit(at, next, now))
    }

    /// Whether so many deliveries are queued that the follower should read more slowly.
    pub(super) fn is_backlogged(&self) -> bool {
        self.queued >= BACKLOGGED.all
            || self.callbacks.values().any(|it| it.queued >= BACKLOGGED.per_callback)
    }

    /// Drops the state and the connections of unused callbacks.
    pub(super) fn remove_unused(&mut self, now: Instant) {
        self.callbacks.retain(|_, it| {
            it.queued > 0 || it.busy > 0 || now.duration_since(it.used) < UNUSED_MAX
        });
    }
}

/// The index of the lane of a job's account. Jobs without an account share a lane.
fn lane_of(job: &Job, lanes: usize) -> usize {
    let (_, low) = job.account.map_or((0, 0), |account| account.uuid().as_u64_pair());
    usize::try_from(low % lanes as u64).expect("an index of a lane fits")
}

impl CallbackQueue {
    fn new(url: &str, lanes: usize, now: Instant) -> Self {
        Self {
            url: url.to_owned(),
            destination: Destination::new(url),
            lanes: std::iter::repeat_with(Lane::default).take(lanes).collect(),
            queued: 0,
            busy: 0,
            timeouts_in_row: 0,
            unresponsive_since: None,
            is_probing: false,
            used: now,
        }
    }

    /// Switches to a new URL of the tenant.
    fn set_url(&mut self, url: &str) {
        if self.url != url {
            url.clone_into(&mut self.url);
            self.destination = Destination::new(url);
            self.record_response(CallbackResponse::Received, self.used);
        }
    }

    fn admit(&mut self, at: usize, job: Job, now: Instant) -> Admission {
        if let Some(since) = self.unresponsive_since {
            if self.is_probing || now.duration_since(since) < UNRESPONSIVE_INTERVAL {
                return Admission::Unresponsive(job);
            }
            self.is_probing = true;
        }
        self.lanes[at].is_busy = true;
        self.busy += 1;
        Admission::Start(job, self.destination.clone())
    }

    fn record_response(&mut self, response: CallbackResponse, now: Instant) {
        match response {
            CallbackResponse::Received => {
                self.timeouts_in_row = 0;
                self.unresponsive_since = None;
            }
            CallbackResponse::TimedOut => {
                self.timeouts_in_row = self.timeouts_in_row.saturating_add(1);
                self.unresponsive_since =
                    (self.timeouts_in_row >= UNRESPONSIVE_AFTER).then_some(now);
            }
        }
        self.is_probing = false;
    }
}

impl Destination {
    fn new(url: &str) -> Self {
        Self { callback: Callback::parse(url).map(Arc::new), idle: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Seq;
    use uuid::Uuid;

    fn job(number: i64, tenant: u32, account: u128) -> Job {
        Job {
            id: DeliveryId { seq: Seq(number), ordinal: 0 },
            tenant: TenantNo(tenant),
            account: Some(AccountId::new(Uuid::from_u128(account))),
            body: Bytes::new(),
            attempts: 0,
            is_stored: false,
            committed_at: Timestamp(0),
        }
    }

    fn shown(next: Option<&Admission>) -> String {
        match next {
            None => "-".to_owned(),
            Some(Admission::Start(job, _)) => format!("start {}", job.id.seq.0),
            Some(Admission::Queued) => "queued".to_owned(),
            Some(Admission::Full(job)) => format!("full {}", job.id.seq.0),
            Some(Admission::Unresponsive(job)) => format!("unresponsive {}", job.id.seq.0),
        }
    }

    const URL: &str = "http://example.com/cb";

    #[test]
    fn an_account_has_one_delivery_at_a_time_and_others_are_independent() {
        let (mut lanes, now) = (Lanes::new(4), Instant::now());
        let mut offer = |job| shown(Some(&lanes.offer(job, URL, now)));
        assert_eq!(offer(job(1, 1, 0)), "start 1");
        assert_eq!(offer(job(2, 1, 0)), "queued");
        assert_eq!(offer(job(3, 1, 1)), "start 3");
        assert_eq!(offer(job(4, 2, 0)), "start 4");
        assert_eq!(offer(job(5, 1, 4)), "queued");
        assert_eq!(shown(lanes.next_after(&job(1, 1, 0), now).as_ref()), "-");
        lanes.finished(&job(1, 1, 0), CallbackResponse::Received, now);
        assert_eq!(shown(lanes.next_after(&job(1, 1, 0), now).as_ref()), "start 2");
        lanes.finished(&job(2, 1, 0), CallbackResponse::Received, now);
        assert_eq!(shown(lanes.next_after(&job(2, 1, 0), now).as_ref()), "start 5");
        assert_eq!(lanes.queued, 0);
    }

    #[test]
    fn jobs_above_the_queue_limit_are_returned() {
        let (mut lanes, now) = (Lanes::new(1), Instant::now());
        for number in 0..=i64::try_from(FULL.per_callback).unwrap() {
            let next = lanes.offer(job(number, 1, 0), URL, now);
            assert!(matches!(next, Admission::Start(..) | Admission::Queued), "{number}");
        }
        assert!(lanes.is_backlogged());
        assert_eq!(shown(Some(&lanes.offer(job(9_999, 1, 0), URL, now))), "full 9999");
        assert_eq!(shown(Some(&lanes.offer(job(9_999, 2, 0), URL, now))), "start 9999");
    }

    #[test]
    fn an_unresponsive_callback_is_tried_periodically() {
        let (mut lanes, mut now) = (Lanes::new(64), Instant::now());
        for number in 0..i64::from(UNRESPONSIVE_AFTER) {
            let one = job(number, 1, u128::try_from(number).unwrap());
            assert_eq!(shown(Some(&lanes.offer(one.clone(), URL, now))), format!("start {number}"));
            lanes.finished(&one, CallbackResponse::TimedOut, now);
        }
        assert_eq!(shown(Some(&lanes.offer(job(50, 1, 50), URL, now))), "unresponsive 50");
        now += UNRESPONSIVE_INTERVAL;
        assert_eq!(shown(Some(&lanes.offer(job(51, 1, 51), URL, now))), "start 51");
        assert_eq!(shown(Some(&lanes.offer(job(52, 1, 52), URL, now))), "unresponsive 52");
        lanes.finished(&job(51, 1, 51), CallbackResponse::Received, now);
        assert_eq!(shown(Some(&lanes.offer(job(53, 1, 53), URL, now))), "start 53");
        lanes.remove_unused(now + UNUSED_MAX);
        assert_eq!(lanes.callbacks.len(), 1, "a delivery is in progress");
        lanes.finished(&job(53, 1, 53), CallbackResponse::Received, now);
        lanes.remove_unused(now + UNUSED_MAX);
        assert_eq!(lanes.callbacks.len(), 0);
    }
}
