//! The catalogue of tables: what each row holds, and the SQL text that follows from it.
//!
//! Names of types are neutral here; a driver brings its [`Dialect`]. Every table whose rows belong
//! to a tenant starts its key with the tenant's number, and every id in a key is time-ordered, so
//! that new rows go where the last ones went. The exception is `claim`, whose key is a hash: see
//! `claims.rs`.

mod access;
mod account;
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

pub use access::{APP_USER, ROLE};
pub use account::{ACCOUNT, ACCOUNT_EMAIL, ACCOUNT_PERSON, AUDIT_IMPORTED, BLOCKING_STATE};
pub(crate) use account::{
    CLOSING, EMAILS_OF_ACCOUNT, STATES_OF_ACCOUNT, audit_row, folded_person, imported_audit,
    person, person_row,
};
pub use claims::{CLAIM, CLAIM_RECENT};
pub(crate) use claims::{
    ClaimHash, Claimed, claim, claim_hash, claim_row, recent_claim, recent_claim_row,
};
pub use control::{DISPUTE, PAYMENT_ATTEMPT, PAYMENT_VELOCITY};
pub use customers::{CUSTOMER, MAIL, OPERATION, SESSION};
pub(crate) use customers::{EXPIRING, GIVEN_UP, SETTLED, TO_NOTIFY, TO_SEND, WAITING};
pub use entitlements::{ACCOUNT_USER, ENTITLEMENTS, FEATURE, OFFER, OFFER_VERSION, PURCHASE};
pub(crate) use entitlements::{account_user, account_user_row};
pub(crate) use flags::DUE;
pub use flags::{CHANGE_REQUEST, DEFINITION, ENVIRONMENT, ENVIRONMENT_SECRET};
pub use insights::{FLAG_INSIGHT, METRIC_INSIGHT};
pub use objects::{CUSTOM_FIELD, CUSTOM_FIELD_VALUE, TAG};
pub(crate) use objects::{FIELDS_OF_OBJECT, SHOWN, custom_field_value, custom_field_value_row};
pub use payment_methods::PAYMENT_METHOD;
pub(crate) use payments::{
    IN_RARE_STATE, UNRESOLVED, actor, opened_transaction, posting, posting_row,
};
pub use payments::{OUTSTANDING, PAYMENT, PAYMENT_TRANSACTION, POSTING};
pub use system::{QUARANTINE, REPLY, TIMER};
pub(crate) use system::{reply, reply_row};
pub use tenant::{PAYMENT_RULES, TAG_DEFINITION, TENANT, TENANT_VALUE};
pub use usage::{FEATURE_USAGE, USAGE_EVENT, USAGE_RESERVATION};
pub(crate) use usage::{OPEN, period_end};
pub(crate) use versions::*;
pub(crate) use webhooks::LOG_TABLES;
pub use webhooks::{DELIVERY, DELIVERY_TRY, ENDPOINT_HEALTH, REPLAY, REPLAY_PROGRESS};

pub use crate::table::*;

/// Every table.
pub static TABLES: &[&Table] = &[
    &MIGRATION,
    &INSTALLATION,
    &PARTITION,
    &JOURNAL,
    &ACTOR,
    &TENANT.table,
    &TENANT_VALUE.table,
    &APP_USER.table,
    &ROLE.table,
    &ACCOUNT.table,
    &ACCOUNT_PERSON,
    &PAYMENT_METHOD.table,
    &PAYMENT.table,
    &PAYMENT_TRANSACTION.table,
    &POSTING,
    &CLAIM,
    &CLAIM_RECENT,
    &OUTSTANDING.table,
    &TIMER.table,
    &QUARANTINE.table,
    &REPLY,
    &FOLLOWER,
    &DELIVERY.table,
    &COUNTER,
    &LEDGER_TOTAL,
    &ENVIRONMENT.table,
    &ENVIRONMENT_SECRET.table,
    &DEFINITION.table,
    &CHANGE_REQUEST.table,
    &FLAG_INSIGHT,
    &METRIC_INSIGHT,
    &TAG.table,
    &CUSTOMER.table,
    &SESSION.table,
    &MAIL.table,
    &OPERATION.table,
    &CUSTOM_FIELD.table,
    &CUSTOM_FIELD_VALUE,
    &TAG_DEFINITION.table,
    &ACCOUNT_EMAIL.table,
    &BLOCKING_STATE.table,
    &PAYMENT_RULES.table,
    &PAYMENT_ATTEMPT.table,
    &PAYMENT_VELOCITY.table,
    &AUDIT_IMPORTED,
    &DELIVERY_TRY,
    &ENDPOINT_HEALTH,
    &REPLAY,
    &REPLAY_PROGRESS,
    &DISPUTE.table,
    &FEATURE.table,
    &OFFER.table,
    &OFFER_VERSION.table,
    &PURCHASE.table,
    &ENTITLEMENTS.table,
    &ACCOUNT_USER,
    &FEATURE_USAGE.table,
    &USAGE_EVENT.table,
    &USAGE_RESERVATION.table,
];

/// The tables of insights.
pub(crate) static INSIGHT_TABLES: &[&Table] = &[&FLAG_INSIGHT, &METRIC_INSIGHT];

#[cfg(test)]
mod tests;
