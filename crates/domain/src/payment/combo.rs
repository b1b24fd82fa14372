//! Combo payments: a payment whose account and payment method are made with it where they are new.

use serde::{Deserialize, Serialize};

use crate::account::CreateAccount;
use crate::account::payment_method::CreatePaymentMethod;
use crate::payment::{Initiate, TransactionType};
use crate::{Account, AccountId, Currency, PaymentId, PaymentMethodId, Properties};

/// Starts a payment. Where its account or its payment method is new, the same commit makes it; where the
/// payment is refused, nothing is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitiateCombo {
    /// Authorize, purchase or credit.
    pub kind: TransactionType,
    /// The account that pays.
    pub account: ComboAccount,
    /// `None`: the account's default.
    pub payment_method: Option<ComboMethod>,
    /// An existing payment to retry.
    pub payment: Option<PaymentId>,
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

/// The account of a combo payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComboAccount {
    Existing(ExistingAccount),
    /// It is made.
    New(Box<CreateAccount>),
}

/// An account that exists, and what the request says of it: refused where that is not so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExistingAccount {
    pub id: AccountId,
    /// Must be equal.
    pub external_key: Option<String>,
    /// Must be equal, where the account has one.
    pub currency: Option<Currency>,
}

/// The payment method of a combo payment: the account's method of this id, or of this key. Where the
/// request has no id and no method has the key, it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComboMethod {
    /// One that exists.
    pub id: Option<PaymentMethodId>,
    /// The client's name for it, unique per tenant for ever.
    pub external_key: Option<String>,
    /// The gateway it goes through; required where it is made.
    pub gateway: Option<String>,
    /// The gateway's own name for it; of one that exists, it stays as it is.
    pub external_payment_method_id: Option<String>,
    /// For the gateway; of one that exists, they stay as they are. The API has refused card data.
    pub properties: Properties,
}

impl InitiateCombo {
    /// The start of the payment, once its account and its payment method are known.
    pub(crate) fn initiate(
        &self,
        account: AccountId,
        payment_method: Option<PaymentMethodId>,
    ) -> Initiate {
        Initiate {
            account,
            payment: self.payment,
            payment_method,
            payment_key: self.payment_key.clone(),
            transaction_key: self.transaction_key.clone(),
            amount: self.amount.clone(),
            currency: self.currency,
            properties: self.properties.clone(),
            control: self.control.clone(),
            approved: self.approved.clone(),
            gateways: self.gateways.clone(),
        }
    }
}

impl ComboMethod {
    /// A new method of an account, which becomes its default where it has none.
    pub(crate) fn create(&self, account: &Account, gateway: String) -> CreatePaymentMethod {
        CreatePaymentMethod {
            account: account.id,
            external_key: self.external_key.clone(),
            gateway,
            external_payment_method_id: self.external_payment_method_id.clone(),
            properties: self.properties.clone(),
            is_default: account.payment_method_id.is_none(),
            is_attached: false,
        }
    }
}
