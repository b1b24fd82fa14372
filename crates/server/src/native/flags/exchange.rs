//! A whole environment in FeatBit's shape: taken in, all or nothing, and given out.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use domain::definition::{DEFINITIONS_MAX, Definition, Expected, NewDefinition, PutDefinitions};
use domain::environment::Environment;
use domain::{EnvironmentId, Reply};
use evaluation::{Flag, Segment};
use http::Uri;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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

/// Flags and segments in FeatBit's shape.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Documents {
    /// The flags.
    feature_flags: Vec<Flag>,
    /// The segments.
    segments: Vec<Segment>,
}

/// What was sent to be taken in. What documents have besides is passed over.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    #[serde(default)]
    feature_flags: Vec<Value>,
    #[serde(default)]
    segments: Vec<Value>,
    /// What the shape does not have.
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// What was sent, as far as it can be read.
#[derive(Clone, Default)]
struct Read {
    /// The flags; an empty one in the place of one that cannot be read.
    flags: Vec<Flag>,
    /// The segments; of one that cannot be read nothing but its id, so that it is found.
    segments: Vec<Segment>,
    /// What has another type.
    wrong: Vec<WrongField>,
    /// The paths of those that cannot be read: nothing else is said of them.
    unread: BTreeSet<String>,
}

impl Read {
    fn of(sent: Sent) -> Result<Self, Problem> {
        // A list by another name would be lost.
        if let Some((name, _)) = sent.rest.iter().find(|(_, value)| value.is_array()) {
            let name: String = name.chars().take(input::KEY_BYTES_MAX).collect();
            return Err(invalid(name, "there is no such list: `featureFlags`, `segments`"));
        }
        let mut read = Self::default();
        for (at, segment) in sent.segments.into_iter().enumerate() {
            let id = segment["id"].as_str().unwrap_or_default().to_owned();
            let found = read.typed(format!("segments[{at}]"), segment);
            read.segments.push(found.unwrap_or_else(|| Segment { id, ..Segment::default() }));
        }
        for (at, flag) in sent.feature_flags.into_iter().enumerate() {
            let found = read.typed(format!("featureFlags[{at}]"), flag);
            read.flags.push(found.unwrap_or_default());
        }
        Ok(read)
    }

    fn typed<T: DeserializeOwned>(&mut self, path: String, value: Value) -> Option<T> {
        let found = input::typed(value).map_err(|WrongField { field, reason }| {
            let field = if field.is_empty() { path.clone() } else { format!("{path}.{field}") };
            self.wrong.push(WrongField { field, reason });
            self.unread.insert(path);
        });
        found.ok()
    }
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
    let read = Read::of(input::json(body).await?)?;
    let (flags, segments) = (read.flags.len(), read.segments.len());
    if !(1..=DEFINITIONS_MAX).contains(&(flags + segments)) {
        let reason = format!("1 to {DEFINITIONS_MAX} flags and segments were expected");
        return Err(invalid("body", reason));
    }
    let imported = |version| Imported { feature_flags: flags, segments, version, dry_run };
    let mut turn = Turn::new(&native);
    for _ in 0..TRIES_MAX {
        let environment = find::environment_by_id(&native, &asking, environment.id).await?;
        let definitions = fitting(&native, &environment, read.clone()).await?;
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

/// What is to be put of what was sent in an environment, which has to have room for it.
async fn fitting(
    native: &Native,
    environment: &Environment,
    read: Read,
) -> Result<Vec<NewDefinition>, Problem> {
    let there = find::definitions(native, environment).await?;
    let definitions = checked(read, &there).await?;
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

/// What is to be put of what was sent among those that are there: all problems at once.
async fn checked(read: Read, there: &[Definition]) -> Result<Vec<NewDefinition>, Problem> {
    let (mut found, mut ids) = (vec![], FlagIds::of(there));
    let mut new = Vec::with_capacity(read.flags.len() + read.segments.len());
    for (at, segment) in read.segments.iter().enumerate() {
        let path = format!("segments[{at}]");
        take(new_segment(&path, segment, Expected::Anything), &mut new, &mut found)?;
    }
    for (at, flag) in read.flags.iter().enumerate() {
        let path = format!("featureFlags[{at}]");
        if input::check_key("key", &flag.key).is_err() {
            found.push(WrongField { field: format!("{path}.key"), reason: "is no key".to_owned() });
        }
        let flag = new_flag(&path, flag, Expected::Anything);
        if flag.as_ref().is_ok_and(|it| !ids.takes(it)) {
            found.push(taken(&path));
        }
        take(flag, &mut new, &mut found)?;
    }
    let Read { flags, segments, mut wrong, unread } = read;
    match input::check(flags, segments, input::segments_of(there)?).await {
        Err(Problem::WrongFields(more)) => found.extend(more),
        Err(problem) => return Err(problem),
        Ok(()) => {}
    }
    let is_unread = |field: &str| field.split('.').next().is_some_and(|it| unread.contains(it));
    wrong.extend(found.into_iter().filter(|it| !is_unread(&it.field)));
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
