//! The failed-login limiter: counts wrong credentials by name and network, and refuses further
//! attempts unverified above a limit. Counted by name alone, an attacker could lock a user out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{AccessError, Print};

/// Wrong credentials for one name from one network within [`WINDOW`].
const OF_NAME_MAX: u32 = 20;

/// Wrong credentials from one network within [`WINDOW`], whatever the names: many people may share
/// an address.
const OF_NETWORK_MAX: u32 = 200;

/// How long wrong credentials count.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Names and networks counted at the same time.
const COUNTED_MAX: usize = 16_384;

/// Where a request comes from: the address of the peer, or the one that a trusted proxy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// The address is not known; all such requests count as one client's.
    pub const UNKNOWN: Self = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// The network that one client has to itself: an IPv4 address, or an IPv6 network of 64 bits.
    #[must_use]
    pub const fn network(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(_) => self.0,
            IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() >> 64 << 64)),
        }
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whether it is a program on this machine that asks for itself: it comes by loopback, and
    /// no header says that it forwards another client's request.
    pub is_local: bool,
}

/// A credential that may turn out wrong.
#[derive(Clone, Copy)]
pub(super) struct LoginAttempt {
    name: Print,
    network: IpAddr,
}

impl LoginAttempt {
    pub(super) const fn new(name: Print, from: ClientAddress) -> Self {
        Self { name, network: from.network() }
    }

    /// The keys that it is counted by, each with its limit.
    const fn counted_by(&self) -> [(By, u32); 2] {
        [((self.network, Some(self.name)), OF_NAME_MAX), ((self.network, None), OF_NETWORK_MAX)]
    }
}

/// A network, and the name that was tried from there, or all names.
type By = (IpAddr, Option<Print>);

#[derive(Default)]
pub(super) struct FailedLogins {
    counts: Mutex<HashMap<By, Count>>,
}

#[derive(Clone, Copy)]
struct Count {
    since: Instant,
    wrong: u32,
}

impl Count {
    /// How long it still counts.
    fn left(&self, now: Instant) -> Option<Duration> {
        let left = WINDOW.checked_sub(now.saturating_duration_since(self.since))?;
        (!left.is_zero()).then_some(left)
    }
}

impl FailedLogins {
    /// Refuses where there were too many wrong ones.
    pub(super) fn check(&self, attempt: &LoginAttempt, now: Instant) -> Result<(), AccessError> {
        check(&self.lock(), attempt, now)
    }

    /// Refuses like [`FailedLogins::check`]. What begins counts as wrong for its name until it ends, so
    /// that concurrent attempts do not all pass.
    pub(super) fn begin(&self, attempt: &LoginAttempt, now: Instant) -> Result<(), AccessError> {
        let mut counts = self.lock();
        check(&counts, attempt, now)?;
        let [(name, _), _] = attempt.counted_by();
        count(&mut counts, name, now);
        Ok(())
    }

    /// Ends an attempt that was begun.
    pub(super) fn end(&self, attempt: &LoginAttempt, is_wrong: bool, now: Instant) {
        let mut counts = self.lock();
        let [(name, _), (network, _)] = attempt.counted_by();
        if is_wrong {
            count(&mut counts, network, now);
        } else if let Some(count) = counts.get_mut(&name) {
            count.wrong = count.wrong.saturating_sub(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<By, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(
    counts: &HashMap<By, Count>,
    attempt: &LoginAttempt,
    now: Instant,
) -> Result<(), AccessError> {
    for (by, max) in attempt.counted_by() {
        if let Some(count) = counts.get(&by).filter(|count| count.wrong >= max)
            && let Some(retry_after) = count.left(now)
        {
            metrics::counter!("faregate_refused_total", "reason" => "guessing").increment(1);
            return Err(AccessError::Throttled { retry_after });
        }
    }
    Ok(())
}

fn count(counts: &mut HashMap<By, Count>, by: By, now: Instant) {
    if counts.len() >= COUNTED_MAX {
        make_room(counts, now);
    }
    let count = counts.entry(by).or_insert(Count { since: now, wrong: 0 });
    if count.left(now).is_none() {
        *count = Count { since: now, wrong: 0 };
    }
    count.wrong += 1;
}

/// Forgets what no longer counts; if that is not enough, all but those who are refused now; if that
/// is not enough either, everything.
fn make_room(counts: &mut HashMap<By, Count>, now: Instant) {
    counts.retain(|_, count| count.left(now).is_some());
    if counts.len() >= COUNTED_MAX {
        counts.retain(|(_, name), count| {
            count.wrong >= if name.is_some() { OF_NAME_MAX } else { OF_NETWORK_MAX }
        });
    }
    if counts.len() >= COUNTED_MAX {
        counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "192.0.2.1";

    fn attempt(name: u8, from: &str) -> LoginAttempt {
        LoginAttempt::new([name; 32], ClientAddress(from.parse().unwrap()))
    }

    fn wrong(failed_logins: &FailedLogins, attempt: &LoginAttempt, now: Instant) {
        failed_logins.begin(attempt, now).unwrap();
        failed_logins.end(attempt, true, now);
    }

    fn is_throttled(failed_logins: &FailedLogins, attempt: &LoginAttempt, now: Instant) -> bool {
        matches!(failed_logins.check(attempt, now), Err(AccessError::Throttled { .. }))
    }

    /// Whether an attempt is refused after so many wrong ones for one name from [`FROM`], `later` than those.
    fn is_refused(wrong_count: u32, (name, from): (u8, &str), later: Duration) -> bool {
        let (failed_logins, now) = (FailedLogins::default(), Instant::now());
        (0..wrong_count).for_each(|_| wrong(&failed_logins, &attempt(1, FROM), now));
        is_throttled(&failed_logins, &attempt(name, from), now + later)
    }

    #[test]
    fn too_many_failures_for_one_name_and_address_are_refused_for_the_window() {
        let soon = Duration::from_secs(1);
        assert!(!is_refused(OF_NAME_MAX - 1, (1, FROM), soon));
        assert!(is_refused(OF_NAME_MAX, (1, FROM), soon));
        assert!(!is_refused(OF_NAME_MAX, (2, FROM), soon), "another name");
        assert!(!is_refused(OF_NAME_MAX, (1, "192.0.2.2"), soon), "another address");
        assert!(!is_refused(OF_NAME_MAX, (1, FROM), WINDOW), "later");
    }

    #[test]
    fn too_many_failures_from_one_address_are_refused_for_every_name() {
        let (failed_logins, now) = (FailedLogins::default(), Instant::now());
        for n in 0..OF_NETWORK_MAX {
            assert!(!is_throttled(&failed_logins, &attempt(255, FROM), now));
            wrong(&failed_logins, &attempt(u8::try_from(n % 100).unwrap(), FROM), now);
        }
        let refused =
            failed_logins.check(&attempt(255, FROM), now + Duration::from_secs(20)).unwrap_err();
        let AccessError::Throttled { retry_after } = refused else { panic!("{refused}") };
        assert_eq!(retry_after, Duration::from_secs(40));
        assert!(!is_throttled(&failed_logins, &attempt(255, "192.0.2.2"), now));
    }

    #[test]
    fn concurrent_attempts_count_before_they_are_verified() {
        let (failed_logins, now) = (FailedLogins::default(), Instant::now());
        (0..OF_NAME_MAX).for_each(|_| failed_logins.begin(&attempt(1, FROM), now).unwrap());
        let refused = failed_logins.begin(&attempt(1, FROM), now);
        assert!(matches!(refused, Err(AccessError::Throttled { .. })), "{refused:?}");
        failed_logins.end(&attempt(1, FROM), false, now);
        failed_logins.begin(&attempt(1, FROM), now).expect("one was right");
    }

    #[test]
    fn an_ipv6_client_is_its_64_bit_network() {
        let network = |text: &str| ClientAddress(text.parse().unwrap()).network();
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }

    #[test]
    fn refused_names_are_kept_when_the_table_is_full() {
        let (failed_logins, now) = (FailedLogins::default(), Instant::now());
        (0..OF_NAME_MAX).for_each(|_| wrong(&failed_logins, &attempt(1, FROM), now));
        for address in 0..u32::try_from(COUNTED_MAX).unwrap() {
            let from = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + address));
            wrong(&failed_logins, &LoginAttempt::new([2; 32], ClientAddress(from)), now);
        }
        assert!(failed_logins.counts.lock().unwrap().len() <= COUNTED_MAX + 2);
        assert!(is_throttled(&failed_logins, &attempt(1, FROM), now));
    }
}
