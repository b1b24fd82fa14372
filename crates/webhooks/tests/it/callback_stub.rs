//! A callback that records requests and returns a configured response.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::TIMEOUT;

/// The response of the callback.
#[derive(Clone, Debug)]
pub enum StubResponse {
    Status(u16),
    RedirectTo(String),
    Never,
    /// 200, once the sender is dropped.
    Held(watch::Receiver<()>),
}

/// A received notification.
#[derive(Debug)]
pub struct Posted {
    pub target: String,
    pub headers: HeaderMap,
    pub text: String,
}

impl Posted {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub fn event_type(&self) -> String {
        self.json()["eventType"].as_str().unwrap().to_owned()
    }
}

pub struct CallbackStub {
    pub url: String,
    posted: mpsc::UnboundedReceiver<Posted>,
    response: Arc<Mutex<StubResponse>>,
}

#[derive(Clone)]
struct StubState {
    posted: mpsc::UnboundedSender<Posted>,
    response: Arc<Mutex<StubResponse>>,
}

impl CallbackStub {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (receiver, routes) = Self::of("http", &listener);
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        receiver
    }

    pub async fn start_tls(acceptor: TlsAcceptor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (receiver, routes) = Self::of("https", &listener);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, routes) = (acceptor.clone(), routes.clone());
                tokio::spawn(async move {
                    // A client that does not trust the certificate disconnects.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = TowerToHyperService::new(routes);
                    let builder = hyper::server::conn::http1::Builder::new();
                    drop(builder.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        receiver
    }

    fn of(scheme: &str, listener: &TcpListener) -> (Self, Router) {
        let url = format!("{scheme}://{}/cb?of=test", listener.local_addr().unwrap());
        let (sender, posted) = mpsc::unbounded_channel();
        let response = Arc::new(Mutex::new(StubResponse::Status(200)));
        let state = StubState { posted: sender, response: Arc::clone(&response) };
        let routes = Router::new().fallback(receive).with_state(state);
        (Self { url, posted, response }, routes)
    }

    pub fn respond_with(&self, response: StubResponse) {
        *self.response.lock().unwrap() = response;
    }

    /// Responds with 200, but only once what is returned is dropped.
    pub fn hold(&self) -> watch::Sender<()> {
        let (held, until) = watch::channel(());
        self.respond_with(StubResponse::Held(until));
        held
    }

    pub async fn next(&mut self) -> Posted {
        tokio::time::timeout(TIMEOUT, self.posted.recv())
            .await
            .expect("a notification arrives")
            .unwrap()
    }

    /// The types of the remaining notifications.
    pub fn rest(&mut self) -> Vec<String> {
        let mut rest = vec![];
        while let Ok(posted) = self.posted.try_recv() {
            rest.push(posted.event_type());
        }
        rest
    }
}

async fn receive(
    State(state): State<StubState>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let response = state.response.lock().unwrap().clone();
    let text = String::from_utf8(body.to_vec()).unwrap();
    state.posted.send(Posted { target: uri.to_string(), headers, text }).unwrap();
    match response {
        StubResponse::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        StubResponse::RedirectTo(url) => {
            (StatusCode::FOUND, [(header::LOCATION, url)]).into_response()
        }
        StubResponse::Never => std::future::pending().await,
        StubResponse::Held(mut until) => {
            while until.changed().await.is_ok() {}
            StatusCode::OK.into_response()
        }
    }
}
