//! Payment intents: made, changed, captured, canceled. How they are confirmed is in `confirm`.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::checkout_session::CheckoutSession;
use super::confirm::{self, Confirmation};
use super::{charge, payment_method, refund};
use crate::account::{Account, Row};
use crate::collection::{List, Object};
use crate::currencies;
use crate::error::{ApiError, Decline, doc_url};
use crate::ids::Id;
use crate::params::{Metadata, Params};
use crate::request::Request;

/// Search finds an intent up to this long after it was made.
const INDEXED_AFTER_MAX_S: u64 = 60;

const CREATE_TAKES: &[&str] = &[
    "amount",
    "automatic_payment_methods",
    "capture_method",
    "confirm",
    "confirmation_method",
    "currency",
    "customer",
    "description",
    "error_on_requires_action",
    "metadata",
    "off_session",
    "payment_method",
    "payment_method_data",
    "payment_method_options",
    "payment_method_types",
    "receipt_email",
    "return_url",
    "setup_future_usage",
    "statement_descriptor",
    "statement_descriptor_suffix",
    "use_stripe_sdk",
];

const CAPTURE_TAKES: &[&str] = &[
    "amount_to_capture",
    "final_capture",
    "metadata",
    "statement_descriptor",
    "statement_descriptor_suffix",
];

/// Of one authorization.
const CAPTURES_MAX: usize = 50;

const UPDATE_TAKES: &[&str] = &[
    "amount",
    "currency",
    "customer",
    "description",
    "metadata",
    "payment_method",
    "receipt_email",
    "setup_future_usage",
    "statement_descriptor",
    "statement_descriptor_suffix",
];

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    RequiresPaymentMethod,
    RequiresConfirmation,
    RequiresAction,
    RequiresCapture,
    Canceled,
    Succeeded,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::RequiresPaymentMethod => "requires_payment_method",
            Status::RequiresConfirmation => "requires_confirmation",
            Status::RequiresAction => "requires_action",
            Status::RequiresCapture => "requires_capture",
            Status::Canceled => "canceled",
            Status::Succeeded => "succeeded",
        }
    }
}

/// A challenge that the customer has to pass.
#[derive(Clone, Serialize, Deserialize)]
pub struct Challenge {
    /// The fake's page.
    pub url: String,
    /// Where the page sends the browser; none if the confirmation named none.
    pub return_url: Option<String>,
}

impl Challenge {
    pub fn render(&self) -> Value {
        match &self.return_url {
            Some(return_url) => {
                json!({ "type": "redirect_to_url", "redirect_to_url": { "return_url": return_url, "url": self.url } })
            }
            None => json!({
                "type": "use_stripe_sdk",
                "use_stripe_sdk": { "type": "three_d_secure_redirect", "stripe_js": self.url },
            }),
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub struct PaymentIntent {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    /// Search does not find it before.
    pub indexed_at: i64,
    pub status: Status,
    pub amount: i64,
    pub amount_capturable: i64,
    pub amount_received: i64,
    pub currency: String,
    pub customer: Option<Id>,
    pub payment_method: Option<Id>,
    /// `automatic`, `automatic_async` or `manual`.
    pub capture_method: String,
    /// Several captures are asked for; the card decides whether they are available.
    pub multicapture: bool,
    /// `payment_method_options[card][request_three_d_secure]`.
    pub three_d_secure: String,
    pub setup_future_usage: Option<String>,
    /// `allow_redirects`, where payment methods are automatic: without `payment_method_types`.
    pub allow_redirects: Option<String>,
    pub client_secret: String,
    pub challenge: Option<Challenge>,
    pub last_error: Option<Decline>,
    pub latest_charge: Option<Id>,
    /// When what is authorized and not captured is released.
    pub expires_at: Option<i64>,
    pub canceled_at: Option<i64>,
    pub cancellation_reason: Option<String>,
    pub description: Option<String>,
    pub receipt_email: Option<String>,
    pub statement_descriptor: Option<String>,
    pub statement_descriptor_suffix: Option<String>,
    pub metadata: Metadata,
}

impl Object for PaymentIntent {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, self.customer.as_ref())
    }
}

impl PaymentIntent {
    pub fn render(&self, account: &Account) -> Value {
        json!({
            "id": self.id,
            "object": "payment_intent",
            "allowed_payment_method_types": null,
            "amount": self.amount,
            "amount_capturable": self.amount_capturable,
            "amount_details": { "tip": {} },
            "amount_received": self.amount_received,
            "application": null,
            "application_fee_amount": null,
            "automatic_payment_methods": render_automatic(self.allow_redirects.as_deref()),
            "canceled_at": self.canceled_at,
            "cancellation_reason": self.cancellation_reason,
            "capture_method": self.capture_method,
            "client_secret": self.client_secret,
            "confirmation_method": "automatic",
            "created": self.created,
            "currency": self.currency,
            "customer": self.customer,
            "customer_account": null,
            "description": self.description,
            "excluded_payment_method_types": null,
            "last_payment_error": self.last_error.as_ref().map(|it| render_last_error(it, account)),
            "latest_charge": self.latest_charge,
            "livemode": account.livemode,
            "managed_payments": { "enabled": false },
            "metadata": self.metadata,
            "next_action": self.challenge.as_ref().map(Challenge::render),
            "on_behalf_of": null,
            "payment_method": self.payment_method,
            "payment_method_configuration_details": null,
            "payment_method_options": { "card": self.render_options() },
            "payment_method_types": ["card"],
            "processing": null,
            "receipt_email": self.receipt_email,
            "review": null,
            "setup_future_usage": self.setup_future_usage,
            "shipping": null,
            "statement_descriptor": self.statement_descriptor,
            "statement_descriptor_suffix": self.statement_descriptor_suffix,
            "status": self.status.name(),
            "transfer_data": null,
            "transfer_group": null,
        })
    }

    pub fn is_manual(&self) -> bool {
        self.capture_method == "manual"
    }

    fn render_options(&self) -> Value {
        let mut options = json!({
            "installments": null,
            "mandate_options": null,
            "network": null,
            "request_three_d_secure": self.three_d_secure,
        });
        if self.multicapture {
            options["request_multicapture"] = "if_available".into();
        }
        options
    }

    pub fn unexpected(&self, verb: &str) -> ApiError {
        let message = format!(
            "This PaymentIntent could not be {verb} because it has a status of {}.",
            self.status.name()
        );
        ApiError::state("payment_intent_unexpected_state", message).of_intent(&self.id)
    }
}

/// `automatic_payment_methods` of an intent.
pub fn render_automatic(allow_redirects: Option<&str>) -> Option<Value> {
    allow_redirects.map(|it| json!({ "allow_redirects": it, "enabled": true }))
}

/// Whether payment methods may redirect, where they are automatic.
pub fn allow_redirects(params: &Params) -> Result<Option<String>, ApiError> {
    if params.list("payment_method_types").iter().any(|it| *it != "card") {
        return Err(ApiError::invalid("payment_method_types", "The fake has cards only"));
    }
    let is_automatic = params
        .boolean("automatic_payment_methods[enabled]")?
        .unwrap_or(!params.has("payment_method_types"));
    let redirects =
        params.one_of("automatic_payment_methods[allow_redirects]", &["always", "never"])?;
    Ok(is_automatic.then(|| redirects.unwrap_or("always").to_owned()))
}

/// `last_payment_error` and `last_setup_error`.
pub fn render_last_error(error: &Decline, account: &Account) -> Value {
    let mut rendered = json!({
        "type": error.kind,
        "code": error.code,
        "doc_url": doc_url(&error.code),
        "message": error.message,
    });
    if let Some(decline_code) = &error.decline_code {
        rendered["decline_code"] = decline_code.as_str().into();
    }
    if let Some(charge) = &error.charge {
        rendered["charge"] = (**charge).into();
    }
    let method = error.payment_method.as_ref().and_then(|it| account.payment_methods.get(it));
    if let Some(method) = method {
        rendered["payment_method"] = method.render(account);
    }
    rendered
}

pub fn create(request: &mut Request) -> Result<Value, ApiError> {
    let mut intent = of_params(request)?;
    let confirmation = Confirmation::at_creation(request)?;
    if let Some(confirmation) = &confirmation {
        confirmation.check_return_url(&intent)?;
    }
    let given = (intent.payment_method.as_ref(), intent.customer.as_ref());
    intent.payment_method = confirm::chosen_method(request, given)?;
    if intent.payment_method.is_some() {
        intent.status = Status::RequiresConfirmation;
    } else if confirmation.is_some() {
        let message =
            "You cannot confirm this PaymentIntent because it's missing a payment method.";
        return Err(ApiError::invalid("payment_method", message).coded("parameter_missing"));
    }
    let row = Row::PaymentIntent(Rc::new(intent.clone()));
    request.put(row.clone());
    request.emit("payment_intent.created", row.clone());
    let intent = match confirmation {
        Some(confirmation) => confirm::confirm(request, intent, &confirmation)?,
        None => Rc::new(intent),
    };
    Ok(intent.render(request.account))
}

fn of_params(request: &mut Request) -> Result<PaymentIntent, ApiError> {
    let params = request.params;
    params.only(CREATE_TAKES)?;
    params.required("amount")?;
    let currency = currencies::parse(params.required("currency")?)?;
    let amount = params.integer("amount")?.unwrap_or_default();
    currencies::check_charge("amount", amount, &currency)?;
    params.one_of("confirmation_method", &["automatic"])?;
    let capture = params.one_of("capture_method", &["automatic", "automatic_async", "manual"])?;
    let usage = params.one_of("setup_future_usage", &["off_session", "on_session", ""])?;
    let allow_redirects = allow_redirects(params)?;
    let three_d_secure = params.one_of(
        "payment_method_options[card][request_three_d_secure]",
        &["any", "automatic", "challenge"],
    )?;
    let multicapture = params
        .one_of("payment_method_options[card][request_multicapture]", &["if_available", "never"])?;
    let metadata = params.metadata()?;
    let customer = request.customer()?;
    let (id, number) = request.next("pi_3");
    Ok(PaymentIntent {
        client_secret: format!("{id}_secret_{}", request.ids.secret()),
        id,
        number,
        created: request.now,
        indexed_at: request.now + (request.ids.number() % (INDEXED_AFTER_MAX_S + 1)) as i64,
        status: Status::RequiresPaymentMethod,
        amount,
        amount_capturable: 0,
        amount_received: 0,
        currency,
        customer,
        payment_method: None,
        capture_method: capture.unwrap_or("automatic_async").to_owned(),
        multicapture: multicapture == Some("if_available"),
        three_d_secure: three_d_secure.unwrap_or("automatic").to_owned(),
        setup_future_usage: usage.filter(|it| !it.is_empty()).map(str::to_owned),
        allow_redirects,
        challenge: None,
        last_error: None,
        latest_charge: None,
        expires_at: None,
        canceled_at: None,
        cancellation_reason: None,
        description: params.owned("description"),
        receipt_email: params.owned("receipt_email"),
        statement_descriptor: params.owned("statement_descriptor"),
        statement_descriptor_suffix: params.owned("statement_descriptor_suffix"),
        metadata,
    })
}

/// The intent of a Checkout session, written when its page is submitted.
pub fn of_session(request: &mut Request, session: &CheckoutSession, method: &Id) -> PaymentIntent {
    let (id, number) = request.next("pi_3");
    let intent = PaymentIntent {
        client_secret: format!("{id}_secret_{}", request.ids.secret()),
        id,
        number,
        created: request.now,
        indexed_at: request.now,
        status: Status::RequiresConfirmation,
        amount: session.amount.expect("only a session for a payment has an intent"),
        amount_capturable: 0,
        amount_received: 0,
        currency: session.currency.clone().expect("a payment has a currency"),
        customer: session.customer.clone(),
        payment_method: Some(method.clone()),
        capture_method: session
            .capture_method
            .clone()
            .unwrap_or_else(|| "automatic_async".to_owned()),
        multicapture: false,
        three_d_secure: "automatic".to_owned(),
        setup_future_usage: session.setup_future_usage.clone(),
        allow_redirects: None,
        challenge: None,
        last_error: None,
        latest_charge: None,
        expires_at: None,
        canceled_at: None,
        cancellation_reason: None,
        description: None,
        receipt_email: None,
        statement_descriptor: None,
        statement_descriptor_suffix: None,
        metadata: session.intent_metadata.clone(),
    };
    let row = Row::PaymentIntent(Rc::new(intent.clone()));
    request.put(row.clone());
    request.emit("payment_intent.created", row);
    intent
}

pub fn find(request: &Request, id: &str) -> Result<Rc<PaymentIntent>, ApiError> {
    let found = request.account.payment_intents.get(id);
    found.cloned().ok_or_else(|| ApiError::not_found("payment_intent", "intent", id))
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let intent = find(request, id)?;
    let secret = request.params.text("client_secret");
    if secret.is_some_and(|it| it != intent.client_secret) {
        return Err(ApiError::invalid(
            "client_secret",
            "The client_secret provided does not match the PaymentIntent.",
        ));
    }
    Ok(intent.render(request.account))
}

pub fn update(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(UPDATE_TAKES)?;
    let mut intent = (*find(request, id)?).clone();
    let is_open = matches!(
        intent.status,
        Status::RequiresPaymentMethod | Status::RequiresConfirmation | Status::RequiresAction
    );
    if !is_open && ["amount", "currency", "payment_method"].iter().any(|it| params.has(it)) {
        return Err(intent.unexpected("updated"));
    }
    if let Some(currency) = params.text("currency") {
        intent.currency = currencies::parse(currency)?;
    }
    intent.amount = params.integer("amount")?.unwrap_or(intent.amount);
    currencies::check_charge("amount", intent.amount, &intent.currency)?;
    params.merge_metadata(&mut intent.metadata)?;
    if params.has("customer") {
        intent.customer = request.customer()?;
    }
    if let Some(method) = params.owned("payment_method") {
        intent.payment_method =
            Some(payment_method::of_id(request, &method, "payment_method")?.id.clone());
        intent.status = Status::RequiresConfirmation;
    }
    let fields = [
        ("description", &mut intent.description),
        ("receipt_email", &mut intent.receipt_email),
        ("setup_future_usage", &mut intent.setup_future_usage),
        ("statement_descriptor", &mut intent.statement_descriptor),
        ("statement_descriptor_suffix", &mut intent.statement_descriptor_suffix),
    ];
    for (name, field) in fields {
        if params.text(name).is_some() {
            *field = params.owned(name);
        }
    }
    let row = Row::PaymentIntent(Rc::new(intent));
    request.put(row.clone());
    Ok(request.account.render(&row))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["customer"])?;
    let owner = params.text("customer");
    let list = List { params, url: "/v1/payment_intents", owner, filter: &|_| true };
    request.account.payment_intents.list(&list, |it| it.render(request.account))
}

/// Captures what `amount_to_capture` says; the rest is released, unless more captures are to follow.
pub fn capture(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(CAPTURE_TAKES)?;
    let mut intent = (*find(request, id)?).clone();
    let asked = params.integer("amount_to_capture")?;
    let is_final = params.boolean("final_capture")?.unwrap_or(true);
    params.merge_metadata(&mut intent.metadata)?;
    if intent.status != Status::RequiresCapture {
        return Err(intent.unexpected("captured"));
    }
    let amount = asked.unwrap_or(intent.amount_capturable);
    check_capture(request, &intent, amount, is_final)?;
    let is_last = is_final || amount == intent.amount_capturable;
    let multicapture = charge::capture(request, &intent, amount, is_last);
    intent.amount_received += amount;
    intent.amount_capturable -= amount;
    if is_last {
        intent.amount_capturable = 0;
        intent.status = Status::Succeeded;
        intent.expires_at = None;
    }
    let row = Row::PaymentIntent(Rc::new(intent));
    request.put(row.clone());
    if multicapture {
        request.emit("payment_intent.amount_capturable_updated", row.clone());
    }
    if is_last {
        request.emit("payment_intent.succeeded", row.clone());
    }
    Ok(request.account.render(&row))
}

fn check_capture(
    request: &Request,
    intent: &PaymentIntent,
    amount: i64,
    is_final: bool,
) -> Result<(), ApiError> {
    let refused =
        |param: &str, message: String| ApiError::invalid(param, message).of_intent(&intent.id);
    let charge = charge::of_intent(request, intent);
    if !is_final && !charge.multicapture {
        let message = "Multiple captures are not available for this PaymentIntent; see multicapture.status of its charge.";
        return Err(refused("final_capture", message.to_owned()));
    }
    let captures = request.account.balance_transactions.of(&charge.id).count();
    if captures >= CAPTURES_MAX {
        return Err(refused(
            "amount_to_capture",
            format!("A PaymentIntent is captured up to {CAPTURES_MAX} times"),
        ));
    }
    // Nothing more: what was captured stays, and the rest is released.
    if amount == 0 && is_final && intent.amount_received > 0 {
        return Ok(());
    }
    currencies::check_digits("amount_to_capture", amount, &intent.currency)?;
    if amount > intent.amount_capturable {
        let most = intent.amount_capturable;
        let message = format!(
            "The remaining amount of this PaymentIntent that you can capture is {most}; {amount} is more."
        );
        return Err(refused("amount_to_capture", message).coded("amount_too_large"));
    }
    Ok(())
}

/// The time to capture is over: what was captured stays, and the rest is released.
pub fn expire(request: &mut Request, id: &str) {
    let mut intent =
        (**request.account.payment_intents.get(id).expect("what is due exists")).clone();
    intent.expires_at = None;
    intent.amount_capturable = 0;
    if intent.amount_received > 0 {
        charge::capture(request, &intent, 0, true);
        intent.status = Status::Succeeded;
        let row = Row::PaymentIntent(Rc::new(intent));
        request.put(row.clone());
        return request.emit("payment_intent.succeeded", row);
    }
    let charge = charge::of_intent(request, &intent);
    refund::release(request, &intent, Some("expired_uncaptured_charge"));
    request.emit("charge.expired", Row::Charge(charge));
    canceled(request, intent, Some("automatic".to_owned()));
}

pub fn cancel(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&["cancellation_reason"])?;
    let reasons = &["abandoned", "duplicate", "fraudulent", "requested_by_customer"];
    let reason = request.params.one_of("cancellation_reason", reasons)?.map(str::to_owned);
    let intent = (*find(request, id)?).clone();
    if matches!(intent.status, Status::Succeeded | Status::Canceled) || intent.amount_received > 0 {
        return Err(intent.unexpected("canceled"));
    }
    if intent.status == Status::RequiresCapture {
        refund::release(request, &intent, None);
    }
    let row = canceled(request, intent, reason);
    Ok(request.account.render(&row))
}

fn canceled(request: &mut Request, mut intent: PaymentIntent, reason: Option<String>) -> Row {
    intent.status = Status::Canceled;
    intent.amount_capturable = 0;
    intent.challenge = None;
    intent.expires_at = None;
    intent.canceled_at = Some(request.now);
    intent.cancellation_reason = reason;
    let row = Row::PaymentIntent(Rc::new(intent));
    request.put(row.clone());
    request.emit("payment_intent.canceled", row.clone());
    row
}
