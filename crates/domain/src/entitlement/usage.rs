//! Usage: how much of its limits an account has used, and what is reserved of them.
//!
//! A count is one row per account, feature and period. What is reserved is in that row too, added up by when it ends,
//! so that a reservation counts no more after its end, whether or not it was cleaned up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::entitlement::Entitled;
use crate::entitlement::feature::{FeatureKind, FeatureValue, LIMIT_MAX, Reset};
use crate::entitlement::level::{Counted, Level};
use crate::entitlement::period::Period;
use crate::rows::Keyed;
use crate::{AccountId, Rejection, ReservationId, TenantNo, Timestamp};

/// How many items a command counts at most.
pub const ITEMS_MAX: usize = 1_000;

/// How many characters the id of an event has at most.
pub const EVENT_ID_CHARS_MAX: usize = 256;

/// How long the ids of events are known, and reservations after their ends.
pub const KEPT_US: i64 = 35 * Timestamp::DAY_US;

/// How late an event may be reported.
pub const LATE_US_MAX: i64 = 3_600 * Timestamp::SECOND_US;

/// How far a client's clock may be ahead.
pub const AHEAD_US_MAX: i64 = 60 * Timestamp::SECOND_US;

/// How long a reservation lasts at most.
pub const RESERVED_US_MAX: i64 = 31 * Timestamp::DAY_US;

/// How many different ends the reservations of a count have at most; an end is a whole second.
pub const ENDS_MAX: usize = 1_000;

/// How many periods of a feature a command looks at: an event is an hour late at most, so that of each [`Reset`] two
/// are enough.
///
/// [`Reset`]: crate::entitlement::feature::Reset
pub const PERIODS_MAX: u32 = 10;

/// How much of a feature an account used in a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub tenant: TenantNo,
    pub account_id: AccountId,
    /// The feature's key.
    pub feature: String,
    pub period: Period,
    /// From 0 to [`LIMIT_MAX`].
    pub used: i64,
    /// The reserved quantities, by the ends of their reservations. A quantity that has ended stays until the count is
    /// written next, and while the clock is so far ahead of real time that it may be set back to before that end.
    pub reserved: BTreeMap<Timestamp, i64>,
    /// How often all that was reserved ended because the account was closed.
    pub endings: u32,
    /// Whether the account has used as much as its limit: there is one event of it.
    pub is_reached: bool,
    /// When it was written last, at most: where the clock was ahead of real time, real time. What was reserved until
    /// then is over for good.
    pub updated_at: Timestamp,
}

impl Keyed for Usage {
    type Key = (TenantNo, AccountId, String, Period);

    fn key(&self) -> Self::Key {
        (self.tenant, self.account_id, self.feature.clone(), self.period)
    }
}

/// Names an event without what its id says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventKey(pub Uuid);

/// An event that was counted: known until it is [`KEPT_US`] old.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageEvent {
    pub tenant: TenantNo,
    pub account_id: AccountId,
    pub key: EventKey,
    pub period: Period,
    /// The answer to the event.
    pub counted: Counted,
    pub counted_at: Timestamp,
}

impl Keyed for UsageEvent {
    type Key = (TenantNo, AccountId, EventKey);

    fn key(&self) -> Self::Key {
        (self.tenant, self.account_id, self.key)
    }
}

/// A part of a limit that is kept for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub tenant: TenantNo,
    pub id: ReservationId,
    pub account_id: AccountId,
    /// The feature's key.
    pub feature: String,
    pub period: Period,
    pub quantity: i64,
    /// When it ends by itself: a whole second.
    pub until: Timestamp,
    /// [`Usage::endings`] when it was made: where that is another, it is over.
    pub endings: u32,
    pub status: ReservationStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Keyed for Reservation {
    type Key = (TenantNo, AccountId, ReservationId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.account_id, self.id)
    }
}

/// The status of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservationStatus {
    /// Nothing yet, or it ended by itself.
    Open,
    /// So much of it was used.
    Confirmed {
        quantity: i64,
    },
    Released,
}

/// Counts what an account used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordUsage {
    pub account: AccountId,
    pub item: UsageItem,
}

/// Counts several things that an account used. Each is counted or refused by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordUsages {
    pub account: AccountId,
    /// 1 to [`ITEMS_MAX`].
    pub items: Vec<UsageItem>,
}

/// Something that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageItem {
    /// The feature's key.
    pub feature: String,
    pub quantity: i64,
    pub event: EventKey,
    /// When; `None`: now.
    pub at: Option<Timestamp>,
}

/// Keeps a part of a limit for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    pub account: AccountId,
    /// The feature's key.
    pub feature: String,
    pub quantity: i64,
    pub ends: Ends,
}

/// When a reservation ends. It is rounded up to a whole second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ends {
    At(Timestamp),
    /// So many microseconds from now on.
    After(i64),
}

/// Counts what was reserved as used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmReservation {
    pub account: AccountId,
    pub reservation: ReservationId,
    /// How much of it; `None`: all. The rest is given back.
    pub quantity: Option<i64>,
}

/// Gives back what was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseReservation {
    pub account: AccountId,
    pub reservation: ReservationId,
}

/// The result of an item: counted, or refused.
pub type Recorded = Result<Counted, Rejection>;

impl Usage {
    /// That of a period in which nothing was used yet.
    #[must_use]
    pub const fn none_of(
        (tenant, account_id): (TenantNo, AccountId),
        feature: String,
        period: Period,
    ) -> Self {
        Self {
            tenant,
            account_id,
            feature,
            period,
            used: 0,
            reserved: BTreeMap::new(),
            endings: 0,
            is_reached: false,
            updated_at: Timestamp(0),
        }
    }

    /// The quantity that is reserved at a time. Reservations that ended do not count.
    #[must_use]
    pub fn reserved_at(&self, at: Timestamp) -> i64 {
        let still = self.reserved.iter().filter(|(until, _)| **until > at);
        still.fold(0, |sum, (_, quantity)| sum.saturating_add(*quantity))
    }

    /// A time, and not before it was written last: a clock that is set back brings back nothing that was over in real
    /// time.
    #[must_use]
    pub fn not_before(&self, now: Timestamp) -> Timestamp {
        now.max(self.updated_at)
    }

    /// Where it stands at a time.
    #[must_use]
    pub fn level(&self, limit: i64, at: Timestamp) -> Level {
        let (used, reserved) = (self.used, self.reserved_at(at));
        Level { limit, used, reserved, resets_at: self.period.until }
    }
}

/// The count of a time, of the counts of a feature. A period that was begun stays what it was.
///
/// Of the periods before the newest [`PERIODS_MAX`] a command knows nothing. A time before these comes from a clock that
/// was set back: the oldest of them counts for it, so that no count begins anew.
pub(crate) fn begun<'a>(
    counts: impl Iterator<Item = &'a Usage>,
    resets: Reset,
    at: Timestamp,
) -> Option<&'a Usage> {
    let mut all: Vec<&Usage> = counts.collect();
    let is_all = all.len() < PERIODS_MAX as usize;
    if !is_all {
        let end = |it: &&Usage| std::cmp::Reverse(it.period.until.unwrap_or(Timestamp(i64::MAX)));
        all.sort_by_key(end);
        all.truncate(PERIODS_MAX as usize);
    }
    all.retain(|it| it.period.resets == resets);
    let begun = all.iter().find(|it| it.period.has(at));
    let oldest = || all.last().filter(|it| !is_all && at < it.period.from);
    begun.or_else(oldest).copied()
}

/// Where the limit of a feature stands that an account has, of the counts of that feature; `None` where it is no limit.
/// `zone` is the account's.
#[must_use]
pub fn level_now(
    entitled: &Entitled<'_>,
    counts: &[&Usage],
    zone: &str,
    now: Timestamp,
) -> Option<Level> {
    let (FeatureValue::Limit(limit), FeatureKind::Limit(terms)) =
        (&entitled.value, &entitled.terms.kind)
    else {
        return None;
    };
    let begun = begun(counts.iter().copied(), terms.resets, now);
    Some(begun.map_or_else(
        || Level {
            limit: *limit,
            used: 0,
            reserved: 0,
            resets_at: Period::of(terms.resets, zone, now).until,
        },
        |it| it.level(*limit, now),
    ))
}

impl Reservation {
    /// Whether it is known: until [`KEPT_US`] after its end.
    #[must_use]
    pub fn is_known(&self, at: Timestamp) -> bool {
        self.until.plus_us(KEPT_US) > at
    }

    /// Whether it may be confirmed or released.
    #[must_use]
    pub fn is_open(&self, endings: u32, at: Timestamp) -> bool {
        self.status == ReservationStatus::Open && self.until > at && self.endings == endings
    }
}

impl ReservationStatus {
    /// The name of this status for a reservation that has ended: `Open` is `expired`.
    #[must_use]
    pub const fn ended_name(self) -> &'static str {
        match self {
            Self::Open => "expired",
            Self::Confirmed { .. } => "confirmed",
            Self::Released => "released",
        }
    }
}

/// Refuses a quantity that is none.
///
/// # Errors
/// The refusal of `quantity`.
pub fn check_quantity(quantity: i64) -> Result<(), Rejection> {
    match (1..=LIMIT_MAX).contains(&quantity) {
        true => Ok(()),
        false => Err(Rejection::invalid("quantity", "is not between 1 and 9007199254740991")),
    }
}
