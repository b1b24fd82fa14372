//! A tenant's catalog: versions in XML, compiled when they are uploaded.

mod json;
pub(crate) mod listings;
mod reading;
#[cfg(test)]
mod recordings;
mod rules;
mod schema;
pub(crate) mod simple_plan;
pub(crate) mod subscribed;
#[cfg(test)]
mod tests;
mod versions;
mod write;

use std::sync::Arc;

use axum::response::Response;
use domain::catalog::Catalog;
use domain::command::TenantCommand;
use domain::read::TenantRow;
use domain::tenant::catalog::{CatalogVersion, UploadCatalog, VERSION_BYTES_MAX};
use domain::{Command, TenantNo};
use engine::ports::{Queries, StoreError};
use engine::time::rfc3339_millis;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::accounts::check_account_of;
use crate::call::Call;
use crate::catalog::json::CatalogJson;
use crate::catalog::reading::Mistake;
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::reply;
use crate::xml;

const XML: HeaderValue = HeaderValue::from_static("text/xml");

/// Stores a version of the catalog, beside those that are there: at most 100, of 1 MiB each.
#[utoipa::path(post, path = "/1.0/kb/catalog", tag = "Catalog", operation_id = "upload",
    request_body(content = String, content_type = "text/xml"),
    responses((status = 201, description = "Stored"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn upload(call: Call) -> HandlerResult {
    store(call, "/1.0/kb/catalog").await
}

/// Stores a version of the catalog, beside those that are there: at most 100, of 1 MiB each.
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
    let sold = sold(&call).await?;
    let found = compiled_beside(&call.body, sold.iter().map(|it| &*it.catalog));
    let errors = found.err().into_iter().flatten().map(|Mistake { line, element, text }| {
        CatalogValidationErrorJson { error_description: text, line, element }
    });
    Ok(reply::ok(&CatalogValidationJson { catalog_validation_errors: errors.collect() }))
}

/// Compiles a version, or lists its mistakes, also those that it has beside others.
fn compiled_beside<'a>(
    text: &[u8],
    others: impl Iterator<Item = &'a Catalog>,
) -> Result<Catalog, Vec<Mistake>> {
    let text = std::str::from_utf8(text).map_err(|_| of_all("is not valid UTF-8"))?;
    let catalog = compiled(text)?;
    let mistakes = versions::beside(&catalog, others);
    if mistakes.is_empty() { Ok(catalog) } else { Err(mistakes) }
}

fn of_all(text: impl Into<String>) -> Vec<Mistake> {
    vec![Mistake { line: 1, element: "catalog".to_owned(), text: text.into() }]
}

fn compiled(text: &str) -> Result<Catalog, Vec<Mistake>> {
    // A tree takes many times the memory of its text.
    if text.len() > VERSION_BYTES_MAX {
        return Err(of_all("has more than 1 MiB"));
    }
    let root = xml::read(text).map_err(|it| {
        let (line, text) = (it.line, it.to_string());
        vec![Mistake { line, element: "catalog".to_owned(), text }]
    })?;
    schema::read(&root)
}

/// Lists the versions of the catalog, the earliest first; with `requestedDate` the one in force then.
///
/// With `Accept: text/xml` it is the version in XML: see `GET /1.0/kb/catalog/xml`.
#[utoipa::path(get, path = "/1.0/kb/catalog", tag = "Catalog", operation_id = "catalog",
    params(("requestedDate" = Option<String>, Query), ("accountId" = Option<Uuid>, Query)),
    responses((status = 200, body = [CatalogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    if call.wants_xml() {
        return xml(call).await;
    }
    let versions = sold(&call).await?;
    let shown = match call.query().date("requestedDate")? {
        None => &versions[..],
        Some(at) => {
            let begun = versions.partition_point(|it| it.effective_at <= at);
            &versions[begun.saturating_sub(1)..begun]
        }
    };
    let json: Vec<_> = shown.iter().map(|it| CatalogJson::of(&it.catalog)).collect();
    Ok(reply::ok(&json))
}

/// Lists the effective dates of the catalog's versions, the earliest first.
#[utoipa::path(get, path = "/1.0/kb/catalog/versions", tag = "Catalog", operation_id = "versions",
    params(("accountId" = Option<Uuid>, Query)),
    responses((status = 200, body = [String]), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn versions(call: Call) -> HandlerResult {
    let versions = sold(&call).await?;
    let dates: Vec<_> = versions.iter().map(|it| rfc3339_millis(it.effective_at)).collect();
    Ok(reply::ok(&dates))
}

/// Reads a version of the catalog as it was uploaded, or with the simple plans that were added: the one in force at
/// `requestedDate`, without it the latest one.
#[utoipa::path(get, path = "/1.0/kb/catalog/xml", tag = "Catalog", operation_id = "version",
    params(("requestedDate" = Option<String>, Query), ("accountId" = Option<Uuid>, Query)),
    responses((status = 200, body = String, content_type = "text/xml"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn xml(call: Call) -> HandlerResult {
    let at = call.query().date("requestedDate")?;
    let versions = sold(&call).await?;
    let mut found = versions.iter().filter(|it| at.is_none_or(|at| it.effective_at <= at));
    let Some(found) = found.next_back().cloned() else {
        let code = code::plain(StatusCode::NOT_FOUND, class::CATALOG);
        return Err(Failure::coded(code, "there is no version of the catalog"));
    };
    let text = call.read(move |queries| text(queries, &found)).await?;
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, XML);
    Ok(response)
}

/// Sells nothing more from the versions that there are. Subscriptions go on.
#[utoipa::path(delete, path = "/1.0/kb/catalog", tag = "Catalog", operation_id = "delete",
    responses((status = 204, description = "There are none now"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete(call: Call) -> HandlerResult {
    call.submit_change(Command::Tenant(TenantCommand::WithdrawCatalog)).await?;
    Ok(reply::no_content())
}

async fn store(call: Call, path: &'static str) -> HandlerResult {
    let sold = sold(&call).await?;
    let compiled = compiled_beside(&call.body, sold.iter().map(|it| &*it.catalog));
    let catalog = compiled.map_err(|mistakes| {
        let first = mistakes.first().map(Mistake::shown).unwrap_or_default();
        let message = format!("Invalid catalog for tenant : {}: {first}", call.tenant().0);
        Failure::coded(code::INVALID_CATALOG, message)
    })?;
    let text = String::from_utf8_lossy(&call.body).into_owned();
    let it = UploadCatalog { text, catalog: Box::new(catalog) };
    call.submit_change(Command::Tenant(TenantCommand::UploadCatalog(it))).await?;
    Ok(reply::created(call.location(&[path])))
}

/// The versions that are sold from, the earliest first.
async fn sold(call: &Call) -> Result<Vec<CatalogVersion>, Failure> {
    if let Some(account) = call.query_id("accountId")? {
        check_account_of(call, account).await?;
    }
    let tenant = call.tenant();
    call.read(move |queries| sold_by(queries, tenant)).await
}

/// The version that is in force; before the first one, that one.
async fn in_force(call: &Call) -> Result<Option<Arc<Catalog>>, Failure> {
    let now = call.api.engine().clock().now();
    let mut sold = sold(call).await?;
    let later = sold.partition_point(|it| it.effective_at <= now);
    sold.truncate(later.max(1));
    Ok(sold.pop().map(|it| it.catalog))
}

fn sold_by(queries: &dyn Queries, tenant: TenantNo) -> Result<Vec<CatalogVersion>, StoreError> {
    let state = queries.rows(&[TenantRow::CatalogVersions(tenant).into()].into())?;
    let versions = state.tenant.catalog_versions.of(&tenant).values();
    let mut sold: Vec<_> = versions.filter(|it| !it.is_withdrawn).cloned().collect();
    sold.sort_by_key(|it| it.effective_at);
    Ok(sold)
}

/// The texts of the versions that are sold from, in the order of uploads.
pub(crate) fn texts(queries: &dyn Queries, tenant: TenantNo) -> Result<Vec<String>, StoreError> {
    let mut sold = sold_by(queries, tenant)?;
    sold.sort_by_key(|it| it.id);
    sold.iter().map(|it| text(queries, it)).collect()
}

/// The text of a version, which is written where simple plans were added.
fn text(queries: &dyn Queries, it: &CatalogVersion) -> Result<String, StoreError> {
    let uploaded = queries.catalog_text(it.tenant, it.id)?.filter(|text| !text.is_empty());
    Ok(uploaded.unwrap_or_else(|| write::xml(&it.catalog)))
}
