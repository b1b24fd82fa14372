//! `/v1/operations`: how a registration that is made later stands, asked for or followed.
//!
//! Whoever knows an operation's id and its tenant may read it: it says when it was asked for and how
//! it ended. Which customer was made is told to whoever shows the code of an open registration's
//! `Location`; without it nothing tells whether an address had a customer.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::OperationId;
use domain::TenantNo;
use domain::operation::{Operation, OperationStatus};
use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, StatusCode, Uri};
use tokio::time::{Instant, sleep};

use super::Native;
use super::asking::Asking;
use super::json::{answer, keep_nowhere};
use super::places::{NoPlace, Place};
use super::problem::Problem;
use crate::SignUp;
use crate::operations::{Manner, OperationShown};
use crate::service::Error;

/// When to ask again while it waits, in seconds.
const RETRY_AFTER_SECONDS: u16 = 1;

/// When to come back for a stream where one's network has its share of them.
const RETRY_AFTER_PLACE: Duration = Duration::from_secs(5);

/// How often a stream looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often something is said on a stream, so that nobody on the way takes it for dead.
const BEAT: Duration = Duration::from_secs(15);

/// How long a stream lasts; its client comes again.
const STREAM_MAX: Duration = Duration::from_secs(300);

/// Tells proxies not to wait for the end.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

#[utoipa::path(
    get,
    path = "/v1/operations/{id}",
    tag = "Sign-up",
    operation_id = "operations_show",
    summary = "How a registration that is made later stands",
    params(
        ("id" = String, Path, description = "The operation"),
        ("proof" = Option<String>, Query, description = "The code of an open registration's Location"),
    ),
    responses(
        (status = 200, description = "What was asked for; Retry-After while it waits", body = OperationShown),
        (status = 404, description = "No such operation of this tenant"),
    )
)]
pub(super) async fn show(
    State(native): State<Native>,
    Path(id): Path<String>,
    uri: Uri,
    asking: Asking,
) -> Result<Response, Problem> {
    let (operation, manner) = find(&native.signup, asking.tenant, (&id, &uri)).await?;
    let mut response = answer(StatusCode::OK, &OperationShown::new(&operation, manner));
    if operation.status == OperationStatus::Waiting {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    }
    Ok(response)
}

#[utoipa::path(
    get,
    path = "/v1/operations/{id}/events",
    tag = "Sign-up",
    operation_id = "operations_follow",
    summary = "Says once, as a server-sent event, how a registration that is made later has ended",
    params(
        ("id" = String, Path, description = "The operation"),
        ("proof" = Option<String>, Query, description = "The code of an open registration's Location"),
    ),
    responses(
        (status = 200, description = "A stream of text/event-stream with one event `operation`"),
        (status = 404, description = "No such operation of this tenant"),
        (status = 429, description = "Too many streams are open from this network"),
        (status = 503, description = "Too many streams are open"),
    )
)]
pub(super) async fn follow(
    State(native): State<Native>,
    Path(id): Path<String>,
    uri: Uri,
    asking: Asking,
) -> Result<Response, Problem> {
    let (operation, manner) = find(&native.signup, asking.tenant, (&id, &uri)).await?;
    let place = native.streams.take(asking.network()).map_err(|why| match why {
        NoPlace::Full => Problem::StreamsFull,
        NoPlace::OfNetwork => Error::TooMany { retry_after: RETRY_AFTER_PLACE }.into(),
    })?;
    let now = Instant::now();
    let listener = Listener {
        signup: native.signup,
        operation,
        manner,
        spoke_at: now,
        until: now + STREAM_MAX,
        is_new: true,
        _place: place,
    };
    let events = stream::unfold(Some(listener), async |listener| listener?.next().await);
    let mut response = Body::from_stream(events).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    keep_nowhere(headers);
    Ok(response)
}

async fn find(
    signup: &SignUp,
    tenant: TenantNo,
    (id, uri): (&str, &Uri),
) -> Result<(Operation, Manner), Problem> {
    let id: OperationId = super::id(id, "operation")?;
    let found = signup.operation(tenant, id).await?;
    let operation = found.ok_or(Problem::NotFound("operation"))?;
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let proof = pairs.find_map(|pair| pair.strip_prefix("proof="));
    match proof {
        None => Ok((operation, Manner::Discreet)),
        Some(proof) if signup.is_proof(tenant, id, proof) => Ok((operation, Manner::Open)),
        Some(_) => Err(Problem::NotFound("operation")),
    }
}

/// Somebody who waits for the end of an operation.
struct Listener {
    signup: SignUp,
    operation: Operation,
    manner: Manner,
    spoke_at: Instant,
    until: Instant,
    is_new: bool,
    _place: Place,
}

/// What is said next, and who goes on listening.
type Said = Option<(Result<Bytes, std::convert::Infallible>, Option<Listener>)>;

impl Listener {
    async fn next(mut self) -> Said {
        if std::mem::take(&mut self.is_new) {
            // Headers go out with this: the client knows at once that it is listened to.
            return self.goes_on();
        }
        loop {
            if self.operation.status != OperationStatus::Waiting {
                return Some((Ok(self.event()), None));
            }
            let now = Instant::now();
            if now >= self.until {
                return None;
            }
            if now.duration_since(self.spoke_at) >= BEAT {
                return self.goes_on();
            }
            sleep(LOOK_EVERY).await;
            let (tenant, id) = (self.operation.tenant, self.operation.id);
            match self.signup.operation(tenant, id).await {
                Ok(Some(operation)) => self.operation = operation,
                // It was forgotten, or cannot be read: the client asks again.
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn goes_on(mut self) -> Said {
        self.spoke_at = Instant::now();
        Some((Ok(Bytes::from_static(b": waiting\n\n")), Some(self)))
    }

    fn event(&self) -> Bytes {
        let shown = OperationShown::new(&self.operation, self.manner);
        let data = serde_json::to_string(&shown).expect("an operation is plain JSON");
        format!("event: operation\nid: {}\ndata: {data}\n\n", shown.id).into()
    }
}
