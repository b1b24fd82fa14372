//! Insights: evaluation counts that SDKs report, by the hour. A process with flag APIs adds to the counts, over a
//! connection of its own beside those that own partitions: statistics neither wait for payments nor
//! stand in their journal.

use std::sync::LazyLock;

use domain::{EnvironmentId, TenantNo};
use engine::insights::{FlagCount, MetricCount};
use engine::ports::{InsightWriter, StoreError};

use crate::driver::{Cells, Database};
use crate::pool::Source;
use crate::sqlite::Options;
use crate::tables::{FLAG_INSIGHT, INSIGHT_TABLES, METRIC_INSIGHT, Table};

/// How much of the database the connection keeps in memory: it writes few rows again and again.
const CACHE_KIB: u32 = 512;

static ADD_FLAGS: LazyLock<String> =
    LazyLock::new(|| add(&FLAG_INSIGHT, ["evaluations", "for_experiments"]));
static ADD_METRICS: LazyLock<String> = LazyLock::new(|| add(&METRIC_INSIGHT, ["events", "total"]));

/// `INSERT` of counts, or their addition to those that are there.
fn add(table: &Table, counts: [&str; 2]) -> String {
    let columns = table.columns.iter().map(|it| it.name).collect::<Vec<_>>();
    let parameters = (1..=columns.len()).map(|n| format!("?{n}")).collect::<Vec<_>>();
    let (name, key) = (table.name, table.key_list());
    let sums = counts.map(|it| format!("{it} = {name}.{it} + excluded.{it}"));
    format!(
        "INSERT INTO {name} ({}) VALUES ({}) ON CONFLICT ({key}) DO UPDATE SET {}",
        columns.join(", "),
        parameters.join(", "),
        sums.join(", ")
    )
}

/// A connection that adds to the counts.
pub struct SqlInsightWriter {
    db: Database,
}

impl SqlInsightWriter {
    /// Opens a connection beside those that own partitions. The tables have to be there.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened.
    pub fn open(source: &Source) -> Result<Self, StoreError> {
        let db = match source {
            // Payments do not wait until counts are on the disk.
            Source::File(path, options) => {
                let options = Options { is_durable: false, cache_kib: CACHE_KIB, ..*options };
                Database::open(path, &options, INSIGHT_TABLES)?
            }
            Source::Server(server) => Database::connect_beside(server, INSIGHT_TABLES)?,
        };
        Ok(Self { db })
    }

    fn write(&self, flags: &[FlagCount], metrics: &[MetricCount]) -> Result<(), StoreError> {
        let mut put = self.db.prepare(&ADD_FLAGS)?;
        for it in flags {
            put.row(&[
                it.tenant.into(),
                it.environment.into(),
                (&it.flag).into(),
                it.hour.into(),
                (&it.variation).into(),
                it.evaluations.into(),
                it.for_experiments.into(),
            ])?;
        }
        drop(put);
        let mut put = self.db.prepare(&ADD_METRICS)?;
        for it in metrics {
            put.row(&[
                it.tenant.into(),
                it.environment.into(),
                (&it.event).into(),
                it.hour.into(),
                (&it.kind).into(),
                it.events.into(),
                it.total.into(),
            ])?;
        }
        Ok(())
    }
}

impl InsightWriter for SqlInsightWriter {
    fn add(
        &mut self,
        flags: &mut [FlagCount],
        metrics: &mut [MetricCount],
    ) -> Result<(), StoreError> {
        // Writers of the same rows lock them in the same order.
        flags.sort();
        metrics.sort_by(|one, other| metric_key(one).cmp(&metric_key(other)));
        self.db.begin()?;
        let written = self.write(flags, metrics).and_then(|()| self.db.commit());
        if written.is_err() {
            // What went wrong first is worth more.
            drop(self.db.rollback());
        }
        written
    }

    fn forget(&mut self, before_hour: i64, rows_max: i64) -> Result<u64, StoreError> {
        let forget = |table: &Table| {
            let columns = &table.columns[..table.key_columns];
            let key = columns.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
            let name = table.name;
            let sql = format!(
                "DELETE FROM {name} WHERE ({key}) IN \
                 (SELECT {key} FROM {name} WHERE hour < ?1 ORDER BY hour LIMIT ?2)"
            );
            self.db.exec(&sql, &[before_hour.into(), rows_max.into()])
        };
        Ok(forget(&FLAG_INSIGHT)? + forget(&METRIC_INSIGHT)?)
    }
}

fn metric_key(it: &MetricCount) -> (TenantNo, EnvironmentId, &str, i64, &str) {
    (it.tenant, it.environment, &it.event, it.hour, &it.kind)
}

pub(crate) fn flag_count(cells: &mut Cells<'_>) -> Result<FlagCount, StoreError> {
    cells.of(&FLAG_INSIGHT);
    Ok(FlagCount {
        tenant: cells.tenant()?,
        environment: cells.entity()?,
        flag: cells.string()?,
        hour: cells.int()?,
        variation: cells.string()?,
        evaluations: cells.int()?,
        for_experiments: cells.int()?,
    })
}

pub(crate) fn metric_count(cells: &mut Cells<'_>) -> Result<MetricCount, StoreError> {
    cells.of(&METRIC_INSIGHT);
    Ok(MetricCount {
        tenant: cells.tenant()?,
        environment: cells.entity()?,
        event: cells.string()?,
        hour: cells.int()?,
        kind: cells.string()?,
        events: cells.int()?,
        total: cells.real()?,
    })
}
