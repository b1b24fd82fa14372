//! Rows of [`tables::DISPUTE`].

use domain::dispute::{Dispute, DisputeBooked, DisputeCase};
use engine::ports::StoreError;

use crate::codes::{dispute_status, dispute_status_code};
use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn dispute_row(it: &Dispute) -> [Value<'_>; 25] {
    [
        it.tenant.into(),
        it.id.into(),
        it.account_id.into(),
        it.payment_id.into(),
        it.transaction_id.into(),
        (&it.case.gateway).into(),
        (&it.case.case).into(),
        dispute_status_code(it.status).into(),
        it.reason.as_ref().into(),
        it.amount.into(),
        (&it.currency).into(),
        it.evidence_due_by.into(),
        it.warned_of.into(),
        it.withdrawn.into(),
        it.reinstated.into(),
        it.booked.charged_back.into(),
        it.booked.reversed.into(),
        it.booked.excess.into(),
        it.booked.excess_returned.into(),
        it.booking_at.into(),
        it.warning_at.into(),
        it.asked_at.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::DISPUTE`].
///
/// # Errors
/// See [`super::tenant`].
pub fn dispute(cells: &mut Cells<'_>) -> Result<Dispute, StoreError> {
    cells.of(&tables::DISPUTE);
    Ok(Dispute {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        account_id: cells.entity()?,
        payment_id: cells.entity()?,
        transaction_id: cells.entity()?,
        case: DisputeCase { gateway: cells.string()?, case: cells.string()? },
        status: cells.code(dispute_status)?,
        reason: cells.opt_string()?,
        amount: cells.amount()?,
        currency: cells.currency()?,
        evidence_due_by: cells.opt_time()?,
        warned_of: cells.opt_time()?,
        withdrawn: cells.amount()?,
        reinstated: cells.amount()?,
        booked: DisputeBooked {
            charged_back: cells.amount()?,
            reversed: cells.amount()?,
            excess: cells.amount()?,
            excess_returned: cells.amount()?,
        },
        booking_at: cells.opt_time()?,
        warning_at: cells.opt_time()?,
        asked_at: cells.time()?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
        revision: cells.revision()?,
    })
}
