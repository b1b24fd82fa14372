//! Rate limits, per network and per address.
//!
//! They bound password guessing, mails to strangers' addresses and load on the password threads.
//! All requests count, whatever their result, so that a refusal does not reveal whether an address
//! has a customer. Addresses are stored as MACs with a random key of this process.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::access::ClientAddress;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::{Quota, RateLimiter};
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::email::EmailAddress;

/// Keys per limit; above that, those furthest from the limit are evicted. A limit takes two
/// megabytes at most.
const KEYS_MAX: usize = 16_384;

/// Bytes of an address's MAC: enough to avoid collisions.
const ADDRESS_MAC_BYTES: usize = 16;

/// Requests per period; 0 for no limit. The whole amount may arrive at once, and is replenished
/// evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Registrations per network and minute.
    pub registrations_per_minute: u32,
    /// Logins per address, network and minute.
    pub logins_per_minute: u32,
    /// Logins per network and minute.
    pub network_logins_per_minute: u32,
    /// Codes of second factors per customer and hour, whatever the network. They count after the
    /// right password only, so that other clients cannot use them up.
    pub codes_per_hour: u32,
    /// Mails with tokens, and notices about repeated registrations, per address and hour.
    pub mails_per_hour: u32,
    /// Requests for mails with tokens per network and hour.
    pub network_mails_per_hour: u32,
    /// Uses of mailed tokens per network and minute.
    pub tokens_per_minute: u32,
    /// Uses of refresh tokens per network and minute.
    pub refreshes_per_minute: u32,
}

impl Settings {
    pub const OFF: Self = Self {
        registrations_per_minute: 0,
        logins_per_minute: 0,
        network_logins_per_minute: 0,
        codes_per_hour: 0,
        mails_per_hour: 0,
        network_mails_per_hour: 0,
        tokens_per_minute: 0,
        refreshes_per_minute: 0,
    };
}

impl Default for Settings {
    /// Far above what people need, including an office behind one address.
    fn default() -> Self {
        Self {
            registrations_per_minute: 60,
            logins_per_minute: 10,
            network_logins_per_minute: 100,
            codes_per_hour: 30,
            mails_per_hour: 5,
            network_mails_per_hour: 100,
            tokens_per_minute: 60,
            refreshes_per_minute: 300,
        }
    }
}

/// A limited action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Register,
    /// Logging in, or another check of a password.
    LogIn,
    /// Checking a code of a second factor, after the right password.
    UseCode,
    /// Mailing a token.
    MailToken,
    /// Notifying the owner of an address about a repeated registration.
    NotifyOwner,
    /// Using a mailed token.
    UseToken,
    /// Renewing a session's tokens.
    Refresh,
}

impl Action {
    const ALL: [Self; 7] = [
        Self::Register,
        Self::LogIn,
        Self::UseCode,
        Self::MailToken,
        Self::NotifyOwner,
        Self::UseToken,
        Self::Refresh,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::LogIn => "login",
            Self::UseCode => "code",
            Self::MailToken => "mail",
            Self::NotifyOwner => "notice",
            Self::UseToken => "token",
            Self::Refresh => "refresh",
        }
    }
}

/// A limit is exceeded; nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRequests {
    /// In whole seconds, at least one.
    pub retry_after: Duration,
}

impl TooManyRequests {
    fn after(wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Duration::from_secs(seconds.max(1)) }
    }
}

/// The MAC of an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct AddressMac([u8; ADDRESS_MAC_BYTES]);

/// The limits and their state.
pub struct Limits<C: Clock = DefaultClock> {
    key: hmac::Key,
    registrations: Limiter<IpAddr, C>,
    logins: Limiter<(IpAddr, AddressMac), C>,
    network_logins: Limiter<IpAddr, C>,
    codes: Limiter<AddressMac, C>,
    mails: Limiter<AddressMac, C>,
    network_mails: Limiter<IpAddr, C>,
    tokens: Limiter<IpAddr, C>,
    refreshes: Limiter<IpAddr, C>,
}

/// One limit; `None` where it is off.
type Limiter<K, C> =
    Option<RateLimiter<K, LimitState<K>, C, NoOpMiddleware<<C as Clock>::Instant>>>;

impl<C: Clock> fmt::Debug for Limits<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limits(…)")
    }
}

impl Limits {
    /// Unused limits.
    ///
    /// # Panics
    /// Where the operating system gives no random bytes.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        for action in Action::ALL {
            // Alerts compare with an earlier value, so that rare refusals are shown as zero first.
            count_refused(action, 0);
        }
        Self::with_clock(settings, &DefaultClock::default())
    }
}

impl<C: Clock + Clone> Limits<C> {
    fn with_clock(settings: Settings, clock: &C) -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new())
            .expect("the operating system gives random bytes");
        Self {
            key,
            registrations: limiter(settings.registrations_per_minute, Quota::per_minute, clock),
            logins: limiter(settings.logins_per_minute, Quota::per_minute, clock),
            network_logins: limiter(settings.network_logins_per_minute, Quota::per_minute, clock),
            codes: limiter(settings.codes_per_hour, Quota::per_hour, clock),
            mails: limiter(settings.mails_per_hour, Quota::per_hour, clock),
            network_mails: limiter(settings.network_mails_per_hour, Quota::per_hour, clock),
            tokens: limiter(settings.tokens_per_minute, Quota::per_minute, clock),
            refreshes: limiter(settings.refreshes_per_minute, Quota::per_minute, clock),
        }
    }

    /// Counts an action, which may concern an address.
    ///
    /// # Errors
    /// [`TooManyRequests`].
    pub fn check(
        &self,
        action: Action,
        from: ClientAddress,
        about: Option<&EmailAddress>,
    ) -> Result<(), TooManyRequests> {
        let network = from.network();
        let checked = match action {
            Action::Register => count(&self.registrations, &network),
            // A request that the network's limit refuses does not count for the address.
            Action::LogIn => count(&self.network_logins, &network)
                .and_then(|()| self.count_about(about, |it| count(&self.logins, &(network, it)))),
            Action::UseCode => self.count_about(about, |it| count(&self.codes, &it)),
            Action::MailToken => count(&self.network_mails, &network)
                .and_then(|()| self.count_about(about, |it| count(&self.mails, &it))),
            Action::NotifyOwner => self.count_about(about, |it| count(&self.mails, &it)),
            Action::UseToken => count(&self.tokens, &network),
            Action::Refresh => count(&self.refreshes, &network),
        };
        checked.map_err(|wait| {
            count_refused(action, 1);
            TooManyRequests::after(wait)
        })
    }

    fn count_about(
        &self,
        about: Option<&EmailAddress>,
        check: impl FnOnce(AddressMac) -> Result<(), Duration>,
    ) -> Result<(), Duration> {
        about.map_or(Ok(()), |about| check(self.mac(about)))
    }

    fn mac(&self, address: &EmailAddress) -> AddressMac {
        let tag = hmac::sign(&self.key, address.folded().as_bytes());
        AddressMac(*tag.as_ref().first_chunk().expect("HMAC-SHA256 has 32 bytes"))
    }
}

fn limiter<K, C>(amount: u32, quota: fn(NonZeroU32) -> Quota, clock: &C) -> Limiter<K, C>
where
    K: std::hash::Hash + Eq + Clone,
    C: Clock + Clone,
{
    let amount = NonZeroU32::new(amount)?;
    Some(RateLimiter::new(quota(amount), LimitState::default(), clock.clone()))
}

/// Counts a request, or returns how long to wait.
fn count<K, C>(limiter: &Limiter<K, C>, key: &K) -> Result<(), Duration>
where
    K: std::hash::Hash + Eq + Clone,
    C: Clock,
{
    let Some(limiter) = limiter else { return Ok(()) };
    let checked = limiter.check_key(key);
    checked.map_err(|not_yet| not_yet.wait_time_from(limiter.clock().now()))
}

fn count_refused(action: Action, by: u64) {
    metrics::counter!("faregate_signup_limited_total", "action" => action.label()).increment(by);
}

/// The state of one limit: for each key the instant at which its whole amount is available again. A
/// later instant is nearer to the limit.
struct LimitState<K>(Mutex<HashMap<K, Nanos>>);

impl<K> Default for LimitState<K> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: std::hash::Hash + Eq + Clone> LimitState<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Nanos>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: std::hash::Hash + Eq + Clone> StateStore for LimitState<K> {
    type Key = K;

    fn measure_and_replace<T, F, E>(&self, key: &K, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut counted = self.lock();
        let before = counted.get(key).copied();
        let (passed, after) = f(before)?;
        if before.is_none() && counted.len() >= KEYS_MAX {
            evict_half(&mut counted);
        }
        counted.insert(key.clone(), after);
        Ok(passed)
    }
}

/// Evicts the half that is furthest from the limit. It evicts half of the keys at once, so that it
/// is rare.
fn evict_half<K: std::hash::Hash + Eq>(counted: &mut HashMap<K, Nanos>) {
    let mut instants: Vec<Nanos> = counted.values().copied().collect();
    let half = instants.len() / 2;
    let (_, median, _) = instants.select_nth_unstable(half);
    let median = *median;
    counted.retain(|_, instant| *instant > median);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use governor::clock::FakeRelativeClock;

    use super::*;

    const HERE: &str = "192.0.2.1";
    const MINUTE: Duration = Duration::from_secs(60);

    struct World {
        clock: FakeRelativeClock,
        limits: Limits<FakeRelativeClock>,
    }

    impl World {
        fn new(settings: Settings) -> Self {
            let clock = FakeRelativeClock::default();
            Self { limits: Limits::with_clock(settings, &clock), clock }
        }

        fn ask(&self, action: Action, from: &str, about: &str) -> Result<(), TooManyRequests> {
            let from = ClientAddress(from.parse().unwrap());
            self.limits.check(action, from, EmailAddress::parse(about).ok().as_ref())
        }

        fn is_refused(&self, action: Action, from: &str, about: &str) -> bool {
            matches!(self.ask(action, from, about), Err(TooManyRequests { .. }))
        }

        /// Exactly this many pass.
        fn check(&self, action: Action, from: &str, about: &str, passing: u32) {
            for nth in 0..passing {
                assert_eq!(self.ask(action, from, about), Ok(()), "{action:?} {from} {nth}");
            }
            assert!(self.is_refused(action, from, about), "{action:?} {from} {about}");
        }
    }

    #[test]
    fn each_limit_counts_by_its_own_key() {
        let limits = World::new(Settings::default());
        limits.check(Action::Register, HERE, "ana@example.com", 60);
        assert!(limits.is_refused(Action::Register, HERE, "bob@example.com"), "another address");
        limits.check(Action::Register, "192.0.2.2", "ana@example.com", 60);

        limits.check(Action::LogIn, HERE, "ana@example.com", 10);
        limits.check(Action::LogIn, HERE, "ANA@example.com", 0);
        limits.check(Action::LogIn, "192.0.2.2", "ana@example.com", 10);

        limits.check(Action::MailToken, HERE, "ana@example.com", 5);
        assert!(limits.is_refused(Action::MailToken, "192.0.2.2", "ana@example.com"));
        limits.check(Action::MailToken, HERE, "bob@example.com", 5);
        limits.check(Action::NotifyOwner, HERE, "ana@example.com", 0);
        limits.check(Action::NotifyOwner, HERE, "eve@example.com", 5);
        limits.check(Action::MailToken, HERE, "eve@example.com", 0);

        limits.check(Action::UseCode, HERE, "ana@example.com", 30);
        assert!(limits.is_refused(Action::UseCode, "192.0.2.2", "ana@example.com"));

        limits.check(Action::UseToken, HERE, "", 60);
        limits.check(Action::Refresh, HERE, "", 300);
        // A customer's IPv6 network is their own.
        limits.check(Action::UseToken, "2001:db8::1", "", 60);
        limits.check(Action::UseToken, "2001:db8::2", "", 0);
        limits.check(Action::UseToken, "2001:db8:0:1::1", "", 60);
    }

    #[test]
    fn logins_of_a_network_are_limited_across_addresses() {
        let limits = World::new(Settings { network_logins_per_minute: 15, ..Settings::default() });
        limits.check(Action::LogIn, HERE, "ana@example.com", 10);
        // The refused request counted for the network too.
        limits.check(Action::LogIn, HERE, "bob@example.com", 4);
        limits.check(Action::LogIn, HERE, "no address", 0);
    }

    #[test]
    fn used_amounts_are_replenished_evenly() {
        let limits = World::new(Settings::default());
        limits.check(Action::LogIn, HERE, "ana@example.com", 10);
        let refused = limits.ask(Action::LogIn, HERE, "ana@example.com").unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(6));
        limits.clock.advance(refused.retry_after);
        limits.check(Action::LogIn, HERE, "ana@example.com", 1);
        limits.clock.advance(MINUTE);
        limits.check(Action::LogIn, HERE, "ana@example.com", 10);

        limits.check(Action::MailToken, HERE, "ana@example.com", 5);
        let refused = limits.ask(Action::MailToken, HERE, "ana@example.com").unwrap_err();
        assert_eq!(refused.retry_after, 12 * MINUTE);
    }

    #[test]
    fn retry_after_is_rounded_up_to_whole_seconds() {
        let check = |wait_ms: u64, seconds: u64| {
            let refused = TooManyRequests::after(Duration::from_millis(wait_ms));
            assert_eq!(refused.retry_after, Duration::from_secs(seconds), "{wait_ms} ms");
        };
        check(0, 1);
        check(1, 1);
        check(1_000, 1);
        check(1_001, 2);
    }

    #[test]
    fn limits_of_zero_are_off() {
        let limits = World::new(Settings::OFF);
        for action in Action::ALL {
            for _ in 0..1_000 {
                assert_eq!(limits.ask(action, HERE, "ana@example.com"), Ok(()));
            }
        }
    }

    #[test]
    fn keys_at_their_limit_are_not_evicted() {
        let limits = World::new(Settings { registrations_per_minute: 2, ..Settings::OFF });
        limits.check(Action::Register, HERE, "", 2);
        for n in 0..2 * u32::try_from(KEYS_MAX).unwrap() {
            let from = ClientAddress(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)));
            assert_eq!(limits.limits.check(Action::Register, from, None), Ok(()));
        }
        assert!(limits.is_refused(Action::Register, HERE, ""));
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let store = LimitState::<u32>::default();
        for key in 0..5 * u32::try_from(KEYS_MAX).unwrap() {
            let passed = store.measure_and_replace(&key, |_| Ok::<_, ()>(((), Nanos::new(7))));
            assert_eq!(passed, Ok(()));
            assert!(store.lock().len() <= KEYS_MAX);
        }
    }

    #[test]
    fn debug_output_contains_no_addresses() {
        assert_eq!(format!("{:?}", Limits::new(Settings::OFF)), "Limits(…)");
    }
}
