//! HTTP: reads a request, lets faults strike, answers once the journal is durable.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Request, Response};

use crate::api::event::API_VERSION;
use crate::error::ApiError;
use crate::fake::{Answer, Call, Fake, Owner};
use crate::faults::Plan;
use crate::idempotency::Begun;
use crate::params::Params;
use crate::validate::Spec;
use crate::{control, pages};

const BODY_BYTES_MAX: usize = 64 << 10;
const GARBAGE: &[u8] = b"<html><body>It is not what you asked for.</body>";

pub struct Server {
    pub fake: RefCell<Fake>,
    /// Of each answer of the API.
    pub delay: Duration,
    pub spec: Option<RefCell<Spec>>,
}

/// The connection is cut.
#[derive(Debug)]
pub struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("the connection is cut, as a fault asks")
    }
}

impl std::error::Error for Cut {}

/// A body that is sent whole, or cut in its middle.
pub struct Body {
    bytes: Option<Bytes>,
    bytes_announced: u64,
    cut: bool,
}

impl Body {
    pub fn whole(bytes: Bytes) -> Body {
        Body { bytes_announced: bytes.len() as u64, bytes: Some(bytes), cut: false }
    }

    fn half(bytes: &Bytes) -> Body {
        Body {
            bytes_announced: bytes.len() as u64,
            bytes: Some(bytes.slice(..bytes.len() / 2)),
            cut: true,
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        Poll::Ready(match self.bytes.take() {
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None if self.cut => Some(Err(Cut)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && !self.cut
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_announced)
    }
}

pub async fn handle(server: Rc<Server>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let (head, body) = request.into_parts();
    let (method, path) = (head.method.as_str(), head.uri.path());
    let query = head.uri.query().unwrap_or_default();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await.map(|it| it.to_bytes())
    else {
        return Ok(respond(413, Bytes::new(), "text/plain"));
    };
    if !control::is_authenticated(method, path) {
        if let Some(page) = pages::answer(&server, method, path, (query, &body)) {
            server.durable().await;
            return Ok(page);
        }
        if path.starts_with("/_fake/") {
            let (status, value) = control::answer(&server, method, path, &body);
            server.durable().await;
            return Ok(respond(
                status,
                serde_json::to_vec(&value).expect("a value is JSON").into(),
                "application/json",
            ));
        }
    }
    let encoded = if method == "POST" { &body[..] } else { query.as_bytes() };
    let request_id = server.fake.borrow_mut().ids.next("req_").to_string();
    let answered =
        answer(&server, &head.headers, (method, path), Params::parse(encoded), &request_id).await?;
    Ok(answered.response(&head.headers, &request_id))
}

/// What is sent, with the faults that strike the answer itself.
struct Answered {
    answer: Answer,
    garbage: bool,
    cut: bool,
}

impl Answered {
    fn whole(answer: Answer) -> Answered {
        Answered { answer, garbage: false, cut: false }
    }

    fn response(self, asked: &HeaderMap, request_id: &str) -> Response<Body> {
        let Answer { status, body, replayed } = self.answer;
        let mut response = if self.garbage {
            respond(200, Bytes::from_static(GARBAGE), "text/html")
        } else {
            respond(status, body.clone(), "application/json")
        };
        if self.cut {
            *response.body_mut() = Body::half(&body);
        }
        let headers = response.headers_mut();
        let text = |it: &str| HeaderValue::from_str(it).expect("ids are ASCII");
        headers.insert("request-id", text(request_id));
        let version = asked.get("stripe-version").cloned();
        headers.insert("stripe-version", version.unwrap_or(HeaderValue::from_static(API_VERSION)));
        if let Some(key) = asked.get("idempotency-key") {
            headers.insert("idempotency-key", key.clone());
        }
        if let Some(original) = replayed {
            headers.insert("original-request", text(&original));
            headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        response
    }
}

async fn answer(
    server: &Rc<Server>,
    headers: &HeaderMap,
    at: (&str, &str),
    params: Params,
    request_id: &str,
) -> Result<Answered, Cut> {
    let (method, path) = at;
    let refused = |owner: Option<&Owner>, error: &ApiError| {
        Answered::whole(server.fake.borrow_mut().refuse(owner, error, request_id))
    };
    let owner = server.fake.borrow().authenticate(api_key(headers).as_deref());
    let owner = match owner.and_then(|it| check_version(headers).map(|()| it)) {
        Ok(owner) => owner,
        Err(error) => return Ok(refused(None, &error)),
    };
    let plan = server.fake.borrow_mut().faults.plan(method, path, &params);
    if plan.cut_before {
        return Err(Cut);
    }
    if let Some(error) = &plan.error_before {
        sleep(plan.delay_before_ms).await;
        return Ok(refused(Some(&owner), error));
    }
    if let Some(error) = server.check_request(method, path, &params) {
        return Ok(refused(Some(&owner), &error));
    }
    let idempotency_key =
        headers.get("idempotency-key").and_then(|it| it.to_str().ok()).filter(|it| !it.is_empty());
    let call = Call {
        owner,
        method: method.to_owned(),
        path: path.to_owned(),
        params,
        idempotency_key: idempotency_key.map(str::to_owned),
        request_id: request_id.to_owned(),
    };
    let begun = server.fake.borrow_mut().begin(&call);
    match begun {
        Err(error) => Ok(refused(Some(&call.owner), &error)),
        Ok(Begun::Replay(stored)) => {
            server.durable().await;
            tokio::time::sleep(server.delay).await;
            let answer = Answer {
                status: stored.status,
                body: stored.body,
                replayed: Some(stored.request_id),
            };
            cut(&plan, answer)
        }
        Ok(Begun::First) => perform(server, &call, plan).await,
    }
}

async fn perform(server: &Rc<Server>, call: &Call, mut plan: Plan) -> Result<Answered, Cut> {
    let _in_progress =
        call.idempotency_key.as_deref().map(|key| InProgress { server, owner: &call.owner, key });
    sleep(plan.delay_before_ms).await;
    let answer = server.fake.borrow_mut().perform(call, plan.error_after.take());
    server.check_answer(call, &answer);
    server.durable().await;
    sleep(plan.delay_after_ms).await;
    if !server.delay.is_zero() {
        tokio::time::sleep(server.delay).await;
    }
    cut(&plan, answer)
}

fn cut(plan: &Plan, answer: Answer) -> Result<Answered, Cut> {
    if plan.lose_answer {
        return Err(Cut);
    }
    Ok(Answered { answer, garbage: plan.answer_garbage, cut: plan.cut_in_answer })
}

/// The key is in use until the request ends, also if its client is gone before.
struct InProgress<'a> {
    server: &'a Rc<Server>,
    owner: &'a Owner,
    key: &'a str,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.server.fake.borrow_mut().end(self.owner, self.key);
    }
}

async fn sleep(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

impl Server {
    /// Waits until all that was done so far is in the journal: no answer shows what a kill could undo.
    pub async fn durable(&self) {
        let (line, mut durable) = {
            let fake = self.fake.borrow();
            if fake.journal.is_durable(fake.journal.appended()) {
                return;
            }
            (fake.journal.appended(), fake.journal.durable())
        };
        durable
            .wait_for(|it| *it >= line)
            .await
            .expect("the journal's thread ends with the process");
    }

    /// With `--validate`: whether Stripe's own document takes the request.
    fn check_request(&self, method: &str, path: &str, params: &Params) -> Option<ApiError> {
        self.spec.as_ref()?.borrow().check_request(method, path, params)
    }

    fn check_answer(&self, call: &Call, answer: &Answer) {
        if let Some(spec) = &self.spec {
            spec.borrow_mut().check_answer(&call.method, &call.path, answer);
        }
    }
}

/// Of `Authorization`: Bearer, or Basic with the key as the user.
fn api_key(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    if let Some(key) = value.strip_prefix("Bearer ") {
        return Some(key.trim().to_owned());
    }
    let decoded = base64(value.strip_prefix("Basic ")?)?;
    String::from_utf8(decoded).ok()?.split(':').next().map(str::to_owned)
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for it in text.trim().trim_end_matches('=').bytes() {
        let digit = match it {
            b'A'..=b'Z' => it - b'A',
            b'a'..=b'z' => it - b'a' + 26,
            b'0'..=b'9' => it - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

/// `2026-08-26` and what may follow: the fake answers each version alike.
fn check_version(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(version) = headers.get("stripe-version") else { return Ok(()) };
    let text = version.to_str().unwrap_or_default();
    let date = text.split('.').next().unwrap_or_default();
    let is_date = date.len() == 10
        && date
            .bytes()
            .enumerate()
            .all(|(at, it)| if at == 4 || at == 7 { it == b'-' } else { it.is_ascii_digit() });
    if is_date {
        return Ok(());
    }
    Err(ApiError::request(format!("Invalid Stripe API version: {text}")))
}

pub fn respond(status: u16, body: Bytes, kind: &'static str) -> Response<Body> {
    let response = Response::builder().status(status).header("content-type", kind);
    response.body(Body::whole(body)).expect("the status is one")
}

/// Serves one connection until it ends.
pub async fn serve(server: Rc<Server>, stream: tokio::net::TcpStream) {
    let service = hyper::service::service_fn(move |request| {
        let server = server.clone();
        async move { handle(server, request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
    // A client that cuts, and a fault that does, end it alike.
    let _: Result<(), hyper::Error> = connection.await;
}

/// Accepts connections; never ends.
pub async fn accept(server: Rc<Server>, listener: tokio::net::TcpListener) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    eprintln!(
                        "failed to set TCP_NODELAY: {error}; the connection is served without"
                    );
                }
                tokio::task::spawn_local(serve(server.clone(), stream));
            }
            Err(error) => {
                eprintln!("failed to accept a connection: {error}; tried again in 50 ms");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
