//! Billing cycles: the days on which the periods of a subscription begin.

use jiff::civil::Date;

use super::Unbillable;
use crate::catalog::period::{Step, days, on_day};

/// The boundaries of a subscription's periods, numbered from the first one on or after its start.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    first: Date,
    step: Step,
    /// `None`: periods of days, which count from the start.
    day: Option<u8>,
}

impl Cycle {
    /// The cycle of terms that begin on `start`.
    ///
    /// # Errors
    /// [`Unbillable::BeyondCalendar`].
    pub fn new(start: Date, step: Step, bill_cycle_day: u8) -> Result<Self, Unbillable> {
        let cycle = match step {
            Step::Days(_) => return Ok(Self { first: start, step, day: None }),
            Step::Months(_) => {
                Self { first: on_day(start, bill_cycle_day), step, day: Some(bill_cycle_day) }
            }
        };
        Ok(if cycle.first < start { Self { first: cycle.at(1)?, ..cycle } } else { cycle })
    }

    /// The first boundary.
    #[must_use]
    pub const fn first(self) -> Date {
        self.first
    }

    /// A boundary.
    ///
    /// # Errors
    /// [`Unbillable::BeyondCalendar`].
    pub fn at(self, number: i32) -> Result<Date, Unbillable> {
        let date = self.step.after(self.first, number).ok_or(Unbillable::BeyondCalendar)?;
        Ok(self.day.map_or(date, |day| on_day(date, day)))
    }

    /// The number of the last boundary on or before a date; `None` before the first one.
    ///
    /// # Errors
    /// [`Unbillable::BeyondCalendar`].
    pub fn last_until(self, date: Date) -> Result<Option<i32>, Unbillable> {
        if date < self.first {
            return Ok(None);
        }
        let number = match self.step {
            Step::Days(step) => days(self.first, date) / step,
            Step::Months(step) => months(self.first, date) / step,
        };
        // In the month of a boundary the date may be before it.
        Ok(Some(if self.at(number)? > date { number - 1 } else { number }))
    }

    /// The date one period from a date, forward or backward, without regard to the cycle.
    ///
    /// # Errors
    /// [`Unbillable::BeyondCalendar`].
    pub fn shift(self, date: Date, periods: i32) -> Result<Date, Unbillable> {
        self.step.after(date, periods).ok_or(Unbillable::BeyondCalendar)
    }
}

/// From the month of one date to that of another.
fn months(from: Date, to: Date) -> i32 {
    let of = |it: Date| i32::from(it.year()) * 12 + i32::from(it.month());
    of(to) - of(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::period::BillingPeriod;

    fn date(text: &str) -> Date {
        text.parse().unwrap()
    }

    fn boundaries(period: BillingPeriod, start: &str, day: u8) -> Vec<String> {
        let cycle = Cycle::new(date(start), period.step().unwrap(), day).unwrap();
        (0..4).map(|it| cycle.at(it).unwrap().to_string()).collect()
    }

    #[test]
    fn boundaries_keep_their_day_over_short_months() {
        assert_eq!(
            boundaries(BillingPeriod::Monthly, "2024-01-31", 31),
            ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"]
        );
        assert_eq!(
            boundaries(BillingPeriod::Monthly, "2024-02-19", 30),
            ["2024-02-29", "2024-03-30", "2024-04-30", "2024-05-30"]
        );
    }

    #[test]
    fn the_first_boundary_after_a_start_behind_the_day_is_a_period_later() {
        assert_eq!(
            boundaries(BillingPeriod::Quarterly, "2024-01-20", 15),
            ["2024-04-15", "2024-07-15", "2024-10-15", "2025-01-15"]
        );
    }

    #[test]
    fn periods_of_days_count_from_the_start() {
        assert_eq!(
            boundaries(BillingPeriod::Biweekly, "2024-02-20", 1),
            ["2024-02-20", "2024-03-05", "2024-03-19", "2024-04-02"]
        );
    }

    #[test]
    fn the_last_boundary_until_a_date_is_found_without_walking() {
        for period in BillingPeriod::ALL {
            let Some(step) = period.step() else { continue };
            for day in [1, 15, 28, 30, 31] {
                let start = date("2023-11-17");
                let cycle = Cycle::new(start, step, day).unwrap();
                let mut number = None;
                for past in 0..2_500 {
                    let today = Step::Days(1).after(start, past).unwrap();
                    let next = number.map_or(0, |it: i32| it + 1);
                    if cycle.at(next).unwrap() == today {
                        number = Some(next);
                    }
                    assert_eq!(
                        cycle.last_until(today).unwrap(),
                        number,
                        "{period:?} {day} {today}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_end_of_the_calendar_is_an_error() {
        let cycle = Cycle::new(Date::MAX, Step::Months(1), 31).unwrap();
        assert_eq!(cycle.at(1), Err(Unbillable::BeyondCalendar));
    }
}
