//! Reads of all that is stored about an account, table by table.

use domain::{AccountId, TenantNo};

use super::StoreError;

/// Reads of all that is stored about an account, table by table.
pub trait ExportQueries: Send + Sync {
    /// The rows behind a point, at most `limit`, all of one table. Hashes, sealed values and check values are
    /// left out.
    ///
    /// # Errors
    /// [`StoreError`].
    fn export(
        &self,
        of: (TenantNo, AccountId),
        from: ExportPoint,
        limit: u64,
    ) -> Result<ExportPart, StoreError>;
}

/// Where an export goes on; the default is its begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportPoint {
    /// The table, by its place in the export.
    pub table: usize,
    /// The key of the last row of it, as the store writes it; empty before the first.
    pub after: Vec<ExportKey>,
}

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportKey {
    Int(i64),
    Id([u8; 16]),
    Text(String),
}

/// Rows of a table.
#[derive(Clone, Debug)]
pub struct ExportPart {
    pub table: &'static str,
    pub columns: Vec<&'static str>,
    /// A cell per column; `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Where to go on; `None` at the end.
    pub next: Option<ExportPoint>,
}
