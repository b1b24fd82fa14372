//! Balance transactions: what moved money, with the fee.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::charge::Charge;
use crate::account::Row;
use crate::collection::{List, Object};
use crate::error::ApiError;
use crate::ids::Id;
use crate::request::Request;

const AVAILABLE_AFTER_S: i64 = 2 * 86_400;
/// 2.9 % and 30 minor units of each capture.
const FEE_PER_MILLE: i64 = 29;
const FEE_FIXED: i64 = 30;

#[derive(Clone, Serialize, Deserialize)]
pub struct BalanceTransaction {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    pub kind: Kind,
    /// Negative if it left the balance.
    pub amount: i64,
    pub fee: i64,
    pub currency: String,
    /// A charge, refund or dispute.
    pub source: Id,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Charge,
    Refund,
    RefundFailure,
    /// The money of a dispute.
    Dispute,
    DisputeReversal,
}

impl Kind {
    /// `type` and `reporting_category`.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Charge => ("charge", "charge"),
            Kind::Refund => ("refund", "refund"),
            Kind::RefundFailure => ("refund_failure", "refund_failure"),
            Kind::Dispute => ("adjustment", "dispute"),
            Kind::DisputeReversal => ("adjustment", "dispute_reversal"),
        }
    }
}

impl Object for BalanceTransaction {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, Some(&self.source))
    }
}

impl BalanceTransaction {
    pub fn render(&self) -> Value {
        let (kind, category) = self.kind.names();
        let fee = json!({
            "amount": self.fee,
            "application": null,
            "currency": self.currency,
            "description": if self.kind == Kind::Charge { "Stripe processing fees" } else { "Dispute fee" },
            "type": "stripe_fee",
        });
        json!({
            "id": self.id,
            "object": "balance_transaction",
            "amount": self.amount,
            "available_on": self.created + AVAILABLE_AFTER_S,
            "balance_type": "payments",
            "created": self.created,
            "currency": self.currency,
            "description": null,
            "exchange_rate": null,
            "fee": self.fee,
            "fee_details": if self.fee == 0 { json!([]) } else { json!([fee]) },
            "net": self.amount - self.fee,
            "reporting_category": category,
            "source": self.source,
            "status": "available",
            "type": kind,
        })
    }
}

/// Books money that moved, and returns the id.
pub fn book(request: &mut Request, booking: Booking) -> Id {
    let (id, number) = request.next("txn_3");
    let Booking { kind, amount, fee, currency, source } = booking;
    let booked = BalanceTransaction {
        id: id.clone(),
        number,
        created: request.now,
        kind,
        amount,
        fee,
        currency,
        source,
    };
    request.put(Row::BalanceTransaction(Rc::new(booked)));
    id
}

pub struct Booking {
    pub kind: Kind,
    pub amount: i64,
    pub fee: i64,
    pub currency: String,
    pub source: Id,
}

pub fn of_charge(request: &mut Request, charge: &Charge, amount: i64) -> Id {
    let fee = amount * FEE_PER_MILLE / 1000 + FEE_FIXED;
    let (currency, source) = (charge.currency.clone(), charge.id.clone());
    book(request, Booking { kind: Kind::Charge, amount, fee, currency, source })
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let found = request.account.balance_transactions.get(id);
    let found = found.ok_or_else(|| ApiError::not_found("balance transaction", "id", id))?;
    Ok(found.render())
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["currency", "source", "type"])?;
    let (kind, currency) = (params.text("type"), params.text("currency"));
    let filter = |it: &BalanceTransaction| {
        kind.is_none_or(|kind| it.kind.names().0 == kind)
            && currency.is_none_or(|currency| it.currency == currency)
    };
    let list = List {
        params,
        url: "/v1/balance_transactions",
        owner: params.text("source"),
        filter: &filter,
    };
    request.account.balance_transactions.list(&list, BalanceTransaction::render)
}
