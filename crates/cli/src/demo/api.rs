//! The server's API, as the demo's administrator and tenant.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use command_line::Target;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{API_KEY, API_SECRET, PASSWORD};
use crate::client::{Client, Limits, Response, basic};

/// Longer than any step of the scenario takes.
const LIMITS: Limits = Limits { response_bytes_max: 1 << 20, timeout: Duration::from_secs(30) };

/// The server's API, as the demo's administrator and tenant.
pub struct Api(Client);

impl Api {
    /// Connects to the server.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        let target = Target::parse("--listen", url)?;
        let text = HeaderValue::from_static;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, basic("admin", PASSWORD)?);
        headers.insert("x-killbill-apikey", text(API_KEY));
        headers.insert("x-killbill-apisecret", text(API_SECRET));
        headers.insert("x-killbill-createdby", text("demo"));
        headers.insert(CONTENT_TYPE, text("application/json"));
        Ok(Self(Client::connect(&target, None, headers, LIMITS).await?))
    }

    pub(super) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Response> {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.0.send(method, path, None, Bytes::from(body)).await
    }

    /// Posts a document of XML.
    ///
    /// # Errors
    /// No complete response arrives.
    pub(super) async fn upload_xml(
        &mut self,
        path: &str,
        xml: &'static str,
    ) -> anyhow::Result<Response> {
        self.0.insert_header(CONTENT_TYPE, HeaderValue::from_static("text/xml"));
        let answer = self.0.send(Method::POST, path, None, Bytes::from(xml)).await;
        self.0.insert_header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }

    /// Puts a resource.
    ///
    /// # Errors
    /// The response is no success.
    pub async fn put(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.done(Method::PUT, path, body).await
    }

    /// Posts a request.
    ///
    /// # Errors
    /// The response is no success.
    pub async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.done(Method::POST, path, body).await
    }

    async fn done(&mut self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let title = format!("{method} {path}");
        let answer = self.call(method, path, Some(body)).await.with_context(|| title.clone())?;
        anyhow::ensure!(answer.status.is_success(), "{title}: {}", shown(&answer));
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Reads a resource that must exist.
    ///
    /// # Errors
    /// If the response is not 200 with JSON of this shape.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> anyhow::Result<T> {
        let answer = self.call(Method::GET, path, None).await.with_context(|| path.to_owned())?;
        anyhow::ensure!(answer.status == StatusCode::OK, "GET {path}: {}", shown(&answer));
        answer.json().with_context(|| format!("GET {path}"))
    }
}

/// A response in an error message.
pub(super) fn shown(answer: &Response) -> String {
    format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body))
}
