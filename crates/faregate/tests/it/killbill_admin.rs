//! Operators' routes of Kill Bill's API: caches, queues, metrics, gateways.

use serde_json::{Value, json};
use store::driver::Database;

use crate::client::{Answer, Client};
use crate::gateways::account;
use crate::process::{Launch, Server, TempDir, eventually};

const CACHE: &str = "/1.0/kb/admin/cache";
const QUEUES: &str = "/1.0/kb/admin/queues";
const NODES: &str = "/1.0/kb/nodesInfo";
const UNKNOWN: &str = "0192aabb-ccdd-7000-8000-000000000001";

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap().to_owned()
}

fn purchase(client: &Client, account: &str, query: &str) -> Answer {
    let path = format!("/1.0/kb/accounts/{account}/payments?{query}");
    client.post(&path, &json!({ "transactionType": "PURCHASE", "amount": 10 }))
}

/// A user with this permission and no other.
fn clerk(client: &Client, permission: &str) -> Client {
    let role = json!({ "role": "clerks", "permissions": [permission] });
    assert_eq!(client.post("/1.0/kb/security/roles", &role).status, 201);
    let user = json!({ "username": "joe", "password": "joes password", "roles": ["clerks"] });
    assert_eq!(client.post("/1.0/kb/security/users", &user).status, 201);
    client.clone().user("joe", "joes password")
}

#[test]
fn credentials_that_are_remembered_are_dropped_by_admins() {
    let server = Server::start();
    let client = server.tenant();
    let id = account(&client, "__EXTERNAL_PAYMENT__");
    let of_account = format!("{CACHE}/accounts/{id}");
    for path in [CACHE, &format!("{CACHE}?cacheName=credentials"), &of_account] {
        assert_eq!(client.delete(path).status, 204, "{path}");
    }
    assert_eq!(client.delete(&format!("{CACHE}/tenants")).status, 204);
    // Kill Bill's clients send no author here.
    let mut unsigned = Client::new(&server.url);
    for (name, value) in client.headers().iter().filter(|it| it.0 != "X-Killbill-CreatedBy") {
        unsigned = unsigned.header(name, value);
    }
    assert_eq!(unsigned.delete(CACHE).status, 204);
    let unknown = client.delete(&format!("{CACHE}?cacheName=record-id"));
    assert_eq!(
        (unknown.status, message(&unknown).as_str()),
        (400, "cacheName: there is no cache record-id: the only one is credentials")
    );
    assert_eq!(client.delete(&format!("{CACHE}/accounts/{UNKNOWN}")).status, 404);
    let joe = clerk(&client, "admin:update");
    for path in [CACHE, &of_account, &format!("{CACHE}/tenants")] {
        assert_eq!(joe.delete(path).status, 401, "{path}");
    }
    let events = client.get("/v1/events?after=0").text();
    assert!(!events.contains("CREDENTIALS_DROPPED"), "{events}");
}

#[test]
fn what_was_changed_beside_the_server_is_read_when_credentials_are_dropped() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let joe = clerk(&client, "admin:update");
    let permissions = || joe.get("/1.0/kb/security/permissions").json();
    assert_eq!(permissions(), json!(["admin:update"]));
    let path = store::database_path(dir.path());
    let beside = Database::open(&path, &store::Options::default(), &[]).unwrap();
    let changed = beside.exec("UPDATE role SET permissions = '[]' WHERE name = 'clerks'", &[]);
    assert_eq!(changed.unwrap(), 1);
    assert_eq!(permissions(), json!(["admin:update"]), "it is remembered");
    assert_eq!(client.delete(CACHE).status, 204);
    assert_eq!(permissions(), json!([]));
}

fn queues(client: &Client, query: &str) -> Value {
    let answer = client.clone().header("Accept", "*/*").get(&format!("{QUEUES}?{query}"));
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    answer.json()
}

/// The names of a row's fields.
fn fields(row: &Value) -> Vec<&str> {
    row.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn queues_list_events_to_deliver_and_outcomes_to_ask_for() {
    let server = Server::start_with(Launch::usual().env("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "1h"));
    let client = server.tenant();
    assert_eq!(queues(&client, ""), json!({ "busEvents": [], "notifications": [] }));
    let callback = "/1.0/kb/tenants/registerNotificationCallback?cb=http://127.0.0.1:9/cb";
    assert_eq!(client.send("POST", callback, None).status, 201);
    let id = account(&client, "killbill-payment-test");
    assert_eq!(purchase(&client, &id, "pluginProperty=outcome%3DUNDEFINED").status, 503);
    let events = |query: &str| queues(&client, query)["busEvents"].as_array().unwrap().clone();
    let of_account = format!("accountId={id}");
    let found = eventually("deliveries have failed", || {
        let found = events(&of_account);
        (found.len() == 3).then_some(found)
    });
    let names = ["className", "createdDate", "event", "recordId"];
    let keys = ["searchKey1", "searchKey2", "userToken"];
    assert_eq!(fields(&found[0]), [&names[..], &keys[..]].concat());
    let types: Vec<_> = found.iter().map(|it| it["event"]["eventType"].as_str().unwrap()).collect();
    assert_eq!(types, ["ACCOUNT_CREATION", "ACCOUNT_CHANGE", "PAYMENT_FAILED"]);
    assert_eq!(found[0]["event"]["accountId"], id.as_str());
    assert_eq!(events("").len(), 4, "that of the callback too");

    let notes = |query: &str| queues(&client, query)["notifications"].as_array().unwrap().clone();
    let note = &notes(&of_account)[0];
    assert_eq!(note["queueName"], "payment-service:janitor");
    assert_eq!(
        (&note["event"]["accountId"], note["searchKey1"].clone()),
        (&json!(id), found[0]["searchKey1"].clone())
    );
    assert!(note["effectiveDate"].as_str() > note["createdDate"].as_str(), "{note}");
    for (query, expected) in [
        ("limit=1", (1, 1)),
        ("limit=0", (0, 0)),
        ("withBusEvents=false", (0, 1)),
        ("withNotifications=false", (4, 0)),
        ("serviceName=other", (4, 0)),
        ("serviceName=payment-service&queueName=janitor", (4, 1)),
        ("maxDate=2000-01-01", (0, 0)),
        ("minDate=2000-01-01&maxDate=9000-01-01", (4, 1)),
    ] {
        assert_eq!((events(query).len(), notes(query).len()), expected, "{query}");
    }

    let stranger = json!({ "apiKey": "eve", "apiSecret": "eves" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &stranger).status, 201);
    let eve = server.client().tenant("eve", "eves");
    assert_eq!(queues(&eve, ""), json!({ "busEvents": [], "notifications": [] }));
    let bytes = client.clone().header("Accept", "*/*");
    for (query, status) in [
        ("minDate=yesterday", 400),
        ("limit=x", 400),
        ("accountId=x", 400),
        (&format!("accountId={UNKNOWN}"), 404),
    ] {
        assert_eq!(bytes.get(&format!("{QUEUES}?{query}")).status, status, "{query}");
    }
    assert_eq!(client.get(QUEUES).status, 406, "as Kill Bill");
    let joe = clerk(&client, "admin:update").header("Accept", "*/*");
    assert_eq!(joe.get(QUEUES).status, 401);
}

#[test]
fn metrics_have_dropwizards_maps_and_figures_of_the_process() {
    let server = Server::start();
    let metrics = server.client().get("/1.0/metrics");
    assert_eq!(metrics.status, 200, "{}", metrics.text());
    let metrics = metrics.json();
    let maps = ["counters", "gauges", "histograms", "meters", "timers", "version"];
    assert_eq!(fields(&metrics), maps);
    let resident = &metrics["gauges"]["process_resident_memory_bytes"]["value"];
    assert!(resident.as_f64().unwrap() > 1e6, "{metrics}");
    assert_eq!(clerk(&server.client(), "admin:update").get("/1.0/metrics").status, 401);
}

fn command(name: &str, gateway: &str) -> Value {
    let property = json!({ "key": "pluginName", "value": gateway });
    json!({
        "isSystemCommandType": true,
        "nodeCommandType": name,
        "nodeCommandProperties": [property],
    })
}

#[test]
fn a_stopped_gateway_begins_no_calls_and_answers_inquiries() {
    let launch = Launch::usual().env("FAREGATE_GATEWAY_SIMULATOR_TIMEOUT", "200ms");
    let server = Server::start_with(launch.env("FAREGATE_RESOLVER_UNKNOWN_DELAYS", "1h"));
    let client = server.tenant();
    let gateway = "faregate-simulator";
    let id = account(&client, gateway);
    let state = || {
        let nodes = client.get(NODES).json();
        let plugins = nodes[0]["pluginsInfo"].as_array().unwrap();
        let found = plugins.iter().find(|it| it["pluginName"] == gateway).unwrap();
        found["state"].as_str().unwrap().to_owned()
    };
    let lost = purchase(&client, &id, "pluginProperty=lostAnswer%3Dtrue");
    assert_eq!((lost.status, state().as_str()), (504, "RUNNING"));
    for _ in 0..2 {
        let stopped = client.post(NODES, &command("STOP_PLUGIN", gateway));
        assert_eq!((stopped.status, state().as_str()), (202, "STOPPED"), "{}", stopped.text());
    }
    let refused = purchase(&client, &id, "");
    let reason = "the payment gateway is stopped on this node";
    assert_eq!((refused.status, message(&refused).as_str()), (503, reason));
    assert_eq!(refused.header("retry-after"), Some("10"));
    let payments = || client.get(&format!("/1.0/kb/accounts/{id}/payments")).json();
    assert_eq!(payments().as_array().unwrap().len(), 1, "nothing of it is written");
    let other = account(&client, "killbill-payment-test");
    assert_eq!(purchase(&client, &other, "").status, 201, "another gateway");
    let external = account(&client, "__EXTERNAL_PAYMENT__");
    assert_eq!(purchase(&client, &external, "").status, 201);
    // The payment whose answer was lost is asked about.
    let advanced = client.send("PUT", "/1.0/kb/test/clock?days=1", None);
    assert_eq!(advanced.status, 200);
    eventually("the inquiry ends it", || {
        (payments()[0]["transactions"][0]["status"] == "SUCCESS").then_some(())
    });
    assert_eq!(client.post(NODES, &command("START_PLUGIN", gateway)).status, 202);
    assert_eq!((purchase(&client, &id, "").status, state().as_str()), (201, "RUNNING"));
}

#[test]
fn other_node_commands_are_refused_by_name() {
    let server = Server::start();
    let client = server.client();
    let of = "NodeCommandJson pluginName";
    for (body, expected) in [
        (
            command("RESTART_PLUGIN", "faregate-simulator"),
            "NodeCommandJson nodeCommandType RESTART_PLUGIN is neither START_PLUGIN nor STOP_PLUGIN"
                .to_owned(),
        ),
        (command("STOP_PLUGIN", "stripe"), format!("{of} stripe is no gateway of this node")),
        (
            command("STOP_PLUGIN", "__EXTERNAL_PAYMENT__"),
            format!("{of} __EXTERNAL_PAYMENT__ makes no calls that could be stopped"),
        ),
        (
            json!({ "nodeCommandType": "STOP_PLUGIN" }),
            "NodeCommandJson nodeCommandProperties needs pluginName, the gateway's name".to_owned(),
        ),
        (
            json!({ "nodeCommandProperties": [] }),
            "NodeCommandJson nodeCommandType needs to be set".to_owned(),
        ),
    ] {
        let answer = client.post(NODES, &body);
        assert_eq!((answer.status, message(&answer)), (400, expected), "{body}");
    }
    let joe = clerk(&client, "admin:update");
    assert_eq!(joe.post(NODES, &command("STOP_PLUGIN", "faregate-simulator")).status, 401);
}
