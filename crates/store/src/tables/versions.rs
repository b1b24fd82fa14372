//! Tables as earlier versions of the schema had them, and those that a version brought.

use super::objects::shown;
use super::{
    ACCOUNT_EMAIL, ACCOUNT_PERSON, ACCOUNT_USER, AUDIT_IMPORTED, BLOCKING_STATE, CUSTOM_FIELD,
    CUSTOM_FIELD_VALUE, DELIVERY, DELIVERY_TRY, DISPUTE, ENDPOINT_HEALTH, ENTITLEMENTS, FEATURE,
    FEATURE_USAGE, OFFER, OFFER_VERSION, OUTSTANDING, PAYMENT_ATTEMPT, PAYMENT_RULES,
    PAYMENT_VELOCITY, PURCHASE, REPLAY, REPLAY_PROGRESS, TAG, TAG_DEFINITION, TIMER, USAGE_EVENT,
    USAGE_RESERVATION,
};
use super::{CHECK_MADE, CHECK_NOW, CLUSTERED, Index, Table, id, index, int, text, unique};

/// Control tags of accounts, as the schema's first two versions had them. [`TAG`] took their place.
pub(crate) static CONTROL_TAG_BEFORE_3: Table = Table {
    name: "tag",
    columns: &[
        int("tenant"),
        id("account_id"),
        int("definition"),
        id("id").fixed(),
        int("active"),
        int("created_at_us"),
        int("seq"),
    ],
    key_columns: 3,
    indexes: &[unique("tag_by_id", "tenant, id")],
    ..CLUSTERED
};

/// [`CUSTOM_FIELD`] as the schema's versions 3 to 7 had it.
static CUSTOM_FIELD_BEFORE_8: Table = Table {
    indexes: &[
        shown("custom_field_by_object", "tenant, object_type, object_id"),
        index("custom_field_by_account", "tenant, account_id"),
        shown("custom_field_by_creation", "tenant, created_at_us, ordinal, id"),
        shown("custom_field_by_name", "tenant, object_type, name, value"),
        shown("custom_field_by_value", "tenant, value"),
    ],
    ..CUSTOM_FIELD.table
};

/// Push notifications to be tried again, as the schema had them until version 9. [`DELIVERY`] took their place.
pub(crate) static DELIVERY_BEFORE_10: Table = Table {
    name: "delivery",
    columns: &[
        int("seq"),
        int("ordinal"),
        int("tenant").fixed(),
        int("attempts"),
        int("due_at_us"),
        text("error"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[index("delivery_by_due_at", "due_at_us")],
    ..CLUSTERED
};

/// [`OUTSTANDING`] as the schema's versions before 16 had it.
pub(crate) static OUTSTANDING_BEFORE_16: Table = Table {
    indexes: &[
        index("outstanding_by_payment", "payment_id"),
        Index {
            name: "outstanding_by_ask_at",
            columns: "partition, ask_at_us",
            unique: false,
            only: Some("ask_at_us IS NOT NULL"),
        },
    ],
    ..OUTSTANDING.table
};

/// [`ACCOUNT_PERSON`] as the schema's versions 1 to 19 had it.
pub(crate) static ACCOUNT_PERSON_BEFORE_20: Table = Table {
    indexes: &[Index {
        only: Some("email IS NOT NULL"),
        ..index("account_person_by_email", "tenant, lower(email)")
    }],
    ..ACCOUNT_PERSON
};

/// The tables that came with the schema's version 3.
pub(crate) static OF_VERSION_3: [&Table; 5] = [
    &CUSTOM_FIELD_BEFORE_8,
    &CUSTOM_FIELD_VALUE,
    &TAG.table,
    &TAG_DEFINITION.table,
    &ACCOUNT_EMAIL.table,
];

/// The tables that came with the schema's version 4.
pub(crate) static OF_VERSION_4: [&Table; 1] = [&BLOCKING_STATE.table];

/// The tables that came with the schema's version 5.
pub(crate) static OF_VERSION_5: [&Table; 3] =
    [&PAYMENT_RULES.table, &PAYMENT_ATTEMPT.table, &PAYMENT_VELOCITY.table];

/// The tables that came with the schema's version 6.
pub(crate) static OF_VERSION_6: [&Table; 1] = [&TIMER.table];

/// The tables that came with the schema's version 7.
pub(crate) static OF_VERSION_7: [&Table; 1] = [&AUDIT_IMPORTED];

/// The tables that came with the schema's version 10.
pub(crate) static OF_VERSION_10: [&Table; 5] =
    [&DELIVERY.table, &DELIVERY_TRY, &ENDPOINT_HEALTH, &REPLAY, &REPLAY_PROGRESS];

/// The tables that came with the schema's version 12.
pub(crate) static OF_VERSION_12: [&Table; 1] = [&DISPUTE.table];

/// The tables that came with the schema's version 17.
pub(crate) static OF_VERSION_17: [&Table; 5] =
    [&FEATURE.table, &OFFER.table, &OFFER_VERSION.table, &PURCHASE.table, &ENTITLEMENTS.table];

/// The table that came with the schema's version 18.
pub(crate) static OF_VERSION_18: [&Table; 1] = [&ACCOUNT_USER];

/// The tables that came with the schema's version 19.
pub(crate) static OF_VERSION_19: [&Table; 3] =
    [&FEATURE_USAGE.table, &USAGE_EVENT.table, &USAGE_RESERVATION.table];
