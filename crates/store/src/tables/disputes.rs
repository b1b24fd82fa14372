//! Disputes: the table that came with the schema's version 12.

use super::{CLUSTERED, Table, id, index, int, text};

/// Disputes of payments, one for each case of a gateway. The claim on the case makes it one.
pub static DISPUTE: Table = Table {
    name: "dispute",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        id("payment_id").fixed(),
        id("transaction_id").fixed(),
        text("gateway").fixed(),
        text("case_id").fixed(),
        int("dispute_status"),
        text("reason").null(),
        int("amount_minor"),
        text("currency").fixed(),
        int("evidence_due_by_us").null(),
        int("warned_of_us").null(),
        int("withdrawn_minor"),
        int("reinstated_minor"),
        int("charged_back_minor"),
        int("reversed_minor"),
        int("excess_minor"),
        int("excess_returned_minor"),
        int("booking_at_us").null(),
        int("warning_at_us").null(),
        int("asked_at_us"),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        int("seq"),
    ],
    indexes: &[
        index("dispute_by_case", "tenant, gateway, case_id"),
        index("dispute_by_account", "tenant, account_id, id"),
        index("dispute_by_status", "tenant, dispute_status, id"),
        // Not by tenant first: see `outstanding_by_payment`.
        index("dispute_by_payment", "payment_id, id"),
    ],
    ..CLUSTERED
};

/// The tables that came with the schema's version 12.
pub(crate) static OF_VERSION_12: [&Table; 1] = [&DISPUTE];
