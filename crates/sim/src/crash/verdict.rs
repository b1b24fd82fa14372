//! The end of a crash test: what the clients received, what the store holds and what the gateway
//! charged have to be the same story.

mod combos;
mod purchases;
mod retries;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{amount_of, name, transactions};
use super::http::{Connection, Identity, Request};
use super::journal::{Inner, Operation, Reported};
use crate::ask::Kind;

pub use self::combos::combos;
use self::purchases::Bought;
pub use self::purchases::{purchases, read as bought};
use self::retries::Tries;
pub use self::retries::{RETRY_DAYS, retries};
pub use self::usage::usage;

/// How long an open payment may take until it is final.
const FINAL_WITHIN: Duration = Duration::from_secs(60);

/// How often a payment that is open is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The counts of what was compared, and the problems that were found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How many payments were read.
    pub payments: usize,
    /// Successful transactions in the store.
    pub successes: usize,
    /// Charges in the gateway's journal, reversals taken off.
    pub charges: i64,
    /// How many combo payments there are.
    pub combos: usize,
    /// How many retries were made.
    pub retries: usize,
    /// How many purchases were read.
    pub purchases: usize,
    /// How many events of usage were acknowledged.
    pub events: usize,
    /// How many reservations were confirmed.
    pub confirmed: usize,
    /// How many reservations were left by clients that died.
    pub dead: u64,
    /// How long the last open payment took.
    pub settled_after: Duration,
    /// Acknowledged successes that the store does not hold.
    pub lost: Vec<String>,
    /// Keys under which more than one charge stands.
    pub charged_twice: Vec<String>,
    /// Payments that are still open.
    pub open: Vec<String>,
    /// Combo payments of which a part is missing.
    pub torn: Vec<String>,
    /// Retries that were made more than once, or beyond the schedule.
    pub repeated: Vec<String>,
    /// Retries that were not scheduled or not made.
    pub forgotten: Vec<String>,
    /// Tries that came to the gateway while an earlier one might charge, or had charged.
    pub in_doubt: Vec<String>,
    /// Acknowledged purchases that the store does not hold.
    pub lost_purchases: Vec<String>,
    /// Orders that bought more than once, and purchases that were granted more than once.
    pub bought_twice: Vec<String>,
    /// Grants without their money, and paid purchases without their grants.
    pub unpaid: Vec<String>,
    /// Usage that is lost, or counted twice.
    pub miscounted: Vec<String>,
    /// Limits of which more was used or reserved.
    pub passed: Vec<String>,
    /// Reservations that did not come back.
    pub held: Vec<String>,
    /// All other problems that were found.
    pub wrong: Vec<String>,
}

impl Verdict {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.lists().iter().all(|(_, list)| list.is_empty())
    }

    /// The problems that were found, by kind, each kind with its title.
    #[must_use]
    pub const fn lists(&self) -> [(&'static str, &Vec<String>); 14] {
        [
            ("acknowledged payments lost", &self.lost),
            ("keys charged twice", &self.charged_twice),
            ("payments still open after a minute", &self.open),
            ("combo payments that are not whole", &self.torn),
            ("retries made too often", &self.repeated),
            ("retries forgotten", &self.forgotten),
            ("tries made while another was in doubt", &self.in_doubt),
            ("acknowledged purchases lost", &self.lost_purchases),
            ("offers bought or granted twice", &self.bought_twice),
            ("grants without money, or money without grants", &self.unpaid),
            ("limits whose usage is lost or counted twice", &self.miscounted),
            ("limits passed", &self.passed),
            ("limits whose reservations did not come back", &self.held),
            ("other problems", &self.wrong),
        ]
    }
}

/// Reads every payment that a client asked for, once all of them are final and no retry was due at `now`.
pub fn payments(
    (server, identity): (&mut Connection, &Identity),
    (journal, now): (&Inner, &str),
    verdict: &mut Verdict,
) -> BTreeMap<String, Value> {
    let started = Instant::now();
    let keys: BTreeSet<&String> =
        journal.operations.values().map(|(operation, _)| &operation.payment_key).collect();
    let mut found = BTreeMap::new();
    let mut open: Vec<&String> = keys.into_iter().collect();
    while !open.is_empty() {
        open.retain(|key| {
            let target = format!("/1.0/kb/payments?externalKey={key}&withAttempts=true");
            match server.send(&identity.request("GET", target, String::new())) {
                Ok(response) if response.status == 404 => false,
                Ok(response) if response.status == 200 => {
                    let payment = response.json();
                    let is_open =
                        transactions(&payment).any(is_open) || retries::is_overdue(&payment, now);
                    found.insert((*key).clone(), payment);
                    is_open
                }
                Ok(response) => {
                    verdict.wrong.push(format!("reading {key}: {}", response.status));
                    false
                }
                Err(_) => true,
            }
        });
        if started.elapsed() > FINAL_WITHIN {
            verdict.open = open.iter().map(|key| (*key).clone()).collect();
            break;
        }
        if !open.is_empty() {
            std::thread::sleep(LOOK_EVERY);
        }
        verdict.settled_after = started.elapsed();
    }
    verdict.payments = found.len();
    found
}

/// What the server answers to a GET with 200.
fn read_json(
    (server, identity): (&mut Connection, &Identity),
    target: String,
) -> Result<Value, String> {
    let request = identity.request("GET", target, String::new());
    match server.send(&request) {
        Ok(response) if response.status == 200 => Ok(response.json()),
        Ok(response) => Err(format!("reading {}: {}", request.target, response.status)),
        Err(error) => Err(format!("reading {}: {error}", request.target)),
    }
}

fn is_open(transaction: &Value) -> bool {
    matches!(transaction["status"].as_str(), Some("PENDING" | "UNKNOWN"))
}

/// Compares the clients' journal with the store.
pub fn clients(journal: &Inner, stored: &BTreeMap<String, Value>, verdict: &mut Verdict) {
    verdict.wrong.extend(journal.unexpected.iter().cloned());
    for (operation, reported) in journal.operations.values() {
        let nothing = Value::Null;
        let payment = stored.get(&operation.payment_key).unwrap_or(&nothing);
        let of_key: Vec<&Value> = of_operation(payment, operation).collect();
        let successes: Vec<&&Value> =
            of_key.iter().filter(|it| it["status"] == "SUCCESS").collect();
        verdict.successes += successes.len();
        if successes.len() > 1 {
            verdict.charged_twice.push(format!("{}: {of_key:?}", operation.key));
        }
        let amount = successes.first().map(|it| amount_of(&it["processedAmount"]));
        let wrong_amount = amount.is_some_and(|amount| amount != operation.minor.or(Some(0)));
        match reported {
            Some(Reported::Worked) if successes.is_empty() => {
                verdict.lost.push(format!("{}: {of_key:?}", operation.key));
            }
            Some(Reported::Accepted) if of_key.is_empty() => {
                verdict.lost.push(format!("{}: not there", operation.key));
            }
            Some(Reported::Failed) if !successes.is_empty() && !operation.is_retried => {
                verdict.wrong.push(format!("{} failed, then worked: {of_key:?}", operation.key));
            }
            Some(_) if wrong_amount => {
                verdict.wrong.push(format!("{}: another amount: {of_key:?}", operation.key));
            }
            Some(_) | None => {}
        }
    }
    for (key, payment) in stored {
        conserved(key, payment, verdict);
    }
}

fn of_operation<'a>(
    payment: &'a Value,
    operation: &'a Operation,
) -> impl Iterator<Item = &'a Value> {
    transactions(payment).filter(|it| {
        it["transactionExternalKey"] == operation.key.as_str()
            && it["transactionType"] == name(operation.kind)
    })
}

/// No more is captured than was authorized, no more is returned than was taken.
fn conserved(key: &str, payment: &Value, verdict: &mut Verdict) {
    let sum = |kind: &str| -> i64 {
        let of_kind = transactions(payment).filter(|it| it["transactionType"] == kind);
        let worked = of_kind.filter(|it| it["status"] == "SUCCESS");
        worked.filter_map(|it| amount_of(&it["processedAmount"])).sum()
    };
    let captured = sum(name(Kind::Capture));
    let taken = captured + sum(name(Kind::Purchase));
    let returned = sum(name(Kind::Refund)) + sum(name(Kind::Chargeback));
    if captured > sum(name(Kind::Authorize)) || returned > taken {
        verdict.wrong.push(format!("{key} is out of balance: {payment}"));
    }
}

/// Compares the gateway's own journal with the store.
pub fn gateway(
    simulator: &mut Connection,
    journal: &Inner,
    (stored, bought): (&BTreeMap<String, Value>, &[Bought]),
    verdict: &mut Verdict,
) {
    let target = "/journal".to_owned();
    let request = Request { method: "GET", target, ..Request::default() };
    let lines = match simulator.send(&request) {
        Ok(response) if response.status == 200 => response.body,
        Ok(response) => {
            return verdict.wrong.push(format!("the gateway's journal: {}", response.status));
        }
        Err(error) => return verdict.wrong.push(format!("the gateway's journal: {error}")),
    };
    let mut charged: BTreeMap<String, i64> = BTreeMap::new();
    let mut tries = Tries::default();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let record = record(line);
        let Some(id) = record["transaction"].as_str() else {
            verdict.wrong.push(format!("no record: {}", String::from_utf8_lossy(line)));
            continue;
        };
        tries.add(&record, verdict);
        match record["effect"].as_str() {
            Some("charged") => *charged.entry(id.to_owned()).or_default() += 1,
            Some("reversed") => *charged.entry(id.to_owned()).or_default() -= 1,
            Some(_) | None => {}
        }
    }
    verdict.charges = charged.values().sum();
    let called = journal.operations.values().filter(|(operation, _)| operation.is_called);
    for (operation, _) in called {
        let Some(payment) = stored.get(&operation.payment_key) else { continue };
        let mut of_key = 0;
        for it in of_operation(payment, operation) {
            let id = it["transactionId"].as_str().unwrap_or_default();
            let charges = charged.remove(id).unwrap_or(0);
            of_key += charges;
            let worked = i64::from(it["status"] == "SUCCESS");
            if charges != worked {
                verdict.wrong.push(format!("charged {charges} times: {it}"));
            }
        }
        if of_key > 1 {
            verdict.charged_twice.push(format!("{}: {of_key} charges", operation.key));
        }
    }
    of_purchases(journal, bought, &mut charged, verdict);
    charged.retain(|_, charges| *charges != 0);
    let strays = charged.keys().map(|id| format!("charged, but nobody knows it: {id}"));
    verdict.wrong.extend(strays);
}

/// Compares what was charged for purchases, and takes it out: what they took, and the refunds of duplicates.
fn of_purchases(
    journal: &Inner,
    bought: &[Bought],
    charged: &mut BTreeMap<String, i64>,
    verdict: &mut Verdict,
) {
    let called = journal.orders.values().filter(|it| it.is_called).map(|it| &it.account);
    let called: BTreeSet<&String> = called.collect();
    for bought in bought.iter().filter(|it| called.contains(&it.account)) {
        for it in bought.payments.values().flat_map(transactions) {
            let key = it["transactionExternalKey"].as_str().unwrap_or_default();
            if journal.operations.contains_key(key) {
                continue;
            }
            let charges = charged.remove(it["transactionId"].as_str().unwrap_or_default());
            let (charges, worked) = (charges.unwrap_or(0), i64::from(it["status"] == "SUCCESS"));
            match charges {
                _ if charges == worked => {}
                2.. => verdict.charged_twice.push(format!("{charges} charges: {it}")),
                _ => verdict.wrong.push(format!("charged {charges} times: {it}")),
            }
        }
    }
}

/// The record in a line of the gateway's journal, with or without a checksum before it.
fn record(line: &[u8]) -> Value {
    let from = line.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let mut records = serde_json::Deserializer::from_slice(&line[from..]).into_iter::<Value>();
    records.next().and_then(Result::ok).unwrap_or_default()
}

/// A purchase of 10.00 that its gateway is called for.
#[cfg(test)]
fn purchase() -> Operation {
    Operation {
        payment_key: "p-1".to_owned(),
        key: "t-1".to_owned(),
        kind: Kind::Purchase,
        minor: Some(1000),
        is_called: true,
        combo: None,
        is_retried: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crash::journal::Journal;

    const KEY: &str = "t-1";

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("faregate-verdict-{}-{name}", std::process::id()))
    }

    /// The verdict where a client received this about a purchase of 10.00 and the store holds
    /// transactions of its key with these statuses and amounts.
    fn found(name: &str, reported: Option<Reported>, statuses: &[(&str, f64)]) -> Verdict {
        let path = scratch(name);
        let journal = Journal::create(&path).unwrap();
        let operation = purchase();
        journal.asks(&operation);
        if let Some(reported) = reported {
            journal.report(KEY, reported);
        }
        let transaction = |(status, amount): &(&str, f64)| {
            json!({
                "transactionExternalKey": KEY, "transactionType": "PURCHASE",
                "status": status, "processedAmount": amount,
            })
        };
        let transactions: Vec<Value> = statuses.iter().map(transaction).collect();
        let payment = json!({ "transactions": transactions });
        let stored = BTreeMap::from([("p-1".to_owned(), payment)]);
        let mut verdict = Verdict::default();
        clients(&journal.lock(), &stored, &mut verdict);
        std::fs::remove_file(path).unwrap();
        verdict
    }

    #[test]
    fn equal_ledgers_are_sound() {
        let worked = [("SUCCESS", 10.00)];
        assert!(found("worked", Some(Reported::Worked), &worked).is_sound());
        assert!(found("unheard", None, &worked).is_sound());
        assert!(found("failed", Some(Reported::Failed), &[("PAYMENT_FAILURE", 0.0)]).is_sound());
        let again = [("PLUGIN_FAILURE", 0.0), ("SUCCESS", 10.00)];
        assert!(found("again", Some(Reported::Worked), &again).is_sound());
    }

    #[test]
    fn differences_are_found() {
        let lost = found("lost", Some(Reported::Worked), &[("PLUGIN_FAILURE", 0.0)]);
        assert_eq!(lost.lost.len(), 1);
        let gone = found("gone", Some(Reported::Accepted), &[]);
        assert_eq!(gone.lost.len(), 1);
        let twice = found("twice", Some(Reported::Worked), &[("SUCCESS", 10.0), ("SUCCESS", 10.0)]);
        assert_eq!(twice.charged_twice.len(), 1);
        let late = found("late", Some(Reported::Failed), &[("SUCCESS", 10.0)]);
        assert_eq!(late.wrong.len(), 1);
        let other = found("other", Some(Reported::Worked), &[("SUCCESS", 10.01)]);
        assert_eq!(other.wrong.len(), 1);
    }

    #[test]
    fn a_payment_out_of_balance_is_found() {
        let transaction = |kind: &str, amount: f64| json!({ "transactionType": kind, "status": "SUCCESS", "processedAmount": amount });
        let of = |transactions: Vec<Value>| {
            let mut verdict = Verdict::default();
            conserved("p-1", &json!({ "transactions": transactions }), &mut verdict);
            verdict.wrong.len()
        };
        let authorized = transaction("AUTHORIZE", 10.0);
        assert_eq!(of(vec![authorized.clone(), transaction("CAPTURE", 10.0)]), 0);
        assert_eq!(of(vec![authorized, transaction("CAPTURE", 10.01)]), 1);
        let purchased = transaction("PURCHASE", 5.0);
        assert_eq!(of(vec![purchased.clone(), transaction("REFUND", 5.0)]), 0);
        let back = [transaction("REFUND", 3.0), transaction("CHARGEBACK", 3.0)];
        assert_eq!(of([vec![purchased], back.to_vec()].concat()), 1);
    }

    #[test]
    fn a_record_is_found_behind_its_checksum() {
        let record = record(br#"1234abcd {"effect":"charged"} "#);
        assert_eq!(record["effect"], "charged");
    }
}
