//! A callback: takes what is posted to it, and answers as it is told to.

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
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::calls::PATIENCE;

/// What a receiver does with what it gets.
#[derive(Clone, Debug)]
pub enum Answer {
    Status(u16),
    RedirectTo(String),
    Never,
}

/// Something that was posted.
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

pub struct Receiver {
    pub url: String,
    posted: mpsc::UnboundedReceiver<Posted>,
    answer: Arc<Mutex<Answer>>,
}

#[derive(Clone)]
struct Taking {
    posted: mpsc::UnboundedSender<Posted>,
    answer: Arc<Mutex<Answer>>,
}

impl Receiver {
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
                    // Who does not trust the certificate hangs up.
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
        let answer = Arc::new(Mutex::new(Answer::Status(200)));
        let taking = Taking { posted: sender, answer: Arc::clone(&answer) };
        let routes = Router::new().fallback(take).with_state(taking);
        (Self { url, posted, answer }, routes)
    }

    pub fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub async fn next(&mut self) -> Posted {
        tokio::time::timeout(PATIENCE, self.posted.recv()).await.expect("nothing came").unwrap()
    }

    /// What has come and was not looked at.
    pub fn rest(&mut self) -> Vec<String> {
        let mut rest = vec![];
        while let Ok(posted) = self.posted.try_recv() {
            rest.push(posted.event_type());
        }
        rest
    }
}

async fn take(State(taking): State<Taking>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let answer = taking.answer.lock().unwrap().clone();
    let text = String::from_utf8(body.to_vec()).unwrap();
    taking.posted.send(Posted { target: uri.to_string(), headers, text }).unwrap();
    match answer {
        Answer::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Answer::RedirectTo(url) => (StatusCode::FOUND, [(header::LOCATION, url)]).into_response(),
        Answer::Never => std::future::pending().await,
    }
}
