//! `/v1/sessions`: logging in, renewing, listing and ending sessions.

use axum::extract::{Path, State};
use axum::response::Response;
use domain::SessionId;
use engine::time::rfc3339;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::SignUpApi;
use super::context::{Context, LoggedIn};
use super::json::{Json, answer, done};
use sign_up::service::{self, Login};

use crate::error::Error;
use crate::openapi::{IdempotencyKey, NotLoggedIn, PasswordsWait};

/// The credentials of a login.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Credentials {
    email: String,
    password: String,
    /// The code of the second factor, or a recovery code.
    code: Option<String>,
    /// Whether the session lasts longer.
    #[serde(default)]
    remember_me: bool,
}

/// A refresh token.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Refresh {
    refresh_token: String,
}

/// The tokens of a session.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionTokens {
    customer_id: String,
    access_token: String,
    refresh_token: String,
    /// `Bearer`
    token_type: &'static str,
    /// When the access token expires.
    expires_at: String,
}

/// A customer's session.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    id: String,
    created_at: String,
    renewed_at: String,
    expires_at: String,
    /// Whether it is the session of this request.
    current: bool,
}

/// Sessions, oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Sessions {
    sessions: Vec<Session>,
}

fn tokens(logged_in: service::LoggedIn) -> SessionTokens {
    SessionTokens {
        customer_id: logged_in.customer.id.to_string(),
        access_token: logged_in.access_token,
        refresh_token: logged_in.refresh_token,
        token_type: "Bearer",
        expires_at: rfc3339(logged_in.expires_at),
    }
}

/// Logs a customer in
#[utoipa::path(post, path = "/v1/sessions", tag = "Sign-up", operation_id = "sign_up_log_in",
    params(IdempotencyKey), request_body = Credentials,
    responses((status = 201, description = "The customer and the tokens", body = SessionTokens),
        (status = 401, description = "The address or the password is wrong, the address is not verified, or a code is needed"),
        (status = 403, description = "Deactivated"), PasswordsWait))]
pub(super) async fn open(
    State(api): State<SignUpApi>,
    Context(context): Context,
    Json(new): Json<Credentials>,
) -> Result<Response, Error> {
    let Credentials { email, password, code, remember_me: remember } = new;
    let login = Login { email, password, code, remember };
    let logged_in = api.sign_up.log_in(&context, login).await?;
    Ok(answer(StatusCode::CREATED, &tokens(logged_in)))
}

/// Renews both tokens; a refresh token that was used before ends the session
#[utoipa::path(post, path = "/v1/sessions/refresh", tag = "Sign-up", operation_id = "sign_up_refresh",
    params(IdempotencyKey), request_body = Refresh,
    responses((status = 200, description = "New tokens", body = SessionTokens),
        (status = 400, description = "The token is invalid, used or expired")))]
pub(super) async fn refresh(
    State(api): State<SignUpApi>,
    Context(context): Context,
    Json(refresh): Json<Refresh>,
) -> Result<Response, Error> {
    let logged_in = api.sign_up.refresh(&context, &refresh.refresh_token).await?;
    Ok(answer(StatusCode::OK, &tokens(logged_in)))
}

/// The customer's sessions, oldest first
#[utoipa::path(get, path = "/v1/sessions", tag = "Sign-up", operation_id = "sign_up_sessions",
    responses((status = 200, description = "The sessions", body = Sessions), NotLoggedIn))]
pub(super) async fn list(LoggedIn { sign_up, caller, .. }: LoggedIn) -> Result<Response, Error> {
    let sessions = sign_up.sessions(&caller).await?;
    let shown = |it: service::SessionView| Session {
        id: it.id.to_string(),
        created_at: rfc3339(it.created_at),
        renewed_at: rfc3339(it.renewed_at),
        expires_at: rfc3339(it.expires_at),
        current: it.is_current,
    };
    let sessions = sessions.into_iter().map(shown).collect();
    Ok(answer(StatusCode::OK, &Sessions { sessions }))
}

/// Ends one of the customer's sessions
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "Sign-up", operation_id = "sign_up_log_out_elsewhere",
    params(("id" = String, Path, description = "The session")),
    responses((status = 204, description = "The session has ended"),
        (status = 404, description = "The customer has no such session"), NotLoggedIn))]
pub(super) async fn close(Path(id): Path<String>, logged_in: LoggedIn) -> Result<Response, Error> {
    let id: SessionId = super::id(&id, "session")?;
    close_sessions(logged_in, Some(id)).await
}

/// Ends the session of this request
#[utoipa::path(delete, path = "/v1/sessions/current", tag = "Sign-up", operation_id = "sign_up_log_out",
    responses((status = 204, description = "The session has ended"), NotLoggedIn))]
pub(super) async fn close_current(logged_in: LoggedIn) -> Result<Response, Error> {
    let id = logged_in.caller.session.id;
    close_sessions(logged_in, Some(id)).await
}

/// Ends all of the customer's sessions
#[utoipa::path(delete, path = "/v1/sessions", tag = "Sign-up", operation_id = "sign_up_log_out_everywhere",
    responses((status = 204, description = "All sessions have ended"), NotLoggedIn))]
pub(super) async fn close_all(logged_in: LoggedIn) -> Result<Response, Error> {
    close_sessions(logged_in, None).await
}

async fn close_sessions(
    LoggedIn { sign_up, context, caller }: LoggedIn,
    session: Option<SessionId>,
) -> Result<Response, Error> {
    sign_up.close_sessions(&context, &caller, session).await?;
    Ok(done())
}
