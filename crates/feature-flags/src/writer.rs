//! Writes definitions: reads once, validates against the node's cache, commits once, and answers with
//! the committed row.
//!
//! A change names the version that it is made upon. Where another process changes the same meanwhile,
//! the core refuses, and the writer starts again from the read.

use std::time::Duration;

use domain::command::FlagCommand;
use domain::flag::definition::{
    Definition, DefinitionKey, DefinitionKind, Expected, NewDefinition, PutDefinitions,
};
use domain::flag::environment::Environment;
use domain::payment::Actor;
use domain::reply::FlagReply;
use domain::{Command, EnvironmentId, FlagRejection, Rejection, Reply, Request};
use engine::{Answer, Engine};
use serde_json::Value;
use uuid::Uuid;

use crate::cache::FlagCache;
use crate::definition::name_field;
use crate::error::Error;
use crate::patch::Change;
use crate::validate::{Basis, validate};
use crate::write_locks::{EnvironmentName, WriteLocks};

/// How often a change starts again before its client has to retry.
pub const TRIES_MAX: usize = 16;

/// How long a write waits until this process evaluates with it. It takes a millisecond or two; a follower that
/// cannot read keeps no write from its answer.
const PUBLISHED_WITHIN: Duration = Duration::from_millis(250);

/// The author of a change, for the history.
#[derive(Clone, Debug)]
pub struct Author {
    pub username: String,
    pub reason: Option<String>,
    pub comment: Option<String>,
}

/// Writes definitions for an author.
pub struct FlagWriter<'a> {
    pub engine: &'a Engine,
    pub cache: &'a FlagCache,
    pub locks: &'a WriteLocks,
    pub author: Author,
}

/// An environment and one of its definitions, as one read found them.
struct Current {
    environment: Environment,
    definition: Option<Definition>,
}

/// The part of an environment that a definition is validated against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The existence of segments: for flags.
    SegmentIds,
    /// The whole environment, which must not change meanwhile: for segments, which may refer to each
    /// other in a cycle, and for a new flag's own id, which must be unique.
    Environment,
}

impl FlagWriter<'_> {
    /// Changes a definition; returns the row as it was committed. `expected` is the version that it
    /// must have, where the client names one.
    ///
    /// # Errors
    /// [`Error`]; `Rejected(DefinitionChanged)` where it has another version than `expected`.
    pub async fn change(
        &self,
        name: &EnvironmentName,
        (kind, key): (DefinitionKind, &str),
        change: &Change,
        expected: Option<i64>,
    ) -> Result<Definition, Error> {
        let (scope, _lock) = match kind {
            DefinitionKind::Flag => (Scope::SegmentIds, self.locks.flag(name, key).await),
            DefinitionKind::Segment => (Scope::Environment, self.locks.environment(name).await),
        };
        for _ in 0..TRIES_MAX {
            let Current { environment, definition } = self.read(name, kind, Some(key)).await?;
            let not_found = || Error::NotFound { kind, key: key.to_owned() };
            let before = definition.ok_or_else(not_found)?;
            if expected.is_some_and(|it| it != before.version) {
                let (key, version) = (before.key.key, Some(before.version));
                let changed = Rejection::Flag(FlagRejection::DefinitionChanged { key, version });
                return Err(Error::Rejected(Box::new(changed)));
            }
            let document = (kind, change.of(&before)?);
            let upon = Expected::Version(before.version);
            let new = self.validate(&environment, document, upon, scope).await?;
            let (body, is_archived) = (new.body.clone(), new.is_archived);
            match self.put_one(&environment, scope, new).await {
                Ok(version) => return Ok(Definition { body, is_archived, version, ..before }),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended)
    }

    /// Creates a definition; returns its row.
    ///
    /// # Errors
    /// [`Error`]; `Exists` where the environment has one of its name.
    pub async fn create(
        &self,
        name: &EnvironmentName,
        kind: DefinitionKind,
        mut document: Value,
    ) -> Result<Definition, Error> {
        if let Value::Object(fields) = &mut document
            && kind == DefinitionKind::Segment
            && !fields.contains_key("id")
        {
            fields.insert("id".to_owned(), Uuid::now_v7().to_string().into());
        }
        let key = document.get(name_field(kind)).and_then(Value::as_str).unwrap_or_default();
        let key = key.to_owned();
        let (scope, _lock) = match document.get("id") {
            Some(_) => (Scope::Environment, self.locks.environment(name).await),
            None => (Scope::SegmentIds, self.locks.flag(name, &key).await),
        };
        let mut lookup = None;
        for _ in 0..TRIES_MAX {
            let Current { environment, definition } = self.read(name, kind, lookup).await?;
            if definition.is_some() {
                return Err(Error::Exists { kind, key });
            }
            let new = (kind, document.clone());
            let new = self.validate(&environment, new, Expected::Nothing, scope).await?;
            match self.put_one(&environment, scope, new).await {
                // The time of creation is the core's: it is read.
                Ok(_) => {
                    let committed = self.read(name, kind, Some(&key)).await?.definition;
                    return committed.ok_or(Error::NotFound { kind, key });
                }
                // It exists, or something else of the environment was changed.
                Err(error) if error.is_conflict() => lookup = Some(&key),
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended)
    }

    /// Writes definitions, all or none; returns their version, which this process evaluates with from then on. `version` is the one that the
    /// environment must have, where they were validated against all of it.
    ///
    /// # Errors
    /// [`Error`]; see [`Error::is_conflict`].
    pub async fn put(
        &self,
        environment: &Environment,
        version: Option<i64>,
        definitions: Vec<NewDefinition>,
    ) -> Result<i64, Error> {
        let put = PutDefinitions { environment: environment.id, version, definitions };
        let id = self.engine.mint();
        let Author { username: user, reason, comment: comments } = self.author.clone();
        let created_by = user.clone();
        let request = Request {
            id,
            tenant: environment.tenant,
            actor: Actor { user, created_by, reason, comments, token: id.0 },
            idempotency: None,
            command: Command::Flag(FlagCommand::PutDefinitions(put)),
        };
        match self.engine.submit(request).await? {
            Answer::Replied(Reply::Flag(FlagReply::DefinitionsPut { version })) => {
                self.published(environment, version).await;
                Ok(version)
            }
            Answer::Refused(rejection) => Err(Error::Rejected(Box::new(rejection))),
            // Only a request with an idempotency key is answered so.
            Answer::Replied(_) | Answer::StillRunning | Answer::AnotherRequest => Err(Error::bug()),
        }
    }

    /// Waits until this process has what it committed. A front commits nothing: it polls.
    async fn published(&self, environment: &Environment, version: i64) {
        if self.engine.is_front() {
            return;
        }
        if let Some(cached) = self.cache.environment(environment.id.uuid()) {
            cached.reach(version, PUBLISHED_WITHIN).await;
        }
    }

    async fn put_one(
        &self,
        environment: &Environment,
        scope: Scope,
        new: NewDefinition,
    ) -> Result<i64, Error> {
        let version = (scope == Scope::Environment).then_some(environment.version);
        self.put(environment, version, vec![new]).await
    }

    /// Reads an environment and one of its definitions. The environment is read first: its version
    /// is not newer than the definition.
    async fn read(
        &self,
        name: &EnvironmentName,
        kind: DefinitionKind,
        key: Option<&str>,
    ) -> Result<Current, Error> {
        let (wanted, key) = (name.clone(), key.map(str::to_owned));
        let read = self.engine.read(move |queries| {
            let EnvironmentName { tenant, project, key: environment } = &wanted;
            let found = queries.environment_by_key(*tenant, project, environment)?;
            let Some(environment) = found else { return Ok(None) };
            let key = key.map(|key| DefinitionKey { environment: environment.id, kind, key });
            let definition = match key {
                Some(key) => queries.definition(*tenant, &key)?,
                None => None,
            };
            Ok(Some(Current { environment, definition }))
        });
        read.await?.ok_or_else(|| Error::NoEnvironment(name.key.clone()))
    }

    async fn validate(
        &self,
        environment: &Environment,
        document: (DefinitionKind, Value),
        expected: Expected,
        scope: Scope,
    ) -> Result<NewDefinition, Error> {
        if let Some((basis, is_current)) = self.cached(environment, scope) {
            match validate(document.clone(), expected, basis).await {
                // Segments are never deleted: what an older cache allows, the environment allows.
                // What it refuses may refer to a segment that it does not have yet.
                Err(Error::WrongFields(_)) if !is_current => {}
                result => return result,
            }
        }
        let (tenant, id): (_, EnvironmentId) = (environment.tenant, environment.id);
        let definitions = self.engine.read(move |queries| queries.definitions(tenant, id)).await?;
        validate(document, expected, Basis::of(&definitions)?).await
    }

    /// The cached basis of an environment, and whether it is of the version that was read. For the whole
    /// environment, only that version is used.
    fn cached(&self, environment: &Environment, scope: Scope) -> Option<(Basis, bool)> {
        let cached = self.cache.environment(environment.id.uuid())?;
        let state = cached.state();
        let is_current = state.changed_at_ms == environment.version;
        match scope {
            Scope::SegmentIds => Some((Basis::of_segment_ids(&state.snapshot), is_current)),
            Scope::Environment => {
                is_current.then(|| (Basis::of_snapshot(&state.snapshot), is_current))
            }
        }
    }
}
