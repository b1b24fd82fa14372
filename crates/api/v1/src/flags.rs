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
pub mod insights;
pub mod relays;
mod schemas;
pub mod secrets;
pub mod segment;

use utoipa::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

pub use self::find::bug;
use super::Api;

/// `POST /v1/flags/evaluate` is a method of the route `/v1/flags/{key}`: a route of its own would hide
/// a flag of that key.
#[derive(OpenApi)]
#[openapi(paths(evaluate::evaluate))]
struct Evaluate;

/// The routes of feature flags.
pub(crate) fn routes() -> OpenApiRouter<Api> {
    let one_flag = routes!(flag::show, flag::put, flag::patch, flag::archive);
    let one_flag = one_flag.map(|methods| methods.post(evaluate::evaluate));
    OpenApiRouter::new()
        .routes(routes!(environments::list, environments::create))
        .routes(routes!(environments::show, environments::patch))
        .routes(routes!(secrets::add))
        .routes(routes!(secrets::expire))
        .routes(routes!(exchange::import))
        .routes(routes!(exchange::export))
        .routes(routes!(insights::of_metric))
        .routes(routes!(diff::diff))
        .routes(routes!(copy::copy))
        .routes(routes!(changes::list, changes::request))
        .routes(routes!(changes::show))
        .routes(routes!(changes::approve))
        .routes(routes!(changes::reject))
        .routes(routes!(changes::withdraw))
        .routes(routes!(relays::list, relays::create))
        .routes(routes!(relays::expire))
        .routes(routes!(flag::list, flag::create))
        .routes(one_flag)
        .merge(OpenApiRouter::with_openapi(Evaluate::openapi()))
        .routes(routes!(explain::of_key, explain::of_user))
        .routes(routes!(history::of_flag))
        .routes(routes!(insights::of_flag))
        .routes(routes!(segment::list, segment::create))
        .routes(routes!(segment::show, segment::put, segment::patch, segment::archive))
        .routes(routes!(history::of_segment))
}
