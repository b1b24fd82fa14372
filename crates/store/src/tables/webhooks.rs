//! Webhooks: deliveries that wait, and beside the journal the log of deliveries.

use engine::ports::{Delivery, DeliveryId};

use super::{CHECKED, CLUSTERED, Table, id, index, int, text};
use crate::stored::TableOf;

/// Events to be delivered again, by their place in the journal and the endpoint.
pub static DELIVERY: TableOf<Delivery> = TableOf::new(
    Table {
        name: "webhook_delivery",
        since: 10,
        key_columns: 3,
        indexes: &[index("webhook_delivery_by_due_at", "due_at_us, seq, ordinal, endpoint_id")],
        ..CHECKED
    },
    &[
        int("seq").of(|it, _| it.id.seq.into()),
        int("ordinal").of(|it, _| i64::from(it.id.ordinal).into()),
        id("endpoint_id").of(|it, _| it.id.endpoint.into()),
        int("tenant").fixed().of(|it, _| it.tenant.into()),
        int("attempts").of(|it, _| i64::from(it.attempts).into()),
        int("due_at_us").of(|it, _| it.due_at.into()),
        text("error").of(|it, _| (&it.error).into()),
    ],
    |cells| {
        let seq = cells.seq()?;
        let ordinal = cells.int()?;
        let ordinal = u16::try_from(ordinal).map_err(|_| cells.corrupt("is no event's place"))?;
        Ok(Delivery {
            id: DeliveryId { seq, ordinal, endpoint: cells.entity()? },
            tenant: cells.tenant()?,
            attempts: cells.count()?,
            due_at: cells.time()?,
            error: cells.string()?,
        })
    },
);

/// Tries to deliver, as they were made. `number` counts up in a partition, and is near the time in microseconds;
/// `bytes` is about what the row takes.
pub static DELIVERY_TRY: Table = Table {
    name: "webhook_try",
    since: 10,
    indexes: &[index("webhook_try_by_tenant", "tenant, number, partition")],
    ..CLUSTERED
}
.of(&[
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
]);

/// Whether endpoints receive, as the owner of each partition sees it. `refused` says why an endpoint is to be
/// switched off, 0 where it is not.
pub static ENDPOINT_HEALTH: Table =
    Table { name: "webhook_health", since: 10, key_columns: 3, ..CLUSTERED }.of(&[
        int("tenant"),
        id("endpoint_id"),
        int("partition"),
        int("failing_since_us").null(),
        int("received_at_us").null(),
        int("refused"),
    ]);

/// Events that are sent again. `events` is a JSON list.
pub static REPLAY: Table = Table { name: "webhook_replay", since: 10, ..CLUSTERED }.of(&[
    int("tenant"),
    id("id"),
    id("endpoint_id").null(),
    int("from_us"),
    int("to_us"),
    text("events"),
    id("account_id").null(),
    int("created_at_us"),
]);

/// How far replays are in each partition.
pub static REPLAY_PROGRESS: Table =
    Table { name: "webhook_replay_progress", since: 10, key_columns: 3, ..CLUSTERED }.of(&[
        int("tenant"),
        id("id"),
        int("partition"),
        int("upto").null(),
        int("queued"),
        int("is_done"),
    ]);

/// The tables of the log.
pub(crate) static LOG_TABLES: &[&Table] =
    &[&DELIVERY_TRY, &ENDPOINT_HEALTH, &REPLAY, &REPLAY_PROGRESS];
