//! What tests ask of the fake beside Stripe's API: `/_fake/...`, in JSON.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::Account;
use crate::api::charge::Charge;
use crate::api::payment_intent::PaymentIntent;
use crate::fake::{Fake, Owner};
use crate::faults::Rule;
use crate::server::Server;

/// Whether a path below `/_fake/` is asked with a secret key, as it is about an account.
pub fn is_authenticated(_method: &str, path: &str) -> bool {
    path.starts_with("/_fake/webhooks") || path.starts_with("/_fake/disputes")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockChange {
    advance_s: Option<f64>,
    /// Seconds since 1970.
    now: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Revoke {
    revoke: String,
}

pub fn answer(server: &Server, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let fake = &mut *server.fake.borrow_mut();
    match (method, path) {
        ("GET", "/_fake/health") => (200, health(server, fake)),
        ("GET", "/_fake/clock") => (200, clock(fake)),
        ("POST", "/_fake/clock") => parsed(body, |it: ClockChange| change_clock(fake, &it)),
        ("GET", "/_fake/faults") => (200, fake.faults.list()),
        ("POST", "/_fake/faults") => parsed(body, |it: Vec<Rule>| match fake.faults.add(it) {
            Ok(()) => (200, fake.faults.list()),
            Err(error) => (400, json!({ "error": error.message })),
        }),
        ("DELETE", "/_fake/faults") => {
            fake.faults.clear();
            (200, json!([]))
        }
        ("GET", "/_fake/ledger") => (200, ledger(fake)),
        ("POST", "/_fake/keys") => parsed(body, |it: Revoke| {
            fake.revoke_key(it.revoke);
            (200, json!({}))
        }),
        _ => (404, json!({ "error": format!("the fake has no {method} {path}") })),
    }
}

fn parsed<T: serde::de::DeserializeOwned>(
    body: &[u8],
    act: impl FnOnce(T) -> (u16, Value),
) -> (u16, Value) {
    match serde_json::from_slice(body) {
        Ok(it) => act(it),
        Err(error) => (400, json!({ "error": error.to_string() })),
    }
}

fn change_clock(fake: &mut Fake, change: &ClockChange) -> (u16, Value) {
    match (change.advance_s, change.now) {
        (Some(by_s), None) => fake.move_clock(|it| it.advance((by_s * 1000.0) as i64)),
        (None, Some(now)) => fake.move_clock(|it| it.set((now * 1000.0) as i64)),
        (Some(_), Some(_)) | (None, None) => {
            return (400, json!({ "error": "either advance_s or now" }));
        }
    }
    (200, clock(fake))
}

fn clock(fake: &Fake) -> Value {
    json!({ "now": fake.clock.now(), "now_ms": fake.clock.now_ms(), "offset_ms": fake.clock.offset_ms })
}

fn health(server: &Server, fake: &Fake) -> Value {
    let sum = |count: fn(&Account) -> usize| {
        fake.books.values().map(|it| count(&it.account)).sum::<usize>()
    };
    let violations = server.spec.as_ref().map(|it| it.borrow().violations.clone());
    json!({
        "status": "ok",
        "now": fake.clock.now(),
        "accounts": fake.books.len(),
        "payment_intents": sum(|it| it.payment_intents.len()),
        "charges": sum(|it| it.charges.len()),
        "refunds": sum(|it| it.refunds.len()),
        "idempotency_keys": fake.books.values().map(|it| it.keys.len()).sum::<usize>(),
        "journal_lines": fake.journal.appended(),
        "faults_struck": fake.faults.struck,
        "events": {
            "waiting": fake.deliveries.waiting(),
            "in_flight": fake.deliveries.in_flight,
            "delivered": fake.deliveries.delivered,
            "failed": fake.deliveries.failed,
            "given_up": fake.deliveries.given_up,
        },
        "violations": violations,
    })
}

/// Each payment intent with what it moved, oldest first.
fn ledger(fake: &Fake) -> Value {
    let mut books: Vec<_> = fake.books.iter().collect();
    books.sort_by_key(|it| (it.0.name.clone(), it.0.livemode));
    let of_account = |(owner, books): (&Owner, &crate::fake::Books)| -> Vec<Value> {
        let intents = books.account.payment_intents.all();
        intents.map(|it| entry(owner, &books.account, it)).collect()
    };
    books.into_iter().flat_map(of_account).collect()
}

fn entry(owner: &Owner, account: &Account, intent: &PaymentIntent) -> Value {
    let charges = || account.charges.of(&intent.id);
    let sum = |amount: fn(&Charge) -> i64| charges().map(|it| amount(it)).sum::<i64>();
    let refunds = charges().flat_map(|it| account.refunds.of(&it.id));
    let refunds: Vec<Value> = refunds
        .map(|it| {
            let moved = it.balance_transaction.is_some();
            json!({ "id": it.id, "amount": it.amount, "status": it.status.name(), "moved_money": moved, "metadata": it.metadata })
        })
        .collect();
    let captured = sum(|it| it.amount_captured);
    json!({
        "account": account.id,
        "livemode": owner.livemode,
        "id": intent.id,
        "created": intent.created,
        "status": intent.status.name(),
        "customer": intent.customer,
        "currency": intent.currency,
        "amount": intent.amount,
        "amount_captured": captured,
        // Not what was only released.
        "amount_refunded": if captured > 0 { sum(|it| it.amount_refunded) } else { 0 },
        "charges_paid": charges().filter(|it| it.failure.is_none()).count(),
        "charges_failed": charges().filter(|it| it.failure.is_some()).count(),
        "disputes": charges().map(|it| account.disputes.of(&it.id).count()).sum::<usize>(),
        "refunds": refunds,
        "metadata": intent.metadata,
    })
}
