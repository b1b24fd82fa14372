//! Times as RFC 3339 (UTC).

use domain::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

/// A time as RFC 3339, with as many digits of a second as it needs: `2026-11-23T22:00:00.5Z`.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    timestamp(at).to_string()
}

/// A time as RFC 3339 with exactly three digits of a second, which some clients require.
#[must_use]
pub fn rfc3339_millis(at: Timestamp) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    PRINTER.timestamp_to_string(&timestamp(at))
}

/// A time as RFC 3339, rounded down to a whole second and written with a fraction of zero, which is
/// Kill Bill's precision: `2026-11-20T11:30:52.000Z`.
#[must_use]
pub fn rfc3339_second(at: Timestamp) -> String {
    let at_us = timestamp(at).as_microsecond();
    rfc3339_millis(Timestamp(at_us - at_us.rem_euclid(Timestamp::SECOND_US)))
}

/// Times of the domain reach further than jiff's, which end with the year 9999: beyond it, the last
/// or the first of jiff's times.
fn timestamp(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(at.0).unwrap_or(match at.0 < 0 {
        true => jiff::Timestamp::MIN,
        false => jiff::Timestamp::MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(Timestamp(1_500_000)), "1970-01-01T00:00:01.5Z");
        assert_eq!(rfc3339(Timestamp(1_673_841_716_630_999)), "2023-01-16T04:01:56.630999Z");
        assert_eq!(rfc3339_millis(Timestamp(1_673_841_716_630_999)), "2023-01-16T04:01:56.630Z");
        assert_eq!(rfc3339_millis(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339_second(Timestamp(1_673_841_716_630_999)), "2023-01-16T04:01:56.000Z");
        assert_eq!(rfc3339_second(Timestamp(-1)), "1969-12-31T23:59:59.000Z");
        assert_eq!(rfc3339_second(Timestamp(i64::MAX)), "9999-12-30T22:00:00.000Z");
    }

    #[test]
    fn times_out_of_range_are_the_last_that_can_be_written() {
        assert_eq!(rfc3339(Timestamp(i64::MAX)), rfc3339(Timestamp(i64::MAX - 1)));
        assert!(rfc3339(Timestamp(i64::MAX)).starts_with("9999-12-30T"));
        assert!(rfc3339(Timestamp(i64::MIN)).starts_with("-009999-01-02T"));
    }
}
