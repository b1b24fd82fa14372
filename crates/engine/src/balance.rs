//! Balances of accounts, from the committed rows.

use domain::{AccountId, TenantNo};

use crate::ports::{BalanceSource, BoxFuture, LedgerTotal};
use crate::{Engine, Unavailable};

impl BalanceSource for Engine {
    fn balance(
        &self,
        tenant: TenantNo,
        account: AccountId,
    ) -> BoxFuture<'_, Result<Option<Vec<LedgerTotal>>, Unavailable>> {
        Box::pin(self.read(move |queries| {
            let totals = queries.customer_totals(tenant, account)?;
            // Whoever has totals has an account.
            if totals.is_empty() && queries.account(tenant, account)?.is_none() {
                return Ok(None);
            }
            Ok(Some(totals))
        }))
    }
}
