//! The expected usage and reservations, added up anew each time and without the rules' code.

use std::collections::{BTreeMap, BTreeSet};

use domain::entitlement::usage::UsageItem;
use domain::{AccountId, ReservationId};
use uuid::Uuid;

use crate::random::Random;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// The answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Done,
    Duplicate,
    OverLimit,
    NotEntitled,
    /// A field is wrong.
    Invalid,
    /// The account is closed.
    Closed,
    /// The reservation was confirmed or released, or is over.
    Ended,
}

/// An account and a feature.
type Of<'a> = (AccountId, &'a str);

#[derive(Default)]
pub(super) struct Model {
    /// How many seconds its time zone is ahead, and whether it is closed.
    accounts: BTreeMap<AccountId, (i64, bool)>,
    grants: Vec<Granted>,
    used: Vec<Used>,
    /// When events were counted.
    events: BTreeMap<(AccountId, Uuid), i64>,
    reservations: BTreeMap<ReservationId, Reserved>,
    reached: BTreeSet<(AccountId, String, i64)>,
}

struct Granted {
    account: AccountId,
    feature: String,
    value: i64,
    from: i64,
    until: i64,
}

struct Used {
    account: AccountId,
    feature: String,
    /// The number of its period.
    period: i64,
    quantity: i64,
}

struct Reserved {
    account: AccountId,
    feature: String,
    period: i64,
    quantity: i64,
    until: i64,
    is_open: bool,
}

impl Model {
    pub(super) fn add_account(&mut self, account: AccountId, ahead: i64) {
        self.accounts.insert(account, (ahead, false));
    }

    pub(super) fn is_closed(&self, account: AccountId) -> bool {
        self.accounts[&account].1
    }

    pub(super) fn grant(&mut self, of: Of<'_>, value: i64, (from, until): (i64, i64)) {
        let (account, feature) = (of.0, of.1.to_owned());
        self.grants.push(Granted { account, feature, value, from, until });
    }

    /// Closes an account, or opens it again.
    pub(super) fn close(&mut self, account: AccountId) {
        let slot = self.accounts.get_mut(&account).expect("it was added");
        slot.1 = !slot.1;
        self.grants.retain(|it| it.account != account);
        let own = self.reservations.values_mut().filter(|it| it.account == account);
        own.for_each(|it| it.is_open = false);
    }

    /// The sum of the account's current grants of the feature; `None` where it has none.
    fn limit(&self, (account, feature): Of<'_>, now: i64) -> Option<i64> {
        let own = self.grants.iter().filter(|it| it.account == account && it.feature == feature);
        let values: Vec<i64> =
            own.filter(|it| it.from <= now && it.until > now).map(|it| it.value).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// The number of the period of a time, counted from 1970.
    fn period(&self, (account, feature): Of<'_>, at: i64) -> i64 {
        let (ahead, _) = self.accounts[&account];
        let days = (at + ahead * SECOND).div_euclid(DAY);
        match feature {
            "calls" => days,
            // 1970 began on a Thursday.
            "jobs" => (days + 3).div_euclid(7),
            "units" => month(days),
            _ => 0,
        }
    }

    /// The used and the reserved quantity in the period that `at` is in; reservations that are over at `now` do not
    /// count.
    pub(super) fn level(&self, of: Of<'_>, at: i64, now: i64) -> (i64, i64) {
        let period = self.period(of, at);
        let own =
            |account: AccountId, feature: &str, its: i64| (account, feature) == of && its == period;
        let used = self.used.iter().filter(|it| own(it.account, &it.feature, it.period));
        let open = self.reservations.values().filter(|it| it.is_open && it.until > now);
        let open = open.filter(|it| own(it.account, &it.feature, it.period));
        (used.map(|it| it.quantity).sum(), open.map(|it| it.quantity).sum())
    }

    fn may_use(&self, of: Of<'_>, quantity: i64, (at, now): (i64, i64)) -> Said {
        let Some(limit) = self.limit(of, now) else { return Said::NotEntitled };
        let (used, reserved) = self.level(of, at, now);
        match used + reserved + quantity <= limit || of.1 == "units" {
            true => Said::Done,
            false => Said::OverLimit,
        }
    }

    pub(super) fn record(&mut self, account: AccountId, item: &UsageItem, now: i64) -> Said {
        if self.is_closed(account) {
            return Said::Closed;
        }
        let key = (account, item.event.0);
        if self.events.get(&key).is_some_and(|counted_at| now - counted_at < 35 * DAY) {
            return Said::Duplicate;
        }
        let of = (account, item.feature.as_str());
        if self.limit(of, now).is_none() {
            return Said::NotEntitled;
        }
        let at = item.at.map_or(now, |it| it.0);
        if at > now + 60 * SECOND || at < now - 3_600 * SECOND {
            return Said::Invalid;
        }
        let at = at.min(now);
        let said = self.may_use(of, item.quantity, (at, now));
        if said == Said::Done {
            self.events.insert(key, now);
            self.add(of, item.quantity, self.period(of, at), now);
        }
        said
    }

    fn add(&mut self, of: Of<'_>, quantity: i64, period: i64, now: i64) {
        let (account, feature) = (of.0, of.1.to_owned());
        self.used.push(Used { account, feature: feature.clone(), period, quantity });
        let own = self.used.iter().filter(|it| (it.account, it.feature.as_str()) == of);
        let used: i64 = own.filter(|it| it.period == period).map(|it| it.quantity).sum();
        if self.limit(of, now).is_some_and(|limit| used >= limit) {
            self.reached.insert((account, feature, period));
        }
    }

    /// How many limits were reached, in all periods.
    pub(super) fn reached(&self) -> usize {
        self.reached.len()
    }

    pub(super) fn may_reserve(&self, of: Of<'_>, quantity: i64, now: i64) -> Said {
        match self.is_closed(of.0) {
            true => Said::Closed,
            false => self.may_use(of, quantity, (now, now)),
        }
    }

    pub(super) fn reserved(
        &mut self,
        of: Of<'_>,
        (id, quantity): (ReservationId, i64),
        (now, until): (i64, i64),
    ) {
        let period = self.period(of, now);
        let (account, feature, is_open) = (of.0, of.1.to_owned(), true);
        let reserved = Reserved { account, feature, period, quantity, until, is_open };
        self.reservations.insert(id, reserved);
    }

    /// Any reservation, mostly one of the newest, and how much was reserved.
    pub(super) fn any(&self, random: &mut Random) -> Option<(AccountId, ReservationId, i64)> {
        let newest = if random.chance(800) { 6 } else { usize::MAX };
        let all: Vec<_> = self.reservations.iter().rev().take(newest).collect();
        if all.is_empty() {
            return None;
        }
        let (id, it) = *random.pick(&all);
        Some((it.account, *id, it.quantity))
    }

    /// Whether a reservation may be confirmed or released.
    pub(super) fn settle(&self, id: ReservationId, now: i64) -> Said {
        let it = &self.reservations[&id];
        if self.is_closed(it.account) {
            return Said::Closed;
        }
        if it.is_open && it.until > now { Said::Done } else { Said::Ended }
    }

    pub(super) fn confirm(&mut self, id: ReservationId, quantity: i64, now: i64) {
        let it = self.reservations.get_mut(&id).expect("it was reserved");
        it.is_open = false;
        let (account, feature, period) = (it.account, it.feature.clone(), it.period);
        self.add((account, &feature), quantity, period, now);
    }

    pub(super) fn release(&mut self, id: ReservationId) {
        self.reservations.get_mut(&id).expect("it was reserved").is_open = false;
    }
}

/// The number of the month of a day, both counted from 1970: by walking through the months.
fn month(mut days: i64) -> i64 {
    let mut month = 0;
    loop {
        let (year, of_year) = (1970 + month / 12, month % 12);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match of_year {
            1 if is_leap => 29,
            1 => 28,
            3 | 5 | 8 | 10 => 30,
            _ => 31,
        };
        if days < length {
            return month;
        }
        days -= length;
        month += 1;
    }
}
