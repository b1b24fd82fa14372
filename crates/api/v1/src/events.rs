//! The events of a tenant, in the order of their commits: what push notifications tell of.

use axum::Json;
use domain::Seq;
use engine::time::rfc3339;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::caller::Call;
use crate::error::Error;
use crate::openapi::Unauthenticated;
use crate::parameters::{Parameters, invalid};

/// Journal rows that one request looks at, of all tenants.
const ROWS_MAX: usize = 1_000;
/// Events of an answer at most, but for those of its last journal row.
const LIMIT_MAX: u64 = 1_000;
const LIMIT_DEFAULT: u64 = 100;

/// Events, the oldest first.
#[derive(Serialize, ToSchema)]
pub struct Events {
    events: Vec<EventView>,
    /// The `after` of the next request.
    next: String,
    /// Whether there are further ones already.
    more: bool,
}

/// What has happened.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// When it was committed (RFC 3339).
    at: String,
    /// The notification of it, as it is pushed: `eventType`, `objectType`, `objectId`, `accountId` and
    /// `metaData`.
    #[serde(flatten)]
    #[schema(value_type = Notification)]
    notification: Value,
}

/// A push notification, in Kill Bill's shape.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its description is used")]
pub struct Notification {
    /// Such as `PAYMENT_SUCCESS`
    event_type: String,
    account_id: Option<String>,
    /// Such as `PAYMENT`
    object_type: String,
    object_id: String,
    /// JSON in a text
    meta_data: Option<String>,
}

/// The events after a point.
#[utoipa::path(get, path = "/v1/events", tag = "Events", operation_id = "events",
    summary = "The tenant's events after a point; without `after` none, and where to begin",
    params(
        ("after" = Option<String>, Query, description = "The `next` of an answer before"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most"),
    ),
    responses(
        (status = 200, description = "The events", body = Events),
        (status = 400, description = "A parameter is invalid"),
        (status = 501, description = "Processes with the queue `kafka` list no events"),
        Unauthenticated))]
pub async fn list(Call { api, context, uri, .. }: Call) -> Result<Json<Events>, Error> {
    let mut parameters = Parameters::of(&uri)?;
    let after = parameters.text("after")?.map(|text| {
        let seq = text.parse().map(Seq).ok().filter(|it| it.0 >= 0);
        seq.ok_or_else(|| invalid("after", "is not the `next` of an answer"))
    });
    let after = after.transpose()?;
    let limit = parameters.number("limit", LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    parameters.end()?;
    // Fronts have neither analytics nor a journal.
    if api.analytics.is_none() {
        return Err(Error::NotHere { what: "events" });
    }
    let tenant = context.tenant.no;
    // Rows without events are read too, so it is bounded as searches are.
    let read = api.engine.scan(tenant, move |queries| {
        let head = queries.journal_head()?;
        // A point of another partition has nothing behind it here.
        let Some(after) = after.filter(|it| it.partition() == head.partition()) else {
            return Ok((vec![], head, head));
        };
        let (rows, upto) = queries.journal_after(after, ROWS_MAX)?;
        Ok((rows, upto, head))
    });
    let (rows, mut next, head) = read.await?;
    let mut events = vec![];
    for row in rows.into_iter().filter(|row| row.tenant == tenant) {
        let notifications = row.events.iter().filter_map(gateway::push::body);
        events.extend(notifications.map(|body| {
            let notification = serde_json::from_slice(&body).expect("a notification is JSON");
            EventView { at: rfc3339(row.committed_at), notification }
        }));
        if u64::try_from(events.len()).is_ok_and(|count| count >= limit) {
            next = row.seq;
            break;
        }
    }
    Ok(Json(Events { events, next: next.0.to_string(), more: next < head }))
}
