//! Requests to a world over HTTP.

use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::world::World;

/// What is asked.
pub struct Ask {
    request: http::request::Builder,
    body: Body,
}

/// What is answered.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Ask {
    pub fn get(path: &str) -> Self {
        Self { request: Request::get(path), body: Body::empty() }
    }

    pub fn post(path: &str, body: &Value) -> Self {
        Self::post_text(path, body.to_string())
    }

    pub fn post_text(path: &str, body: impl Into<Body>) -> Self {
        Self { request: Request::post(path), body: body.into() }
    }

    pub fn options(path: &str) -> Self {
        Self { request: Request::options(path), body: Body::empty() }
    }

    pub fn header(self, name: &str, value: &str) -> Self {
        Self { request: self.request.header(name, value), ..self }
    }

    /// With a secret as FeatBit's SDKs send it.
    pub fn secret(self, secret: &str) -> Self {
        self.header("authorization", secret)
    }

    /// The answer, before its body has come.
    pub async fn begin(self, world: &World) -> http::Response<Incoming> {
        let stream = TcpStream::connect(world.address).await.unwrap();
        let io = TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = self.request.header("host", "flags.example").body(self.body).unwrap();
        sender.send_request(request).await.unwrap()
    }

    pub async fn of(self, world: &World) -> Answer {
        let (head, body) = self.begin(world).await.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        Answer { status: head.status, headers: head.headers, text }
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_str(&self.text).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|it| it.to_str().unwrap())
    }
}
