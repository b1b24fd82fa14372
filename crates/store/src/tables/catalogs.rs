//! Versions of tenants' catalogs.

use std::sync::Arc;

use domain::tenant::catalog::{CatalogText, CatalogVersion};

use super::{CHECKED, Table, id, index, int, text};
use crate::stored::TableOf;

/// Versions of catalogs, as they were compiled. `compiled` is JSON.
pub static CATALOG_VERSION: TableOf<CatalogVersion> = TableOf::<CatalogVersion>::new(
    Table {
        name: "catalog_version",
        since: 21,
        indexes: &[index("catalog_version_by_seq", "tenant, seq")],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        int("effective_at_us").fixed().of(|it, _| it.effective_at.into()),
        int("is_withdrawn").of(|it, _| it.is_withdrawn.into()),
        int("bytes").of(|it, _| it.bytes.cast_signed().into()),
        text("compiled").of(|it, cx| cx.json(&*it.catalog)),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(CatalogVersion {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            effective_at: cells.time()?,
            is_withdrawn: cells.flag()?,
            bytes: cells.length()?,
            catalog: Arc::new(cells.json()?),
            revision: cells.revision()?,
        })
    },
)
.parts("WHERE tenant = ?1");

/// The texts of versions, as they were uploaded; empty where simple plans were added.
pub static CATALOG_TEXT: TableOf<CatalogText> = TableOf::new(
    Table { name: "catalog_text", since: 21, ..CHECKED },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        text("text").of(|it, _| (&it.text).into()),
    ],
    |cells| Ok(CatalogText { tenant: cells.tenant()?, id: cells.entity()?, text: cells.string()? }),
);
