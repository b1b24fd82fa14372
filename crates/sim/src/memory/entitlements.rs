//! Features, offers, purchases and what accounts may do, in memory.

use std::collections::{BTreeMap, BTreeSet};

use domain::change::EntitlementChange;
use domain::entitlement::Entitlements;
use domain::feature::Feature;
use domain::object::Object;
use domain::offer::Offer;
use domain::purchase::Purchase;
use domain::state::{CatalogSize, State};
use domain::tag::TagKey;
use domain::{AccountId, PurchaseId, TenantNo};
use uuid::Uuid;

use super::usage::UsageTables;
use super::{MemoryDisk, copy, tabled};

impl MemoryDisk {
    /// All purchases.
    #[must_use]
    pub fn purchases(&self) -> Vec<Purchase> {
        self.tables().entitlements.purchases().cloned().collect()
    }

    /// What was granted to accounts.
    #[must_use]
    pub fn entitlements(&self) -> Vec<Entitlements> {
        self.tables().entitlements.granted().cloned().collect()
    }

    /// The users that are mapped to accounts, by their keys; each account that has one.
    #[must_use]
    pub fn account_users(&self) -> BTreeMap<String, Vec<AccountId>> {
        let mut users: BTreeMap<String, Vec<AccountId>> = BTreeMap::new();
        for ((_, account), keys) in &self.tables().entitlements.users {
            keys.iter().for_each(|key| users.entry(key.clone()).or_default().push(*account));
        }
        users
    }
}

/// The tables of what is sold and bought.
#[derive(Clone, Debug, Default)]
pub(super) struct EntitlementTables {
    features: BTreeMap<(TenantNo, String), Feature>,
    /// The newest versions.
    offers: BTreeMap<(TenantNo, String), Offer>,
    purchases: BTreeMap<(TenantNo, PurchaseId), Purchase>,
    entitlements: BTreeMap<(TenantNo, AccountId), Entitlements>,
    users: BTreeMap<(TenantNo, AccountId), BTreeSet<String>>,
    pub(super) usage: UsageTables,
}

impl EntitlementTables {
    pub(super) fn purchases(&self) -> impl Iterator<Item = &Purchase> {
        self.purchases.values()
    }

    pub(super) fn granted(&self) -> impl Iterator<Item = &Entitlements> {
        self.entitlements.values()
    }

    pub(super) fn change(&mut self, change: EntitlementChange) {
        match change {
            EntitlementChange::Feature(mut it) => {
                tabled(&mut it.revision);
                self.features.insert((it.tenant, it.key.clone()), it);
            }
            EntitlementChange::Offer(mut it) => {
                tabled(&mut it.revision);
                self.offers.insert((it.tenant, it.key.clone()), it);
            }
            EntitlementChange::Purchase(mut it) => {
                tabled(&mut it.revision);
                self.purchases.insert((it.tenant, it.id), *it);
            }
            EntitlementChange::Entitlements(mut it) => {
                tabled(&mut it.revision);
                self.entitlements.insert((it.tenant, it.account_id), *it);
            }
            EntitlementChange::Users(it) => {
                let users = self.users.entry((it.tenant, it.account)).or_default();
                for user in &it.unmapped {
                    users.remove(user);
                }
                users.extend(it.mapped);
            }
            EntitlementChange::Usage(it) => self.usage.change(*it),
            EntitlementChange::UsageEvent(it) => self.usage.add_event(*it),
            EntitlementChange::Reservation(it) => self.usage.change_reservation(*it),
        }
    }

    /// Of a purchase: its table, its id, and whether it is there.
    pub(super) fn made_by_request(
        &self,
        change: &EntitlementChange,
    ) -> Option<(&'static str, Uuid, bool)> {
        match change {
            EntitlementChange::Purchase(it) => {
                let is_there = self.purchases.contains_key(&(it.tenant, it.id));
                Some(("purchase", it.id.uuid(), is_there))
            }
            EntitlementChange::Reservation(it) => self.usage.made_by_request(it),
            EntitlementChange::Feature(_)
            | EntitlementChange::Offer(_)
            | EntitlementChange::Entitlements(_)
            | EntitlementChange::Users(_)
            | EntitlementChange::Usage(_)
            | EntitlementChange::UsageEvent(_) => None,
        }
    }

    pub(super) fn read_feature(&self, tenant: TenantNo, key: &str, state: &mut State) {
        copy((tenant, key.to_owned()), &self.features, &mut state.features);
    }

    pub(super) fn read_offer(&self, tenant: TenantNo, key: &str, state: &mut State) {
        copy((tenant, key.to_owned()), &self.offers, &mut state.offers);
    }

    /// An offer with its features; the tags of the account that it is for.
    pub(super) fn read_for_account(
        &self,
        tenant: TenantNo,
        key: &str,
        account: AccountId,
        state: &mut State,
    ) -> Vec<TagKey> {
        self.read_offer(tenant, key, state);
        let Some(offer) = self.offers.get(&(tenant, key.to_owned())) else { return vec![] };
        for feature in offer.terms.features.keys() {
            self.read_feature(tenant, feature, state);
        }
        let tags = offer.terms.buyers.tags.iter();
        tags.map(|it| TagKey::new(account, Object::Account(account), *it)).collect()
    }

    pub(super) fn read_newcomers(&self, tenant: TenantNo, state: &mut State) {
        let mut own = self.offers.values().filter(|it| it.tenant == tenant);
        let found = own.find(|it| it.terms.for_newcomers);
        state.newcomers_offers.insert(tenant, found.map(|it| it.key.clone()));
        let Some(offer) = found else { return };
        self.read_offer(tenant, &offer.key, state);
        for feature in offer.terms.features.keys() {
            self.read_feature(tenant, feature, state);
        }
    }

    pub(super) fn read_size(&self, tenant: TenantNo, state: &mut State) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let size = CatalogSize {
            features: count(self.features.keys().filter(|it| it.0 == tenant).count()),
            offers: count(self.offers.keys().filter(|it| it.0 == tenant).count()),
        };
        state.catalog_sizes.insert(tenant, size);
    }

    pub(super) fn read_purchase(&self, key: (TenantNo, PurchaseId), state: &mut State) {
        state.purchases.extend(self.purchases.get(&key).map(|it| (key, it.clone())));
    }

    pub(super) fn read(&self, key: (TenantNo, AccountId), state: &mut State) {
        copy(key, &self.entitlements, &mut state.entitlements);
    }

    pub(super) fn read_users(&self, key: (TenantNo, AccountId), state: &mut State) {
        state.account_users.insert(key, self.users.get(&key).cloned().unwrap_or_default());
    }
}
