//! The tries of deliveries to webhook endpoints, and whether an endpoint receives. They are logged beside the
//! journal; no decision of the rules depends on them.

use domain::tenant::webhook::DisableReason;
use domain::{AccountId, Seq, TenantNo, Timestamp, WebhookEndpointId};
use uuid::Uuid;

/// The maximum length of a logged answer in bytes.
pub const ANSWER_BYTES_MAX: usize = 1_024;

/// How many replays of a tenant are kept, and may run: the oldest that are done are deleted with a new one.
pub const REPLAYS_MAX: i64 = 100;

/// Names a delivery: the `ordinal`-th event of a journal row to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// The journal row.
    pub seq: Seq,
    /// The event in it, from 0.
    pub ordinal: u16,
    /// Where to; [`CALLBACK`](crate::ports::CALLBACK) for the tenant's callback of Kill Bill's.
    pub endpoint: WebhookEndpointId,
}

/// A try to deliver an event to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTry {
    pub id: DeliveryId,
    pub tenant: TenantNo,
    /// Who has received it or not: the endpoint, or the [registration](crate::ports::callback_of) of the callback. The
    /// log has the endpoint alone.
    pub receiver: WebhookEndpointId,
    /// The type of the event, as [`DeliveryId`] names the event itself.
    pub event_type: String,
    /// From 1 upwards; a replay begins anew.
    pub attempt: u32,
    /// Domain time of its end.
    pub at: Timestamp,
    pub outcome: TryOutcome,
    /// The HTTP status, where there was an answer.
    pub status: Option<u16>,
    pub took_ms: u32,
    /// How the answer's body begins: at most [`ANSWER_BYTES_MAX`]. Untrusted.
    pub answer: Option<String>,
    /// Why it failed, where it did.
    pub error: Option<String>,
    /// Domain time of the next try, where there is to be one.
    pub next_at: Option<Timestamp>,
}

/// The outcome of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryOutcome {
    Delivered,
    /// It failed, and there will be another one.
    Failed,
    /// It failed and was the last one, or none was made: the endpoint is off.
    GivenUp,
}

impl TryOutcome {
    pub const ALL: [Self; 3] = [Self::Delivered, Self::Failed, Self::GivenUp];

    /// Its name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::GivenUp => "given-up",
        }
    }
}

/// A row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedTry {
    pub place: LogPlace,
    pub it: DeliveryTry,
}

/// Where a row of the log stands, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// Near the time in microseconds; counts up in a partition.
    pub number: i64,
    pub partition: i64,
}

/// Which rows of the log are looked for. `None` is any.
#[derive(Clone, Debug, Default)]
pub struct TryFilter {
    pub endpoint: Option<WebhookEndpointId>,
    /// The event, by its place in the journal.
    pub event: Option<(Seq, u16)>,
    pub outcome: Option<TryOutcome>,
    /// Rows before this one.
    pub before: Option<LogPlace>,
}

/// Whether an endpoint receives, as the owner of a partition sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Since when every try has failed; `None` after a success.
    pub failing_since: Option<Timestamp>,
    /// When it received last, to the hour.
    pub received_at: Option<Timestamp>,
    /// Why it is to be switched off, where it is.
    pub refused: Option<DisableReason>,
}

/// The retention of the log.
#[derive(Clone, Copy, Debug)]
pub struct LogRetention {
    /// Rows before this domain time are deleted.
    pub since: Timestamp,
    /// About how many bytes a partition's rows may take.
    pub bytes_max: i64,
}

/// An endpoint that is to be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedEndpoint {
    pub tenant: TenantNo,
    pub endpoint: WebhookEndpointId,
    pub reason: DisableReason,
}

/// An endpoint was switched off because it does not receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchedOff {
    pub tenant: TenantNo,
    pub endpoint: WebhookEndpointId,
    pub reason: DisableReason,
    /// Domain time.
    pub at: Timestamp,
}

/// Events of a tenant that are sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    pub tenant: TenantNo,
    pub id: Uuid,
    /// Where to; `None`: to all endpoints that want the event.
    pub endpoint: Option<WebhookEndpointId>,
    /// The domain time of the first event, and the time before which the last one happened.
    pub times: (Timestamp, Timestamp),
    /// Their types, or groups of them; empty: all.
    pub events: Vec<String>,
    /// The account that they are about; `None`: any.
    pub account: Option<AccountId>,
    pub created_at: Timestamp,
}

/// How far a replay is in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayProgress {
    /// The last journal row that was looked at; `None` before the first.
    pub upto: Option<Seq>,
    /// How many deliveries were queued.
    pub queued: i64,
    pub is_done: bool,
}
