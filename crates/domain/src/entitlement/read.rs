//! Features, offers and purchases, and the entitlements and usage of accounts.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::EntitlementChange;
use crate::entitlement::Entitlements;
use crate::entitlement::feature::Feature;
use crate::entitlement::offer::Offer;
use crate::entitlement::period::Period;
use crate::entitlement::plan_features::{FeaturesOf, PlanFeatures};
use crate::entitlement::purchase::Purchase;
use crate::entitlement::usage::{EventKey, Reservation, Usage, UsageEvent};
use crate::rows::Rows;
use crate::{AccountId, ReservationId, TenantNo};

/// A row of features, offers and what accounts may do that a command may look at: see [`Read`](crate::read::Read).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntitlementRead {
    Feature(TenantNo, String),
    /// The newest version of an offer.
    Offer(TenantNo, String),
    /// The newest version of an offer with its features, for an account: with the tags that it is for.
    OfferForAccount(TenantNo, String, AccountId),
    /// The free offer that newcomers get, with its features.
    NewcomersOffer(TenantNo),
    /// The newest version of the features of a plan or a product.
    PlanFeatures(TenantNo, FeaturesOf),
    /// The features of the plans of an account's subscriptions, and what the account has of them.
    OfSubscriptions(TenantNo, AccountId),
    /// The features of a plan, or of all plans of a product, of which one may be subscribed to.
    OfChosen(TenantNo, FeaturesOf),
    /// As `OfSubscriptions`, for an account one of whose invoices may be paid: where features wait for that.
    OfPaid(TenantNo, AccountId),
    /// How many features, offers and plans with features a tenant has.
    CatalogSize(TenantNo),
    Entitlements(TenantNo, AccountId),
    /// The users that are mapped to an account.
    Users(TenantNo, AccountId),
    /// The usage of an account.
    Usage(UsageRead),
}

/// A row of what an account used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageRead {
    /// The usage of a feature in its newest periods; at most [`PERIODS_MAX`](crate::entitlement::usage::PERIODS_MAX).
    Feature(TenantNo, AccountId, String),
    /// The usage in the periods in which something is reserved.
    Reserved(TenantNo, AccountId),
    /// An event that was counted.
    Event(TenantNo, AccountId, EventKey),
    /// A reservation; it comes with what its account used in its period.
    Reservation(TenantNo, AccountId, ReservationId),
}

#[derive(Clone, Debug, Default)]
pub struct EntitlementState {
    pub features: Rows<Feature>,
    /// The newest versions of offers.
    pub offers: Rows<Offer>,
    /// Accounts that are to buy offers: what the offers name is looked for.
    pub buyers: BTreeSet<(TenantNo, String, AccountId)>,
    /// The keys of the offers that newcomers get.
    pub newcomers_offers: BTreeMap<TenantNo, Option<String>>,
    pub catalog_sizes: BTreeMap<TenantNo, CatalogSize>,
    /// The newest versions of the features of plans and products.
    pub plan_features: Rows<PlanFeatures>,
    /// Whether tenants had features of plans when the batch began.
    pub featured: BTreeMap<TenantNo, Featured>,
    /// Accounts that have subscriptions, whose features are looked for.
    pub subscribers: BTreeSet<(TenantNo, AccountId)>,
    /// Plans and products of which one may be subscribed to.
    pub chosen: BTreeSet<(TenantNo, FeaturesOf)>,
    /// Accounts one of whose invoices may be paid.
    pub payers: BTreeSet<(TenantNo, AccountId)>,
    /// The purchases of the payments that are loaded.
    pub purchases: Rows<Purchase>,
    pub entitlements: Rows<Entitlements>,
    /// The keys of the users that are mapped to accounts.
    pub account_users: BTreeMap<(TenantNo, AccountId), BTreeSet<String>>,
    pub usage: UsageState,
}

#[derive(Clone, Debug, Default)]
pub struct UsageState {
    /// The usage of features by accounts, by the keys of features.
    pub counts: BTreeMap<(TenantNo, AccountId, String), BTreeMap<Period, Usage>>,
    /// Accounts all of whose counts with reservations are in `counts`.
    pub reserved: BTreeSet<(TenantNo, AccountId)>,
    pub events: Rows<UsageEvent>,
    pub reservations: Rows<Reservation>,
}

/// The number of features, offers and plans with features of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatalogSize {
    pub features: u32,
    pub offers: u32,
    /// Plans and products.
    pub featured: u32,
}

/// Whether a tenant has features of plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Featured {
    pub any: bool,
    /// Whether some of them wait for a payment.
    pub on_payment: bool,
}

impl EntitlementState {
    pub(crate) fn look_for(&mut self, read: &EntitlementRead) {
        match read {
            EntitlementRead::Feature(no, key) => self.features.look_for((*no, key.clone())),
            EntitlementRead::Offer(no, key) => self.offers.look_for((*no, key.clone())),
            EntitlementRead::OfferForAccount(no, key, account) => {
                self.offers.look_for((*no, key.clone()));
                self.buyers.insert((*no, key.clone(), *account));
            }
            EntitlementRead::NewcomersOffer(no) => {
                self.newcomers_offers.entry(*no).or_default();
            }
            EntitlementRead::PlanFeatures(no, of) => {
                self.plan_features.look_for((*no, of.clone()));
            }
            EntitlementRead::OfSubscriptions(no, account) => {
                self.featured.entry(*no).or_default();
                self.subscribers.insert((*no, *account));
            }
            EntitlementRead::OfChosen(no, of) => drop(self.chosen.insert((*no, of.clone()))),
            EntitlementRead::OfPaid(no, account) => {
                self.featured.entry(*no).or_default();
                self.payers.insert((*no, *account));
            }
            EntitlementRead::CatalogSize(no) => drop(self.catalog_sizes.entry(*no).or_default()),
            EntitlementRead::Entitlements(no, id) => self.entitlements.look_for((*no, *id)),
            EntitlementRead::Users(no, id) => {
                self.account_users.entry((*no, *id)).or_default();
            }
            EntitlementRead::Usage(read) => self.usage.look_for(read),
        }
    }

    pub(crate) fn apply(&mut self, change: &EntitlementChange) {
        match change {
            EntitlementChange::Feature(it) => {
                if self.features.put(it.clone()).is_none() {
                    self.catalog_sizes.entry(it.tenant).or_default().features += 1;
                }
            }
            EntitlementChange::Offer(it) => self.apply_offer(it),
            EntitlementChange::PlanFeatures(it) => {
                if self.plan_features.put((**it).clone()).is_none() {
                    self.catalog_sizes.entry(it.tenant).or_default().featured += 1;
                }
            }
            EntitlementChange::Purchase(it) => drop(self.purchases.put((**it).clone())),
            EntitlementChange::Entitlements(it) => drop(self.entitlements.put((**it).clone())),
            EntitlementChange::Users(it) => {
                let known = self.account_users.entry((it.tenant, it.account)).or_default();
                for user in &it.unmapped {
                    known.remove(user);
                }
                known.extend(it.mapped.iter().cloned());
            }
            EntitlementChange::Usage(it) => {
                let key = (it.tenant, it.account_id, it.feature.clone());
                self.usage.counts.entry(key).or_default().insert(it.period, (**it).clone());
            }
            EntitlementChange::UsageEvent(it) => drop(self.usage.events.put((**it).clone())),
            EntitlementChange::Reservation(it) => {
                self.usage.reservations.put((**it).clone());
            }
        }
    }

    fn apply_offer(&mut self, offer: &Offer) {
        if offer.version == 1 {
            self.catalog_sizes.entry(offer.tenant).or_default().offers += 1;
        }
        let newcomers = self.newcomers_offers.entry(offer.tenant).or_default();
        if offer.terms.for_newcomers {
            *newcomers = Some(offer.key.clone());
        } else if newcomers.as_ref() == Some(&offer.key) {
            *newcomers = None;
        }
        self.offers.put(offer.clone());
    }
}

impl UsageState {
    fn look_for(&mut self, read: &UsageRead) {
        match read {
            UsageRead::Feature(no, id, feature) => {
                self.counts.entry((*no, *id, feature.clone())).or_default();
            }
            UsageRead::Reserved(no, id) => drop(self.reserved.insert((*no, *id))),
            UsageRead::Event(no, id, key) => self.events.look_for((*no, *id, *key)),
            UsageRead::Reservation(no, account, id) => {
                self.reservations.look_for((*no, *account, *id));
            }
        }
    }
}
