//! Loads what is sold, what was bought, and what accounts may do.

use std::sync::LazyLock;

use domain::entitlement::Entitlements;
use domain::rows::Rows;
use domain::state::{EntitlementState, Featured, State};
use domain::{AccountId, TenantNo};
use engine::ports::StoreError;

use super::{split, usage, values};
use crate::driver::Reader;
use crate::recent::Recent;
use crate::tables::{
    ACCOUNT_USER, ENTITLEMENTS, FEATURE, INVOICE, OFFER, PLAN_FEATURES, PURCHASE, account_user,
};

static SELECT_FOR_NEWCOMERS: LazyLock<String> =
    LazyLock::new(|| OFFER.select("WHERE tenant = ?1 AND for_newcomers = 1"));
static SELECT_ENTITLEMENTS: LazyLock<String> =
    LazyLock::new(|| ENTITLEMENTS.select("WHERE tenant = ?1 AND account_id = ?2"));
static SELECT_USERS: LazyLock<String> =
    LazyLock::new(|| ACCOUNT_USER.select("WHERE tenant = ?1 AND account_id = ?2"));

/// Loads the offers, which say what else is looked at.
pub(super) fn load_offers(reader: &Reader, state: &mut State) -> Result<(), StoreError> {
    let EntitlementState { offers, newcomers_offers, .. } = &mut state.entitlement;
    OFFER.load(reader, offers)?;
    for (tenant, key) in newcomers_offers {
        let tenant = [(*tenant).into()];
        let found = reader.query_one(&SELECT_FOR_NEWCOMERS, &tenant, |cells| OFFER.row(cells))?;
        *key = found.as_ref().map(|it| it.key.clone());
        found.into_iter().for_each(|offer| drop(offers.put(offer)));
    }
    state.look_for_by_offers();
    Ok(())
}

const ANY_FEATURED: &str = "SELECT 1 FROM plan_features WHERE tenant = ?1 LIMIT 1";
const ANY_ON_PAYMENT: &str =
    "SELECT 1 FROM plan_features WHERE tenant = ?1 AND on_payment = 1 LIMIT 1";

/// Loads whether tenants have features of plans, which says what else is looked at where an invoice is paid.
pub(super) fn load_featured(reader: &Reader, state: &mut State) -> Result<(), StoreError> {
    for (&tenant, featured) in &mut state.entitlement.featured {
        let has = |sql: &str| {
            let found = reader.query_one(sql, &[tenant.into()], |cells| cells.int())?;
            Ok::<_, StoreError>(found.is_some())
        };
        let any = has(ANY_FEATURED)?;
        *featured = Featured { any, on_payment: any && has(ANY_ON_PAYMENT)? };
    }
    state.look_for_of_paid();
    Ok(())
}

/// Loads the features of plans that are subscribed to, which say what else is looked at.
pub(super) fn load_of_plans(reader: &Reader, state: &mut State) -> Result<(), StoreError> {
    state.look_for_of_subscriptions();
    INVOICE.load(reader, &mut state.billing.invoices)?;
    PLAN_FEATURES.load(reader, &mut state.entitlement.plan_features)?;
    state.look_for_of_plans();
    Ok(())
}

/// Loads what offers and plans do not say.
pub(super) fn load(
    reader: &Reader,
    loaded: &mut EntitlementState,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    FEATURE.load(reader, &mut loaded.features)?;
    for (&tenant, size) in &mut loaded.catalog_sizes {
        size.features = count(reader, FEATURE.name, tenant)?;
        size.offers = count(reader, OFFER.name, tenant)?;
        size.featured = count(reader, PLAN_FEATURES.name, tenant)?;
    }
    PURCHASE.load(reader, &mut loaded.purchases)?;
    load_entitlements(reader, &mut loaded.entitlements, recent)?;
    let users: Vec<(TenantNo, AccountId)> = loaded.account_users.keys().copied().collect();
    reader.for_keys(&SELECT_USERS, &values(&users), |_, cells| {
        let (tenant, account, user) = account_user(cells)?;
        loaded.account_users.entry((tenant, account)).or_default().insert(user);
        Ok(())
    })?;
    usage::load(reader, &mut loaded.usage)
}

fn load_entitlements(
    reader: &Reader,
    loaded: &mut Rows<Entitlements>,
    recent: &mut Recent,
) -> Result<(), StoreError> {
    let keys: Vec<(TenantNo, AccountId)> = loaded.absent().copied().collect();
    let (found, unknown) = split(&keys, &mut recent.entitlements);
    found.into_values().for_each(|it| drop(loaded.put(it)));
    reader.for_keys(&SELECT_ENTITLEMENTS, &values(&unknown), |_, cells| {
        let it = ENTITLEMENTS.row(cells)?;
        recent.entitlements_read(&it);
        loaded.put(it);
        Ok(())
    })
}

fn count(reader: &Reader, table: &str, tenant: TenantNo) -> Result<u32, StoreError> {
    let sql = format!("SELECT count(*) FROM {table} WHERE tenant = ?1");
    let count = reader.query_one(&sql, &[tenant.into()], |cells| cells.count())?;
    Ok(count.unwrap_or_default())
}
