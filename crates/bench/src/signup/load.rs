//! The load: a closed or an open loop, and the server's recovery after an open loop.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::interval;

use super::client::{Answer, Client};
use super::health;
use super::requests::Verdict;
use crate::schedule::Schedule;
use crate::tally::{ErrorKinds, Latencies};

/// Requests sent one after the other before the load, for the unloaded latency.
const UNLOADED_REQUESTS: usize = 5;
/// A latency below so many times the unloaded latency is normal.
const NORMAL_TIMES: u32 = 2;
/// A latency below this is always normal: noise of the machine, not load.
const NORMAL_BELOW: Duration = Duration::from_millis(50);
/// How long to wait for normal latency.
const RECOVERY_MAX: Duration = Duration::from_secs(120);
/// The pause between two requests that check whether latency is normal again.
const RECOVERY_PAUSE: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The pace of a run.
#[derive(Clone, Copy)]
pub struct Pace {
    /// When users are due, in an open loop.
    pub schedule: Option<Schedule>,
    /// Users at most.
    pub users: u64,
    /// No request starts after this.
    pub duration: Option<Duration>,
    /// How many at once, in a closed loop.
    pub concurrency: usize,
    /// Requests in flight at most, in an open loop.
    pub in_flight_max: usize,
}

/// The results of a run.
pub struct Outcome {
    /// Latencies of successes.
    pub latencies: Latencies,
    /// Latencies of refusals.
    pub refusals: Latencies,
    /// Failures by kind.
    pub errors: ErrorKinds,
    /// From the first request to the last response.
    pub took: Duration,
    /// After an open loop.
    pub recovery: Option<Recovery>,
}

/// The server's return to normal latency after an open loop.
pub struct Recovery {
    /// From the last scheduled request; `None`: not within [`RECOVERY_MAX`].
    pub took: Option<Duration>,
    /// Users created by the requests that checked the latency.
    pub created: u64,
}

#[derive(Default)]
struct Counts {
    latencies: Latencies,
    refusals: Latencies,
    errors: ErrorKinds,
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
                let body = answer.body.unwrap_or_default();
                self.first_failure.get_or_insert_with(|| format!("{kind} {body}"));
                self.errors.count(&kind, 1);
            }
        }
    }
}

/// Checks health and sends a few requests, one after the other. Returns their median latency.
///
/// # Errors
/// If one does not succeed.
pub async fn preflight(client: &Client) -> anyhow::Result<Duration> {
    let path = client.operation.health_path();
    if let Err(kind) = health::check(&client.target, path).await {
        anyhow::bail!("GET {path}: {kind}");
    }
    let mut latencies = Vec::with_capacity(UNLOADED_REQUESTS);
    for _ in 0..UNLOADED_REQUESTS {
        let started = Instant::now();
        let Answer { verdict, body } = client.send_next().await;
        let body = body.unwrap_or_default();
        let name = client.operation.name();
        match verdict {
            Verdict::Done => latencies.push(started.elapsed()),
            Verdict::Refused => anyhow::bail!("the first {name} is refused: {body}"),
            Verdict::Failed(kind) => anyhow::bail!("the first {name} failed: {kind} {body}"),
        }
    }
    latencies.sort();
    Ok(latencies[UNLOADED_REQUESTS / 2])
}

/// Runs the load until all requests have ended.
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
        errors: counts.errors,
        took: last.duration_since(started),
        recovery,
    }
}

/// Each loop sends its next request as soon as the last one has ended.
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
                let has_ended = pace.duration.is_some_and(|duration| now >= started + duration);
                if has_ended || *left.borrow() == 0 {
                    break;
                }
                *left.borrow_mut() -= 1;
                let answer = client.send_next().await;
                counts.borrow_mut().answered(now, answer);
            }
        });
    }
    loops.join_all().await;
}

/// Sends each request when it is due, whether or not earlier ones have ended. Returns those still in
/// flight at the end.
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
            let answer = client.send_next().await;
            counts.borrow_mut().answered(due, answer);
        });
    }
    waiting
}

/// Sends requests one by one until a latency is normal again.
async fn recover(client: &Client, unloaded: Duration, ended: Instant) -> Recovery {
    let normal = (unloaded * NORMAL_TIMES).max(NORMAL_BELOW);
    let mut created = 0;
    while ended.elapsed() < RECOVERY_MAX {
        let sent = Instant::now();
        let is_done = client.send_next().await.verdict == Verdict::Done;
        created += u64::from(is_done);
        if is_done && sent.elapsed() < normal {
            return Recovery { took: Some(ended.elapsed()), created };
        }
        tokio::time::sleep(RECOVERY_PAUSE).await;
    }
    Recovery { took: None, created }
}

/// A line each second.
fn show_progress(counts: Rc<RefCell<Counts>>, started: Instant) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        let mut ticks = interval(PROGRESS_EVERY);
        let mut done = 0;
        // The first tick completes at once.
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
                counts.errors.total(),
            );
            done = now_done;
        }
    })
}
