//! Entitlements of accounts, and grants that operators make by hand.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::Reply;
use domain::command::EntitlementCommand;
use domain::entitlement::{GrantFeature, RevokeGrant};
use domain::reply::EntitlementReply;
use engine::entitlements::{self, Check, CheckReason, Document, NotThere, value_json};
use engine::time::rfc3339;
use http::StatusCode;
use http::header::LOCATION;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::view::EntitlementsView;
use super::{AccountRequest, account_id, unexpected, value};
use crate::caller::Call;
use crate::entitlements::document;
use crate::error::Error;
use crate::openapi::{AnotherRequest, IdempotencyKey, InvalidField, ObjectRejections};
use crate::parameters::{id_of, invalid, time};
use crate::usage_view::LevelView;

/// Whether an account may use a feature.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckView {
    feature: String,
    allowed: bool,
    /// The account's value of the feature; `null` where it has none
    value: Value,
    /// Until when (RFC 3339); `null`: for ever, or not at all
    until: Option<String>,
    /// `granted`, `not-granted`, or `limit-reached` where nothing is left and no more may be used
    reason: &'static str,
    /// How much of it is used, of a limit
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<LevelView>,
}

/// A grant to be made.
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
    /// The account's entitlements now
    entitlements: EntitlementsView,
}

/// Grants a feature to an account, by hand
#[utoipa::path(post, path = "/v1/accounts/{accountId}/grants", tag = "Entitlements", operation_id = "grant_feature",
    params(("accountId" = Uuid, Path), IdempotencyKey), request_body = NewGrant,
    responses((status = 201, description = "Granted", body = Granted),
        (status = 409, description = "The account is closed, or has 1000 grants"),
        ObjectRejections, InvalidField, AnotherRequest))]
pub async fn create(call: Call, account: Path<String>, body: Body) -> Result<Response, Error> {
    let request =
        AccountRequest::<NewGrant>::read(call, "entitlement:grant", (&account, body)).await?;
    let AccountRequest { api, context, account, body: it, once } = request;
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
    let reply = context.submit_once(&api, command.into(), once).await?;
    let Reply::Entitlement(EntitlementReply::Granted(id)) = reply else {
        return Err(unexpected());
    };
    let found = api.engine.read(move |queries| queries.entitlements(no, account)).await;
    let found = found.map_err(Error::after_commit)?;
    let holding = document::holding(&api, context.tenant.entitlements_held_us);
    let entitlements = EntitlementsView::of(&Document::of(account, found.as_ref(), holding));
    let granted = Granted { grant_id: id.uuid(), entitlements };
    let location = format!("/v1/accounts/{account}/grants/{id}");
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(granted)).into_response())
}

/// Takes back what was granted by hand
#[utoipa::path(delete, path = "/v1/accounts/{accountId}/grants/{grantId}", tag = "Entitlements", operation_id = "revoke_grant",
    params(("accountId" = Uuid, Path), ("grantId" = Uuid, Path)),
    responses((status = 204, description = "Taken back"),
        (status = 409, description = "It comes from a purchase, and ends with that"), ObjectRejections))]
pub async fn delete(
    call: Call,
    Path((account, id)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    let Call { api, context, .. } = call.allowed("entitlement:grant")?;
    let (account, grant) = (account_id(&account)?, id_of("grant", &id)?);
    let command = EntitlementCommand::Revoke(RevokeGrant { account, grant });
    context.submit(&api, command.into()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// All that an account may do now
#[utoipa::path(get, path = "/v1/accounts/{accountId}/entitlements", tag = "Entitlements", operation_id = "entitlements",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, description = "What it may do. The version is the ETag, or begins it where the account has limits: what is used counts too. With `Accept: application/jose`, signed", content(
            (EntitlementsView = "application/json"), (String = "application/jose"))),
        (status = 304, description = "The version is that of If-None-Match"),
        (status = 501, description = "There is no key to sign with"), ObjectRejections))]
pub async fn entitlements(call: Call, Path(account): Path<String>) -> Result<Response, Error> {
    let Call { api, context, headers, .. } = call.allowed("entitlement:read")?;
    let account = account_id(&account)?;
    let no = context.tenant.no;
    let holding = document::holding(&api, context.tenant.entitlements_held_us);
    let read = move |queries: &dyn engine::ports::Queries| {
        entitlements::read(queries, (no, account), holding.now)
    };
    let known = api.engine.read(read).await?;
    let missing = || Error::NotFound { what: "account", name: account.to_string() };
    document::answer(&known.ok_or_else(missing)?, holding, api.sealer.as_deref(), &headers)
}

/// Whether an account may use a feature now
#[utoipa::path(get, path = "/v1/accounts/{accountId}/entitlements/{featureKey}", tag = "Entitlements", operation_id = "check_entitlement",
    params(("accountId" = Uuid, Path), ("featureKey" = String, Path)),
    responses((status = 200, description = "The answer; an account that has nothing of it is not allowed", body = CheckView),
        ObjectRejections))]
pub async fn check(
    call: Call,
    Path((account, wanted)): Path<(String, String)>,
) -> Result<Json<CheckView>, Error> {
    let Call { api, context, .. } = call.allowed("entitlement:read")?;
    let account = account_id(&account)?;
    let (no, now) = (context.tenant.no, api.engine.clock().now());
    let checked = api.engine.read_check((no, account), wanted.clone()).await?;
    let check = Check::of(&checked, &wanted, now).map_err(|it| match it {
        NotThere::Feature => Error::not_found("feature", &wanted),
        NotThere::Account => Error::NotFound { what: "account", name: account.to_string() },
    })?;
    Ok(Json(CheckView {
        feature: wanted.clone(),
        allowed: check.is_allowed(),
        value: check.has.as_ref().map_or(Value::Null, |it| value_json(&it.value)),
        until: check.has.as_ref().and_then(|it| it.until).map(rfc3339),
        reason: match check.reason {
            CheckReason::Granted => "granted",
            CheckReason::NotGranted => "not-granted",
            CheckReason::LimitReached => "limit-reached",
        },
        usage: check.level.map(LevelView::of),
    }))
}
