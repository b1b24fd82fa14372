//! FeatBit's streams: WebSockets on which its SDKs receive flags.
//!
//! Every handshake succeeds, and a refused stream is closed with a code afterwards: the code decides
//! whether an SDK reconnects.

pub(crate) mod conversation;
pub(crate) mod inbound;
pub(crate) mod socket;

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use feature_flags::time::now_ms;
use feature_flags::{Grant, RequestKind, SecretKind, close};
use http::header::{
    CONNECTION, HeaderMap, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Extensions, HeaderValue, Method, StatusCode};
use hyper::upgrade::OnUpgrade;
use web::headers::client_address;
use web::query::Query;

use crate::state::ApiState;
use crate::token::Token;
use conversation::Conversation;
use socket::{Socket, SocketPermits};

/// Hashed with the client's key for `Sec-WebSocket-Accept` (RFC 6455, 1.3).
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The only version of WebSocket.
const WEBSOCKET_VERSION: &str = "13";

/// The prefix of a relay proxy's secret.
const RELAY_SECRET_PREFIX: &str = "rp-";

/// The versions of the protocol that SDKs send; some send none.
const VERSIONS: [&str; 3] = ["", "1", "2"];

/// Upgrades a request to a WebSocket.
pub(crate) async fn open(State(api): State<Arc<ApiState>>, mut request: Request) -> Response {
    let handshake = match Handshake::read(&mut request) {
        Ok(handshake) => handshake,
        Err(refusal) => return *refusal,
    };
    let (parts, _) = request.into_parts();
    let grant = authenticate(&api, parts.uri.query().unwrap_or_default()).await;
    let (upgrade, timeouts) = (handshake.upgrade, Arc::clone(&api.timeouts));
    let begun = grant.and_then(|grant| {
        let permits = permits(&api, (&grant, &parts.extensions))?;
        let streams_max = api.settings.environment_streams_max;
        let conversation = Conversation::begin(&api.cache, grant, Arc::default(), streams_max);
        let reason = "the environment has too many streams";
        let too_many = Refused { code: close::TRY_AGAIN_LATER, reason };
        Ok((conversation.ok_or(too_many)?, permits))
    });
    let socket = match begun {
        Ok((conversation, permits)) => Socket::new(upgrade, conversation, permits, timeouts),
        Err(Refused { code, reason }) => {
            tracing::debug!(code, reason, "refused a stream");
            Socket::refused(upgrade, code, timeouts)
        }
    };
    tokio::spawn(socket);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, handshake.accept);
    response
}

/// The permits of another socket: of all, and of its network.
fn permits(
    api: &ApiState,
    (grant, extensions): (&Grant, &Extensions),
) -> Result<SocketPermits, Refused> {
    let network = api.network_permit(extensions).ok_or(Refused {
        code: close::TRY_AGAIN_LATER,
        reason: "its network has too many streams",
    })?;
    let of_all = api.cache.connections.acquire(api.settings.sockets_max);
    let of_all = of_all.ok_or(Refused { code: close::UNAVAILABLE, reason: "too many streams" })?;
    let answers = match grant.kind() {
        // What servers read is encoded once for all of them.
        SecretKind::Server => None,
        SecretKind::Client | SecretKind::RelayProxy => {
            let tenant = grant.environments().first().map(|it| it.tenant());
            Some(Box::new(api.settings.answers.account(client_address(extensions), tenant)))
        }
    };
    Ok(SocketPermits { _of_all: of_all, _network: network, answers })
}

/// A valid request for a WebSocket.
struct Handshake {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl Handshake {
    fn read(request: &mut Request) -> Result<Self, Box<Response>> {
        let headers = request.headers();
        let is_websocket = request.method() == Method::GET
            && has_token(headers, &CONNECTION, "upgrade")
            && has_token(headers, &UPGRADE, "websocket");
        if !is_websocket {
            return Err(refusal(StatusCode::BAD_REQUEST, "a WebSocket is opened here"));
        }
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|it| it != WEBSOCKET_VERSION) {
            let mut refusal = refusal(StatusCode::UPGRADE_REQUIRED, "WebSocket version 13");
            let version = HeaderValue::from_static(WEBSOCKET_VERSION);
            refusal.headers_mut().insert(SEC_WEBSOCKET_VERSION, version);
            return Err(refusal);
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
        let key = key.filter(|it| STANDARD.decode(it).is_ok_and(|it| it.len() == 16));
        let Some(key) = key else {
            return Err(refusal(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is wrong"));
        };
        let accept = accept(key);
        let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
            let reason = "this connection cannot become a WebSocket";
            return Err(refusal(StatusCode::UPGRADE_REQUIRED, reason));
        };
        Ok(Self { accept, upgrade })
    }
}

fn refusal(status: StatusCode, reason: &'static str) -> Box<Response> {
    let mut response = Response::new(Body::from(reason));
    *response.status_mut() = status;
    Box::new(response)
}

/// Whether a header lists a token.
fn has_token(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    words.any(|it| it.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

fn accept(key: &[u8]) -> HeaderValue {
    // RFC 6455 requires SHA-1; security does not depend on it.
    let mut hash = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(ACCEPT_SUFFIX.as_bytes());
    let accept = STANDARD.encode(hash.finish());
    HeaderValue::from_str(&accept).expect("base64 is visible ASCII")
}

/// Why a stream is refused: the code for the client, and the reason for the log.
struct Refused {
    code: u16,
    reason: &'static str,
}

const fn invalid(reason: &'static str) -> Refused {
    Refused { code: close::INVALID_REQUEST, reason }
}

/// The grant of the secret in a stream's URL.
async fn authenticate(api: &ApiState, query: &str) -> Result<Arc<Grant>, Refused> {
    if !api.cache.is_available() {
        let reason = "the environments are not loaded";
        return Err(Refused { code: close::UNAVAILABLE, reason });
    }
    let query = Query::parse(query).map_err(|_| invalid("the query is not UTF-8"))?;
    let kind = query.first("type").and_then(SecretKind::named);
    let kind = kind.ok_or(invalid("the type is unknown"))?;
    if !VERSIONS.contains(&query.first("version").unwrap_or_default()) {
        return Err(invalid("the version is unknown"));
    }
    let token = query.first("token").ok_or(invalid("the token is missing"))?;
    let secret = match kind {
        // FeatBit's agent sends its secret without a token.
        SecretKind::RelayProxy => Cow::Borrowed(token),
        SecretKind::Server | SecretKind::Client => {
            let token = Token::decode(token).map_err(|_| invalid("the token is malformed"))?;
            let age_ms = now_ms().abs_diff(token.made_at_ms);
            if u128::from(age_ms) > api.settings.token_age_max.as_millis() {
                return Err(invalid("the token has expired"));
            }
            Cow::Owned(token.secret)
        }
    };
    let grant = match api.cache.find(&secret) {
        Some(grant) => grant,
        None => wait_for_secret(api, kind, &secret).await?,
    };
    if grant.kind() != kind {
        return Err(invalid("the secret is of another type"));
    }
    match api.check_rate(&grant, RequestKind::Streaming) {
        Ok(()) => Ok(grant),
        Err(_) => {
            let reason = "the rate limit of the secret is exceeded";
            Err(Refused { code: close::TRY_AGAIN_LATER, reason })
        }
    }
}

/// The grant of an unknown secret that becomes known soon: the process that made it may have
/// answered before it was published to this one.
async fn wait_for_secret(
    api: &ApiState,
    kind: SecretKind,
    secret: &str,
) -> Result<Arc<Grant>, Refused> {
    let may_become_known = match kind {
        SecretKind::RelayProxy => secret.starts_with(RELAY_SECRET_PREFIX),
        // Every token has the length of a secret.
        SecretKind::Server | SecretKind::Client => true,
    };
    if !may_become_known || api.cache.knows(secret) {
        return Err(invalid("the secret grants no access"));
    }
    let Ok(_permit) = api.unknown_secrets.try_acquire() else {
        let reason = "too many streams wait for unknown secrets";
        return Err(Refused { code: close::TRY_AGAIN_LATER, reason });
    };
    let found = api.cache.find_within(secret, api.settings.secret_timeout).await;
    found.ok_or(invalid("the secret is unknown"))
}
