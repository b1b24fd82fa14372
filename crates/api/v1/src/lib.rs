//! Faregate's own API under `/v1`: ledger, analytics, unresolved payments, mails, feature flags, sign-up.
//! Errors are RFC 9457.

pub mod analytics;
mod caller;
mod error;
pub mod flags;
mod ledger;
mod mails;
mod openapi;
mod parameters;
pub mod sign_up;
mod sign_up_problem;
mod unresolved;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use domain::Currency;
use domain::payment::TransactionStatus;
use engine::Engine;
use engine::access::Access;
use evaluation::MissingAttribute;
use feature_flags::{FlagCache, WriteLocks};
use secrets::Sealer;
use utoipa::OpenApi;

pub use crate::error::Error;

/// Dependencies of the handlers.
#[derive(Clone)]
pub struct Api {
    pub engine: Engine,
    /// Verifies operators and tenants.
    pub access: Access,
    /// The analytics tables; a front has none.
    pub analytics: Option<analytics::Models>,
    /// Encrypts the secrets of environments; `None` without a key.
    pub sealer: Option<Arc<Sealer>>,
    /// The feature flags of this node.
    pub cache: Arc<FlagCache>,
    /// Serialises writers of definitions.
    pub write_locks: Arc<WriteLocks>,
    /// The value of an attribute that a flag's user lacks.
    pub missing: MissingAttribute,
}

#[derive(OpenApi)]
#[openapi(paths(
    ledger::accounts,
    ledger::entries,
    unresolved::list,
    analytics::payments,
    analytics::accounts,
    analytics::account,
    mails::list,
    mails::resend,
    flags::environments::list,
    flags::environments::create,
    flags::environments::show,
    flags::environments::patch,
    flags::secrets::add,
    flags::secrets::expire,
    flags::relays::list,
    flags::relays::create,
    flags::relays::expire,
    flags::exchange::import,
    flags::exchange::export,
    flags::diff::diff,
    flags::copy::copy,
    flags::flag::list,
    flags::flag::create,
    flags::flag::show,
    flags::flag::put,
    flags::flag::patch,
    flags::flag::archive,
    flags::evaluate::evaluate,
    flags::changes::list,
    flags::changes::request,
    flags::changes::show,
    flags::changes::approve,
    flags::changes::reject,
    flags::changes::withdraw,
    flags::history::of_flag,
    flags::history::of_segment,
    flags::explain::of_key,
    flags::explain::of_user,
    flags::insights::of_flag,
    flags::insights::of_metric,
    flags::segment::list,
    flags::segment::create,
    flags::segment::show,
    flags::segment::put,
    flags::segment::patch,
    flags::segment::archive
))]
struct Documented;

/// The OpenAPI document of `/v1`.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = Documented::openapi();
    document.merge(sign_up::openapi());
    document
}

/// The paths without parameters, for metrics.
pub const PATHS: &[&str] = &[
    "/v1/ledger/accounts",
    "/v1/ledger/entries",
    "/v1/payments/unresolved",
    "/v1/analytics/payments",
    "/v1/analytics/accounts",
    "/v1/mails",
    "/v1/environments",
    "/v1/changes",
    "/v1/flags",
    "/v1/segments",
    "/v1/relay-proxies",
];

/// The routes under `/v1`.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/v1/ledger/accounts", get(ledger::accounts))
        .route("/v1/ledger/entries", get(ledger::entries))
        .route("/v1/payments/unresolved", get(unresolved::list))
        .route("/v1/analytics/payments", get(analytics::payments))
        .route("/v1/analytics/accounts", get(analytics::accounts))
        .route("/v1/analytics/accounts/{account}", get(analytics::account))
        .route("/v1/mails", get(mails::list))
        .route("/v1/mails/{id}/resend", post(mails::resend))
        .merge(flags::router())
        .route_layer(from_fn_with_state(api.clone(), caller::admit))
        .method_not_allowed_fallback(async || Error::NoMethod)
        .with_state(api)
}

/// A sum in the currency's major unit. Sums can be larger than any one amount.
fn decimal(minor: i128, currency: Currency) -> String {
    let decimals = usize::from(currency.decimals());
    let sign = if minor < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", minor.unsigned_abs(), width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    if decimals == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A transaction's status in Kill Bill's spelling, which has none for a call that runs.
const fn status_label(status: TransactionStatus) -> &'static str {
    match status {
        TransactionStatus::Success => "SUCCESS",
        TransactionStatus::Pending => "PENDING",
        TransactionStatus::PaymentFailure => "PAYMENT_FAILURE",
        TransactionStatus::PluginFailure => "PLUGIN_FAILURE",
        TransactionStatus::InFlight => "IN_FLIGHT",
        TransactionStatus::Unknown => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_64_bits_keep_their_decimals() {
        let usd = Currency::parse("USD").unwrap();
        assert_eq!(decimal(i128::from(i64::MAX) * 2, usd), "184467440737095516.14");
        assert_eq!(decimal(-5, usd), "-0.05");
        assert_eq!(decimal(7, Currency::parse("JPY").unwrap()), "7");
    }
}
