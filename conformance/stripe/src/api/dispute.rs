//! Disputes: opened by a test card or by `/_fake/disputes`, moved on by evidence or by the same.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::balance_transaction::{self, Booking, Kind};
use super::charge::{self, Charge};
use super::payment_intent;
use crate::account::{Account, Row};
use crate::collection::{List, Object};
use crate::error::ApiError;
use crate::ids::Id;
use crate::params::Metadata;
use crate::request::Request;

const EVIDENCE_DUE_AFTER_S: i64 = 7 * 86_400;
const FEE: i64 = 1500;

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    WarningNeedsResponse,
    WarningClosed,
    NeedsResponse,
    UnderReview,
    Won,
    Lost,
}

const STATUSES: [(&str, Status); 6] = [
    ("warning_needs_response", Status::WarningNeedsResponse),
    ("warning_closed", Status::WarningClosed),
    ("needs_response", Status::NeedsResponse),
    ("under_review", Status::UnderReview),
    ("won", Status::Won),
    ("lost", Status::Lost),
];

impl Status {
    fn name(self) -> &'static str {
        STATUSES.iter().find(|it| it.1 == self).expect("each status has its name").0
    }

    fn is_closed(self) -> bool {
        matches!(self, Status::WarningClosed | Status::Won | Status::Lost)
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Dispute {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    pub amount: i64,
    pub currency: String,
    pub charge: Id,
    pub payment_intent: Id,
    pub brand: String,
    /// It began as one.
    pub is_inquiry: bool,
    pub reason: String,
    pub status: Status,
    pub due_by: i64,
    pub has_evidence: bool,
    pub evidence_text: Option<String>,
    pub balance_transactions: Vec<Id>,
    pub metadata: Metadata,
}

impl Object for Dispute {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, Some(&self.charge))
    }
}

const EVIDENCE: [&str; 26] = [
    "access_activity_log",
    "billing_address",
    "cancellation_policy",
    "cancellation_policy_disclosure",
    "cancellation_rebuttal",
    "customer_communication",
    "customer_email_address",
    "customer_name",
    "customer_purchase_ip",
    "customer_signature",
    "duplicate_charge_documentation",
    "duplicate_charge_explanation",
    "duplicate_charge_id",
    "product_description",
    "receipt",
    "refund_policy",
    "refund_policy_disclosure",
    "refund_refusal_explanation",
    "service_date",
    "service_documentation",
    "shipping_address",
    "shipping_carrier",
    "shipping_date",
    "shipping_documentation",
    "shipping_tracking_number",
    "uncategorized_file",
];

impl Dispute {
    pub fn render(&self, account: &Account) -> Value {
        let booked =
            self.balance_transactions.iter().filter_map(|it| account.balance_transactions.get(it));
        let booked: Vec<Value> = booked.map(|it| it.render()).collect();
        let mut evidence: serde_json::Map<String, Value> =
            EVIDENCE.iter().map(|it| ((*it).to_owned(), Value::Null)).collect();
        evidence.insert("enhanced_evidence".to_owned(), json!({}));
        evidence.insert("uncategorized_text".to_owned(), json!(self.evidence_text));
        json!({
            "id": self.id,
            "object": "dispute",
            "amount": self.amount,
            "balance_transactions": booked,
            "charge": self.charge,
            "created": self.created,
            "currency": self.currency,
            "enhanced_eligibility_types": [],
            "evidence": evidence,
            "evidence_details": {
                "due_by": self.due_by,
                "enhanced_eligibility": {},
                "has_evidence": self.has_evidence,
                "past_due": false,
                "submission_count": u8::from(self.has_evidence),
            },
            "is_charge_refundable": self.status == Status::WarningNeedsResponse,
            "livemode": account.livemode,
            "metadata": self.metadata,
            "payment_intent": self.payment_intent,
            "payment_method_details": {
                "card": {
                    "brand": self.brand,
                    "case_type": if self.is_inquiry { "inquiry" } else { "chargeback" },
                    "network": self.brand,
                    "network_reason_code": "10.4",
                },
                "type": "card",
            },
            "reason": self.reason,
            "status": self.status.name(),
        })
    }
}

/// What the card of a charge asks for, or a test.
pub struct Opening<'a> {
    pub charge: &'a Charge,
    pub amount: i64,
    pub reason: String,
    pub is_inquiry: bool,
}

/// The card's dispute is due.
pub fn open_due(request: &mut Request, charge: &str) {
    let charge = request.account.charges.get(charge).expect("what is due exists").clone();
    let card = charge.card();
    let reason = card.dispute.unwrap_or("general").to_owned();
    let charge = Charge { disputed_at: None, ..(*charge).clone() };
    open(
        request,
        &Opening {
            charge: &charge,
            amount: charge.amount_captured,
            reason,
            is_inquiry: card.is_inquiry,
        },
    );
}

fn open(request: &mut Request, opening: &Opening) -> Rc<Dispute> {
    let (id, number) = request.next("du_1");
    let Opening { charge, amount, reason, is_inquiry } = opening;
    request.put(Row::Charge(Rc::new(Charge { disputed: true, ..(*charge).clone() })));
    let mut dispute = Dispute {
        id,
        number,
        created: request.now,
        amount: *amount,
        currency: charge.currency.clone(),
        charge: charge.id.clone(),
        payment_intent: charge.payment_intent.clone(),
        brand: charge.card().brand.to_owned(),
        is_inquiry: *is_inquiry,
        reason: reason.clone(),
        status: if *is_inquiry { Status::WarningNeedsResponse } else { Status::NeedsResponse },
        due_by: request.now + EVIDENCE_DUE_AFTER_S,
        has_evidence: false,
        evidence_text: None,
        balance_transactions: Vec::new(),
        metadata: Metadata::new(),
    };
    if !is_inquiry {
        withdraw(request, &mut dispute);
    }
    let row = write(request, &dispute);
    request.emit("charge.dispute.created", row.clone());
    if !is_inquiry {
        request.emit("charge.dispute.funds_withdrawn", row);
    }
    Rc::new(dispute)
}

fn withdraw(request: &mut Request, dispute: &mut Dispute) {
    let (currency, source) = (dispute.currency.clone(), dispute.id.clone());
    let booking =
        Booking { kind: Kind::Dispute, amount: -dispute.amount, fee: FEE, currency, source };
    dispute.balance_transactions.push(balance_transaction::book(request, booking));
}

fn write(request: &mut Request, dispute: &Dispute) -> Row {
    let row = Row::Dispute(Rc::new(dispute.clone()));
    request.put(row.clone());
    row
}

/// Moves a dispute to a status, with the money and the events that go with it.
fn moved(request: &mut Request, dispute: &mut Dispute, to: Status) {
    let from = std::mem::replace(&mut dispute.status, to);
    let withdraws = from == Status::WarningNeedsResponse && to == Status::NeedsResponse;
    if withdraws {
        withdraw(request, dispute);
    }
    if to == Status::Won {
        let (currency, source) = (dispute.currency.clone(), dispute.id.clone());
        let booking = Booking {
            kind: Kind::DisputeReversal,
            amount: dispute.amount,
            fee: 0,
            currency,
            source,
        };
        dispute.balance_transactions.push(balance_transaction::book(request, booking));
    }
    let row = write(request, dispute);
    request.emit("charge.dispute.updated", row.clone());
    if withdraws {
        request.emit("charge.dispute.funds_withdrawn", row.clone());
    }
    if to == Status::Won {
        request.emit("charge.dispute.funds_reinstated", row.clone());
    }
    if to.is_closed() {
        request.emit("charge.dispute.closed", row);
    }
}

fn find(request: &Request, id: &str) -> Result<Dispute, ApiError> {
    let found = request.account.disputes.get(id);
    found.map(|it| (**it).clone()).ok_or_else(|| ApiError::not_found("dispute", "id", id))
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    Ok(find(request, id)?.render(request.account))
}

/// Stripe's own way to end a test dispute: `evidence[uncategorized_text]` is `winning_evidence` or
/// `losing_evidence`; other evidence puts it under review.
pub fn update(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&["evidence", "metadata", "submit"])?;
    let mut dispute = find(request, id)?;
    request.params.merge_metadata(&mut dispute.metadata)?;
    let submits = request.params.boolean("submit")?.unwrap_or(true);
    if request.params.has("evidence") {
        if dispute.status.is_closed() {
            return Err(ApiError::state("dispute_closed", "This dispute is already closed"));
        }
        dispute.evidence_text = request.params.owned("evidence[uncategorized_text]");
        dispute.has_evidence = true;
    }
    let is_inquiry = dispute.status == Status::WarningNeedsResponse;
    let to = match dispute.evidence_text.as_deref().filter(|_| submits) {
        Some("winning_evidence") if is_inquiry => Status::WarningClosed,
        Some("winning_evidence") => Status::Won,
        Some("losing_evidence") if !is_inquiry => Status::Lost,
        Some(_) if !is_inquiry => Status::UnderReview,
        Some(_) | None => dispute.status,
    };
    moved(request, &mut dispute, to);
    Ok(dispute.render(request.account))
}

/// The merchant accepts it.
pub fn close(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&[])?;
    let mut dispute = find(request, id)?;
    if dispute.status.is_closed() {
        return Err(ApiError::state("dispute_closed", "This dispute is already closed"));
    }
    let is_inquiry = dispute.status == Status::WarningNeedsResponse;
    moved(request, &mut dispute, if is_inquiry { Status::WarningClosed } else { Status::Lost });
    Ok(dispute.render(request.account))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["charge", "payment_intent"])?;
    let intent = params.text("payment_intent");
    let filter = |it: &Dispute| intent.is_none_or(|id| *it.payment_intent == *id);
    let list = List { params, url: "/v1/disputes", owner: params.text("charge"), filter: &filter };
    request.account.disputes.list(&list, |it| it.render(request.account))
}

/// `POST /_fake/disputes` with `payment_intent` or `charge`, `amount`, `reason`, `inquiry`.
pub fn open_by_test(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(&["amount", "charge", "inquiry", "payment_intent", "reason"])?;
    let intent =
        params.text("payment_intent").map(|it| payment_intent::find(request, it)).transpose()?;
    let id = intent
        .and_then(|it| it.latest_charge.clone())
        .or_else(|| params.text("charge").map(Id::from));
    let id = id.ok_or_else(|| ApiError::missing("charge"))?;
    let charge = charge::find(request, &id, "charge")?;
    let amount = params.integer("amount")?.unwrap_or(charge.amount_captured);
    if charge.amount_captured == 0 || amount < 1 {
        return Err(ApiError::invalid("amount", "Only captured money is disputed"));
    }
    let reason = params.owned("reason").unwrap_or_else(|| "fraudulent".to_owned());
    let is_inquiry = params.boolean("inquiry")?.unwrap_or(false);
    let dispute = open(request, &Opening { charge: &charge, amount, reason, is_inquiry });
    Ok(dispute.render(request.account))
}

/// `POST /_fake/disputes/{id}` with `status`.
pub fn move_by_test(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&["status"])?;
    let mut dispute = find(request, id)?;
    let name = request.params.required("status")?;
    let to = STATUSES.iter().find(|it| it.0 == name);
    let to = to.ok_or_else(|| ApiError::invalid("status", "No status of disputes"))?.1;
    moved(request, &mut dispute, to);
    Ok(dispute.render(request.account))
}
