//! Watches a run: a progress line each second, CPU and memory over the measured time.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::process::{Usage, own_usage, spent, usage_of};
use super::schedule::{Backlog, Times};
use super::tally::{Recent, Tally};

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The run to watch.
pub struct Monitor<'a> {
    /// The run's phases.
    pub times: Times,
    /// The process under load.
    pub pid: Option<u32>,
    /// One per sending thread.
    pub tallies: &'a [Arc<Mutex<Tally>>],
    /// Empty in a closed loop.
    pub backlog: &'a Backlog,
}

/// CPU and memory over the measured time.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The process under load; its resident memory, at most.
    pub server: Option<Usage>,
    /// The load generator, which is this process.
    pub client: Usage,
}

impl Monitor<'_> {
    /// Watches until the measured time has ended.
    pub fn watch(&self) -> anyhow::Result<Measured> {
        let mut next = self.times.start + PROGRESS_EVERY;
        self.progress_until(self.times.measured_from, &mut next)?;
        let (server_before, client_before) = (usage_of(self.pid)?, own_usage()?);
        let rss_max = self.progress_until(self.times.end, &mut next)?;
        let server = spent(server_before, usage_of(self.pid)?);
        Ok(Measured {
            server: server.map(|spent| Usage { rss_mib: spent.rss_mib.max(rss_max), ..spent }),
            client: own_usage()?.since(client_before),
        })
    }

    /// Shows progress until `until`; returns the largest resident memory seen, in MiB.
    fn progress_until(&self, until: Instant, next: &mut Instant) -> anyhow::Result<f64> {
        let mut rss_max = 0.0_f64;
        while *next <= until {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            self.show_progress(*next);
            *next += PROGRESS_EVERY;
            if let Some(usage) = usage_of(self.pid)? {
                rss_max = rss_max.max(usage.rss_mib);
            }
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Ok(rss_max)
    }

    fn show_progress(&self, now: Instant) {
        let mut recent = Recent::default();
        for tally in self.tallies {
            let taken = std::mem::take(&mut tally.lock().expect("no panic while locked").recent);
            recent.add(&taken);
        }
        let warming = if now <= self.times.measured_from { "  (warming up)" } else { "" };
        let line = format!(
            "{:>4} s  {:>6} flows/s  p50 {:>8.2} ms  p95 {:>8.2} ms  {} errors  {} refused  {} waiting{warming}\n",
            now.duration_since(self.times.start).as_secs(),
            recent.flow.count(),
            recent.flow.quantile_ms(0.5),
            recent.flow.quantile_ms(0.95),
            recent.errors,
            recent.refused,
            self.backlog.depth(),
        );
        // Progress is optional: a closed standard error is no failure of the run.
        std::io::stderr().lock().write_all(line.as_bytes()).ok();
    }
}
