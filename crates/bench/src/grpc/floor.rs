//! The bare Kafka request and reply, measured in the same run: the lower bound of any mode with Kafka.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use kafka::topics::Class;
use kafka::{ClusterKeys, Settings};
use serde::Serialize;

/// Response times of `requests` simultaneous echoes through the cluster's topics.
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

/// Measures the floor with so many requests at once, echoed by the cluster's own processors, which want
/// signed requests where they have a key.
///
/// # Errors
/// Why it could not be measured.
pub fn floor(
    (brokers, topic_prefix): (&str, &str),
    key_file: Option<&Path>,
    requests: u32,
) -> Result<Floor, String> {
    let keys = key_file.map(|path| ClusterKeys::read(path, None)).transpose();
    let keys = keys.map_err(|error| error.to_string())?;
    let topic_prefix = topic_prefix.to_owned();
    let settings = Settings { topic_prefix, keys, ..Settings::new(brokers.to_owned()) };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let at_once = usize::try_from(requests).map_err(|error| error.to_string())?;
    // The first round warms up: it opens the connections.
    let rounds = [at_once.min(1_000), at_once];
    let measured = runtime.block_on(kafka::floor::measure(&settings, Class::Payment, &rounds));
    let floors = measured.map_err(|error| error.to_string())?;
    let it = floors.last().ok_or("nothing was measured")?;
    if it.errors > 0 {
        return Err(format!("{} of {requests} echoes did not come back", it.errors));
    }
    let took_s = it.took.as_secs_f64();
    Ok(Floor {
        requests,
        min_s: it.shortest.as_secs_f64(),
        avg_s: it.average.as_secs_f64(),
        max_s: it.longest.as_secs_f64(),
        throughput: f64::from(requests) / took_s,
    })
}
