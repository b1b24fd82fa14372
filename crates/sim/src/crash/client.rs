//! A client: opens accounts, pays, captures, refunds, buys, uses limits, and insists on an answer to each key.

mod buying;
mod metering;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{Connection, Identity, Request, Response};
use super::journal::{Combo, Journal, Operation, Reported};
use super::shop::Shared;
use crate::ask::{Kind, decimal, minor};
use crate::random::Random;

/// How long a client insists on an answer to one key.
const INSIST: Duration = Duration::from_secs(90);

/// How long a client waits before it tries again.
const PAUSE: Duration = Duration::from_millis(25);

/// The gateway that is called.
pub const SIMULATOR: &str = "faregate-simulator";

/// Names the control plugin, without which no failure is retried.
const CONTROL: &str = "controlPluginName=faregate-rules";

/// The gateway that settles at once.
const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";

/// The kinds that start a payment.
const STARTS: [Kind; 3] = [Kind::Purchase, Kind::Authorize, Kind::Credit];

/// A client with a connection of its own.
pub struct Client {
    name: String,
    identity: Identity,
    connection: Connection,
    journal: Arc<Journal>,
    random: Random,
    stop: Arc<AtomicBool>,
    /// The accounts that all clients use.
    shared: Vec<Shared>,
    made: u64,
    /// How many requests that change something may have reached the server.
    sent: usize,
}

/// How an operation ended, as far as the client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Worked,
    Failed,
    GaveUp,
}

/// A payment that a client goes on with.
struct Payment {
    id: String,
    key: String,
    is_called: bool,
}

impl Client {
    /// A client that stops when `stop` says so.
    #[must_use]
    pub fn new(
        (name, random): (String, Random),
        (identity, shared): (Identity, Vec<Shared>),
        connection: Connection,
        journal: Arc<Journal>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self { name, identity, connection, journal, random, stop, shared, made: 0, sent: 0 }
    }

    /// Works until it is stopped; what it has begun it brings to an end.
    pub fn work(&mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            // A story that cannot go on is over; the next one begins.
            let _told: Option<()> = self.story();
        }
    }

    /// One customer: an account, a method, a payment, and what follows on it.
    fn story(&mut self) -> Option<()> {
        match self.random.below(100) {
            0..=13 => self.pay_with_retries(),
            14..=38 => self.buy_some(),
            39..=58 => self.use_limits(),
            _ => self.pay_some(),
        }
    }

    /// A customer who pays, and what follows on the payments.
    fn pay_some(&mut self) -> Option<()> {
        let is_called = self.random.chance(650);
        if self.random.chance(300) {
            self.pay_as_new(is_called);
            return Some(());
        }
        let account = self.make_account()?;
        self.make_method(&account, if is_called { SIMULATOR } else { EXTERNAL }, "")?;
        for _ in 0..self.random.between(1, 3) {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            self.pay(&account, is_called);
        }
        Some(())
    }

    fn make_account(&mut self) -> Option<String> {
        let key = self.key("a");
        let body = json!({ "externalKey": key, "currency": "USD", "name": key }).to_string();
        let target = "/1.0/kb/accounts".to_owned();
        let by_key = format!("/1.0/kb/accounts?externalKey={key}");
        self.make(target, body, (409, 3000), (by_key, "accountId"))
    }

    fn make_method(&mut self, account: &str, gateway: &str, properties: &str) -> Option<String> {
        let key = self.key("m");
        let body = json!({
            "externalKey": key, "pluginName": gateway,
            "pluginInfo": { "properties": pairs(properties) },
        });
        let target = format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true");
        let by_key = format!("/1.0/kb/paymentMethods?externalKey={key}");
        // One external method per account: the second is refused for that before its key is.
        let taken = if gateway == EXTERNAL { 7023 } else { 7031 };
        self.make(target, body.to_string(), (400, taken), (by_key, "paymentMethodId"))
    }

    /// Makes something that has a key; where the key is taken, it was made before.
    fn make(
        &mut self,
        target: String,
        body: String,
        (taken_status, taken_code): (u16, i64),
        (by_key, id): (String, &str),
    ) -> Option<String> {
        let request = self.identity.request("POST", target, body);
        let request = self.repeatable(request);
        let response = self.insist(&request)?;
        let code = response.json()["code"].as_i64();
        match response.status {
            201 => response.made(),
            status if (status, code) == (taken_status, Some(taken_code)) => {
                let request = self.identity.request("GET", by_key, String::new());
                let found = self.insist(&request)?;
                found.json()[id].as_str().map(str::to_owned)
            }
            _ => {
                self.unexpected(&request, &response);
                None
            }
        }
    }

    /// A payment and what follows on it.
    fn pay(&mut self, account: &str, is_called: bool) {
        let (operation, body) = self.start(&STARTS, is_called);
        let target = format!("/1.0/kb/accounts/{account}/payments?{}", self.behaviour(is_called));
        let request = self.identity.request("POST", target, body.to_string());
        self.begin(&operation, request);
    }

    /// A combo payment of a new account with a new method, and what follows on it.
    fn pay_as_new(&mut self, is_called: bool) {
        let (mut operation, mut body) = self.start(&STARTS, is_called);
        let properties = self.properties(is_called);
        self.extend_to_combo(&mut operation, &mut body, "");
        body["transactionPluginProperties"] = pairs(&properties);
        let target = "/1.0/kb/payments/combo".to_owned();
        let request = self.identity.request("POST", target, body.to_string());
        self.begin(&operation, request);
    }

    /// A controlled payment whose method fails, so that it is retried. Half of the customers get a method that
    /// works, and the retry takes it.
    fn pay_with_retries(&mut self) -> Option<()> {
        let (mut operation, mut body) = self.start(&[Kind::Purchase, Kind::Authorize], true);
        operation.is_retried = true;
        let failing = self.failing();
        let target = if self.random.chance(500) {
            self.extend_to_combo(&mut operation, &mut body, &failing);
            format!("/1.0/kb/payments/combo?{CONTROL}")
        } else {
            let account = self.make_account()?;
            self.make_method(&account, SIMULATOR, &failing)?;
            format!("/1.0/kb/accounts/{account}/payments?{CONTROL}")
        };
        let request = self.identity.request("POST", target, body.to_string());
        if self.perform(&operation, request) == Ended::Failed && self.random.chance(500) {
            self.replace_method(&operation.payment_key)?;
        }
        Some(())
    }

    /// Gives the account of a payment another method, which works, and deletes the one that was charged.
    fn replace_method(&mut self, payment_key: &str) -> Option<()> {
        let target = format!("/1.0/kb/payments?externalKey={payment_key}");
        let payment = self.insist(&self.identity.request("GET", target, String::new()))?.json();
        let [account, failing] = ["accountId", "paymentMethodId"].map(|id| payment[id].as_str());
        self.make_method(account?, SIMULATOR, "")?;
        let target = format!("/1.0/kb/paymentMethods/{}", failing?);
        let request = self.identity.request("DELETE", target, String::new());
        let response = self.insist(&request)?;
        // 404: it was deleted, and the answer was lost.
        if !matches!(response.status, 204 | 404) {
            self.unexpected(&request, &response);
        }
        Some(())
    }

    /// Makes the body of a payment that of a combo payment of a new account with a new method.
    fn extend_to_combo(&mut self, operation: &mut Operation, body: &mut Value, of_method: &str) {
        let (account_key, method_key) = (self.key("a"), self.key("m"));
        let gateway = if operation.is_called { SIMULATOR } else { EXTERNAL };
        let method = json!({
            "externalKey": method_key, "pluginName": gateway,
            "pluginInfo": { "properties": pairs(of_method) },
        });
        *body = json!({
            "account": { "externalKey": account_key, "currency": "USD", "name": account_key },
            "paymentMethod": method,
            "transaction": body.take(),
        });
        operation.combo = Some(Combo { account_key, method_key });
    }

    /// An operation that starts a payment, of one of these kinds, with the body of its request.
    fn start(&mut self, kinds: &[Kind], is_called: bool) -> (Operation, Value) {
        let kind = *self.random.pick(kinds);
        let amount = self.random.between(100, 50_000);
        let payment_key = self.key("p");
        let operation = self.operation((kind, Some(amount)), &payment_key, is_called);
        let body = json!({
            "transactionType": name(kind), "amount": decimal(amount, "USD"), "currency": "USD",
            "paymentExternalKey": payment_key, "transactionExternalKey": operation.key,
        });
        (operation, body)
    }

    /// Starts a payment and goes on with it.
    fn begin(&mut self, operation: &Operation, request: Request) {
        if self.perform(operation, request) != Ended::Worked {
            return;
        }
        let Operation { payment_key, kind, minor, is_called, .. } = operation;
        let (kind, amount, is_called) = (*kind, minor.unwrap_or_default(), *is_called);
        let target = format!("/1.0/kb/payments?externalKey={payment_key}");
        let found = self.insist(&self.identity.request("GET", target, String::new()));
        let id = found.and_then(|it| it.json()["paymentId"].as_str().map(str::to_owned));
        let Some(id) = id else { return };
        let payment = Payment { id, key: payment_key.clone(), is_called };
        match kind {
            Kind::Authorize if self.random.chance(200) => {
                self.follow(&payment, Kind::Void, 0);
            }
            Kind::Authorize => {
                let part = self.random.between(1, amount);
                let first = self.follow(&payment, Kind::Capture, part);
                let second = self.follow(&payment, Kind::Capture, amount - part);
                let returned = self.random.between(0, first + second);
                self.follow(&payment, Kind::Refund, returned);
            }
            Kind::Purchase if self.random.chance(600) => {
                let part = self.random.between(1, amount);
                self.follow(&payment, Kind::Refund, part);
                self.follow(&payment, Kind::Chargeback, amount - part);
            }
            Kind::Purchase
            | Kind::Credit
            | Kind::Capture
            | Kind::Refund
            | Kind::Void
            | Kind::Chargeback
            | Kind::Reversal => {}
        }
    }

    /// Goes on with a payment; gives how much of it worked.
    fn follow(&mut self, payment: &Payment, kind: Kind, amount: i64) -> i64 {
        if kind != Kind::Void && amount <= 0 {
            return 0;
        }
        let minor = Some(amount).filter(|_| kind != Kind::Void);
        let is_called = payment.is_called && kind != Kind::Chargeback;
        let operation = self.operation((kind, minor), &payment.key, is_called);
        let (method, path) = match kind {
            Kind::Refund => ("POST", "/refunds"),
            Kind::Chargeback => ("POST", "/chargebacks"),
            Kind::Void => ("DELETE", ""),
            Kind::Capture | Kind::Authorize | Kind::Purchase | Kind::Credit | Kind::Reversal => {
                ("POST", "")
            }
        };
        let mut body = json!({ "transactionExternalKey": operation.key });
        if let Some(minor) = minor {
            body["amount"] = Value::from(decimal(minor, "USD"));
            body["currency"] = Value::from("USD");
        }
        let behaviour = self.behaviour(is_called);
        let target = format!("/1.0/kb/payments/{}{path}?{behaviour}", payment.id);
        let request = self.identity.request(method, target, body.to_string());
        if self.perform(&operation, request) == Ended::Worked { amount } else { 0 }
    }

    /// The behaviour of the simulated gateway for a call, as the query of a request.
    fn behaviour(&mut self, is_called: bool) -> String {
        let properties = self.properties(is_called);
        let pairs = properties.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| format!("pluginProperty={}", pair.replace('=', "%3D")));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// The behaviour of the simulated gateway for a call, as `name=value` pairs; mostly the right one, and empty
    /// where no gateway is called.
    fn properties(&mut self, is_called: bool) -> String {
        if !is_called {
            return String::new();
        }
        let (late, delay) = (self.random.between(50, 1_500), self.random.between(0, 300));
        match self.random.below(100) {
            0..=54 => format!("delayMs={delay}"),
            55..=62 => format!("delayMs={delay}&chargeAfterMs={delay}"),
            63..=69 => format!("outcome=ERROR&delayMs={delay}"),
            70..=72 => "outcome=CANCELED".to_owned(),
            73..=80 => format!("outcome=PENDING&lateMs={late}"),
            81..=86 => "lostAnswer=true".to_owned(),
            87..=89 => format!("outcome=UNDEFINED&lateMs={late}"),
            90..=92 => "outcome=TIMEOUT".to_owned(),
            93..=95 => "outcome=EXCEPTION&truth=PROCESSED".to_owned(),
            _ => "duplicate=true".to_owned(),
        }
    }

    /// The behaviour of the simulated gateway for each call with a method that fails: some failures are known at
    /// once, some late, and some are never reported.
    fn failing(&mut self) -> String {
        // Longer than it takes until the next day, when a retry would be due.
        let (late, delay) = (self.random.between(50, 4_000), self.random.between(0, 300));
        match self.random.below(100) {
            0..=39 => format!("outcome=ERROR&delayMs={delay}"),
            40..=54 => format!("outcome=CANCELED&delayMs={delay}"),
            55..=64 => "outcome=ERROR&lostAnswer=true".to_owned(),
            65..=79 => format!("outcome=UNDEFINED&lateMs={late}&truth=ERROR"),
            80..=94 => format!("outcome=PENDING&lateMs={late}&truth=ERROR"),
            _ => "outcome=TIMEOUT".to_owned(),
        }
    }

    /// Asks for an operation until it is known how it ended.
    fn perform(&mut self, operation: &Operation, request: Request) -> Ended {
        self.journal.asks(operation);
        let sent_before = self.sent;
        let ended = self.decide(operation, request);
        self.journal.sent(&operation.key, self.sent - sent_before);
        ended
    }

    fn decide(&mut self, operation: &Operation, request: Request) -> Ended {
        let request = self.repeatable(request);
        let until = Instant::now() + INSIST;
        while Instant::now() < until {
            let Some(response) = self.insist(&request) else { return Ended::GaveUp };
            let code = response.json()["code"].as_i64();
            match (response.status, code) {
                (201 | 204, _) => {
                    self.journal.report(&operation.key, Reported::Accepted);
                    return self.outcome(operation, until);
                }
                (402 | 502, _) => {
                    self.journal.report(&operation.key, Reported::Failed);
                    return Ended::Failed;
                }
                // The key has succeeded: an answer to it was lost.
                (400, Some(7030)) => {
                    self.journal.report(&operation.key, Reported::Worked);
                    return Ended::Worked;
                }
                // In doubt: now the gateway is asked.
                (503, _) if response.location.is_some() => return self.outcome(operation, until),
                (504, _) | (400, Some(7199)) | (500, Some(7019)) => {
                    return self.outcome(operation, until);
                }
                (400, Some(7032)) => return self.outcome(operation, until),
                // The same idempotency key runs, or is in doubt.
                (409, _) | (503, _) => std::thread::sleep(PAUSE),
                _ => {
                    self.unexpected(&request, &response);
                    return Ended::GaveUp;
                }
            }
        }
        self.journal.unexpected(format!("{} was never decided", operation.key));
        Ended::GaveUp
    }

    /// Reads the payment until the outcome of a key is known.
    fn outcome(&mut self, operation: &Operation, until: Instant) -> Ended {
        let key = &operation.key;
        let target =
            format!("/1.0/kb/payments?externalKey={}&withPluginInfo=true", operation.payment_key);
        let request = self.identity.request("GET", target, String::new());
        while Instant::now() < until {
            let Some(response) = self.insist(&request) else { return Ended::GaveUp };
            let payment = response.json();
            match status_of(&payment, key, operation.kind) {
                Some("SUCCESS") => {
                    self.journal.report(key, Reported::Worked);
                    return Ended::Worked;
                }
                Some("PAYMENT_FAILURE" | "PLUGIN_FAILURE") => {
                    self.journal.report(key, Reported::Failed);
                    return Ended::Failed;
                }
                // Refused without a trace: another operation was in doubt, or came first.
                None if response.status == 200 => return Ended::Failed,
                Some(_) | None => std::thread::sleep(PAUSE),
            }
        }
        self.journal.unexpected(format!("{key} is open after {INSIST:?}"));
        Ended::GaveUp
    }

    /// Sends a request until it is answered: a request with an idempotency key may be sent as often as it takes.
    fn insist(&mut self, request: &Request) -> Option<Response> {
        let until = Instant::now() + INSIST;
        while Instant::now() < until {
            let answered = self.connection.send(request);
            let refused = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
            if request.method != "GET" && !answered.as_ref().is_err_and(refused) {
                self.sent += 1;
            }
            match answered {
                Ok(response) => {
                    self.journal.replied();
                    return Some(response);
                }
                Err(_) => {
                    self.journal.resent();
                    std::thread::sleep(PAUSE);
                }
            }
        }
        self.journal.unexpected(format!("{} {}: no answer", request.method, request.target));
        None
    }

    /// Gives half of the requests an idempotency key; the others rely on their own keys.
    fn repeatable(&mut self, mut request: Request) -> Request {
        if self.random.chance(500) {
            let key = format!("{}-{}-{:x}", self.name, self.made, self.random.draw());
            request.headers.push(("Idempotency-Key", key));
        }
        request
    }

    fn operation(
        &mut self,
        (kind, minor): (Kind, Option<i64>),
        payment_key: &str,
        is_called: bool,
    ) -> Operation {
        let (payment_key, key) = (payment_key.to_owned(), self.key("t"));
        let (combo, is_retried) = (None, false);
        Operation { payment_key, key, kind, minor, is_called, combo, is_retried }
    }

    fn key(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{what}-{}-{}", self.name, self.made)
    }

    fn unexpected(&self, request: &Request, response: &Response) {
        let body = String::from_utf8_lossy(&response.body).into_owned();
        let Request { method, target, body: asked, .. } = request;
        self.journal.unexpected(format!("{method} {target} {asked}: {} {body}", response.status));
    }
}

/// Properties that are written `key=value&key=value`.
fn pairs_of(properties: &str) -> impl Iterator<Item = (&str, &str)> {
    properties.split('&').filter_map(|pair| pair.split_once('='))
}

/// The same, as JSON.
fn pairs(properties: &str) -> Value {
    pairs_of(properties).map(|(key, value)| json!({ "key": key, "value": value })).collect()
}

/// Where a payment's transaction of that key stands: the newest of them.
#[must_use]
pub fn status_of<'a>(payment: &'a Value, key: &str, kind: Kind) -> Option<&'a str> {
    let of_key = transactions(payment).filter(|it| it["transactionExternalKey"] == key);
    let of_kind = of_key.filter(|it| it["transactionType"] == name(kind));
    of_kind.last().and_then(|it| it["status"].as_str())
}

/// A payment's transactions.
pub fn transactions(payment: &Value) -> impl Iterator<Item = &Value> {
    payment["transactions"].as_array().into_iter().flatten()
}

/// An amount of an answer, in minor units.
#[must_use]
pub fn amount_of(value: &Value) -> Option<i64> {
    value.as_number().and_then(|number| minor(&number.to_string(), "USD"))
}

/// An operation as Kill Bill's API spells it.
#[must_use]
pub const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Authorize => "AUTHORIZE",
        Kind::Capture => "CAPTURE",
        Kind::Purchase => "PURCHASE",
        Kind::Refund => "REFUND",
        Kind::Credit => "CREDIT",
        Kind::Void => "VOID",
        Kind::Chargeback | Kind::Reversal => "CHARGEBACK",
    }
}
