//! OFREP 0.3: flags for OpenFeature's clients, one by one and all together, and a stream that says
//! when to ask again.
//!
//! A flag that is put away is not there. One whose rollout has no part for the user is there without
//! a value: the client takes the one in its code.

mod context;
mod events;
mod outcome;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, AUTHORIZATION, ETAG, HeaderName, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use uuid::Uuid;

use crate::door::{Door, SDK};
use crate::limit::Sort;
use crate::reply::{self, Refusal, read_body};
use crate::wire::put;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const BEARER: &str = "Bearer ";
/// What pages may read beside the body.
const EXPOSED: HeaderValue = HeaderValue::from_static("ETag");

/// How long a page that nobody looks at should listen, in seconds.
const INACTIVITY_SECONDS: u32 = 120;

/// Room for a flag of a bulk answer, and for what is around them.
const FLAG_BYTES: usize = 192;
const ENVELOPE_BYTES: usize = 384;

/// How much of a hash an ETag is made of.
const ETAG_BYTES: usize = 18;

/// The routes.
pub(crate) fn router(door: &Arc<Door>) -> Router {
    let at = |path: &str| format!("{}/ofrep/v1{path}", door.settings.prefix);
    let preflight = reply::preflight;
    Router::new()
        .route(&at("/evaluate/flags/{*key}"), post(one).options(preflight))
        .route(&at("/evaluate/flags"), post(all).options(preflight))
        .route(&at("/events/{channel}"), get(events::listen).options(preflight))
        .with_state(Arc::clone(door))
}

/// `POST /ofrep/v1/evaluate/flags/{key}`
async fn one(
    State(door): State<Arc<Door>>,
    key: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let grant = door.open(secret(&headers), SDK, Sort::Ofrep)?;
    let Ok(Path(key)) = key else {
        let words = ("PARSE_ERROR", "the flag's key is no UTF-8");
        return Ok(failure(StatusCode::BAD_REQUEST, None, words));
    };
    let body = read_body(&door, body, door.settings.user_bytes_max).await?;
    let user = match context::user(&body) {
        Ok(user) => user,
        Err(wrong) => return Ok(failure(StatusCode::BAD_REQUEST, Some(&key), wrong.words())),
    };
    let state = grant.environments()[0].state();
    let flag = state.snapshot.flag(&key).filter(|it| !it.flag().is_archived);
    let Some(flag) = flag else {
        let words = ("FLAG_NOT_FOUND", "there is no such flag");
        return Ok(failure(StatusCode::NOT_FOUND, Some(&key), words));
    };
    let mut out = Vec::with_capacity(FLAG_BYTES);
    match outcome::write(&mut out, &state.snapshot.evaluate_flag(flag, &user)) {
        Ok(()) => Ok(reply::json(StatusCode::OK, out)),
        Err(unusable) => Ok(failure(StatusCode::BAD_REQUEST, Some(&key), unusable.words())),
    }
}

/// `POST /ofrep/v1/evaluate/flags`
async fn all(
    State(door): State<Arc<Door>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let grant = door.open(secret(&headers), SDK, Sort::Ofrep)?;
    let body = read_body(&door, body, door.settings.user_bytes_max).await?;
    // First of all: of a context that cannot be, nobody has an answer.
    let user = match context::user(&body) {
        Ok(user) => user,
        Err(wrong) => return Ok(failure(StatusCode::BAD_REQUEST, None, wrong.words())),
    };
    let live = &grant.environments()[0];
    let state = live.state();
    let etag = etag(live.id(), &state.version, &body);
    if has_etag(&headers, &etag) {
        return Ok(with_etag(reply::answer(StatusCode::NOT_MODIFIED, Body::empty()), &etag));
    }
    let mut out = Vec::with_capacity(ENVELOPE_BYTES + state.flags().count() * FLAG_BYTES);
    out.extend_from_slice(br#"{"flags":["#);
    let there = state.flags().filter(|(flag, _)| !flag.flag().is_archived);
    for (number, (flag, _)) in there.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        let evaluation = state.snapshot.evaluate_flag(flag, &user);
        if let Err(unusable) = outcome::write(&mut out, &evaluation) {
            write_failure(&mut out, Some(&flag.flag().key), unusable.words());
        }
    }
    out.extend_from_slice(br#"],"metadata":{"version":"#);
    put(&mut out, &*state.version);
    out.extend_from_slice(br#"},"eventStreams":[{"type":"sse","endpoint":{"requestUri":"#);
    put(&mut out, &format!("{}/ofrep/v1/events/{}", door.settings.prefix, grant.channel));
    out.extend_from_slice(br#"},"inactivityDelaySec":"#);
    put(&mut out, &INACTIVITY_SECONDS);
    out.extend_from_slice(b"}]}");
    Ok(with_etag(reply::json(StatusCode::OK, out), &etag))
}

/// The secret of a request.
pub(crate) fn secret(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
    text(&API_KEY).or_else(|| {
        let authorization = text(&AUTHORIZATION)?;
        let (scheme, secret) = authorization.split_at_checked(BEARER.len())?;
        scheme.eq_ignore_ascii_case(BEARER).then_some(secret.trim())
    })
}

/// What an answer is called: of another version, or for another context, it is another one. The
/// program's own version is in it because a new one may evaluate better.
fn etag(id: Uuid, version: &str, body: &[u8]) -> HeaderValue {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [id.as_bytes(), version.as_bytes(), env!("CARGO_PKG_VERSION").as_bytes(), b" "] {
        hash.update(part);
        hash.update(b"\n");
    }
    hash.update(body);
    let digest = URL_SAFE_NO_PAD.encode(&hash.finish().as_ref()[..ETAG_BYTES]);
    HeaderValue::from_str(&format!("\"{digest}\"")).expect("base64 is visible ASCII")
}

/// Whether the client has that answer.
fn has_etag(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().map(HeaderValue::as_bytes);
    let mut tags = values.flat_map(|it| it.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    tags.any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes())
}

fn with_etag(mut response: Response, etag: &HeaderValue) -> Response {
    response.headers_mut().insert(ETAG, etag.clone());
    response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    response
}

fn failure(status: StatusCode, key: Option<&str>, words: (&str, &str)) -> Response {
    let mut out = vec![];
    write_failure(&mut out, key, words);
    reply::json(status, out)
}

/// Why there is no value, in OpenFeature's words and ours.
fn write_failure(out: &mut Vec<u8>, key: Option<&str>, (code, details): (&str, &str)) {
    out.push(b'{');
    if let Some(key) = key {
        out.extend_from_slice(br#""key":"#);
        put(out, key);
        out.push(b',');
    }
    out.extend_from_slice(br#""errorCode":"#);
    put(out, code);
    out.extend_from_slice(br#","errorDetails":"#);
    put(out, details);
    out.push(b'}');
}
