//! Events on their way to webhook endpoints: signed, and sent again until one takes them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ring::hmac;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};
use tokio::task::spawn_local;
use tokio::time::error::Elapsed;

use crate::account::Account;
use crate::api::event::Event;
use crate::api::webhook_endpoint::WebhookEndpoint;
use crate::fake::{Fake, Owner};
use crate::ids::Id;
use crate::journal::Line;
use crate::server::Server;

const IN_FLIGHT_MAX: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(10);
/// How late what the clock makes due may be done; what is due at once is done at once.
const POLL: Duration = Duration::from_millis(50);
/// Seconds of the fake's clock before each retry; after the last one the event is given up.
const RETRIES_AFTER_S: [i64; 12] =
    [1, 5, 30, 120, 600, 3600, 7200, 14_400, 28_800, 43_200, 57_600, 86_400];

/// An event for one endpoint.
#[derive(Clone)]
pub struct Delivery {
    pub owner: Owner,
    pub endpoint: Id,
    pub event: Rc<Event>,
    /// How often it failed.
    pub failures: usize,
    /// The journal's line that has to be durable first.
    pub line: u64,
}

#[derive(Default)]
pub struct Deliveries {
    waiting: BTreeMap<u64, Delivery>,
    /// By ms of the fake's clock.
    order: BinaryHeap<Reverse<(i64, u64)>>,
    last: u64,
    wake: Rc<Notify>,
    /// From the journal, by `ENDPOINT EVENT`, until the start is over.
    restored: BTreeMap<String, Delivery>,
    pub delivered: u64,
    pub failed: u64,
    pub given_up: u64,
    /// Events without an endpoint are none.
    pub in_flight: u64,
}

impl Deliveries {
    /// Sends it at `due_ms` of the fake's clock.
    pub fn wait(&mut self, due_ms: i64, delivery: Delivery) {
        self.last += 1;
        self.waiting.insert(self.last, delivery);
        self.order.push(Reverse((due_ms, self.last)));
        self.wake.notify_one();
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn restore(&mut self, owner: &Owner, account: &Account, event: &Rc<Event>) {
        for endpoint in account.webhook_endpoints.all().filter(|it| it.takes(&event.kind)) {
            let (owner, endpoint, event) = (owner.clone(), endpoint.id.clone(), event.clone());
            let key = name(&endpoint, &event);
            self.restored.insert(key, Delivery { owner, endpoint, event, failures: 0, line: 0 });
        }
    }

    pub fn restore_delivered(&mut self, delivered: &[String]) {
        for key in delivered {
            self.restored.remove(key);
        }
    }

    /// The journal was read: what no endpoint took is sent again.
    pub fn resume(&mut self, now_ms: i64) {
        for (_, delivery) in std::mem::take(&mut self.restored) {
            self.wait(now_ms, delivery);
        }
    }

    fn next_due(&mut self, now_ms: i64, is_durable: impl Fn(u64) -> bool) -> Option<Delivery> {
        let Reverse((due_ms, number)) = *self.order.peek()?;
        if due_ms > now_ms || !is_durable(self.waiting.get(&number)?.line) {
            return None;
        }
        self.order.pop();
        self.waiting.remove(&number)
    }
}

fn name(endpoint: &str, event: &Event) -> String {
    format!("{endpoint} {}", event.id)
}

/// Does what is due on the clock, and sends what is due; never ends.
pub async fn run(server: Rc<Server>) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let permits = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let wake = server.fake.borrow().deliveries.wake.clone();
    loop {
        server.fake.borrow_mut().tick();
        server.durable().await;
        while let Ok(permit) = permits.clone().try_acquire_owned() {
            let next = {
                let fake = &mut *server.fake.borrow_mut();
                let now_ms = fake.clock.now_ms();
                let journal = &fake.journal;
                fake.deliveries.next_due(now_ms, |line| journal.is_durable(line))
            };
            let Some(delivery) = next else { break };
            let (server, client, wake) = (server.clone(), client.clone(), wake.clone());
            server.fake.borrow_mut().deliveries.in_flight += 1;
            spawn_local(async move {
                deliver(&server, &client, delivery).await;
                server.fake.borrow_mut().deliveries.in_flight -= 1;
                drop(permit);
                wake.notify_one();
            });
        }
        // Woken or not, it looks again.
        let _: Result<(), Elapsed> = tokio::time::timeout(POLL, wake.notified()).await;
    }
}

async fn deliver(server: &Server, client: &Client<HttpConnector, Full<Bytes>>, delivery: Delivery) {
    let Some((request, event)) = request(&server.fake.borrow(), &delivery) else { return };
    if let Some(spec) = &server.spec {
        spec.borrow_mut().check_event(&event);
    }
    let taken = match tokio::time::timeout(TIMEOUT, client.request(request)).await {
        Ok(Ok(answer)) => answer.status().is_success(),
        Ok(Err(_)) | Err(_) => false,
    };
    let fake = &mut *server.fake.borrow_mut();
    if taken {
        fake.deliveries.delivered += 1;
        let delivered = vec![name(&delivery.endpoint, &delivery.event)];
        fake.journal.append(&Line { ids: fake.ids.count, delivered, ..Line::default() });
        return;
    }
    fake.deliveries.failed += 1;
    match RETRIES_AFTER_S.get(delivery.failures) {
        Some(after_s) => {
            let due_ms = fake.clock.now_ms() + after_s * 1000;
            fake.deliveries.wait(due_ms, Delivery { failures: delivery.failures + 1, ..delivery });
        }
        None => fake.deliveries.given_up += 1,
    }
}

/// What is sent, and the event in it; none if the endpoint is gone, paused, or its URL is none.
fn request(fake: &Fake, delivery: &Delivery) -> Option<(hyper::Request<Full<Bytes>>, Value)> {
    let account = &fake.books.get(&delivery.owner)?.account;
    let endpoint = account.webhook_endpoints.get(&delivery.endpoint)?;
    if endpoint.disabled || endpoint.deleted {
        return None;
    }
    let event = delivery.event.render(account);
    let body = serde_json::to_vec_pretty(&event).expect("a value is JSON");
    let request = hyper::Request::post(&endpoint.url)
        .header("content-type", "application/json; charset=utf-8")
        .header("user-agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
        .header(
            "stripe-signature",
            signature(endpoint, account.livemode, (fake.clock.now(), &body)),
        );
    Some((request.body(Full::new(Bytes::from(body))).ok()?, event))
}

/// `t=SECONDS,v1=HMAC`, with one `v1` for each secret. In test mode Stripe adds a `v0`, which no receiver
/// may take for a signature.
fn signature(endpoint: &WebhookEndpoint, livemode: bool, signed: (i64, &[u8])) -> String {
    let (now, body) = signed;
    let mut header = format!("t={now}");
    let text = [format!("{now}.").as_bytes(), body].concat();
    let schemes = endpoint.secrets.iter().map(|secret| ("v1", secret.as_str()));
    for (scheme, secret) in schemes.chain((!livemode).then_some(("v0", "no secret"))) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let hex: String =
            hmac::sign(&key, &text).as_ref().iter().map(|it| format!("{it:02x}")).collect();
        header.push_str(&format!(",{scheme}={hex}"));
    }
    header
}
