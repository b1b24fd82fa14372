//! How long jobs take on this machine, from what was done lately.
//!
//! Two things are learnt apart, for they change apart. What a job costs a thread that works on it is
//! the machine's, and hardly moves. How much longer it takes, because others want the cores too, moves
//! with each burst of requests, since these threads give way to whoever answers them: a second of that
//! is to change what is expected by some hundredths, and not to close the door.

use std::time::Duration;

/// After so many seconds of work, what was measured before counts half.
const PACE_HALF_LIFE: f64 = 4.0;

/// After so many seconds at it, how much was waited for a core before counts half.
const STRETCH_HALF_LIFE: f64 = 10.0;

/// No job is stretched by more: the machine was stopped meanwhile, and goes on now.
const STRETCH_MAX: f64 = 10.0;

/// A hash of 19 MiB and 2 passes, and how many seconds it takes until it was measured.
const ARGON2_TYPICAL: (f64, f64) = (38_912.0, 0.015);

/// A hash of bcrypt's cost 12, and how many seconds it takes until it was measured.
const BCRYPT_TYPICAL: (f64, f64) = (4096.0, 0.25);

/// How much a job is, whatever the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passwords) enum Work {
    /// KiB of memory, times passes over it.
    Argon2(u32),
    /// Rounds: 2 to the power of the cost.
    Bcrypt(u32),
}

/// How much several jobs are.
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

/// How long work of any kind takes.
#[derive(Debug)]
pub(super) struct Paces {
    argon2: Pace,
    bcrypt: Pace,
    stretch: Stretch,
}

impl Paces {
    /// What to expect until something was measured.
    pub(super) const fn expected() -> Self {
        Self {
            argon2: Pace::expected(ARGON2_TYPICAL),
            bcrypt: Pace::expected(BCRYPT_TYPICAL),
            stretch: Stretch::expected(),
        }
    }

    /// Something was done: a thread worked on it for `worked`, and it took that long.
    pub(super) fn learn(&mut self, work: Work, worked: Duration, took: Duration) {
        // However coarse the clocks are, nothing takes no time.
        let worked = worked.min(took).as_secs_f64().max(1e-6);
        match work {
            Work::Argon2(units) => self.argon2.learn(units, worked),
            Work::Bcrypt(units) => self.bcrypt.learn(units, worked),
        }
        self.stretch.learn(worked, took.as_secs_f64());
    }

    /// How many seconds a thread takes for all of this.
    pub(super) fn seconds(&self, load: Load) -> f64 {
        let argon2 = self.argon2.seconds_of(load.argon2 as f64);
        self.stretch.factor() * (argon2 + self.bcrypt.seconds_of(load.bcrypt as f64))
    }

    /// How many seconds a thread takes for one job.
    pub(super) fn seconds_of(&self, work: Work) -> f64 {
        let mut load = Load::default();
        load.add(work);
        self.seconds(load)
    }
}

/// How long a thread works on jobs of one kind.
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

    fn learn(&mut self, units: u32, seconds: f64) {
        let units = f64::from(units.max(1));
        if !std::mem::replace(&mut self.is_measured, true) {
            (self.units, self.seconds) = (units, seconds);
            return;
        }
        let kept = 0.5_f64.powf(seconds / PACE_HALF_LIFE);
        self.units = self.units * kept + units;
        self.seconds = self.seconds * kept + seconds;
    }

    fn seconds_of(&self, units: f64) -> f64 {
        units * self.seconds / self.units
    }
}

/// How much longer jobs take than threads work on them.
#[derive(Debug)]
struct Stretch {
    worked: f64,
    took: f64,
}

impl Stretch {
    /// As if threads had had cores of their own for ever.
    const fn expected() -> Self {
        let long = STRETCH_HALF_LIFE / std::f64::consts::LN_2;
        Self { worked: long, took: long }
    }

    fn learn(&mut self, worked: f64, took: f64) {
        let took = took.clamp(worked, worked * STRETCH_MAX);
        let kept = 0.5_f64.powf(took / STRETCH_HALF_LIFE);
        self.worked = self.worked * kept + worked;
        self.took = self.took * kept + took;
    }

    fn factor(&self) -> f64 {
        self.took / self.worked
    }
}
