//! A client of a running server: one HTTP/1.1 connection that carries one request at a time.
//!
//! `demo` and `flags` use it. The load generators in `bench` and the client of an external gateway
//! have clients of their own, because they have to know whether a failed request may have reached
//! the server; here any failure ends the command.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bench::Target;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, ETAG, HOST, HeaderMap, HeaderName, HeaderValue, IF_MATCH};
use hyper::header::{LOCATION, RETRY_AFTER, ToStrError};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// What is said of an answer that has another shape.
pub(crate) const NOT_JSON: &str = "the server's answer is not the JSON expected";

/// Bounds of every request on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub response_bytes_max: usize,
    /// For connecting, and for each request with its response.
    pub timeout: Duration,
}

/// A connection to a server.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    limits: Limits,
}

/// Whom a connection is encrypted for.
pub struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// The server has to show a certificate for the host of `authority` from an authority in `ca_file`
    /// (PEM), or from one that browsers trust where there is no file.
    ///
    /// # Errors
    /// If the file cannot be read or has no certificate.
    pub fn new(authority: &str, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(file) = ca_file {
            let certificates = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
            let certificates: Vec<_> =
                certificates.with_context(|| format!("cannot read {}", file.display()))?;
            roots = RootCertStore::empty();
            for certificate in certificates {
                roots.add(certificate).with_context(|| file.display().to_string())?;
            }
            anyhow::ensure!(!roots.is_empty(), "{} has no certificate", file.display());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Ends with the sender. The request in flight reports its error.
    tokio::spawn(async move { connection.await.ok() });
    Ok(sender)
}

/// A response with its whole body.
#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub location: Option<String>,
    pub etag: Option<String>,
    /// When a request that was refused may be sent again.
    pub retry_after: Option<Duration>,
    /// Whether it is not known what the request did.
    pub is_unknown: bool,
    pub body: Bytes,
    /// From sending the request to the last byte of the response.
    pub took: Duration,
}

/// The value of `Authorization` for a user (RFC 7617).
///
/// # Errors
/// If the user's name has control characters.
pub fn basic(user: &str, password: &str) -> anyhow::Result<HeaderValue> {
    let credentials = STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::try_from(format!("Basic {credentials}"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Client {
    /// Connects; `headers` go with every request.
    ///
    /// # Errors
    /// If the server refuses the connection or does not answer in time.
    pub async fn connect(
        target: &Target,
        tls: Option<Tls>,
        mut headers: HeaderMap,
        limits: Limits,
    ) -> anyhow::Result<Self> {
        headers.insert(HOST, HeaderValue::try_from(&target.authority)?);
        let connecting = async {
            let stream = TcpStream::connect(&target.authority).await?;
            stream.set_nodelay(true)?;
            match tls {
                None => speak(stream).await,
                Some(tls) => speak(tls.connector.connect(tls.name, stream).await?).await,
            }
        };
        let connected = tokio::time::timeout(limits.timeout, connecting).await;
        Ok(Self { sender: connected.context("no answer")??, headers, limits })
    }

    /// Sends this header with every later request.
    pub fn insert_header(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    /// Sends a request, and reads its response whatever the status. A body is JSON.
    ///
    /// # Errors
    /// If no complete response arrives in time, or it is too large.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        if_match: Option<&str>,
        body: Bytes,
    ) -> anyhow::Result<Response> {
        let has_body = !body.is_empty();
        let mut request = Request::builder().method(method).uri(path).body(Full::new(body))?;
        *request.headers_mut() = self.headers.clone();
        if has_body {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        if let Some(version) = if_match {
            request.headers_mut().insert(IF_MATCH, HeaderValue::try_from(version)?);
        }
        let timeout = self.limits.timeout;
        tokio::time::timeout(timeout, self.exchange(request)).await.context("no answer")?
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Response> {
        let sent = Instant::now();
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let text = |name: HeaderName| {
            let value = response.headers().get(name).map(HeaderValue::to_str).transpose()?;
            Ok::<_, ToStrError>(value.map(str::to_owned))
        };
        let (location, etag) = (text(LOCATION)?, text(ETAG)?);
        let retry_after =
            text(RETRY_AFTER)?.and_then(|it| it.parse().ok()).map(Duration::from_secs);
        let is_unknown = response.headers().contains_key("x-faregate-outcome");
        let body = Limited::new(response.into_body(), self.limits.response_bytes_max);
        let body = body.collect().await.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        let took = sent.elapsed();
        Ok(Response { status, location, etag, retry_after, is_unknown, body, took })
    }
}

impl Response {
    /// The body as JSON.
    ///
    /// # Errors
    /// If it is not JSON, or not of this shape.
    pub fn json<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_slice(&self.body).context(NOT_JSON)
    }

    /// The UUID at the end of `Location`.
    ///
    /// # Errors
    /// If there is none.
    pub fn created_id(&self) -> anyhow::Result<String> {
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
    fn created_id_is_the_last_segment_of_location() {
        let response = |location: Option<&str>| Response {
            status: StatusCode::CREATED,
            location: location.map(str::to_owned),
            etag: None,
            retry_after: None,
            is_unknown: false,
            body: Bytes::new(),
            took: Duration::ZERO,
        };
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        for location in [format!("http://h:1/1.0/kb/payments/{id}/"), format!("/x/{id}")] {
            assert_eq!(response(Some(&location)).created_id().unwrap(), id);
        }
        let error = |location| response(location).created_id().unwrap_err().to_string();
        assert_eq!(error(Some("http://h/")), "Location");
        assert_eq!(error(None), "an answer without Location");
    }
}
