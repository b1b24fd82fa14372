//! Refunds: at once, pending, and failing after they succeeded.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::balance_transaction::{self, Booking, Kind};
use super::charge::{self, Charge};
use super::payment_intent::{self, PaymentIntent};
use crate::account::Row;
use crate::cards::Refunds;
use crate::collection::{List, Object};
use crate::currencies;
use crate::error::ApiError;
use crate::ids::Id;
use crate::params::Metadata;
use crate::request::Request;

/// When a refund that does not end at once gets its last status.
const SETTLES_AFTER_S: i64 = 60;

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Succeeded,
    Failed,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Refund {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    pub amount: i64,
    pub currency: String,
    pub charge: Id,
    pub customer: Option<Id>,
    pub payment_intent: Id,
    pub payment_method: Id,
    pub status: Status,
    pub reason: Option<String>,
    /// None for an authorization that was released: no money moved.
    pub balance_transaction: Option<Id>,
    pub failure_balance_transaction: Option<Id>,
    pub settles_at: Option<i64>,
    pub metadata: Metadata,
}

impl Object for Refund {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, Some(&self.charge))
    }
}

impl Refund {
    pub fn render(&self) -> Value {
        let mut rendered = json!({
            "id": self.id,
            "object": "refund",
            "amount": self.amount,
            "balance_transaction": self.balance_transaction,
            "charge": self.charge,
            "created": self.created,
            "currency": self.currency,
            "customer": self.customer,
            "customer_account": null,
            "destination_details": {
                "card": {
                    "reference_status": "pending",
                    "reference_type": "acquirer_reference_number",
                    "type": "refund",
                },
                "type": "card",
            },
            "metadata": self.metadata,
            "payment_intent": self.payment_intent,
            "payment_method": self.payment_method,
            "reason": self.reason,
            "receipt_number": null,
            "source_transfer_reversal": null,
            "status": self.status.name(),
            "transfer_reversal": null,
        });
        if let Some(id) = &self.failure_balance_transaction {
            rendered["failure_balance_transaction"] = (**id).into();
            rendered["failure_reason"] = "expired_or_canceled_card".into();
        }
        if self.status == Status::Pending {
            rendered["pending_reason"] = "processing".into();
        }
        rendered
    }
}

pub fn create(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(&["amount", "charge", "metadata", "payment_intent", "reason"])?;
    let metadata = params.metadata()?;
    let reason = params.one_of("reason", &["duplicate", "fraudulent", "requested_by_customer"])?;
    let asked = params.integer("amount")?;
    let charge = refunded_charge(request)?;
    let left = charge.amount_captured - charge.amount_refunded;
    if charge.disputed {
        return Err(ApiError::state(
            "charge_disputed",
            format!("Charge {} has been charged back; cannot issue a refund.", charge.id),
        ));
    }
    if left == 0 {
        return Err(ApiError::state(
            "charge_already_refunded",
            format!("Charge {} has already been refunded.", charge.id),
        ));
    }
    let amount = asked.unwrap_or(left);
    currencies::check_digits("amount", amount, &charge.currency)?;
    if amount > left {
        let message = format!(
            "Refund amount ({amount}) is greater than unrefunded amount on charge ({left})"
        );
        return Err(ApiError { began: true, ..ApiError::invalid("amount", message) });
    }
    let (status, settles) = match charge.card().refunds {
        Refunds::Succeed => (Status::Succeeded, false),
        Refunds::FailLater => (Status::Succeeded, true),
        Refunds::PendFirst | Refunds::PendAndFail => (Status::Pending, true),
    };
    let mut refund = of_charge(request, &charge, amount);
    refund.status = status;
    refund.settles_at = settles.then_some(request.now + SETTLES_AFTER_S);
    refund.reason = reason.map(str::to_owned);
    refund.metadata = metadata;
    let booking = Booking {
        kind: Kind::Refund,
        amount: -amount,
        fee: 0,
        currency: charge.currency.clone(),
        source: refund.id.clone(),
    };
    refund.balance_transaction = Some(balance_transaction::book(request, booking));
    let refund = write(request, &charge, refund);
    Ok(refund.render())
}

/// The charge of `charge`, or the one of `payment_intent` that captured money.
fn refunded_charge(request: &Request) -> Result<Rc<Charge>, ApiError> {
    let params = request.params;
    if let Some(id) = params.text("charge") {
        let charge = charge::find(request, id, "charge")?;
        if charge.failure.is_some() || charge.amount_captured == 0 {
            return Err(ApiError::state(
                "charge_not_refundable",
                format!("Charge {id} has captured nothing that can be refunded."),
            ));
        }
        return Ok(charge);
    }
    let id = params.text("payment_intent").ok_or_else(|| {
        ApiError::request("One of the following params should be provided for this request: payment_intent or charge.").coded("parameter_missing")
    })?;
    let found = request.account.payment_intents.get(id);
    let intent =
        found.ok_or_else(|| ApiError::not_found("payment_intent", "payment_intent", id))?;
    let charge = intent.latest_charge.as_ref().and_then(|it| request.account.charges.get(it));
    let charge = charge.filter(|it| it.amount_captured > 0).cloned();
    charge.ok_or_else(|| {
        let message =
            format!("This PaymentIntent ({id}) does not have a successful charge to refund.");
        ApiError::state("payment_intent_unexpected_state", message).of_intent(&intent.id)
    })
}

/// What is authorized and not captured goes back; Stripe shows that as a refund that moved no money.
pub fn release(request: &mut Request, intent: &PaymentIntent, reason: Option<&str>) {
    let id = intent.latest_charge.clone().expect("an authorized intent has a charge");
    let charge = request.account.charges.get(&id).expect("an intent's charge exists").clone();
    let mut refund = of_charge(request, &charge, charge.amount);
    refund.reason = reason.map(str::to_owned);
    write(request, &charge, refund);
}

fn of_charge(request: &mut Request, charge: &Charge, amount: i64) -> Refund {
    let (id, number) = request.next("re_3");
    Refund {
        id,
        number,
        created: request.now,
        amount,
        currency: charge.currency.clone(),
        charge: charge.id.clone(),
        customer: charge.customer.clone(),
        payment_intent: charge.payment_intent.clone(),
        payment_method: charge.payment_method.clone(),
        status: Status::Succeeded,
        reason: None,
        balance_transaction: None,
        failure_balance_transaction: None,
        settles_at: None,
        metadata: Metadata::new(),
    }
}

fn write(request: &mut Request, charge: &Charge, refund: Refund) -> Rc<Refund> {
    let amount_refunded = charge.amount_refunded + refund.amount;
    let charge = Row::Charge(Rc::new(Charge { amount_refunded, ..charge.clone() }));
    let refund = Rc::new(refund);
    request.put(charge.clone());
    request.put(Row::Refund(refund.clone()));
    request.emit("charge.refunded", charge);
    request.emit("refund.created", Row::Refund(refund.clone()));
    refund
}

/// A refund that was pending, or that looked as if it had succeeded, gets its last status.
pub fn settle(request: &mut Request, id: &str) {
    let refund = request.account.refunds.get(id).expect("what is due exists").clone();
    let charge =
        request.account.charges.get(&refund.charge).expect("a refund's charge exists").clone();
    let mut settled = Refund { settles_at: None, ..(*refund).clone() };
    let fails = matches!(charge.card().refunds, Refunds::FailLater | Refunds::PendAndFail);
    settled.status = if fails { Status::Failed } else { Status::Succeeded };
    if fails {
        let currency = refund.currency.clone();
        let booking = Booking {
            kind: Kind::RefundFailure,
            amount: refund.amount,
            fee: 0,
            currency,
            source: refund.id.clone(),
        };
        settled.failure_balance_transaction = Some(balance_transaction::book(request, booking));
        let amount_refunded = charge.amount_refunded - refund.amount;
        request.put(Row::Charge(Rc::new(Charge { amount_refunded, ..(*charge).clone() })));
    }
    let row = Row::Refund(Rc::new(settled));
    request.put(row.clone());
    request.emit("refund.updated", row.clone());
    request.emit("charge.refund.updated", row.clone());
    if fails {
        request.emit("refund.failed", row);
    }
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let found = request.account.refunds.get(id);
    Ok(found.ok_or_else(|| ApiError::not_found("refund", "id", id))?.render())
}

pub fn update(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&["metadata"])?;
    let found = request.account.refunds.get(id).cloned();
    let mut refund = (*found.ok_or_else(|| ApiError::not_found("refund", "id", id))?).clone();
    request.params.merge_metadata(&mut refund.metadata)?;
    let row = Row::Refund(Rc::new(refund));
    request.put(row.clone());
    request.emit("refund.updated", row.clone());
    Ok(request.account.render(&row))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["charge", "payment_intent"])?;
    if let Some(id) = params.text("payment_intent") {
        payment_intent::find(request, id)?;
    }
    let intent = params.text("payment_intent");
    let charge =
        intent.and_then(|it| request.account.payment_intents.get(it)?.latest_charge.clone());
    let filter = |it: &Refund| intent.is_none_or(|intent| *it.payment_intent == *intent);
    let owner = params.text("charge").or(charge.as_deref());
    let list = List { params, url: "/v1/refunds", owner, filter: &filter };
    request.account.refunds.list(&list, Refund::render)
}
