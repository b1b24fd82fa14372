//! Relay proxies: a secret that grants several environments of a project, for FeatBit's agent. It is
//! stored with each of them; secrets of the same value form one relay proxy.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::command::FlagCommand;
use domain::flag::environment::{
    AddSecret, AddSecrets, Environment, ExpireSecret, ExpireSecrets, NewSecret, Secret, SecretKind,
};
use domain::reply::FlagReply;
use domain::{Command, Reply, SecretId};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use super::secrets::{AFTER_SECONDS_MAX, end, open};
use crate::caller::{Call, RequestContext};
use crate::input;
use crate::parameters::{Parameters, invalid, uuid_of};
use engine::time::rfc3339;

use crate::Api;
use crate::error::Error;
use crate::openapi::{InvalidField, InvalidParameter, NoEnvironment, NoSecretsKey};
use feature_flags::definition::check_key;
use feature_flags::secret::{self, new_relay_secret};

/// A relay proxy.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelayProxyView {
    /// The relay proxy's id, which is not secret.
    id: Uuid,
    /// The display name.
    name: String,
    /// The secret that the relay proxy is configured with.
    value: String,
    /// The key of the environments' project.
    project: String,
    /// The environments' keys.
    environments: Vec<String>,
    /// When the secret expires (RFC 3339); absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

/// The relay proxies of a tenant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelayProxies {
    /// The relay proxies, oldest first.
    relay_proxies: Vec<RelayProxyView>,
}

/// A relay proxy to be created.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRelayProxy {
    /// The display name.
    name: String,
    /// The project's key; `default` by default.
    project: Option<String>,
    /// The environments' keys, or `"all"` for those that the project has now.
    environments: Chosen,
}

/// The environments of a new relay proxy.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Chosen {
    /// The environments' keys.
    Keys(Vec<String>),
    /// `all`: the environments that the project has now.
    All(String),
}

/// A relay proxy as it is stored.
struct Relay {
    value: String,
    /// Oldest first: the id of the first one is the relay proxy's id.
    secrets: Vec<Secret>,
}

/// The relay proxies that have not ended, with their secrets
#[utoipa::path(get, path = "/v1/relay-proxies", tag = "Feature flags", operation_id = "relay_proxies",
    responses((status = 200, description = "The relay proxies", body = RelayProxies),
        (status = 403, description = "flag:secrets is missing"), NoSecretsKey))]
pub async fn list(call: Call) -> Result<Json<RelayProxies>, Error> {
    let Call { api, context, .. } = call.allowed("flag:secrets")?;
    let environments = find::environments(&api, &context).await?;
    let relays = relays(&api, &context).await?;
    let relay_proxies = relays.iter().map(|it| view(it, &environments)).collect();
    Ok(Json(RelayProxies { relay_proxies }))
}

/// Creates a secret that grants several environments of a project
#[utoipa::path(post, path = "/v1/relay-proxies", tag = "Feature flags", operation_id = "create_relay_proxy",
    request_body = NewRelayProxy,
    responses((status = 201, description = "Created", body = RelayProxyView),
        (status = 403, description = "flag:secrets is missing"), InvalidField, NoEnvironment, NoSecretsKey))]
pub async fn create(call: Call, body: Body) -> Result<Response, Error> {
    let Call { api, context, .. } = call.allowed("flag:secrets")?;
    let NewRelayProxy { name, project, environments: chosen } =
        input::json(body, &context.tenant).await?;
    check_key("name", &name)?;
    let project = project.unwrap_or_else(|| find::PROJECT.to_owned());
    let sealer = find::sealer(&api)?;
    let all = find::environments(&api, &context).await?;
    let value = new_relay_secret();
    let secrets = chosen.of(&project, &all)?.into_iter().map(|it| {
        let sealed = secret::seal(sealer, it.id, &value);
        let secret = NewSecret { kind: SecretKind::RelayProxy, name: name.clone(), sealed };
        AddSecret { environment: it.id, secret }
    });
    let command = Command::Flag(FlagCommand::AddSecrets(AddSecrets { secrets: secrets.collect() }));
    let reply = context.submit(&api, command).await?;
    find::until_accepted(&api, &value).await;
    let is_it = |it: &&Relay| {
        it.secrets.iter().any(|it| reply == Reply::Flag(FlagReply::SecretAdded(it.id)))
    };
    let relays = relays(&api, &context).await?;
    let made = relays.iter().find(is_it).ok_or_else(find::bug)?;
    Ok((StatusCode::CREATED, Json(view(made, &all))).into_response())
}

/// Expires a relay proxy's secret in all of its environments, now or some seconds later
#[utoipa::path(delete, path = "/v1/relay-proxies/{id}", tag = "Feature flags", operation_id = "expire_relay_proxy",
    params(("id" = Uuid, Path, description = "The relay proxy's id"),
        ("after" = Option<u64>, Query, description = "Seconds until it ends; 0 by default")),
    responses((status = 204, description = "It expires"),
        (status = 404, description = "There is no such relay proxy, or it has ended"),
        (status = 403, description = "flag:secrets is missing"), InvalidParameter, NoSecretsKey))]
pub async fn expire(
    Call { api, context, uri, .. }: Call,
    Path(id): Path<String>,
) -> Result<StatusCode, Error> {
    context.require("flag:secrets")?;
    let first = SecretId::new(uuid_of(&id)?);
    let mut parameters = Parameters::of(&uri)?;
    let after = parameters.number("after", AFTER_SECONDS_MAX)?.unwrap_or(0);
    parameters.end()?;
    let relays = relays(&api, &context).await?;
    let relay = relays.into_iter().find(|it| it.id() == first);
    let relay = relay.ok_or(Error::NotFound { what: "relay proxy", name: id })?;
    let at = end(&api, after);
    let secrets = relay.secrets.iter();
    let secrets = secrets.map(|it| ExpireSecret { environment: it.environment, secret: it.id, at });
    let command =
        Command::Flag(FlagCommand::ExpireSecrets(ExpireSecrets { secrets: secrets.collect() }));
    context.submit(&api, command).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Chosen {
    /// The environments of a project that the request names.
    fn of<'e>(&self, project: &str, all: &'e [Environment]) -> Result<Vec<&'e Environment>, Error> {
        let of_project = || all.iter().filter(|it| it.project == project);
        match self {
            Self::Keys(keys) => keys
                .iter()
                .map(|key| {
                    let found = of_project().find(|it| it.key == *key);
                    let name = key.clone();
                    found.ok_or(Error::NotFound { what: "environment", name })
                })
                .collect(),
            Self::All(word) if word == "all" => Ok(of_project().collect()),
            Self::All(_) => Err(invalid("environments", "keys or \"all\" were expected")),
        }
    }
}

impl Relay {
    fn id(&self) -> SecretId {
        self.secrets[0].id
    }
}

/// The relay proxies that have not ended, the oldest first.
async fn relays(api: &Api, context: &RequestContext) -> Result<Vec<Relay>, Error> {
    let (no, now) = (context.tenant.no, api.engine.clock().real_now());
    let sealer = find::sealer(api)?;
    let mut secrets = api.engine.read(move |queries| queries.secrets(no)).await?;
    secrets
        .retain(|it| it.kind == SecretKind::RelayProxy && it.expires_at.is_none_or(|at| at > now));
    secrets.sort_by_key(|it| (it.created_at, it.id));
    let mut places = BTreeMap::<String, usize>::new();
    let mut relays = Vec::<Relay>::new();
    for secret in secrets {
        let value = open(&secret, sealer)?;
        match places.get(&value) {
            Some(place) => relays[*place].secrets.push(secret),
            None => {
                places.insert(value.clone(), relays.len());
                relays.push(Relay { value, secrets: vec![secret] });
            }
        }
    }
    Ok(relays)
}

fn view(relay: &Relay, all: &[Environment]) -> RelayProxyView {
    let is_its = |it: &&Environment| relay.secrets.iter().any(|own| own.environment == it.id);
    let environments: Vec<&Environment> = all.iter().filter(is_its).collect();
    RelayProxyView {
        id: relay.id().uuid(),
        name: relay.secrets[0].name.clone(),
        value: relay.value.clone(),
        project: environments.first().map(|it| it.project.clone()).unwrap_or_default(),
        environments: environments.iter().map(|it| it.key.clone()).collect(),
        expires_at: relay.secrets[0].expires_at.map(rfc3339),
    }
}
