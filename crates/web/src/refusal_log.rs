//! Which refusals are logged at the level info: those for want of credentials or rights, but no flood of
//! them. Each network has room for so many lines of a kind, so that a flood of one hides nothing of another.
//! Refusals without room are counted, and the counts are logged. A refusal of a user who is known always has room.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Response, StatusCode};

/// How many refusals of a network and a status are logged at the level info in a second.
pub const NETWORK_LINES_PER_SECOND_MAX: u32 = 10;

/// How many of all networks together.
pub const LINES_PER_SECOND_MAX: u32 = 100;

/// How many networks are told apart at a time; further ones count as one.
const NETWORKS_MAX: usize = 1_024;

/// How many networks are named where counts are logged; the others are summed up.
const NAMED_MAX: usize = 10;

static LOG: LazyLock<Mutex<RefusalLog>> = LazyLock::new(Mutex::default);

/// Why a request is refused, in words that hold nothing of the request: an extension of its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why(pub Cow<'static, str>);

/// Whether an answer is a refusal for want of credentials or rights.
#[must_use]
pub fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

/// Whether an answer's log line is to have the level info: a refusal of a known user, or one that its network
/// has room for.
#[must_use]
pub fn is_worth_a_line(status: StatusCode, network: IpAddr, is_user_known: bool) -> bool {
    if !is_refusal(status) {
        return false;
    }
    let has_room = is_user_known || with_log(|log| log.admit((network, status), Instant::now()));
    if !has_room {
        let status = status.as_str().to_owned();
        metrics::counter!("faregate_refusals_not_logged_total", "status" => status).increment(1);
    }
    has_room
}

/// Why an answer refuses its request.
#[must_use]
pub fn why<B>(response: &Response<B>) -> Option<&str> {
    response.extensions().get::<Why>().map(|it| &*it.0)
}

/// Logs how many refusals were not logged since the last time. Called every few seconds.
pub fn report_dropped() {
    let Dropped { named, others } = with_log(|log| log.take_dropped(Instant::now()));
    for ((network, status), refusals) in named {
        let status = status.as_u16();
        tracing::warn!(%network, status, refusals, "a network's refusals were not logged: it has too many");
    }
    if others > 0 {
        tracing::warn!(
            refusals = others,
            "refusals of further networks were not logged: they have too many"
        );
    }
}

fn with_log<T>(act: impl FnOnce(&mut RefusalLog) -> T) -> T {
    act(&mut LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

type Kind = (IpAddr, StatusCode);

/// The lines of the current second, and what was not logged.
#[derive(Default)]
struct RefusalLog {
    all: Lines,
    by_kind: HashMap<Kind, Lines>,
    /// Of the networks that are not told apart.
    others: Lines,
}

#[derive(Clone, Copy, Default)]
struct Lines {
    since: Option<Instant>,
    count: u32,
    dropped: u64,
}

/// The counts of refusals that were not logged.
#[derive(Debug, PartialEq, Eq)]
struct Dropped {
    named: Vec<(Kind, u64)>,
    others: u64,
}

impl Lines {
    /// The lines of this second.
    fn count(&mut self, now: Instant) -> u32 {
        if self.is_over(now) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count
    }

    fn is_over(&self, now: Instant) -> bool {
        self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1))
    }
}

impl RefusalLog {
    fn admit(&mut self, kind: Kind, now: Instant) -> bool {
        let is_known = self.by_kind.contains_key(&kind);
        let lines = match is_known || self.by_kind.len() < NETWORKS_MAX {
            true => self.by_kind.entry(kind).or_default(),
            false => &mut self.others,
        };
        let has_room = lines.count(now) < NETWORK_LINES_PER_SECOND_MAX
            && self.all.count(now) < LINES_PER_SECOND_MAX;
        if has_room {
            lines.count += 1;
            self.all.count += 1;
        } else {
            lines.dropped += 1;
        }
        has_room
    }

    /// Takes the counts of refusals that were not logged since the last call; forgets networks that are silent.
    fn take_dropped(&mut self, now: Instant) -> Dropped {
        let with_dropped = self.by_kind.iter_mut().filter(|(_, lines)| lines.dropped > 0);
        let mut named: Vec<(Kind, u64)> =
            with_dropped.map(|(kind, lines)| (*kind, std::mem::take(&mut lines.dropped))).collect();
        named.sort_unstable_by_key(|(kind, dropped)| (std::cmp::Reverse(*dropped), *kind));
        let rest = named.split_off(named.len().min(NAMED_MAX));
        let others = rest.iter().map(|(_, dropped)| dropped).sum::<u64>();
        let others = others + std::mem::take(&mut self.others.dropped);
        self.by_kind.retain(|_, lines| !lines.is_over(now));
        Dropped { named, others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: StatusCode = StatusCode::UNAUTHORIZED;

    fn network(number: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(number))
    }

    struct World {
        log: RefusalLog,
        began: Instant,
    }

    impl World {
        fn new() -> Self {
            Self { log: RefusalLog::default(), began: Instant::now() }
        }

        /// How many of so many refusals at a time are logged.
        fn refuse(&mut self, kind: Kind, count: usize, after_ms: u64) -> usize {
            let now = self.began + Duration::from_millis(after_ms);
            (0..count).filter(|_| self.log.admit(kind, now)).count()
        }

        fn dropped(&mut self, after_ms: u64) -> Dropped {
            self.log.take_dropped(self.began + Duration::from_millis(after_ms))
        }
    }

    #[test]
    fn a_flood_of_one_network_leaves_room_to_the_others_and_is_counted() {
        let mut world = World::new();
        assert_eq!(world.refuse((network(1), NONE), 5_000, 0), 10);
        assert_eq!(world.refuse((network(2), NONE), 3, 1), 3);
        assert_eq!(world.refuse((network(1), StatusCode::FORBIDDEN), 3, 1), 3, "another kind");
        assert_eq!(world.refuse((network(1), NONE), 1, 999), 0);
        assert_eq!(world.refuse((network(1), NONE), 20, 1_000), 10, "another second");
        let named = vec![((network(1), NONE), 4_990 + 1 + 10)];
        assert_eq!(world.dropped(1_001), Dropped { named, others: 0 });
        assert_eq!(world.dropped(3_000), Dropped { named: vec![], others: 0 });
        assert!(world.log.by_kind.is_empty(), "silent networks are forgotten");
    }

    #[test]
    fn floods_of_many_networks_are_bounded_and_summed_up() {
        let mut world = World::new();
        let logged: usize = (0..5_000).map(|it| world.refuse((network(it), NONE), 2, 0)).sum();
        assert_eq!(logged, 100);
        let Dropped { named, others } = world.dropped(1);
        assert_eq!(named.len(), 10);
        assert_eq!(named.iter().map(|it| it.1).sum::<u64>() + others, 9_900);
        assert!(world.log.by_kind.len() <= NETWORKS_MAX);
    }

    #[test]
    fn a_known_user_is_always_logged() {
        let flood = network(77);
        let written = (0..50).filter(|_| is_worth_a_line(NONE, flood, false)).count();
        assert!(written <= 20, "{written}");
        assert!((0..50).all(|_| is_worth_a_line(StatusCode::FORBIDDEN, flood, true)));
        assert!(!is_worth_a_line(StatusCode::NOT_FOUND, flood, true), "it is no refusal");
    }
}
