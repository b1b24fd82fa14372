//! Webhooks: what waits to be delivered, and beside the journal the log of deliveries: the tables that came with the
//! schema's version 10.

use super::{CHECK_MADE, CHECK_NOW, CLUSTERED, Layout, Table, id, index, int, text};

/// Events to be delivered again, by their place in the journal and the endpoint.
pub static DELIVERY: Table = Table {
    name: "webhook_delivery",
    columns: &[
        int("seq"),
        int("ordinal"),
        id("endpoint_id"),
        int("tenant").fixed(),
        int("attempts"),
        int("due_at_us"),
        text("error"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[index("webhook_delivery_by_due_at", "due_at_us, seq, ordinal, endpoint_id")],
};

/// Tries to deliver, as they were made. `number` counts up in a partition, and is near the time in microseconds;
/// `bytes` is about what the row takes.
pub static DELIVERY_TRY: Table = Table {
    name: "webhook_try",
    columns: &[
        int("partition"),
        int("number"),
        int("tenant"),
        id("endpoint_id"),
        int("seq"),
        int("ordinal"),
        text("event_type"),
        int("attempt"),
        int("at_us"),
        int("outcome"),
        int("status").null(),
        int("took_ms"),
        text("answer").null(),
        text("error").null(),
        int("next_at_us").null(),
        int("bytes"),
    ],
    indexes: &[index("webhook_try_by_tenant", "tenant, number, partition")],
    ..CLUSTERED
};

/// Whether endpoints receive, as the owner of each partition sees it. `refused` says why an endpoint is to be
/// switched off, 0 where it is not.
pub static ENDPOINT_HEALTH: Table = Table {
    name: "webhook_health",
    columns: &[
        int("tenant"),
        id("endpoint_id"),
        int("partition"),
        int("failing_since_us").null(),
        int("received_at_us").null(),
        int("refused"),
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Events that are sent again. `events` is a JSON list.
pub static REPLAY: Table = Table {
    name: "webhook_replay",
    columns: &[
        int("tenant"),
        id("id"),
        id("endpoint_id").null(),
        int("from_us"),
        int("to_us"),
        text("events"),
        id("account_id").null(),
        int("created_at_us"),
    ],
    ..CLUSTERED
};

/// How far replays are in each partition.
pub static REPLAY_PROGRESS: Table = Table {
    name: "webhook_replay_progress",
    columns: &[
        int("tenant"),
        id("id"),
        int("partition"),
        int("upto").null(),
        int("queued"),
        int("is_done"),
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[],
};

/// The tables that came with the schema's version 10.
pub(crate) static OF_VERSION_10: [&Table; 5] =
    [&DELIVERY, &DELIVERY_TRY, &ENDPOINT_HEALTH, &REPLAY, &REPLAY_PROGRESS];

/// The tables of the log.
pub(crate) static LOG_TABLES: &[&Table] =
    &[&DELIVERY_TRY, &ENDPOINT_HEALTH, &REPLAY, &REPLAY_PROGRESS];

/// Push notifications to be tried again, as the schema had them until version 9. [`DELIVERY`] took their place.
pub(crate) static DELIVERY_BEFORE_10: Table = Table {
    name: "delivery",
    columns: &[
        int("seq"),
        int("ordinal"),
        int("tenant").fixed(),
        int("attempts"),
        int("due_at_us"),
        text("error"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[index("delivery_by_due_at", "due_at_us")],
    ..CLUSTERED
};
