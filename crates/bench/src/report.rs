//! The reports of all benchmarks: JSON for programs, aligned text for people.

use std::fmt::{self, Display, Formatter};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::tally::Latencies;

/// How a benchmark prints its figures.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Output {
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Prints figures on standard output: as one line of JSON, or as their text.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn print<F: Serialize + Display>(self, figures: &F) -> anyhow::Result<()> {
        self.print_titled(String::new, figures)
    }

    /// The same, with lines above the text that say what was measured.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn print_titled<F: Serialize + Display>(
        self,
        title: impl FnOnce() -> String,
        figures: &F,
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(figures)?)?;
        } else {
            write!(out, "{}{figures}", title())?;
        }
        Ok(())
    }
}

/// Failure where nothing succeeded; with `is_strict`, also where anything failed.
pub fn exit_code(ok: u64, errors: u64, is_strict: bool) -> ExitCode {
    if ok == 0 || is_strict && errors > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A distribution in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Quantiles {
    /// The quantiles of latencies; zeros if there are none.
    pub fn of(latencies: &Latencies) -> Self {
        let quantile = |q| round(latencies.quantile_ms(q), 1000.0);
        Self {
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: round(latencies.max_ms(), 1000.0),
        }
    }
}

/// Distributions below a heading, a line for each.
pub struct LatencyTable<'a> {
    pub heading: &'a str,
    /// The width of the names, in characters.
    pub name_width: usize,
    pub rows: &'a [(&'a str, Quantiles)],
}

impl Display for LatencyTable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { heading, name_width, rows } = self;
        writeln!(
            f,
            "{heading:<name_width$}{:>9}  {:>9}  {:>9}  {:>9}",
            "p50", "p95", "p99", "max"
        )?;
        for (name, Quantiles { p50, p95, p99, max }) in *rows {
            writeln!(f, "{name:<name_width$}{p50:>9.2}  {p95:>9.2}  {p99:>9.2}  {max:>9.2}")?;
        }
        Ok(())
    }
}

/// A rate per second, to a tenth.
#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
pub fn per_second(count: u64, time: Duration) -> f64 {
    round(count as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE), 10.0)
}

/// Microseconds of CPU for each of `count`, to a tenth; `None` where there was none.
#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
pub fn cpu_us_each(cpu: Duration, count: u64) -> Option<f64> {
    (count > 0).then(|| round(cpu.as_secs_f64() * 1e6 / count as f64, 10.0))
}

/// Rounds to `steps_per_unit` steps per unit.
pub fn round(value: f64, steps_per_unit: f64) -> f64 {
    (value * steps_per_unit).round() / steps_per_unit
}
