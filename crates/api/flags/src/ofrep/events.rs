//! The event stream that tells clients to evaluate again.
//!
//! Browsers cannot send headers with it and keep its URL for any time: the URL names a channel that
//! is derived from the secret, grants only this stream, and expires with the secret.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use evaluation::User;
use feature_flags::subscribers::{Permit, Subscriber};
use feature_flags::subscription::Subscription;
use feature_flags::time::now_ms;
use feature_flags::{Accounts, EntitledUser, Grant, RequestKind, SecretKind};
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{Extensions, HeaderMap, HeaderValue, StatusCode, Uri};
use tokio::time::Interval;
use web::NetworkPermit;
use web::query::Query;

use super::refusal::OfrepRefusal;
use crate::reply::{self, Refusal};
use crate::state::ApiState;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells proxies not to buffer.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How often a comment is sent, so that proxies keep the connection and a broken one is noticed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(25);

/// `Retry-After` for a network that has too many streams open.
const NETWORK_RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long a client waits before it reconnects, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// The query parameter that names the user; see [`feature_flags::secret::Digest::seal_user`].
const USER: &str = "user";

/// `GET /ofrep/v1/events/{channel}`
pub(crate) async fn listen(
    State(api): State<Arc<ApiState>>,
    Path(channel): Path<String>,
    (extensions, uri): (Extensions, Uri),
    headers: HeaderMap,
) -> Result<Response, OfrepRefusal> {
    if !api.cache.is_available() || api.cache.is_draining() {
        return Err(Refusal::Unavailable.into());
    }
    let grant = api.cache.find_channel(&channel);
    let grant = grant.filter(|it| it.kind() != SecretKind::RelayProxy);
    let grant = grant.ok_or(Refusal::Unauthorized)?;
    api.check_rate(&grant, RequestKind::Ofrep)?;
    let network = api.network_permit(&extensions).ok_or(Refusal::TooMany(NETWORK_RETRY_AFTER))?;
    let permit = api.listeners.acquire(api.settings.listeners_max).ok_or(Refusal::Unavailable)?;
    let last = headers.get(LAST_EVENT_ID).and_then(|it| it.to_str().ok());
    let query = Query::parse(uri.query().unwrap_or_default()).unwrap_or_default();
    let user = query.first(USER).map(|name| grant.digest.open_user(name));
    let user = user.map(|key| key.ok_or(Refusal::Unauthorized)).transpose()?.map(User::new);
    let listener = Listener::new(&api, grant, (permit, network), (last, user))
        .ok_or(Refusal::TooMany(NETWORK_RETRY_AFTER))?;
    let mut response = reply::response(StatusCode::OK, Body::from_stream(listener));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    Ok(response)
}

/// The event stream of a client.
struct Listener {
    grant: Arc<Grant>,
    subscriber: Arc<Subscriber>,
    accounts: Arc<Accounts>,
    user: Option<EntitledUser>,
    _subscription: Subscription,
    /// The version that the client has; none where it does not say.
    version: Option<Box<str>>,
    keep_alive: Interval,
    _permits: (Permit, NetworkPermit),
}

impl Listener {
    /// A client with another version, or none, gets an event at once: something may have changed
    /// since its last evaluation. `None` where its environment has too many streams.
    fn new(
        api: &ApiState,
        grant: Arc<Grant>,
        permits: (Permit, NetworkPermit),
        (version, user): (Option<&str>, Option<User>),
    ) -> Option<Self> {
        let subscriber = Arc::<Subscriber>::default();
        let streams_max = api.settings.environment_streams_max;
        let subscription = Subscription::new(&grant, &subscriber, streams_max)?;
        let keep_alive = tokio::time::interval_at(
            tokio::time::Instant::now() + KEEP_ALIVE_INTERVAL,
            KEEP_ALIVE_INTERVAL,
        );
        let version = version.map(Box::from);
        Some(Self {
            grant,
            subscriber,
            accounts: Arc::clone(&api.cache.accounts),
            user: user.map(EntitledUser::new),
            _subscription: subscription,
            version,
            keep_alive,
            _permits: permits,
        })
    }

    /// None where nothing changed, or until it is known what the user is entitled to.
    fn next_event(&mut self) -> Option<Bytes> {
        let environment = &self.grant.environments()[0];
        let state = environment.state();
        let mut version = state.version.clone();
        if let Some(user) = &mut self.user {
            environment.update_user(user, &state, (&self.accounts, &self.subscriber)).ok()?;
            version = format!("{version}-{:x}", user.entitled_version).into();
        }
        if self.version.as_deref() == Some(&*version) {
            return None;
        }
        let event = event(&version, state.changed_at_ms);
        self.version = Some(version);
        Some(event)
    }
}

fn event(version: &str, changed_at_ms: i64) -> Bytes {
    let seconds = changed_at_ms.div_euclid(1_000);
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
        this.subscriber.register(cx.waker());
        if this.subscriber.close_code().is_some() || this.grant.close_code(now_ms()).is_some() {
            return Poll::Ready(None);
        }
        if let Some(event) = this.next_event() {
            return Poll::Ready(Some(Ok(event)));
        }
        this.keep_alive.poll_tick(cx).map(|_| Some(Ok(Bytes::from_static(b":\n\n"))))
    }
}
