//! Receives the push notifications of the scenario.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpListener;

/// The largest notification that is read.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Notifications stored; the scenario causes fewer.
const EVENTS_MAX: usize = 100;

/// A notification, as Kill Bill sends it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub event_type: String,
    pub object_type: Option<String>,
    pub object_id: Option<String>,
}

/// The received notifications with their time.
pub type Events = Vec<(Instant, Event)>;

/// A receiver that listens until the runtime ends.
pub struct Receiver {
    address: SocketAddr,
    events: Arc<Mutex<Events>>,
}

impl Receiver {
    /// Listens on a free loopback port.
    pub async fn listen() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let events = Arc::new(Mutex::new(Events::new()));
        let stored = Arc::clone(&events);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stored = Arc::clone(&stored);
                let service = service_fn(move |request| answer(request, Arc::clone(&stored)));
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // The sender reports broken connections.
                tokio::spawn(async move { serving.await.ok() });
            }
        });
        Ok(Self { address, events })
    }

    /// The URL that receives notifications.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The notifications received so far.
    pub fn events(&self) -> Events {
        self.events.lock().expect("no panic while locked").clone()
    }
}

async fn answer(
    request: Request<Incoming>,
    stored: Arc<Mutex<Events>>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    if let Ok(body) = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await
        && let Ok(event) = serde_json::from_slice(&body.to_bytes())
    {
        let mut stored = stored.lock().expect("no panic while locked");
        if stored.len() < EVENTS_MAX {
            stored.push((Instant::now(), event));
        }
    }
    Ok(Response::new(Empty::new()))
}
