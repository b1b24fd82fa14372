//! Reads of customers, their sessions, mails and operations.

use std::sync::LazyLock;

use domain::customer::{Customer, CustomerFile, Session};
use domain::mail::Mail;
use domain::operation::Operation;
use domain::{CustomerId, MailId, OperationId, SessionId, TenantNo, Timestamp};
use engine::ports::{Backlog, Page, StoreError};

use super::window::{self, Key};
use crate::driver::{Cells, Reader};
use crate::rows::customers as rows;
use crate::tables::{
    CUSTOMER, EXPIRING, GIVEN_UP, MAIL, OPERATION, SESSION, TO_NOTIFY, TO_SEND, WAITING,
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
    rows_max: usize,
) -> Result<Vec<Customer>, StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let rest =
            format!("WHERE {EXPIRING} AND expires_at_us <= ?1 ORDER BY expires_at_us, id LIMIT ?2");
        CUSTOMER.select(&rest)
    });
    reader.query(&SQL, &[now.into(), window::limit(rows_max as u64)], rows::customer)
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

/// What is still to be done: of mails those that are tried, and those given up; of operations those
/// that are to be made.
pub(super) fn backlog(reader: &Reader) -> Result<Backlog, StoreError> {
    static MAILS: LazyLock<String> =
        LazyLock::new(|| format!("SELECT count(*), min(created_at_us) FROM mail WHERE {TO_SEND}"));
    static DEAD: LazyLock<String> =
        LazyLock::new(|| format!("SELECT count(*), min(created_at_us) FROM mail WHERE {GIVEN_UP}"));
    static OPERATIONS: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT count(*), min(created_at_us) FROM operation WHERE {WAITING}")
    });
    let counted = |sql: &str| {
        let row = |cells: &mut Cells<'_>| Ok((cells.int()?, cells.opt_int()?.map(Timestamp)));
        reader.query_one(sql, &[], row).map(Option::unwrap_or_default)
    };
    let ((mails, oldest_mail_at), (dead_mails, _)) = (counted(&MAILS)?, counted(&DEAD)?);
    let (operations, oldest_operation_at) = counted(&OPERATIONS)?;
    Ok(Backlog { mails, oldest_mail_at, dead_mails, operations, oldest_operation_at })
}
