//! The calendar of an account: how instants and its local dates belong together.

use jiff::Error;
use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};

use crate::entitlement::period::zone;
use crate::{Account, Timestamp};

/// A fixed offset from UTC and a time of day. Kill Bill gives each account both when it is made, and they stay: the
/// offset of its zone at its reference time, also when the zone's clocks change, and the reference time's time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountCalendar {
    offset: Offset,
    time: Time,
}

impl AccountCalendar {
    #[must_use]
    pub fn of(account: &Account) -> Self {
        Self::new(&account.time_zone, account.reference_time)
    }

    /// The calendar of a zone, a name of the IANA's or a fixed offset, at a reference time.
    #[must_use]
    pub fn new(zone_name: &str, reference_time: Timestamp) -> Self {
        let at = instant(reference_time);
        let offset = zone(zone_name).to_offset(at);
        Self { offset, time: offset.to_datetime(at).time() }
    }

    /// The local date of an instant.
    #[must_use]
    pub fn date(self, at: Timestamp) -> Date {
        self.offset.to_datetime(instant(at)).date()
    }

    /// The instant of a local date: at the reference time of day.
    ///
    /// # Errors
    /// The instant is outside the calendar's years.
    pub fn instant(self, date: Date) -> Result<Timestamp, Error> {
        let zoned = date.to_datetime(self.time).to_zoned(TimeZone::fixed(self.offset))?;
        Ok(Timestamp(zoned.timestamp().as_microsecond()))
    }
}

/// An instant, or the end of the calendar's years where it is beyond.
fn instant(at: Timestamp) -> jiff::Timestamp {
    let beyond = if at.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_microsecond(at.0).unwrap_or(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(zone: &str, reference: &str, at: &str, date: &str, back: &str) {
        let time =
            |text: &str| Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_microsecond());
        let calendar = AccountCalendar::new(zone, time(reference));
        let local = calendar.date(time(at));
        assert_eq!(local.to_string(), date);
        assert_eq!(calendar.instant(local).unwrap(), time(back));
    }

    #[test]
    fn an_account_keeps_the_offset_of_its_reference_time() {
        let february = "2024-02-09T08:30:00Z";
        let los_angeles = "America/Los_Angeles";
        check(los_angeles, february, "2024-02-10T07:59:59Z", "2024-02-09", february);
        // Summer's clocks would have the next day already.
        check(los_angeles, february, "2024-07-10T07:30:00Z", "2024-07-09", "2024-07-09T08:30:00Z");
        check("Asia/Tokyo", february, "2024-02-09T15:00:00Z", "2024-02-10", "2024-02-10T08:30:00Z");
        check("+05:30", february, "2024-02-09T18:30:00Z", "2024-02-10", "2024-02-10T08:30:00Z");
        check("UTC", february, "2024-02-09T23:59:59Z", "2024-02-09", february);
    }

    #[test]
    fn outside_the_calendar_there_is_no_instant() {
        let calendar = AccountCalendar::new("UTC", Timestamp(i64::MAX));
        assert_eq!(calendar.date(Timestamp(i64::MIN)).year(), Date::MIN.year());
        assert!(AccountCalendar::new("-10:00", Timestamp(0)).instant(Date::MAX).is_err());
    }
}
