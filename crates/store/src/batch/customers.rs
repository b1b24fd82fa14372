//! The rows of customers that a batch writes, and those that it deletes with them.

use std::collections::BTreeMap;

use domain::change::CustomerChange;
use domain::customer::{Customer, Session};
use domain::mail::Mail;
use domain::operation::Operation;
use domain::{CustomerId, MailId, Seq, SessionId, TenantNo};
use engine::ports::StoreError;

use super::Images;
use crate::driver::{Database, Value};
use crate::rows::customers as rows;
use crate::stored::{self, WriteContext};
use crate::tables::{self, SESSION};

/// The part of a batch's rows that is about customers.
#[derive(Default)]
pub(super) struct CustomerRows<'a> {
    customers: Images<'a, Customer>,
    operations: Images<'a, Operation>,
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
            CustomerChange::Customer(it) => self.customers.take(it, seq),
            CustomerChange::Operation(it) => self.operations.take(it, seq),
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
    pub(super) fn write(&self, db: &Database, cx: WriteContext<'_>) -> Result<(), StoreError> {
        stored::CUSTOMERS.write(db, self.customers.values(), cx)?;
        stored::OPERATIONS.write(db, self.operations.values(), cx)?;
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
