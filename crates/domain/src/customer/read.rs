//! Customers with their sessions, and operations.

use crate::change::CustomerChange;
use crate::customer::operation::Operation;
use crate::customer::{Customer, CustomerFile, Session};
use crate::rows::Rows;
use crate::{CustomerId, OperationId, TenantNo};

/// A row of a customer that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CustomerRead {
    /// By id; with their sessions.
    Customer(TenantNo, CustomerId),
    Operation(TenantNo, OperationId),
}

#[derive(Clone, Debug, Default)]
pub struct CustomerState {
    pub customers: Rows<CustomerFile>,
    pub operations: Rows<Operation>,
}

impl CustomerState {
    pub(crate) fn look_for(&mut self, read: &CustomerRead) {
        match read {
            CustomerRead::Customer(no, id) => self.customers.look_for((*no, *id)),
            CustomerRead::Operation(no, id) => self.operations.look_for((*no, *id)),
        }
    }

    pub(crate) fn apply(&mut self, tenant: TenantNo, change: &CustomerChange) {
        match change {
            CustomerChange::Customer(it) => self.apply_customer(it),
            CustomerChange::Session(it) => self.apply_session(it),
            CustomerChange::SessionEnded { session, customer } => {
                if let Some(file) = self.customers.find_mut(&(tenant, *customer)) {
                    file.sessions.retain(|own| own.id != *session);
                }
            }
            CustomerChange::Operation(it) => drop(self.operations.put(it.clone())),
            // No rule looks at a mail.
            CustomerChange::Mail(_) | CustomerChange::MailsErased { .. } => {}
        }
    }

    fn apply_customer(&mut self, customer: &Customer) {
        match self.customers.find_mut(&(customer.tenant, customer.id)) {
            Some(file) => file.customer = customer.clone(),
            None => {
                self.customers.put(CustomerFile { customer: customer.clone(), sessions: vec![] });
            }
        }
    }

    fn apply_session(&mut self, session: &Session) {
        let file = self.customers.find_mut(&(session.tenant, session.customer));
        let file = file.expect("a session is changed with its customer");
        match file.sessions.iter_mut().find(|own| own.id == session.id) {
            Some(known) => *known = session.clone(),
            None => file.sessions.push(session.clone()),
        }
    }
}
