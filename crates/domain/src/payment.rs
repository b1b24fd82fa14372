//! Payments: one key, one or more transactions, and the machine that says which may follow which.

pub mod attempt;
pub(crate) mod change;
pub mod combo;
pub(crate) mod command;
pub mod decline;
pub mod dispute;
pub mod health;
mod lookup;
pub(crate) mod merchant_account;
pub(crate) mod read;
pub mod routed;
pub mod routing;
pub(crate) mod rules;

use serde::{Deserialize, Serialize};

use crate::MerchantAccount;
use crate::entity::{Entity, Facts};
use crate::payment::routed::{Routed, Tries};
use crate::rows::Keyed;
use crate::{
    AccountId, AmountMinor, Currency, InvoiceId, PaymentId, PaymentMethodId, Properties,
    PurchaseId, Revision, TenantNo, Timestamp, TransactionId,
};

/// The gateway that settles within the commit: money that changed hands elsewhere (Kill Bill's name).
pub const EXTERNAL_PAYMENT: &str = "__EXTERNAL_PAYMENT__";

/// The operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TransactionType {
    /// Reserves an amount for a later capture.
    Authorize,
    /// Moves reserved money.
    Capture,
    /// Moves money at once, without a reservation.
    Purchase,
    /// Returns money to the customer.
    Refund,
    /// Pays money out without an earlier payment.
    Credit,
    /// Releases reserved money.
    Void,
    /// The customer's bank took the money back.
    Chargeback,
    /// The customer's bank returned it. Kill Bill shows this as a failed CHARGEBACK.
    ChargebackReversal,
}

/// The status of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TransactionStatus {
    /// The gateway is being called. Kill Bill reads it as UNKNOWN.
    InFlight,
    /// Money moved (or, for authorize and void, the gateway agreed).
    Success,
    /// The gateway settles it later.
    Pending,
    /// The gateway declined.
    PaymentFailure,
    /// The gateway did not take the request: nothing moved.
    PluginFailure,
    /// Nobody knows yet whether money moved.
    Unknown,
}

impl TransactionType {
    /// Its name in upper case, as APIs show it: `AUTHORIZE`, `CHARGEBACK_REVERSAL`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authorize => "AUTHORIZE",
            Self::Capture => "CAPTURE",
            Self::Purchase => "PURCHASE",
            Self::Refund => "REFUND",
            Self::Credit => "CREDIT",
            Self::Void => "VOID",
            Self::Chargeback => "CHARGEBACK",
            Self::ChargebackReversal => "CHARGEBACK_REVERSAL",
        }
    }

    /// Its name in Kill Bill, where the reversal of a chargeback is a failed CHARGEBACK.
    #[must_use]
    pub const fn killbill_name(self) -> &'static str {
        match self {
            Self::ChargebackReversal => Self::Chargeback.name(),
            Self::Authorize
            | Self::Capture
            | Self::Purchase
            | Self::Refund
            | Self::Credit
            | Self::Void
            | Self::Chargeback => self.name(),
        }
    }

    /// Whether a payment starts with it.
    #[must_use]
    pub const fn is_initial(self) -> bool {
        match self {
            Self::Authorize | Self::Purchase | Self::Credit => true,
            Self::Capture
            | Self::Refund
            | Self::Void
            | Self::Chargeback
            | Self::ChargebackReversal => false,
        }
    }

    /// Whether a payment starts with it, and the customer pays.
    #[must_use]
    pub const fn charges(self) -> bool {
        match self {
            Self::Authorize | Self::Purchase => true,
            Self::Credit
            | Self::Capture
            | Self::Refund
            | Self::Void
            | Self::Chargeback
            | Self::ChargebackReversal => false,
        }
    }
}

impl TransactionStatus {
    /// Its name in Kill Bill's spelling, which has none for a call that runs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InFlight => "IN_FLIGHT",
            Self::Success => "SUCCESS",
            Self::Pending => "PENDING",
            Self::PaymentFailure => "PAYMENT_FAILURE",
            Self::PluginFailure => "PLUGIN_FAILURE",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Whether the outcome is still to come, so that its amount counts as used.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::InFlight | Self::Pending | Self::Unknown => true,
            Self::Success | Self::PaymentFailure | Self::PluginFailure => false,
        }
    }

    /// Whether a charge may or may not have happened: nothing else may be sent for the payment.
    #[must_use]
    pub const fn is_in_doubt(self) -> bool {
        match self {
            Self::InFlight | Self::Unknown => true,
            Self::Pending | Self::Success | Self::PaymentFailure | Self::PluginFailure => false,
        }
    }

    /// Whether it ended without moving anything.
    #[must_use]
    pub const fn is_failed(self) -> bool {
        match self {
            Self::PaymentFailure | Self::PluginFailure => true,
            Self::InFlight | Self::Pending | Self::Success | Self::Unknown => false,
        }
    }
}

/// The last operation on a payment and how it ended; Kill Bill spells it `AUTH_SUCCESS` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentState {
    pub operation: TransactionType,
    pub status: TransactionStatus,
}

/// Sums of a payment's successful transactions, in minor units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// Reserved; zero once voided where it was reserved.
    pub authorized: AmountMinor,
    /// The sum of captures.
    pub captured: AmountMinor,
    /// The sum of purchases.
    pub purchased: AmountMinor,
    /// The sum of refunds.
    pub refunded: AmountMinor,
    /// The sum of credits.
    pub credited: AmountMinor,
    /// Taken back by the customer's bank, less what it returned.
    pub charged_back: AmountMinor,
}

/// The order that a payment is for. It follows the payment, in the commit that settles it, returns it or takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PaidFor {
    Purchase(PurchaseId),
    Invoice { invoice: InvoiceId },
}

impl PaidFor {
    #[must_use]
    pub const fn purchase(self) -> Option<PurchaseId> {
        match self {
            Self::Purchase(id) => Some(id),
            Self::Invoice { .. } => None,
        }
    }

    #[must_use]
    pub const fn invoice(self) -> Option<InvoiceId> {
        match self {
            Self::Invoice { invoice } => Some(invoice),
            Self::Purchase(_) => None,
        }
    }
}

/// A payment, without its transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    pub tenant: TenantNo,
    pub id: PaymentId,
    /// The account that pays.
    pub account_id: AccountId,
    /// The payment method of the latest attempt that succeeded; of the last attempt if none has.
    pub payment_method_id: PaymentMethodId,
    /// A number for people; unique on the installation, with gaps.
    pub number: i64,
    /// The client's name for it, unique per tenant; `None` reads as the id.
    pub external_key: Option<String>,
    /// The currency of its initial transaction.
    pub currency: Currency,
    /// The gateway of the same attempt.
    pub gateway: String,
    #[serde(default, rename = "purchase", skip_serializing_if = "Option::is_none")]
    pub paid_for: Option<PaidFor>,
    /// The last operation and its status.
    pub state: PaymentState,
    /// The last successful operation: the next one is checked against it.
    pub last_success: Option<PaymentState>,
    /// The sums of the transactions that succeeded so far.
    pub amounts: Amounts,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Payment {
    type Key = (TenantNo, PaymentId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Payment {
    fn facts(&self) -> Facts {
        Facts::new("payment", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// One operation on a payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    pub tenant: TenantNo,
    /// Its id, and the idempotency key towards the gateway.
    pub id: TransactionId,
    pub payment_id: PaymentId,
    /// The payment's account.
    pub account_id: AccountId,
    /// The client's name for it; at most one of a name succeeds. `None` reads as the id.
    pub external_key: Option<String>,
    /// The gateway it goes through. Tries of a payment may take different ones, and what follows on
    /// an attempt goes where that attempt went.
    pub gateway: String,
    /// The tenant's account at the gateway when it was called; what follows takes its attempt's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_account: Option<MerchantAccount>,
    /// The payment method it is made with; what follows takes its attempt's.
    pub payment_method_id: PaymentMethodId,
    pub kind: TransactionType,
    pub status: TransactionStatus,
    /// The requested amount; `None` for a void.
    pub amount: Option<AmountMinor>,
    /// The amount that its completion asked for, where that is less than `amount`: it holds where the gateway reports
    /// no amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_amount: Option<AmountMinor>,
    /// The payment's currency; `None` for a void.
    pub currency: Option<Currency>,
    /// The amount that the gateway reports as processed; zero for a failure.
    pub processed_amount: Option<AmountMinor>,
    pub processed_currency: Option<Currency>,
    /// When it was requested.
    pub effective_at: Timestamp,
    /// The gateway's code for a refusal.
    pub gateway_error_code: Option<String>,
    /// The gateway's words for a refusal.
    pub gateway_error_message: Option<String>,
    /// The gateway's own reference.
    pub first_reference: Option<String>,
    /// The gateway's second reference.
    pub second_reference: Option<String>,
    /// Whether it had failed, and was said later not to have: meanwhile its key may have been used
    /// elsewhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overruled: bool,
    /// Real time of the question to its gateway, or of the notification, that changed it last: what was asked
    /// before does not change its end any more. `None` where only its own call did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<Timestamp>,
    /// Why it goes through that gateway; `None` where its payment method says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<Routed>,
    pub revision: Revision,
}

impl Keyed for Transaction {
    type Key = (TenantNo, TransactionId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Transaction {
    fn facts(&self) -> Facts {
        Facts::new("transaction", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// A payment with its transactions, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentFile {
    pub payment: Payment,
    pub transactions: Vec<Transaction>,
}

impl Keyed for PaymentFile {
    type Key = (TenantNo, PaymentId);

    fn key(&self) -> Self::Key {
        self.payment.key()
    }
}

impl Transaction {
    /// Whether it has the same route: the same gateway and payment method.
    #[must_use]
    pub fn has_same_route(&self, other: &Self) -> bool {
        self.payment_method_id == other.payment_method_id && self.gateway == other.gateway
    }

    /// The first of the tries of its request, which several gateways may have had.
    #[must_use]
    pub fn first_try(&self) -> TransactionId {
        self.routed.as_ref().and_then(|it| it.first).unwrap_or(self.id)
    }
}

impl PaymentFile {
    /// A transaction of this payment.
    #[must_use]
    pub fn transaction(&self, id: TransactionId) -> Option<&Transaction> {
        self.transactions.iter().find(|transaction| transaction.id == id)
    }

    /// The transactions that the client named `key`; one that has no name goes by its id.
    pub fn named<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Transaction> {
        self.transactions.iter().filter(move |transaction| match &transaction.external_key {
            Some(own) => own == key,
            None => transaction.id.to_string() == key,
        })
    }

    /// Whether a charge of this payment may or may not have happened.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.transactions.iter().any(|transaction| transaction.status.is_in_doubt())
    }
}

/// A transaction whose outcome is not known yet: what to ask, when, and who waits.
/// It is written in the commit before the gateway is called, and deleted with the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outstanding {
    pub tenant: TenantNo,
    pub transaction_id: TransactionId,
    pub payment_id: PaymentId,
    /// The payment's account.
    pub account_id: AccountId,
    /// The gateway to inquire of.
    pub gateway: String,
    /// Real time until which the call may still be running: no inquiry is sent before.
    pub deadline: Timestamp,
    /// Domain time of the next inquiry; `None` while the call runs, or if there is none.
    pub ask_at: Option<Timestamp>,
    /// How many inquiries were sent.
    pub asked: u32,
    /// The stored reply that waits for the outcome.
    pub reply: Option<ReplyKey>,
    /// The customer's next action, sealed by the gateway's code: see [`GatewayOutcome::next_action`].
    #[serde(skip)]
    pub next_action: Option<String>,
    /// Who asked for the transaction: the outcome is written in their name.
    pub actor: Actor,
}

impl Keyed for Outstanding {
    type Key = (TenantNo, TransactionId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.transaction_id)
    }
}

/// Names a stored reply: a hash of tenant, user and idempotency key, made by the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplyKey(pub uuid::Uuid);

/// The caller, as described by Kill Bill's headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The authenticated user.
    pub user: String,
    /// `X-Killbill-CreatedBy`.
    pub created_by: String,
    /// `X-Killbill-Reason`.
    pub reason: Option<String>,
    /// `X-Killbill-Comment`.
    pub comments: Option<String>,
    /// `X-Request-Id` where it is a UUID, else one of ours.
    pub token: uuid::Uuid,
}

impl Actor {
    /// An actor who gives no reason and no comment.
    #[must_use]
    pub fn new(user: impl Into<String>, created_by: impl Into<String>, token: uuid::Uuid) -> Self {
        let (user, created_by) = (user.into(), created_by.into());
        Self { user, created_by, reason: None, comments: None, token }
    }

    /// Forgets the client's words. The user who acted stays: it is the installation's operator.
    pub fn erase(&mut self) {
        self.created_by.clone_from(&self.user);
        (self.reason, self.comments) = (None, None);
    }
}

/// Starts a payment, or another attempt at one that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initiate {
    /// The account that pays.
    pub account: AccountId,
    /// An existing payment to retry.
    pub payment: Option<PaymentId>,
    /// `None`: the account's default.
    pub payment_method: Option<PaymentMethodId>,
    /// The client's name for the payment; `None` reads as the id.
    pub payment_key: Option<String>,
    /// The client's name for the transaction; `None` reads as the id.
    pub transaction_key: Option<String>,
    /// Decimal in the currency's major unit.
    pub amount: Option<String>,
    /// `None`: the account's.
    pub currency: Option<Currency>,
    pub properties: Properties,
    /// The control plugins that the call names, but for those in `approved`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<String>,
    /// The control programs that the call named and that let it go on: the engine has asked them before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<String>,
    /// The gateways to try, in order, in place of the tenant's rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
}

impl Initiate {
    /// A payment of an account that names nothing else.
    pub const fn of(account: AccountId) -> Self {
        Self {
            account,
            payment: None,
            payment_method: None,
            payment_key: None,
            transaction_key: None,
            amount: None,
            currency: None,
            properties: Properties::new(),
            control: Vec::new(),
            approved: Vec::new(),
            gateways: Vec::new(),
        }
    }
}

/// Goes on with a payment: capture, refund, void, chargeback, reversal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowUp {
    pub payment: PaymentId,
    /// See [`Transaction::external_key`]. For a reversal: the chargeback's.
    pub transaction_key: Option<String>,
    /// Decimal in the currency's major unit.
    pub amount: Option<String>,
    /// `None`: the account's.
    pub currency: Option<Currency>,
    pub properties: Properties,
    /// The control plugins that the call names, but for those in `approved`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<String>,
    /// The control programs that the call named and that let it go on: the engine has asked them before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<String>,
}

impl FollowUp {
    /// A follow-up that names its payment and nothing else.
    pub const fn of(payment: PaymentId) -> Self {
        Self {
            payment,
            transaction_key: None,
            amount: None,
            currency: None,
            properties: Properties::new(),
            control: Vec::new(),
            approved: Vec::new(),
        }
    }
}

/// Completes a transaction that is pending: asks the gateway to go on with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    pub payment: PaymentId,
    /// Which transaction; `None`: by key, else the one that is pending.
    pub transaction: Option<TransactionId>,
    /// Which transaction, by the client's name.
    pub transaction_key: Option<String>,
    /// Refused where the transaction is of another type.
    pub kind: Option<TransactionType>,
    /// Decimal: what to process, where it differs from what was asked for.
    pub amount: Option<String>,
    /// Must be the transaction's.
    pub currency: Option<Currency>,
    pub properties: Properties,
}

impl Complete {
    /// Completes a transaction of a type with the amount that it was started with.
    #[must_use]
    pub const fn as_requested(
        payment: PaymentId,
        transaction: TransactionId,
        kind: TransactionType,
    ) -> Self {
        Self {
            payment,
            transaction: Some(transaction),
            transaction_key: None,
            kind: Some(kind),
            amount: None,
            currency: None,
            properties: vec![],
        }
    }
}

/// The property of a completion that gives the transaction up: the gateway cancels it.
pub const CANCEL: &str = "cancel";

/// Gives up a transaction whose customer has not done what it waits for; of a timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpireAction {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// The timer's.
    pub due: Timestamp,
}

/// Sets how a pending transaction ended, when a client knows it from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvePending {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// True: it worked. `None`: it stays as it is (Kill Bill takes other statuses and does nothing).
    pub success: Option<bool>,
}

/// Sets the status of a transaction by an operator: the only way out when a gateway never answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixTransaction {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// The new status.
    pub status: TransactionStatus,
}

/// A gateway's outcome of a transaction, checked and bounded but not trusted beyond that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayOutcome {
    /// How it ended.
    pub status: GatewayStatus,
    /// The amount that was processed. `None`: the amount that the last call for the transaction asked for; a caller
    /// that cannot be sure that the gateway has had that call gives the amount.
    pub amount: Option<AmountMinor>,
    pub currency: Option<Currency>,
    /// At most [`GATEWAY_TEXT_MAX`] characters.
    pub error_code: Option<String>,
    /// At most [`GATEWAY_TEXT_MAX`] characters.
    pub error_message: Option<String>,
    /// At most [`GATEWAY_TEXT_MAX`] characters.
    pub first_reference: Option<String>,
    /// At most [`GATEWAY_TEXT_MAX`] characters.
    pub second_reference: Option<String>,
    /// The action that the customer has to take before a pending transaction goes on, such as the URL of a challenge:
    /// sealed by the gateway's code, because it may hold a secret. It is shown while the transaction is pending.
    #[serde(skip)]
    pub next_action: Option<String>,
    /// The payment method as the gateway names it from now on; `None`: as before.
    #[serde(skip)]
    pub payment_method: Option<MethodAtGateway>,
}

/// A payment method as its gateway knows it after a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodAtGateway {
    /// See [`crate::PaymentMethod::external_payment_method_id`].
    pub external_id: String,
    /// Further properties that the gateway needs with it: they replace the properties of these names.
    pub properties: Properties,
}

impl GatewayOutcome {
    /// An outcome without details.
    pub const fn new(status: GatewayStatus) -> Self {
        Self {
            status,
            amount: None,
            currency: None,
            error_code: None,
            error_message: None,
            first_reference: None,
            second_reference: None,
            next_action: None,
            payment_method: None,
        }
    }
}

/// How many characters of a gateway's text are kept. What looks like a card number in it is not.
pub const GATEWAY_TEXT_MAX: usize = 255;

/// The error code of a call that its gateway canceled because it takes no such amount of the currency.
pub const AMOUNT_NOT_TAKEN: &str = "amount";

/// The statuses of Kill Bill's plugin contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayStatus {
    Processed,
    /// The gateway settles it later.
    Pending,
    /// The gateway declined the transaction.
    Error,
    /// The gateway did not take the request: no money moved.
    Canceled,
    /// The gateway does not know.
    Undefined,
}

/// How a call of a gateway ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayAnswer {
    /// The gateway answered with an outcome.
    Outcome(GatewayOutcome),
    /// The gateway answered with an error of its own; it is not known whether money moved.
    Failed {
        /// The gateway's text.
        message: String,
    },
    /// The answer was empty; it is not known whether money moved.
    Nothing,
    /// The gateway did not answer in time; it is not known whether money moved.
    TimedOut,
    /// The request was provably not sent: no money moved.
    NotSent { message: String, cause: NotSentCause },
}

/// Why a call was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotSentCause {
    /// The gateway cannot be reached.
    Gateway,
    /// The call, the tenant's account at the gateway or its limit there does not allow it. That says nothing of the
    /// gateway: one tenant's calls must not keep those of others away.
    Call,
}

impl GatewayAnswer {
    /// The gateway cannot be reached: nothing was sent.
    #[must_use]
    pub const fn not_reached(message: String) -> Self {
        Self::NotSent { message, cause: NotSentCause::Gateway }
    }

    /// The call is not one that can be sent.
    #[must_use]
    pub const fn not_sendable(message: String) -> Self {
        Self::NotSent { message, cause: NotSentCause::Call }
    }
}

/// Returns the money of a try that succeeded beside a later one, where its timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundLateSuccess {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// When the timer is due.
    pub due: Timestamp,
}

/// The outcome of a call. Executed as the actor of the transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayReplied {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    pub answer: GatewayAnswer,
    /// See [`crate::GatewayCall::is_controlled`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_controlled: bool,
    /// See [`crate::GatewayCall::tries`].
    #[serde(skip)]
    pub tries: Option<Box<Tries>>,
}

/// A gateway's answer to an inquiry about a transaction, or its notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayKnowledge {
    /// The gateway knows the transaction.
    Found(GatewayOutcome),
    /// The gateway does not know the transaction so far.
    NotFound,
    /// The gateway could not be reached.
    Unreachable,
}

impl GatewayKnowledge {
    /// Whether it says what became of the transaction: that nothing did, or anything but "undecided".
    #[must_use]
    pub fn is_definite(&self) -> bool {
        match self {
            Self::Found(outcome) => outcome.status != GatewayStatus::Undefined,
            Self::NotFound => true,
            Self::Unreachable => false,
        }
    }
}

/// The answer to an inquiry, or a gateway's notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayInquired {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// The gateway's answer or notification.
    pub knowledge: GatewayKnowledge,
    /// Real time of the question: what was not found then may have arrived since.
    pub asked_at: Timestamp,
}
