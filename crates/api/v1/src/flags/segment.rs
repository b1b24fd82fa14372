//! Segments, one by one: see `definitions` for what they have in common with segments.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::definition::DefinitionKind;
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};

use super::definitions::{self, ChangeRequest};
use crate::Api;
use crate::caller::RequestContext;
use crate::error::Error;

/// The segments of an environment.
#[utoipa::path(
    get,
    path = "/v1/segments",
    tag = "Feature flags",
    operation_id = "segments",
    summary = "The segments of an environment, in the order of their ids",
    params(
        ("environment" = Option<String>, Query, description = "Its key; dev by default"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
        ("archived" = Option<bool>, Query, description = "Archived ones; the others by default"),
        ("offset" = Option<u64>, Query, description = "How many to skip"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most"),
    ),
    responses(
        (status = 200, description = "{\"segments\": [...], \"more\": true}, in FeatBit's shape"),
        (status = 403, description = "flag:read is missing"),
        (status = 404, description = "There is no such environment"),
    )
)]
pub async fn list(
    State(api): State<Api>,
    context: RequestContext,
    uri: Uri,
) -> Result<Json<Value>, Error> {
    let (segments, more) = definitions::list((api, context), &uri, DefinitionKind::Segment).await?;
    Ok(Json(json!({ "segments": segments, "more": more })))
}

/// Creates a segment.
#[utoipa::path(
    post,
    path = "/v1/segments",
    tag = "Feature flags",
    operation_id = "create_segment",
    summary = "Makes a segment, in FeatBit's shape",
    params(
        ("environment" = Option<String>, Query, description = "Its key; dev by default"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
    ),
    responses(
        (status = 201, description = "It was made; ETag is its version"),
        (status = 400, description = "The body is no segment"),
        (status = 403, description = "flag:write is missing"),
        (status = 404, description = "There is no such environment"),
        (status = 409, description = "There is a segment of this id"),
        (status = 422, description = "Fields are wrong: all are listed"),
    )
)]
pub async fn create(
    State(api): State<Api>,
    context: RequestContext,
    uri: Uri,
    body: Body,
) -> Result<Response, Error> {
    definitions::create((api, context), &uri, body, DefinitionKind::Segment).await
}

/// Shows a segment.
#[utoipa::path(
    get,
    path = "/v1/segments/{id}",
    tag = "Feature flags",
    operation_id = "segment",
    summary = "A segment, in FeatBit's shape; ETag is its version",
    params(
        ("id" = String, Path, description = "The segment's id"),
        ("environment" = Option<String>, Query, description = "Its key; dev by default"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
    ),
    responses(
        (status = 200, description = "What was asked for"),
        (status = 403, description = "flag:read is missing"),
        (status = 404, description = "There is no such environment or segment"),
    )
)]
pub async fn show(
    State(api): State<Api>,
    context: RequestContext,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, Error> {
    definitions::show((api, context), &id, &uri, DefinitionKind::Segment).await
}

/// Replaces a segment.
#[utoipa::path(
    put,
    path = "/v1/segments/{id}",
    tag = "Feature flags",
    operation_id = "put_segment",
    summary = "Puts another segment in its place, of the version that If-Match names",
    params(
        ("id" = String, Path, description = "The segment's id"),
        ("environment" = Option<String>, Query, description = "Its key; dev by default"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
        ("If-Match" = Option<String>, Header, description = "The version that is to be changed"),
    ),
    responses(
        (status = 200, description = "The segment as it is now; ETag is its version"),
        (status = 400, description = "The body is no segment"),
        (status = 403, description = "flag:write is missing"),
        (status = 404, description = "There is no such environment or segment"),
        (status = 412, description = "It is in another version, which the problem names"),
        (status = 422, description = "Fields are wrong: all are listed"),
    )
)]
pub async fn put(
    State(api): State<Api>,
    context: RequestContext,
    Path(id): Path<String>,
    (uri, headers): (Uri, HeaderMap),
    body: Body,
) -> Result<Response, Error> {
    let (key, uri, headers) = (id.as_str(), &uri, &headers);
    let request = ChangeRequest { key, uri, headers, kind: DefinitionKind::Segment };
    request.put((api, context), body).await
}

/// Changes fields of a segment.
#[utoipa::path(
    patch,
    path = "/v1/segments/{id}",
    tag = "Feature flags",
    operation_id = "patch_segment",
    summary = "Changes fields of a segment (RFC 7396), such as included, of the version that If-Match names",
    params(
        ("id" = String, Path, description = "The segment's id"),
        ("environment" = Option<String>, Query, description = "Its key; dev by default"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
        ("If-Match" = Option<String>, Header, description = "The version that is to be changed"),
    ),
    responses(
        (status = 200, description = "The segment as it is now; ETag is its version"),
        (status = 400, description = "A field is none of a segment's, or cannot change"),
        (status = 403, description = "flag:write is missing"),
        (status = 404, description = "There is no such environment or segment"),
        (status = 412, description = "It is in another version, which the problem names"),
        (status = 422, description = "Fields are wrong: all are listed"),
    )
)]
pub async fn patch(
    State(api): State<Api>,
    context: RequestContext,
    Path(id): Path<String>,
    (uri, headers): (Uri, HeaderMap),
    body: Body,
) -> Result<Response, Error> {
    let (key, uri, headers) = (id.as_str(), &uri, &headers);
    let request = ChangeRequest { key, uri, headers, kind: DefinitionKind::Segment };
    request.patch((api, context), body).await
}

/// Archives a segment.
#[utoipa::path(
    delete,
    path = "/v1/segments/{id}",
    tag = "Feature flags",
    operation_id = "archive_segment",
    summary = "Archives a segment, out of the list: flags that ask about it go on, and PATCH with isArchived false brings it back",
    params(
        ("id" = String, Path, description = "The segment's id"),
        ("environment" = Option<String>, Query, description = "Its key; dev by default"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
        ("If-Match" = Option<String>, Header, description = "The version that is to be changed"),
    ),
    responses(
        (status = 204, description = "It is archived"),
        (status = 403, description = "flag:write is missing"),
        (status = 404, description = "There is no such environment or segment"),
        (status = 412, description = "It is in another version, which the problem names"),
    )
)]
pub async fn archive(
    State(api): State<Api>,
    context: RequestContext,
    Path(id): Path<String>,
    (uri, headers): (Uri, HeaderMap),
) -> Result<StatusCode, Error> {
    let (key, uri, headers) = (id.as_str(), &uri, &headers);
    let request = ChangeRequest { key, uri, headers, kind: DefinitionKind::Segment };
    request.archive((api, context)).await
}
