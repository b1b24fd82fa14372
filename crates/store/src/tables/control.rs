//! Payment control: tenants' rules, attempts and velocities: the tables that came with the schema's version 5.

use super::{CHECK_MADE, CHECK_NOW, Index, Layout, Table, id, index, int, text};

/// Tenants' rules for payments. `retries`, `limits`, `merchant_accounts` and `routing` are JSON.
pub static PAYMENT_RULES: Table = Table {
    name: "payment_rules",
    columns: &[
        int("tenant"),
        text("retries").null(),
        text("limits").null(),
        text("merchant_accounts").added(9),
        text("routing").added(11),
        int("seq"),
    ],
    key_columns: 1,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Attempts of controlled calls. `plugins` is a JSON array of names; `properties`, JSON too, is NULL where
/// there are none and once the account's person is erased.
pub static PAYMENT_ATTEMPT: Table = Table {
    name: "payment_attempt",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        id("payment_id").null(),
        id("transaction_id").null(),
        text("payment_key").null().fixed(),
        text("transaction_key").null().fixed(),
        id("payment_method_id").null(),
        int("kind").fixed(),
        int("state"),
        int("amount_minor").fixed(),
        text("currency").fixed(),
        text("plugins").fixed(),
        text("properties").null(),
        int("rules").null(),
        int("counted_on").null(),
        int("retries"),
        int("tries"),
        int("due_at_us").null(),
        int("created_at_us").fixed(),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 2,
    layout: Layout::Clustered,
    indexes: &[
        // Not by tenant first: see `outstanding_by_payment`.
        Index {
            only: Some("payment_id IS NOT NULL"),
            ..index("payment_attempt_by_payment", "payment_id")
        },
        index("payment_attempt_by_account", "tenant, account_id, id"),
        Index {
            only: Some("due_at_us IS NOT NULL"),
            ..index("payment_attempt_scheduled", "tenant, account_id, due_at_us, id")
        },
    ],
};

/// The payments that accounts started in a day (UTC): their number, and amounts by currency as JSON.
pub static PAYMENT_VELOCITY: Table = Table {
    name: "payment_velocity",
    columns: &[
        int("tenant"),
        id("account_id"),
        int("day"),
        int("payments"),
        text("amounts"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 2,
    layout: Layout::Clustered,
    indexes: &[],
};

/// The tables that came with the schema's version 5.
pub(crate) static OF_VERSION_5: [&Table; 3] = [&PAYMENT_RULES, &PAYMENT_ATTEMPT, &PAYMENT_VELOCITY];
