//! The figures of a run, with the document's tables for people.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;

use super::Args;
use super::answers::Answers;
use super::floor::Floor;
use super::plan::{Mix, Plan};
use crate::report::{cpu_us_each, per_second, round};
use crate::tally::ErrorKinds;

/// The clients that the document had.
const DOCUMENT_CLIENTS: u32 = 3;

/// Average response times that the document reports.
struct Quoted {
    requests_per_client: u32,
    one_processor_s: f64,
    three_processors_s: f64,
}

const fn quoted(requests_per_client: u32, one_processor_s: f64, three_processors_s: f64) -> Quoted {
    Quoted { requests_per_client, one_processor_s, three_processors_s }
}

/// "Billing Service with Kafka Middleware", first round: nothing is delayed.
const DOCUMENT_ROUND_1: [Quoted; 3] =
    [quoted(5_000, 2.38, 2.42), quoted(10_000, 2.67, 2.65), quoted(25_000, 4.66, 4.45)];
/// Its longest response time.
const DOCUMENT_ROUND_1_LONGEST_S: f64 = 7.89;
/// Second round: half payments that take 100 to 1,000 ms, half balances that take 2 to 5 s.
const DOCUMENT_ROUND_2: [Quoted; 3] =
    [quoted(5_000, 4.53, 4.41), quoted(10_000, 5.12, 4.64), quoted(25_000, 9.18, 7.73)];

/// The figures of a run. Scripts rely on the JSON's keys.
#[derive(Debug, Serialize)]
pub struct Report {
    mix: &'static str,
    clients: u32,
    targets: usize,
    accounts: u32,
    payment_delay_ms: Option<String>,
    balance_delay_ms: Option<String>,
    /// In the order of the options.
    pub rounds: Vec<Round>,
    /// Of single requests at a fixed rate, instead of rounds.
    pub steady: Option<Steady>,
    /// The bare Kafka request and reply, by requests per client; where it was measured.
    pub floor: Option<BTreeMap<u32, Floor>>,
    /// CPU of this client while it sent and received, per request.
    client_cpu_us_per_request: Option<f64>,
    /// Its resident memory, at most.
    pub client_rss_mib: f64,
}

/// One round. Response times are those of requests that succeeded.
#[derive(Debug, Serialize)]
pub struct Round {
    requests_per_client: u32,
    clients: u32,
    min_s: Option<f64>,
    avg_s: Option<f64>,
    max_s: Option<f64>,
    p50_s: Option<f64>,
    p99_s: Option<f64>,
    /// Requests that succeeded, per second until the last of them.
    throughput: f64,
    ok: u64,
    errors: u64,
    error_kinds: ErrorKinds,
    #[serde(skip)]
    cpu: Duration,
}

/// Single requests at a fixed rate.
#[derive(Debug, Serialize)]
pub struct Steady {
    rate: f64,
    seconds: u32,
    min_ms: Option<f64>,
    avg_ms: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
    ok: u64,
    errors: u64,
    error_kinds: ErrorKinds,
    #[serde(skip)]
    cpu: Duration,
}

impl Report {
    /// A report without figures.
    pub fn new(args: &Args, plan: &Plan) -> Self {
        Self {
            mix: plan.mix.name(),
            clients: args.clients,
            targets: plan.targets.len(),
            accounts: args.accounts,
            payment_delay_ms: plan.payment_delay.map(|delay| delay.to_string()),
            balance_delay_ms: plan.balance_delay.map(|delay| delay.to_string()),
            rounds: Vec::new(),
            steady: None,
            floor: None,
            client_cpu_us_per_request: None,
            client_rss_mib: 0.0,
        }
    }

    /// Adds this process's CPU time and its peak memory in MiB.
    pub fn spent(&mut self, rss_peak_mib: f64) {
        let rounds = self.rounds.iter().map(|round| (round.cpu, round.ok + round.errors));
        let steady = self.steady.iter().map(|steady| (steady.cpu, steady.ok + steady.errors));
        let (cpu, requests) = rounds
            .chain(steady)
            .fold((Duration::ZERO, 0), |(cpu, all), (more, requests)| (cpu + more, all + requests));
        self.client_cpu_us_per_request = cpu_us_each(cpu, requests);
        self.client_rss_mib = round(rss_peak_mib, 10.0);
    }

    /// Requests that succeeded, and that failed.
    pub fn counts(&self) -> (u64, u64) {
        let rounds = self.rounds.iter().map(|round| (round.ok, round.errors));
        let steady = self.steady.iter().map(|steady| (steady.ok, steady.errors));
        rounds.chain(steady).fold((0, 0), |(ok, errors), more| (ok + more.0, errors + more.1))
    }

    /// The document's round that these rounds are comparable with.
    fn document(&self) -> Option<&'static [Quoted]> {
        let delayed = self.payment_delay_ms.is_some() || self.balance_delay_ms.is_some();
        match (self.clients, self.mix == Mix::Half.name(), delayed) {
            (DOCUMENT_CLIENTS, true, true) => Some(&DOCUMENT_ROUND_2),
            (DOCUMENT_CLIENTS, _, false) => Some(&DOCUMENT_ROUND_1),
            _ => None,
        }
    }
}

impl Round {
    /// Builds the figures of a round.
    pub fn new(requests_per_client: u32, clients: u32, answers: &Answers, cpu: Duration) -> Self {
        let seconds = |time: Option<Duration>| time.map(|time| round(time.as_secs_f64(), 1e6));
        Self {
            requests_per_client,
            clients,
            min_s: seconds(answers.shortest()),
            avg_s: seconds(answers.average()),
            max_s: seconds(answers.longest()),
            p50_s: seconds(answers.quantile(0.5)),
            p99_s: seconds(answers.quantile(0.99)),
            throughput: answers.longest().map_or(0.0, |longest| per_second(answers.ok(), longest)),
            ok: answers.ok(),
            errors: answers.errors.total(),
            error_kinds: answers.errors.clone(),
            cpu,
        }
    }
}

impl Steady {
    /// Builds the figures of a round.
    pub fn new(rate: f64, seconds: u32, answers: &Answers, cpu: Duration) -> Self {
        let ms = |time: Option<Duration>| time.map(|time| round(time.as_secs_f64() * 1e3, 1e3));
        Self {
            rate,
            seconds,
            min_ms: ms(answers.shortest()),
            avg_ms: ms(answers.average()),
            p50_ms: ms(answers.quantile(0.5)),
            p99_ms: ms(answers.quantile(0.99)),
            max_ms: ms(answers.longest()),
            ok: answers.ok(),
            errors: answers.errors.total(),
            error_kinds: answers.errors.clone(),
            cpu,
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { mix, clients, targets, accounts, .. } = self;
        write!(f, "{mix}, {clients} clients, {targets} targets, {accounts} accounts")?;
        if let Some(delay) = &self.payment_delay_ms {
            write!(f, ", payments {delay} ms")?;
        }
        if let Some(delay) = &self.balance_delay_ms {
            write!(f, ", balances {delay} ms")?;
        }
        writeln!(f)?;
        if !self.rounds.is_empty() {
            self.write_rounds(f)?;
        }
        if let Some(Steady { rate, seconds, min_ms, avg_ms, p50_ms, p99_ms, max_ms, .. }) =
            &self.steady
        {
            writeln!(f, "\n{rate} requests/s for {seconds} s")?;
            writeln!(f, "response time, ms        min      avg      p50      p99      max")?;
            let times = [min_ms, avg_ms, p50_ms, p99_ms, max_ms].map(|time| shown(*time, 2));
            writeln!(f, "{:<19}{}", "", times.concat())?;
        }
        let (ok, errors) = self.counts();
        writeln!(f, "\n{ok} ok, {errors} errors")?;
        if let Some(cpu) = self.client_cpu_us_per_request {
            writeln!(f, "client   {cpu:.1} us CPU per request, {:.1} MiB", self.client_rss_mib)?;
        }
        let rounds = self.rounds.iter().map(|round| &round.error_kinds);
        let steady = self.steady.iter().map(|steady| &steady.error_kinds);
        rounds.chain(steady).try_for_each(|errors| write!(f, "{errors}"))
    }
}

impl Report {
    fn write_rounds(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<19}{:>9}{:>9}{:>9}{:>9}{:>9}{:>11}{:>10}",
            "response time, s",
            "shortest",
            "average",
            "longest",
            "p50",
            "p99",
            "answers/s",
            "errors"
        )?;
        for round in &self.rounds {
            writeln!(f, "{round}")?;
            if let Some(floor) =
                self.floor.as_ref().and_then(|of| of.get(&round.requests_per_client))
            {
                writeln!(f, "{floor}")?;
            }
        }
        let Some(document) = self.document() else { return Ok(()) };
        writeln!(f, "\nthe document's averages, s")?;
        for Quoted { requests_per_client, one_processor_s, three_processors_s } in document {
            writeln!(
                f,
                "{DOCUMENT_CLIENTS} x {requests_per_client:<15}{one_processor_s:.2} with one \
                 processor, {three_processors_s:.2} with three"
            )?;
        }
        if self.payment_delay_ms.is_none() && self.balance_delay_ms.is_none() {
            writeln!(f, "longest of all     {DOCUMENT_ROUND_1_LONGEST_S}")?;
        }
        writeln!(f, "(quoted from \"Billing Service with Kafka Middleware\", CS 237)")
    }
}

impl Display for Round {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { min_s, avg_s, max_s, p50_s, p99_s, throughput, errors, .. } = self;
        let times = [min_s, avg_s, max_s, p50_s, p99_s].map(|time| shown(*time, 3)).concat();
        let name = format!("{} x {}", self.clients, self.requests_per_client);
        write!(f, "{name:<19}{times}{throughput:>11.1}{errors:>10}")
    }
}

fn shown(time: Option<f64>, decimals: usize) -> String {
    time.map_or_else(|| format!("{:>9}", "-"), |time| format!("{time:>9.decimals$}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::grpc::plan::Problem;

    fn answers() -> Answers {
        let mut answers = Answers::default();
        for ms in [40, 60, 500] {
            answers.ended(Duration::from_millis(ms), Ok(()));
        }
        let problem = Problem { kind: "payment UNAVAILABLE".to_owned(), details: String::new() };
        answers.ended(Duration::from_millis(1), Err(problem));
        answers
    }

    fn report() -> Report {
        let round =
            |requests, answers| Round::new(requests, 3, &answers, Duration::from_micros(35));
        let mut report = Report {
            mix: "payment",
            clients: 3,
            targets: 2,
            accounts: 20,
            payment_delay_ms: None,
            balance_delay_ms: None,
            rounds: vec![round(5_000, answers()), round(7, Answers::default())],
            steady: None,
            floor: None,
            client_cpu_us_per_request: None,
            client_rss_mib: 0.0,
        };
        report.spent(17.04);
        report
    }

    #[test]
    fn json_keys_are_stable() {
        expect![[r#"{"mix":"payment","clients":3,"targets":2,"accounts":20,"payment_delay_ms":null,"balance_delay_ms":null,"rounds":[{"requests_per_client":5000,"clients":3,"min_s":0.04,"avg_s":0.2,"max_s":0.5,"p50_s":0.060031,"p99_s":0.5,"throughput":6.0,"ok":3,"errors":1,"error_kinds":{"payment UNAVAILABLE":1}},{"requests_per_client":7,"clients":3,"min_s":null,"avg_s":null,"max_s":null,"p50_s":null,"p99_s":null,"throughput":0.0,"ok":0,"errors":0,"error_kinds":{}}],"steady":null,"floor":null,"client_cpu_us_per_request":17.5,"client_rss_mib":17.0}"#]].assert_eq(&serde_json::to_string(&report()).unwrap());
    }

    #[test]
    fn text_is_aligned() {
        expect![[r#"
            payment, 3 clients, 2 targets, 20 accounts

            response time, s    shortest  average  longest      p50      p99  answers/s    errors
            3 x 5000               0.040    0.200    0.500    0.060    0.500        6.0         1
            3 x 7                      -        -        -        -        -        0.0         0

            the document's averages, s
            3 x 5000           2.38 with one processor, 2.42 with three
            3 x 10000          2.67 with one processor, 2.65 with three
            3 x 25000          4.66 with one processor, 4.45 with three
            longest of all     7.89
            (quoted from "Billing Service with Kafka Middleware", CS 237)

            3 ok, 1 errors
            client   17.5 us CPU per request, 17.0 MiB
            error           1 x payment UNAVAILABLE
        "#]]
        .assert_eq(&report().to_string());
    }

    #[test]
    fn text_of_a_fixed_rate_has_milliseconds() {
        let steady = Steady::new(200.0, 10, &answers(), Duration::from_micros(80));
        let mut report = Report { rounds: vec![], steady: Some(steady), ..report() };
        report.spent(17.0);
        expect![[r#"
            payment, 3 clients, 2 targets, 20 accounts

            200 requests/s for 10 s
            response time, ms        min      avg      p50      p99      max
                                   40.00   200.00    60.03   500.00   500.00

            3 ok, 1 errors
            client   20.0 us CPU per request, 17.0 MiB
            error           1 x payment UNAVAILABLE
        "#]]
        .assert_eq(&report.to_string());
    }

    #[test]
    fn document_is_quoted_for_comparable_rounds_only() {
        let delayed = || Some("1-2".to_owned());
        let half = Report { mix: "half", payment_delay_ms: delayed(), ..report() };
        assert!(half.to_string().contains("9.18 with one processor, 7.73 with three"));
        let slow = Report { payment_delay_ms: delayed(), ..report() };
        assert!(!slow.to_string().contains("quoted"));
        let four = Report { clients: 4, ..report() };
        assert!(!four.to_string().contains("quoted"));
    }
}
