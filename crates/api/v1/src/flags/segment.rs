//! Segments, one by one: see `definitions` for what they have in common with segments.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use domain::flag::definition::DefinitionKind;
use http::StatusCode;
use serde_json::{Value, json};

use super::definitions;
use super::schemas::{SegmentDocument, SegmentPage, SegmentPatch, SegmentRequest};
use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{
    AnotherVersion, EnvironmentParameters, IfMatch, InvalidDefinition, NoEnvironment, NoSegment,
    PageParameters,
};

/// The segments of an environment, in the order of their ids
#[utoipa::path(get, path = "/v1/segments", tag = "Feature flags", operation_id = "segments",
    params(EnvironmentParameters,
        ("archived" = Option<bool>, Query, description = "Archived ones; the others by default"),
        PageParameters),
    responses((status = 200, description = "A page of them", body = SegmentPage),
        (status = 403, description = "flag:read is missing"), NoEnvironment))]
pub async fn list(call: Call) -> Result<Json<Value>, Error> {
    let (segments, more) = definitions::list(call, DefinitionKind::Segment).await?;
    Ok(Json(json!({ "segments": segments, "more": more })))
}

/// Creates a segment, in FeatBit's shape
#[utoipa::path(post, path = "/v1/segments", tag = "Feature flags", operation_id = "create_segment",
    params(EnvironmentParameters), request_body = SegmentRequest,
    responses((status = 201, description = "Created; ETag is its version", body = SegmentDocument),
        (status = 403, description = "flag:write is missing"),
        (status = 409, description = "There is a segment of this id"), NoEnvironment, InvalidDefinition))]
pub async fn create(call: Call, body: Body) -> Result<Response, Error> {
    definitions::create(call, DefinitionKind::Segment, body).await
}

/// A segment, in FeatBit's shape; ETag is its version
#[utoipa::path(get, path = "/v1/segments/{id}", tag = "Feature flags", operation_id = "segment",
    params(("id" = String, Path, description = "The segment's id"), EnvironmentParameters),
    responses((status = 200, description = "The segment; ETag is its version", body = SegmentDocument),
        (status = 403, description = "flag:read is missing"), NoSegment))]
pub async fn show(call: Call, Path(id): Path<String>) -> Result<Response, Error> {
    definitions::show(call, (DefinitionKind::Segment, &id)).await
}

/// Replaces a segment, in the version that If-Match names
#[utoipa::path(put, path = "/v1/segments/{id}", tag = "Feature flags", operation_id = "put_segment",
    params(("id" = String, Path, description = "The segment's id"), EnvironmentParameters, IfMatch),
    request_body = SegmentRequest,
    responses((status = 200, description = "The segment as it is now; ETag is its version", body = SegmentDocument),
        (status = 403, description = "flag:write is missing"), NoSegment, AnotherVersion, InvalidDefinition))]
pub async fn put(call: Call, Path(id): Path<String>, body: Body) -> Result<Response, Error> {
    definitions::put(call, (DefinitionKind::Segment, &id), body).await
}

/// Changes fields of a segment (RFC 7396), such as included, of the version that If-Match names
#[utoipa::path(patch, path = "/v1/segments/{id}", tag = "Feature flags", operation_id = "patch_segment",
    params(("id" = String, Path, description = "The segment's id"), EnvironmentParameters, IfMatch),
    request_body = SegmentPatch,
    responses((status = 200, description = "The segment as it is now; ETag is its version", body = SegmentDocument),
        (status = 403, description = "flag:write is missing"), NoSegment, AnotherVersion, InvalidDefinition))]
pub async fn patch(call: Call, Path(id): Path<String>, body: Body) -> Result<Response, Error> {
    definitions::patch(call, (DefinitionKind::Segment, &id), body).await
}

/// Archives a segment, out of the list: flags that ask about it go on, and PATCH with isArchived false brings it back
#[utoipa::path(delete, path = "/v1/segments/{id}", tag = "Feature flags", operation_id = "archive_segment",
    params(("id" = String, Path, description = "The segment's id"), EnvironmentParameters, IfMatch),
    responses((status = 204, description = "It is archived"),
        (status = 403, description = "flag:write is missing"), NoSegment, AnotherVersion))]
pub async fn archive(call: Call, Path(id): Path<String>) -> Result<StatusCode, Error> {
    definitions::archive(call, (DefinitionKind::Segment, &id)).await
}
