//! The CPU time and memory that a process has used so far, from `/proc`.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// Clock ticks per second in `/proc/PID/stat`: part of Linux's interface to programs, the same on
/// every architecture this runs on.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time and memory of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// User and system time of all its threads, ended ones included.
    pub cpu: Duration,
    /// Memory resident now.
    pub rss_mib: f64,
    /// Memory resident at most, since the process began.
    pub rss_peak_mib: f64,
}

impl Usage {
    /// The same memory, and the CPU time since an earlier usage.
    pub fn since(self, before: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(before.cpu), ..self }
    }
}

/// Reads a process's usage.
pub fn usage(pid: u32) -> io::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let unexpected = || io::Error::new(io::ErrorKind::InvalidData, "unexpected text in /proc");
    Ok(Usage {
        cpu: cpu(&stat).ok_or_else(unexpected)?,
        rss_mib: mib(&status, "VmRSS:").ok_or_else(unexpected)?,
        rss_peak_mib: mib(&status, "VmHWM:").ok_or_else(unexpected)?,
    })
}

/// The usage of this process.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn own_usage() -> anyhow::Result<Usage> {
    usage(std::process::id()).context("reading own usage")
}

/// The usage of the process named by `--pid`, where there is one.
///
/// # Errors
/// If there is no such process.
pub fn usage_of(pid: Option<u32>) -> anyhow::Result<Option<Usage>> {
    pid.map(|pid| usage(pid).with_context(|| format!("--pid {pid}"))).transpose()
}

/// The memory of a process in `after`, and its CPU time since `before`.
pub fn spent(before: Option<Usage>, after: Option<Usage>) -> Option<Usage> {
    before.zip(after).map(|(before, after)| after.since(before))
}

/// Waits until `end`, and returns the CPU time since `from` of the process named by `--pid`.
///
/// # Errors
/// If there is no such process.
pub async fn cpu_between(
    pid: Option<u32>,
    from: Instant,
    end: Instant,
) -> anyhow::Result<Option<Duration>> {
    tokio::time::sleep_until(from.into()).await;
    let before = usage_of(pid)?;
    tokio::time::sleep_until(end.into()).await;
    Ok(spent(before, usage_of(pid)?).map(|spent| spent.cpu))
}

/// `utime` and `stime`: the 14th and 15th field, counted after the command's closing bracket,
/// since the command may itself hold blanks and brackets.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u32 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(f64::from(kib) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_names_with_brackets_do_not_shift_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 9 9 9";
        assert_eq!(cpu(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu("7 (a) S 1"), None);
        assert_eq!(mib("VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2.0));
        assert_eq!(mib("VmPeak:\t 9 kB\n", "VmRSS:"), None);
    }

    #[test]
    fn own_cpu_time_and_memory_grow() {
        let before = usage(std::process::id()).unwrap();
        let block = vec![1_u8; 32 << 20];
        let mut sum = 0_u64;
        let mut after = before;
        while after.cpu < before.cpu + Duration::from_millis(20) {
            sum = block.iter().fold(sum, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
            after = usage(std::process::id()).unwrap();
        }
        assert_ne!(sum, 0);
        assert!(after.rss_mib > 31.0, "{after:?} before: {before:?}");
        assert!(after.rss_peak_mib >= after.rss_mib, "{after:?}");
    }

    #[test]
    fn unknown_process_is_not_found() {
        // Process ids end at 2^22.
        assert_eq!(usage(1 << 23).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
