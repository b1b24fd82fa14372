//! A client uses limits: it counts events, one by one and in batches, and reserves, confirms, releases, or dies.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::buying::{is_tried_again, problem};
use super::{Client, PAUSE};
use crate::crash::http::{Request, Response};
use crate::crash::journal::{Answered, Meter};
use crate::crash::shop::{CALLS, CREDITS, PACK};

/// How long a reservation is kept at most.
const TTL_S_MAX: i64 = 7_200;

/// A server that was started again shows real time until its test clock is set: days before the grant.
const NOT_YET: &str = "not-entitled";

impl Client {
    /// Uses the limit of an account of its own, or of one that all clients use.
    pub(super) fn use_limits(&mut self) -> Option<()> {
        let meter = match self.random.chance(500) {
            true => {
                let shared = self.random.pick(&self.shared).clone();
                Meter { account: shared.account, feature: CALLS, limit: shared.limit }
            }
            false => {
                let account = self.make_account()?;
                let Some(Answered::Bought(_) | Answered::Pending(_)) =
                    self.buy(&account, &PACK, false)
                else {
                    self.journal.unexpected(format!("{account} has not got its pack"));
                    return None;
                };
                Meter { account, feature: CREDITS, limit: PACK.limit(CREDITS) }
            }
        };
        self.journal.meters(&meter);
        let mut counted = vec![];
        for _ in 0..self.random.between(4, 14) {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            match self.random.below(100) {
                0..=34 => self.count_one(&meter, &mut counted)?,
                35..=54 => self.count_many(&meter, &mut counted)?,
                _ => self.reserve(&meter)?,
            }
            if self.random.chance(300) {
                self.look(&meter)?;
            }
        }
        Some(())
    }

    /// Sends until it is decided.
    fn decided(&mut self, request: &Request) -> Option<Response> {
        loop {
            let response = self.insist(request)?;
            if !is_tried_again(&response) {
                return Some(response);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// An event of this meter, sometimes one that was counted before.
    fn event(&mut self, counted: &[String]) -> (String, i64) {
        let id = match counted.is_empty() || self.random.chance(800) {
            true => self.key("e"),
            false => self.random.pick(counted).clone(),
        };
        (id, self.random.between(1, 6))
    }

    fn count_one(&mut self, meter: &Meter, counted: &mut Vec<String>) -> Option<()> {
        let (id, quantity) = self.event(counted);
        let body = json!({ "feature": meter.feature, "quantity": quantity, "eventId": id });
        let target = format!("/v1/accounts/{}/usage", meter.account);
        let request = self.identity.request("POST", target, body.to_string());
        let request = self.repeatable(request);
        let response = self.decided(&request)?;
        let shown = response.json();
        match (response.status, problem(&response).as_str()) {
            (200, _) => self.counted(meter, (&id, &shown), counted),
            (409, "event-counted") => self.counted(meter, (&id, &shown["known"]), counted),
            (409, "limit-reached") => self.is_within(meter, &shown["known"]),
            (409, NOT_YET) => {}
            _ => self.unexpected(&request, &response),
        }
        Some(())
    }

    fn count_many(&mut self, meter: &Meter, counted: &mut Vec<String>) -> Option<()> {
        let mut events: Vec<Value> = vec![];
        for _ in 0..self.random.between(2, 12) {
            let (id, quantity) = self.event(counted);
            events.push(json!({ "feature": meter.feature, "quantity": quantity, "eventId": id }));
        }
        if self.random.chance(300) {
            // One of them comes twice in the same batch, with another quantity.
            let mut again = self.random.pick(&events).clone();
            again["quantity"] = json!(7);
            events.push(again);
        }
        let target = format!("/v1/accounts/{}/usage", meter.account);
        let body = json!({ "events": events }).to_string();
        let request = self.identity.request("POST", target, body);
        let request = self.repeatable(request);
        let response = self.decided(&request)?;
        if response.status != 200 {
            self.unexpected(&request, &response);
            return Some(());
        }
        let shown = response.json();
        let answers = shown["events"].as_array().map_or(&[][..], Vec::as_slice);
        if answers.len() != events.len() {
            self.unexpected(&request, &response);
        }
        for answer in answers {
            let id = answer["eventId"].as_str().unwrap_or_default();
            let refused = answer["problem"]["type"].as_str().unwrap_or_default();
            match answer["outcome"].as_str() {
                Some("counted" | "duplicate") => {
                    self.counted(meter, (id, &answer["counted"]), counted);
                }
                Some("refused")
                    if refused.ends_with("limit-reached") || refused.ends_with(NOT_YET) => {}
                _ => self.unexpected(&request, &response),
            }
        }
        Some(())
    }

    /// Remembers that an event counts, as the answer says.
    fn counted(&mut self, meter: &Meter, (id, shown): (&str, &Value), counted: &mut Vec<String>) {
        self.is_within(meter, shown);
        match shown["quantity"].as_i64() {
            Some(quantity) => self.journal.counts(meter, id, quantity),
            None => self.journal.unexpected(format!("{id} was counted, without a quantity")),
        }
        if !counted.iter().any(|it| it == id) {
            counted.push(id.to_owned());
        }
    }

    /// Reserves a part of the limit, and confirms it, releases it, or leaves it.
    fn reserve(&mut self, meter: &Meter) -> Option<()> {
        let (quantity, ttl) = (self.random.between(1, 8), self.random.between(1, TTL_S_MAX));
        let body = json!({ "feature": meter.feature, "quantity": quantity, "ttlSeconds": ttl });
        let target = format!("/v1/accounts/{}/reservations", meter.account);
        let request = self.identity.request("POST", target.clone(), body.to_string());
        let request = self.repeatable(request);
        if self.random.chance(150) {
            // It dies before it is answered.
            self.connection.abandon(&request);
            self.journal.dies();
            return Some(());
        }
        let response = self.decided(&request)?;
        match (response.status, problem(&response).as_str()) {
            (201, _) => self.is_within(meter, &response.json()),
            (409, "limit-reached" | NOT_YET) => return Some(()),
            _ => {
                self.unexpected(&request, &response);
                return Some(());
            }
        }
        let id = response.made()?;
        let path = format!("{target}/{id}");
        match self.random.below(100) {
            0..=44 => {
                let part = Some(self.random.between(1, quantity)).filter(|_| ttl % 2 == 0);
                let body = part.map_or(String::new(), |it| json!({ "quantity": it }).to_string());
                let request = self.identity.request("POST", format!("{path}/confirm"), body);
                let taken = self.settle(&path, request)?.unwrap_or(0);
                if taken != 0 && taken != part.unwrap_or(quantity) {
                    self.journal.unexpected(format!("{path} confirmed {taken} of {part:?}"));
                }
                self.journal.confirms(meter, &id, taken);
            }
            45..=64 => {
                let request =
                    self.identity.request("POST", format!("{path}/release"), String::new());
                if self.settle(&path, request)?.is_some_and(|it| it != 0) {
                    self.journal.unexpected(format!("{path} was released, and is confirmed"));
                }
            }
            _ => self.journal.dies(),
        }
        Some(())
    }

    /// Confirms or releases a reservation; gives how much of it was used, or nothing where it was over.
    fn settle(&mut self, path: &str, request: Request) -> Option<Option<i64>> {
        let request = self.repeatable(request);
        let response = self.decided(&request)?;
        match (response.status, problem(&response).as_str()) {
            (200, _) => Some(response.json()["quantity"].as_i64()),
            // It is over, or was done before, and the answer was lost.
            (409, "reservation-ended") => {
                let read = self.identity.request("GET", path.to_owned(), String::new());
                let shown = self.insist(&read)?.json();
                Some(shown["confirmed"].as_i64().filter(|_| shown["status"] == "confirmed"))
            }
            _ => {
                self.unexpected(&request, &response);
                None
            }
        }
    }

    /// Reads how much is used, while others use it too.
    fn look(&mut self, meter: &Meter) -> Option<()> {
        let target = format!("/v1/accounts/{}/entitlements/{}", meter.account, meter.feature);
        let request = self.identity.request("GET", target, String::new());
        let response = self.insist(&request)?;
        let shown = response.json();
        match response.status {
            200 if shown["reason"] == "not-granted" => {}
            200 => self.is_within(meter, &shown["usage"]),
            _ => self.unexpected(&request, &response),
        }
        Some(())
    }

    /// A limit is never passed, at no time.
    fn is_within(&mut self, meter: &Meter, level: &Value) {
        if !meter.allows(level) {
            self.journal.passes(format!("{} {}: {level}", meter.account, meter.feature));
        }
    }
}
