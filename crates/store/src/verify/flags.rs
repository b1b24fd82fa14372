//! Environments against what belongs to them.

use engine::ports::StoreError;

use super::{Report, list};
use crate::driver::Reader;

/// Rows of which this holds belong to no environment.
const LOST: &str = "NOT EXISTS (SELECT 1 FROM environment e \
                    WHERE e.tenant = it.tenant AND e.id = it.environment_id)";

/// The statuses of changes that wait.
const CHANGE_WAITS: &str = "it.status IN (1, 2)";

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    for table in ["definition", "environment_secret", "change_request"] {
        let sql = format!("SELECT id FROM {table} it WHERE {LOST}");
        list(reader, report, (table, "is of an environment that is not there"), &sql)?;
    }
    for (column, table, counted) in [
        ("definitions", "definition", "1 = 1"),
        ("secrets", "environment_secret", "1 = 1"),
        ("changes_waiting", "change_request", CHANGE_WAITS),
    ] {
        let sql = format!(
            "SELECT e.id FROM environment e WHERE e.{column} <> (SELECT count(*) FROM {table} it \
             WHERE it.tenant = e.tenant AND it.environment_id = e.id AND {counted})"
        );
        list(reader, report, ("environment", "does not count what belongs to it"), &sql)?;
    }
    let sizes = "SELECT e.id FROM environment e WHERE e.definitions_bytes <> \
                 (SELECT COALESCE(CAST(sum(octet_length(it.body)) AS BIGINT), 0) FROM definition it \
                 WHERE it.tenant = e.tenant AND it.environment_id = e.id)";
    list(reader, report, ("environment", "does not count the bytes of what belongs to it"), sizes)?;
    let newer = "SELECT e.id FROM environment e WHERE EXISTS (SELECT 1 FROM definition it \
                 WHERE it.tenant = e.tenant AND it.environment_id = e.id AND it.version > e.version)";
    list(reader, report, ("environment", "is older than what is defined there"), newer)
}

#[cfg(test)]
mod tests {
    use domain::flag::change_request::ChangeStatus::{Pending, Scheduled};

    use super::*;
    use crate::codes::code;

    #[test]
    fn changes_wait_for_approval_or_for_their_time() {
        let [a, b] = [Pending, Scheduled].map(code);
        assert_eq!(CHANGE_WAITS, format!("it.status IN ({a}, {b})"));
    }
}
