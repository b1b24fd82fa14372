//! The journal of the clients: the keys that they used, and every reply that they received.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::ask::Kind;

/// The result of an operation, as a reply reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It worked, or will.
    Accepted,
    Worked,
    /// The gateway declined, or did not take it.
    Failed,
}

/// One operation that was asked for.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The payment's external key.
    pub payment_key: String,
    /// The transaction's external key.
    pub key: String,
    pub kind: Kind,
    /// How much, in minor units; none for a void.
    pub minor: Option<i64>,
    /// Whether a gateway is called for it.
    pub is_called: bool,
    /// The keys of the account and the payment method, where it is a combo payment.
    pub combo: Option<Combo>,
    /// Whether its failures are retried.
    pub is_retried: bool,
}

/// The external keys of what a combo payment makes beside the payment.
#[derive(Clone, Debug)]
pub struct Combo {
    pub account_key: String,
    pub method_key: String,
}

/// A client's order of an offer.
#[derive(Clone, Debug)]
pub struct Order {
    pub account: String,
    /// The key of the offer.
    pub offer: &'static str,
    /// Whether its requests have an idempotency key, so that they buy once.
    pub has_key: bool,
    /// Whether a gateway is called for it.
    pub is_called: bool,
    /// How often its request may have reached the server.
    pub sent: usize,
    /// The last answer that decided it.
    pub answered: Option<Answered>,
}

/// How an order was answered, with the purchase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It is paid, or free.
    Bought(String),
    /// Its outcome was to come.
    Pending(String),
    /// The gateway declined, or did not take it.
    Failed,
    /// The account has the offer already.
    Refused,
}

/// A limit of an account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Meter {
    pub account: String,
    pub feature: &'static str,
    pub limit: i64,
}

impl Meter {
    /// Whether a level is one of this limit, and within it.
    #[must_use]
    pub fn allows(&self, level: &Value) -> bool {
        let [limit, used, reserved, left] =
            ["limit", "used", "reserved", "left"].map(|name| level[name].as_i64().unwrap_or(-1));
        let parts = [used, reserved, left];
        limit == self.limit
            && parts.iter().all(|it| *it >= 0)
            && parts.iter().sum::<i64>() == self.limit
    }
}

/// The acknowledged usage of a meter.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// The quantity of each event that was counted.
    pub events: BTreeMap<String, i64>,
    /// How much of each reservation was confirmed.
    pub confirmed: BTreeMap<String, i64>,
}

/// The journal of all clients; every line is also written to a file as it comes.
#[derive(Debug)]
pub struct Journal {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub struct Inner {
    file: File,
    /// Operations by transaction key, with what was said about them last.
    pub operations: BTreeMap<String, (Operation, Option<Reported>)>,
    /// How often the request of an operation may have reached the server, by transaction key.
    pub sent: BTreeMap<String, usize>,
    /// The orders, by their keys.
    pub orders: BTreeMap<String, Order>,
    /// The acknowledged usage of each meter.
    pub meters: BTreeMap<Meter, Used>,
    /// Levels that were shown above their limits.
    pub passed: Vec<String>,
    /// Reservations that were left by clients that died.
    pub dead: u64,
    /// Replies that are not expected.
    pub unexpected: Vec<String>,
    /// Requests that got no answer and were sent again.
    pub resent: u64,
    /// How many replies were received.
    pub replies: u64,
}

impl Journal {
    /// An empty journal.
    ///
    /// # Errors
    /// Where its file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let inner = Inner {
            file: File::create(path)?,
            operations: BTreeMap::new(),
            sent: BTreeMap::new(),
            orders: BTreeMap::new(),
            meters: BTreeMap::new(),
            passed: vec![],
            dead: 0,
            unexpected: vec![],
            resent: 0,
            replies: 0,
        };
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Remembers an operation before it is asked for.
    pub fn asks(&self, operation: &Operation) {
        let mut inner = self.lock();
        let line = json!({
            "asks": operation.key, "payment": operation.payment_key,
            "kind": format!("{:?}", operation.kind), "minor": operation.minor,
        });
        inner.write(&line);
        inner.operations.insert(operation.key.clone(), (operation.clone(), None));
    }

    /// Remembers how often an operation was asked for.
    pub fn sent(&self, key: &str, times: usize) {
        let mut inner = self.lock();
        inner.write(&json!({ "sent": key, "times": times }));
        inner.sent.insert(key.to_owned(), times);
    }

    /// Remembers what was said about an operation.
    pub fn report(&self, key: &str, reported: Reported) {
        let mut inner = self.lock();
        inner.write(&json!({ "reported": key, "as": format!("{reported:?}") }));
        if let Some((_, known)) = inner.operations.get_mut(key) {
            *known = Some(reported);
        }
    }

    /// Remembers an order before it is sent.
    pub fn orders(&self, key: &str, order: &Order) {
        let mut inner = self.lock();
        inner.write(&json!({ "orders": key, "offer": order.offer, "account": order.account }));
        inner.orders.insert(key.to_owned(), order.clone());
    }

    /// Remembers how often an order was sent, and how it was answered.
    pub fn ordered(&self, key: &str, sent: usize, answered: Option<&Answered>) {
        let mut inner = self.lock();
        let line = json!({ "ordered": key, "sent": sent, "as": format!("{answered:?}") });
        inner.write(&line);
        if let Some(order) = inner.orders.get_mut(key) {
            (order.sent, order.answered) = (sent, answered.cloned());
        }
    }

    /// Remembers a limit before it is used.
    pub fn meters(&self, meter: &Meter) {
        let mut inner = self.lock();
        inner.meters.entry(meter.clone()).or_default();
    }

    /// Remembers that an event counts. It counts once, with the same quantity each time it is acknowledged.
    pub fn counts(&self, meter: &Meter, event: &str, quantity: i64) {
        let mut inner = self.lock();
        inner.write(&json!({ "counts": event, "quantity": quantity, "account": meter.account }));
        let used = inner.meters.entry(meter.clone()).or_default();
        let known = *used.events.entry(event.to_owned()).or_insert(quantity);
        if known != quantity {
            inner.unexpected.push(format!("{event} counts {known}, then {quantity}"));
        }
    }

    /// Remembers how much of a reservation was confirmed.
    pub fn confirms(&self, meter: &Meter, reservation: &str, quantity: i64) {
        let mut inner = self.lock();
        let line = json!({ "confirms": reservation, "quantity": quantity });
        inner.write(&line);
        let used = inner.meters.entry(meter.clone()).or_default();
        used.confirmed.insert(reservation.to_owned(), quantity);
    }

    /// Remembers a level above its limit.
    pub fn passes(&self, level: String) {
        let mut inner = self.lock();
        inner.write(&json!({ "passes": level }));
        inner.passed.push(level);
    }

    /// Counts a reservation whose client died.
    pub fn dies(&self) {
        self.lock().dead += 1;
    }

    /// Remembers a reply that nobody expects.
    pub fn unexpected(&self, text: String) {
        let mut inner = self.lock();
        inner.write(&json!({ "unexpected": text }));
        inner.unexpected.push(text);
    }

    /// Counts a reply.
    pub fn replied(&self) {
        self.lock().replies += 1;
    }

    /// Counts a request that got no answer.
    pub fn resent(&self) {
        self.lock().resent += 1;
    }

    /// All of it.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, line: &Value) {
        // The file is for the analysis of a failure; the verdict is reached without it.
        drop(writeln!(self.file, "{line}"));
    }
}
