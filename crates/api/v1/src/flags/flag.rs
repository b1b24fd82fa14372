//! Flags, one by one: see `definitions` for what they have in common with segments.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use domain::flag::definition::DefinitionKind;
use http::StatusCode;
use serde_json::{Value, json};

use super::definitions;
use super::schemas::{FlagDocument, FlagPage, FlagPatch, FlagRequest};
use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{
    AnotherVersion, EnvironmentParameters, IfMatch, InvalidDefinition, NoEnvironment, NoFlag,
    PageParameters,
};

/// The flags of an environment, in the order of their keys
#[utoipa::path(get, path = "/v1/flags", tag = "Feature flags", operation_id = "flags",
    params(EnvironmentParameters,
        ("archived" = Option<bool>, Query, description = "Archived ones; the others by default"),
        PageParameters),
    responses((status = 200, description = "A page of them", body = FlagPage),
        (status = 403, description = "flag:read is missing"), NoEnvironment))]
pub async fn list(call: Call) -> Result<Json<Value>, Error> {
    let (flags, more) = definitions::list(call, DefinitionKind::Flag).await?;
    Ok(Json(json!({ "flags": flags, "more": more })))
}

/// Creates a flag, in FeatBit's shape
#[utoipa::path(post, path = "/v1/flags", tag = "Feature flags", operation_id = "create_flag",
    params(EnvironmentParameters), request_body = FlagRequest,
    responses((status = 201, description = "Created; ETag is its version", body = FlagDocument),
        (status = 403, description = "flag:write is missing"),
        (status = 409, description = "There is a flag of this key"), NoEnvironment, InvalidDefinition))]
pub async fn create(call: Call, body: Body) -> Result<Response, Error> {
    definitions::create(call, DefinitionKind::Flag, body).await
}

/// A flag, in FeatBit's shape; ETag is its version
#[utoipa::path(get, path = "/v1/flags/{key}", tag = "Feature flags", operation_id = "flag",
    params(("key" = String, Path, description = "The flag's key"), EnvironmentParameters),
    responses((status = 200, description = "The flag; ETag is its version", body = FlagDocument),
        (status = 403, description = "flag:read is missing"), NoFlag))]
pub async fn show(call: Call, Path(key): Path<String>) -> Result<Response, Error> {
    definitions::show(call, (DefinitionKind::Flag, &key)).await
}

/// Replaces a flag, in the version that If-Match names
#[utoipa::path(put, path = "/v1/flags/{key}", tag = "Feature flags", operation_id = "put_flag",
    params(("key" = String, Path, description = "The flag's key"), EnvironmentParameters, IfMatch),
    request_body = FlagRequest,
    responses((status = 200, description = "The flag as it is now; ETag is its version", body = FlagDocument),
        (status = 403, description = "flag:write is missing"), NoFlag, AnotherVersion, InvalidDefinition))]
pub async fn put(call: Call, Path(key): Path<String>, body: Body) -> Result<Response, Error> {
    definitions::put(call, (DefinitionKind::Flag, &key), body).await
}

/// Changes fields of a flag (RFC 7396), such as isEnabled, of the version that If-Match names
#[utoipa::path(patch, path = "/v1/flags/{key}", tag = "Feature flags", operation_id = "patch_flag",
    params(("key" = String, Path, description = "The flag's key"), EnvironmentParameters, IfMatch),
    request_body = FlagPatch,
    responses((status = 200, description = "The flag as it is now; ETag is its version", body = FlagDocument),
        (status = 403, description = "flag:write is missing"), NoFlag, AnotherVersion, InvalidDefinition))]
pub async fn patch(call: Call, Path(key): Path<String>, body: Body) -> Result<Response, Error> {
    definitions::patch(call, (DefinitionKind::Flag, &key), body).await
}

/// Archives a flag: it has no value then, and PATCH with isArchived false brings it back
#[utoipa::path(delete, path = "/v1/flags/{key}", tag = "Feature flags", operation_id = "archive_flag",
    params(("key" = String, Path, description = "The flag's key"), EnvironmentParameters, IfMatch),
    responses((status = 204, description = "It is archived"),
        (status = 403, description = "flag:write is missing"), NoFlag, AnotherVersion))]
pub async fn archive(call: Call, Path(key): Path<String>) -> Result<StatusCode, Error> {
    definitions::archive(call, (DefinitionKind::Flag, &key)).await
}
