//! The load itself: a closed or an open loop, and how soon the server is itself again afterwards.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::interval;

use super::client::{Answer, Client};
use super::health;
use super::requests::Verdict;
use crate::bench::schedule::Schedule;
use crate::bench::tally::Latencies;

/// Requests one after the other before the load: how long one takes when there is no other.
const UNLOADED_REQUESTS: usize = 5;
/// A request below so many times the unloaded latency is a normal one.
const NORMAL_TIMES: u32 = 2;
/// And so is one below this: so little is the noise of the machine, not load.
const NORMAL_ANYWAY: Duration = Duration::from_millis(50);
/// How long to wait for normal latency.
const RECOVERY_MAX: Duration = Duration::from_secs(120);
/// Between two requests that ask whether latency is normal again.
const RECOVERY_PAUSE: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// How often, and how long.
#[derive(Clone, Copy)]
pub struct Pace {
    /// When users are due, in an open loop.
    pub schedule: Option<Schedule>,
    /// No more than these.
    pub users: u64,
    /// Nobody begins later than this.
    pub duration: Option<Duration>,
    /// How many at once, in a closed loop.
    pub concurrency: usize,
    /// How many may wait for their answer, in an open loop.
    pub in_flight_max: usize,
}

/// What became of everybody.
pub struct Outcome {
    /// Of those who succeeded.
    pub latencies: Latencies,
    /// How long refusals took to come.
    pub refusals: Latencies,
    /// All others.
    pub error_kinds: BTreeMap<String, u64>,
    /// From the first to the last answer.
    pub took: Duration,
    /// Of an open loop.
    pub recovery: Option<Recovery>,
}

/// How the server came back to normal after an open loop.
pub struct Recovery {
    /// From the last scheduled request; `None` where it did not.
    pub took: Option<Duration>,
    /// Users who were asked about on the way, and made.
    pub made: u64,
}

#[derive(Default)]
struct Counts {
    latencies: Latencies,
    refusals: Latencies,
    error_kinds: BTreeMap<String, u64>,
    first_failure: Option<String>,
    last_answer: Option<Instant>,
}

impl Counts {
    fn answered(&mut self, due: Instant, answer: Answer) {
        let now = Instant::now();
        let took = now.saturating_duration_since(due);
        self.last_answer = Some(now);
        match answer.verdict {
            Verdict::Done => self.latencies.record(took),
            Verdict::Refused => self.refusals.record(took),
            Verdict::Failed(kind) => {
                let said = answer.said.unwrap_or_default();
                self.first_failure.get_or_insert_with(|| format!("{kind} {said}"));
                *self.error_kinds.entry(kind).or_default() += 1;
            }
        }
    }

    fn errors(&self) -> u64 {
        self.error_kinds.values().sum()
    }
}

/// Checks health and sends a few requests, one after the other: their median latency.
///
/// # Errors
/// Where one does not succeed, so that nothing could be measured.
pub async fn preflight(client: &Client) -> anyhow::Result<Duration> {
    let path = client.sort.health_path();
    if let Err(kind) = health::check(&client.target, path).await {
        anyhow::bail!("GET {path}: {kind}");
    }
    let mut latencies = Vec::with_capacity(UNLOADED_REQUESTS);
    for _ in 0..UNLOADED_REQUESTS {
        let started = Instant::now();
        let Answer { verdict, said } = client.ask().await;
        let said = said.unwrap_or_default();
        let name = client.sort.name();
        match verdict {
            Verdict::Done => latencies.push(started.elapsed()),
            Verdict::Refused => anyhow::bail!("the first {name} is refused: {said}"),
            Verdict::Failed(kind) => anyhow::bail!("the first {name} failed: {kind} {said}"),
        }
    }
    latencies.sort();
    Ok(latencies[UNLOADED_REQUESTS / 2])
}

/// Runs the load until everybody has an answer.
pub async fn run(client: &Rc<Client>, pace: Pace, unloaded: Duration) -> Outcome {
    let counts = Rc::new(RefCell::new(Counts::default()));
    let started = Instant::now();
    let progress = show_progress(Rc::clone(&counts), started);
    let recovery = match pace.schedule {
        None => {
            closed_loop(client, &counts, pace, started).await;
            None
        }
        Some(schedule) => {
            let mut waiting = open_loop(client, &counts, (pace, schedule), started).await;
            let all_answered = async { while waiting.join_next().await.is_some() {} };
            let recovered = recover(client, unloaded, Instant::now());
            Some(tokio::join!(all_answered, recovered).1)
        }
    };
    progress.abort();
    let counts = counts.take();
    if let Some(failure) = &counts.first_failure {
        eprintln!("the first failure: {failure}");
    }
    let last = counts.last_answer.unwrap_or(started);
    Outcome {
        latencies: counts.latencies,
        refusals: counts.refusals,
        error_kinds: counts.error_kinds,
        took: last.duration_since(started),
        recovery,
    }
}

/// Each begins with another user as soon as the last has an answer.
async fn closed_loop(
    client: &Rc<Client>,
    counts: &Rc<RefCell<Counts>>,
    pace: Pace,
    started: Instant,
) {
    let left = Rc::new(RefCell::new(pace.users));
    let mut loops = JoinSet::new();
    for _ in 0..pace.concurrency {
        let (client, counts, left) = (Rc::clone(client), Rc::clone(counts), Rc::clone(&left));
        loops.spawn_local(async move {
            loop {
                let now = Instant::now();
                let is_over = pace.duration.is_some_and(|duration| now >= started + duration);
                if is_over || *left.borrow() == 0 {
                    break;
                }
                *left.borrow_mut() -= 1;
                let answer = client.ask().await;
                counts.borrow_mut().answered(now, answer);
            }
        });
    }
    loops.join_all().await;
}

/// Each begins when it is due, whatever became of those before; those who still wait at the end.
async fn open_loop(
    client: &Rc<Client>,
    counts: &Rc<RefCell<Counts>>,
    (pace, schedule): (Pace, Schedule),
    started: Instant,
) -> JoinSet<()> {
    let mut waiting = JoinSet::new();
    for number in 0..pace.users {
        let due = schedule.due(number);
        if pace.duration.is_some_and(|duration| due >= duration) {
            break;
        }
        let due = started + due;
        tokio::time::sleep_until(due.into()).await;
        while waiting.try_join_next().is_some() {}
        if waiting.len() >= pace.in_flight_max {
            let kind = "not sent: too many in flight".to_owned();
            counts.borrow_mut().answered(due, Answer::none(kind));
            continue;
        }
        let (client, counts) = (Rc::clone(client), Rc::clone(counts));
        waiting.spawn_local(async move {
            let answer = client.ask().await;
            counts.borrow_mut().answered(due, answer);
        });
    }
    waiting
}

/// Asks one by one until an answer comes as quickly as it did without load.
async fn recover(client: &Client, unloaded: Duration, ended: Instant) -> Recovery {
    let normal = (unloaded * NORMAL_TIMES).max(NORMAL_ANYWAY);
    let mut made = 0;
    while ended.elapsed() < RECOVERY_MAX {
        let asked = Instant::now();
        let is_done = client.ask().await.verdict == Verdict::Done;
        made += u64::from(is_done);
        if is_done && asked.elapsed() < normal {
            return Recovery { took: Some(ended.elapsed()), made };
        }
        tokio::time::sleep(RECOVERY_PAUSE).await;
    }
    Recovery { took: None, made }
}

/// A line each second.
fn show_progress(counts: Rc<RefCell<Counts>>, started: Instant) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        let mut ticks = interval(PROGRESS_EVERY);
        let mut done = 0;
        // The first tick comes at once.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let counts = counts.borrow();
            let now_done = counts.latencies.count();
            eprintln!(
                "{:>4} s  {:>6} done, {:>8} in all  {} refused  {} errors",
                started.elapsed().as_secs(),
                now_done - done,
                now_done,
                counts.refusals.count(),
                counts.errors(),
            );
            done = now_done;
        }
    })
}
