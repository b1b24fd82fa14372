//! Tables as earlier versions of the schema had them.

use super::objects::shown;
use super::{ACCOUNT_PERSON, CUSTOM_FIELD, OUTSTANDING, POSTING};
use super::{CHECKED, CLUSTERED, Index, Table, id, index, int, only, text, unique};

/// Control tags of accounts, as the schema's first two versions had them. [`TAG`] took their place.
pub(crate) static CONTROL_TAG_BEFORE_3: Table = Table {
    name: "tag",
    key_columns: 3,
    indexes: &[unique("tag_by_id", "tenant, id")],
    ..CLUSTERED
}
.of(&[
    int("tenant"),
    id("account_id"),
    int("definition"),
    id("id").fixed(),
    int("active"),
    int("created_at_us"),
    int("seq"),
]);

/// [`CUSTOM_FIELD`] as the schema's versions 3 to 7 had it.
pub(crate) static CUSTOM_FIELD_BEFORE_8: Table = Table {
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
pub(crate) static DELIVERY_BEFORE_10: Table =
    Table { name: "delivery", indexes: &[index("delivery_by_due_at", "due_at_us")], ..CHECKED }.of(
        &[
            int("seq"),
            int("ordinal"),
            int("tenant").fixed(),
            int("attempts"),
            int("due_at_us"),
            text("error"),
        ],
    );

/// [`POSTING`] as the schema's versions before 22 had it: all were of payments.
pub(crate) static POSTING_BEFORE_22: Table = Table {
    name: POSTING.name,
    indexes: &[
        index("posting_by_payment", "tenant, account_id, payment_id"),
        index("posting_by_time", "tenant, at_us"),
    ],
    ..CLUSTERED
}
.of(&[
    int("seq"),
    int("ordinal"),
    int("tenant"),
    id("account_id"),
    id("payment_id"),
    id("transaction_id"),
    text("gateway"),
    int("debit"),
    int("credit"),
    int("amount_minor"),
    text("currency"),
    int("at_us"),
]);

/// [`OUTSTANDING`] as the schema's versions before 16 had it.
pub(crate) static OUTSTANDING_BEFORE_16: Table = Table {
    indexes: &[
        index("outstanding_by_payment", "payment_id"),
        only("outstanding_by_ask_at", "partition, ask_at_us", "ask_at_us IS NOT NULL"),
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
