//! Reads of timers.

use std::sync::LazyLock;

use domain::Timestamp;
use domain::timer::Timer;
use engine::ports::{StoreError, TimerQueries};
use uuid::Uuid;

use super::{SqlQueries, window};
use crate::codes::timer_kind_code;
use crate::rows;
use crate::tables::TIMER;

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
                    timer_kind_code(it.key.kind).into(),
                    it.key.object.into(),
                ],
                None => [i64::MIN.into(), 0.into(), 0.into(), Uuid::nil().into()],
            };
            let limit = window::limit(limit as u64);
            let partition = self.partition.number().into();
            let parameters = [partition, now.into(), at, tenant, kind, object, limit];
            reader.query(&SQL, &parameters, rows::timer)
        })
    }
}
