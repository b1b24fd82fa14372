//! Reads of accounts.

use domain::account::blocking_state::BlockingState;
use domain::{Account, AccountId, Person, TenantId, TenantNo};

use super::{Page, Paged, Quarantined, StoreError};

/// Reads of accounts.
pub trait AccountQueries: Send + Sync {
    ///
    /// # Errors
    /// [`StoreError`], here and below.
    fn account(&self, no: TenantNo, id: AccountId) -> Result<Option<AccountView>, StoreError>;
    /// An account by external key, or by id where it has no other key.
    fn account_by_key(&self, no: TenantNo, key: &str) -> Result<Option<AccountView>, StoreError>;
    /// The accounts of all tenants that are out of service, each with its tenant's id.
    fn quarantined(&self, page: Page) -> Result<Vec<(TenantId, Quarantined)>, StoreError>;
    /// The tenants of whose accounts one with this id is out of service.
    fn quarantined_by_id(&self, id: AccountId) -> Result<Vec<TenantNo>, StoreError>;
    /// The active blocking states of an account, in the order in which they begin.
    fn blocking_states(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<BlockingState>, StoreError>;
    /// All accounts, oldest first.
    fn accounts(&self, no: TenantNo, page: Page) -> Result<Paged<AccountView>, StoreError>;
    /// The accounts whose parent it is, oldest first.
    fn children(
        &self,
        no: TenantNo,
        parent: AccountId,
        page: Page,
    ) -> Result<Vec<AccountView>, StoreError>;
    /// Accounts whose id, external key or e-mail address is `text`; of the address, ASCII letters in
    /// any case. Found by indexes.
    fn accounts_named(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<AccountView>, StoreError>;
    /// Accounts whose id is `text`, or whose name, e-mail, external key or company contains it
    /// (ASCII case-insensitively; `%` and `_` are just characters). Looks at every account of the
    /// tenant: for `Engine::scan`.
    fn search_accounts(
        &self,
        no: TenantNo,
        text: &str,
        page: Page,
    ) -> Result<Paged<AccountView>, StoreError>;
}

/// An account with what is known of the person.
#[derive(Clone, Debug)]
pub struct AccountView {
    pub account: Account,
    /// Personal data; empty after erasure.
    pub person: Person,
}
