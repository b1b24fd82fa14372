//! A delivery: a POST to an endpoint or a callback, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::webhooks::ANSWER_BYTES_MAX;
use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::Full;
use outbound::{
    Callback, CallbackError, Connection, Idle, Reach, Resolver, SendError, Tls,
    validate_request_callback,
};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::rustls::ClientConfig;

use crate::options::Options;

/// The maximum size of a response's body. The connection is not reused after a larger one.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// How long a response's body is read. The delivery is over with the status; the rest is for the log.
const BODY_WITHIN: Duration = Duration::from_secs(1);

/// The longest pause that a response asks for and gets.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Why a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The callback could not be reached or refused the notification.
    Refused(String),
    TimedOut,
}

impl Failure {
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Refused(reason) => reason.clone(),
            Self::TimedOut => "the callback did not answer in time".to_owned(),
        }
    }
}

/// The result of a delivery.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) result: Result<(), Failure>,
    /// The endpoint's response, if there was one.
    pub(crate) response: Option<Response>,
    pub(crate) took: Duration,
}

/// The response of an endpoint.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    /// How long to wait before the next delivery, where the response says so and is heeded.
    pub(crate) retry_after: Option<Duration>,
    /// How the body begins.
    pub(crate) body: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Poster {
    pub(crate) reach: Reach,
    pub(crate) timeout: Duration,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) resolver: Resolver,
}

impl Poster {
    pub(crate) fn new(options: &Options) -> Self {
        let Options { reach, timeout, .. } = *options;
        let (tls, resolver) = (Arc::clone(&options.tls), options.resolver.clone());
        Self { reach, timeout, tls, resolver }
    }

    /// Posts a body. A status of 2xx is a success. Redirects are not followed.
    pub(crate) async fn post(
        &self,
        to: &Callback,
        idle: &Idle,
        (headers, body): (HeaderMap, Bytes),
    ) -> Posted {
        let begun = Instant::now();
        let answered = timeout_at(begun + self.timeout, self.send(to, idle, (headers, body))).await;
        let (response, connection) = match answered {
            Ok(Ok(answered)) => answered,
            Ok(Err(reason)) => return Posted::failed(Failure::Refused(reason), begun),
            Err(_) => return Posted::failed(Failure::TimedOut, begun),
        };
        let (head, body) = response.into_parts();
        let mut shown = vec![];
        let until = (begun + self.timeout).min(Instant::now() + BODY_WITHIN);
        let into = (&mut shown, ANSWER_BYTES_MAX);
        // The endpoint has decided with the status, even if the rest cannot be read.
        let rest = outbound::finish_shown(idle, connection, body, into, RESPONSE_BYTES_MAX);
        drop(timeout_at(until, rest).await);
        let result = match head.status.is_success() {
            true => Ok(()),
            false => Err(Failure::Refused(answered_with(head.status))),
        };
        let retry_after = retry_after(head.status, &head.headers);
        let response = Response { status: head.status, retry_after, body: shown };
        Posted { result, response: Some(response), took: begun.elapsed() }
    }

    async fn send(
        &self,
        to: &Callback,
        idle: &Idle,
        (headers, body): (HeaderMap, Bytes),
    ) -> Result<(http::Response<hyper::body::Incoming>, Connection), String> {
        let mut all = HeaderMap::with_capacity(headers.len() + 1);
        let host = HeaderValue::try_from(&to.authority);
        all.insert(HOST, host.map_err(|error| error.to_string())?);
        all.extend(headers);
        let request = Request::builder().method(Method::POST).uri(&to.target);
        let request = request.body(Full::new(body));
        let mut request = request.map_err(|error| error.to_string())?;
        *request.headers_mut() = all;
        let sent = outbound::send(idle, request, None, || self.connect(to)).await;
        sent.map_err(|error| match error {
            SendError::NotSent(reason) | SendError::Unknown(reason) => reason,
        })
    }

    async fn connect(&self, to: &Callback) -> Result<Connection, String> {
        let address = to.address_by(&self.resolver, self.reach).await?;
        let tls = match to.is_tls {
            true => Some(Tls::of(&self.tls, &to.host)?),
            false => None,
        };
        Connection::open(address, tls).await
    }
}

impl Posted {
    fn failed(failure: Failure, begun: Instant) -> Self {
        Self { result: Err(failure), response: None, took: begun.elapsed() }
    }

    /// The result of a delivery that cannot be tried.
    pub(crate) fn impossible(reason: String) -> Self {
        Self::failed(Failure::Refused(reason), Instant::now())
    }
}

fn answered_with(status: StatusCode) -> String {
    format!("the callback answered HTTP {}", status.as_u16())
}

/// The pause that a response asks for: seconds, or a date.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if ![StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status) {
        return None;
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            Duration::try_from(at.duration_since(jiff::Timestamp::now())).unwrap_or_default()
        }
    };
    Some(pause.min(RETRY_AFTER_MAX))
}

/// The headers that all deliveries have.
pub(crate) fn common_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(USER_AGENT, HeaderValue::from_static("KillBill/1.0"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=UTF-8"));
    headers
}

/// Posts to the URLs that came with requests ([`validate_request_callback`]). The caller signs the request
/// and retries.
#[derive(Clone)]
pub struct CallbackClient(Poster);

impl CallbackClient {
    /// A client with the addresses, timeout and certificates of `options`.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self(Poster::new(options))
    }

    /// Posts a body with these headers. A status of 2xx is a success. Redirects are not followed.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<(), Failure> {
        let refused = |error: CallbackError| Failure::Refused(error.to_string());
        // The settings may have changed since the client named it.
        validate_request_callback(url, self.0.reach).map_err(refused)?;
        let to = Callback::parse(url).map_err(refused)?;
        let mut map = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            let value = HeaderValue::try_from(value);
            let value = value.map_err(|error| Failure::Refused(error.to_string()))?;
            map.insert(HeaderName::from_static(name), value);
        }
        self.0.post(&to, &Idle::default(), (map, body)).await.result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_heeded_within_bounds() {
        let asked = |status, text: &str| {
            let headers = [(RETRY_AFTER, HeaderValue::try_from(text).unwrap())];
            retry_after(StatusCode::from_u16(status).unwrap(), &headers.into_iter().collect())
        };
        let seconds = |it| Some(Duration::from_secs(it));
        assert_eq!(asked(429, "7"), seconds(7));
        assert_eq!(asked(503, " 0 "), seconds(0));
        assert_eq!(asked(429, "99999999999"), seconds(86_400));
        assert_eq!(asked(503, "Wed, 21 Oct 2015 07:28:00 GMT"), seconds(0));
        assert_eq!(asked(503, "Thu, 31 Dec 9998 23:59:59 GMT"), seconds(86_400));
        for wrong in ["", "-1", "soon", "1.5", "99999999999999999999999"] {
            assert_eq!(asked(429, wrong), None, "{wrong}");
        }
        assert_eq!(asked(500, "7"), None);
        assert_eq!(retry_after(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()), None);
    }
}
