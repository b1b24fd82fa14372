//! Flags and segments alike: they are listed, shown, created and changed. A change names the version
//! that it is made upon, or is made upon the current one.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use domain::flag::definition::{Definition, DefinitionKind};
use feature_flags::EnvironmentName;
use feature_flags::definition::{RESERVED_KEY, is_plain_key, to_json};
use feature_flags::patch::Change;
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::find;
use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::input;

/// Warns of what a client can do and regret.
const WARNING: HeaderName = HeaderName::from_static("x-faregate-warning");

fn response(status: StatusCode, it: &Definition) -> Result<Response, Error> {
    let mut response = (status, [input::etag(it.version)], Json(to_json(it)?)).into_response();
    if it.key.kind == DefinitionKind::Flag && !is_plain_key(&it.key.key) {
        let text = format!("the key {RESERVED_KEY}");
        let value = HeaderValue::try_from(text).expect("the text is visible ASCII");
        response.headers_mut().insert(WARNING, value);
    }
    Ok(response)
}

/// A number of rows.
pub fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The definitions of an environment in a window, and whether there are more.
///
/// # Errors
/// A parameter is invalid, or the environment does not exist.
pub async fn list(call: Call, kind: DefinitionKind) -> Result<(Vec<Value>, bool), Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let page = parameters.page()?;
    let is_archived = parameters.is("archived")?;
    let environment = find::environment(&api, &context, &mut parameters).await?;
    parameters.end()?;
    let all = find::definitions(&api, &environment).await?;
    let wanted = |it: &&Definition| it.key.kind == kind && it.is_archived == is_archived;
    let (offset, limit) = (whole(page.offset), whole(page.limit));
    let mut rest = all.iter().filter(wanted).skip(offset);
    let shown = rest.by_ref().take(limit).map(to_json).collect::<Result<_, _>>()?;
    Ok((shown, rest.next().is_some()))
}

/// A definition.
///
/// # Errors
/// It does not exist.
pub async fn show(call: Call, (kind, key): (DefinitionKind, &str)) -> Result<Response, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let environment = find::environment(&api, &context, &mut parameters).await?;
    parameters.end()?;
    response(StatusCode::OK, &find::definition(&api, &environment, kind, key).await?)
}

/// The environment that a write names, before it is read.
struct Target {
    api: Api,
    context: RequestContext,
    name: EnvironmentName,
}

impl Target {
    fn of(call: Call) -> Result<Self, Error> {
        let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:write")?;
        let name = find::environment_name(&context, &mut parameters)?;
        parameters.end()?;
        Ok(Self { api, context, name })
    }

    /// With the version that a change expects.
    async fn of_change(mut call: Call) -> Result<(Self, Option<i64>), Error> {
        let headers = std::mem::take(&mut call.headers);
        let target = Self::of(call)?;
        let expected = target.checked(input::expected(&headers)).await?;
        Ok((target, expected))
    }

    /// Returns what a request contains; where that is invalid, the error of a missing environment comes first.
    async fn checked<T>(&self, given: Result<T, Error>) -> Result<T, Error> {
        if given.is_err() {
            self.environment_exists().await?;
        }
        given
    }

    /// Checks that the environment exists; the default ones are made here.
    async fn environment_exists(&self) -> Result<(), Error> {
        let EnvironmentName { project, key, .. } = self.name.clone();
        find::environment_of(&self.api, &self.context, project, key).await.map(|_| ())
    }

    async fn create(&self, kind: DefinitionKind, document: Value) -> Result<Definition, Error> {
        let writer = find::writer(&self.api, &self.context);
        match writer.create(&self.name, kind, document.clone()).await {
            Err(feature_flags::Error::NoEnvironment(_)) => {
                self.environment_exists().await?;
                Ok(writer.create(&self.name, kind, document).await?)
            }
            result => Ok(result?),
        }
    }

    async fn change(
        &self,
        definition: (DefinitionKind, &str),
        change: &Change,
        expected: Option<i64>,
    ) -> Result<Definition, Error> {
        let writer = find::writer(&self.api, &self.context);
        match writer.change(&self.name, definition, change, expected).await {
            Err(feature_flags::Error::NoEnvironment(_)) => {
                self.environment_exists().await?;
                Ok(writer.change(&self.name, definition, change, expected).await?)
            }
            result => Ok(result?),
        }
    }
}

/// Creates a definition.
///
/// # Errors
/// It is refused.
pub async fn create(call: Call, kind: DefinitionKind, body: Body) -> Result<Response, Error> {
    let target = Target::of(call)?;
    let document = target.checked(input::json(body, &target.context.tenant).await).await?;
    response(StatusCode::CREATED, &target.create(kind, document).await?)
}

/// Replaces a definition.
///
/// # Errors
/// It is refused.
pub async fn put(
    call: Call,
    definition: (DefinitionKind, &str),
    body: Body,
) -> Result<Response, Error> {
    let (target, expected) = Target::of_change(call).await?;
    let whole =
        Change::Whole(target.checked(input::json(body, &target.context.tenant).await).await?);
    response(StatusCode::OK, &target.change(definition, &whole, expected).await?)
}

/// Changes fields of a definition.
///
/// # Errors
/// It is refused.
pub async fn patch(
    call: Call,
    definition: (DefinitionKind, &str),
    body: Body,
) -> Result<Response, Error> {
    let (target, expected) = Target::of_change(call).await?;
    let part: Map<String, Value> =
        target.checked(input::json(body, &target.context.tenant).await).await?;
    response(StatusCode::OK, &target.change(definition, &Change::Part(part), expected).await?)
}

/// Archives a definition.
///
/// # Errors
/// It is refused.
pub async fn archive(call: Call, definition: (DefinitionKind, &str)) -> Result<StatusCode, Error> {
    let (target, expected) = Target::of_change(call).await?;
    let part = Map::from_iter([("isArchived".to_owned(), Value::Bool(true))]);
    target.change(definition, &Change::Part(part), expected).await?;
    Ok(StatusCode::NO_CONTENT)
}
