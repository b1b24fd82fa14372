//! Closed accounts.

use crate::account::blocking_state::ClosedTo;
use crate::context::Context;
use crate::state::State;
use crate::{AccountId, AccountRejection, Rejection};

/// Refuses what a closed account is closed to.
pub(crate) fn refuse_closed(
    state: &State,
    account: AccountId,
    to: ClosedTo,
    cx: &Context,
) -> Result<(), Rejection> {
    if state.is_closed(cx.tenant, account) {
        return Err(AccountRejection::Closed { account, to }.into());
    }
    Ok(())
}
