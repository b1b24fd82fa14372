//! Changes: the rows that an accepted command writes, grouped by what they belong to. Durable format: additive only.

mod image;

use serde::{Deserialize, Serialize};

pub use self::image::{Image, Visitor};
use self::image::{ReadAccount, ReadRevision};
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
    ReplySettled(SettledReply),
}

/// The final reply to an earlier request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledReply {
    /// Names the stored reply.
    pub key: ReplyKey,
    pub reply: Reply,
    /// When it may be deleted: its retention starts when the outcome is known.
    pub expires_at: Timestamp,
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
    /// The number and the sums of the payments that the account started in a day.
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
    /// The usage of a feature by an account in a period.
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
    /// Visits the entity that it writes an image of. `None` for rows without a history: personal data, sessions,
    /// claims and bookkeeping, which stay out of the journal. This is the one list of entities.
    pub fn entity<V: Visitor>(&self, visitor: V) -> Option<V::Output> {
        Some(match self {
            Self::Tenant(TenantChange::Tenant(it)) => visitor.visit(it),
            Self::Tenant(TenantChange::Value(it)) => visitor.visit(it),
            Self::Tenant(TenantChange::TagDefinition(it)) => visitor.visit(it),
            Self::Tenant(TenantChange::PaymentRules(it)) => visitor.visit(it),
            Self::Access(AccessChange::User(it)) => visitor.visit(it),
            Self::Access(AccessChange::Role(it)) => visitor.visit(it),
            Self::Flag(FlagChange::Environment(it)) => visitor.visit(it),
            Self::Flag(FlagChange::Secret(it)) => visitor.visit(it),
            Self::Flag(FlagChange::Definition(it)) => visitor.visit(it),
            Self::Flag(FlagChange::ChangeRequest(it)) => visitor.visit(it),
            Self::Account(AccountChange::Account(it)) => visitor.visit(it),
            Self::Account(AccountChange::Email(it)) => visitor.visit(it),
            Self::Account(AccountChange::BlockingState(it)) => visitor.visit(it),
            Self::Account(AccountChange::Tag(it)) => visitor.visit(it),
            Self::Account(AccountChange::CustomField(it)) => visitor.visit(it),
            Self::Account(AccountChange::PaymentMethod(it)) => visitor.visit(it),
            Self::Customer(CustomerChange::Customer(it)) => visitor.visit(it),
            Self::Customer(CustomerChange::Operation(it)) => visitor.visit(it),
            Self::Payment(PaymentChange::Payment(it)) => visitor.visit(it),
            Self::Payment(PaymentChange::Transaction(it)) => visitor.visit(it),
            Self::Payment(PaymentChange::Attempt(it)) => visitor.visit(it),
            Self::Payment(PaymentChange::Dispute(it)) => visitor.visit(&**it),
            Self::Entitlement(EntitlementChange::Feature(it)) => visitor.visit(it),
            Self::Entitlement(EntitlementChange::Offer(it)) => visitor.visit(it),
            Self::Entitlement(EntitlementChange::Purchase(it)) => visitor.visit(&**it),
            Self::Entitlement(EntitlementChange::Entitlements(it)) => visitor.visit(&**it),
            Self::Account(
                AccountChange::Person { .. }
                | AccountChange::PersonErased { .. }
                | AccountChange::AuditImported(_),
            )
            | Self::Customer(
                CustomerChange::MailsErased { .. }
                | CustomerChange::Session(_)
                | CustomerChange::SessionEnded { .. }
                | CustomerChange::Mail(_),
            )
            | Self::Payment(
                PaymentChange::Velocity(_)
                | PaymentChange::Posting(_)
                | PaymentChange::Outstanding(_)
                | PaymentChange::OutstandingClosed { .. },
            )
            | Self::Entitlement(
                EntitlementChange::Users(_)
                | EntitlementChange::Usage(_)
                | EntitlementChange::UsageEvent(_)
                | EntitlementChange::Reservation(_),
            )
            | Self::Claim(_)
            | Self::Timer(_)
            | Self::ReplySettled(_) => return None,
        })
    }

    /// The billing account that its row belongs to.
    #[must_use]
    pub fn account(&self) -> Option<AccountId> {
        if let Some(account) = self.entity(ReadAccount) {
            return account;
        }
        match self {
            Self::Account(it) => match it {
                AccountChange::Person { account, .. } | AccountChange::PersonErased { account } => {
                    Some(*account)
                }
                AccountChange::AuditImported(it) => Some(it.account),
                AccountChange::Account(_)
                | AccountChange::Email(_)
                | AccountChange::BlockingState(_)
                | AccountChange::Tag(_)
                | AccountChange::CustomField(_)
                | AccountChange::PaymentMethod(_) => None,
            },
            Self::Payment(it) => match it {
                PaymentChange::Velocity(it) => Some(it.account_id),
                PaymentChange::Posting(it) => Some(it.account_id),
                PaymentChange::Outstanding(it) => Some(it.account_id),
                PaymentChange::Payment(_)
                | PaymentChange::Transaction(_)
                | PaymentChange::Attempt(_)
                | PaymentChange::Dispute(_)
                | PaymentChange::OutstandingClosed { .. } => None,
            },
            Self::Entitlement(it) => match it {
                EntitlementChange::Users(it) => Some(it.account),
                EntitlementChange::Usage(it) => Some(it.account_id),
                EntitlementChange::UsageEvent(it) => Some(it.account_id),
                EntitlementChange::Reservation(it) => Some(it.account_id),
                EntitlementChange::Feature(_)
                | EntitlementChange::Offer(_)
                | EntitlementChange::Purchase(_)
                | EntitlementChange::Entitlements(_) => None,
            },
            Self::Timer(TimerChange::Set(it)) => Some(it.account),
            Self::Timer(TimerChange::Cleared(_))
            | Self::Tenant(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Customer(_)
            | Self::Claim(_)
            | Self::ReplySettled(_) => None,
        }
    }

    /// The reply that it settles.
    #[must_use]
    pub const fn settled_reply(&self) -> Option<&SettledReply> {
        match self {
            Self::ReplySettled(it) => Some(it),
            Self::Tenant(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Account(_)
            | Self::Customer(_)
            | Self::Payment(_)
            | Self::Entitlement(_)
            | Self::Claim(_)
            | Self::Timer(_) => None,
        }
    }

    /// The revision of the entity that it writes an image of.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        self.entity(ReadRevision)
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

impl From<SettledReply> for Change {
    fn from(reply: SettledReply) -> Self {
        Self::ReplySettled(reply)
    }
}

impl From<ClaimChange> for Change {
    fn from(change: ClaimChange) -> Self {
        Self::Claim(change)
    }
}
