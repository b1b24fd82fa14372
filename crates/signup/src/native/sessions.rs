//! `/v1/sessions`: logging in, staying logged in, and ending it.

use axum::extract::{Path, State};
use axum::response::Response;
use domain::SessionId;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Native;
use super::asking::{Asking, LoggedIn};
use super::json::{Json, answer, done, moment};
use super::problem::Problem;
use crate::service::{self, Login};

/// What somebody entered to log in.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewSession {
    email: String,
    password: String,
    /// Of the second factor, or a recovery code.
    code: Option<String>,
    /// Whether to stay logged in for longer.
    #[serde(default)]
    remember_me: bool,
}

/// A token that renews.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Refresh {
    refresh_token: String,
}

/// Somebody who is logged in.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionTokens {
    customer_id: String,
    access_token: String,
    refresh_token: String,
    /// `Bearer`
    token_type: &'static str,
    /// When the access token ends.
    expires_at: String,
}

/// A session.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    id: String,
    created_at: String,
    renewed_at: String,
    expires_at: String,
    /// Whether it is the one that asks.
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
        expires_at: moment(logged_in.expires_at),
    }
}

#[utoipa::path(
    post,
    path = "/v1/sessions",
    tag = "Sign-up",
    operation_id = "sign_up_log_in",
    summary = "Logs somebody in",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable")),
    request_body = NewSession,
    responses(
        (status = 201, description = "Who, and their tokens", body = SessionTokens),
        (status = 401, description = "The address or the password is wrong, the address is not verified, or a code is needed"),
        (status = 403, description = "Deactivated"),
        (status = 503, description = "Too many passwords wait to be hashed"),
    )
)]
pub(super) async fn open(
    State(native): State<Native>,
    asking: Asking,
    Json(new): Json<NewSession>,
) -> Result<Response, Problem> {
    let NewSession { email, password, code, remember_me: remember } = new;
    let login = Login { email, password, code, remember };
    let logged_in = native.signup.log_in(&asking.asked(), login).await?;
    Ok(answer(StatusCode::CREATED, &tokens(logged_in)))
}

#[utoipa::path(
    post,
    path = "/v1/sessions/refresh",
    tag = "Sign-up",
    operation_id = "sign_up_refresh",
    summary = "Renews both tokens; a refresh token that was used before ends the session",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable")),
    request_body = Refresh,
    responses(
        (status = 200, description = "New tokens", body = SessionTokens),
        (status = 400, description = "The token is none, was used, or has ended"),
    )
)]
pub(super) async fn refresh(
    State(native): State<Native>,
    asking: Asking,
    Json(refresh): Json<Refresh>,
) -> Result<Response, Problem> {
    let logged_in = native.signup.refresh(&asking.asked(), &refresh.refresh_token).await?;
    Ok(answer(StatusCode::OK, &tokens(logged_in)))
}

#[utoipa::path(
    get,
    path = "/v1/sessions",
    tag = "Sign-up",
    operation_id = "sign_up_sessions",
    summary = "The customer's sessions, oldest first",
    responses(
        (status = 200, description = "What was asked for", body = Sessions),
        (status = 401, description = "Not logged in"),
    )
)]
pub(super) async fn list(
    State(native): State<Native>,
    logged_in: LoggedIn,
) -> Result<Response, Problem> {
    let sessions = native.signup.sessions(&logged_in.who).await?;
    let shown = |it: service::SessionShown| Session {
        id: it.id.to_string(),
        created_at: moment(it.created_at),
        renewed_at: moment(it.renewed_at),
        expires_at: moment(it.expires_at),
        current: it.is_current,
    };
    let sessions = sessions.into_iter().map(shown).collect();
    Ok(answer(StatusCode::OK, &Sessions { sessions }))
}

#[utoipa::path(
    delete,
    path = "/v1/sessions/{id}",
    tag = "Sign-up",
    operation_id = "sign_up_log_out_elsewhere",
    summary = "Ends one of the customer's sessions",
    params(("id" = String, Path, description = "The session")),
    responses(
        (status = 204, description = "It has ended"),
        (status = 401, description = "Not logged in"),
        (status = 404, description = "The customer has no such session"),
    )
)]
pub(super) async fn close(
    State(native): State<Native>,
    Path(id): Path<String>,
    logged_in: LoggedIn,
) -> Result<Response, Problem> {
    let id: SessionId = super::id(&id, "session")?;
    close_sessions(&native, &logged_in, Some(id)).await
}

#[utoipa::path(
    delete,
    path = "/v1/sessions/current",
    tag = "Sign-up",
    operation_id = "sign_up_log_out",
    summary = "Ends the session that asks",
    responses(
        (status = 204, description = "It has ended"),
        (status = 401, description = "Not logged in"),
    )
)]
pub(super) async fn close_current(
    State(native): State<Native>,
    logged_in: LoggedIn,
) -> Result<Response, Problem> {
    let id = logged_in.who.session.id;
    close_sessions(&native, &logged_in, Some(id)).await
}

#[utoipa::path(
    delete,
    path = "/v1/sessions",
    tag = "Sign-up",
    operation_id = "sign_up_log_out_everywhere",
    summary = "Ends all of the customer's sessions",
    responses(
        (status = 204, description = "They have ended"),
        (status = 401, description = "Not logged in"),
    )
)]
pub(super) async fn close_all(
    State(native): State<Native>,
    logged_in: LoggedIn,
) -> Result<Response, Problem> {
    close_sessions(&native, &logged_in, None).await
}

async fn close_sessions(
    native: &Native,
    logged_in: &LoggedIn,
    session: Option<SessionId>,
) -> Result<Response, Problem> {
    native.signup.close_sessions(&logged_in.asked, &logged_in.who, session).await?;
    Ok(done())
}
