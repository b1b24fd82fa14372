//! A request's body: read from the connection when the API asks for it, and not before; bounded in
//! size, in time, and by the memory that the bodies of all requests share.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::EXPECT;
use hyper::body::{Body as _, Frame, Incoming};
use metrics::Counter;
use web::BodyError;

use crate::connection_timer::ConnectionTimer;

/// How much of a body that the API did not read is read and dropped, in bytes: a client that is still
/// writing when the connection closes would see a reset instead of the answer, and one that has
/// written all of it keeps its connection.
const DISCARDED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How much of an announced body is held before it comes, in bytes: most are not longer. A client that
/// announces more and does not send it takes this from others, and not what it announced.
const FIRST_BYTES: usize = 4 * 1024;

/// Longer bodies leave a part of the memory to shorter ones, such as those of payments, in bytes.
const SHORT_BYTES_MAX: usize = 16 * 1024;

/// That part of the memory: one in so many.
const PART_FOR_SHORT: usize = 4;

/// The limits of bodies, and how many bytes of them are in memory.
pub struct Bodies {
    bytes_max: usize,
    timeout: Duration,
    held_bytes_max: usize,
    /// The part of it that longer bodies leave to shorter ones.
    for_short_bytes: usize,
    held_bytes: AtomicUsize,
    refused: Counter,
}

impl Bodies {
    /// Bodies of `bytes_max` bytes at most, each within `timeout`, and of `held_bytes_max` bytes at
    /// most for all requests together.
    #[must_use]
    pub fn new(bytes_max: usize, timeout: Duration, held_bytes_max: usize) -> Arc<Self> {
        let refused = metrics::counter!("faregate_refused_total", "reason" => "bodies");
        let held_bytes = AtomicUsize::new(0);
        // One of the longest fits in any case.
        let rest = held_bytes_max.saturating_sub(bytes_max);
        let for_short_bytes = rest.min(held_bytes_max / PART_FOR_SHORT);
        Arc::new(Self { bytes_max, timeout, held_bytes_max, for_short_bytes, held_bytes, refused })
    }

    /// How many bytes of bodies are in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Wraps a body for its API: it is one frame, or fails with a [`BodyError`]. It has to be read in the
    /// connection's own task, which the timer wakes when the body is late.
    pub fn buffer(
        self: &Arc<Self>,
        incoming: Incoming,
        headers: &HeaderMap,
        timer: &Arc<ConnectionTimer>,
    ) -> (Body, BodyGuard) {
        if incoming.is_end_stream() {
            return (Body::empty(), BodyGuard { shared: None });
        }
        let shared = Arc::new(SharedBody {
            bodies: Arc::clone(self),
            timer: Arc::clone(timer),
            held_bytes: AtomicUsize::new(0),
            unread: Mutex::new(None),
        });
        let body = BufferedBody {
            incoming: Some(incoming),
            is_coming: !headers.contains_key(EXPECT),
            is_finished: false,
            first: Bytes::new(),
            all: BytesMut::new(),
            shared: Arc::clone(&shared),
        };
        (Body::new(body), BodyGuard { shared: Some(shared) })
    }

    /// Reserves memory for a body that grows by `bytes`.
    fn hold(&self, bytes: usize, is_short: bool) -> Result<(), BodyError> {
        let for_others = if is_short { 0 } else { self.for_short_bytes };
        let before = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= self.held_bytes_max - for_others {
            return Ok(());
        }
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.refused.increment(1);
        Err(BodyError::NoRoom)
    }
}

/// Kept until the request is answered: until then the body's bytes count as held.
pub struct BodyGuard {
    shared: Option<Arc<SharedBody>>,
}

impl BodyGuard {
    /// Reads and drops what the API did not read, within the same time, unless the client waits for
    /// `100 Continue`. Where this does not reach the end, the connection is closed after the response.
    pub async fn discard(&self) {
        let Some(shared) = &self.shared else { return };
        let Some(mut incoming) = shared.unread().take() else { return };
        let mut left = DISCARDED_BYTES_MAX;
        if incoming.size_hint().lower() > left as u64 {
            return;
        }
        shared.timer.body_began();
        poll_fn(|cx| {
            while let Some(Ok(frame)) = ready!(shared.poll_in_time(&mut incoming, cx)) {
                let discarded = frame.data_ref().map_or(0, Bytes::len);
                match left.checked_sub(discarded) {
                    Some(rest) => left = rest,
                    None => break,
                }
            }
            Poll::Ready(())
        })
        .await;
    }
}

/// The state that the API's and the listener's half of a body share.
struct SharedBody {
    bodies: Arc<Bodies>,
    timer: Arc<ConnectionTimer>,
    held_bytes: AtomicUsize,
    /// The rest of the body that the API did not read.
    unread: Mutex<Option<Incoming>>,
}

impl SharedBody {
    /// Reserves memory for a body that has grown to `bytes`.
    fn hold(&self, bytes: usize) -> Result<(), BodyError> {
        if bytes > self.bodies.bytes_max {
            return Err(BodyError::TooLarge);
        }
        let before = self.held_bytes.load(Ordering::Relaxed);
        if bytes > before {
            self.bodies.hold(bytes - before, bytes <= SHORT_BYTES_MAX)?;
            self.held_bytes.store(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn poll_in_time(
        &self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(frame.map(|it| it.map_err(|_| BodyError::Broken))),
            Poll::Pending if self.timer.is_body_late(self.bodies.timeout) => {
                Poll::Ready(Some(Err(BodyError::TimedOut)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn unread(&self) -> std::sync::MutexGuard<'_, Option<Incoming>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedBody {
    fn drop(&mut self) {
        self.bodies.held_bytes.fetch_sub(*self.held_bytes.get_mut(), Ordering::Relaxed);
    }
}

/// The API's half: all of the body as one frame. Frames are not kept one by one, because a small one
/// keeps the buffer alive that it was read into.
struct BufferedBody {
    incoming: Option<Incoming>,
    /// Whether the client sends without waiting for `100 Continue`, or was sent it.
    is_coming: bool,
    is_finished: bool,
    first: Bytes,
    all: BytesMut,
    shared: Arc<SharedBody>,
}

impl BufferedBody {
    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, BodyError>> {
        let Some(mut incoming) = self.incoming.take() else { return Poll::Ready(Ok(Bytes::new())) };
        let polled = self.poll_rest(&mut incoming, cx);
        match polled {
            // Nothing more can be read from the connection.
            Poll::Ready(Ok(_) | Err(BodyError::TimedOut | BodyError::Broken)) => {}
            Poll::Ready(Err(BodyError::TooLarge | BodyError::NoRoom)) | Poll::Pending => {
                self.incoming = Some(incoming);
            }
        }
        polled
    }

    fn poll_rest(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, BodyError>> {
        let announced = usize::try_from(incoming.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > self.shared.bodies.bytes_max {
            return Poll::Ready(Err(BodyError::TooLarge));
        }
        self.shared.hold(self.len() + announced.min(FIRST_BYTES))?;
        self.is_coming = true;
        while let Some(frame) = ready!(self.shared.poll_in_time(incoming, cx)) {
            let Ok(data) = frame?.into_data() else { continue };
            self.shared.hold(self.len() + data.len())?;
            // Most bodies are one frame, which is passed on as it is.
            if self.len() == 0 {
                self.first = data;
                continue;
            }
            if self.all.is_empty() {
                self.all.reserve(self.first.len() + data.len());
                self.all.extend_from_slice(&std::mem::take(&mut self.first));
            }
            self.all.extend_from_slice(&data);
        }
        let all = std::mem::take(&mut self.all);
        let first = std::mem::take(&mut self.first);
        Poll::Ready(Ok(if all.is_empty() { first } else { all.freeze() }))
    }

    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }
}

impl hyper::body::Body for BufferedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.is_finished {
            return Poll::Ready(None);
        }
        this.shared.timer.body_began();
        let body = ready!(this.poll_all(cx));
        this.is_finished = true;
        this.shared.timer.body_ended();
        Poll::Ready(Some(body.map(Frame::data)))
    }
}

impl Drop for BufferedBody {
    fn drop(&mut self) {
        if self.is_coming {
            *self.shared.unread() = self.incoming.take();
        }
    }
}
