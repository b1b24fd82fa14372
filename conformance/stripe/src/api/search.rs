//! `GET /v1/payment_intents/search`, whose index lags behind.

use serde_json::{Value, json};

use super::payment_intent::PaymentIntent;
use crate::error::ApiError;
use crate::request::Request;

const LIMIT_DEFAULT: i64 = 10;
const LIMIT_MAX: i64 = 100;

/// One clause: `status:'succeeded'`, `metadata['order']:'7'`, `created>=1700000000`.
struct Clause<'a> {
    field: &'a str,
    operator: &'a str,
    value: &'a str,
}

/// Clauses joined by AND; the fake has neither OR nor negation.
fn parse(query: &str) -> Option<Vec<Clause<'_>>> {
    query.split(" AND ").map(|it| clause(it.trim())).collect()
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let at = match text.find(']') {
        Some(bracket) => bracket + 1,
        None => text.find([':', '<', '>'])?,
    };
    let (field, rest) = text.split_at(at);
    let operator = [">=", "<=", ":", ">", "<"].into_iter().find(|it| rest.starts_with(it))?;
    let value = &rest[operator.len()..];
    let quoted = ['\'', '"'].into_iter().find_map(|it| value.strip_prefix(it)?.strip_suffix(it));
    Some(Clause { field, operator, value: quoted.unwrap_or(value) })
}

impl Clause<'_> {
    /// `None` for a field or an operator that search does not have.
    fn holds(&self, intent: &PaymentIntent) -> Option<bool> {
        let number = |found: i64| {
            let bound: i64 = self.value.parse().ok()?;
            Some(match self.operator {
                ":" => found == bound,
                ">" => found > bound,
                ">=" => found >= bound,
                "<" => found < bound,
                _ => found <= bound,
            })
        };
        let text =
            |found: Option<&str>| (self.operator == ":").then_some(found == Some(self.value));
        match self.field {
            "amount" => number(intent.amount),
            "created" => number(intent.created),
            "currency" => text(Some(&intent.currency)),
            "customer" => text(intent.customer.as_deref()),
            "status" => text(Some(intent.status.name())),
            field => {
                let key =
                    field.strip_prefix("metadata[")?.strip_suffix(']')?.trim_matches(['\'', '"']);
                text(intent.metadata.get(key).map(String::as_str))
            }
        }
    }
}

pub fn payment_intents(request: &mut Request) -> Result<Value, ApiError> {
    let params = request.params;
    params.only(&["limit", "page", "query"])?;
    let query = params.required("query")?;
    let refused = || {
        ApiError::invalid("query", format!("We were unable to parse your search query: {query}"))
    };
    let clauses = parse(query).ok_or_else(refused)?;
    let limit = params.integer("limit")?.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX) as usize;
    let skip = params.text("page").map_or(Ok(0), |it| it.parse().map_err(|_| refused()))?;
    let account = &*request.account;
    let mut found = Vec::new();
    for intent in account.payment_intents.all().rev().filter(|it| it.indexed_at <= request.now) {
        let holds: Option<Vec<bool>> = clauses.iter().map(|it| it.holds(intent)).collect();
        if holds.ok_or_else(refused)?.iter().all(|it| *it) {
            found.push(intent);
        }
        if found.len() > skip + limit {
            break;
        }
    }
    let has_more = found.len() > skip + limit;
    let data: Vec<Value> =
        found.into_iter().skip(skip).take(limit).map(|it| it.render(account)).collect();
    Ok(json!({
        "object": "search_result",
        "url": "/v1/payment_intents/search",
        "has_more": has_more,
        "next_page": has_more.then(|| (skip + limit).to_string()),
        "data": data,
    }))
}
