//! Jobs that wait for a thread: as many as can be done in time, logins before registrations.
//!
//! Time comes in with each call, so that the rules are the same under test as under load.

mod pace;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Busy;
use pace::{Load, Paces};

pub(super) use pace::Work;

/// More than can be done has come for so many times the longest wait: that is no burst any more.
const LASTING: u32 = 4;

/// What part of the longest wait is waited in an overload that lasts.
const LASTING_PART: u32 = 2;

/// Who waits. Whoever logs in is a customer already, and goes first.
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

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long a job may wait; one that would wait longer is refused. In an overload that lasts it is
    /// half as long.
    pub(super) wait_max: Duration,
    /// How many jobs of a lane may wait, however quick they are: registrations do not take the
    /// places of logins.
    pub(super) jobs_max: usize,
}

/// Why a job was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undone {
    /// It would have waited too long.
    Wait,
    /// Too many jobs wait.
    Full,
    /// It has waited too long.
    Late,
    /// Nobody waits for its answer.
    Gone,
    /// The pool ends.
    Stopping,
}

impl Undone {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Full => "full",
            Self::Late => "late",
            Self::Gone => "gone",
            Self::Stopping => "stopping",
        }
    }
}

struct Waiting<J> {
    job: J,
    work: Work,
    since: Instant,
}

struct LaneOf<J> {
    jobs: VecDeque<Waiting<J>>,
    load: Load,
    /// Since when jobs are refused and no job has found a free thread.
    overloaded: Option<Instant>,
}

impl<J> LaneOf<J> {
    fn new() -> Self {
        Self { jobs: VecDeque::new(), load: Load::default(), overloaded: None }
    }
}

/// What a thread does at the moment.
#[derive(Clone, Copy)]
struct Begun {
    work: Work,
    since: Instant,
}

/// A job that its thread is to begin.
pub(super) struct Taken<J> {
    pub(super) job: J,
    pub(super) lane: Lane,
    pub(super) waited: Duration,
}

/// The jobs of a pool: those that wait, and what its threads do.
pub(super) struct Queue<J> {
    logins: LaneOf<J>,
    registrations: LaneOf<J>,
    /// One place per thread.
    begun: Vec<Option<Begun>>,
    paces: Paces,
    limits: Limits,
    stopping: bool,
}

impl<J> Queue<J> {
    pub(super) fn new(threads: usize, limits: Limits) -> Self {
        Self {
            logins: LaneOf::new(),
            registrations: LaneOf::new(),
            begun: vec![None; threads.max(1)],
            paces: Paces::expected(),
            limits,
            stopping: false,
        }
    }

    /// Jobs that wait.
    pub(super) fn depth(&self) -> usize {
        self.logins.jobs.len() + self.registrations.jobs.len()
    }

    /// How long a job that comes now would wait: nothing where a thread is free for it.
    pub(super) fn wait(&self, lane: Lane, now: Instant) -> Duration {
        let (ahead, mut seconds) = match lane {
            Lane::Login => (self.logins.jobs.len(), self.paces.seconds(self.logins.load)),
            Lane::Registration => {
                let both = [self.logins.load, self.registrations.load];
                (self.depth(), both.map(|load| self.paces.seconds(load)).iter().sum())
            }
        };
        let free = self.begun.iter().filter(|place| place.is_none()).count();
        if ahead < free {
            return Duration::ZERO;
        }
        for begun in self.begun.iter().flatten() {
            let done = now.saturating_duration_since(begun.since).as_secs_f64();
            seconds += (self.paces.seconds_of(begun.work) - done).max(0.0);
        }
        Duration::try_from_secs_f64(seconds / self.begun.len() as f64).unwrap_or(Duration::MAX)
    }

    /// How long a job that comes now may wait. A burst is worth a queue; in an overload that lasts the
    /// queue never ends, and a shorter one lets as many through: sooner, and over sooner.
    fn wait_max(&mut self, lane: Lane, now: Instant) -> Duration {
        let longest = self.limits.wait_max;
        let lasts = |since| now.saturating_duration_since(since) > longest * LASTING;
        let is_lasting = self.lane(lane).overloaded.is_some_and(lasts);
        if is_lasting { longest / LASTING_PART } else { longest }
    }

    /// Puts a job behind those of its lane.
    ///
    /// # Errors
    /// Where it could not be done in time: it is dropped, and nothing is done for it.
    pub(super) fn put(
        &mut self,
        lane: Lane,
        work: Work,
        job: J,
        now: Instant,
    ) -> Result<(), (Undone, Busy)> {
        let wait = self.wait(lane, now);
        if wait.is_zero() {
            self.lane(lane).overloaded = None;
        }
        let waiting = self.lane(lane).jobs.len();
        let why = if self.stopping {
            Undone::Stopping
        } else if waiting >= self.limits.jobs_max {
            Undone::Full
        } else if wait > self.wait_max(lane, now) {
            Undone::Wait
        } else {
            let lane = self.lane(lane);
            lane.load.add(work);
            lane.jobs.push_back(Waiting { job, work, since: now });
            return Ok(());
        };
        self.lane(lane).overloaded.get_or_insert(now);
        Err((why, Busy::after(wait)))
    }

    /// The next job for a thread. Those that came too late or that nobody waits for any more are
    /// told to `undone` and dropped.
    pub(super) fn take(
        &mut self,
        thread: usize,
        now: Instant,
        is_gone: impl Fn(&J) -> bool,
        mut undone: impl FnMut(Lane, Undone),
    ) -> Option<Taken<J>> {
        for lane in [Lane::Login, Lane::Registration] {
            while let Some(waiting) = self.pop(lane) {
                let waited = now.saturating_duration_since(waiting.since);
                if is_gone(&waiting.job) {
                    undone(lane, Undone::Gone);
                } else if waited > self.limits.wait_max {
                    undone(lane, Undone::Late);
                } else {
                    self.begin(thread, waiting.work, now);
                    return Some(Taken { job: waiting.job, lane, waited });
                }
            }
        }
        None
    }

    /// A thread begins something.
    pub(super) fn begin(&mut self, thread: usize, work: Work, now: Instant) {
        self.begun[thread] = Some(Begun { work, since: now });
    }

    /// A thread has done what it began, having worked on it for `worked`, and how long that took is
    /// remembered.
    pub(super) fn end(&mut self, thread: usize, worked: Duration, now: Instant) {
        if let Some(begun) = self.begun[thread].take() {
            self.paces.learn(begun.work, worked, now.saturating_duration_since(begun.since));
        }
    }

    /// Refuses everything from now on, and gives back what waits.
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

    fn pop(&mut self, lane: Lane) -> Option<Waiting<J>> {
        let lane = self.lane(lane);
        let waiting = lane.jobs.pop_front()?;
        lane.load.subtract(waiting.work);
        Some(waiting)
    }

    const fn lane(&mut self, lane: Lane) -> &mut LaneOf<J> {
        match lane {
            Lane::Login => &mut self.logins,
            Lane::Registration => &mut self.registrations,
        }
    }
}

#[cfg(test)]
mod tests;
