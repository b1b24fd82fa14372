//! The deadline of a call: `grpc-timeout`, or the default.

use std::time::Duration;

use http::HeaderMap;

use crate::refusal::Refusal;

const HEADER: &str = "grpc-timeout";

/// The longest duration of a call, and the default: longer than any gateway's timeout.
const TIMEOUT_MAX: Duration = Duration::from_mins(5);

/// The most digits of a timeout in the gRPC protocol.
const DIGITS_MAX: usize = 8;

/// The timeout of the call.
///
/// # Errors
/// [`Refusal::Metadata`]: `grpc-timeout` is not up to eight digits and a unit.
pub(crate) fn of(headers: &HeaderMap) -> Result<Duration, Refusal> {
    let Some(value) = headers.get(HEADER) else { return Ok(TIMEOUT_MAX) };
    let read = value.to_str().ok().and_then(parse);
    let refused =
        Refusal::Metadata { key: HEADER, reason: "is no timeout such as 500m or 5S".into() };
    read.map(|timeout| timeout.min(TIMEOUT_MAX)).ok_or(refused)
}

fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    if digits.is_empty() || digits.len() > DIGITS_MAX || !is_number {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_digits_with_a_unit_and_bounded() {
        assert_eq!(parse("500m"), Some(Duration::from_millis(500)));
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(parse("1n"), Some(Duration::from_nanos(1)));
        for wrong in ["", "m", "5", "5x", "-5S", "+5S", "999999999S", "5 S", "é"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(of(&HeaderMap::new()).unwrap(), TIMEOUT_MAX);
        let long = HeaderMap::from_iter([(
            http::HeaderName::from_static(HEADER),
            http::HeaderValue::from_static("1H"),
        )]);
        assert_eq!(of(&long).unwrap(), TIMEOUT_MAX);
    }
}
