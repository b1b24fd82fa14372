//! The versions that a flag or a segment had: when, by whom, why, and what changed with each.

use axum::Json;
use axum::extract::Path;
use domain::change::{Change, FlagChange};
use domain::flag::definition::{DefinitionKey, DefinitionKind};
use engine::ports::HistoryRow;
use engine::time::rfc3339;
use feature_flags::definition::to_json;
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::definitions::whole;
use super::find::{self, bug};
use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{EnvironmentParameters, NoFlag, NoSegment};
use crate::parameters::Window;

/// How many versions an answer has at most: each comes with its whole document.
const VERSIONS_MAX: u64 = 50;

/// Versions, newest first.
#[derive(Serialize, ToSchema)]
pub struct History {
    /// The versions of the page.
    versions: Vec<Version>,
    /// Whether older versions follow after this page.
    more: bool,
}

/// One version of a flag or a segment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Unix time in milliseconds, more than the version before.
    version: i64,
    /// When the version was created (RFC 3339).
    at: String,
    /// The user who created the version.
    user: String,
    /// The user's reason; `null` if none was given.
    reason: Option<String>,
    /// The user's comment; `null` if none was given.
    comment: Option<String>,
    /// The fields that differ from the version before, in the order of their names; `null` for the
    /// first version.
    changed: Option<Vec<String>>,
    /// The flag or segment as it was, in FeatBit's shape.
    #[schema(value_type = Object)]
    document: Value,
}

/// A window of the versions.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub struct VersionsParameters {
    /// How many to skip
    offset: Option<u64>,
    /// How many at most; 50 by default, and no more
    limit: Option<u64>,
}

/// The versions that a flag had, newest first: when, by whom, why, and what changed
#[utoipa::path(get, path = "/v1/flags/{key}/history", tag = "Feature flags", operation_id = "flag_history",
    params(("key" = String, Path, description = "The flag"), EnvironmentParameters, VersionsParameters),
    responses((status = 200, description = "The versions", body = History),
        (status = 403, description = "flag:read is missing"), NoFlag))]
pub async fn of_flag(call: Call, Path(key): Path<String>) -> Result<Json<History>, Error> {
    of(call, (DefinitionKind::Flag, key)).await
}

/// The versions that a segment had, newest first: when, by whom, why, and what changed
#[utoipa::path(get, path = "/v1/segments/{id}/history", tag = "Feature flags", operation_id = "segment_history",
    params(("id" = String, Path, description = "The segment's id"), EnvironmentParameters, VersionsParameters),
    responses((status = 200, description = "The versions", body = History),
        (status = 403, description = "flag:read is missing"), NoSegment))]
pub async fn of_segment(call: Call, Path(id): Path<String>) -> Result<Json<History>, Error> {
    of(call, (DefinitionKind::Segment, id)).await
}

async fn of(call: Call, (kind, key): (DefinitionKind, String)) -> Result<Json<History>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let window = Window(parameters.page_of(VERSIONS_MAX)?);
    let environment = find::environment(&api, &context, &mut parameters).await?;
    parameters.end()?;
    find::definition(&api, &environment, kind, &key).await?;
    let (no, key) = (environment.tenant, DefinitionKey { environment: environment.id, kind, key });
    // The row behind the page is also what its last version is compared with.
    let one_more = window.one_more();
    let rows =
        api.engine.read(move |queries| queries.definition_history(no, &key, one_more)).await?;
    let documents = rows.iter().map(document).collect::<Result<Vec<_>, _>>()?;
    let limit = whole(window.0.limit);
    let versions = rows.into_iter().zip(&documents).enumerate().take(limit);
    let versions = versions.map(|(at, (row, (version, document)))| Version {
        version: *version,
        at: rfc3339(row.at),
        user: row.actor.user,
        reason: row.actor.reason,
        comment: row.actor.comments,
        changed: documents.get(at + 1).map(|(_, before)| changed_fields(before, document)),
        document: document.clone(),
    });
    let versions: Vec<Version> = versions.collect();
    Ok(Json(History { more: documents.len() > versions.len(), versions }))
}

/// A version and its document.
fn document(row: &HistoryRow) -> Result<(i64, Value), Error> {
    let Change::Flag(FlagChange::Definition(it)) = &row.image else { return Err(bug()) };
    Ok((it.version, to_json(it)?))
}

/// The fields in which two documents differ, but for the time of the change.
pub fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return vec![] };
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let differs = |name: &&String| before.get(*name) != after.get(*name) && *name != "updatedAt";
    names.into_iter().filter(differs).cloned().collect()
}
