//! The objects of Stripe's API, as far as the gateway reads them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A PaymentIntent: <https://docs.stripe.com/api/payment_intents/object>.
#[derive(Debug, Deserialize)]
pub(super) struct Intent {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) amount: i64,
    #[serde(default)]
    pub(super) amount_received: i64,
    #[serde(default)]
    pub(super) amount_capturable: i64,
    pub(super) currency: String,
    pub(super) customer: Option<Expandable>,
    pub(super) payment_method: Option<Expandable>,
    pub(super) latest_charge: Option<ExpandableCharge>,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) next_action: Option<NextAction>,
    pub(super) client_secret: Option<String>,
    pub(super) last_payment_error: Option<ErrorBody>,
    pub(super) cancellation_reason: Option<String>,
}

/// A field that is an id, or the object where it was asked for.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Expandable {
    Id(String),
    Object { id: String },
}

impl Expandable {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Object { id } => id,
        }
    }
}

/// A charge, or its id.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ExpandableCharge {
    Id(String),
    Object(Charge),
}

impl ExpandableCharge {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::Object(charge) => &charge.id,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Charge {
    pub(super) id: String,
    pub(super) payment_method_details: Option<ChargeDetails>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChargeDetails {
    pub(super) card: Option<CardDetails>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CardDetails {
    pub(super) multicapture: Option<Availability>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Availability {
    pub(super) status: String,
}

impl Intent {
    /// Whether more can be captured after a part.
    pub(super) fn has_multicapture(&self) -> bool {
        let Some(ExpandableCharge::Object(charge)) = &self.latest_charge else { return false };
        let card = charge.payment_method_details.as_ref().and_then(|it| it.card.as_ref());
        card.and_then(|it| it.multicapture.as_ref()).is_some_and(|it| it.status == "available")
    }
}

/// The customer's next action.
#[derive(Debug, Deserialize)]
pub(super) struct NextAction {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) redirect_to_url: Option<Redirect>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Redirect {
    pub(super) url: Option<String>,
}

/// A refund: <https://docs.stripe.com/api/refunds/object>.
#[derive(Debug, Deserialize)]
pub(super) struct Refund {
    pub(super) id: String,
    /// Absent for some methods, whose refunds succeed at once.
    pub(super) status: Option<String>,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) charge: Option<Expandable>,
    pub(super) failure_reason: Option<String>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

/// A dispute, with its PaymentIntent: <https://docs.stripe.com/api/disputes/object>.
#[derive(Debug, Deserialize)]
pub(super) struct Dispute {
    pub(super) status: String,
    pub(super) reason: Option<String>,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) payment_intent: Option<Marked>,
    pub(super) evidence_details: Option<EvidenceDetails>,
    #[serde(default)]
    pub(super) balance_transactions: Vec<Moved>,
}

/// An object of which only the metadata is read.
#[derive(Debug, Deserialize)]
pub(super) struct Marked {
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct EvidenceDetails {
    /// In seconds.
    pub(super) due_by: Option<i64>,
}

/// A movement of a dispute's money.
#[derive(Debug, Deserialize)]
pub(super) struct Moved {
    /// Below zero where it left the balance. Fees are beside it.
    pub(super) amount: i64,
    /// The balance's, which may be another than the charge's.
    pub(super) currency: String,
}

/// A PaymentMethod.
#[derive(Debug, Deserialize)]
pub(super) struct Method {
    pub(super) id: String,
    pub(super) customer: Option<Expandable>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

/// A customer.
#[derive(Debug, Deserialize)]
pub(super) struct Customer {
    pub(super) id: String,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
}

/// An element of a list.
pub(super) trait Listed {
    fn id(&self) -> &str;
}

impl Listed for Method {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Listed for Customer {
    fn id(&self) -> &str {
        &self.id
    }
}

/// An object of which only the id is read.
#[derive(Debug, Deserialize)]
pub(super) struct Named {
    pub(super) id: String,
}

/// A Checkout session, expanded by its intents.
#[derive(Debug, Deserialize)]
pub(super) struct Session {
    pub(super) customer: Option<Expandable>,
    pub(super) setup_intent: Option<SessionIntent>,
    pub(super) payment_intent: Option<SessionIntent>,
}

/// A Checkout session that was just made.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub(super) id: String,
    pub(super) url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SessionIntent {
    pub(super) payment_method: Option<Expandable>,
}

/// A balance transaction: <https://docs.stripe.com/api/balance_transactions/object>.
#[derive(Debug, Deserialize)]
pub(super) struct BalanceTransaction {
    pub(super) id: String,
    pub(super) created: i64,
    /// Negative where it left the balance.
    pub(super) amount: i64,
    pub(super) fee: i64,
    /// Of the balance.
    pub(super) currency: String,
    pub(super) source: Option<Movement>,
}

/// The source of a movement of money, or its id.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Movement {
    #[expect(dead_code, reason = "only charges, refunds and disputes are looked at")]
    Id(String),
    Object(MovementSource),
}

/// A charge, a refund, a dispute, or something else.
#[derive(Debug, Deserialize)]
pub(super) struct MovementSource {
    pub(super) id: String,
    pub(super) object: String,
    #[serde(default)]
    pub(super) amount: i64,
    pub(super) amount_captured: Option<i64>,
    #[serde(default)]
    pub(super) currency: String,
    pub(super) status: Option<String>,
    pub(super) payment_intent: Option<Expandable>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub(super) data: Vec<T>,
    #[serde(default)]
    pub(super) has_more: bool,
}

/// An event's envelope: what it is about is read back.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    pub(super) data: EventData,
}

#[derive(Debug, Deserialize)]
pub(super) struct EventData {
    pub(super) object: EventObject,
}

#[derive(Debug, Deserialize)]
pub(super) struct EventObject {
    /// `payment_intent`, `refund`, `charge` and others.
    pub(super) object: String,
    pub(super) id: Option<String>,
    pub(super) payment_intent: Option<Expandable>,
}

/// An error's answer: <https://docs.stripe.com/api/errors>.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorAnswer {
    pub(super) error: ErrorBody,
}

#[derive(Debug, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) code: Option<String>,
    pub(super) decline_code: Option<String>,
    pub(super) message: Option<String>,
    /// Boxed, because it has an error itself.
    pub(super) payment_intent: Option<Box<Intent>>,
}
