//! Circuit breakers: a gateway whose calls fail, or are slow, is not called for a while.
//!
//! Each tenant has its own breaker of a gateway, because calls also fail for a tenant's sake: its credentials, its
//! account. Beside them the gateway has one for the calls of all tenants, which no tenant alone can open.

mod gate;
mod window;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::TenantNo;
use domain::account::payment_method::MethodAnswer;
use domain::payment::health::{BatchHealth, Unready};
use domain::payment::{GatewayAnswer, GatewayStatus, NotSentCause};

use self::gate::Gate;
use self::window::{Counts, Window};

/// Of how many calls one may be slow, so that the 95th percentile is within the limit.
const SLOW_ONE_IN: u64 = 20;

/// How many tenants' calls are counted at each gateway; above that those that called longest ago are forgotten.
const TENANTS_MAX: usize = 1_000;

/// A tenant that has not called for so long is forgotten, also where its breaker was open.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// When breakers open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// From which share of failed calls on, in percent; 0: never for failures.
    pub failure_percent: u64,
    /// How many calls there have to be in 30 s first.
    pub calls_min: u64,
    /// The upper bound of the 95th percentile of the calls' durations; zero: none.
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

impl BreakerSettings {
    /// Whether so many calls are bad, of at least `calls_min`.
    const fn are_bad(&self, counts: Counts, calls_min: u64) -> bool {
        let Counts { calls, failures, slow } = counts;
        let fails = self.failure_percent > 0 && failures * 100 >= calls * self.failure_percent;
        calls >= calls_min && (fails || slow * SLOW_ONE_IN > calls)
    }
}

/// The breakers of a process, by gateway. All engines of the process share them.
#[derive(Debug, Default)]
pub struct Breakers {
    settings: BreakerSettings,
    by_gateway: Mutex<HashMap<String, OfGateway>>,
}

/// The state of a breaker, as metrics show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    HalfOpen,
    Open,
}

impl BreakerState {
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
    tenant: TenantNo,
    probes: Probes,
}

/// The half-open phases that a call is a probe of.
#[derive(Clone, Copy, Debug, Default)]
struct Probes {
    of_gateway: Option<u64>,
    of_tenant: Option<u64>,
}

impl BreakerPass {
    /// Counts the call.
    pub fn ended(self, end: CallEnd) {
        self.ended_at(end, Instant::now());
    }

    fn ended_at(mut self, end: CallEnd, now: Instant) {
        let probes = std::mem::take(&mut self.probes);
        self.breakers.ended((&self.gateway, self.tenant), (probes, end), now);
    }
}

impl Drop for BreakerPass {
    fn drop(&mut self) {
        let Probes { of_gateway, of_tenant } = self.probes;
        if of_gateway.is_none() && of_tenant.is_none() {
            return;
        }
        if let Some(of) = self.breakers.lock().get_mut(&self.gateway) {
            of.gate.given_back(of_gateway);
            if let Some(own) = of.tenants.get_mut(&self.tenant) {
                own.gate.given_back(of_tenant);
            }
        }
    }
}

impl Breakers {
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, by_gateway: Mutex::default() }
    }

    /// Grants a tenant's call; `None` where a breaker is open, or all its probes are in flight.
    #[must_use]
    pub fn admit(self: &Arc<Self>, gateway: &str, tenant: TenantNo) -> Option<BreakerPass> {
        self.admit_at(gateway, tenant, Instant::now())
    }

    fn admit_at(
        self: &Arc<Self>,
        gateway: &str,
        tenant: TenantNo,
        now: Instant,
    ) -> Option<BreakerPass> {
        let probes = match self.lock().get_mut(gateway) {
            None => Probes::default(),
            Some(of) => of.admit(tenant, now)?,
        };
        let (breakers, gateway) = (Arc::clone(self), gateway.to_owned());
        Some(BreakerPass { breakers, gateway, tenant, probes })
    }

    /// Notes the gateways whose breakers are open, for all tenants or for some.
    pub fn note(&self, health: &mut BatchHealth) {
        self.note_at(health, Instant::now());
    }

    fn note_at(&self, health: &mut BatchHealth, now: Instant) {
        for (gateway, of) in self.lock().iter_mut() {
            if of.gate.refuses(now) {
                health.set(gateway, Unready::BreakerOpen);
            }
            if of.forget_idle(now) {
                report_tenants(gateway, of.open.len());
            }
            for tenant in &of.open {
                if of.tenants.get(tenant).is_some_and(|own| own.gate.refuses(now)) {
                    health.set_of(*tenant, gateway, Unready::BreakerOpen);
                }
            }
        }
    }

    /// Forgets the open breakers of tenants that do not call any more, also where no batch looks at them.
    pub fn forget_idle(&self) {
        let now = Instant::now();
        for (gateway, of) in self.lock().iter_mut() {
            if of.forget_idle(now) {
                report_tenants(gateway, of.open.len());
            }
        }
    }

    fn ended(&self, (gateway, tenant): (&str, TenantNo), call: (Probes, CallEnd), now: Instant) {
        let mut all = self.lock();
        // Only the first call of a gateway needs its name.
        if !all.contains_key(gateway) {
            all.insert(gateway.to_owned(), OfGateway::default());
        }
        let Some(of) = all.get_mut(gateway) else { return };
        let before = (of.gate.shown(now), of.open.len());
        let opened = of.ended(&self.settings, tenant, call, now);
        let after = (of.gate.shown(now), of.open.len());
        drop(all);
        if before.0 != after.0 {
            report(gateway, after.0);
        }
        if before.1 != after.1 {
            report_tenants(gateway, after.1);
        }
        if opened {
            count_opened(gateway, "tenant");
            tracing::warn!(
                gateway,
                tenant = tenant.0,
                "the gateway fails or is slow for a tenant: the tenant's calls are refused for a while"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OfGateway>> {
        self.by_gateway.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report(gateway: &str, state: BreakerState) {
    metrics::gauge!("faregate_gateway_breaker_state", "gateway" => gateway.to_owned())
        .set(state.number());
    match state {
        BreakerState::Open => {
            count_opened(gateway, "gateway");
            tracing::warn!(gateway, "the gateway fails or is slow: it is not called for a while");
        }
        BreakerState::Closed => tracing::info!(gateway, "the gateway is called again"),
        BreakerState::HalfOpen => {}
    }
}

fn report_tenants(gateway: &str, count: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a metric")]
    metrics::gauge!("faregate_gateway_breaker_tenants", "gateway" => gateway.to_owned())
        .set(count as f64);
}

fn count_opened(gateway: &str, of: &'static str) {
    let gateway = gateway.to_owned();
    metrics::counter!("faregate_gateway_breaker_opened_total", "gateway" => gateway, "of" => of)
        .increment(1);
}

/// The breakers of a gateway.
#[derive(Debug, Default)]
struct OfGateway {
    /// For the calls of all tenants.
    gate: Gate,
    /// The first tenant of which a probe of the half-open phase failed.
    failed_by: Option<TenantNo>,
    tenants: HashMap<TenantNo, OfTenant>,
    /// The tenants whose own breakers are open or half-open.
    open: BTreeSet<TenantNo>,
}

/// The breaker of a gateway for the calls of one tenant.
#[derive(Debug)]
struct OfTenant {
    gate: Gate,
    /// Its calls while its breaker was closed.
    window: Window,
    used: Instant,
}

impl OfGateway {
    fn admit(&mut self, tenant: TenantNo, now: Instant) -> Option<Probes> {
        let of_gateway = self.gate.admit(now)?;
        let Some(own) = self.tenants.get_mut(&tenant) else {
            return Some(Probes { of_gateway, of_tenant: None });
        };
        own.used = now;
        let Some(of_tenant) = own.gate.admit(now) else {
            self.gate.given_back(of_gateway);
            return None;
        };
        Some(Probes { of_gateway, of_tenant })
    }

    /// Counts a call; returns whether the tenant's own breaker has opened.
    fn ended(
        &mut self,
        settings: &BreakerSettings,
        tenant: TenantNo,
        (probes, end): (Probes, CallEnd),
        now: Instant,
    ) -> bool {
        let is_slow = !settings.p95_max.is_zero() && end.took > settings.p95_max;
        let (failures, slow) = (u64::from(end.failed), u64::from(is_slow));
        let is_bad = end.failed || is_slow;
        let own = self.tenant(tenant, now);
        let was_closed = own.gate.is_closed();
        own.ended(settings, probes.of_tenant, Counts { calls: 1, failures, slow }, now);
        if self.gate.is_closed() {
            if is_bad && self.all_are_bad(settings, now) {
                self.open(settings, now);
            }
        } else if self.gate.is_probed_by(probes.of_gateway) {
            self.probed(settings, (tenant, probes.of_gateway), is_bad, now);
        }
        let is_closed = self.tenant(tenant, now).gate.is_closed();
        match is_closed {
            true => self.open.remove(&tenant),
            false => self.open.insert(tenant),
        };
        was_closed && !is_closed
    }

    /// Whether the calls of all tenants together are bad, and would be without any one of them: what fails for one
    /// tenant alone is no failure of the gateway.
    fn all_are_bad(&mut self, settings: &BreakerSettings, now: Instant) -> bool {
        let all: Counts = self.tenants.values_mut().map(|own| own.window.counts(now)).sum();
        let others_min = settings.calls_min.div_ceil(2);
        settings.are_bad(all, settings.calls_min)
            && self.tenants.values_mut().all(|own| {
                let others = all - own.window.counts(now);
                settings.are_bad(others, others_min)
            })
    }

    /// Counts a probe of the half-open breaker. A failure is first taken as its tenant's, whose own breaker opens;
    /// that of a second tenant is the gateway's.
    fn probed(
        &mut self,
        settings: &BreakerSettings,
        (tenant, probe_of): (TenantNo, Option<u64>),
        is_bad: bool,
        now: Instant,
    ) {
        if !is_bad {
            if self.gate.succeeded() {
                self.forget_calls();
            }
            return;
        }
        self.gate.given_back(probe_of);
        let own = self.tenant(tenant, now);
        if own.gate.is_closed() {
            own.gate.open(now, settings.open_for);
        }
        match self.failed_by {
            Some(other) if other != tenant => self.open(settings, now),
            Some(_) | None => self.failed_by = Some(tenant),
        }
    }

    fn open(&mut self, settings: &BreakerSettings, now: Instant) {
        self.gate.open(now, settings.open_for);
        self.forget_calls();
    }

    /// Counts from the start.
    fn forget_calls(&mut self) {
        self.failed_by = None;
        for own in self.tenants.values_mut() {
            own.window = Window::default();
        }
    }

    fn tenant(&mut self, tenant: TenantNo, now: Instant) -> &mut OfTenant {
        if self.tenants.len() >= TENANTS_MAX && !self.tenants.contains_key(&tenant) {
            self.forget_oldest();
        }
        let new = || OfTenant { gate: Gate::default(), window: Window::default(), used: now };
        let own = self.tenants.entry(tenant).or_insert_with(new);
        own.used = now;
        own
    }

    /// Forgets the tenth of the tenants that called longest ago.
    fn forget_oldest(&mut self) {
        let used = self.tenants.iter().map(|(tenant, own)| (own.used, *tenant));
        let mut used: Vec<(Instant, TenantNo)> = used.collect();
        let (oldest, _, _) = used.select_nth_unstable(TENANTS_MAX / 10);
        for (_, tenant) in oldest {
            self.tenants.remove(tenant);
            self.open.remove(tenant);
        }
    }

    /// Forgets the open breakers of tenants that do not call any more; returns whether there were some.
    fn forget_idle(&mut self, now: Instant) -> bool {
        let before = self.open.len();
        let tenants = &mut self.tenants;
        self.open.retain(|tenant| {
            let is_used = tenants
                .get(tenant)
                .is_some_and(|own| now.saturating_duration_since(own.used) < IDLE_MAX);
            if !is_used {
                tenants.remove(tenant);
            }
            is_used
        });
        self.open.len() != before
    }
}

impl OfTenant {
    fn ended(
        &mut self,
        settings: &BreakerSettings,
        probe_of: Option<u64>,
        call: Counts,
        now: Instant,
    ) {
        let is_bad = call.failures + call.slow > 0;
        if self.gate.is_closed() {
            self.window.add(call, now);
            let counts = self.window.counts(now);
            if settings.are_bad(counts, settings.calls_min) {
                self.gate.open(now, settings.open_for);
            }
        } else if !self.gate.is_probed_by(probe_of) {
            // A call that began before it opened says nothing new.
        } else if is_bad {
            self.gate.open(now, settings.open_for);
        } else if self.gate.succeeded() {
            self.window = Window::default();
        }
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

        fn begin(&self, tenant: u32) -> Option<BreakerPass> {
            self.breakers.admit_at("g", TenantNo(tenant), self.now)
        }

        /// Makes so many calls of a tenant; false where one was refused.
        fn calls(&self, tenant: u32, count: usize, end: CallEnd) -> bool {
            let call = |_| self.begin(tenant).map(|pass| pass.ended_at(end, self.now)).is_some();
            (0..count).all(call)
        }

        fn wait(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }

        /// Whether the gateway takes no calls of a tenant.
        fn is_open(&self, tenant: u32) -> bool {
            let mut health = BatchHealth::default();
            self.breakers.note_at(&mut health, self.now);
            health.of(TenantNo(tenant)).unready("g") == Some(Unready::BreakerOpen)
        }

        fn shown(&self) -> BreakerState {
            self.breakers.lock()["g"].gate.shown(self.now)
        }
    }

    /// A tenant that has not called.
    const NEW: u32 = 77;

    #[test]
    fn it_opens_at_half_of_at_least_twenty_calls() {
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(1, 10, OK) && world.calls(1, 9, FAILED));
        assert!(!world.is_open(1), "19 calls are too few");
        assert!(world.calls(1, 1, FAILED));
        assert!(world.is_open(1), "10 of 20 failed");
        assert!(world.begin(1).is_none());
        let other = world.breakers.admit_at("another", TenantNo(1), world.now);
        assert!(other.is_some(), "each gateway has its own");
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(1, 11, OK) && world.calls(1, 10, FAILED));
        assert!(!world.is_open(1), "10 of 21 failed");
    }

    #[test]
    fn one_tenant_alone_opens_its_own_breaker() {
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(2, 9, OK), "another one calls, and all is well");
        assert!(world.calls(1, 20, FAILED));
        assert!(world.is_open(1) && !world.is_open(2) && !world.is_open(NEW));
        assert!(world.calls(2, 100, OK) && world.calls(NEW, 1, OK));
        assert!(world.calls(NEW, 9, FAILED), "a few failures of others do not change that");
        assert_eq!(world.shown(), BreakerState::Closed);
    }

    #[test]
    fn what_fails_for_several_tenants_opens_for_all() {
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(1, 10, FAILED) && world.calls(2, 9, FAILED));
        assert!(!world.is_open(NEW), "19 calls are too few");
        assert!(world.calls(2, 1, FAILED));
        assert!(world.is_open(1) && world.is_open(2) && world.is_open(NEW));
        let world = World::new(BreakerSettings::default());
        assert!((0..20).all(|tenant| world.calls(tenant, 1, FAILED)));
        assert!(world.is_open(NEW), "also where each tenant calls seldom");
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(1, 20, FAILED) && world.calls(2, 9, FAILED));
        assert!(!world.is_open(NEW), "9 calls of others are too few");
        assert!(world.calls(3, 1, FAILED));
        assert!(world.is_open(NEW), "a tenant whose own breaker is open counts too");
    }

    #[test]
    fn calls_are_forgotten_after_thirty_seconds() {
        let mut world = World::new(BreakerSettings::default());
        assert!(world.calls(1, 19, FAILED));
        world.wait(30);
        assert!(world.calls(1, 19, FAILED));
        assert!(!world.is_open(1));
        assert!(world.calls(2, 9, FAILED) && !world.is_open(NEW));
        world.wait(30);
        assert!(world.calls(1, 10, FAILED) && world.calls(2, 9, FAILED) && !world.is_open(NEW));
        assert!(world.calls(2, 1, FAILED));
        assert!(world.is_open(NEW));
    }

    #[test]
    fn it_opens_where_more_than_one_in_twenty_is_slow() {
        let p95_max = Duration::from_secs(2);
        let world = World::new(BreakerSettings { p95_max, ..BreakerSettings::default() });
        assert!(world.calls(1, 38, OK) && world.calls(1, 2, SLOW));
        assert!(!world.is_open(1), "2 of 40 are within the percentile");
        assert!(world.calls(1, 1, SLOW));
        assert!(world.is_open(1), "3 of 41 are not");
        let world = World::new(BreakerSettings::default());
        assert!(world.calls(1, 100, SLOW));
        assert!(!world.is_open(1), "without a limit nothing is slow");
    }

    #[test]
    fn after_its_pause_it_probes_and_closes_or_opens_again() {
        let mut world = World::new(BreakerSettings::default());
        assert!(world.calls(1, 20, FAILED));
        world.wait(9);
        assert!(world.begin(1).is_none());
        world.wait(1);
        assert!(!world.is_open(1));
        let probes: Vec<_> = (0..3).map(|_| world.begin(1).unwrap()).collect();
        assert!(world.begin(1).is_none() && world.is_open(1), "three probes at a time");
        drop(probes);
        assert!(!world.is_open(1), "probes that were given back are free again");
        let late = world.begin(1).unwrap();
        assert!(world.calls(1, 1, FAILED));
        assert!(world.is_open(1), "one failed probe opens it again");
        world.wait(10);
        late.ended_at(OK, world.now);
        assert!(world.calls(1, 2, OK));
        let open = |world: &World| world.breakers.lock()["g"].open.len();
        assert_eq!(open(&world), 1);
        assert!(world.calls(1, 1, OK));
        assert_eq!(open(&world), 0);
        assert!(world.calls(1, 19, FAILED));
        assert!(!world.is_open(1), "it counts from the start");
    }

    #[test]
    fn probes_of_two_tenants_open_the_shared_one_again_and_those_of_one_do_not() {
        let mut world = World::new(BreakerSettings::default());
        assert!((0..20).all(|tenant| world.calls(tenant, 1, FAILED)));
        world.wait(9);
        assert!(world.begin(NEW).is_none());
        world.wait(1);
        assert!(world.calls(1, 1, FAILED));
        assert!(world.is_open(1) && !world.is_open(NEW), "it is the tenant's failure so far");
        assert!(world.begin(1).is_none());
        world.wait(10);
        assert!(world.calls(1, 1, FAILED) && !world.is_open(NEW));
        assert!(world.calls(2, 1, FAILED));
        assert!(world.is_open(NEW), "a second tenant's failure is the gateway's");
        world.wait(10);
        assert_eq!(world.shown(), BreakerState::HalfOpen);
        let probes: Vec<_> = (50..53).map(|tenant| world.begin(tenant).unwrap()).collect();
        assert!(world.begin(NEW).is_none() && world.is_open(NEW), "three probes at a time");
        drop(probes);
        assert!(world.calls(3, 2, OK) && world.calls(NEW, 1, OK));
        assert_eq!(world.shown(), BreakerState::Closed);
        assert!(world.calls(4, 10, FAILED) && world.calls(5, 9, FAILED));
        assert!(!world.is_open(NEW), "it counts from the start");
    }

    #[test]
    fn a_call_from_before_it_opened_says_nothing() {
        let mut world = World::new(BreakerSettings::default());
        let earlier = world.begin(1).unwrap();
        assert!(world.calls(1, 20, FAILED));
        world.wait(10);
        earlier.ended_at(FAILED, world.now);
        assert!(!world.is_open(1), "it still probes");
    }

    #[test]
    fn so_many_tenants_are_counted_and_idle_ones_are_forgotten() {
        let mut world = World::new(BreakerSettings::default());
        assert!(world.calls(0, 20, FAILED));
        let counts = |world: &World| {
            let all = world.breakers.lock();
            (all["g"].tenants.len(), all["g"].open.len())
        };
        world.wait(1);
        assert!((1..1_000).all(|tenant| world.calls(tenant, 1, OK)));
        assert_eq!(counts(&world), (1_000, 1));
        assert!(world.calls(1_000, 1, OK));
        assert_eq!(counts(&world), (901, 0), "a tenth goes, with what called longest ago");
        assert!(!world.is_open(0));
        assert!(world.calls(0, 20, FAILED) && world.is_open(0));
        world.wait(600);
        assert!(!world.is_open(0));
        assert_eq!(counts(&world), (901, 0), "it does not call any more");
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
