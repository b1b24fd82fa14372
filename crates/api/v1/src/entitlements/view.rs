//! The document of what an account may do.

use crate::usage_view::LevelView;
use domain::entitlement::feature::FeatureKind;
use domain::entitlement::{Grant, GrantSource};
use engine::entitlements::{Document, HeldFeature, Levels, value_json};
use engine::time::rfc3339;
use http::header::HeaderValue;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;
use web::fingerprint;

/// All that an account may do now.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntitlementsView {
    account_id: Uuid,
    /// Counts the changes of what was granted to the account and of its users, without gaps
    version: i64,
    /// Until when a program may hold this document (RFC 3339): then nothing is known any more, and nothing is allowed
    valid_until: String,
    /// In the order of their keys
    features: Vec<EntitledView>,
}

/// A feature that an account is entitled to.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntitledView {
    /// The feature's key
    feature: String,
    /// `switch`, `value` or `limit`
    kind: &'static str,
    /// `true` for a switch, a number for a limit
    value: Value,
    /// The unit that is counted, of a limit
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// Until when the account has it without a break (RFC 3339); `null`: for ever
    until: Option<String>,
    /// Until when a program may hold this value (RFC 3339): the document's `validUntil`, or earlier where the value
    /// ends or changes before
    valid_until: String,
    /// The grants that the value is made of, oldest first
    grants: Vec<GrantView>,
    /// How much of it is used, of a limit
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<LevelView>,
}

/// A grant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantView {
    grant_id: Uuid,
    value: Value,
    /// `offer`, `trial`, `subscription` or `manual`
    source: &'static str,
    /// The offer that was bought
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offer_version: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purchase_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<Uuid>,
    /// The subscription whose plan or product gives it
    #[serde(skip_serializing_if = "Option::is_none")]
    subscription_id: Option<Uuid>,
    /// The subscription's plan
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// The phase of the plan
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    /// Whose features name it: `plan` or `product`
    #[serde(skip_serializing_if = "Option::is_none")]
    given_by: Option<&'static str>,
    /// The version of these
    #[serde(skip_serializing_if = "Option::is_none")]
    features_version: Option<i64>,
    /// Why an operator granted it
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// RFC 3339
    from: String,
    /// RFC 3339; `null`: for ever
    until: Option<String>,
}

/// The version, and what is used of limits: it changes without a version.
pub(super) fn etag_of(version: i64, levels: &Levels) -> HeaderValue {
    let text = match levels.is_empty() {
        true => format!("\"{version}\""),
        false => {
            let levels = serde_json::to_vec(levels).expect("levels are plain JSON");
            format!("\"{version}-{}\"", fingerprint(&[&levels]).simple())
        }
    };
    HeaderValue::try_from(text).expect("digits, a dash and quotes are visible ASCII")
}

impl EntitlementsView {
    pub(super) fn of(it: &Document<'_>) -> Self {
        Self {
            account_id: it.account.uuid(),
            version: it.version,
            valid_until: rfc3339(it.valid_until),
            features: it.features.iter().map(entitled).collect(),
        }
    }
}

fn entitled(it: &HeldFeature<'_>) -> EntitledView {
    let unit = match &it.has.terms.kind {
        FeatureKind::Limit(limit) => Some(limit.unit.clone()),
        FeatureKind::Switch | FeatureKind::Value(_) => None,
    };
    EntitledView {
        feature: it.key.to_owned(),
        kind: it.has.terms.kind.name(),
        value: value_json(&it.has.value),
        unit,
        until: it.has.until.map(rfc3339),
        valid_until: rfc3339(it.valid_until),
        grants: it.has.grants.iter().map(|it| grant(it)).collect(),
        usage: it.level.map(LevelView::of),
    }
}

fn grant(it: &Grant) -> GrantView {
    let view = GrantView {
        grant_id: it.id.uuid(),
        value: value_json(&it.value),
        source: "manual",
        offer: None,
        offer_version: None,
        purchase_id: None,
        payment_id: None,
        subscription_id: None,
        plan: None,
        phase: None,
        given_by: None,
        features_version: None,
        reason: None,
        from: rfc3339(it.from),
        until: it.until.map(rfc3339),
    };
    match &it.source {
        GrantSource::Manual { reason } => GrantView { reason: Some(reason.clone()), ..view },
        GrantSource::Subscription { subscription, plan, phase, given_by, version } => GrantView {
            source: "subscription",
            subscription_id: Some(subscription.uuid()),
            plan: Some(plan.clone()),
            phase: Some(phase.name()),
            given_by: Some(given_by.name()),
            features_version: Some(*version),
            ..view
        },
        GrantSource::Offer { offer, version, purchase, payment, is_trial } => GrantView {
            source: if *is_trial { "trial" } else { "offer" },
            offer: Some(offer.clone()),
            offer_version: Some(*version),
            purchase_id: Some(purchase.uuid()),
            payment_id: payment.map(domain::PaymentId::uuid),
            ..view
        },
    }
}
