//! Feature flags: environments and their secrets, flags and segments, changes, evaluation.

pub mod changes;
pub mod copy;
mod definitions;
pub mod diff;
pub mod environments;
mod error;
pub mod evaluate;
pub mod exchange;
pub mod explain;
mod find;
pub mod flag;
pub mod history;
pub mod input;
pub mod insights;
pub mod relays;
pub mod secrets;
pub mod segment;

use axum::Router;
use axum::routing::{delete, get, post};

pub use self::find::bug;
use super::Api;

/// The routes of feature flags.
pub fn router() -> Router<Api> {
    let one_flag = get(flag::show).put(flag::put).patch(flag::patch).delete(flag::archive);
    // `/v1/flags/evaluate`, without hiding a flag of that key.
    let one_flag = one_flag.post(evaluate::evaluate);
    let one_segment =
        get(segment::show).put(segment::put).patch(segment::patch).delete(segment::archive);
    Router::new()
        .route("/v1/environments", get(environments::list).post(environments::create))
        .route("/v1/environments/{key}", get(environments::show).patch(environments::patch))
        .route("/v1/environments/{key}/secrets", post(secrets::add))
        .route("/v1/environments/{key}/secrets/{id}", delete(secrets::expire))
        .route("/v1/environments/{key}/import", post(exchange::import))
        .route("/v1/environments/{key}/insights/metrics", get(insights::of_metric))
        .route("/v1/environments/{key}/export", get(exchange::export))
        .route("/v1/environments/{key}/diff", get(diff::diff))
        .route("/v1/environments/{key}/copy", post(copy::copy))
        .route("/v1/changes", get(changes::list).post(changes::request))
        .route("/v1/changes/{id}", get(changes::show))
        .route("/v1/changes/{id}/approve", post(changes::approve))
        .route("/v1/changes/{id}/reject", post(changes::reject))
        .route("/v1/changes/{id}/withdraw", post(changes::withdraw))
        .route("/v1/relay-proxies", get(relays::list).post(relays::create))
        .route("/v1/relay-proxies/{id}", delete(relays::expire))
        .route("/v1/flags", get(flag::list).post(flag::create))
        .route("/v1/flags/{key}", one_flag)
        .route("/v1/flags/{key}/explain", get(explain::of_key).post(explain::of_user))
        .route("/v1/flags/{key}/history", get(history::of_flag))
        .route("/v1/flags/{key}/insights", get(insights::of_flag))
        .route("/v1/segments", get(segment::list).post(segment::create))
        .route("/v1/segments/{id}", one_segment)
        .route("/v1/segments/{id}/history", get(history::of_segment))
}
