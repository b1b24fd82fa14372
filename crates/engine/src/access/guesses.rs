//! Wrong credentials, counted by who was tried and from where: after so many, more are refused
//! unseen. By name alone, anybody could lock somebody else out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{AccessError, Print};

/// Wrong credentials for one name from one network within [`WINDOW`].
const OF_NAME_MAX: u32 = 20;

/// Wrong credentials from one network within [`WINDOW`], whatever the names: many people may share
/// an address.
const OF_NETWORK_MAX: u32 = 200;

/// How long wrong credentials count.
const WINDOW: Duration = Duration::from_secs(60);

/// Names and networks counted at the same time.
const COUNTED_MAX: usize = 16_384;

/// Where a request comes from: the address of the peer, or the one that a trusted proxy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// Where nobody said; all such requests count as one client's.
    pub const UNKNOWN: Self = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// What one client has to itself: an IPv4 address, or an IPv6 network of 64 bits.
    const fn network(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(_) => self.0,
            IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() >> 64 << 64)),
        }
    }
}

/// A credential that may turn out wrong.
#[derive(Clone, Copy)]
pub(super) struct Guess {
    name: Print,
    network: IpAddr,
}

impl Guess {
    pub(super) const fn new(name: Print, from: ClientAddress) -> Self {
        Self { name, network: from.network() }
    }

    /// What it is counted by, each with its limit.
    const fn counted_by(&self) -> [(By, u32); 2] {
        [((self.network, Some(self.name)), OF_NAME_MAX), ((self.network, None), OF_NETWORK_MAX)]
    }
}

/// A network, and the name that was tried from there, or all names.
type By = (IpAddr, Option<Print>);

#[derive(Default)]
pub(super) struct Guesses {
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

impl Guesses {
    /// Refuses where there were too many wrong ones.
    pub(super) fn check(&self, guess: &Guess, now: Instant) -> Result<(), AccessError> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (by, max) in guess.counted_by() {
            if let Some(count) = counts.get(&by).filter(|count| count.wrong >= max)
                && let Some(retry_after) = count.left(now)
            {
                metrics::counter!("faregate_refused_total", "reason" => "guessing").increment(1);
                return Err(AccessError::Throttled { retry_after });
            }
        }
        Ok(())
    }

    /// Counts a wrong one.
    pub(super) fn count(&self, guess: &Guess, now: Instant) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= COUNTED_MAX {
            make_room(&mut counts, now);
        }
        for (by, _) in guess.counted_by() {
            let count = counts.entry(by).or_insert(Count { since: now, wrong: 0 });
            if count.left(now).is_none() {
                *count = Count { since: now, wrong: 0 };
            }
            count.wrong += 1;
        }
    }
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

    fn guess(name: u8, from: &str) -> Guess {
        Guess::new([name; 32], ClientAddress(from.parse().unwrap()))
    }

    /// Whether a guess is refused after `wrong` ones for one name from [`FROM`], `later` than those.
    fn check(wrong: u32, (name, from): (u8, &str), later: Duration) -> bool {
        let (guesses, now) = (Guesses::default(), Instant::now());
        (0..wrong).for_each(|_| guesses.count(&guess(1, FROM), now));
        guesses.check(&guess(name, from), now + later).is_err()
    }

    #[test]
    fn too_many_for_one_name_from_one_address_are_refused_for_a_while() {
        let soon = Duration::from_secs(1);
        assert!(!check(OF_NAME_MAX - 1, (1, FROM), soon));
        assert!(check(OF_NAME_MAX, (1, FROM), soon));
        assert!(!check(OF_NAME_MAX, (2, FROM), soon), "another name");
        assert!(!check(OF_NAME_MAX, (1, "192.0.2.2"), soon), "another address");
        assert!(!check(OF_NAME_MAX, (1, FROM), WINDOW), "later");
    }

    #[test]
    fn too_many_from_one_address_are_refused_whatever_the_name() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for wrong in 0..OF_NETWORK_MAX {
            assert!(guesses.check(&guess(255, FROM), now).is_ok());
            guesses.count(&guess(u8::try_from(wrong % 100).unwrap(), FROM), now);
        }
        let refused = guesses.check(&guess(255, FROM), now + Duration::from_secs(20)).unwrap_err();
        let AccessError::Throttled { retry_after } = refused else { panic!("{refused}") };
        assert_eq!(retry_after, Duration::from_secs(40));
        assert!(guesses.check(&guess(255, "192.0.2.2"), now).is_ok());
    }

    #[test]
    fn an_ipv6_client_has_64_bits_to_itself() {
        let network = |text: &str| ClientAddress(text.parse().unwrap()).network();
        assert_eq!(network("2001:db8:0:1::1"), network("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8:0:2::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }

    #[test]
    fn those_who_are_refused_are_not_forgotten_for_lack_of_room() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        (0..OF_NAME_MAX).for_each(|_| guesses.count(&guess(1, FROM), now));
        for address in 0..u32::try_from(COUNTED_MAX).unwrap() {
            let from = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + address));
            guesses.count(&Guess::new([2; 32], ClientAddress(from)), now);
        }
        assert!(guesses.counts.lock().unwrap().len() <= COUNTED_MAX + 2);
        assert!(guesses.check(&guess(1, FROM), now).is_err());
    }
}
