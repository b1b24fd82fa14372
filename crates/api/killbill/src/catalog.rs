//! A tenant's catalog: versions in XML, stored as they are uploaded. Nothing evaluates them.

mod reading;
#[cfg(test)]
mod recordings;
mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod versions;

use axum::response::Response;
use domain::Command;
use domain::catalog::Catalog;
use domain::command::TenantCommand;
use domain::tenant::{AppendTenantValue, CATALOG, SetTenantValue, TenantValue, VALUES_BYTES_MAX};
use engine::time::rfc3339_millis;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::account_related::check_account_of;
use crate::call::Call;
use crate::catalog::reading::Mistake;
use crate::catalog_xml::{self, Version};
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::reply;
use crate::request::printable;
use crate::xml;

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

/// Kill Bill's `CatalogValidationJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogValidationJson {
    catalog_validation_errors: Vec<CatalogValidationErrorJson>,
}

/// Kill Bill's `CatalogValidationErrorJson`, with the place.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogValidationErrorJson {
    error_description: String,
    /// From 1
    line: usize,
    /// With its name, where it has one
    element: String,
}

/// Lists what Kill Bill would find wrong in a version of the catalog, and stores nothing.
#[utoipa::path(post, path = "/1.0/kb/catalog/xml/validate", tag = "Catalog", operation_id = "validate",
    request_body(content = String, content_type = "text/xml"),
    responses((status = 200, description = "Its errors; none where it is valid", body = CatalogValidationJson),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn validate(call: Call) -> HandlerResult {
    let text = utf8(&call)?;
    let stored = stored(&call).await?;
    let others = stored.iter().flat_map(TenantValue::values);
    // What was stored before versions were compiled may not be one.
    let others: Vec<_> = others.filter_map(|it| compiled(it).ok()).collect();
    let errors = mistakes(text, &others).into_iter().map(|Mistake { line, element, text }| {
        CatalogValidationErrorJson { error_description: text, line, element }
    });
    Ok(reply::ok(&CatalogValidationJson { catalog_validation_errors: errors.collect() }))
}

fn utf8(call: &Call) -> Result<&str, Failure> {
    std::str::from_utf8(&call.body).map_err(|_| Failure::illegal("catalog is not valid UTF-8"))
}

/// The mistakes of a version, beside others.
fn mistakes(text: &str, others: &[Catalog]) -> Vec<Mistake> {
    match compiled(text) {
        Ok(catalog) => versions::beside(&catalog, others),
        Err(mistakes) => mistakes,
    }
}

fn compiled(text: &str) -> Result<Catalog, Vec<Mistake>> {
    let of_all = |line, text| vec![Mistake { line, element: "catalog".to_owned(), text }];
    // What cannot be stored is not read: a tree takes many times the memory of its text.
    if text.len() > VALUES_BYTES_MAX {
        return Err(of_all(1, "has more than 256 KiB".to_owned()));
    }
    let root = xml::read(text).map_err(|it| of_all(it.line, it.to_string()))?;
    schema::read(&root)
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
    let text = utf8(&call)?;
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
