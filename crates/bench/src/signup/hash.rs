//! `faregate bench signup hash`: bare password hashes of this machine.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::Serialize;

use crate::parse_span;
use crate::process::own_usage;
use crate::report::{Output, round};

/// 19 MiB and two passes: OWASP's recommendation and the server's default.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Threads at most: each holds the memory of one hash.
const THREADS_MAX: i64 = 256;

/// Options of `faregate bench signup hash`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Threads that hash, as many as the machine has cores unless given.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    threads: Option<u16>,
    /// How long to measure, such as 10, 10s or 1m.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_span)]
    duration: Duration,
    #[command(flatten)]
    output: Output,
}

/// The cost of a hash on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Threads that hashed.
    pub threads: usize,
    pub hashes: u64,
    /// Of all threads together.
    pub hashes_per_s: f64,
    /// CPU time of one hash, independent of other load on the machine.
    pub cpu_ms_per_hash: f64,
}

impl Report {
    /// Hashes per minute: an upper bound of registrations.
    pub fn per_min(&self) -> f64 {
        round(self.hashes_per_s * 60.0, 10.0)
    }

    /// One line, without its end.
    pub fn summary(&self) -> String {
        format!(
            "{:.1} hashes/s on {} threads ({:.0} per minute), {:.2} ms CPU each",
            self.hashes_per_s,
            self.threads,
            self.per_min(),
            self.cpu_ms_per_hash
        )
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())
    }
}

/// Measures and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let report = measure(args.threads, args.duration)?;
    args.output.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Hashes for `duration` on `threads` threads; by default, one per core.
pub fn measure(threads: Option<u16>, duration: Duration) -> anyhow::Result<Report> {
    let threads = match threads {
        Some(threads) => usize::from(threads),
        None => available_parallelism().context("--threads: the number of cores is unknown")?.get(),
    };
    // All threads have allocated their memory when this thread passes the barrier.
    let ready = Barrier::new(threads + 1);
    let ended = Barrier::new(threads + 1);
    let (counts, cpu) = std::thread::scope(|scope| {
        let hashers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| hash_for(duration, &ready, &ended))).collect();
        ready.wait();
        let before = own_usage();
        ended.wait();
        let after = own_usage();
        let counts: Vec<(u64, Duration)> = hashers
            .into_iter()
            .map(|hasher| hasher.join().expect("hashing does not panic"))
            .collect();
        anyhow::Ok((counts, after?.since(before?).cpu))
    })?;
    Ok(summed(&counts, cpu))
}

/// The hashes of one thread and their time.
fn hash_for(duration: Duration, ready: &Barrier, ended: &Barrier) -> (u64, Duration) {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).expect("parameters are in range");
    let mut memory = vec![Block::default(); params.block_count()];
    let argon2id = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut out = [0; Params::DEFAULT_OUTPUT_LEN];
    let mut hash = |number: u64| {
        let mut salt = [0; argon2::RECOMMENDED_SALT_LEN];
        salt[..8].copy_from_slice(&number.to_le_bytes());
        argon2id
            .hash_password_into_with_memory(b"LoadTest123@", &salt, &mut out, &mut memory)
            .expect("any bytes can be hashed");
    };
    // The first hash touches the memory, so that the system maps it before the measurement.
    hash(0);
    ready.wait();
    let started = Instant::now();
    let mut count = 0;
    while count == 0 || started.elapsed() < duration {
        count += 1;
        hash(count);
    }
    let took = started.elapsed();
    ended.wait();
    (count, took)
}

#[expect(clippy::cast_precision_loss, reason = "counts of hashes are far below 2^52")]
fn summed(counts: &[(u64, Duration)], cpu: Duration) -> Report {
    let hashes: u64 = counts.iter().map(|(count, _)| count).sum();
    let rates = counts.iter().map(|(count, took)| *count as f64 / took.as_secs_f64());
    Report {
        threads: counts.len(),
        hashes,
        hashes_per_s: round(rates.sum(), 100.0),
        cpu_ms_per_hash: round(cpu.as_secs_f64() * 1000.0 / hashes as f64, 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_threads_are_added() {
        let second = Duration::from_secs(1);
        let report = summed(&[(40, second), (30, 2 * second)], 2 * second);
        assert_eq!(
            report.summary(),
            "55.0 hashes/s on 2 threads (3300 per minute), 28.57 ms CPU each"
        );
        assert_eq!(report.hashes, 70);
    }

    #[test]
    fn every_thread_hashes_at_least_once() {
        let report = measure(Some(2), Duration::ZERO).unwrap();
        assert_eq!((report.threads, report.hashes), (2, 2));
        assert!(report.hashes_per_s > 0.0, "{report}");
    }
}
