//! Logs: where and how lines are written, and that a panic is one of them.
//!
//! No thread but the log's own writes a line: what cannot be written is dropped and counted, and holds nothing up.

mod contained;
mod queue;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use config::{Config, LogFormat, log_filter};
use contained::Contained;
use queue::{LogQueue, Loss, Notice};

/// How long the end of the process waits until the lines that are queued are written.
const END_WITHIN: Duration = Duration::from_secs(1);

/// How long a panic waits for that: it may end the process.
const PANIC_WITHIN: Duration = Duration::from_millis(100);

/// The message of a notice of lost lines.
const LOST: &str =
    "log lines were dropped: they came faster than they were written, or could not be written";

/// The process's log, once it was started.
static LOG: OnceLock<LogQueue> = OnceLock::new();

/// Why logging cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter cannot be read.
    #[error("setting `log.level`: `{level}`: {reason}")]
    Level {
        /// The setting's value.
        level: String,
        reason: String,
    },
    /// Logging was started already.
    #[error("logging was started already")]
    Started,
    /// The system gives no thread, or standard error cannot be used.
    #[error("the log cannot be written: {0}")]
    Thread(#[from] io::Error),
}

/// Starts logging to standard error, which keeps standard output for what commands print.
///
/// # Errors
/// Where the filter cannot be read, or logging was started already.
pub fn start(config: &Config) -> Result<(), Error> {
    let level = &config.log.level;
    let filter =
        log_filter(level).map_err(|reason| Error::Level { level: level.clone(), reason })?;
    // Another handle than that of `std`, whose lock a stalled reader would keep from everybody.
    let output = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let queue = LogQueue::start(output, notice(config.log.format))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(queue.clone())
        // They would go to standard error, and panic where it cannot be written.
        .log_internal_errors(false)
        .with_ansi(false);
    let losses = queue.clone();
    let started = match config.log.format {
        LogFormat::Human => builder.map_event_format(|it| Contained::new(it, losses)).try_init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .map_event_format(|it| Contained::new(it, losses))
            .try_init(),
    };
    started.map_err(|_| Error::Started)?;
    LOG.set(queue).map_err(|_| Error::Started)?;
    std::panic::set_hook(Box::new(|panic| {
        // The payload of a panic of ours is an invariant's name; it carries no client's data.
        let message = panic.payload_as_str().unwrap_or("(no message)");
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place, "panic: {message}");
        if let Some(log) = LOG.get().filter(|it| !it.is_losing()) {
            log.flush(PANIC_WITHIN);
        }
    }));
    Ok(())
}

/// Writes what is queued before the process ends, for a bounded time.
pub fn finish() {
    if let Some(log) = LOG.get() {
        log.flush(END_WITHIN);
    }
}

/// Ends the process with this status, after what was logged.
pub fn exit(status: i32) {
    finish();
    std::process::exit(status);
}

/// Writes a line to standard error, behind what was logged; a reader who reads no more holds nothing up.
pub fn print_error(line: &str) {
    let line = format!("{line}\n");
    match LOG.get() {
        Some(log) => {
            log.push(line.as_bytes());
            log.flush(END_WITHIN);
        }
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Exports how many lines were lost since the start, by reason.
pub fn export_losses() {
    for loss in Loss::ALL {
        let lines = LOG.get().map_or(0, |log| log.lost(loss));
        metrics::counter!("faregate_log_lines_dropped_total", "reason" => loss.label())
            .absolute(lines);
    }
}

/// How a notice of lost lines is written: as a line of the log.
const fn notice(format: LogFormat) -> Notice {
    match format {
        LogFormat::Human => human_notice,
        LogFormat::Json => json_notice,
    }
}

fn human_notice(lines: u64) -> String {
    format!("{}  WARN {}: {LOST} lines={lines}\n", now(), module_path!())
}

fn json_notice(lines: u64) -> String {
    let line = serde_json::json!({
        "timestamp": now(), "level": "WARN", "message": LOST, "lines": lines, "target": module_path!(),
    });
    format!("{line}\n")
}

/// The time as lines of the log have it.
fn now() -> String {
    let mut text = String::new();
    match SystemTime.format_time(&mut Writer::new(&mut text)) {
        Ok(()) => text,
        Err(_) => String::new(),
    }
}
