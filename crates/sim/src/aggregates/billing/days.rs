//! The model of days: what a subscription costs on each day, as what was asked for says. It knows nothing of items,
//! repairs or horizons, and counts days one by one.

use jiff::civil::{Date, date};

use super::catalog::{Later, Sold, TRIAL_DAYS};

pub(super) const DAY_US: i64 = 86_400_000_000;

/// Days count from this one.
const FIRST: Date = date(1970, 1, 1);

/// A day as the calendar has it.
pub(super) fn calendar(day: i64) -> Date {
    FIRST.saturating_add(jiff::Span::new().days(day))
}

/// The number of a day of the calendar.
pub(super) fn number(day: Date) -> i64 {
    let since = day.since((jiff::Unit::Day, FIRST)).expect("days are few");
    i64::from(since.get_days())
}

/// Where an account's days begin and its day's work is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zone {
    /// How far its clocks are ahead of UTC.
    pub(super) offset_us: i64,
    /// The time of day at which it was made.
    time_us: i64,
}

impl Zone {
    pub(super) const fn new(offset_us: i64, made_at: i64) -> Self {
        Self { offset_us, time_us: (made_at + offset_us).rem_euclid(DAY_US) }
    }

    /// The account's day at an instant.
    pub(super) const fn day(self, at: i64) -> i64 {
        (at + self.offset_us).div_euclid(DAY_US)
    }

    /// When a day is due.
    pub(super) const fn instant(self, day: i64) -> i64 {
        day * DAY_US + self.time_us - self.offset_us
    }
}

/// A change of a subscription that somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Plan(&'static Sold),
    Quantity(u32),
    /// It is billed no more.
    End,
    /// Its bundle is paused, or goes on.
    Pause(bool),
}

/// A fact with its time. Of several at one time the later one counts.
pub(super) type Dated = (i64, Fact);

/// What a subscription costs in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) plan: &'static Sold,
    /// In cents, times the quantity.
    pub(super) rate: i64,
}

/// How far an account was billed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Billed {
    /// The latest day that a run was for: of what is to happen on that day it knew what had been asked for.
    pub(super) run_for: i64,
    /// The latest day on which all was done that was due until now.
    pub(super) settled: i64,
    pub(super) now: i64,
}

impl Billed {
    /// The day that it was billed for, as far as something is concerned that happens at an instant.
    fn day(self, at: i64) -> i64 {
        if at <= self.now { self.run_for.max(self.settled) } else { self.run_for }
    }
}

/// Days on which nothing changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// When it begins.
    at: i64,
    pub(super) from: i64,
    /// The first day that is not of it.
    pub(super) until: Option<i64>,
    /// When that begins.
    ends_at: Option<i64>,
    /// `None`: nothing is charged.
    pub(super) charge: Option<Charge>,
}

/// The facts of a subscription, those of its bundle among them.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// In the order of time.
    facts: Vec<Dated>,
    /// When its trial ends, where it began with one.
    pub(super) trial_ends: Option<i64>,
}

/// How a subscription stands.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    plan: Option<(&'static Sold, i64)>,
    quantity: Option<u32>,
    is_paused: bool,
    has_ended: bool,
}

impl Course {
    pub(super) fn new(mut facts: Vec<Dated>) -> Self {
        facts.sort_by_key(|(at, _)| *at);
        let trial_ends = facts.iter().find_map(|(at, fact)| match fact {
            Fact::Plan(plan) if plan.has_trial => Some(Some(at + i64::from(TRIAL_DAYS) * DAY_US)),
            Fact::Plan(_) => Some(None),
            Fact::Quantity(_) | Fact::End | Fact::Pause(_) => None,
        });
        Self { facts, trial_ends: trial_ends.flatten() }
    }

    /// The instants at which it changes: those of facts, the end of its trial, and a later version of its plan.
    pub(super) fn changes(&self, later: Option<Later>) -> Vec<i64> {
        let mut changes: Vec<i64> = vec![];
        let mut is_paused = false;
        for (at, fact) in &self.facts {
            let counts = !matches!(fact, Fact::Pause(pauses) if *pauses == is_paused);
            if let Fact::Pause(pauses) = fact {
                is_paused = *pauses;
            }
            changes.extend(counts.then_some(*at));
        }
        for (plan, from, until) in self.plans() {
            let is_within = |at: &i64| from < *at && until.is_none_or(|until| *at < until);
            let trial_ends = self.trial_ends.filter(|_| plan.has_trial);
            changes.extend(trial_ends.filter(is_within));
            let version = later.filter(|it| plan.moves_on && from < it.sold_from);
            changes.extend(version.map(|it| it.existing_from).filter(is_within));
        }
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    /// Its plans, each from when and until when.
    pub(super) fn plans(&self) -> Vec<(&'static Sold, i64, Option<i64>)> {
        let moments: Vec<(i64, Option<&'static Sold>)> = self
            .facts
            .iter()
            .filter_map(|(at, fact)| match fact {
                Fact::Plan(plan) => Some((*at, Some(*plan))),
                Fact::End => Some((*at, None)),
                Fact::Quantity(_) | Fact::Pause(_) => None,
            })
            .collect();
        let ends = moments.iter().skip(1).map(|(at, _)| Some(*at)).chain([None]);
        let plans = moments.iter().zip(ends);
        plans.filter_map(|((from, plan), until)| Some(((*plan)?, *from, until))).collect()
    }

    fn standing(&self, at: i64) -> Standing {
        let mut standing = Standing::default();
        for (from, fact) in self.facts.iter().take_while(|(from, _)| *from <= at) {
            match fact {
                Fact::Plan(plan) => standing.plan = Some((plan, *from)),
                Fact::Quantity(quantity) => standing.quantity = Some(*quantity),
                Fact::End => standing.has_ended = true,
                Fact::Pause(pauses) => standing.is_paused = *pauses,
            }
        }
        standing
    }

    /// Whether it is paused at a time.
    pub(super) fn is_paused(&self, at: i64) -> bool {
        self.standing(at).is_paused
    }

    /// Whether it is billed no more at a time.
    pub(super) fn has_ended(&self, at: i64) -> bool {
        self.standing(at).has_ended
    }

    /// The plan and the quantity at a time.
    pub(super) fn plan(&self, at: i64) -> Option<(&'static Sold, u32)> {
        let standing = self.standing(at);
        standing.plan.map(|(plan, _)| (plan, standing.quantity.unwrap_or(1)))
    }

    /// What it costs after what happens at an instant.
    fn charge(&self, at: i64, later: Option<Later>) -> Option<Charge> {
        let standing = self.standing(at);
        let (plan, chosen_at) =
            standing.plan.filter(|_| !standing.is_paused && !standing.has_ended)?;
        let is_free = plan.has_trial && self.trial_ends.is_some_and(|ends| at < ends);
        let rate = plan.price_at(chosen_at, at, later) * i64::from(standing.quantity.unwrap_or(1));
        (!is_free).then_some(Charge { plan, rate })
    }

    /// Its days. What happens on a day counts for all of it, once it has happened: a span may have no day.
    pub(super) fn spans(&self, zone: Zone, later: Option<Later>) -> Vec<Span> {
        let changes = self.changes(later);
        let ends = changes.iter().skip(1).map(|at| Some(*at)).chain([None]);
        let span = |(at, ends_at): (&i64, Option<i64>)| Span {
            at: *at,
            from: zone.day(*at),
            until: ends_at.map(|at| zone.day(at)),
            ends_at,
            charge: self.charge(*at, later),
        };
        changes.iter().zip(ends).map(span).collect()
    }
}

impl Span {
    /// Whether an account that was billed so far was billed for it.
    pub(super) fn is_billed(&self, billed: Billed) -> bool {
        self.from <= billed.day(self.at)
    }

    /// Whether a day of it is certainly charged: it has begun, and no end is known before. In arrear also the part of a
    /// period is over that it is of.
    pub(super) fn is_due(&self, day: i64, cycle_day: u8, billed: Billed) -> bool {
        let is_arrear = self.charge.is_some_and(|it| it.plan.is_in_arrear);
        let is_over = |charged: i64| day < charged;
        self.at <= billed.now
            && self.until.is_none_or(is_over)
            && (!is_arrear
                || self.has_ended(billed)
                || self.last_cycle(cycle_day, billed.day(self.at)).is_some_and(is_over))
    }

    fn has_ended(&self, billed: Billed) -> bool {
        self.ends_at.is_some_and(|at| at <= billed.now)
    }

    /// The day until which it is charged, as if nothing were known of an end that is still to come. In arrear an end on
    /// the day that it is billed for may be known.
    pub(super) fn charged_until(&self, cycle_day: u8, billed: Billed) -> Option<i64> {
        let charge = self.charge.filter(|_| self.is_billed(billed))?;
        let day = billed.day(self.at);
        let last = match self.until {
            Some(until) if self.has_ended(billed) => Some(until),
            Some(until) if charge.plan.is_in_arrear && until <= day => Some(until),
            Some(_) | None if charge.plan.is_in_arrear => self.last_cycle(cycle_day, day),
            Some(_) | None => Some(self.next_cycle(cycle_day, day)),
        };
        last.filter(|it| *it > self.from)
    }

    /// When its next period begins.
    pub(super) fn next_due(&self, cycle_day: u8, billed: Billed) -> Option<i64> {
        self.charge.filter(|_| self.is_billed(billed))?;
        let next = self.next_cycle(cycle_day, billed.day(self.at));
        self.until.is_none_or(|until| next < until).then_some(next)
    }

    /// Whether a period may begin on a day: those of a year begin in the month of its start.
    fn begins(&self, cycle_day: u8, day: i64) -> bool {
        let is_annual = self.charge.is_some_and(|it| it.plan.is_annual);
        let is_month = |it: i64| calendar(it).month() == calendar(self.from).month();
        is_cycle_day(cycle_day, day) && (!is_annual || is_month(day))
    }

    /// The first day after a day on which a period begins.
    fn next_cycle(&self, cycle_day: u8, after: i64) -> i64 {
        let mut day = self.from.max(after + 1);
        while !self.begins(cycle_day, day) {
            day += 1;
        }
        day
    }

    /// The last day until a day on which a period begins.
    fn last_cycle(&self, cycle_day: u8, until: i64) -> Option<i64> {
        let mut days = (self.from..=until).rev();
        days.find(|day| self.begins(cycle_day, *day))
    }
}

/// Whether a day is of the cycle: its day of the month, or the last day of a month that has it not.
fn is_cycle_day(cycle_day: u8, day: i64) -> bool {
    let day = calendar(day);
    let cycle_day = i8::try_from(cycle_day).unwrap_or(i8::MAX);
    day.day() == cycle_day.min(day.days_in_month())
}
