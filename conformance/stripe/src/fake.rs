//! The fake as a whole: its accounts, its clock, its journal. One thread owns it.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use bytes::Bytes;
use serde_json::Value;

use crate::account::{Account, Due, Row};
use crate::api::event::Event;
use crate::api::{charge, dispute, payment_intent, refund, route};
use crate::clock::Clock;
use crate::deliveries::{Deliveries, Delivery};
use crate::error::ApiError;
use crate::faults::Faults;
use crate::idempotency::{Begun, IdempotencyKeys, Stored, StoredKey};
use crate::ids::Ids;
use crate::journal::{Journal, Line};
use crate::params::Params;
use crate::request::{Cause, Request};

/// An account in one mode.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    pub name: String,
    pub livemode: bool,
}

pub struct Books {
    pub account: Account,
    pub keys: IdempotencyKeys,
}

/// A request of the API, with its account.
pub struct Call {
    pub owner: Owner,
    pub method: String,
    pub path: String,
    pub params: Params,
    pub idempotency_key: Option<String>,
    pub request_id: String,
}

pub struct Answer {
    pub status: u16,
    pub body: Bytes,
    /// The request whose answer this is, if it was stored.
    pub replayed: Option<String>,
}

pub struct Fake {
    pub books: HashMap<Owner, Books>,
    pub ids: Ids,
    pub clock: Clock,
    pub faults: Faults,
    pub journal: Journal,
    pub deliveries: Deliveries,
    pub base_url: String,
    /// Empty: any name is an account.
    pub names: Vec<String>,
    pub revoked_keys: HashSet<String>,
}

impl Fake {
    pub fn new(seed: u64, base_url: String, names: Vec<String>) -> Fake {
        Fake {
            books: HashMap::new(),
            ids: Ids::new(seed),
            clock: Clock::default(),
            faults: Faults::new(seed),
            journal: Journal::none(),
            deliveries: Deliveries::default(),
            base_url,
            names,
            revoked_keys: HashSet::new(),
        }
    }

    /// The account of a secret or restricted key: `sk_test_NAME`, `rk_live_NAME`, and whatever follows
    /// another `_`.
    pub fn authenticate(&self, key: Option<&str>) -> Result<Owner, ApiError> {
        let Some(key) = key.filter(|it| !it.is_empty()) else {
            return Err(ApiError::unauthorized(
                "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth.",
            ));
        };
        let secret = key.strip_prefix("sk_").or_else(|| key.strip_prefix("rk_"));
        let (rest, livemode) = match secret.and_then(|it| it.split_once('_')) {
            Some(("test", rest)) => (Some(rest), false),
            Some(("live", rest)) => (Some(rest), true),
            Some(_) | None => (None, false),
        };
        let name = rest.and_then(|it| it.split('_').next()).filter(|it| !it.is_empty());
        let known = |it: &&str| {
            it.bytes().all(|it| it.is_ascii_alphanumeric())
                && (self.names.is_empty() || self.names.iter().any(|name| name == it))
        };
        let shown: String =
            key.chars().rev().take(4).collect::<Vec<_>>().into_iter().rev().collect();
        let name = name.filter(known).ok_or_else(|| {
            ApiError::unauthorized(format!("Invalid API Key provided: ****{shown}"))
        })?;
        if self.revoked_keys.contains(key) {
            let message = format!("Expired API Key provided: ****{shown}");
            return Err(ApiError::unauthorized(message).coded("api_key_expired"));
        }
        Ok(Owner { name: name.to_owned(), livemode })
    }

    pub fn books(&mut self, owner: &Owner) -> &mut Books {
        self.books.entry(owner.clone()).or_insert_with(|| Books {
            account: Account::new(&owner.name, owner.livemode),
            keys: IdempotencyKeys::default(),
        })
    }

    /// Whether a request is performed, or answered with what is stored under its key.
    pub fn begin(&mut self, call: &Call) -> Result<Begun, ApiError> {
        let Some(key) = call.idempotency_key.as_deref().filter(|_| call.method == "POST") else {
            return Ok(Begun::First);
        };
        let now = self.clock.now();
        let fingerprint = fingerprint(call);
        self.books(&call.owner).keys.begin(key, fingerprint, now)
    }

    /// The request of a key has ended.
    pub fn end(&mut self, owner: &Owner, key: &str) {
        self.books(owner).keys.end(key);
    }

    /// Performs a request, writes the journal, and stores the answer under the key. `fault` is what is
    /// answered instead, after the work was done.
    pub fn perform(&mut self, call: &Call, fault: Option<ApiError>) -> Answer {
        let cause = Cause {
            request_id: call.request_id.clone(),
            idempotency_key: call.idempotency_key.clone(),
        };
        let (result, rows) = self.act(&call.owner, &call.params, &cause, |request| {
            route::perform(request, &call.method, &call.path)
        });
        // Of the errors after the work, Stripe's own failure is the key's answer; the others are only said.
        let (said, result) = match fault {
            Some(mut fault) if fault.status == 500 => {
                fault.began = true;
                (None, Err(fault))
            }
            fault => (fault, result),
        };
        let account = &self.books(&call.owner).account;
        let (status, began, value) = match &result {
            Ok(value) => (200, true, value.clone()),
            Err(error) => {
                (error.status, error.began, render_error(error, &call.request_id, account))
            }
        };
        let body = Bytes::from(serde_json::to_vec(&value).expect("a value is JSON"));
        let key = call.idempotency_key.as_ref().filter(|_| began && call.method == "POST");
        let stored = key.map(|key| {
            let stored = Stored { request_id: call.request_id.clone(), status, body: body.clone() };
            self.books(&call.owner).keys.store(key, stored);
            self.stored_key(call, key, status, &body)
        });
        self.commit(&call.owner, rows, stored);
        match said {
            Some(error) => self.refuse(Some(&call.owner), &error, &call.request_id),
            None => Answer { status, body, replayed: None },
        }
    }

    fn stored_key(&self, call: &Call, key: &str, status: u16, body: &[u8]) -> StoredKey {
        StoredKey {
            key: key.to_owned(),
            fingerprint: fingerprint(call),
            at: self.clock.now(),
            request_id: call.request_id.clone(),
            status,
            body: String::from_utf8_lossy(body).into_owned(),
        }
    }

    pub fn refuse(&mut self, owner: Option<&Owner>, error: &ApiError, request_id: &str) -> Answer {
        let value = match owner {
            Some(owner) => render_error(error, request_id, &self.books(owner).account),
            None => error.render(request_id, |_| None),
        };
        let body = Bytes::from(serde_json::to_vec(&value).expect("a value is JSON"));
        Answer { status: error.status, body, replayed: None }
    }

    /// Does something with an account, and returns the rows that it wrote; the caller commits them.
    fn act<T>(
        &mut self,
        owner: &Owner,
        params: &Params,
        cause: &Cause,
        act: impl FnOnce(&mut Request) -> T,
    ) -> (T, Vec<Row>) {
        let now = self.clock.now();
        self.books(owner);
        let books = self.books.get_mut(owner).expect("it was made");
        let mut request = Request {
            account: &mut books.account,
            ids: &mut self.ids,
            params,
            cause,
            now,
            base_url: &self.base_url,
            rows: Vec::new(),
        };
        let done = act(&mut request);
        (done, request.rows)
    }

    /// What happens without a request of the API: a page was submitted, something was due.
    pub fn act_alone<T>(
        &mut self,
        owner: &Owner,
        params: &Params,
        act: impl FnOnce(&mut Request) -> T,
    ) -> T {
        let (done, rows) = self.act(owner, params, &Cause::default(), act);
        self.commit(owner, rows, None);
        done
    }

    fn commit(&mut self, owner: &Owner, rows: Vec<Row>, stored: Option<StoredKey>) {
        if rows.is_empty() && stored.is_none() {
            return;
        }
        let line = Line {
            account: owner.name.clone(),
            livemode: owner.livemode,
            ids: self.ids.count,
            rows,
            stored,
            ..Line::default()
        };
        let number = self.journal.append(&line);
        for row in line.rows {
            if let Row::Event(event) = row {
                self.plan_deliveries(owner, &event, number);
            }
        }
    }

    fn plan_deliveries(&mut self, owner: &Owner, event: &Rc<Event>, line: u64) {
        let now_ms = self.clock.now_ms();
        let endpoints = self.books[owner].account.webhook_endpoints.all();
        for endpoint in endpoints.filter(|it| it.takes(&event.kind)) {
            for delay_ms in self.faults.sendings(&event.kind) {
                let (owner, endpoint) = (owner.clone(), endpoint.id.clone());
                let delivery =
                    Delivery { owner, endpoint, event: event.clone(), failures: 0, line };
                self.deliveries.wait(now_ms + delay_ms as i64, delivery);
            }
        }
    }

    /// Does what is due on the clock, such as refunds that settle and authorizations that expire.
    pub fn tick(&mut self) {
        let now = self.clock.now();
        let owners: Vec<Owner> = self
            .books
            .iter()
            .filter(|it| it.1.account.due.first().is_some_and(|it| it.0 <= now))
            .map(|it| it.0.clone())
            .collect();
        for owner in owners {
            while let Some((_, due)) = self.next_due(&owner, now) {
                self.act_alone(&owner, &Params::default(), |request| match &due {
                    Due::SettleRefund(id) => refund::settle(request, id),
                    Due::OpenDispute(id) => dispute::open_due(request, id),
                    Due::BookCharge(id) => charge::book_due(request, id),
                    Due::ExpireAuthorization(id) => payment_intent::expire(request, id),
                });
            }
        }
    }

    fn next_due(&mut self, owner: &Owner, now: i64) -> Option<(i64, Due)> {
        let due = &mut self.books(owner).account.due;
        if due.first()?.0 > now {
            return None;
        }
        due.pop_first()
    }

    pub fn move_clock(&mut self, change: impl FnOnce(&mut Clock)) {
        change(&mut self.clock);
        let line = Line {
            clock_offset_ms: Some(self.clock.offset_ms),
            ids: self.ids.count,
            ..Line::default()
        };
        self.journal.append(&line);
        self.tick();
    }

    pub fn revoke_key(&mut self, key: String) {
        self.journal.append(&Line {
            revoked_key: Some(key.clone()),
            ids: self.ids.count,
            ..Line::default()
        });
        self.revoked_keys.insert(key);
    }

    /// Takes over a line of the journal at the start.
    pub fn restore(&mut self, line: Line) {
        self.ids.count = self.ids.count.max(line.ids);
        self.clock.offset_ms = line.clock_offset_ms.unwrap_or(self.clock.offset_ms);
        self.revoked_keys.extend(line.revoked_key);
        self.deliveries.restore_delivered(&line.delivered);
        if line.account.is_empty() {
            return;
        }
        let owner = Owner { name: line.account, livemode: line.livemode };
        self.books(&owner);
        let books = self.books.get_mut(&owner).expect("it was made");
        for row in line.rows {
            let row = books.account.restored(row);
            books.account.apply(&row);
            if let Row::Event(event) = &row {
                self.deliveries.restore(&owner, &books.account, event);
            }
        }
        if let Some(stored) = line.stored {
            books.keys.restore(stored);
        }
    }
}

fn render_error(error: &ApiError, request_id: &str, account: &Account) -> Value {
    error.render(request_id, |id| account.find(id).map(|row| account.render(&row)))
}

/// The same for the same method, path and parameters.
fn fingerprint(call: &Call) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.method.hash(&mut hasher);
    call.path.hash(&mut hasher);
    for pair in call.params.pairs() {
        pair.hash(&mut hasher);
    }
    hasher.finish()
}
