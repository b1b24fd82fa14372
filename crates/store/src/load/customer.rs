//! Loads customers, each with their sessions, and operations.

use std::sync::LazyLock;

use domain::customer::CustomerFile;
use domain::read::CustomerRead;
use domain::state::State;
use domain::{CustomerId, OperationId, TenantNo};
use engine::ports::StoreError;

use super::{BY_ID, values};
use crate::driver::Reader;
use crate::tables::{CUSTOMER, OPERATION, SESSION};

static SELECT_CUSTOMER: LazyLock<String> = LazyLock::new(|| CUSTOMER.select(BY_ID));
static SELECT_SESSIONS: LazyLock<String> =
    LazyLock::new(|| SESSION.select("WHERE customer_id = ?2 AND tenant = ?1 ORDER BY id"));

/// The keys of customers and operations.
#[derive(Default)]
pub(super) struct CustomerPlan {
    customers: Vec<(TenantNo, CustomerId)>,
    operations: Vec<(TenantNo, OperationId)>,
}

impl CustomerPlan {
    pub(super) fn add(&mut self, read: &CustomerRead) {
        match read {
            CustomerRead::Customer(no, id) => self.customers.push((*no, *id)),
            CustomerRead::Operation(no, id) => self.operations.push((*no, *id)),
        }
    }

    pub(super) fn load(self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        OPERATION.load(reader, self.operations, &mut state.customer.operations)?;
        let keys = &self.customers;
        let customers = &mut state.customer.customers;
        keys.iter().for_each(|key| customers.look_for(*key));
        reader.for_keys(&SELECT_CUSTOMER, &values(keys), |_, cells| {
            let customer = CUSTOMER.row(cells)?;
            customers.put(CustomerFile { customer, sessions: vec![] });
            Ok(())
        })?;
        reader.for_keys(&SELECT_SESSIONS, &values(keys), |at, cells| {
            let session = SESSION.row(cells)?;
            if let Some(file) = customers.find_mut(&keys[at]) {
                file.sessions.push(session);
            }
            Ok(())
        })?;
        for file in customers.iter_mut() {
            file.sessions.sort_by_key(|it| it.id);
            // A customer may be asked for twice in a batch.
            file.sessions.dedup_by_key(|it| it.id);
        }
        Ok(())
    }
}
