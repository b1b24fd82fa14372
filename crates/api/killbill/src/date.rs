//! Dates in requests and responses: ISO 8601 in UTC. Kill Bill stores seconds and writes `.000`.

use std::borrow::Cow;

use domain::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// The last year with four digits.
const YEAR_MAX: i16 = 9999;

/// The longest date, in characters.
const DATE_CHARS_MAX: usize = 64;

/// Parses a date with or without a time; without an offset it is UTC. `None` if it is invalid, or
/// its year does not have four digits.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    if text.len() > DATE_CHARS_MAX || !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let at = match text.parse::<jiff::Timestamp>() {
        Ok(at) => at,
        Err(_) => TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok()?,
    };
    let year = TimeZone::UTC.to_datetime(at).year();
    (1..=YEAR_MAX).contains(&year).then(|| Timestamp(at.as_microsecond()))
}

/// A date without a time.
pub(crate) fn day(text: &str) -> Option<Date> {
    text.parse().ok().filter(|day: &Date| day.to_string() == text)
}

/// The zone with this IANA name, or a fixed offset such as `+02:00`.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    if let Some(offset) = offset(name) {
        return Some(TimeZone::fixed(offset));
    }
    let zone = TimeZone::get(name).ok()?;
    // The database ignores case; Kill Bill does not.
    zone.iana_name().is_none_or(|known| known == name).then_some(zone)
}

fn offset(name: &str) -> Option<jiff::tz::Offset> {
    jiff::tz::Offset::from_seconds(domain::entitlement::period::offset_seconds(name)?).ok()
}

/// The date in a time zone: `2026-11-20`.
pub(crate) fn local_date(at: Timestamp, zone: &TimeZone) -> Cow<'static, str> {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => Cow::Owned(zone.to_datetime(at).date().to_string()),
        Err(_) => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use engine::time::rfc3339_millis;
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let parsed = parse(text).map_or("refused".to_owned(), rfc3339_millis);
        expected.assert_eq(&parsed);
    }

    #[test]
    fn dates_have_four_digit_years_and_default_to_utc() {
        check("2020-01-02T03:04:05.678Z", expect!["2020-01-02T03:04:05.678Z"]);
        check("2020-01-02T03:04:05.678901Z", expect!["2020-01-02T03:04:05.678Z"]);
        check("2020-01-02T03:04:05+02:00", expect!["2020-01-02T01:04:05.000Z"]);
        check("2020-01-02T03:04:05", expect!["2020-01-02T03:04:05.000Z"]);
        check("2020-01-02", expect!["2020-01-02T00:00:00.000Z"]);
        check("9999-12-30T00:00:00Z", expect!["9999-12-30T00:00:00.000Z"]);
        check("10000-01-01T00:00:00Z", expect!["refused"]);
        check("+10000-01-01T00:00:00Z", expect!["refused"]);
        check("-0001-01-01T00:00:00Z", expect!["refused"]);
        check("2020-02-30", expect!["refused"]);
        check("yesterday", expect!["refused"]);
        check("", expect!["refused"]);
    }

    #[test]
    fn zones_are_iana_names_or_fixed_offsets() {
        for valid in ["UTC", "Europe/Paris", "America/New_York", "EST", "+02:00", "-05:30"] {
            assert!(zone(valid).is_some(), "{valid}");
        }
        for unknown in ["Mars/Base", "europe/paris", "", "+2:00", "+24:00", "02:00", "+ab:cd"] {
            assert!(zone(unknown).is_none(), "{unknown}");
        }
    }
}
