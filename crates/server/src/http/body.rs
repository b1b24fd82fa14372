//! A request's body: taken from the connection when somebody asks for it, and not before; within its
//! size, its time, and the room that the bodies of all requests share.

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
use killbill::BodyError;
use metrics::Counter;

use super::pulse::Pulse;

/// How much of a body that nobody wants is read and thrown away, in bytes: a client that is still
/// writing when the connection closes would see a reset instead of the answer, and one that has
/// written all of it keeps its connection.
const DISCARDED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What bodies may be, and how many bytes of them are held.
pub struct Bodies {
    bytes_max: usize,
    timeout: Duration,
    held_bytes_max: usize,
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
        Arc::new(Self { bytes_max, timeout, held_bytes_max, held_bytes, refused })
    }

    /// How many bytes of bodies are in memory, those announced but still to come included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Prepares a body for its door: it comes as one frame, all of it, or fails with a
    /// [`BodyError`]. It has to be read in the connection's own task, whose pulse ends its patience.
    pub fn hand_on(
        self: &Arc<Self>,
        incoming: Incoming,
        headers: &HeaderMap,
        pulse: &Arc<Pulse>,
    ) -> (Body, Receipt) {
        if incoming.is_end_stream() {
            return (Body::empty(), Receipt { parcel: None });
        }
        let parcel = Arc::new(Parcel {
            bodies: Arc::clone(self),
            pulse: Arc::clone(pulse),
            held_bytes: AtomicUsize::new(0),
            unwanted: Mutex::new(None),
        });
        let whole = Whole {
            incoming: Some(incoming),
            is_coming: !headers.contains_key(EXPECT),
            is_over: false,
            first: Bytes::new(),
            all: BytesMut::new(),
            parcel: Arc::clone(&parcel),
        };
        (Body::new(whole), Receipt { parcel: Some(parcel) })
    }

    fn hold(&self, bytes: usize) -> Result<(), BodyError> {
        let before = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= self.held_bytes_max {
            return Ok(());
        }
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.refused.increment(1);
        Err(BodyError::NoRoom)
    }
}

/// What the front keeps of a body until the request is answered: so long its bytes count as held.
pub struct Receipt {
    parcel: Option<Arc<Parcel>>,
}

impl Receipt {
    /// Reads and throws away what the door did not want, within the same time, unless the client
    /// waits to be told that it may send it. Where this does not reach the end, the connection is
    /// closed behind the answer.
    pub async fn discard(&self) {
        let Some(parcel) = &self.parcel else { return };
        let Some(mut incoming) = parcel.unwanted().take() else { return };
        let mut left = DISCARDED_BYTES_MAX;
        if incoming.size_hint().lower() > left as u64 {
            return;
        }
        parcel.pulse.body_began();
        poll_fn(|cx| {
            while let Some(Ok(frame)) = ready!(parcel.poll_in_time(&mut incoming, cx)) {
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

/// What the door's and the front's half of a body share.
struct Parcel {
    bodies: Arc<Bodies>,
    pulse: Arc<Pulse>,
    held_bytes: AtomicUsize,
    /// What the door has left of the body.
    unwanted: Mutex<Option<Incoming>>,
}

impl Parcel {
    /// Makes room for a body that has grown to `bytes`.
    fn hold(&self, bytes: usize) -> Result<(), BodyError> {
        if bytes > self.bodies.bytes_max {
            return Err(BodyError::TooLarge);
        }
        let before = self.held_bytes.load(Ordering::Relaxed);
        if bytes > before {
            self.bodies.hold(bytes - before)?;
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
            Poll::Pending if self.pulse.body_is_late(self.bodies.timeout) => {
                Poll::Ready(Some(Err(BodyError::TimedOut)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn unwanted(&self) -> std::sync::MutexGuard<'_, Option<Incoming>> {
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.bodies.held_bytes.fetch_sub(*self.held_bytes.get_mut(), Ordering::Relaxed);
    }
}

/// The door's half: the whole body as one frame. Frames are not kept one by one, because a small one
/// keeps the buffer alive that it was read into.
struct Whole {
    incoming: Option<Incoming>,
    /// Whether the client sends without being asked to, or has been asked.
    is_coming: bool,
    is_over: bool,
    first: Bytes,
    all: BytesMut,
    parcel: Arc<Parcel>,
}

impl Whole {
    fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, BodyError>> {
        let Some(mut incoming) = self.incoming.take() else { return Poll::Ready(Ok(Bytes::new())) };
        let polled = self.poll_rest(&mut incoming, cx);
        match polled {
            // The connection is beyond help.
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
        self.parcel.hold(self.len().saturating_add(announced))?;
        self.is_coming = true;
        while let Some(frame) = ready!(self.parcel.poll_in_time(incoming, cx)) {
            let Ok(data) = frame?.into_data() else { continue };
            self.parcel.hold(self.len() + data.len())?;
            // Most bodies are one frame, which is handed on as it is.
            if self.len() == 0 {
                self.first = data;
                continue;
            }
            if self.all.is_empty() {
                self.all.reserve(announced.max(self.first.len() + data.len()));
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

impl hyper::body::Body for Whole {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        this.parcel.pulse.body_began();
        let whole = ready!(this.poll_whole(cx));
        this.is_over = true;
        this.parcel.pulse.body_ended();
        Poll::Ready(Some(whole.map(Frame::data)))
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if self.is_coming {
            *self.parcel.unwanted() = self.incoming.take();
        }
    }
}
