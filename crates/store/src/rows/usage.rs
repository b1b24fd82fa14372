//! Rows of what accounts used.

use domain::feature::Reset;
use domain::level::{Counted, Level};
use domain::period::Period;
use domain::usage::{EventKey, Reservation, ReservationStatus, Usage, UsageEvent};
use domain::{Seq, Timestamp};
use engine::ports::StoreError;

use crate::codes::{reset_code, reset_of};
use crate::driver::{Cells, Value};
use crate::tables;

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

/// A row of [`tables::FEATURE_USAGE`]; `reserved` is the JSON of that, `seq` the journal row
/// of the command that changed it last.
pub(crate) fn usage_row<'a>((it, seq): (&'a Usage, Seq), reserved: &'a String) -> [Value<'a>; 12] {
    [
        it.tenant.into(),
        it.account_id.into(),
        (&it.feature).into(),
        period_end(it.period).into(),
        reset_code(it.period.resets).into(),
        it.period.from.into(),
        it.used.into(),
        reserved.into(),
        i64::from(it.endings).into(),
        it.is_reached.into(),
        it.updated_at.into(),
        seq.into(),
    ]
}

/// Reads a row of [`tables::FEATURE_USAGE`].
///
/// # Errors
/// See [`super::tenant`].
pub fn usage(cells: &mut Cells<'_>) -> Result<Usage, StoreError> {
    cells.of(&tables::FEATURE_USAGE);
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
}

/// A row of [`tables::USAGE_EVENT`].
pub(crate) fn usage_event_row(it: &UsageEvent) -> [Value<'_>; 12] {
    let level = it.counted.level;
    [
        it.tenant.into(),
        it.account_id.into(),
        it.key.0.into(),
        (&it.counted.feature).into(),
        period_end(it.period).into(),
        reset_code(it.period.resets).into(),
        it.period.from.into(),
        it.counted.quantity.into(),
        level.limit.into(),
        level.used.into(),
        level.reserved.into(),
        it.counted_at.into(),
    ]
}

/// Reads a row of [`tables::USAGE_EVENT`].
///
/// # Errors
/// See [`super::tenant`].
pub fn usage_event(cells: &mut Cells<'_>) -> Result<UsageEvent, StoreError> {
    cells.of(&tables::USAGE_EVENT);
    let (tenant, account_id) = (cells.tenant()?, cells.entity()?);
    let (key, feature) = (EventKey(cells.id()?), cells.string()?);
    let (period, quantity) = (period(cells)?, cells.int()?);
    let (limit, used, reserved) = (cells.int()?, cells.int()?, cells.int()?);
    let level = Level { limit, used, reserved, resets_at: period.until };
    let counted = Counted { feature, quantity, level };
    Ok(UsageEvent { tenant, account_id, key, period, counted, counted_at: cells.time()? })
}

/// A row of [`tables::USAGE_RESERVATION`].
pub(crate) fn reservation_row(it: &Reservation) -> [Value<'_>; 14] {
    let (status, confirmed) = match it.status {
        ReservationStatus::Open => (OPEN, None),
        ReservationStatus::Confirmed { quantity } => (CONFIRMED, Some(quantity)),
        ReservationStatus::Released => (RELEASED, None),
    };
    [
        it.tenant.into(),
        it.account_id.into(),
        it.id.into(),
        (&it.feature).into(),
        period_end(it.period).into(),
        reset_code(it.period.resets).into(),
        it.period.from.into(),
        it.quantity.into(),
        it.until.into(),
        i64::from(it.endings).into(),
        status.into(),
        confirmed.into(),
        it.created_at.into(),
        it.updated_at.into(),
    ]
}

/// Reads a row of [`tables::USAGE_RESERVATION`].
///
/// # Errors
/// See [`super::tenant`].
pub fn reservation(cells: &mut Cells<'_>) -> Result<Reservation, StoreError> {
    cells.of(&tables::USAGE_RESERVATION);
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
}

fn period(cells: &mut Cells<'_>) -> Result<Period, StoreError> {
    let (end, resets, from) = (cells.time()?, cells.code(reset_of)?, cells.time()?);
    let until = (end != NO_END && resets != Reset::Never).then_some(end);
    Ok(Period { resets, from, until })
}

fn endings(cells: &mut Cells<'_>) -> Result<u32, StoreError> {
    let number = cells.int()?;
    u32::try_from(number).map_err(|_| cells.corrupt("endings is no count"))
}
