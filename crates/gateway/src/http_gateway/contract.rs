//! The JSON of the contract, version 1.

use domain::payment::{GatewayOutcome, GatewayStatus};
use domain::{
    AmountMinor, Currency, GatewayCall, PaymentId, PaymentMethodId, TenantNo, Timestamp,
    TransactionId,
};
use engine::ports::{
    ControlDecision, ControlRequest, DisputeInquiry, DisputeKnowledge, Form, FormRequest, Inquiry,
    News, Notified,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dispute::{DisputeAnswer, Said};
use crate::next_action::{CLIENT_SECRET, NextAction, REDIRECT_URL};
use crate::reconcile::Listed;

/// The longest URL and text of an answer that clients are given, in bytes.
const TEXT_BYTES_MAX: usize = 2_048;

/// How many transactions a page of a list has at most.
pub(crate) const LISTED_MAX: usize = 100;

/// How many fields a page can have.
const FIELDS_MAX: usize = 100;

/// The kinds of calls to a program. The name of a kind is in the path and in the signed body.
#[derive(Clone, Copy)]
pub(crate) enum Called {
    Charge,
    Inquire,
    Form,
    Control,
    Dispute,
    Notification,
    Transactions,
}

/// A message with what it is: its signature covers neither the path nor the headers, so that one that was captured
/// could be sent elsewhere or later.
#[derive(Serialize)]
struct Message<'m, M> {
    call: &'static str,
    /// Unix milliseconds until which the answer is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<i64>,
    #[serde(flatten)]
    message: &'m M,
}

/// `POST /charge`: an operation to be carried out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Charge<'a> {
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
pub(crate) struct Inquire {
    tenant_id: Uuid,
    payment_id: Uuid,
    transaction_id: Uuid,
}

/// The answer to a charge.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChargeAnswer {
    transaction_id: Uuid,
    status: Status,
    amount: Option<String>,
    currency: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    first_reference: Option<String>,
    second_reference: Option<String>,
    /// Beside `PENDING` only.
    next_action: Option<NextActionAnswer>,
}

/// The customer's next action, before the transaction goes on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NextActionAnswer {
    redirect_url: Option<String>,
    client_secret: Option<String>,
}

/// An outcome, and what the customer has to do.
pub(crate) type Outcome = (GatewayOutcome, Option<NextAction>);

/// The answer to an inquiry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InquireAnswer {
    transaction_id: Uuid,
    /// The transaction's outcome; `null` where the gateway has no record of it. The field is required: "not found"
    /// frees the payment for another charge, and an answer in the form of a charge's must not count as "no record".
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
    pub(crate) fn new(call: &'a GatewayCall, tenant_id: Uuid) -> Self {
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
    pub(crate) const fn new(inquiry: &Inquiry, tenant_id: Uuid) -> Self {
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
    pub(crate) fn outcome(self, of: TransactionId) -> Result<Outcome, String> {
        if self.transaction_id != of.uuid() {
            return Err("transactionId: is not that of the request".to_owned());
        }
        let (amount, currency) = money(self.amount.as_deref(), self.currency.as_deref())?;
        let is_pending = matches!(self.status, Status::Pending);
        let action = self.next_action.map(NextActionAnswer::checked).transpose()?;
        if action.is_some() && !is_pending {
            return Err("nextAction: stands beside another status than PENDING".to_owned());
        }
        let outcome = GatewayOutcome {
            amount,
            currency,
            error_code: self.error_code,
            error_message: self.error_message,
            first_reference: self.first_reference,
            second_reference: self.second_reference,
            ..GatewayOutcome::new(self.status.gateways())
        };
        Ok((outcome, action))
    }
}

impl Status {
    const fn gateways(self) -> GatewayStatus {
        match self {
            Self::Processed => GatewayStatus::Processed,
            Self::Pending => GatewayStatus::Pending,
            Self::Error => GatewayStatus::Error,
            Self::Canceled => GatewayStatus::Canceled,
            Self::Undefined => GatewayStatus::Undefined,
        }
    }
}

/// An amount with its currency, which may stand alone.
fn money(
    amount: Option<&str>,
    currency: Option<&str>,
) -> Result<(Option<AmountMinor>, Option<Currency>), String> {
    let parse = |code| Currency::parse(code).ok_or("currency: is no alphabetic code of ISO 4217");
    let currency = currency.map(parse).transpose()?;
    let amount = match (amount, currency) {
        (None, _) => None,
        (Some(_), None) => return Err("currency: is missing beside the amount".to_owned()),
        (Some(amount), Some(currency)) => {
            let amount = AmountMinor::parse(amount, currency);
            Some(amount.map_err(|error| format!("amount: {error}"))?)
        }
    };
    Ok((amount, currency))
}

impl NextActionAnswer {
    /// # Errors
    /// The field that is wrong, and why.
    fn checked(self) -> Result<NextAction, String> {
        let mut action = vec![];
        if let Some(url) = self.redirect_url {
            check_url("nextAction.redirectUrl", &url)?;
            action.push((REDIRECT_URL, url));
        }
        if let Some(secret) = self.client_secret {
            check_text("nextAction.clientSecret", &secret)?;
            action.push((CLIENT_SECRET, secret));
        }
        match action.is_empty() {
            true => Err("nextAction: has neither redirectUrl nor clientSecret".to_owned()),
            false => Ok(action),
        }
    }
}

/// Refuses what a browser should not be sent to: it is no program's word that runs in the shop's page.
fn check_url(field: &str, url: &str) -> Result<(), String> {
    check_text(field, url)?;
    let is_url = url
        .parse::<http::Uri>()
        .is_ok_and(|it| it.host().is_some() && matches!(it.scheme_str(), Some("https" | "http")));
    if is_url { Ok(()) } else { Err(format!("{field}: is no URL of http or https")) }
}

fn check_text(field: &str, text: &str) -> Result<(), String> {
    if !(1..=TEXT_BYTES_MAX).contains(&text.len()) || text.chars().any(char::is_control) {
        return Err(format!("{field}: has to have 1 to {TEXT_BYTES_MAX} printable bytes"));
    }
    Ok(())
}

impl InquireAnswer {
    /// The outcome of this transaction at the gateway; `None` where it has no record of it.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(crate) fn outcome(self, of: TransactionId) -> Result<Option<Outcome>, String> {
        if self.transaction_id != of.uuid() {
            return Err("transactionId: is not that of the request".to_owned());
        }
        self.outcome.map(|it| it.outcome(of)).transpose()
    }
}

/// `POST /control`: does a call about a payment go on?
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Control<'a> {
    tenant_id: Uuid,
    /// The same for a call that comes again with its idempotency key.
    request_id: Uuid,
    /// `None` where the call makes it.
    account_id: Option<Uuid>,
    /// `None` where the payment starts.
    payment_id: Option<Uuid>,
    payment_external_key: Option<&'a str>,
    transaction_external_key: Option<&'a str>,
    operation: &'static str,
    amount: Option<String>,
    currency: &'a str,
    payment_method_id: Option<Uuid>,
    properties: Vec<Property<'a>>,
}

impl<'a> Control<'a> {
    pub(crate) fn new(it: &'a ControlRequest, tenant_id: Uuid) -> Self {
        Self {
            tenant_id,
            request_id: it.request,
            account_id: it.account.map(|id| id.uuid()),
            payment_id: it.payment.map(|id| id.uuid()),
            payment_external_key: it.payment_key.as_deref(),
            transaction_external_key: it.transaction_key.as_deref(),
            operation: it.operation.name(),
            amount: it.amount.map(|amount| amount.decimal(it.currency)),
            currency: it.currency.code(),
            payment_method_id: it.payment_method.map(|id| id.uuid()),
            properties: properties(&it.properties),
        }
    }
}

/// The answer to it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControlAnswer {
    request_id: Uuid,
    /// It has to say so: what says nothing lets no call go on.
    aborted: bool,
    /// Beside `aborted` only: a text for the client.
    reason: Option<String>,
    /// At most what was asked for.
    amount: Option<String>,
    currency: Option<String>,
    payment_method_id: Option<Uuid>,
}

impl ControlAnswer {
    /// The program's decision about this request.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(crate) fn decision(self, of: &ControlRequest) -> Result<ControlDecision, String> {
        if self.request_id != of.request {
            return Err("requestId: is not that of the request".to_owned());
        }
        if self.aborted {
            if self.amount.is_some() || self.currency.is_some() || self.payment_method_id.is_some()
            {
                return Err("aborted: stands beside what would go on".to_owned());
            }
            let reason = self.reason.ok_or("reason: is missing")?;
            check_text("reason", &reason)?;
            return Ok(ControlDecision::Aborted { reason });
        }
        if self.reason.is_some() {
            return Err("reason: stands beside a call that goes on".to_owned());
        }
        if self.currency.as_ref().is_some_and(|it| it != of.currency.code()) {
            return Err("currency: is not that of the request".to_owned());
        }
        let amount = match (self.amount, of.amount) {
            (None, _) => None,
            (Some(_), None) => return Err("amount: the request has none".to_owned()),
            (Some(text), Some(asked)) => {
                let amount = AmountMinor::parse(&text, of.currency);
                let amount = amount.map_err(|error| format!("amount: {error}"))?;
                if amount <= AmountMinor::ZERO || amount > asked {
                    return Err(
                        "amount: is not above 0, or more than that of the request".to_owned()
                    );
                }
                Some(amount)
            }
        };
        let payment_method = self.payment_method_id.map(PaymentMethodId::new);
        Ok(ControlDecision::GoesOn { amount, payment_method })
    }
}

/// `POST /transactions`: what the program was asked to carry out for a tenant, a page of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionsAsked<'a> {
    pub(crate) tenant_id: Uuid,
    /// RFC 3339; `None`: all.
    pub(crate) since: Option<String>,
    /// `next` of the page before; `None` for the first.
    pub(crate) after: Option<&'a str>,
    pub(crate) limit: usize,
}

/// The answer to it.
#[derive(Deserialize)]
pub(crate) struct TransactionsAnswer {
    transactions: Vec<ListedTransaction>,
    /// It has to say so: a list that ends too early seems to lack what was charged.
    #[serde(deserialize_with = "Option::deserialize")]
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedTransaction {
    payment_id: Uuid,
    transaction_id: Uuid,
    status: Status,
    amount: Option<String>,
    currency: Option<String>,
    at: String,
}

impl TransactionsAnswer {
    /// The transactions of a page, and where the next one begins.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(crate) fn page(
        self,
        (tenant, after): (TenantNo, Option<&str>),
    ) -> Result<(Vec<Listed>, Option<String>), String> {
        if self.transactions.len() > LISTED_MAX {
            return Err(format!("transactions: are more than {LISTED_MAX}"));
        }
        if let Some(next) = &self.next {
            check_text("next", next)?;
            if self.transactions.is_empty() || Some(next.as_str()) == after {
                return Err("next: goes on from where it was".to_owned());
            }
        }
        let listed = self.transactions.into_iter().map(|it| it.listed(tenant));
        Ok((listed.collect::<Result<_, _>>()?, self.next))
    }
}

impl ListedTransaction {
    fn listed(self, tenant: TenantNo) -> Result<Listed, String> {
        let (amount, currency) = money(self.amount.as_deref(), self.currency.as_deref())?;
        let at: jiff::Timestamp = self.at.parse().map_err(|_| "at: is no time of RFC 3339")?;
        Ok(Listed {
            tenant,
            payment: PaymentId::new(self.payment_id),
            transaction: TransactionId::new(self.transaction_id),
            status: self.status.gateways(),
            amount,
            currency,
            at: Timestamp(at.as_microsecond()),
        })
    }
}

/// `POST /form`: a page on which a customer enters a payment method.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormAsked<'a> {
    tenant_id: Uuid,
    account_id: Uuid,
    fields: Vec<Property<'a>>,
}

/// The answer to it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormAnswer {
    /// Where the customer's browser goes.
    url: Option<String>,
    /// Further fields for the client, beside the URL; at most [`FIELDS_MAX`].
    #[serde(default)]
    fields: Vec<Field>,
    /// Why there is no page: a text for the client.
    refused: Option<String>,
}

#[derive(Deserialize)]
struct Field {
    key: String,
    value: String,
}

impl<'a> FormAsked<'a> {
    pub(crate) fn new(form: &'a FormRequest, tenant_id: Uuid) -> Self {
        let (account_id, fields) = (form.account.uuid(), properties(&form.fields));
        Self { tenant_id, account_id, fields }
    }
}

impl FormAnswer {
    /// The page, or why there is none.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(crate) fn form(self) -> Result<Result<Form, String>, String> {
        let url = match (self.refused, self.url) {
            (Some(reason), None) => return Ok(Err(reason)),
            (None, Some(url)) => url,
            (Some(_), Some(_)) => return Err("refused: stands beside a url".to_owned()),
            (None, None) => return Err("url: is missing".to_owned()),
        };
        check_url("url", &url)?;
        if self.fields.len() > FIELDS_MAX {
            return Err(format!("fields: are more than {FIELDS_MAX}"));
        }
        let fields = self.fields.into_iter().map(|Field { key, value }| {
            check_text("fields", &key)?;
            check_text("fields", &value)?;
            Ok((key, value))
        });
        Ok(Ok(Form { url, fields: fields.collect::<Result<_, String>>()? }))
    }
}

/// `POST /notification`: what somebody posted as a notification of the gateway.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Posted<'a> {
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

/// The subject of a notification.
pub(crate) enum About {
    Outcome(PaymentId, TransactionId, Outcome),
    Dispute(Notified),
}

/// The answer to a notification.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PostedAnswer {
    /// The payment it is about; `None` where it is about nothing that Faregate knows.
    payment_id: Option<Uuid>,
    outcome: Option<ChargeAnswer>,
    dispute: Option<DisputeAnswer>,
    /// Why it is not believed: a text for its sender.
    refused: Option<String>,
}

/// `POST /dispute`: a dispute of a transaction?
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskForDispute<'a> {
    tenant_id: Uuid,
    payment_id: Uuid,
    transaction_id: Uuid,
    dispute_id: &'a str,
}

impl<'a> AskForDispute<'a> {
    pub(crate) const fn new(it: &'a DisputeInquiry, tenant_id: Uuid) -> Self {
        Self {
            tenant_id,
            payment_id: it.of.payment.uuid(),
            transaction_id: it.of.transaction.uuid(),
            dispute_id: it.case.as_str(),
        }
    }
}

/// The answer to that.
#[derive(Deserialize)]
pub(crate) struct AskedDispute {
    /// `None` where the gateway has no such dispute.
    dispute: Option<DisputeAnswer>,
}

impl AskedDispute {
    /// The state of this dispute at the gateway, or `NotFound`.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(crate) fn knowledge(self, of: &DisputeInquiry) -> Result<DisputeKnowledge, String> {
        let Some(said) = self.dispute else { return Ok(DisputeKnowledge::NotFound) };
        let said = said.said()?;
        if (said.transaction, &said.case) != (of.of.transaction, &of.case) {
            return Err("transactionId, disputeId: are not those of the request".to_owned());
        }
        Ok(DisputeKnowledge::Found(Box::new(said.dispute)))
    }
}

impl<'a> Posted<'a> {
    pub(crate) fn new(headers: &'a [(String, String)], body: &'a str, tenant_id: Uuid) -> Self {
        let headers = headers.iter().map(|(name, value)| Header { name, value });
        Self { tenant_id, headers: headers.collect(), body }
    }
}

impl PostedAnswer {
    /// The subject of the notification, if any, or the reason why it is not believed.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(crate) fn about(self) -> Result<Result<Option<About>, String>, String> {
        if self.outcome.is_some() && self.dispute.is_some() {
            return Err("dispute: stands beside an outcome".to_owned());
        }
        if let Some(dispute) = self.dispute {
            let payment = self.payment_id.filter(|_| self.refused.is_none());
            let payment = payment.ok_or("dispute: needs a paymentId, and nothing refused")?;
            let Said { transaction, case, dispute } = dispute.said()?;
            let news = News::Dispute { case, said: Box::new(dispute) };
            let notified = Notified { payment: PaymentId::new(payment), transaction, news };
            return Ok(Ok(Some(About::Dispute(notified))));
        }
        match (self.refused, self.payment_id, self.outcome) {
            (Some(reason), None, None) => Ok(Err(reason)),
            (None, None, None) => Ok(Ok(None)),
            (None, Some(payment), Some(outcome)) => {
                let transaction = TransactionId::new(outcome.transaction_id);
                let outcome = outcome.outcome(transaction)?;
                Ok(Ok(Some(About::Outcome(PaymentId::new(payment), transaction, outcome))))
            }
            (Some(_), _, _) => Err("refused: stands beside an outcome".to_owned()),
            (None, Some(_), None) => Err("outcome: is missing beside the paymentId".to_owned()),
            (None, None, Some(_)) => Err("paymentId: is missing beside the outcome".to_owned()),
        }
    }
}

impl Called {
    /// The path behind the program's URL.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Charge => "/charge",
            Self::Inquire => "/inquire",
            Self::Form => "/form",
            Self::Control => "/control",
            Self::Dispute => "/dispute",
            Self::Notification => "/notification",
            Self::Transactions => "/transactions",
        }
    }
}

/// The body of a message, with what it is and until when its answer is waited for.
pub(crate) fn encode(called: Called, deadline: Option<i64>, message: &impl Serialize) -> Vec<u8> {
    let message = Message { call: &called.path()[1..], deadline, message };
    serde_json::to_vec(&message).expect("it has no map keys but strings")
}

/// # Errors
/// Where the JSON is wrong; without the answer's text, which may hold anything.
pub(crate) fn decode<T: DeserializeOwned>(answer: &[u8]) -> Result<T, String> {
    serde_json::from_slice(answer).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("the answer is not as the contract says: line {line}, column {column}")
    })
}
