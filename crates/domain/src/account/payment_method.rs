//! Payment methods: how an account pays, through which gateway.

use serde::{Deserialize, Serialize};

use crate::account::tag::{ControlTag, TagKey};
use crate::entity::{Entity, Facts};
use crate::payment::{MethodAtGateway, NotSentCause, ReplyKey};
use crate::rows::Keyed;
use crate::{
    AccountId, MerchantAccount, PaymentMethodId, Properties, Revision, TenantNo, Timestamp,
};

/// A means of payment on an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentMethod {
    pub tenant: TenantNo,
    pub id: PaymentMethodId,
    /// The account that pays with it.
    pub account_id: AccountId,
    /// The client's name for it, unique per tenant for ever; `None` reads as the id.
    pub external_key: Option<String>,
    /// The gateway it goes through (Kill Bill: plugin name).
    pub gateway: String,
    /// The gateway's own name for it. Never journalled, and gone once the person is erased.
    #[serde(skip)]
    pub external_payment_method_id: Option<String>,
    /// The properties that the client stored with it for the gateway; likewise. The API refused card data.
    #[serde(skip)]
    pub properties: Properties,
    /// False once it was deleted, and until its gateway has attached it.
    pub active: bool,
    /// The tenant's account at the gateway that it is attached in; `None` where the gateway needs none, or where it was
    /// made before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_account: Option<MerchantAccount>,
    /// The step that its gateway has still to take, or has refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<MethodStep>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for PaymentMethod {
    type Key = (TenantNo, PaymentMethodId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for PaymentMethod {
    fn facts(&self) -> Facts {
        Facts::new("payment method", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }

    fn erase(&mut self) {
        self.external_payment_method_id = None;
        self.properties.clear();
    }
}

/// A step that a payment method takes at its gateway: committed before the gateway is called, and gone with the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MethodStep {
    /// It becomes active once the gateway has attached it.
    Attach {
        /// Whether it then becomes its account's default.
        is_default: bool,
        /// Real time until which the request may be on its way.
        deadline: Timestamp,
        /// How often the gateway was asked since.
        asked: u32,
        /// The stored reply that waits for the outcome.
        reply: Option<ReplyKey>,
    },
    /// It was deleted here, and is to be detached.
    Detach {
        /// Real time until which the request may be on its way; `None`: none was sent.
        deadline: Option<Timestamp>,
        /// How often the gateway was asked since.
        asked: u32,
        /// It had been given up before the gateway attached it.
        was_refused: bool,
    },
    /// It was never attached, and never will be: its key is free.
    Refused,
}

/// The task in a request to a gateway about a payment method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MethodTask {
    /// Attach it to its customer, so that it can be charged with nobody present.
    Attach,
    /// Detach it: it cannot be charged any more.
    Detach,
    /// Find out whether it is attached. Nothing is made or changed.
    Find,
}

impl MethodTask {
    /// Its name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attach => "attach",
            Self::Detach => "detach",
            Self::Find => "find",
        }
    }
}

/// A request to a gateway about a payment method. Its id, with the task, is the idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodRequest {
    pub tenant: TenantNo,
    /// The account that pays with it.
    pub account: AccountId,
    pub payment_method: PaymentMethodId,
    pub gateway: String,
    /// The tenant's account there, and no other is to be used; `None` where the gateway needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_account: Option<MerchantAccount>,
    pub task: MethodTask,
    /// See [`PaymentMethod::external_payment_method_id`].
    pub external_payment_method_id: Option<String>,
    /// See [`PaymentMethod::properties`].
    pub properties: Properties,
    /// How long to wait for the answer, in microseconds of real time.
    pub timeout_us: i64,
}

/// A gateway's answer to a [`MethodRequest`]. Untrusted: texts are cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MethodAnswer {
    /// It is attached: this is what the gateway calls it.
    Attached(MethodAtGateway),
    /// It is not attached.
    Absent,
    /// The gateway refuses, and nothing was changed.
    Refused {
        /// The gateway's code.
        code: Option<String>,
        message: String,
    },
    /// Nothing was sent.
    NotSent { message: String, cause: NotSentCause },
    /// It may have been carried out, or the gateway cannot be asked.
    Unknown { message: String },
}

/// A gateway's answer about a payment method, as a command. Only the engine that asked submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodAnswered {
    /// The account of the method.
    pub account: AccountId,
    pub payment_method: PaymentMethodId,
    pub task: MethodTask,
    pub answer: MethodAnswer,
    /// Real time at which the gateway was asked.
    pub asked_at: Timestamp,
}

/// Goes on with the step of a payment method whose timer is due: asks its gateway, or calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueMethod {
    /// The account of the method.
    pub account: AccountId,
    pub payment_method: PaymentMethodId,
    /// When the timer is due.
    pub due: Timestamp,
}

/// Why a payment method was not attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodRefused {
    pub payment_method: PaymentMethodId,
    pub cause: RefusalCause,
    pub message: String,
}

/// Who has it that a payment method was not attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalCause {
    /// The gateway has refused, with its code.
    Gateway { code: Option<String> },
    /// Nothing was sent: what the method says, or the tenant's account at the gateway, does not allow it.
    Method,
    /// The gateway was not reached, or has no record of it.
    NotReached,
}

impl PaymentMethod {
    /// Whether its gateway has still to attach it.
    #[must_use]
    pub const fn is_attaching(&self) -> bool {
        matches!(self.step, Some(MethodStep::Attach { .. }))
    }
}

/// Adds a payment method to an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatePaymentMethod {
    pub account: AccountId,
    /// The client's name for it, unique per tenant for ever; `None` reads as the id.
    pub external_key: Option<String>,
    /// The gateway it goes through (Kill Bill: plugin name).
    pub gateway: String,
    /// The gateway's own name for it.
    pub external_payment_method_id: Option<String>,
    /// For the gateway. The API has refused card data.
    pub properties: Properties,
    /// Whether it becomes the account's default.
    pub is_default: bool,
    /// Whether the gateway has it already: it is not attached once more, and not made where the account has a method of
    /// the same name at the gateway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_attached: bool,
}

impl CreatePaymentMethod {
    /// A method of `gateway` without keys and properties, which becomes the account's default.
    #[must_use]
    pub const fn default_of(account: AccountId, gateway: String) -> Self {
        Self {
            account,
            external_key: None,
            gateway,
            external_payment_method_id: None,
            properties: vec![],
            is_default: true,
            is_attached: false,
        }
    }
}

/// Makes a payment method the account's default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDefaultPaymentMethod {
    pub account: AccountId,
    /// One of its methods.
    pub payment_method: PaymentMethodId,
}

/// Deletes a payment method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletePaymentMethod {
    pub payment_method: PaymentMethodId,
    /// Also where it is the account's default (Kill Bill: `forceDefaultPmDeletion`).
    pub even_if_default: bool,
    /// Also where it is the default of this account, whose it is, to which nothing is then charged by
    /// itself any more (Kill Bill: `deleteDefaultPmWithAutoPayOff`).
    #[serde(default)]
    pub auto_pay_off: Option<AccountId>,
}

impl DeletePaymentMethod {
    /// The tag that the account gets where this was its default.
    pub(crate) fn tag(&self) -> Option<TagKey> {
        self.auto_pay_off.map(|account| TagKey::of_account(account, ControlTag::AutoPayOff))
    }
}
