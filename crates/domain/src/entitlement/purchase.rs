//! Purchases: an account bought an offer, with the payment that is for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entitlement::feature::{FeatureTerms, FeatureValue};
use crate::entitlement::offer::{Lasts, OfferTerms, Price, Revocation};
use crate::entity::{Entity, Facts};
use crate::payment::Payment;
use crate::rows::Keyed;
use crate::{
    AccountId, PaymentId, PaymentMethodId, Properties, PurchaseId, Revision, TenantNo, Timestamp,
};

/// An account's purchase of an offer. Written in the commit that starts its payment, with all that is needed when the
/// outcome is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purchase {
    pub tenant: TenantNo,
    pub id: PurchaseId,
    pub account_id: AccountId,
    /// `None` where the offer is free.
    pub payment_id: Option<PaymentId>,
    /// The key of the offer.
    pub offer: String,
    pub offer_version: i64,
    pub terms: BoughtTerms,
    pub status: PurchaseStatus,
    /// From when on it holds; `None` as long as it was never paid.
    pub from: Option<Timestamp>,
    /// Until when; `None`: for ever, or never paid.
    pub until: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Purchase {
    type Key = (TenantNo, PurchaseId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.id)
    }
}

impl Entity for Purchase {
    fn facts(&self) -> Facts {
        Facts::new("purchase", self.id, self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// The offer as it was bought, and its features as they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoughtTerms {
    pub offer: OfferTerms,
    /// The terms of the offer's features.
    pub features: BTreeMap<String, FeatureTerms>,
}

/// Where a purchase stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PurchaseStatus {
    /// Its payment runs, is pending or unknown.
    Pending,
    /// Its payment failed, or a success was taken back.
    Failed,
    /// It is paid, or free: what it gives was granted.
    Active,
    /// Its money went back.
    Returned,
    /// It was paid late, when the account had the offer already: it grants nothing.
    Duplicate,
    /// Its money came, or came back, when the account was closed: it grants nothing.
    Closed,
}

/// Where the payment of a purchase stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its outcome is to come.
    Open,
    /// Less than the price was taken, or nothing.
    Unpaid,
    /// It is paid, or free.
    Paid,
    /// As much as the price went back, and what was granted ends so.
    Returned(Revocation),
}

/// Buys an offer for an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buy {
    pub account: AccountId,
    /// The key of the offer.
    pub offer: String,
    /// The version that the buyer saw; `None`: any.
    pub version: Option<i64>,
    /// The price that the buyer saw; `None`: it is free.
    pub expected: Option<Price>,
    /// `None`: the account's default.
    pub payment_method: Option<PaymentMethodId>,
    pub properties: Properties,
}

impl PurchaseStatus {
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Failed, Self::Active, Self::Returned, Self::Duplicate, Self::Closed];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Failed => "FAILED",
            Self::Active => "ACTIVE",
            Self::Returned => "RETURNED",
            Self::Duplicate => "DUPLICATE",
            Self::Closed => "CLOSED",
        }
    }

    /// Whether it stays, whatever becomes of the payment.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Duplicate | Self::Closed => true,
            Self::Pending | Self::Failed | Self::Active | Self::Returned => false,
        }
    }

    /// The status of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl Purchase {
    /// Where its payment stands; `None` where the offer is free.
    #[must_use]
    pub fn standing(&self, payment: Option<&Payment>) -> Standing {
        let offer = &self.terms.offer;
        let (Some(price), Some(payment)) = (offer.price, payment) else { return Standing::Paid };
        let amounts = &payment.amounts;
        let taken = amounts.purchased.checked_add(amounts.captured);
        let is_paid =
            payment.currency == price.currency && taken.is_none_or(|it| it >= price.amount);
        if !is_paid {
            let last = payment.state;
            return match last.operation.is_initial() && last.status.is_open() {
                true => Standing::Open,
                false => Standing::Unpaid,
            };
        }
        let back = amounts.refunded.checked_add(amounts.charged_back);
        let rule = match amounts.charged_back.is_zero() {
            true => offer.on_refund,
            false => offer.on_chargeback,
        };
        let is_back = back.is_none_or(|it| it >= price.amount);
        match rule {
            Revocation::AtOnce | Revocation::AtEnd if is_back => Standing::Returned(rule),
            Revocation::AtOnce | Revocation::AtEnd | Revocation::Never => Standing::Paid,
        }
    }
}

impl Standing {
    /// The status of a purchase that has no final one.
    #[must_use]
    pub const fn status(self) -> PurchaseStatus {
        match self {
            Self::Open => PurchaseStatus::Pending,
            Self::Unpaid => PurchaseStatus::Failed,
            Self::Paid => PurchaseStatus::Active,
            Self::Returned(_) => PurchaseStatus::Returned,
        }
    }
}

impl BoughtTerms {
    /// The features that it gives, each with its key, value and terms.
    pub fn given(&self) -> impl Iterator<Item = (&String, &FeatureValue, &FeatureTerms)> {
        let terms = |key| self.features.get(key).expect("an offer is bought with its features");
        self.offer.features.iter().map(move |(key, value)| (key, value, terms(key)))
    }

    #[must_use]
    pub const fn lasts(&self) -> Lasts {
        self.offer.lasts
    }
}
