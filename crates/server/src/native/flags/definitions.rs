//! What flags and segments have in common: they are listed, made and changed. A change names the version that it is made upon, or is made upon
//! the one that is there.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use domain::definition::{Definition, DefinitionKind, Expected, NewDefinition, PutDefinitions};
use domain::environment::Environment;
use domain::{Command, DefinitionId, Rejection, Reply};
use evaluation::{Flag, Segment};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::find::{self, bug, word};
use super::input::{self, FLAG_FIELDS, SEGMENT_FIELDS};
use crate::document;
use crate::native::Native;
use crate::native::caller::Asking;
use crate::native::parameters::{Parameters, invalid};
use crate::problem::Problem;

/// How often a change is made upon what somebody else made of it meanwhile.
pub const TRIES_MAX: usize = 4;

/// What a request asks about: where, and what.
struct Place {
    native: Native,
    asking: Asking,
    environment: Environment,
    kind: DefinitionKind,
}

/// What is to be made of a document.
enum Change {
    /// This.
    Whole(Value),
    /// These fields of it (RFC 7396).
    Part(Map<String, Value>),
}

impl Place {
    async fn of(
        (native, asking): (Native, Asking),
        uri: &Uri,
        kind: DefinitionKind,
    ) -> Result<Self, Problem> {
        let mut parameters = Parameters::of(uri)?;
        let environment = find::environment(&native, &asking, &mut parameters).await?;
        parameters.end()?;
        Ok(Self { native, asking, environment, kind })
    }

    async fn get(&self, key: &str) -> Result<Definition, Problem> {
        find::definition(&self.native, &self.environment, self.kind, key).await
    }

    fn fields(&self) -> &'static [&'static str] {
        match self.kind {
            DefinitionKind::Flag => FLAG_FIELDS,
            DefinitionKind::Segment => SEGMENT_FIELDS,
        }
    }

    /// Checks a document among those that are there; what is to be put of it.
    async fn checked(&self, value: Value, expected: Expected) -> Result<NewDefinition, Problem> {
        let there = find::definitions(&self.native, &self.environment).await?;
        let there = input::segments_of(&there)?;
        match self.kind {
            DefinitionKind::Flag => {
                let flag: Flag = input::document(value, self.fields())?;
                input::check_key("key", &flag.key)?;
                let new = new_flag("", &flag, expected)?;
                input::check(vec![flag], vec![], there).await?;
                Ok(new)
            }
            DefinitionKind::Segment => {
                let segment: Segment = input::document(value, self.fields())?;
                let new = new_segment("", &segment, expected)?;
                input::check(vec![], vec![segment], there).await?;
                Ok(new)
            }
        }
    }

    async fn put(&self, new: NewDefinition) -> Result<Reply, Problem> {
        let (environment, definitions) = (self.environment.id, vec![new]);
        let put = PutDefinitions { environment, version: None, definitions };
        find::submit(&self.native, &self.asking, Command::PutDefinitions(put)).await
    }

    /// Makes something new.
    async fn create(&self, mut value: Value) -> Result<Response, Problem> {
        let is_segment = self.kind == DefinitionKind::Segment;
        if let Value::Object(fields) = &mut value
            && is_segment
            && !fields.contains_key("id")
        {
            fields.insert("id".to_owned(), Uuid::now_v7().to_string().into());
        }
        let new = self.checked(value, Expected::Nothing).await?;
        let key = new.key.clone();
        match self.put(new).await {
            Ok(_) => answer(StatusCode::CREATED, &self.get(&key).await?),
            Err(Problem::Rejected(it)) if is_changed(&it) => {
                Err(Problem::Exists { what: word(self.kind), name: key })
            }
            Err(problem) => Err(problem),
        }
    }

    /// Changes what is there. Where no version is expected and somebody else changes it meanwhile,
    /// the change is made upon theirs.
    async fn change(
        &self,
        key: &str,
        change: Change,
        expected: Option<i64>,
    ) -> Result<Response, Problem> {
        let mut tries = 0;
        loop {
            tries += 1;
            let before = self.get(key).await?;
            let version = expected.unwrap_or(before.version);
            let value = change.of(&before)?;
            let new = self.checked(value, Expected::Version(version)).await?;
            match self.put(new).await {
                Ok(_) => return answer(StatusCode::OK, &self.get(key).await?),
                Err(Problem::Rejected(it)) if is_changed(&it) => {
                    if expected.is_some() || tries == TRIES_MAX {
                        return Err(Problem::Rejected(it));
                    }
                }
                Err(problem) => return Err(problem),
            }
        }
    }
}

impl Change {
    /// The document that it makes. What names it cannot change.
    fn of(&self, before: &Definition) -> Result<Value, Problem> {
        let Value::Object(there) = shown(before)? else { return Err(bug()) };
        let mut document = match self {
            Self::Whole(Value::Object(whole)) => whole.clone(),
            Self::Whole(_) => return Err(invalid("body", "an object was expected")),
            Self::Part(part) => {
                let mut merged = Value::Object(there.clone());
                merge(&mut merged, part);
                let Value::Object(merged) = merged else { return Err(bug()) };
                merged
            }
        };
        let name = match before.key.kind {
            DefinitionKind::Flag => "key",
            DefinitionKind::Segment => "id",
        };
        match document.get(name) {
            Some(given) if there.get(name) != Some(given) => Err(invalid(name, "cannot change")),
            Some(_) => Ok(Value::Object(document)),
            None => {
                document.insert(name.to_owned(), before.key.key.clone().into());
                Ok(Value::Object(document))
            }
        }
    }
}

/// Puts fields into a document, and fields of those: `null` takes one out. JSON that was read is not
/// deep.
fn merge(document: &mut Value, part: &Map<String, Value>) {
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(fields) = document else { return };
    for (name, value) in part {
        match value {
            Value::Null => drop(fields.remove(name)),
            Value::Object(inner) => merge(fields.entry(name.clone()).or_insert(Value::Null), inner),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

/// A flag that is to be put; `path` is where it stands in what the client sent.
///
/// # Errors
/// Where its id is none, or it is too large.
pub fn new_flag(path: &str, flag: &Flag, expected: Expected) -> Result<NewDefinition, Problem> {
    Ok(NewDefinition {
        kind: DefinitionKind::Flag,
        key: flag.key.clone(),
        id: id(path, &flag.id)?,
        body: input::bounded(path, document::body_of_flag(flag))?,
        is_archived: flag.is_archived,
        expected,
    })
}

/// A segment that is to be put.
///
/// # Errors
/// See [`new_flag`].
pub fn new_segment(
    path: &str,
    segment: &Segment,
    expected: Expected,
) -> Result<NewDefinition, Problem> {
    Ok(NewDefinition {
        kind: DefinitionKind::Segment,
        key: segment.id.clone(),
        id: id(path, &segment.id)?,
        body: input::bounded(path, document::body_of_segment(segment))?,
        is_archived: segment.is_archived,
        expected,
    })
}

/// An id, or a new one where none is given.
fn id(path: &str, text: &str) -> Result<DefinitionId, Problem> {
    if text.is_empty() {
        return Ok(DefinitionId::new(Uuid::now_v7()));
    }
    Uuid::try_parse(text).map(DefinitionId::new).map_err(|_| {
        let field = if path.is_empty() { "id".to_owned() } else { format!("{path}.id") };
        input::wrong(vec![crate::problem::WrongField { field, reason: "is no UUID".to_owned() }])
    })
}

/// Whether somebody else was faster.
pub fn is_changed(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::DefinitionChanged { .. })
}

/// A definition as clients see it.
///
/// # Errors
/// Where its document cannot be read.
pub fn shown(it: &Definition) -> Result<Value, Problem> {
    let value = match it.key.kind {
        DefinitionKind::Flag => document::flag(it).map(|flag| json!(flag)),
        DefinitionKind::Segment => document::segment(it).map(|segment| json!(segment)),
    };
    value.map_err(|error| input::unreadable(&error))
}

fn answer(status: StatusCode, it: &Definition) -> Result<Response, Problem> {
    Ok((status, [input::etag(it.version)], Json(shown(it)?)).into_response())
}

pub fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What there is in an environment, as far as the parameters ask for it, and whether there is more.
///
/// # Errors
/// Where a parameter is wrong, or there is no such environment.
pub async fn list(
    (native, asking): (Native, Asking),
    uri: &Uri,
    kind: DefinitionKind,
) -> Result<(Vec<Value>, bool), Problem> {
    asking.require("flag:read")?;
    let mut parameters = Parameters::of(uri)?;
    let page = parameters.page()?;
    let is_archived = parameters.is("archived")?;
    let environment = find::environment(&native, &asking, &mut parameters).await?;
    parameters.end()?;
    let all = find::definitions(&native, &environment).await?;
    let wanted = |it: &&Definition| it.key.kind == kind && it.is_archived == is_archived;
    let (offset, limit) = (whole(page.offset), whole(page.limit));
    let mut rest = all.iter().filter(wanted).skip(offset);
    let shown = rest.by_ref().take(limit).map(shown).collect::<Result<_, _>>()?;
    Ok((shown, rest.next().is_some()))
}

/// Shows one.
///
/// # Errors
/// Where it is not there.
pub async fn show(
    asked: (Native, Asking),
    key: &str,
    uri: &Uri,
    kind: DefinitionKind,
) -> Result<Response, Problem> {
    asked.1.require("flag:read")?;
    let place = Place::of(asked, uri, kind).await?;
    answer(StatusCode::OK, &place.get(key).await?)
}

/// Makes a new one.
///
/// # Errors
/// Where it is refused.
pub async fn create(
    asked: (Native, Asking),
    uri: &Uri,
    body: Body,
    kind: DefinitionKind,
) -> Result<Response, Problem> {
    asked.1.require("flag:write")?;
    let place = Place::of(asked, uri, kind).await?;
    place.create(input::json(body).await?).await
}

/// A change of one thing: which, what is expected of it, and what it brings.
pub struct Asked<'a> {
    /// Which.
    pub key: &'a str,
    /// Its parameters say where.
    pub uri: &'a Uri,
    /// They say in which version.
    pub headers: &'a HeaderMap,
    /// What it is.
    pub kind: DefinitionKind,
}

impl Asked<'_> {
    /// Puts another one in its place.
    ///
    /// # Errors
    /// Where it is refused; here and below.
    pub async fn put(&self, asked: (Native, Asking), body: Body) -> Result<Response, Problem> {
        asked.1.require("flag:write")?;
        let place = Place::of(asked, self.uri, self.kind).await?;
        let expected = input::expected(self.headers)?;
        let whole = Change::Whole(input::json(body).await?);
        place.change(self.key, whole, expected).await
    }

    /// Changes fields of it.
    ///
    /// # Errors
    /// See [`Asked::put`].
    pub async fn patch(&self, asked: (Native, Asking), body: Body) -> Result<Response, Problem> {
        asked.1.require("flag:write")?;
        let place = Place::of(asked, self.uri, self.kind).await?;
        let expected = input::expected(self.headers)?;
        let part: Map<String, Value> = input::json(body).await?;
        place.change(self.key, Change::Part(part), expected).await
    }

    /// Puts it away.
    ///
    /// # Errors
    /// See [`Asked::put`].
    pub async fn archive(&self, asked: (Native, Asking)) -> Result<StatusCode, Problem> {
        asked.1.require("flag:write")?;
        let place = Place::of(asked, self.uri, self.kind).await?;
        let expected = input::expected(self.headers)?;
        let part = Map::from_iter([("isArchived".to_owned(), Value::Bool(true))]);
        place.change(self.key, Change::Part(part), expected).await?;
        Ok(StatusCode::NO_CONTENT)
    }
}
