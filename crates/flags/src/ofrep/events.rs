//! The stream that says when to ask again.
//!
//! Browsers send no headers along, and keep the address for as long as they like: it names a channel
//! that is made of the secret, opens nothing but this, and ends with the secret.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::Interval;

use crate::board::{Grant, now_ms};
use crate::door::Door;
use crate::limit::Sort;
use crate::reply::{self, Refusal};
use crate::secret::SecretKind;
use crate::sockets::{Place, Seat};
use crate::state::State as Flags;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells proxies not to wait for the end.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How often something is said to a listener, so that proxies keep the connection and one that is
/// gone is found out.
const BEAT: Duration = Duration::from_secs(25);

/// How long a listener waits before it comes again, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// `GET /ofrep/v1/events/{channel}`
pub(crate) async fn listen(
    State(door): State<Arc<Door>>,
    Path(channel): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if !door.board.is_available() || door.board.is_draining() {
        return Err(Refusal::Unavailable);
    }
    let grant = door.board.find_channel(&channel);
    let grant = grant.filter(|it| it.kind() != SecretKind::RelayProxy);
    let grant = grant.ok_or(Refusal::Unauthorized)?;
    door.check_rate(&grant, Sort::Ofrep)?;
    let place = door.listeners.enter(door.settings.listeners_max).ok_or(Refusal::Unavailable)?;
    let last = headers.get(LAST_EVENT_ID).and_then(|it| it.to_str().ok());
    let listener = Listener::new(grant, place, last);
    let mut response = reply::answer(StatusCode::OK, Body::from_stream(listener));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    Ok(response)
}

/// Who is told when to ask again.
struct Listener {
    grant: Arc<Grant>,
    seat: Arc<Seat>,
    place: usize,
    /// The version that the listener knows of; nothing where it does not say.
    told: Option<Box<str>>,
    beat: Interval,
    _place: Place,
}

impl Listener {
    /// Who comes without having been here, or was away, is told to ask: something may have changed
    /// since the last answer.
    fn new(grant: Arc<Grant>, place_of_all: Place, told: Option<&str>) -> Self {
        let seat = Arc::<Seat>::default();
        let place = grant.environments()[0].sockets.enter(&seat);
        let beat = tokio::time::interval_at(tokio::time::Instant::now() + BEAT, BEAT);
        Self { grant, seat, place, told: told.map(Box::from), beat, _place: place_of_all }
    }

    fn news(&mut self) -> Option<Bytes> {
        let state = self.grant.environments()[0].state();
        if self.told.as_deref() == Some(&*state.version) {
            return None;
        }
        self.told = Some(state.version.clone());
        Some(event(&state))
    }
}

fn event(state: &Flags) -> Bytes {
    let (version, seconds) = (&state.version, state.changed_at_ms.div_euclid(1_000));
    // The etag is quoted, as it is in a header.
    let data = format!(
        r#"{{"type":"refetchEvaluation","etag":"\"{version}\"","lastModified":{seconds}}}"#
    );
    format!("id: {version}\nevent: message\nretry: {RETRY_MS}\ndata: {data}\n\n").into()
}

impl Stream for Listener {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.seat.listen(cx.waker());
        if this.seat.order().is_some() || this.grant.ended(now_ms()).is_some() {
            return Poll::Ready(None);
        }
        if let Some(news) = this.news() {
            return Poll::Ready(Some(Ok(news)));
        }
        this.beat.poll_tick(cx).map(|_| Some(Ok(Bytes::from_static(b":\n\n"))))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.grant.environments()[0].sockets.leave(self.place);
    }
}
