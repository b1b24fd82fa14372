//! Blocking states: what services recorded of an account, a bundle or a subscription, such as that it is closed or paused.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::entity::{Entity, Facts};
use crate::payment::TransactionType;
use crate::rows::{Keyed, Part};
use crate::{AccountId, BlockingStateId, BundleId, Revision, SubscriptionId, TenantNo, Timestamp};

/// How many states an account has at most. Closing an account may add one more.
pub const STATES_PER_ACCOUNT_MAX: usize = 1_000;

/// How many characters the name of a state has at most.
pub const NAME_CHARS_MAX: usize = 50;

/// How many characters the name of a service has at most.
pub const SERVICE_CHARS_MAX: usize = 255;

/// The service whose newest state decides whether an account is closed.
pub const ACCOUNT_SERVICE: &str = "account-service";

/// The state of [`ACCOUNT_SERVICE`] in which an account is closed.
pub const CLOSED: &str = "CLOSE_ACCOUNT";

/// The service whose states pause bundles.
pub const ENTITLEMENT_SERVICE: &str = "entitlement-service";

/// The state of [`ENTITLEMENT_SERVICE`] in which a bundle is paused.
pub const PAUSED: &str = "ENT_BLOCKED";

/// The state of [`ENTITLEMENT_SERVICE`] in which a bundle goes on.
pub const RESUMED: &str = "ENT_CLEAR";

/// What a state is of: an account, or what belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blockable {
    #[default]
    Account,
    /// All of its subscriptions.
    Bundle(BundleId),
    Subscription(SubscriptionId),
}

impl Blockable {
    #[must_use]
    pub fn is_account(&self) -> bool {
        *self == Self::Account
    }

    /// Its type, as Kill Bill names it.
    #[must_use]
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Account => "ACCOUNT",
            Self::Bundle(_) => "SUBSCRIPTION_BUNDLE",
            Self::Subscription(_) => "SUBSCRIPTION",
        }
    }

    /// Its id; that of the account where it is that.
    #[must_use]
    pub const fn id(self, account: AccountId) -> Uuid {
        match self {
            Self::Account => account.uuid(),
            Self::Bundle(id) => id.uuid(),
            Self::Subscription(id) => id.uuid(),
        }
    }
}

/// A state that a service recorded for an account, or for what belongs to it. Names of states and services are an integration's
/// vocabulary, like names of tags: they are in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockingState {
    pub tenant: TenantNo,
    pub id: BlockingStateId,
    pub account: AccountId,
    /// What it is of.
    #[serde(default, skip_serializing_if = "Blockable::is_account")]
    pub of: Blockable,
    /// Its place among the states of the account, in the order in which they were recorded.
    pub ordinal: u32,
    /// The service that recorded it.
    pub service: String,
    /// The name of the state.
    pub name: String,
    pub blocks: Blocks,
    /// From when on it holds.
    pub effective_at: Timestamp,
    /// False once the same state of the service was recorded for an earlier time.
    pub active: bool,
    /// Not before the states that were recorded earlier.
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for BlockingState {
    type Key = (TenantNo, BlockingStateId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Part for BlockingState {
    type Owner = (TenantNo, AccountId);

    fn owner(&self) -> Self::Owner {
        (self.tenant, self.account)
    }

    fn is_active(&self) -> bool {
        self.active
    }
}

impl Entity for BlockingState {
    fn facts(&self) -> Facts {
        Facts::new("blocking state", self.id, self.revision).of(self.account)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// The operations on subscriptions and invoices that a state blocks. No payment is blocked by these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Changes of subscriptions.
    pub change: bool,
    /// The use of what was subscribed to.
    pub entitlement: bool,
    /// Invoices.
    pub billing: bool,
}

impl Blocks {
    /// The blocks of both together.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            change: self.change || other.change,
            entitlement: self.entitlement || other.entitlement,
            billing: self.billing || other.billing,
        }
    }
}

impl BlockingState {
    /// Whether the account is closed as long as this is its newest state of [`ACCOUNT_SERVICE`]; `None`
    /// for a state of another service.
    #[must_use]
    pub fn closes(&self) -> Option<bool> {
        (self.of.is_account() && self.service == ACCOUNT_SERVICE).then(|| self.name == CLOSED)
    }

    /// The order of a service's states.
    #[must_use]
    pub const fn order(&self) -> (Timestamp, u32) {
        (self.effective_at, self.ordinal)
    }
}

impl AddBlockingState {
    /// Whether it closes the account.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.of.is_account() && self.service == ACCOUNT_SERVICE && self.name == CLOSED
    }
}

/// Closes an account. Nothing is deleted. One that is closed stays so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseAccount {
    pub account: AccountId,
    /// Whether what is scheduled for the account is cancelled.
    pub remove_future_notifications: bool,
    /// Whether its subscriptions end now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_subscriptions: bool,
}

/// Records a state of a service for an account, or for what belongs to it. One that the service has at that time already stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddBlockingState {
    pub account: AccountId,
    /// What it is of.
    #[serde(default, skip_serializing_if = "Blockable::is_account")]
    pub of: Blockable,
    /// The service that records it.
    pub service: String,
    /// The name of the state.
    pub name: String,
    pub blocks: Blocks,
    /// From when on it holds; `None`: from now on.
    pub effective_at: Option<Timestamp>,
}

/// The kind of request that a closed account refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClosedTo {
    /// A payment that this transaction would start.
    Payment(TransactionType),
    /// A new payment method.
    PaymentMethod,
    /// A grant.
    Entitlements,
    /// Usage and reservations.
    Usage,
}

impl ClosedTo {
    /// The name of the action.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Payment(operation) => operation.killbill_name(),
            Self::PaymentMethod => "ADD_PAYMENT_METHOD",
            Self::Entitlements => "GRANT_FEATURE",
            Self::Usage => "RECORD_USAGE",
        }
    }
}
