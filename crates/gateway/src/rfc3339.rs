//! Formats timestamps for other systems.

use domain::Timestamp;

/// RFC 3339 in UTC with whole seconds and a fraction of zero, which is Kill Bill's precision:
/// `2026-11-20T11:30:52.000Z`.
pub(crate) fn rfc3339_seconds(at: Timestamp) -> String {
    let second = jiff::Timestamp::from_second(at.0.div_euclid(Timestamp::SECOND_US));
    second.unwrap_or(jiff::Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}
