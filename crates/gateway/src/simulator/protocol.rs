//! The HTTP protocol between a simulator's process and its clients.

use std::time::Duration;

use domain::payment::{GatewayAnswer, GatewayKnowledge, GatewayOutcome, MethodAtGateway};
use domain::{PaymentId, TenantNo, TransactionId};
use serde::{Deserialize, Serialize};

use super::core::Notification;

/// The maximum size of a response, except for that of the journal.
pub(super) const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// The maximum number of calls of a client in flight.
pub(super) const CALLS_MAX: u32 = 65_536;

/// How long the server holds a request for notifications open.
pub(super) const LONG_POLL: Duration = Duration::from_secs(20);

/// The maximum number of notifications in a response, which keeps it below [`RESPONSE_BYTES_MAX`].
pub(super) const NOTIFICATIONS_PER_PAGE_MAX: usize = 16;

/// The query parameters of a call.
#[derive(Serialize, Deserialize)]
pub(super) struct CallQuery {
    /// Whether the client's payment methods are attached before they are charged.
    #[serde(default)]
    pub(super) attaches_methods: bool,
}

/// The answer to a call.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallResponse {
    answer: GatewayAnswer,
    /// The payment method, where it was attached for the call: an outcome is written without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payment_method: Option<MethodAtGateway>,
}

impl From<GatewayAnswer> for CallResponse {
    fn from(mut answer: GatewayAnswer) -> Self {
        let payment_method = outcome_of(&mut answer).and_then(|it| it.payment_method.take());
        Self { answer, payment_method }
    }
}

impl From<CallResponse> for GatewayAnswer {
    fn from(CallResponse { mut answer, payment_method }: CallResponse) -> Self {
        if let Some(outcome) = outcome_of(&mut answer) {
            outcome.payment_method = payment_method;
        }
        answer
    }
}

const fn outcome_of(answer: &mut GatewayAnswer) -> Option<&mut GatewayOutcome> {
    match answer {
        GatewayAnswer::Outcome(outcome) => Some(outcome),
        GatewayAnswer::Failed { .. }
        | GatewayAnswer::Nothing
        | GatewayAnswer::TimedOut
        | GatewayAnswer::NotSent { .. } => None,
    }
}

/// The query parameters of an inquiry.
#[derive(Serialize, Deserialize)]
pub(super) struct InquiryQuery {
    pub(super) tenant: TenantNo,
    pub(super) payment: PaymentId,
}

/// A page of notifications.
#[derive(Serialize, Deserialize)]
pub(super) struct NotificationPage {
    /// The number of the last notification of the page.
    pub(super) last: u64,
    pub(super) notifications: Vec<NotificationBody>,
}

/// A [`Notification`] as JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotificationBody {
    tenant: TenantNo,
    payment: PaymentId,
    transaction: TransactionId,
    knowledge: GatewayKnowledge,
}

impl From<Notification> for NotificationBody {
    fn from(it: Notification) -> Self {
        let Notification { tenant, payment, transaction, knowledge } = it;
        Self { tenant, payment, transaction, knowledge }
    }
}

impl From<NotificationBody> for Notification {
    fn from(it: NotificationBody) -> Self {
        let NotificationBody { tenant, payment, transaction, knowledge } = it;
        Self { tenant, payment, transaction, knowledge }
    }
}
