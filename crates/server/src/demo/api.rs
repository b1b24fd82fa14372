//! A client of the server under demonstration: one HTTP connection, JSON in and out.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::{API_KEY, API_SECRET, PASSWORD};

/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Longer than anything in the scenario takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the server.
pub struct Api {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

/// What the server said.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Where the thing that was created is.
    pub location: Option<String>,
    /// The body.
    pub body: Bytes,
    /// From sending the request to the last byte of the answer.
    pub took: Duration,
}

impl Api {
    /// Connects.
    pub async fn connect(authority: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with the sender; how it ends shows in the answers.
        tokio::spawn(async move { connection.await.ok() });
        Ok(Self { sender, authority: authority.to_owned() })
    }

    /// Sends a request, with a JSON body where there is one.
    pub async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> anyhow::Result<Answer> {
        let basic = STANDARD.encode(format!("admin:{PASSWORD}"));
        let body = body.map(serde_json::Value::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(AUTHORIZATION, format!("Basic {basic}"))
            .header("X-Killbill-ApiKey", API_KEY)
            .header("X-Killbill-ApiSecret", API_SECRET)
            .header("X-Killbill-CreatedBy", "demo")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let sent = Instant::now();
        tokio::time::timeout(TIMEOUT, self.exchange(request, sent)).await.context("no answer")?
    }

    /// Reads something that has to be there.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> anyhow::Result<T> {
        let answer = self.call(Method::GET, path, None).await.with_context(|| path.to_owned())?;
        anyhow::ensure!(answer.status == StatusCode::OK, "GET {path}: {}", answer.complaint());
        serde_json::from_slice(&answer.body).with_context(|| format!("GET {path}"))
    }

    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        sent: Instant,
    ) -> anyhow::Result<Answer> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let location = response.headers().get(LOCATION).map(|value| value.to_str());
        let location = location.transpose()?.map(str::to_owned);
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        Ok(Answer { status, location, body, took: sent.elapsed() })
    }
}

impl Answer {
    /// The status and, for people, what the body says.
    pub fn complaint(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }

    /// The id that `Location` ends with.
    pub fn created(&self) -> anyhow::Result<String> {
        let location = self.location.as_deref().context("an answer without Location")?;
        let path = location.strip_suffix('/').unwrap_or(location);
        let id = path.rsplit('/').next().unwrap_or(path);
        Ok(uuid::Uuid::parse_str(id).context("Location")?.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_ids() {
        let answer = |location: Option<&str>| Answer {
            status: StatusCode::CREATED,
            location: location.map(str::to_owned),
            body: Bytes::new(),
            took: Duration::ZERO,
        };
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        for location in [format!("http://h:1/1.0/kb/payments/{id}/"), format!("/x/{id}")] {
            assert_eq!(answer(Some(&location)).created().unwrap(), id);
        }
        assert!(answer(Some("http://h/")).created().is_err());
        assert!(answer(None).created().is_err());
    }
}
