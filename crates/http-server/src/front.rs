//! The front, which every request passes: admission, its API, and the end of its body, in this order. One
//! hand-written service instead of a stack of layers, because each layer costs an allocation per request.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::middleware::{Next, from_fn};
use axum::routing::future::RouteFuture;
use domain::card_data::contains_pan;
use engine::Reason;
use engine::access::ClientAddress;
use engine::client::{self, Client, Served};
use futures_util::FutureExt;
use futures_util::future::{CatchUnwind, Either, select};
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use tower::Service;
use uuid::Uuid;
use web::headers::mark_outcome_unknown;
use web::refusal_log::{self, is_refusal, is_worth_a_line};
use web::{AnswerBudget, Network, client_address};

use super::admission::{Admission, Permit};
use super::answer;
use super::api::{Api, Refusal};
use super::body::{Bodies, BodyGuard};
use super::client_stream::ClientStream;
use super::connection_timer::ConnectionTimer;
use super::head;
use crate::metrics::Requests;

/// Matches responses to requests, in logs and by clients.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How long a client's request id may be, in bytes; a longer one is replaced by ours.
const REQUEST_ID_BYTES_MAX: usize = 255;

/// The service that all connections share.
pub struct Front {
    /// The routes of all APIs.
    pub router: Router,
    /// How many requests are in progress.
    pub admission: Admission,
    pub requests: Requests,
    /// The limits of bodies.
    pub bodies: Arc<Bodies>,
    /// The memory for answers that clients have not read.
    pub answers: Arc<AnswerBudget>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<Network>,
    /// Whether programs on this machine are exempt from the limits of strangers: where no proxy can be
    /// among them.
    pub exempts_local: bool,
}

/// Makes the matched route of each request its label in metrics and logs, so that there are few labels,
/// whatever paths clients send. For APIs that leave counting to the listener.
pub fn with_route_labels(router: Router) -> Router {
    router.layer(from_fn(async |matched: Option<MatchedPath>, request, next: Next| {
        let mut response = next.run(request).await;
        if let Some(matched) = matched {
            response.extensions_mut().insert(matched);
        }
        response
    }))
}

/// The service of one connection.
pub struct Connection {
    front: Arc<Front>,
    peer: IpAddr,
    client: ClientStream,
    /// The same, for the engine.
    watched: Arc<Client>,
    timer: Arc<ConnectionTimer>,
    /// There are too many connections: only health and metrics are served on this one.
    operations_only: bool,
}

impl Connection {
    /// The service of a connection of this peer.
    #[must_use]
    pub fn new(
        front: Arc<Front>,
        (peer, client): (IpAddr, ClientStream),
        timer: Arc<ConnectionTimer>,
        operations_only: bool,
    ) -> Self {
        let of_engine = client.clone();
        let watched = Arc::new(Client::new(move || of_engine.is_gone()));
        Self { front, peer, client, watched, timer, operations_only }
    }
}

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.timer.request_began();
        // Boxed: few futures have it, and it is large.
        let gone = (request.method() == Method::GET).then(|| Box::pin(self.client.clone().gone()));
        let (in_progress, running) = self.start(request);
        let timer = Arc::clone(&self.timer);
        // There are as many of these as there are requests in progress: what needs the request
        // itself is done before, so that the future does not hold copies of it.
        Box::pin(async move {
            let outcome = match running {
                Ok((answer, permit)) => {
                    let answer = unless_gone(answer, gone).await;
                    drop(permit);
                    match answer {
                        Some(answer) => in_progress.answered(answer),
                        None => in_progress.abandoned(),
                    }
                }
                Err(refusal) => in_progress.refused(refusal),
            };
            in_progress.body_guard.discard().await;
            let response = in_progress.count_and_report(outcome);
            timer.request_ended();
            Ok(response)
        })
    }
}

/// The answer, or `None` where the client goes before it is there: what the handler waits for ends.
async fn unless_gone<A: Future>(answer: A, gone: Option<impl Future + Unpin>) -> Option<A::Output> {
    let Some(gone) = gone else { return Some(answer.await) };
    match select(pin!(answer), gone).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}

/// A response in the making, with its permit where the API needs one.
type Running = (CatchUnwind<AssertUnwindSafe<Served<RouteFuture<Infallible>>>>, Option<Permit>);

impl Connection {
    /// Admits a request and starts its handler; no handler where it is refused.
    fn start(&self, request: Request<Incoming>) -> (InProgress, Result<Running, Refusal>) {
        let started = Instant::now();
        let api = Api::of(request.uri().path());
        let (mut head, incoming) = request.into_parts();
        let from = client_address::address(self.peer, &head.headers, &self.front.trusted_proxies);
        head.extensions.insert(from);
        let peer = client_address::peer(self.peer, &head.headers, self.front.exempts_local);
        head.extensions.insert(peer);
        let (body, body_guard) = self.front.bodies.buffer(incoming, &head.headers, &self.timer);
        let in_progress = InProgress {
            front: Arc::clone(&self.front),
            api,
            method: head.method.clone(),
            uri: head.uri.clone(),
            client: from,
            watched: Arc::clone(&self.watched),
            given_id: head.headers.get(REQUEST_ID).filter(|id| is_fit(id)).cloned(),
            started,
            body_guard,
        };
        if let Err(refusal) = head::check(&head) {
            return (in_progress, Err(refusal));
        }
        let is_payment = Api::is_payment(&head.method, head.uri.path());
        let permit = match api {
            Api::Operations => None,
            Api::KillBill | Api::Native if self.operations_only => {
                return (in_progress, Err(Refusal::Full));
            }
            Api::KillBill | Api::Native => match self.front.admission.admit(is_payment) {
                Some(permit) => Some(permit),
                None => return (in_progress, Err(Refusal::Full)),
            },
        };
        let answer = self.front.router.clone().call(Request::from_parts(head, body));
        self.watched.begin();
        let answer = client::serve(Arc::clone(&self.watched), answer);
        (in_progress, Ok((AssertUnwindSafe(answer).catch_unwind(), permit)))
    }
}

/// Who made a response.
enum Outcome {
    /// An API that counts and logs its own requests.
    ByApi(Response<Body>),
    /// This file, or an API that leaves counting and logging to it.
    Here(Response<Body>),
}

/// The data of a request, kept until its response.
struct InProgress {
    front: Arc<Front>,
    api: Api,
    method: Method,
    uri: Uri,
    client: ClientAddress,
    watched: Arc<Client>,
    given_id: Option<HeaderValue>,
    started: Instant,
    body_guard: BodyGuard,
}

impl InProgress {
    fn answered<E>(&self, answer: Result<Result<Response<Body>, Infallible>, E>) -> Outcome {
        match answer {
            // Few read these, and they are wanted when there is room for nothing else.
            Ok(Ok(response)) if self.api == Api::Operations => Outcome::Here(response),
            Ok(Ok(response)) => {
                let counted = answer::counted(&self.front.answers, self.client, response);
                match (counted, self.api) {
                    (Some(response), Api::KillBill) => Outcome::ByApi(response),
                    (Some(response), Api::Operations | Api::Native) => Outcome::Here(response),
                    (None, _) => self.without_room(),
                }
            }
            Ok(Err(infallible)) => match infallible {},
            // The panic hook has logged what and where; `report` logs for whom.
            Err(_) => Outcome::Here(self.api.refuse(Refusal::Bug)),
        }
    }

    /// There is no room for the answer. What a write did can be looked up.
    fn without_room(&self) -> Outcome {
        let mut response = self.api.refuse(Refusal::AnswersFull);
        if self.method != Method::GET {
            mark_outcome_unknown(response.headers_mut());
        }
        Outcome::Here(response)
    }

    /// A read whose client has gone; what it is answered is only counted.
    fn abandoned(&self) -> Outcome {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = client_gone();
        Outcome::Here(response)
    }

    fn refused(&self, refusal: Refusal) -> Outcome {
        if refusal == Refusal::Full {
            self.front.requests.refused();
        }
        Outcome::Here(self.api.refuse(refusal))
    }

    fn count_and_report(self, outcome: Outcome) -> Response<Body> {
        match outcome {
            Outcome::ByApi(response) => response,
            Outcome::Here(mut response) => {
                let (api, uri, started) = (self.api, &self.uri, self.started);
                let matched = response.extensions_mut().remove::<MatchedPath>();
                let unmatched = match response.status() == client_gone() {
                    true => "(client gone)",
                    false => api.unmatched_route(),
                };
                let route = matched.as_ref().map_or(unmatched, MatchedPath::as_str);
                let requests = &self.front.requests;
                requests.answered((api, route), response.status(), started.elapsed());
                let id = self.given_id.unwrap_or_else(own_request_id);
                response.headers_mut().insert(REQUEST_ID, id);
                let who = (self.client.network(), &*self.watched);
                report((api, route), (&self.method, uri), who, started, &response);
                response
            }
        }
    }
}

/// The status that requests have in metrics whose client has gone, as in nginx. No client reads it.
fn client_gone() -> StatusCode {
    StatusCode::from_u16(499).expect("it has three digits")
}

/// Whether a client's request id can be sent back.
fn is_fit(id: &HeaderValue) -> bool {
    !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.to_str().is_ok()
}

fn own_request_id() -> HeaderValue {
    HeaderValue::from_str(&Uuid::now_v7().to_string()).expect("a UUID is ASCII")
}

/// Logs a response: faults of the server as errors, refusals for want of credentials or rights at the level
/// info, the rest at the level debug. Never bodies, headers or paths: they contain passwords and names. Of
/// the path, only its ids.
fn report(
    (api, route): (Api, &str),
    (method, uri): (&Method, &Uri),
    (network, client): (IpAddr, &Client),
    started: Instant,
    response: &Response<Body>,
) {
    let status = response.status();
    let is_ours = status == StatusCode::INTERNAL_SERVER_ERROR
        || response.extensions().get::<Reason>().is_some_and(|reason| reason.is_fault());
    let user = if is_refusal(status) { client.user() } else { None };
    let is_refused = is_worth_a_line(status, network, user.is_some());
    if !is_ours && !is_refused && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let request_id = response.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let request_id = request_id.filter(|id| !contains_pan(id));
    let tenant = response.extensions().get::<domain::TenantNo>().copied();
    let tenant = tenant.or_else(|| client.tenant()).map(|tenant| tenant.0);
    let user = user.as_ref().map(|user| user.username.as_str());
    let (network, reason) = (is_refused.then(|| network.to_string()), refusal_log::why(response));
    let path = uri.path();
    let (account, payment) = (id_after(path, "accounts"), id_after(path, "payments"));
    let ms = started.elapsed().as_millis();
    let (status, api) = (status.as_u16(), api.label());
    macro_rules! log {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                request.id = request_id,
                user,
                network,
                tenant,
                account.id = account,
                payment.id = payment,
                %method,
                route,
                api,
                status,
                reason,
                ms,
                $message
            )
        };
    }
    if is_ours {
        log!(error, "request failed with an internal fault");
    } else if is_refused {
        log!(info, "request refused");
    } else {
        log!(debug, "outcome");
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
    fn ids_are_found_in_the_path() {
        let id = "0192aabb-ccdd-7123-9456-789abcdef012";
        assert_eq!(id_after(&format!("/1.0/kb/accounts/{id}/payments"), "accounts"), Some(id));
        assert_eq!(id_after(&format!("/1.0/kb/accounts/{id}/payments"), "payments"), None);
        assert_eq!(id_after("/1.0/kb/accounts/search/a@b.example", "accounts"), None);
    }
}
