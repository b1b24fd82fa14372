//! Customers, their sessions and mails, in memory.

use domain::change::CustomerChange;
use domain::customer::CustomerFile;
use domain::{CustomerId, TenantNo};

use super::{Tables, tabled};

impl Tables {
    pub(super) fn change_customer(&mut self, tenant: TenantNo, change: CustomerChange) {
        match change {
            CustomerChange::Customer(mut it) => {
                tabled(&mut it.revision);
                self.customers.insert((it.tenant, it.id), it);
            }
            CustomerChange::MailsErased { customer } => {
                self.mails.retain(|(no, _), mail| (*no, mail.customer) != (tenant, customer));
            }
            CustomerChange::Session(it) => drop(self.sessions.insert((it.tenant, it.id), it)),
            CustomerChange::SessionEnded { session, .. } => {
                self.sessions.remove(&(tenant, session));
            }
            CustomerChange::Mail(it) => drop(self.mails.insert((it.tenant, it.id), it)),
            CustomerChange::Operation(mut it) => {
                tabled(&mut it.revision);
                self.operations.insert((it.tenant, it.id), it);
            }
        }
    }

    pub(super) fn customer(&self, key: (TenantNo, CustomerId)) -> Option<CustomerFile> {
        let customer = self.customers.get(&key)?.clone();
        let own = self.sessions.values().filter(|it| (it.tenant, it.customer) == key);
        Some(CustomerFile { customer, sessions: own.cloned().collect() })
    }
}
