//! Subscriptions and invoices: what an account is charged.
//!
//! The rows are a [`subscription`] in its [`bundle`], an [`invoice`] with its items, and what an [`account`] has once.
//!
//! A run has stages, pure functions over dates, each of which knows only the one before it:
//! - [`timeline`](timeline::timeline): the [`BillingEvent`]s of each subscription;
//! - [`propose`](propose::propose): what the events charge until a date, whatever was invoiced;
//! - [`reconcile`](reconcile::reconcile): what of it is not invoiced yet, and what is invoiced and charged no more;
//! - [`settle`]: what the account's credit pays of it.
//!
//! The rules are Kill Bill's, to the cent and to the day.

pub mod account;
mod account_basis;
pub mod blocking;
pub mod bundle;
pub(crate) mod change;
pub(crate) mod command;
pub mod cycle;
pub mod dry_run;
pub mod explain;
pub(crate) mod features;
pub mod invoice;
mod lookup;
pub mod overrides;
pub mod pay;
pub mod propose;
pub(crate) mod read;
pub(crate) mod reads;
pub mod reconcile;
pub(crate) mod rules;
pub mod settle;
pub mod subscription;
#[cfg(test)]
mod testing;
pub mod timeline;

pub use account_basis::base_of;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::catalog::BillingMode;
use crate::catalog::period::{BillingPeriod, days};
use crate::catalog::price::{Price, Ratio};
use crate::{Currency, Timestamp};

/// A change of what a subscription is charged, on a day of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BillingEvent {
    pub date: Date,
    pub kind: EventKind,
    /// From here on; `None`: nothing is charged.
    pub terms: Option<Terms>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Create,
    Transfer,
    Phase,
    Change,
    BcdChange,
    Quantity,
    Cancel,
    Expired,
    /// Billing is blocked.
    Disabled,
    /// Billing goes on with the terms of then.
    Enabled,
}

/// The prices of a subscription from an event until the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub product: String,
    /// With price overrides, the plan's name and its phases' are those of the overrides.
    pub plan: String,
    pub phase: String,
    /// Charged once, on the day of the event.
    pub fixed: Option<Fixed>,
    /// The price of a period; `None`: nothing recurs.
    pub recurring: Option<Price>,
    pub period: BillingPeriod,
    pub mode: BillingMode,
    /// 1 to 31. Periods of days and weeks have none of their own.
    pub bill_cycle_day: u8,
    /// Whether the catalog's rules give it the account's.
    pub is_aligned_to_account: bool,
    pub quantity: u32,
    /// Of the version of the catalog that the prices are of.
    pub catalog_effective_at: Timestamp,
}

/// A price that is charged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    pub price: Price,
    /// The end of a phase that has nothing else and ends.
    pub until: Option<Date>,
}

/// The bounds and settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// All that is due on this day is charged.
    pub target: Date,
    /// All that ended on this day or before is settled: it is neither proposed nor repaired.
    pub horizon: Date,
    /// The last day that may become the horizon of later runs: what is to come can change.
    pub today: Date,
    pub currency: Currency,
    pub settings: BillingSettings,
}

/// A tenant's settings of billing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BillingSettings {
    /// Kill Bill's `org.killbill.invoice.inArrear.mode`: whether a run bills the period that it is in.
    pub greedy: bool,
    /// Kill Bill's `org.killbill.invoice.proration.fixed.days`: how many days each period has where part of it is
    /// charged; 0: as many as it has.
    pub fixed_days: i32,
    /// Kill Bill's `org.killbill.invoice.dryRunNotificationSchedule`: how long before its day an invoice is announced, in
    /// microseconds; 0: it is not.
    #[serde(default, skip_serializing_if = "is_never")]
    pub announced_us: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_never(us: &i64) -> bool {
    *us == 0
}

impl BillingSettings {
    /// Those of a tenant that set none.
    pub const DEFAULT: Self = Self { greedy: false, fixed_days: 0, announced_us: 0 };

    #[must_use]
    pub fn are_default(&self) -> bool {
        *self == Self::DEFAULT
    }

    /// Which part of the period from `period_start` to `period_end` the days from `start` to `end` are.
    #[must_use]
    pub fn part(
        self,
        (start, end): (Date, Date),
        (period_start, period_end): (Date, Date),
    ) -> DayPart {
        if self.fixed_days == 0 {
            return DayPart { days: days(start, end), of_days: days(period_start, period_end) };
        }
        let is_in_one_month = (start.year(), start.month()) == (end.year(), end.month());
        let surplus = i32::from(start.days_in_month()) - self.fixed_days;
        let counted = days(start, end) - if is_in_one_month { 0 } else { surplus };
        DayPart { days: counted, of_days: self.fixed_days }
    }
}

/// So many days of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayPart {
    pub days: i32,
    /// Above 0.
    pub of_days: i32,
}

impl DayPart {
    /// All days of a span, which has some.
    #[must_use]
    pub fn whole((start, end): (Date, Date)) -> Self {
        let days = days(start, end);
        Self { days, of_days: days }
    }

    #[must_use]
    pub fn ratio(self) -> Ratio {
        Ratio::of(self.days, self.of_days)
    }
}

/// Why an account cannot be billed: it is parked until somebody acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Unbillable {
    /// A date is outside the calendar's years.
    #[error("a date is outside the calendar's years")]
    BeyondCalendar,
    /// An amount is beyond 64 bits.
    #[error("an amount is beyond 64 bits")]
    TooLarge,
    /// A day would be charged twice.
    #[error("{0} would be charged twice")]
    Overlap(Date),
    /// The catalog has the plan or its phase no more.
    #[error("the catalog has the plan or its phase no more")]
    NoPlan,
    /// The plan has no price in the account's currency.
    #[error("the plan has no price in the account's currency")]
    NoPrice,
}
