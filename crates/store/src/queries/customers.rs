//! Reads of customers, their sessions, mails and operations.

use std::sync::LazyLock;

use domain::customer::{Customer, CustomerFile, Session};
use domain::mail::Mail;
use domain::operation::Operation;
use domain::payment::ReplyKey;
use domain::{CustomerId, MailId, OperationId, SessionId, TenantNo, Timestamp};
use engine::ports::{Backlog, Over, Page, StoreError};

use super::window::{self, Key};
use crate::driver::Reader;
use crate::rows::customers as rows;
use crate::tables::{
    CUSTOMER, EXPIRING, GIVEN_UP, MAIL, OPERATION, SESSION, SETTLED, TO_NOTIFY, TO_SEND, WAITING,
};

const BY_ID: &str = "WHERE tenant = ?1 AND id = ?2";

static CUSTOMER_BY_ID: LazyLock<String> = LazyLock::new(|| CUSTOMER.select(BY_ID));

pub(super) fn by_id(
    reader: &Reader,
    no: TenantNo,
    id: CustomerId,
) -> Result<Option<Customer>, StoreError> {
    reader.query_one(&CUSTOMER_BY_ID, &[no.into(), id.into()], rows::customer)
}

pub(super) fn by_email(reader: &Reader, key: &Key<'_>) -> Result<Option<Customer>, StoreError> {
    match key.claim(reader)? {
        Some(claim) => by_id(reader, key.tenant, CustomerId::new(claim.owner)),
        None => Ok(None),
    }
}

pub(super) fn is_taken(reader: &Reader, key: &Key<'_>) -> Result<bool, StoreError> {
    Ok(key.claim(reader)?.is_some())
}

pub(super) fn file(
    reader: &Reader,
    no: TenantNo,
    id: CustomerId,
) -> Result<Option<CustomerFile>, StoreError> {
    static SESSIONS: LazyLock<String> =
        LazyLock::new(|| SESSION.select("WHERE customer_id = ?2 AND tenant = ?1 ORDER BY id"));
    let Some(customer) = by_id(reader, no, id)? else { return Ok(None) };
    let sessions = reader.query(&SESSIONS, &[no.into(), id.into()], rows::session)?;
    Ok(Some(CustomerFile { customer, sessions }))
}

pub(super) fn by_session(
    reader: &Reader,
    no: TenantNo,
    id: SessionId,
) -> Result<Option<(Session, Customer)>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let (session, customer) = (SESSION.select_list("s."), CUSTOMER.select_list("c."));
        format!(
            "SELECT {session}, {customer} FROM customer_session s JOIN customer c \
             ON c.tenant = s.tenant AND c.id = s.customer_id WHERE s.tenant = ?1 AND s.id = ?2"
        )
    });
    reader.query_one(&SQL, &[no.into(), id.into()], |cells| {
        Ok((rows::session(cells)?, rows::customer(cells)?))
    })
}

pub(super) fn page(reader: &Reader, no: TenantNo, page: Page) -> Result<Vec<Customer>, StoreError> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| CUSTOMER.select("WHERE tenant = ?1 ORDER BY id LIMIT ?2 OFFSET ?3"));
    let [limit, offset] = window::limit_offset(page);
    reader.query(&SQL, &[no.into(), limit, offset], rows::customer)
}

pub(super) fn expired(
    reader: &Reader,
    now: Timestamp,
    after: Option<(Timestamp, CustomerId)>,
    rows_max: usize,
) -> Result<Vec<Customer>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        CUSTOMER.select(&format!(
            "WHERE {EXPIRING} AND expires_at_us <= ?1 AND (expires_at_us, id) > (?2, ?3) \
             ORDER BY expires_at_us, id LIMIT ?4"
        ))
    });
    let (at, id) = after.unwrap_or((Timestamp(i64::MIN), CustomerId::new(uuid::Uuid::nil())));
    let limit = window::limit(rows_max as u64);
    reader.query(&SQL, &[now.into(), at.into(), id.into(), limit], rows::customer)
}

pub(super) fn mails_due(
    reader: &Reader,
    now: Timestamp,
    rows_max: usize,
) -> Result<Vec<Mail>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let rest = format!("WHERE {TO_SEND} AND due_at_us <= ?1 ORDER BY due_at_us, id LIMIT ?2");
        MAIL.select(&rest)
    });
    reader.query(&SQL, &[now.into(), window::limit(rows_max as u64)], rows::mail)
}

pub(super) fn mail(reader: &Reader, no: TenantNo, id: MailId) -> Result<Option<Mail>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| MAIL.select(BY_ID));
    reader.query_one(&SQL, &[no.into(), id.into()], rows::mail)
}

pub(super) fn mails(
    reader: &Reader,
    no: TenantNo,
    given_up: bool,
    page: Page,
) -> Result<Vec<Mail>, StoreError> {
    static QUEUED: LazyLock<String> = LazyLock::new(|| of_tenant(TO_SEND));
    static DEAD: LazyLock<String> = LazyLock::new(|| of_tenant(GIVEN_UP));
    fn of_tenant(which: &str) -> String {
        MAIL.select(&format!("WHERE tenant = ?1 AND {which} ORDER BY id LIMIT ?2 OFFSET ?3"))
    }
    let [limit, offset] = window::limit_offset(page);
    let sql = if given_up { &DEAD } else { &QUEUED };
    reader.query(sql, &[no.into(), limit, offset], rows::mail)
}

pub(super) fn operation(
    reader: &Reader,
    no: TenantNo,
    id: OperationId,
) -> Result<Option<Operation>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| OPERATION.select(BY_ID));
    reader.query_one(&SQL, &[no.into(), id.into()], rows::operation)
}

pub(super) fn waiting(
    reader: &Reader,
    after: Option<OperationId>,
    rows_max: usize,
) -> Result<Vec<Operation>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        OPERATION.select(&format!("WHERE {WAITING} AND id > ?1 ORDER BY id LIMIT ?2"))
    });
    let after = after.unwrap_or(OperationId::new(uuid::Uuid::nil()));
    reader.query(&SQL, &[after.into(), window::limit(rows_max as u64)], rows::operation)
}

pub(super) fn to_notify(
    reader: &Reader,
    now: Timestamp,
    rows_max: usize,
) -> Result<Vec<Operation>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let rest =
            format!("WHERE {TO_NOTIFY} AND notify_at_us <= ?1 ORDER BY notify_at_us, id LIMIT ?2");
        OPERATION.select(&rest)
    });
    reader.query(&SQL, &[now.into(), window::limit(rows_max as u64)], rows::operation)
}

static WAITING_COUNT: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT count(*) FROM (SELECT 1 FROM operation WHERE {WAITING} LIMIT ?1) AS counted")
});

pub(super) fn waiting_count(reader: &Reader, counted_max: usize) -> Result<usize, StoreError> {
    let limit = window::limit(counted_max as u64);
    let counted = reader.query_one(&WAITING_COUNT, &[limit], |cells| cells.int())?;
    Ok(counted.and_then(|it| usize::try_from(it).ok()).unwrap_or_default())
}

pub(super) fn has_reply(reader: &Reader, key: ReplyKey) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM reply WHERE key = ?1";
    Ok(reader.query_one(sql, &[key.into()], |cells| cells.int())?.is_some())
}

/// What is still to be done: mails that are tried, and operations that are to be made. Those who look
/// often are to read little: a count ends somewhere, and the first is the first of an index.
pub(super) fn backlog(reader: &Reader) -> Result<Backlog, StoreError> {
    static MAILS: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT count(*) FROM (SELECT 1 FROM mail WHERE {TO_SEND} LIMIT ?1) AS counted")
    });
    static MAIL_DUE: LazyLock<String> =
        LazyLock::new(|| format!("SELECT min(due_at_us) FROM mail WHERE {TO_SEND}"));
    static OPERATION: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT created_at_us FROM operation WHERE {WAITING} ORDER BY id LIMIT 1")
    });
    let count = |sql: &str| {
        let counted = reader.query_one(sql, &[Backlog::COUNTED_MAX.into()], |cells| cells.int())?;
        Ok::<_, StoreError>(counted.unwrap_or_default())
    };
    let first = |sql: &str| {
        let found = reader.query_one(sql, &[], |cells| cells.opt_int())?;
        Ok::<_, StoreError>(found.flatten().map(Timestamp))
    };
    Ok(Backlog {
        mails: count(&MAILS)?,
        mail_due_at: first(&MAIL_DUE)?,
        operations: count(&WAITING_COUNT)?,
        oldest_operation_at: first(&OPERATION)?,
    })
}

/// Whether some of what is over is still there.
pub(super) fn has_over(reader: &Reader, over: Over) -> Result<bool, StoreError> {
    for (name, rest, until) in endings(over) {
        let sql = format!("SELECT 1 FROM {name} WHERE {rest} < ?1 LIMIT 1");
        if reader.query_one(&sql, &[until.into()], |cells| cells.int())?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Of what may be over: its table, what the index of it begins with, and until when it is.
pub(crate) fn endings(over: Over) -> [(&'static str, String, Timestamp); 3] {
    let Over { operations_settled, mails_given_up, sessions_ended } = over;
    [
        (OPERATION.name, format!("{SETTLED} AND settled_at_us"), operations_settled),
        (MAIL.name, format!("{GIVEN_UP} AND created_at_us"), mails_given_up),
        (SESSION.name, "refresh_until_us".to_owned(), sessions_ended),
    ]
}
