//! The rows of customers that a batch writes, and those that it deletes with them.

use std::collections::BTreeMap;

use domain::change::CustomerChange;
use domain::customer::Session;
use domain::customer::mail::Mail;
use domain::{CustomerId, MailId, Seq, SessionId, TenantNo};
use engine::ports::StoreError;

use crate::driver::Database;
use crate::stored::{Newest, WriteContext};
use crate::tables::{MAIL, SESSION};

/// The part of a batch's rows that belongs to customers.
#[derive(Default)]
pub(super) struct CustomerRows<'a> {
    /// The newest image of a session; `None` once it has ended.
    sessions: BTreeMap<(TenantNo, SessionId), Option<&'a Session>>,
    mails: BTreeMap<(TenantNo, MailId), Newest<'a, Mail>>,
    /// Customers who are erased.
    erased: Vec<(TenantNo, CustomerId)>,
}

impl<'a> CustomerRows<'a> {
    /// Adds a change to what is written.
    pub(super) fn take(&mut self, tenant: TenantNo, change: &'a CustomerChange, seq: Seq) {
        match change {
            CustomerChange::Session(it) => {
                self.sessions.insert((it.tenant, it.id), Some(it));
            }
            CustomerChange::SessionEnded { session, .. } => {
                self.sessions.insert((tenant, *session), None);
            }
            CustomerChange::Mail(it) => {
                self.mails.insert((it.tenant, it.id), Newest { image: it, made_by: Some(seq) });
            }
            CustomerChange::MailsErased { customer } => {
                // What the batch itself asked for before is not sent either.
                self.mails.retain(|(no, _), it| (*no, it.image.customer) != (tenant, *customer));
                self.erased.push((tenant, *customer));
            }
            CustomerChange::Customer(_) | CustomerChange::Operation(_) => {}
        }
    }

    /// Writes the rows.
    pub(super) fn write(&self, db: &Database, cx: WriteContext<'_>) -> Result<(), StoreError> {
        SESSION.set(db, &self.sessions, cx)?;
        MAIL.write(db, self.mails.values(), cx)
    }

    /// Deletes the mails of erased customers from before the batch.
    pub(super) fn forget(&self, db: &Database) -> Result<(), StoreError> {
        for &(tenant, customer) in &self.erased {
            let sql = "DELETE FROM mail WHERE tenant = ?1 AND customer_id = ?2";
            db.prepare(sql)?.row(&[tenant.into(), customer.into()])?;
        }
        Ok(())
    }
}
