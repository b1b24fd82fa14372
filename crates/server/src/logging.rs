//! Logs: where and how lines are written, and that a panic is one of them.

use std::io;

use tracing_subscriber::fmt::writer::BoxMakeWriter;

use config::{Config, LogFormat, log_filter};

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
}

/// Starts logging to standard error, which keeps standard output for what commands print.
///
/// # Errors
/// Where the filter cannot be read, or logging was started already.
pub fn start(config: &Config) -> Result<(), Error> {
    let level = &config.log.level;
    let filter =
        log_filter(level).map_err(|reason| Error::Level { level: level.clone(), reason })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(BoxMakeWriter::new(io::stderr))
        .with_ansi(false);
    let started = match config.log.format {
        LogFormat::Human => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    std::panic::set_hook(Box::new(|panic| {
        // The payload of a panic of ours is an invariant's name; it carries no client's data.
        let message = panic.payload_as_str().unwrap_or("(no message)");
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place, "panic: {message}");
    }));
    started.map_err(|_| Error::Started)
}
