//! Accounts' usage of features: the tables that came with the schema's version 19.

use super::{CHECK_MADE, CHECK_NOW, CLUSTERED, Layout, Table, id, index, int, text};

/// Accounts' usage of features, one row for each period. `period_end_us` is far in the future where a period has no
/// end; `reserved` is JSON: quantities by the times when they end.
pub static FEATURE_USAGE: Table = Table {
    name: "feature_usage",
    columns: &[
        int("tenant"),
        id("account_id"),
        text("feature"),
        int("period_end_us"),
        int("resets"),
        int("period_start_us").fixed(),
        int("used"),
        text("reserved"),
        int("endings"),
        int("is_reached"),
        int("updated_at_us"),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 5,
    layout: Layout::Clustered,
    indexes: &[index("feature_usage_by_seq", "seq")],
};

/// Events that were counted in the last days, by hashes of their ids, with what was answered.
pub static USAGE_EVENT: Table = Table {
    name: "usage_event",
    columns: &[
        int("tenant"),
        id("account_id"),
        id("event_key"),
        text("feature"),
        int("period_end_us"),
        int("resets"),
        int("period_start_us"),
        int("quantity"),
        int("limited_to"),
        int("used"),
        int("reserved"),
        int("counted_at_us"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    indexes: &[index("usage_event_by_time", "counted_at_us")],
    ..CLUSTERED
};

/// Reservations. `confirmed` is how much of it was used.
pub static USAGE_RESERVATION: Table = Table {
    name: "usage_reservation",
    columns: &[
        int("tenant"),
        id("account_id"),
        id("id"),
        text("feature").fixed(),
        int("period_end_us").fixed(),
        int("resets").fixed(),
        int("period_start_us").fixed(),
        int("quantity").fixed(),
        int("until_us").fixed(),
        int("endings").fixed(),
        int("reservation_status"),
        int("confirmed").null(),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    indexes: &[index("usage_reservation_by_end", "until_us")],
    ..CLUSTERED
};

/// The tables that came with the schema's version 19.
pub(crate) static OF_VERSION_19: [&Table; 3] = [&FEATURE_USAGE, &USAGE_EVENT, &USAGE_RESERVATION];
