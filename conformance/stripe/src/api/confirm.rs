//! How a payment intent is confirmed: the challenge if the card wants one, then the bank's answer.

use std::rc::Rc;

use super::charge::{self, Attempt};
use super::payment_intent::{Challenge, PaymentIntent, Status, find};
use super::payment_method::{self, PaymentMethod};
use crate::account::Row;
use crate::cards::{self, Authentication, Refusal};
use crate::error::{ApiError, Decline};
use crate::ids::Id;
use crate::params::{Metadata, Params};
use crate::request::Request;

const TAKES: &[&str] = &[
    "error_on_requires_action",
    "off_session",
    "payment_method",
    "payment_method_data",
    "receipt_email",
    "return_url",
    "setup_future_usage",
    "use_stripe_sdk",
];

const AUTHENTICATION_REQUIRED: Refusal = ("authentication_required", "authentication_required");

pub struct Confirmation {
    off_session: bool,
    error_on_requires_action: bool,
    return_url: Option<String>,
}

impl Confirmation {
    /// `None` if the intent is made without `confirm`; then there may be no options of it either.
    pub fn at_creation(request: &Request) -> Result<Option<Confirmation>, ApiError> {
        let params = request.params;
        if params.boolean("confirm")? == Some(true) {
            return Confirmation::of_params(params).map(Some);
        }
        let only_with_confirm = ["error_on_requires_action", "off_session", "return_url"];
        match only_with_confirm.iter().find(|it| params.has(it)) {
            Some(name) => Err(ApiError::invalid(
                name,
                format!("The parameter `{name}` may only be used when `confirm` is true."),
            )),
            None => Ok(None),
        }
    }

    pub fn of_params(params: &Params) -> Result<Confirmation, ApiError> {
        let off_session =
            params.one_of("off_session", &["true", "false", "one_off", "recurring"])?;
        let return_url = params.owned("return_url");
        if return_url.as_ref().is_some_and(|it| !it.contains("://")) {
            return Err(ApiError::invalid("return_url", "Not a valid URL").coded("url_invalid"));
        }
        Ok(Confirmation {
            off_session: off_session.is_some_and(|it| it != "false"),
            error_on_requires_action: params.boolean("error_on_requires_action")?.unwrap_or(false),
            return_url,
        })
    }

    /// Payment methods that may redirect need a page to come back to.
    pub fn check_return_url(&self, intent: &PaymentIntent) -> Result<(), ApiError> {
        let may_redirect = intent.allow_redirects.as_deref() == Some("always");
        if may_redirect && self.return_url.is_none() && !self.off_session {
            let message = "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`. If you don't want to accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and `automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents.";
            return Err(ApiError::request(message));
        }
        Ok(())
    }
}

/// The payment method that the request names, by id or by data, checked against the intent's customer; otherwise the
/// intent's own.
pub fn chosen_method(
    request: &mut Request,
    (own, customer): (Option<&Id>, Option<&Id>),
) -> Result<Option<Id>, ApiError> {
    let params = request.params;
    let method = if let Some(id) = params.owned("payment_method") {
        payment_method::of_id(request, &id, "payment_method")?
    } else if params.has("payment_method_data") {
        payment_method::of_params(request, "payment_method_data", Metadata::new())?
    } else {
        return Ok(own.cloned());
    };
    belongs(&method, customer)?;
    Ok(Some(method.id.clone()))
}

fn belongs(method: &PaymentMethod, customer: Option<&Id>) -> Result<(), ApiError> {
    payment_method::usable(method)?;
    match (&method.customer, customer) {
        (None, _) => Ok(()),
        (Some(of_method), Some(of_intent)) if of_method == of_intent => Ok(()),
        (Some(_), Some(of_intent)) => {
            let message = format!(
                "The customer {of_intent} does not have a payment method with the ID {}. The payment method belongs to another customer.",
                method.id
            );
            Err(ApiError::invalid("payment_method", message)
                .coded("payment_method_customer_mismatch"))
        }
        (Some(_), None) => {
            let message = "The provided PaymentMethod cannot be attached. To use it, you must provide the customer that it belongs to.";
            Err(ApiError::invalid("payment_method", message)
                .coded("payment_method_unexpected_state"))
        }
    }
}

/// `POST /v1/payment_intents/{id}/confirm`.
pub fn confirm_one(request: &mut Request, id: &str) -> Result<serde_json::Value, ApiError> {
    request.params.only(TAKES)?;
    let mut intent = (*find(request, id)?).clone();
    let confirmation = Confirmation::of_params(request.params)?;
    match intent.status {
        Status::RequiresPaymentMethod | Status::RequiresConfirmation | Status::RequiresAction => {}
        Status::RequiresCapture | Status::Canceled | Status::Succeeded => {
            return Err(intent.unexpected("confirmed"));
        }
    }
    confirmation.check_return_url(&intent)?;
    if let Some(usage) =
        request.params.one_of("setup_future_usage", &["off_session", "on_session"])?
    {
        intent.setup_future_usage = Some(usage.to_owned());
    }
    let given = (intent.payment_method.as_ref(), intent.customer.as_ref());
    intent.payment_method = chosen_method(request, given)?;
    if intent.payment_method.is_none() {
        let message = "You cannot confirm this PaymentIntent because it's missing a payment method. You can either update the PaymentIntent with a payment method and then confirm it again, or confirm it again directly with a payment method.";
        return Err(
            ApiError::state("payment_intent_unexpected_state", message).of_intent(&intent.id)
        );
    }
    let intent = confirm(request, intent, &confirmation)?;
    Ok(intent.render(request.account))
}

pub fn confirm(
    request: &mut Request,
    mut intent: PaymentIntent,
    how: &Confirmation,
) -> Result<Rc<PaymentIntent>, ApiError> {
    let id = intent
        .payment_method
        .as_ref()
        .expect("the caller has checked that there is a payment method");
    let method =
        request.account.payment_methods.get(id).expect("an intent's payment method exists").clone();
    let card = method.card();
    let wants_challenge = match card.authentication {
        Authentication::Supported => !how.off_session && intent.three_d_secure != "automatic",
        Authentication::Always => true,
        Authentication::UntilSetUp => !method.set_up,
        Authentication::OnSession => !how.off_session,
    };
    if !wants_challenge {
        return at_bank(request, intent, &method, false);
    }
    if how.off_session || how.error_on_requires_action {
        return declined(request, intent, &method, AUTHENTICATION_REQUIRED);
    }
    intent.status = Status::RequiresAction;
    intent.last_error = None;
    let url = format!(
        "{}/_fake/3ds/{}?client_secret={}",
        request.base_url, intent.id, intent.client_secret
    );
    intent.challenge = Some(Challenge { url, return_url: how.return_url.clone() });
    let intent = Rc::new(intent);
    request.put(Row::PaymentIntent(intent.clone()));
    request.emit("payment_intent.requires_action", Row::PaymentIntent(intent.clone()));
    Ok(intent)
}

/// With the customer there, on the hosted page, which the challenge returns to.
pub fn confirm_for_session(
    request: &mut Request,
    intent: PaymentIntent,
) -> Result<Rc<PaymentIntent>, ApiError> {
    confirm(
        request,
        intent,
        &Confirmation { off_session: false, error_on_requires_action: false, return_url: None },
    )
}

/// The customer passed the challenge, or failed it.
pub fn challenge_ended(
    request: &mut Request,
    intent: &PaymentIntent,
    passed: bool,
) -> Rc<PaymentIntent> {
    let mut intent = intent.clone();
    intent.challenge = None;
    let id = intent.payment_method.clone().expect("an intent in a challenge has a payment method");
    let method = request
        .account
        .payment_methods
        .get(&id)
        .expect("an intent's payment method exists")
        .clone();
    if passed {
        let known = intent.id.clone();
        return match at_bank(request, intent, &method, true) {
            Ok(intent) => intent,
            // A decline: the intent holds it.
            Err(_) => request.account.payment_intents.get(&known).expect("it was written").clone(),
        };
    }
    let message = "We are unable to authenticate your payment method. Please choose a different payment method and try again.";
    let error = Decline {
        code: "payment_intent_authentication_failure".to_owned(),
        decline_code: None,
        message: message.to_owned(),
        charge: None,
        payment_method: Some(method.id.clone()),
        kind: "invalid_request_error".to_owned(),
    };
    failed(request, intent, error)
}

fn at_bank(
    request: &mut Request,
    mut intent: PaymentIntent,
    method: &Rc<PaymentMethod>,
    authenticated: bool,
) -> Result<Rc<PaymentIntent>, ApiError> {
    if let Some(refusal) = method.card().declines {
        return declined(request, intent, method, refusal);
    }
    let attempt = Attempt { intent: &intent, method, authenticated };
    let charge = charge::authorized(request, &attempt);
    keep_method(request, &intent, method, authenticated);
    intent.latest_charge = Some(charge.id.clone());
    intent.last_error = None;
    let event = if intent.is_manual() {
        intent.status = Status::RequiresCapture;
        intent.amount_capturable = intent.amount;
        intent.expires_at = Some(request.now + charge::AUTHORIZATION_S);
        "payment_intent.amount_capturable_updated"
    } else {
        intent.status = Status::Succeeded;
        intent.amount_received = intent.amount;
        "payment_intent.succeeded"
    };
    let intent = Rc::new(intent);
    request.put(Row::PaymentIntent(intent.clone()));
    request.emit("charge.succeeded", Row::Charge(charge));
    request.emit(event, Row::PaymentIntent(intent.clone()));
    Ok(intent)
}

/// Attaches the payment method where it is to be used again, else it is spent.
fn keep_method(
    request: &mut Request,
    intent: &PaymentIntent,
    method: &Rc<PaymentMethod>,
    authenticated: bool,
) {
    let mut kept = (**method).clone();
    if intent.setup_future_usage.is_some() && intent.customer.is_some() {
        kept.customer = intent.customer.clone();
        kept.set_up |= authenticated && intent.setup_future_usage.as_deref() == Some("off_session");
    }
    kept.spent = kept.customer.is_none();
    let attached = kept.customer.is_some() && method.customer.is_none();
    if attached || kept.spent || kept.set_up != method.set_up {
        let row = Row::PaymentMethod(Rc::new(kept));
        request.put(row.clone());
        if attached {
            request.emit("payment_method.attached", row);
        }
    }
}

fn declined(
    request: &mut Request,
    mut intent: PaymentIntent,
    method: &Rc<PaymentMethod>,
    refusal: Refusal,
) -> Result<Rc<PaymentIntent>, ApiError> {
    let attempt = Attempt { intent: &intent, method, authenticated: false };
    let charge = charge::refused(request, &attempt, refusal);
    let error = Decline {
        code: refusal.0.to_owned(),
        decline_code: Some(refusal.1.to_owned()),
        message: cards::message(refusal).to_owned(),
        charge: Some(charge.id.clone()),
        payment_method: Some(method.id.clone()),
        kind: "card_error".to_owned(),
    };
    intent.latest_charge = Some(charge.id.clone());
    request.emit("charge.failed", Row::Charge(charge));
    let intent = failed(request, intent, error.clone());
    Err(ApiError::declined(error).of_intent(&intent.id))
}

fn failed(request: &mut Request, mut intent: PaymentIntent, error: Decline) -> Rc<PaymentIntent> {
    intent.status = Status::RequiresPaymentMethod;
    intent.payment_method = None;
    intent.challenge = None;
    intent.last_error = Some(error);
    let intent = Rc::new(intent);
    request.put(Row::PaymentIntent(intent.clone()));
    request.emit("payment_intent.payment_failed", Row::PaymentIntent(intent.clone()));
    intent
}
