//! Loads what is sold, what was bought, and what accounts may do.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use domain::account::tag::TagKey;
use domain::object::Object;
use domain::read::{AccountRow, EntitlementRead};
use domain::state::{CatalogSize, State};
use domain::{AccountId, PurchaseId, TenantNo};
use engine::ports::StoreError;

use super::usage::UsagePlan;
use super::{split, values};
use crate::driver::Reader;
use crate::recent::Recent;
use crate::tables::{ACCOUNT_USER, ENTITLEMENTS, FEATURE, OFFER, PURCHASE, account_user};

/// A feature or an offer by its key.
pub(crate) const BY_KEY: &str = "WHERE tenant = ?1 AND key = ?2";

static SELECT_OFFER: LazyLock<String> = LazyLock::new(|| OFFER.select(BY_KEY));
static SELECT_FOR_NEWCOMERS: LazyLock<String> =
    LazyLock::new(|| OFFER.select("WHERE tenant = ?1 AND for_newcomers = 1"));
static SELECT_ENTITLEMENTS: LazyLock<String> =
    LazyLock::new(|| ENTITLEMENTS.select("WHERE tenant = ?1 AND account_id = ?2"));
static SELECT_USERS: LazyLock<String> =
    LazyLock::new(|| ACCOUNT_USER.select("WHERE tenant = ?1 AND account_id = ?2"));

/// The keys of features, offers, purchases, entitlements and usage that a batch loads.
#[derive(Default)]
pub(super) struct EntitlementPlan {
    features: BTreeSet<(TenantNo, String)>,
    offers: BTreeSet<(TenantNo, String)>,
    /// Offers that accounts are to buy: what the offer gives is wanted, and the tags that it is for.
    bought: Vec<(TenantNo, String, AccountId)>,
    newcomers: BTreeSet<TenantNo>,
    sizes: BTreeSet<TenantNo>,
    pub(super) purchases: BTreeSet<(TenantNo, PurchaseId)>,
    pub(super) accounts: BTreeSet<(TenantNo, AccountId)>,
    /// Accounts whose users are wanted.
    users: Vec<(TenantNo, AccountId)>,
    usage: UsagePlan,
}

impl EntitlementPlan {
    pub(super) fn add(&mut self, read: &EntitlementRead) {
        match read {
            EntitlementRead::Feature(no, key) => drop(self.features.insert((*no, key.clone()))),
            EntitlementRead::Offer(no, key) => drop(self.offers.insert((*no, key.clone()))),
            EntitlementRead::OfferForAccount(no, key, account) => {
                self.offers.insert((*no, key.clone()));
                self.bought.push((*no, key.clone(), *account));
            }
            EntitlementRead::NewcomersOffer(no) => drop(self.newcomers.insert(*no)),
            EntitlementRead::CatalogSize(no) => drop(self.sizes.insert(*no)),
            EntitlementRead::Entitlements(no, id) => drop(self.accounts.insert((*no, *id))),
            EntitlementRead::Users(no, id) => self.users.push((*no, *id)),
            EntitlementRead::Usage(read) => self.usage.add(read),
        }
    }

    /// Loads the offers, which say what else is looked at: features, and the tags of accounts.
    pub(super) fn load_offers(
        &mut self,
        reader: &Reader,
        rows: &mut Vec<AccountRow>,
        state: &mut State,
    ) -> Result<(), StoreError> {
        for &tenant in &self.newcomers {
            let found = reader
                .query_one(&SELECT_FOR_NEWCOMERS, &[tenant.into()], |cells| OFFER.row(cells))?;
            state
                .entitlement
                .newcomers_offers
                .insert(tenant, found.as_ref().map(|it| it.key.clone()));
            if let Some(offer) = found {
                let features = offer.terms.features.keys();
                self.features.extend(features.map(|key| (tenant, key.clone())));
                state.entitlement.offers.put(offer);
            }
        }
        for (tenant, key) in &self.offers {
            let by_key = [(*tenant).into(), key.into()];
            let found = reader.query_one(&SELECT_OFFER, &by_key, |cells| OFFER.row(cells))?;
            state.entitlement.offers.set((*tenant, key.clone()), found);
        }
        for (tenant, key, account) in &self.bought {
            let offer = state.entitlement.offers.find(&(*tenant, key.clone()));
            let Some(offer) = offer else { continue };
            let features = offer.terms.features.keys();
            self.features.extend(features.map(|key| (*tenant, key.clone())));
            let key = |definition| TagKey::new(*account, Object::Account(*account), definition);
            let tags = offer.terms.buyers.tags.iter();
            rows.extend(tags.map(|it| AccountRow::Tag(*tenant, key(*it))));
        }
        Ok(())
    }

    /// Loads what the offers do not say.
    pub(super) fn load(
        self,
        reader: &Reader,
        state: &mut State,
        recent: &mut Recent,
    ) -> Result<(), StoreError> {
        FEATURE.load(reader, self.features, &mut state.entitlement.features)?;
        for &tenant in &self.sizes {
            let size = CatalogSize {
                features: count(reader, FEATURE.name, tenant)?,
                offers: count(reader, OFFER.name, tenant)?,
            };
            state.entitlement.catalog_sizes.insert(tenant, size);
        }
        PURCHASE.load(reader, self.purchases, &mut state.entitlement.purchases)?;
        load_entitlements(reader, &self.accounts, state, recent)?;
        state
            .entitlement
            .account_users
            .extend(self.users.iter().map(|key| (*key, BTreeSet::new())));
        reader.for_keys(&SELECT_USERS, &values(&self.users), |_, cells| {
            let (tenant, account, user) = account_user(cells)?;
            state.entitlement.account_users.entry((tenant, account)).or_default().insert(user);
            Ok(())
        })?;
        self.usage.load(reader, state)
    }
}

fn load_entitlements(
    reader: &Reader,
    keys: &BTreeSet<(TenantNo, AccountId)>,
    state: &mut State,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let (mut found, unknown) = split(keys, &mut recent.entitlements);
    reader.for_keys(&SELECT_ENTITLEMENTS, &values(&unknown), |at, cells| {
        let it = ENTITLEMENTS.row(cells)?;
        recent.entitlements_read(&it);
        found.insert(unknown[at], it);
        Ok(())
    })?;
    for &key in keys {
        state.entitlement.entitlements.set(key, found.remove(&key));
    }
    Ok(())
}

fn count(reader: &Reader, table: &str, tenant: TenantNo) -> Result<u32, StoreError> {
    let sql = format!("SELECT count(*) FROM {table} WHERE tenant = ?1");
    let count = reader.query_one(&sql, &[tenant.into()], |cells| cells.count())?;
    Ok(count.unwrap_or_default())
}
