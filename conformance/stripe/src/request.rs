//! What a route works with: the account, the parameters, the clock, and the rows that it writes.

use std::rc::Rc;

use crate::account::{Account, Row};
use crate::api::event::Event;
use crate::error::ApiError;
use crate::ids::{Id, Ids};
use crate::params::Params;

/// The request that an event was caused by.
#[derive(Clone, Default)]
pub struct Cause {
    pub request_id: String,
    pub idempotency_key: Option<String>,
}

pub struct Request<'a> {
    pub account: &'a mut Account,
    pub ids: &'a mut Ids,
    pub params: &'a Params,
    pub cause: &'a Cause,
    /// Seconds of the fake's clock.
    pub now: i64,
    /// Where a browser reaches the fake's own pages.
    pub base_url: &'a str,
    /// What was written so far, in order.
    pub rows: Vec<Row>,
}

impl Request<'_> {
    /// Writes an object's new state.
    pub fn put(&mut self, row: Row) {
        self.account.apply(&row);
        self.rows.push(row);
    }

    /// Emits an event about an object as it is now.
    pub fn emit(&mut self, kind: &'static str, object: Row) {
        let event = Event {
            id: self.ids.next("evt_"),
            number: self.ids.count,
            created: self.now,
            kind: kind.into(),
            request_id: self.cause.request_id.clone(),
            idempotency_key: self.cause.idempotency_key.clone(),
            object_id: object.id().clone(),
            object: Some(object),
        };
        self.put(Row::Event(Rc::new(event)));
    }

    /// The next id with its number in the account's order.
    pub fn next(&mut self, prefix: &str) -> (Id, u64) {
        let id = self.ids.next(prefix);
        (id, self.ids.count)
    }

    /// The customer of the parameter; refused if there is none or it was deleted.
    pub fn customer(&self) -> Result<Option<Id>, ApiError> {
        let Some(id) = self.params.text("customer").filter(|it| !it.is_empty()) else {
            return Ok(None);
        };
        let customer = self.account.customers.get(id).filter(|it| !it.deleted);
        let customer = customer.ok_or_else(|| ApiError {
            status: 400,
            ..ApiError::not_found("customer", "customer", id)
        })?;
        Ok(Some(customer.id.clone()))
    }
}
