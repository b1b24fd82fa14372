//! Commands about customers and their queued registrations.

use serde::{Deserialize, Serialize};

use crate::account::command::read_person;
use crate::customer::operation::{FailOperation, QueueRegistration};
use crate::customer::{
    CloseSessions, CustomerRef, EraseCustomer, OpenSession, RefreshSession, Register, RequestToken,
    SetPassword, UpdateCustomer, VerifyEmail, email_claim,
};
use crate::read::{AccountRead, CustomerRead, EntitlementRead, Read};
use crate::state::State;
use crate::{AccountId, CustomerId, RequestId, TenantNo};

/// A command about a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CustomerCommand {
    Register(Box<Register>),
    VerifyEmail(VerifyEmail),
    RequestToken(RequestToken),
    SetPassword(SetPassword),
    OpenSession(OpenSession),
    RefreshSession(RefreshSession),
    CloseSessions(CloseSessions),
    Update(Box<UpdateCustomer>),
    Erase(EraseCustomer),
    QueueRegistration(QueueRegistration),
    FailOperation(FailOperation),
}

impl CustomerCommand {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Register(_) => "Register",
            Self::VerifyEmail(_) => "VerifyEmail",
            Self::RequestToken(_) => "RequestToken",
            Self::SetPassword(_) => "SetPassword",
            Self::OpenSession(_) => "OpenSession",
            Self::RefreshSession(_) => "RefreshSession",
            Self::CloseSessions(_) => "CloseSessions",
            Self::Update(_) => "UpdateCustomer",
            Self::Erase(_) => "EraseCustomer",
            Self::QueueRegistration(_) => "QueueRegistration",
            Self::FailOperation(_) => "FailOperation",
        }
    }

    /// Whom it is about, where they are there already.
    #[must_use]
    pub fn customer(&self) -> Option<CustomerRef> {
        match self {
            Self::Register(_) | Self::QueueRegistration(_) | Self::FailOperation(_) => None,
            Self::VerifyEmail(it) => Some(it.customer),
            Self::RequestToken(it) => Some(it.customer),
            Self::SetPassword(it) => Some(it.customer),
            Self::OpenSession(it) => Some(it.customer),
            Self::RefreshSession(it) => Some(it.customer),
            Self::CloseSessions(it) => Some(it.customer),
            Self::Update(it) => Some(it.customer),
            Self::Erase(it) => Some(it.customer),
        }
    }

    /// The account whose partition executes it. A registration that is kept has the one that it will
    /// make: it is made by a request of the same id.
    #[must_use]
    pub fn account(&self, request: RequestId) -> AccountId {
        match (self, self.customer()) {
            (_, Some(customer)) => customer.account,
            (Self::FailOperation(it), None) => RequestId(it.operation.uuid()).entity(0),
            (_, None) => request.entity(0),
        }
    }

    /// Whether what this request makes is there already, among the rows that were read: then it came
    /// twice, and nothing is to be done again. A session would otherwise be what it was at first.
    #[must_use]
    pub fn has_made(&self, request: RequestId, tenant: TenantNo, state: &State) -> bool {
        let file = self.customer().and_then(|it| state.customer.customers.find(&(tenant, it.id)));
        match self {
            Self::Register(it) => {
                let claim = state.claims.get(&email_claim(tenant, &it.profile.email_key)).copied();
                // A customer is the second thing that is minted.
                let own: CustomerId = request.entity(1);
                claim.flatten().is_some_and(|claim| claim.owner == own.uuid())
            }
            Self::QueueRegistration(it) => {
                state.customer.operations.find(&(tenant, it.operation)).is_some()
            }
            Self::OpenSession(_) => {
                file.is_some_and(|it| it.sessions.iter().any(|own| own.id == request.entity(0)))
            }
            Self::RequestToken(it) => {
                let issued = file.and_then(|file| file.customer.issued(it.purpose));
                issued.is_some_and(|issued| issued.id == request.entity(0))
            }
            Self::VerifyEmail(_)
            | Self::SetPassword(_)
            | Self::RefreshSession(_)
            | Self::CloseSessions(_)
            | Self::Update(_)
            | Self::Erase(_)
            | Self::FailOperation(_) => false,
        }
    }

    /// See [`crate::command::Command::is_marked`]: a session goes on or ends, a token is replaced, a password or a
    /// second factor is set again.
    pub(crate) const fn is_marked(&self) -> bool {
        match self {
            Self::RequestToken(_)
            | Self::OpenSession(_)
            | Self::RefreshSession(_)
            | Self::SetPassword(_)
            | Self::CloseSessions(_)
            | Self::Update(_) => true,
            Self::Register(_)
            | Self::VerifyEmail(_)
            | Self::Erase(_)
            | Self::QueueRegistration(_)
            | Self::FailOperation(_) => false,
        }
    }

    /// The rows that executing it may look at.
    pub fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        if let Some(customer) = self.customer() {
            read(CustomerRead::Customer(tenant, customer.id).into());
        }
        match self {
            Self::Register(it) => {
                read(Read::Claim(email_claim(tenant, &it.profile.email_key)));
                it.operation
                    .into_iter()
                    .for_each(|id| read(CustomerRead::Operation(tenant, id).into()));
                read(EntitlementRead::NewcomersOffer(tenant).into());
            }
            Self::Update(it) => read(AccountRead::Account(tenant, it.customer.account).into()),
            Self::Erase(it) => read_person(it.customer.account, tenant, read),
            Self::FailOperation(it) => read(CustomerRead::Operation(tenant, it.operation).into()),
            Self::VerifyEmail(_)
            | Self::RequestToken(_)
            | Self::SetPassword(_)
            | Self::OpenSession(_)
            | Self::RefreshSession(_)
            | Self::CloseSessions(_)
            | Self::QueueRegistration(_) => {}
        }
    }
}
