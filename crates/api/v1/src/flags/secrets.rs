//! Secrets of environments: a new one is added beside the old one, which expires later.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::command::FlagCommand;
use domain::flag::environment::{AddSecret, ExpireSecret, NewSecret, Secret, SecretKind};
use domain::reply::FlagReply;
use domain::{Command, Reply, SecretId, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use crate::caller::Call;
use crate::input;
use crate::openapi::{
    InvalidField, InvalidParameter, NoEnvironment, NoSecretsKey, ProjectParameter,
};
use crate::parameters::{Parameters, uuid_of};
use engine::time::rfc3339;

use crate::Api;
use crate::error::Error;
use feature_flags::definition::check_key;
use feature_flags::secret::{self, new_secret};
use secrets::Sealer;

/// The maximum delay until a secret expires, in seconds.
pub const AFTER_SECONDS_MAX: u64 = 366 * 24 * 60 * 60;

/// A secret of an environment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretView {
    /// The secret's id, which is not secret.
    id: Uuid,
    /// `server` or `client`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The display name.
    name: String,
    /// The value that SDKs are configured with.
    value: String,
    /// When it expires (RFC 3339); absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl SecretView {
    /// A stored secret.
    ///
    /// # Errors
    /// Where it was stored with another key.
    pub fn of(secret: &Secret, sealer: &Sealer) -> Result<Self, Error> {
        let value = open(secret, sealer)?;
        let kind = match secret.kind {
            SecretKind::Server => "server",
            SecretKind::Client => "client",
            SecretKind::RelayProxy => "relay-proxy",
        };
        let expires_at = secret.expires_at.map(rfc3339);
        Ok(Self { id: secret.id.uuid(), kind, name: secret.name.clone(), value, expires_at })
    }
}

/// A secret to be created.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretToMake {
    /// The type, which decides what the secret grants.
    #[serde(rename = "type")]
    kind: KindOfSecret,
    /// The display name.
    name: String,
}

/// The kind of a secret: it determines the data that the secret grants.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum KindOfSecret {
    /// All flags and segments.
    Server,
    /// Evaluated flags of one user.
    Client,
}

/// Adds a secret to an environment
#[utoipa::path(post, path = "/v1/environments/{key}/secrets", tag = "Feature flags", operation_id = "add_secret",
    params(("key" = String, Path, description = "The environment"), ProjectParameter),
    request_body = SecretToMake,
    responses((status = 201, description = "Created", body = SecretView),
        (status = 403, description = "flag:secrets is missing"), InvalidField, NoEnvironment, NoSecretsKey))]
pub async fn add(call: Call, Path(key): Path<String>, body: Body) -> Result<Response, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:secrets")?;
    let environment = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    parameters.end()?;
    let SecretToMake { kind, name } = input::json(body, &context.tenant).await?;
    check_key("name", &name)?;
    let kind = match kind {
        KindOfSecret::Server => SecretKind::Server,
        KindOfSecret::Client => SecretKind::Client,
    };
    let sealer = find::sealer(&api)?;
    let environment = environment.id;
    let value = new_secret(environment);
    let sealed = secret::seal(sealer, environment, &value);
    let secret = NewSecret { kind, name, sealed };
    let command = Command::Flag(FlagCommand::AddSecret(AddSecret { environment, secret }));
    let reply = context.submit(&api, command).await?;
    find::until_accepted(&api, &value).await;
    let no = context.tenant.no;
    let secrets = api.engine.read(move |queries| queries.secrets(no)).await?;
    let is_it = |secret: &&Secret| reply == Reply::Flag(FlagReply::SecretAdded(secret.id));
    let added = secrets.iter().find(is_it).ok_or_else(find::bug)?;
    let view = SecretView::of(added, sealer)?;
    Ok((StatusCode::CREATED, Json(view)).into_response())
}

/// Expires a secret, now or some seconds later, so that clients can change to another one
#[utoipa::path(delete, path = "/v1/environments/{key}/secrets/{id}", tag = "Feature flags", operation_id = "expire_secret",
    params(("key" = String, Path, description = "The environment"),
        ("id" = Uuid, Path, description = "The secret's id"),
        ProjectParameter,
        ("after" = Option<u64>, Query, description = "Seconds until it ends; 0 by default")),
    responses((status = 204, description = "It expires"),
        (status = 403, description = "flag:secrets is missing"),
        (status = 404, description = "There is no such environment or secret"), InvalidParameter))]
pub async fn expire(
    Call { api, context, uri, .. }: Call,
    Path((key, id)): Path<(String, String)>,
) -> Result<StatusCode, Error> {
    context.require("flag:secrets")?;
    let secret = SecretId::new(uuid_of(&id)?);
    let mut parameters = Parameters::of(&uri)?;
    let after = parameters.number("after", AFTER_SECONDS_MAX)?.unwrap_or(0);
    let environment = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    parameters.end()?;
    let at = end(&api, after);
    let environment = environment.id;
    let command =
        Command::Flag(FlagCommand::ExpireSecret(ExpireSecret { environment, secret, at }));
    context.submit(&api, command).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The value of a stored secret.
///
/// # Errors
/// It was stored with another key.
pub fn open(secret: &Secret, sealer: &Sealer) -> Result<String, Error> {
    secret::open(sealer, secret.environment, &secret.sealed).map_err(|error| {
        tracing::error!(error = %error, secret.id = %secret.id, "failed to decrypt environment secret");
        Error::WrongSecretsKey
    })
}

/// The time at which a secret expires after this number of seconds.
pub fn end(api: &Api, after_s: u64) -> Timestamp {
    let after_us = i64::try_from(after_s).unwrap_or(i64::MAX).saturating_mul(Timestamp::SECOND_US);
    api.engine.clock().real_now().plus_us(after_us)
}
