//! Copies a data directory's SQLite database to PostgreSQL.

use std::time::{Duration, Instant};

use config::Config;
use serde_json::json;
use server::node;
use store::migrate::{self, Copied, Progress};

use super::{Error, Report, millis, show};

/// The interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Copies the data directory's database to the server, or resumes a copy; with `check`, only
/// compares.
///
/// # Errors
/// [`Error`], also if a server that writes the data directory prevents the end of the copy.
pub fn sqlite_to_postgres(config: &Config, check: bool, is_quiet: bool) -> Result<Report, Error> {
    let started = Instant::now();
    let server = node::server(config)?.ok_or(Error::NoServer)?;
    let mut shown_at = Instant::now();
    let copied = if check {
        migrate::check(&config.data_dir, &server)?
    } else {
        migrate::sqlite_to_server(&config.data_dir, &server, &mut |progress| {
            if !is_quiet && shown_at.elapsed() >= PROGRESS_EVERY {
                shown_at = Instant::now();
                let Progress { table, rows, is_locked } = progress;
                let pass = if is_locked { "second pass" } else { "first pass" };
                eprintln!("{pass}: {table}, {rows} rows");
            }
        })?
    };
    if copied.tables.is_empty() {
        return Err(Error::SourceServed { dir: config.data_dir.clone(), written: copied.written });
    }
    Ok(report(&copied, config, &server.shown(), millis(started)))
}

fn report(copied: &Copied, config: &Config, server: &str, ms: u64) -> Report {
    let rows: u64 = copied.tables.iter().map(|it| it.source_rows).sum();
    let mut text = format!(
        "{} to {server}: {} rows written, {rows} rows in {} tables compared in {ms} ms",
        show(&config.data_dir),
        copied.written,
        copied.tables.len()
    );
    let different: Vec<_> = copied.tables.iter().filter(|it| !it.is_equal).collect();
    text.push_str(if different.is_empty() { "; all are equal" } else { "; these differ:" });
    for it in &different {
        let (table, source, target) = (it.table, it.source_rows, it.target_rows);
        text.push_str(&format!("\n  {table}: {source} rows in SQLite, {target} in PostgreSQL"));
    }
    let tables: Vec<_> = copied
        .tables
        .iter()
        .map(|it| {
            json!({
                "table": it.table,
                "sourceRows": it.source_rows,
                "targetRows": it.target_rows,
                "equal": it.is_equal,
            })
        })
        .collect();
    let json = json!({ "written": copied.written, "tables": tables, "ms": ms });
    Report { text, json, problems: !different.is_empty() }
}
