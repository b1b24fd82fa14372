//! Customers.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::payment_method;
use crate::account::{Account, Row};
use crate::collection::{List, Object};
use crate::error::ApiError;
use crate::ids::Id;
use crate::params::Metadata;
use crate::request::Request;

const TAKES: &[&str] =
    &["description", "email", "invoice_settings", "metadata", "name", "payment_method", "phone"];

#[derive(Clone, Serialize, Deserialize)]
pub struct Customer {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    pub deleted: bool,
    pub email: Option<String>,
    pub name: Option<String>,
    pub phone: Option<String>,
    pub description: Option<String>,
    pub default_payment_method: Option<Id>,
    pub metadata: Metadata,
}

impl Object for Customer {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, None)
    }
}

impl Customer {
    pub fn render(&self, account: &Account) -> Value {
        if self.deleted {
            return json!({ "id": self.id, "object": "customer", "deleted": true });
        }
        json!({
            "id": self.id,
            "object": "customer",
            "address": null,
            "balance": 0,
            "created": self.created,
            "currency": null,
            "default_source": null,
            "delinquent": false,
            "description": self.description,
            "discount": null,
            "email": self.email,
            "invoice_prefix": self.id[4..12].to_uppercase(),
            "invoice_settings": {
                "custom_fields": null,
                "default_payment_method": self.default_payment_method,
                "footer": null,
                "rendering_options": null,
            },
            "livemode": account.livemode,
            "metadata": self.metadata,
            "name": self.name,
            "next_invoice_sequence": 1,
            "phone": self.phone,
            "preferred_locales": [],
            "shipping": null,
            "tax_exempt": "none",
            "test_clock": null,
        })
    }
}

pub fn create(request: &mut Request) -> Result<Value, ApiError> {
    request.params.only(TAKES)?;
    let metadata = request.params.metadata()?;
    let (id, number) = request.next("cus_");
    let mut customer = Customer {
        id,
        number,
        created: request.now,
        deleted: false,
        email: None,
        name: None,
        phone: None,
        description: None,
        default_payment_method: None,
        metadata,
    };
    set(&mut customer, request);
    request.put(Row::Customer(Rc::new(customer.clone())));
    let method = request.params.text("payment_method");
    let attached = method.map(|it| payment_method::attach_to(request, it, &customer.id));
    if let Some(Err(refusal)) = attached {
        customer.deleted = true;
        request.put(Row::Customer(Rc::new(customer)));
        return Err(refusal);
    }
    let row = Row::Customer(Rc::new(customer));
    request.emit("customer.created", row.clone());
    Ok(request.account.render(&row))
}

pub fn update(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    request.params.only(TAKES)?;
    let mut customer = (*find(request, id)?).clone();
    request.params.merge_metadata(&mut customer.metadata)?;
    set(&mut customer, request);
    let row = Row::Customer(Rc::new(customer));
    request.put(row.clone());
    request.emit("customer.updated", row.clone());
    Ok(request.account.render(&row))
}

fn set(customer: &mut Customer, request: &Request) {
    let params = request.params;
    let fields = [
        ("email", &mut customer.email),
        ("name", &mut customer.name),
        ("phone", &mut customer.phone),
        ("description", &mut customer.description),
    ];
    for (name, field) in fields {
        if params.text(name).is_some() {
            *field = params.owned(name);
        }
    }
    if let Some(method) = params.text("invoice_settings[default_payment_method]") {
        customer.default_payment_method = Some(method.into()).filter(|_| !method.is_empty());
    }
}

/// A deleted customer is found too; it says that it is deleted, and no more.
pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let customer = request.account.customers.get(id);
    let customer = customer.ok_or_else(|| ApiError::not_found("customer", "id", id))?;
    Ok(customer.render(request.account))
}

/// Its payment methods can no longer be used.
pub fn delete(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let mut customer = (*find(request, id)?).clone();
    let methods: Vec<_> = request.account.payment_methods.of(id).cloned().collect();
    for method in methods {
        payment_method::detach_one(request, &method);
    }
    request.emit("customer.deleted", Row::Customer(Rc::new(customer.clone())));
    customer.deleted = true;
    let row = Row::Customer(Rc::new(customer));
    request.put(row.clone());
    Ok(request.account.render(&row))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["email"])?;
    let email = params.text("email");
    let filter =
        |it: &Customer| !it.deleted && email.is_none_or(|email| it.email.as_deref() == Some(email));
    let list = List { params, url: "/v1/customers", owner: None, filter: &filter };
    request.account.customers.list(&list, |it| it.render(request.account))
}

fn find(request: &Request, id: &str) -> Result<Rc<Customer>, ApiError> {
    let found = request.account.customers.get(id).filter(|it| !it.deleted);
    found.cloned().ok_or_else(|| ApiError::not_found("customer", "id", id))
}
