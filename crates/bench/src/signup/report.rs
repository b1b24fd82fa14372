//! The figures of a run of registrations.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;

use super::hash;
use super::health::Health;
use super::load::Outcome;
use crate::process::Usage;
use crate::report::{LatencyTable, Quantiles, round};
use crate::tally::ErrorKinds;

/// The figures of a run. Scripts rely on the JSON's keys.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Users who succeeded per minute, from the first request to the last response.
    pub users_per_min: f64,
    /// The share of users who succeeded, in percent.
    pub success_percent: f64,
    /// Users who succeeded.
    pub ok: u64,
    /// Users who were refused (429 or 503).
    pub refused: u64,
    /// Users with any other response, or none.
    pub errors: u64,
    /// Errors by kind.
    pub error_kinds: ErrorKinds,
    /// From the first request to the last response.
    pub seconds: f64,
    /// Latencies of users who succeeded; in an open loop from the scheduled time.
    pub latency_ms: Quantiles,
    /// Latencies of refusals.
    pub refused_ms: Quantiles,
    /// The median latency before the load, one user after the other.
    pub unloaded_ms: f64,
    /// The health checks during the load.
    pub health: Health,
    /// CPU of the process named by `--pid`, per user who succeeded.
    pub cpu_ms_per_user: Option<f64>,
    /// Its resident memory at the end.
    pub rss_mib: Option<f64>,
    /// Its resident memory at most, since it began.
    pub rss_peak_mib: Option<f64>,
    /// CPU of this client, per user who succeeded.
    pub client_cpu_ms_per_user: Option<f64>,
    /// After an open loop, until latency is normal again.
    pub recovery: Option<Recovery>,
    /// Bare password hashes, measured just before the load.
    pub hash: Option<hash::Report>,
    /// Users per minute as a share of bare password hashes per minute.
    pub share_of_hash: Option<f64>,
}

/// The server's return to normal latency.
#[derive(Debug, Serialize)]
pub struct Recovery {
    /// From the last scheduled request; `null` where it did not within two minutes.
    pub seconds: Option<f64>,
}

/// The inputs of a report besides the outcome.
pub struct Circumstances {
    /// Latency without load.
    pub unloaded: Duration,
    /// The health checks during the load.
    pub health: Health,
    /// The server's CPU time and memory.
    pub server: Option<Usage>,
    /// This process's CPU time and memory.
    pub client: Usage,
    /// Bare password hashes.
    pub hash: Option<hash::Report>,
}

impl Report {
    /// Builds the report of a run.
    pub fn new(outcome: Outcome, circumstances: Circumstances) -> Self {
        let Circumstances { unloaded, health, server, client, hash } = circumstances;
        let ok = outcome.latencies.count();
        let refused = outcome.refusals.count();
        let errors = outcome.errors.total();
        // Users created during the recovery cost CPU as well.
        let created = ok + outcome.recovery.as_ref().map_or(0, |recovery| recovery.created);
        let cpu =
            |spent: Usage| (created > 0).then(|| ratio(milliseconds(spent.cpu), count(created)));
        let users_per_min = round(ratio(count(ok) * 60.0, outcome.took.as_secs_f64()), 10.0);
        Self {
            users_per_min,
            success_percent: round(ratio(count(ok) * 100.0, count(ok + refused + errors)), 100.0),
            ok,
            refused,
            errors,
            error_kinds: outcome.errors,
            seconds: round(outcome.took.as_secs_f64(), 1000.0),
            latency_ms: Quantiles::of(&outcome.latencies),
            refused_ms: Quantiles::of(&outcome.refusals),
            unloaded_ms: round(milliseconds(unloaded), 1000.0),
            health,
            cpu_ms_per_user: server.and_then(cpu),
            rss_mib: server.map(|spent| round(spent.rss_mib, 10.0)),
            rss_peak_mib: server.map(|spent| round(spent.rss_peak_mib, 10.0)),
            client_cpu_ms_per_user: cpu(client),
            recovery: outcome.recovery.map(|recovery| Recovery {
                seconds: recovery.took.map(|took| round(took.as_secs_f64(), 1000.0)),
            }),
            share_of_hash: hash.as_ref().map(|hash| ratio(users_per_min, hash.per_min())),
            hash,
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { users_per_min, ok, success_percent, refused, errors, .. } = self;
        writeln!(
            f,
            "{users_per_min:.1} per minute   {ok} ok ({success_percent:.2} %)   {errors} errors   {refused} refused"
        )?;
        let mut rows = vec![("success", self.latency_ms)];
        rows.extend((self.refused > 0).then_some(("(refusals)", self.refused_ms)));
        rows.push(("health", self.health.latency_ms));
        write!(f, "\n{}", LatencyTable { heading: "latency, ms", name_width: 14, rows: &rows })?;
        writeln!(f, "{:<14}{:>9.2}\n", "without load", self.unloaded_ms)?;
        if let (Some(cpu), Some(rss), Some(peak)) =
            (self.cpu_ms_per_user, self.rss_mib, self.rss_peak_mib)
        {
            writeln!(
                f,
                "server   {cpu:.2} ms CPU per user, {rss:.1} MiB resident, {peak:.1} MiB at most"
            )?;
        }
        if let Some(cpu) = self.client_cpu_ms_per_user {
            writeln!(f, "client   {cpu:.2} ms CPU per user")?;
        }
        if let (Some(hash), Some(share)) = (&self.hash, self.share_of_hash) {
            let hash = hash.summary();
            writeln!(f, "hashes   {hash}; this run reached {:.1} % of that", share * 100.0)?;
        }
        match &self.recovery {
            None => {}
            Some(Recovery { seconds: Some(seconds) }) => {
                writeln!(f, "normal   {seconds:.3} s after the last was due")?;
            }
            Some(Recovery { seconds: None }) => writeln!(f, "normal   not within two minutes")?,
        }
        write!(f, "{}{}", self.error_kinds, self.health.error_kinds.prefixed("health: "))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of users are far below 2^52")]
fn count(count: u64) -> f64 {
    count as f64
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A ratio to a thousandth; zero if `whole` is zero.
fn ratio(share: f64, whole: f64) -> f64 {
    if whole > 0.0 { round(share / whole, 1000.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::signup::load;
    use crate::tally::Latencies;

    fn latencies(milliseconds: &[u64]) -> Latencies {
        let mut latencies = Latencies::default();
        milliseconds.iter().for_each(|ms| latencies.record(Duration::from_millis(*ms)));
        latencies
    }

    fn once(kind: &str) -> ErrorKinds {
        let mut errors = ErrorKinds::default();
        errors.count(kind, 1);
        errors
    }

    fn report() -> Report {
        let outcome = Outcome {
            latencies: latencies(&[100, 200, 300]),
            refusals: latencies(&[2]),
            errors: once("500"),
            took: Duration::from_secs(2),
            recovery: Some(load::Recovery { took: Some(Duration::from_millis(1500)), created: 1 }),
        };
        let spent =
            |ms| Usage { cpu: Duration::from_millis(ms), rss_mib: 39.96, rss_peak_mib: 55.5 };
        Report::new(
            outcome,
            Circumstances {
                unloaded: Duration::from_millis(50),
                health: Health {
                    ok: 2,
                    errors: 1,
                    error_kinds: once("timeout"),
                    latency_ms: Quantiles::of(&latencies(&[1, 3])),
                },
                server: Some(spent(400)),
                client: spent(4),
                hash: Some(hash::Report {
                    threads: 2,
                    hashes: 4,
                    hashes_per_s: 2.0,
                    cpu_ms_per_hash: 31.25,
                }),
            },
        )
    }

    #[test]
    fn json_keys_are_stable() {
        expect![[r#"{"users_per_min":90.0,"success_percent":60.0,"ok":3,"refused":1,"errors":1,"error_kinds":{"500":1},"seconds":2.0,"latency_ms":{"p50":200.063,"p95":300.031,"p99":300.031,"max":300.031},"refused_ms":{"p50":2.0,"p95":2.0,"p99":2.0,"max":2.0},"unloaded_ms":50.0,"health":{"ok":2,"errors":1,"error_kinds":{"timeout":1},"latency_ms":{"p50":1.0,"p95":3.001,"p99":3.001,"max":3.001}},"cpu_ms_per_user":100.0,"rss_mib":40.0,"rss_peak_mib":55.5,"client_cpu_ms_per_user":1.0,"recovery":{"seconds":1.5},"hash":{"threads":2,"hashes":4,"hashes_per_s":2.0,"cpu_ms_per_hash":31.25},"share_of_hash":0.75}"#]].assert_eq(&serde_json::to_string(&report()).unwrap());
    }

    #[test]
    fn text_is_aligned() {
        expect![[r#"
            90.0 per minute   3 ok (60.00 %)   1 errors   1 refused

            latency, ms         p50        p95        p99        max
            success          200.06     300.03     300.03     300.03
            (refusals)         2.00       2.00       2.00       2.00
            health             1.00       3.00       3.00       3.00
            without load      50.00

            server   100.00 ms CPU per user, 40.0 MiB resident, 55.5 MiB at most
            client   1.00 ms CPU per user
            hashes   2.0 hashes/s on 2 threads (120 per minute), 31.25 ms CPU each; this run reached 75.0 % of that
            normal   1.500 s after the last was due
            error           1 x 500
            error           1 x health: timeout
        "#]].assert_eq(&report().to_string());
    }

    #[test]
    fn without_success_there_is_no_cpu_per_user() {
        let outcome = Outcome {
            latencies: latencies(&[]),
            refusals: latencies(&[1]),
            errors: ErrorKinds::default(),
            took: Duration::ZERO,
            recovery: Some(load::Recovery { took: None, created: 0 }),
        };
        let quiet = report();
        let spent = Usage { cpu: Duration::from_secs(1), rss_mib: 1.0, rss_peak_mib: 1.0 };
        let circumstances = Circumstances {
            unloaded: Duration::ZERO,
            health: quiet.health,
            server: Some(spent),
            client: spent,
            hash: None,
        };
        let report = Report::new(outcome, circumstances);
        assert!(report.users_per_min.abs() < f64::EPSILON, "{report}");
        assert!(report.success_percent.abs() < f64::EPSILON, "{report}");
        assert_eq!((report.cpu_ms_per_user, report.share_of_hash), (None, None));
        assert!(report.to_string().contains("not within two minutes"), "{report}");
    }
}
