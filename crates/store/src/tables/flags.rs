//! The tables of feature flags, all but those of insights (`insights.rs`).

use super::{CHECK_MADE, CHECK_NOW, CLUSTERED, Index, Layout, Table, id, index, int, text};

/// Environments of feature flags. `version` is that of their last change.
pub static ENVIRONMENT: Table = Table {
    name: "environment",
    columns: &[
        int("tenant"),
        id("id"),
        text("project").fixed(),
        text("key").fixed(),
        text("name"),
        int("version"),
        int("definitions"),
        int("secrets"),
        int("created_at_us").fixed(),
        int("seq"),
        int("changes_need_approval"),
        int("changes_waiting"),
        int("definitions_bytes"),
    ],
    indexes: &[index("environment_by_seq", "seq")],
    ..CLUSTERED
};

/// Secrets of environments, those that ended too. `sealed` is encrypted.
pub static ENVIRONMENT_SECRET: Table = Table {
    name: "environment_secret",
    columns: &[
        int("tenant"),
        id("id"),
        id("environment_id").fixed(),
        int("kind").fixed(),
        text("name"),
        text("sealed").fixed(),
        int("created_at_us").fixed(),
        int("expires_at_us").null(),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[index("environment_secret_by_environment", "tenant, environment_id, id")],
    ..CLUSTERED
};

/// Feature flags and segments: `body` is a document.
pub static DEFINITION: Table = Table {
    name: "definition",
    columns: &[
        int("tenant"),
        id("environment_id"),
        int("kind"),
        text("key"),
        id("id").fixed(),
        text("body"),
        int("is_archived"),
        int("version"),
        int("created_at_us").fixed(),
        int("seq"),
    ],
    key_columns: 4,
    layout: Layout::Clustered,
    indexes: &[index("definition_by_version", "tenant, environment_id, version")],
};

/// Changes that are made when their time has come.
pub(crate) const DUE: &str = "status = 2";

/// Changes of flags and segments that are kept for later, those that came to an end too.
pub static CHANGE_REQUEST: Table = Table {
    name: "change_request",
    columns: &[
        int("tenant"),
        id("id"),
        id("environment_id").fixed(),
        int("kind").fixed(),
        text("key").fixed(),
        text("patch").fixed(),
        int("expected").null().fixed(),
        text("author").fixed(),
        text("reason").null().fixed(),
        text("comment").null().fixed(),
        int("created_at_us").fixed(),
        int("due_at_us").null(),
        int("status"),
        text("decided_by").null(),
        text("explanation").null(),
        int("version").null(),
        int("settled_at_us").null(),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[
        index("change_request_by_environment", "tenant, environment_id, id"),
        Index {
            name: "change_request_due",
            columns: "due_at_us, id",
            unique: false,
            only: Some(DUE),
        },
    ],
    ..CLUSTERED
};
