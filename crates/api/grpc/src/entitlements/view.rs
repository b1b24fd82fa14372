//! Conversion of what accounts may do to messages.

use domain::entitlement::feature::{FeatureKind, FeatureValue};
use domain::entitlement::level::Level;
use domain::entitlement::{Grant, GrantSource};
use engine::entitlements::{Check, CheckReason, Document, HeldFeature};

use crate::api;
use crate::api::feature_value::Value;
use crate::view::time;

pub(super) fn document(it: &Document<'_>) -> api::Entitlements {
    api::Entitlements {
        account_id: it.account.to_string(),
        version: it.version,
        valid_until: Some(time(it.valid_until)),
        features: it.features.iter().map(feature).collect(),
    }
}

fn feature(it: &HeldFeature<'_>) -> api::EntitledFeature {
    let unit = match &it.has.terms.kind {
        FeatureKind::Limit(limit) => limit.unit.clone(),
        FeatureKind::Switch | FeatureKind::Value(_) => String::new(),
    };
    api::EntitledFeature {
        feature: it.key.to_owned(),
        value: Some(value(&it.has.value)),
        unit,
        until: it.has.until.map(time),
        valid_until: Some(time(it.valid_until)),
        grants: it.has.grants.iter().map(|it| grant(it)).collect(),
        usage: it.level.map(usage),
    }
}

fn grant(it: &Grant) -> api::Grant {
    let shown = api::Grant {
        id: it.id.to_string(),
        value: Some(value(&it.value)),
        since: Some(time(it.from)),
        until: it.until.map(time),
        ..api::Grant::default()
    };
    match &it.source {
        GrantSource::Manual { reason } => {
            api::Grant { source: api::GrantSource::Manual.into(), reason: reason.clone(), ..shown }
        }
        GrantSource::Subscription { subscription, plan, phase, given_by, version } => api::Grant {
            source: api::GrantSource::Subscription.into(),
            subscription_id: subscription.to_string(),
            plan: plan.clone(),
            phase: phase.name().to_owned(),
            given_by: given_by.name().to_owned(),
            features_version: *version,
            ..shown
        },
        GrantSource::Offer { offer, version, purchase, payment, is_trial } => {
            let source = if *is_trial { api::GrantSource::Trial } else { api::GrantSource::Offer };
            api::Grant {
                source: source.into(),
                offer: offer.clone(),
                offer_version: *version,
                purchase_id: purchase.to_string(),
                payment_id: payment.map(|it| it.to_string()).unwrap_or_default(),
                ..shown
            }
        }
    }
}

fn value(it: &FeatureValue) -> api::FeatureValue {
    let value = match it {
        FeatureValue::On => Value::On(true),
        FeatureValue::Limit(limit) => Value::Limit(*limit),
        FeatureValue::Boolean(it) => Value::Boolean(*it),
        // It was a number of JSON when it was stored.
        FeatureValue::Number(it) => {
            it.parse().map_or_else(|_| Value::Text(it.clone()), Value::Number)
        }
        FeatureValue::String(it) => Value::Text(it.clone()),
        FeatureValue::Json(it) => Value::Json(it.clone()),
    };
    api::FeatureValue { value: Some(value) }
}

pub(super) fn usage(it: Level) -> api::LimitUsage {
    api::LimitUsage {
        limit: it.limit,
        used: it.used,
        reserved: it.reserved,
        left: it.left(),
        resets_at: it.resets_at.map(time),
    }
}

pub(super) fn check(it: &Check<'_>) -> api::CheckResponse {
    let reason = match it.reason {
        CheckReason::Granted => api::CheckReason::Granted,
        CheckReason::NotGranted => api::CheckReason::NotGranted,
        CheckReason::LimitReached => api::CheckReason::LimitReached,
    };
    api::CheckResponse {
        allowed: it.is_allowed(),
        reason: reason.into(),
        value: it.has.as_ref().map(|has| value(&has.value)),
        until: it.has.as_ref().and_then(|has| has.until).map(time),
        usage: it.level.map(usage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_kind_and_the_type_of_their_feature() {
        let text = |it: &str| it.to_owned();
        for (stored, expected) in [
            (FeatureValue::On, Value::On(true)),
            (FeatureValue::Limit(0), Value::Limit(0)),
            (FeatureValue::Boolean(false), Value::Boolean(false)),
            (FeatureValue::Number(text("-2.5e3")), Value::Number(-2500.0)),
            (FeatureValue::String(text("true")), Value::Text(text("true"))),
            (FeatureValue::Json(text("[1]")), Value::Json(text("[1]"))),
        ] {
            assert_eq!(value(&stored).value, Some(expected));
        }
    }
}
