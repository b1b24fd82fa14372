//! Effects: work outside the database, committed first and performed afterwards.

use serde::{Deserialize, Serialize};

use crate::MerchantAccount;
use crate::account::payment_method::MethodRequest;
use crate::payment::TransactionType;
use crate::payment::routed::Tries;
use crate::properties::Properties;
use crate::{
    AccountId, AmountMinor, Currency, PaymentId, PaymentMethodId, Seq, TenantNo, TransactionId,
};

/// Something to be done outside once the commit that decided it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Call a payment gateway; its answer is `PaymentCommand::GatewayReplied`.
    CallGateway(Box<GatewayCall>),
    /// Ask a payment gateway about a payment method, or to attach or detach it; its answer is
    /// `AccountCommand::MethodAnswered`.
    AskAboutMethod(Box<MethodRequest>),
}

/// The transaction or the payment method of an effect: a caller waits for the outcome by this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectId {
    Transaction(TransactionId),
    PaymentMethod(PaymentMethodId),
}

impl EffectId {
    #[must_use]
    pub const fn uuid(self) -> uuid::Uuid {
        match self {
            Self::Transaction(id) => id.uuid(),
            Self::PaymentMethod(id) => id.uuid(),
        }
    }
}

impl Effect {
    #[must_use]
    pub const fn id(&self) -> EffectId {
        match self {
            Self::CallGateway(call) => EffectId::Transaction(call.transaction),
            Self::AskAboutMethod(request) => EffectId::PaymentMethod(request.payment_method),
        }
    }

    /// The tenant that it is performed for.
    #[must_use]
    pub const fn tenant(&self) -> TenantNo {
        match self {
            Self::CallGateway(call) => call.tenant,
            Self::AskAboutMethod(request) => request.tenant,
        }
    }

    /// The gateway that performs it.
    #[must_use]
    pub fn gateway(&self) -> &str {
        match self {
            Self::CallGateway(call) => &call.gateway,
            Self::AskAboutMethod(request) => &request.gateway,
        }
    }
}

/// How many references a call has at most.
pub const REFERENCES_MAX: usize = 16;

/// A gateway's own names for a transaction that it processed, or has pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayReference {
    pub transaction: TransactionId,
    pub operation: TransactionType,
    pub first: Option<String>,
    pub second: Option<String>,
}

/// A request to a gateway. The transaction's id is the idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayCall {
    pub tenant: TenantNo,
    /// The account that pays.
    pub account: AccountId,
    pub payment: PaymentId,
    /// The transaction: the idempotency key.
    pub transaction: TransactionId,
    /// The payment method of the transaction.
    pub payment_method: PaymentMethodId,
    pub gateway: String,
    /// The tenant's account there, and no other is to be used; `None` where the gateway needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_account: Option<MerchantAccount>,
    pub operation: TransactionType,
    /// How much; `None` for a void.
    pub amount: Option<AmountMinor>,
    pub currency: Currency,
    /// The gateway's own name for the payment method.
    pub external_payment_method_id: Option<String>,
    /// The properties stored with the payment method; of a routed method, without those of other gateways.
    pub payment_method_properties: Properties,
    /// The properties of the request; with a routed method, without those of other gateways.
    pub properties: Properties,
    /// The gateway's references of the transactions that this one builds on, oldest first: the attempt that it
    /// follows, the transactions that succeeded since with the same method, and itself where it is called once more.
    /// At most `REFERENCES_MAX`: the attempt, and the latest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<GatewayReference>,
    /// Whether the transaction has an attempt: its outcome changes that too.
    #[serde(default)]
    pub is_controlled: bool,
    /// The journal row that committed the call: each call for the transaction has another.
    #[serde(default)]
    pub seq: Seq,
    /// Where a decline may go on; `None` where it may not.
    #[serde(skip)]
    pub tries: Option<Box<Tries>>,
    /// How long to wait for the answer, in microseconds of real time.
    pub timeout_us: i64,
}
