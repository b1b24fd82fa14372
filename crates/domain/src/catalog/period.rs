//! Billing periods and phases' durations, counted on the calendar.

use jiff::ToSpan;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// How often a plan is billed. The names are those of Kill Bill's `BillingPeriod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BillingPeriod {
    Daily,
    Weekly,
    Biweekly,
    ThirtyDays,
    ThirtyOneDays,
    SixtyDays,
    NinetyDays,
    Monthly,
    /// Two months.
    Bimestrial,
    Quarterly,
    /// Four months.
    Triannual,
    /// Six months.
    Biannual,
    Annual,
    /// Eighteen months.
    Sesquiennial,
    /// Two years.
    Biennial,
    /// Three years.
    Triennial,
    NoBillingPeriod,
}

/// A span of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Days(i32),
    /// Where the month has no such day, its last one.
    Months(i32),
}

impl Step {
    /// A date moved by `count` such spans at once; `None` outside the calendar's years.
    #[must_use]
    pub fn after(self, date: Date, count: i32) -> Option<Date> {
        let span = match self {
            Self::Days(days) => days.checked_mul(count)?.days(),
            Self::Months(months) => months.checked_mul(count)?.months(),
        };
        date.checked_add(span).ok()
    }
}

impl BillingPeriod {
    pub const ALL: [Self; 17] = [
        Self::Daily,
        Self::Weekly,
        Self::Biweekly,
        Self::ThirtyDays,
        Self::ThirtyOneDays,
        Self::SixtyDays,
        Self::NinetyDays,
        Self::Monthly,
        Self::Bimestrial,
        Self::Quarterly,
        Self::Triannual,
        Self::Biannual,
        Self::Annual,
        Self::Sesquiennial,
        Self::Biennial,
        Self::Triennial,
        Self::NoBillingPeriod,
    ];

    /// Kill Bill's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daily => "DAILY",
            Self::Weekly => "WEEKLY",
            Self::Biweekly => "BIWEEKLY",
            Self::ThirtyDays => "THIRTY_DAYS",
            Self::ThirtyOneDays => "THIRTY_ONE_DAYS",
            Self::SixtyDays => "SIXTY_DAYS",
            Self::NinetyDays => "NINETY_DAYS",
            Self::Monthly => "MONTHLY",
            Self::Bimestrial => "BIMESTRIAL",
            Self::Quarterly => "QUARTERLY",
            Self::Triannual => "TRIANNUAL",
            Self::Biannual => "BIANNUAL",
            Self::Annual => "ANNUAL",
            Self::Sesquiennial => "SESQUIENNIAL",
            Self::Biennial => "BIENNIAL",
            Self::Triennial => "TRIENNIAL",
            Self::NoBillingPeriod => "NO_BILLING_PERIOD",
        }
    }

    /// The period of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Its length; `None` for [`Self::NoBillingPeriod`].
    #[must_use]
    pub const fn step(self) -> Option<Step> {
        Some(match self {
            Self::Daily => Step::Days(1),
            Self::Weekly => Step::Days(7),
            Self::Biweekly => Step::Days(14),
            Self::ThirtyDays => Step::Days(30),
            Self::ThirtyOneDays => Step::Days(31),
            Self::SixtyDays => Step::Days(60),
            Self::NinetyDays => Step::Days(90),
            Self::Monthly => Step::Months(1),
            Self::Bimestrial => Step::Months(2),
            Self::Quarterly => Step::Months(3),
            Self::Triannual => Step::Months(4),
            Self::Biannual => Step::Months(6),
            Self::Annual => Step::Months(12),
            Self::Sesquiennial => Step::Months(18),
            Self::Biennial => Step::Months(24),
            Self::Triennial => Step::Months(36),
            Self::NoBillingPeriod => return None,
        })
    }
}

/// The last day of the month of `date` that is not after `day`: how a bill cycle day of 31 stands in a shorter month.
///
/// # Panics
/// `day` is 0: it has no bill cycle day.
#[must_use]
pub fn on_day(date: Date, day: u8) -> Date {
    let day = i8::try_from(day).unwrap_or(i8::MAX).min(date.days_in_month());
    date.with().day(day).build().expect("the month has the day")
}

/// The first date from `date` on that is on a day of the month, or at the end of a shorter one; `None` outside the
/// calendar's years.
///
/// # Panics
/// `day` is 0.
#[must_use]
pub fn next_on_day(date: Date, day: u8) -> Option<Date> {
    let of_month = on_day(date, day);
    if of_month >= date {
        return Some(of_month);
    }
    Step::Months(1).after(date, 1).map(|it| on_day(it, day))
}

/// Days from one date to another; fewer than 0 where the other is earlier.
#[must_use]
pub fn days(from: Date, to: Date) -> i32 {
    to.since(from).expect("dates are of the calendar").get_days()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_that_of_one_period() {
        for period in BillingPeriod::ALL {
            assert_eq!(BillingPeriod::parse(period.name()), Some(period));
            let json = serde_json::to_string(&period).unwrap();
            assert_eq!(json, format!("{:?}", period.name()));
        }
        assert_eq!(BillingPeriod::parse("FORTNIGHT"), None);
    }

    #[test]
    fn a_month_without_the_day_has_its_last_one() {
        let monthly = BillingPeriod::Monthly.step().unwrap();
        assert_eq!(monthly.after(date("2024-01-31"), 1), Some(date("2024-02-29")));
        assert_eq!(monthly.after(date("2024-01-31"), 2), Some(date("2024-03-31")));
        assert_eq!(monthly.after(date("2024-03-31"), -1), Some(date("2024-02-29")));
        assert_eq!(on_day(date("2023-02-03"), 31), date("2023-02-28"));
        assert_eq!(on_day(date("2023-02-28"), 3), date("2023-02-03"));
    }

    #[test]
    fn the_next_date_on_a_day_may_be_today_or_in_the_next_month() {
        let next = |from: &str, day| next_on_day(date(from), day).unwrap().to_string();
        assert_eq!(next("2024-01-12", 31), "2024-01-31");
        assert_eq!(next("2024-01-31", 31), "2024-01-31");
        assert_eq!(next("2024-01-31", 30), "2024-02-29");
        assert_eq!(next("2024-02-12", 15), "2024-02-15");
        assert_eq!(next("2023-12-20", 1), "2024-01-01");
    }

    #[test]
    fn days_count_over_months_and_leap_days() {
        assert_eq!(days(date("2024-02-10"), date("2024-03-10")), 29);
        assert_eq!(days(date("2020-01-01"), date("2024-01-01")), 1_461);
        assert_eq!(days(date("2024-03-10"), date("2024-02-10")), -29);
    }

    #[test]
    fn beyond_the_calendar_there_is_no_date() {
        assert_eq!(Step::Days(1).after(Date::MAX, 1), None);
        assert_eq!(Step::Months(36).after(Date::MIN, i32::MAX), None);
    }
}
