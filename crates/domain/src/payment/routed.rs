//! Where a transaction goes, why it went to its gateway, and where its payment may go on after a decline.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::payment::health::Unready;
use crate::payment::{Transaction, TransactionStatus, TransactionType};
use crate::{
    AccountId, MerchantAccount, PaymentId, PaymentMethodId, Properties, Revision, Seq, TenantNo,
    Timestamp, TransactionId,
};

/// Where a transaction goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub gateway: String,
    pub merchant_account: Option<MerchantAccount>,
    pub payment_method: PaymentMethodId,
}

impl Transaction {
    /// A new transaction that its gateway has not answered, without a name and an amount.
    #[must_use]
    pub fn in_flight(
        (tenant, id): (TenantNo, TransactionId),
        (payment_id, account_id): (PaymentId, AccountId),
        (kind, to): (TransactionType, Destination),
        (effective_at, seq): (Timestamp, Seq),
    ) -> Self {
        Self {
            tenant,
            id,
            payment_id,
            account_id,
            external_key: None,
            gateway: to.gateway,
            merchant_account: to.merchant_account,
            payment_method_id: to.payment_method,
            kind,
            status: TransactionStatus::InFlight,
            amount: None,
            called_amount: None,
            currency: None,
            processed_amount: None,
            processed_currency: None,
            effective_at,
            gateway_error_code: None,
            gateway_error_message: None,
            first_reference: None,
            second_reference: None,
            overruled: false,
            heard_at: None,
            routed: None,
            revision: Revision::first(seq),
        }
    }
}

/// Who chose the gateways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChosenBy {
    /// The caller.
    Caller,
    /// A rule, by its name and the revision of the tenant's rules.
    Rule { name: String, revision: Seq },
}

/// Why a gateway is not tried, or not now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassedOver {
    /// There is no such gateway any more.
    Gone,
    /// Neither method nor request has a property for it.
    NoMethod,
    /// It needs an account of the tenant's there, and the tenant has stored none.
    NoMerchantAccount,
    /// The tenant's limits do not allow it.
    NotAllowed,
    /// It takes no calls at the moment.
    Unready(Unready),
}

impl PassedOver {
    /// In words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Gone => "there is no such gateway any more",
            Self::NoMethod => "neither payment method nor request has a property for it",
            Self::NoMerchantAccount => "the tenant has stored no configuration of it",
            Self::NotAllowed => "faregate-rules does not allow it",
            Self::Unready(why) => why.reason(),
        }
    }

    /// Whether it may be over soon.
    pub(crate) const fn is_passing(self) -> bool {
        match self {
            Self::Unready(_) => true,
            Self::Gone | Self::NoMethod | Self::NoMerchantAccount | Self::NotAllowed => false,
        }
    }
}

/// Why a transaction went to its gateway: kept with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routed {
    /// Which of the tries of its request it is, from 1.
    pub number: u8,
    pub by: ChosenBy,
    /// The first of these tries; `None` where it is that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<TransactionId>,
    /// The gateways that came before its own and were passed over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub passed_over: BTreeMap<String, PassedOver>,
}

/// The tries that are left to a request whose payment is routed: where it may go on after a decline. In memory only,
/// with the call: an outcome that is found after a crash is no answer of the call, and never goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Which of the tries the call is, from 1.
    pub number: u8,
    pub by: ChosenBy,
    /// The first of the tries; `None` where the call is that one.
    pub first: Option<TransactionId>,
    /// The gateways after its own, in order.
    pub left: Vec<String>,
    /// Real time until which all tries have to end.
    pub deadline: Timestamp,
    /// The client's name for the transaction.
    pub transaction_key: Option<String>,
    /// The properties of the request.
    pub properties: Properties,
}
