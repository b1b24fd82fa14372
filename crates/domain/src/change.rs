//! Changes: the rows that an accepted command writes, grouped by what they belong to. Durable format: additive only.

use std::any::Any;

use serde::{Deserialize, Serialize};

use crate::claim::{Claim, ClaimKey};
use crate::entity::{Entity, NoEntity, Visited, Visitor};
use crate::ledger::Posting;
use crate::payment::ReplyKey;
use crate::reply::Reply;
use crate::timer::{Timer, TimerKey};
use crate::{AccountId, Revision, Timestamp};

pub use crate::access::change::AccessChange;
pub use crate::account::change::AccountChange;
pub use crate::billing::change::BillingChange;
pub use crate::customer::change::CustomerChange;
pub use crate::entitlement::change::EntitlementChange;
pub use crate::flag::change::FlagChange;
pub use crate::payment::change::PaymentChange;
pub use crate::tenant::change::TenantChange;

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
    /// To subscriptions and invoices.
    Billing(BillingChange),
    /// To the ledger; only ever added.
    Posting(Posting),
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
    /// claims and bookkeeping, which stay out of the journal.
    pub fn entity<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Option<V::Output> {
        self.visit(visitor).ok()
    }

    /// The billing account that its row belongs to.
    #[must_use]
    pub fn account(&self) -> Option<AccountId> {
        self.visit(ReadAccount).unwrap_or_else(|row| row.account)
    }

    fn visit<'a, V: Visitor<'a>>(&'a self, visitor: V) -> Visited<V::Output> {
        match self {
            Self::Tenant(it) => it.entity(visitor),
            Self::Access(it) => it.entity(visitor),
            Self::Flag(it) => it.entity(visitor),
            Self::Account(it) => it.entity(visitor),
            Self::Customer(it) => it.entity(visitor),
            Self::Payment(it) => it.entity(visitor),
            Self::Entitlement(it) => it.entity(visitor),
            Self::Billing(it) => it.entity(visitor),
            Self::Posting(it) => Err(NoEntity::of(it.account_id)),
            Self::Timer(TimerChange::Set(it)) => Err(NoEntity::of(it.account)),
            Self::Timer(TimerChange::Cleared(_)) | Self::Claim(_) | Self::ReplySettled(_) => {
                Err(NoEntity::default())
            }
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
            | Self::Billing(_)
            | Self::Posting(_)
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

/// An entity that changes have images of.
pub trait Image: Entity {
    /// The image of this kind in a change, if the change has one.
    fn of(change: &Change) -> Option<&Self>;
}

impl<T: Entity> Image for T {
    fn of(change: &Change) -> Option<&Self> {
        change.entity(ReadImage).and_then(|it| it.downcast_ref())
    }
}

/// Reads an entity of any kind.
struct ReadImage;

impl<'a> Visitor<'a> for ReadImage {
    type Output = &'a dyn Any;

    fn visit<T: Entity>(self, entity: &'a T) -> &'a dyn Any {
        entity
    }
}

/// Reads the revision of an entity.
struct ReadRevision;

impl Visitor<'_> for ReadRevision {
    type Output = Revision;

    fn visit<T: Entity>(self, entity: &T) -> Revision {
        entity.revision()
    }
}

/// Reads the account of an entity.
struct ReadAccount;

impl Visitor<'_> for ReadAccount {
    type Output = Option<AccountId>;

    fn visit<T: Entity>(self, entity: &T) -> Option<AccountId> {
        entity.facts().account
    }
}

impl From<TenantChange> for Change {
    fn from(change: TenantChange) -> Self {
        Self::Tenant(change)
    }
}

impl From<BillingChange> for Change {
    fn from(change: BillingChange) -> Self {
        Self::Billing(change)
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
