//! The answer to an accepted command. Durable format: additive only.

use serde::{Deserialize, Serialize};

use crate::account::payment_method::MethodRefused;
use crate::customer::CustomerReply;
use crate::entitlement::level::Counted;
use crate::entitlement::usage::Recorded;
use crate::payment::TransactionStatus;
use crate::{
    AccountId, AttemptId, BundleId, ChangeRequestId, EnvironmentId, GrantId, InvoiceId,
    InvoiceItemId, PaymentId, PaymentMethodId, PurchaseId, Rejection, ReservationId, SecretId,
    SubscriptionId, TagDefinitionId, TenantId, Timestamp, TransactionId,
};

/// An answer to an accepted command, grouped as the commands are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done; there is nothing to name.
    Done,
    /// A tenant was created.
    TenantCreated(TenantId),
    /// A definition of tags was made.
    TagDefinitionCreated(TagDefinitionId),
    /// To a command about users and roles.
    Access(AccessReply),
    /// To a command about feature flags.
    Flag(FlagReply),
    /// To a command about an account.
    Account(AccountReply),
    /// To a command about a customer.
    Customer(CustomerReply),
    /// A payment transaction reached a status.
    Payment(PaymentReply),
    /// A control plugin aborted the start of a payment: nothing was begun.
    PaymentAborted(PaymentAborted),
    /// To a command about features, offers and what accounts may do.
    Entitlement(EntitlementReply),
    /// To a command about subscriptions and invoices.
    Billing(BillingReply),
    /// Something was brought over from another system.
    Imported {
        /// Whether it was not here before.
        is_new: bool,
    },
}

impl Reply {
    /// The payment that a command started or continued, or who aborted its start; `None` for the
    /// answers to other commands.
    #[must_use]
    pub fn of_payment(self) -> Option<Result<PaymentReply, PaymentAborted>> {
        match self {
            Self::Payment(it) => Some(Ok(it)),
            Self::PaymentAborted(it) => Some(Err(it)),
            Self::Done
            | Self::TenantCreated(_)
            | Self::TagDefinitionCreated(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Account(_)
            | Self::Customer(_)
            | Self::Entitlement(_)
            | Self::Billing(_)
            | Self::Imported { .. } => None,
        }
    }
}

/// The answer to a command about users and roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessReply {
    /// A user of this name was created.
    UserCreated(String),
    /// A role of this name was created or changed.
    RoleCreated(String),
}

/// The answer to a command about feature flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlagReply {
    /// An environment was created.
    EnvironmentCreated(EnvironmentId),
    /// A secret was added.
    SecretAdded(SecretId),
    /// Definitions were created or changed.
    DefinitionsPut {
        /// The version that they have now.
        version: i64,
    },
    /// A change was requested.
    ChangeRequested(ChangeRequestId),
}

/// The answer to a command about features, offers and what accounts may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntitlementReply {
    /// A feature or an offer was made or changed.
    Put {
        /// The version that it has now.
        version: i64,
    },
    /// A free offer was bought. One that costs something is answered as its payment is.
    Bought(PurchaseId),
    /// A feature was granted.
    Granted(GrantId),
    /// Usage was counted.
    Counted(Counted),
    /// The results of the items of a batch, in their order.
    Recorded(Vec<Recorded>),
    /// Something was reserved.
    Reserved { reservation: ReservationId, until: Timestamp, counted: Counted },
}

/// The answer to a command about subscriptions and invoices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BillingReply {
    /// An account was subscribed to a plan.
    Subscribed { subscription: SubscriptionId, bundle: BundleId },
    /// An account was subscribed to several plans: the bundles, in the order of the command.
    SubscribedAll { bundles: Vec<BundleId> },
    /// An invoice was written.
    Invoiced(InvoiceId),
    /// An account was billed that had waited for somebody.
    Billed {
        /// Whether it still waits.
        is_parked: bool,
    },
    /// Items were put on invoices, in the order of the request.
    Added(Vec<(InvoiceId, InvoiceItemId)>),
}

/// The answer to a command about an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountReply {
    /// An account was created.
    Created(AccountId),
    /// A payment method was added.
    PaymentMethodCreated(PaymentMethodId),
    /// A payment method was stored, and it is not known yet whether its gateway has attached it.
    PaymentMethodPending(PaymentMethodId),
    /// A payment method was not attached.
    PaymentMethodRefused(MethodRefused),
}

/// The status that a payment transaction reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentReply {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    pub result: PaymentResult,
}

/// Why the start of a payment was aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentAborted {
    /// The row of the call; `None` where a control program was asked before, and nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// The name of the control plugin.
    pub plugin: String,
    /// The limit that was exceeded, or what is not allowed: of a control program, its own words.
    pub reason: String,
}

/// The status of a payment transaction, and how the gateway failed where it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PaymentResult {
    /// By its status.
    Status {
        status: TransactionStatus,
        /// The gateway's words for a refusal.
        message: Option<String>,
    },
    /// PLUGIN_FAILURE: the gateway takes no such amount of this currency, and nothing was sent.
    AmountNotTaken {
        /// Why, in its words.
        message: Option<String>,
    },
    /// UNKNOWN: the gateway answered with an error of its own.
    GatewayFailed {
        /// In its words.
        message: String,
    },
    /// UNKNOWN: the gateway answered nothing.
    GatewayAnsweredNothing,
    /// UNKNOWN: the gateway did not answer in time.
    GatewayTimedOut,
}

impl Reply {
    /// Whether the outcome is not known yet: such a reply is sent, but not stored.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        match self {
            Self::Payment(it) => match &it.result {
                PaymentResult::Status { status, .. } => status.is_in_doubt(),
                PaymentResult::AmountNotTaken { .. } => false,
                PaymentResult::GatewayFailed { .. }
                | PaymentResult::GatewayAnsweredNothing
                | PaymentResult::GatewayTimedOut => true,
            },
            Self::Account(it) => match it {
                AccountReply::PaymentMethodPending(_) => true,
                AccountReply::Created(_)
                | AccountReply::PaymentMethodCreated(_)
                | AccountReply::PaymentMethodRefused(_) => false,
            },
            Self::Done
            | Self::TenantCreated(_)
            | Self::TagDefinitionCreated(_)
            | Self::Access(_)
            | Self::Flag(_)
            | Self::Customer(_)
            | Self::PaymentAborted(_)
            | Self::Entitlement(_)
            | Self::Billing(_)
            | Self::Imported { .. } => false,
        }
    }
}

/// An accepted command's reply: now, or once a gateway has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// `None`: the reply is that of the command which brings the outcome.
    pub reply: Option<Reply>,
}

impl Accepted {
    pub(crate) const fn now(reply: Reply) -> Self {
        Self { reply: Some(reply) }
    }

    pub(crate) const fn later() -> Self {
        Self { reply: None }
    }
}

pub(crate) type Outcome = Result<Accepted, Rejection>;
