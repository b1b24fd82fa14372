//! The customer that a command names, and the row that it leaves.

use crate::Rejection;
use crate::context::Context;
use crate::customer::{
    Customer, CustomerFile, CustomerRef, CustomerRejection as R, CustomerStatus,
};
use crate::state::State;

/// A customer who is there and is not forgotten.
pub(super) fn find<'s>(
    state: &'s State,
    customer: CustomerRef,
    cx: &Context,
) -> Result<&'s CustomerFile, Rejection> {
    state
        .customer(cx.tenant, customer.id)
        .filter(|file| file.customer.status != CustomerStatus::Erased)
        .filter(|file| file.customer.account == customer.account)
        .ok_or(Rejection::Customer(R::NotFound))
}

/// The customer as this command leaves them, but for what it changes.
pub(super) fn changed(before: &Customer, cx: &Context) -> Customer {
    Customer { updated_at: cx.now, revision: before.revision.next(cx.seq), ..before.clone() }
}
