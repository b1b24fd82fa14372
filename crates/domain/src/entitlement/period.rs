//! Periods: from when and until when a limit is counted, in the account's time zone.

use std::sync::LazyLock;

use jiff::Zoned;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{Error, ToSpan};
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::entitlement::feature::Reset;

/// The time zones of the IANA, as they are in the binary: a machine's own would make other rows.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A time in which a limit is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Period {
    pub resets: Reset,
    pub from: Timestamp,
    /// When the next one begins; `None`: never.
    pub until: Option<Timestamp>,
}

impl Period {
    /// The period of a time. Days, weeks (from Monday on), months and years are those of the calendar in `zone`: a name
    /// of the IANA's or a fixed offset such as `+02:00`. In a zone that is neither, they are those of UTC.
    #[must_use]
    pub fn of(resets: Reset, zone: &str, at: Timestamp) -> Self {
        let never = Self { resets, from: Timestamp(0), until: None };
        if resets == Reset::Never {
            return never;
        }
        // What is not within the years of the calendar is one period.
        bounds(resets, zone, at).map_or(never, |(from, until)| Self {
            resets,
            from,
            until: Some(until),
        })
    }

    #[must_use]
    pub fn has(self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

fn bounds(resets: Reset, name: &str, at: Timestamp) -> Result<(Timestamp, Timestamp), Error> {
    let zone = zone(name);
    let local: Zoned = jiff::Timestamp::from_microsecond(at.0)?.to_zoned(zone.clone());
    let midnight = |date: Date| {
        let at = date.to_zoned(zone.clone())?.timestamp();
        Ok::<_, Error>(Timestamp(at.as_microsecond()))
    };
    let mut date = local.date();
    // A clock that is set back past midnight has some minutes of yesterday again: they are of the new day.
    let tomorrow = date.tomorrow()?;
    if midnight(tomorrow)? <= at {
        date = tomorrow;
    }
    let (first, next) = match resets {
        Reset::Day | Reset::Never => (date, date.tomorrow()?),
        Reset::Week => {
            let days = i64::from(date.weekday().to_monday_zero_offset());
            let first = date.checked_sub(days.days())?;
            (first, first.checked_add(7.days())?)
        }
        Reset::Month => {
            let first = date.first_of_month();
            (first, first.checked_add(1.month())?)
        }
        Reset::Year => {
            let first = date.first_of_year();
            (first, first.checked_add(1.year())?)
        }
    };
    Ok((midnight(first)?, midnight(next)?))
}

pub(crate) fn zone(name: &str) -> TimeZone {
    match offset_seconds(name) {
        Some(seconds) => Offset::from_seconds(seconds).map_or(TimeZone::UTC, TimeZone::fixed),
        None => ZONES.get(name).unwrap_or(TimeZone::UTC),
    }
}

/// The seconds of a fixed offset such as `+02:00`; `None` where the name of a zone is none.
#[must_use]
pub fn offset_seconds(name: &str) -> Option<i32> {
    let (sign, rest) = match name.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |text: &str, max: i32| {
        let two_digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i32>().ok().filter(|number| two_digits && *number <= max)
    };
    Some(sign * (number(hours, 23)? * 3_600 + number(minutes, 59)? * 60))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(zone: &str, at: &str, expected: Expect) {
        let at: jiff::Timestamp = at.parse().unwrap();
        let at = Timestamp(at.as_microsecond());
        let shown = |it: Timestamp| jiff::Timestamp::from_microsecond(it.0).unwrap().to_string();
        let mut all = vec![];
        for resets in Reset::ALL {
            let period = Period::of(resets, zone, at);
            assert!(period.has(at), "{resets:?}");
            if let Some(until) = period.until {
                let next = Period::of(resets, zone, until);
                assert_eq!(next.from, until, "the next {resets:?} begins where the last one ends");
                assert!(!period.has(until) && next.has(until));
                all.push(format!("{}: {} to {}", resets.name(), shown(period.from), shown(until)));
            }
        }
        expected.assert_eq(&all.join("\n"));
    }

    #[test]
    fn periods_are_of_the_calendar_in_utc() {
        check(
            "UTC",
            "2026-11-20T11:30:00Z",
            expect![[r"
                day: 2026-11-20T00:00:00Z to 2026-11-21T00:00:00Z
                week: 2026-11-16T00:00:00Z to 2026-11-23T00:00:00Z
                month: 2026-11-01T00:00:00Z to 2026-12-01T00:00:00Z
                year: 2026-01-01T00:00:00Z to 2027-01-01T00:00:00Z"]],
        );
    }

    #[test]
    fn periods_are_of_the_calendar_in_the_accounts_zone() {
        check(
            "America/New_York",
            "2027-01-01T03:00:00Z",
            expect![[r"
                day: 2026-12-31T05:00:00Z to 2027-01-01T05:00:00Z
                week: 2026-12-28T05:00:00Z to 2027-01-04T05:00:00Z
                month: 2026-12-01T05:00:00Z to 2027-01-01T05:00:00Z
                year: 2026-01-01T05:00:00Z to 2027-01-01T05:00:00Z"]],
        );
    }

    #[test]
    fn a_fixed_offset_is_a_zone() {
        check(
            "+05:30",
            "2026-11-20T19:00:00Z",
            expect![[r"
                day: 2026-11-20T18:30:00Z to 2026-11-21T18:30:00Z
                week: 2026-11-15T18:30:00Z to 2026-11-22T18:30:00Z
                month: 2026-10-31T18:30:00Z to 2026-11-30T18:30:00Z
                year: 2025-12-31T18:30:00Z to 2026-12-31T18:30:00Z"]],
        );
    }

    #[test]
    fn a_day_of_25_hours_is_one_day() {
        check(
            "Europe/Berlin",
            "2026-10-25T12:00:00Z",
            expect![[r"
                day: 2026-10-24T22:00:00Z to 2026-10-25T23:00:00Z
                week: 2026-10-18T22:00:00Z to 2026-10-25T23:00:00Z
                month: 2026-09-30T22:00:00Z to 2026-10-31T23:00:00Z
                year: 2025-12-31T23:00:00Z to 2026-12-31T23:00:00Z"]],
        );
    }

    #[test]
    fn a_day_may_begin_after_midnight() {
        // Clocks went from 0:00 to 1:00.
        check(
            "America/Sao_Paulo",
            "2018-11-04T12:00:00Z",
            expect![[r"
                day: 2018-11-04T03:00:00Z to 2018-11-05T02:00:00Z
                week: 2018-10-29T03:00:00Z to 2018-11-05T02:00:00Z
                month: 2018-11-01T03:00:00Z to 2018-12-01T02:00:00Z
                year: 2018-01-01T02:00:00Z to 2019-01-01T02:00:00Z"]],
        );
    }

    #[test]
    fn minutes_that_come_again_are_of_the_new_day() {
        // At 0:01 clocks went back to 23:01.
        check(
            "America/St_Johns",
            "2010-11-07T02:45:00Z",
            expect![[r"
                day: 2010-11-07T02:30:00Z to 2010-11-08T03:30:00Z
                week: 2010-11-01T02:30:00Z to 2010-11-08T03:30:00Z
                month: 2010-11-01T02:30:00Z to 2010-12-01T03:30:00Z
                year: 2010-01-01T03:30:00Z to 2011-01-01T03:30:00Z"]],
        );
    }

    #[test]
    fn an_unknown_zone_is_utc_and_what_never_resets_has_no_end() {
        let at = Timestamp(1_000 * Timestamp::DAY_US + 1);
        let day = Period::of(Reset::Day, "Nowhere/Else", at);
        assert_eq!(day.from, Timestamp(1_000 * Timestamp::DAY_US));
        assert_eq!(Period::of(Reset::Never, "UTC", at).until, None);
        assert!(Period::of(Reset::Month, "UTC", Timestamp(i64::MAX)).has(Timestamp(i64::MAX)));
    }
}
