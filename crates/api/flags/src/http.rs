//! FeatBit's HTTP API, for SDKs that do not stream. Pages of any origin may use it.

mod agent;
mod evaluate;
mod latest;
mod track;

use std::sync::Arc;

use ::http::HeaderMap;
use ::http::header::AUTHORIZATION;
use axum::Router;
use axum::routing::{get, post};

use crate::reply;
use crate::state::ApiState;

pub(crate) fn router(api: &Arc<ApiState>) -> Router {
    let at = |path: &str| format!("{}/api/public{path}", api.settings.prefix);
    let preflight = reply::preflight;
    Router::new()
        .route(&at("/sdk/server/latest-all"), get(latest::server).options(preflight))
        .route(&at("/sdk/client/latest-all"), post(latest::client).options(preflight))
        .route(&at("/insight/track"), post(track::track).options(preflight))
        .route(&at("/featureflag/evaluate"), post(evaluate::evaluate).options(preflight))
        .route(&at("/agent/register"), post(agent::register).options(preflight))
        .with_state(Arc::clone(api))
}

/// The secret of a request, in `Authorization` without a scheme.
fn secret(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok())
}
