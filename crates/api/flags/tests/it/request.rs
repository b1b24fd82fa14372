//! HTTP requests to a fixture.

use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::fixture::Fixture;

pub struct TestRequest {
    request: http::request::Builder,
    body: Body,
}

#[derive(Debug)]
pub struct TestResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl TestRequest {
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

    /// Authenticates as FeatBit's SDKs do.
    pub fn secret(self, secret: &str) -> Self {
        self.header("authorization", secret)
    }

    /// The response, before its body is received.
    pub async fn begin(self, fixture: &Fixture) -> http::Response<Incoming> {
        let stream = TcpStream::connect(fixture.address).await.unwrap();
        let io = TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = self.request.header("host", "flags.example").body(self.body).unwrap();
        sender.send_request(request).await.unwrap()
    }

    pub async fn send(self, fixture: &Fixture) -> TestResponse {
        let (head, body) = self.begin(fixture).await.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        TestResponse { status: head.status, headers: head.headers, text }
    }
}

impl TestResponse {
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_str(&self.text).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|it| it.to_str().unwrap())
    }
}
