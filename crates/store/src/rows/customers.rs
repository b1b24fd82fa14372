//! Customers, their sessions, mails and operations as rows and back.

use domain::customer::{Credentials, Customer, Issued, Profile, Session};
use domain::mail::Mail;
use domain::operation::{Operation, OperationStatus};
use domain::{Timestamp, TokenId};
use engine::ports::StoreError;

use crate::cells::json;
use crate::codes::{
    OPERATION_FAILED, OPERATION_SUCCEEDED, OPERATION_WAITING, customer_status,
    customer_status_code, mail_kind, mail_kind_code,
};
use crate::driver::{Cells, Value};
use crate::tables::{CHECKS, CUSTOMER, MAIL, OPERATION, SESSION};

/// The column of a second factor.
pub(crate) fn second_factor_text(it: &Customer) -> Option<String> {
    it.credentials.second_factor.as_ref().map(json)
}

fn issued_row(it: Option<Issued>) -> [Value<'static>; 2] {
    [it.map(|it| it.id).into(), it.map(|it| it.expires_at).into()]
}

fn issued(cells: &mut Cells<'_>) -> Result<Option<Issued>, StoreError> {
    let (id, until): (Option<TokenId>, _) = (cells.opt_entity()?, cells.opt_int()?);
    match (id, until) {
        (Some(id), Some(until)) => Ok(Some(Issued { id, expires_at: Timestamp(until) })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(cells.corrupt("is half a token")),
    }
}

pub(crate) fn customer_row<'a>(
    it: &'a Customer,
    second_factor: Option<&'a str>,
) -> [Value<'a>; 21] {
    let [verification_id, verification_until] = issued_row(it.verification);
    let [reset_id, reset_until] = issued_row(it.reset);
    [
        it.tenant.into(),
        it.id.into(),
        it.account.into(),
        (&it.profile.email).into(),
        (&it.profile.email_key).into(),
        (&it.profile.first_name).into(),
        (&it.profile.last_name).into(),
        (&it.profile.preferences).into(),
        (&it.credentials.password_hash).into(),
        second_factor.into(),
        customer_status_code(it.status).into(),
        it.is_verified.into(),
        it.password_version.into(),
        verification_id,
        verification_until,
        reset_id,
        reset_until,
        it.expires_at.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`CUSTOMER`].
///
/// # Errors
/// See [`super::tenant`].
pub fn customer(cells: &mut Cells<'_>) -> Result<Customer, StoreError> {
    cells.of(&CUSTOMER);
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
        status: cells.code(customer_status)?,
        is_verified: cells.flag()?,
        password_version: cells.int()?,
        verification: issued(cells)?,
        reset: issued(cells)?,
        expires_at: cells.opt_int()?.map(Timestamp),
        created_at: cells.time()?,
        updated_at: cells.time()?,
        revision: cells.revision()?,
    })
}

pub(crate) fn session_row(it: &Session) -> [Value<'static>; 9] {
    [
        it.tenant.into(),
        it.id.into(),
        it.customer.into(),
        i64::from(it.generation).into(),
        it.created_at.into(),
        it.renewed_at.into(),
        it.expires_at.into(),
        it.refresh_until.into(),
        it.network.into(),
    ]
}

/// Reads a row of [`SESSION`].
///
/// # Errors
/// See [`super::tenant`].
pub fn session(cells: &mut Cells<'_>) -> Result<Session, StoreError> {
    cells.of(&SESSION);
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
    cells.skip(CHECKS);
    Ok(session)
}

pub(crate) fn mail_row(it: &Mail) -> [Value<'_>; 9] {
    [
        it.tenant.into(),
        it.id.into(),
        it.customer.into(),
        mail_kind_code(it.kind).into(),
        it.token.into(),
        it.created_at.into(),
        it.due_at.into(),
        i64::from(it.attempts).into(),
        it.error.as_ref().into(),
    ]
}

/// Reads a row of [`MAIL`].
///
/// # Errors
/// See [`super::tenant`].
pub fn mail(cells: &mut Cells<'_>) -> Result<Mail, StoreError> {
    cells.of(&MAIL);
    Ok(Mail {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        customer: cells.entity()?,
        kind: cells.code(mail_kind)?,
        token: cells.opt_entity()?,
        created_at: cells.time()?,
        due_at: cells.opt_int()?.map(Timestamp),
        attempts: cells.count()?,
        error: cells.opt_string()?,
    })
}

pub(crate) fn operation_row(it: &Operation) -> [Value<'_>; 12] {
    let (status, customer, explanation) = match &it.status {
        OperationStatus::Waiting => (OPERATION_WAITING, None, None),
        OperationStatus::Succeeded(customer) => (OPERATION_SUCCEEDED, *customer, None),
        OperationStatus::Failed(explanation) => (OPERATION_FAILED, None, Some(explanation)),
    };
    [
        it.tenant.into(),
        it.id.into(),
        status.into(),
        customer.into(),
        explanation.into(),
        it.sealed.as_ref().into(),
        it.callback.as_ref().into(),
        it.notify_at.into(),
        i64::from(it.notify_attempts).into(),
        it.created_at.into(),
        it.settled_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`OPERATION`].
///
/// # Errors
/// See [`super::tenant`].
pub fn operation(cells: &mut Cells<'_>) -> Result<Operation, StoreError> {
    cells.of(&OPERATION);
    let (tenant, id) = (cells.tenant()?, cells.entity()?);
    let (code, customer, explanation) = (cells.int()?, cells.opt_entity()?, cells.opt_string()?);
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
}
