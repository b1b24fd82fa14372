//! A whole environment in FeatBit's shape: taken in, all or nothing, and given out.

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use domain::definition::{DEFINITIONS_MAX, Definition, Expected, NewDefinition, PutDefinitions};
use domain::environment::Environment;
use domain::{EnvironmentId, Reply};
use evaluation::{Flag, Segment};
use http::Uri;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::definitions::{TRIES_MAX, is_changed};
use super::find::{self, bug};
use super::input;
use super::patch::{FlagIds, new_flag, new_segment, taken};
use super::turn::Turn;
use crate::document;
use crate::native::Native;
use crate::native::caller::Asking;
use crate::native::parameters::{Parameters, invalid};
use crate::problem::{Problem, WrongField};

/// Flags and segments in FeatBit's shape. What it has besides is passed over.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Documents {
    /// The flags.
    #[serde(default)]
    feature_flags: Vec<Flag>,
    /// The segments.
    #[serde(default)]
    segments: Vec<Segment>,
}

/// What was taken in, or would be.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// How many flags.
    feature_flags: usize,
    /// How many segments.
    segments: usize,
    /// The version that all of them have now; the environment's where nothing was taken in.
    version: i64,
    /// Whether they were only looked at.
    dry_run: bool,
}

/// Takes flags and segments in.
#[utoipa::path(
    post,
    path = "/v1/environments/{key}/import",
    tag = "Feature flags",
    operation_id = "import_flags",
    summary = "Takes flags and segments in FeatBit's shape in, all or none; those of the same key or id are replaced",
    params(
        ("key" = String, Path, description = "The environment"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
        ("dryRun" = Option<bool>, Query, description = "Takes nothing in, and says whether it could; false by default"),
    ),
    responses(
        (status = 200, description = "All were taken in, or could be", body = Imported),
        (status = 400, description = "The body is no such JSON, or has too many"),
        (status = 403, description = "flag:write is missing"),
        (status = 404, description = "There is no such environment"),
        (status = 422, description = "Fields are wrong: all are listed, nothing was taken in"),
    )
)]
pub async fn import(
    State(native): State<Native>,
    asking: Asking,
    Path(key): Path<String>,
    uri: Uri,
    body: Body,
) -> Result<Json<Imported>, Problem> {
    asking.require("flag:write")?;
    let mut parameters = Parameters::of(&uri)?;
    let environment = find::environment_by_key(&native, &asking, key, &mut parameters).await?;
    let dry_run = parameters.is("dryRun")?;
    parameters.end()?;
    let documents: Documents = input::json(body).await?;
    let (flags, segments) = (documents.feature_flags.len(), documents.segments.len());
    if !(1..=DEFINITIONS_MAX).contains(&(flags + segments)) {
        let reason = format!("1 to {DEFINITIONS_MAX} flags and segments were expected");
        return Err(invalid("body", reason));
    }
    let imported = |version| Imported { feature_flags: flags, segments, version, dry_run };
    let mut turn = Turn::new(&native);
    for _ in 0..TRIES_MAX {
        let environment = find::environment_by_id(&native, &asking, environment.id).await?;
        let definitions = fitting(&native, &environment, documents.clone()).await?;
        if dry_run {
            return Ok(Json(imported(environment.version)));
        }
        // Segments were looked at as a whole: see `Place::look`.
        let version = (segments > 0).then_some(environment.version);
        match put(&turn, &asking, (environment.id, version), definitions).await {
            Ok(version) => return Ok(Json(imported(version))),
            Err(Problem::Rejected(it)) if is_changed(&it) => turn.wait_to_be_alone().await,
            Err(problem) => return Err(problem),
        }
    }
    Err(Problem::Contended)
}

/// What is to be put of documents in an environment, which has to have room for them.
async fn fitting(
    native: &Native,
    environment: &Environment,
    documents: Documents,
) -> Result<Vec<NewDefinition>, Problem> {
    let there = find::definitions(native, environment).await?;
    let definitions = checked(documents, &there).await?;
    let keys: BTreeSet<_> = there.iter().map(|it| (it.key.kind, it.key.key.as_str())).collect();
    let new = definitions.iter().filter(|it| !keys.contains(&(it.kind, it.key.as_str())));
    if keys.len() + new.count() > DEFINITIONS_MAX {
        let reason = format!("the environment would have more than {DEFINITIONS_MAX}");
        return Err(invalid("body", reason));
    }
    Ok(definitions)
}

/// Puts definitions; the version that they have then.
async fn put(
    turn: &Turn<'_>,
    asking: &Asking,
    (environment, version): (EnvironmentId, Option<i64>),
    definitions: Vec<NewDefinition>,
) -> Result<i64, Problem> {
    let put = PutDefinitions { environment, version, definitions };
    match turn.put(asking, put).await? {
        Reply::DefinitionsPut { version } => Ok(version),
        Reply::Done
        | Reply::TenantCreated(_)
        | Reply::UserCreated(_)
        | Reply::RoleCreated(_)
        | Reply::AccountCreated(_)
        | Reply::PaymentMethodCreated(_)
        | Reply::EnvironmentCreated(_)
        | Reply::SecretAdded(_)
        | Reply::ChangeRequested(_)
        | Reply::Customer(_)
        | Reply::Payment(_) => Err(bug()),
    }
}

/// What is to be put of documents among those that are there: all problems at once.
async fn checked(
    documents: Documents,
    there: &[Definition],
) -> Result<Vec<NewDefinition>, Problem> {
    let Documents { feature_flags, segments } = documents;
    let (mut wrong, mut ids) = (vec![], FlagIds::of(there));
    let mut new = Vec::with_capacity(feature_flags.len() + segments.len());
    for (at, segment) in segments.iter().enumerate() {
        let path = format!("segments[{at}]");
        take(new_segment(&path, segment, Expected::Anything), &mut new, &mut wrong)?;
    }
    for (at, flag) in feature_flags.iter().enumerate() {
        let path = format!("featureFlags[{at}]");
        if input::check_key("key", &flag.key).is_err() {
            wrong.push(WrongField { field: format!("{path}.key"), reason: "is no key".to_owned() });
        }
        let found = new_flag(&path, flag, Expected::Anything);
        if found.as_ref().is_ok_and(|it| !ids.takes(it)) {
            wrong.push(taken(&path));
        }
        take(found, &mut new, &mut wrong)?;
    }
    match input::check(feature_flags, segments, input::segments_of(there)?).await {
        Err(Problem::WrongFields(more)) => wrong.extend(more),
        Err(problem) => return Err(problem),
        Ok(()) => {}
    }
    if wrong.is_empty() { Ok(new) } else { Err(input::wrong(wrong)) }
}

/// Adds what can be put, or why not, so that all problems are told.
fn take(
    found: Result<NewDefinition, Problem>,
    new: &mut Vec<NewDefinition>,
    wrong: &mut Vec<WrongField>,
) -> Result<(), Problem> {
    match found {
        Ok(found) => new.push(found),
        Err(Problem::WrongFields(more)) => wrong.extend(more),
        Err(problem) => return Err(problem),
    }
    Ok(())
}

/// Gives everything out.
#[utoipa::path(
    get,
    path = "/v1/environments/{key}/export",
    tag = "Feature flags",
    operation_id = "export_flags",
    summary = "All flags and segments of an environment in FeatBit's shape, those put away too",
    params(
        ("key" = String, Path, description = "The environment"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
    ),
    responses(
        (status = 200, description = "{\"featureFlags\": [...], \"segments\": [...]}"),
        (status = 403, description = "flag:read is missing"),
        (status = 404, description = "There is no such environment"),
    )
)]
pub async fn export(
    State(native): State<Native>,
    asking: Asking,
    Path(key): Path<String>,
    uri: Uri,
) -> Result<Json<Documents>, Problem> {
    asking.require("flag:read")?;
    let mut parameters = Parameters::of(&uri)?;
    let environment = find::environment_by_key(&native, &asking, key, &mut parameters).await?;
    parameters.end()?;
    let all = find::definitions(&native, &environment).await?;
    let split = document::split(&all).map_err(|error| input::unreadable(&error))?;
    let (feature_flags, segments) = split;
    Ok(Json(Documents { feature_flags, segments }))
}
