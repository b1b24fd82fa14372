//! Which delivery goes next: per callback so many lanes, per lane one at a time, in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{AccountId, TenantNo, Timestamp};
use engine::ports::DeliveryId;
use tokio::time::Instant;

use super::callback::{Callback, CallbackError};
use crate::outbound::Idle;

/// From so many waiting deliveries on, no more of the journal is read for a while.
const CROWDED: Limits = Limits { per_callback: 2_048, all: 16_384 };
/// So many wait at most; what comes then is postponed.
const FULL: Limits = Limits { per_callback: 4_096, all: 32_768 };

/// After so many timeouts in a row a callback counts as hung.
const HUNG_AFTER: u32 = 8;
/// How often a hung callback is tried.
const HUNG_PAUSE: Duration = Duration::from_secs(30);

/// How long a callback is remembered that nothing is delivered to.
const FORGET_AFTER: Duration = Duration::from_secs(60);

struct Limits {
    per_callback: usize,
    all: usize,
}

/// One delivery to be made.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: DeliveryId,
    pub(super) tenant: TenantNo,
    pub(super) account: Option<AccountId>,
    pub(super) body: Bytes,
    /// Failed attempts so far.
    pub(super) attempts: u32,
    /// Whether the store has a row of it, which must be closed in the end.
    pub(super) is_stored: bool,
    /// When its journal row was committed.
    pub(super) committed_at: Timestamp,
}

/// Where deliveries go.
#[derive(Clone)]
pub(super) struct Destination {
    pub(super) callback: Result<Arc<Callback>, CallbackError>,
    pub(super) idle: Arc<Idle>,
}

/// What is to be done with a job.
pub(super) enum Next {
    /// Deliver it now, and say [`Lanes::ended`] afterwards.
    Start(Job, Destination),
    /// It waits.
    Waits,
    /// There is no room for it.
    Full(Job),
    /// It counts as failed: its callback does not answer.
    Hangs(Job),
}

/// What an attempt says about its callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It answered or refused.
    Quickly,
    /// It did not answer in time.
    Never,
}

/// All callbacks that something is delivered to.
pub(super) struct Lanes {
    per_callback: usize,
    callbacks: HashMap<TenantNo, Receiving>,
    waiting: usize,
}

struct Receiving {
    url: String,
    destination: Destination,
    lanes: Vec<Lane>,
    waiting: usize,
    busy: usize,
    timeouts_in_row: u32,
    /// When it was found to hang the last time.
    hung_since: Option<Instant>,
    is_tried: bool,
    used: Instant,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Job>,
    is_busy: bool,
}

impl Lanes {
    pub(super) fn new(per_callback: usize) -> Self {
        Self { per_callback: per_callback.max(1), callbacks: HashMap::new(), waiting: 0 }
    }

    /// Takes a job for the callback that its tenant has now.
    pub(super) fn offer(&mut self, job: Job, url: &str, now: Instant) -> Next {
        let lanes = self.per_callback;
        let receiving = self.callbacks.entry(job.tenant);
        let receiving = receiving.or_insert_with(|| Receiving::new(url, lanes, now));
        receiving.follow(url);
        receiving.used = now;
        let at = lane_of(&job, lanes);
        if !receiving.lanes[at].is_busy {
            return receiving.admit(at, job, now);
        }
        if receiving.waiting >= FULL.per_callback || self.waiting >= FULL.all {
            return Next::Full(job);
        }
        receiving.lanes[at].waiting.push_back(job);
        receiving.waiting += 1;
        self.waiting += 1;
        Next::Waits
    }

    /// Frees the lane of a job that was started.
    pub(super) fn ended(&mut self, job: &Job, answered: Answered, now: Instant) {
        let at = lane_of(job, self.per_callback);
        if let Some(receiving) = self.callbacks.get_mut(&job.tenant) {
            receiving.lanes[at].is_busy = false;
            receiving.busy -= 1;
            receiving.used = now;
            receiving.learn(answered, now);
        }
    }

    /// The next job on the lane that this one was on.
    pub(super) fn after(&mut self, job: &Job, now: Instant) -> Option<Next> {
        let at = lane_of(job, self.per_callback);
        let receiving = self.callbacks.get_mut(&job.tenant)?;
        if receiving.lanes[at].is_busy {
            return None;
        }
        let next = receiving.lanes[at].waiting.pop_front()?;
        receiving.waiting -= 1;
        self.waiting -= 1;
        Some(receiving.admit(at, next, now))
    }

    /// Whether reading on would only make things wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting >= CROWDED.all
            || self.callbacks.values().any(|it| it.waiting >= CROWDED.per_callback)
    }

    /// Forgets callbacks that nothing was delivered to for a while, and their connections.
    pub(super) fn forget_unused(&mut self, now: Instant) {
        self.callbacks.retain(|_, it| {
            it.waiting > 0 || it.busy > 0 || now.duration_since(it.used) < FORGET_AFTER
        });
    }
}

/// The lane of a job's account; what is about no account has one of the lanes, too.
fn lane_of(job: &Job, lanes: usize) -> usize {
    let (_, low) = job.account.map_or((0, 0), |account| account.uuid().as_u64_pair());
    usize::try_from(low % lanes as u64).expect("smaller than a usize")
}

impl Receiving {
    fn new(url: &str, lanes: usize, now: Instant) -> Self {
        Self {
            url: url.to_owned(),
            destination: Destination::of(url),
            lanes: std::iter::repeat_with(Lane::default).take(lanes).collect(),
            waiting: 0,
            busy: 0,
            timeouts_in_row: 0,
            hung_since: None,
            is_tried: false,
            used: now,
        }
    }

    /// A tenant that registers another URL gets everything there from now on.
    fn follow(&mut self, url: &str) {
        if self.url != url {
            url.clone_into(&mut self.url);
            self.destination = Destination::of(url);
            self.learn(Answered::Quickly, self.used);
        }
    }

    fn admit(&mut self, at: usize, job: Job, now: Instant) -> Next {
        if let Some(since) = self.hung_since {
            if self.is_tried || now.duration_since(since) < HUNG_PAUSE {
                return Next::Hangs(job);
            }
            self.is_tried = true;
        }
        self.lanes[at].is_busy = true;
        self.busy += 1;
        Next::Start(job, self.destination.clone())
    }

    fn learn(&mut self, answered: Answered, now: Instant) {
        match answered {
            Answered::Quickly => {
                self.timeouts_in_row = 0;
                self.hung_since = None;
            }
            Answered::Never => {
                self.timeouts_in_row = self.timeouts_in_row.saturating_add(1);
                self.hung_since = (self.timeouts_in_row >= HUNG_AFTER).then_some(now);
            }
        }
        self.is_tried = false;
    }
}

impl Destination {
    fn of(url: &str) -> Self {
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

    fn shown(next: Option<&Next>) -> String {
        match next {
            None => "-".to_owned(),
            Some(Next::Start(job, _)) => format!("start {}", job.id.seq.0),
            Some(Next::Waits) => "waits".to_owned(),
            Some(Next::Full(job)) => format!("full {}", job.id.seq.0),
            Some(Next::Hangs(job)) => format!("hangs {}", job.id.seq.0),
        }
    }

    const URL: &str = "http://example.com/cb";

    #[test]
    fn an_account_has_one_delivery_at_a_time_and_others_do_not_wait() {
        let (mut lanes, now) = (Lanes::new(4), Instant::now());
        let mut offer = |job| shown(Some(&lanes.offer(job, URL, now)));
        assert_eq!(offer(job(1, 1, 0)), "start 1");
        assert_eq!(offer(job(2, 1, 0)), "waits");
        assert_eq!(offer(job(3, 1, 1)), "start 3");
        assert_eq!(offer(job(4, 2, 0)), "start 4");
        assert_eq!(offer(job(5, 1, 4)), "waits");
        assert_eq!(shown(lanes.after(&job(1, 1, 0), now).as_ref()), "-");
        lanes.ended(&job(1, 1, 0), Answered::Quickly, now);
        assert_eq!(shown(lanes.after(&job(1, 1, 0), now).as_ref()), "start 2");
        lanes.ended(&job(2, 1, 0), Answered::Quickly, now);
        assert_eq!(shown(lanes.after(&job(2, 1, 0), now).as_ref()), "start 5");
        assert_eq!(lanes.waiting, 0);
    }

    #[test]
    fn what_has_no_room_is_given_back() {
        let (mut lanes, now) = (Lanes::new(1), Instant::now());
        for number in 0..=i64::try_from(FULL.per_callback).unwrap() {
            let next = lanes.offer(job(number, 1, 0), URL, now);
            assert!(matches!(next, Next::Start(..) | Next::Waits), "{number}");
        }
        assert!(lanes.is_crowded());
        assert_eq!(shown(Some(&lanes.offer(job(9_999, 1, 0), URL, now))), "full 9999");
        assert_eq!(shown(Some(&lanes.offer(job(9_999, 2, 0), URL, now))), "start 9999");
    }

    #[test]
    fn a_callback_that_hangs_is_tried_once_in_a_while() {
        let (mut lanes, mut now) = (Lanes::new(64), Instant::now());
        for number in 0..i64::from(HUNG_AFTER) {
            let one = job(number, 1, u128::try_from(number).unwrap());
            assert_eq!(shown(Some(&lanes.offer(one.clone(), URL, now))), format!("start {number}"));
            lanes.ended(&one, Answered::Never, now);
        }
        assert_eq!(shown(Some(&lanes.offer(job(50, 1, 50), URL, now))), "hangs 50");
        now += HUNG_PAUSE;
        assert_eq!(shown(Some(&lanes.offer(job(51, 1, 51), URL, now))), "start 51");
        assert_eq!(shown(Some(&lanes.offer(job(52, 1, 52), URL, now))), "hangs 52");
        lanes.ended(&job(51, 1, 51), Answered::Quickly, now);
        assert_eq!(shown(Some(&lanes.offer(job(53, 1, 53), URL, now))), "start 53");
        lanes.forget_unused(now + FORGET_AFTER);
        assert_eq!(lanes.callbacks.len(), 1, "a delivery is under way");
        lanes.ended(&job(53, 1, 53), Answered::Quickly, now);
        lanes.forget_unused(now + FORGET_AFTER);
        assert_eq!(lanes.callbacks.len(), 0);
    }
}
