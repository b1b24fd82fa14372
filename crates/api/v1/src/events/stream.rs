//! Events as a stream: each is sent once it is committed, until the client goes, or reconnects where it was.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use ::webhooks::event::events_of;
use axum::response::Response;
use bytes::Bytes;
use domain::{Seq, TenantNo};
use engine::Unavailable;
use engine::access::ClientAddress;
use engine::client::{self, Client};
use engine::ports::JournalRow;
use futures_util::stream;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderName};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::cursor::{Cursor, Page};
use super::{LIMIT_MAX, READ, view};
use crate::Api;
use crate::caller::{RequestContext, is_still_admitted};
use crate::error::Error;
use crate::event_streams::{
    self, CHECK_INTERVAL, EVENT_STREAM, KEEP_ALIVE_INTERVAL, STREAM_MAX, StreamPermit,
    StreamPermits,
};
use crate::parameters::invalid;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long a client waits before it reconnects, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// The least pause between two reads of the journal, so that small commits are read together.
const READ_EVERY: Duration = Duration::from_millis(250);

/// When the journal is read again without notice of a commit: of other processes' commits there is none.
const READ_ANYWAY_EVERY: Duration = Duration::from_secs(1);

/// The streams of events that are open in this process.
#[derive(Clone, Default)]
pub struct Streams(StreamPermits<TenantNo>);

/// A stream, and what its client has got of it.
struct EventStream {
    api: Api,
    /// The address and the headers that its client was admitted with.
    credentials: (ClientAddress, HeaderMap),
    checked_at: Instant,
    /// Whether it is still there; `None` where that is not known.
    client: Option<Arc<Client>>,
    tenant: TenantNo,
    sent: Cursor,
    head: watch::Receiver<Seq>,
    /// Whether further events were there at the last read.
    more: bool,
    is_new: bool,
    wrote_at: Instant,
    ends_at: Instant,
    _permit: StreamPermit<TenantNo>,
}

/// The next chunk, and the stream that goes on behind it.
type Chunk = Option<(Result<Bytes, Infallible>, Option<EventStream>)>;

/// Whether a request asks for a stream.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok());
    let types = accepted.flat_map(|it| it.split(',')).filter_map(|it| it.split(';').next());
    types.map(str::trim).any(|it| it.eq_ignore_ascii_case(EVENT_STREAM))
}

/// Where a client was that reconnects.
///
/// # Errors
/// The header `Last-Event-ID`.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<Cursor>, Error> {
    let Some(sent) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let cursor = sent.to_str().ok().and_then(Cursor::parse);
    let reason = "is not the id of an event of this stream";
    cursor.map(Some).ok_or_else(|| invalid("Last-Event-ID", reason))
}

/// The stream of a tenant's events behind a cursor.
///
/// # Errors
/// Where too many are open.
pub(super) fn open(
    api: Api,
    (context, headers): (&RequestContext, HeaderMap),
    after: Cursor,
) -> Result<Response, Error> {
    let tenant = context.tenant.no;
    let permit = api.event_streams.0.acquire(Some(tenant)).map_err(|_| Error::StreamsFull)?;
    let now = Instant::now();
    let stream = EventStream {
        head: api.engine.head(),
        api,
        credentials: (context.from, headers),
        checked_at: now,
        client: client::current(),
        tenant,
        sent: after,
        more: true,
        is_new: true,
        wrote_at: now,
        ends_at: now + STREAM_MAX,
        _permit: permit,
    };
    // Nothing is read ahead of the client: one that reads slowly costs a page, and the connection's timer cuts one
    // that does not read.
    let chunks = stream::unfold(Some(stream), async |stream| stream?.next().await);
    Ok(event_streams::response(chunks))
}

impl EventStream {
    async fn next(mut self) -> Chunk {
        if std::mem::take(&mut self.is_new) {
            // The headers are sent with the first chunk: the client sees at once that it is connected.
            let begin = format!("retry: {RETRY_MS}\n{}", self.position());
            return self.write(begin);
        }
        loop {
            if !self.more {
                self.wait().await;
            }
            if self.is_over() || !self.is_still_admitted().await {
                return None;
            }
            // The client reconnects with what it has.
            let Page { rows, next, more } = self.read().await.ok()?;
            let events: String = rows.iter().map(|row| self.events(row)).collect();
            (self.sent, self.more) = (next, more);
            if !events.is_empty() {
                return self.write(events);
            }
            if self.wrote_at.elapsed() >= KEEP_ALIVE_INTERVAL {
                let position = self.position();
                return self.write(position);
            }
        }
    }

    fn is_over(&self) -> bool {
        // Its connection notices that it has gone at the second write from now only.
        let is_gone = self.client.as_ref().is_some_and(|it| it.is_gone());
        is_gone || Instant::now() >= self.ends_at || self.api.engine.is_draining()
    }

    /// Whether its client may still read the events; checked once in a while.
    async fn is_still_admitted(&mut self) -> bool {
        if self.checked_at.elapsed() < CHECK_INTERVAL {
            return true;
        }
        self.checked_at = Instant::now();
        let (from, headers) = &self.credentials;
        is_still_admitted(&self.api, *from, headers, READ).await
    }

    /// Waits until there may be further events.
    async fn wait(&mut self) {
        sleep(READ_EVERY).await;
        drop(timeout(READ_ANYWAY_EVERY, self.head.changed()).await);
    }

    async fn read(&self) -> Result<Page, Unavailable> {
        let (tenant, after) = (self.tenant, self.sent.clone());
        let limit = usize::try_from(LIMIT_MAX).unwrap_or(usize::MAX);
        self.api.engine.scan(tenant, move |queries| after.page(queries, tenant, limit)).await
    }

    /// The events of a row. The last one has the id: a client that was cut between them gets all of them again.
    fn events(&mut self, row: &JournalRow) -> String {
        self.sent.pass(row.seq);
        let views: Vec<_> = events_of(row).map(view).collect();
        let mut events = String::new();
        for (at, view) in (1..).zip(&views) {
            if at == views.len() {
                writeln!(events, "id: {}", self.sent.text()).expect("a text grows");
            }
            let data = serde_json::to_string(view).expect("a view is plain JSON");
            write!(events, "data: {data}\n\n").expect("a text grows");
        }
        events
    }

    /// No event, but the id to reconnect with: rows without events of the tenant are not read again.
    fn position(&self) -> String {
        format!("id: {}\n\n", self.sent.text())
    }

    fn write(mut self, text: String) -> Chunk {
        self.wrote_at = Instant::now();
        Some((Ok(text.into()), Some(self)))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_stream_is_asked_for_by_its_media_type() {
        let wanted = |accept: &'static str| {
            is_wanted(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
        };
        for accept in ["text/event-stream", "application/json;q=0.5, Text/Event-Stream;q=0.9"] {
            assert!(wanted(accept), "{accept}");
        }
        for accept in ["", "*/*", "application/json", "text/*", "text/event-streams"] {
            assert!(!wanted(accept), "{accept}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
