//! Logs: where and how lines are written, and that a panic is one of them.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::config::{Config, LogFormat};

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

/// The filter of a setting: levels, of all modules or of one (`info,hyper=debug`). A word that is no level
/// would be a module's name to the library, and silence everything else.
///
/// # Errors
/// What is wrong with it.
pub fn filter(setting: &str) -> Result<EnvFilter, String> {
    let level = |text: &str| match text.to_ascii_lowercase().as_str() {
        "warning" => Ok("warn".to_owned()),
        level @ ("off" | "error" | "warn" | "info" | "debug" | "trace") => Ok(level.to_owned()),
        _ => Err(format!("`{text}` is no level: off, error, warn, info, debug or trace")),
    };
    let directives = setting.split(',').map(|directive| match directive.trim().rsplit_once('=') {
        Some((module, text)) => Ok(format!("{module}={}", level(text)?)),
        None => level(directive.trim()),
    });
    let directives = directives.collect::<Result<Vec<_>, String>>()?.join(",");
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
}

/// Starts logging to standard error, which keeps standard output for what commands print.
///
/// # Errors
/// Where the filter cannot be read, or logging was started already.
pub fn start(config: &Config) -> Result<(), Error> {
    let level = &config.log.level;
    let filter = filter(level).map_err(|reason| Error::Level { level: level.clone(), reason })?;
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
