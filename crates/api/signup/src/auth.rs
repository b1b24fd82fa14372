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
use sign_up::operations::Disclosure;
use sign_up::service::{
    Error, LoggedIn, Login, RegistrationForm, RegistrationOptions, validate_registration,
};
use web::prefer;

use crate::body::Fields;
use crate::error::ApiError;
use crate::preferences::first_preferences;
use crate::{Api, callback, caller};

/// The longest refresh token that is parsed, in characters; real ones are shorter.
const REFRESH_TOKEN_CHARACTERS_MAX: usize = 256;

/// `POST /user/auth/register`
pub(crate) async fn register(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let context = caller::context(&api, &parts).await?;
    let form = read_registration(body).await?;
    if prefer::is_async_preferred(&parts.headers) {
        let callback = callback::read(&parts.headers, &api.callbacks)
            .map_err(|error| ApiError::bad(&format!("Callback {}: {error}", error.field())))?;
        let queued = api.sign_up.queue(&context, &form, Disclosure::Open, callback).await?;
        return Ok(prefer::accepted(&queued.operation.to_string(), &queued.location));
    }
    let new = validate_registration(&form).map_err(Error::Fields)?;
    let done = api.sign_up.register(&context, new, RegistrationOptions::OPEN).await?;
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

/// The fields of a registration; all invalid fields are reported at once.
pub(crate) async fn read_registration(body: Body) -> Result<RegistrationForm, ApiError> {
    let mut fields = Fields::read(body).await?;
    let mut form = RegistrationForm {
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
    if let Err(invalid) = validate_registration(&form) {
        invalid.into_iter().for_each(|it| fields.break_rule(it));
    }
    fields.finish()?;
    form.preferences = first_preferences(&form, marketing);
    Ok(form)
}

/// `POST /user/auth/login`
pub(crate) async fn log_in(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (context, mut fields) = caller::form(&api, request).await?;
    let login = Login {
        email: fields.text("email"),
        password: fields.text("password"),
        code: fields.optional_text("code", 64),
        remember: fields.flag("remember_me").unwrap_or(false),
    };
    fields.finish()?;
    let done = api.sign_up.log_in(&context, login).await?;
    Ok(Json(json!({
        "success": true,
        "message": "Login successful",
        "customer": customer_json(&done.customer),
        "tokens": tokens(&done),
    })))
}

/// A customer in responses about logging in.
fn customer_json(customer: &Customer) -> Value {
    json!({
        "id": customer.id,
        "email": customer.profile.email,
        "first_name": customer.profile.first_name,
        "last_name": customer.profile.last_name,
        "is_verified": customer.is_verified,
    })
}

/// Both tokens. The original has no refresh token.
fn tokens(done: &LoggedIn) -> Value {
    json!({
        "access_token": done.access_token,
        "refresh_token": done.refresh_token,
        "expires_at": naive_utc(done.expires_at),
        "token_type": "redis",
    })
}

/// A time in the original's format: ISO 8601 in UTC, with microseconds and without a zone.
pub(crate) fn naive_utc(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

/// `POST /user/auth/logout`
pub(crate) async fn log_out(State(api): State<Api>, parts: Parts) -> Result<Json<Value>, ApiError> {
    let (context, caller) = caller::customer(&api, &parts).await?;
    let current = Some(caller.session.id);
    api.sign_up.close_sessions(&context, &caller, current).await?;
    Ok(done("Logout successful"))
}

/// `POST /user/auth/verify-email`
pub(crate) async fn verify_email(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (context, mut fields) = caller::form(&api, request).await?;
    let token = fields.text("token");
    fields.finish()?;
    let customer = api.sign_up.verify_email(&context, &token).await;
    let customer = customer.map_err(|error| token_failure(error, "verification"))?;
    Ok(Json(json!({
        "success": true,
        "message": "Email verified successfully",
        "customer": customer_json(&Customer { is_verified: true, ..customer }),
    })))
}

/// `POST /user/auth/resend-verification`
pub(crate) async fn resend_verification(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    mail_token(&api, request, TokenPurpose::Verification).await?;
    Ok(done("If the email exists and is not verified, a verification link has been sent"))
}

/// `POST /user/auth/password-reset`
pub(crate) async fn password_reset(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    mail_token(&api, request, TokenPurpose::PasswordReset).await?;
    Ok(done("If the email exists, a password reset link has been sent"))
}

async fn mail_token(api: &Api, request: Request, purpose: TokenPurpose) -> Result<(), ApiError> {
    let (context, mut fields) = caller::form(api, request).await?;
    let email = fields.text("email");
    fields.finish()?;
    Ok(api.sign_up.mail_token(&context, &email, purpose).await?)
}

/// `POST /user/auth/password-reset-complete`
pub(crate) async fn password_reset_complete(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (context, mut fields) = caller::form(&api, request).await?;
    let token = fields.text("token");
    let password = new_password(&mut fields);
    fields.finish()?;
    let result = api.sign_up.reset_password(&context, &token, &password).await;
    result.map_err(|error| token_failure(error, "reset"))?;
    Ok(done("Password reset successfully"))
}

/// `POST /user/auth/password-change`
pub(crate) async fn password_change(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let ((context, caller), mut fields) = caller::customer_form(&api, request).await?;
    let current = fields.text("current_password");
    let password = new_password(&mut fields);
    fields.finish()?;
    match api.sign_up.change_password(&context, &caller, (&current, &password)).await {
        Ok(()) => Ok(done("Password changed successfully")),
        Err(Error::Credentials) => Err(ApiError::bad("Current password is incorrect")),
        Err(error) => Err(error.into()),
    }
}

/// A new password, which must be repeated.
fn new_password(fields: &mut Fields) -> String {
    let password = fields.text("new_password");
    let confirmed = fields.text("confirm_password");
    if let Err(invalid) = sign_up::password_policy::check(&password) {
        let field = crate::error::broken_rule(invalid);
        let (kind, message) = (field["type"].as_str(), field["msg"].as_str());
        fields.note("new_password", kind.unwrap_or_default(), message.unwrap_or_default());
    }
    if confirmed != password && !fields.is_wrong("new_password") {
        fields.note("confirm_password", "value_error", "Value error, Passwords do not match");
    }
    password
}

/// `POST /user/auth/refresh-token`: the token is in the body, or in the query as in the original, where
/// proxies log it.
pub(crate) async fn refresh_token(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (parts, body) = request.into_parts();
    let context = caller::context(&api, &parts).await?;
    let mut fields = Fields::read_if_any(body).await?;
    let token = fields.optional_text("refresh_token", REFRESH_TOKEN_CHARACTERS_MAX);
    fields.finish()?;
    let token = token.or_else(|| crate::query(&parts, "refresh_token")).unwrap_or_default();
    match api.sign_up.refresh(&context, &token).await {
        Ok(done) => Ok(Json(json!({ "success": true, "tokens": tokens(&done) }))),
        Err(Error::TokenInvalid) => Err(ApiError::unauthorized("Invalid or expired refresh token")),
        Err(error) => Err(error.into()),
    }
}

fn token_failure(error: Error, what: &str) -> ApiError {
    if matches!(error, Error::TokenInvalid) {
        return ApiError::bad(&format!("Invalid or expired {what} token"));
    }
    error.into()
}

/// A success with a message.
pub(crate) fn done(message: &str) -> Json<Value> {
    Json(json!({ "success": true, "message": message }))
}

/// The id of a customer in a path.
pub(crate) fn customer_id(text: &str) -> Option<CustomerId> {
    uuid::Uuid::try_parse(text).ok().map(CustomerId::new)
}
