//! Data imported from other systems: the table that came with the schema's version 7.

use super::{CHECK_MADE, CHECK_NOW, Layout, Table, id, index, int, text};

/// Entries of other systems' audit logs, of accounts and what belongs to them. They go with the account's person.
pub static AUDIT_IMPORTED: Table = Table {
    name: "audit_imported",
    columns: &[
        int("tenant"),
        id("object_id"),
        int("ordinal"),
        id("account_id").fixed(),
        int("kind").fixed(),
        int("at_us").fixed(),
        text("changed_by").fixed(),
        text("reason").null().fixed(),
        text("comments").null().fixed(),
        id("token").fixed(),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[index("audit_imported_by_account", "tenant, account_id, object_id, ordinal")],
};

/// The tables that came with the schema's version 7.
pub(crate) static OF_VERSION_7: [&Table; 1] = [&AUDIT_IMPORTED];
