//! Payments through gateways that are other programs, and through the simulator as Kill Bill's test plugin.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use secrets::webhook::{Headers, Secret};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::{Launch, Server, TempDir, eventually, faregate};

pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const TEST_PLUGIN: &str = "killbill-payment-test";
const CONFIGURE: &str = "/plugins/killbill-payment-test/configure";

/// A gateway in another program: it takes every charge and answers once it may.
#[derive(Clone, Default)]
pub(crate) struct Program(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
pub(crate) struct State {
    /// How often each transaction was charged, with the references that came along.
    pub(crate) charges: BTreeMap<String, Vec<Value>>,
    pub(crate) inquiries: usize,
    may_answer: bool,
    /// Whether it answers no inquiry.
    pub(crate) holds_inquiries: bool,
    /// The status of its charges; processed where there is none.
    pub status: Option<&'static str>,
    /// Further fields of its outcomes of charges.
    pub spoken: Value,
    /// Its answer to notifications, and the notifications that it received.
    pub about: Value,
    pub notifications: Vec<Value>,
    /// Its answer to a request for a page.
    pub page: Value,
    /// The dispute in its answer to an inquiry about one.
    pub dispute: Value,
    /// Further fields of its decisions about calls, which abort none without them; and the requests that it received.
    pub decision: Value,
    pub controls: Vec<Value>,
    /// The charges that it lists, in pages of one; and whether it has no list.
    pub listed: Vec<Value>,
    pub lists_nothing: bool,
}

impl State {
    /// How often a transaction was charged.
    pub fn charges_of(&self, transaction: &Value) -> usize {
        self.charges[transaction.as_str().unwrap()].len()
    }
}

impl Program {
    /// The program, and a configuration in `dir` that names it.
    pub(crate) fn start(dir: &Path) -> (Self, String) {
        Self::start_at(dir, "127.0.0.1:0")
    }

    /// The program, and the launch of a server that calls it.
    pub(crate) fn start_for_server(dir: &Path) -> (Self, impl Fn() -> Launch) {
        let (program, config) = Self::start(dir);
        (program, move || Launch::usual().env("FAREGATE_CONFIG", &config))
    }

    /// As [`Program::start`], at an address.
    pub(crate) fn start_at(dir: &Path, address: &str) -> (Self, String) {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let program = Self::default();
        let serving = program.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let program = serving.clone();
                thread::spawn(move || program.serve(stream.unwrap()));
            }
        });
        (program, Self::configure(dir, &address.to_string()))
    }

    /// A configuration in `dir` that names a program at this address.
    pub(crate) fn configure(dir: &Path, address: &str) -> String {
        let path = dir.join("faregate.toml");
        let table = format!(
            "[gateway.http.acme]\nurl = \"http://{address}\"\nsecret = \"{SECRET}\"\nallow_loopback = true\ncontrol = true\n"
        );
        std::fs::write(&path, table).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    pub(crate) fn answer_from_now_on(&self) {
        self.state().may_answer = true;
        self.0.1.notify_all();
    }

    /// Holds the answers to charges back, as it does in the beginning.
    pub(crate) fn hold_answers(&self) {
        self.state().may_answer = false;
    }

    /// Answers the requests of a connection until it ends.
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        while let Some((path, headers, body)) = read_request(&mut reader) {
            let secret = Secret::parse(SECRET).unwrap();
            let text = |name: &str| headers[name].as_str();
            let (id, timestamp) = (text("webhook-id"), text("webhook-timestamp"));
            let signed = Headers { id, timestamp, signature: text("webhook-signature") };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            secret.verify(signed, &body, i64::try_from(now).unwrap()).unwrap();
            let answer = self.answer(&path, &serde_json::from_slice(&body).unwrap()).to_string();
            let now = now.to_string();
            let signature = secret.sign(id, &now, answer.as_bytes());
            let is_known = path != "/transactions" || !self.state().lists_nothing;
            let status = if is_known { "200 OK" } else { "404 Not Found" };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nwebhook-id: {id}\r\n\
                 webhook-timestamp: {now}\r\nwebhook-signature: {signature}\r\n\r\n",
                answer.len()
            );
            // A server that was killed reads no answer.
            if writer.write_all((head + &answer).as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, path: &str, call: &Value) -> Value {
        let mut state = self.state();
        if path == "/notification" {
            state.notifications.push(call.clone());
            return state.about.clone();
        }
        if path == "/form" {
            return state.page.clone();
        }
        if path == "/dispute" {
            state.inquiries += 1;
            return json!({ "dispute": state.dispute });
        }
        if path == "/control" {
            state.controls.push(call.clone());
            let mut decision = json!({ "requestId": call["requestId"], "aborted": false });
            let said = state.decision.as_object().cloned().unwrap_or_default();
            decision.as_object_mut().unwrap().extend(said);
            return decision;
        }
        if path == "/transactions" {
            let at = call["after"].as_str().map_or(0, |it| it.parse().unwrap());
            let own = state.listed.iter().filter(|it| it["tenantId"] == call["tenantId"]);
            let own: Vec<Value> = own.cloned().collect();
            let next = (at + 1 < own.len()).then(|| (at + 1).to_string());
            let page: Vec<Value> = own.get(at).cloned().into_iter().collect();
            return json!({ "transactions": page, "next": next });
        }
        let transaction = call["transactionId"].as_str().unwrap();
        let mut outcome = json!({
            "transactionId": transaction,
            "status": state.status.unwrap_or("PROCESSED"),
            "firstReference": "ref-1",
        });
        let spoken = state.spoken.as_object().cloned().unwrap_or_default();
        outcome.as_object_mut().unwrap().extend(spoken);
        if path == "/inquire" {
            state.inquiries += 1;
            let is_known = state.charges.contains_key(transaction);
            let outcome = if is_known { outcome } else { Value::Null };
            drop(self.0.1.wait_while(state, |it| it.holds_inquiries).unwrap());
            return json!({ "transactionId": transaction, "outcome": outcome });
        }
        let references = call["references"].clone();
        state.charges.entry(transaction.to_owned()).or_default().push(references);
        state.listed.push(json!({
            "tenantId": call["tenantId"],
            "paymentId": call["paymentId"], "transactionId": transaction, "status": outcome["status"],
            "amount": call["amount"], "currency": call["currency"], "at": jiff::Timestamp::now().to_string(),
        }));
        drop(self.0.1.wait_while(state, |state| !state.may_answer).unwrap());
        outcome
    }
}

fn read_request(
    reader: &mut BufReader<TcpStream>,
) -> Option<(String, BTreeMap<String, String>, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    Some((path, headers, body))
}

/// An account whose default method is of this gateway.
pub fn account(client: &Client, gateway: &str) -> String {
    let account = client.create("/1.0/kb/accounts", &json!({ "currency": "USD" }));
    let id = account["accountId"].as_str().unwrap().to_owned();
    let path = format!("/1.0/kb/accounts/{id}/paymentMethods?isDefault=true");
    client.create(&path, &json!({ "pluginName": gateway }));
    id
}

pub fn pay(client: &Client, account: &str, kind: &str) -> Answer {
    let path = format!("/1.0/kb/accounts/{account}/payments");
    client.post(&path, &json!({ "transactionType": kind, "amount": 10 }))
}

pub(crate) fn payment_of(answer: &Answer) -> String {
    let location = answer.header("location").unwrap();
    location.trim_end_matches('/').rsplit('/').next().unwrap().to_owned()
}

#[test]
fn a_capture_brings_what_the_program_said_of_the_authorization() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    program.answer_from_now_on();
    let server = Server::start_with(Launch::usual().env("FAREGATE_CONFIG", &config));
    let client = server.tenant();
    let paid = pay(&client, &account(&client, "acme"), "AUTHORIZE");
    assert_eq!(paid.status, 201, "{}", paid.text());
    let payment = payment_of(&paid);
    let captured = client.post(&format!("/1.0/kb/payments/{payment}"), &json!({ "amount": 4 }));
    assert_eq!(captured.status, 201, "{}", captured.text());
    let references: Vec<Value> = program.state().charges.values().flatten().cloned().collect();
    let named = |it: &Value| (it[0]["operation"].clone(), it[0]["firstReference"].clone());
    assert_eq!(references[0], json!([]));
    assert_eq!(named(&references[1]), (json!("AUTHORIZE"), json!("ref-1")));
}

#[test]
fn a_killed_server_charges_once_and_learns_what_became_of_it() {
    const CLIENTS: usize = 8;
    let dir = TempDir::new();
    let (program, launch) = Program::start_for_server(dir.path());
    let data = dir.path().join("data");
    let server = Server::start_in(&data, launch());
    let client = server.tenant();
    let accounts: Vec<String> = (0..CLIENTS).map(|_| account(&client, "acme")).collect();
    let paying: Vec<_> = accounts
        .iter()
        .map(|account| {
            let (account, client) = (account.clone(), client.clone());
            // Its connection is cut.
            thread::spawn(move || std::panic::catch_unwind(|| pay(&client, &account, "PURCHASE")))
        })
        .collect();
    eventually("all charges are under way", || {
        (program.state().charges.len() == CLIENTS).then_some(())
    });
    server.kill();
    program.answer_from_now_on();
    for one in paying {
        drop(one.join());
    }
    let server = Server::start_in(&data, launch());
    let client = server.client().tenant("bob", "lazar");
    for account in &accounts {
        eventually("the payment is known to have succeeded", || {
            let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
            (payments[0]["transactions"][0]["status"] == "SUCCESS").then_some(())
        });
    }
    let state = program.state();
    assert!(state.charges.values().all(|times| times.len() == 1), "{:?}", state.charges);
    assert!(state.inquiries >= CLIENTS, "{}", state.inquiries);
}

#[test]
fn a_gateway_that_hangs_delays_no_inquiry_of_another() {
    let dir = TempDir::new();
    let (hanging, config) = Program::start(dir.path());
    let (bank, config_of_bank) = {
        let elsewhere = TempDir::new();
        let (bank, config) = Program::start(elsewhere.path());
        (bank, std::fs::read_to_string(config).unwrap().replace("acme", "bank"))
    };
    let both = std::fs::read_to_string(&config).unwrap() + &config_of_bank;
    std::fs::write(&config, both).unwrap();
    let launch = Launch::usual()
        .env("FAREGATE_CONFIG", &config)
        .env("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "1s,1h")
        .env("FAREGATE_GATEWAY_BREAKER_FAILURE_PERCENT", "0");
    let server = Server::start_with(launch);
    let client = server.tenant();
    for program in [&hanging, &bank] {
        program.state().status = Some("UNDEFINED");
        program.answer_from_now_on();
    }
    let pay_at = |gateway: &str, count: usize| {
        let account = account(&client, gateway);
        for _ in 0..count {
            assert_eq!(pay(&client, &account, "PURCHASE").status, 503);
        }
        account
    };
    hanging.state().holds_inquiries = true;
    // More than are asked about at the same time, and more than wait in memory.
    pay_at("acme", 400);
    let asked = || hanging.state().inquiries;
    eventually("as many are asked about as may be", || (asked() >= 64).then_some(()));
    let account = pay_at("bank", 1);
    bank.state().status = None;
    eventually("the other gateway is asked", || {
        let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
        (payments[0]["transactions"][0]["status"] == "SUCCESS").then_some(())
    });
    assert_eq!(asked(), 64, "meanwhile no inquiry of the one that hangs has ended");
    // So that none of its threads waits.
    hanging.state().holds_inquiries = false;
    hanging.answer_from_now_on();
}

#[test]
fn a_page_takes_the_right_to_a_call_and_counts_for_the_breaker() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text + "in_flight_max = 1\n").unwrap();
    let launch = Launch::usual()
        .env("FAREGATE_CONFIG", &config)
        .env("FAREGATE_GATEWAY_BREAKER_CALLS_MIN", "4")
        .env("FAREGATE_GATEWAY_BREAKER_OPEN_FOR", "1m");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let account = account(&client, "acme");
    let path = format!("/1.0/kb/paymentGateways/hosted/form/{account}?pluginName=acme");
    let form = || client.post(&path, &json!({}));
    let is_refused = |answer: &Answer| {
        assert_eq!(answer.status, 503, "{}", answer.text());
        answer.header("retry-after").is_some()
    };
    program.state().page = json!({ "url": "https://pay.example/1" });
    assert_eq!(form().status, 200);
    let (paying, of) = (client.clone(), account.clone());
    let paying = thread::spawn(move || pay(&paying, &of, "PURCHASE").status);
    eventually("it is charged", || (program.state().charges.len() == 1).then_some(()));
    assert!(is_refused(&form()), "the only call that it may have in flight is taken");
    program.answer_from_now_on();
    assert_eq!(paying.join().unwrap(), 201);
    eventually("the call is over", || (form().status == 200).then_some(()));
    program.state().page = Value::Null;
    for _ in 0..3 {
        assert!(!is_refused(&form()), "it was asked, and failed");
    }
    assert!(is_refused(&form()), "the breaker is open");
    assert!(is_refused(&pay(&client, &account, "PURCHASE")), "for charges too");
}

#[test]
fn what_a_program_answers_decides_the_status_of_a_payment() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    program.answer_from_now_on();
    let server = Server::start_with(Launch::usual().env("FAREGATE_CONFIG", &config));
    let client = server.tenant();
    let account = account(&client, "acme");
    for (status, expected) in [
        ("PROCESSED", (201, Value::Null)),
        ("PENDING", (201, Value::Null)),
        ("ERROR", (402, Value::Null)),
        ("CANCELED", (502, Value::Null)),
        ("UNDEFINED", (503, Value::Null)),
        ("FINE", (400, json!(7199))),
    ] {
        program.state().status = Some(status);
        let paid = pay(&client, &account, "PURCHASE");
        let code = if paid.status < 400 { Value::Null } else { paid.json()["code"].clone() };
        assert_eq!((paid.status, code), expected, "{status}");
    }
}

#[test]
fn a_notification_is_read_by_its_gateway_and_booked_once() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    program.answer_from_now_on();
    program.state().status = Some("PENDING");
    let server = Server::start_with(Launch::usual().env("FAREGATE_CONFIG", &config));
    let client = server.tenant();
    let paid = pay(&client, &account(&client, "acme"), "PURCHASE");
    let payment = payment_of(&paid);
    let transaction = || {
        let shown = client.get(&format!("/1.0/kb/payments/{payment}")).json();
        shown["transactions"][0].clone()
    };
    assert_eq!(transaction()["status"], "PENDING");
    let path = "/1.0/kb/paymentGateways/notification/acme";
    let sender = client.clone().header("x-acme-signature", "abc");
    let notify = |about: Value| {
        program.state().about = about;
        sender.send("POST", path, Some(b"order 7 was settled"))
    };
    // About nothing of ours, about another payment, and what is not believed.
    assert_eq!(notify(json!({})).status, 200);
    let id = transaction()["transactionId"].clone();
    let settled = json!({ "transactionId": id, "status": "PROCESSED" });
    let other = "0192aabb-ccdd-7000-8000-000000000001";
    assert_eq!(notify(json!({ "paymentId": other, "outcome": settled })).status, 503);
    let unknown = json!({ "transactionId": other, "status": "PROCESSED" });
    assert_eq!(notify(json!({ "paymentId": payment, "outcome": unknown })).status, 503);
    let refused = notify(json!({ "refused": "the signature is wrong" }));
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("the signature is wrong"), "{}", refused.text());
    for wrong in [json!({ "outcome": settled }), json!({ "paymentId": payment }), json!(7)] {
        assert_eq!(notify(wrong).status, 503);
    }
    assert_eq!(transaction()["status"], "PENDING");
    for _ in 0..2 {
        assert_eq!(notify(json!({ "paymentId": payment, "outcome": settled })).status, 200);
        assert_eq!(transaction()["status"], "SUCCESS");
    }
    let sent = program.state().notifications[0].clone();
    assert_eq!(sent["body"], "order 7 was settled");
    let headers = sent["headers"].as_array().unwrap();
    let has = |name: &str| headers.iter().any(|it| it["name"] == name);
    assert!(has("x-acme-signature"), "{sent}");
    assert!(!has("authorization") && !has("x-killbill-apisecret"), "{sent}");
    // A gateway does not say what became of another's transaction.
    let external = payment_of(&pay(&client, &account(&client, "faregate-simulator"), "PURCHASE"));
    let shown = client.get(&format!("/1.0/kb/payments/{external}")).json();
    let id_there = &shown["transactions"][0]["transactionId"];
    let failed = json!({ "transactionId": id_there, "status": "ERROR" });
    assert_eq!(notify(json!({ "paymentId": external, "outcome": failed })).status, 200);
    let shown = client.get(&format!("/1.0/kb/payments/{external}")).json();
    assert_eq!(shown["transactions"][0]["status"], "SUCCESS");
    // Another tenant's endpoint does not reach the payment.
    let body = json!({ "apiKey": "alice", "apiSecret": "lazar" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &body).status, 201);
    program.state().about = json!({
        "paymentId": payment, "outcome": { "transactionId": id, "status": "ERROR" },
    });
    let alice = server.client().tenant("alice", "lazar");
    assert_eq!(alice.send("POST", path, Some(b"")).status, 503);
    assert_eq!(transaction()["status"], "SUCCESS");
}

/// `reconcile` names a charge after the backup that is restored; the sender of its notification has to retry.
#[test]
fn what_a_restored_backup_lacks_is_reconciled_and_its_notifications_come_again() {
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    let launch = || Launch::usual().env("FAREGATE_CONFIG", &config);
    program.answer_from_now_on();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data, backup, restored) = (at("data"), at("backup.db"), at("restored"));
    let server = Server::start_in(Path::new(&data), launch());
    let client = server.tenant();
    let account = account(&client, "acme");
    for _ in 0..2 {
        assert_eq!(pay(&client, &account, "PURCHASE").status, 201);
    }
    let run = |arguments: &[&str]| {
        let mut command = faregate(arguments);
        let ended = command.env("FAREGATE_CONFIG", &config).output().unwrap();
        let said = [ended.stdout, ended.stderr].map(|it| String::from_utf8(it).unwrap());
        (ended.status.code(), said.concat())
    };
    let reconcile = |data: &str, gateway: &str| {
        run(&["reconcile", "--data-dir", data, "--gateway", gateway, "--older-than", "0"])
    };
    let agreed = "2 charged by acme, 2 booked, 0 open or too recent, 0 differences\n";
    assert_eq!(reconcile(&data, "acme"), (Some(0), agreed.to_owned()));
    assert_eq!(run(&["backup", "--data-dir", &data, &backup]).0, Some(0));
    let lost = pay(&client, &account, "PURCHASE");
    let payment = payment_of(&lost);
    let shown = client.get(&format!("/1.0/kb/payments/{payment}")).json();
    let transaction = shown["transactions"][0]["transactionId"].as_str().unwrap().to_owned();
    drop(server);
    assert_eq!(run(&["restore", "--data-dir", &restored, &backup]).0, Some(0));
    for key in ["secrets.key", "signup.key"] {
        drop(std::fs::copy(format!("{data}/{key}"), format!("{restored}/{key}")));
    }
    let (code, said) = reconcile(&restored, "acme");
    let named =
        format!("transaction {transaction} of payment {payment}: charged, but not in the store");
    assert!(said.starts_with("3 charged by acme, 2 booked, 0 open"), "{said}");
    assert_eq!((code, said.contains(&named)), (Some(1), true), "{said}");

    let server = Server::start_in(Path::new(&restored), launch());
    let client = server.client().tenant("bob", "lazar");
    let settled = json!({ "transactionId": transaction, "status": "PROCESSED" });
    program.state().about = json!({ "paymentId": payment, "outcome": settled });
    let path = client.get("/v1/gateways/http/acme/endpoint").json()["path"].clone();
    let posted = Client::new(&server.url).send("POST", path.as_str().unwrap(), Some(b"{}"));
    assert_eq!((posted.status, posted.header("retry-after")), (503, Some("1")));
    assert!(posted.json()["type"].as_str().unwrap().ends_with("payment-not-there"));
    let (_, log) = server.stop();
    assert!(log.contains("the database lacks") && log.contains(&payment), "{log}");
    // A program that lists nothing, and no gateway.
    program.state().lists_nothing = true;
    let (code, said) = reconcile(&restored, "acme");
    assert_eq!((code, said.contains("has no /transactions")), (Some(2), true), "{said}");
    let (code, said) = reconcile(&restored, "nobody");
    assert_eq!((code, said.contains("there is no gateway nobody")), (Some(2), true), "{said}");
}

#[test]
fn a_sender_without_credentials_notifies_at_the_endpoint_of_the_tenant() {
    const EVENT: &[u8] = b"{\"id\": 7,\r\n\t\"text\":  \"settled\"}\n";
    let dir = TempDir::new();
    let (program, config) = Program::start(dir.path());
    program.answer_from_now_on();
    let another = std::fs::read_to_string(&config).unwrap();
    let both = another.replace(".acme]", ".other]") + &another;
    std::fs::write(&config, both).unwrap();
    program.state().status = Some("PENDING");
    let launch = || {
        let launch = Launch::usual().env("FAREGATE_CONFIG", &config);
        launch.env("FAREGATE_PUBLIC_URL", "https://pay.example.com")
    };
    let data = dir.path().join("data");
    let server = Server::start_in(&data, launch());
    let client = server.tenant();
    let endpoint = |client: &Client| {
        let shown = client.get("/v1/gateways/http/acme/endpoint").json();
        let path = shown["path"].as_str().unwrap().to_owned();
        assert_eq!(shown["url"], format!("https://pay.example.com{path}"));
        path
    };
    let path = endpoint(&client);
    assert_eq!(endpoint(&client), path, "the same each time");
    let payment = payment_of(&pay(&client, &account(&client, "acme"), "PURCHASE"));
    let shown = || client.get(&format!("/1.0/kb/payments/{payment}")).json();
    let id = shown()["transactions"][0]["transactionId"].clone();
    let settled = json!({ "transactionId": id, "status": "PROCESSED" });
    program.state().about = json!({ "paymentId": payment, "outcome": settled });
    let sender = Client::new(&server.url).header("x-acme-signature", "abc");
    // Another tenant's endpoint, another gateway's, what is cut or changed, and what is too large.
    let body = json!({ "apiKey": "alice", "apiSecret": "lazar" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &body).status, 201);
    let foreign = endpoint(&server.client().tenant("alice", "lazar"));
    assert_ne!(foreign, path);
    assert_eq!(sender.send("POST", &foreign, Some(EVENT)).status, 503);
    assert_eq!(shown()["transactions"][0]["status"], "PENDING");
    let read = program.state().notifications.len();
    let (cut, changed) = (&path[..path.len() - 1], path.replace("/acme/", "/acme/A"));
    let elsewhere = [path.replace("/acme/", "/other/"), path.replace("/http/acme/", "/stripe/")];
    for wrong in
        elsewhere.iter().map(String::as_str).chain([cut, &changed, "/v1/gateways/http/acme/%FF"])
    {
        assert_eq!(sender.send("POST", wrong, Some(EVENT)).status, 404, "{wrong}");
    }
    let large = vec![b'x'; 256 * 1024 + 1];
    assert_eq!(sender.send("POST", &path, Some(&large)).status, 413);
    assert_eq!(sender.send("POST", &path, Some(b"\xff")).status, 400, "JSON holds no such bytes");
    assert_eq!(program.state().notifications.len(), read);
    for _ in 0..2 {
        assert_eq!(sender.send("POST", &path, Some(EVENT)).status, 200);
        assert_eq!(shown()["transactions"][0]["status"], "SUCCESS");
    }
    let sent = program.state().notifications.last().unwrap().clone();
    assert_eq!(sent["body"].as_str().unwrap().as_bytes(), EVENT);
    program.state().about = json!({ "refused": "the signature is wrong" });
    let refused = sender.send("POST", &path, Some(EVENT));
    let kind = refused.json()["type"].clone();
    assert_eq!((refused.status, kind), (400, json!("urn:faregate:problem:notification-refused")));
    program.state().about = json!(7);
    let unavailable = sender.send("POST", &path, Some(EVENT));
    assert_eq!((unavailable.status, unavailable.header("retry-after")), (503, Some("1")));
    assert_eq!(client.get("/v1/gateways/http/faregate-simulator/endpoint").status, 404);
    // What was registered with a sender holds after a restart.
    drop(server);
    let server = Server::start_in(&data, launch());
    program.state().about = json!({});
    assert_eq!(Client::new(&server.url).send("POST", &path, Some(EVENT)).status, 200);
}

/// Where a client's senders post the notifications of `acme`, withdrawn before where it is asked for.
pub(crate) fn endpoint_of(client: &Client, method: &str) -> String {
    let shown = client.send(method, "/v1/gateways/http/acme/endpoint", None);
    assert_eq!(shown.status, 200, "{}", shown.text());
    shown.json()["path"].as_str().unwrap().to_owned()
}

#[test]
fn a_withdrawn_endpoint_takes_nothing_and_another_one_does() {
    let dir = TempDir::new();
    let (program, launch) = Program::start_for_server(dir.path());
    program.state().about = json!({});
    let data = dir.path().join("data");
    let server = Server::start_in(&data, launch());
    let (client, other) = (server.tenant(), server.another_tenant());
    let sent = |url: &str, path: &str| Client::new(url).send("POST", path, Some(b"{}")).status;
    let takes = |path: &str| sent(&server.url, path);
    let (first, of_other) = (endpoint_of(&client, "GET"), endpoint_of(&other, "GET"));
    assert_eq!((takes(&first), takes(&of_other)), (200, 200));
    let read = program.state().notifications.len();
    let second = endpoint_of(&client, "DELETE");
    assert_eq!(takes(&first), 404, "it was withdrawn");
    assert_eq!(program.state().notifications.len(), read);
    assert_eq!((takes(&second), takes(&of_other)), (200, 200));
    assert_eq!(endpoint_of(&client, "GET"), second);
    let third = endpoint_of(&client, "DELETE");
    assert_eq!([&first, &second, &third].map(|it| takes(it)), [404, 404, 200]);
    assert_eq!(endpoint_of(&other, "GET"), of_other);
    let own = "/1.0/kb/tenants/userKeyValue/NOTIFICATION_ENDPOINT_acme";
    assert_eq!(client.delete(own).status, 400, "the first one would hold again");
    assert_eq!(client.delete("/v1/gateways/http/other/endpoint").status, 404);
    drop(server);
    let server = Server::start_in(&data, launch());
    let takes = |path: &str| sent(&server.url, path);
    assert_eq!([&first, &second, &third].map(|it| takes(it)), [404, 404, 200]);
}

#[test]
fn each_name_of_the_gateway_to_stripe_has_its_own_endpoint() {
    let server = Server::start();
    let client = server.tenant();
    let of_stripe = |query: &str| client.get(&format!("/v1/gateways/stripe/endpoint{query}"));
    let path = |query| of_stripe(query).json()["path"].as_str().unwrap().to_owned();
    let [one, two] = ["", "?gateway=killbill-stripe"].map(path);
    assert_ne!(one, two);
    assert_eq!(of_stripe("?gateway=faregate-stripe").json()["path"], one);
    for (query, field) in [("?gateway=acme", "gateway"), ("?name=x", "name")] {
        let refused = of_stripe(query);
        assert_eq!((refused.status, refused.json()["field"].clone()), (400, json!(field)));
    }
    // The tenant has uploaded no key: no event can be verified.
    let sender = Client::new(&server.url);
    assert_eq!([&one, &two].map(|it| sender.send("POST", it, Some(b"{}")).status), [503; 2]);
    let elsewhere = one.replace("/stripe/", "/http/faregate-stripe/");
    assert_eq!(sender.send("POST", &elsewhere, Some(b"{}")).status, 404);
    let withdrawn = client.delete("/v1/gateways/stripe/endpoint?gateway=killbill-stripe");
    assert_eq!(withdrawn.json()["path"], path("?gateway=killbill-stripe"));
    assert_eq!([&one, &two].map(|it| sender.send("POST", it, Some(b"{}")).status), [503, 404]);
}

#[test]
fn a_notification_of_the_simulator_says_what_to_look_at() {
    let server = Server::start();
    let client = server.tenant();
    let account = account(&client, "faregate-simulator");
    let path = format!(
        "/1.0/kb/accounts/{account}/payments?pluginProperty=outcome%3DUNDEFINED&pluginProperty=truth%3DPROCESSED"
    );
    let paid = client.post(&path, &json!({ "transactionType": "PURCHASE", "amount": 10 }));
    assert_eq!(paid.status, 503);
    let payment = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json()[0].clone();
    let transaction = payment["transactions"][0]["transactionId"].clone();
    let hint = json!({ "paymentId": payment["paymentId"], "transactionId": transaction });
    let notify = |body: &Value| {
        client.post("/1.0/kb/paymentGateways/notification/faregate-simulator", body).status
    };
    assert_eq!(notify(&json!({})), 400);
    assert_eq!(notify(&hint), 200);
    let payments = client.get(&format!("/1.0/kb/accounts/{account}/payments")).json();
    assert_eq!(payments[0]["transactions"][0]["status"], "SUCCESS");
    for plugin in ["__EXTERNAL_PAYMENT__", "nobody"] {
        let path = format!("/1.0/kb/paymentGateways/notification/{plugin}");
        let refused = client.post(&path, &hint);
        let said = refused.text();
        assert_eq!((refused.status, said.contains(plugin)), (400, true), "{said}");
    }
}

#[test]
fn the_test_plugin_does_what_it_is_configured_to() {
    let launch = Launch::usual().env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "500ms");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let id = account(&client, TEST_PLUGIN);
    let mut unsigned = Client::new(&server.url);
    for (name, value) in client.headers().iter().filter(|it| it.0 != "X-Killbill-CreatedBy") {
        unsigned = unsigned.header(name, value);
    }
    let configure = |body: Value| {
        let answer = unsigned.post(CONFIGURE, &body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
    };
    let status = || pay(&client, &id, "PURCHASE").status;
    assert_eq!(status(), 201);
    configure(
        json!({ "CONFIGURE_ACTION": "ACTION_RETURN_PLUGIN_STATUS_ERROR", "METHODS": "purchasePayment" }),
    );
    assert_eq!(status(), 402);
    assert_eq!(pay(&client, &id, "AUTHORIZE").status, 201, "another method");
    let other = json!({ "apiKey": "alice", "apiSecret": "lazar" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &other).status, 201);
    let other = server.client().tenant("alice", "lazar");
    assert_eq!(
        pay(&other, &account(&other, TEST_PLUGIN), "PURCHASE").status,
        201,
        "another tenant"
    );
    configure(json!({ "CONFIGURE_ACTION": "ACTION_CLEAR" }));
    assert_eq!(status(), 201);
    configure(json!({ "CONFIGURE_ACTION": "ACTION_SLEEP", "SLEEP_TIME_SEC": 2 }));
    let late = pay(&client, &id, "PURCHASE");
    assert_eq!((late.status, &late.json()["code"]), (504, &json!(7100)), "{}", late.text());
    configure(json!({ "CONFIGURE_ACTION": "ACTION_CLEAR" }));
    configure(json!({ "METHODS": "purchasePayment", "AMOUNT": "7" }));
    let paid =
        client.get(&format!("/1.0/kb/payments/{}", payment_of(&pay(&client, &id, "PURCHASE"))));
    let transaction = &paid.json()["transactions"][0];
    assert_eq!(
        (&transaction["status"], &transaction["gatewayErrorCode"]),
        (&json!("UNKNOWN"), &json!("AMOUNT_MISMATCH"))
    );
    for (body, field) in [
        (json!({}), "CONFIGURE_ACTION"),
        (json!({ "CONFIGURE_ACTION": "ACTION_DANCE" }), "CONFIGURE_ACTION"),
        (json!({ "CONFIGURE_ACTION": "RETURN_NIL", "METHODS": "toString" }), "METHODS"),
        (json!({ "SLEEP_TIME_SEC": -1 }), "SLEEP_TIME_SEC"),
        (json!({ "SLEEP_TIME_SEC": 601 }), "SLEEP_TIME_SEC"),
        (json!({ "AMOUNT": "much" }), "AMOUNT"),
        (json!({ "ACTION": "RETURN_NIL" }), "ACTION"),
    ] {
        let refused = client.post(CONFIGURE, &body);
        let said = refused.text();
        assert_eq!((refused.status, said.contains(field)), (400, true), "{body}: {said}");
    }
}

#[test]
fn without_a_test_clock_there_is_no_test_plugin() {
    let launch = Launch::in_earnest().env("FAREGATE_GATEWAY_SIMULATOR_ENABLED", "true");
    let client = Server::start_with(launch);
    let client = client.tenant();
    assert_eq!(client.post(CONFIGURE, &json!({ "CONFIGURE_ACTION": "RETURN_NIL" })).status, 501);
}
