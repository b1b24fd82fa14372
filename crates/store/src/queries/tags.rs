//! Reads of tags.

use std::sync::LazyLock;

use domain::tag::Tag;
use domain::{AccountId, TenantNo};
use engine::ports::StoreError;

use crate::driver::Reader;
use crate::rows;
use crate::tables::TAG;

/// An account has at most one of each definition, so that they are few.
pub(super) fn of_account(
    reader: &Reader,
    no: TenantNo,
    account: AccountId,
) -> Result<Vec<Tag>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        TAG.select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY created_at_us, definition")
    });
    reader.query(&SQL, &[no.into(), account.into()], rows::tag)
}
