//! The offers of the clients' tenant, and the accounts whose limit all clients use at once.

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::http::{Connection, Identity, Response};
use crate::ask::decimal;

/// The limit that is counted for ever.
pub const CREDITS: &str = "credits";

/// The limit that starts again each day.
pub const CALLS: &str = "calls";

/// How many accounts are used by all clients.
const SHARED: usize = 4;

/// The calls that one of them may make in a day.
const SHARED_LIMIT: i64 = 150;

/// When the grants of a purchase end after as much as its price went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    AtOnce,
    AtEnd,
    Never,
}

/// An offer of the tenant.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub key: &'static str,
    /// In cents of USD; none where it is free.
    pub price: Option<i64>,
    /// Its features; true where there is no number.
    pub gives: &'static [(&'static str, Option<i64>)],
    /// For so many days; for ever where there is none.
    pub days: Option<i64>,
    pub extends: bool,
    pub once: bool,
    pub on_refund: Back,
}

/// A free offer of `pro` for ever, which a refund takes back at once; the other offers are based on it.
const PLAIN: Offer = Offer {
    key: "",
    price: None,
    gives: &[("pro", None)],
    days: None,
    extends: false,
    once: false,
    on_refund: Back::AtOnce,
};

/// The free offer of a limit.
pub const PACK: Offer = Offer { key: "pack", gives: &[(CREDITS, Some(40))], ..PLAIN };

/// The offers that the tenant sells.
pub const OFFERS: [Offer; 6] = [
    Offer { key: "trial", days: Some(20), once: true, ..PLAIN },
    PACK,
    Offer {
        key: "monthly",
        price: Some(1_000),
        gives: &[("pro", None), ("seats", Some(5))],
        days: Some(30),
        extends: true,
        ..PLAIN
    },
    Offer {
        key: "for-ever",
        price: Some(2_500),
        gives: &[("pro", None), ("seats", Some(10))],
        once: true,
        ..PLAIN
    },
    Offer {
        key: "kept",
        price: Some(500),
        gives: &[("seats", Some(2))],
        days: Some(40),
        on_refund: Back::AtEnd,
        ..PLAIN
    },
    Offer { key: "gift", price: Some(300), on_refund: Back::Never, ..PLAIN },
];

/// The offer of a key.
#[must_use]
pub fn offer(key: &str) -> Option<&'static Offer> {
    OFFERS.iter().find(|it| it.key == key)
}

impl Offer {
    /// Its price, as a request or the offer has it.
    #[must_use]
    pub fn price(&self) -> Option<Value> {
        let price = |minor| json!({ "amount": decimal(minor, "USD"), "currency": "USD" });
        self.price.map(price)
    }

    /// How much of a limit it gives.
    #[must_use]
    pub fn limit(&self, feature: &str) -> i64 {
        let given = self.gives.iter().find(|(key, _)| *key == feature);
        given.and_then(|(_, value)| *value).unwrap_or(0)
    }

    fn body(&self) -> Value {
        let value = |value: Option<i64>| value.map_or(Value::Bool(true), Value::from);
        let given = self.gives.iter().map(|(key, it)| ((*key).to_owned(), value(*it)));
        let on_refund = match self.on_refund {
            Back::AtOnce => "at-once",
            Back::AtEnd => "at-end",
            Back::Never => "never",
        };
        let mut body = json!({
            "name": self.key, "features": Value::Object(given.collect()), "once": self.once,
            "again": if self.extends { "extend" } else { "refuse" },
            "onRefund": on_refund, "onChargeback": "at-once", "refundsDuplicates": true,
        });
        if let Some(price) = self.price() {
            body["price"] = price;
        }
        if let Some(days) = self.days {
            body["lasts"] = json!({ "days": days });
        }
        body
    }
}

/// An account that all clients use, with its limit of [`CALLS`].
#[derive(Clone, Debug)]
pub struct Shared {
    pub account: String,
    pub limit: i64,
}

/// Makes the features, the offers and the accounts that all clients use.
///
/// # Errors
/// Where the server refuses one of them.
pub fn open(server: &mut Connection, identity: &Identity) -> anyhow::Result<Vec<Shared>> {
    let limit = |resets: &str| {
        json!({
            "name": "limit", "kind": "limit", "unit": "units", "combine": "sum", "resets": resets,
        })
    };
    let features = [
        ("pro", json!({ "name": "pro", "kind": "switch" })),
        ("seats", limit("never")),
        (CREDITS, limit("never")),
        (CALLS, limit("day")),
    ];
    let mut send = |method, target: String, body: Value| -> anyhow::Result<Response> {
        let request = identity.request(method, target, body.to_string());
        let response = server.send(&request).context("opening the shop")?;
        if response.status != 201 {
            let body = String::from_utf8_lossy(&response.body);
            bail!("{method} {}: {} {body}", request.target, response.status);
        }
        Ok(response)
    };
    for (key, body) in features {
        send("PUT", format!("/v1/features/{key}"), body)?;
    }
    for offer in &OFFERS {
        send("PUT", format!("/v1/offers/{}", offer.key), offer.body())?;
    }
    let mut shared = vec![];
    for n in 0..SHARED {
        let body = json!({ "externalKey": format!("shared-{n}"), "currency": "USD" });
        let made = send("POST", "/1.0/kb/accounts".to_owned(), body)?;
        let id = made.made();
        let account = id.context("an account's location")?;
        let grant = json!({ "feature": CALLS, "value": SHARED_LIMIT, "reason": "test" });
        send("POST", format!("/v1/accounts/{account}/grants"), grant)?;
        shared.push(Shared { account, limit: SHARED_LIMIT });
    }
    Ok(shared)
}
