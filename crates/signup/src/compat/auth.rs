//! `/user/auth`: registering, logging in and out, passwords and addresses.

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use domain::customer::{Customer, TokenPurpose};
use domain::{CustomerId, Timestamp};
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};

use super::body::Fields;
use super::error::Failure;
use super::{Door, caller};
use crate::operations::{self, Callback, Manner};
use crate::service::{Entered, Error, How, LoggedIn, Login, registration};

/// How long what is shown as a refresh token may be, in characters; one of ours is shorter.
const REFRESH_TOKEN_CHARACTERS_MAX: usize = 256;

/// `POST /user/auth/register`
pub(super) async fn register(
    State(door): State<Door>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let asked = caller::asked(&door, &parts).await?;
    let entered = read_registration(body).await?;
    if operations::is_preferred(&parts.headers) {
        let callback = Callback::of_headers(&parts.headers, &door.callbacks)
            .map_err(|error| Failure::bad(&format!("Callback {}: {error}", error.field())))?;
        let queued = door.sign_up.queue(&asked, &entered, Manner::Open, callback).await?;
        return Ok(operations::accepted(&queued));
    }
    let new = registration(&entered).map_err(Error::Fields)?;
    let done = door.sign_up.register(&asked, new, How::OPENLY).await?;
    let id = done.customer.map(|it| it.id);
    let body = json!({
        "success": true,
        "message": "Customer registered successfully",
        "customer": {
            "id": id,
            "email": done.email,
            "first_name": done.first_name,
            "last_name": done.last_name,
            "requires_verification": true,
        },
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// What somebody entered to register; all wrong fields are told at once.
pub(super) async fn read_registration(body: Body) -> Result<Entered, Failure> {
    let mut fields = Fields::read(body).await?;
    let mut entered = Entered {
        email: fields.text("email"),
        password: fields.text("password"),
        first_name: fields.text("first_name"),
        last_name: fields.text("last_name"),
        phone: fields.optional_text("phone", 32),
        company: fields.optional_text("company", 100),
        country: fields.optional_text("country", 50),
        time_zone: fields.optional_text("timezone", 50),
        language: fields.optional_text("language", 10),
        preferences: String::new(),
    };
    if fields.required_flag("accept_terms") == Some(false) {
        let message = "Value error, Terms and conditions must be accepted";
        fields.note("accept_terms", "value_error", message);
    }
    let marketing = fields.flag("marketing_consent").unwrap_or(false);
    if let Err(invalid) = registration(&entered) {
        invalid.into_iter().for_each(|it| fields.break_rule(it));
    }
    fields.finish()?;
    entered.preferences = super::users::first_preferences(&entered, marketing);
    Ok(entered)
}

/// `POST /user/auth/login`
pub(super) async fn log_in(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let asked = caller::asked(&door, &parts).await?;
    let mut fields = Fields::read(body).await?;
    let login = Login {
        email: fields.text("email"),
        password: fields.text("password"),
        code: fields.optional_text("code", 64),
        remember: fields.flag("remember_me").unwrap_or(false),
    };
    fields.finish()?;
    let done = door.sign_up.log_in(&asked, login).await?;
    Ok(Json(json!({
        "success": true,
        "message": "Login successful",
        "customer": shown(&done.customer),
        "tokens": tokens(&done),
    })))
}

/// A customer in answers about logging in.
fn shown(customer: &Customer) -> Value {
    json!({
        "id": customer.id,
        "email": customer.profile.email,
        "first_name": customer.profile.first_name,
        "last_name": customer.profile.last_name,
        "is_verified": customer.is_verified,
    })
}

/// Both tokens; the refresh token is not of the original.
fn tokens(done: &LoggedIn) -> Value {
    json!({
        "access_token": done.access_token,
        "refresh_token": done.refresh_token,
        "expires_at": moment(done.expires_at),
        "token_type": "redis",
    })
}

/// A time as the original writes it: ISO 8601 in UTC, with microseconds and without a zone.
pub(super) fn moment(at: Timestamp) -> String {
    let shown = jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::MAX);
    shown.strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

/// `POST /user/auth/logout`
pub(super) async fn log_out(
    State(door): State<Door>,
    parts: Parts,
) -> Result<Json<Value>, Failure> {
    let (asked, who) = caller::customer(&door, &parts).await?;
    let current = Some(who.session.id);
    door.sign_up.close_sessions(&asked, &who, current).await?;
    Ok(done("Logout successful"))
}

/// `POST /user/auth/verify-email`
pub(super) async fn verify_email(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let asked = caller::asked(&door, &parts).await?;
    let mut fields = Fields::read(body).await?;
    let token = fields.text("token");
    fields.finish()?;
    let customer = door.sign_up.verify_email(&asked, &token).await;
    let customer = customer.map_err(|error| token_failure(error, "verification"))?;
    Ok(Json(json!({
        "success": true,
        "message": "Email verified successfully",
        "customer": shown(&Customer { is_verified: true, ..customer }),
    })))
}

/// `POST /user/auth/resend-verification`
pub(super) async fn resend_verification(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    mail_token(&door, request, TokenPurpose::Verification).await?;
    Ok(done("If the email exists and is not verified, a verification link has been sent"))
}

/// `POST /user/auth/password-reset`
pub(super) async fn password_reset(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    mail_token(&door, request, TokenPurpose::PasswordReset).await?;
    Ok(done("If the email exists, a password reset link has been sent"))
}

async fn mail_token(door: &Door, request: Request, purpose: TokenPurpose) -> Result<(), Failure> {
    let (parts, body) = request.into_parts();
    let asked = caller::asked(door, &parts).await?;
    let mut fields = Fields::read(body).await?;
    let email = fields.text("email");
    fields.finish()?;
    Ok(door.sign_up.mail_token(&asked, &email, purpose).await?)
}

/// `POST /user/auth/password-reset-complete`
pub(super) async fn password_reset_complete(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let asked = caller::asked(&door, &parts).await?;
    let mut fields = Fields::read(body).await?;
    let token = fields.text("token");
    let password = new_password(&mut fields);
    fields.finish()?;
    let done_ = door.sign_up.reset_password(&asked, &token, &password).await;
    done_.map_err(|error| token_failure(error, "reset"))?;
    Ok(done("Password reset successfully"))
}

/// `POST /user/auth/password-change`
pub(super) async fn password_change(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let (asked, who) = caller::customer(&door, &parts).await?;
    let mut fields = Fields::read(body).await?;
    let current = fields.text("current_password");
    let password = new_password(&mut fields);
    fields.finish()?;
    match door.sign_up.change_password(&asked, &who, (&current, &password)).await {
        Ok(()) => Ok(done("Password changed successfully")),
        Err(Error::Credentials) => Err(Failure::bad("Current password is incorrect")),
        Err(error) => Err(error.into()),
    }
}

/// A new password, which has to be entered twice.
fn new_password(fields: &mut Fields) -> String {
    let password = fields.text("new_password");
    let confirmed = fields.text("confirm_password");
    if let Err(invalid) = crate::password_policy::check(&password) {
        let said = super::error::broken(invalid);
        let (kind, message) = (said["type"].as_str(), said["msg"].as_str());
        fields.note("new_password", kind.unwrap_or_default(), message.unwrap_or_default());
    }
    if confirmed != password && !fields.is_wrong("new_password") {
        fields.note("confirm_password", "value_error", "Value error, Passwords do not match");
    }
    password
}

/// `POST /user/auth/refresh-token`: the token in the body, or as the original's parameter of the query,
/// where it is in every log on its way.
pub(super) async fn refresh_token(
    State(door): State<Door>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let asked = caller::asked(&door, &parts).await?;
    let mut fields = Fields::read_if_any(body).await?;
    let token = fields.optional_text("refresh_token", REFRESH_TOKEN_CHARACTERS_MAX);
    fields.finish()?;
    let token = token.or_else(|| super::query(&parts, "refresh_token")).unwrap_or_default();
    match door.sign_up.refresh(&asked, &token).await {
        Ok(done) => Ok(Json(json!({ "success": true, "tokens": tokens(&done) }))),
        Err(Error::TokenInvalid) => Err(Failure::unauthorized("Invalid or expired refresh token")),
        Err(error) => Err(error.into()),
    }
}

fn token_failure(error: Error, what: &str) -> Failure {
    if matches!(error, Error::TokenInvalid) {
        return Failure::bad(&format!("Invalid or expired {what} token"));
    }
    error.into()
}

/// Done, in a sentence.
pub(super) fn done(message: &str) -> Json<Value> {
    Json(json!({ "success": true, "message": message }))
}

/// An id in a path.
pub(super) fn customer_id(text: &str) -> Option<CustomerId> {
    uuid::Uuid::try_parse(text).ok().map(CustomerId::new)
}
