//! Mails that wait to be sent, and those that were given up, for those who look after them.

use axum::Json;
use axum::extract::Path;
use domain::MailId;
use domain::customer::mail::{Mail, MailKind};
use engine::Reason;
use engine::ports::Bookkeeping;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, PageParameters, Unauthenticated};
use crate::parameters::{invalid, uuid_of};
use engine::time::rfc3339;

/// Mails, oldest first.
#[derive(Serialize, ToSchema)]
pub struct Mails {
    /// The mails of the page.
    mails: Vec<MailView>,
    /// Whether more follow after this page.
    more: bool,
}

/// A mail. It is sent to its customer's address.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MailView {
    /// The mail's id, with which its `Message-ID` begins.
    id: Uuid,
    /// `welcome`, `verification`, `password_reset`, `password_changed` or `already_registered`.
    kind: &'static str,
    /// The customer who receives it.
    customer_id: Uuid,
    /// The number of failed attempts.
    attempts: u32,
    /// The error of the last attempt; `null` if none failed.
    error: Option<String>,
    /// When it was requested (RFC 3339).
    created_at: String,
    /// When it is sent or retried (RFC 3339); `null` if it was given up.
    due_at: Option<String>,
}

impl From<Mail> for MailView {
    fn from(it: Mail) -> Self {
        Self {
            id: it.id.uuid(),
            kind: label(it.kind),
            customer_id: it.customer.uuid(),
            attempts: it.attempts,
            error: it.error,
            created_at: rfc3339(it.created_at),
            due_at: it.due_at.map(rfc3339),
        }
    }
}

const fn label(kind: MailKind) -> &'static str {
    match kind {
        MailKind::Welcome => "welcome",
        MailKind::Verification => "verification",
        MailKind::PasswordReset => "password_reset",
        MailKind::PasswordChanged => "password_changed",
        MailKind::AlreadyRegistered => "already_registered",
    }
}

/// Mails that wait to be sent, or that were given up, oldest first
#[utoipa::path(get, path = "/v1/mails", tag = "Mail", operation_id = "mails",
    params(("status" = Option<String>, Query, description = "queued (the default): those that are tried; dead: those that were given up"),
        PageParameters),
    responses((status = 200, description = "The mails", body = Mails),
        (status = 403, description = "mail:read is missing"), InvalidParameter, Unauthenticated))]
pub async fn list(call: Call) -> Result<Json<Mails>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("mail:read")?;
    let window = parameters.window()?;
    let given_up = match parameters.text("status")?.as_deref() {
        None | Some("queued") => false,
        Some("dead") => true,
        Some(_) => return Err(invalid("status", "is neither queued nor dead")),
    };
    parameters.end()?;
    let no = context.tenant.no;
    let read = api.engine.read(move |queries| queries.mails(no, given_up, window.one_more()));
    let (found, more) = window.cut(read.await?);
    Ok(Json(Mails { mails: found.into_iter().map(MailView::from).collect(), more }))
}

/// Tries a mail again now that waits or was given up, as if for the first time
#[utoipa::path(post, path = "/v1/mails/{id}/resend", tag = "Mail", operation_id = "resend_mail",
    params(("id" = String, Path, description = "The mail")),
    responses((status = 202, description = "It is sent next"),
        (status = 400, description = "The id is none"),
        (status = 403, description = "mail:send is missing"),
        (status = 404, description = "There is no such mail; one that was sent is none any more"),
        (status = 501, description = "The node does not write to the database itself"), Unauthenticated))]
pub async fn resend(call: Call, Path(id): Path<String>) -> Result<StatusCode, Error> {
    let Call { api, context, .. } = call.allowed("mail:send")?;
    let (no, mail) = (context.tenant.no, MailId::new(uuid_of(&id)?));
    let found = api.engine.read(move |queries| queries.mail(no, mail)).await?;
    let found = found.ok_or(Error::NotFound { what: "mail", name: id })?;
    let due_at = Some(api.engine.clock().now());
    let again = Mail { due_at, attempts: 0, error: None, ..found };
    match api.engine.record(vec![Bookkeeping::MailPostponed(again)]).await {
        Ok(()) => {}
        Err(error) if matches!(error.reason, Reason::NotOwner | Reason::QueueAway) => {
            return Err(Error::NotHere { what: "mails that are to be sent again" });
        }
        Err(error) => return Err(error.into()),
    }
    let (tenant, user) = (no.0, &context.operator.caller.username);
    tracing::info!(tenant, mail.id = %mail, user, "a mail is sent again");
    Ok(StatusCode::ACCEPTED)
}
