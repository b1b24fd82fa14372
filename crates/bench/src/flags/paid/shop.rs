//! The tenant of a run: its offer, its flags, its accounts, and what they buy.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::request::Identity;
use command_line::Target;

/// The flag that the offer's feature gates.
pub const FLAG: &str = "paid";

/// The offer, and its price.
const OFFER: &str = "everything";
const PRICE: &str = "10.00";

/// The ids of the segments.
const SEGMENTS: [&str; 2] =
    ["5e900000-aaaa-4d00-8000-000000000001", "5e900000-aaaa-4d00-8000-000000000002"];

/// How many accounts are made at once.
const MADE_AT_ONCE: usize = 64;

/// A tenant of this run alone.
pub struct Shop {
    target: Target,
    identity: Identity,
    timeout: Duration,
    /// Those that wait for a request.
    connections: RefCell<Vec<Connection>>,
    /// The prefix of the keys of its accounts.
    pub prefix: String,
}

/// Whether flags depend on what was bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Two of five do.
    Entitled,
    /// None does.
    Plain,
}

/// The method and the path of a request.
type Call<'a> = (&'a str, &'a str);

impl Shop {
    /// Makes the tenant, three features, an offer of all three, and five flags and two segments.
    pub async fn open(
        target: Target,
        (user, password): (&str, &str),
        sample: Sample,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let run = uuid::Uuid::now_v7().simple().to_string();
        let identity = Identity {
            user: user.to_owned(),
            password: password.to_owned(),
            api_key: run.clone(),
            api_secret: format!("secret-{run}"),
        };
        let connections = RefCell::default();
        let shop = Self { target, identity, timeout, connections, prefix: format!("{run}-") };
        let Identity { api_key, api_secret, .. } = &shop.identity;
        let tenant = json!({ "externalKey": run, "apiKey": api_key, "apiSecret": api_secret });
        shop.expect(("POST", "/1.0/kb/tenants"), &tenant).await?;
        for (key, kind) in [
            ("sso", json!({ "kind": "switch" })),
            ("seats", json!({ "kind": "limit", "unit": "seats", "combine": "sum" })),
            ("tier", json!({ "kind": "value", "type": "string" })),
        ] {
            let mut feature = kind;
            feature["name"] = json!(key);
            shop.expect(("PUT", &format!("/v1/features/{key}")), &feature).await?;
        }
        let offer = json!({
            "name": OFFER, "price": { "amount": PRICE, "currency": "USD" }, "again": "extend",
            "features": { "sso": true, "seats": 5, "tier": "gold" }, "lasts": { "months": 1 },
        });
        shop.expect(("PUT", &format!("/v1/offers/{OFFER}")), &offer).await?;
        shop.expect(("POST", "/v1/environments/dev/import"), &sample.flags()).await?;
        Ok(shop)
    }

    /// The secret of its streams.
    pub async fn secret(&self, kind: &str) -> anyhow::Result<String> {
        let listed = self.expect(("GET", "/v1/environments"), &Value::Null).await?;
        let environments = listed.as_array().into_iter().flatten();
        let dev = environments.filter(|it| it["key"] == "dev");
        let mut secrets = dev.flat_map(|it| it["secrets"].as_array().into_iter().flatten());
        let secret = secrets.find(|it| it["type"] == kind).context("dev has no such secret")?;
        Ok(secret["value"].as_str().context("a secret has a value")?.to_owned())
    }

    /// Makes accounts with a payment method each; returns their ids.
    pub async fn accounts(&self, count: u32) -> anyhow::Result<Vec<String>> {
        let made = stream::iter(0..count).map(|n| self.account(n)).buffered(MADE_AT_ONCE);
        let made: Vec<anyhow::Result<String>> = made.collect().await;
        made.into_iter().collect()
    }

    /// The key of the user of an account.
    pub fn user(&self, n: u32) -> String {
        format!("{}{n}", self.prefix)
    }

    async fn account(&self, n: u32) -> anyhow::Result<String> {
        let account = json!({ "externalKey": self.user(n), "currency": "USD" });
        let path = "/1.0/kb/accounts";
        let (status, _, location) = self.call(("POST", path), &account).await?;
        let id = location.as_deref().and_then(|it| it.trim_end_matches('/').rsplit('/').next());
        let id = id.with_context(|| format!("POST {path}: {status}"))?.to_owned();
        let path = format!("{path}/{id}/paymentMethods?isDefault=true");
        let method = json!({ "pluginName": "__EXTERNAL_PAYMENT__" });
        self.expect(("POST", &path), &method).await?;
        Ok(id)
    }

    /// Buys the offer; returns the payment.
    pub async fn buy(&self, account: &str) -> anyhow::Result<String> {
        let path = format!("/v1/accounts/{account}/purchases");
        let price = json!({ "amount": PRICE, "currency": "USD" });
        let body = json!({ "offer": OFFER, "expectedPrice": price });
        let bought = self.expect(("POST", &path), &body).await?;
        let payment = bought["payment"]["paymentId"].as_str();
        Ok(payment.context("the purchase has no payment")?.to_owned())
    }

    /// Refunds what was bought.
    pub async fn refund(&self, payment: &str) -> anyhow::Result<()> {
        let path = format!("/1.0/kb/payments/{payment}/refunds");
        self.expect(("POST", &path), &json!({ "amount": PRICE })).await.map(drop)
    }

    /// Turns a flag that depends on nothing on or off, which all streams receive.
    pub async fn switch(&self, is_enabled: bool) -> anyhow::Result<()> {
        let path = "/v1/flags/plain-0?environment=dev";
        self.expect(("PATCH", path), &json!({ "isEnabled": is_enabled })).await.map(drop)
    }

    /// Sends a request, and expects success.
    async fn expect(&self, call: Call<'_>, body: &Value) -> anyhow::Result<Value> {
        let (status, answer, _) = self.call(call, body).await?;
        let (method, path) = call;
        ensure!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        Ok(answer)
    }

    async fn call(
        &self,
        (method, path): Call<'_>,
        body: &Value,
    ) -> anyhow::Result<(u16, Value, Option<String>)> {
        let head = self.identity.head(&self.target, method, path)?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let idle = self.connections.borrow_mut().pop();
        let mut connection = Connection::reuse(idle, self.target.address, self.timeout).await?;
        let deadline = Instant::now() + self.timeout;
        let response = connection.exchange(request.as_bytes(), deadline).await?;
        let received = connection.received();
        let location = response.location.clone();
        let location = location.map(|at| String::from_utf8_lossy(&received[at]).into_owned());
        let text = response.body(received);
        let answer = serde_json::from_slice(&text).unwrap_or(Value::Null);
        if !response.close {
            self.connections.borrow_mut().push(connection);
        }
        Ok((response.status, answer, location))
    }
}

impl Sample {
    /// Five flags and two segments.
    fn flags(self) -> Value {
        let all = |id: &str| json!([{ "id": id, "rollout": [0, 1], "exptRollout": 1 }]);
        let flag = |key: &str, rules: Value, last: &str| {
            json!({
                "key": key, "name": key, "variationType": "boolean", "isEnabled": true, "rules": rules,
                "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
                "disabledVariationId": "off", "fallthrough": { "variations": all(last) },
            })
        };
        let rule = |property: &str, op: &str, value: &str| {
            json!([{ "id": "r", "name": "r", "variations": all("on"),
            "conditions": [{ "property": property, "op": op, "value": value }] }])
        };
        let mut paid = flag(FLAG, json!([]), "on");
        let is_entitled = self == Self::Entitled;
        if is_entitled {
            paid["gate"] = json!("sso");
        }
        let seats = if is_entitled { "entitled.seats" } else { "seats" };
        let segment = |id: &str| {
            json!({ "id": id, "name": id, "rules": [{ "id": "r", "name": "r",
            "conditions": [{ "property": "country", "op": "Equal", "value": "uy" }] }] })
        };
        json!({
            "featureFlags": [
                paid,
                flag("many-seats", rule(seats, "BiggerEqualThan", "5"), "off"),
                flag("plain-0", json!([]), "on"),
                flag("plain-1", rule("User is in segment", "", &json!([SEGMENTS[0]]).to_string()), "off"),
                flag("plain-2", rule("User is in segment", "", &json!([SEGMENTS[1]]).to_string()), "off"),
            ],
            "segments": SEGMENTS.map(segment),
        })
    }
}
