//! The environments of a tenant, the ones that every tenant has included, and commands about them.

use std::time::Duration;

use domain::definition::{Definition, DefinitionKey, DefinitionKind};
use domain::environment::{CreateEnvironment, Environment, NewSecret, SecretKind};
use domain::payment::Actor;
use domain::{Command, EnvironmentId, Rejection, Reply, Request};
use engine::Answer;
use engine::Reason;
use uuid::Uuid;

use crate::native::Native;
use crate::native::caller::Asking;
use crate::native::parameters::Parameters;
use crate::problem::Problem;
use crate::seal::{Sealer, new_secret};

/// The project where none is named.
pub const PROJECT: &str = "default";

/// The environment where none is named.
const ENVIRONMENT: &str = "dev";

/// How long to wait until a new secret is known.
const OPENS_WITHIN: Duration = Duration::from_secs(1);

/// What every tenant has in the project [`PROJECT`], with a server's secret and a client's each.
const DEFAULTS: [(&str, &str); 2] = [(ENVIRONMENT, "Dev"), ("prod", "Prod")];

/// The key that secrets are stored with.
///
/// # Errors
/// Where none is configured.
pub fn sealer(native: &Native) -> Result<&Sealer, Problem> {
    native.sealer.as_deref().ok_or(Problem::NoSecretsKey)
}

/// Does what a caller asks for.
///
/// # Errors
/// Where it is refused, or cannot be done now.
pub async fn submit(native: &Native, asking: &Asking, command: Command) -> Result<Reply, Problem> {
    let id = native.engine.mint();
    let user = asking.caller.username.clone();
    let created_by = user.clone();
    let (reason, comments) = (asking.reason.clone(), asking.comment.clone());
    let actor = Actor { user, created_by, reason, comments, token: id.0 };
    let request = Request { id, tenant: asking.tenant.no, actor, idempotency: None, command };
    match native.engine.submit(request).await? {
        Answer::Replied(reply) => Ok(reply),
        Answer::Refused(rejection) => Err(Problem::Rejected(Box::new(rejection))),
        // Only of a request that can come twice.
        Answer::StillRunning | Answer::AnotherRequest => Err(bug()),
    }
}

/// The environment that a request's parameters name.
///
/// # Errors
/// Where there is none.
pub async fn environment(
    native: &Native,
    asking: &Asking,
    parameters: &mut Parameters,
) -> Result<Environment, Problem> {
    let key = parameters.text("environment")?.unwrap_or_else(|| ENVIRONMENT.to_owned());
    environment_by_key(native, asking, key, parameters).await
}

/// An environment by its id.
///
/// # Errors
/// Where it cannot be read.
pub async fn environment_by_id(
    native: &Native,
    asking: &Asking,
    id: EnvironmentId,
) -> Result<Environment, Problem> {
    let no = asking.tenant.no;
    // What is defined there is of no interest: nothing is that new.
    let newest = Some(i64::MAX);
    let read = native.engine.read(move |queries| queries.environment_file(no, id, newest));
    Ok(read.await?.ok_or_else(bug)?.environment)
}

/// An environment by its key, of the project that a request's parameters name.
///
/// # Errors
/// Where there is none.
pub async fn environment_by_key(
    native: &Native,
    asking: &Asking,
    key: String,
    parameters: &mut Parameters,
) -> Result<Environment, Problem> {
    let project = parameters.text("project")?.unwrap_or_else(|| PROJECT.to_owned());
    environment_of(native, asking, project, key).await
}

/// An environment by its key, of a project.
///
/// # Errors
/// Where there is none.
pub async fn environment_of(
    native: &Native,
    asking: &Asking,
    project: String,
    key: String,
) -> Result<Environment, Problem> {
    let no = asking.tenant.no;
    let (by_project, by_key) = (project.clone(), key.clone());
    let found = native
        .engine
        .read(move |queries| queries.environment_by_key(no, &by_project, &by_key))
        .await?;
    if let Some(found) = found {
        return Ok(found);
    }
    let all = environments(native, asking).await?;
    let found = all.into_iter().find(|it| it.project == project && it.key == key);
    found.ok_or(Problem::NotFound { what: "environment", name: key })
}

/// All environments of the caller's tenant. Those that every tenant has are made here when somebody
/// asks first: secrets need randomness, which the core does not have. Whoever asks at the same time
/// finds the names claimed.
///
/// # Errors
/// Where they cannot be read or made.
pub async fn environments(native: &Native, asking: &Asking) -> Result<Vec<Environment>, Problem> {
    let no = asking.tenant.no;
    let all = native.engine.read(move |queries| queries.environments(no)).await?;
    let is_there = |key| all.iter().any(|it| it.project == PROJECT && it.key == key);
    let missing: Vec<_> = DEFAULTS.into_iter().filter(|(key, _)| !is_there(*key)).collect();
    if missing.is_empty() {
        return Ok(all);
    }
    for (key, name) in missing {
        match create(native, asking, (PROJECT, key), name).await {
            Ok(_) => {}
            Err(Problem::Rejected(it)) if is_taken(&it) => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(native.engine.read(move |queries| queries.environments(no)).await?)
}

fn is_taken(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::EnvironmentAlreadyExists { .. })
}

/// Makes an environment of a project with a server's secret and a client's.
///
/// # Errors
/// Where it is refused.
pub async fn create(
    native: &Native,
    asking: &Asking,
    (project, key): (&str, &str),
    name: &str,
) -> Result<EnvironmentId, Problem> {
    let sealer = sealer(native)?;
    let id = EnvironmentId::new(Uuid::now_v7());
    let (for_servers, for_clients) = (new_secret(id), new_secret(id));
    let secret = |kind, name: &str, value: &str| NewSecret {
        kind,
        name: name.to_owned(),
        sealed: sealer.seal(id, value),
    };
    let command = Command::CreateEnvironment(CreateEnvironment {
        id,
        project: project.to_owned(),
        key: key.to_owned(),
        name: name.to_owned(),
        secrets: vec![
            secret(SecretKind::Server, "Server key", &for_servers),
            secret(SecretKind::Client, "Client key", &for_clients),
        ],
    });
    match submit(native, asking, command).await? {
        Reply::EnvironmentCreated(id) => {
            opens(native, &for_servers).await;
            Ok(id)
        }
        Reply::Done
        | Reply::TenantCreated(_)
        | Reply::UserCreated(_)
        | Reply::RoleCreated(_)
        | Reply::AccountCreated(_)
        | Reply::PaymentMethodCreated(_)
        | Reply::SecretAdded(_)
        | Reply::DefinitionsPut { .. }
        | Reply::ChangeRequested(_)
        | Reply::Customer(_)
        | Reply::Payment(_) => Err(bug()),
    }
}

/// Waits until a new secret opens what it opens at the doors of this process, but not for long: an
/// SDK that comes too early stays away for good.
pub async fn opens(native: &Native, secret: &str) {
    if native.board.find_within(secret, OPENS_WITHIN).await.is_none() {
        tracing::warn!("a new secret does not open anything yet");
    }
}

/// Everything that is defined in an environment.
///
/// # Errors
/// Where it cannot be read.
pub async fn definitions(
    native: &Native,
    environment: &Environment,
) -> Result<Vec<Definition>, Problem> {
    let (no, id) = (environment.tenant, environment.id);
    Ok(native.engine.read(move |queries| queries.definitions(no, id)).await?)
}

/// A flag or a segment.
///
/// # Errors
/// Where there is none.
pub async fn definition(
    native: &Native,
    environment: &Environment,
    kind: DefinitionKind,
    key: &str,
) -> Result<Definition, Problem> {
    let (no, environment) = (environment.tenant, environment.id);
    let name = key.to_owned();
    let key = DefinitionKey { environment, kind, key: name.clone() };
    let found = native.engine.read(move |queries| queries.definition(no, &key)).await?;
    found.ok_or(Problem::NotFound { what: word(kind), name })
}

/// What it is called.
pub const fn word(kind: DefinitionKind) -> &'static str {
    match kind {
        DefinitionKind::Flag => "flag",
        DefinitionKind::Segment => "segment",
    }
}

/// What should not have happened.
pub fn bug() -> Problem {
    Problem::Unavailable(Reason::Bug.into())
}
