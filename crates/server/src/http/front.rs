//! What every request passes, in this order: admission, its whole body, its door. One hand-written
//! service instead of a stack of layers, because each layer costs an allocation per request.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use domain::card_data::looks_like_pan;
use engine::Reason;
use futures_util::FutureExt;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use tower::Service;
use uuid::Uuid;

use super::admission::Admission;
use super::body;
use super::door::{Door, Refusal};
use super::pulse::Pulse;
use crate::metrics::{self, Requests};

/// What answers are matched to requests by, in logs and by clients.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How long a client's request id may be, in bytes; a longer one is replaced by ours.
const REQUEST_ID_BYTES_MAX: usize = 255;

/// What all connections share.
pub struct Front {
    /// The doors.
    pub router: Router,
    /// How many requests are in progress.
    pub admission: Admission,
    /// What is counted.
    pub requests: Requests,
    /// How large a body may be.
    pub body_bytes_max: usize,
    /// How long a body may take.
    pub body_timeout: Duration,
}

/// The service of one connection.
pub struct Connection {
    front: Arc<Front>,
    pulse: Arc<Pulse>,
    /// There are too many connections: only health and metrics are served on this one.
    operations_only: bool,
}

impl Connection {
    /// The service of a connection with this pulse.
    #[must_use]
    pub const fn new(front: Arc<Front>, pulse: Arc<Pulse>, operations_only: bool) -> Self {
        Self { front, pulse, operations_only }
    }
}

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.pulse.request_began();
        let (front, pulse) = (Arc::clone(&self.front), Arc::clone(&self.pulse));
        let operations_only = self.operations_only;
        Box::pin(async move {
            let response = front.answer(request, operations_only).await;
            pulse.request_ended();
            Ok(response)
        })
    }
}

/// Who made an answer.
enum Answered {
    /// A door whose requests are counted and logged by itself.
    ByDoor(Response<Body>),
    /// This file, or a door that leaves counting and logging to it.
    Here(Response<Body>),
}

impl Front {
    async fn answer(&self, request: Request<Incoming>, operations_only: bool) -> Response<Body> {
        let started = Instant::now();
        let door = Door::of(request.uri().path());
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let given = request.headers().get(REQUEST_ID).filter(|id| is_fit(id)).cloned();
        let answered = match door {
            Door::Operations => self.pass(door, request).await,
            Door::KillBill | Door::Native if operations_only => self.refuse(door, request).await,
            Door::KillBill | Door::Native => match self.admission.enter() {
                Some(_permit) => self.pass(door, request).await,
                None => self.refuse(door, request).await,
            },
        };
        match answered {
            Answered::ByDoor(response) => response,
            Answered::Here(mut response) => {
                self.requests.answered((door, uri.path()), response.status(), started.elapsed());
                let id = given.unwrap_or_else(own_request_id);
                response.headers_mut().insert(REQUEST_ID, id);
                report(door, (&method, &uri), started, &response);
                response
            }
        }
    }

    async fn pass(&self, door: Door, request: Request<Incoming>) -> Answered {
        let (head, incoming) = request.into_parts();
        let body = match body::read(incoming, self.body_bytes_max, self.body_timeout).await {
            Ok(body) => body,
            Err(refusal) => return Answered::Here(door.refuse(refusal)),
        };
        let request = Request::from_parts(head, Body::from(body));
        let mut router = self.router.clone();
        match AssertUnwindSafe(router.call(request)).catch_unwind().await {
            Ok(Ok(response)) => match door {
                Door::KillBill => Answered::ByDoor(response),
                Door::Operations | Door::Native => Answered::Here(response),
            },
            Ok(Err(infallible)) => match infallible {},
            // The panic hook has logged what and where; `report` logs for whom.
            Err(_) => Answered::Here(door.refuse(Refusal::Bug)),
        }
    }

    /// Says no. The body is read first, or else the connection could not be kept.
    async fn refuse(&self, door: Door, request: Request<Incoming>) -> Answered {
        self.requests.refused();
        let body = body::read(request.into_body(), self.body_bytes_max, self.body_timeout);
        Answered::Here(door.refuse(body.await.err().unwrap_or(Refusal::Full)))
    }
}

/// Whether a client's request id can be given back.
fn is_fit(id: &HeaderValue) -> bool {
    !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.to_str().is_ok()
}

fn own_request_id() -> HeaderValue {
    HeaderValue::from_str(&Uuid::now_v7().to_string()).expect("a UUID is ASCII")
}

/// Logs an answer: faults of ours as errors, the rest only where somebody debugs. Never bodies, never
/// headers: there are passwords in them. Never the path either, but for its ids: people search by
/// names.
fn report(door: Door, (method, uri): (&Method, &Uri), started: Instant, response: &Response<Body>) {
    let status = response.status();
    let is_ours = status == StatusCode::INTERNAL_SERVER_ERROR
        || response.extensions().get::<Reason>().is_some_and(|reason| reason.is_fault());
    if !is_ours && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let request_id = response.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let request_id = request_id.filter(|id| !looks_like_pan(id));
    let tenant = response.extensions().get::<domain::TenantNo>().map(|tenant| tenant.0);
    let path = uri.path();
    let (account, payment) = (id_after(path, "accounts"), id_after(path, "payments"));
    let ms = started.elapsed().as_millis();
    let (status, route, door) = (status.as_u16(), metrics::route(door, path), door.label());
    if is_ours {
        tracing::error!(
            request.id = request_id,
            tenant,
            account.id = account,
            payment.id = payment,
            %method,
            route,
            door,
            status,
            ms,
            "a request failed by a fault of ours"
        );
    } else {
        tracing::debug!(
            request.id = request_id,
            tenant,
            account.id = account,
            payment.id = payment,
            %method,
            route,
            door,
            status,
            ms,
            "answered"
        );
    }
}

/// The id that follows a segment of the path.
fn id_after<'a>(path: &'a str, segment: &str) -> Option<&'a str> {
    let mut segments = path.split('/');
    segments.find(|it| *it == segment)?;
    segments.next().filter(|id| Uuid::try_parse(id).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_find_ids_in_the_path() {
        let id = "0192aabb-ccdd-7123-9456-789abcdef012";
        assert_eq!(id_after(&format!("/1.0/kb/accounts/{id}/payments"), "accounts"), Some(id));
        assert_eq!(id_after(&format!("/1.0/kb/accounts/{id}/payments"), "payments"), None);
        assert_eq!(id_after("/1.0/kb/accounts/search/a@b.example", "accounts"), None);
    }
}
