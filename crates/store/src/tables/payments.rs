//! The tables of payments: attempts, the ledger's postings, and outcomes that are awaited.

use super::{CHECK_MADE, CHECK_NOW, CLUSTERED, Index, Layout, Table, id, index, int, text, unique};

/// Payments in a state that few stay in: all but those that were authorized, captured or purchased,
/// and those about to be. The index `payment_by_rare_state` has only these, so that an ordinary
/// payment does not pay for it; a query is answered from it where it has these very words.
pub(crate) const IN_RARE_STATE: &str = "(status NOT IN (1, 2) OR operation NOT IN (1, 2, 3))";

pub static PAYMENT: Table = Table {
    name: "payment",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        id("payment_method_id"),
        int("number").fixed(),
        text("external_key").null().fixed(),
        text("currency"),
        text("gateway"),
        int("operation"),
        int("status"),
        int("success_operation").null(),
        int("success_status").null(),
        int("authorized_minor"),
        int("captured_minor"),
        int("purchased_minor"),
        int("refunded_minor"),
        int("credited_minor"),
        int("charged_back_minor"),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        id("purchase_id").added(17).fixed(),
        int("seq"),
    ],
    indexes: &[
        index("payment_by_account", "tenant, account_id, id"),
        index("payment_by_gateway", "tenant, gateway, id"),
        Index {
            only: Some(IN_RARE_STATE),
            ..index("payment_by_rare_state", "tenant, operation, status, id")
        },
    ],
    ..CLUSTERED
};

/// Transactions whose outcome nobody knows although their call has ended: pending and unknown. A
/// query of these is answered from the index `payment_transaction_unresolved`, where it has these
/// very words.
pub(crate) const UNRESOLVED: &str = "status IN (3, 6)";

/// Transactions of payments. `routed` is JSON. `opened_seq` is the journal row that made one: their order, and that of
/// `effective_at_us` where one row made several.
pub static PAYMENT_TRANSACTION: Table = Table {
    name: "payment_transaction",
    columns: &[
        int("tenant"),
        id("payment_id"),
        id("id"),
        int("opened_seq").fixed(),
        id("account_id").fixed(),
        text("external_key").null().fixed(),
        text("gateway"),
        id("payment_method_id").fixed(),
        int("kind").fixed(),
        int("status"),
        int("amount_minor").null(),
        int("called_amount_minor").null(),
        text("currency").null(),
        int("processed_amount_minor").null(),
        text("processed_currency").null(),
        int("effective_at_us"),
        text("gateway_error_code").null(),
        text("gateway_error_message").null(),
        text("first_reference").null(),
        text("second_reference").null(),
        int("overruled"),
        text("merchant_account").added(9).fixed(),
        text("routed").added(11).fixed(),
        int("heard_at_us").added(14),
        int("seq"),
    ],
    key_columns: 3,
    layout: Layout::Clustered,
    indexes: &[
        unique("payment_transaction_by_id", "tenant, id"),
        Index {
            only: Some(UNRESOLVED),
            ..index("payment_transaction_unresolved", "tenant, effective_at_us, id, status")
        },
    ],
};

/// The ledger's postings, of the journal row `seq`, in order. Only ever appended to.
pub static POSTING: Table = Table {
    name: "posting",
    columns: &[
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
    ],
    indexes: &[
        index("posting_by_payment", "tenant, account_id, payment_id"),
        index("posting_by_time", "tenant, at_us"),
    ],
    ..CLUSTERED
};

/// Accounts that are out of service, each since a command that could not be carried out.
pub static QUARANTINE: Table = Table {
    name: "quarantine",
    columns: &[
        int("tenant"),
        id("account_id"),
        int("since_us").fixed(),
        id("request_id").fixed(),
        text("command").fixed(),
        text("reason").fixed(),
        CHECK_MADE,
        CHECK_NOW,
    ],
    ..CLUSTERED
};

/// Outcomes that are awaited; the owner of the partition inquires about them.
pub static OUTSTANDING: Table = Table {
    name: "outstanding",
    columns: &[
        int("tenant"),
        id("transaction_id"),
        id("payment_id").fixed(),
        id("account_id").fixed(),
        text("gateway"),
        int("deadline_us"),
        int("ask_at_us").null(),
        int("asked"),
        id("reply_key").null(),
        text("user_name"),
        text("created_by"),
        text("reason").null(),
        text("comments").null(),
        id("token"),
        int("partition").fixed(),
        text("next_action").added(9),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[
        // Not by tenant first: while the table is nearly empty, PostgreSQL would as soon use it for a
        // transaction, and go on reading all of a tenant's rows as they become many.
        index("outstanding_by_payment", "payment_id"),
        Index {
            name: "outstanding_by_gateway",
            columns: "partition, gateway, ask_at_us",
            unique: false,
            only: Some("ask_at_us IS NOT NULL"),
        },
    ],
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
    ..OUTSTANDING
};

/// Timers that are set, each with the partition that fires it.
pub static TIMER: Table = Table {
    name: "timer",
    columns: &[
        int("tenant"),
        int("kind"),
        id("object_id"),
        id("account_id").fixed(),
        int("due_at_us"),
        int("partition").fixed(),
        CHECK_MADE,
        CHECK_NOW,
    ],
    key_columns: 3,
    indexes: &[index("timer_by_due_at", "partition, due_at_us, tenant, kind, object_id")],
    ..CLUSTERED
};

/// The tables that came with the schema's version 6.
pub(crate) static OF_VERSION_6: [&Table; 1] = [&TIMER];
