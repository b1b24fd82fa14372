//! How often something may be asked: from one network, and about one address.
//!
//! A password can be guessed by asking often, a mailbox filled by asking on somebody's behalf, and
//! the hashing pool kept busy by registering nobody. What is counted here is what came, not how it
//! ended: a refusal tells nothing about whether an address has a customer. Addresses are kept as
//! codes under a key of this process, which dies with it.

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

use crate::email::EmailAddress;

/// Who is counted by one limit at the same time; beyond that, those who are furthest from it are
/// forgotten. A limit takes two megabytes at most.
const KEYS_MAX: usize = 16_384;

/// Bytes of an address's code: enough that no two addresses share one.
const PRINT_BYTES: usize = 16;

/// How much is let through; 0: any amount. So much may come at once, and comes back bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Registrations from one network, in a minute.
    pub registrations_per_minute: u32,
    /// Logins with one address from one network, in a minute.
    pub logins_per_minute: u32,
    /// Logins from one network, in a minute.
    pub network_logins_per_minute: u32,
    /// Codes of second factors for one customer, wherever they come from, in an hour. Only who
    /// knows the password gets that far, so nobody else can use them up.
    pub codes_per_hour: u32,
    /// Mails with tokens to one address, and registrations of it by a door that tells its owner by
    /// mail, whoever asks, in an hour.
    pub mails_per_hour: u32,
    /// Mails with tokens that one network asks for, in an hour.
    pub network_mails_per_hour: u32,
    /// Tokens from mails that one network shows, in a minute.
    pub tokens_per_minute: u32,
    /// Refresh tokens that one network shows, in a minute.
    pub refreshes_per_minute: u32,
}

impl Settings {
    /// No limits.
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
    /// Far above what people do, an office behind one address included.
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

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To be registered.
    Register,
    /// To be logged in, or that a password is looked at for another reason.
    LogIn,
    /// To have a code of a second factor looked at, after the right password.
    UseCode,
    /// To have a token mailed.
    MailToken,
    /// To have the owner of an address told that somebody registered it again.
    TellOwner,
    /// To use a token that was mailed.
    UseToken,
    /// To renew a session's tokens.
    Refresh,
}

impl Action {
    const ALL: [Self; 7] = [
        Self::Register,
        Self::LogIn,
        Self::UseCode,
        Self::MailToken,
        Self::TellOwner,
        Self::UseToken,
        Self::Refresh,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::LogIn => "login",
            Self::UseCode => "code",
            Self::MailToken => "mail",
            Self::TellOwner => "notice",
            Self::UseToken => "token",
            Self::Refresh => "refresh",
        }
    }
}

/// Too much was asked. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// When to come back: whole seconds, at least one.
    pub retry_after: Duration,
}

impl TooMany {
    fn after(wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Duration::from_secs(seconds.max(1)) }
    }
}

/// An address as it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Print([u8; PRINT_BYTES]);

/// The limits, with who has used how much of them.
pub struct Limits<C: Clock = DefaultClock> {
    key: hmac::Key,
    registrations: Limiter<IpAddr, C>,
    logins: Limiter<(IpAddr, Print), C>,
    network_logins: Limiter<IpAddr, C>,
    codes: Limiter<Print, C>,
    mails: Limiter<Print, C>,
    network_mails: Limiter<IpAddr, C>,
    tokens: Limiter<IpAddr, C>,
    refreshes: Limiter<IpAddr, C>,
}

/// One limit; none where any amount may come.
type Limiter<K, C> = Option<RateLimiter<K, Counted<K>, C, NoOpMiddleware<<C as Clock>::Instant>>>;

impl<C: Clock> fmt::Debug for Limits<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limits(…)")
    }
}

impl Limits {
    /// Limits of which nothing is used yet.
    ///
    /// # Panics
    /// Where the operating system gives no random bytes.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        for action in Action::ALL {
            // Alarms compare with the value before: what is rare is shown before it happens.
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

    /// Counts something that is asked, about an address where it is about one.
    ///
    /// # Errors
    /// [`TooMany`] where it is not to be done.
    pub fn check(
        &self,
        action: Action,
        from: ClientAddress,
        about: Option<&EmailAddress>,
    ) -> Result<(), TooMany> {
        let network = from.network();
        let checked = match action {
            Action::Register => pass(&self.registrations, &network),
            // The network first: what it is refused does not count for anybody's address.
            Action::LogIn => pass(&self.network_logins, &network)
                .and_then(|()| self.pass_about(about, |it| pass(&self.logins, &(network, it)))),
            Action::UseCode => self.pass_about(about, |it| pass(&self.codes, &it)),
            Action::MailToken => pass(&self.network_mails, &network)
                .and_then(|()| self.pass_about(about, |it| pass(&self.mails, &it))),
            Action::TellOwner => self.pass_about(about, |it| pass(&self.mails, &it)),
            Action::UseToken => pass(&self.tokens, &network),
            Action::Refresh => pass(&self.refreshes, &network),
        };
        checked.map_err(|wait| {
            count_refused(action, 1);
            TooMany::after(wait)
        })
    }

    fn pass_about(
        &self,
        about: Option<&EmailAddress>,
        check: impl FnOnce(Print) -> Result<(), Duration>,
    ) -> Result<(), Duration> {
        about.map_or(Ok(()), |about| check(self.print(about)))
    }

    fn print(&self, address: &EmailAddress) -> Print {
        let tag = hmac::sign(&self.key, address.folded().as_bytes());
        Print(*tag.as_ref().first_chunk().expect("HMAC-SHA256 has 32 bytes"))
    }
}

fn limiter<K, C>(amount: u32, quota: fn(NonZeroU32) -> Quota, clock: &C) -> Limiter<K, C>
where
    K: std::hash::Hash + Eq + Clone,
    C: Clock + Clone,
{
    let amount = NonZeroU32::new(amount)?;
    Some(RateLimiter::new(quota(amount), Counted::default(), clock.clone()))
}

/// Counts one of them, or says how long to wait.
fn pass<K, C>(limiter: &Limiter<K, C>, key: &K) -> Result<(), Duration>
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

/// Who has used how much of one limit: for each the instant at which nothing of it would be used
/// any more, so that a later one is nearer to the limit.
struct Counted<K>(Mutex<HashMap<K, Nanos>>);

impl<K> Default for Counted<K> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: std::hash::Hash + Eq + Clone> Counted<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Nanos>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: std::hash::Hash + Eq + Clone> StateStore for Counted<K> {
    type Key = K;

    fn measure_and_replace<T, F, E>(&self, key: &K, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut counted = self.lock();
        let before = counted.get(key).copied();
        let (passed, after) = f(before)?;
        if before.is_none() && counted.len() >= KEYS_MAX {
            make_room(&mut counted);
        }
        counted.insert(key.clone(), after);
        Ok(passed)
    }
}

/// Forgets the half that is furthest from its limit: those who came once, long ago, and of those who
/// came just now the ones who came least. Half of them at once, so that it is rare.
fn make_room<K: std::hash::Hash + Eq>(counted: &mut HashMap<K, Nanos>) {
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

        fn ask(&self, action: Action, from: &str, about: &str) -> Result<(), TooMany> {
            let from = ClientAddress(from.parse().unwrap());
            self.limits.check(action, from, EmailAddress::parse(about).ok().as_ref())
        }

        /// Exactly so many pass.
        fn check(&self, action: Action, from: &str, about: &str, passing: u32) {
            for nth in 0..passing {
                assert_eq!(self.ask(action, from, about), Ok(()), "{action:?} {from} {nth}");
            }
            assert!(self.ask(action, from, about).is_err(), "{action:?} {from} {about}");
        }
    }

    #[test]
    fn each_limit_by_whom_it_counts() {
        let limits = World::new(Settings::default());
        limits.check(Action::Register, HERE, "ana@example.com", 60);
        assert!(limits.ask(Action::Register, HERE, "bob@example.com").is_err(), "another address");
        limits.check(Action::Register, "192.0.2.2", "ana@example.com", 60);

        limits.check(Action::LogIn, HERE, "ana@example.com", 10);
        limits.check(Action::LogIn, HERE, "ANA@example.com", 0);
        limits.check(Action::LogIn, "192.0.2.2", "ana@example.com", 10);

        limits.check(Action::MailToken, HERE, "ana@example.com", 5);
        assert!(limits.ask(Action::MailToken, "192.0.2.2", "ana@example.com").is_err());
        limits.check(Action::MailToken, HERE, "bob@example.com", 5);
        limits.check(Action::TellOwner, HERE, "ana@example.com", 0);
        limits.check(Action::TellOwner, HERE, "eve@example.com", 5);
        limits.check(Action::MailToken, HERE, "eve@example.com", 0);

        limits.check(Action::UseCode, HERE, "ana@example.com", 30);
        assert!(limits.ask(Action::UseCode, "192.0.2.2", "ana@example.com").is_err());

        limits.check(Action::UseToken, HERE, "", 60);
        limits.check(Action::Refresh, HERE, "", 300);
        // A customer's network of IPv6 is theirs alone.
        limits.check(Action::UseToken, "2001:db8::1", "", 60);
        limits.check(Action::UseToken, "2001:db8::2", "", 0);
        limits.check(Action::UseToken, "2001:db8:0:1::1", "", 60);
    }

    #[test]
    fn a_network_logs_in_with_many_addresses_up_to_its_own_limit() {
        let limits = World::new(Settings { network_logins_per_minute: 15, ..Settings::default() });
        limits.check(Action::LogIn, HERE, "ana@example.com", 10);
        // The one that was refused counted for the network too.
        limits.check(Action::LogIn, HERE, "bob@example.com", 4);
        limits.check(Action::LogIn, HERE, "no address", 0);
    }

    #[test]
    fn what_was_used_comes_back_bit_by_bit() {
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
    fn a_wait_is_told_in_whole_seconds() {
        let check = |wait_ms: u64, seconds: u64| {
            let told = TooMany::after(Duration::from_millis(wait_ms));
            assert_eq!(told.retry_after, Duration::from_secs(seconds), "{wait_ms} ms");
        };
        check(0, 1);
        check(1, 1);
        check(1_000, 1);
        check(1_001, 2);
    }

    #[test]
    fn without_a_limit_any_amount_passes() {
        let limits = World::new(Settings::OFF);
        for action in Action::ALL {
            for _ in 0..1_000 {
                assert_eq!(limits.ask(action, HERE, "ana@example.com"), Ok(()));
            }
        }
    }

    #[test]
    fn who_is_refused_is_not_forgotten_for_lack_of_room() {
        let limits = World::new(Settings { registrations_per_minute: 2, ..Settings::OFF });
        limits.check(Action::Register, HERE, "", 2);
        for n in 0..2 * u32::try_from(KEYS_MAX).unwrap() {
            let from = ClientAddress(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)));
            assert_eq!(limits.limits.check(Action::Register, from, None), Ok(()));
        }
        assert!(limits.ask(Action::Register, HERE, "").is_err());
    }

    #[test]
    fn the_number_of_those_who_are_counted_is_bounded() {
        let store = Counted::<u32>::default();
        for key in 0..5 * u32::try_from(KEYS_MAX).unwrap() {
            let passed = store.measure_and_replace(&key, |_| Ok::<_, ()>(((), Nanos::new(7))));
            assert_eq!(passed, Ok(()));
            assert!(store.lock().len() <= KEYS_MAX);
        }
    }

    #[test]
    fn an_address_is_not_shown() {
        assert_eq!(format!("{:?}", Limits::new(Settings::OFF)), "Limits(…)");
    }
}
