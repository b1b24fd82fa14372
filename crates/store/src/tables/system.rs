//! Rows of partitions that are no entities: replies, timers and quarantine.

use domain::RequestId;
use domain::payment::ReplyKey;
use domain::timer::{Timer, TimerKey};
use engine::ports::StoreError;
use engine::ports::{QuarantineReason, Quarantined, StoredReply};

use super::{CHECKED, Table, id, index, int, text};
use crate::codes::code;
use crate::driver::{Cells, Value};
use crate::stored::TableOf;

/// Stored replies; `answer` is NULL while the request runs or its outcome is in doubt.
pub static REPLY: Table = Table {
    name: "reply",
    key_columns: 1,
    indexes: &[index("reply_by_expiry", "expires_at_us")],
    ..CHECKED
}
.of(&[id("key"), id("fingerprint"), text("answer").null(), int("expires_at_us")]);

pub(crate) fn reply_row<'a>(it: &StoredReply, answer: Option<&'a str>) -> [Value<'a>; 4] {
    [it.key.into(), it.fingerprint.into(), answer.into(), it.expires_at.into()]
}

/// Reads a row of [`REPLY`].
pub(crate) fn reply(cells: &mut Cells<'_>) -> Result<StoredReply, StoreError> {
    cells.of(&REPLY);
    Ok(StoredReply {
        key: ReplyKey(cells.id()?),
        fingerprint: cells.id()?,
        answer: cells.opt_json()?,
        expires_at: cells.time()?,
    })
}

/// Timers that are set, each with the partition that fires it.
pub static TIMER: TableOf<Timer> = TableOf::new(
    Table {
        name: "timer",
        since: 6,
        key_columns: 3,
        indexes: &[index("timer_by_due_at", "partition, due_at_us, tenant, kind, object_id")],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        int("kind").of(|it, _| code(it.key.kind).into()),
        id("object_id").of(|it, _| it.key.object.into()),
        id("account_id").fixed().of(|it, _| it.account.into()),
        int("due_at_us").of(|it, _| it.due.into()),
        int("partition").fixed().of(|_, cx| cx.partition.number().into()),
    ],
    |cells| {
        Ok(Timer {
            tenant: cells.tenant()?,
            key: TimerKey { kind: cells.code()?, object: cells.id()? },
            account: cells.entity()?,
            due: cells.time()?,
        })
    },
);

/// Accounts that are out of service, each since a command that could not be carried out.
pub static QUARANTINE: TableOf<Quarantined> = TableOf::new(
    Table { name: "quarantine", ..CHECKED },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("account_id").of(|it, _| it.account.into()),
        int("since_us").fixed().of(|it, _| it.since.into()),
        id("request_id").fixed().of(|it, _| it.request.0.into()),
        text("command").fixed().of(|it, _| (&it.command).into()),
        text("reason").fixed().of(|it, _| it.reason.label().into()),
    ],
    |cells| {
        let (tenant, account, since) = (cells.tenant()?, cells.entity()?, cells.time()?);
        let (request, command) = (RequestId(cells.id()?), cells.string()?);
        let label = cells.string()?;
        let reason = QuarantineReason::ALL.into_iter().find(|it| it.label() == label);
        let reason = reason.ok_or_else(|| cells.corrupt("is no reason"))?;
        Ok(Quarantined { tenant, account, since, request, command, reason })
    },
);
