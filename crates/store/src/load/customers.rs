//! Loads customers, each with their sessions, and operations.

use std::sync::LazyLock;

use domain::customer::CustomerFile;
use domain::state::State;
use domain::{CustomerId, OperationId, TenantNo};
use engine::ports::StoreError;

use super::{BY_ID, values};
use crate::driver::Reader;
use crate::rows::customers as rows;
use crate::tables::{CUSTOMER, OPERATION, SESSION};

static SELECT_CUSTOMER: LazyLock<String> = LazyLock::new(|| CUSTOMER.select(BY_ID));
static SELECT_SESSIONS: LazyLock<String> =
    LazyLock::new(|| SESSION.select("WHERE customer_id = ?2 AND tenant = ?1 ORDER BY id"));
static SELECT_OPERATION: LazyLock<String> = LazyLock::new(|| OPERATION.select(BY_ID));

pub(super) fn customers(
    reader: &Reader,
    keys: &[(TenantNo, CustomerId)],
    state: &mut State,
) -> Result<(), StoreError> {
    state.customers.extend(keys.iter().map(|key| (*key, None)));
    reader.for_keys(&SELECT_CUSTOMER, &values(keys), |_, cells| {
        let customer = rows::customer(cells)?;
        let key = (customer.tenant, customer.id);
        state.customers.insert(key, Some(CustomerFile { customer, sessions: vec![] }));
        Ok(())
    })?;
    reader.for_keys(&SELECT_SESSIONS, &values(keys), |at, cells| {
        let session = rows::session(cells)?;
        if let Some(Some(file)) = state.customers.get_mut(&keys[at]) {
            file.sessions.push(session);
        }
        Ok(())
    })?;
    for file in state.customers.values_mut().flatten() {
        file.sessions.sort_by_key(|it| it.id);
        // A customer may be asked for twice in a batch.
        file.sessions.dedup_by_key(|it| it.id);
    }
    Ok(())
}

pub(super) fn operations(
    reader: &Reader,
    keys: &[(TenantNo, OperationId)],
    state: &mut State,
) -> Result<(), StoreError> {
    state.operations.extend(keys.iter().map(|key| (*key, None)));
    reader.for_keys(&SELECT_OPERATION, &values(keys), |_, cells| {
        let operation = rows::operation(cells)?;
        state.operations.insert((operation.tenant, operation.id), Some(operation));
        Ok(())
    })
}
