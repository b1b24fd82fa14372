//! Tenants: create, read, and register the callback for events.

use std::borrow::Cow;

use domain::command::TenantCommand;
use domain::tenant::{CreateTenant, PUSH_CALLBACK, SetTenantValue, Tenant};
use domain::{Command, Reply, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::AuditLogJson;
use crate::call::{Call, unexpected};
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::json::{Json, Raw};
use crate::reply;

const JSON: Json = Json("TenantJson");

/// The longest API key, in characters (Kill Bill's column).
const API_KEY_CHARS_MAX: usize = 128;
/// The longest API secret, in characters: it bounds the work of the hash.
const API_SECRET_CHARS_MAX: usize = 256;
/// The longest URL of a callback, in bytes.
const CALLBACK_BYTES_MAX: usize = 2048;

/// Kill Bill's `TenantJson`. Responses never contain the secret.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TenantJson<'a> {
    tenant_id: Uuid,
    external_key: Option<&'a str>,
    api_key: &'a str,
    api_secret: Option<String>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// Kill Bill's `TenantKeyValueJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TenantValueJson<'a> {
    key: &'a str,
    #[schema(value_type = Vec<String>)]
    values: Vec<Cow<'a, str>>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

impl<'a> TenantValueJson<'a> {
    pub(crate) const fn new(key: &'a str, values: Vec<Cow<'a, str>>) -> Self {
        Self { key, values, audit_logs: vec![] }
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = TenantRequest)]
struct TenantBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    tenant_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    external_key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = String)]
    api_key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = String)]
    api_secret: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

/// Creates a tenant.
#[utoipa::path(post, path = "/1.0/kb/tenants", tag = "Tenant",
    request_body = TenantBody<'static>,
    responses((status = 201, description = "Created; Location names it"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create(call: Call) -> HandlerResult {
    let body: TenantBody<'_> = call.body(JSON)?;
    let _audit_logs = body.audit_logs;
    let required = |field, value: Option<String>| {
        value.filter(|text| !text.is_empty()).ok_or_else(|| JSON.missing(field))
    };
    let api_key = JSON.text("apiKey", body.api_key, API_KEY_CHARS_MAX)?;
    let api_key = required("apiKey", api_key)?;
    let secret = JSON.text("apiSecret", body.api_secret, API_SECRET_CHARS_MAX)?;
    let secret = required("apiSecret", secret)?;
    let id = JSON.id("tenantId", body.tenant_id)?;
    let external_key = JSON.key("externalKey", body.external_key, class::TENANT)?;
    let secret_hash = call.api.access().hash(&secret).await.map_err(Failure::of_user)?;
    let rest = (id.map(TenantId::uuid), external_key.clone(), api_key.clone());
    let it = CreateTenant { id, external_key, api_key, secret_hash };
    let Reply::TenantCreated(id) =
        call.submit_secret(Command::Tenant(TenantCommand::Create(it)), rest).await?
    else {
        unexpected()
    };
    let id = id.to_string();
    Ok(reply::created(call.location(&["/1.0/kb/tenants/", &id])))
}

/// Reads the caller's tenant; any other is not found.
#[utoipa::path(get, path = "/1.0/kb/tenants/{tenantId}", tag = "Tenant",
    params(("tenantId" = Uuid, Path, description = "The tenant's id")),
    responses((status = 200, body = TenantJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: TenantId = call.param_id("tenantId")?;
    let is_own = call.tenant.as_ref().is_some_and(|own| own.id == id);
    let found = match is_own {
        true => call.read(move |queries| queries.tenant(id)).await?,
        false => None,
    };
    match found {
        Some(tenant) => Ok(reply::ok(&json(&tenant))),
        None => {
            let message = format!("Tenant does not exist for id {id}");
            Err(Failure::coded(code::TENANT_NOT_FOUND_BY_ID, message))
        }
    }
}

/// Reads a tenant by its API key.
#[utoipa::path(get, path = "/1.0/kb/tenants", tag = "Tenant",
    params(("apiKey" = String, Query, description = "The tenant's API key")),
    responses((status = 200, body = TenantJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_api_key(call: Call) -> HandlerResult {
    let key = call.query().text("apiKey")?.map(|key| key.into_owned());
    let found = match key.clone() {
        Some(key) => call.read(move |queries| queries.tenant_by_api_key(&key)).await?,
        None => None,
    };
    match found {
        Some(tenant) => Ok(reply::ok(&json(&tenant))),
        None => {
            let key = key.as_deref().unwrap_or("null");
            let message = format!("Tenant does not exist for api key {key}");
            Err(Failure::coded(code::TENANT_NOT_FOUND_BY_API_KEY, message))
        }
    }
}

fn json(tenant: &Tenant) -> TenantJson<'_> {
    TenantJson {
        tenant_id: tenant.id.uuid(),
        external_key: tenant.external_key.as_deref(),
        api_key: &tenant.api_key,
        api_secret: None,
        audit_logs: vec![],
    }
}

/// Registers the callback for the tenant's events, in place of the previous one.
///
/// An address that is not public is refused, except with `push.allow_loopback` or the test clock.
#[utoipa::path(post, path = "/1.0/kb/tenants/registerNotificationCallback", tag = "Tenant",
    params(("cb" = String, Query, description = "The URL that events are sent to")),
    responses((status = 201, description = "Registered"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn register_callback(call: Call) -> HandlerResult {
    let url = call.query().text("cb")?.map(|url| url.into_owned());
    let url = url.filter(|url| is_callback(url)).ok_or_else(|| {
        Failure::illegal(format!(
            "cb should be an http or https URL of at most {CALLBACK_BYTES_MAX} characters"
        ))
    })?;
    let checked = (call.api.settings().check_callback)(&url);
    checked.map_err(|reason| Failure::illegal(format!("cb {reason}")))?;
    set_callback(&call, Some(url)).await?;
    Ok(reply::created(call.location(&["/1.0/kb/tenants/registerNotificationCallback"])))
}

/// Reads the callback for the tenant's events.
#[utoipa::path(get, path = "/1.0/kb/tenants/registerNotificationCallback", tag = "Tenant",
    responses((status = 200, body = TenantValueJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_callback(call: Call) -> HandlerResult {
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.tenant_value(tenant, PUSH_CALLBACK)).await?;
    let values = found.iter().filter_map(|found| found.value.as_deref()).map(Cow::from).collect();
    Ok(reply::ok(&TenantValueJson::new(PUSH_CALLBACK, values)))
}

/// Removes the callback for the tenant's events.
#[utoipa::path(delete, path = "/1.0/kb/tenants/registerNotificationCallback", tag = "Tenant",
    responses((status = 204, description = "Nothing is pushed any more"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete_callback(call: Call) -> HandlerResult {
    set_callback(&call, None).await?;
    Ok(reply::no_content())
}

async fn set_callback(call: &Call, value: Option<String>) -> Result<(), Failure> {
    let it = SetTenantValue::new(PUSH_CALLBACK.to_owned(), value);
    call.submit_change(Command::Tenant(TenantCommand::SetValue(it))).await
}

/// Whether the URL can be a callback; the settings check the address.
fn is_callback(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let http = matches!(uri.scheme_str(), Some("http" | "https"));
    let host = uri.host().is_some_and(|host| !host.is_empty());
    url.len() <= CALLBACK_BYTES_MAX && http && host && !url.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_are_http_urls_without_credentials() {
        for valid in ["http://127.0.0.1:9/cb", "https://example.com", "http://[::1]:80/x?y=z"] {
            assert!(is_callback(valid), "{valid}");
        }
        let long = format!("http://example.com/{}", "x".repeat(CALLBACK_BYTES_MAX));
        for refused in ["", "x", "ftp://example.com/", "/cb", "http://", "http://a:b@c/", &long] {
            assert!(!is_callback(refused), "{refused}");
        }
    }
}
