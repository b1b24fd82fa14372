//! The time of this machine, for facts about a row that no rule looks at.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}
