//! A client of a running server: one HTTP/1.1 connection that carries one request at a time, and a new one
//! where the server has closed it.
//!
//! A request that may have reached the server is sent again only if it is safe to repeat (RFC 9110). The load
//! generators in `bench` and the clients of gateways have clients of their own.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use command_line::Target;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
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

const TOTAL: HeaderName = HeaderName::from_static("x-killbill-pagination-totalnbrecords");

/// The error for an answer whose JSON has another shape than expected.
pub(crate) const NOT_JSON: &str = "the server's answer is not the JSON expected";

/// How long an idle connection is used again: shorter than the time after which servers close it, so that no
/// request meets the server's end of the connection.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// Bounds of every request on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub response_bytes_max: usize,
    /// For connecting, and for each request with its response.
    pub timeout: Duration,
}

/// A client of a server.
pub struct Client {
    target: Target,
    tls: Option<Tls>,
    /// The connection that the last request left open.
    idle: Option<Connection>,
    headers: HeaderMap,
    limits: Limits,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    used: Instant,
}

/// The context of an error that came before anything of the request was sent.
#[derive(Clone, Copy, Debug)]
pub struct NotSent;

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was not sent")
    }
}

/// Whom a connection is encrypted for.
#[derive(Clone)]
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
    /// How many rows there are of the list that this is a page of.
    pub total: Option<u64>,
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
        let mut client = Self { target: target.clone(), tls, idle: None, headers, limits };
        let connected = tokio::time::timeout(limits.timeout, client.open()).await;
        client.idle = Some(connected.context("no answer")??);
        Ok(client)
    }

    /// Opens a connection.
    async fn open(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.target.authority).await?;
        stream.set_nodelay(true)?;
        let sender = match self.tls.clone() {
            None => speak(stream).await?,
            Some(tls) => speak(tls.connector.connect(tls.name, stream).await?).await?,
        };
        Ok(Connection { sender, used: Instant::now() })
    }

    /// Sends this header with every later request.
    pub fn insert_header(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    /// Sends a request, and reads its response whatever the status. A body is JSON, unless the
    /// client's headers have another content type.
    ///
    /// # Errors
    /// If no complete response arrives in time, or it is too large. With the context [`NotSent`] the server has
    /// received nothing of the request.
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
            request.headers_mut().entry(CONTENT_TYPE).or_insert(json);
        }
        if let Some(version) = if_match {
            request.headers_mut().insert(IF_MATCH, HeaderValue::try_from(version)?);
        }
        let timeout = self.limits.timeout;
        tokio::time::timeout(timeout, self.exchange(request)).await.context("no answer")?
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Response> {
        let sent = Instant::now();
        let (response, connection) = self.begin(request).await?;
        let status = response.status();
        let text = |name: HeaderName| {
            let value = response.headers().get(name).map(HeaderValue::to_str).transpose()?;
            Ok::<_, ToStrError>(value.map(str::to_owned))
        };
        let (location, etag) = (text(LOCATION)?, text(ETAG)?);
        let total = text(TOTAL)?.and_then(|it| it.parse().ok());
        let retry_after =
            text(RETRY_AFTER)?.and_then(|it| it.parse().ok()).map(Duration::from_secs);
        let is_unknown = response.headers().contains_key("x-faregate-outcome");
        let body = Limited::new(response.into_body(), self.limits.response_bytes_max);
        let body = body.collect().await.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        let took = sent.elapsed();
        self.idle = Some(Connection { used: Instant::now(), ..connection });
        Ok(Response { status, location, etag, total, retry_after, is_unknown, body, took })
    }
}

impl Client {
    /// Sends a request over the idle connection, or over a new one where the server has closed that. What the
    /// server may have received is sent again only if it is safe to repeat.
    async fn begin(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(hyper::Response<Incoming>, Connection)> {
        let again = request.method().is_safe().then(|| request.clone());
        let mut request = request;
        if let Some(mut idle) = self.idle.take().filter(Connection::is_fresh) {
            match idle.send(request).await {
                Ok(response) => return Ok((response, idle)),
                Err((error, unsent)) => request = unsent.or(again).ok_or(error)?,
            }
        }
        let mut connection = self.open().await.context(NotSent)?;
        let response = connection.send(request).await.map_err(|(error, _)| error)?;
        Ok((response, connection))
    }
}

impl Connection {
    fn is_fresh(&self) -> bool {
        !self.sender.is_closed() && self.used.elapsed() < IDLE_MAX
    }

    /// Sends a request. With the error the request is returned if nothing of it was sent.
    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<hyper::Response<Incoming>, (hyper::Error, Option<Request<Full<Bytes>>>)> {
        if let Err(error) = self.sender.ready().await {
            return Err((error, Some(request)));
        }
        self.sender.try_send_request(request).await.map_err(|mut error| {
            let unsent = error.take_message();
            (error.into_error(), unsent)
        })
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    const LIMITS: Limits = Limits { response_bytes_max: 1_024, timeout: Duration::from_secs(30) };

    /// The behaviour of a server at a request.
    #[derive(Clone, Copy)]
    enum Act {
        Answer,
        AnswerAndClose,
        CloseWithoutAnswer,
    }

    /// A server that does so with the requests that arrive, on however many connections; with what arrives.
    async fn server(acts: &'static [Act]) -> (Client, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut acts = acts.iter();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut chunk = [0; 1_024];
                while let Ok(length @ 1..) = stream.read(&mut chunk).await {
                    let request = String::from_utf8_lossy(&chunk[..length]).into_owned();
                    let line = request.lines().next().unwrap_or_default();
                    seen.send(line.replace(" HTTP/1.1", "")).unwrap();
                    let act = acts.next().expect("no more requests arrive");
                    if matches!(act, Act::Answer | Act::AnswerAndClose) {
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                        stream.write_all(answer).await.unwrap();
                    }
                    if matches!(act, Act::AnswerAndClose | Act::CloseWithoutAnswer) {
                        break;
                    }
                }
            }
        });
        let target = Target { authority: address.to_string(), address };
        (Client::connect(&target, None, HeaderMap::new(), LIMITS).await.unwrap(), arrived)
    }

    async fn send(client: &mut Client, method: Method, path: &str) -> anyhow::Result<StatusCode> {
        Ok(client.send(method, path, None, Bytes::new()).await?.status)
    }

    fn all(mut arrived: mpsc::UnboundedReceiver<String>) -> Vec<String> {
        std::iter::from_fn(|| arrived.try_recv().ok()).collect()
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_while_idle_is_opened_again() {
        let (mut client, arrived) = server(&[Act::Answer, Act::AnswerAndClose, Act::Answer]).await;
        send(&mut client, Method::POST, "/1").await.unwrap();
        send(&mut client, Method::POST, "/2").await.unwrap();
        while !client.idle.as_ref().unwrap().sender.is_closed() {
            tokio::task::yield_now().await;
        }
        send(&mut client, Method::POST, "/3").await.unwrap();
        assert_eq!(all(arrived), ["POST /1", "POST /2", "POST /3"]);
    }

    #[tokio::test]
    async fn a_connection_that_was_idle_for_long_is_not_used_again() {
        let (mut client, arrived) = server(&[Act::AnswerAndClose, Act::Answer]).await;
        send(&mut client, Method::POST, "/1").await.unwrap();
        // The server's end may be on its way: a request would meet it.
        client.idle.as_mut().unwrap().used = Instant::now().checked_sub(IDLE_MAX).unwrap();
        send(&mut client, Method::POST, "/2").await.unwrap();
        assert_eq!(all(arrived), ["POST /1", "POST /2"]);
    }

    #[tokio::test]
    async fn what_may_have_been_received_is_sent_once_unless_it_only_reads() {
        let acts = &[Act::Answer, Act::CloseWithoutAnswer, Act::Answer];
        let (mut client, arrived) = server(acts).await;
        send(&mut client, Method::POST, "/1").await.unwrap();
        let lost = send(&mut client, Method::POST, "/2").await.unwrap_err();
        assert!(!lost.is::<NotSent>());
        send(&mut client, Method::POST, "/3").await.unwrap();
        assert_eq!(all(arrived), ["POST /1", "POST /2", "POST /3"]);

        let (mut client, arrived) = server(acts).await;
        send(&mut client, Method::GET, "/1").await.unwrap();
        send(&mut client, Method::GET, "/2").await.unwrap();
        assert_eq!(all(arrived), ["GET /1", "GET /2", "GET /2"]);
    }

    #[tokio::test]
    async fn a_server_that_is_gone_has_received_nothing() {
        let (mut client, _) = server(&[]).await;
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        client.idle = None;
        client.target.authority = unused.to_string();
        assert!(send(&mut client, Method::POST, "/").await.unwrap_err().is::<NotSent>());
    }

    #[test]
    fn created_id_is_the_last_segment_of_location() {
        let response = |location: Option<&str>| Response {
            status: StatusCode::CREATED,
            location: location.map(str::to_owned),
            etag: None,
            total: None,
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
