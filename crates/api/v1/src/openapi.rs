//! Parameters and refusals that many routes of the OpenAPI document share.

use utoipa::{IntoParams, IntoResponses};

/// The environment that a route of feature flags works on.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub struct EnvironmentParameters {
    /// Its key; dev by default
    environment: Option<String>,
    /// Its project; default by default
    project: Option<String>,
}

/// The project of the environment in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub struct ProjectParameter {
    /// Its project; default by default
    project: Option<String>,
}

/// A window of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub struct PageParameters {
    /// How many to skip
    offset: Option<u64>,
    /// How many at most; 100 by default, 1000 at most
    limit: Option<u64>,
}

/// The expected version of what a request changes.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub struct IfMatch {
    /// The version that is to be changed
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// Makes a request of sign-up repeatable.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub struct IdempotencyKey {
    /// Makes the request repeatable
    #[param(rename = "Idempotency-Key")]
    idempotency_key: Option<String>,
}

/// The refusal of an operator's request without valid credentials.
#[derive(IntoResponses)]
#[response(status = 401, description = "User or tenant is missing or wrong")]
pub struct Unauthenticated;

/// The refusal of a customer's request without a session.
#[derive(IntoResponses)]
#[response(status = 401, description = "Not logged in")]
pub struct NotLoggedIn;

/// The refusal while too many passwords wait.
#[derive(IntoResponses)]
#[response(status = 503, description = "Too many passwords wait to be hashed")]
pub struct PasswordsWait;

/// The refusals of a request about one customer of an operator's tenant.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
pub enum CustomerRejections {
    /// User or tenant is missing or wrong
    #[response(status = 401)]
    Unauthenticated,
    /// The user lacks the permission
    #[response(status = 403)]
    Forbidden,
    /// No such customer of this tenant, or they are erased
    #[response(status = 404)]
    NotFound,
}
