//! Every request's way in: method, caller, tenant, media types, who asks, permission, body; in this
//! order, so that nobody learns more than they may.

use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use domain::{RequestId, TenantNo};
use engine::access::{Caller, ClientAddress, TenantRef};
use http::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use crate::Door;
use crate::call::Call;
use crate::error::{Failure, TENANT_HEADERS_MISSING, class, code};
use crate::log::Line;
use crate::reply::empty;
use crate::request::{self, API_KEY, API_SECRET, REQUEST_ID};
use crate::routes::{Found, Needs, Resource, Route, Served};

/// Serves a request to one path.
pub(crate) async fn serve(door: Door, resource: Arc<Resource>, request: Request<Body>) -> Response {
    let started = Instant::now();
    let id = door.engine().mint();
    let (parts, body) = request.into_parts();
    let echo = request::request_id(&parts.headers).cloned();
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let mut tenant_no = None;
    // Boxed, because it is large and over when the handler begins, which may wait for a gateway.
    let passed = Box::pin(pass(door, (&resource, id), (parts, body), &mut tenant_no)).await;
    let served = match passed {
        Ok(answer) => answer.await,
        Err(failure) => Err(failure),
    };
    let is_ours = match &served {
        Ok(response) => response.status().is_server_error(),
        Err(failure) => failure.is_ours(),
    };
    let mut response = served.unwrap_or_else(|failure| failure.into_response(uri.path()));
    let by_client = echo.is_some();
    let echo = echo.unwrap_or_else(|| own_request_id(id));
    response.headers_mut().insert(REQUEST_ID, echo);
    resource.measures().record(response.status(), started.elapsed());
    Line { id, by_client, tenant_no, method, path: uri.path(), resource: &resource, started }
        .write(&response, is_ours);
    response
}

fn own_request_id(id: RequestId) -> HeaderValue {
    let mut buffer = uuid::Uuid::encode_buffer();
    let text = id.0.as_hyphenated().encode_lower(&mut buffer);
    HeaderValue::from_str(text).expect("a UUID is visible ASCII")
}

async fn pass(
    door: Door,
    (resource, id): (&Resource, RequestId),
    (parts, body): (Parts, Body),
    tenant_no: &mut Option<TenantNo>,
) -> Result<Served, Failure> {
    let found = resource.find(&parts.method);
    if parts.method == Method::OPTIONS && !matches!(found, Found::Nothing) {
        return Ok(Box::pin(ready(Ok(options(resource)))));
    }
    if let Found::Route(route) = found
        && route.needs == Needs::Nothing
    {
        return Ok(open(door, route, id, parts));
    }
    let caller = user(&door, &parts).await?;
    let route = match found {
        Found::Route(route) => route,
        Found::NotServed => return Err(not_served(&parts.method, resource.path)),
        Found::OtherMethods => {
            return Err(Failure::MethodNotAllowed { allow: resource.allow() });
        }
        Found::Nothing => return Err(Failure::not_found()),
    };
    let tenant = match route.needs {
        Needs::Tenant => Some(tenant(&door, &parts).await?),
        Needs::User | Needs::Nothing => None,
    };
    *tenant_no = tenant.as_ref().map(|tenant| tenant.no);
    check_media_types(route, &parts.headers)?;
    let actor = if route.audited {
        Some(request::actor(&parts.headers, &caller.username, id)?)
    } else {
        None
    };
    if let Some(permission) = route.permission
        && !caller.may(permission)
    {
        return Err(Failure::forbidden(permission));
    }
    let body = crate::body::read(body).await?;
    if route.takes_body && !body.is_empty() && !parts.headers.contains_key(CONTENT_TYPE) {
        return Err(unsupported_media_type());
    }
    Ok((route.handler)(Call { door, route, parts, body, caller, tenant, actor, id }))
}

/// A route that asks for no credentials.
fn open(door: Door, route: &'static Route, id: RequestId, parts: Parts) -> Served {
    let nobody = Caller { username: String::new(), permissions: vec![] };
    let (caller, body) = (Arc::new(nobody), Bytes::new());
    (route.handler)(Call { door, route, parts, body, caller, tenant: None, actor: None, id })
}

fn options(resource: &Resource) -> Response {
    let mut response = empty(StatusCode::OK);
    response.headers_mut().insert(ALLOW, resource.options());
    response
}

fn not_served(method: &Method, path: &str) -> Failure {
    let code = code::plain(StatusCode::NOT_IMPLEMENTED, class::UNSUPPORTED);
    Failure::coded(code, format!("{method} {path} is not served here"))
}

async fn user(door: &Door, parts: &Parts) -> Result<Arc<Caller>, Failure> {
    let authorization = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let found = door.access().user(client(parts), authorization).await;
    found.map_err(Failure::of_user)
}

async fn tenant(door: &Door, parts: &Parts) -> Result<Arc<TenantRef>, Failure> {
    let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(key), Some(secret)) = (text(&API_KEY), text(&API_SECRET)) else {
        return Err(Failure::tenant(TENANT_HEADERS_MISSING));
    };
    let found = door.access().tenant(client(parts), key, secret).await;
    found.map_err(|error| Failure::of_tenant(error, key))
}

/// Where the request comes from, as whoever took it in has noted.
fn client(parts: &Parts) -> ClientAddress {
    parts.extensions.get().copied().unwrap_or(ClientAddress::UNKNOWN)
}

fn check_media_types(route: &Route, headers: &HeaderMap) -> Result<(), Failure> {
    if let Some(accept) = headers.get(ACCEPT)
        && !accepts_json(accept.as_bytes())
    {
        return Err(Failure::NotAcceptable);
    }
    if route.takes_body
        && let Some(content_type) = headers.get(CONTENT_TYPE)
        && !is_json(content_type.as_bytes())
    {
        return Err(unsupported_media_type());
    }
    Ok(())
}

fn unsupported_media_type() -> Failure {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Failure::Container { status, message: "Unsupported Media Type".into() }
}

/// Whether one of the media ranges takes JSON.
fn accepts_json(accept: &[u8]) -> bool {
    let ranges = accept.split(|byte| *byte == b',');
    accept.is_empty()
        || ranges.map(media_type).any(|range| {
            range == b"*/*"
                || range.eq_ignore_ascii_case(b"application/json")
                || range.eq_ignore_ascii_case(b"application/*")
        })
}

fn is_json(content_type: &[u8]) -> bool {
    media_type(content_type).eq_ignore_ascii_case(b"application/json")
}

/// A media type without its parameters.
fn media_type(value: &[u8]) -> &[u8] {
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        for accepted in ["", "application/json", "*/*", "text/html, application/*;q=0.5"] {
            assert!(accepts_json(accepted.as_bytes()), "{accepted}");
        }
        for refused in ["application/xml", "text/html, text/*"] {
            assert!(!accepts_json(refused.as_bytes()), "{refused}");
        }
        assert!(is_json(b"application/json; charset=utf-8"));
        assert!(is_json(b"Application/JSON"));
        assert!(!is_json(b"text/plain"));
        assert!(!is_json(b"application/jsonp"));
    }
}
