//! `/v1/operations`: the status of a registration that is executed later, polled or streamed.
//!
//! An operation may be read by its id and tenant: when it was requested and how it ended. Which
//! customer was created is visible with the proof of an open registration's `Location` only; without
//! it nothing reveals whether an address had a customer.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use domain::OperationId;
use domain::TenantNo;
use domain::customer::operation::{Operation, OperationStatus};
use engine::access::ClientAddress;
use engine::time::rfc3339;
use futures_util::stream;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode, Uri};
use serde::Serialize;
use serde_json::value::RawValue;
use sign_up::operations::{Disclosure, Representation};
use sign_up::{Error as SignUpError, SignUp, Tenants};
use tokio::time::{Instant, sleep};
use utoipa::{IntoParams, ToSchema};
use web::Query;

use super::SignUpApi;
use super::context::{self, Context};
use super::json::answer;
use crate::error::Error;
use crate::event_streams::{
    self, CHECK_INTERVAL, KEEP_ALIVE_INTERVAL, NoPermit, STREAM_MAX, StreamPermit,
};
use crate::sign_up_problem as problem;

/// `Retry-After` of an operation that waits, in seconds.
const RETRY_AFTER_SECONDS: u16 = 1;

/// `Retry-After` of a stream for a network that has all its permits in use.
const RETRY_AFTER_PERMIT: Duration = Duration::from_secs(5);

/// The interval between two reads of a streamed operation.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How operations are represented in callbacks and stored failures, as here.
pub const REPRESENTATION: Representation = Representation {
    problem: |error| String::from_utf8(problem::of(&error).to_json()).expect("JSON is UTF-8"),
    operation: |operation, disclosure| {
        let status = OperationView::new(operation, disclosure);
        serde_json::to_string(&status).expect("an operation is plain JSON")
    },
};

/// The query in the `Location` of an open registration.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
struct ProofParameter {
    /// The proof of an open registration's Location
    proof: Option<String>,
}

/// A registration that is executed later.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OperationView {
    id: String,
    /// `waiting`, `succeeded` or `failed`
    status: &'static str,
    /// The customer that was created; only with the proof of an open registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    customer_id: Option<String>,
    /// The reason of the failure: a problem (RFC 9457) that identifies no person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    problem: Option<Box<RawValue>>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_at: Option<String>,
}

impl OperationView {
    fn new(operation: &Operation, disclosure: Disclosure) -> Self {
        let (status, customer, problem) = match &operation.status {
            OperationStatus::Waiting => ("waiting", None, None),
            OperationStatus::Succeeded(customer) => ("succeeded", *customer, None),
            OperationStatus::Failed(problem) => ("failed", None, Some(problem.clone())),
        };
        let customer = customer.filter(|_| disclosure == Disclosure::Open);
        Self {
            id: operation.id.to_string(),
            status,
            customer_id: customer.map(|it| it.to_string()),
            problem: problem.and_then(|it| RawValue::from_string(it).ok()),
            created_at: rfc3339(operation.created_at),
            settled_at: operation.settled_at.map(rfc3339),
        }
    }
}

/// The status of a registration that is executed later
#[utoipa::path(get, path = "/v1/operations/{id}", tag = "Sign-up", operation_id = "operations_show",
    params(("id" = String, Path, description = "The operation"), ProofParameter),
    responses((status = 200, description = "The operation; Retry-After while it waits", body = OperationView),
        (status = 404, description = "No such operation of this tenant")))]
pub(super) async fn show(
    State(api): State<SignUpApi>,
    Path(id): Path<String>,
    uri: Uri,
    Context(context): Context,
) -> Result<Response, Error> {
    let (operation, disclosure) = find(&api.sign_up, context.tenant, (&id, &uri)).await?;
    let mut response = answer(StatusCode::OK, &OperationView::new(&operation, disclosure));
    if operation.status == OperationStatus::Waiting {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    }
    Ok(response)
}

/// Streams the end of a registration that is executed later as one server-sent event
#[utoipa::path(get, path = "/v1/operations/{id}/events", tag = "Sign-up", operation_id = "operations_follow",
    params(("id" = String, Path, description = "The operation"), ProofParameter),
    responses((status = 200, description = "A stream with one event `operation`", body = String, content_type = "text/event-stream"),
        (status = 404, description = "No such operation of this tenant"),
        (status = 429, description = "Too many streams are open from this network"),
        (status = 503, description = "Too many streams are open")))]
pub(super) async fn follow(
    State(api): State<SignUpApi>,
    Path(id): Path<String>,
    uri: Uri,
    Context(context): Context,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (operation, disclosure) = find(&api.sign_up, context.tenant, (&id, &uri)).await?;
    let network = (!context.is_exempt).then(|| context.from.network());
    let permit = api.streams.acquire(network).map_err(|error| match error {
        NoPermit::Total => Error::StreamsFull,
        NoPermit::Holder => SignUpError::TooManyRequests { retry_after: RETRY_AFTER_PERMIT }.into(),
    })?;
    let now = Instant::now();
    let stream = OperationStream {
        sign_up: api.sign_up,
        tenants: api.tenants,
        credentials: (context.from, headers),
        checked_at: now,
        operation,
        disclosure,
        wrote_at: now,
        ends_at: now + STREAM_MAX,
        is_new: true,
        _permit: permit,
    };
    let events = stream::unfold(Some(stream), async |stream| stream?.next().await);
    Ok(event_streams::response(events))
}

async fn find(
    sign_up: &SignUp,
    tenant: TenantNo,
    (id, uri): (&str, &Uri),
) -> Result<(Operation, Disclosure), Error> {
    let id: OperationId = super::id(id, "operation")?;
    let found = sign_up.operation(tenant, id).await?;
    let operation = found.ok_or(Error::NoSuch("operation"))?;
    let query = Query::parse(uri.query().unwrap_or_default());
    let query = query.map_err(|_| Error::NoSuch("operation"))?;
    match query.first("proof") {
        None => Ok((operation, Disclosure::Discreet)),
        Some(proof) if sign_up.is_proof(tenant, id, proof) => Ok((operation, Disclosure::Open)),
        Some(_) => Err(Error::NoSuch("operation")),
    }
}

/// A stream whose client waits for the end of an operation.
struct OperationStream {
    sign_up: SignUp,
    tenants: Tenants,
    /// The address and the headers that its client was admitted with.
    credentials: (ClientAddress, HeaderMap),
    checked_at: Instant,
    operation: Operation,
    disclosure: Disclosure,
    wrote_at: Instant,
    ends_at: Instant,
    is_new: bool,
    _permit: StreamPermit<IpAddr>,
}

/// The next chunk, and the stream unless it ends with the chunk.
type Chunk = Option<(Result<Bytes, std::convert::Infallible>, Option<OperationStream>)>;

impl OperationStream {
    async fn next(mut self) -> Chunk {
        if std::mem::take(&mut self.is_new) {
            // The headers are sent with the first chunk: the client sees at once that it is connected.
            return self.keep_alive();
        }
        loop {
            if self.operation.status != OperationStatus::Waiting {
                return Some((Ok(self.event()), None));
            }
            let now = Instant::now();
            if now >= self.ends_at || !self.is_still_admitted().await {
                return None;
            }
            if now.duration_since(self.wrote_at) >= KEEP_ALIVE_INTERVAL {
                return self.keep_alive();
            }
            sleep(POLL_INTERVAL).await;
            let (tenant, id) = (self.operation.tenant, self.operation.id);
            match self.sign_up.operation(tenant, id).await {
                Ok(Some(operation)) => self.operation = operation,
                // It was deleted, or cannot be read: the client retries.
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Whether its tenant is still served, and its secret the one that was shown; checked once in a while.
    async fn is_still_admitted(&mut self) -> bool {
        if self.checked_at.elapsed() < CHECK_INTERVAL {
            return true;
        }
        self.checked_at = Instant::now();
        let (from, headers) = &self.credentials;
        let Ok(credentials) = context::credentials(headers) else { return false };
        match self.tenants.find(credentials, *from).await {
            Ok(_) => true,
            Err(error) => error.is_for_now(),
        }
    }

    fn keep_alive(mut self) -> Chunk {
        self.wrote_at = Instant::now();
        Some((Ok(Bytes::from_static(b": waiting\n\n")), Some(self)))
    }

    fn event(&self) -> Bytes {
        let view = OperationView::new(&self.operation, self.disclosure);
        let data = serde_json::to_string(&view).expect("an operation is plain JSON");
        format!("event: operation\nid: {}\ndata: {data}\n\n", view.id).into()
    }
}
