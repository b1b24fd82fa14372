//! Loads customers, each with their sessions, and operations.

use std::sync::LazyLock;

use domain::customer::CustomerFile;
use domain::state::CustomerState;
use domain::{CustomerId, TenantNo};
use engine::ports::StoreError;

use super::{BY_ID, values};
use crate::driver::Reader;
use crate::tables::{CUSTOMER, OPERATION, SESSION};

static SELECT_CUSTOMER: LazyLock<String> = LazyLock::new(|| CUSTOMER.select(BY_ID));
static SELECT_SESSIONS: LazyLock<String> =
    LazyLock::new(|| SESSION.select("WHERE customer_id = ?2 AND tenant = ?1 ORDER BY id"));

pub(super) fn load(reader: &Reader, loaded: &mut CustomerState) -> Result<(), StoreError> {
    OPERATION.load(reader, &mut loaded.operations)?;
    let customers = &mut loaded.customers;
    let keys: Vec<(TenantNo, CustomerId)> = customers.keys().copied().collect();
    reader.for_keys(&SELECT_CUSTOMER, &values(&keys), |_, cells| {
        let customer = CUSTOMER.row(cells)?;
        customers.put(CustomerFile { customer, sessions: vec![] });
        Ok(())
    })?;
    reader.for_keys(&SELECT_SESSIONS, &values(&keys), |at, cells| {
        let session = SESSION.row(cells)?;
        if let Some(file) = customers.find_mut(&keys[at]) {
            file.sessions.push(session);
        }
        Ok(())
    })?;
    customers.iter_mut().for_each(|file| file.sessions.sort_by_key(|it| it.id));
    Ok(())
}
