//! Rows of [`tables::BLOCKING_STATE`].

use domain::blocking_state::{BlockingState, Blocks};
use engine::ports::StoreError;

use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn blocking_state_row(it: &BlockingState) -> [Value<'_>; 13] {
    [
        it.tenant.into(),
        it.id.into(),
        it.account.into(),
        i64::from(it.ordinal).into(),
        (&it.service).into(),
        (&it.name).into(),
        it.blocks.change.into(),
        it.blocks.entitlement.into(),
        it.blocks.billing.into(),
        it.effective_at.into(),
        it.active.into(),
        it.created_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::BLOCKING_STATE`].
///
/// # Errors
/// See [`super::tenant`].
pub fn blocking_state(cells: &mut Cells<'_>) -> Result<BlockingState, StoreError> {
    cells.of(&tables::BLOCKING_STATE);
    let (tenant, id, account) = (cells.tenant()?, cells.entity()?, cells.entity()?);
    let ordinal = u32::try_from(cells.int()?).map_err(|_| cells.corrupt("is no ordinal"))?;
    Ok(BlockingState {
        tenant,
        id,
        account,
        ordinal,
        service: cells.string()?,
        name: cells.string()?,
        blocks: Blocks {
            change: cells.flag()?,
            entitlement: cells.flag()?,
            billing: cells.flag()?,
        },
        effective_at: cells.time()?,
        active: cells.flag()?,
        created_at: cells.time()?,
        revision: cells.revision()?,
    })
}
