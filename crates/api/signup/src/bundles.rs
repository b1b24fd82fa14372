//! The bundles of a billing account in Kill Bill's format, without events, prices and audit.

use std::sync::Arc;

use domain::account::blocking_state::BlockingState;
use domain::billing::blocking::standing;
use domain::billing::bundle::Bundle;
use domain::billing::subscription::Subscription;
use domain::catalog::versions::Versions;
use domain::read::TenantRow;
use domain::{AccountId, TenantNo, Timestamp};
use engine::ports::{Page, Queries, StoreError};
use engine::time::rfc3339_second;
use serde_json::{Value, json};
use uuid::Uuid;

/// The first of an account's bundles, and of its subscriptions.
const SHOWN: Page = Page { offset: 0, limit: 1_000 };

/// What belongs to an account, the oldest first.
pub(crate) fn read(
    queries: &dyn Queries,
    (tenant, account): (TenantNo, AccountId),
    now: Timestamp,
) -> Result<Vec<Value>, StoreError> {
    let bundles = queries.bundles_of(tenant, account, SHOWN)?;
    if bundles.is_empty() {
        return Ok(vec![]);
    }
    let subscriptions = queries.subscriptions_of(tenant, account, SHOWN)?;
    let state = queries.rows(&[TenantRow::CatalogVersions(tenant).into()].into())?;
    let versions = state.tenant.catalog_versions.of(&tenant).values();
    let versions = Versions::new(versions.map(|it| Arc::clone(&it.catalog)).collect());
    let states = queries.blocking_states(tenant, account)?;
    let shown = bundles.iter().map(|bundle| {
        let of = subscriptions.iter().filter(|it| it.bundle_id == bundle.id);
        let shown = of.filter_map(|it| subscription(it, bundle, (&versions, &states, now)));
        json!({
            "accountId": bundle.account_id,
            "bundleId": bundle.id,
            "externalKey": key(bundle.external_key.as_ref(), bundle.id.uuid()),
            "subscriptions": shown.collect::<Vec<_>>(),
        })
    });
    Ok(shown.collect())
}

/// `None` where the catalog has lost the plan.
fn subscription(
    it: &Subscription,
    bundle: &Bundle,
    (versions, states, now): (&Versions, &[BlockingState], Timestamp),
) -> Option<Value> {
    let current = it.current()?;
    let chosen = current.plan_at(versions, current.chosen_at)?;
    let product = chosen.catalog.product(&chosen.plan.product)?;
    let recurring = chosen.plan.phase(current.phase).and_then(|it| it.recurring.as_ref());
    let ends_at = it.ends_at().filter(|_| it.is_cancelled());
    Some(json!({
        "accountId": it.account_id,
        "bundleId": it.bundle_id,
        "bundleExternalKey": key(bundle.external_key.as_ref(), bundle.id.uuid()),
        "subscriptionId": it.id,
        "externalKey": key(it.external_key.as_ref(), it.id.uuid()),
        "startDate": rfc3339_second(it.entitled_from),
        "productName": product.name,
        "productCategory": product.category.name(),
        "billingPeriod": recurring.map_or("NO_BILLING_PERIOD", |it| it.period.name()),
        "phaseType": current.phase.name(),
        "priceList": current.price_list,
        "planName": current.shown_plan(),
        "state": standing(it, states, now).name(),
        "cancelledDate": it.entitled_until.or(ends_at).map(rfc3339_second),
        "chargedThroughDate": it.charged_through.map(|it| it.to_string()),
        "billingStartDate": rfc3339_second(it.starts_at()),
        "billingEndDate": ends_at.map(rfc3339_second),
        "quantity": it.quantity(),
    }))
}

/// A key, or the id that it reads as.
fn key(key: Option<&String>, id: Uuid) -> String {
    key.cloned().unwrap_or_else(|| id.to_string())
}
