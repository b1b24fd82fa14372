//! Payment methods that the simulated gateway attaches: in the server, in a process of its own, on PostgreSQL and in a
//! cluster.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::cluster::Cluster;
use crate::postgres::Scratch;
use crate::process::{Launch, Server, TempDir, eventually};

const SIMULATOR: &str = "faregate-simulator";
/// The number of the first tenant that a client makes.
const TENANT: u32 = 2;

/// A simulator that attaches methods, and is not waited for long.
const SETTINGS: [(&str, &str); 3] = [
    ("FAREGATE_GATEWAY_SIMULATOR_ATTACHES_METHODS", "true"),
    ("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "2s"),
    ("FAREGATE_GATEWAY_SIMULATOR_SETTLE_AFTER", "1s"),
];

fn launch() -> Launch {
    SETTINGS.iter().fold(Launch::usual(), |launch, (name, value)| launch.env(name, value))
}

fn launch_at(simulator: &Server) -> Launch {
    launch().env("FAREGATE_GATEWAY_SIMULATOR_URL", &simulator.url)
}

fn account(client: &Client) -> String {
    let made = client.post("/1.0/kb/accounts", &json!({ "currency": "EUR" }));
    made.header("location").unwrap().rsplit('/').next().unwrap().to_owned()
}

fn path_of_methods(account: &str) -> String {
    format!("/1.0/kb/accounts/{account}/paymentMethods?isDefault=true")
}

/// A method with properties such as `attach.outcome=ERROR`.
fn method(key: &str, properties: &str) -> Value {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap();
        json!({ "key": key, "value": value })
    };
    let properties: Vec<Value> = properties.split_whitespace().map(pair).collect();
    json!({ "externalKey": key, "pluginName": SIMULATOR, "pluginInfo": { "properties": properties } })
}

fn add(client: &Client, account: &str, key: &str, properties: &str) -> Answer {
    client.post(&path_of_methods(account), &method(key, properties))
}

/// Begins to add a method, whose answer is not waited for.
fn begin_adding(client: &Client, account: &str, key: &str, properties: &str) {
    let body = method(key, properties).to_string();
    let request = client.request("POST", &path_of_methods(account), Some(body.as_bytes()), "close");
    client.connect().write_all(&request).unwrap();
    eventually("the method is committed", || {
        (all(client, account).len() == 1 && active(client, account).is_empty()).then_some(())
    });
}

fn methods(client: &Client, account: &str, query: &str) -> Vec<Value> {
    let path = format!("/1.0/kb/accounts/{account}/paymentMethods?{query}");
    client.get(&path).json().as_array().unwrap().clone()
}

fn active(client: &Client, account: &str) -> Vec<Value> {
    methods(client, account, "")
}

/// Those too that are not active yet, or no more.
fn all(client: &Client, account: &str) -> Vec<Value> {
    methods(client, account, "includedDeleted=true")
}

/// The only active method of an account, once there is one.
fn becomes_active(client: &Client, account: &str) -> Value {
    eventually("the method is active", || active(client, account).pop())
}

fn pay(client: &Client, account: &str) -> u16 {
    let path = format!("/1.0/kb/accounts/{account}/payments");
    client.post(&path, &json!({ "transactionType": "PURCHASE", "amount": 10 })).status
}

fn delete(client: &Client, id: &Value) -> u16 {
    let path = format!("/1.0/kb/paymentMethods/{}", id.as_str().unwrap());
    client.delete(&format!("{path}?forceDefaultPmDeletion=true")).status
}

/// Whether a method is attached at the simulator in this process.
fn is_attached(simulator: &Server, account: &str, id: &Value) -> bool {
    let request = json!({
        "tenant": TENANT, "account": account, "payment_method": id, "gateway": SIMULATOR, "task": "Find",
        "external_payment_method_id": null, "properties": [], "timeout_us": 1_000_000,
    });
    let answer = Client::new(&simulator.url).header("Content-Type", "application/json");
    let found = answer.post("/methods", &request).json();
    let is_attached = found["Attached"]["external_id"].is_string();
    assert!(is_attached || found == "Absent", "{found}");
    is_attached
}

/// Checks clients' view of methods that are attached at once, refused, or answered too late; and of deleted ones.
fn check_methods(client: &Client, simulator: &Server) {
    // The caller waits, and what waits is no method.
    let first = account(client);
    begin_adding(client, &first, "slow", "attach.delayMs=1000");
    assert_eq!(pay(client, &first), 400, "there is no default method yet");
    let slow = becomes_active(client, &first);
    assert_eq!(slow["isDefault"], true);
    assert_eq!(pay(client, &first), 201);
    assert!(is_attached(simulator, &first, &slow["paymentMethodId"]));

    // A refused one leaves its key.
    let second = account(client);
    let properties = "attach.outcome=ERROR attach.errorCode=51 attach.errorMessage=stolen";
    let refused = add(client, &second, "stolen", properties);
    assert_eq!(refused.status, 402);
    assert!(refused.text().contains("(51): stolen"), "{}", refused.text());
    assert_eq!(active(client, &second).len(), 0);
    let invalid = add(client, &second, "stolen", "attach.delayMs=soon");
    assert!(invalid.text().contains("attach.delayMs must be"), "{}", invalid.text());
    assert_eq!(add(client, &second, "stolen", "").status, 201);

    // A lost answer is asked about.
    let third = account(client);
    let lost = add(client, &third, "lost", "attach.lostAnswer=true detach.lostAnswer=true");
    assert_eq!((lost.status, lost.header("location").is_some()), (504, true));
    let lost = becomes_active(client, &third);
    assert_eq!(lost["isDefault"], true);
    assert_eq!(pay(client, &third), 201);

    // Deleting detaches, also where the answer is lost.
    for (account, id) in [(&first, &slow["paymentMethodId"]), (&third, &lost["paymentMethodId"])] {
        assert!(is_attached(simulator, account, id));
        assert_eq!(delete(client, id), 204);
        eventually("it is detached", || (!is_attached(simulator, account, id)).then_some(()));
        assert_eq!((active(client, account).len(), pay(client, account)), (0, 400));
    }
}

#[test]
fn methods_are_attached_before_they_are_active_and_detached_after_they_were_deleted() {
    let dir = TempDir::new();
    let simulator = Server::start_simulator(&dir.path().join("simulator"), "127.0.0.1:0");
    let server = Server::start_with(launch_at(&simulator));
    check_methods(&server.tenant(), &simulator);
    let metrics = server.metrics();
    for (task, answer) in
        [("attach", "attached"), ("attach", "refused"), ("find", "attached"), ("detach", "absent")]
    {
        let labels = format!(
            "faregate_gateway_methods_total{{gateway=\"{SIMULATOR}\",task=\"{task}\",answer=\"{answer}\"}}"
        );
        assert!(metrics.contains(&labels), "{labels} {metrics}");
    }
}

/// Kills the server while a method is on its way to the gateway, and starts it again.
fn crash(dir: &Path, launch: impl Fn() -> Launch, properties: &str) -> (Server, Client, String) {
    let server = Server::start_in(dir, launch());
    let client = server.tenant();
    let account = account(&client);
    begin_adding(&client, &account, "card", properties);
    server.kill();
    let server = Server::start_in(dir, launch());
    let client = server.client().tenant("bob", "lazar");
    (server, client, account)
}

#[test]
fn a_method_that_a_killed_server_did_not_attach_is_refused_and_its_key_is_free() {
    let dir = TempDir::new();
    // The simulator in the server dies with it.
    let (_server, client, account) = crash(dir.path(), launch, "attach.chargeAfterMs=60000");
    eventually("the key is free", || {
        let added = add(&client, &account, "card", "");
        assert!(added.status == 201 || added.text().contains("is taken by"), "{}", added.text());
        (added.status == 201).then_some(())
    });
    assert_eq!((all(&client, &account).len(), active(&client, &account).len()), (2, 1));
    assert_eq!(pay(&client, &account), 201);
}

#[test]
fn a_method_that_was_attached_while_the_server_was_dead_becomes_active() {
    let dir = TempDir::new();
    let data = dir.path().join("simulator");
    let simulator = Server::start_simulator(&data, "127.0.0.1:0");
    let launch = || launch_at(&simulator);
    // A server that is killed before its request has left attaches nothing: then another is tried.
    let attached = (0..10).find_map(|number| {
        let data = dir.path().join(format!("server{number}"));
        let (server, client, account) = crash(&data, launch, "attach.chargeAfterMs=700");
        let method = eventually("the method is attached, or its key is free", || {
            let active = active(&client, &account).pop();
            let is_free = active.is_none() && add(&client, &account, "card", "").status == 201;
            (active.is_some() || is_free).then_some(active)
        });
        method.map(|it| (server, client, account, it["paymentMethodId"].clone()))
    });
    let (server, client, account, id) = attached.expect("one of ten requests has left");
    assert_eq!(pay(&client, &account), 201);
    // The simulator's process knows its methods after a crash of its own.
    let address = simulator.url.strip_prefix("http://").unwrap().to_owned();
    simulator.kill();
    let simulator = Server::start_simulator(&data, &address);
    assert!(is_attached(&simulator, &account, &id));
    assert_eq!(pay(&client, &account), 201);
    assert_eq!(delete(&client, &id), 204);
    eventually("it is detached", || (!is_attached(&simulator, &account, &id)).then_some(()));
    drop(server);
}

#[test]
fn a_combo_payment_attaches_its_new_method_first() {
    let dir = TempDir::new();
    let simulator = Server::start_simulator(&dir.path().join("simulator"), "127.0.0.1:0");
    let server = Server::start_with(launch_at(&simulator));
    let client = server.tenant();
    for (key, properties, status, is_active) in [
        ("ann", "", 201, true),
        // The payment is declined, and its method is there.
        ("bea", "outcome=ERROR", 402, true),
        ("cat", "attach.outcome=ERROR", 402, false),
    ] {
        let body = json!({
            "account": { "externalKey": key, "currency": "EUR" },
            "paymentMethod": method(key, properties),
            "transaction": { "transactionType": "PURCHASE", "amount": 5 },
        });
        let paid = client.post("/1.0/kb/payments/combo", &body);
        assert_eq!(paid.status, status, "{key} {}", paid.text());
        let account = client.get(&format!("/1.0/kb/accounts?externalKey={key}")).json();
        let account = account["accountId"].as_str().unwrap();
        let methods = all(&client, account);
        assert_eq!((methods.len(), active(&client, account).len()), (1, usize::from(is_active)));
        let id = &methods[0]["paymentMethodId"];
        assert_eq!(is_attached(&simulator, account, id), is_active, "{key}");
    }
}

#[test]
fn a_tenant_can_have_every_method_refused() {
    let server = Server::start_with(launch());
    let client = server.tenant();
    let account = account(&client);
    let configure = |action: &str| {
        let body = json!({ "CONFIGURE_ACTION": action, "METHODS": "addPaymentMethod" });
        client.post("/plugins/killbill-payment-test/configure", &body).status
    };
    assert_eq!(configure("ACTION_RETURN_PLUGIN_STATUS_ERROR"), 200);
    assert_eq!(add(&client, &account, "card", "").status, 402);
    assert_eq!(configure("ACTION_CLEAR"), 200);
    assert_eq!(add(&client, &account, "card", "").status, 201);
    let plain = Server::start();
    let body = json!({ "CONFIGURE_ACTION": "RETURN_NIL", "METHODS": "addPaymentMethod" });
    let refused = plain.tenant().post("/plugins/killbill-payment-test/configure", &body);
    assert_eq!(refused.status, 400, "it attaches none");
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn postgres_keeps_the_steps_of_methods() {
    let (scratch, dir) = (Scratch::new(), TempDir::new());
    let simulator = Server::start_simulator(&dir.path().join("simulator"), "127.0.0.1:0");
    let launch = || launch_at(&simulator).env("FAREGATE_DATABASE_URL", &scratch.url());
    let (_server, client, account) =
        crash(&dir.path().join("server"), launch, "attach.chargeAfterMs=700");
    let id = becomes_active(&client, &account)["paymentMethodId"].clone();
    assert!(is_attached(&simulator, &account, &id));
    check_methods(&client, &simulator);
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn cluster_attaches_the_methods_that_fronts_add() {
    let dir = TempDir::new();
    let simulator = Server::start_simulator(&dir.path().join("simulator"), "127.0.0.1:0");
    let mut settings = SETTINGS.to_vec();
    settings.extend([
        ("FAREGATE_GATEWAY_SIMULATOR_ENABLED", "true"),
        ("FAREGATE_GATEWAY_SIMULATOR_URL", &simulator.url),
    ]);
    let cluster = Cluster::start_with(&settings);
    let [client, other] = cluster.tenant();
    check_methods(&client, &simulator);
    // Accounts of all three partitions.
    for number in 0..8 {
        let account = account(&client);
        assert_eq!(add(&other, &account, &format!("card-{number}"), "").status, 201);
        let id = becomes_active(&client, &account)["paymentMethodId"].clone();
        assert!(is_attached(&simulator, &account, &id));
        assert_eq!(pay(&other, &account), 201);
    }
}
