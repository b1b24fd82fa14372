//! Loads what is sold, what was bought, and what accounts may do.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use domain::object::Object;
use domain::state::{CatalogSize, State};
use domain::tag::TagKey;
use domain::{AccountId, PurchaseId, TenantNo};
use engine::ports::StoreError;

use super::usage::UsagePlan;
use super::values;
use crate::driver::Reader;
use crate::rows;
use crate::stored;
use crate::tables::{ACCOUNT_USER, FEATURE, OFFER};

/// A feature or an offer by its key.
pub(crate) const BY_KEY: &str = "WHERE tenant = ?1 AND key = ?2";

static SELECT_OFFER: LazyLock<String> = LazyLock::new(|| OFFER.select(BY_KEY));
static SELECT_FOR_NEWCOMERS: LazyLock<String> =
    LazyLock::new(|| OFFER.select("WHERE tenant = ?1 AND for_newcomers = 1"));
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
    pub(super) users: Vec<(TenantNo, AccountId)>,
    pub(super) usage: UsagePlan,
}

impl EntitlementPlan {
    pub(super) fn add_feature(&mut self, tenant: TenantNo, key: &str) {
        self.features.insert((tenant, key.to_owned()));
    }

    pub(super) fn add_offer(&mut self, tenant: TenantNo, key: &str) {
        self.offers.insert((tenant, key.to_owned()));
    }

    pub(super) fn add_bought(&mut self, tenant: TenantNo, key: &str, account: AccountId) {
        self.add_offer(tenant, key);
        self.bought.push((tenant, key.to_owned(), account));
    }

    pub(super) fn add_newcomers(&mut self, tenant: TenantNo) {
        self.newcomers.insert(tenant);
    }

    pub(super) fn add_size(&mut self, tenant: TenantNo) {
        self.sizes.insert(tenant);
    }

    /// Loads the offers, which say what else is looked at: features, and the tags of accounts.
    pub(super) fn load_offers(
        &mut self,
        reader: &Reader,
        tags: &mut Vec<(TenantNo, TagKey)>,
        state: &mut State,
    ) -> Result<(), StoreError> {
        for &tenant in &self.newcomers {
            let found = reader.query_one(&SELECT_FOR_NEWCOMERS, &[tenant.into()], rows::offer)?;
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
            let found = reader.query_one(&SELECT_OFFER, &by_key, rows::offer)?;
            state.entitlement.offers.set((*tenant, key.clone()), found);
        }
        for (tenant, key, account) in &self.bought {
            let offer = state.entitlement.offers.find(&(*tenant, key.clone()));
            let Some(offer) = offer else { continue };
            let features = offer.terms.features.keys();
            self.features.extend(features.map(|key| (*tenant, key.clone())));
            let key = |definition| TagKey::new(*account, Object::Account(*account), definition);
            tags.extend(offer.terms.buyers.tags.iter().map(|it| (*tenant, key(*it))));
        }
        Ok(())
    }

    /// Loads what the offers do not say.
    pub(super) fn load(self, reader: &Reader, state: &mut State) -> Result<(), StoreError> {
        stored::FEATURES.load(reader, self.features, &mut state.entitlement.features)?;
        for &tenant in &self.sizes {
            let size = CatalogSize {
                features: count(reader, FEATURE.name, tenant)?,
                offers: count(reader, OFFER.name, tenant)?,
            };
            state.entitlement.catalog_sizes.insert(tenant, size);
        }
        stored::PURCHASES.load(reader, self.purchases, &mut state.entitlement.purchases)?;
        stored::ENTITLEMENTS.load(reader, self.accounts, &mut state.entitlement.entitlements)?;
        state
            .entitlement
            .account_users
            .extend(self.users.iter().map(|key| (*key, BTreeSet::new())));
        reader.for_keys(&SELECT_USERS, &values(&self.users), |_, cells| {
            let (tenant, account, user) = rows::account_user(cells)?;
            state.entitlement.account_users.entry((tenant, account)).or_default().insert(user);
            Ok(())
        })?;
        self.usage.load(reader, state)
    }
}

fn count(reader: &Reader, table: &str, tenant: TenantNo) -> Result<u32, StoreError> {
    let sql = format!("SELECT count(*) FROM {table} WHERE tenant = ?1");
    let count = reader.query_one(&sql, &[tenant.into()], |cells| cells.count())?;
    Ok(count.unwrap_or_default())
}
