//! Counts of usage against the events and the reservations that they are made of.

use std::collections::BTreeMap;

use domain::entitlement::feature::LIMIT_MAX;
use domain::entitlement::usage::{KEPT_US, Usage};
use domain::{AccountId, TenantNo, Timestamp};
use engine::ports::StoreError;

use super::{Report, each_row};
use crate::clock;
use crate::codes::code;
use crate::driver::Reader;
use crate::tables::FEATURE_USAGE;
use crate::tables::{self, OPEN, period_end};

/// A period of an account and a feature: its end, and the code of when it is counted anew.
type Period = (TenantNo, AccountId, String, i64, i64);

/// Sums the quantities that were counted in the last days, of events and of confirmed reservations.
const COUNTED: &str = "SELECT tenant, account_id, feature, period_end_us, resets, \
     CAST(sum(quantity) AS BIGINT) FROM usage_event \
     GROUP BY tenant, account_id, feature, period_end_us, resets \
     UNION ALL SELECT tenant, account_id, feature, period_end_us, resets, \
     CAST(sum(confirmed) AS BIGINT) FROM usage_reservation WHERE confirmed IS NOT NULL \
     GROUP BY tenant, account_id, feature, period_end_us, resets";

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut counted: BTreeMap<Period, i64> = BTreeMap::new();
    reader.walk(COUNTED, &[], |cells| {
        let (tenant, account, feature) = (cells.tenant()?, cells.entity()?, cells.string()?);
        let (end, resets, sum) = (cells.int()?, cells.int()?, cells.int()?);
        let all = counted.entry((tenant, account, feature, end, resets)).or_default();
        *all = all.saturating_add(sum);
        Ok(())
    })?;
    let mut reserved: BTreeMap<Period, BTreeMap<Timestamp, i64>> = BTreeMap::new();
    reader.walk(&open(), &[], |cells| {
        let (tenant, account, feature) = (cells.tenant()?, cells.entity()?, cells.string()?);
        let (end, resets) = (cells.int()?, cells.int()?);
        let (until, sum) = (cells.time()?, cells.int()?);
        let of_period = reserved.entry((tenant, account, feature, end, resets)).or_default();
        of_period.insert(until, sum);
        Ok(())
    })?;
    let now = now(reader)?;
    each_row(reader, report, (&FEATURE_USAGE, &FEATURE_USAGE.select("")), |cells, report| {
        let it = tables::FEATURE_USAGE.row(cells)?;
        let key = (it.tenant, it.account_id, it.feature.clone(), period_end(it.period).0);
        let key = (key.0, key.1, key.2, key.3, code(it.period.resets));
        let name = format!("{} of {}", it.feature, it.account_id);
        let mut problem = |what: &str| report.problem(FEATURE_USAGE.name, &name, what);
        if !(0..=LIMIT_MAX).contains(&it.used) || it.reserved.values().any(|held| *held <= 0) {
            problem("counts less than nothing, or too much");
        }
        if it.reserved != reserved.remove(&key).unwrap_or_default() {
            problem("has not reserved what its open reservations say");
        }
        let sum = counted.remove(&key).unwrap_or_default();
        if it.used < sum {
            problem("has used less than its events and reservations say");
        }
        if it.used > sum && has_all(&it, now) {
            problem("has used more than its events and reservations say");
        }
        Ok(())
    })?;
    for (tenant, account, feature, ..) in counted.keys().chain(reserved.keys()) {
        let name = format!("{feature} of {account} of tenant {}", tenant.0);
        report.problem(FEATURE_USAGE.name, name, "is not there, and has events or reservations");
    }
    Ok(())
}

/// The statement that sums the open reservations of each period by their ends. A reservation that ended before the
/// count was written last, by its time or with others, is no longer in the count, and not in the sum.
fn open() -> String {
    let key = ["tenant", "account_id", "feature", "period_end_us", "resets"];
    let same = key.map(|it| format!("r.{it} = u.{it}")).join(" AND ");
    let key = key.map(|it| format!("u.{it}")).join(", ");
    format!(
        "SELECT {key}, r.until_us, CAST(sum(r.quantity) AS BIGINT) \
         FROM usage_reservation r JOIN feature_usage u ON {same} \
         WHERE r.reservation_status = {OPEN} AND r.until_us > u.updated_at_us \
         AND r.endings = u.endings GROUP BY {key}, r.until_us"
    )
}

/// Whether all events and reservations of a period are still known: those that are forgotten are older.
fn has_all(it: &Usage, now: Timestamp) -> bool {
    // A day more, for the clocks of a cluster and the pauses of the retention.
    it.period.from > now.plus_us(Timestamp::DAY_US - KEPT_US)
}

/// The latest time that is known.
fn now(reader: &Reader) -> Result<Timestamp, StoreError> {
    let latest = ["SELECT max(at_us) FROM journal", "SELECT max(updated_at_us) FROM feature_usage"];
    let mut now = clock::now();
    for sql in latest {
        let found = reader.query_one(sql, &[], |cells| cells.opt_int())?.flatten();
        now = now.max(Timestamp(found.unwrap_or_default()));
    }
    Ok(now)
}
