//! Entitlements: what an account may do, from all that was granted to it.
//!
//! All grants of an account are one row, so that it has one version, and its state at a version is one state.

pub mod account_user;
pub(crate) mod change;
pub(crate) mod command;
pub mod feature;
pub mod level;
mod lookup;
pub mod offer;
pub mod period;
pub mod plan_features;
pub mod purchase;
pub(crate) mod read;
pub(crate) mod rules;
pub mod usage;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalog::PhaseType;
use crate::entitlement::feature::{Combine, FeatureTerms, FeatureValue, LIMIT_MAX};
use crate::entitlement::plan_features::PlanOrProduct;
use crate::entity::{Entity, Facts};
use crate::rows::Keyed;
use crate::{
    AccountId, GrantId, PaymentId, PurchaseId, Revision, SubscriptionId, TenantNo, Timestamp,
};

/// How many grants an account has at most.
pub const GRANTS_MAX: usize = 1_000;

/// How many grants that are over are kept at most, and purchases of an offer, while the clock is ahead of real time.
pub const ENDED_MAX: usize = 100;

/// How many features an event lists at most.
pub const LISTED_MAX: usize = 100;

/// How many purchases of one offer an account has at most that are pending or paid and not over.
pub const LIVE_PURCHASES_MAX: usize = 100;

/// How many offers an account buys at most in all its time.
pub const OFFERS_BOUGHT_MAX: usize = 1_000;

/// The grants of an account, and its purchases by offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entitlements {
    pub tenant: TenantNo,
    pub account_id: AccountId,
    /// Counts the changes of `grants` and of the account's users, without gaps; 0 before the first.
    pub version: i64,
    /// Oldest first. Those that are over count no more. They stay until their timer has fired, and as long as the clock
    /// is so far ahead of real time that it may be set back to before their ends.
    pub grants: Vec<Grant>,
    /// By the keys of offers.
    pub bought: BTreeMap<String, Bought>,
    /// When `grants` or the users changed last.
    pub changed_at: Timestamp,
    /// When its timer is due.
    pub due: Option<Timestamp>,
    /// Counts the changes of the users that are mapped to the account: see [`crate::entitlement::account_user`].
    #[serde(default)]
    pub users_version: i64,
    pub revision: Revision,
}

impl Keyed for Entitlements {
    type Key = (TenantNo, AccountId);

    fn key(&self) -> Self::Key {
        (self.tenant, self.account_id)
    }
}

impl Entity for Entitlements {
    fn name(&self) -> String {
        format!("entitlements of account {}", self.account_id)
    }

    fn facts(&self) -> Facts {
        Facts::nameless(self.revision).of(self.account_id)
    }

    fn revision_mut(&mut self) -> &mut Revision {
        &mut self.revision
    }
}

/// A feature that an account has for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    /// The feature's key.
    pub feature: String,
    pub value: FeatureValue,
    /// The feature's terms when it was granted.
    pub terms: FeatureTerms,
    pub source: GrantSource,
    pub from: Timestamp,
    /// `None`: for ever.
    pub until: Option<Timestamp>,
}

/// A grant and its feature, as events name them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedFeature {
    pub grant: GrantId,
    /// The feature's key.
    pub feature: String,
}

/// A feature that an account has, with its value and its end, as events list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntitledFeature {
    /// The feature's key.
    pub feature: String,
    pub value: FeatureValue,
    /// Until when; `None`: for ever.
    pub until: Option<Timestamp>,
}

/// Why an account has a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrantSource {
    /// It bought an offer.
    Offer {
        offer: String,
        version: i64,
        purchase: PurchaseId,
        /// `None` where it was free.
        payment: Option<PaymentId>,
        is_trial: bool,
    },
    /// It has a subscription, whose plan or product gives it.
    Subscription {
        subscription: SubscriptionId,
        /// As the catalog names it.
        plan: String,
        /// The phase of the plan.
        phase: PhaseType,
        /// Whose features name it.
        given_by: PlanOrProduct,
        /// The version of these.
        version: i64,
    },
    /// An operator granted it.
    Manual {
        /// A code, such as `goodwill`; see [`crate::entitlement::feature::check_key`].
        reason: String,
    },
}

/// An account's purchases of an offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bought {
    /// Purchases by which it had the offer, also over ones, whose money did not go back: all of an offer that is sold
    /// once, one of another.
    pub paid: Vec<PurchaseId>,
    /// Those that are pending, or paid and not over, oldest first. See [`Entitlements::grants`] for those that are over.
    pub live: Vec<LivePurchase>,
}

/// A purchase that is pending, or paid and not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePurchase {
    pub id: PurchaseId,
    /// `None` as long as it is pending.
    pub term: Option<Term>,
}

/// A time in which something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    pub from: Timestamp,
    /// `None`: for ever.
    pub until: Option<Timestamp>,
}

/// A feature that an account has at a time: all its grants combined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entitled<'a> {
    pub value: FeatureValue,
    pub terms: &'a FeatureTerms,
    /// Until when it has the feature without a break, as far as is known; `None`: for ever.
    pub until: Option<Timestamp>,
    /// The grants that are combined, oldest first.
    pub grants: Vec<&'a Grant>,
}

/// Grants a feature to an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantFeature {
    pub account: AccountId,
    /// The feature's key.
    pub feature: String,
    pub value: FeatureValue,
    /// `None`: from now on.
    pub from: Option<Timestamp>,
    /// `None`: for ever.
    pub until: Option<Timestamp>,
    /// See [`GrantSource::Manual`].
    pub reason: String,
}

/// Takes back what was granted by [`GrantFeature`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeGrant {
    pub account: AccountId,
    pub grant: GrantId,
}

/// The timer of an account's entitlements is due: something of it is over, or begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinueEntitlements {
    pub account: AccountId,
    /// When the timer was due.
    pub due: Timestamp,
}

impl Term {
    #[must_use]
    pub fn is_over(&self, at: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= at)
    }
}

impl Grant {
    #[must_use]
    pub const fn term(&self) -> Term {
        Term { from: self.from, until: self.until }
    }

    /// Whether it counts at a time, whether or not a timer has fired.
    #[must_use]
    pub fn holds(&self, at: Timestamp) -> bool {
        self.from <= at && !self.term().is_over(at)
    }

    /// The purchase that it comes from.
    #[must_use]
    pub const fn purchase(&self) -> Option<PurchaseId> {
        match &self.source {
            GrantSource::Offer { purchase, .. } => Some(*purchase),
            GrantSource::Subscription { .. } | GrantSource::Manual { .. } => None,
        }
    }

    /// The subscription that it comes from.
    #[must_use]
    pub const fn subscription(&self) -> Option<SubscriptionId> {
        match &self.source {
            GrantSource::Subscription { subscription, .. } => Some(*subscription),
            GrantSource::Offer { .. } | GrantSource::Manual { .. } => None,
        }
    }
}

impl Entitlements {
    /// Those of an account that was granted nothing yet.
    #[must_use]
    pub const fn none_of(tenant: TenantNo, account_id: AccountId, revision: Revision) -> Self {
        Self {
            tenant,
            account_id,
            version: 0,
            grants: Vec::new(),
            bought: BTreeMap::new(),
            changed_at: Timestamp(0),
            due: None,
            users_version: 0,
            revision,
        }
    }

    /// How many grants hold at a time, or begin later.
    #[must_use]
    pub fn grants_at(&self, at: Timestamp) -> usize {
        self.grants.iter().filter(|it| !it.term().is_over(at)).count()
    }

    /// The features that the account has at a time, by their keys.
    #[must_use]
    pub fn at(&self, at: Timestamp) -> BTreeMap<&str, Entitled<'_>> {
        let mut by_feature: BTreeMap<&str, Vec<&Grant>> = BTreeMap::new();
        for grant in self.grants.iter().filter(|it| it.holds(at)) {
            by_feature.entry(&grant.feature).or_default().push(grant);
        }
        let entitled = |(key, grants)| (key, self.entitled(key, grants));
        by_feature.into_iter().map(entitled).collect()
    }

    /// The feature that the account has under a key at a time; `None` where no grant of it holds.
    #[must_use]
    pub fn feature_at(&self, key: &str, at: Timestamp) -> Option<Entitled<'_>> {
        let holds = |it: &&Grant| it.feature == key && it.holds(at);
        let grants: Vec<&Grant> = self.grants.iter().filter(holds).collect();
        (!grants.is_empty()).then(|| self.entitled(key, grants))
    }

    /// Several grants of a feature as one, by the rule of the one that was granted last.
    fn entitled<'a>(&'a self, key: &str, grants: Vec<&'a Grant>) -> Entitled<'a> {
        let latest = *grants.last().expect("a feature is listed for a grant of it");
        let limits = || {
            grants.iter().filter_map(|it| match it.value {
                FeatureValue::Limit(limit) => Some(limit),
                FeatureValue::On
                | FeatureValue::Boolean(_)
                | FeatureValue::Number(_)
                | FeatureValue::String(_)
                | FeatureValue::Json(_) => None,
            })
        };
        let value = match (&latest.value, latest.terms.combine) {
            (FeatureValue::Limit(_), Combine::Largest) => {
                FeatureValue::Limit(limits().max().unwrap_or_default())
            }
            (FeatureValue::Limit(_), Combine::Sum) => {
                FeatureValue::Limit(limits().fold(0, i64::saturating_add).min(LIMIT_MAX))
            }
            (value, Combine::Largest | Combine::Sum | Combine::Latest) => value.clone(),
        };
        Entitled { value, terms: &latest.terms, until: self.lasts(key, &grants), grants }
    }

    /// Until when grants hold without a break, with those that are to come.
    fn lasts(&self, key: &str, grants: &[&Grant]) -> Option<Timestamp> {
        let mut until = Timestamp(i64::MIN);
        for grant in grants {
            until = until.max(grant.until?);
        }
        let mut coming: Vec<&Grant> =
            self.grants.iter().filter(|it| it.feature == key && it.from > grants[0].from).collect();
        coming.sort_by_key(|it| it.from);
        for grant in coming.into_iter().filter(|it| !it.term().is_over(it.from)) {
            if grant.from <= until {
                until = until.max(grant.until?);
            }
        }
        Some(until)
    }

    /// When what the account has of a feature changes next, by the keys of features; without those that stay as they
    /// are.
    #[must_use]
    pub fn next_changes(&self, after: Timestamp) -> BTreeMap<&str, Timestamp> {
        let mut next: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for grant in &self.grants {
            let changes = [Some(grant.from), grant.until].into_iter().flatten();
            for at in changes.filter(|at| *at > after) {
                next.entry(&grant.feature).and_modify(|it| *it = at.min(*it)).or_insert(at);
            }
        }
        next
    }

    /// When something begins or is over next; `None` where nothing does any more.
    #[must_use]
    pub fn next_due(&self, after: Timestamp) -> Option<Timestamp> {
        let of_grants = self.grants.iter().flat_map(|it| [Some(it.from), it.until]);
        let live = self.bought.values().flat_map(|it| &it.live);
        let of_purchases = live.filter_map(|it| it.term).map(|it| it.until);
        of_grants.chain(of_purchases).flatten().filter(|it| *it > after).min()
    }
}

impl Bought {
    /// The purchase that is pending.
    #[must_use]
    pub fn pending(&self) -> Option<PurchaseId> {
        self.live.iter().find(|it| it.term.is_none()).map(|it| it.id)
    }

    /// The paid purchases that are not over at a time, but for one.
    pub fn held(
        &self,
        at: Timestamp,
        but: Option<PurchaseId>,
    ) -> impl Iterator<Item = (PurchaseId, Term)> {
        let terms = self.live.iter().filter_map(|it| Some((it.id, it.term?)));
        terms.filter(move |(id, term)| Some(*id) != but && !term.is_over(at))
    }
}
