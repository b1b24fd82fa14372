//! The figures of a run of payments.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;

use crate::outcome::Step;
use crate::process::Usage;
use crate::report::{LatencyTable, Quantiles, cpu_us_each, per_second, round};
use crate::tally::{ErrorKinds, Tally};

/// The figures of a run. Scripts rely on the JSON's keys.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Flows that succeeded inside the measured time, per second of it.
    pub flows_per_s: f64,
    /// Flows that succeeded.
    pub ok: u64,
    /// Flows that failed.
    pub errors: u64,
    /// Flows that failed, by step and reason.
    pub error_kinds: ErrorKinds,
    /// Latencies of flows that succeeded.
    pub latency_ms: StepLatencies,
    /// CPU of the process named by `--pid`, per flow that succeeded.
    pub cpu_us_per_flow: Option<f64>,
    /// Its resident memory, at most, while measured.
    pub rss_mib: Option<f64>,
    /// CPU of this client, per flow that succeeded.
    pub client_cpu_us_per_flow: Option<f64>,
    /// Requests refused with `Retry-After`, and sent again.
    pub refused: u64,
    /// Latencies of refusals.
    pub refused_ms: Quantiles,
    /// Flows that the server still refused when the run ended.
    pub abandoned: u64,
    /// For an open loop, flows that waited for a connection.
    pub backlog: Option<BacklogReport>,
}

/// Latencies per step and of the whole flow.
#[derive(Debug, Serialize)]
pub struct StepLatencies {
    account: Quantiles,
    payment_method: Quantiles,
    payment: Quantiles,
    /// From the first request (open loop: from the scheduled start) to the last answer.
    pub flow: Quantiles,
}

/// Flows that were due and waited for a connection.
#[derive(Debug, Serialize)]
pub struct BacklogReport {
    /// The most at a time.
    pub deepest: usize,
    /// Dropped because the backlog was full; each is an error too.
    pub dropped: u64,
}

/// The inputs of a report besides the tally.
pub struct Circumstances {
    /// The measured time.
    pub measured: Duration,
    /// CPU of the process under load while measured, and its resident memory, at most.
    pub server: Option<Usage>,
    /// CPU of the load generator, which is this process.
    pub client: Usage,
    /// The backlog of an open loop.
    pub backlog: Option<BacklogReport>,
}

impl Report {
    /// Builds the report of a tally.
    pub fn new(tally: &Tally, circumstances: Circumstances) -> Self {
        let per_flow = |spent: Usage| cpu_us_each(spent.cpu, tally.finished_inside);
        let [account, payment_method, payment] = tally.steps.each_ref().map(Quantiles::of);
        Self {
            flows_per_s: per_second(tally.finished_inside, circumstances.measured),
            ok: tally.flow.count(),
            errors: tally.errors.total(),
            error_kinds: tally.errors.clone(),
            latency_ms: StepLatencies {
                account,
                payment_method,
                payment,
                flow: Quantiles::of(&tally.flow),
            },
            cpu_us_per_flow: circumstances.server.and_then(per_flow),
            rss_mib: circumstances.server.map(|spent| round(spent.rss_mib, 10.0)),
            client_cpu_us_per_flow: per_flow(circumstances.client),
            refused: tally.refusals.count(),
            refused_ms: Quantiles::of(&tally.refusals),
            abandoned: tally.abandoned,
            backlog: circumstances.backlog,
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:.1} flows/s   {} ok   {} errors   {} refused",
            self.flows_per_s, self.ok, self.errors, self.refused
        )?;
        let latencies = &self.latency_ms;
        let steps = [latencies.account, latencies.payment_method, latencies.payment];
        let steps = Step::ALL.into_iter().map(Step::name).zip(steps);
        let mut rows: Vec<_> = steps.chain([("flow", latencies.flow)]).collect();
        rows.extend((self.refused > 0).then_some(("(refusals)", self.refused_ms)));
        write!(f, "\n{}", LatencyTable { heading: "latency, ms", name_width: 14, rows: &rows })?;
        if let Some(backlog) = &self.backlog {
            let BacklogReport { deepest, dropped } = backlog;
            writeln!(f, "\nbacklog   {deepest} flows at most, {dropped} dropped")?;
        }
        if self.abandoned > 0 {
            writeln!(f, "\n{} flows were still being refused at the end", self.abandoned)?;
        }
        writeln!(f)?;
        if let (Some(cpu), Some(rss)) = (self.cpu_us_per_flow, self.rss_mib) {
            writeln!(f, "server   {cpu:.1} us CPU per flow, {rss:.1} MiB resident")?;
        }
        if let Some(cpu) = self.client_cpu_us_per_flow {
            writeln!(f, "client   {cpu:.1} us CPU per flow")?;
        }
        write!(f, "{}", self.error_kinds)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use expect_test::expect;

    use super::*;
    use crate::outcome::{Created, Done, Outcome, Problem};
    use crate::request::{ID_BYTES, KEY_BYTES};
    use crate::schedule::Times;
    use crate::tally::Counted;

    fn report() -> Report {
        let start = Instant::now();
        let end = start + Duration::from_secs(2);
        let [account, payment] = [[b'0'; ID_BYTES]; 2];
        let created = Created { key: [b'0'; KEY_BYTES], account, payment };
        let mut tally = Tally::new(Counted::ByDue);
        tally.set_times(Times { start, measured_from: start, end });
        for ms in 1..=100 {
            let took = [ms, 2 * ms, 3 * ms].map(Duration::from_millis).map(Some);
            let done = Outcome::Done(Done { took, created });
            tally.flow_ended(start, start + Duration::from_millis(6 * ms), done);
        }
        let problem = Problem { kind: "payment 500".to_owned(), answer: None };
        tally.flow_ended(start, start, Outcome::Failed(problem));
        tally.refused(start, Duration::from_millis(3));
        let spent = |ms, rss_mib| {
            let cpu = Duration::from_millis(ms);
            Usage { cpu, rss_mib, rss_peak_mib: rss_mib }
        };
        Report::new(
            &tally,
            Circumstances {
                measured: Duration::from_secs(2),
                server: Some(spent(20, 39.96)),
                client: spent(5, 7.0),
                backlog: Some(BacklogReport { deepest: 3, dropped: 0 }),
            },
        )
    }

    #[test]
    fn json_keys_are_stable() {
        expect![[r#"{"flows_per_s":50.0,"ok":100,"errors":1,"error_kinds":{"payment 500":1},"latency_ms":{"account":{"p50":50.015,"p95":95.039,"p99":99.007,"max":100.031},"payment_method":{"p50":100.031,"p95":190.079,"p99":198.015,"max":200.063},"payment":{"p50":150.015,"p95":285.183,"p99":297.215,"max":300.031},"flow":{"p50":300.031,"p95":570.367,"p99":594.431,"max":600.063}},"cpu_us_per_flow":200.0,"rss_mib":40.0,"client_cpu_us_per_flow":50.0,"refused":1,"refused_ms":{"p50":3.001,"p95":3.001,"p99":3.001,"max":3.001},"abandoned":0,"backlog":{"deepest":3,"dropped":0}}"#]]
        .assert_eq(&serde_json::to_string(&report()).unwrap());
    }

    #[test]
    fn text_is_aligned() {
        expect![[r#"
            50.0 flows/s   100 ok   1 errors   1 refused

            latency, ms         p50        p95        p99        max
            account           50.02      95.04      99.01     100.03
            payment_method   100.03     190.08     198.01     200.06
            payment          150.01     285.18     297.21     300.03
            flow             300.03     570.37     594.43     600.06
            (refusals)         3.00       3.00       3.00       3.00

            backlog   3 flows at most, 0 dropped

            server   200.0 us CPU per flow, 40.0 MiB resident
            client   50.0 us CPU per flow
            error           1 x payment 500
        "#]]
        .assert_eq(&report().to_string());
    }

    #[test]
    fn without_success_there_is_no_cpu_per_flow() {
        let tally = Tally::new(Counted::ByEnd);
        let spent = Usage { cpu: Duration::from_secs(1), rss_mib: 1.0, rss_peak_mib: 1.0 };
        let circumstances = Circumstances {
            measured: Duration::from_secs(1),
            server: Some(spent),
            client: spent,
            backlog: None,
        };
        let report = Report::new(&tally, circumstances);
        assert_eq!(report.cpu_us_per_flow, None);
        assert!(report.flows_per_s.abs() < f64::EPSILON && report.latency_ms.flow.p95 < 1e-9);
    }
}
