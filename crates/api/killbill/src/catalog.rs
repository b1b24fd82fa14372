//! A tenant's catalog: versions in XML, stored as they are uploaded. Nothing evaluates them.

use axum::response::Response;
use domain::Command;
use domain::command::TenantCommand;
use domain::tenant::{AppendTenantValue, CATALOG, SetTenantValue, TenantValue};
use engine::time::rfc3339_millis;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::account_related::check_account_of;
use crate::call::Call;
use crate::catalog_xml::{self, Version};
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::reply;
use crate::request::printable;

const XML: HeaderValue = HeaderValue::from_static("text/xml");

/// Kill Bill's `CatalogJson`. What a version offers is not read, so that its lists are empty.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogJson<'a> {
    name: &'a str,
    effective_date: String,
    #[schema(value_type = Vec<String>)]
    currencies: [(); 0],
    #[schema(value_type = Vec<Object>)]
    units: [(); 0],
    #[schema(value_type = Vec<Object>)]
    products: [(); 0],
    #[schema(value_type = Vec<Object>)]
    price_lists: [(); 0],
}

/// Stores a version of the catalog, beside those that are there: at most 100, together at most 256 KiB.
#[utoipa::path(post, path = "/1.0/kb/catalog", tag = "Catalog", operation_id = "upload",
    request_body(content = String, content_type = "text/xml"),
    responses((status = 201, description = "Stored"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn upload(call: Call) -> HandlerResult {
    store(call, "/1.0/kb/catalog").await
}

/// Stores a version of the catalog, beside those that are there: at most 100, together at most 256 KiB.
#[utoipa::path(post, path = "/1.0/kb/catalog/xml", tag = "Catalog", operation_id = "upload_xml",
    request_body(content = String, content_type = "text/xml"),
    responses((status = 201, description = "Stored"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn upload_xml(call: Call) -> HandlerResult {
    store(call, "/1.0/kb/catalog/xml").await
}

/// Lists the versions of the catalog with name and date, the earliest first; with `requestedDate` the one in
/// effect then.
///
/// With `Accept: text/xml` it is the version in XML: see `GET /1.0/kb/catalog/xml`.
#[utoipa::path(get, path = "/1.0/kb/catalog", tag = "Catalog", operation_id = "versions",
    params(("requestedDate" = Option<String>, Query), ("accountId" = Option<Uuid>, Query)),
    responses((status = 200, body = [CatalogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn versions(call: Call) -> HandlerResult {
    if call.wants_xml() {
        return xml(call).await;
    }
    let stored = stored(&call).await?;
    let versions = in_order(stored.as_ref());
    let versions = match call.query().date("requestedDate")? {
        None => versions,
        Some(at) => versions.into_iter().rfind(|it| it.0.effective_at <= at).into_iter().collect(),
    };
    let json: Vec<_> = versions.iter().map(|(version, _)| json(version)).collect();
    Ok(reply::ok(&json))
}

/// Reads a version of the catalog as it was uploaded: the one in effect at `requestedDate`, without it the
/// latest one.
#[utoipa::path(get, path = "/1.0/kb/catalog/xml", tag = "Catalog", operation_id = "version",
    params(("requestedDate" = Option<String>, Query), ("accountId" = Option<Uuid>, Query)),
    responses((status = 200, body = String, content_type = "text/xml"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn xml(call: Call) -> HandlerResult {
    let stored = stored(&call).await?;
    let at = call.query().date("requestedDate")?;
    let versions = in_order(stored.as_ref());
    let mut versions = versions.into_iter();
    let Some((_, text)) = versions.rfind(|it| at.is_none_or(|at| it.0.effective_at <= at)) else {
        let code = code::plain(StatusCode::NOT_FOUND, class::CATALOG);
        return Err(Failure::coded(code, "there is no version of the catalog"));
    };
    let mut response = Response::new(text.to_owned().into());
    response.headers_mut().insert(CONTENT_TYPE, XML);
    Ok(response)
}

/// Deletes all versions of the catalog.
#[utoipa::path(delete, path = "/1.0/kb/catalog", tag = "Catalog", operation_id = "delete",
    responses((status = 204, description = "There are none now"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let it = SetTenantValue::new(CATALOG.to_owned(), None);
    call.submit_change(Command::Tenant(TenantCommand::SetValue(it))).await?;
    Ok(reply::no_content())
}

async fn store(call: Call, path: &'static str) -> HandlerResult {
    let text = std::str::from_utf8(&call.body)
        .map_err(|_| Failure::illegal("catalog is not valid UTF-8"))?;
    let version =
        catalog_xml::read(text).map_err(|refusal| Failure::illegal(refusal.to_string()))?;
    let stored = stored(&call).await?;
    for (other, _) in in_order(stored.as_ref()) {
        if other.name != version.name {
            let name = printable(&other.name);
            let reason = format!("catalog catalogName should be {name}, as in other versions");
            return Err(Failure::illegal(reason));
        }
        if other.effective_at == version.effective_at {
            let reason = "catalog effectiveDate is that of another version";
            return Err(Failure::illegal(reason));
        }
    }
    let it = AppendTenantValue { key: CATALOG.to_owned(), value: text.to_owned() };
    call.submit_change(Command::Tenant(TenantCommand::AppendValue(it))).await?;
    Ok(reply::created(call.location(&[path])))
}

async fn stored(call: &Call) -> Result<Option<TenantValue>, Failure> {
    if let Some(account) = call.query_id("accountId")? {
        check_account_of(call, account).await?;
    }
    let tenant = call.tenant();
    call.read(move |queries| queries.tenant_value(tenant, CATALOG)).await
}

/// The versions with their texts, the earliest first.
fn in_order(stored: Option<&TenantValue>) -> Vec<(Version, &str)> {
    let texts = stored.into_iter().flat_map(TenantValue::values);
    let read = |text| Some((catalog_xml::read(text).ok()?, text));
    let mut versions: Vec<_> = texts.filter_map(read).collect();
    versions.sort_by_key(|(version, _)| version.effective_at);
    versions
}

fn json(version: &Version) -> CatalogJson<'_> {
    CatalogJson {
        name: &version.name,
        effective_date: rfc3339_millis(version.effective_at),
        currencies: [],
        units: [],
        products: [],
        price_lists: [],
    }
}
