//! `/v1/password-resets` and `/v1/me/password`: setting a password by a mailed token or by the
//! current password.

use axum::extract::State;
use axum::response::Response;
use domain::customer::TokenPurpose;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoResponses, ToSchema};

use super::SignUpApi;
use super::context::{Context, LoggedIn};
use super::json::{Json, answer, done};
use super::registrations::Address;
use crate::sign_up_problem::wrong_field;

use crate::error::Error;
use crate::openapi::PasswordsWait;

/// The response to every request for a mail.
#[derive(Serialize, ToSchema)]
pub(super) struct ResetRequested {
    /// `mail-sent-if-known`
    status: &'static str,
}

/// A token from a mail, and the new password.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Reset {
    token: String,
    new_password: String,
}

/// The current and the new password.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PasswordChange {
    current_password: String,
    new_password: String,
}

/// The answers to a new password.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its description is used")]
enum PasswordAnswers {
    /// The password is set
    #[response(status = 204)]
    Set,
    /// The password breaks a rule
    #[response(status = 422)]
    Invalid,
}

/// Mails a token for setting a password, if the address has a customer
#[utoipa::path(post, path = "/v1/password-resets", tag = "Sign-up", operation_id = "sign_up_request_reset",
    request_body = Address,
    responses((status = 202, description = "Whether it has one or not", body = ResetRequested),
        (status = 422, description = "It is not an address")))]
pub(super) async fn request_reset(
    State(api): State<SignUpApi>,
    Context(context): Context,
    Json(address): Json<Address>,
) -> Result<Response, Error> {
    api.sign_up.mail_token(&context, &address.email, TokenPurpose::PasswordReset).await?;
    Ok(answer(StatusCode::ACCEPTED, &ResetRequested { status: "mail-sent-if-known" }))
}

/// Sets a password by a token that was mailed; all sessions end
#[utoipa::path(post, path = "/v1/password-resets/complete", tag = "Sign-up", operation_id = "sign_up_reset",
    request_body = Reset,
    responses((status = 400, description = "The token is invalid, used or expired"),
        PasswordAnswers, PasswordsWait))]
pub(super) async fn reset(
    State(api): State<SignUpApi>,
    Context(context): Context,
    Json(reset): Json<Reset>,
) -> Result<Response, Error> {
    let result = api.sign_up.reset_password(&context, &reset.token, &reset.new_password).await;
    result.map(|()| done()).map_err(of_new_password)
}

/// Sets a password by the current one; all sessions end
#[utoipa::path(put, path = "/v1/me/password", tag = "Sign-up", operation_id = "sign_up_change_password",
    request_body = PasswordChange,
    responses((status = 401, description = "Not logged in, or the current password is wrong"),
        PasswordAnswers, PasswordsWait))]
pub(super) async fn change(
    LoggedIn { sign_up, context, caller }: LoggedIn,
    Json(change): Json<PasswordChange>,
) -> Result<Response, Error> {
    let passwords = (&*change.current_password, &*change.new_password);
    let result = sign_up.change_password(&context, &caller, passwords).await;
    result.map(|()| done()).map_err(of_new_password)
}

/// These routes name the field `newPassword`.
fn of_new_password(error: sign_up::Error) -> Error {
    let sign_up::Error::Fields(invalid) = error else { return error.into() };
    let mut fields: Vec<_> = invalid.into_iter().map(wrong_field).collect();
    for field in fields.iter_mut().filter(|it| it.field == "password") {
        field.field = "newPassword".to_owned();
    }
    Error::WrongFields(fields)
}
