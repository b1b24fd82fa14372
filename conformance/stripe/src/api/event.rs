//! Events: what happened to an object, with the object as it was then.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::account::{Account, Row};
use crate::collection::Object;
use crate::error::ApiError;
use crate::ids::Id;
use crate::request::Request;

/// The version of Stripe's API that the fake's answers and events have: that of the OpenAPI document in
/// the pinned module of stripe-mock.
pub const API_VERSION: &str = "2026-08-26.dahlia";

#[derive(Clone, Serialize, Deserialize)]
pub struct Event {
    pub id: Id,
    pub number: u64,
    pub created: i64,
    #[serde(rename = "type")]
    pub kind: String,
    pub request_id: String,
    pub idempotency_key: Option<String>,
    pub object_id: Id,
    /// As it was then; in the journal the last row of the id before the event.
    #[serde(skip)]
    pub object: Option<Row>,
}

impl Object for Event {
    fn facts(&self) -> (&Id, u64, i64, Option<&Id>) {
        (&self.id, self.number, self.created, None)
    }
}

impl Event {
    pub fn render(&self, account: &Account) -> Value {
        let id = Some(&self.request_id).filter(|it| !it.is_empty());
        json!({
            "id": self.id,
            "object": "event",
            "api_version": API_VERSION,
            "created": self.created,
            "data": { "object": self.object.as_ref().map(|it| account.render(it)) },
            "livemode": account.livemode,
            "pending_webhooks": account.webhook_endpoints.all().filter(|it| it.takes(&self.kind)).count(),
            "request": { "id": id, "idempotency_key": self.idempotency_key },
            "type": self.kind,
        })
    }
}

pub fn retrieve(request: &mut Request, id: &str) -> Result<Value, ApiError> {
    let found = request.account.events.iter().rev().find(|it| *it.id == *id);
    let found = found.ok_or_else(|| ApiError::not_found("event", "id", id))?;
    Ok(found.render(request.account))
}

pub fn list(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only_in_list(&["delivery_success", "type", "types"])?;
    let types = params.list("types");
    let wanted = |kind: &str| {
        let matches = |pattern: &str| {
            pattern == kind || pattern.strip_suffix('*').is_some_and(|it| kind.starts_with(it))
        };
        params.text("type").is_none_or(matches)
            && (types.is_empty() || types.iter().any(|it| matches(it)))
    };
    let list = crate::collection::List {
        params,
        url: "/v1/events",
        owner: None,
        filter: &|it: &Event| wanted(&it.kind),
    };
    let mut of_types = crate::collection::Collection::default();
    for event in request.account.events.iter() {
        of_types.put(Rc::clone(event));
    }
    of_types.list(&list, |it| it.render(request.account))
}
