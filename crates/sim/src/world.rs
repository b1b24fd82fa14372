//! The simulated world: a process that lives and dies, or several that share partitions, with
//! clients, gateways, a disk and clocks, on one thread and from one seed.

mod disputes;
mod finish;
mod jobs;
mod owners;
mod races;
mod timeline;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::{PartitionNo, Settings, Timestamp};
use engine::partition::Times;
use engine::ports::StoreError;

use crate::ask::{Ask, Said, Uid, When};
use crate::audit::{Ledgers, Wrong};
use crate::disk::Disk;
use crate::faulty::Spy;
use crate::gateway::{Call, Fate, Gateway, Later};
use crate::model::{EXTERNAL, Model, Rules, Terms};
use crate::mutant::Mutant;
use crate::random::{Digest, Random};
use crate::schedule::Schedule;
use crate::translate;
use crate::workload::{BANK, CARD, WALLET, Workload};

use self::disputes::Disputes;
use self::owners::{Owner, OwnerId, Queue, Record};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;

/// 2027-01-01T00:00:00Z: when every simulation begins.
const BEGINNING_US: i64 = 1_798_761_600 * SECOND_US;

/// The follower of the journal that remembers its place.
pub const FOLLOWER: &str = "sim";

/// How many worlds forgot their seed: a planted bug's source of numbers.
static WORLDS: AtomicU64 = AtomicU64::new(0);

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Everything follows from it.
    pub seed: u64,
    /// How many steps.
    pub steps: u32,
    /// How many partitions; with more than one, requests come from a queue.
    pub partitions: u16,
    /// A planted bug.
    pub mutant: Option<Mutant>,
    /// Only this check counts; whatever else is wrong is passed over.
    pub only: Option<&'static str>,
    /// How many lines of what happened a failure shows.
    pub trace_max: usize,
}

impl Plan {
    /// A plan without a planted bug.
    #[must_use]
    pub const fn new(seed: u64, steps: u32) -> Self {
        Self { seed, steps, partitions: 1, mutant: None, only: None, trace_max: 60 }
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Hash of everything that was answered and everything that was stored.
    pub digest: u64,
    /// Requests that clients sent.
    pub asked: u64,
    /// Batches that committed.
    pub commits: u64,
    /// Batches that did not.
    pub troubles: u64,
    /// Times that the process died.
    pub crashes: u64,
    /// Times that a partition went from a living owner to another.
    pub moves: u64,
    /// Owners that the store refused because they own the partition no longer.
    pub fenced: u64,
    /// Batches that came too late for a key.
    pub keys_taken: u64,
    /// Deliveries of what had been made before.
    pub repeated: u64,
    /// Declines that went on to the next gateway.
    pub cascades: u64,
    /// Transactions in the end.
    pub transactions: u64,
    /// Of these, successes.
    pub successes: u64,
    /// Hash of everything that happened to subscriptions; 0 where that was not run.
    pub billing: u64,
}

/// A run that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    /// The check that failed.
    pub wrong: Wrong,
    /// The last steps.
    pub trace: Vec<String>,
}

/// Something that will happen at a point of real time.
#[derive(Clone, Debug)]
enum Event {
    /// A call reaches the gateway.
    Arrive(Call, Fate),
    /// The gateway's answer reaches the process.
    Answer(Call, Fate),
    /// The process stops waiting for a call.
    Deadline(Call),
    /// Something happens at the gateway.
    Gateway(Later),
    /// A client tries again.
    Again(u64),
    /// A request comes to the queue.
    Append(PartitionNo, Box<Record>),
    /// A client has waited long enough for the answer to one of its tries.
    Patience(u64, u32),
}

/// Work that waits for a partition.
#[derive(Clone, Debug)]
struct Job {
    ask: Ask,
    from: From,
}

impl Job {
    const fn client(&self) -> Option<u64> {
        match self.from {
            From::Client(no) => Some(no),
            From::Call | From::Resolver | From::Maker | From::Notification | From::Follower(_) => {
                None
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Client(u64),
    /// A call that ended; offered until it is written.
    Call,
    Resolver,
    /// The worker that makes queued registrations; it retries where one fails.
    Maker,
    /// A notification of the gateway, which it repeats until it is accepted.
    Notification,
    /// A follower of the journal.
    Follower(i64),
}

/// A client's request until it is answered.
#[derive(Clone, Debug)]
struct Caller {
    ask: Ask,
    tries: u32,
    /// Deliveries that are not answered yet.
    open: u32,
}

/// One simulated world.
pub struct World<D: Disk> {
    plan: Plan,
    disk: D,
    /// Of the process, where there is one.
    spy: Spy,
    settings: Arc<Settings>,
    owners: BTreeMap<OwnerId, Owner<D::Store>>,
    /// Who owns which partition.
    current: BTreeMap<PartitionNo, OwnerId>,
    /// How many owners there ever were.
    seats: u64,
    queues: BTreeMap<PartitionNo, Queue>,
    model: Model,
    gateway: Gateway,
    workload: Workload,
    random: Random,
    /// Draws which breakers are open: what others draw stays as it was.
    breakers: Random,
    /// Draws how often customers are given up: what others draw stays as it was.
    customers: Random,
    disputes: Disputes,
    calm: bool,
    real: i64,
    offset: i64,
    /// The latest domain time so far.
    latest: i64,
    events: Schedule<Event>,
    callers: BTreeMap<u64, Caller>,
    ledgers: Ledgers,
    /// The first answers to requests that can come again, word by word, by idempotency key and print; each with
    /// the domain time until which it holds.
    words: BTreeMap<(Uid, Uid), (i64, String)>,
    trace: VecDeque<String>,
    digest: Digest,
    summary: Summary,
}

/// The settings of every simulation.
#[must_use]
pub fn rules() -> Rules {
    let terms = |timeout_s: i64, settle_after_s: i64| Terms {
        at_once: false,
        timeout_us: timeout_s * SECOND_US,
        settle_after_us: settle_after_s * SECOND_US,
        action_timeout_us: Some(24 * HOUR_US),
    };
    let external =
        Terms { at_once: true, timeout_us: 0, settle_after_us: 0, action_timeout_us: None };
    Rules {
        gateways: BTreeMap::from([
            (CARD, terms(10, 20)),
            (WALLET, terms(3, 8)),
            (BANK, terms(5, 10)),
            (EXTERNAL, external),
        ]),
        unknown_delays_us: [1, 5, 60, 300, 3_600, 86_400, 86_400].map(|s| s * SECOND_US).to_vec(),
        pending_delays_us: [3_600, 86_400, 86_400].map(|s| s * SECOND_US).to_vec(),
        transactions_max: 6,
        tries_us: 14 * SECOND_US,
        next_try_min_us: 5 * SECOND_US,
        reply_keep_us: 24 * HOUR_US,
    }
}

impl<D: Disk> World<D> {
    /// A world at its beginning.
    ///
    /// # Errors
    /// Where the store cannot be opened.
    pub fn new(plan: Plan, disk: D) -> Result<Self, StoreError> {
        let rules = rules();
        let seed = match plan.mutant {
            Some(Mutant::ForgetsItsSeed) => WORLDS.fetch_add(1, Ordering::Relaxed),
            _ => plan.seed,
        };
        let settings = Arc::new(translate::settings(&rules));
        let spy = Spy::default();
        let mut world = Self {
            plan,
            disk,
            spy,
            settings,
            owners: BTreeMap::new(),
            current: BTreeMap::new(),
            seats: 0,
            queues: BTreeMap::new(),
            model: Model::new(rules),
            gateway: Gateway::new(seed),
            workload: Workload::new(plan.seed),
            random: Random::new(plan.seed, "world"),
            breakers: Random::new(plan.seed, "breakers"),
            customers: Random::new(plan.seed, "given up"),
            disputes: Disputes::new(plan.seed),
            calm: true,
            real: BEGINNING_US,
            offset: 0,
            latest: BEGINNING_US,
            events: Schedule::default(),
            callers: BTreeMap::new(),
            ledgers: Ledgers::default(),
            words: BTreeMap::new(),
            trace: VecDeque::new(),
            digest: Digest::default(),
            summary: Summary {
                digest: 0,
                asked: 0,
                commits: 0,
                troubles: 0,
                crashes: 0,
                moves: 0,
                fenced: 0,
                keys_taken: 0,
                repeated: 0,
                cascades: 0,
                transactions: 0,
                successes: 0,
                billing: 0,
            },
        };
        world.gateway.forgets_ids = world.is(Mutant::GatewayForgetsIds);
        for no in world.partitions() {
            world.open(no)?;
        }
        Ok(world)
    }

    /// Runs to the end, and checks everything.
    ///
    /// # Errors
    /// A [`Failure`] with the first thing that was wrong.
    pub fn run(mut self) -> Result<Summary, Failure> {
        match self.live() {
            Ok(()) => Ok(self.summary),
            Err(wrong) => {
                let trace = self.trace.into_iter().collect();
                Err(Failure { seed: self.plan.seed, wrong, trace })
            }
        }
    }

    fn live(&mut self) -> Result<(), Wrong> {
        self.furnish()?;
        self.calm = false;
        for _ in 0..self.plan.steps {
            self.step()?;
        }
        self.finish()
    }

    fn step(&mut self) -> Result<(), Wrong> {
        let (count, kind) = (self.random.below(4), self.random.below(1000));
        for _ in 0..count {
            self.client_asks();
        }
        match kind {
            0..=14 => self.crash_somebody()?,
            15..=29 => self.jump(),
            30..=129 => self.resolve(),
            130..=199 => self.refresh(),
            200..=229 => self.operator(),
            230..=259 => self.hearsay(),
            260..=299 => self.repeat_answered(),
            380..=399 => self.make_kept(),
            300..=379 if self.is_shared() => self.move_partition()?,
            _ => {}
        }
        self.dispute();
        if self.random.chance(800) {
            self.drain()?;
        }
        let pause = match self.random.below(100) {
            0..=59 => self.random.between(1, SECOND_US),
            60..=94 => self.random.between(1, 15 * SECOND_US),
            95..=98 => self.random.between(1, HOUR_US),
            _ => self.random.between(1, 30 * HOUR_US),
        };
        self.advance(self.real + pause)
    }

    /// The time, as it is.
    const fn when(&self) -> When {
        When { domain: self.real + self.offset, real: self.real }
    }

    /// The time, as the process reads it.
    fn times(&mut self) -> Times {
        let When { mut domain, mut real } = self.when();
        if self.plan.mutant == Some(Mutant::ClockRunsAhead) {
            real += HOUR_US;
        }
        if self.plan.mutant == Some(Mutant::ClockGoesBack)
            && self.events.last_number().is_multiple_of(3)
        {
            domain -= SECOND_US;
        }
        Times { now: Timestamp(domain), real_now: Timestamp(real) }
    }

    fn crash_somebody(&mut self) -> Result<(), Wrong> {
        let ids: Vec<OwnerId> = self.owners.keys().copied().collect();
        let id = if let [one] = ids.as_slice() { *one } else { *self.random.pick(&ids) };
        self.crash(id)
    }

    /// A process dies: what it knew is gone, what it had sent is on its way.
    fn crash(&mut self, id: OwnerId) -> Result<(), Wrong> {
        self.note("the process dies".to_owned());
        self.summary.crashes += 1;
        let (no, was_stale) = (self.owners[&id].no, self.is_stale(id));
        if !self.is_shared() {
            let lost: Vec<u64> = self.callers.keys().copied().collect();
            for no in lost {
                self.lost(no);
            }
        }
        self.end(id);
        if was_stale { Ok(()) } else { self.take_over(no) }
    }

    /// The test clock jumps.
    fn jump(&mut self) {
        let hours = self.random.between(-48, 72);
        let offset = if self.random.chance(200) { 0 } else { self.offset + hours * HOUR_US };
        // A store may forget a reply once it has expired: no jump goes back to before that.
        let (from, to) = (self.real + offset, self.latest.max(self.when().domain));
        let mut kept = self.model.replies.values().filter(|kept| kept.said.is_some());
        if kept.any(|kept| from < kept.until && kept.until <= to) {
            return;
        }
        self.latest = to;
        self.offset = offset;
        self.note(format!("the domain's clock is {} h ahead", self.offset / HOUR_US));
    }

    fn later(&mut self, delay_us: i64, event: Event) {
        self.events.at(self.real + delay_us, event);
    }

    fn note(&mut self, line: String) {
        self.digest.add(&line);
        if self.trace.len() >= self.plan.trace_max.max(1) {
            self.trace.pop_front();
        }
        let seconds = (self.real - BEGINNING_US) / SECOND_US;
        let micros = (self.real - BEGINNING_US) % SECOND_US;
        self.trace.push_back(format!("{seconds:>7}.{micros:06} {line}"));
    }

    /// Whether a failed check ends the simulation: it does unless only another one counts.
    fn hold(&self, check: Result<(), Wrong>) -> Result<(), Wrong> {
        let counts = |wrong: &Wrong| self.plan.only.is_none_or(|only| only == wrong.check);
        check.or_else(|wrong| if counts(&wrong) { Err(wrong) } else { Ok(()) })
    }

    fn hold_all(&self, found: Vec<Wrong>) -> Result<(), Wrong> {
        found.into_iter().try_for_each(|wrong| self.hold(Err(wrong)))
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.plan.mutant == Some(mutant)
    }

    /// Whether the answer may be relied upon for ever.
    fn acknowledge(&mut self, tenant: u32, said: &Said) {
        self.ledgers.acknowledged.push((tenant, said.clone()));
    }
}
