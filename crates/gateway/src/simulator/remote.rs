//! The client of a simulator that runs as a process of its own. It does not trust responses: they are
//! bounded and validated, and an invalid one leaves the outcome unknown.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use domain::account::payment_method::{MethodAnswer, MethodRequest};
use domain::payment::{GatewayAnswer, GatewayKnowledge, NotSentCause};
use domain::{GatewayCall, GatewaySettings};
use engine::ports::{BoxFuture, Gateway, Inquiry};
use engine::{Clock, Deadline};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use outbound::{Body, Multiplexed, SendError};
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::core::{Notification, Options};
use super::protocol::{CALLS_MAX, CallResponse, LONG_POLL, NotificationPage, RESPONSE_BYTES_MAX};
use super::record::{LINE_BYTES_MAX, Record};
use crate::error::Error;

/// The timeout of an inquiry.
const INQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before the next request for notifications after a failure.
const POLL_RETRY_DELAY: Duration = Duration::from_millis(500);

/// The client of a simulator's process.
#[derive(Clone)]
pub struct Remote {
    client: Arc<Client>,
    options: Options,
}

struct Client {
    connection: Multiplexed,
    permits: Semaphore,
}

/// Why there is no response to a call.
enum Unanswered {
    /// Nothing was sent.
    NotSent(String),
    /// The call may have been carried out.
    Unknown(String),
    /// So may this one.
    TimedOut,
}

struct HttpResponse {
    status: StatusCode,
    body: Bytes,
}

impl Remote {
    /// The client of the simulator at `url`, such as `http://127.0.0.1:9090`. It connects with the
    /// first request.
    ///
    /// # Errors
    /// The URL is not `http://HOST:PORT`.
    pub fn new(url: &str, options: Options) -> Result<Self, Error> {
        Ok(Self { client: Arc::new(Client::new(url, &options)?), options })
    }

    /// The simulator's notifications. The client polls for them until the receiver is dropped.
    #[must_use]
    pub fn notifications(&self) -> mpsc::Receiver<Notification> {
        let (sender, receiver) = mpsc::channel(1_024);
        tokio::spawn(poll(Arc::clone(&self.client), sender));
        receiver
    }
}

impl Gateway for Remote {
    fn settings(&self) -> GatewaySettings {
        self.options.settings()
    }

    fn call(&self, call: GatewayCall, deadline: Deadline) -> BoxFuture<'_, GatewayAnswer> {
        Box::pin(async move {
            let body = serde_json::to_vec(&call).expect("a call has no map keys but strings");
            let path = match self.options.attaches_methods {
                true => "/charges?attaches_methods=true",
                false => "/charges",
            };
            match self.client.post(path, body, &deadline).await {
                Ok(response) => answer_of(&response),
                Err(Unanswered::NotSent(message)) => GatewayAnswer::not_reached(message),
                Err(Unanswered::Unknown(message)) => GatewayAnswer::Failed { message },
                Err(Unanswered::TimedOut) => GatewayAnswer::TimedOut,
            }
        })
    }

    fn method(&self, request: MethodRequest, deadline: Deadline) -> BoxFuture<'_, MethodAnswer> {
        Box::pin(async move {
            let body = serde_json::to_vec(&request).expect("it has no map keys but strings");
            match self.client.post("/methods", body, &deadline).await {
                Ok(response) => method_answer_of(&response),
                Err(Unanswered::NotSent(message)) => {
                    MethodAnswer::NotSent { message, cause: NotSentCause::Gateway }
                }
                Err(Unanswered::Unknown(message)) => MethodAnswer::Unknown { message },
                Err(Unanswered::TimedOut) => {
                    MethodAnswer::Unknown { message: "the simulator did not answer".to_owned() }
                }
            }
        })
    }

    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        Box::pin(async move {
            let Inquiry { tenant, payment, transaction } = inquiry;
            let path = format!("/charges/{transaction}?tenant={}&payment={payment}", tenant.0);
            let request = self.client.request(Method::GET, &path, Bytes::new());
            match timeout(INQUIRE_TIMEOUT, self.client.exchange(request, None)).await {
                Ok(Ok(response)) => parse(&response).unwrap_or(GatewayKnowledge::Unreachable),
                Ok(Err(SendError::NotSent(_) | SendError::Unknown(_))) | Err(_) => {
                    GatewayKnowledge::Unreachable
                }
            }
        })
    }
}

impl Client {
    fn new(url: &str, options: &Options) -> Result<Self, Error> {
        // What is acknowledged later than that could arrive after "not found" is final.
        let (clock, late_max) = (options.clock.clone(), options.settle_after);
        let connection = Multiplexed::new(authority(url)?, clock, late_max);
        Ok(Self { connection, permits: Semaphore::new(CALLS_MAX as usize) })
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Body> {
        Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.connection.authority()))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .expect("the path consists of ids and numbers, and the authority is valid")
    }

    /// Sends a call within its deadline, once one of the permits is free.
    async fn post(
        &self,
        path: &str,
        body: Vec<u8>,
        deadline: &Deadline,
    ) -> Result<HttpResponse, Unanswered> {
        let until = Instant::now() + deadline.left();
        let Ok(Ok(_permit)) = timeout_at(until, self.permits.acquire()).await else {
            return Err(Unanswered::NotSent("too many calls to the simulator".to_owned()));
        };
        let request = self.request(Method::POST, path, body.into());
        match timeout_at(until, self.exchange(request, Some(deadline))).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(SendError::NotSent(message))) => Err(Unanswered::NotSent(message)),
            Ok(Err(SendError::Unknown(message))) => Err(Unanswered::Unknown(message)),
            Err(_) => Err(Unanswered::TimedOut),
        }
    }

    async fn exchange(
        &self,
        request: Request<Body>,
        deadline: Option<&Deadline>,
    ) -> Result<HttpResponse, SendError> {
        let (head, body) = self.connection.send(request, deadline).await?.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        let body =
            body.map_err(|error| SendError::Unknown(format!("the answer's body: {error}")))?;
        Ok(HttpResponse { status: head.status, body: body.to_bytes() })
    }
}

/// Reads the journal of the simulator at `url`, record by record.
///
/// # Errors
/// The journal cannot be read completely.
pub async fn charges(url: &str, mut each: impl FnMut(Record)) -> Result<(), Error> {
    let client = Client::new(url, &Options::new(Clock::new(false)))?;
    let request = client.request(Method::GET, "/journal", Bytes::new());
    let response = match client.connection.send(request, None).await {
        Ok(response) => response,
        Err(SendError::NotSent(error) | SendError::Unknown(error)) => {
            return Err(Error::Remote(error));
        }
    };
    if response.status() != StatusCode::OK {
        return Err(Error::Remote(format!("its journal: HTTP {}", response.status().as_u16())));
    }
    let mut body = response.into_body();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::Remote(error.to_string()))?;
        let Ok(mut data) = frame.into_data() else { continue };
        while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
            rest.extend_from_slice(&data[..end]);
            data.advance(end + 1);
            let record = serde_json::from_slice(&rest);
            each(record.map_err(|error| Error::Remote(format!("a journal record: {error}")))?);
            rest.clear();
        }
        rest.extend_from_slice(&data);
        if rest.len() > LINE_BYTES_MAX {
            return Err(Error::Remote("a journal record is too long".to_owned()));
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Error::Remote("its journal is incomplete".to_owned()))
    }
}

fn authority(url: &str) -> Result<String, Error> {
    let refuse =
        |reason: &str| Error::Url { field: "gateway.simulator.url", reason: reason.to_owned() };
    let uri: Uri = url.parse().map_err(|_| refuse("is not a URL"))?;
    if uri.scheme_str() != Some("http") {
        return Err(refuse("must begin with http://"));
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(refuse("must have no path"));
    }
    let authority = uri.authority().ok_or_else(|| refuse("has no host"))?;
    if authority.as_str().contains('@') {
        return Err(refuse("must have no user"));
    }
    let port = match authority.port_u16() {
        Some(port) => port,
        None if authority.host() == authority.as_str() => 80,
        None => return Err(refuse("has a port that is none")),
    };
    Ok(format!("{}:{port}", authority.host()))
}

/// The error for an answer that says "not sent" or "timed out".
const ONLY_CALLERS_SAY: &str = "the simulator answered what only its caller can say";

/// The outcome is unknown unless the response is a valid answer. A server cannot report that the
/// client did not send the call or that it timed out.
fn answer_of(response: &HttpResponse) -> GatewayAnswer {
    match parse::<CallResponse>(response).map(GatewayAnswer::from) {
        Ok(answer @ (GatewayAnswer::Outcome(_) | GatewayAnswer::Nothing)) => answer,
        Ok(answer @ GatewayAnswer::Failed { .. }) => answer,
        Ok(GatewayAnswer::TimedOut | GatewayAnswer::NotSent { .. }) => {
            GatewayAnswer::Failed { message: ONLY_CALLERS_SAY.to_owned() }
        }
        Err(message) => GatewayAnswer::Failed { message },
    }
}

/// As [`answer_of`], about a payment method.
fn method_answer_of(response: &HttpResponse) -> MethodAnswer {
    match parse(response) {
        Ok(
            answer @ (MethodAnswer::Attached(_)
            | MethodAnswer::Absent
            | MethodAnswer::Refused { .. }
            | MethodAnswer::Unknown { .. }),
        ) => answer,
        Ok(MethodAnswer::NotSent { .. }) => {
            MethodAnswer::Unknown { message: ONLY_CALLERS_SAY.to_owned() }
        }
        Err(message) => MethodAnswer::Unknown { message },
    }
}

fn parse<T: DeserializeOwned>(response: &HttpResponse) -> Result<T, String> {
    if response.status != StatusCode::OK {
        return Err(format!("the simulator answered HTTP {}", response.status.as_u16()));
    }
    serde_json::from_slice(&response.body)
        .map_err(|_| "the simulator's answer cannot be read".to_owned())
}

/// Polls for notifications until the receiver is dropped.
async fn poll(client: Arc<Client>, sender: mpsc::Sender<Notification>) {
    let mut after: Option<u64> = None;
    loop {
        let path = match after {
            None => "/notifications".to_owned(),
            Some(after) => format!("/notifications?after={after}"),
        };
        let request = client.request(Method::GET, &path, Bytes::new());
        let polling = timeout(LONG_POLL + INQUIRE_TIMEOUT, client.exchange(request, None));
        let polled = tokio::select! {
            () = sender.closed() => return,
            polled = polling => polled,
        };
        let page: Option<NotificationPage> = match polled {
            Ok(Ok(response)) => parse(&response).ok(),
            Ok(Err(SendError::NotSent(_) | SendError::Unknown(_))) | Err(_) => None,
        };
        let Some(page) = page else {
            sleep(POLL_RETRY_DELAY).await;
            continue;
        };
        for one in page.notifications {
            if sender.send(one.into()).await.is_err() {
                return;
            }
        }
        after = Some(page.last);
    }
}
