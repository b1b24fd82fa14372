//! What is different between two environments of a project.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use domain::definition::{Definition, DefinitionKind};
use domain::environment::Environment;
use feature_flags::definition::to_json;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::find::{self, bug};
use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::parameters::{Parameters, invalid};

/// What a flag or segment has of its environment, or of its own history: it is not compared.
const NOT_COMPARED: &[&str] =
    &["id", "key", "envId", "createdAt", "updatedAt", "creatorId", "updatorId"];

/// Two environments of a project, and what is defined in each.
pub struct Pair {
    /// The one that is asked about.
    pub here: Environment,
    /// The one that it is compared with.
    pub there: Environment,
    /// What is defined here.
    pub ours: Vec<Definition>,
    /// What is defined there.
    pub theirs: Vec<Definition>,
}

/// What is different between two environments.
#[derive(Serialize, ToSchema)]
pub struct DiffView {
    /// The environment that is asked about.
    here: SideView,
    /// The one that it is compared with.
    there: SideView,
    /// Its flags.
    flags: KindView,
    /// Its segments.
    segments: KindView,
}

/// One of the two environments.
#[derive(Serialize, ToSchema)]
struct SideView {
    /// Its key.
    key: String,
    /// Its version, for `If-Match` of a copy.
    version: i64,
}

/// What is different among flags, or among segments.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct KindView {
    /// Those that the other environment lacks.
    only_here: Vec<OneView>,
    /// Those that this environment lacks.
    only_there: Vec<OneView>,
    /// Those of which fields differ.
    different: Vec<DifferentView>,
}

/// A flag or segment that is in one of the environments.
#[derive(Serialize, ToSchema)]
struct OneView {
    /// A flag's key, a segment's id.
    key: String,
    /// What people call it.
    name: String,
    /// Its version.
    version: i64,
}

/// A flag or segment that is another one there.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DifferentView {
    /// A flag's key, a segment's id.
    key: String,
    /// What people call it here.
    name: String,
    /// Its version here.
    version_here: i64,
    /// Its version there.
    version_there: i64,
    /// The fields that differ.
    fields: Vec<FieldView>,
}

/// A field that differs.
#[derive(Serialize, ToSchema)]
struct FieldView {
    /// Its name.
    field: String,
    /// What it has here; `null` where it is not there.
    #[schema(value_type = Object)]
    here: Value,
    /// What it has there.
    #[schema(value_type = Object)]
    there: Value,
}

/// Compares two environments.
#[utoipa::path(get, path = "/v1/environments/{key}/diff", tag = "Feature flags", operation_id = "diff_flags",
    summary = "Which flags and segments are only here, only in another environment, or different there, with the fields that differ",
    params(
        ("key" = String, Path, description = "The environment"),
        ("from" = String, Query, description = "The other environment, of the same project"),
        ("project" = Option<String>, Query, description = "Their project; default by default"),
    ),
    responses(
        (status = 200, description = "What differs, archived ones included", body = DiffView),
        (status = 400, description = "A parameter is wrong"),
        (status = 403, description = "flag:read is missing"),
        (status = 404, description = "There is no such environment")))]
pub async fn diff(
    Call { api, context, uri, .. }: Call,
    Path(key): Path<String>,
) -> Result<Json<DiffView>, Error> {
    context.require("flag:read")?;
    let mut parameters = Parameters::of(&uri)?;
    let from = parameters.text("from")?.ok_or_else(|| invalid("from", "needs to be set"))?;
    let here = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    parameters.end()?;
    let pair = Pair::read((&api, &context), here, from).await?;
    Ok(Json(DiffView::of(pair)?))
}

impl Pair {
    /// Reads an environment and another one of its project. What is read of the first is of its
    /// version, or newer.
    ///
    /// # Errors
    /// Where there is no other one of that key.
    pub async fn read(
        (api, context): (&Api, &RequestContext),
        here: Environment,
        from: String,
    ) -> Result<Self, Error> {
        let there = find::environment_of(api, context, here.project.clone(), from).await?;
        if there.id == here.id {
            return Err(invalid("from", "is the environment itself"));
        }
        let ours = find::definitions(api, &here).await?;
        let theirs = find::definitions(api, &there).await?;
        Ok(Self { here, there, ours, theirs })
    }

    /// What is defined here, by what it is known by.
    pub fn ours(&self) -> BTreeMap<(DefinitionKind, &str), &Definition> {
        by_name(&self.ours)
    }

    /// What is defined there.
    pub fn theirs(&self) -> BTreeMap<(DefinitionKind, &str), &Definition> {
        by_name(&self.theirs)
    }
}

/// Whether two definitions of the same name say the same.
///
/// # Errors
/// Where one cannot be read.
pub fn is_same(here: &Definition, there: &Definition) -> Result<bool, Error> {
    Ok(fields(&document(here)?, &document(there)?).is_empty())
}

impl DiffView {
    fn of(pair: Pair) -> Result<Self, Error> {
        let (mut flags, mut segments) = (KindView::default(), KindView::default());
        let (ours, theirs) = (pair.ours(), pair.theirs());
        for (name, here) in &ours {
            let view = match name.0 {
                DefinitionKind::Flag => &mut flags,
                DefinitionKind::Segment => &mut segments,
            };
            match theirs.get(name) {
                None => view.only_here.push(OneView::of(here)?),
                Some(there) => view.different.extend(DifferentView::of(here, there)?),
            }
        }
        for (name, there) in theirs.iter().filter(|(name, _)| !ours.contains_key(*name)) {
            let view = match name.0 {
                DefinitionKind::Flag => &mut flags,
                DefinitionKind::Segment => &mut segments,
            };
            view.only_there.push(OneView::of(there)?);
        }
        let side = |it: &Environment| SideView { key: it.key.clone(), version: it.version };
        Ok(Self { here: side(&pair.here), there: side(&pair.there), flags, segments })
    }
}

impl OneView {
    fn of(it: &Definition) -> Result<Self, Error> {
        let name = title(&document(it)?);
        Ok(Self { key: it.key.key.clone(), name, version: it.version })
    }
}

impl DifferentView {
    /// Nothing where they say the same.
    fn of(here: &Definition, there: &Definition) -> Result<Option<Self>, Error> {
        let (ours, theirs) = (document(here)?, document(there)?);
        let fields = fields(&ours, &theirs);
        Ok((!fields.is_empty()).then(|| Self {
            key: here.key.key.clone(),
            name: title(&ours),
            version_here: here.version,
            version_there: there.version,
            fields,
        }))
    }
}

/// What a definition is known by in any environment.
pub fn name(it: &Definition) -> (DefinitionKind, &str) {
    (it.key.kind, it.key.key.as_str())
}

fn by_name(all: &[Definition]) -> BTreeMap<(DefinitionKind, &str), &Definition> {
    all.iter().map(|it| (name(it), it)).collect()
}

fn document(it: &Definition) -> Result<Map<String, Value>, Error> {
    let Value::Object(mut document) = to_json(it)? else { return Err(bug()) };
    document.retain(|name, _| !NOT_COMPARED.contains(&name.as_str()));
    Ok(document)
}

fn title(document: &Map<String, Value>) -> String {
    document.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn fields(here: &Map<String, Value>, there: &Map<String, Value>) -> Vec<FieldView> {
    let added = there.keys().filter(|name| !here.contains_key(*name));
    let differing = here.keys().chain(added).filter(|name| here.get(*name) != there.get(*name));
    let view = |name: &String| FieldView {
        field: name.clone(),
        here: here.get(name).cloned().unwrap_or_default(),
        there: there.get(name).cloned().unwrap_or_default(),
    };
    differing.map(view).collect()
}
