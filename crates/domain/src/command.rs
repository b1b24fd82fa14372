//! Commands: everything that can be asked to change something. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::payment::{Actor, ReplyKey};
use crate::read::Read;
use crate::{AccountId, RequestId, TenantNo, TransactionId};

pub use crate::access::command::AccessCommand;
pub use crate::account::command::AccountCommand;
pub use crate::billing::command::BillingCommand;
pub use crate::customer::command::CustomerCommand;
pub use crate::entitlement::command::EntitlementCommand;
pub use crate::flag::command::FlagCommand;
pub use crate::partition::Subject;
pub use crate::payment::command::PaymentCommand;
pub use crate::tenant::command::TenantCommand;

/// A command, with its actor and what makes it repeatable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Minted by the API that the request arrives at.
    pub id: RequestId,
    /// The tenant of everything that the command names.
    pub tenant: TenantNo,
    /// The authenticated caller.
    pub actor: Actor,
    /// Set where the request can come twice: the reply is stored and given again.
    pub idempotency: Option<Idempotency>,
    pub command: Command,
}

/// The idempotency key of a request and its fingerprint: a repetition has the same of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// Hash of tenant, user and idempotency key.
    pub key: ReplyKey,
    /// Hash of method, path, query and body: the same key with another print is refused.
    pub fingerprint: uuid::Uuid,
}

/// A command, grouped by what it is about. Each group has one arm in [`crate::execute`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// About a tenant.
    Tenant(TenantCommand),
    /// About users and roles.
    Access(AccessCommand),
    /// About feature flags.
    Flag(FlagCommand),
    /// About an account.
    Account(AccountCommand),
    /// About a customer.
    Customer(CustomerCommand),
    /// About a payment.
    Payment(PaymentCommand),
    /// About features, offers and what accounts may do.
    Entitlement(EntitlementCommand),
    /// About subscriptions and invoices.
    Billing(BillingCommand),
}

impl Command {
    /// Its name in the journal, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Tenant(it) => it.name(),
            Self::Access(it) => it.name(),
            Self::Flag(it) => it.name(),
            Self::Account(it) => it.name(),
            Self::Customer(it) => it.name(),
            Self::Payment(it) => it.name(),
            Self::Entitlement(it) => it.name(),
            Self::Billing(it) => it.name(),
        }
    }

    /// Whether it is what a gateway answered: only the engine that asked submits it.
    #[must_use]
    pub const fn is_gateway_answer(&self) -> bool {
        match self {
            Self::Account(it) => it.answered().is_some(),
            Self::Payment(_)
            | Self::Tenant(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Entitlement(_)
            | Self::Billing(_)
            | Self::Customer(_) => self.answered().is_some(),
        }
    }

    /// The transaction whose outcome it brings, where it is what a gateway answered.
    #[must_use]
    pub const fn answered(&self) -> Option<TransactionId> {
        match self {
            Self::Payment(it) => it.answered(),
            Self::Tenant(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Account(_)
            | Self::Entitlement(_)
            | Self::Billing(_)
            | Self::Customer(_) => None,
        }
    }

    /// Whether the store remembers for some time that it was carried out: it makes nothing that has its
    /// id from the request, and what it changes does not tell once another command has followed. Where
    /// such a command comes twice, or its record was copied, it would undo what came after it.
    #[must_use]
    pub const fn is_marked(&self) -> bool {
        match self {
            Self::Tenant(it) => it.is_marked(),
            // A user who is created again was deleted before.
            Self::Access(_) => true,
            Self::Flag(it) => it.is_marked(),
            Self::Account(it) => it.is_marked(),
            Self::Customer(it) => it.is_marked(),
            Self::Payment(it) => it.is_marked(),
            Self::Entitlement(it) => it.is_marked(),
            Self::Billing(it) => it.is_marked(),
        }
    }

    /// The account that the request names, for routing and for the logs.
    #[must_use]
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Self::Account(it) => it.account(),
            Self::Customer(it) => it.customer().map(|customer| customer.account),
            Self::Payment(it) => it.account(),
            Self::Entitlement(it) => it.account(),
            Self::Billing(it) => Some(it.account()),
            Self::Tenant(_) | Self::Access(_) | Self::Flag(_) => None,
        }
    }

    /// The subject that decides on the partition that executes it.
    #[must_use]
    pub fn subject(&self, request: RequestId) -> Subject {
        match self {
            Self::Account(it) => it.subject(request),
            Self::Customer(it) => Subject::Account(it.account(request)),
            Self::Payment(it) => it.subject(request),
            Self::Entitlement(it) => it.subject(),
            Self::Billing(it) => it.subject(),
            Self::Tenant(_) | Self::Access(_) | Self::Flag(_) => Subject::System,
        }
    }

    /// The rows that executing it may look at.
    pub fn reads(&self, tenant: TenantNo, read: &mut impl FnMut(Read)) {
        match self {
            Self::Tenant(it) => it.reads(tenant, read),
            Self::Access(it) => it.reads(read),
            Self::Flag(it) => it.reads(tenant, read),
            Self::Account(it) => it.reads(tenant, read),
            Self::Customer(it) => it.reads(tenant, read),
            Self::Payment(it) => it.reads(tenant, read),
            Self::Entitlement(it) => it.reads(tenant, read),
            Self::Billing(it) => it.reads(tenant, read),
        }
    }
}

impl From<TenantCommand> for Command {
    fn from(command: TenantCommand) -> Self {
        Self::Tenant(command)
    }
}

impl From<AccessCommand> for Command {
    fn from(command: AccessCommand) -> Self {
        Self::Access(command)
    }
}

impl From<FlagCommand> for Command {
    fn from(command: FlagCommand) -> Self {
        Self::Flag(command)
    }
}

impl From<AccountCommand> for Command {
    fn from(command: AccountCommand) -> Self {
        Self::Account(command)
    }
}

impl From<CustomerCommand> for Command {
    fn from(command: CustomerCommand) -> Self {
        Self::Customer(command)
    }
}

impl From<PaymentCommand> for Command {
    fn from(command: PaymentCommand) -> Self {
        Self::Payment(command)
    }
}

impl From<EntitlementCommand> for Command {
    fn from(command: EntitlementCommand) -> Self {
        Self::Entitlement(command)
    }
}

impl From<BillingCommand> for Command {
    fn from(command: BillingCommand) -> Self {
        Self::Billing(command)
    }
}
