//! Events for the followers of the journal: push callbacks, analytics, Kafka.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::account::blocking_state::{Blockable, Blocks};
use crate::account::tag::NamedDefinition;
use crate::billing::Unbillable;
use crate::billing::timeline::{PlanChange, To};
use crate::entitlement::period::Period;
use crate::entitlement::purchase::PurchaseStatus;
use crate::entitlement::{EntitledFeature, GrantedFeature};
use crate::payment::dispute::{DisputeCase, DisputeStatus};
use crate::payment::{TransactionStatus, TransactionType};
use crate::tenant::webhook::DisableReason;
use crate::{
    AccountId, AmountMinor, BlockingStateId, Currency, CustomFieldId, CustomerId, DisputeId,
    EnvironmentId, InvoiceId, PaymentId, PurchaseId, SubscriptionId, TagId, TenantValueId,
    Timestamp, TransactionId, WebhookEndpointId,
};

/// A fact, written in the journal row of the command that made it. Durable format: additive only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A new account.
    AccountCreated { account: AccountId },
    /// An account changed, or its default payment method did.
    AccountChanged { account: AccountId },
    /// An account that was out of service is in service again.
    AccountReleased { account: AccountId },
    /// An account, or what belongs to it, has a tag that it did not have.
    TagAdded { account: AccountId, tag: TagId, definition: NamedDefinition },
    /// An account, or what belongs to it, has a tag no more.
    TagRemoved {
        account: AccountId,
        tag: TagId,
        /// The tag's definition with its name.
        definition: NamedDefinition,
    },
    /// An account, or what belongs to it, has a custom field more.
    CustomFieldAdded { account: AccountId, field: CustomFieldId },
    /// A custom field was removed.
    CustomFieldRemoved { account: AccountId, field: CustomFieldId },
    /// A state that a service recorded for an account, or for what belongs to it, holds.
    BlockingStateAdded {
        account: AccountId,
        /// What it is of.
        #[serde(default, skip_serializing_if = "Blockable::is_account")]
        of: Blockable,
        state: BlockingStateId,
        /// The service that recorded it.
        service: String,
        /// The name of the state.
        name: String,
        /// From when on it holds.
        effective_at: Timestamp,
        /// The combined blocks of its states until then.
        before: Blocks,
        /// The combined blocks from then on.
        after: Blocks,
    },
    /// A transaction reached a status.
    TransactionChanged(TransactionChange),
    /// Two tries of a request have succeeded: this one, which had been declined, and a later one.
    LateSuccess {
        account: AccountId,
        payment: PaymentId,
        transaction: TransactionId,
        /// Whether it is refunded, as the tenant's rules say.
        is_refunded: bool,
    },
    /// A dispute was recorded, or changed.
    DisputeChanged {
        account: AccountId,
        payment: PaymentId,
        /// The charge that is disputed.
        transaction: TransactionId,
        dispute: DisputeId,
        case: DisputeCase,
        /// Its status before; `None` where it was recorded.
        before: Option<DisputeStatus>,
        status: DisputeStatus,
        /// How much is disputed.
        amount: AmountMinor,
        currency: Currency,
        /// The total that was withdrawn so far.
        withdrawn: AmountMinor,
        /// The total that was reinstated so far.
        reinstated: AmountMinor,
    },
    /// More was withdrawn than was left of the payment.
    DisputeExcess {
        account: AccountId,
        payment: PaymentId,
        dispute: DisputeId,
        /// How much more, this time.
        amount: AmountMinor,
        currency: Currency,
    },
    /// Evidence is due in a few days.
    DisputeEvidenceDue {
        account: AccountId,
        payment: PaymentId,
        dispute: DisputeId,
        due_by: Timestamp,
    },
    /// An offer was bought, or its purchase reached another status.
    PurchaseChanged {
        account: AccountId,
        purchase: PurchaseId,
        /// `None` where the offer is free.
        payment: Option<PaymentId>,
        /// The key of the offer.
        offer: String,
        version: i64,
        /// Its status before; `None` where it was bought.
        before: Option<PurchaseStatus>,
        status: PurchaseStatus,
    },
    /// Features were granted to an account.
    EntitlementsGranted { account: AccountId, grants: Vec<GrantedFeature> },
    /// Grants were taken back.
    EntitlementsRevoked { account: AccountId, grants: Vec<GrantedFeature> },
    /// Grants are over.
    EntitlementsExpired { account: AccountId, grants: Vec<GrantedFeature> },
    /// The grants of an account or its users changed, or a grant began.
    EntitlementsChanged {
        account: AccountId,
        /// That of [`Entitlements`](crate::entitlement::Entitlements).
        version: i64,
        /// The features that it has now, in the order of their keys; at most
        /// [`LISTED_MAX`](crate::entitlement::LISTED_MAX).
        features: Vec<EntitledFeature>,
        /// How many features it has in all.
        total: usize,
    },
    /// An account has used as much of a feature as it has, for the first time in a period.
    LimitReached {
        account: AccountId,
        /// The feature's key.
        feature: String,
        /// The account's limit, all its grants combined.
        limit: i64,
        used: i64,
        period: Period,
    },
    /// A subscription is to change, or does so.
    SubscriptionChanged {
        account: AccountId,
        subscription: SubscriptionId,
        step: SubscriptionStep,
        effective_at: Timestamp,
        /// False where it was asked for; true once it takes effect.
        is_in_effect: bool,
    },
    /// An invoice was written.
    InvoiceCreated {
        account: AccountId,
        invoice: InvoiceId,
        number: i64,
        /// What it charges.
        charged: AmountMinor,
        /// What of it is to be paid.
        balance: AmountMinor,
        currency: Currency,
    },
    /// An invoice was changed by somebody, or pays with the account's credit.
    InvoiceAdjusted {
        account: AccountId,
        invoice: InvoiceId,
        /// What it charges.
        charged: AmountMinor,
        /// What of it is to be paid.
        balance: AmountMinor,
        currency: Currency,
    },
    /// A payment of an invoice has ended, or there was none to make.
    InvoicePaid {
        account: AccountId,
        invoice: InvoiceId,
        /// `None`: the account has no method to pay with.
        payment: Option<PaymentId>,
        is_paid: bool,
        /// How much the payment has brought.
        amount: AmountMinor,
        /// What is still to be paid.
        balance: AmountMinor,
        currency: Currency,
    },
    /// An invoice is to come, as the tenant's settings ask to be told before.
    InvoiceUpcoming {
        account: AccountId,
        /// The day that it is for.
        target: Date,
        /// What it would charge as things are.
        charged: AmountMinor,
        /// What of it would be to pay.
        balance: AmountMinor,
        currency: Currency,
    },
    /// An account cannot be billed, and is not until somebody acts.
    AccountParked { account: AccountId, reason: Unbillable },
    /// A tenant stored a value.
    TenantConfigChanged { value: TenantValueId, key: String },
    /// A tenant deleted what it had stored under a key that means something.
    TenantConfigDeleted { value: TenantValueId, key: String },
    /// A webhook endpoint was switched off because it does not receive.
    WebhookEndpointDisabled { endpoint: WebhookEndpointId, reason: DisableReason },
    /// Somebody signed up, and has an account.
    CustomerRegistered { customer: CustomerId, account: AccountId },
    /// A customer's address is theirs.
    CustomerVerified { customer: CustomerId, account: AccountId },
    /// A customer's data or second factor changed, or whether they may log in.
    CustomerChanged { customer: CustomerId, account: AccountId },
    /// A customer is forgotten.
    CustomerErased {
        customer: CustomerId,
        /// Their account, which stays.
        account: AccountId,
    },
    /// An environment of feature flags was made, or its secrets changed.
    EnvironmentChanged { environment: EnvironmentId },
    /// Feature flags or segments were made or changed.
    DefinitionsChanged {
        environment: EnvironmentId,
        /// The version that they have now: those with it are what changed.
        version: i64,
    },
}

/// What happens to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SubscriptionStep {
    /// Its account is subscribed.
    Created,
    /// Its product may be used.
    Entitled,
    /// The next phase of its plan begins.
    Phase,
    /// It has another plan.
    Changed,
    BillCycleDay,
    Quantity,
    Cancelled,
    /// Its product may be used no longer.
    EntitlementEnded,
    /// Its cancellation was taken back.
    Uncancelled,
    /// Its last phase has ended.
    Expired,
}

impl SubscriptionStep {
    pub(crate) const fn of(to: &To) -> Self {
        match to {
            To::Plan { by: PlanChange::Create | PlanChange::Transfer, .. } => Self::Created,
            To::Plan { by: PlanChange::Phase, .. } => Self::Phase,
            To::Plan { by: PlanChange::Change, .. } => Self::Changed,
            To::BillCycleDay(_) => Self::BillCycleDay,
            To::Quantity(_) => Self::Quantity,
            To::Cancelled { .. } => Self::Cancelled,
            To::Expired => Self::Expired,
        }
    }
}

/// The data of [`Event::TransactionChanged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionChange {
    /// The account that pays.
    pub account: AccountId,
    pub payment: PaymentId,
    pub transaction: TransactionId,
    pub kind: TransactionType,
    /// Its status in earlier events; `None` in its first event.
    pub before: Option<TransactionStatus>,
    /// The amount that was processed in the status before; zero unless that was a success.
    #[serde(default, skip_serializing_if = "AmountMinor::is_zero")]
    pub before_amount: AmountMinor,
    /// Whether it is the first event of its payment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens_payment: bool,
    /// Its status now.
    pub status: TransactionStatus,
    /// Through which gateway; the transaction's own, which need not be the payment's last.
    pub gateway: String,
    /// The amount that was processed; zero for a failure.
    pub amount: AmountMinor,
    /// `None` for a void.
    pub currency: Option<Currency>,
    /// The payment's currency, in which `amount` counts.
    pub payment_currency: Currency,
    /// When the transaction was asked for.
    pub effective_at: Timestamp,
}

impl Event {
    /// The account it is about.
    #[must_use]
    pub const fn account(&self) -> Option<AccountId> {
        match self {
            Self::AccountCreated { account }
            | Self::AccountChanged { account }
            | Self::AccountReleased { account }
            | Self::CustomerRegistered { account, .. }
            | Self::CustomerVerified { account, .. }
            | Self::CustomerChanged { account, .. }
            | Self::CustomerErased { account, .. }
            | Self::TagAdded { account, .. }
            | Self::TagRemoved { account, .. }
            | Self::CustomFieldAdded { account, .. }
            | Self::CustomFieldRemoved { account, .. }
            | Self::BlockingStateAdded { account, .. }
            | Self::TransactionChanged(TransactionChange { account, .. })
            | Self::LateSuccess { account, .. }
            | Self::DisputeChanged { account, .. }
            | Self::DisputeExcess { account, .. }
            | Self::PurchaseChanged { account, .. }
            | Self::EntitlementsGranted { account, .. }
            | Self::EntitlementsRevoked { account, .. }
            | Self::EntitlementsExpired { account, .. }
            | Self::EntitlementsChanged { account, .. }
            | Self::LimitReached { account, .. }
            | Self::SubscriptionChanged { account, .. }
            | Self::InvoiceCreated { account, .. }
            | Self::InvoiceAdjusted { account, .. }
            | Self::InvoicePaid { account, .. }
            | Self::InvoiceUpcoming { account, .. }
            | Self::AccountParked { account, .. }
            | Self::DisputeEvidenceDue { account, .. } => Some(*account),
            Self::TenantConfigChanged { .. }
            | Self::TenantConfigDeleted { .. }
            | Self::WebhookEndpointDisabled { .. }
            | Self::EnvironmentChanged { .. }
            | Self::DefinitionsChanged { .. } => None,
        }
    }
}
