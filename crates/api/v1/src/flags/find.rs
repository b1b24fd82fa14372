//! The environments of a tenant, the ones that every tenant has included, and commands about them.

use std::time::Duration;

use domain::command::FlagCommand;
use domain::flag::definition::{Definition, DefinitionKey, DefinitionKind};
use domain::flag::environment::{CreateEnvironment, Environment, NewSecret, SecretKind};
use domain::reply::FlagReply;
use domain::{Command, EnvironmentId, FlagRejection, Rejection, Reply};
use engine::Reason;
use uuid::Uuid;

use crate::Api;
use crate::caller::RequestContext;
use crate::error::Error;
use crate::parameters::Parameters;
use evaluation::User;
use feature_flags::accounts::Account;
use feature_flags::error::word;
use feature_flags::secret::{self, new_secret};
use feature_flags::{Author, EnvironmentName, FlagWriter};
use secrets::Sealer;

/// The project where none is named.
pub const PROJECT: &str = "default";

/// The environment where none is named.
const ENVIRONMENT: &str = "dev";

/// How long to wait until a new secret is accepted.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(1);

/// The environments of every tenant in the project [`PROJECT`], each with a server's secret and a client's.
const DEFAULTS: [(&str, &str); 2] = [(ENVIRONMENT, "Dev"), ("prod", "Prod")];

/// The key that secrets are stored with.
///
/// # Errors
/// Where none is configured.
pub fn sealer(api: &Api) -> Result<&Sealer, Error> {
    api.sealer.as_deref().ok_or(Error::NoSecretsKey)
}

/// The name of the environment that a request's parameters name.
///
/// # Errors
/// A parameter is invalid.
pub fn environment_name(
    context: &RequestContext,
    parameters: &mut Parameters,
) -> Result<EnvironmentName, Error> {
    let key = parameters.text("environment")?.unwrap_or_else(|| ENVIRONMENT.to_owned());
    let project = parameters.text("project")?.unwrap_or_else(|| PROJECT.to_owned());
    Ok(EnvironmentName { tenant: context.tenant.no, project, key })
}

/// The environment that a request's parameters name.
///
/// # Errors
/// Where there is none.
pub async fn environment(
    api: &Api,
    context: &RequestContext,
    parameters: &mut Parameters,
) -> Result<Environment, Error> {
    let key = parameters.text("environment")?.unwrap_or_else(|| ENVIRONMENT.to_owned());
    environment_by_key(api, context, key, parameters).await
}

/// An environment by its id.
///
/// # Errors
/// Where it cannot be read.
pub async fn environment_by_id(
    api: &Api,
    context: &RequestContext,
    id: EnvironmentId,
) -> Result<Environment, Error> {
    let no = context.tenant.no;
    // What is defined there is of no interest: nothing is that new.
    let newest = Some(i64::MAX);
    let read = api.engine.read(move |queries| queries.environment_file(no, id, newest));
    Ok(read.await?.ok_or_else(bug)?.environment)
}

/// An environment by its key, of the project that a request's parameters name.
///
/// # Errors
/// Where there is none.
pub async fn environment_by_key(
    api: &Api,
    context: &RequestContext,
    key: String,
    parameters: &mut Parameters,
) -> Result<Environment, Error> {
    let project = parameters.text("project")?.unwrap_or_else(|| PROJECT.to_owned());
    environment_of(api, context, project, key).await
}

/// An environment by its key, of a project.
///
/// # Errors
/// Where there is none.
pub async fn environment_of(
    api: &Api,
    context: &RequestContext,
    project: String,
    key: String,
) -> Result<Environment, Error> {
    let no = context.tenant.no;
    let (by_project, by_key) = (project.clone(), key.clone());
    let found = api
        .engine
        .read(move |queries| queries.environment_by_key(no, &by_project, &by_key))
        .await?;
    if let Some(found) = found {
        return Ok(found);
    }
    let all = environments(api, context).await?;
    let found = all.into_iter().find(|it| it.project == project && it.key == key);
    found.ok_or(Error::NotFound { what: "environment", name: key })
}

/// All environments of the caller's tenant. The default ones are created on first use: their secrets
/// need randomness, which the core does not have. A concurrent creation finds the names taken.
///
/// # Errors
/// Where they cannot be read or made.
pub async fn environments(api: &Api, context: &RequestContext) -> Result<Vec<Environment>, Error> {
    let no = context.tenant.no;
    let all = api.engine.read(move |queries| queries.environments(no)).await?;
    let is_there = |key| all.iter().any(|it| it.project == PROJECT && it.key == key);
    let missing: Vec<_> = DEFAULTS.into_iter().filter(|(key, _)| !is_there(*key)).collect();
    if missing.is_empty() {
        return Ok(all);
    }
    for (key, name) in missing {
        match create(api, context, (PROJECT, key), name).await {
            Ok(_) => {}
            Err(Error::Rejected(it)) if is_taken(&it) => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(api.engine.read(move |queries| queries.environments(no)).await?)
}

fn is_taken(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::Flag(FlagRejection::EnvironmentAlreadyExists { .. }))
}

/// Makes an environment of a project with a server's secret and a client's.
///
/// # Errors
/// Where it is refused.
pub async fn create(
    api: &Api,
    context: &RequestContext,
    (project, key): (&str, &str),
    name: &str,
) -> Result<EnvironmentId, Error> {
    let sealer = sealer(api)?;
    let id = EnvironmentId::new(Uuid::now_v7());
    let (for_servers, for_clients) = (new_secret(id), new_secret(id));
    let secret = |kind, name: &str, value: &str| NewSecret {
        kind,
        name: name.to_owned(),
        sealed: secret::seal(sealer, id, value),
    };
    let command = Command::Flag(FlagCommand::CreateEnvironment(CreateEnvironment {
        id,
        project: project.to_owned(),
        key: key.to_owned(),
        name: name.to_owned(),
        secrets: vec![
            secret(SecretKind::Server, "Server key", &for_servers),
            secret(SecretKind::Client, "Client key", &for_clients),
        ],
    }));
    match context.submit(api, command).await? {
        Reply::Flag(FlagReply::EnvironmentCreated(id)) => {
            until_accepted(api, &for_servers).await;
            Ok(id)
        }
        Reply::Done
        | Reply::TenantCreated(_)
        | Reply::TagDefinitionCreated(_)
        | Reply::Access(_)
        | Reply::Account(_)
        | Reply::Flag(
            FlagReply::SecretAdded(_)
            | FlagReply::DefinitionsPut { .. }
            | FlagReply::ChangeRequested(_),
        )
        | Reply::Customer(_)
        | Reply::Payment(_)
        | Reply::PaymentAborted(_)
        | Reply::Entitlement(_)
        | Reply::Billing(_)
        | Reply::Imported { .. } => Err(bug()),
    }
}

/// Waits for a short time until this process accepts a new secret: an SDK whose secret is refused does
/// not reconnect.
pub async fn until_accepted(api: &Api, secret: &str) {
    if api.cache.find_within(secret, ACCEPTED_WITHIN).await.is_none() {
        tracing::warn!("a new secret is not accepted yet");
    }
}

/// Everything that is defined in an environment.
///
/// # Errors
/// Where it cannot be read.
pub async fn definitions(api: &Api, environment: &Environment) -> Result<Vec<Definition>, Error> {
    let (no, id) = (environment.tenant, environment.id);
    Ok(api.engine.read(move |queries| queries.definitions(no, id)).await?)
}

/// A flag or a segment.
///
/// # Errors
/// Where there is none.
pub async fn definition(
    api: &Api,
    environment: &Environment,
    kind: DefinitionKind,
    key: &str,
) -> Result<Definition, Error> {
    let (no, environment) = (environment.tenant, environment.id);
    let name = key.to_owned();
    let key = DefinitionKey { environment, kind, key: name.clone() };
    let found = api.engine.read(move |queries| queries.definition(no, &key)).await?;
    found.ok_or(Error::NotFound { what: word(kind), name })
}

/// The name of an environment, for its locks.
pub fn name(environment: &Environment) -> EnvironmentName {
    let Environment { tenant, project, key, .. } = environment;
    EnvironmentName { tenant: *tenant, project: project.clone(), key: key.clone() }
}

/// The definition writer of a request.
pub fn writer<'a>(api: &'a Api, context: &RequestContext) -> FlagWriter<'a> {
    let (username, reason) =
        (context.operator.caller.username.clone(), context.operator.reason.clone());
    let author = Author { username, reason, comment: context.operator.comment.clone() };
    FlagWriter { engine: &api.engine, cache: &api.cache, locks: &api.write_locks, author }
}

/// A bug: the core gave an answer that the request cannot have.
pub fn bug() -> Error {
    Error::Unavailable(Reason::Bug.into())
}

/// A user with what its account is entitled to.
///
/// # Errors
/// The database cannot be read.
pub async fn with_entitled(api: &Api, context: &RequestContext, user: User) -> Result<User, Error> {
    let (no, key) = (context.tenant.no, user.key_id.clone());
    let now = api.engine.clock().now();
    let account = api.engine.read(move |queries| Account::read(queries, (no, &key), now)).await?;
    Ok(User { entitled: account.unwrap_or_default().at(now), ..user })
}
