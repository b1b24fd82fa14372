//! Registration of FeatBit's agent.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use feature_flags::{RequestKind, SecretKind};
use http::HeaderMap;

use super::secret;
use crate::reply::{self, Refusal, read_body};
use crate::state::ApiState;

/// The longest name of an agent, in bytes.
const AGENT_BYTES_MAX: usize = 256;

/// `POST /api/public/agent/register`: the body is the agent's name, in JSON. It is not stored: an
/// agent is known by its secret.
pub(crate) async fn register(
    State(api): State<Arc<ApiState>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    api.authenticate(secret(&headers), &[SecretKind::RelayProxy], RequestKind::Sdk)?;
    let body = read_body(body, 2 * AGENT_BYTES_MAX).await?;
    let agent: Option<String> = serde_json::from_slice(&body).ok();
    let agent = agent.filter(|it| !it.trim().is_empty() && it.len() <= AGENT_BYTES_MAX);
    let agent = agent.ok_or(Refusal::Bad("an agent's id was expected"))?;
    Ok(reply::text(agent))
}
