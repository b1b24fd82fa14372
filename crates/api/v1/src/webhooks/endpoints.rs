//! The endpoints that the tenant's events are delivered to.

use std::collections::BTreeMap;

use ::webhooks::endpoint::{
    ENDPOINTS_MAX, EVENTS_MAX, Endpoint, Endpoints, Format, HEADERS_MAX, Key, Keys, Status, header,
    is_event_type,
};
use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::{Timestamp, WebhookEndpointId};
use engine::time::rfc3339;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use outbound::validate_callback;
use secrets::webhook::Secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{READ, WRITE, document};
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{
    AnotherRequest, IdempotencyKey, IfMatch, InvalidField, NoSecretsKey, ObjectRejections,
    Unauthenticated,
};
use crate::parameters::invalid;
use crate::repeatable::Repeatable;

/// The longest description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 255;

/// The text in place of a header's value, which may be a credential.
const MASKED: &str = "***";

/// An endpoint.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointView {
    id: Uuid,
    url: String,
    /// `standard` or `killbill`
    format: &'static str,
    /// Types of events, or groups such as `payment.*`; all where it is empty
    events: Vec<String>,
    /// The names of further headers; their values are not shown
    headers: BTreeMap<String, &'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// `on`, `paused`, or `disabled`: by the server, because it does not receive
    status: &'static str,
    /// `gone`: it answered 410; `failing`: it has received nothing for five days
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_reason: Option<&'static str>,
    /// When it was disabled (RFC 3339)
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_at: Option<String>,
    /// The Ed25519 key that v1a signatures are verified with
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// Until when the secret before signs too (RFC 3339)
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_secret_until: Option<String>,
    /// When it was made (RFC 3339)
    created_at: String,
}

/// An endpoint that was made, with its secret, which is shown once.
#[derive(Serialize, ToSchema)]
pub struct EndpointCreated {
    #[serde(flatten)]
    endpoint: EndpointView,
    /// The secret that its deliveries are signed with; absent where the request gave it
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// The endpoints of the tenant.
#[derive(Serialize, ToSchema)]
pub struct EndpointList {
    /// In the order in which they were made
    endpoints: Vec<EndpointView>,
}

/// An endpoint to be made.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewEndpoint {
    /// http:// or https://, to a public address
    url: String,
    /// `standard` (the default) or `killbill`
    format: Option<String>,
    /// Types of events, or groups such as `payment.*`; all by default, 64 at most
    events: Option<Vec<String>>,
    /// Further headers of each delivery; 10 at most
    headers: Option<BTreeMap<String, String>>,
    /// 255 characters at most
    description: Option<String>,
    /// `on` (the default) or `paused`
    status: Option<String>,
    /// 24 to 64 bytes in base64, with or without `whsec_`; one is drawn where it is absent
    secret: Option<String>,
    /// Whether deliveries have a v1a (Ed25519) signature too; false by default
    asymmetric: Option<bool>,
}

/// A change of an endpoint; fields that are absent keep their values.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointPatch {
    url: Option<String>,
    /// `standard` or `killbill`
    format: Option<String>,
    /// In place of those before; an empty list is all
    events: Option<Vec<String>>,
    /// In place of those before
    headers: Option<BTreeMap<String, String>>,
    /// An empty one is none
    description: Option<String>,
    /// `on` or `paused`
    status: Option<String>,
}

/// The endpoints of the tenant, without the callback of /1.0/kb
#[utoipa::path(get, path = "/v1/webhooks/endpoints", tag = "Webhooks", operation_id = "webhook_endpoints",
    responses((status = 200, description = "The endpoints", body = EndpointList),
        (status = 403, description = "webhook:read is missing"), NoSecretsKey, Unauthenticated))]
pub async fn list(call: Call) -> Result<Json<EndpointList>, Error> {
    let Call { api, context, .. } = call.allowed(READ)?;
    let now = api.engine.clock().now();
    let endpoints = document::read(&api, &context).await?;
    let endpoints = endpoints.all.iter().map(|it| view(it, now)).collect();
    Ok(Json(EndpointList { endpoints }))
}

/// Makes an endpoint; its secret is shown once
#[utoipa::path(post, path = "/v1/webhooks/endpoints", tag = "Webhooks", operation_id = "create_webhook_endpoint",
    params(IdempotencyKey), request_body = NewEndpoint,
    responses((status = 201, description = "Made", body = EndpointCreated),
        (status = 400, description = "A field is invalid, or there are 100 endpoints"),
        (status = 403, description = "webhook:write is missing"),
        AnotherRequest, NoSecretsKey, Unauthenticated))]
pub async fn create(call: Call, body: Body) -> Result<Response, Error> {
    let Call { api, context, uri, headers } = call.allowed(WRITE)?;
    let it: NewEndpoint = input::json(body, &context.tenant).await?;
    let repeatable = Repeatable::of(&context, (&uri, &headers), &it)?;
    let (secret, drawn) = secret_of(it.secret.as_deref())?;
    let is_asymmetric = it.asymmetric.unwrap_or(false);
    let now = api.engine.clock().now();
    let mut made = Endpoint {
        id: WebhookEndpointId::new(api.engine.mint().0),
        url: String::new(),
        format: Format::Standard,
        events: vec![],
        headers: BTreeMap::new(),
        description: None,
        status: Status::On,
        keys: Keys::of(Key::new(&secret, is_asymmetric)),
        is_asymmetric,
        created_at: now,
        version: 1,
    };
    let NewEndpoint { url, format, events, headers, description, status, .. } = it;
    let patch = EndpointPatch { url: Some(url), format, events, headers, description, status };
    patch.apply(&mut made, &api)?;
    let created = document::change_once(&api, &context, repeatable, |endpoints| {
        if endpoints.all.len() >= ENDPOINTS_MAX {
            return Err(invalid("endpoints", format!("there are {ENDPOINTS_MAX} already")));
        }
        endpoints.all.push(made.clone());
        Ok(EndpointCreated { endpoint: view(&made, now), secret: drawn.clone() })
    });
    let created: Value = serde_json::from_str(&created.await?).expect("an answer is JSON");
    let id = created["id"].as_str().expect("an endpoint has an id");
    let location = [(LOCATION, format!("/v1/webhooks/endpoints/{id}"))];
    Ok((StatusCode::CREATED, location, [input::etag(made.version)], Json(created)).into_response())
}

/// The secret of a request, or a drawn one with the text that is shown.
///
/// # Errors
/// The field `secret`, without its value.
pub(super) fn secret_of(given: Option<&str>) -> Result<(Secret, Option<String>), Error> {
    match given {
        Some(given) => Ok((Secret::parse(given).map_err(|error| invalid("secret", error))?, None)),
        None => {
            let drawn = Secret::draw();
            let shown = drawn.prefixed();
            Ok((drawn, Some(shown)))
        }
    }
}

/// An endpoint
#[utoipa::path(get, path = "/v1/webhooks/endpoints/{endpointId}", tag = "Webhooks", operation_id = "webhook_endpoint",
    params(("endpointId" = Uuid, Path)),
    responses((status = 200, description = "The endpoint; its version is the ETag", body = EndpointView),
        ObjectRejections, NoSecretsKey))]
pub async fn show(call: Call, Path(id): Path<String>) -> Result<Response, Error> {
    let Call { api, context, .. } = call.allowed(READ)?;
    let mut endpoints = document::read(&api, &context).await?;
    let found = find(&mut endpoints, &id)?;
    Ok(shown(found, api.engine.clock().now()))
}

/// Changes an endpoint, pauses it, or switches it on again
#[utoipa::path(patch, path = "/v1/webhooks/endpoints/{endpointId}", tag = "Webhooks", operation_id = "patch_webhook_endpoint",
    params(("endpointId" = Uuid, Path), IfMatch), request_body = EndpointPatch,
    responses((status = 200, description = "The endpoint as it is now", body = EndpointView),
        (status = 412, description = "It has another version than If-Match says"),
        ObjectRejections, InvalidField, NoSecretsKey))]
pub async fn patch(call: Call, Path(id): Path<String>, body: Body) -> Result<Response, Error> {
    let Call { api, context, headers, .. } = call.allowed(WRITE)?;
    let expected = input::expected(&headers)?;
    let patch: EndpointPatch = input::json(body, &context.tenant).await?;
    let changed = document::change(&api, &context, |endpoints| {
        let endpoint = expected_of(find(endpoints, &id)?, expected)?;
        patch.apply(endpoint, &api)?;
        endpoint.version += 1;
        Ok(endpoint.clone())
    });
    Ok(shown(&changed.await?, api.engine.clock().now()))
}

/// Deletes an endpoint; what waits for it is given up
#[utoipa::path(delete, path = "/v1/webhooks/endpoints/{endpointId}", tag = "Webhooks", operation_id = "delete_webhook_endpoint",
    params(("endpointId" = Uuid, Path), IfMatch),
    responses((status = 204, description = "Deleted"),
        (status = 412, description = "It has another version than If-Match says"),
        ObjectRejections, NoSecretsKey))]
pub async fn delete(call: Call, Path(id): Path<String>) -> Result<StatusCode, Error> {
    let Call { api, context, headers, .. } = call.allowed(WRITE)?;
    let expected = input::expected(&headers)?;
    document::change(&api, &context, |endpoints| {
        let id = expected_of(find(endpoints, &id)?, expected)?.id;
        endpoints.all.retain(|it| it.id != id);
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn find<'e>(endpoints: &'e mut Endpoints, id: &str) -> Result<&'e mut Endpoint, Error> {
    let wanted = Uuid::try_parse(id).ok().map(WebhookEndpointId::new);
    let found = endpoints.all.iter_mut().find(|it| Some(it.id) == wanted);
    found.ok_or_else(|| Error::NotFound { what: "webhook endpoint", name: id.to_owned() })
}

fn expected_of(found: &mut Endpoint, expected: Option<i64>) -> Result<&mut Endpoint, Error> {
    match expected {
        Some(version) if version != found.version => {
            Err(Error::VersionChanged { what: "webhook endpoint", version: found.version })
        }
        Some(_) | None => Ok(found),
    }
}

fn shown(endpoint: &Endpoint, now: Timestamp) -> Response {
    let etag = HeaderMap::from_iter([input::etag(endpoint.version)]);
    (etag, Json(view(endpoint, now))).into_response()
}

impl EndpointPatch {
    fn apply(&self, to: &mut Endpoint, api: &crate::Api) -> Result<(), Error> {
        if let Some(url) = &self.url {
            let valid = validate_callback(url, api.webhooks.reach);
            valid.map_err(|error| invalid("url", error))?;
            to.url.clone_from(url);
        }
        if let Some(name) = &self.format {
            let format = Format::ALL.into_iter().find(|it| it.name() == name);
            to.format =
                format.ok_or_else(|| invalid("format", "is neither standard nor killbill"))?;
        }
        if let Some(events) = &self.events {
            check_events(events)?;
            to.events.clone_from(events);
        }
        if let Some(headers) = &self.headers {
            check_headers(headers)?;
            to.headers.clone_from(headers);
        }
        if let Some(text) = &self.description {
            if text.chars().nth(DESCRIPTION_CHARS_MAX).is_some() || text.contains(char::is_control)
            {
                let reason = "has more than 255 characters, or control characters";
                return Err(invalid("description", reason));
            }
            to.description = Some(text.clone()).filter(|text| !text.is_empty());
        }
        match self.status.as_deref() {
            None => {}
            Some("on") => to.status = Status::On,
            Some("paused") => to.status = Status::Paused,
            Some(_) => return Err(invalid("status", "is neither on nor paused")),
        }
        Ok(())
    }
}

/// Checks what an endpoint names.
///
/// # Errors
/// The field `events`.
pub(super) fn check_events(events: &[String]) -> Result<(), Error> {
    if events.len() > EVENTS_MAX {
        return Err(invalid("events", format!("names more than {EVENTS_MAX}")));
    }
    match events.iter().find(|it| !is_event_type(it)) {
        Some(unknown) => {
            let shown: String = unknown.chars().take(64).collect();
            let reason =
                format!("{shown} is neither a type of events nor a group such as payment.*");
            Err(invalid("events", reason))
        }
        None => Ok(()),
    }
}

fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), Error> {
    if headers.len() > HEADERS_MAX {
        return Err(invalid("headers", format!("has more than {HEADERS_MAX}")));
    }
    for (name, value) in headers {
        if value == MASKED {
            return Err(invalid("headers", "has *** as a value: send the value itself"));
        }
        let shown: String = name.chars().take(64).collect();
        header(name, value).map_err(|reason| invalid("headers", format!("{shown} {reason}")))?;
    }
    Ok(())
}

pub(super) fn view(it: &Endpoint, now: Timestamp) -> EndpointView {
    let (status, disabled) = match it.status {
        Status::On => ("on", None),
        Status::Paused => ("paused", None),
        Status::Disabled { reason, at } => ("disabled", Some((reason, at))),
    };
    let previous = it.keys.previous.as_ref().map(|it| it.until);
    EndpointView {
        id: it.id.uuid(),
        url: it.url.clone(),
        format: it.format.name(),
        events: it.events.clone(),
        headers: it.headers.keys().map(|name| (name.clone(), MASKED)).collect(),
        description: it.description.clone(),
        status,
        disabled_reason: disabled.map(|(reason, _)| reason.name()),
        disabled_at: disabled.map(|(_, at)| rfc3339(at)),
        public_key: it.keys.current.public(),
        previous_secret_until: previous.filter(|until| now < *until).map(rfc3339),
        created_at: rfc3339(it.created_at),
    }
}
