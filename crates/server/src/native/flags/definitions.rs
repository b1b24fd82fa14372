//! What flags and segments have in common: they are listed, made and changed. A change names the
//! version that it is made upon, or is made upon the one that is there.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use domain::definition::{Definition, DefinitionKind, Expected, NewDefinition, PutDefinitions};
use domain::environment::Environment;
use domain::{Rejection, Reply};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::find::{self, word};
use super::input;
use super::patch::{self, Change, shown};
use super::turn::Turn;
use crate::native::Native;
use crate::native::caller::Asking;
use crate::native::parameters::Parameters;
use crate::problem::Problem;

/// How often a change is made upon what somebody else made of it meanwhile, before its client is told
/// to come again.
pub const TRIES_MAX: usize = 16;

/// What a request asks about: where, and what.
struct Place {
    native: Native,
    asking: Asking,
    environment: Environment,
    kind: DefinitionKind,
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

    /// What is there to judge by, and where it is judged by all of that, the version of the
    /// environment that has to stay for it.
    ///
    /// Whether segments ask about each other in a circle is a matter of all of them, and so is whether
    /// a new flag's id is its own. About a flag that is there nobody asks.
    async fn look(&self, is_by_all: bool) -> Result<(Option<i64>, Vec<Definition>), Problem> {
        let version = match is_by_all {
            true => {
                let id = self.environment.id;
                Some(find::environment_by_id(&self.native, &self.asking, id).await?.version)
            }
            false => None,
        };
        Ok((version, find::definitions(&self.native, &self.environment).await?))
    }

    fn is_segment(&self) -> bool {
        self.kind == DefinitionKind::Segment
    }

    async fn put(
        &self,
        turn: &Turn<'_>,
        new: NewDefinition,
        version: Option<i64>,
    ) -> Result<Reply, Problem> {
        let (environment, definitions) = (self.environment.id, vec![new]);
        let put = PutDefinitions { environment, version, definitions };
        turn.put(&self.asking, put).await
    }

    /// Makes something new.
    async fn create(&self, mut value: Value) -> Result<Response, Problem> {
        if let Value::Object(fields) = &mut value
            && self.is_segment()
            && !fields.contains_key("id")
        {
            fields.insert("id".to_owned(), Uuid::now_v7().to_string().into());
        }
        let has_id = value.get("id").is_some();
        let mut turn = Turn::new(&self.native);
        for _ in 0..TRIES_MAX {
            let (version, there) = self.look(has_id).await?;
            let new = patch::judged((self.kind, value.clone()), Expected::Nothing, &there).await?;
            let key = new.key.clone();
            match self.put(&turn, new, version).await {
                Ok(_) => return answer(StatusCode::CREATED, &self.get(&key).await?),
                Err(Problem::Rejected(it)) if is_changed(&it) => match self.get(&key).await {
                    Ok(_) => return Err(Problem::Exists { what: word(self.kind), name: key }),
                    // Something else of the environment was changed.
                    Err(Problem::NotFound { .. }) => turn.wait_to_be_alone().await,
                    Err(problem) => return Err(problem),
                },
                Err(problem) => return Err(problem),
            }
        }
        Err(Problem::Contended)
    }

    /// Changes what is there. Where somebody else changes it meanwhile, or what it was judged by, the
    /// change is made upon theirs, unless a version is expected that is not there any more.
    async fn change(
        &self,
        key: &str,
        change: Change,
        expected: Option<i64>,
    ) -> Result<Response, Problem> {
        let mut turn = Turn::new(&self.native);
        for _ in 0..TRIES_MAX {
            let (version, there) = self.look(self.is_segment()).await?;
            let before = self.get(key).await?;
            let upon = before.version;
            if expected.is_some_and(|it| it != upon) {
                let (key, version) = (before.key.key, Some(upon));
                let changed = Rejection::DefinitionChanged { key, version };
                return Err(Problem::Rejected(Box::new(changed)));
            }
            let value = change.of(&before)?;
            let new = patch::judged((self.kind, value), Expected::Version(upon), &there).await?;
            match self.put(&turn, new, version).await {
                Ok(_) => return answer(StatusCode::OK, &self.get(key).await?),
                Err(Problem::Rejected(it)) if is_changed(&it) => turn.wait_to_be_alone().await,
                Err(problem) => return Err(problem),
            }
        }
        Err(Problem::Contended)
    }
}

pub fn is_changed(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::DefinitionChanged { .. })
}

fn answer(status: StatusCode, it: &Definition) -> Result<Response, Problem> {
    Ok((status, [input::etag(it.version)], Json(shown(it)?)).into_response())
}

/// A number of rows.
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
