//! The setting `log.level`.

use tracing_subscriber::EnvFilter;

/// The filter of a setting: levels, of all modules or of one (`info,hyper=debug`). A word that is no level
/// would be a module's name to the library, and silence everything else.
///
/// # Errors
/// The reason why the setting is refused.
pub fn log_filter(setting: &str) -> Result<EnvFilter, String> {
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
