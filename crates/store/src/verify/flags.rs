//! Environments against what belongs to them.

use engine::ports::StoreError;

use super::{Report, list};
use crate::driver::Reader;

/// Rows of which this holds belong to no environment.
const LOST: &str = "NOT EXISTS (SELECT 1 FROM environment e \
                    WHERE e.tenant = it.tenant AND e.id = it.environment_id)";

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    for table in ["definition", "environment_secret"] {
        let sql = format!("SELECT id FROM {table} it WHERE {LOST}");
        list(reader, report, (table, "is of an environment that is not there"), &sql)?;
    }
    for (column, table) in [("definitions", "definition"), ("secrets", "environment_secret")] {
        let sql = format!(
            "SELECT e.id FROM environment e WHERE e.{column} <> (SELECT count(*) FROM {table} it \
             WHERE it.tenant = e.tenant AND it.environment_id = e.id)"
        );
        list(reader, report, ("environment", "does not count what belongs to it"), &sql)?;
    }
    let newer = "SELECT e.id FROM environment e WHERE EXISTS (SELECT 1 FROM definition it \
                 WHERE it.tenant = e.tenant AND it.environment_id = e.id AND it.version > e.version)";
    list(reader, report, ("environment", "is older than what is defined there"), newer)
}
