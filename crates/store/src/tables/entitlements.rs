//! Features, offers, purchases, what accounts may do, and whose users are whose.

use super::{CHECK_MADE, CHECK_NOW, CLUSTERED, Index, Layout, Table, id, index, int, text};

/// Tenants' features. `terms` is JSON.
pub static FEATURE: Table = Table {
    name: "feature",
    columns: &[
        int("tenant"),
        text("key"),
        int("version"),
        text("name"),
        text("terms"),
        int("archived"),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        int("seq"),
    ],
    indexes: &[],
    ..CLUSTERED
};

/// The newest version of each offer. `terms` is JSON.
pub static OFFER: Table = Table {
    name: "offer",
    columns: &[
        int("tenant"),
        text("key"),
        int("version"),
        text("terms"),
        int("for_newcomers"),
        int("created_at_us"),
        int("seq"),
    ],
    indexes: &[Index {
        only: Some("for_newcomers = 1"),
        ..index("offer_for_newcomers", "tenant, for_newcomers")
    }],
    ..CLUSTERED
};

/// All versions of offers, as they were made.
pub static OFFER_VERSION: Table = Table {
    name: "offer_version",
    columns: &[
        int("tenant"),
        text("key"),
        int("version"),
        text("terms"),
        int("for_newcomers"),
        int("created_at_us"),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[],
};

/// Accounts' purchases. `terms`, the offer as it was bought, is JSON.
pub static PURCHASE: Table = Table {
    name: "purchase",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        id("payment_id").null().fixed(),
        text("offer").fixed(),
        int("offer_version").fixed(),
        text("terms").fixed(),
        int("purchase_status"),
        int("from_us").null(),
        int("until_us").null(),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        int("seq"),
    ],
    indexes: &[index("purchase_by_account", "tenant, account_id, id")],
    layout: Layout::Indexed,
    ..CLUSTERED
};

/// All that was granted to an account, one row each. `grants` and `bought` are JSON.
pub static ENTITLEMENTS: Table = Table {
    name: "entitlements",
    columns: &[
        int("tenant"),
        id("account_id"),
        int("version"),
        text("grants"),
        text("bought"),
        int("changed_at_us"),
        int("due_at_us").null(),
        int("users_version").added(18),
        int("seq"),
    ],
    indexes: &[index("entitlements_by_seq", "seq")],
    layout: Layout::Indexed,
    ..CLUSTERED
};

/// The users that are mapped to accounts. `key_hash` is that of the claim on the key: see
/// [`crate::rows::claim_hash`].
pub static ACCOUNT_USER: Table = Table {
    name: "account_user",
    columns: &[int("tenant"), id("account_id"), id("key_hash"), text("key"), int("seq")],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[],
};

/// The tables that came with the schema's version 17.
pub(crate) static OF_VERSION_17: [&Table; 5] =
    [&FEATURE, &OFFER, &OFFER_VERSION, &PURCHASE, &ENTITLEMENTS];

/// The table that came with the schema's version 18.
pub(crate) static OF_VERSION_18: [&Table; 1] = [&ACCOUNT_USER];
