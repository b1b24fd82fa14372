//! OFREP 0.3: evaluates flags for OpenFeature's clients, one or all, and streams an event when they
//! have to evaluate again.
//!
//! Archived flags are left out. A flag whose rollout has no part for the user has no value: the
//! client uses the default in its code.

mod bulk;
mod context;
pub(crate) mod events;
mod outcome;
mod refusal;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evaluation::{CompiledFlag, Entitled, Evaluation, User};
use feature_flags::insights::Tally;
use feature_flags::message::write_json;
use feature_flags::time::now_ms;
use feature_flags::{RequestKind, SDK};
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, ETAG, HeaderName, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use uuid::Uuid;
use web::headers::bearer;

use crate::reply::{self, Refusal, read_body};
use crate::state::ApiState;
use bulk::Bulk;
use context::InvalidRequest;
use refusal::OfrepRefusal;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Headers that pages may read.
const EXPOSED: HeaderValue = HeaderValue::from_static("ETag");

/// How long a page in the background should listen, in seconds.
const INACTIVITY_SECONDS: u32 = 120;

/// Capacity for a flag.
const FLAG_BYTES: usize = 192;

/// How many bytes of a hash an ETag has.
const ETAG_BYTES: usize = 18;

/// `POST /ofrep/v1/evaluate/flags/{key}`
pub(crate) async fn one(
    State(api): State<Arc<ApiState>>,
    key: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, OfrepRefusal> {
    let grant = api.authenticate(secret(&headers), SDK, RequestKind::Ofrep)?;
    let Ok(Path(key)) = key else {
        let code_and_details = ("PARSE_ERROR", "the flag's key is no UTF-8");
        return Ok(failure(StatusCode::BAD_REQUEST, None, code_and_details));
    };
    let body = read_body(body, api.settings.user_bytes_max).await?;
    let invalid =
        |it: InvalidRequest| failure(StatusCode::BAD_REQUEST, Some(&key), it.code_and_details());
    let user = match context::user(&body) {
        Ok(user) => Some(user),
        Err(InvalidRequest::TargetingKeyMissing) => None,
        Err(error @ (InvalidRequest::Parse | InvalidRequest::InvalidContext)) => {
            return Ok(invalid(error));
        }
    };
    let environment = &grant.environments()[0];
    let user = match user {
        Some(user) => api.cache.with_entitled(environment, user).await.map(|it| Some(it.user)),
        None => Some(None),
    };
    let user = user.ok_or(Refusal::Unavailable)?;
    let state = environment.state();
    let flag = state.snapshot.flag(&key).filter(|it| !it.flag().is_archived);
    let Some(flag) = flag else {
        let code_and_details = ("FLAG_NOT_FOUND", "there is no such flag");
        return Ok(failure(StatusCode::NOT_FOUND, Some(&key), code_and_details));
    };
    // Of a flag that is the same for all, it does not matter who asks; nobody is in no experiment.
    let has_key = user.is_some();
    let Some(user) = user.or_else(|| flag.is_same_for_all().then(User::default)) else {
        return Ok(invalid(InvalidRequest::TargetingKeyMissing));
    };
    let mut out = Vec::with_capacity(FLAG_BYTES);
    let mut evaluation = state.snapshot.evaluate_flag(flag, &user);
    evaluation.send_to_experiment &= has_key;
    match outcome::write(&mut out, &evaluation) {
        Ok(()) => {
            count(&mut environment.tally(), flag, &evaluation, now_ms());
            Ok(reply::of(environment, out))
        }
        Err(unusable) => {
            Ok(failure(StatusCode::BAD_REQUEST, Some(&key), unusable.code_and_details()))
        }
    }
}

/// `POST /ofrep/v1/evaluate/flags`
pub(crate) async fn all(
    State(api): State<Arc<ApiState>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, OfrepRefusal> {
    let grant = api.authenticate(secret(&headers), SDK, RequestKind::Ofrep)?;
    let body = read_body(body, api.settings.user_bytes_max).await?;
    // Before the ETag: an invalid context has no response that a client could have cached.
    let user = match context::user(&body) {
        Ok(user) => user,
        Err(error) => return Ok(failure(StatusCode::BAD_REQUEST, None, error.code_and_details())),
    };
    let environment = &grant.environments()[0];
    let user = api.cache.with_entitled(environment, user).await.ok_or(Refusal::Unavailable)?.user;
    let state = environment.state();
    let etag = etag(environment.id(), &state.version, (&user.entitled, &body));
    if has_etag(&headers, &etag) {
        return Ok(with_etag(reply::response(StatusCode::NOT_MODIFIED, Body::empty()), &etag));
    }
    let bulk = Bulk::new(api, Arc::clone(&grant), Arc::clone(&state), user);
    Ok(with_etag(reply::of(environment, bulk.body()), &etag))
}

/// Counts an evaluation that gave a value, as an SDK of FeatBit reports its own.
fn count(tally: &mut Tally, flag: &CompiledFlag, evaluation: &Evaluation<'_>, now_ms: i64) {
    if let Some(variation) = evaluation.value_variation() {
        let at = (now_ms, now_ms);
        tally.evaluated(Some(flag), &variation.id, evaluation.send_to_experiment, at);
    }
}

/// The secret of a request: of `X-API-Key`, or of `Authorization: Bearer`.
fn secret(headers: &HeaderMap) -> Option<&str> {
    let api_key = headers.get(API_KEY).and_then(|it| it.to_str().ok());
    api_key.or_else(|| bearer(headers))
}

/// The ETag of a response: it depends on the environment's version, on the context, on what the user is entitled to,
/// and on the program's version, because a new program may evaluate differently.
fn etag(id: Uuid, version: &str, (entitled, body): (&Entitled, &[u8])) -> HeaderValue {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [id.as_bytes(), version.as_bytes(), env!("CARGO_PKG_VERSION").as_bytes(), b" "] {
        hash.update(part);
        hash.update(b"\n");
    }
    for part in entitled.features().flat_map(|(feature, value)| [feature, value]) {
        hash.update(part.as_bytes());
        hash.update(b"\0");
    }
    hash.update(body);
    let digest = URL_SAFE_NO_PAD.encode(&hash.finish().as_ref()[..ETAG_BYTES]);
    HeaderValue::from_str(&format!("\"{digest}\"")).expect("base64 is visible ASCII")
}

/// Whether the client has that response.
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

/// A refusal in JSON, with OpenFeature's error code.
fn failure(status: StatusCode, key: Option<&str>, code_and_details: (&str, &str)) -> Response {
    let mut out = vec![];
    write_failure(&mut out, key, code_and_details);
    reply::json(status, out)
}

/// Writes OpenFeature's error code, and the details.
fn write_failure(out: &mut Vec<u8>, key: Option<&str>, (code, details): (&str, &str)) {
    out.push(b'{');
    if let Some(key) = key {
        out.extend_from_slice(br#""key":"#);
        write_json(out, key);
        out.push(b',');
    }
    out.extend_from_slice(br#""errorCode":"#);
    write_json(out, code);
    out.extend_from_slice(br#","errorDetails":"#);
    write_json(out, details);
    out.push(b'}');
}
