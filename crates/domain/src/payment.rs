//! Payments: one key, one or more transactions, and the machine that says which may follow which.

use serde::{Deserialize, Serialize};

use crate::{
    AccountId, AmountMinor, Currency, PaymentId, PaymentMethodId, Properties, Revision, TenantNo,
    Timestamp, TransactionId,
};

/// The gateway that settles within the commit: money that changed hands elsewhere (Kill Bill's name).
pub const EXTERNAL_PAYMENT: &str = "__EXTERNAL_PAYMENT__";

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TransactionType {
    /// Reserves money.
    Authorize,
    /// Takes reserved money.
    Capture,
    /// Takes money at once.
    Purchase,
    /// Gives money back.
    Refund,
    /// Gives money without a payment before.
    Credit,
    /// Lets go of reserved money.
    Void,
    /// The customer's bank took the money back.
    Chargeback,
    /// The customer's bank returned it. Kill Bill shows this as a failed CHARGEBACK.
    ChargebackReversal,
}

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TransactionStatus {
    /// The gateway is being called. Kill Bill reads it as UNKNOWN.
    InFlight,
    /// Money moved (or, for authorize and void, the gateway agreed).
    Success,
    /// The gateway will say later.
    Pending,
    /// The gateway declined.
    PaymentFailure,
    /// The gateway did not take the request: nothing moved.
    PluginFailure,
    /// Nobody knows yet whether money moved.
    Unknown,
}

impl TransactionType {
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
}

impl TransactionStatus {
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
    /// Taken of what was reserved.
    pub captured: AmountMinor,
    /// Taken at once.
    pub purchased: AmountMinor,
    /// Given back.
    pub refunded: AmountMinor,
    /// Given.
    pub credited: AmountMinor,
    /// Taken back by the customer's bank, less what it returned.
    pub charged_back: AmountMinor,
}

/// A payment, without its transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    pub tenant: TenantNo,
    pub id: PaymentId,
    /// The account that pays.
    pub account_id: AccountId,
    /// The method of the try that worked, the latest of several; of the last try while none has.
    pub payment_method_id: PaymentMethodId,
    /// A number for people; unique on the installation, with gaps.
    pub number: i64,
    /// The client's name for it, unique per tenant; `None` reads as the id.
    pub external_key: Option<String>,
    /// The currency of its initial transaction.
    pub currency: Currency,
    /// The gateway of the same try.
    pub gateway: String,
    /// What happened last.
    pub state: PaymentState,
    /// What happened last and worked: where the next operation starts from.
    pub last_success: Option<PaymentState>,
    /// What succeeded so far, from the transactions.
    pub amounts: Amounts,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    pub revision: Revision,
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
    /// a try goes where that try went.
    pub gateway: String,
    /// The payment method it is made with; what follows takes its try's.
    pub payment_method_id: PaymentMethodId,
    pub kind: TransactionType,
    pub status: TransactionStatus,
    /// What was asked for; `None` for a void.
    pub amount: Option<AmountMinor>,
    /// What its completion asked for, where that is less than `amount`: what the gateway means
    /// where it says no amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_amount: Option<AmountMinor>,
    /// The payment's currency; `None` for a void.
    pub currency: Option<Currency>,
    /// What the gateway says it processed; zero for what failed.
    pub processed_amount: Option<AmountMinor>,
    pub processed_currency: Option<Currency>,
    /// When it was asked for.
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
    pub revision: Revision,
}

/// A payment with its transactions, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentFile {
    pub payment: Payment,
    /// Its transactions.
    pub transactions: Vec<Transaction>,
}

impl Transaction {
    /// Whether it went through the same gateway with the same method.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        self.payment_method_id == other.payment_method_id && self.gateway == other.gateway
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
    /// The gateway to ask.
    pub gateway: String,
    /// Real time until which the call may still be running: before it nobody asks.
    pub deadline: Timestamp,
    /// Domain time of the next question; `None` while the call runs, or when nobody will ask again.
    pub ask_at: Option<Timestamp>,
    /// Questions asked so far.
    pub asked: u32,
    /// The stored reply that waits for the outcome.
    pub reply: Option<ReplyKey>,
    /// Who asked for the transaction: the outcome is written in their name.
    pub actor: Actor,
}

/// Names a stored reply: a hash of tenant, user and idempotency key, made by the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplyKey(pub uuid::Uuid);

/// Who asked, in the words of Kill Bill's headers.
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
}

/// Starts a payment, or a further try at one that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initiate {
    /// The account that pays.
    pub account: AccountId,
    /// An existing payment to try again.
    pub payment: Option<PaymentId>,
    /// `None`: the account's default.
    pub payment_method: Option<PaymentMethodId>,
    /// See [`Payment::external_key`].
    pub payment_key: Option<String>,
    /// See [`Transaction::external_key`].
    pub transaction_key: Option<String>,
    /// Decimal in the currency's major unit.
    pub amount: Option<String>,
    /// `None`: the account's.
    pub currency: Option<Currency>,
    pub properties: Properties,
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

/// Says how a pending transaction ended (somebody heard it elsewhere).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvePending {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// True: it worked. `None`: it stays as it is (Kill Bill takes other statuses and does nothing).
    pub success: Option<bool>,
}

/// An operator's word on a transaction: the only way out when a gateway never answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixTransaction {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// What it is to be.
    pub status: TransactionStatus,
}

/// What a gateway said about a transaction, checked and bounded but not believed beyond that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayOutcome {
    /// How it ended.
    pub status: GatewayStatus,
    /// What was processed. `None`: what the last call for the transaction asked for; a caller that cannot be
    /// sure that the gateway has had that call says the amount.
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
}

/// How many characters of a gateway's text are kept. What looks like a card number in it is not.
pub const GATEWAY_TEXT_MAX: usize = 255;

/// The statuses of Kill Bill's plugin contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayStatus {
    Processed,
    /// Will be said later.
    Pending,
    /// Declined.
    Error,
    /// Not taken.
    Canceled,
    /// The gateway does not know.
    Undefined,
}

/// How a call of a gateway ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayAnswer {
    /// It answered.
    Outcome(GatewayOutcome),
    /// It answered with an error of its own; whether money moved is not known.
    Failed {
        /// In its words.
        message: String,
    },
    /// It answered nothing; whether money moved is not known.
    Nothing,
    /// It did not answer in time; whether money moved is not known.
    TimedOut,
    /// The request provably never left: nothing moved.
    NotSent { message: String },
}

/// The outcome of a call. Executed as the actor of the transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayReplied {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    pub answer: GatewayAnswer,
}

/// What a gateway knows of a transaction when asked, or tells unasked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayKnowledge {
    /// It knows it.
    Found(GatewayOutcome),
    /// It never saw it (so far).
    NotFound,
    /// It could not be asked.
    Unreachable,
}

/// The answer to an inquiry, or a gateway's notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayInquired {
    pub payment: PaymentId,
    pub transaction: TransactionId,
    /// What it knows.
    pub knowledge: GatewayKnowledge,
    /// Real time of the question: what was not found then may have arrived since.
    pub asked_at: Timestamp,
}
