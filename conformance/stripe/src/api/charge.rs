//! Charges: what the bank was asked for, with its answer.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::balance_transaction;
use super::payment_intent::PaymentIntent;
use super::payment_method::{Billing, EXP_MONTH, EXP_YEAR, PaymentMethod, fingerprint};
use crate::account::{Account, Row};
use crate::cards::{self, Refusal, TestCard};
use crate::collection::{List, Object};
use crate::error::ApiError;
use crate::ids::Id;
use crate::params::Metadata;
use crate::request::Request;

/// A card with a dispute is disputed this long after the capture.
const DISPUTED_AFTER_S: i64 = 1;
/// With `automatic_async`, what was captured is booked this much later.
const BOOKED_AFTER_S: i64 = 1;
/// How long an authorization can be captured.
pub const AUTHORIZATION_S: i64 = 7 * 86_400;

#[derive(Clone, Serialize, Deserialize)]
pub struct Charge {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    pub amount: i64,
    pub amount_captured: i64,
    pub amount_refunded: i64,
    pub currency: String,
    pub customer: Option<Id>,
    pub payment_intent: Id,
    pub payment_method: Id,
    /// The name of the test card.
    pub card: String,
    pub billing: Billing,
    pub captured: bool,
    /// Code, decline code; none if the bank authorized it.
    pub failure: Option<(String, String)>,
    pub authenticated: bool,
    pub multicapture: bool,
    /// Of the first capture.
    pub balance_transaction: Option<Id>,
    /// When the capture is booked, if that is still to be done.
    pub booked_at: Option<i64>,
    pub disputed: bool,
    /// When a dispute is opened, by the card.
    pub disputed_at: Option<i64>,
    pub description: Option<String>,
    pub metadata: Metadata,
}

impl Object for Charge {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, Some(&self.payment_intent))
    }
}

impl Charge {
    pub fn card(&self) -> &'static TestCard {
        cards::named(&self.card).expect("only cards of the table are written")
    }

    pub fn render(&self, account: &Account) -> Value {
        let is_paid = self.failure.is_none();
        let refusal = self.failure.as_ref().map(|it| (it.0.as_str(), it.1.as_str()));
        json!({
            "id": self.id,
            "object": "charge",
            "amount": self.amount,
            "amount_captured": self.amount_captured,
            "amount_refunded": self.amount_refunded,
            "application": null,
            "application_fee": null,
            "application_fee_amount": null,
            "balance_transaction": self.balance_transaction,
            "billing_details": self.billing.render(),
            "calculated_statement_descriptor": "FAKE",
            "captured": self.captured,
            "created": self.created,
            "currency": self.currency,
            "customer": self.customer,
            "description": self.description,
            "disputed": self.disputed,
            "failure_balance_transaction": null,
            "failure_code": refusal.map(|it| it.0),
            "failure_message": refusal.map(cards::message),
            "fraud_details": {},
            "livemode": account.livemode,
            "metadata": self.metadata,
            "on_behalf_of": null,
            "outcome": outcome(refusal),
            "paid": is_paid,
            "payment_intent": self.payment_intent,
            "payment_method": self.payment_method,
            "payment_method_details": { "card": self.render_card(), "type": "card" },
            "receipt_email": null,
            "receipt_number": null,
            "receipt_url": null,
            "refunded": self.is_refunded(),
            "review": null,
            "shipping": null,
            "source_transfer": null,
            "statement_descriptor": null,
            "statement_descriptor_suffix": null,
            "status": if is_paid { "succeeded" } else { "failed" },
            "transfer_data": null,
            "transfer_group": null,
        })
    }

    /// Wholly, and nothing more can be captured; what was only released counts too.
    fn is_refunded(&self) -> bool {
        let whole = match (self.captured, self.amount_captured) {
            (true, captured) => captured,
            (false, 0) => self.amount,
            (false, _) => return false,
        };
        self.amount_refunded > 0 && self.amount_refunded == whole
    }

    fn render_card(&self) -> Value {
        let card = self.card();
        let three_d_secure = self.authenticated.then(|| {
            json!({
                "authentication_flow": "challenge",
                "electronic_commerce_indicator": "05",
                "exemption_indicator": null,
                "result": "authenticated",
                "result_reason": null,
                "transaction_id": null,
                "version": "2.2.0",
            })
        });
        let status = |available: bool| if available { "available" } else { "unavailable" };
        let mut rendered = json!({
            "amount_authorized": self.amount,
            "authorization_code": null,
            "brand": card.brand,
            "checks": { "address_line1_check": null, "address_postal_code_check": null, "cvc_check": "pass" },
            "country": card.country,
            "exp_month": EXP_MONTH,
            "exp_year": EXP_YEAR,
            "extended_authorization": { "status": "disabled" },
            "fingerprint": fingerprint(card),
            "funding": card.funding,
            "incremental_authorization": { "status": "unavailable" },
            "installments": null,
            "last4": card.last4,
            "mandate": null,
            "multicapture": { "status": status(self.multicapture) },
            "network": card.brand,
            "network_token": { "used": false },
            "network_transaction_id": null,
            "overcapture": { "maximum_amount_capturable": self.amount, "status": "unavailable" },
            "regulated_status": "unregulated",
            "three_d_secure": three_d_secure,
            "wallet": null,
        });
        if !self.captured && self.failure.is_none() {
            rendered["capture_before"] = (self.created + AUTHORIZATION_S).into();
        }
        rendered
    }
}

fn outcome(refusal: Option<(&str, &str)>) -> Value {
    match refusal {
        None => json!({
            "advice_code": null,
            "network_advice_code": null,
            "network_decline_code": null,
            "network_status": "approved_by_network",
            "reason": null,
            "risk_level": "normal",
            "seller_message": "Payment complete.",
            "type": "authorized",
        }),
        Some((_, decline_code)) => json!({
            "advice_code": if matches!(decline_code, "lost_card" | "stolen_card" | "fraudulent") { "do_not_try_again" } else { "try_again_later" },
            "network_advice_code": null,
            "network_decline_code": "05",
            "network_status": "declined_by_network",
            "reason": decline_code,
            "risk_level": "normal",
            "seller_message": "The bank did not return any further details with this decline.",
            "type": "issuer_declined",
        }),
    }
}

/// What the bank is asked.
pub struct Attempt<'a> {
    pub intent: &'a PaymentIntent,
    pub method: &'a PaymentMethod,
    pub authenticated: bool,
}

/// Writes the charge of an authorization; captured at once, unless the intent is captured by hand.
pub fn authorized(request: &mut Request, attempt: &Attempt) -> Rc<Charge> {
    let mut charge = of_attempt(request, attempt);
    if !attempt.intent.is_manual() {
        let is_async = attempt.intent.capture_method == "automatic_async";
        charge.amount_captured = charge.amount;
        charge.booked_at = is_async.then_some(request.now + BOOKED_AFTER_S);
        if !is_async {
            book(request, &mut charge, attempt.intent.amount);
        }
        captured(request, &mut charge);
    }
    let charge = Rc::new(charge);
    request.put(Row::Charge(charge.clone()));
    charge
}

pub fn refused(request: &mut Request, attempt: &Attempt, refusal: Refusal) -> Rc<Charge> {
    let mut charge = of_attempt(request, attempt);
    charge.failure = Some((refusal.0.to_owned(), refusal.1.to_owned()));
    let charge = Rc::new(charge);
    request.put(Row::Charge(charge.clone()));
    charge
}

/// Writes a capture, and returns whether several ones are available. An amount of 0 ends the captures.
pub fn capture(request: &mut Request, intent: &PaymentIntent, amount: i64, is_last: bool) -> bool {
    let mut charge = (*of_intent(request, intent)).clone();
    charge.amount_captured += amount;
    if amount > 0 {
        book(request, &mut charge, amount);
    }
    if is_last {
        captured(request, &mut charge);
    }
    let multicapture = charge.multicapture;
    let row = Row::Charge(Rc::new(charge));
    request.put(row.clone());
    if amount > 0 {
        request.emit("charge.updated", row.clone());
    }
    if is_last {
        request.emit("charge.captured", row);
    }
    multicapture
}

/// The charge of an intent that is authorized.
pub fn of_intent(request: &Request, intent: &PaymentIntent) -> Rc<Charge> {
    let id = intent.latest_charge.as_ref().expect("an authorized intent has a charge");
    request.account.charges.get(id).expect("an intent's charge exists").clone()
}

fn book(request: &mut Request, charge: &mut Charge, amount: i64) {
    let booked = balance_transaction::of_charge(request, charge, amount);
    charge.balance_transaction.get_or_insert(booked);
}

/// Nothing more is captured.
fn captured(request: &Request, charge: &mut Charge) {
    charge.captured = true;
    if charge.card().dispute.is_some() {
        charge.disputed_at = Some(request.now + DISPUTED_AFTER_S);
    }
}

/// What was captured with `automatic_async` is booked.
pub fn book_due(request: &mut Request, id: &str) {
    let mut charge = (**request.account.charges.get(id).expect("what is due exists")).clone();
    charge.booked_at = None;
    let amount = charge.amount_captured;
    book(request, &mut charge, amount);
    let row = Row::Charge(Rc::new(charge));
    request.put(row.clone());
    request.emit("charge.updated", row);
}

fn of_attempt(request: &mut Request, attempt: &Attempt) -> Charge {
    let (id, number) = request.next("ch_3");
    let Attempt { intent, method, authenticated } = attempt;
    Charge {
        id,
        number,
        created: request.now,
        amount: intent.amount,
        amount_captured: 0,
        amount_refunded: 0,
        currency: intent.currency.clone(),
        customer: intent.customer.clone(),
        payment_intent: intent.id.clone(),
        payment_method: method.id.clone(),
        card: method.card.clone(),
        billing: method.billing.clone(),
        captured: false,
        failure: None,
        authenticated: *authenticated,
        multicapture: intent.multicapture && method.card().multicapture,
        balance_transaction: None,
        booked_at: None,
        disputed: false,
        disputed_at: None,
        description: intent.description.clone(),
        metadata: intent.metadata.clone(),
    }
}

pub fn find(request: &Request, id: &str, param: &str) -> Result<Rc<Charge>, ApiError> {
    let found = request.account.charges.get(id);
    found.cloned().ok_or_else(|| ApiError::not_found("charge", param, id))
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let charge = find(request, id, "id")?;
    Ok(charge.render(request.account))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["customer", "payment_intent"])?;
    let customer = params.text("customer");
    let filter = |it: &Charge| customer.is_none_or(|id| it.customer.as_deref() == Some(id));
    let list =
        List { params, url: "/v1/charges", owner: params.text("payment_intent"), filter: &filter };
    request.account.charges.list(&list, |it| it.render(request.account))
}
