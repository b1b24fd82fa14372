//! Estimates how long jobs take on this machine, from recent durations.
//!
//! It estimates CPU time and slowdown separately. The CPU time of a job is a property of the
//! machine and hardly changes. The slowdown, because other threads use the cores too, changes with
//! every burst of requests, since password threads have a low priority: one second of it must
//! change the estimate by some hundredths only, so that a burst does not make the queue refuse
//! everything.

use std::time::Duration;

/// The half-life of measured CPU time, in seconds of CPU time.
const PACE_HALF_LIFE: f64 = 4.0;

/// The half-life of measured slowdown, in seconds of jobs.
const SLOWDOWN_HALF_LIFE: f64 = 10.0;

/// A larger slowdown means that the machine was suspended; it is capped.
const SLOWDOWN_MAX: f64 = 10.0;

/// The initial estimate for argon2id: the work of 19 MiB and 2 passes, and its seconds.
const ARGON2_TYPICAL: (f64, f64) = (38_912.0, 0.015);

/// The initial estimate for bcrypt: the work of cost 12, and its seconds.
const BCRYPT_TYPICAL: (f64, f64) = (4096.0, 0.25);

/// The work of a job, independent of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passwords) enum Work {
    /// KiB of memory, times passes.
    Argon2(u32),
    /// Rounds: 2 to the power of the cost.
    Bcrypt(u32),
}

/// The work of several jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    argon2: u64,
    bcrypt: u64,
}

impl Load {
    pub(super) fn add(&mut self, work: Work) {
        match work {
            Work::Argon2(units) => self.argon2 += u64::from(units),
            Work::Bcrypt(units) => self.bcrypt += u64::from(units),
        }
    }

    pub(super) fn subtract(&mut self, work: Work) {
        match work {
            Work::Argon2(units) => self.argon2 -= u64::from(units),
            Work::Bcrypt(units) => self.bcrypt -= u64::from(units),
        }
    }
}

/// Estimates of how long jobs take on this machine.
#[derive(Debug)]
pub(super) struct Paces {
    argon2: Pace,
    bcrypt: Pace,
    slowdown: Slowdown,
}

impl Paces {
    /// The estimates before the first measurement.
    pub(super) const fn expected() -> Self {
        Self {
            argon2: Pace::expected(ARGON2_TYPICAL),
            bcrypt: Pace::expected(BCRYPT_TYPICAL),
            slowdown: Slowdown::expected(),
        }
    }

    /// A job was finished with this CPU time and this duration.
    pub(super) fn record(&mut self, work: Work, worked: Duration, took: Duration) {
        // Coarse clocks may measure zero.
        let worked = worked.min(took).as_secs_f64().max(1e-6);
        match work {
            Work::Argon2(units) => self.argon2.record(units, worked),
            Work::Bcrypt(units) => self.bcrypt.record(units, worked),
        }
        self.slowdown.record(worked, took.as_secs_f64());
    }

    /// The seconds that a thread needs for this load.
    pub(super) fn seconds(&self, load: Load) -> f64 {
        let argon2 = self.argon2.seconds_of(load.argon2 as f64);
        self.slowdown.factor() * (argon2 + self.bcrypt.seconds_of(load.bcrypt as f64))
    }

    /// The seconds that a thread needs for one job.
    pub(super) fn seconds_of(&self, work: Work) -> f64 {
        let mut load = Load::default();
        load.add(work);
        self.seconds(load)
    }
}

/// The CPU time of jobs of one kind.
#[derive(Debug)]
struct Pace {
    units: f64,
    seconds: f64,
    is_measured: bool,
}

impl Pace {
    const fn expected((units, seconds): (f64, f64)) -> Self {
        Self { units, seconds, is_measured: false }
    }

    fn record(&mut self, units: u32, seconds: f64) {
        let units = f64::from(units.max(1));
        if !std::mem::replace(&mut self.is_measured, true) {
            (self.units, self.seconds) = (units, seconds);
            return;
        }
        let retained = 0.5_f64.powf(seconds / PACE_HALF_LIFE);
        self.units = self.units * retained + units;
        self.seconds = self.seconds * retained + seconds;
    }

    fn seconds_of(&self, units: f64) -> f64 {
        units * self.seconds / self.units
    }
}

/// The slowdown: how much longer jobs take than their CPU time.
#[derive(Debug)]
struct Slowdown {
    worked: f64,
    took: f64,
}

impl Slowdown {
    /// As if threads had always had cores of their own.
    const fn expected() -> Self {
        let long = SLOWDOWN_HALF_LIFE / std::f64::consts::LN_2;
        Self { worked: long, took: long }
    }

    fn record(&mut self, worked: f64, took: f64) {
        let took = took.clamp(worked, worked * SLOWDOWN_MAX);
        let retained = 0.5_f64.powf(took / SLOWDOWN_HALF_LIFE);
        self.worked = self.worked * retained + worked;
        self.took = self.took * retained + took;
    }

    fn factor(&self) -> f64 {
        self.took / self.worked
    }
}
