//! All flags, or what is newer than what an SDK has: the same messages as on a stream.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri};

use super::secret;
use crate::door::Door;
use crate::limit::Sort;
use crate::query;
use crate::reply::{self, Refusal, read_body};
use crate::secret::SecretKind;
use crate::user::SentUser;

/// `GET /api/public/sdk/server/latest-all`
pub(crate) async fn server(
    State(door): State<Arc<Door>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let grant = door.open(secret(&headers), &[SecretKind::Server], Sort::Sdk)?;
    let timestamp = timestamp(&uri)?;
    let state = grant.environments()[0].state();
    if timestamp > 0 && !state.is_newer_for_servers(timestamp) {
        return Ok(nothing_new());
    }
    Ok(reply::json(StatusCode::OK, state.server_sync(timestamp).text()))
}

/// `POST /api/public/sdk/client/latest-all`
pub(crate) async fn client(
    State(door): State<Arc<Door>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let grant = door.open(secret(&headers), &[SecretKind::Client], Sort::Sdk)?;
    let timestamp = timestamp(&uri)?;
    let body = read_body(&door, body, door.settings.user_bytes_max).await?;
    let user = serde_json::from_slice(&body).ok().and_then(|it: SentUser<'_>| it.read());
    let user = user.ok_or(Refusal::Bad("invalid end user"))?;
    let state = grant.environments()[0].state();
    if timestamp > 0 && !state.is_newer_for_clients(timestamp) {
        return Ok(nothing_new());
    }
    Ok(reply::json(StatusCode::OK, state.client_sync(&user, timestamp).text()))
}

/// The time up to which the SDK has everything; 0 where it has nothing.
fn timestamp(uri: &Uri) -> Result<i64, Refusal> {
    match query::value(uri.query().unwrap_or_default(), "timestamp").as_deref() {
        None | Some("") => Ok(0),
        Some(text) => text.parse().map_err(|_| Refusal::Bad("invalid timestamp")),
    }
}

fn nothing_new() -> Response {
    reply::answer(StatusCode::OK, Body::empty())
}
