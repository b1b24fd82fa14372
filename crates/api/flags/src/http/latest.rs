//! All flags, or those that changed since a time: the same messages as on a stream.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use evaluation::User;
use feature_flags::environment_state::EnvironmentState;
use feature_flags::message::{self, Extent};
use feature_flags::{RequestKind, SecretKind};
use http::{HeaderMap, StatusCode, Uri};
use web::answer_budget::SharedAnswer;
use web::query::Query;

use super::secret;
use crate::in_parts::{self, InParts, PART_BYTES};
use crate::reply::{self, Refusal, read_body};
use crate::state::ApiState;
use crate::user::SentUser;

/// `GET /api/public/sdk/server/latest-all`
pub(crate) async fn server(
    State(api): State<Arc<ApiState>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let grant = api.authenticate(secret(&headers), &[SecretKind::Server], RequestKind::Sdk)?;
    let timestamp = timestamp(&uri)?;
    let environment = &grant.environments()[0];
    let entitled = api.cache.with_entitled_keys(environment, timestamp).await;
    if let Some(all) = entitled.map_err(|_| Refusal::Unavailable)? {
        return Ok(shared(reply::json(StatusCode::OK, all.text())));
    }
    let state = environment.state();
    if timestamp > 0 && !state.is_newer_for_servers(timestamp) {
        return Ok(unchanged());
    }
    let answer = reply::of(environment, state.server_sync(timestamp).text());
    Ok(if timestamp > 0 { answer } else { shared(answer) })
}

/// `POST /api/public/sdk/client/latest-all`
pub(crate) async fn client(
    State(api): State<Arc<ApiState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let grant = api.authenticate(secret(&headers), &[SecretKind::Client], RequestKind::Sdk)?;
    let timestamp = timestamp(&uri)?;
    let body = read_body(body, api.settings.user_bytes_max).await?;
    let user = serde_json::from_slice(&body).ok().and_then(|it: SentUser<'_>| it.read());
    let user = user.ok_or(Refusal::Bad("invalid end user"))?;
    let environment = &grant.environments()[0];
    let user = api.cache.with_entitled(environment, user).await.ok_or(Refusal::Unavailable)?;
    let state = environment.state();
    if timestamp > 0 && !state.is_newer_for_clients(timestamp) {
        return Ok(unchanged());
    }
    let values = Values::new(Arc::clone(&state), user.user, timestamp);
    Ok(reply::of(environment, values.body()))
}

/// A user's values of the flags that changed since a time: the message that streams carry, made part by part.
struct Values {
    state: Arc<EnvironmentState>,
    user: User,
    timestamp: i64,
    extent: Extent,
    /// How many flags are passed.
    passed: usize,
    is_any_written: bool,
}

impl Values {
    fn new(state: Arc<EnvironmentState>, user: User, timestamp: i64) -> Self {
        let extent = state.client_extent(timestamp);
        Self { state, user, timestamp, extent, passed: 0, is_any_written: false }
    }

    fn body(self) -> Body {
        let count = if self.extent == Extent::Full { self.state.flags().count() } else { 0 };
        let of_flags = count * message::CLIENT_FLAG_BYTES;
        let capacity = message::ENVELOPE_BYTES + self.user.key_id.len() + of_flags;
        in_parts::body(self, capacity)
    }
}

impl InParts for Values {
    fn state(&self) -> &EnvironmentState {
        &self.state
    }

    fn write_part(&mut self, out: &mut Vec<u8>) -> bool {
        if self.passed == 0 {
            message::begin_client(out, self.extent, &self.user);
        }
        for (flag, at_ms) in self.state.flags().skip(self.passed) {
            self.passed += 1;
            if self.extent == Extent::Patch && at_ms <= self.timestamp {
                continue;
            }
            if self.is_any_written {
                out.push(b',');
            }
            self.is_any_written = true;
            let evaluation = self.state.snapshot.evaluate_flag(flag, &self.user);
            message::client_flag(out, &evaluation, at_ms);
            if out.len() >= PART_BYTES {
                return false;
            }
        }
        out.extend_from_slice(message::CLIENT_END);
        true
    }
}

/// The answer that all servers get until the environment changes.
fn shared(mut answer: Response) -> Response {
    answer.extensions_mut().insert(SharedAnswer);
    answer
}

/// The time up to which the SDK has everything; 0: it has nothing.
fn timestamp(uri: &Uri) -> Result<i64, Refusal> {
    let query = Query::parse(uri.query().unwrap_or_default()).unwrap_or_default();
    match query.first("timestamp") {
        None | Some("") => Ok(0),
        Some(text) => text.parse().map_err(|_| Refusal::Bad("invalid timestamp")),
    }
}

fn unchanged() -> Response {
    reply::response(StatusCode::OK, Body::empty())
}
