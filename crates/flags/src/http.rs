//! The HTTP door: what FeatBit's SDKs ask for where they do not stream.
//!
//! Pages of any origin may ask. Secrets are looked up, and their kind checked, before a body is read.

mod agent;
mod evaluate;
mod latest;
mod reply;
mod track;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::routing::{get, post};
use bytes::Bytes;

use crate::board::Grant;
use crate::door::Door;
use crate::secret::SecretKind;
use reply::Refusal;

/// The secrets of SDKs.
const SDK: &[SecretKind] = &[SecretKind::Server, SecretKind::Client];

/// The routes.
pub(crate) fn router(door: &Arc<Door>) -> Router {
    let at = |path: &str| format!("{}/api/public{path}", door.settings.prefix);
    let preflight = reply::preflight;
    Router::new()
        .route(&at("/sdk/server/latest-all"), get(latest::server).options(preflight))
        .route(&at("/sdk/client/latest-all"), post(latest::client).options(preflight))
        .route(&at("/insight/track"), post(track::track).options(preflight))
        .route(&at("/featureflag/evaluate"), post(evaluate::evaluate).options(preflight))
        .route(&at("/agent/register"), post(agent::register).options(preflight))
        .with_state(Arc::clone(door))
}

/// What the secret in the headers opens, if it is of one of these kinds.
fn authenticate(
    door: &Door,
    headers: &HeaderMap,
    kinds: &[SecretKind],
) -> Result<Arc<Grant>, Refusal> {
    if !door.board.is_available() {
        return Err(Refusal::Unavailable);
    }
    let secret = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
    let grant = secret.and_then(|it| door.board.find(it));
    grant.filter(|it| kinds.contains(&it.kind())).ok_or(Refusal::Unauthorized)
}

/// All of a body.
async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    axum::body::to_bytes(body, bytes_max).await.map_err(|error| {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(it) = cause {
            if it.is::<http_body_util::LengthLimitError>() {
                return Refusal::TooLarge;
            }
            cause = it.source();
        }
        Refusal::Bad("the body does not come")
    })
}
