//! Feature flags, all but insights (`insights.rs`).

use domain::flag::change_request::ChangeRequest;
use domain::flag::definition::{Definition, DefinitionKey};
use domain::flag::environment::{Environment, Secret};

use super::{CHECKED, CLUSTERED, Table, id, index, int, only, text};
use crate::codes::code;
use crate::stored::TableOf;

/// Environments of feature flags. `version` is that of their last change.
pub static ENVIRONMENT: TableOf<Environment> = TableOf::new(
    Table { name: "environment", indexes: &[index("environment_by_seq", "seq")], ..CLUSTERED },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        text("project").fixed().of(|it, _| (&it.project).into()),
        text("key").fixed().of(|it, _| (&it.key).into()),
        text("name").of(|it, _| (&it.name).into()),
        int("version").of(|it, _| it.version.into()),
        int("definitions").of(|it, _| i64::from(it.definitions).into()),
        int("secrets").of(|it, _| i64::from(it.secrets).into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
        int("changes_need_approval").of(|it, _| it.changes_need_approval.into()),
        int("changes_waiting").of(|it, _| i64::from(it.changes_waiting).into()),
        int("definitions_bytes").of(|it, _| it.definitions_bytes.cast_signed().into()),
    ],
    |cells| {
        Ok(Environment {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            project: cells.string()?,
            key: cells.string()?,
            name: cells.string()?,
            version: cells.int()?,
            definitions: cells.count()?,
            secrets: cells.count()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
            changes_need_approval: cells.flag()?,
            changes_waiting: cells.count()?,
            definitions_bytes: cells.length()?,
        })
    },
);

/// Secrets of environments, those that ended too. `sealed` is encrypted.
pub static ENVIRONMENT_SECRET: TableOf<Secret> = TableOf::new(
    Table {
        name: "environment_secret",
        indexes: &[index("environment_secret_by_environment", "tenant, environment_id, id")],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("environment_id").fixed().of(|it, _| it.environment.into()),
        int("kind").fixed().of(|it, _| code(it.kind).into()),
        text("name").of(|it, _| (&it.name).into()),
        text("sealed").fixed().of(|it, _| (&it.sealed).into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("expires_at_us").null().of(|it, _| it.expires_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Secret {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            environment: cells.entity()?,
            kind: cells.code()?,
            name: cells.string()?,
            sealed: cells.string()?,
            created_at: cells.time()?,
            expires_at: cells.opt_time()?,
            revision: cells.revision()?,
        })
    },
);

/// Feature flags and segments: `body` is a document.
pub static DEFINITION: TableOf<Definition> = TableOf::new(
    Table {
        name: "definition",
        key_columns: 4,
        indexes: &[index("definition_by_version", "tenant, environment_id, version")],
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("environment_id").of(|it, _| it.key.environment.into()),
        int("kind").of(|it, _| code(it.key.kind).into()),
        text("key").of(|it, _| (&it.key.key).into()),
        id("id").fixed().of(|it, _| it.id.into()),
        text("body").of(|it, _| (&it.body).into()),
        int("is_archived").of(|it, _| it.is_archived.into()),
        int("version").of(|it, _| it.version.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(Definition {
            tenant: cells.tenant()?,
            key: DefinitionKey {
                environment: cells.entity()?,
                kind: cells.code()?,
                key: cells.string()?,
            },
            id: cells.entity()?,
            body: cells.string()?,
            is_archived: cells.flag()?,
            version: cells.int()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
);

/// Changes that are made when their time has come.
pub(crate) const DUE: &str = "status = 2";

/// Changes of flags and segments that are kept for later, those that came to an end too.
pub static CHANGE_REQUEST: TableOf<ChangeRequest> = TableOf::new(
    Table {
        name: "change_request",
        indexes: &[
            index("change_request_by_environment", "tenant, environment_id, id"),
            only("change_request_due", "due_at_us, id", DUE),
        ],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("environment_id").fixed().of(|it, _| it.key.environment.into()),
        int("kind").fixed().of(|it, _| code(it.key.kind).into()),
        text("key").fixed().of(|it, _| (&it.key.key).into()),
        text("patch").fixed().of(|it, _| (&it.patch).into()),
        int("expected").null().fixed().of(|it, _| it.expected.into()),
        text("author").fixed().of(|it, _| (&it.author).into()),
        text("reason").null().fixed().of(|it, _| it.reason.as_ref().into()),
        text("comment").null().fixed().of(|it, _| it.comment.as_ref().into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("due_at_us").null().of(|it, _| it.due_at.into()),
        int("status").of(|it, _| code(it.status).into()),
        text("decided_by").null().of(|it, _| it.decided_by.as_ref().into()),
        text("explanation").null().of(|it, _| it.explanation.as_ref().into()),
        int("version").null().of(|it, _| it.version.into()),
        int("settled_at_us").null().of(|it, _| it.settled_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(ChangeRequest {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            key: DefinitionKey {
                environment: cells.entity()?,
                kind: cells.code()?,
                key: cells.string()?,
            },
            patch: cells.string()?,
            expected: cells.opt_int()?,
            author: cells.string()?,
            reason: cells.opt_string()?,
            comment: cells.opt_string()?,
            created_at: cells.time()?,
            due_at: cells.opt_time()?,
            status: cells.code()?,
            decided_by: cells.opt_string()?,
            explanation: cells.opt_string()?,
            version: cells.opt_int()?,
            settled_at: cells.opt_time()?,
            revision: cells.revision()?,
        })
    },
);
