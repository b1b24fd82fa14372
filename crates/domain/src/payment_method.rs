//! Payment methods: how an account pays, through which gateway.

use serde::{Deserialize, Serialize};

use crate::tag::{ControlTag, TagKey};
use crate::{AccountId, PaymentMethodId, Properties, Revision, TenantNo, Timestamp};

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
    /// What the client stored with it for the gateway; likewise. The API refused card data.
    #[serde(skip)]
    pub properties: Properties,
    /// False once it was deleted.
    pub active: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    pub revision: Revision,
}

impl PaymentMethod {
    /// Forgets what may say something of the person.
    pub fn erase(&mut self) {
        self.external_payment_method_id = None;
        self.properties.clear();
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
