//! Subscriptions and invoices, as rules look them up.

use crate::TenantNo;
use crate::state::{LOADED, State};

impl State {
    /// The newest number of a tenant's invoices; 0: there is none.
    pub(crate) fn invoice_number(&self, tenant: TenantNo) -> i64 {
        *self.billing.invoice_numbers.get(&tenant).expect(LOADED)
    }
}
