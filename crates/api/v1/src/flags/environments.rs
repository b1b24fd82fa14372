//! A tenant's environments, and for those who may see them, their secrets.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::Command;
use domain::command::FlagCommand;
use domain::flag::environment::{Environment, Secret, SecretKind, UpdateEnvironment};
use feature_flags::definition::check_key;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use super::secrets::SecretView;
use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::input;
use crate::openapi::{
    InvalidField, NoEnvironment, NoSecretsKey, ProjectParameter, Unauthenticated,
};
use crate::parameters::invalid;

/// The maximum number of environments of a tenant.
const ENVIRONMENTS_MAX: usize = 1_000;

/// An environment: a set of flags and segments with its own secrets and version.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentView {
    /// Unique in its project.
    key: String,
    /// The project's key.
    project: String,
    /// The display name.
    name: String,
    /// The id: FeatBit's `envId`.
    id: Uuid,
    /// The version of its last change, Unix time in milliseconds; 0 where nothing is defined yet.
    version: i64,
    /// Whether its flags and segments change only by changes that another user has approved.
    changes_need_approval: bool,
    /// The secrets that have not expired, without relay proxies'; absent without `flag:secrets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<Vec<SecretView>>,
}

/// An environment to be created.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewEnvironment {
    /// Letters, digits, `-` and `_`; 64 at most.
    key: String,
    /// The project's key; `default` by default.
    project: Option<String>,
    /// The display name; the key by default.
    name: Option<String>,
}

/// Changes of an environment; missing fields stay as they are.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvironmentPatch {
    /// The display name.
    name: Option<String>,
    /// Whether its flags and segments change only by changes that another user has approved.
    changes_need_approval: Option<bool>,
}

/// The tenant's environments, oldest first, with their secrets for those with flag:secrets
#[utoipa::path(get, path = "/v1/environments", tag = "Feature flags", operation_id = "environments",
    responses((status = 200, description = "The environments", body = [EnvironmentView]),
        (status = 403, description = "environment:read is missing"), Unauthenticated, NoSecretsKey))]
pub async fn list(call: Call) -> Result<Json<Vec<EnvironmentView>>, Error> {
    let Call { api, context, .. } = call.allowed("environment:read")?;
    let environments = find::environments(&api, &context).await?;
    let secrets = secrets(&api, &context).await?;
    let views = environments.into_iter().map(|it| view(&api, it, secrets.as_deref()));
    Ok(Json(views.collect::<Result<_, _>>()?))
}

/// The secrets of the tenant's environments; `None` without the permission.
async fn secrets(api: &Api, context: &RequestContext) -> Result<Option<Vec<Secret>>, Error> {
    let no = context.tenant.no;
    Ok(match context.operator.caller.may("flag:secrets") {
        true => Some(api.engine.read(move |queries| queries.secrets(no)).await?),
        false => None,
    })
}

/// An environment, with its secrets for those with flag:secrets
#[utoipa::path(get, path = "/v1/environments/{key}", tag = "Feature flags", operation_id = "get_environment",
    params(("key" = String, Path, description = "The environment"), ProjectParameter),
    responses((status = 200, description = "The environment", body = EnvironmentView),
        (status = 403, description = "environment:read is missing"), NoEnvironment))]
pub async fn show(call: Call, Path(key): Path<String>) -> Result<Json<EnvironmentView>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("environment:read")?;
    let environment = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    parameters.end()?;
    let secrets = secrets(&api, &context).await?;
    Ok(Json(view(&api, environment, secrets.as_deref())?))
}

/// Creates an environment with a secret for servers and one for clients
#[utoipa::path(post, path = "/v1/environments", tag = "Feature flags", operation_id = "create_environment",
    request_body = NewEnvironment,
    responses((status = 201, description = "Created", body = EnvironmentView),
        (status = 403, description = "environment:create is missing"),
        (status = 409, description = "The project has one of this key"), InvalidField, NoSecretsKey))]
pub async fn create(call: Call, body: Body) -> Result<Response, Error> {
    let Call { api, context, .. } = call.allowed("environment:create")?;
    let new: NewEnvironment = input::json(body, &context.tenant).await?;
    if find::environments(&api, &context).await?.len() >= ENVIRONMENTS_MAX {
        return Err(invalid("key", "the tenant has too many environments"));
    }
    let project = new.project.as_deref().unwrap_or(find::PROJECT);
    let name = new.name.as_deref().unwrap_or(&new.key);
    check_key("name", name)?;
    let id = find::create(&api, &context, (project, &new.key), name).await?;
    let no = context.tenant.no;
    let file = api.engine.read(move |queries| queries.environment_file(no, id, None)).await?;
    let file = file.ok_or_else(find::bug)?;
    let secrets = context.operator.caller.may("flag:secrets").then_some(file.secrets);
    let view = view(&api, file.environment, secrets.as_deref())?;
    Ok((StatusCode::CREATED, Json(view)).into_response())
}

/// Changes an environment's name, and whether changes need another user's approval there
#[utoipa::path(patch, path = "/v1/environments/{key}", tag = "Feature flags", operation_id = "patch_environment",
    params(("key" = String, Path, description = "The environment"), ProjectParameter),
    request_body = EnvironmentPatch,
    responses((status = 200, description = "The environment as it is now", body = EnvironmentView),
        (status = 403, description = "environment:update is missing"), InvalidField, NoEnvironment))]
pub async fn patch(
    call: Call,
    Path(key): Path<String>,
    body: Body,
) -> Result<Json<EnvironmentView>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("environment:update")?;
    let environment = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    parameters.end()?;
    let EnvironmentPatch { name, changes_need_approval } =
        input::json(body, &context.tenant).await?;
    if let Some(name) = &name {
        check_key("name", name)?;
    }
    let environment = environment.id;
    let update = UpdateEnvironment { environment, name, changes_need_approval };
    context.submit(&api, Command::Flag(FlagCommand::UpdateEnvironment(update))).await?;
    let now = find::environment_by_id(&api, &context, environment).await?;
    Ok(Json(view(&api, now, None)?))
}

/// An environment as it is shown, with those of `secrets` that are its own.
fn view(api: &Api, it: Environment, secrets: Option<&[Secret]>) -> Result<EnvironmentView, Error> {
    let now = api.engine.clock().real_now();
    let own = |secret: &&Secret| {
        secret.environment == it.id
            && secret.kind != SecretKind::RelayProxy
            && secret.expires_at.is_none_or(|at| at > now)
    };
    let secrets = match secrets {
        Some(secrets) => {
            let sealer = find::sealer(api)?;
            let views = secrets.iter().filter(own).map(|secret| SecretView::of(secret, sealer));
            Some(views.collect::<Result<_, _>>()?)
        }
        None => None,
    };
    let id = it.id.uuid();
    let Environment { key, project, name, version, changes_need_approval, .. } = it;
    Ok(EnvironmentView { key, project, name, id, version, changes_need_approval, secrets })
}
