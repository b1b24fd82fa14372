//! The tables of customers: who they are, their sessions, and what is still to be done for them.

use super::{CHECK_MADE, CHECK_NOW, CLUSTERED, Index, Table, id, index, int, text};

/// Customers that are forgotten unless they verify their address in time. A query is answered from
/// the index where it has these very words.
pub(crate) const EXPIRING: &str = "expires_at_us IS NOT NULL";

/// Mails that are still tried.
pub(crate) const TO_SEND: &str = "due_at_us IS NOT NULL";

/// Mails that were given up.
pub(crate) const GIVEN_UP: &str = "due_at_us IS NULL";

/// Operations that are to be made.
pub(crate) const WAITING: &str = "status = 1";

/// Operations that have come to their end.
pub(crate) const SETTLED: &str = "settled_at_us IS NOT NULL";

/// Operations with a callback to make.
pub(crate) const TO_NOTIFY: &str = "notify_at_us IS NOT NULL";

/// Customers, as they are now. Of one who is forgotten, the personal columns are empty.
pub static CUSTOMER: Table = Table {
    name: "customer",
    columns: &[
        int("tenant"),
        id("id"),
        id("account_id").fixed(),
        text("email"),
        text("email_key"),
        text("first_name"),
        text("last_name"),
        text("preferences"),
        text("password_hash"),
        text("second_factor").null(),
        int("status"),
        int("is_verified"),
        int("password_version"),
        id("verification_id").null(),
        int("verification_until_us").null(),
        id("reset_id").null(),
        int("reset_until_us").null(),
        int("expires_at_us").null(),
        int("created_at_us").fixed(),
        int("updated_at_us"),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[Index { only: Some(EXPIRING), ..index("customer_expiring", "expires_at_us, id") }],
    ..CLUSTERED
};

/// Customers who are logged in.
pub static SESSION: Table = Table {
    name: "customer_session",
    columns: &[
        int("tenant"),
        id("id"),
        id("customer_id").fixed(),
        int("generation"),
        int("created_at_us").fixed(),
        int("renewed_at_us"),
        int("expires_at_us"),
        int("refresh_until_us"),
        int("network"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[
        index("customer_session_by_customer", "customer_id, tenant, id"),
        index("customer_session_ending", "refresh_until_us, id"),
    ],
    ..CLUSTERED
};

/// Mails until they are sent, and those that were given up.
pub static MAIL: Table = Table {
    name: "mail",
    columns: &[
        int("tenant"),
        id("id"),
        id("customer_id").fixed(),
        int("kind").fixed(),
        id("token_id").null().fixed(),
        int("created_at_us").fixed(),
        int("due_at_us").null(),
        int("attempts"),
        text("error").null(),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[
        Index { only: Some(TO_SEND), ..index("mail_due", "due_at_us, id") },
        index("mail_by_customer", "customer_id, tenant"),
        Index { only: Some(GIVEN_UP), ..index("mail_given_up", "created_at_us, id") },
    ],
    ..CLUSTERED
};

/// Operations. `sealed` and `callback` are encrypted; one is empty once an operation has come to its
/// end, the other once no callback is due.
pub static OPERATION: Table = Table {
    name: "operation",
    columns: &[
        int("tenant"),
        id("id"),
        int("status"),
        id("customer_id").null(),
        text("explanation").null(),
        text("sealed").null(),
        text("callback").null().fixed(),
        int("notify_at_us").null(),
        int("notify_attempts"),
        int("created_at_us").fixed(),
        int("settled_at_us").null(),
        int("seq"),
        CHECK_MADE,
        CHECK_NOW,
    ],
    indexes: &[
        Index { only: Some(WAITING), ..index("operation_waiting", "id, status") },
        Index { only: Some(TO_NOTIFY), ..index("operation_to_notify", "notify_at_us, id") },
        Index { only: Some(SETTLED), ..index("operation_settled", "settled_at_us, id") },
    ],
    ..CLUSTERED
};
