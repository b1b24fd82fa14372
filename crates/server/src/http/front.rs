//! What every request passes, in this order: admission, its door, and the end of its body. One
//! hand-written service instead of a stack of layers, because each layer costs an allocation per request.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::routing::future::RouteFuture;
use domain::card_data::looks_like_pan;
use engine::Reason;
use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use tower::Service;
use uuid::Uuid;

use super::admission::{Admission, Permit};
use super::body::{Bodies, Receipt};
use super::client;
use super::door::{Door, Refusal};
use super::pulse::Pulse;
use crate::config::Prefix;
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
    /// What bodies may be.
    pub bodies: Arc<Bodies>,
    /// Peers that say where their requests come from.
    pub trusted_proxies: Vec<Prefix>,
}

/// The service of one connection.
pub struct Connection {
    front: Arc<Front>,
    peer: IpAddr,
    pulse: Arc<Pulse>,
    /// There are too many connections: only health and metrics are served on this one.
    operations_only: bool,
}

impl Connection {
    /// The service of a connection of this peer, with this pulse.
    #[must_use]
    pub const fn new(
        front: Arc<Front>,
        peer: IpAddr,
        pulse: Arc<Pulse>,
        operations_only: bool,
    ) -> Self {
        Self { front, peer, pulse, operations_only }
    }
}

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.pulse.request_began();
        let (asked, passing) = self.ask(request);
        let pulse = Arc::clone(&self.pulse);
        // There are as many of these as there are requests in progress: what needs the request
        // itself is done before, so that the future does not hold copies of it.
        Box::pin(async move {
            let answered = match passing {
                Some((answer, permit)) => {
                    let answer = answer.await;
                    drop(permit);
                    asked.answered(answer)
                }
                None => asked.refused(),
            };
            asked.receipt.discard().await;
            let response = asked.count_and_report(answered);
            pulse.request_ended();
            Ok(response)
        })
    }
}

/// A door's answer that is being made, and the right to have it made, where it takes one.
type Passing = (CatchUnwind<AssertUnwindSafe<RouteFuture<Infallible>>>, Option<Permit>);

impl Connection {
    /// Lets a request in, or does not.
    fn ask(&self, request: Request<Incoming>) -> (Asked, Option<Passing>) {
        let started = Instant::now();
        let door = Door::of(request.uri().path());
        let (mut head, incoming) = request.into_parts();
        let from = client::address(self.peer, &head.headers, &self.front.trusted_proxies);
        head.extensions.insert(from);
        head.extensions.insert(client::peer(self.peer, &head.headers));
        let (body, receipt) = self.front.bodies.hand_on(incoming, &head.headers, &self.pulse);
        let asked = Asked {
            front: Arc::clone(&self.front),
            door,
            method: head.method.clone(),
            uri: head.uri.clone(),
            given_id: head.headers.get(REQUEST_ID).filter(|id| is_fit(id)).cloned(),
            started,
            receipt,
        };
        let permit = match door {
            Door::Operations => None,
            Door::KillBill | Door::Native if self.operations_only => return (asked, None),
            Door::KillBill | Door::Native => match self.front.admission.enter() {
                Some(permit) => Some(permit),
                None => return (asked, None),
            },
        };
        let answer = self.front.router.clone().call(Request::from_parts(head, body));
        (asked, Some((AssertUnwindSafe(answer).catch_unwind(), permit)))
    }
}

/// Who made an answer.
enum Answered {
    /// A door whose requests are counted and logged by itself.
    ByDoor(Response<Body>),
    /// This file, or a door that leaves counting and logging to it.
    Here(Response<Body>),
}

/// What is kept of a request until it is answered.
struct Asked {
    front: Arc<Front>,
    door: Door,
    method: Method,
    uri: Uri,
    given_id: Option<HeaderValue>,
    started: Instant,
    receipt: Receipt,
}

impl Asked {
    fn answered<E>(&self, answer: Result<Result<Response<Body>, Infallible>, E>) -> Answered {
        match answer {
            Ok(Ok(response)) => match self.door {
                Door::KillBill => Answered::ByDoor(response),
                Door::Operations | Door::Native => Answered::Here(response),
            },
            Ok(Err(infallible)) => match infallible {},
            // The panic hook has logged what and where; `report` logs for whom.
            Err(_) => Answered::Here(self.door.refuse(Refusal::Bug)),
        }
    }

    fn refused(&self) -> Answered {
        self.front.requests.refused();
        Answered::Here(self.door.refuse(Refusal::Full))
    }

    fn count_and_report(self, answered: Answered) -> Response<Body> {
        match answered {
            Answered::ByDoor(response) => response,
            Answered::Here(mut response) => {
                let (door, uri, started) = (self.door, &self.uri, self.started);
                let requests = &self.front.requests;
                requests.answered((door, uri.path()), response.status(), started.elapsed());
                let id = self.given_id.unwrap_or_else(own_request_id);
                response.headers_mut().insert(REQUEST_ID, id);
                report(door, (&self.method, uri), started, &response);
                response
            }
        }
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
