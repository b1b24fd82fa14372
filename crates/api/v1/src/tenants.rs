//! The tenants of the installation: their secrets, and whether they are served. Operators are the
//! installation's, not a tenant's: none of these needs a tenant's credentials, which may be lost.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::command::TenantCommand;
use domain::tenant::{CreateTenant, RotateTenantSecret, Tenant};
use domain::{Command, Reply, TenantId, TenantNo};
use engine::Reason;
use engine::time::rfc3339;
use http::header::LOCATION;
use http::{StatusCode, Uri};
use secrets::random;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Api;
use crate::caller::InstallationCall;
use crate::error::Error;
use crate::input;
use crate::openapi::{
    InvalidField, InvalidParameter, ObjectRejections, PageParameters, Unauthenticated,
};
use crate::parameters::{Parameters, invalid};

/// The permission for all of it.
const ADMINISTER: &str = "tenant:administer";
/// But for creating one.
const CREATE: &str = "tenant:create";

/// The longest API key and external key, in characters, as under /1.0/kb.
const API_KEY_CHARS_MAX: usize = 128;
const EXTERNAL_KEY_CHARS_MAX: usize = 255;

/// The shortest and the longest secret that is taken, in characters.
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 12..=256;
/// How long a replaced secret is still taken where the request does not say: a day.
const OVERLAP_SECONDS_DEFAULT: u32 = 86_400;
/// The longest overlap: 90 days.
const OVERLAP_SECONDS_MAX: u32 = 90 * 86_400;

/// A tenant, as the installation's operators see it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantDetails {
    tenant_id: Uuid,
    external_key: Option<String>,
    /// Sent as X-Killbill-ApiKey, or as X-Faregate-ApiKey, which routes under /1.0/kb do not read
    api_key: String,
    /// Whether requests with its credentials are served
    active: bool,
    /// Until when the secret before the current one is still taken (RFC 3339)
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_secret_until: Option<String>,
    /// When it was created (RFC 3339)
    created_at: String,
}

/// Tenants, by age.
#[derive(Serialize, ToSchema)]
pub struct TenantPage {
    tenants: Vec<TenantDetails>,
    /// Whether there are further ones
    more: bool,
}

/// A tenant to be created.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewTenant {
    /// The value of X-Faregate-ApiKey in its requests; 1 to 128 characters, unique
    api_key: String,
    /// 12 to 256 characters; one is drawn where it is absent
    api_secret: Option<String>,
    /// A name of your own; 255 characters at most
    external_key: Option<String>,
}

/// A tenant that was created. Its secret is shown once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantCreated {
    tenant_id: Uuid,
    api_key: String,
    /// The drawn secret; absent where the request gave one
    #[serde(skip_serializing_if = "Option::is_none")]
    api_secret: Option<String>,
}

/// A change of a tenant; fields that are absent keep their values.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantDetailsPatch {
    /// false refuses every request with the tenant's credentials, and sign-up to it
    active: Option<bool>,
}

/// A new secret.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSecret {
    /// 12 to 256 characters; one is drawn where it is absent
    api_secret: Option<String>,
    /// How long the secret before is still taken; 86400 by default, 7776000 at most, 0: no longer
    overlap_seconds: Option<u32>,
}

/// The secret that was set. It is shown once.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSet {
    tenant_id: Uuid,
    api_key: String,
    /// The drawn secret; absent where the request gave one
    #[serde(skip_serializing_if = "Option::is_none")]
    api_secret: Option<String>,
    /// Until when the secret before is still taken (RFC 3339)
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_secret_until: Option<String>,
}

/// The tenants of the installation, by age
#[utoipa::path(get, path = "/v1/tenants", tag = "Tenant", operation_id = "list_tenants",
    params(PageParameters),
    responses((status = 200, description = "The tenants", body = TenantPage),
        (status = 403, description = "tenant:administer is missing"), Unauthenticated, InvalidParameter))]
pub async fn list(
    InstallationCall { api, operator }: InstallationCall,
    uri: Uri,
) -> Result<Json<TenantPage>, Error> {
    operator.require(ADMINISTER)?;
    let window = Parameters::only_window(&uri)?;
    let read = api.engine.read(move |queries| queries.tenants(window.one_more()));
    let (found, more) = window.cut(read.await?);
    let tenants = found.iter().map(|it| details(it, &api)).collect();
    Ok(Json(TenantPage { tenants, more }))
}

/// Creates a tenant
#[utoipa::path(post, path = "/v1/tenants", tag = "Tenant", operation_id = "create_tenant",
    request_body = NewTenant,
    responses((status = 201, description = "Created; the secret is shown once", body = TenantCreated),
        (status = 403, description = "tenant:create is missing"),
        (status = 409, description = "There is a tenant of this API key"), Unauthenticated, InvalidField))]
pub async fn create(
    InstallationCall { api, operator }: InstallationCall,
    body: Body,
) -> Result<Response, Error> {
    operator.require(CREATE)?;
    let NewTenant { api_key, api_secret, external_key } = input::installation_json(body).await?;
    check_name("apiKey", &api_key, API_KEY_CHARS_MAX)?;
    check_sendable("apiKey", &api_key)?;
    if let Some(key) = &external_key {
        check_name("externalKey", key, EXTERNAL_KEY_CHARS_MAX)?;
    }
    let (secret_hash, drawn) = hash(&api, api_secret).await?;
    let new = CreateTenant { id: None, external_key, api_key: api_key.clone(), secret_hash };
    let command = Command::Tenant(TenantCommand::Create(new));
    let Reply::TenantCreated(id) = operator.submit(&api, TenantNo::SYSTEM, command).await? else {
        return Err(Error::Unavailable(Reason::Bug.into()));
    };
    let created = TenantCreated { tenant_id: id.uuid(), api_key, api_secret: drawn };
    let location = [(LOCATION, format!("/v1/tenants/{id}"))];
    Ok((StatusCode::CREATED, location, Json(created)).into_response())
}

/// Checks a name that is sent in headers and shown.
fn check_name(field: &'static str, name: &str, chars_max: usize) -> Result<(), Error> {
    let is_sound = name.trim() == name && !name.contains(char::is_control);
    if !is_sound || name.is_empty() || name.chars().nth(chars_max).is_some() {
        let reason = format!("does not have 1 to {chars_max} characters without spaces around");
        return Err(invalid(field, reason));
    }
    Ok(())
}

/// Checks a text that clients send as a header's value.
fn check_sendable(field: &'static str, text: &str) -> Result<(), Error> {
    if text.trim() == text && text.bytes().all(|it| it.is_ascii_graphic() || it == b' ') {
        return Ok(());
    }
    Err(invalid(field, "has characters that a header does not carry, or spaces around it"))
}

/// The hash of a secret, and the secret where none is given and it is drawn.
async fn hash(api: &Api, given: Option<String>) -> Result<(String, Option<String>), Error> {
    if let Some(given) = &given
        && !SECRET_CHARS.contains(&given.chars().count())
    {
        let (least, most) = SECRET_CHARS.into_inner();
        return Err(invalid("apiSecret", format!("does not have {least} to {most} characters")));
    }
    given.as_deref().map_or(Ok(()), |given| check_sendable("apiSecret", given))?;
    let drawn = given.is_none().then(random::secret);
    let secret = given.or_else(|| drawn.clone()).unwrap_or_default();
    Ok((api.access.hash(&secret).await?, drawn))
}

/// A tenant of the installation
#[utoipa::path(get, path = "/v1/tenants/{tenantId}", tag = "Tenant", operation_id = "get_tenant_by_id",
    params(("tenantId" = Uuid, Path)),
    responses((status = 200, description = "The tenant", body = TenantDetails), ObjectRejections))]
pub async fn show(
    InstallationCall { api, operator }: InstallationCall,
    Path(id): Path<String>,
) -> Result<Json<TenantDetails>, Error> {
    operator.require(ADMINISTER)?;
    Ok(Json(details(&find(&api, &id).await?, &api)))
}

/// Switches a tenant off or on
#[utoipa::path(patch, path = "/v1/tenants/{tenantId}", tag = "Tenant", operation_id = "patch_tenant_by_id",
    params(("tenantId" = Uuid, Path)), request_body = TenantDetailsPatch,
    responses((status = 200, description = "The tenant as it is now", body = TenantDetails),
        ObjectRejections, InvalidField))]
pub async fn patch(
    InstallationCall { api, operator }: InstallationCall,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<TenantDetails>, Error> {
    operator.require(ADMINISTER)?;
    let patch: TenantDetailsPatch = input::installation_json_or_nothing(body).await?;
    let tenant = find(&api, &id).await?;
    if let Some(active) = patch.active {
        let command = Command::Tenant(TenantCommand::SetActive(active));
        operator.submit(&api, tenant.no, command).await?;
    }
    Ok(Json(details(&find(&api, &id).await?, &api)))
}

/// Replaces the secret of a tenant; both are taken for a time
#[utoipa::path(post, path = "/v1/tenants/{tenantId}/secrets", tag = "Tenant", operation_id = "rotate_tenant_secret",
    params(("tenantId" = Uuid, Path)), request_body = NewSecret,
    responses((status = 201, description = "The new secret, shown once", body = SecretSet),
        ObjectRejections, InvalidField))]
pub async fn rotate_secret(
    InstallationCall { api, operator }: InstallationCall,
    Path(id): Path<String>,
    body: Body,
) -> Result<(StatusCode, Json<SecretSet>), Error> {
    operator.require(ADMINISTER)?;
    let new: NewSecret = input::installation_json_or_nothing(body).await?;
    let overlap_seconds = new.overlap_seconds.unwrap_or(OVERLAP_SECONDS_DEFAULT);
    if overlap_seconds > OVERLAP_SECONDS_MAX {
        return Err(invalid("overlapSeconds", format!("is more than {OVERLAP_SECONDS_MAX}")));
    }
    let tenant = find(&api, &id).await?;
    let (secret_hash, drawn) = hash(&api, new.api_secret).await?;
    let overlap_us = i64::from(overlap_seconds) * 1_000_000;
    let rotate = RotateTenantSecret { secret_hash, overlap_us };
    let command = Command::Tenant(TenantCommand::RotateSecret(rotate));
    operator.submit(&api, tenant.no, command).await?;
    let TenantDetails { tenant_id, api_key, previous_secret_until, .. } =
        details(&find(&api, &id).await?, &api);
    let set = SecretSet { tenant_id, api_key, api_secret: drawn, previous_secret_until };
    Ok((StatusCode::CREATED, Json(set)))
}

/// Refuses the secret before the current one from now on
#[utoipa::path(delete, path = "/v1/tenants/{tenantId}/secrets/previous", tag = "Tenant", operation_id = "withdraw_previous_tenant_secret",
    params(("tenantId" = Uuid, Path)),
    responses((status = 204, description = "Only the current secret is taken"), ObjectRejections))]
pub async fn withdraw_previous_secret(
    InstallationCall { api, operator }: InstallationCall,
    Path(id): Path<String>,
) -> Result<StatusCode, Error> {
    operator.require(ADMINISTER)?;
    let tenant = find(&api, &id).await?;
    let command = Command::Tenant(TenantCommand::WithdrawPreviousSecret);
    operator.submit(&api, tenant.no, command).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn find(api: &Api, id: &str) -> Result<Tenant, Error> {
    let not_found = || Error::NotFound { what: "tenant", name: id.to_owned() };
    let wanted = Uuid::try_parse(id).map(TenantId::new).map_err(|_| not_found())?;
    let found = api.engine.read(move |queries| queries.tenant(wanted)).await?;
    found.ok_or_else(not_found)
}

fn details(tenant: &Tenant, api: &Api) -> TenantDetails {
    let now = api.engine.clock().now();
    let previous = tenant.previous_secret.as_ref().map(|it| it.until);
    TenantDetails {
        tenant_id: tenant.id.uuid(),
        external_key: tenant.external_key.clone(),
        api_key: tenant.api_key.clone(),
        active: tenant.is_active,
        previous_secret_until: previous.filter(|until| now < *until).map(rfc3339),
        created_at: rfc3339(tenant.created_at),
    }
}
