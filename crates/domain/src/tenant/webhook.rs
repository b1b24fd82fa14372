//! A tenant's webhook endpoints: one value of the tenant, which the API seals and the follower of the journal
//! opens. The rules know when it may be replaced, and which endpoint was switched off.

use serde::{Deserialize, Serialize};

use crate::{Seq, WebhookEndpointId};

/// Replaces the tenant's webhook endpoints, if they are still what the caller has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetWebhookEndpoints {
    /// All endpoints, sealed by the caller; `None` if none is left.
    pub sealed: Option<String>,
    /// The journal row of the value that the caller has read; `None` if there was none.
    pub read_at: Option<Seq>,
    /// The endpoint that this switches off because it does not receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<DisabledEndpoint>,
}

/// An endpoint that was switched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisabledEndpoint {
    pub endpoint: WebhookEndpointId,
    pub reason: DisableReason,
}

/// Why an endpoint was switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisableReason {
    /// It answered 410.
    Gone,
    /// It has received nothing for so long.
    Failing,
}

impl DisableReason {
    /// Its name in answers and events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }
}
