//! The events of a tenant, in the order of their commits: what webhooks tell of. An event can be sent again.

mod cursor;
mod stream;

use ::webhooks::event::{EventOfRow, event_of, events_of, parse_event_id};
use ::webhooks::{Receivers, ReceiversError};
use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use domain::WebhookEndpointId;
use engine::ports::{CALLBACK, JournalRow};
use engine::queue;
use engine::time::rfc3339;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use self::cursor::{Cursor, Page};
pub use self::stream::Streams;
use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::input;
use crate::openapi::{InvalidParameter, ObjectRejections, Unauthenticated};
use crate::parameters::invalid;

/// Reads events.
const READ: &str = "event:read";
/// Has events sent again.
const RESEND: &str = "event:resend";

/// The `before` of the newest events.
const LAST: &str = "last";

/// Events of an answer at most, but for those of its last journal row.
const LIMIT_MAX: u64 = 1_000;
const LIMIT_DEFAULT: u64 = 100;

/// Events, the oldest first; the newest first with `before`.
#[derive(Serialize, ToSchema)]
pub struct Events {
    events: Vec<EventView>,
    /// The `after` of the next request, or its `before` where that was given.
    next: String,
    /// Whether there are further ones already.
    more: bool,
}

/// An event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// The same for every endpoint, try and replay.
    id: String,
    /// Such as `payment.succeeded`
    #[serde(rename = "type")]
    kind: &'static str,
    /// Domain time of what happened (RFC 3339).
    timestamp: String,
    /// The event's data, as it is delivered to endpoints of the format `standard`.
    #[schema(value_type = Object)]
    data: Value,
    /// When it was committed (RFC 3339).
    at: String,
    /// The notification as it is delivered in the format `killbill`, where Kill Bill has the event: `eventType`,
    /// `objectType`, `objectId`, `accountId` and `metaData`.
    #[serde(flatten)]
    #[schema(value_type = Notification)]
    notification: Option<Value>,
}

/// A push notification, in Kill Bill's shape.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its description is used")]
pub struct Notification {
    /// Such as `PAYMENT_SUCCESS`
    event_type: Option<String>,
    account_id: Option<String>,
    /// Such as `PAYMENT`
    object_type: Option<String>,
    object_id: Option<String>,
    /// JSON in a text
    meta_data: Option<String>,
}

/// Where an event is sent to again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resend {
    /// The endpoint's id, or `callback`; all that want the event by default
    endpoint: Option<String>,
}

/// The result of sending an event again.
#[derive(Serialize, ToSchema)]
pub struct Resent {
    /// How many endpoints get it
    endpoints: usize,
}

/// The tenant's events after a point; without `after` none, and where to begin
#[utoipa::path(get, path = "/v1/events", tag = "Events", operation_id = "events",
    description = "With `Accept: text/event-stream` it is a stream that goes on: each event is the `data` of a message, and the `id` is where the stream is resumed. It ends after five minutes; the client reconnects with `Last-Event-ID`.",
    params(("after" = Option<String>, Query, description = "The `next` of an answer before; `first` for the oldest"),
        ("before" = Option<String>, Query, description = "The events before a point, the newest first: `last` for the newest, then the `next` of an answer to it. Not with `after`, and not of a stream"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most. Not of a stream"),
        ("Last-Event-ID" = Option<String>, Header, description = "In place of `after`, of a stream: the last id that was received")),
    responses((status = 200, description = "The events, or a stream of them",
            content((Events = "application/json"), (String = "text/event-stream"))),
        (status = 503, description = "16 streams of the tenant are open, or 256 in all"),
        (status = 403, description = "event:read is missing"), InvalidParameter, Unauthenticated))]
pub async fn list(call: Call) -> Result<Response, Error> {
    let (Call { api, context, headers, .. }, mut parameters) = call.with_parameters(READ)?;
    let after = parameters.text("after")?.map(|text| {
        Cursor::parse(&text).ok_or_else(|| invalid("after", "is not the `next` of an answer"))
    });
    let after = after.transpose()?;
    let before = parameters.text("before")?.map(|text| match (&*text, &after) {
        (_, Some(_)) => Err(invalid("before", "is not given beside `after`")),
        (LAST, None) => Ok(None),
        (text, None) => {
            let cursor = Cursor::parse(text);
            let invalid = || invalid("before", "is not `last` or the `next` of an answer");
            cursor.ok_or_else(invalid).map(Some)
        }
    });
    let before = before.transpose()?;
    let tenant = context.tenant.no;
    if stream::is_wanted(&headers) {
        parameters.end()?;
        if before.is_some() {
            return Err(invalid("before", "is not for a stream"));
        }
        let after = stream::last_event_id(&headers)?.or(after);
        let after = match after {
            Some(after) => after,
            None => api.engine.read(Cursor::last).await?,
        };
        return stream::open(api, (&context, headers), after);
    }
    let limit = parameters.number("limit", LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    parameters.end()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_newest_first = before.is_some();
    // Rows without events are read too, so it is bounded as searches are.
    let read = api.engine.scan(tenant, move |queries| match (before, after) {
        (Some(before), _) => {
            let before = before.map_or_else(|| Cursor::last(queries), Ok)?;
            before.page_before(queries, tenant, limit)
        }
        (None, Some(after)) => after.page(queries, tenant, limit),
        (None, None) => {
            let next = Cursor::last(queries)?;
            Ok(Page { rows: vec![], next, more: false })
        }
    });
    let Page { rows, next, more } = read.await?;
    let of_row = |row| {
        let events = events_of(row).map(view).collect::<Vec<_>>();
        match is_newest_first {
            true => events.into_iter().rev().collect(),
            false => events,
        }
    };
    let events = rows.iter().flat_map(|row| of_row(row)).collect();
    Ok(Json(Events { events, next: next.text(), more }).into_response())
}

fn view(it: EventOfRow<'_>) -> EventView {
    let notification = ::webhooks::body(it.event);
    let notification =
        notification.map(|body| serde_json::from_slice(&body).expect("a notification is JSON"));
    EventView {
        id: it.id(),
        kind: it.kind,
        timestamp: rfc3339(it.row.at),
        data: it.data(),
        at: rfc3339(it.row.committed_at),
        notification,
    }
}

/// An event of the tenant
#[utoipa::path(get, path = "/v1/events/{eventId}", tag = "Events", operation_id = "event",
    params(("eventId" = String, Path)),
    responses((status = 200, description = "The event", body = EventView), ObjectRejections))]
pub async fn show(call: Call, Path(id): Path<String>) -> Result<Json<EventView>, Error> {
    let Call { api, context, .. } = call.allowed(READ)?;
    let (row, ordinal) = find(&api, &context, &id).await?;
    let event = event_of(&row, ordinal).ok_or_else(|| not_found(&id))?;
    Ok(Json(view(event)))
}

/// Sends an event again under its id, also to an endpoint that has received it
#[utoipa::path(post, path = "/v1/events/{eventId}/resend", tag = "Events", operation_id = "resend_event",
    params(("eventId" = String, Path)), request_body = Resend,
    responses((status = 202, description = "It is sent, with the schedule of a new event", body = Resent),
        (status = 400, description = "A field is invalid, or the endpoint is off"), ObjectRejections))]
pub async fn resend(
    call: Call,
    Path(id): Path<String>,
    body: Body,
) -> Result<(StatusCode, Json<Resent>), Error> {
    let Call { api, context, .. } = call.allowed(RESEND)?;
    let resend: Resend = input::json_or_nothing(body, &context.tenant).await?;
    let (row, ordinal) = find(&api, &context, &id).await?;
    let event = event_of(&row, ordinal).ok_or_else(|| not_found(&id))?;
    let wanted = endpoints_for(&api, &context, event).await?;
    let endpoints = match resend.endpoint.as_deref() {
        None => wanted,
        Some(name) => {
            let is_it = |it: &WebhookEndpointId| match name {
                "callback" => *it == CALLBACK,
                name => Uuid::try_parse(name).is_ok_and(|id| it.uuid() == id),
            };
            let found = wanted.into_iter().find(is_it);
            let reason = "is no endpoint that is on and wants the event";
            vec![found.ok_or_else(|| invalid("endpoint", reason))?]
        }
    };
    let resent = Resent { endpoints: endpoints.len() };
    let (tenant, seq) = (context.tenant.no, row.seq);
    api.engine.resend(queue::Resend { tenant, seq, ordinal, endpoints }).await?;
    Ok((StatusCode::ACCEPTED, Json(resent)))
}

/// The endpoints that are on and want an event.
async fn endpoints_for(
    api: &Api,
    context: &RequestContext,
    event: EventOfRow<'_>,
) -> Result<Vec<WebhookEndpointId>, Error> {
    Ok(receivers(api, context).await?.of(event).collect())
}

/// The tenant's endpoints that are on.
pub(crate) async fn receivers(api: &Api, context: &RequestContext) -> Result<Receivers, Error> {
    let (no, sealer) = (context.tenant.no, api.sealer.clone());
    let read =
        api.engine.read(move |queries| match Receivers::read(queries, sealer.as_deref(), no) {
            Ok(receivers) => Ok(Some(receivers)),
            Err(ReceiversError::Sealed) => Ok(None),
            Err(ReceiversError::Store(error)) => Err(error),
        });
    read.await?.ok_or(Error::WrongSecretsKey)
}

/// The journal row of an event of the tenant, and its place in it.
async fn find(api: &Api, context: &RequestContext, id: &str) -> Result<(JournalRow, u16), Error> {
    let (seq, ordinal) = parse_event_id(id).ok_or_else(|| not_found(id))?;
    let row = api.engine.read(move |queries| queries.journal_row(seq)).await?;
    let row = row.filter(|row| row.tenant == context.tenant.no).ok_or_else(|| not_found(id))?;
    Ok((row, ordinal))
}

fn not_found(id: &str) -> Error {
    let shown = id.chars().take(64).collect();
    Error::NotFound { what: "event", name: shown }
}
