//! Rows of features, offers, purchases and what accounts may do.

use domain::account_user::user_claim;
use domain::entitlement::Entitlements;
use domain::feature::Feature;
use domain::offer::{Offer, OfferTerms};
use domain::purchase::Purchase;
use domain::{AccountId, Seq, TenantNo};
use engine::ports::StoreError;

use crate::codes::{purchase_status, purchase_status_code};
use crate::driver::{Cells, Value};
use crate::rows::claim_hash;
use crate::tables;

/// A row of [`tables::FEATURE`]; `terms` is the JSON of that.
pub(crate) fn feature_row<'a>(it: &'a Feature, terms: &'a String) -> [Value<'a>; 9] {
    [
        it.tenant.into(),
        (&it.key).into(),
        it.version.into(),
        (&it.name).into(),
        terms.into(),
        it.archived.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::FEATURE`].
///
/// # Errors
/// See [`super::tenant`].
pub fn feature(cells: &mut Cells<'_>) -> Result<Feature, StoreError> {
    cells.of(&tables::FEATURE);
    Ok(Feature {
        tenant: cells.tenant()?,
        key: cells.string()?,
        version: cells.int()?,
        name: cells.string()?,
        terms: cells.json()?,
        archived: cells.flag()?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
        revision: cells.revision()?,
    })
}

/// A row of [`tables::OFFER`] or [`tables::OFFER_VERSION`]; `terms` is the JSON of that.
pub(crate) fn offer_row<'a>(it: &'a Offer, terms: &'a String) -> [Value<'a>; 7] {
    [
        it.tenant.into(),
        (&it.key).into(),
        it.version.into(),
        terms.into(),
        it.terms.for_newcomers.into(),
        it.created_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::OFFER`] or [`tables::OFFER_VERSION`].
///
/// # Errors
/// See [`super::tenant`].
pub fn offer(cells: &mut Cells<'_>) -> Result<Offer, StoreError> {
    cells.of(&tables::OFFER);
    let (tenant, key, version) = (cells.tenant()?, cells.string()?, cells.int()?);
    let terms: OfferTerms = cells.json()?;
    if cells.flag()? != terms.for_newcomers {
        return Err(cells.corrupt("is not what the terms say"));
    }
    let (created_at, revision) = (cells.time()?, cells.revision()?);
    Ok(Offer { tenant, key, version, terms, created_at, revision })
}

/// A row of [`tables::PURCHASE`]; `terms` is the JSON of that.
pub(crate) fn purchase_row<'a>(it: &'a Purchase, terms: &'a String) -> [Value<'a>; 13] {
    [
        it.tenant.into(),
        it.id.into(),
        it.account_id.into(),
        it.payment_id.into(),
        (&it.offer).into(),
        it.offer_version.into(),
        terms.into(),
        purchase_status_code(it.status).into(),
        it.from.into(),
        it.until.into(),
        it.created_at.into(),
        it.updated_at.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::PURCHASE`].
///
/// # Errors
/// See [`super::tenant`].
pub fn purchase(cells: &mut Cells<'_>) -> Result<Purchase, StoreError> {
    cells.of(&tables::PURCHASE);
    Ok(Purchase {
        tenant: cells.tenant()?,
        id: cells.entity()?,
        account_id: cells.entity()?,
        payment_id: cells.opt_entity()?,
        offer: cells.string()?,
        offer_version: cells.int()?,
        terms: cells.json()?,
        status: cells.code(purchase_status)?,
        from: cells.opt_time()?,
        until: cells.opt_time()?,
        created_at: cells.time()?,
        updated_at: cells.time()?,
        revision: cells.revision()?,
    })
}

/// A row of [`tables::ENTITLEMENTS`]; the texts are the JSON of its grants and of what was bought.
pub(crate) fn entitlements_row<'a>(
    it: &'a Entitlements,
    (grants, bought): (&'a String, &'a String),
) -> [Value<'a>; 9] {
    [
        it.tenant.into(),
        it.account_id.into(),
        it.version.into(),
        grants.into(),
        bought.into(),
        it.changed_at.into(),
        it.due.into(),
        it.users_version.into(),
        it.revision.seq.into(),
    ]
}

/// Reads a row of [`tables::ENTITLEMENTS`].
///
/// # Errors
/// See [`super::tenant`].
pub fn entitlements(cells: &mut Cells<'_>) -> Result<Entitlements, StoreError> {
    cells.of(&tables::ENTITLEMENTS);
    Ok(Entitlements {
        tenant: cells.tenant()?,
        account_id: cells.entity()?,
        version: cells.int()?,
        grants: cells.json()?,
        bought: cells.json()?,
        changed_at: cells.time()?,
        due: cells.opt_time()?,
        users_version: cells.opt_int()?.unwrap_or(0),
        revision: cells.revision()?,
    })
}

/// A row of [`tables::ACCOUNT_USER`].
pub(crate) fn account_user_row(
    (tenant, account): (TenantNo, AccountId),
    user: &str,
    seq: Seq,
) -> [Value<'_>; 5] {
    let hash = Value::Id(claim_hash(&user_claim(tenant, user)));
    [tenant.into(), account.into(), hash, user.into(), seq.into()]
}

/// Reads a row of [`tables::ACCOUNT_USER`]: whose user it is, and its key.
///
/// # Errors
/// See [`super::tenant`].
pub fn account_user(cells: &mut Cells<'_>) -> Result<(TenantNo, AccountId, String), StoreError> {
    cells.of(&tables::ACCOUNT_USER);
    let (tenant, account) = (cells.tenant()?, cells.entity()?);
    cells.skip(1);
    Ok((tenant, account, cells.string()?))
}
