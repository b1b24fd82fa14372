//! Circuit breakers: a gateway whose calls fail, or are slow, is not called for a while.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::health::{Health, Unready};
use domain::payment::{GatewayAnswer, GatewayStatus, NotSentCause};
use domain::payment_method::MethodAnswer;

/// The window in which calls are counted.
const WINDOW: Duration = Duration::from_secs(30);

/// How many parts the window has: the oldest is forgotten at a time.
const PARTS: u64 = 30;

/// How many probes a half-open breaker lets through at a time, and how many have to succeed in a row.
const PROBES: u32 = 3;

/// Of how many calls one may be slow, so that the 95th percentile is within the limit.
const SLOW_ONE_IN: u64 = 20;

/// When breakers open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// From which share of failed calls on, in percent; 0: never for failures.
    pub failure_percent: u64,
    /// How many calls there have to be in 30 s first.
    pub calls_min: u64,
    /// What the 95th percentile of the calls' durations may be; zero: anything.
    pub p95_max: Duration,
    /// How long an open breaker lets no call through, before it probes.
    pub open_for: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failure_percent: 50,
            calls_min: 20,
            p95_max: Duration::ZERO,
            open_for: Duration::from_secs(10),
        }
    }
}

/// The breakers of a process, by gateway. All engines of the process share them.
#[derive(Debug, Default)]
pub struct Breakers {
    settings: BreakerSettings,
    by_gateway: Mutex<HashMap<String, Breaker>>,
}

/// The state of a breaker, as metrics and node info show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    HalfOpen,
    Open,
}

impl BreakerState {
    /// Its name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }

    const fn number(self) -> f64 {
        match self {
            Self::Closed => 0.0,
            Self::HalfOpen => 1.0,
            Self::Open => 2.0,
        }
    }
}

/// How a call ended, for its gateway's breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEnd {
    pub failed: bool,
    pub took: Duration,
}

impl CallEnd {
    /// Whether an answer is a failure of the gateway: none, an error of its own, or one that it does not know. A
    /// decline is none, and neither is a call that could not be sent for its own sake.
    #[must_use]
    pub fn of(answer: &GatewayAnswer, took: Duration) -> Self {
        let failed = match answer {
            GatewayAnswer::Outcome(outcome) => outcome.status == GatewayStatus::Undefined,
            GatewayAnswer::Failed { .. }
            | GatewayAnswer::Nothing
            | GatewayAnswer::TimedOut
            | GatewayAnswer::NotSent { cause: NotSentCause::Gateway, .. } => true,
            GatewayAnswer::NotSent { cause: NotSentCause::Call, .. } => false,
        };
        Self { failed, took }
    }

    /// The same of an answer about a payment method: a refusal is none.
    #[must_use]
    pub const fn of_method(answer: &MethodAnswer, took: Duration) -> Self {
        let failed = match answer {
            MethodAnswer::Unknown { .. }
            | MethodAnswer::NotSent { cause: NotSentCause::Gateway, .. } => true,
            MethodAnswer::Attached(_)
            | MethodAnswer::Absent
            | MethodAnswer::Refused { .. }
            | MethodAnswer::NotSent { cause: NotSentCause::Call, .. } => false,
        };
        Self { failed, took }
    }
}

/// The right to a call that a breaker grants. Dropped without an end, as where the commit failed, it counts as
/// no call.
#[derive(Debug)]
pub struct BreakerPass {
    breakers: Arc<Breakers>,
    gateway: String,
    /// The number of the half-open phase that it is a probe of.
    probe_of: Option<u64>,
}

impl BreakerPass {
    /// Counts the call.
    pub fn ended(mut self, end: CallEnd) {
        let probe_of = self.probe_of.take();
        self.breakers.ended(&self.gateway, (probe_of, end), Instant::now());
    }
}

impl Drop for BreakerPass {
    fn drop(&mut self) {
        if let Some(phase) = self.probe_of {
            self.breakers.given_back(&self.gateway, phase);
        }
    }
}

impl Breakers {
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, by_gateway: Mutex::default() }
    }

    /// Grants a call; `None` where the breaker is open, or all its probes are in flight.
    #[must_use]
    pub fn admit(self: &Arc<Self>, gateway: &str) -> Option<BreakerPass> {
        self.admit_at(gateway, Instant::now())
    }

    fn admit_at(self: &Arc<Self>, gateway: &str, now: Instant) -> Option<BreakerPass> {
        let probe_of = match self.lock().get_mut(gateway) {
            None => None,
            Some(breaker) => breaker.admit(now)?,
        };
        Some(BreakerPass { breakers: Arc::clone(self), gateway: gateway.to_owned(), probe_of })
    }

    /// Notes the gateways whose breakers are open.
    pub fn note(&self, health: &mut Health) {
        self.note_at(health, Instant::now());
    }

    fn note_at(&self, health: &mut Health, now: Instant) {
        for (gateway, breaker) in self.lock().iter() {
            if breaker.is_open(now) {
                health.set(gateway, Unready::BreakerOpen);
            }
        }
    }

    /// The state of a gateway's breaker.
    #[must_use]
    pub fn state(&self, gateway: &str) -> BreakerState {
        let now = Instant::now();
        self.lock().get(gateway).map_or(BreakerState::Closed, |it| it.shown(now))
    }

    fn ended(&self, gateway: &str, (probe_of, end): (Option<u64>, CallEnd), now: Instant) {
        let mut all = self.lock();
        // Only the first call of a gateway needs its name.
        if !all.contains_key(gateway) {
            all.insert(gateway.to_owned(), Breaker::default());
        }
        let Some(breaker) = all.get_mut(gateway) else { return };
        let before = breaker.shown(now);
        breaker.ended(&self.settings, (probe_of, end), now);
        let after = breaker.shown(now);
        drop(all);
        if before != after {
            report(gateway, after);
        }
    }

    fn given_back(&self, gateway: &str, phase: u64) {
        if let Some(breaker) = self.lock().get_mut(gateway) {
            breaker.given_back(phase);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Breaker>> {
        self.by_gateway.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report(gateway: &str, state: BreakerState) {
    let name = gateway.to_owned();
    metrics::gauge!("faregate_gateway_breaker_state", "gateway" => name.clone())
        .set(state.number());
    match state {
        BreakerState::Open => {
            metrics::counter!("faregate_gateway_breaker_opened_total", "gateway" => name)
                .increment(1);
            tracing::warn!(gateway, "the gateway fails or is slow: it is not called for a while");
        }
        BreakerState::Closed => tracing::info!(gateway, "the gateway is called again"),
        BreakerState::HalfOpen => {}
    }
}

/// A part of the window.
#[derive(Clone, Copy, Debug)]
struct Part {
    began: Instant,
    calls: u64,
    failures: u64,
    slow: u64,
}

#[derive(Debug, Default)]
struct Breaker {
    /// The oldest first.
    parts: VecDeque<Part>,
    phase: Phase,
    /// How often it was opened: what a probe of an earlier phase says is not heard.
    opened: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Closed,
    /// From `until` on it probes.
    Open { until: Instant, in_flight: u32, succeeded: u32 },
}

impl Breaker {
    /// The phase that the call is a probe of, where it is one; `None` where no call is let through.
    fn admit(&mut self, now: Instant) -> Option<Option<u64>> {
        match &mut self.phase {
            Phase::Closed => Some(None),
            Phase::Open { until, in_flight, .. } => {
                let may_probe = *until <= now && *in_flight < PROBES;
                *in_flight += u32::from(may_probe);
                may_probe.then_some(Some(self.opened))
            }
        }
    }

    fn is_open(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Closed => false,
            Phase::Open { until, in_flight, .. } => until > now || in_flight >= PROBES,
        }
    }

    fn shown(&self, now: Instant) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { until, .. } if until > now => BreakerState::Open,
            Phase::Open { .. } => BreakerState::HalfOpen,
        }
    }

    fn ended(
        &mut self,
        settings: &BreakerSettings,
        (probe_of, end): (Option<u64>, CallEnd),
        now: Instant,
    ) {
        let is_slow = !settings.p95_max.is_zero() && end.took > settings.p95_max;
        match &mut self.phase {
            Phase::Closed => {
                self.count(end.failed, is_slow, now);
                if self.is_bad(settings) {
                    self.open(settings, now);
                }
            }
            // A call that began before it opened says nothing new.
            Phase::Open { .. } if probe_of != Some(self.opened) => {}
            Phase::Open { .. } if end.failed || is_slow => self.open(settings, now),
            Phase::Open { in_flight, succeeded, .. } => {
                *in_flight = in_flight.saturating_sub(1);
                *succeeded += 1;
                if *succeeded >= PROBES {
                    self.phase = Phase::Closed;
                }
            }
        }
    }

    fn given_back(&mut self, phase: u64) {
        match &mut self.phase {
            Phase::Open { in_flight, .. } if phase == self.opened => {
                *in_flight = in_flight.saturating_sub(1);
            }
            Phase::Open { .. } | Phase::Closed => {}
        }
    }

    fn open(&mut self, settings: &BreakerSettings, now: Instant) {
        self.opened += 1;
        self.parts.clear();
        self.phase = Phase::Open { until: now + settings.open_for, in_flight: 0, succeeded: 0 };
    }

    fn count(&mut self, failed: bool, is_slow: bool, now: Instant) {
        while self.parts.front().is_some_and(|it| now.duration_since(it.began) >= WINDOW) {
            self.parts.pop_front();
        }
        let length = WINDOW / u32::try_from(PARTS).expect("it is small");
        if self.parts.back().is_none_or(|it| now.duration_since(it.began) >= length) {
            self.parts.push_back(Part { began: now, calls: 0, failures: 0, slow: 0 });
        }
        let part = self.parts.back_mut().expect("there is one");
        part.calls += 1;
        part.failures += u64::from(failed);
        part.slow += u64::from(is_slow);
    }

    fn is_bad(&self, settings: &BreakerSettings) -> bool {
        let sum = |of: fn(&Part) -> u64| self.parts.iter().map(of).sum::<u64>();
        let (calls, failures) = (sum(|it| it.calls), sum(|it| it.failures));
        let fails =
            settings.failure_percent > 0 && failures * 100 >= calls * settings.failure_percent;
        let is_slow = sum(|it| it.slow) * SLOW_ONE_IN > calls;
        calls >= settings.calls_min && (fails || is_slow)
    }
}

#[cfg(test)]
mod tests {
    use domain::payment::GatewayOutcome;

    use super::*;

    const OK: CallEnd = CallEnd { failed: false, took: Duration::from_millis(10) };
    const FAILED: CallEnd = CallEnd { failed: true, took: Duration::from_millis(10) };
    const SLOW: CallEnd = CallEnd { failed: false, took: Duration::from_secs(3) };

    struct World {
        breakers: Arc<Breakers>,
        now: Instant,
    }

    impl World {
        fn new(settings: BreakerSettings) -> Self {
            Self { breakers: Arc::new(Breakers::new(settings)), now: Instant::now() }
        }

        fn begin(&self) -> Option<BreakerPass> {
            self.breakers.admit_at("g", self.now)
        }

        fn end(&self, mut pass: BreakerPass, end: CallEnd) {
            let probe_of = pass.probe_of.take();
            self.breakers.ended("g", (probe_of, end), self.now);
        }

        /// Makes so many calls; false where one was refused.
        fn calls(&self, count: usize, end: CallEnd) -> bool {
            (0..count).all(|_| self.begin().map(|pass| self.end(pass, end)).is_some())
        }

        fn wait(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }

        fn is_open(&self) -> bool {
            let mut health = Health::default();
            self.breakers.note_at(&mut health, self.now);
            health.unready("g") == Some(Unready::BreakerOpen)
        }
    }

    #[test]
    fn it_opens_at_half_of_at_least_twenty_calls() {
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(10, OK) && world.calls(9, FAILED));
        assert!(!world.is_open(), "19 calls are too few");
        assert!(world.calls(1, FAILED));
        assert!(world.is_open(), "10 of 20 failed");
        assert!(world.begin().is_none());
        let other = world.breakers.admit_at("another", world.now);
        assert!(other.is_some(), "each gateway has its own");
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(11, OK) && world.calls(10, FAILED));
        assert!(!world.is_open(), "10 of 21 failed");
    }

    #[test]
    fn calls_are_forgotten_after_thirty_seconds() {
        let mut world = World::new(BreakerSettings::default());
        assert!(world.calls(19, FAILED));
        world.wait(30);
        assert!(world.calls(19, FAILED));
        assert!(!world.is_open());
        assert!(world.calls(1, FAILED));
        assert!(world.is_open());
    }

    #[test]
    fn it_opens_where_more_than_one_in_twenty_is_slow() {
        let p95_max = Duration::from_secs(2);
        let world = World::new(BreakerSettings { p95_max, ..BreakerSettings::default() });
        assert!(world.calls(38, OK) && world.calls(2, SLOW));
        assert!(!world.is_open(), "2 of 40 are within the percentile");
        assert!(world.calls(1, SLOW));
        assert!(world.is_open(), "3 of 41 are not");
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(100, SLOW));
        assert!(!world.is_open(), "without a limit nothing is slow");
    }

    #[test]
    fn after_its_pause_it_probes_and_closes_or_opens_again() {
        let mut world = World::new(BreakerSettings::default());
        assert!(world.calls(20, FAILED));
        world.wait(9);
        assert!(world.begin().is_none());
        world.wait(1);
        assert!(!world.is_open());
        let probes: Vec<_> = (0..3).map(|_| world.begin().unwrap()).collect();
        assert!(world.begin().is_none() && world.is_open(), "three probes at a time");
        drop(probes);
        assert!(!world.is_open(), "probes that were given back are free again");
        let late = world.begin().unwrap();
        assert!(world.calls(1, FAILED));
        assert!(world.is_open(), "one failed probe opens it again");
        world.wait(10);
        world.end(late, OK);
        assert!(world.calls(2, OK));
        assert_eq!(world.breakers.lock()["g"].shown(world.now), BreakerState::HalfOpen);
        assert!(world.calls(1, OK));
        assert_eq!(world.breakers.lock()["g"].shown(world.now), BreakerState::Closed);
        assert!(world.calls(19, FAILED));
        assert!(!world.is_open(), "it counts from the start");
    }

    #[test]
    fn a_call_from_before_it_opened_says_nothing() {
        let mut world = World::new(BreakerSettings::default());
        let earlier = world.begin().unwrap();
        assert!(world.calls(20, FAILED));
        world.wait(10);
        world.end(earlier, FAILED);
        assert!(!world.is_open(), "it still probes");
    }

    #[test]
    fn a_decline_is_no_failure() {
        let fails = |answer: &GatewayAnswer| CallEnd::of(answer, Duration::ZERO).failed;
        let outcome = |status| GatewayAnswer::Outcome(GatewayOutcome::new(status));
        for status in [
            GatewayStatus::Processed,
            GatewayStatus::Pending,
            GatewayStatus::Error,
            GatewayStatus::Canceled,
        ] {
            assert!(!fails(&outcome(status)), "{status:?}");
        }
        let of_the_tenant = GatewayAnswer::not_sendable("it has no token".to_owned());
        assert!(!fails(&of_the_tenant), "others' calls go on");
        for answer in [
            outcome(GatewayStatus::Undefined),
            GatewayAnswer::Failed { message: String::new() },
            GatewayAnswer::Nothing,
            GatewayAnswer::TimedOut,
            GatewayAnswer::not_reached(String::new()),
        ] {
            assert!(fails(&answer), "{answer:?}");
        }
    }
}
