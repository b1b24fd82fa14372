//! Customers: who they are, their sessions, and work that is still to be done for them.

use domain::customer::mail::Mail;
use domain::customer::operation::{Operation, OperationStatus};
use domain::customer::{Credentials, Customer, Issued, Profile, Session};
use domain::{CustomerId, Timestamp, TokenId};
use engine::ports::StoreError;

use super::{CHECKED, Table, id, index, int, only, text};
use crate::codes::{OPERATION_FAILED, OPERATION_SUCCEEDED, OPERATION_WAITING, code};
use crate::driver::Cells;
use crate::stored::TableOf;

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
pub static CUSTOMER: TableOf<Customer> = TableOf::new(
    Table {
        name: "customer",
        indexes: &[only("customer_expiring", "expires_at_us, id", EXPIRING)],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account.into()),
        text("email").of(|it, _| (&it.profile.email).into()),
        text("email_key").of(|it, _| (&it.profile.email_key).into()),
        text("first_name").of(|it, _| (&it.profile.first_name).into()),
        text("last_name").of(|it, _| (&it.profile.last_name).into()),
        text("preferences").of(|it, _| (&it.profile.preferences).into()),
        text("password_hash").of(|it, _| (&it.credentials.password_hash).into()),
        text("second_factor").null().of(|it, cx| cx.opt_json(&it.credentials.second_factor)),
        int("status").of(|it, _| code(it.status).into()),
        int("is_verified").of(|it, _| it.is_verified.into()),
        int("password_version").of(|it, _| it.password_version.into()),
        id("verification_id").null().of(|it, _| it.verification.map(|it| it.id).into()),
        int("verification_until_us")
            .null()
            .of(|it, _| it.verification.map(|it| it.expires_at).into()),
        id("reset_id").null().of(|it, _| it.reset.map(|it| it.id).into()),
        int("reset_until_us").null().of(|it, _| it.reset.map(|it| it.expires_at).into()),
        int("expires_at_us").null().of(|it, _| it.expires_at.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        let (tenant, id, account) = (cells.tenant()?, cells.entity()?, cells.entity()?);
        let profile = Profile {
            email: cells.string()?,
            email_key: cells.string()?,
            first_name: cells.string()?,
            last_name: cells.string()?,
            preferences: cells.string()?,
        };
        let credentials =
            Credentials { password_hash: cells.string()?, second_factor: cells.opt_json()? };
        Ok(Customer {
            tenant,
            id,
            account,
            profile,
            credentials,
            status: cells.code()?,
            is_verified: cells.flag()?,
            password_version: cells.int()?,
            verification: issued(cells)?,
            reset: issued(cells)?,
            expires_at: cells.opt_int()?.map(Timestamp),
            created_at: cells.time()?,
            updated_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
);

fn issued(cells: &mut Cells<'_>) -> Result<Option<Issued>, StoreError> {
    let (id, until): (Option<TokenId>, _) = (cells.opt_entity()?, cells.opt_int()?);
    match (id, until) {
        (Some(id), Some(until)) => Ok(Some(Issued { id, expires_at: Timestamp(until) })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(cells.corrupt("is half a token")),
    }
}

/// Customers who are logged in.
pub static SESSION: TableOf<Session> = TableOf::new(
    Table {
        name: "customer_session",
        indexes: &[
            index("customer_session_by_customer", "customer_id, tenant, id"),
            index("customer_session_ending", "refresh_until_us, id"),
        ],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("customer_id").fixed().of(|it, _| it.customer.into()),
        int("generation").of(|it, _| i64::from(it.generation).into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("renewed_at_us").of(|it, _| it.renewed_at.into()),
        int("expires_at_us").of(|it, _| it.expires_at.into()),
        int("refresh_until_us").of(|it, _| it.refresh_until.into()),
        int("network").of(|it, _| it.network.into()),
    ],
    |cells| {
        let session = Session {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            customer: cells.entity()?,
            generation: cells.count()?,
            created_at: cells.time()?,
            renewed_at: cells.time()?,
            expires_at: cells.time()?,
            refresh_until: cells.time()?,
            network: cells.int()?,
        };
        Ok(session)
    },
);

/// Mails until they are sent, and those that were given up.
pub static MAIL: TableOf<Mail> = TableOf::new(
    Table {
        name: "mail",
        indexes: &[
            only("mail_due", "due_at_us, id", TO_SEND),
            index("mail_by_customer", "customer_id, tenant"),
            only("mail_given_up", "created_at_us, id", GIVEN_UP),
        ],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("customer_id").fixed().of(|it, _| it.customer.into()),
        int("kind").fixed().of(|it, _| code(it.kind).into()),
        id("token_id").null().fixed().of(|it, _| it.token.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("due_at_us").null().of(|it, _| it.due_at.into()),
        int("attempts").of(|it, _| i64::from(it.attempts).into()),
        text("error").null().of(|it, _| it.error.as_ref().into()),
    ],
    |cells| {
        Ok(Mail {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            customer: cells.entity()?,
            kind: cells.code()?,
            token: cells.opt_entity()?,
            created_at: cells.time()?,
            due_at: cells.opt_int()?.map(Timestamp),
            attempts: cells.count()?,
            error: cells.opt_string()?,
        })
    },
);

/// Operations. `sealed` and `callback` are encrypted; one is empty once an operation has come to its
/// end, the other once no callback is due.
pub static OPERATION: TableOf<Operation> = TableOf::new(
    Table {
        name: "operation",
        indexes: &[
            only("operation_waiting", "id, status", WAITING),
            only("operation_to_notify", "notify_at_us, id", TO_NOTIFY),
            only("operation_settled", "settled_at_us, id", SETTLED),
        ],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        int("status").of(|it, _| operation_status(&it.status).0.into()),
        id("customer_id").null().of(|it, _| operation_status(&it.status).1.into()),
        text("explanation").null().of(|it, _| operation_status(&it.status).2.into()),
        text("sealed").null().of(|it, _| it.sealed.as_ref().into()),
        text("callback").null().fixed().of(|it, _| it.callback.as_ref().into()),
        int("notify_at_us").null().of(|it, _| it.notify_at.into()),
        int("notify_attempts").of(|it, _| i64::from(it.notify_attempts).into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("settled_at_us").null().of(|it, _| it.settled_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        let (tenant, id) = (cells.tenant()?, cells.entity()?);
        let (code, customer, explanation) =
            (cells.int()?, cells.opt_entity()?, cells.opt_string()?);
        let status = match (code, explanation) {
            (OPERATION_WAITING, None) => OperationStatus::Waiting,
            (OPERATION_SUCCEEDED, None) => OperationStatus::Succeeded(customer),
            (OPERATION_FAILED, Some(explanation)) => OperationStatus::Failed(explanation),
            _ => return Err(cells.corrupt("is no status")),
        };
        Ok(Operation {
            tenant,
            id,
            status,
            sealed: cells.opt_string()?,
            callback: cells.opt_string()?,
            notify_at: cells.opt_int()?.map(Timestamp),
            notify_attempts: cells.count()?,
            created_at: cells.time()?,
            settled_at: cells.opt_int()?.map(Timestamp),
            revision: cells.revision()?,
        })
    },
);

/// The code of an operation's status, its customer, and why it failed.
fn operation_status(it: &OperationStatus) -> (i64, Option<CustomerId>, Option<&String>) {
    match it {
        OperationStatus::Waiting => (OPERATION_WAITING, None, None),
        OperationStatus::Succeeded(customer) => (OPERATION_SUCCEEDED, *customer, None),
        OperationStatus::Failed(explanation) => (OPERATION_FAILED, None, Some(explanation)),
    }
}
