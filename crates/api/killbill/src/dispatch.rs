//! Checks each request and calls its handler. The order of the checks is method, caller, tenant,
//! media types, audit headers, permission, body, so that a response reveals nothing that the caller
//! may not know.

use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use domain::card_data::NumericKeys;
use domain::{RequestId, TenantNo};
use engine::access::{Caller, TenantRef};
use engine::text;
use http::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use percent_encoding::percent_decode_str;
use web::headers::client_address;
use web::{answer_budget, card_data};

use crate::KillBillApi;
use crate::call::Call;
use crate::error::{Failure, TENANT_HEADERS_MISSING, class, code};
use crate::log::RequestLog;
use crate::media_types::{Gives, Takes};
use crate::reply::empty;
use crate::request::{self, API_KEY, API_SECRET, REQUEST_ID};
use crate::route::{Credentials, Resource, ResponseFuture, Route, RouteMatch};

/// Serves a request to one resource.
pub(crate) async fn serve(
    api: KillBillApi,
    resource: Arc<Resource>,
    request: Request<Body>,
) -> Response {
    let started = Instant::now();
    let id = api.engine().mint();
    let (parts, body) = request.into_parts();
    let echo = request::request_id(&parts.headers).cloned();
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let network = client_address(&parts.extensions).network();
    let mut tenant_no = None;
    // Boxed: the future is large and ends before the handler begins, which may wait for a gateway.
    let admitted = Box::pin(admit(api, (&resource, id), (parts, body), &mut tenant_no)).await;
    let result = match admitted {
        Ok(response) => response.await,
        Err(failure) => Err(failure),
    };
    let is_fault = match &result {
        Ok(response) => response.status().is_server_error(),
        Err(failure) => failure.is_fault(),
    };
    let mut response = result.unwrap_or_else(|failure| failure.into_response(uri.path()));
    let by_client = echo.is_some();
    let echo = echo.unwrap_or_else(|| own_request_id(id));
    response.headers_mut().insert(REQUEST_ID, echo);
    answer_budget::name_tenant(&mut response, tenant_no);
    resource.metrics().record(response.status(), started.elapsed());
    let path = uri.path();
    RequestLog { id, by_client, tenant_no, network, method, path, resource: &resource, started }
        .write(&response, is_fault);
    response
}

fn own_request_id(id: RequestId) -> HeaderValue {
    let mut buffer = uuid::Uuid::encode_buffer();
    let text = id.0.as_hyphenated().encode_lower(&mut buffer);
    HeaderValue::from_str(text).expect("a UUID is visible ASCII")
}

/// Runs all checks. The outer future ends when the handler's future can be polled.
async fn admit(
    api: KillBillApi,
    (resource, id): (&Resource, RequestId),
    (parts, body): (Parts, Body),
    tenant_no: &mut Option<TenantNo>,
) -> Result<ResponseFuture, Failure> {
    let found = resource.find(&parts.method);
    if parts.method == Method::OPTIONS && !matches!(found, RouteMatch::NoPath) {
        return Ok(Box::pin(ready(Ok(options(resource)))));
    }
    if let RouteMatch::Route(route) = found
        && route.credentials == Credentials::None
    {
        return Ok(call_without_credentials(api, route, id, parts));
    }
    let caller = user(&api, &parts).await?;
    let route = match found {
        RouteMatch::Route(route) => route,
        RouteMatch::Unserved => return Err(unserved(&parts.method, resource.path)),
        RouteMatch::OtherMethods => {
            return Err(Failure::MethodNotAllowed { allow: resource.allow() });
        }
        RouteMatch::NoPath => return Err(Failure::not_found()),
    };
    let tenant = match route.credentials {
        Credentials::UserAndTenant => Some(tenant(&api, &parts).await?),
        Credentials::User | Credentials::None => None,
    };
    *tenant_no = tenant.as_ref().map(|tenant| tenant.no);
    check_media_types(route, &parts.headers)?;
    let actor = request::actor(route.audited, &parts.headers, &caller.username, id)?;
    if let Some(permission) = route.permission
        && !caller.may(permission)
        && !(route.is_open_to_its_user && names(&route.path, parts.uri.path(), &caller))
    {
        return Err(Failure::forbidden(permission));
    }
    let keys = tenant.as_ref().map_or(NumericKeys::Checked, |tenant| tenant.numeric_keys);
    refuse_card_number(card_data::find_in_head(&parts.uri, &parts.headers, keys))?;
    let body = web::body::read(body).await.map_err(Failure::Body)?;
    refuse_card_number(match route.takes {
        Takes::Json => card_data::find_in_json(&body, keys),
        Takes::Nothing | Takes::Anything | Takes::Xml | Takes::Text => {
            card_data::find_in_text(&body, keys)
        }
    })?;
    // As in Kill Bill, a text may be sent without a type, and JSON may not.
    let is_untyped = !body.is_empty() && !parts.headers.contains_key(CONTENT_TYPE);
    if is_untyped && route.takes == Takes::Json {
        return Err(unsupported_media_type());
    }
    let (template, object) = (&route.path, route.object);
    let call = Call { api, template, object, parts, body, caller, tenant, actor, id };
    Ok((route.handler.handle)(call))
}

/// Whether the `{username}` of a path is the caller's.
fn names(template: &str, path: &str, caller: &Caller) -> bool {
    let name = request::parameter(template, path, "username");
    let name = name.and_then(|name| percent_decode_str(name).decode_utf8().ok());
    name.is_some_and(|name| text::username(&name) == caller.username)
}

/// Refuses a request with a card number in this field.
fn refuse_card_number<T: AsRef<str>>(field: Option<T>) -> Result<(), Failure> {
    match field {
        Some(field) => Err(Failure::parameter(field.as_ref(), card_data::REASON)),
        None => Ok(()),
    }
}

fn call_without_credentials(
    api: KillBillApi,
    route: &'static Route,
    id: RequestId,
    parts: Parts,
) -> ResponseFuture {
    let anonymous = Caller { username: String::new(), permissions: vec![] };
    let (caller, body) = (Arc::new(anonymous), Bytes::new());
    let (template, object) = (&route.path, route.object);
    let call = Call { api, template, object, parts, body, caller, tenant: None, actor: None, id };
    (route.handler.handle)(call)
}

fn options(resource: &Resource) -> Response {
    let mut response = empty(StatusCode::OK);
    response.headers_mut().insert(ALLOW, resource.options());
    response
}

fn unserved(method: &Method, path: &str) -> Failure {
    let code = code::plain(StatusCode::NOT_IMPLEMENTED, class::UNSUPPORTED);
    Failure::coded(code, format!("{method} {path} is not served here"))
}

async fn user(api: &KillBillApi, parts: &Parts) -> Result<Arc<Caller>, Failure> {
    let authorization = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let client = client_address(&parts.extensions);
    let found = api.access().user(client, authorization).await;
    found.map_err(Failure::of_user)
}

/// Kill Bill's pair of headers only: the message of the refusal names them.
async fn tenant(api: &KillBillApi, parts: &Parts) -> Result<Arc<TenantRef>, Failure> {
    let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(key), Some(secret)) = (text(&API_KEY), text(&API_SECRET)) else {
        return Err(Failure::tenant(TENANT_HEADERS_MISSING));
    };
    let client = client_address(&parts.extensions);
    let found = api.access().tenant(client, key, secret).await;
    found.map_err(|error| Failure::of_tenant(error, key))
}

fn check_media_types(route: &Route, headers: &HeaderMap) -> Result<(), Failure> {
    if let Some(accept) = headers.get(ACCEPT)
        && !route.gives.is_accepted(accept.as_bytes())
    {
        let message = "Not Acceptable".into();
        let status = StatusCode::NOT_ACCEPTABLE;
        // An error has a body for clients that accept JSON.
        return Err(match Gives::Json.is_accepted(accept.as_bytes()) {
            true => Failure::Container { status, message },
            false => Failure::NotAcceptable,
        });
    }
    if let Some(content_type) = headers.get(CONTENT_TYPE)
        && !route.takes.is_type(content_type.as_bytes())
    {
        return Err(unsupported_media_type());
    }
    Ok(())
}

fn unsupported_media_type() -> Failure {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Failure::Container { status, message: "Unsupported Media Type".into() }
}
