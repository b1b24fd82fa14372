//! Reads of timers.

use std::sync::LazyLock;

use domain::timer::{Timer, TimerKind};
use domain::{AccountId, AttemptId, TenantNo, Timestamp};
use engine::ports::{QueueWindow, ScheduledRetry, StoreError, TimerQueries};
use uuid::Uuid;

use super::{SqlQueries, window};
use crate::codes::code;
use crate::driver::{Cells, Value};
use crate::tables::{self, JOURNAL, PAYMENT_ATTEMPT, TIMER};

impl TimerQueries for SqlQueries {
    fn timers_due(
        &self,
        now: Timestamp,
        after: Option<&Timer>,
        limit: usize,
    ) -> Result<Vec<Timer>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                TIMER.select(
                    "WHERE partition = ?1 AND due_at_us <= ?2 \
                     AND (due_at_us, tenant, kind, object_id) > (?3, ?4, ?5, ?6) \
                     ORDER BY due_at_us, tenant, kind, object_id LIMIT ?7",
                )
            });
            let [at, tenant, kind, object] = match after {
                Some(it) => [
                    it.due.into(),
                    it.tenant.into(),
                    code(it.key.kind).into(),
                    it.key.object.into(),
                ],
                None => [i64::MIN.into(), 0.into(), 0.into(), Uuid::nil().into()],
            };
            let limit = window::limit(limit as u64);
            let partition = self.partition.number().into();
            let parameters = [partition, now.into(), at, tenant, kind, object, limit];
            reader.query(&SQL, &parameters, |cells| tables::TIMER.row(cells))
        })
    }

    fn retries_of_tenant(
        &self,
        no: TenantNo,
        account: Option<AccountId>,
        window: QueueWindow<AttemptId>,
    ) -> Result<Vec<ScheduledRetry>, StoreError> {
        // The account's attempts are few: they are a range of an index, and each has one timer.
        let of_account = account.map_or("", |_| {
            "AND t.object_id IN (SELECT id FROM payment_attempt \
             WHERE tenant = ?1 AND account_id = ?7 AND due_at_us IS NOT NULL)"
        });
        let sql = format!(
            "SELECT {}, a.payment_id, a.plugins, j.at_us, j.token FROM timer t \
             JOIN payment_attempt a ON a.tenant = t.tenant AND a.id = t.object_id \
             JOIN journal j ON j.seq = a.seq \
             WHERE t.tenant = ?1 AND t.kind = ?2 AND t.object_id > ?3 \
             AND t.due_at_us >= ?4 AND t.due_at_us <= ?5 {of_account} \
             ORDER BY t.object_id LIMIT ?6",
            TIMER.select_list("t.")
        );
        let (from, to) = window.times;
        let mut parameters = vec![
            no.into(),
            code(TimerKind::PaymentRetry).into(),
            window.after.map_or(Uuid::nil(), AttemptId::uuid).into(),
            from.into(),
            to.into(),
            window::limit(window.limit),
        ];
        parameters.extend(account.map(Value::from));
        self.read(|reader| reader.query(&sql, &parameters, scheduled_retry))
    }
}

fn scheduled_retry(cells: &mut Cells<'_>) -> Result<ScheduledRetry, StoreError> {
    let timer = tables::TIMER.row(cells)?;
    cells.of(&PAYMENT_ATTEMPT);
    let (payment, plugins) = (cells.entity()?, cells.json()?);
    cells.of(&JOURNAL);
    Ok(ScheduledRetry { timer, payment, plugins, at: cells.time()?, token: cells.id()? })
}
