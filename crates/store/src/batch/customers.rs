//! What a batch writes of customers: their rows, and what is deleted with them.

use std::collections::BTreeMap;

use domain::change::CustomerChange;
use domain::customer::{Customer, Session};
use domain::mail::Mail;
use domain::operation::Operation;
use domain::{CustomerId, MailId, OperationId, Seq, SessionId, TenantNo};
use engine::ports::StoreError;

use super::{Newest, newest, put_all};
use crate::driver::{Database, Value};
use crate::rows::customers as rows;
use crate::tables::{self, SESSION};

/// The part of a batch's rows that is about customers.
#[derive(Default)]
pub(super) struct CustomerRows<'a> {
    customers: BTreeMap<(TenantNo, CustomerId), Newest<'a, Customer>>,
    operations: BTreeMap<(TenantNo, OperationId), Newest<'a, Operation>>,
    /// The newest image of a session; `None` once it has ended.
    sessions: BTreeMap<(TenantNo, SessionId), Option<&'a Session>>,
    mails: BTreeMap<(TenantNo, MailId), &'a Mail>,
    /// Customers who are erased.
    erased: Vec<(TenantNo, CustomerId)>,
}

impl<'a> CustomerRows<'a> {
    /// Adds a change to what is written.
    pub(super) fn take(&mut self, tenant: TenantNo, change: &'a CustomerChange, seq: Seq) {
        match change {
            CustomerChange::Customer(it) => {
                newest(&mut self.customers, (it.tenant, it.id), it, (it.revision, seq));
            }
            CustomerChange::Operation(it) => {
                newest(&mut self.operations, (it.tenant, it.id), it, (it.revision, seq));
            }
            CustomerChange::Session(it) => {
                self.sessions.insert((it.tenant, it.id), Some(it));
            }
            CustomerChange::SessionEnded { session, .. } => {
                self.sessions.insert((tenant, *session), None);
            }
            CustomerChange::Mail(it) => {
                self.mails.insert((it.tenant, it.id), it);
            }
            CustomerChange::MailsErased { customer } => {
                // What the batch itself asked for before is not sent either.
                self.mails.retain(|(no, _), it| (*no, it.customer) != (tenant, *customer));
                self.erased.push((tenant, *customer));
            }
        }
    }

    /// Writes the rows.
    pub(super) fn write(&self, db: &Database) -> Result<(), StoreError> {
        put_all(db, &tables::CUSTOMER, self.customers.values(), |put, it| {
            let second_factor = rows::second_factor_text(it.image);
            put.row(&rows::customer_row(it.image, second_factor.as_deref()))
        })?;
        put_all(db, &tables::OPERATION, self.operations.values(), |put, it| {
            put.row(&rows::operation_row(it.image))
        })?;
        self.write_sessions(db)?;
        if !self.mails.is_empty() {
            let mut put = db.insert(&tables::MAIL)?;
            for mail in self.mails.values() {
                put.row(&rows::mail_row(mail))?;
            }
        }
        Ok(())
    }

    fn write_sessions(&self, db: &Database) -> Result<(), StoreError> {
        let live = self.sessions.values().flatten();
        if live.clone().next().is_some() {
            let mut put = db.upsert(&SESSION)?;
            for session in live {
                put.row(&rows::session_row(session))?;
            }
        }
        let ended: Vec<[Value<'_>; 2]> = self
            .sessions
            .iter()
            .filter(|(_, it)| it.is_none())
            .map(|((tenant, session), _)| [(*tenant).into(), (*session).into()])
            .collect();
        delete(db, "DELETE FROM customer_session WHERE tenant = ?1 AND id = ?2", &ended)
    }

    /// Deletes the mails of erased customers from before the batch.
    pub(super) fn forget(&self, db: &Database) -> Result<(), StoreError> {
        let mails: Vec<[Value<'_>; 2]> =
            self.erased.iter().map(|it| [it.0.into(), it.1.into()]).collect();
        delete(db, "DELETE FROM mail WHERE tenant = ?1 AND customer_id = ?2", &mails)
    }
}

fn delete(db: &Database, sql: &str, keys: &[[Value<'_>; 2]]) -> Result<(), StoreError> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut delete = db.prepare(sql)?;
    keys.iter().try_for_each(|key| delete.row(key))
}
