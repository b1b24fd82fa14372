//! What an accepted command writes, grouped by what it belongs to. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::access::{Role, User};
use crate::account::{Account, Person};
use crate::account_email::AccountEmail;
use crate::account_user::ChangedUsers;
use crate::blocking_state::BlockingState;
use crate::change_request::ChangeRequest;
use crate::claim::{Claim, ClaimKey};
use crate::custom_field::CustomField;
use crate::customer::{Customer, Session};
use crate::definition::Definition;
use crate::dispute::Dispute;
use crate::entitlement::Entitlements;
use crate::environment::{Environment, Secret};
use crate::feature::Feature;
use crate::import::AuditEntry;
use crate::ledger::Posting;
use crate::mail::Mail;
use crate::offer::Offer;
use crate::operation::Operation;
use crate::payment::{Outstanding, Payment, ReplyKey, Transaction};
use crate::payment_attempt::{PaymentAttempt, PaymentVelocity};
use crate::payment_method::PaymentMethod;
use crate::payment_rules::PaymentRules;
use crate::purchase::Purchase;
use crate::reply::Reply;
use crate::tag::{Tag, TagDefinition};
use crate::tenant::{Tenant, TenantValue};
use crate::timer::{Timer, TimerKey};
use crate::usage::{Reservation, Usage, UsageEvent};
use crate::{AccountId, CustomerId, Revision, SessionId, Timestamp, TransactionId};

/// One row written. Most rows are after-images: the whole entity as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// To a tenant.
    Tenant(TenantChange),
    /// To users and roles.
    Access(AccessChange),
    /// To feature flags and their environments.
    Flag(FlagChange),
    /// To an account and what belongs to it, payments aside.
    Account(AccountChange),
    /// To a customer who signed up.
    Customer(CustomerChange),
    /// To a payment.
    Payment(PaymentChange),
    /// To features, offers and what accounts may do.
    Entitlement(EntitlementChange),
    /// To a unique name.
    Claim(ClaimChange),
    /// To a timer.
    Timer(TimerChange),
    /// The final reply to an earlier request.
    ReplySettled {
        /// Names the stored reply.
        key: ReplyKey,
        reply: Reply,
        /// When it may be deleted: its retention starts when the outcome is known.
        expires_at: Timestamp,
    },
}

/// A row of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TenantChange {
    /// The tenant itself.
    Tenant(Tenant),
    /// A stored value.
    Value(TenantValue),
    /// A definition of tags.
    TagDefinition(TagDefinition),
    /// Its rules for payments.
    PaymentRules(PaymentRules),
}

/// A row of access control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessChange {
    User(User),
    Role(Role),
}

/// A row of feature flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlagChange {
    Environment(Environment),
    /// A secret of an environment.
    Secret(Secret),
    /// A feature flag or a segment.
    Definition(Definition),
    /// A requested change of a definition.
    ChangeRequest(ChangeRequest),
}

/// A row of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountChange {
    /// The account itself.
    Account(Account),
    /// Personal data, from this revision of the account on.
    Person {
        account: AccountId,
        /// All of its personal data.
        person: Box<Person>,
    },
    /// Personal data is erased: all revisions of it, what its payment methods' and
    /// attempts' rows have beside the journal, its custom fields and further addresses, and the texts of who changed it.
    PersonErased {
        account: AccountId,
    },
    /// A further e-mail address.
    Email(AccountEmail),
    /// A state that a service recorded for the account.
    BlockingState(BlockingState),
    /// A tag on the account or on what belongs to it.
    Tag(Tag),
    /// A custom field of the account or of what belongs to it.
    CustomField(CustomField),
    PaymentMethod(PaymentMethod),
    /// An entry of the audit log of the system that the account, or what belongs to it, was brought over from.
    AuditImported(AuditEntry),
}

/// A row of a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "a registration, the hot path, writes the largest")]
pub enum CustomerChange {
    Customer(Customer),
    /// The customer's mails are deleted.
    MailsErased {
        customer: CustomerId,
    },
    /// A session was opened, or its tokens were renewed.
    Session(Session),
    /// A session has ended.
    SessionEnded {
        session: SessionId,
        customer: CustomerId,
    },
    /// A mail to be sent.
    Mail(Mail),
    /// An asynchronous operation.
    Operation(Operation),
}

/// A row of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaymentChange {
    /// The payment itself.
    Payment(Payment),
    Transaction(Transaction),
    /// The attempt of a controlled call.
    Attempt(PaymentAttempt),
    /// What the account started in a day.
    Velocity(PaymentVelocity),
    /// A dispute.
    Dispute(Box<Dispute>),
    /// A posting; only ever added.
    Posting(Posting),
    /// The outcome of a transaction is awaited.
    Outstanding(Outstanding),
    /// The outcome of a transaction is no longer awaited.
    OutstandingClosed {
        transaction: TransactionId,
    },
}

/// A row of features, offers and what accounts may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntitlementChange {
    Feature(Feature),
    /// A new version of an offer.
    Offer(Offer),
    Purchase(Box<Purchase>),
    /// All grants of an account.
    Entitlements(Box<Entitlements>),
    /// Users that are mapped to an account, or no longer.
    Users(Box<ChangedUsers>),
    /// What an account used of a feature in a period.
    Usage(Box<Usage>),
    /// An event that was counted.
    UsageEvent(Box<UsageEvent>),
    Reservation(Box<Reservation>),
}

/// A row of the claims on unique keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimChange {
    /// A key is claimed, or its owner changes.
    Taken {
        key: ClaimKey,
        /// The new owner of the key.
        claim: Claim,
    },
    /// A key is released.
    Released { key: ClaimKey },
}

/// A row of the timers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimerChange {
    /// A timer is set, or set for another time.
    Set(Timer),
    /// A timer has fired, or is no longer needed.
    Cleared(TimerKey),
}

impl Change {
    /// What it writes of a payment.
    const fn payment(&self) -> Option<&PaymentChange> {
        match self {
            Self::Payment(it) => Some(it),
            Self::Tenant(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Account(_)
            | Self::Customer(_)
            | Self::Entitlement(_)
            | Self::Claim(_)
            | Self::Timer(_)
            | Self::ReplySettled { .. } => None,
        }
    }

    /// The payment, without its transactions, that it writes.
    pub(crate) fn payment_row(&self) -> Option<&Payment> {
        match self.payment()? {
            PaymentChange::Payment(it) => Some(it),
            PaymentChange::Transaction(_)
            | PaymentChange::Attempt(_)
            | PaymentChange::Velocity(_)
            | PaymentChange::Posting(_)
            | PaymentChange::Dispute(_)
            | PaymentChange::Outstanding(_)
            | PaymentChange::OutstandingClosed { .. } => None,
        }
    }

    /// The purchase that it writes.
    pub(crate) const fn purchase(&self) -> Option<&Purchase> {
        match self {
            Self::Entitlement(it) => match it {
                EntitlementChange::Purchase(it) => Some(it),
                EntitlementChange::Feature(_)
                | EntitlementChange::Offer(_)
                | EntitlementChange::Entitlements(_)
                | EntitlementChange::Users(_)
                | EntitlementChange::Usage(_)
                | EntitlementChange::UsageEvent(_)
                | EntitlementChange::Reservation(_) => None,
            },
            Self::Tenant(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Account(_)
            | Self::Customer(_)
            | Self::Payment(_)
            | Self::Claim(_)
            | Self::Timer(_)
            | Self::ReplySettled { .. } => None,
        }
    }

    /// The transaction that it writes.
    pub(crate) fn transaction(&self) -> Option<&Transaction> {
        match self.payment()? {
            PaymentChange::Transaction(it) => Some(it),
            PaymentChange::Payment(_)
            | PaymentChange::Attempt(_)
            | PaymentChange::Velocity(_)
            | PaymentChange::Posting(_)
            | PaymentChange::Dispute(_)
            | PaymentChange::Outstanding(_)
            | PaymentChange::OutstandingClosed { .. } => None,
        }
    }

    /// The payment attempt that it writes.
    pub(crate) fn attempt(&self) -> Option<&PaymentAttempt> {
        match self.payment()? {
            PaymentChange::Attempt(it) => Some(it),
            PaymentChange::Payment(_)
            | PaymentChange::Transaction(_)
            | PaymentChange::Velocity(_)
            | PaymentChange::Posting(_)
            | PaymentChange::Dispute(_)
            | PaymentChange::Outstanding(_)
            | PaymentChange::OutstandingClosed { .. } => None,
        }
    }

    /// The revision of an entity that has a history in the journal. Personal data, sessions, claims and
    /// bookkeeping have none, and stay out of the journal.
    #[must_use]
    pub const fn revision(&self) -> Option<Revision> {
        match self {
            Self::Tenant(it) => match it {
                TenantChange::Tenant(it) => Some(it.revision),
                TenantChange::Value(it) => Some(it.revision),
                TenantChange::TagDefinition(it) => Some(it.revision),
                TenantChange::PaymentRules(it) => Some(it.revision),
            },
            Self::Access(it) => match it {
                AccessChange::User(it) => Some(it.revision),
                AccessChange::Role(it) => Some(it.revision),
            },
            Self::Flag(it) => match it {
                FlagChange::Environment(it) => Some(it.revision),
                FlagChange::Secret(it) => Some(it.revision),
                FlagChange::Definition(it) => Some(it.revision),
                FlagChange::ChangeRequest(it) => Some(it.revision),
            },
            Self::Account(it) => match it {
                AccountChange::Account(it) => Some(it.revision),
                AccountChange::Email(it) => Some(it.revision),
                AccountChange::BlockingState(it) => Some(it.revision),
                AccountChange::Tag(it) => Some(it.revision),
                AccountChange::CustomField(it) => Some(it.revision),
                AccountChange::PaymentMethod(it) => Some(it.revision),
                AccountChange::Person { .. }
                | AccountChange::PersonErased { .. }
                | AccountChange::AuditImported(_) => None,
            },
            Self::Customer(it) => match it {
                CustomerChange::Customer(it) => Some(it.revision),
                CustomerChange::Operation(it) => Some(it.revision),
                CustomerChange::MailsErased { .. }
                | CustomerChange::Session(_)
                | CustomerChange::SessionEnded { .. }
                | CustomerChange::Mail(_) => None,
            },
            Self::Payment(it) => match it {
                PaymentChange::Payment(it) => Some(it.revision),
                PaymentChange::Transaction(it) => Some(it.revision),
                PaymentChange::Attempt(it) => Some(it.revision),
                PaymentChange::Dispute(it) => Some(it.revision),
                PaymentChange::Velocity(_)
                | PaymentChange::Posting(_)
                | PaymentChange::Outstanding(_)
                | PaymentChange::OutstandingClosed { .. } => None,
            },
            Self::Entitlement(it) => match it {
                EntitlementChange::Feature(it) => Some(it.revision),
                EntitlementChange::Offer(it) => Some(it.revision),
                EntitlementChange::Purchase(it) => Some(it.revision),
                EntitlementChange::Entitlements(it) => Some(it.revision),
                EntitlementChange::Users(_)
                | EntitlementChange::Usage(_)
                | EntitlementChange::UsageEvent(_)
                | EntitlementChange::Reservation(_) => None,
            },
            Self::Claim(_) | Self::Timer(_) | Self::ReplySettled { .. } => None,
        }
    }

    #[must_use]
    pub const fn revision_mut(&mut self) -> Option<&mut Revision> {
        match self {
            Self::Tenant(it) => match it {
                TenantChange::Tenant(it) => Some(&mut it.revision),
                TenantChange::Value(it) => Some(&mut it.revision),
                TenantChange::TagDefinition(it) => Some(&mut it.revision),
                TenantChange::PaymentRules(it) => Some(&mut it.revision),
            },
            Self::Access(it) => match it {
                AccessChange::User(it) => Some(&mut it.revision),
                AccessChange::Role(it) => Some(&mut it.revision),
            },
            Self::Flag(it) => match it {
                FlagChange::Environment(it) => Some(&mut it.revision),
                FlagChange::Secret(it) => Some(&mut it.revision),
                FlagChange::Definition(it) => Some(&mut it.revision),
                FlagChange::ChangeRequest(it) => Some(&mut it.revision),
            },
            Self::Account(it) => match it {
                AccountChange::Account(it) => Some(&mut it.revision),
                AccountChange::Email(it) => Some(&mut it.revision),
                AccountChange::BlockingState(it) => Some(&mut it.revision),
                AccountChange::Tag(it) => Some(&mut it.revision),
                AccountChange::CustomField(it) => Some(&mut it.revision),
                AccountChange::PaymentMethod(it) => Some(&mut it.revision),
                AccountChange::Person { .. }
                | AccountChange::PersonErased { .. }
                | AccountChange::AuditImported(_) => None,
            },
            Self::Customer(it) => match it {
                CustomerChange::Customer(it) => Some(&mut it.revision),
                CustomerChange::Operation(it) => Some(&mut it.revision),
                CustomerChange::MailsErased { .. }
                | CustomerChange::Session(_)
                | CustomerChange::SessionEnded { .. }
                | CustomerChange::Mail(_) => None,
            },
            Self::Payment(it) => match it {
                PaymentChange::Payment(it) => Some(&mut it.revision),
                PaymentChange::Transaction(it) => Some(&mut it.revision),
                PaymentChange::Attempt(it) => Some(&mut it.revision),
                PaymentChange::Dispute(it) => Some(&mut it.revision),
                PaymentChange::Velocity(_)
                | PaymentChange::Posting(_)
                | PaymentChange::Outstanding(_)
                | PaymentChange::OutstandingClosed { .. } => None,
            },
            Self::Entitlement(it) => match it {
                EntitlementChange::Feature(it) => Some(&mut it.revision),
                EntitlementChange::Offer(it) => Some(&mut it.revision),
                EntitlementChange::Purchase(it) => Some(&mut it.revision),
                EntitlementChange::Entitlements(it) => Some(&mut it.revision),
                EntitlementChange::Users(_)
                | EntitlementChange::Usage(_)
                | EntitlementChange::UsageEvent(_)
                | EntitlementChange::Reservation(_) => None,
            },
            Self::Claim(_) | Self::Timer(_) | Self::ReplySettled { .. } => None,
        }
    }
}

impl From<TenantChange> for Change {
    fn from(change: TenantChange) -> Self {
        Self::Tenant(change)
    }
}

impl From<AccessChange> for Change {
    fn from(change: AccessChange) -> Self {
        Self::Access(change)
    }
}

impl From<FlagChange> for Change {
    fn from(change: FlagChange) -> Self {
        Self::Flag(change)
    }
}

impl From<AccountChange> for Change {
    fn from(change: AccountChange) -> Self {
        Self::Account(change)
    }
}

impl From<CustomerChange> for Change {
    fn from(change: CustomerChange) -> Self {
        Self::Customer(change)
    }
}

impl From<PaymentChange> for Change {
    fn from(change: PaymentChange) -> Self {
        Self::Payment(change)
    }
}

impl From<EntitlementChange> for Change {
    fn from(change: EntitlementChange) -> Self {
        Self::Entitlement(change)
    }
}

impl From<TimerChange> for Change {
    fn from(change: TimerChange) -> Self {
        Self::Timer(change)
    }
}

impl From<ClaimChange> for Change {
    fn from(change: ClaimChange) -> Self {
        Self::Claim(change)
    }
}
