//! Reads of operations, and of what sign-up still has to do.

use std::sync::LazyLock;

use domain::customer::operation::Operation;
use domain::payment::ReplyKey;
use domain::{OperationId, TenantNo, Timestamp};
use engine::ports::{Backlog, ExpiryCutoffs, OperationQueries, StoreError};

use super::{SqlQueries, billing, window};
use crate::tables::{
    self, GIVEN_UP, MAIL, OPERATION, REPLY, SESSION, SETTLED, TO_NOTIFY, TO_SEND, Table,
    USAGE_EVENT, USAGE_RESERVATION, WAITING,
};

impl OperationQueries for SqlQueries {
    fn operation(&self, no: TenantNo, id: OperationId) -> Result<Option<Operation>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| OPERATION.select("WHERE tenant = ?1 AND id = ?2"));
            reader.query_one(&SQL, &[no.into(), id.into()], |cells| tables::OPERATION.row(cells))
        })
    }

    fn operations_waiting(
        &self,
        after: Option<OperationId>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                OPERATION.select(&format!("WHERE {WAITING} AND id > ?1 ORDER BY id LIMIT ?2"))
            });
            let after = after.unwrap_or(OperationId::new(uuid::Uuid::nil()));
            reader.query(&SQL, &[after.into(), window::limit(limit as u64)], |cells| {
                tables::OPERATION.row(cells)
            })
        })
    }

    fn operations_to_notify(
        &self,
        now: Timestamp,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> Result<Vec<Operation>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                let rest = format!(
                    "WHERE {TO_NOTIFY} AND notify_at_us <= ?1 AND (notify_at_us, id) > (?2, ?3) \
                     ORDER BY notify_at_us, id LIMIT ?4"
                );
                OPERATION.select(&rest)
            });
            let (at, id) =
                after.unwrap_or((Timestamp(i64::MIN), OperationId::new(uuid::Uuid::nil())));
            let limit = window::limit(limit as u64);
            reader.query(&SQL, &[now.into(), at.into(), id.into(), limit], |cells| {
                tables::OPERATION.row(cells)
            })
        })
    }

    fn backlog(&self, now: Timestamp) -> Result<Backlog, StoreError> {
        // What is still to be done: mails that are tried, and operations that are to be made. Those who look
        // often are to read little: a count ends somewhere, and the first is the first of an index.
        self.snapshot(|reader| {
            const QUARANTINED: &str =
                "SELECT count(*) FROM (SELECT 1 FROM quarantine LIMIT ?1) AS counted";
            const PARKED: &str = "SELECT count(*) FROM (SELECT 1 FROM account_billing \
                 WHERE parked IS NOT NULL LIMIT ?1) AS counted";
            static MAILS: LazyLock<String> = LazyLock::new(|| {
                format!(
                    "SELECT count(*) FROM (SELECT 1 FROM mail WHERE {TO_SEND} LIMIT ?1) AS counted"
                )
            });
            static MAIL_DUE: LazyLock<String> =
                LazyLock::new(|| format!("SELECT min(due_at_us) FROM mail WHERE {TO_SEND}"));
            static OPERATION: LazyLock<String> = LazyLock::new(|| {
                format!("SELECT created_at_us FROM operation WHERE {WAITING} ORDER BY id LIMIT 1")
            });
            let count = |sql: &str| {
                let counted =
                    reader.query_one(sql, &[Backlog::COUNTED_MAX.into()], |cells| cells.int())?;
                Ok::<_, StoreError>(counted.unwrap_or_default())
            };
            let first = |sql: &str| {
                let found = reader.query_one(sql, &[], |cells| cells.opt_int())?;
                Ok::<_, StoreError>(found.flatten().map(Timestamp))
            };
            Ok(Backlog {
                mails: count(&MAILS)?,
                mail_due_at: first(&MAIL_DUE)?,
                operations: count(&WAITING_COUNT)?,
                oldest_operation_at: first(&OPERATION)?,
                quarantined: count(QUARANTINED)?,
                billing_due_at: billing::oldest_due(reader, None, now)?,
                parked: count(PARKED)?,
            })
        })
    }

    fn operations_waiting_count(&self, counted_max: usize) -> Result<usize, StoreError> {
        self.read(|reader| {
            let limit = window::limit(counted_max as u64);
            let counted = reader.query_one(&WAITING_COUNT, &[limit], |cells| cells.int())?;
            Ok(counted.and_then(|it| usize::try_from(it).ok()).unwrap_or_default())
        })
    }

    fn has_reply(&self, key: ReplyKey, now: Timestamp) -> Result<bool, StoreError> {
        self.read(|reader| {
            let sql =
                "SELECT 1 FROM reply WHERE key = ?1 AND (answer IS NULL OR expires_at_us > ?2)";
            let key = [key.into(), now.into()];
            Ok(reader.query_one(sql, &key, |cells| cells.int())?.is_some())
        })
    }

    fn has_expired(&self, cutoffs: ExpiryCutoffs) -> Result<bool, StoreError> {
        self.read(|reader| {
            for (table, rest, until) in expiries(cutoffs) {
                let name = table.name;
                let sql = format!("SELECT 1 FROM {name} WHERE {rest} < ?1 LIMIT 1");
                if reader.query_one(&sql, &[until.into()], |cells| cells.int())?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}

static WAITING_COUNT: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT count(*) FROM (SELECT 1 FROM operation WHERE {WAITING} LIMIT ?1) AS counted")
});

/// Of rows that expire: their table, the condition that an index of it has, and the time before which they are expired.
pub(crate) fn expiries(cutoffs: ExpiryCutoffs) -> [(&'static Table, String, Timestamp); 6] {
    let ExpiryCutoffs {
        operations_settled,
        mails_given_up,
        sessions_ended,
        replies_expired,
        usage_forgotten,
    } = cutoffs;
    [
        (&OPERATION, format!("{SETTLED} AND settled_at_us"), operations_settled),
        (&MAIL, format!("{GIVEN_UP} AND created_at_us"), mails_given_up),
        (&SESSION, "refresh_until_us".to_owned(), sessions_ended),
        // One that has no answer yet keeps a second charge away, however long the first one is in doubt.
        (&REPLY, "answer IS NOT NULL AND expires_at_us".to_owned(), replies_expired),
        (&USAGE_EVENT, "counted_at_us".to_owned(), usage_forgotten),
        (&USAGE_RESERVATION, "until_us".to_owned(), usage_forgotten),
    ]
}
