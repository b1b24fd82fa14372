//! Timers as rows and back.

use domain::PartitionNo;
use domain::timer::{Timer, TimerKey};
use engine::ports::StoreError;

use crate::codes::{timer_kind_code, timer_kind_of};
use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn timer_row(it: &Timer, partition: PartitionNo) -> [Value<'_>; 6] {
    [
        it.tenant.into(),
        timer_kind_code(it.key.kind).into(),
        it.key.object.into(),
        it.account.into(),
        it.due.into(),
        partition.number().into(),
    ]
}

/// Reads a row of [`tables::TIMER`].
///
/// # Errors
/// See [`super::tenant`].
pub fn timer(cells: &mut Cells<'_>) -> Result<Timer, StoreError> {
    cells.of(&tables::TIMER);
    Ok(Timer {
        tenant: cells.tenant()?,
        key: TimerKey { kind: cells.code(timer_kind_of)?, object: cells.id()? },
        account: cells.entity()?,
        due: cells.time()?,
    })
}
