//! Rows of [`tables::AUDIT_IMPORTED`].

use domain::import::{AuditEntry, ImportedAudit};
use engine::ports::StoreError;

use crate::codes::{audit_kind, audit_kind_code};
use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn audit_row(it: &AuditEntry) -> [Value<'_>; 10] {
    [
        it.tenant.into(),
        it.entry.object.into(),
        i64::from(it.ordinal).into(),
        it.account.into(),
        audit_kind_code(it.entry.kind).into(),
        it.entry.at.into(),
        (&it.entry.changed_by).into(),
        it.entry.reason.as_ref().into(),
        it.entry.comments.as_ref().into(),
        it.entry.token.into(),
    ]
}

/// Reads a row of [`tables::AUDIT_IMPORTED`].
pub(crate) fn imported_audit(cells: &mut Cells<'_>) -> Result<ImportedAudit, StoreError> {
    cells.of(&tables::AUDIT_IMPORTED);
    cells.skip(1);
    let object = cells.id()?;
    cells.skip(2);
    Ok(ImportedAudit {
        object,
        kind: cells.code(audit_kind)?,
        at: cells.time()?,
        changed_by: cells.string()?,
        reason: cells.opt_string()?,
        comments: cells.opt_string()?,
        token: cells.id()?,
    })
}
