//! Features and offers: how a tenant makes and changes what it sells.

use crate::change::EntitlementChange;
use crate::context::Context;
use crate::entitlement::feature::{
    Combine, FEATURES_MAX, Feature, FeatureKind, PutFeature, TEXT_CHARS_MAX, check_key,
};
use crate::entitlement::offer::{
    BUYERS_MAX, DAYS_MAX, FEATURES_PER_OFFER_MAX, Lasts, MONTHS_MAX, OFFERS_MAX, Offer, OfferTerms,
    PutOffer, Revocation, VERSIONS_MAX,
};
use crate::flag::definition::Expected;
use crate::reply::{EntitlementReply, Outcome};
use crate::state::State;
use crate::{Accepted, AmountMinor, EntitlementRejection as R, Rejection, Reply, Revision, in_use};

pub(crate) fn put_feature(state: &State, it: &PutFeature, cx: &mut Context) -> Outcome {
    check_key("key", &it.key)?;
    check_text("name", &it.name)?;
    check_feature(it)?;
    let before = state.feature(cx.tenant, &it.key);
    check_version(("feature", &it.key), it.expected, before.map(|it| it.version))?;
    if let Some(before) = before
        && !is_same_kind(&before.terms.kind, &it.terms.kind)
    {
        return Err(Rejection::invalid("kind", "stays what it was when the feature was made"));
    }
    if before.is_none() && state.catalog_size(cx.tenant).features >= FEATURES_MAX {
        return Err(Rejection::invalid("key", "the tenant has 1000 features already"));
    }
    let version = before.map_or(1, |it| it.version + 1);
    cx.change(EntitlementChange::Feature(Feature {
        tenant: cx.tenant,
        key: it.key.clone(),
        version,
        name: it.name.clone(),
        terms: it.terms.clone(),
        archived: it.archived,
        created_at: before.map_or(cx.now, |it| it.created_at),
        updated_at: cx.now,
        revision: before.map_or(Revision::first(cx.seq), |it| it.revision.next(cx.seq)),
    }));
    Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Put { version })))
}

fn check_feature(it: &PutFeature) -> Result<(), Rejection> {
    match &it.terms.kind {
        FeatureKind::Limit(limit) => check_text("unit", &limit.unit),
        FeatureKind::Switch | FeatureKind::Value(_) if it.terms.combine != Combine::Latest => {
            Err(Rejection::invalid("combine", "is latest for what is no limit"))
        }
        FeatureKind::Switch | FeatureKind::Value(_) => Ok(()),
    }
}

/// Whether a feature keeps its kind. The terms of a limit may change.
fn is_same_kind(before: &FeatureKind, after: &FeatureKind) -> bool {
    match (before, after) {
        (FeatureKind::Limit(_), FeatureKind::Limit(_)) => true,
        (
            FeatureKind::Switch | FeatureKind::Value(_) | FeatureKind::Limit(_),
            FeatureKind::Switch | FeatureKind::Value(_) | FeatureKind::Limit(_),
        ) => before == after,
    }
}

pub(crate) fn put_offer(state: &State, it: &PutOffer, cx: &mut Context) -> Outcome {
    check_key("key", &it.key)?;
    check_terms(&it.terms)?;
    let before = state.offer(cx.tenant, &it.key);
    check_version(("offer", &it.key), it.expected, before.map(|it| it.version))?;
    for (key, value) in &it.terms.features {
        let field = format!("features.{key}");
        let feature = state.feature(cx.tenant, key).filter(|it| !it.archived);
        let Some(feature) = feature else {
            return Err(Rejection::invalid(&field, "there is no such feature"));
        };
        if let Some(reason) = feature.terms.kind.refuses(value) {
            return Err(Rejection::invalid(&field, reason));
        }
    }
    if it.terms.for_newcomers
        && let Some(other) = state.newcomers_offer(cx.tenant).filter(|other| other.key != it.key)
    {
        return Err(R::NewcomersHaveOffer { offer: other.key.clone() }.into());
    }
    if before.is_none() && state.catalog_size(cx.tenant).offers >= OFFERS_MAX {
        return Err(Rejection::invalid("key", "the tenant has 1000 offers already"));
    }
    let version = before.map_or(1, |it| it.version + 1);
    if version > VERSIONS_MAX {
        return Err(Rejection::invalid("key", "the offer has 10000 versions already"));
    }
    cx.change(EntitlementChange::Offer(Offer {
        tenant: cx.tenant,
        key: it.key.clone(),
        version,
        terms: it.terms.clone(),
        created_at: cx.now,
        revision: before.map_or(Revision::first(cx.seq), |it| it.revision.next(cx.seq)),
    }));
    Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Put { version })))
}

fn check_terms(it: &OfferTerms) -> Result<(), Rejection> {
    check_text("name", &it.name)?;
    if it.price.is_some_and(|it| it.amount <= AmountMinor::ZERO) {
        return Err(Rejection::invalid("price", "should be greater than 0; a free offer has none"));
    }
    // One that is withdrawn is bought no more.
    if let Some(price) = it.price.filter(|_| !it.withdrawn) {
        in_use("price", price.currency)?;
    }
    if !(1..=FEATURES_PER_OFFER_MAX).contains(&it.features.len()) {
        return Err(Rejection::invalid("features", "should be 1 to 100"));
    }
    let fits = match it.lasts {
        Lasts::Forever => true,
        Lasts::Days(days) => (1..=DAYS_MAX).contains(&days),
        Lasts::Months(months) => (1..=MONTHS_MAX).contains(&months),
    };
    if !fits {
        return Err(Rejection::invalid("lasts", "should be 1 to 36525 days or 1 to 1200 months"));
    }
    let at_end = [("onRefund", it.on_refund), ("onChargeback", it.on_chargeback)]
        .into_iter()
        .find(|(_, rule)| *rule == Revocation::AtEnd);
    if let (Lasts::Forever, Some((field, _))) = (it.lasts, at_end) {
        return Err(Rejection::invalid(field, "cannot be at-end for what lasts for ever"));
    }
    if it.buyers.currencies.len() > BUYERS_MAX || it.buyers.tags.len() > BUYERS_MAX {
        return Err(Rejection::invalid("buyers", "names more than 100 currencies or tags"));
    }
    if it.for_newcomers && it.price.is_some() {
        return Err(Rejection::invalid("forNewcomers", "is for free offers only"));
    }
    if it.for_newcomers && !it.buyers.tags.is_empty() {
        let reason = "is for offers without tags: a new account has none of them";
        return Err(Rejection::invalid("forNewcomers", reason));
    }
    Ok(())
}

fn check_text(field: &str, text: &str) -> Result<(), Rejection> {
    match (1..=TEXT_CHARS_MAX).contains(&text.chars().count()) {
        true => Ok(()),
        false => Err(Rejection::invalid(field, "should have 1 to 255 characters")),
    }
}

pub(super) fn check_version(
    (what, key): (&'static str, &str),
    expected: Expected,
    version: Option<i64>,
) -> Result<(), Rejection> {
    let is_expected = match expected {
        Expected::Anything => true,
        Expected::Nothing => version.is_none(),
        Expected::Version(expected) => version == Some(expected),
    };
    match is_expected {
        true => Ok(()),
        false => Err(R::Changed { what: what.to_owned(), key: key.to_owned(), version }.into()),
    }
}

#[cfg(test)]
mod tests;
