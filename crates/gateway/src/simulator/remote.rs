//! The client of a simulator that runs as a process of its own. What it answers is not believed:
//! it is bounded, parsed, and anything that does not fit leaves the outcome unknown.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use domain::payment::{GatewayAnswer, GatewayKnowledge};
use domain::{GatewayCall, GatewaySettings};
use engine::ports::{BoxFuture, Gateway, Inquiry};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::record::{LINE_BYTES_MAX, Record};
use super::server::{POLL, Told};
use super::{Notification, Options};
use crate::Error;
use crate::multiplexed::Multiplexed;
use crate::outbound::{Body, SendError};

/// How large an answer may be.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How many calls are in flight at the same time; more wait within their deadline.
pub(super) const CALLS_MAX: u32 = 65_536;

/// How long a question may take.
const INQUIRE_MAX: Duration = Duration::from_secs(10);

/// How long to wait before notifications are asked for again after a failure.
const POLL_AGAIN: Duration = Duration::from_millis(500);

/// A simulator at a URL.
#[derive(Clone)]
pub struct Remote {
    place: Arc<Place>,
    options: Options,
}

struct Place {
    connection: Multiplexed,
    free: Semaphore,
}

/// An answer.
struct Exchanged {
    status: StatusCode,
    body: Bytes,
}

impl Remote {
    /// The client of the simulator at `url`, such as `http://127.0.0.1:9090`. Does not connect yet.
    ///
    /// # Errors
    /// Where the URL is not `http://HOST:PORT`.
    pub fn new(url: &str, options: Options) -> Result<Self, Error> {
        Ok(Self { place: Arc::new(Place::new(url)?), options })
    }

    /// What the simulator tells unasked, asked for as long as somebody listens.
    #[must_use]
    pub fn notifications(&self) -> mpsc::Receiver<Notification> {
        let (sender, receiver) = mpsc::channel(1_024);
        tokio::spawn(poll(Arc::clone(&self.place), sender));
        receiver
    }
}

impl Gateway for Remote {
    fn settings(&self) -> GatewaySettings {
        self.options.settings()
    }

    fn call(&self, call: GatewayCall) -> BoxFuture<'_, GatewayAnswer> {
        Box::pin(async move {
            let within = Duration::from_micros(u64::try_from(call.timeout_us).unwrap_or(0));
            let deadline = Instant::now() + within;
            let Ok(Ok(_free)) = timeout_at(deadline, self.place.free.acquire()).await else {
                let message = "too many calls to the simulator".to_owned();
                return GatewayAnswer::NotSent { message };
            };
            let body = serde_json::to_vec(&call).expect("a call has no map keys but strings");
            let request = self.place.request(Method::POST, "/charges", body.into());
            match timeout_at(deadline, self.place.exchange(request)).await {
                Ok(Ok(exchanged)) => read_answer(&exchanged),
                Ok(Err(SendError::NotSent(message))) => GatewayAnswer::NotSent { message },
                Ok(Err(SendError::Unknown(message))) => GatewayAnswer::Failed { message },
                Err(_) => GatewayAnswer::TimedOut,
            }
        })
    }

    fn inquire(&self, inquiry: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
        Box::pin(async move {
            let Inquiry { tenant, payment, transaction } = inquiry;
            let path = format!("/charges/{transaction}?tenant={}&payment={payment}", tenant.0);
            let request = self.place.request(Method::GET, &path, Bytes::new());
            match timeout(INQUIRE_MAX, self.place.exchange(request)).await {
                Ok(Ok(exchanged)) => parse(&exchanged).unwrap_or(GatewayKnowledge::Unreachable),
                Ok(Err(SendError::NotSent(_) | SendError::Unknown(_))) | Err(_) => {
                    GatewayKnowledge::Unreachable
                }
            }
        })
    }
}

impl Place {
    fn new(url: &str) -> Result<Self, Error> {
        let connection = Multiplexed::new(authority(url)?);
        Ok(Self { connection, free: Semaphore::new(CALLS_MAX as usize) })
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Body> {
        Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.connection.authority()))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .expect("paths are made of ids and numbers, and the authority was parsed")
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Exchanged, SendError> {
        let (head, body) = self.connection.send(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body =
            body.map_err(|error| SendError::Unknown(format!("the answer's body: {error}")))?;
        Ok(Exchanged { status: head.status, body: body.to_bytes() })
    }
}

/// The journal of the simulator at `url`, record by record.
///
/// # Errors
/// Where it cannot be had completely.
pub async fn charges(url: &str, mut each: impl FnMut(Record)) -> Result<(), Error> {
    let place = Place::new(url)?;
    let request = place.request(Method::GET, "/journal", Bytes::new());
    let response = match place.connection.send(request).await {
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
    if rest.is_empty() { Ok(()) } else { Err(Error::Remote("its journal was cut".to_owned())) }
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

/// Everything that is no clear answer leaves the outcome unknown. That nothing was sent, or that
/// time is up, is ours to say and not the other's.
fn read_answer(exchanged: &Exchanged) -> GatewayAnswer {
    match parse(exchanged) {
        Ok(answer @ (GatewayAnswer::Outcome(_) | GatewayAnswer::Nothing)) => answer,
        Ok(answer @ GatewayAnswer::Failed { .. }) => answer,
        Ok(GatewayAnswer::TimedOut | GatewayAnswer::NotSent { .. }) => GatewayAnswer::Failed {
            message: "the simulator answered what only its caller can say".to_owned(),
        },
        Err(message) => GatewayAnswer::Failed { message },
    }
}

fn parse<T: DeserializeOwned>(exchanged: &Exchanged) -> Result<T, String> {
    if exchanged.status != StatusCode::OK {
        return Err(format!("the simulator answered HTTP {}", exchanged.status.as_u16()));
    }
    serde_json::from_slice(&exchanged.body)
        .map_err(|_| "the simulator's answer cannot be read".to_owned())
}

/// Asks for notifications until nobody listens any more.
async fn poll(place: Arc<Place>, sender: mpsc::Sender<Notification>) {
    let mut after: Option<u64> = None;
    loop {
        let path = match after {
            None => "/notifications".to_owned(),
            Some(after) => format!("/notifications?after={after}"),
        };
        let request = place.request(Method::GET, &path, Bytes::new());
        let asked = timeout(POLL + INQUIRE_MAX, place.exchange(request));
        let told = tokio::select! {
            () = sender.closed() => return,
            told = asked => told,
        };
        let told: Option<Told> = match told {
            Ok(Ok(exchanged)) => parse(&exchanged).ok(),
            Ok(Err(SendError::NotSent(_) | SendError::Unknown(_))) | Err(_) => None,
        };
        let Some(told) = told else {
            sleep(POLL_AGAIN).await;
            continue;
        };
        for one in told.notifications {
            if sender.send(one.into()).await.is_err() {
                return;
            }
        }
        after = Some(told.last);
    }
}
