//! Replays: events of a time that are sent again, as a job that goes on after a crash.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::{AccountId, Timestamp, WebhookEndpointId};
use engine::ports::{CALLBACK, DeliveryLogSource, Replays, StoreError};
use engine::time::rfc3339;
use engine::webhooks::{Replay, ReplayProgress};
use engine::{Reason, Unavailable};
use http::StatusCode;
use http::header::LOCATION;
use serde::{Deserialize, Serialize};
use sign_up::Error as SignUpError;
use tokio::sync::Semaphore;
use utoipa::ToSchema;
use uuid::Uuid;

use super::endpoints::check_events;
use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::events;
use crate::input;
use crate::openapi::{
    AnotherRequest, IdempotencyKey, InvalidField, ObjectRejections, Unauthenticated,
};
use crate::parameters::invalid;
use crate::repeatable::Repeatable;

/// Connections to them at the same time.
const CONNECTIONS_MAX: usize = 2;

/// Where replays are stored.
#[derive(Clone)]
pub struct Stored {
    source: Arc<dyn DeliveryLogSource>,
    free: Arc<Semaphore>,
}

impl Stored {
    #[must_use]
    pub fn new(source: Arc<dyn DeliveryLogSource>) -> Self {
        Self { source, free: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }
}

/// Has events sent again.
const RESEND: &str = "event:resend";

/// Events to be sent again.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewReplay {
    /// The time of the first one (RFC 3339)
    from: String,
    /// The time before which the last one happened (RFC 3339); now by default
    to: Option<String>,
    /// Their types, or groups such as `payment.*`; all by default
    events: Option<Vec<String>>,
    /// The account that they are about; any by default
    account: Option<Uuid>,
    /// An endpoint's id, or `callback`; all that want the events by default
    endpoint: Option<String>,
}

/// A replay.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplayView {
    id: Uuid,
    /// `running`, or `done`: all its deliveries are queued
    status: &'static str,
    /// How many deliveries were queued so far
    queued: i64,
    from: String,
    to: String,
    /// When it was asked for (RFC 3339)
    created_at: String,
}

/// Sends the events of a time again, each under its id
#[utoipa::path(post, path = "/v1/webhooks/replays", tag = "Webhooks", operation_id = "create_webhook_replay",
    params(IdempotencyKey), request_body = NewReplay,
    responses((status = 202, description = "It is done in the background, also after a crash", body = ReplayView),
        (status = 403, description = "event:resend is missing"),
        (status = 429, description = "100 replays of the tenant are not done yet"),
        (status = 501, description = "It names an endpoint, and flags.key_file is not configured"),
        InvalidField, AnotherRequest, Unauthenticated))]
pub async fn create(call: Call, body: Body) -> Result<Response, Error> {
    let Call { api, context, uri, headers } = call.allowed(RESEND)?;
    let it: NewReplay = input::json(body, &context.tenant).await?;
    let repeatable = Repeatable::of(&context, (&uri, &headers), &it)?;
    let has_end = it.to.is_some();
    let now = api.engine.clock().now();
    let from = time("from", &it.from)?;
    let to = it.to.as_deref().map_or(Ok(now), |to| time("to", to))?;
    if to <= from {
        return Err(invalid("to", "is not after from"));
    }
    let events = it.events.unwrap_or_default();
    check_events(&events)?;
    let endpoint = it.endpoint.map(|text| match text.as_str() {
        "callback" => Ok(CALLBACK),
        text => Uuid::try_parse(text).map(WebhookEndpointId::new),
    });
    let replay = Replay {
        tenant: context.tenant.no,
        // That of a repetition is the same.
        id: repeatable.map_or_else(|| api.engine.mint().0, |it| it.key),
        endpoint: endpoint.transpose().map_err(|_| invalid("endpoint", "is no UUID"))?,
        times: (from, to),
        events,
        account: it.account.map(AccountId::new),
        created_at: now,
    };
    let partitions = partitions(&api).await?;
    let (found, progress) = found_or_added(&api, &context, (&replay, partitions)).await?;
    let to = if has_end { replay.times.1 } else { found.times.1 };
    let is_same = Replay { times: (replay.times.0, to), created_at: found.created_at, ..replay };
    if is_same != found {
        return Err(SignUpError::AnotherRequest.into());
    }
    let location = [(LOCATION, format!("/v1/webhooks/replays/{}", found.id))];
    Ok((StatusCode::ACCEPTED, location, Json(view(&found, (&progress, partitions))))
        .into_response())
}

/// The replay as it is stored, which is another one where its id was used before.
async fn found_or_added(
    api: &Api,
    context: &RequestContext,
    (replay, partitions): (&Replay, usize),
) -> Result<(Replay, Vec<ReplayProgress>), Error> {
    let (tenant, id) = (replay.tenant, replay.id);
    if let Some(found) = with_replays(api, move |replays| replays.find(tenant, id)).await? {
        return Ok(found);
    }
    // Only of a new one: a repetition is answered as the first one was, also once the endpoint is gone.
    if let Some(endpoint) = replay.endpoint {
        let is_on = events::receivers(api, context).await?.has(endpoint);
        is_on.then_some(()).ok_or_else(|| invalid("endpoint", "is no endpoint that is on"))?;
    }
    let added = replay.clone();
    let found = with_replays(api, move |replays| {
        let found = replays.find(added.tenant, added.id)?;
        if found.is_some() {
            return Ok(found);
        }
        let is_added = replays.add(&added, partitions)?;
        Ok(is_added.then_some((added, vec![])))
    });
    found.await?.ok_or(Error::TooManyReplays)
}

/// A replay, one of the tenant's last 100
#[utoipa::path(get, path = "/v1/webhooks/replays/{replayId}", tag = "Webhooks", operation_id = "webhook_replay",
    params(("replayId" = Uuid, Path)),
    responses((status = 200, description = "The replay", body = ReplayView), ObjectRejections))]
pub async fn show(call: Call, Path(id): Path<String>) -> Result<Json<ReplayView>, Error> {
    let Call { api, context, .. } = call.allowed(RESEND)?;
    let not_found = || Error::not_found("replay", &id);
    let uuid = Uuid::try_parse(&id).map_err(|_| not_found())?;
    let no = context.tenant.no;
    let found = with_replays(&api, move |replays| replays.find(no, uuid)).await?;
    let (replay, progress) = found.ok_or_else(not_found)?;
    Ok(Json(view(&replay, (&progress, partitions(&api).await?))))
}

fn time(field: &'static str, text: &str) -> Result<Timestamp, Error> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    let time = time.map_err(|_| invalid(field, "is no time with an offset (RFC 3339)"))?;
    Ok(Timestamp(time.as_microsecond()))
}

async fn with_replays<T: Send + 'static>(
    api: &Api,
    query: impl FnOnce(&dyn Replays) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Error> {
    let stored = api.webhooks.replays.clone().ok_or(Error::NotHere { what: "replays" })?;
    let permit = stored.free.acquire_owned().await;
    let permit = permit.map_err(|_| Unavailable::from(Reason::Stopping))?;
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        query(&*stored.source.open_replays()?)
    });
    match done.await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Unavailable::from(Reason::from(&error)).into()),
        Err(_) => Err(Unavailable::from(Reason::Bug).into()),
    }
}

/// How many partitions have a part of each replay.
async fn partitions(api: &Api) -> Result<usize, Error> {
    Ok(api.engine.read(|queries| queries.journal_heads()).await?.len())
}

fn view(it: &Replay, (progress, partitions): (&[ReplayProgress], usize)) -> ReplayView {
    let is_done = progress.iter().filter(|it| it.is_done).count() >= partitions;
    ReplayView {
        id: it.id,
        status: if is_done { "done" } else { "running" },
        queued: progress.iter().map(|it| it.queued).sum(),
        from: rfc3339(it.times.0),
        to: rfc3339(it.times.1),
        created_at: rfc3339(it.created_at),
    }
}
