//! The table of routes, and the expansion of ids in answers.

use serde_json::{Value, json};

use super::{
    balance_transaction, charge, checkout_session, confirm, customer, dispute, event,
    payment_intent, payment_method, refund, search, setup_intent, webhook_endpoint,
};
use crate::account::Account;
use crate::error::ApiError;
use crate::request::Request;

const EXPANSIONS_DEPTH_MAX: usize = 4;

/// Performs a request, and expands in its answer what it asks for.
pub fn perform(request: &mut Request, method: &str, path: &str) -> Result<Value, ApiError> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let mut answer = match segments.as_slice() {
        ["v1", "customers" | "payment_methods", ..] => {
            methods_of_customers(request, method, &segments)?
        }
        ["v1", "payment_intents" | "charges" | "refunds", ..] => {
            payments(request, method, &segments)?
        }
        _ => others(request, method, &segments)?,
    }
    .ok_or_else(|| ApiError::no_route(method, path))?;
    for expansion in request.params.list("expand") {
        let steps: Vec<&str> = expansion.split('.').collect();
        if steps.len() > EXPANSIONS_DEPTH_MAX {
            let message =
                format!("You cannot expand more than {EXPANSIONS_DEPTH_MAX} levels of a property.");
            return Err(ApiError::invalid("expand", message));
        }
        if !expand(request.account, &mut answer, &steps) {
            let message = format!("This property cannot be expanded ({expansion}).");
            return Err(ApiError::invalid("expand", message));
        }
    }
    Ok(answer)
}

type Answer = Result<Option<Value>, ApiError>;

fn methods_of_customers(request: &mut Request, method: &str, segments: &[&str]) -> Answer {
    match (method, &segments[1..]) {
        ("POST", ["customers"]) => customer::create(request),
        ("GET", ["customers"]) => customer::list(request),
        ("GET", ["customers", id]) => customer::retrieve(request, id),
        ("POST", ["customers", id]) => customer::update(request, id),
        ("DELETE", ["customers", id]) => customer::delete(request, id),
        ("GET", ["customers", id, "payment_methods"]) => payment_method::list(request, Some(id)),
        ("GET", ["customers", id, "payment_methods", method]) => {
            payment_method::retrieve_of(request, id, method)
        }
        ("POST", ["payment_methods"]) => payment_method::create(request),
        ("GET", ["payment_methods"]) => payment_method::list(request, None),
        ("GET", ["payment_methods", id]) => payment_method::retrieve(request, id),
        ("POST", ["payment_methods", id]) => payment_method::update(request, id),
        ("POST", ["payment_methods", id, "attach"]) => payment_method::attach(request, id),
        ("POST", ["payment_methods", id, "detach"]) => payment_method::detach(request, id),
        _ => return Ok(None),
    }
    .map(Some)
}

fn payments(request: &mut Request, method: &str, segments: &[&str]) -> Answer {
    match (method, &segments[1..]) {
        ("POST", ["payment_intents"]) => payment_intent::create(request),
        ("GET", ["payment_intents"]) => payment_intent::list(request),
        ("GET", ["payment_intents", "search"]) => search::payment_intents(request),
        ("GET", ["payment_intents", id]) => payment_intent::retrieve(request, id),
        ("POST", ["payment_intents", id]) => payment_intent::update(request, id),
        ("POST", ["payment_intents", id, "confirm"]) => confirm::confirm_one(request, id),
        ("POST", ["payment_intents", id, "capture"]) => payment_intent::capture(request, id),
        ("POST", ["payment_intents", id, "cancel"]) => payment_intent::cancel(request, id),
        ("GET", ["charges"]) => charge::list(request),
        ("GET", ["charges", id]) => charge::retrieve(request, id),
        ("POST", ["refunds"]) => refund::create(request),
        ("GET", ["refunds"]) => refund::list(request),
        ("GET", ["refunds", id]) => refund::retrieve(request, id),
        ("POST", ["refunds", id]) => refund::update(request, id),
        _ => return Ok(None),
    }
    .map(Some)
}

fn others(request: &mut Request, method: &str, segments: &[&str]) -> Answer {
    match (method, segments) {
        ("GET", ["v1", "account"]) => Ok(account(request.account)),
        ("POST", ["v1", "setup_intents"]) => setup_intent::create(request),
        ("GET", ["v1", "setup_intents"]) => setup_intent::list(request),
        ("GET", ["v1", "setup_intents", id]) => setup_intent::retrieve(request, id),
        ("POST", ["v1", "setup_intents", id, "confirm"]) => setup_intent::confirm_one(request, id),
        ("POST", ["v1", "setup_intents", id, "cancel"]) => setup_intent::cancel(request, id),
        ("GET", ["v1", "disputes"]) => dispute::list(request),
        ("GET", ["v1", "disputes", id]) => dispute::retrieve(request, id),
        ("POST", ["v1", "disputes", id]) => dispute::update(request, id),
        ("POST", ["v1", "disputes", id, "close"]) => dispute::close(request, id),
        ("GET", ["v1", "balance_transactions"]) => balance_transaction::list(request),
        ("GET", ["v1", "balance_transactions", id]) => balance_transaction::retrieve(request, id),
        ("GET", ["v1", "events"]) => event::list(request),
        ("GET", ["v1", "events", id]) => event::retrieve(request, id),
        ("POST", ["v1", "webhook_endpoints"]) => webhook_endpoint::create(request),
        ("GET", ["v1", "webhook_endpoints"]) => webhook_endpoint::list(request),
        ("GET", ["v1", "webhook_endpoints", id]) => webhook_endpoint::retrieve(request, id),
        ("POST", ["v1", "webhook_endpoints", id]) => webhook_endpoint::update(request, id),
        ("DELETE", ["v1", "webhook_endpoints", id]) => webhook_endpoint::delete(request, id),
        ("POST", ["v1", "checkout", "sessions"]) => checkout_session::create(request),
        ("GET", ["v1", "checkout", "sessions"]) => checkout_session::list(request),
        ("GET", ["v1", "checkout", "sessions", id]) => checkout_session::retrieve(request, id),
        ("POST", ["v1", "checkout", "sessions", id, "expire"]) => {
            checkout_session::expire(request, id)
        }
        ("POST", ["_fake", "webhooks"]) => webhook_endpoint::create_by_test(request),
        ("POST", ["_fake", "webhooks", id]) => webhook_endpoint::rotate_by_test(request, id),
        ("POST", ["_fake", "disputes"]) => dispute::open_by_test(request),
        ("POST", ["_fake", "disputes", id]) => dispute::move_by_test(request, id),
        _ => return Ok(None),
    }
    .map(Some)
}

fn account(account: &Account) -> Value {
    json!({
        "id": account.id,
        "object": "account",
        "business_type": "company",
        "charges_enabled": true,
        "country": "US",
        "created": account.created,
        "default_currency": "usd",
        "details_submitted": true,
        "email": format!("{}@example.com", account.id),
        "metadata": {},
        "payouts_enabled": true,
        "type": "standard",
    })
}

/// Replaces the id at the end of the steps by its object; false if there can be none.
fn expand(account: &Account, value: &mut Value, steps: &[&str]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return true };
    if let Value::Array(items) = value {
        return items.iter_mut().all(|it| expand(account, it, steps));
    }
    if *step == "refunds" && value["object"] == "charge" && value.get("refunds").is_none() {
        value["refunds"] = refunds_of(account, &value["id"]);
        return true;
    }
    let Some(inner) = value.get_mut(*step) else { return false };
    if let Value::String(id) = inner {
        let Some(row) = account.find(id) else { return false };
        *inner = account.render(&row);
    }
    // Null stays null: there is nothing to expand yet.
    inner.is_null() || expand(account, inner, rest)
}

fn refunds_of(account: &Account, charge: &Value) -> Value {
    let id = charge.as_str().unwrap_or_default();
    let data: Vec<Value> = account.refunds.of(id).rev().take(10).map(|it| it.render()).collect();
    let has_more = account.refunds.of(id).count() > data.len();
    json!({ "object": "list", "url": format!("/v1/charges/{id}/refunds"), "has_more": has_more, "data": data })
}
