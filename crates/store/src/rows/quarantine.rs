//! Rows of [`tables::QUARANTINE`].

use domain::RequestId;
use engine::ports::{QuarantineReason, Quarantined, StoreError};

use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn quarantined_row(it: &Quarantined) -> [Value<'_>; 6] {
    [
        it.tenant.into(),
        it.account.into(),
        it.since.into(),
        it.request.0.into(),
        (&it.command).into(),
        it.reason.label().into(),
    ]
}

pub(crate) fn quarantined(cells: &mut Cells<'_>) -> Result<Quarantined, StoreError> {
    cells.of(&tables::QUARANTINE);
    let (tenant, account, since) = (cells.tenant()?, cells.entity()?, cells.time()?);
    let (request, command) = (RequestId(cells.id()?), cells.string()?);
    let label = cells.string()?;
    let reason = QuarantineReason::ALL.into_iter().find(|it| it.label() == label);
    let reason = reason.ok_or_else(|| cells.corrupt("is no reason"))?;
    Ok(Quarantined { tenant, account, since, request, command, reason })
}
