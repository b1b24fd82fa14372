//! Streams that need no credentials: watches of the server's health, and reflection. They pass none of
//! the limits of calls, so there are few of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;

/// How many there are on all connections.
const STREAMS_MAX: usize = 64;
/// How many there are on one connection.
const CONNECTION_STREAMS_MAX: usize = 4;

/// The permits of all connections.
#[derive(Clone)]
pub(crate) struct AnonymousStreams(Arc<Semaphore>);

impl AnonymousStreams {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(STREAMS_MAX)))
    }

    /// The permits of one connection.
    pub(crate) fn of_connection(&self) -> ConnectionStreams {
        let own = Arc::new(Semaphore::new(CONNECTION_STREAMS_MAX));
        ConnectionStreams { all: Arc::clone(&self.0), own }
    }
}

/// The permits of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionStreams {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

impl ConnectionStreams {
    /// A permit for a stream; `None` where there are too many.
    pub(crate) fn acquire(&self) -> Option<StreamPermit> {
        let own = Arc::clone(&self.own).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(StreamPermit { _own: own, _of_all: of_all })
    }
}

/// Held until the stream has ended.
pub(crate) struct StreamPermit {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl StreamPermit {
    /// The body of the stream, which holds the permit.
    pub(crate) fn hold(self, body: Body) -> Body {
        Body::new(Held { body, _permit: self })
    }
}

struct Held {
    body: Body,
    _permit: StreamPermit,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
