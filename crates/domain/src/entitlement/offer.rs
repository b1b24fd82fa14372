//! Offers: what a tenant sells for a price, version by version.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::account::tag::DefinitionRef;
use crate::entitlement::feature::FeatureValue;
use crate::entity::{Entity, Facts};
use crate::flag::definition::Expected;
use crate::rows::Keyed;
use crate::{AmountMinor, Currency, Revision, TenantNo, Timestamp};

/// How many offers a tenant has at most.
pub const OFFERS_MAX: u32 = 1_000;

/// How many versions an offer has at most.
pub const VERSIONS_MAX: i64 = 10_000;

/// How many features an offer has at most.
pub const FEATURES_PER_OFFER_MAX: usize = 100;

/// How many days or months an offer lasts at most: a hundred years.
pub const DAYS_MAX: u32 = 36_525;
pub const MONTHS_MAX: u32 = 1_200;

/// How many tags or currencies an offer names at most.
pub const BUYERS_MAX: usize = 100;

/// A version of what a tenant sells. A version never changes; what was bought keeps its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub tenant: TenantNo,
    /// Unique for the tenant; see [`crate::entitlement::feature::check_key`].
    pub key: String,
    /// Counts from 1.
    pub version: i64,
    pub terms: OfferTerms,
    /// When this version was made.
    pub created_at: Timestamp,
    pub revision: Revision,
}

impl Keyed for Offer {
    type Key = (TenantNo, String);

    fn key(&self) -> Self::Key {
        (self.tenant, self.key.clone())
    }
}

impl Entity for Offer {
    fn name(&self) -> String {
        format!("offer {} of tenant {}", self.key, self.tenant.0)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// The terms of an offer: its price, its features, and the rules for buying it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferTerms {
    /// For people.
    pub name: String,
    /// `None`: it is free.
    pub price: Option<Price>,
    /// The values that it gives, by the keys of features; 1 to [`FEATURES_PER_OFFER_MAX`].
    pub features: BTreeMap<String, FeatureValue>,
    pub lasts: Lasts,
    pub on_refund: Revocation,
    pub on_chargeback: Revocation,
    /// Whether an account that has it already may buy it again.
    pub again: Again,
    pub buyers: Buyers,
    /// Whether a payment that succeeded when the account had the offer already, or was closed, is refunded.
    pub refunds_duplicates: bool,
    /// Whether its grants are called a trial's.
    pub is_trial: bool,
    /// Whether signing up grants it, to accounts with one of its currencies. One free offer of a tenant may say so.
    pub for_newcomers: bool,
    /// It is not sold any more; who has it keeps it.
    pub withdrawn: bool,
}

impl OfferTerms {
    /// A free offer of these features, for every account and for ever, and for nobody twice at a time.
    pub fn free(name: &str, features: &[(&str, FeatureValue)]) -> Self {
        let features = features.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        Self {
            name: name.to_owned(),
            price: None,
            features: features.collect(),
            lasts: Lasts::Forever,
            on_refund: Revocation::AtOnce,
            on_chargeback: Revocation::AtOnce,
            again: Again::Refuse,
            buyers: Buyers::default(),
            refunds_duplicates: false,
            is_trial: false,
            for_newcomers: false,
            withdrawn: false,
        }
    }
}

/// The price of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Above zero.
    pub amount: AmountMinor,
    pub currency: Currency,
}

/// How long what was bought lasts. Days and months are those of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lasts {
    Forever,
    Days(u32),
    Months(u32),
}

/// The end of grants whose money went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Revocation {
    /// They end with it.
    AtOnce,
    /// They end when they would have ended, and the offer can be bought again at once.
    AtEnd,
    /// They stay, and so does the purchase.
    Never,
}

/// Whether an account that has an offer may buy it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Again {
    Refuse,
    /// The new purchase begins when the last of the account's purchases of the offer ends.
    Extend,
}

/// Who may buy an offer. What is empty or false restricts nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buyers {
    /// Each account once, whatever became of it, unless its money went back.
    pub once: bool,
    /// Accounts with one of these currencies.
    pub currencies: BTreeSet<Currency>,
    /// Accounts with one of these tags.
    pub tags: BTreeSet<DefinitionRef>,
}

/// Makes an offer, or its next version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutOffer {
    pub key: String,
    pub terms: OfferTerms,
    /// The version that is replaced.
    pub expected: Expected,
}

impl Offer {
    /// Whether signing up grants it to an account with this currency.
    #[must_use]
    pub fn is_for_newcomer(&self, currency: Option<Currency>) -> bool {
        let terms = &self.terms;
        let currencies = &terms.buyers.currencies;
        let fits = currencies.is_empty() || currency.is_some_and(|it| currencies.contains(&it));
        terms.for_newcomers && !terms.withdrawn && fits
    }
}

impl Lasts {
    /// When what begins at `from` ends; `None`: never.
    #[must_use]
    pub fn end(self, from: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Forever => None,
            Self::Days(days) => Some(from.plus_us(i64::from(days) * Timestamp::DAY_US)),
            Self::Months(months) => Some(from.plus_months(months)),
        }
    }
}

impl Revocation {
    pub const ALL: [Self; 3] = [Self::AtOnce, Self::AtEnd, Self::Never];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "at-once",
            Self::AtEnd => "at-end",
            Self::Never => "never",
        }
    }
}

impl Again {
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Extend];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Extend => "extend",
        }
    }
}
