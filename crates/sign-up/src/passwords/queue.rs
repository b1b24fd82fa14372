//! The jobs that wait for a thread: only those that can be finished in time, logins first.
//!
//! The current time is an argument of each call, so that tests control it.

mod pace;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Busy;
use pace::{Load, Paces};

pub(super) use pace::Work;

/// An overload lasts if it is this many times as long as the longest wait.
const LASTING: u32 = 4;

/// The longest wait is divided by this in an overload that lasts.
const LASTING_PART: u32 = 2;

/// The kind of a job. Logins go first, because they are of customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Login,
    Registration,
}

impl Lane {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Registration => "registration",
        }
    }
}

/// Bounds of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long a job may wait; one that would wait longer is refused. Half as long in an overload
    /// that lasts.
    pub(super) wait_max: Duration,
    /// How many jobs of a lane may wait, however fast they are: registrations do not crowd out
    /// logins.
    pub(super) jobs_max: usize,
}

/// Why a job was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// It would have waited too long.
    Wait,
    /// Too many jobs wait.
    Full,
    /// It has waited too long.
    Late,
    /// Its client has disconnected.
    Disconnected,
    /// The pool ends.
    Stopping,
}

impl DropReason {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Full => "full",
            Self::Late => "late",
            Self::Disconnected => "gone",
            Self::Stopping => "stopping",
        }
    }
}

struct QueuedJob<J> {
    job: J,
    work: Work,
    since: Instant,
}

struct LaneQueue<J> {
    jobs: VecDeque<QueuedJob<J>>,
    load: Load,
    /// The start of the overload: since then jobs are refused, and no job has found a free thread.
    overloaded: Option<Instant>,
}

impl<J> LaneQueue<J> {
    fn new() -> Self {
        Self { jobs: VecDeque::new(), load: Load::default(), overloaded: None }
    }
}

/// The current job of a thread.
#[derive(Clone, Copy)]
struct RunningJob {
    work: Work,
    since: Instant,
}

/// A job that its thread starts now.
pub(super) struct StartedJob<J> {
    pub(super) job: J,
    pub(super) lane: Lane,
    pub(super) waited: Duration,
}

/// The waiting jobs of a pool, and the current jobs of its threads.
pub(super) struct Queue<J> {
    logins: LaneQueue<J>,
    registrations: LaneQueue<J>,
    /// The current job of each thread.
    running: Vec<Option<RunningJob>>,
    paces: Paces,
    limits: Limits,
    stopping: bool,
}

impl<J> Queue<J> {
    pub(super) fn new(threads: usize, limits: Limits) -> Self {
        Self {
            logins: LaneQueue::new(),
            registrations: LaneQueue::new(),
            running: vec![None; threads.max(1)],
            paces: Paces::expected(),
            limits,
            stopping: false,
        }
    }

    /// How many jobs wait.
    pub(super) fn depth(&self) -> usize {
        self.logins.jobs.len() + self.registrations.jobs.len()
    }

    /// How long a new job would wait: zero if a thread is free for it.
    pub(super) fn wait(&self, lane: Lane, now: Instant) -> Duration {
        let (ahead, mut seconds) = match lane {
            Lane::Login => (self.logins.jobs.len(), self.paces.seconds(self.logins.load)),
            Lane::Registration => {
                let both = [self.logins.load, self.registrations.load];
                (self.depth(), both.map(|load| self.paces.seconds(load)).iter().sum())
            }
        };
        let free = self.running.iter().filter(|job| job.is_none()).count();
        if ahead < free {
            return Duration::ZERO;
        }
        for running in self.running.iter().flatten() {
            let done = now.saturating_duration_since(running.since).as_secs_f64();
            seconds += (self.paces.seconds_of(running.work) - done).max(0.0);
        }
        Duration::try_from_secs_f64(seconds / self.running.len() as f64).unwrap_or(Duration::MAX)
    }

    /// How long a new job may wait. A burst deserves a queue. In an overload that lasts the queue
    /// never empties, and a shorter one has the same throughput with shorter waits.
    fn wait_max(&mut self, lane: Lane, now: Instant) -> Duration {
        let longest = self.limits.wait_max;
        let lasts = |since| now.saturating_duration_since(since) > longest * LASTING;
        let is_lasting = self.lane(lane).overloaded.is_some_and(lasts);
        if is_lasting { longest / LASTING_PART } else { longest }
    }

    /// Appends a job to its lane.
    ///
    /// # Errors
    /// The job cannot be finished in time; it is dropped.
    pub(super) fn push(
        &mut self,
        lane: Lane,
        work: Work,
        job: J,
        now: Instant,
    ) -> Result<(), (DropReason, Busy)> {
        let wait = self.wait(lane, now);
        if wait.is_zero() {
            self.lane(lane).overloaded = None;
        }
        let waiting = self.lane(lane).jobs.len();
        let reason = if self.stopping {
            DropReason::Stopping
        } else if waiting >= self.limits.jobs_max {
            DropReason::Full
        } else if wait > self.wait_max(lane, now) {
            DropReason::Wait
        } else {
            let lane = self.lane(lane);
            lane.load.add(work);
            lane.jobs.push_back(QueuedJob { job, work, since: now });
            return Ok(());
        };
        self.lane(lane).overloaded.get_or_insert(now);
        Err((reason, Busy::after(wait)))
    }

    /// The next job for a thread. Late and cancelled jobs are reported to `dropped` and removed.
    pub(super) fn take(
        &mut self,
        thread: usize,
        now: Instant,
        is_disconnected: impl Fn(&J) -> bool,
        mut dropped: impl FnMut(Lane, DropReason),
    ) -> Option<StartedJob<J>> {
        for lane in [Lane::Login, Lane::Registration] {
            while let Some(waiting) = self.pop(lane) {
                let waited = now.saturating_duration_since(waiting.since);
                if is_disconnected(&waiting.job) {
                    dropped(lane, DropReason::Disconnected);
                } else if waited > self.limits.wait_max {
                    dropped(lane, DropReason::Late);
                } else {
                    self.begin(thread, waiting.work, now);
                    return Some(StartedJob { job: waiting.job, lane, waited });
                }
            }
        }
        None
    }

    /// A thread starts a job.
    pub(super) fn begin(&mut self, thread: usize, work: Work, now: Instant) {
        self.running[thread] = Some(RunningJob { work, since: now });
    }

    /// A thread has finished its job with this CPU time; the duration updates the estimate.
    pub(super) fn end(&mut self, thread: usize, worked: Duration, now: Instant) {
        if let Some(running) = self.running[thread].take() {
            self.paces.record(running.work, worked, now.saturating_duration_since(running.since));
        }
    }

    /// Refuses all further jobs, and returns those that wait.
    pub(super) fn stop(&mut self) -> Vec<(Lane, J)> {
        self.stopping = true;
        let mut left = Vec::with_capacity(self.depth());
        for lane in [Lane::Login, Lane::Registration] {
            while let Some(waiting) = self.pop(lane) {
                left.push((lane, waiting.job));
            }
        }
        left
    }

    pub(super) const fn is_stopping(&self) -> bool {
        self.stopping
    }

    fn pop(&mut self, lane: Lane) -> Option<QueuedJob<J>> {
        let lane = self.lane(lane);
        let waiting = lane.jobs.pop_front()?;
        lane.load.subtract(waiting.work);
        Some(waiting)
    }

    const fn lane(&mut self, lane: Lane) -> &mut LaneQueue<J> {
        match lane {
            Lane::Login => &mut self.logins,
            Lane::Registration => &mut self.registrations,
        }
    }
}

#[cfg(test)]
mod tests;
