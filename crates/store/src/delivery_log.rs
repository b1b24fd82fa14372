//! The log of webhook deliveries, beside the journal: in a file of its own, or in tables of the server that no
//! partition's commit writes. Payments do not wait for it, and it may be lost.

use std::path::Path;

use domain::tenant::webhook::DisableReason;
use domain::{PartitionNo, TenantNo, Timestamp, WebhookEndpointId};
use engine::ports::{
    DeliveryId, DeliveryLog, DeliveryLogQueries, DeliveryLogSource, ReadLimits, Replays, StoreError,
};
use engine::webhooks::{
    DeliveryTry, Health, LogPlace, LogRetention, LoggedTry, RefusedEndpoint, TryFilter, TryOutcome,
};
use ring::digest::{SHA256, digest};

use crate::Error;
use crate::directory::{make_private, remove_database};
use crate::driver::{Cells, Database, Value};
use crate::pool::{ReaderPool, Source};
use crate::postgres::Server;
use crate::replays::SqlReplays;
use crate::sqlite::{DIALECT, Options};
use crate::tables::{
    self, DELIVERY_TRY, ENDPOINT_HEALTH, LOG_TABLES, MIGRATION, REPLAY, REPLAY_PROGRESS, Table,
};

/// The log's file in a data directory.
pub const DATABASE: &str = "webhooks.db";

/// How much of the log a connection keeps in memory.
const CACHE_KIB: u32 = 512;

/// About what a row takes besides its texts: with its index.
const ROW_BYTES: i64 = 200;

/// How many rows are deleted at a time.
const DELETED_ROWS: i64 = 1_000;

static FILE_TABLES: [&Table; 5] =
    [&MIGRATION, &DELIVERY_TRY, &ENDPOINT_HEALTH, &REPLAY, &REPLAY_PROGRESS];

/// Where the log is.
#[derive(Clone, Debug)]
pub struct LogSource(pub(crate) Source);

/// A connection that writes a partition's part of the log.
struct SqlDeliveryLog {
    db: Database,
    partition: PartitionNo,
    /// The number of the last row.
    last: i64,
    /// About what the partition's rows take, once it was counted.
    bytes: Option<i64>,
}

/// Reads of the log, over a bounded pool of connections.
pub struct SqlDeliveryLogQueries(ReaderPool);

impl LogSource {
    /// The log of a data directory: made where there is none, or where another version made it.
    ///
    /// # Errors
    /// [`Error`] where the file cannot be used.
    pub fn in_dir(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(DATABASE);
        let options = Options { is_durable: false, cache_kib: CACHE_KIB, ..Options::default() };
        make_file(&path, &options)?;
        Ok(Self(Source::File(path, options)))
    }

    /// The log in the tables of a server.
    #[must_use]
    pub const fn of_server(server: Server) -> Self {
        Self(Source::Server(server))
    }
}

impl DeliveryLogSource for LogSource {
    fn open(&self, partition: PartitionNo) -> Result<Box<dyn DeliveryLog>, StoreError> {
        Ok(Box::new(SqlDeliveryLog::open(&self.0, partition)?))
    }

    fn open_replays(&self) -> Result<Box<dyn Replays>, StoreError> {
        Ok(Box::new(SqlReplays::new(open_beside(&self.0)?)))
    }
}

/// Opens a connection beside those that own partitions.
fn open_beside(source: &Source) -> Result<Database, StoreError> {
    match source {
        Source::File(path, options) => Database::open(path, options, LOG_TABLES),
        Source::Server(server) => Database::connect_beside(server, LOG_TABLES),
    }
}

fn make_file(path: &Path, options: &Options) -> Result<(), Error> {
    let failed = Error::database(path);
    let ddl = tables::ddl(&FILE_TABLES, &DIALECT);
    let hash = digest(&SHA256, ddl.as_bytes());
    let layout: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    if path.try_exists().map_err(Error::io("open", path))? {
        let found = Database::open(path, options, &FILE_TABLES).and_then(|db| {
            let sql = "SELECT checksum FROM migration";
            db.reader().query_one(sql, &[], |cells| cells.string())
        });
        if found.is_ok_and(|found| found.as_ref() == Some(&layout)) {
            return Ok(());
        }
        tracing::warn!("the log of webhook deliveries is of another version and is made anew");
        remove_database(path)?;
    }
    make_private(path)?;
    let db = Database::open(path, options, &FILE_TABLES).map_err(&failed)?;
    let made = db.begin().and_then(|()| db.create(&ddl)).and_then(|()| {
        db.insert(&MIGRATION)?.row(&[1.into(), (&layout).into()])?;
        db.commit()
    });
    made.map_err(&failed)
}

impl SqlDeliveryLog {
    fn open(source: &Source, partition: PartitionNo) -> Result<Self, StoreError> {
        let db = open_beside(source)?;
        let sql = "SELECT number FROM webhook_try WHERE partition = ?1 \
                   ORDER BY number DESC LIMIT 1";
        let last = db.reader().query_one(sql, &[partition.number().into()], |cells| cells.int())?;
        Ok(Self { db, partition, last: last.unwrap_or_default(), bytes: None })
    }

    fn write(
        &mut self,
        tries: &[DeliveryTry],
        health: &[((TenantNo, WebhookEndpointId), Health)],
    ) -> Result<(), StoreError> {
        let partition = self.partition.number();
        let mut put = self.db.insert(&DELIVERY_TRY)?;
        for it in tries {
            self.last = it.at.0.max(self.last + 1);
            let texts = [Some(&it.event_type), it.answer.as_ref(), it.error.as_ref()];
            let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
            let bytes = ROW_BYTES + i64::try_from(texts).unwrap_or(i64::MAX / 2);
            self.bytes = self.bytes.map(|all| all + bytes);
            put.row(&try_row(it, partition, (self.last, bytes)))?;
        }
        drop(put);
        let mut put = self.db.upsert(&ENDPOINT_HEALTH)?;
        for ((tenant, endpoint), it) in health {
            let refused = it.refused.map_or(0, reason_code);
            put.row(&[
                (*tenant).into(),
                (*endpoint).into(),
                partition.into(),
                it.failing_since.into(),
                it.received_at.into(),
                refused.into(),
            ])?;
        }
        Ok(())
    }

    fn bytes(&mut self) -> Result<i64, StoreError> {
        if let Some(bytes) = self.bytes {
            return Ok(bytes);
        }
        let sql = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM webhook_try \
                   WHERE partition = ?1";
        let partition = [self.partition.number().into()];
        let bytes = self.db.reader().query_one(sql, &partition, |cells| cells.int())?;
        Ok(*self.bytes.insert(bytes.unwrap_or_default()))
    }
}

impl DeliveryLog for SqlDeliveryLog {
    fn add(
        &mut self,
        tries: &[DeliveryTry],
        health: &[((TenantNo, WebhookEndpointId), Health)],
    ) -> Result<(), StoreError> {
        self.db.begin()?;
        let written = self.write(tries, health).and_then(|()| self.db.commit());
        if written.is_err() {
            // What went wrong first is worth more.
            drop(self.db.rollback());
        }
        written
    }

    fn forget(&mut self, kept: LogRetention) -> Result<bool, StoreError> {
        let partition = self.partition.number();
        let all = self.bytes()?;
        let sql = "SELECT number, at_us, bytes FROM webhook_try WHERE partition = ?1 \
                   ORDER BY number LIMIT ?2";
        let oldest =
            self.db.reader().query(sql, &[partition.into(), DELETED_ROWS.into()], |cells| {
                Ok((cells.int()?, cells.time()?, cells.int()?))
            })?;
        let (mut upto, mut bytes, mut deleted) = (None, all, 0);
        for (number, at, size) in oldest {
            if at >= kept.since && bytes <= kept.bytes_max {
                break;
            }
            (upto, bytes, deleted) = (Some(number), bytes - size, deleted + 1);
        }
        let Some(upto) = upto else { return Ok(false) };
        let sql = "DELETE FROM webhook_try WHERE partition = ?1 AND number <= ?2";
        self.db.exec(sql, &[partition.into(), upto.into()])?;
        self.bytes = Some(bytes);
        Ok(deleted == DELETED_ROWS)
    }

    fn health(&self, tenant: TenantNo, endpoint: WebhookEndpointId) -> Result<Health, StoreError> {
        let sql = "SELECT failing_since_us, received_at_us, refused FROM webhook_health \
                   WHERE tenant = ?1 AND endpoint_id = ?2 AND partition = ?3";
        let key = [tenant.into(), endpoint.into(), self.partition.number().into()];
        let found = self.db.reader().query_one(sql, &key, |cells| {
            Ok(Health {
                failing_since: cells.opt_time()?,
                received_at: cells.opt_time()?,
                refused: reason(cells.int()?),
            })
        })?;
        Ok(found.unwrap_or_default())
    }

    fn has_received(
        &self,
        (tenant, endpoint): (TenantNo, WebhookEndpointId),
        since: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT count(*) FROM webhook_health \
                   WHERE tenant = ?1 AND endpoint_id = ?2 AND received_at_us >= ?3";
        let parameters = [tenant.into(), endpoint.into(), since.into()];
        let count = self.db.reader().query_one(sql, &parameters, |cells| cells.int())?;
        Ok(count.unwrap_or_default() > 0)
    }

    fn refused(&self) -> Result<Vec<RefusedEndpoint>, StoreError> {
        let sql =
            "SELECT tenant, endpoint_id, refused FROM webhook_health WHERE refused > 0 LIMIT ?1";
        let found = self.db.reader().query(sql, &[DELETED_ROWS.into()], |cells| {
            Ok((cells.tenant()?, cells.entity()?, reason(cells.int()?)))
        })?;
        let refused = found.into_iter().filter_map(|(tenant, endpoint, reason)| {
            reason.map(|reason| RefusedEndpoint { tenant, endpoint, reason })
        });
        Ok(refused.collect())
    }

    fn forget_health(&self, it: RefusedEndpoint) -> Result<(), StoreError> {
        let sql = "DELETE FROM webhook_health WHERE tenant = ?1 AND endpoint_id = ?2";
        self.db.exec(sql, &[it.tenant.into(), it.endpoint.into()]).map(drop)
    }
}

fn try_row(it: &DeliveryTry, partition: i64, (number, bytes): (i64, i64)) -> [Value<'_>; 16] {
    [
        partition.into(),
        number.into(),
        it.tenant.into(),
        it.id.endpoint.into(),
        it.id.seq.into(),
        i64::from(it.id.ordinal).into(),
        (&it.event_type).into(),
        i64::from(it.attempt).into(),
        it.at.into(),
        outcome_code(it.outcome).into(),
        it.status.map(i64::from).into(),
        i64::from(it.took_ms).into(),
        it.answer.as_ref().into(),
        it.error.as_ref().into(),
        it.next_at.into(),
        bytes.into(),
    ]
}

fn logged_try(cells: &mut Cells<'_>) -> Result<LoggedTry, StoreError> {
    cells.of(&DELIVERY_TRY);
    let place = LogPlace { partition: cells.int()?, number: cells.int()? };
    let tenant = cells.tenant()?;
    let endpoint = cells.entity()?;
    let seq = cells.seq()?;
    let ordinal = u16::try_from(cells.int()?).map_err(|_| cells.corrupt("is no event's place"))?;
    let it = DeliveryTry {
        id: DeliveryId { seq, ordinal, endpoint },
        tenant,
        receiver: endpoint,
        event_type: cells.string()?,
        attempt: cells.count()?,
        at: cells.time()?,
        outcome: outcome(cells.int()?).ok_or_else(|| cells.corrupt("is no outcome"))?,
        status: cells.opt_int()?.and_then(|status| u16::try_from(status).ok()),
        took_ms: cells.count()?,
        answer: cells.opt_string()?,
        error: cells.opt_string()?,
        next_at: cells.opt_time()?,
    };
    Ok(LoggedTry { place, it })
}

const fn outcome_code(outcome: TryOutcome) -> i64 {
    match outcome {
        TryOutcome::Delivered => 1,
        TryOutcome::Failed => 2,
        TryOutcome::GivenUp => 3,
    }
}

fn outcome(code: i64) -> Option<TryOutcome> {
    TryOutcome::ALL.into_iter().find(|it| outcome_code(*it) == code)
}

const fn reason_code(reason: DisableReason) -> i64 {
    match reason {
        DisableReason::Gone => 1,
        DisableReason::Failing => 2,
    }
}

fn reason(code: i64) -> Option<DisableReason> {
    [DisableReason::Gone, DisableReason::Failing].into_iter().find(|it| reason_code(*it) == code)
}

impl SqlDeliveryLogQueries {
    /// Reads with at most so many connections.
    ///
    /// # Errors
    /// [`Error`] where the log cannot be opened.
    pub fn open(LogSource(source): &LogSource, readers_max: usize) -> Result<Self, Error> {
        let failed = source.failed();
        ReaderPool::open(source.clone(), readers_max).map(Self).map_err(failed)
    }
}

impl DeliveryLogQueries for SqlDeliveryLogQueries {
    fn tries(
        &self,
        tenant: TenantNo,
        filter: &TryFilter,
        (limit, limits): (u64, &ReadLimits),
    ) -> Result<Vec<LoggedTry>, StoreError> {
        let before = filter.before.unwrap_or(LogPlace { number: i64::MAX, partition: i64::MAX });
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut parameters: Vec<Value<'_>> =
            vec![tenant.into(), before.number.into(), before.partition.into(), limit.into()];
        let mut conditions = String::new();
        let mut add = |column: &str, value| {
            parameters.push(value);
            conditions.push_str(&format!(" AND {column} = ?{}", parameters.len()));
        };
        if let Some(endpoint) = filter.endpoint {
            add("endpoint_id", endpoint.into());
        }
        if let Some((seq, ordinal)) = filter.event {
            add("seq", seq.into());
            add("ordinal", i64::from(ordinal).into());
        }
        if let Some(outcome) = filter.outcome {
            add("outcome", outcome_code(outcome).into());
        }
        let sql = DELIVERY_TRY.select(&format!(
            "WHERE tenant = ?1 AND (number, partition) < (?2, ?3){conditions} \
             ORDER BY number DESC, partition DESC LIMIT ?4"
        ));
        self.0.read(Some(limits), |reader| reader.query(&sql, &parameters, logged_try))
    }
}
