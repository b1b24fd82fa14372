//! Rows of [`tables::ACCOUNT_EMAIL`].

use domain::account_email::AccountEmail;
use engine::ports::StoreError;

use super::erasable;
use crate::driver::{Cells, Value};
use crate::tables;

pub(crate) fn account_email_row(it: &AccountEmail) -> [Value<'_>; 7] {
    [
        it.tenant.into(),
        it.id.into(),
        it.account.into(),
        erasable(&it.email),
        it.active.into(),
        it.created_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::ACCOUNT_EMAIL`].
///
/// # Errors
/// See [`super::tenant`].
pub fn account_email(cells: &mut Cells<'_>) -> Result<AccountEmail, StoreError> {
    cells.of(&tables::ACCOUNT_EMAIL);
    Ok(AccountEmail {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        account: cells.entity()?,
        email: cells.opt_string()?.unwrap_or_default(),
        active: cells.flag()?,
        created_at: cells.time()?,
        revision: cells.revision()?,
    })
}
