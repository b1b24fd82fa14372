//! The JSON of the contract, version 1.

use domain::payment::{GatewayKnowledge, GatewayOutcome, GatewayStatus};
use domain::{AmountMinor, Currency, GatewayCall, PaymentId, TransactionId};
use engine::ports::{Inquiry, Notified};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// `POST /charge`: an operation to be carried out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Charge<'a> {
    tenant_id: Uuid,
    account_id: Uuid,
    payment_id: Uuid,
    /// The idempotency key.
    transaction_id: Uuid,
    operation: &'static str,
    /// A decimal in the currency's major unit, such as `10.00`; `None` for a void.
    amount: Option<String>,
    currency: &'a str,
    payment_method: Method<'a>,
    properties: Vec<Property<'a>>,
    references: Vec<Reference<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Method<'a> {
    /// The gateway's own name for it.
    external_id: Option<&'a str>,
    properties: Vec<Property<'a>>,
}

#[derive(Serialize)]
struct Property<'a> {
    key: &'a str,
    value: &'a str,
}

/// See [`GatewayCall::references`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    transaction_id: Uuid,
    operation: &'static str,
    first_reference: Option<&'a str>,
    second_reference: Option<&'a str>,
}

/// `POST /inquire`: what became of a transaction?
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inquire {
    tenant_id: Uuid,
    payment_id: Uuid,
    transaction_id: Uuid,
}

/// The answer to a charge.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChargeAnswer {
    transaction_id: Uuid,
    status: Status,
    amount: Option<String>,
    currency: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    first_reference: Option<String>,
    second_reference: Option<String>,
}

/// The answer to an inquiry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InquireAnswer {
    transaction_id: Uuid,
    /// What became of it; `None` where the gateway has no record of it. It has to say so: "not found" frees the
    /// payment for another charge, and a program that answers as to a charge must not seem to have no record.
    #[serde(deserialize_with = "Option::deserialize")]
    outcome: Option<ChargeAnswer>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Status {
    Processed,
    Pending,
    Error,
    Canceled,
    Undefined,
}

impl<'a> Charge<'a> {
    pub(super) fn new(call: &'a GatewayCall, tenant_id: Uuid) -> Self {
        let references = call.references.iter().map(|it| Reference {
            transaction_id: it.transaction.uuid(),
            operation: it.operation.name(),
            first_reference: it.first.as_deref(),
            second_reference: it.second.as_deref(),
        });
        Self {
            tenant_id,
            account_id: call.account.uuid(),
            payment_id: call.payment.uuid(),
            transaction_id: call.transaction.uuid(),
            operation: call.operation.name(),
            amount: call.amount.map(|it| it.decimal(call.currency)),
            currency: call.currency.code(),
            payment_method: Method {
                external_id: call.external_payment_method_id.as_deref(),
                properties: properties(&call.payment_method_properties),
            },
            properties: properties(&call.properties),
            references: references.collect(),
        }
    }
}

fn properties(all: &[(String, String)]) -> Vec<Property<'_>> {
    all.iter().map(|(key, value)| Property { key, value }).collect()
}

impl Inquire {
    pub(super) const fn new(inquiry: &Inquiry, tenant_id: Uuid) -> Self {
        Self {
            tenant_id,
            payment_id: inquiry.payment.uuid(),
            transaction_id: inquiry.transaction.uuid(),
        }
    }
}

impl ChargeAnswer {
    /// The outcome, if the answer is about this transaction.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(super) fn outcome(self, of: TransactionId) -> Result<GatewayOutcome, String> {
        if self.transaction_id != of.uuid() {
            return Err("transactionId: is not that of the request".to_owned());
        }
        let currency = self
            .currency
            .as_deref()
            .map(|code| Currency::parse(code).ok_or("currency: is no alphabetic code of ISO 4217"));
        let currency = currency.transpose()?;
        let amount = match (self.amount, currency) {
            (None, _) => None,
            (Some(_), None) => return Err("currency: is missing beside the amount".to_owned()),
            (Some(amount), Some(currency)) => Some(
                AmountMinor::parse(&amount, currency)
                    .map_err(|error| format!("amount: {error}"))?,
            ),
        };
        Ok(GatewayOutcome {
            status: match self.status {
                Status::Processed => GatewayStatus::Processed,
                Status::Pending => GatewayStatus::Pending,
                Status::Error => GatewayStatus::Error,
                Status::Canceled => GatewayStatus::Canceled,
                Status::Undefined => GatewayStatus::Undefined,
            },
            amount,
            currency,
            error_code: self.error_code,
            error_message: self.error_message,
            first_reference: self.first_reference,
            second_reference: self.second_reference,
            next_action: None,
            payment_method: None,
        })
    }
}

impl InquireAnswer {
    /// What the gateway knows of this transaction.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(super) fn knowledge(self, of: TransactionId) -> Result<GatewayKnowledge, String> {
        if self.transaction_id != of.uuid() {
            return Err("transactionId: is not that of the request".to_owned());
        }
        match self.outcome {
            None => Ok(GatewayKnowledge::NotFound),
            Some(outcome) => outcome.outcome(of).map(GatewayKnowledge::Found),
        }
    }
}

/// `POST /notification`: what somebody posted as a notification of the gateway.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Posted<'a> {
    tenant_id: Uuid,
    headers: Vec<Header<'a>>,
    body: &'a str,
}

#[derive(Serialize)]
struct Header<'a> {
    /// In lower case.
    name: &'a str,
    value: &'a str,
}

/// The answer to a notification.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostedAnswer {
    /// The payment it is about; `None` where it is about nothing that Faregate knows.
    payment_id: Option<Uuid>,
    outcome: Option<ChargeAnswer>,
    /// Why it is not believed: a text for its sender.
    refused: Option<String>,
}

impl<'a> Posted<'a> {
    pub(super) fn new(headers: &'a [(String, String)], body: &'a str, tenant_id: Uuid) -> Self {
        let headers = headers.iter().map(|(name, value)| Header { name, value });
        Self { tenant_id, headers: headers.collect(), body }
    }
}

impl PostedAnswer {
    /// What it is about, or why it is not believed.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(super) fn notified(self) -> Result<Result<Option<Notified>, String>, String> {
        match (self.refused, self.payment_id, self.outcome) {
            (Some(reason), None, None) => Ok(Err(reason)),
            (None, None, None) => Ok(Ok(None)),
            (None, Some(payment), Some(outcome)) => {
                let transaction = TransactionId::new(outcome.transaction_id);
                let knowledge = outcome.outcome(transaction).map(GatewayKnowledge::Found)?;
                let payment = PaymentId::new(payment);
                Ok(Ok(Some(Notified { payment, transaction, knowledge })))
            }
            (Some(_), _, _) => Err("refused: stands beside an outcome".to_owned()),
            (None, Some(_), None) => Err("outcome: is missing beside the paymentId".to_owned()),
            (None, None, Some(_)) => Err("paymentId: is missing beside the outcome".to_owned()),
        }
    }
}

pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("it has no map keys but strings")
}

/// # Errors
/// Where the JSON is wrong; without the answer's text, which may hold anything.
pub(super) fn decode<T: DeserializeOwned>(answer: &[u8]) -> Result<T, String> {
    serde_json::from_slice(answer).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("the answer is not as the contract says: line {line}, column {column}")
    })
}
