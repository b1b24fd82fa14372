//! Replays of webhook events: what was asked for, and how far each partition is. They stand beside the log of
//! deliveries.

use domain::{PartitionNo, TenantNo};
use engine::ports::{Replays, StoreError};
use engine::webhooks::{REPLAYS_MAX, Replay, ReplayProgress};
use uuid::Uuid;

use crate::cells::json;
use crate::driver::{Cells, Database};
use crate::tables::{REPLAY, REPLAY_PROGRESS};

/// How many replays of a partition are looked at.
const RUNNING_MAX: i64 = 16;

/// How many of them may be a tenant's: those of one whose endpoints are slow keep others waiting.
const RUNNING_PER_TENANT_MAX: i64 = 2;

/// In how many partitions the replay of `r` is done.
const DONE_IN: &str = "(SELECT count(*) FROM webhook_replay_progress p \
                       WHERE p.tenant = r.tenant AND p.id = r.id AND p.is_done = 1)";

/// A connection to the replays.
pub(crate) struct SqlReplays {
    db: Database,
}

impl SqlReplays {
    pub(crate) const fn new(db: Database) -> Self {
        Self { db }
    }

    fn write(&self, it: &Replay, partitions: i64) -> Result<(), StoreError> {
        let events = json(&it.events);
        let (from, to) = it.times;
        self.db.insert(&REPLAY)?.row(&[
            it.tenant.into(),
            it.id.into(),
            it.endpoint.into(),
            from.into(),
            to.into(),
            (&events).into(),
            it.account.into(),
            it.created_at.into(),
        ])?;
        // Those that run first, and of the others the newest.
        let kept = format!(
            "SELECT r.id FROM webhook_replay r WHERE r.tenant = ?1 \
             ORDER BY CASE WHEN {DONE_IN} < ?2 THEN 0 ELSE 1 END, r.created_at_us DESC, r.id DESC LIMIT ?3"
        );
        let sql = format!(
            "DELETE FROM webhook_replay AS r WHERE r.tenant = ?1 AND {DONE_IN} >= ?2 AND r.id NOT IN ({kept})"
        );
        let tenant = it.tenant.into();
        self.db.prepare(&sql)?.row(&[tenant, partitions.into(), REPLAYS_MAX.into()])?;
        let sql = "DELETE FROM webhook_replay_progress WHERE tenant = ?1 \
                   AND id NOT IN (SELECT id FROM webhook_replay WHERE tenant = ?1)";
        self.db.prepare(sql)?.row(&[tenant])
    }
}

impl Replays for SqlReplays {
    fn add(&self, it: &Replay, partitions: usize) -> Result<bool, StoreError> {
        let partitions = i64::try_from(partitions).unwrap_or(i64::MAX);
        let of = [it.tenant.into(), partitions.into()];
        self.db.begin()?;
        let sql =
            format!("SELECT count(*) FROM webhook_replay r WHERE r.tenant = ?1 AND {DONE_IN} < ?2");
        let running = self.db.reader().query_one(&sql, &of, |cells| cells.int());
        let written = running.and_then(|running| {
            let has_room = running.is_none_or(|running| running < REPLAYS_MAX);
            if has_room {
                self.write(it, partitions)?;
            }
            self.db.commit().map(|()| has_room)
        });
        if written.is_err() {
            // What went wrong first is worth more.
            drop(self.db.rollback());
        }
        written
    }

    fn running(&self, partition: PartitionNo) -> Result<Vec<(Replay, ReplayProgress)>, StoreError> {
        let sql = format!(
            "SELECT {}, upto, queued, is_done FROM ( \
               SELECT {}, p.upto, p.queued, p.is_done, row_number() OVER \
                 (PARTITION BY r.tenant ORDER BY r.created_at_us, r.id) AS place \
               FROM webhook_replay r LEFT JOIN webhook_replay_progress p \
               ON p.tenant = r.tenant AND p.id = r.id AND p.partition = ?1 \
               WHERE coalesce(p.is_done, 0) = 0) waiting \
             WHERE place <= ?3 ORDER BY created_at_us, id LIMIT ?2",
            REPLAY.select_list(""),
            REPLAY.select_list("r.")
        );
        let parameters =
            [partition.number().into(), RUNNING_MAX.into(), RUNNING_PER_TENANT_MAX.into()];
        self.db.reader().query(&sql, &parameters, |cells| Ok((replay(cells)?, progress(cells)?)))
    }

    fn advance(
        &self,
        (tenant, id): (TenantNo, Uuid),
        partition: PartitionNo,
        it: ReplayProgress,
    ) -> Result<(), StoreError> {
        let key = [tenant.into(), id.into(), partition.number().into()];
        let row = [key[0], key[1], key[2], it.upto.into(), it.queued.into(), it.is_done.into()];
        self.db.begin()?;
        self.db.upsert(&REPLAY_PROGRESS)?.row(&row)?;
        self.db.commit()
    }

    fn find(
        &self,
        tenant: TenantNo,
        id: Uuid,
    ) -> Result<Option<(Replay, Vec<ReplayProgress>)>, StoreError> {
        let key = [tenant.into(), id.into()];
        let sql = REPLAY.select("WHERE tenant = ?1 AND id = ?2");
        let Some(found) = self.db.reader().query_one(&sql, &key, replay)? else { return Ok(None) };
        let sql = "SELECT upto, queued, is_done FROM webhook_replay_progress \
                   WHERE tenant = ?1 AND id = ?2";
        Ok(Some((found, self.db.reader().query(sql, &key, progress)?)))
    }
}

fn replay(cells: &mut Cells<'_>) -> Result<Replay, StoreError> {
    cells.of(&REPLAY);
    Ok(Replay {
        tenant: cells.tenant()?,
        id: cells.id()?,
        endpoint: cells.opt_entity()?,
        times: (cells.time()?, cells.time()?),
        events: cells.json()?,
        account: cells.opt_entity()?,
        created_at: cells.time()?,
    })
}

fn progress(cells: &mut Cells<'_>) -> Result<ReplayProgress, StoreError> {
    Ok(ReplayProgress {
        upto: cells.opt_int()?.map(domain::Seq),
        queued: cells.opt_int()?.unwrap_or_default(),
        is_done: cells.opt_int()? == Some(1),
    })
}
