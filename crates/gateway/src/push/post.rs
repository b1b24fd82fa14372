//! A delivery: a POST to a callback, and its result.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use super::options::Options;
use crate::callback::{Callback, CallbackError, Reach, validate_request_callback};
use crate::outbound::{self, Connection, Idle, SendError, Tls};

/// The maximum size of a response's body. The connection is not reused after a larger one.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Why a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The callback could not be reached or refused the notification.
    Refused(String),
    TimedOut,
}

impl Failure {
    pub(super) fn reason(self) -> String {
        match self {
            Self::Refused(reason) => reason,
            Self::TimedOut => "the callback did not answer in time".to_owned(),
        }
    }
}

#[derive(Clone)]
pub(super) struct Poster {
    pub(super) reach: Reach,
    pub(super) timeout: Duration,
    pub(super) tls: Arc<ClientConfig>,
}

impl Poster {
    /// Posts a body. A status of 2xx is a success. Redirects are not followed.
    pub(super) async fn post(
        &self,
        to: &Callback,
        idle: &Idle,
        body: Bytes,
    ) -> Result<(), Failure> {
        let headers = [
            ("user-agent", "KillBill/1.0".to_owned()),
            ("content-type", "application/json; charset=UTF-8".to_owned()),
        ];
        match timeout(self.timeout, self.try_post(to, idle, (&headers, body))).await {
            Ok(delivered) => delivered.map_err(Failure::Refused),
            Err(_) => Err(Failure::TimedOut),
        }
    }

    async fn try_post(
        &self,
        to: &Callback,
        idle: &Idle,
        (headers, body): (&[(&'static str, String)], Bytes),
    ) -> Result<(), String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&to.target)
            .header(http::header::HOST, &to.authority);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let sent = outbound::send(idle, request, None, || self.connect(to)).await;
        let (response, connection) = sent.map_err(|error| match error {
            SendError::NotSent(reason) | SendError::Unknown(reason) => reason,
        })?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            return Err(format!("the callback answered HTTP {}", head.status.as_u16()));
        }
        // The notification is delivered, even if the rest of the response cannot be read.
        drop(outbound::finish(idle, connection, body, RESPONSE_BYTES_MAX).await);
        Ok(())
    }

    async fn connect(&self, to: &Callback) -> Result<Connection, String> {
        let address = to.address(self.reach).await?;
        let tls = match to.is_tls {
            true => Some(Tls::of(&self.tls, &to.host)?),
            false => None,
        };
        Connection::open(address, tls).await
    }
}

/// Posts to the URLs that came with requests ([`validate_request_callback`]). The caller signs the request
/// and retries.
#[derive(Clone)]
pub struct CallbackClient(Poster);

impl CallbackClient {
    /// A client with the addresses, timeout and certificates of `options`.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let Options { reach, timeout, .. } = *options;
        Self(Poster { reach, timeout, tls: Arc::clone(&options.tls) })
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
        let idle = Idle::default();
        let posted = self.0.try_post(&to, &idle, (headers, body));
        let posted = timeout(self.0.timeout, posted).await.map_err(|_| Failure::TimedOut)?;
        posted.map_err(Failure::Refused)
    }
}
