//! The streaming door: WebSockets on which FeatBit's SDKs learn of flags.
//!
//! Whoever asks for a WebSocket gets one, and is told on it why it is closed: SDKs tell apart by the
//! code whether to come again.

pub(crate) mod close;
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
use http::header::{
    CONNECTION, HeaderMap, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderValue, Method, StatusCode};
use hyper::upgrade::OnUpgrade;

use crate::board::{Grant, now_ms};
use crate::door::Door;
use crate::limit::Sort;
use crate::query;
use crate::secret::SecretKind;
use crate::sockets::Seat;
use crate::token::Token;
use conversation::Conversation;
use socket::Socket;

/// What is hashed with the client's key to show that the server speaks WebSocket (RFC 6455).
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The only version of WebSocket that there is.
const WEBSOCKET_VERSION: &str = "13";

/// What a relay proxy's secret begins with.
const RELAY_SECRET_PREFIX: &str = "rp-";

/// Versions of the protocol that SDKs name; none is one too.
const VERSIONS: [&str; 3] = ["", "1", "2"];

/// Makes a WebSocket of a request.
pub(crate) async fn open(State(door): State<Arc<Door>>, mut request: Request) -> Response {
    let handshake = match Handshake::read(&mut request) {
        Ok(handshake) => handshake,
        Err(refusal) => return *refusal,
    };
    let uri = request.uri().clone();
    drop(request);
    let admitted = admit(&door, uri.query().unwrap_or_default()).await;
    let (coming, patience) = (handshake.coming, Arc::clone(&door.patience));
    let socket = match admitted {
        Ok(grant) => match door.board.open.enter(door.settings.sockets_max) {
            Some(place) => {
                let conversation = Conversation::begin(&door.board, grant, Arc::<Seat>::default());
                Socket::talking(coming, conversation, place, patience)
            }
            None => Socket::refused(coming, close::UNAVAILABLE, patience),
        },
        Err(Refused { code, reason }) => {
            tracing::debug!(code, reason, "a stream is refused");
            Socket::refused(coming, code, patience)
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

/// What a request for a WebSocket brings along.
struct Handshake {
    accept: HeaderValue,
    coming: OnUpgrade,
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
        let Some(coming) = request.extensions_mut().remove::<OnUpgrade>() else {
            let reason = "this connection cannot become a WebSocket";
            return Err(refusal(StatusCode::UPGRADE_REQUIRED, reason));
        };
        Ok(Self { accept, coming })
    }
}

fn refusal(status: StatusCode, reason: &'static str) -> Box<Response> {
    let mut response = Response::new(Body::from(reason));
    *response.status_mut() = status;
    Box::new(response)
}

/// Whether a header lists a word.
fn has_token(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    words.any(|it| it.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

fn accept(key: &[u8]) -> HeaderValue {
    // SHA-1 is what RFC 6455 asks for; nothing rests on it.
    let mut hash = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(ACCEPT_SUFFIX.as_bytes());
    let accept = STANDARD.encode(hash.finish());
    HeaderValue::from_str(&accept).expect("base64 is visible ASCII")
}

/// Why a stream is not let in: the code for the client, and more for those who read our log.
struct Refused {
    code: u16,
    reason: &'static str,
}

const fn invalid(reason: &'static str) -> Refused {
    Refused { code: close::INVALID_REQUEST, reason }
}

/// What a stream's address opens.
async fn admit(door: &Door, query: &str) -> Result<Arc<Grant>, Refused> {
    if !door.board.is_available() {
        let reason = "the environments are not there";
        return Err(Refused { code: close::UNAVAILABLE, reason });
    }
    let kind = query::value(query, "type").and_then(|it| SecretKind::named(&it));
    let kind = kind.ok_or(invalid("there is no such type"))?;
    let version = query::value(query, "version").unwrap_or_default();
    if !VERSIONS.contains(&version.as_ref()) {
        return Err(invalid("there is no such version"));
    }
    let token = query::value(query, "token").ok_or(invalid("the token is missing"))?;
    let secret = match kind {
        // FeatBit's agent sends its key as it is.
        SecretKind::RelayProxy => token,
        SecretKind::Server | SecretKind::Client => {
            let token = Token::decode(&token).map_err(|_| invalid("the token is none"))?;
            let age_ms = now_ms().abs_diff(token.made_at_ms);
            if u128::from(age_ms) > door.settings.token_age_max.as_millis() {
                return Err(invalid("the token is of another time"));
            }
            Cow::Owned(token.secret)
        }
    };
    let grant = match door.board.find(&secret) {
        Some(grant) => grant,
        None => look_again(door, kind, &secret).await?,
    };
    if grant.kind() != kind {
        return Err(invalid("the secret is of another type"));
    }
    match door.check_rate(&grant, Sort::Streaming) {
        Ok(()) => Ok(grant),
        Err(_) => {
            let reason = "too many streams are opened with the secret";
            Err(Refused { code: close::TRY_AGAIN_LATER, reason })
        }
    }
}

/// What an unknown secret opens that is made known soon: the process that made it may have answered
/// before this one was told.
async fn look_again(door: &Door, kind: SecretKind, secret: &str) -> Result<Arc<Grant>, Refused> {
    let may_become_known = match kind {
        SecretKind::RelayProxy => secret.starts_with(RELAY_SECRET_PREFIX),
        // A token has no other.
        SecretKind::Server | SecretKind::Client => true,
    };
    if !may_become_known || door.board.knows(secret) {
        return Err(invalid("the secret opens nothing"));
    }
    let Ok(_place) = door.strangers.try_acquire() else {
        let reason = "too many streams come with secrets that are not known";
        return Err(Refused { code: close::TRY_AGAIN_LATER, reason });
    };
    let found = door.board.find_within(secret, door.settings.secret_patience).await;
    found.ok_or(invalid("the secret is unknown"))
}
