//! Setup intents: a payment method is made ready for payments without the customer.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::confirm::chosen_method;
use super::payment_intent::{self, Challenge, render_automatic, render_last_error};
use super::payment_method::PaymentMethod;
use crate::account::{Account, Row};
use crate::cards::{self, Authentication};
use crate::collection::{List, Object};
use crate::error::{ApiError, Decline};
use crate::ids::Id;
use crate::params::Metadata;
use crate::request::Request;

const CREATE_TAKES: &[&str] = &[
    "automatic_payment_methods",
    "confirm",
    "customer",
    "description",
    "metadata",
    "payment_method",
    "payment_method_data",
    "payment_method_types",
    "return_url",
    "usage",
    "use_stripe_sdk",
];

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    RequiresPaymentMethod,
    RequiresConfirmation,
    RequiresAction,
    Canceled,
    Succeeded,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::RequiresPaymentMethod => "requires_payment_method",
            Status::RequiresConfirmation => "requires_confirmation",
            Status::RequiresAction => "requires_action",
            Status::Canceled => "canceled",
            Status::Succeeded => "succeeded",
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub struct SetupIntent {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    pub status: Status,
    pub customer: Option<Id>,
    pub payment_method: Option<Id>,
    pub usage: String,
    pub allow_redirects: Option<String>,
    pub client_secret: String,
    pub challenge: Option<Challenge>,
    pub last_error: Option<Decline>,
    pub cancellation_reason: Option<String>,
    pub description: Option<String>,
    pub metadata: Metadata,
}

impl Object for SetupIntent {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, self.customer.as_ref())
    }
}

impl SetupIntent {
    pub fn render(&self, account: &Account) -> Value {
        json!({
            "id": self.id,
            "object": "setup_intent",
            "allowed_payment_method_types": null,
            "application": null,
            "automatic_payment_methods": render_automatic(self.allow_redirects.as_deref()),
            "cancellation_reason": self.cancellation_reason,
            "client_secret": self.client_secret,
            "created": self.created,
            "customer": self.customer,
            "description": self.description,
            "excluded_payment_method_types": null,
            "flow_directions": null,
            "last_setup_error": self.last_error.as_ref().map(|it| render_last_error(it, account)),
            "latest_attempt": null,
            "livemode": account.livemode,
            "mandate": null,
            "metadata": self.metadata,
            "next_action": self.challenge.as_ref().map(Challenge::render),
            "on_behalf_of": null,
            "payment_method": self.payment_method,
            "payment_method_configuration_details": null,
            "payment_method_options": { "card": { "mandate_options": null, "network": null, "request_three_d_secure": "automatic" } },
            "payment_method_types": ["card"],
            "single_use_mandate": null,
            "status": self.status.name(),
            "usage": self.usage,
        })
    }

    fn unexpected(&self, verb: &str) -> ApiError {
        let message = format!(
            "This SetupIntent could not be {verb} because it has a status of {}.",
            self.status.name()
        );
        ApiError::state("setup_intent_unexpected_state", message).of_intent(&self.id)
    }

    fn check_return_url(&self, return_url: Option<&str>) -> Result<(), ApiError> {
        if self.allow_redirects.as_deref() == Some("always") && return_url.is_none() {
            let message = "This SetupIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`.";
            return Err(ApiError::request(message));
        }
        Ok(())
    }
}

pub fn create(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(CREATE_TAKES)?;
    let usage =
        params.one_of("usage", &["off_session", "on_session"])?.unwrap_or("off_session").to_owned();
    let allow_redirects = payment_intent::allow_redirects(params)?;
    let confirms = params.boolean("confirm")? == Some(true);
    if params.has("return_url") && !confirms {
        return Err(ApiError::invalid(
            "return_url",
            "The parameter `return_url` may only be used when `confirm` is true.",
        ));
    }
    let metadata = params.metadata()?;
    let customer = request.customer()?;
    let mut intent = empty(request, customer, usage, metadata);
    intent.description = params.owned("description");
    intent.allow_redirects = allow_redirects;
    if confirms {
        intent.check_return_url(params.text("return_url"))?;
    }
    let given = (intent.payment_method.as_ref(), intent.customer.as_ref());
    intent.payment_method = chosen_method(request, given)?;
    if intent.payment_method.is_some() {
        intent.status = Status::RequiresConfirmation;
    } else if confirms {
        return Err(ApiError::missing("payment_method"));
    }
    let row = Row::SetupIntent(Rc::new(intent.clone()));
    request.put(row.clone());
    request.emit("setup_intent.created", row.clone());
    if !confirms {
        return Ok(request.account.render(&row));
    }
    let intent = confirm(request, intent)?;
    Ok(intent.render(request.account))
}

/// An intent that is neither written nor confirmed.
pub fn empty(
    request: &mut Request,
    customer: Option<Id>,
    usage: String,
    metadata: Metadata,
) -> SetupIntent {
    let (id, number) = request.next("seti_1");
    SetupIntent {
        client_secret: format!("{id}_secret_{}", request.ids.secret()),
        id,
        number,
        created: request.now,
        status: Status::RequiresPaymentMethod,
        customer,
        payment_method: None,
        usage,
        allow_redirects: None,
        challenge: None,
        last_error: None,
        cancellation_reason: None,
        description: None,
        metadata,
    }
}

/// `POST /v1/setup_intents/{id}/confirm`.
pub fn confirm_one(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&[
        "payment_method",
        "payment_method_data",
        "return_url",
        "use_stripe_sdk",
    ])?;
    let mut intent = (*find(request, id)?).clone();
    match intent.status {
        Status::RequiresPaymentMethod | Status::RequiresConfirmation | Status::RequiresAction => {}
        Status::Canceled | Status::Succeeded => return Err(intent.unexpected("confirmed")),
    }
    intent.check_return_url(request.params.text("return_url"))?;
    let given = (intent.payment_method.as_ref(), intent.customer.as_ref());
    intent.payment_method = chosen_method(request, given)?;
    if intent.payment_method.is_none() {
        let message = "You cannot confirm this SetupIntent because it's missing a payment method.";
        return Err(ApiError::state("setup_intent_unexpected_state", message).of_intent(&intent.id));
    }
    let intent = confirm(request, intent)?;
    Ok(intent.render(request.account))
}

/// Asks for a challenge if the card wants one, else sets the card up.
pub fn confirm(
    request: &mut Request,
    mut intent: SetupIntent,
) -> Result<Rc<SetupIntent>, ApiError> {
    let method = method_of(request, &intent);
    match method.card().authentication {
        Authentication::Supported | Authentication::OnSession => {
            return set_up(request, intent, &method);
        }
        Authentication::Always | Authentication::UntilSetUp => {}
    }
    intent.status = Status::RequiresAction;
    intent.last_error = None;
    let url = format!(
        "{}/_fake/3ds/{}?client_secret={}",
        request.base_url, intent.id, intent.client_secret
    );
    intent.challenge = Some(Challenge { url, return_url: request.params.owned("return_url") });
    Ok(written(request, intent, "setup_intent.requires_action"))
}

pub fn challenge_ended(
    request: &mut Request,
    intent: &SetupIntent,
    passed: bool,
) -> Rc<SetupIntent> {
    let mut intent = intent.clone();
    intent.challenge = None;
    let method = method_of(request, &intent);
    if passed {
        let id = intent.id.clone();
        return match set_up(request, intent, &method) {
            Ok(intent) => intent,
            // A decline: the intent holds it.
            Err(_) => request.account.setup_intents.get(&id).expect("it was written").clone(),
        };
    }
    let error = Decline {
        code: "setup_intent_authentication_failure".to_owned(),
        decline_code: None,
        message: "We are unable to authenticate your payment method. Please choose a different payment method and try again.".to_owned(),
        charge: None,
        payment_method: Some(method.id.clone()),
        kind: "invalid_request_error".to_owned(),
    };
    failed(request, intent, error)
}

fn method_of(request: &Request, intent: &SetupIntent) -> Rc<PaymentMethod> {
    let id = intent
        .payment_method
        .as_ref()
        .expect("the caller has checked that there is a payment method");
    request.account.payment_methods.get(id).expect("an intent's payment method exists").clone()
}

fn set_up(
    request: &mut Request,
    mut intent: SetupIntent,
    method: &PaymentMethod,
) -> Result<Rc<SetupIntent>, ApiError> {
    let card = method.card();
    if let Some(refusal) = card.declines.filter(|_| card.declines_attaching) {
        let error = Decline {
            code: refusal.0.to_owned(),
            decline_code: Some(refusal.1.to_owned()),
            message: cards::message(refusal).to_owned(),
            charge: None,
            payment_method: Some(method.id.clone()),
            kind: "card_error".to_owned(),
        };
        let intent = failed(request, intent, error.clone());
        return Err(ApiError::declined(error).of_intent(&intent.id));
    }
    let attaches = method.customer.is_none() && intent.customer.is_some();
    let mut method = method.clone();
    method.customer = intent.customer.clone();
    method.set_up = true;
    let row = Row::PaymentMethod(Rc::new(method));
    request.put(row.clone());
    if attaches {
        request.emit("payment_method.attached", row);
    }
    intent.status = Status::Succeeded;
    intent.last_error = None;
    Ok(written(request, intent, "setup_intent.succeeded"))
}

fn failed(request: &mut Request, mut intent: SetupIntent, error: Decline) -> Rc<SetupIntent> {
    intent.status = Status::RequiresPaymentMethod;
    intent.payment_method = None;
    intent.last_error = Some(error);
    written(request, intent, "setup_intent.setup_failed")
}

fn written(request: &mut Request, intent: SetupIntent, event: &'static str) -> Rc<SetupIntent> {
    let intent = Rc::new(intent);
    request.put(Row::SetupIntent(intent.clone()));
    request.emit(event, Row::SetupIntent(intent.clone()));
    intent
}

fn find(request: &Request, id: &str) -> Result<Rc<SetupIntent>, ApiError> {
    let found = request.account.setup_intents.get(id);
    found.cloned().ok_or_else(|| ApiError::not_found("setupintent", "intent", id))
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    Ok(find(request, id)?.render(request.account))
}

pub fn cancel(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&["cancellation_reason"])?;
    let reason = request
        .params
        .one_of("cancellation_reason", &["abandoned", "duplicate", "requested_by_customer"])?;
    let mut intent = (*find(request, id)?).clone();
    if matches!(intent.status, Status::Succeeded | Status::Canceled) {
        return Err(intent.unexpected("canceled"));
    }
    intent.status = Status::Canceled;
    intent.challenge = None;
    intent.cancellation_reason = reason.map(str::to_owned);
    let intent = written(request, intent, "setup_intent.canceled");
    Ok(intent.render(request.account))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["customer", "payment_method"])?;
    let method = params.text("payment_method");
    let filter =
        |it: &SetupIntent| method.is_none_or(|id| it.payment_method.as_deref() == Some(id));
    let list =
        List { params, url: "/v1/setup_intents", owner: params.text("customer"), filter: &filter };
    request.account.setup_intents.list(&list, |it| it.render(request.account))
}
