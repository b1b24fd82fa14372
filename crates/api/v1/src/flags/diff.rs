//! The differences between two environments of a project.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use domain::flag::definition::{Definition, DefinitionKind};
use domain::flag::environment::Environment;
use feature_flags::definition::to_json;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::find::{self, bug};
use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::openapi::{InvalidParameter, NoEnvironment};
use crate::parameters::invalid;

/// Fields that depend on the environment or on the history; they are not compared.
const NOT_COMPARED: &[&str] =
    &["id", "key", "envId", "createdAt", "updatedAt", "creatorId", "updatorId"];

/// Two environments of a project, and what is defined in each.
pub struct Pair {
    /// The environment of the request.
    pub here: Environment,
    /// The environment that it is compared with.
    pub there: Environment,
    /// The definitions of `here`.
    pub ours: Vec<Definition>,
    /// The definitions of `there`.
    pub theirs: Vec<Definition>,
}

/// The differences between two environments.
#[derive(Serialize, ToSchema)]
pub struct DiffView {
    /// The environment of the request.
    here: SideView,
    /// The environment that it is compared with.
    there: SideView,
    /// The differences of flags.
    flags: KindView,
    /// The differences of segments.
    segments: KindView,
}

/// One of the two environments.
#[derive(Serialize, ToSchema)]
struct SideView {
    /// The environment's key.
    key: String,
    /// The environment's version, for `If-Match` of a copy.
    version: i64,
}

/// The differences of flags, or of segments.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct KindView {
    /// Those that the other environment lacks.
    only_here: Vec<OneView>,
    /// Those that this environment lacks.
    only_there: Vec<OneView>,
    /// Those with different fields.
    different: Vec<DifferentView>,
}

/// A flag or segment that is in one of the environments.
#[derive(Serialize, ToSchema)]
struct OneView {
    /// A flag's key, a segment's id.
    key: String,
    /// The display name.
    name: String,
    /// The version, Unix time in milliseconds.
    version: i64,
}

/// A flag or segment that differs between the environments.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DifferentView {
    /// A flag's key, a segment's id.
    key: String,
    /// The display name in this environment.
    name: String,
    /// The version in this environment.
    version_here: i64,
    /// The version in the other environment.
    version_there: i64,
    /// The fields that differ.
    fields: Vec<FieldView>,
}

/// A field that differs.
#[derive(Serialize, ToSchema)]
struct FieldView {
    /// The field's name.
    field: String,
    /// The value in this environment; `null` if the field is missing.
    #[schema(value_type = Value)]
    here: Value,
    /// The value in the other environment; `null` if the field is missing.
    #[schema(value_type = Value)]
    there: Value,
}

/// Which flags and segments are only here, only in another environment, or different there, with the fields that differ
#[utoipa::path(get, path = "/v1/environments/{key}/diff", tag = "Feature flags", operation_id = "diff_flags",
    params(("key" = String, Path, description = "The environment"),
        ("from" = String, Query, description = "The other environment, of the same project"),
        ("project" = Option<String>, Query, description = "Their project; default by default")),
    responses((status = 200, description = "The differences, archived flags and segments included", body = DiffView),
        (status = 403, description = "flag:read is missing"), InvalidParameter, NoEnvironment))]
pub async fn diff(call: Call, Path(key): Path<String>) -> Result<Json<DiffView>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
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

    /// The definitions of `here`, by kind and key.
    pub fn ours(&self) -> BTreeMap<(DefinitionKind, &str), &Definition> {
        by_name(&self.ours)
    }

    /// The definitions of `there`, by kind and key.
    pub fn theirs(&self) -> BTreeMap<(DefinitionKind, &str), &Definition> {
        by_name(&self.theirs)
    }
}

/// Whether two definitions of the same name have no differences.
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
    /// `None` if there are no differences.
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

/// The kind and key, which name a definition within an environment.
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
