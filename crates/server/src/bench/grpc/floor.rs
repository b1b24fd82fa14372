//! The bare Kafka request and reply, measured in the same run: what no mode with Kafka can be below.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// Response times of `requests` simultaneous echoes through topics as the cluster has them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    requests: u32,
    min_s: f64,
    avg_s: f64,
    max_s: f64,
    throughput: f64,
}

impl Display for Floor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { requests, min_s, avg_s, max_s, throughput } = self;
        write!(f, "  Kafka, {requests:<10}{min_s:>9.3}{avg_s:>9.3}{max_s:>9.3}{throughput:>29.1}")
    }
}

/// Measures the floor with so many requests at once.
///
/// # Errors
/// Where it was not measured: why.
pub fn floor(_brokers: &str, _topic_prefix: &str, _requests: u32) -> Result<Floor, String> {
    Err("not measured: this build has no Kafka".to_owned())
}
