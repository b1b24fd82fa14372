//! Loads customers, each with their sessions.

use std::sync::LazyLock;

use domain::customer::CustomerFile;
use domain::state::State;
use domain::{CustomerId, TenantNo};
use engine::ports::StoreError;

use super::{BY_ID, values};
use crate::driver::Reader;
use crate::rows::customers as rows;
use crate::tables::{CUSTOMER, SESSION};

static SELECT_CUSTOMER: LazyLock<String> = LazyLock::new(|| CUSTOMER.select(BY_ID));
static SELECT_SESSIONS: LazyLock<String> =
    LazyLock::new(|| SESSION.select("WHERE customer_id = ?2 AND tenant = ?1 ORDER BY id"));

pub(super) fn load(
    reader: &Reader,
    keys: &[(TenantNo, CustomerId)],
    state: &mut State,
) -> Result<(), StoreError> {
    keys.iter().for_each(|key| state.customer.customers.look_for(*key));
    reader.for_keys(&SELECT_CUSTOMER, &values(keys), |_, cells| {
        let customer = rows::customer(cells)?;
        state.customer.customers.put(CustomerFile { customer, sessions: vec![] });
        Ok(())
    })?;
    reader.for_keys(&SELECT_SESSIONS, &values(keys), |at, cells| {
        let session = rows::session(cells)?;
        if let Some(file) = state.customer.customers.find_mut(&keys[at]) {
            file.sessions.push(session);
        }
        Ok(())
    })?;
    for file in state.customer.customers.iter_mut() {
        file.sessions.sort_by_key(|it| it.id);
        // A customer may be asked for twice in a batch.
        file.sessions.dedup_by_key(|it| it.id);
    }
    Ok(())
}
