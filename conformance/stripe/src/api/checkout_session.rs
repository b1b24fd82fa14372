//! Checkout sessions: the hosted page, for a setup or for a payment.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{payment_method, setup_intent};
use crate::account::{Account, Row};
use crate::collection::{List, Object};
use crate::currencies;
use crate::error::ApiError;
use crate::ids::Id;
use crate::params::Metadata;
use crate::request::Request;

const EXPIRES_AFTER_S: i64 = 86_400;

const TAKES: &[&str] = &[
    "cancel_url",
    "client_reference_id",
    "currency",
    "customer",
    "customer_email",
    "line_items",
    "metadata",
    "mode",
    "payment_intent_data",
    "payment_method_types",
    "setup_intent_data",
    "success_url",
];

/// Fields for what the fake does not have.
const ALWAYS_NULL: [&str; 27] = [
    "after_expiration",
    "allow_promotion_codes",
    "billing_address_collection",
    "client_secret",
    "collected_information",
    "consent",
    "consent_collection",
    "currency_conversion",
    "customer_account",
    "customer_details",
    "discounts",
    "integration_identifier",
    "invoice",
    "invoice_creation",
    "locale",
    "managed_payments",
    "origin_context",
    "payment_link",
    "payment_method_configuration_details",
    "permissions",
    "recovered_from",
    "saved_payment_method_options",
    "shipping_address_collection",
    "shipping_cost",
    "submit_type",
    "subscription",
    "wallet_options",
];

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Open,
    Complete,
    Expired,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct CheckoutSession {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    pub status: Status,
    pub url: String,
    pub success_url: Option<String>,
    pub cancel_url: Option<String>,
    pub client_reference_id: Option<String>,
    pub customer: Option<Id>,
    pub customer_email: Option<String>,
    pub currency: Option<String>,
    /// Of a payment; none for a setup.
    pub amount: Option<i64>,
    pub capture_method: Option<String>,
    pub setup_future_usage: Option<String>,
    pub payment_intent: Option<Id>,
    pub setup_intent: Option<Id>,
    /// Of the payment intent that is still to be made.
    pub intent_metadata: Metadata,
    pub metadata: Metadata,
}

impl Object for CheckoutSession {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, self.customer.as_ref())
    }
}

impl CheckoutSession {
    fn is_payment(&self) -> bool {
        self.amount.is_some()
    }

    pub fn render(&self, account: &Account) -> Value {
        let is_complete = self.status == Status::Complete;
        let payment_status = match (self.is_payment(), is_complete) {
            (false, _) => "no_payment_required",
            (true, true) => "paid",
            (true, false) => "unpaid",
        };
        let status = match self.status {
            Status::Open => "open",
            Status::Complete => "complete",
            Status::Expired => "expired",
        };
        let mut rendered = json!({
            "id": self.id,
            "object": "checkout.session",
            "amount_subtotal": self.amount,
            "amount_total": self.amount,
            "adaptive_pricing": { "enabled": false },
            "automatic_tax": { "enabled": false, "liability": null, "provider": null, "status": null },
            "cancel_url": self.cancel_url,
            "client_reference_id": self.client_reference_id,
            "created": self.created,
            "currency": self.currency,
            "custom_fields": [],
            "custom_text": { "after_submit": null, "shipping_address": null, "submit": null, "terms_of_service_acceptance": null },
            "customer": self.customer,
            "customer_creation": if self.is_payment() { json!("if_required") } else { Value::Null },
            "customer_email": self.customer_email,
            "expires_at": self.created + EXPIRES_AFTER_S,
            "livemode": account.livemode,
            "metadata": self.metadata,
            "mode": if self.is_payment() { "payment" } else { "setup" },
            "payment_intent": self.payment_intent,
            "payment_method_collection": "if_required",
            "payment_method_options": {},
            "payment_method_types": ["card"],
            "payment_status": payment_status,
            "setup_intent": self.setup_intent,
            "phone_number_collection": { "enabled": false },
            "shipping_options": [],
            "status": status,
            "success_url": self.success_url,
            "total_details": self.amount.map(|_| json!({ "amount_discount": 0, "amount_shipping": 0, "amount_tax": 0 })),
            "ui_mode": "hosted_page",
            "url": Some(&self.url).filter(|_| self.status == Status::Open),
        });
        for name in ALWAYS_NULL {
            rendered[name] = Value::Null;
        }
        rendered
    }
}

pub fn create(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(TAKES)?;
    let mode =
        params.one_of("mode", &["payment", "setup"])?.ok_or_else(|| ApiError::missing("mode"))?;
    params.required("success_url")?;
    let metadata = params.metadata()?;
    let customer = request.customer()?;
    let (id, number) = request.next("cs_test_");
    let mut session = CheckoutSession {
        url: format!("{}/_fake/checkout/{id}", request.base_url),
        id,
        number,
        created: request.now,
        status: Status::Open,
        success_url: params.owned("success_url"),
        cancel_url: params.owned("cancel_url"),
        client_reference_id: params.owned("client_reference_id"),
        customer,
        customer_email: params.owned("customer_email"),
        currency: params.text("currency").map(currencies::parse).transpose()?,
        amount: None,
        capture_method: None,
        setup_future_usage: None,
        payment_intent: None,
        setup_intent: None,
        intent_metadata: nested_metadata(
            request,
            if mode == "payment" { "payment_intent_data" } else { "setup_intent_data" },
        ),
        metadata,
    };
    if mode == "payment" {
        let (amount, currency) = total(request)?;
        session.amount = Some(amount);
        session.currency = Some(currency);
        session.capture_method = params.owned("payment_intent_data[capture_method]");
        session.setup_future_usage = params.owned("payment_intent_data[setup_future_usage]");
    } else {
        let metadata = session.intent_metadata.clone();
        let intent = setup_intent::empty(
            request,
            session.customer.clone(),
            "off_session".to_owned(),
            metadata,
        );
        session.setup_intent = Some(intent.id.clone());
        let row = Row::SetupIntent(Rc::new(intent));
        request.put(row.clone());
        request.emit("setup_intent.created", row);
    }
    let row = Row::CheckoutSession(Rc::new(session));
    request.put(row.clone());
    Ok(request.account.render(&row))
}

fn nested_metadata(request: &Request, name: &str) -> Metadata {
    let prefix = format!("{name}[metadata][");
    let pairs = request.params.pairs();
    let inner =
        pairs.filter_map(|(it, value)| Some((it.strip_prefix(&prefix)?.strip_suffix(']')?, value)));
    inner.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The sum of `line_items[n][price_data][unit_amount]` by `quantity`, in one currency.
fn total(request: &Request) -> Result<(i64, String), ApiError> {
    let params = request.params;
    let (mut sum, mut currency) = (0, None);
    for n in 0..100 {
        let item = format!("line_items[{n}]");
        if !params.has(&item) {
            break;
        }
        let text = currencies::parse(params.required(&format!("{item}[price_data][currency]"))?)?;
        if *currency.get_or_insert_with(|| text.clone()) != text {
            return Err(ApiError::invalid("line_items", "All line items have one currency"));
        }
        let unit = format!("{item}[price_data][unit_amount]");
        params.required(&unit)?;
        let quantity = params.integer(&format!("{item}[quantity]"))?.unwrap_or(1);
        sum += params.integer(&unit)?.unwrap_or_default() * quantity;
    }
    let currency = currency.ok_or_else(|| ApiError::missing("line_items"))?;
    currencies::check_charge("line_items", sum, &currency)?;
    Ok((sum, currency))
}

/// The customer submits the page with a test payment method. The intent may then want a challenge;
/// the session is complete once it has ended well.
pub fn pay(request: &mut Request, session: &CheckoutSession, card: &str) -> Result<Paid, ApiError> {
    let method = payment_method::of_id(request, card, "payment_method")?;
    if let Some(id) = &session.setup_intent {
        let mut intent =
            (**request.account.setup_intents.get(id).expect("a session's intent exists")).clone();
        intent.payment_method = Some(method.id.clone());
        let intent = setup_intent::confirm(request, intent)?;
        return Ok(Paid { challenge: intent.challenge.as_ref().map(|it| it.url.clone()) });
    }
    let intent = super::payment_intent::of_session(request, session, &method.id);
    let mut paying = session.clone();
    paying.payment_intent = Some(intent.id.clone());
    request.put(Row::CheckoutSession(Rc::new(paying)));
    let intent = super::confirm::confirm_for_session(request, intent)?;
    Ok(Paid { challenge: intent.challenge.as_ref().map(|it| it.url.clone()) })
}

pub struct Paid {
    /// The page of the challenge that comes next.
    pub challenge: Option<String>,
}

pub fn complete(request: &mut Request, session: &CheckoutSession) {
    let session = CheckoutSession { status: Status::Complete, ..session.clone() };
    let row = Row::CheckoutSession(Rc::new(session));
    request.put(row.clone());
    request.emit("checkout.session.completed", row);
}

fn find(request: &Request, id: &str) -> Result<Rc<CheckoutSession>, ApiError> {
    let found = request.account.checkout_sessions.get(id);
    found.cloned().ok_or_else(|| ApiError::not_found("checkout.session", "session", id))
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    Ok(find(request, id)?.render(request.account))
}

pub fn expire(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&[])?;
    let session = find(request, id)?;
    if session.status != Status::Open {
        let message = "Only Checkout Sessions with a status in [\"open\"] can be expired.";
        return Err(ApiError { began: true, ..ApiError::request(message) });
    }
    let row = Row::CheckoutSession(Rc::new(CheckoutSession {
        status: Status::Expired,
        ..(*session).clone()
    }));
    request.put(row.clone());
    request.emit("checkout.session.expired", row.clone());
    Ok(request.account.render(&row))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["customer", "payment_intent"])?;
    let intent = params.text("payment_intent");
    let filter =
        |it: &CheckoutSession| intent.is_none_or(|id| it.payment_intent.as_deref() == Some(id));
    let list = List {
        params,
        url: "/v1/checkout/sessions",
        owner: params.text("customer"),
        filter: &filter,
    };
    request.account.checkout_sessions.list(&list, |it| it.render(request.account))
}
