//! A client buys offers, and has some of the money refunded or charged back.

use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Client, EXTERNAL, INSIST, PAUSE, Payment, SIMULATOR, pairs_of};
use crate::ask::Kind;
use crate::crash::http::Response;
use crate::crash::journal::{Answered, Order};
use crate::crash::shop::{OFFERS, Offer};

impl Client {
    /// One customer who buys: an account, a method, and some offers.
    pub(super) fn buy_some(&mut self) -> Option<()> {
        let is_called = self.random.chance(700);
        let account = self.make_account()?;
        self.make_method(&account, if is_called { SIMULATOR } else { EXTERNAL }, "")?;
        let mut seen = vec![];
        for _ in 0..self.random.between(1, 4) {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            let offer = *self.random.pick(&OFFERS);
            let answered = self.buy(&account, &offer, is_called)?;
            let (Answered::Bought(purchase) | Answered::Pending(purchase)) = answered else {
                continue;
            };
            // An order without a key may be answered with an earlier purchase.
            if !seen.contains(&purchase) && self.random.chance(500) {
                self.give_back((&account, is_called), &offer, &purchase);
            }
            seen.push(purchase);
        }
        Some(())
    }

    /// Buys an offer; gives what was answered at last.
    pub(super) fn buy(
        &mut self,
        account: &str,
        offer: &Offer,
        is_called: bool,
    ) -> Option<Answered> {
        let mut body = json!({ "offer": offer.key });
        if let Some(price) = offer.price() {
            body["expectedPrice"] = price;
            let properties = self.properties(is_called);
            let pairs = pairs_of(&properties).map(|(key, it)| (key.to_owned(), Value::from(it)));
            body["properties"] = Value::Object(pairs.collect());
        }
        let target = format!("/v1/accounts/{account}/purchases");
        let mut request = self.identity.request("POST", target, body.to_string());
        let key = self.key("o");
        // What cannot be had twice is also asked for without a key.
        let has_key = offer.extends || self.random.chance(700);
        if has_key {
            request.headers.push(("Idempotency-Key", format!("{key}-{:x}", self.random.draw())));
        }
        let (account, is_called) = (account.to_owned(), is_called && offer.price.is_some());
        let (offer, sent, answered) = (offer.key, 0, None);
        let order = Order { account, offer, has_key, is_called, sent, answered };
        self.journal.orders(&key, &order);
        let before = self.sent;
        let until = Instant::now() + INSIST;
        let answered = loop {
            let response = self.insist(&request)?;
            if let Some(answered) = self.answer_to(&order, &response) {
                break Some(answered);
            }
            if !is_tried_again(&response) {
                self.unexpected(&request, &response);
                break None;
            }
            if Instant::now() > until {
                self.journal.unexpected(format!("the order {key} was never decided"));
                break None;
            }
            std::thread::sleep(PAUSE);
        };
        self.journal.ordered(&key, self.sent - before, answered.as_ref());
        answered
    }

    /// The answer to an order that a response reports; `None` where it does not decide the order.
    fn answer_to(&mut self, order: &Order, response: &Response) -> Option<Answered> {
        let id = || response.json()["purchase"]["purchaseId"].as_str().map(str::to_owned);
        match (response.status, problem(response).as_str()) {
            (201, _) => id().map(Answered::Bought),
            (202, _) => id().map(Answered::Pending),
            (402, "payment-declined") | (502, "payment-not-taken") => Some(Answered::Failed),
            // Without a key, it may be the own purchase, whose answer was lost.
            (409, "purchase-pending" | "already-bought") => Some(self.bought_already(order)),
            _ => None,
        }
    }

    /// The answer to an order that was refused as bought already: without a key, the account's own purchase of the
    /// offer, where there is one.
    fn bought_already(&mut self, order: &Order) -> Answered {
        if order.has_key {
            return Answered::Refused;
        }
        let found = self.purchases(&order.account).and_then(|all| {
            let mut own = all.into_iter().filter(|it| it["offer"] == order.offer);
            own.rfind(|it| it["status"] != "FAILED")
        });
        let id = found.and_then(|it| it["purchaseId"].as_str().map(str::to_owned));
        id.map_or(Answered::Refused, Answered::Pending)
    }

    fn purchases(&mut self, account: &str) -> Option<Vec<Value>> {
        let target = format!("/v1/accounts/{account}/purchases");
        let response = self.insist(&self.identity.request("GET", target, String::new()))?;
        response.json()["purchases"].as_array().cloned()
    }

    /// Has what was paid go back: some of it, or all.
    fn give_back(
        &mut self,
        (account, is_called): (&str, bool),
        offer: &Offer,
        purchase: &str,
    ) -> Option<()> {
        let price = offer.price?;
        let bought = self.settled(account, purchase)?;
        let id = bought["paymentId"].as_str().filter(|_| bought["status"] == "ACTIVE")?.to_owned();
        let target = format!("/1.0/kb/payments/{id}");
        let shown = self.insist(&self.identity.request("GET", target, String::new()))?.json();
        let key = shown["paymentExternalKey"].as_str()?.to_owned();
        let payment = Payment { id, key, is_called };
        let part = self.random.between(1, price);
        let first = self.follow(&payment, Kind::Refund, part);
        match self.random.below(3) {
            0 => self.follow(&payment, Kind::Refund, price - first),
            1 => self.follow(&payment, Kind::Chargeback, price - first),
            _ => 0,
        };
        Some(())
    }

    /// A purchase, once its payment is decided.
    fn settled(&mut self, account: &str, purchase: &str) -> Option<Value> {
        let target = format!("/v1/accounts/{account}/purchases/{purchase}");
        let request = self.identity.request("GET", target, String::new());
        let until = Instant::now() + INSIST;
        while Instant::now() < until {
            let response = self.insist(&request)?;
            if response.status != 200 {
                self.unexpected(&request, &response);
                return None;
            }
            let shown = response.json();
            if shown["status"] != "PENDING" {
                return Some(shown);
            }
            std::thread::sleep(PAUSE);
        }
        self.journal.unexpected(format!("the purchase {purchase} is open after {INSIST:?}"));
        None
    }
}

/// The last word of a problem's type.
pub(super) fn problem(response: &Response) -> String {
    let shown = response.json();
    let kind = shown["type"].as_str().unwrap_or_default();
    kind.rsplit(['/', ':']).next().unwrap_or_default().to_owned()
}

/// Whether the same request is to be sent again: nothing happened, or its key runs, or is in doubt.
pub(super) fn is_tried_again(response: &Response) -> bool {
    response.status == 503
        || (response.status == 409 && problem(response) == "idempotency-key-in-progress")
}
