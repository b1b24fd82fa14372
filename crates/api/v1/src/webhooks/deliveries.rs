//! The log of deliveries: every try, the newest first.

use std::sync::Arc;
use std::time::Duration;

use ::webhooks::event::{event_id, parse_event_id};
use axum::Json;
use domain::WebhookEndpointId;
use engine::ports::{CALLBACK, DeliveryLogQueries, ReadLimits};
use engine::time::rfc3339;
use engine::webhooks::{LogPlace, LoggedTry, TryFilter, TryOutcome};
use engine::{Reason, Unavailable};
use serde::Serialize;
use tokio::sync::Semaphore;
use utoipa::ToSchema;
use uuid::Uuid;

use super::READ;
use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, Unauthenticated};
use crate::parameters::{Parameters, invalid};

/// Reads of the log at the same time.
pub const READS_MAX: usize = 2;

/// How long a read of the log may take.
const READ_WITHIN: Duration = Duration::from_secs(5);

const LIMIT_DEFAULT: u64 = 100;
const LIMIT_MAX: u64 = 1_000;

/// The log, where this process has one.
#[derive(Clone)]
pub struct Log {
    queries: Arc<dyn DeliveryLogQueries>,
    free: Arc<Semaphore>,
}

impl Log {
    #[must_use]
    pub fn new(queries: Arc<dyn DeliveryLogQueries>) -> Self {
        Self { queries, free: Arc::new(Semaphore::new(READS_MAX)) }
    }

    async fn tries(
        &self,
        tenant: domain::TenantNo,
        filter: TryFilter,
        limit: u64,
    ) -> Result<Vec<LoggedTry>, Unavailable> {
        let permit = Arc::clone(&self.free).acquire_owned().await;
        let permit = permit.map_err(|_| Unavailable::from(Reason::Stopping))?;
        let queries = Arc::clone(&self.queries);
        let (limits, _awaited) = ReadLimits::new(READ_WITHIN);
        let read = tokio::task::spawn_blocking(move || {
            let found = queries.tries(tenant, &filter, (limit, &limits));
            drop(permit);
            found
        });
        match read.await {
            Ok(Ok(tries)) => Ok(tries),
            Ok(Err(error)) => Err(Reason::from(&error).into()),
            Err(_) => Err(Reason::Bug.into()),
        }
    }
}

/// A try to deliver an event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryView {
    event_id: String,
    event_type: String,
    /// The endpoint's id, or `callback`: the one of /1.0/kb
    endpoint: String,
    /// From 1 upwards; 0 where none was made
    attempt: u32,
    /// `delivered`, `failed`: there will be another try, or `given-up`
    status: &'static str,
    /// The HTTP status; `null` where there was no answer
    http_status: Option<u16>,
    /// How long it took, in milliseconds
    took_ms: u32,
    /// How the answer's body begins: at most 1 KiB
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Why it failed
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// When it ended (RFC 3339)
    at: String,
    /// When the next try is due (RFC 3339)
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
}

/// Tries, the newest first.
#[derive(Serialize, ToSchema)]
pub struct Deliveries {
    deliveries: Vec<DeliveryView>,
    /// The `before` of the next page; `null` after the last one
    next: Option<String>,
}

/// The tries of 30 days, the newest first
#[utoipa::path(get, path = "/v1/webhooks/deliveries", tag = "Webhooks", operation_id = "webhook_deliveries",
    params(("endpoint" = Option<String>, Query, description = "To this endpoint: its id, or `callback`"),
        ("event" = Option<String>, Query, description = "Of this event, by its id"),
        ("status" = Option<String>, Query, description = "delivered, failed or given-up"),
        ("before" = Option<String>, Query, description = "The `next` of the page before"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most")),
    responses((status = 200, description = "The tries", body = Deliveries),
        (status = 403, description = "webhook:read is missing"), InvalidParameter, Unauthenticated))]
pub async fn list(call: Call) -> Result<Json<Deliveries>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters(READ)?;
    let filter = filter(&mut parameters)?;
    let limit = parameters.number("limit", LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    parameters.end()?;
    let log = api.webhooks.log.ok_or(Error::NotHere { what: "webhook deliveries" })?;
    let mut found = log.tries(context.tenant.no, filter, limit + 1).await?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > shown;
    found.truncate(shown);
    let next = found.last().filter(|_| more).map(|last| place_text(last.place));
    let deliveries = found.into_iter().map(view).collect();
    Ok(Json(Deliveries { deliveries, next }))
}

fn filter(parameters: &mut Parameters) -> Result<TryFilter, Error> {
    let endpoint = parameters.text("endpoint")?.map(|text| match text.as_str() {
        "callback" => Ok(CALLBACK),
        text => Uuid::try_parse(text).map(WebhookEndpointId::new),
    });
    let endpoint = endpoint.transpose().map_err(|_| invalid("endpoint", "is no UUID"))?;
    let event = parameters
        .text("event")?
        .map(|text| parse_event_id(&text).ok_or_else(|| invalid("event", "is no id of an event")));
    let outcome = parameters.text("status")?.map(|text| {
        let found = TryOutcome::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| invalid("status", "is neither delivered, failed nor given-up"))
    });
    let before = parameters
        .text("before")?
        .map(|text| place(&text).ok_or_else(|| invalid("before", "is not the `next` of a page")));
    Ok(TryFilter {
        endpoint,
        event: event.transpose()?,
        outcome: outcome.transpose()?,
        before: before.transpose()?,
    })
}

fn place_text(place: LogPlace) -> String {
    format!("{}-{}", place.number, place.partition)
}

fn place(text: &str) -> Option<LogPlace> {
    let (number, partition) = text.split_once('-')?;
    Some(LogPlace { number: number.parse().ok()?, partition: partition.parse().ok()? })
}

fn view(LoggedTry { it, .. }: LoggedTry) -> DeliveryView {
    let is_callback = it.id.endpoint == CALLBACK;
    let endpoint = if is_callback { "callback".to_owned() } else { it.id.endpoint.to_string() };
    DeliveryView {
        event_id: event_id(it.id.seq, it.id.ordinal),
        event_type: it.event_type,
        endpoint,
        attempt: it.attempt,
        status: it.outcome.name(),
        http_status: it.status,
        took_ms: it.took_ms,
        answer: it.answer,
        error: it.error,
        at: rfc3339(it.at),
        next_at: it.next_at.map(rfc3339),
    }
}
