//! How much of a limit is used, in answers and in problems.

use domain::EntitlementRejection as R;
use domain::entitlement::level::{Counted, Level};
use engine::time::rfc3339;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use web::Problem;

/// How much of a limit is used.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LevelView {
    /// The account's limit, all its grants combined
    limit: i64,
    /// The quantity that is used in this period
    used: i64,
    /// The quantity of the reservations that have not ended
    reserved: i64,
    /// The quantity that may still be used; 0 where the limit is reached or exceeded
    left: i64,
    /// When the count starts again (RFC 3339); `null`: never
    resets_at: Option<String>,
}

/// A counted quantity of a feature, with the usage of its limit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountedView {
    feature: String,
    /// How much was counted
    quantity: i64,
    #[serde(flatten)]
    level: LevelView,
}

/// Adds the refusal's field to its problem, and the usage of the limit where the refusal has it.
pub(crate) fn with_details(problem: Problem, rejection: &R) -> Problem {
    let problem = match rejection.field() {
        Some(field) => problem.field(field.to_owned()),
        None => problem,
    };
    match rejection {
        R::LimitReached(it) => problem.known(json!(LevelView::of(it.level))),
        R::EventCounted(it) => problem.known(json!(CountedView::of(it))),
        R::FeatureNotFound { .. }
        | R::NotEntitled { .. }
        | R::UserTaken { .. }
        | R::OfferNotFound { .. }
        | R::Changed { .. }
        | R::NewcomersHaveOffer { .. }
        | R::OfferChanged { .. }
        | R::PriceChanged { .. }
        | R::PurchasePending { .. }
        | R::AlreadyBought { .. }
        | R::NotForAccount { .. }
        | R::TooMany { .. }
        | R::GrantNotFound { .. }
        | R::GrantOfPurchase { .. }
        | R::GrantOfSubscription { .. }
        | R::ReservationNotFound { .. }
        | R::ReservationEnded { .. } => problem,
    }
}

impl LevelView {
    pub(crate) fn of(it: Level) -> Self {
        Self {
            limit: it.limit,
            used: it.used,
            reserved: it.reserved,
            left: it.left(),
            resets_at: it.resets_at.map(rfc3339),
        }
    }
}

impl CountedView {
    pub(crate) fn of(it: &Counted) -> Self {
        Self { feature: it.feature.clone(), quantity: it.quantity, level: LevelView::of(it.level) }
    }
}
