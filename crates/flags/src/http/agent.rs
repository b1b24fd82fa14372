//! FeatBit's agent makes itself known.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;

use super::secret;
use crate::door::Door;
use crate::limit::Sort;
use crate::reply::{self, Refusal, read_body};
use crate::secret::SecretKind;

/// The longest name of an agent, in bytes.
const AGENT_BYTES_MAX: usize = 256;

/// `POST /api/public/agent/register`: the body is the agent's name, in JSON. Nothing is kept of it:
/// an agent is known by its secret.
pub(crate) async fn register(
    State(door): State<Arc<Door>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    door.open(secret(&headers), &[SecretKind::RelayProxy], Sort::Sdk)?;
    let body = read_body(&door, body, 2 * AGENT_BYTES_MAX).await?;
    let agent: Option<String> = serde_json::from_slice(&body).ok();
    let agent = agent.filter(|it| !it.trim().is_empty() && it.len() <= AGENT_BYTES_MAX);
    let agent = agent.ok_or(Refusal::Bad("an agent's id was expected"))?;
    Ok(reply::text(agent))
}
