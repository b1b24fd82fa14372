//! Import of many definitions in FeatBit's shape, all or none, and export of all.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use evaluation::{Flag, Segment};
use feature_flags::document;
use feature_flags::import::Import;
use feature_flags::writer::TRIES_MAX;
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use super::schemas::{Export, ImportRequest};
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{NoEnvironment, ProjectParameter};

/// Flags and segments in FeatBit's shape.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Documents {
    feature_flags: Vec<Flag>,
    segments: Vec<Segment>,
}

/// The result of an import, or of its dry run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// The number of flags.
    feature_flags: usize,
    /// The number of segments.
    segments: usize,
    /// The version of the imported definitions; the environment's if nothing was imported.
    version: i64,
    /// Whether they were only validated.
    dry_run: bool,
}

/// Imports flags and segments in FeatBit's shape, all or none; those of the same key or id are replaced
#[utoipa::path(post, path = "/v1/environments/{key}/import", tag = "Feature flags", operation_id = "import_flags",
    params(("key" = String, Path, description = "The environment"),
        ProjectParameter,
        ("dryRun" = Option<bool>, Query, description = "Validates without importing; false by default")),
    request_body = ImportRequest,
    responses((status = 200, description = "All are imported, or could be", body = Imported),
        (status = 400, description = "The body is no such JSON, or has too many"),
        (status = 422, description = "Fields are invalid: all are listed, nothing is imported"),
        (status = 403, description = "flag:write is missing"), NoEnvironment))]
pub async fn import(
    call: Call,
    Path(key): Path<String>,
    body: Body,
) -> Result<Json<Imported>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:write")?;
    let environment = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    let dry_run = parameters.is("dryRun")?;
    parameters.end()?;
    let sent = Import::parse(input::json(body, &context.tenant).await?)?;
    let (flags, segments) = sent.counts();
    let imported = |version| Imported { feature_flags: flags, segments, version, dry_run };
    let id = environment.id;
    let name = find::name(&environment);
    let _lock = match dry_run {
        true => None,
        false => Some(api.write_locks.environment(&name).await),
    };
    let writer = find::writer(&api, &context);
    for _ in 0..TRIES_MAX {
        let environment = find::environment_by_id(&api, &context, id).await?;
        let existing = find::definitions(&api, &environment).await?;
        let definitions = sent.clone().validate(&existing).await?;
        if dry_run {
            return Ok(Json(imported(environment.version)));
        }
        // Segments are validated against each other.
        let version = (segments > 0).then_some(environment.version);
        match writer.put(&environment, version, definitions).await {
            Ok(version) => return Ok(Json(imported(version))),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Contended)
}

/// All flags and segments of an environment in FeatBit's shape, archived ones too
#[utoipa::path(get, path = "/v1/environments/{key}/export", tag = "Feature flags", operation_id = "export_flags",
    params(("key" = String, Path, description = "The environment"), ProjectParameter),
    responses((status = 200, description = "All of them", body = Export),
        (status = 403, description = "flag:read is missing"), NoEnvironment))]
pub async fn export(call: Call, Path(key): Path<String>) -> Result<Json<Documents>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let environment = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    parameters.end()?;
    let all = find::definitions(&api, &environment).await?;
    let (feature_flags, segments) = document::split(&all)?;
    Ok(Json(Documents { feature_flags, segments }))
}
