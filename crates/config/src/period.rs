//! Durations as people write them in a configuration: `250ms`, `30s`, `5m`, `1h`, `1d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration with its unit written beside the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

/// The longest period that is accepted: ten years.
const PERIOD_MAX: Duration = Duration::from_secs(3650 * DAY_S);
const DAY_S: u64 = 86_400;

/// Units, largest first, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", DAY_S * 1_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Period {
    /// A period of whole seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The period in microseconds, as the domain counts.
    #[must_use]
    pub fn as_us(self) -> i64 {
        i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX)
    }
}

/// The text is no period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration such as 250ms, 30s, 5m, 1h or 1d (at most 3650d)")]
pub struct NotAPeriod(String);

impl FromStr for Period {
    type Err = NotAPeriod;

    fn from_str(text: &str) -> Result<Self, NotAPeriod> {
        let refused = || NotAPeriod(text.to_owned());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| refused())?;
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let unit_ms = known.ok_or_else(refused)?.1;
        let duration = Duration::from_millis(number.checked_mul(unit_ms).ok_or_else(refused)?);
        if duration > PERIOD_MAX { Err(refused()) } else { Ok(Self(duration)) }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        // A day is shown as a day, and ninety seconds as 90s: the largest unit that leaves no rest.
        let exact = UNITS.iter().find(|(_, unit_ms)| ms > 0 && ms.is_multiple_of(*unit_ms));
        let (unit, unit_ms) = exact.unwrap_or(&("s", 1_000));
        write!(f, "{}{unit}", ms / unit_ms)
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        let shown = match text.parse::<Period>() {
            Ok(period) => format!("{} ms, shown as {period}", period.0.as_millis()),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn periods() {
        check("250ms", expect!["250 ms, shown as 250ms"]);
        check("90s", expect!["90000 ms, shown as 90s"]);
        check("60s", expect!["60000 ms, shown as 1m"]);
        check("24h", expect!["86400000 ms, shown as 1d"]);
        check("0s", expect!["0 ms, shown as 0s"]);
        check(
            "10",
            expect!["`10` is not a duration such as 250ms, 30s, 5m, 1h or 1d (at most 3650d)"],
        );
        check(
            "-1s",
            expect!["`-1s` is not a duration such as 250ms, 30s, 5m, 1h or 1d (at most 3650d)"],
        );
        check(
            "99999999999999999999d",
            expect![
                "`99999999999999999999d` is not a duration such as 250ms, 30s, 5m, 1h or 1d (at most 3650d)"
            ],
        );
    }
}
