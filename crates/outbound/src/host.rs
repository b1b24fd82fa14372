//! A host that requests are sent to. Its address is validated with each connection and is the one connected
//! to; nothing of a request leaves after its deadline; answers are bounded.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Clock, Deadline};
use http::{Method, Request, Response, header, request};
use http_body_util::Full;
use tokio_rustls::rustls::ClientConfig;

use crate::callback::{Callback, CallbackError, Reach, Resolver, validate_callback};
use crate::connection::{self, Connection, Fencing, Idle, SendError, Tls, public_web_tls};

/// The URL that paths are appended to, and the addresses that it may have.
pub struct Base {
    callback: Callback,
    reach: Reach,
    resolver: Resolver,
}

impl Base {
    /// Reads a URL.
    ///
    /// # Errors
    /// It cannot be called, or has a query.
    pub fn parse(url: &str, reach: Reach) -> Result<Self, CallbackError> {
        validate_callback(url, reach)?;
        let mut callback = Callback::parse(url)?;
        if callback.target.contains('?') {
            return Err(CallbackError::NotAUrl);
        }
        callback.target.truncate(callback.target.trim_end_matches('/').len());
        Ok(Self { callback, reach, resolver: Resolver::System })
    }

    /// The same, with addresses of this resolver.
    #[must_use]
    pub fn resolved_by(self, resolver: Resolver) -> Self {
        Self { resolver, ..self }
    }
}

/// A host, and the idle connections to it.
pub struct Host {
    base: Base,
    clock: Clock,
    /// How long the kernel offers bytes that the host does not acknowledge.
    unacknowledged_max: Duration,
    idle: Idle,
    tls: Arc<ClientConfig>,
}

impl Host {
    /// A host. It is connected to with the first request.
    #[must_use]
    pub fn new(base: Base, clock: Clock, unacknowledged_max: Duration) -> Self {
        Self { base, clock, unacknowledged_max, idle: Idle::default(), tls: public_web_tls() }
    }

    /// Its name and port.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.base.callback.authority
    }

    /// The clock that deadlines are compared with.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The beginning of a request for a path, which may have a query.
    #[must_use]
    pub fn request(&self, method: Method, path: &str) -> request::Builder {
        let uri = format!("{}{path}", self.base.callback.target);
        let builder = Request::builder().method(method).uri(uri);
        builder.header(header::HOST, self.authority())
    }

    /// Sends a request once, and reads an answer of at most `answer_bytes_max`. Nothing of it leaves after the
    /// deadline; the caller ends the waiting.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send(
        &self,
        (request, body): (request::Builder, Bytes),
        deadline: Option<&Deadline>,
        answer_bytes_max: usize,
    ) -> Result<Response<Bytes>, SendError> {
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| SendError::NotSent(error.to_string()))?;
        let sent = connection::send(&self.idle, request, deadline, || self.connect()).await?;
        let ((head, answer), connection) = (sent.0.into_parts(), sent.1);
        let answer = connection::finish(&self.idle, connection, answer, answer_bytes_max).await;
        let answer = answer.map_err(SendError::Unknown)?;
        Ok(Response::from_parts(head, answer))
    }

    async fn connect(&self) -> Result<Connection, String> {
        let Base { callback, reach, resolver } = &self.base;
        let address = callback.address_by(resolver, *reach).await?;
        let tls = match callback.is_tls {
            true => Some(Tls::of(&self.tls, &callback.host)?),
            false => None,
        };
        let (clock, unacknowledged_max) = (self.clock.clone(), self.unacknowledged_max);
        Connection::open_fenced(address, tls, Fencing { clock, unacknowledged_max }).await
    }
}
