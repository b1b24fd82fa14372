//! What accounts may do, and what operators grant by hand.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::command::EntitlementCommand;
use domain::entitlement::{Entitled, Entitlements, Grant, GrantFeature, GrantSource, RevokeGrant};
use domain::feature::FeatureKind;
use domain::reply::EntitlementReply;
use domain::usage::{Usage, level_now};
use domain::{AccountId, GrantId, Reply, Timestamp};
use engine::entitlements::value_json;
use engine::time::rfc3339;
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;
use web::fingerprint;

use super::usage::{Levels, all_levels};
use super::{account_id, unexpected, value};
use crate::caller::Call;
use crate::entitlements::document::{self, Holding};
use crate::error::Error;
use crate::input;
use crate::openapi::{IdempotencyKey, ObjectRejections};
use crate::parameters::{Parameters, invalid, time};
use crate::repeatable::Repeatable;
use crate::usage_view::LevelView;

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

/// What an account has of a feature.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntitledView {
    /// The feature's key
    feature: String,
    /// `switch`, `value` or `limit`
    kind: &'static str,
    /// `true` for a switch, a number for a limit
    value: Value,
    /// What is counted, of a limit
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// Until when the account has it without a break (RFC 3339); `null`: for ever
    until: Option<String>,
    /// Until when a program may hold this value (RFC 3339): the document's `validUntil`, or earlier where the value
    /// ends or changes before
    valid_until: String,
    /// What it is made of, oldest first
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
    /// `offer`, `trial` or `manual`
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
    /// Why an operator granted it
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// RFC 3339
    from: String,
    /// RFC 3339; `null`: for ever
    until: Option<String>,
}

/// Whether an account may use a feature.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckView {
    feature: String,
    allowed: bool,
    /// What the account has of it; `null` where it has nothing
    value: Value,
    /// Until when (RFC 3339); `null`: for ever, or not at all
    until: Option<String>,
    /// `granted`, `not-granted`, or `limit-reached` where nothing is left and no more may be used
    reason: &'static str,
    /// How much of it is used, of a limit
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<LevelView>,
}

/// What is to be granted.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewGrant {
    /// The key of a feature
    feature: String,
    /// `true` for a switch, a number for a limit
    value: Value,
    /// RFC 3339; now by default
    from: Option<String>,
    /// RFC 3339; for ever by default
    until: Option<String>,
    /// A code, such as `goodwill`: 1 to 64 of a-z, 0-9, '.', '-' and '_'
    reason: String,
}

/// A grant that was made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Granted {
    grant_id: Uuid,
    /// What the account may do now
    entitlements: EntitlementsView,
}

/// Grants a feature.
#[utoipa::path(post, path = "/v1/accounts/{accountId}/grants", tag = "Entitlements", operation_id = "grant_feature",
    summary = "Grants a feature to an account, by hand",
    params(("accountId" = Uuid, Path), IdempotencyKey),
    request_body = NewGrant,
    responses(
        ObjectRejections,
        (status = 201, description = "Granted", body = Granted),
        (status = 400, description = "A field is invalid"),
        (status = 409, description = "The account is closed, or has 1000 grants"),
        (status = 422, description = "The key was used for another request")))]
pub async fn create(
    Call { api, context, uri, headers }: Call,
    Path(account): Path<String>,
    body: Body,
) -> Result<Response, Error> {
    context.require("entitlement:grant")?;
    Parameters::of(&uri)?.end()?;
    let account = account_id(&account)?;
    let it: NewGrant = input::json(body, &context.tenant).await?;
    let repeatable = Repeatable::of(&context, (&uri, &headers), &it)?;
    let (no, key) = (context.tenant.no, it.feature.clone());
    let known = api.engine.read(move |queries| queries.feature(no, &key)).await?;
    let known = known.ok_or_else(|| Error::not_found("feature", &it.feature))?;
    let value =
        value::parse(&known.terms.kind, &it.value).map_err(|reason| invalid("value", reason))?;
    let command = EntitlementCommand::Grant(Box::new(GrantFeature {
        account,
        value,
        from: it.from.map(|it| time("from", &it)).transpose()?,
        until: it.until.map(|it| time("until", &it)).transpose()?,
        feature: it.feature,
        reason: it.reason,
    }));
    let once = repeatable.map(Repeatable::idempotency);
    let reply = context.submit_once(&api, command.into(), once).await?;
    let Reply::Entitlement(EntitlementReply::Granted(id)) = reply else {
        return Err(unexpected());
    };
    let found = api.engine.read(move |queries| queries.entitlements(no, account)).await?;
    let holding = Holding::of(&api, context.tenant.entitlements_held_us);
    let entitlements = EntitlementsView::of(account, found.as_ref(), holding);
    let granted = Granted { grant_id: id.uuid(), entitlements };
    let location = format!("/v1/accounts/{account}/grants/{id}");
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(granted)).into_response())
}

/// Takes a grant back.
#[utoipa::path(delete, path = "/v1/accounts/{accountId}/grants/{grantId}", tag = "Entitlements", operation_id = "revoke_grant",
    summary = "Takes back what was granted by hand",
    params(("accountId" = Uuid, Path), ("grantId" = Uuid, Path)),
    responses(
        ObjectRejections,
        (status = 204, description = "Taken back"),
        (status = 409, description = "It comes from a purchase, and ends with that")))]
pub async fn delete(
    Call { api, context, uri, .. }: Call,
    Path((account, id)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    context.require("entitlement:grant")?;
    Parameters::of(&uri)?.end()?;
    let account = account_id(&account)?;
    let missing = |_| Error::not_found("grant", &id);
    let grant = GrantId::new(Uuid::try_parse(&id).map_err(missing)?);
    let command = EntitlementCommand::Revoke(RevokeGrant { account, grant });
    context.submit(&api, command.into()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What an account may do.
#[utoipa::path(get, path = "/v1/accounts/{accountId}/entitlements", tag = "Entitlements", operation_id = "entitlements",
    summary = "All that an account may do now",
    params(("accountId" = Uuid, Path)),
    responses(
        ObjectRejections,
        (status = 200, description = "What it may do. The version is the ETag, or begins it where the account has limits: what is used counts too. With `Accept: application/jose`, signed", content(
            (EntitlementsView = "application/json"), (String = "application/jose"))),
        (status = 304, description = "The version is that of If-None-Match"),
        (status = 501, description = "There is no key to sign with")))]
pub async fn entitlements(
    Call { api, context, uri, headers }: Call,
    Path(account): Path<String>,
) -> Result<Response, Error> {
    context.require("entitlement:read")?;
    Parameters::of(&uri)?.end()?;
    let account = account_id(&account)?;
    let (no, now) = (context.tenant.no, api.engine.clock().now());
    let read = move |queries: &dyn engine::ports::Queries| {
        let Some(known) = queries.account(no, account)? else { return Ok(None) };
        let found = queries.entitlements(no, account)?;
        let zone = &known.account.time_zone;
        let levels = all_levels(queries, (no, account), found.as_ref(), (zone, now))?;
        Ok(Some((found, levels)))
    };
    let Some((found, levels)) = api.engine.read(read).await? else {
        return Err(Error::NotFound { what: "account", name: account.to_string() });
    };
    let holding = Holding::of(&api, context.tenant.entitlements_held_us);
    let found = (found.as_ref(), &levels);
    document::answer((account, found), holding, api.sealer.as_deref(), &headers)
}

/// Whether an account may use a feature.
#[utoipa::path(get, path = "/v1/accounts/{accountId}/entitlements/{featureKey}", tag = "Entitlements", operation_id = "check_entitlement",
    summary = "Whether an account may use a feature now",
    params(("accountId" = Uuid, Path), ("featureKey" = String, Path)),
    responses(
        ObjectRejections,
        (status = 200, description = "The answer; an account that has nothing of it is not allowed", body = CheckView)))]
pub async fn check(
    Call { api, context, uri, .. }: Call,
    Path((account, wanted)): Path<(String, String)>,
) -> Result<Json<CheckView>, Error> {
    context.require("entitlement:read")?;
    Parameters::of(&uri)?.end()?;
    let account = account_id(&account)?;
    let (no, now) = (context.tenant.no, api.engine.clock().now());
    let known = api.engine.read_check((no, account), wanted.clone()).await?;
    if !known.is_feature {
        return Err(Error::not_found("feature", &wanted));
    }
    let Some(zone) = &known.zone else {
        return Err(Error::NotFound { what: "account", name: account.to_string() });
    };
    let has = known.entitlements.as_ref().and_then(|it| it.feature_at(&wanted, now));
    let Some(has) = has else { return Ok(Json(nothing_of(wanted))) };
    let counts: Vec<&Usage> = known.usage.iter().collect();
    let level = level_now(&has, &counts, zone, now);
    let overdraft = matches!(&has.terms.kind, FeatureKind::Limit(limit) if limit.overdraft);
    let allowed = overdraft || level.is_none_or(|it| it.left() > 0);
    Ok(Json(CheckView {
        allowed,
        value: value_json(&has.value),
        until: has.until.map(rfc3339),
        reason: if allowed { "granted" } else { "limit-reached" },
        usage: level.map(LevelView::of),
        feature: wanted,
    }))
}

/// The answer about a feature of which an account has nothing.
const fn nothing_of(feature: String) -> CheckView {
    let (value, until, usage) = (Value::Null, None, None);
    CheckView { feature, allowed: false, value, until, reason: "not-granted", usage }
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
    /// What an account may do at a time; nothing where nothing was ever granted to it.
    pub(super) fn of(account: AccountId, found: Option<&Entitlements>, holding: Holding) -> Self {
        let features = found.map(|it| it.at(holding.now)).unwrap_or_default();
        let changes = found.map(|it| it.next_changes(holding.now)).unwrap_or_default();
        let until = |key: &str| {
            let changes = changes.get(key).copied();
            changes.map_or(holding.until(), |it| it.min(holding.until()))
        };
        Self {
            account_id: account.uuid(),
            version: found.map_or(0, |it| it.version),
            valid_until: rfc3339(holding.until()),
            features: features.iter().map(|(key, it)| entitled(key, it, until(key))).collect(),
        }
    }

    /// With how much is used of limits.
    pub(super) fn with(mut self, levels: &Levels) -> Self {
        for it in &mut self.features {
            it.usage = levels.get(&it.feature).copied().map(LevelView::of);
        }
        self
    }
}

fn entitled(key: &str, it: &Entitled<'_>, valid_until: Timestamp) -> EntitledView {
    let unit = match &it.terms.kind {
        FeatureKind::Limit(limit) => Some(limit.unit.clone()),
        FeatureKind::Switch | FeatureKind::Value(_) => None,
    };
    EntitledView {
        feature: key.to_owned(),
        kind: it.terms.kind.name(),
        value: value_json(&it.value),
        unit,
        until: it.until.map(rfc3339),
        valid_until: rfc3339(valid_until),
        grants: it.grants.iter().map(|it| grant(it)).collect(),
        usage: None,
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
        reason: None,
        from: rfc3339(it.from),
        until: it.until.map(rfc3339),
    };
    match &it.source {
        GrantSource::Manual { reason } => GrantView { reason: Some(reason.clone()), ..view },
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
