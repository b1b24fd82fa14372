//! Webhook endpoints: where events are sent, and the secret that signs them.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::event::API_VERSION;
use crate::account::{Account, Row};
use crate::collection::{List, Object};
use crate::error::ApiError;
use crate::ids::Id;
use crate::params::Metadata;
use crate::request::Request;

#[derive(Clone, Serialize, Deserialize)]
pub struct WebhookEndpoint {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    pub url: String,
    pub enabled_events: Vec<String>,
    /// The last one signs; the ones before it too, until they are taken away.
    pub secrets: Vec<String>,
    pub disabled: bool,
    pub deleted: bool,
    pub description: Option<String>,
    pub metadata: Metadata,
}

impl Object for WebhookEndpoint {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, None)
    }
}

impl WebhookEndpoint {
    /// Whether events of the type are sent to it.
    pub fn takes(&self, kind: &str) -> bool {
        !self.disabled
            && !self.deleted
            && self.enabled_events.iter().any(|it| it == "*" || it == kind)
    }

    pub fn render(&self, account: &Account) -> Value {
        if self.deleted {
            return json!({ "id": self.id, "object": "webhook_endpoint", "deleted": true });
        }
        json!({
            "id": self.id,
            "object": "webhook_endpoint",
            "api_version": API_VERSION,
            "application": null,
            "created": self.created,
            "description": self.description,
            "enabled_events": self.enabled_events,
            "livemode": account.livemode,
            "metadata": self.metadata,
            "status": if self.disabled { "disabled" } else { "enabled" },
            "url": self.url,
        })
    }
}

/// The secret stands in this answer, and in no other one.
pub fn create(request: &mut Request) -> Result<Value, ApiError> {
    request.params.only(&["api_version", "description", "enabled_events", "metadata", "url"])?;
    let secret = format!("whsec_{}", request.ids.secret());
    create_with(request, secret)
}

/// `POST /_fake/webhooks`: with a secret that the test chooses; `enabled_events` is `*` if it is absent.
pub fn create_by_test(request: &mut Request) -> Result<Value, ApiError> {
    request.params.only(&["enabled_events", "secret", "url"])?;
    let secret = request.params.required("secret")?.to_owned();
    create_with(request, secret)
}

fn create_with(request: &mut Request, secret: String) -> Result<Value, ApiError> {
    let params = request.params;
    let url = checked_url(params.required("url")?)?;
    let mut enabled: Vec<String> =
        params.list("enabled_events").into_iter().map(str::to_owned).collect();
    if enabled.is_empty() {
        enabled.push("*".to_owned());
    }
    let metadata = params.metadata()?;
    let (id, number) = request.next("we_1");
    let endpoint = WebhookEndpoint {
        id,
        number,
        created: request.now,
        url,
        enabled_events: enabled,
        secrets: vec![secret.clone()],
        disabled: false,
        deleted: false,
        description: params.owned("description"),
        metadata,
    };
    let mut rendered = endpoint.render(request.account);
    rendered["secret"] = secret.into();
    request.put(Row::WebhookEndpoint(Rc::new(endpoint)));
    Ok(rendered)
}

fn checked_url(url: &str) -> Result<String, ApiError> {
    if !url.starts_with("http://") {
        return Err(ApiError::invalid("url", "The fake sends events to http:// URLs only")
            .coded("url_invalid"));
    }
    Ok(url.to_owned())
}

pub fn find(request: &Request, id: &str) -> Result<WebhookEndpoint, ApiError> {
    let found = request.account.webhook_endpoints.get(id).filter(|it| !it.deleted);
    found.map(|it| (**it).clone()).ok_or_else(|| ApiError::not_found("webhook endpoint", "id", id))
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    Ok(find(request, id)?.render(request.account))
}

pub fn update(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(&["description", "disabled", "enabled_events", "metadata", "url"])?;
    let mut endpoint = find(request, id)?;
    params.merge_metadata(&mut endpoint.metadata)?;
    if let Some(url) = params.text("url") {
        endpoint.url = checked_url(url)?;
    }
    if params.has("enabled_events") {
        endpoint.enabled_events =
            params.list("enabled_events").into_iter().map(str::to_owned).collect();
    }
    endpoint.disabled = params.boolean("disabled")?.unwrap_or(endpoint.disabled);
    write(request, endpoint)
}

/// `POST /_fake/webhooks/{id}`: `secret` signs too from now on; `drop=true` takes the older ones away.
pub fn rotate_by_test(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&["drop", "secret"])?;
    let mut endpoint = find(request, id)?;
    endpoint.secrets.extend(request.params.owned("secret"));
    if request.params.boolean("drop")? == Some(true) {
        endpoint.secrets.drain(..endpoint.secrets.len() - 1);
    }
    write(request, endpoint)
}

pub fn delete(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let mut endpoint = find(request, id)?;
    endpoint.deleted = true;
    write(request, endpoint)
}

fn write(request: &mut Request, endpoint: WebhookEndpoint) -> Result<Value, ApiError> {
    let row = Row::WebhookEndpoint(Rc::new(endpoint));
    request.put(row.clone());
    Ok(request.account.render(&row))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(&["ending_before", "limit", "starting_after"])?;
    let list = List {
        params,
        url: "/v1/webhook_endpoints",
        owner: None,
        filter: &|it: &WebhookEndpoint| !it.deleted,
    };
    request.account.webhook_endpoints.list(&list, |it| it.render(request.account))
}
