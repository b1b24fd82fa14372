//! Features of plans and products: how a tenant says what subscriptions give.

use super::offer::check_version;
use crate::change::EntitlementChange;
use crate::context::Context;
use crate::entitlement::feature::{Feature, FeatureKind};
use crate::entitlement::plan_features::{
    FEATURED_MAX, FEATURES_PER_PLAN_MAX, NAME_CHARS_MAX, PlanFeature, PlanFeatures, PlanOrProduct,
    PutPlanFeatures, VERSIONS_MAX,
};
use crate::reply::{EntitlementReply, Outcome};
use crate::state::State;
use crate::{Accepted, Rejection, Reply, Revision};

pub(crate) fn put(state: &State, it: &PutPlanFeatures, cx: &mut Context) -> Outcome {
    let kind = it.of.kind.name();
    let length = it.of.name.chars().count();
    if !(1..=NAME_CHARS_MAX).contains(&length) || it.of.name.contains(char::is_control) {
        let reason = "should have 1 to 255 characters, none of them a control character";
        return Err(Rejection::invalid(kind, reason));
    }
    if it.features.len() > FEATURES_PER_PLAN_MAX {
        return Err(Rejection::invalid("features", "should be at most 100"));
    }
    let before = state.entitlement.plan_features.get(&(cx.tenant, it.of.clone()));
    check_version((it.of.kind.list_name(), &it.of.name), it.expected, before.map(|it| it.version))?;
    for (key, entry) in &it.features {
        let feature = state.feature(cx.tenant, key).filter(|it| !it.archived);
        let field = format!("features.{key}");
        let Some(feature) = feature else {
            return Err(Rejection::invalid(&field, "there is no such feature"));
        };
        check_entry(entry, feature, (&field, it.of.kind))?;
    }
    if before.is_none() && state.catalog_size(cx.tenant).featured >= FEATURED_MAX {
        let reason = "has no features yet, and 10000 plans and products of the tenant have some";
        return Err(Rejection::invalid(kind, reason));
    }
    let version = before.map_or(1, |it| it.version + 1);
    if version > VERSIONS_MAX {
        return Err(Rejection::invalid(kind, "had 10000 versions of its features already"));
    }
    cx.change(EntitlementChange::PlanFeatures(Box::new(PlanFeatures {
        tenant: cx.tenant,
        of: it.of.clone(),
        version,
        features: it.features.clone(),
        created_at: cx.now,
        revision: before.map_or(Revision::first(cx.seq), |it| it.revision.next(cx.seq)),
    })));
    Ok(Accepted::now(Reply::Entitlement(EntitlementReply::Put { version })))
}

/// Refuses what does not go with its feature.
fn check_entry(
    it: &PlanFeature,
    feature: &Feature,
    (field, of): (&str, PlanOrProduct),
) -> Result<(), Rejection> {
    let kind = &feature.terms.kind;
    if it.gives_nothing() && of == PlanOrProduct::Product {
        let reason = "should have a value, for all phases or for some";
        return Err(Rejection::invalid(field, reason));
    }
    if let Some(reason) = it.value.as_ref().and_then(|value| kind.refuses(value)) {
        return Err(Rejection::invalid(&format!("{field}.value"), reason));
    }
    for (phase, value) in &it.phases {
        if let Some(reason) = kind.refuses(value) {
            let field = format!("{field}.phases.{}", phase.name());
            return Err(Rejection::invalid(&field, reason));
        }
    }
    if it.times_quantity && !matches!(kind, FeatureKind::Limit(_)) {
        let reason = "is for limits only";
        return Err(Rejection::invalid(&format!("{field}.timesQuantity"), reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
