//! Rows with check values: each is as it was written, see `driver/check.rs`.

use engine::ports::StoreError;

use super::{Report, each_row};
use crate::driver::{Cells, CheckKey, Reader};
use crate::tables::{INSTALLATION, TABLES, Table};

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let key = CheckKey::read(reader)?;
    verify_table(reader, report, (&INSTALLATION, &key))?;
    if report.problems.iter().any(|it| it.table == INSTALLATION.name) {
        // No check value can be trusted.
        return Ok(());
    }
    let others = |table: &&&Table| table.is_checked && table.name != INSTALLATION.name;
    for &table in TABLES.iter().filter(others) {
        let checked = verify_table(reader, report, (table, &key));
        report.go_on(reader, table.name, checked)?;
    }
    // Of those that no other check reads, at least the columns are there.
    for &table in TABLES.iter().filter(|table| !table.is_checked) {
        let read = reader.query_one(&table.select("LIMIT 1"), &[], |_| Ok(()));
        report.go_on(reader, table.name, read.map(drop))?;
    }
    Ok(())
}

fn verify_table(
    reader: &Reader,
    report: &mut Report,
    (table, key): (&'static Table, &CheckKey),
) -> Result<(), StoreError> {
    each_row(reader, report, (table, &table.select("")), |cells, report| {
        verify_row(cells, report, (table, key))
    })
}

/// Verifies a row of a checked table.
pub(super) fn verify_row(
    cells: &mut Cells<'_>,
    report: &mut Report,
    (table, key): (&Table, &CheckKey),
) -> Result<(), StoreError> {
    let mut row = cells.clone();
    if !key.holds(table, cells)? {
        report.problem(table.name, row.describe(table.key_columns), "is not what was written");
    }
    Ok(())
}
