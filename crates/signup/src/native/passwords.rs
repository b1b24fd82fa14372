//! `/v1/password-resets` and `/v1/me/password`: another password, by a mail or by the one before.

use axum::extract::State;
use axum::response::Response;
use domain::customer::TokenPurpose;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Native;
use super::asking::{Asking, LoggedIn};
use super::json::{Json, answer, done};
use super::problem::Problem;
use super::registrations::Address;

/// What is said to everybody who asks for a mail.
#[derive(Serialize, ToSchema)]
pub(super) struct ResetRequested {
    /// `mail-sent-if-known`
    status: &'static str,
}

/// A token that was mailed, and the password to be.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Reset {
    token: String,
    new_password: String,
}

/// The password that is, and the one to be.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PasswordChange {
    current_password: String,
    new_password: String,
}

#[utoipa::path(
    post,
    path = "/v1/password-resets",
    tag = "Sign-up",
    operation_id = "sign_up_request_reset",
    summary = "Mails a token that sets another password, if the address has a customer",
    request_body = Address,
    responses(
        (status = 202, description = "Whether it has one or not", body = ResetRequested),
        (status = 422, description = "It is no address"),
    )
)]
pub(super) async fn request_reset(
    State(native): State<Native>,
    asking: Asking,
    Json(address): Json<Address>,
) -> Result<Response, Problem> {
    let asked = asking.asked();
    native.signup.mail_token(&asked, &address.email, TokenPurpose::PasswordReset).await?;
    Ok(answer(StatusCode::ACCEPTED, &ResetRequested { status: "mail-sent-if-known" }))
}

#[utoipa::path(
    post,
    path = "/v1/password-resets/complete",
    tag = "Sign-up",
    operation_id = "sign_up_reset",
    summary = "Sets another password by a token that was mailed; all sessions end",
    request_body = Reset,
    responses(
        (status = 204, description = "It is set"),
        (status = 400, description = "The token is none, was used, or has ended"),
        (status = 422, description = "The password breaks a rule"),
        (status = 503, description = "Too many passwords wait to be hashed"),
    )
)]
pub(super) async fn reset(
    State(native): State<Native>,
    asking: Asking,
    Json(reset): Json<Reset>,
) -> Result<Response, Problem> {
    let set =
        native.signup.reset_password(&asking.asked(), &reset.token, &reset.new_password).await;
    set.map_err(|error| Problem::from(error).of_new_password())?;
    Ok(done())
}

#[utoipa::path(
    put,
    path = "/v1/me/password",
    tag = "Sign-up",
    operation_id = "sign_up_change_password",
    summary = "Sets another password by the one before; all sessions end",
    request_body = PasswordChange,
    responses(
        (status = 204, description = "It is set"),
        (status = 401, description = "Not logged in, or the password before is wrong"),
        (status = 422, description = "The password breaks a rule"),
        (status = 503, description = "Too many passwords wait to be hashed"),
    )
)]
pub(super) async fn change(
    State(native): State<Native>,
    logged_in: LoggedIn,
    Json(change): Json<PasswordChange>,
) -> Result<Response, Problem> {
    let LoggedIn { asked, who } = logged_in;
    let passwords = (&*change.current_password, &*change.new_password);
    let set = native.signup.change_password(&asked, &who, passwords).await;
    set.map_err(|error| Problem::from(error).of_new_password())?;
    Ok(done())
}
