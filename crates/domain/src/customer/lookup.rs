//! Customers and operations, as rules look them up.

use crate::customer::CustomerFile;
use crate::customer::operation::Operation;
use crate::state::State;
use crate::{CustomerId, OperationId, TenantNo};

impl State {
    pub(crate) fn customer(&self, tenant: TenantNo, id: CustomerId) -> Option<&CustomerFile> {
        self.customer.customers.get(&(tenant, id))
    }

    pub(crate) fn operation(&self, tenant: TenantNo, id: OperationId) -> Option<&Operation> {
        self.customer.operations.get(&(tenant, id))
    }
}
