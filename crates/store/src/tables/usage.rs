//! Usage that is counted: levels, events, reservations.

use domain::Timestamp;
use domain::entitlement::feature::Reset;
use domain::entitlement::level::{Counted, Level};
use domain::entitlement::period::Period;
use domain::entitlement::usage::{EventKey, Reservation, ReservationStatus, Usage, UsageEvent};
use engine::ports::StoreError;

use super::{CHECKED, Table, id, index, int, text};
use crate::codes::code;
use crate::driver::Cells;
use crate::stored::TableOf;

/// The end of a period that has none: the last that can be written as a date.
const NO_END: Timestamp = Timestamp(253_402_207_200_000_000);

/// Codes of reservations' statuses in the column `reservation_status`.
pub(crate) const OPEN: i64 = 1;
const CONFIRMED: i64 = 2;
const RELEASED: i64 = 3;

/// A period's end in a row: `NO_END` where the period has none.
pub(crate) fn period_end(it: Period) -> Timestamp {
    it.until.unwrap_or(NO_END)
}

/// Accounts' usage of features, one row for each period. `period_end_us` is far in the future where a period has no
/// end; `reserved` is JSON: quantities by the times when they end.
pub static FEATURE_USAGE: TableOf<Usage> = TableOf::new(
    Table {
        name: "feature_usage",
        since: 19,
        key_columns: 5,
        indexes: &[index("feature_usage_by_seq", "seq")],
        exported: &["feature", "period_end_us", "resets"],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("account_id").of(|it, _| it.account_id.into()),
        text("feature").of(|it, _| (&it.feature).into()),
        int("period_end_us").of(|it, _| period_end(it.period).into()),
        int("resets").of(|it, _| code(it.period.resets).into()),
        int("period_start_us").fixed().of(|it, _| it.period.from.into()),
        int("used").of(|it, _| it.used.into()),
        text("reserved").of(|it, cx| cx.json(&it.reserved)),
        int("endings").of(|it, _| i64::from(it.endings).into()),
        int("is_reached").of(|it, _| it.is_reached.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        int("seq").of(|_, cx| cx.made_by.into()),
    ],
    |cells| {
        Ok(Usage {
            tenant: cells.tenant()?,
            account_id: cells.entity()?,
            feature: cells.string()?,
            period: period(cells)?,
            used: cells.int()?,
            reserved: cells.json()?,
            endings: endings(cells)?,
            is_reached: cells.flag()?,
            updated_at: cells.time()?,
        })
    },
);

/// Events that were counted in the last days, by hashes of their ids, with what was answered.
pub static USAGE_EVENT: TableOf<UsageEvent> = TableOf::new(
    Table {
        name: "usage_event",
        since: 19,
        key_columns: 3,
        indexes: &[index("usage_event_by_time", "counted_at_us")],
        exported: &["event_key"],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("account_id").of(|it, _| it.account_id.into()),
        id("event_key").of(|it, _| it.key.0.into()),
        text("feature").of(|it, _| (&it.counted.feature).into()),
        int("period_end_us").of(|it, _| period_end(it.period).into()),
        int("resets").of(|it, _| code(it.period.resets).into()),
        int("period_start_us").of(|it, _| it.period.from.into()),
        int("quantity").of(|it, _| it.counted.quantity.into()),
        int("limited_to").of(|it, _| it.counted.level.limit.into()),
        int("used").of(|it, _| it.counted.level.used.into()),
        int("reserved").of(|it, _| it.counted.level.reserved.into()),
        int("counted_at_us").of(|it, _| it.counted_at.into()),
    ],
    |cells| {
        let (tenant, account_id) = (cells.tenant()?, cells.entity()?);
        let (key, feature) = (EventKey(cells.id()?), cells.string()?);
        let (period, quantity) = (period(cells)?, cells.int()?);
        let (limit, used, reserved) = (cells.int()?, cells.int()?, cells.int()?);
        let level = Level { limit, used, reserved, resets_at: period.until };
        let counted = Counted { feature, quantity, level };
        Ok(UsageEvent { tenant, account_id, key, period, counted, counted_at: cells.time()? })
    },
);

/// Reservations. `confirmed` is how much of it was used.
pub static USAGE_RESERVATION: TableOf<Reservation> = TableOf::new(
    Table {
        name: "usage_reservation",
        since: 19,
        key_columns: 3,
        indexes: &[index("usage_reservation_by_end", "until_us")],
        exported: &["id"],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("account_id").of(|it, _| it.account_id.into()),
        id("id").of(|it, _| it.id.into()),
        text("feature").fixed().of(|it, _| (&it.feature).into()),
        int("period_end_us").fixed().of(|it, _| period_end(it.period).into()),
        int("resets").fixed().of(|it, _| code(it.period.resets).into()),
        int("period_start_us").fixed().of(|it, _| it.period.from.into()),
        int("quantity").fixed().of(|it, _| it.quantity.into()),
        int("until_us").fixed().of(|it, _| it.until.into()),
        int("endings").fixed().of(|it, _| i64::from(it.endings).into()),
        int("reservation_status").of(|it, _| reservation_status(it.status).0.into()),
        int("confirmed").null().of(|it, _| reservation_status(it.status).1.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
    ],
    |cells| {
        let (tenant, account_id, id) = (cells.tenant()?, cells.entity()?, cells.entity()?);
        let (feature, period, quantity) = (cells.string()?, period(cells)?, cells.int()?);
        let (until, endings) = (cells.time()?, endings(cells)?);
        let status = match (cells.int()?, cells.opt_int()?) {
            (OPEN, None) => ReservationStatus::Open,
            (CONFIRMED, Some(quantity)) => ReservationStatus::Confirmed { quantity },
            (RELEASED, None) => ReservationStatus::Released,
            (code, _) => return Err(cells.corrupt(&format!("there is no status {code}"))),
        };
        Ok(Reservation {
            tenant,
            id,
            account_id,
            feature,
            period,
            quantity,
            until,
            endings,
            status,
            created_at: cells.time()?,
            updated_at: cells.time()?,
        })
    },
);

/// The code of a reservation's status, and how much of it was used.
const fn reservation_status(it: ReservationStatus) -> (i64, Option<i64>) {
    match it {
        ReservationStatus::Open => (OPEN, None),
        ReservationStatus::Confirmed { quantity } => (CONFIRMED, Some(quantity)),
        ReservationStatus::Released => (RELEASED, None),
    }
}

fn period(cells: &mut Cells<'_>) -> Result<Period, StoreError> {
    let (end, resets, from) = (cells.time()?, cells.code()?, cells.time()?);
    let until = (end != NO_END && resets != Reset::Never).then_some(end);
    Ok(Period { resets, from, until })
}

fn endings(cells: &mut Cells<'_>) -> Result<u32, StoreError> {
    let number = cells.int()?;
    u32::try_from(number).map_err(|_| cells.corrupt("endings is no count"))
}
