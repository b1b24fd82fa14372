//! Payment methods: cards, made of test tokens and of test payment methods.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::account::{Account, Row};
use crate::cards::{self, TestCard};
use crate::collection::{List, Object};
use crate::error::{ApiError, Decline};
use crate::ids::Id;
use crate::params::{Metadata, Params};
use crate::request::Request;

#[derive(Clone, Serialize, Deserialize)]
pub struct PaymentMethod {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    /// The name of the test card.
    pub card: String,
    pub customer: Option<Id>,
    /// It was used without a customer or taken from one, and may not be used again.
    pub spent: bool,
    /// The customer passed a challenge for payments without the customer.
    pub set_up: bool,
    pub billing: Billing,
    pub metadata: Metadata,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Billing {
    pub email: Option<String>,
    pub name: Option<String>,
    pub phone: Option<String>,
    /// In the order of `ADDRESS`.
    pub address: [Option<String>; ADDRESS.len()],
}

const ADDRESS: [&str; 6] = ["city", "country", "line1", "line2", "postal_code", "state"];

impl Billing {
    fn of(params: &Params, prefix: &str) -> Billing {
        let text = |name: &str| params.owned(&format!("{prefix}[{name}]"));
        let address = ADDRESS.map(|it| params.owned(&format!("{prefix}[address][{it}]")));
        Billing { email: text("email"), name: text("name"), phone: text("phone"), address }
    }

    pub fn render(&self) -> Value {
        let address: serde_json::Map<String, Value> = ADDRESS
            .iter()
            .zip(&self.address)
            .map(|(name, it)| ((*name).to_owned(), json!(it)))
            .collect();
        json!({ "address": address, "email": self.email, "name": self.name, "phone": self.phone, "tax_id": null })
    }
}

impl Object for PaymentMethod {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, self.customer.as_ref())
    }
}

impl PaymentMethod {
    pub fn card(&self) -> &'static TestCard {
        cards::named(&self.card).expect("only cards of the table are written")
    }

    pub fn render(&self, account: &Account) -> Value {
        let card = self.card();
        json!({
            "id": self.id,
            "object": "payment_method",
            "allow_redisplay": "unspecified",
            "billing_details": self.billing.render(),
            "card": {
                "brand": card.brand,
                "checks": { "address_line1_check": null, "address_postal_code_check": null, "cvc_check": "pass" },
                "country": card.country,
                "display_brand": card.brand,
                "exp_month": EXP_MONTH,
                "exp_year": EXP_YEAR,
                "fingerprint": fingerprint(card),
                "funding": card.funding,
                "generated_from": null,
                "last4": card.last4,
                "networks": { "available": [card.brand], "preferred": null },
                "regulated_status": "unregulated",
                "three_d_secure_usage": { "supported": true },
                "wallet": null,
            },
            "created": self.created,
            "customer": self.customer,
            "customer_account": null,
            "livemode": account.livemode,
            "metadata": self.metadata,
            "type": "card",
        })
    }
}

pub const EXP_MONTH: u8 = 12;
pub const EXP_YEAR: u16 = 2034;

/// The same for the same card, as Stripe's is.
pub fn fingerprint(card: &TestCard) -> String {
    format!(
        "{:A<16}",
        card.name.chars().filter(char::is_ascii_alphanumeric).take(16).collect::<String>()
    )
}

pub fn create(request: &mut Request) -> Result<Value, ApiError> {
    request.params.only(&["allow_redisplay", "billing_details", "card", "metadata", "type"])?;
    let metadata = request.params.metadata()?;
    let method = of_params(request, "", metadata)?;
    Ok(method.render(request.account))
}

/// Makes a card of `PREFIX[card][token]`; of `card[token]` with no prefix.
pub fn of_params(
    request: &mut Request,
    prefix: &str,
    metadata: Metadata,
) -> Result<Rc<PaymentMethod>, ApiError> {
    let name = |it: &str| match (prefix, it.split_once('[')) {
        ("", _) => it.to_owned(),
        (_, None) => format!("{prefix}[{it}]"),
        (_, Some((top, rest))) => format!("{prefix}[{top}][{rest}"),
    };
    let kind = request.params.required(&name("type"))?;
    if kind != "card" {
        return Err(ApiError::invalid(
            &name("type"),
            format!("The fake has no payment method of the type {kind}"),
        ));
    }
    if request.params.text(&name("card[number]")).is_some() {
        let message = "Sending credit card numbers directly to the Stripe API is generally unsafe. Use a test token.";
        return Err(ApiError::invalid(&name("card[number]"), message));
    }
    let token = request.params.required(&name("card[token]"))?;
    let card = cards::find(token).filter(|_| token.starts_with("tok_"));
    let card = card.ok_or_else(|| ApiError {
        status: 400,
        ..ApiError::not_found("token", &name("card[token]"), token)
    })?;
    let billing = Billing::of(request.params, &name("billing_details"));
    Ok(make(request, card, billing, metadata))
}

fn make(
    request: &mut Request,
    card: &TestCard,
    billing: Billing,
    metadata: Metadata,
) -> Rc<PaymentMethod> {
    let (id, number) = request.next("pm_1");
    let method = Rc::new(PaymentMethod {
        id,
        number,
        created: request.now,
        card: card.name.to_owned(),
        customer: None,
        spent: false,
        set_up: false,
        billing,
        metadata,
    });
    request.put(Row::PaymentMethod(method.clone()));
    method
}

/// The payment method of an id; a test payment method makes a new one, as at Stripe.
pub fn of_id(request: &mut Request, id: &str, param: &str) -> Result<Rc<PaymentMethod>, ApiError> {
    if let Some(method) = request.account.payment_methods.get(id) {
        return Ok(method.clone());
    }
    if let Some(card) = cards::find(id).filter(|_| id.starts_with("pm_card_")) {
        return Ok(make(request, card, Billing::default(), Metadata::new()));
    }
    Err(ApiError::not_found("PaymentMethod", param, id))
}

/// A test payment method makes a new one here too.
pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let method = of_id(request, id, "payment_method")?;
    Ok(method.render(request.account))
}

pub fn update(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&["metadata"])?;
    let mut method = (*of_id(request, id, "payment_method")?).clone();
    request.params.merge_metadata(&mut method.metadata)?;
    let row = Row::PaymentMethod(Rc::new(method));
    request.put(row.clone());
    Ok(request.account.render(&row))
}

pub fn attach(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&["customer"])?;
    request.params.required("customer")?;
    let customer = request.customer()?.ok_or_else(|| ApiError::missing("customer"))?;
    let method = attach_to(request, id, &customer)?;
    Ok(method.render(request.account))
}

pub fn attach_to(
    request: &mut Request,
    id: &str,
    customer: &Id,
) -> Result<Rc<PaymentMethod>, ApiError> {
    let method = of_id(request, id, "payment_method")?;
    if method.customer.as_ref() == Some(customer) {
        return Ok(method);
    }
    if method.customer.is_some() {
        return Err(ApiError::state(
            "payment_method_unexpected_state",
            "The payment method you provided has already been attached to a customer.",
        ));
    }
    usable(&method)?;
    let card = method.card();
    if let Some(refusal) = card.declines.filter(|_| card.declines_attaching) {
        return Err(ApiError::declined(Decline {
            code: refusal.0.to_owned(),
            decline_code: Some(refusal.1.to_owned()),
            message: cards::message(refusal).to_owned(),
            charge: None,
            payment_method: None,
            kind: "card_error".to_owned(),
        }));
    }
    let method = Rc::new(PaymentMethod { customer: Some(customer.clone()), ..(*method).clone() });
    request.put(Row::PaymentMethod(method.clone()));
    request.emit("payment_method.attached", Row::PaymentMethod(method.clone()));
    Ok(method)
}

pub fn usable(method: &PaymentMethod) -> Result<(), ApiError> {
    if method.spent {
        let message = "This PaymentMethod was previously used without being attached to a Customer or was detached from a Customer, and may not be used again.";
        return Err(ApiError::state("payment_method_unexpected_state", message));
    }
    Ok(())
}

pub fn detach(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(&[])?;
    let found = request.account.payment_methods.get(id).cloned();
    let method = found.ok_or_else(|| ApiError::not_found("PaymentMethod", "payment_method", id))?;
    if method.customer.is_none() {
        let message = "The payment method you provided is not attached to a customer so detachment is impossible.";
        return Err(ApiError::state("payment_method_unexpected_state", message));
    }
    let row = Row::PaymentMethod(detach_one(request, &method));
    Ok(request.account.render(&row))
}

pub fn detach_one(request: &mut Request, method: &PaymentMethod) -> Rc<PaymentMethod> {
    let method = Rc::new(PaymentMethod { customer: None, spent: true, ..method.clone() });
    request.put(Row::PaymentMethod(method.clone()));
    request.emit("payment_method.detached", Row::PaymentMethod(method.clone()));
    method
}

/// Of a customer, in the path or as a parameter.
pub fn list(request: &mut Request, of_path: Option<&str>) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(&[
        "allow_redisplay",
        "customer",
        "ending_before",
        "limit",
        "starting_after",
        "type",
    ])?;
    let customer = of_path.or_else(|| params.text("customer"));
    if let Some(id) = customer {
        let found = request.account.customers.get(id).filter(|it| !it.deleted);
        found.ok_or_else(|| ApiError::not_found("customer", "customer", id))?;
    }
    let is_card = params.text("type").is_none_or(|it| it == "card");
    let filter = |it: &PaymentMethod| is_card && it.customer.is_some();
    let url = of_path.map_or("/v1/payment_methods".to_owned(), |id| {
        format!("/v1/customers/{id}/payment_methods")
    });
    let list = List { params, url: &url, owner: customer, filter: &filter };
    request.account.payment_methods.list(&list, |it| it.render(request.account))
}

/// `GET /v1/customers/{customer}/payment_methods/{id}`.
pub fn retrieve_of(request: &mut Request, customer: &str, id: &str) -> Result<Value, ApiError> {
    let found = request.account.payment_methods.get(id);
    let found = found.filter(|it| it.customer.as_deref() == Some(customer));
    let method = found.ok_or_else(|| ApiError::not_found("PaymentMethod", "payment_method", id))?;
    Ok(method.render(request.account))
}
