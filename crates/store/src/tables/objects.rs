//! Custom fields, tags and further e-mail addresses: the tables that came with the schema's version 3; and
//! blocking states, which came with version 4.

use super::{
    CHECK_MADE, CHECK_NOW, CLUSTERED, Index, Layout, Table, folded, id, index, int, text, unique,
};

/// Tags on objects, those that were removed too. Of a transaction `object_payment_id` is its payment.
pub static TAG: Table = Table {
    name: "object_tag",
    columns: &[
        int("tenant"),
        id("object_id"),
        id("definition_id"),
        int("object_type").fixed(),
        id("account_id").fixed(),
        id("object_payment_id").null().fixed(),
        id("id").fixed(),
        int("active"),
        int("created_at_us"),
        int("seq"),
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[
        unique("object_tag_by_id", "tenant, id"),
        index("object_tag_by_account", "tenant, account_id"),
        only("object_tag_by_creation", "tenant, created_at_us, definition_id, id", "active = 1"),
        only("object_tag_by_definition", "tenant, definition_id, created_at_us, id", "active = 1"),
    ],
};

/// A tenant's own definitions of tags, those that were deleted too. `applies_to` is a JSON array of names.
pub static TAG_DEFINITION: Table = Table {
    name: "tag_definition",
    columns: &[
        int("tenant"),
        id("id"),
        text("name").fixed(),
        text("description").fixed(),
        text("applies_to").fixed(),
        int("active"),
        int("created_at_us").fixed(),
        int("seq"),
    ],
    ..CLUSTERED
};

/// Custom fields, those that were removed too. `name` and `value` are NULL once the account's person is
/// erased. Of a transaction `object_payment_id` is its payment.
pub static CUSTOM_FIELD: Table = Table {
    name: "custom_field",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        int("object_type").fixed(),
        id("object_id").fixed(),
        id("object_payment_id").null().fixed(),
        text("name").null(),
        text("value").null(),
        int("ordinal").fixed(),
        int("active"),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        int("seq"),
        folded("name_folded"),
        folded("value_folded"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[
        shown("custom_field_by_object", "tenant, object_type, object_id"),
        index("custom_field_by_account", "tenant, account_id"),
        shown("custom_field_by_creation", "tenant, created_at_us, ordinal, id"),
        // With `active`, so that fields are counted in the index.
        shown(
            "custom_field_by_name_in_order",
            "tenant, object_type, name, value, created_at_us, ordinal, id, active",
        ),
        shown("custom_field_by_value", "tenant, value"),
    ],
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
    ..CUSTOM_FIELD
};

/// The values that custom fields had, each from the journal row `seq` on.
pub static CUSTOM_FIELD_VALUE: Table = Table {
    name: "custom_field_value",
    columns: &[
        int("tenant"),
        id("field_id"),
        int("seq"),
        id("account_id").fixed(),
        text("value").fixed(),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[index("custom_field_value_by_account", "tenant, account_id")],
};

/// Further e-mail addresses of accounts, those that were removed too. `email` is NULL once the person is erased.
pub static ACCOUNT_EMAIL: Table = Table {
    name: "account_email",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        text("email").null(),
        int("active"),
        int("created_at_us").fixed(),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[index("account_email_by_account", "tenant, account_id, created_at_us")],
    ..CLUSTERED
};

/// Blocking states of accounts, those that are no longer needed too.
pub static BLOCKING_STATE: Table = Table {
    name: "blocking_state",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        int("ordinal").fixed(),
        text("service").fixed(),
        text("name").fixed(),
        int("blocks_change").fixed(),
        int("blocks_entitlement").fixed(),
        int("blocks_billing").fixed(),
        int("effective_at_us").fixed(),
        int("active"),
        int("created_at_us").fixed(),
        int("seq"),
    ],
    indexes: &[
        index("blocking_state_by_account", "tenant, account_id, ordinal"),
        // Each account that is loaded is looked for here.
        only("blocking_state_closing", "tenant, account_id, ordinal", CLOSING),
    ],
    ..CLUSTERED
};

/// Which blocking states close accounts, or open them again.
pub(crate) const CLOSING: &str = "service = 'account-service'";

/// Which custom fields are shown.
pub(crate) const SHOWN: &str = "active = 1 AND value IS NOT NULL";

const fn shown(name: &'static str, columns: &'static str) -> Index {
    only(name, columns, SHOWN)
}

const fn only(name: &'static str, columns: &'static str, only: &'static str) -> Index {
    Index { name, columns, unique: false, only: Some(only) }
}

/// The tables that came with the schema's version 3.
pub(crate) static OF_VERSION_3: [&Table; 5] =
    [&CUSTOM_FIELD_BEFORE_8, &CUSTOM_FIELD_VALUE, &TAG, &TAG_DEFINITION, &ACCOUNT_EMAIL];

/// The tables that came with the schema's version 4.
pub(crate) static OF_VERSION_4: [&Table; 1] = [&BLOCKING_STATE];
