//! The catalogue of tables: what each row holds, and the SQL text that follows from it.
//!
//! Names of types are neutral here; a driver brings its [`Dialect`]. Every table whose rows belong
//! to a tenant starts its key with the tenant's number, and every id in a key is time-ordered, so
//! that new rows go where the last ones went. The exception is `claim`, whose key is a hash: see
//! `claims.rs`.

mod access;
mod account;
mod billing;
mod catalogs;
mod claims;
mod control;
mod customers;
mod entitlements;
mod flags;
mod insights;
mod objects;
mod payment_methods;
mod payments;
mod system;
mod tenant;
mod usage;
mod versions;
mod webhooks;

use std::any::TypeId;

use domain::entity::Entity;

pub use access::*;
pub use account::*;
pub use billing::*;
pub use catalogs::*;
pub use claims::*;
pub use control::*;
pub use customers::*;
pub use entitlements::*;
pub use flags::*;
pub use insights::*;
pub use objects::*;
pub use payment_methods::*;
pub use payments::*;
pub use system::*;
pub use tenant::*;
pub use usage::*;
pub(crate) use versions::*;
pub use webhooks::*;

use crate::entities::EntityTable;
use crate::stored::{KeyColumns, TableOf};
pub use crate::table::*;

/// A table of the catalogue.
#[derive(Clone, Copy)]
struct Listed {
    table: &'static Table,
    /// Set where its rows are entities.
    entities: Option<&'static dyn EntityTable>,
}

const fn rows(table: &'static Table) -> Listed {
    Listed { table, entities: None }
}

const fn entities<T: Entity>(table: &'static TableOf<T>) -> Listed
where
    T::Key: KeyColumns,
{
    Listed { table: &table.table, entities: Some(table) }
}

/// Every table, with the kind of entity that its rows are, in the order in which the schema has them.
static CATALOGUE: [Listed; 68] = [
    rows(&MIGRATION),
    rows(&INSTALLATION),
    rows(&PARTITION),
    rows(&JOURNAL),
    rows(&ACTOR),
    entities(&TENANT),
    entities(&TENANT_VALUE),
    entities(&APP_USER),
    entities(&ROLE),
    entities(&ACCOUNT),
    rows(&ACCOUNT_PERSON),
    entities(&PAYMENT_METHOD),
    entities(&PAYMENT),
    entities(&PAYMENT_TRANSACTION),
    rows(&POSTING),
    rows(&CLAIM),
    rows(&CLAIM_RECENT),
    rows(&OUTSTANDING.table),
    rows(&TIMER.table),
    rows(&QUARANTINE.table),
    rows(&REPLY),
    rows(&FOLLOWER),
    rows(&DELIVERY.table),
    rows(&COUNTER),
    rows(&LEDGER_TOTAL),
    entities(&ENVIRONMENT),
    entities(&ENVIRONMENT_SECRET),
    entities(&DEFINITION),
    entities(&CHANGE_REQUEST),
    rows(&FLAG_INSIGHT),
    rows(&METRIC_INSIGHT),
    entities(&TAG),
    entities(&CUSTOMER),
    rows(&SESSION.table),
    rows(&MAIL.table),
    entities(&OPERATION),
    entities(&CUSTOM_FIELD),
    rows(&CUSTOM_FIELD_VALUE),
    entities(&TAG_DEFINITION),
    entities(&ACCOUNT_EMAIL),
    entities(&BLOCKING_STATE),
    entities(&PAYMENT_RULES),
    entities(&PAYMENT_ATTEMPT),
    rows(&PAYMENT_VELOCITY.table),
    rows(&AUDIT_IMPORTED.table),
    rows(&DELIVERY_TRY),
    rows(&ENDPOINT_HEALTH),
    rows(&REPLAY),
    rows(&REPLAY_PROGRESS),
    entities(&DISPUTE),
    entities(&FEATURE),
    entities(&OFFER),
    rows(&OFFER_VERSION.table),
    entities(&PURCHASE),
    entities(&ENTITLEMENTS),
    rows(&ACCOUNT_USER),
    rows(&FEATURE_USAGE.table),
    rows(&USAGE_EVENT.table),
    rows(&USAGE_RESERVATION.table),
    entities(&CATALOG_VERSION),
    rows(&CATALOG_TEXT.table),
    entities(&ACCOUNT_BILLING),
    entities(&BUNDLE),
    entities(&SUBSCRIPTION),
    entities(&INVOICE),
    entities(&INVOICE_ITEM),
    entities(&PLAN_FEATURES),
    rows(&PLAN_FEATURES_VERSION.table),
];

/// Every table.
pub static TABLES: &[&Table] = &{
    let mut tables = [CATALOGUE[0].table; CATALOGUE.len()];
    let mut at = 0;
    while at < tables.len() {
        tables[at] = CATALOGUE[at].table;
        at += 1;
    }
    tables
};

/// The tables of entities: batches write, and histories and `faregate verify` look at, each of them.
pub(crate) fn of_entities() -> impl Iterator<Item = &'static dyn EntityTable> {
    CATALOGUE.iter().filter_map(|it| it.entities)
}

/// The table of a kind of entity.
///
/// # Panics
/// If it has none: it is missing in [`CATALOGUE`].
pub(crate) fn of_entity(kind: TypeId) -> &'static dyn EntityTable {
    of_entities().find(|it| it.kind() == kind).expect("each kind of entity has a table")
}

/// The tables of insights.
pub(crate) static INSIGHT_TABLES: &[&Table] = &[&FLAG_INSIGHT, &METRIC_INSIGHT];

#[cfg(test)]
mod tests;
