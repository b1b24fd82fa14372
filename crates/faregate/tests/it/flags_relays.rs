//! Relay proxies of feature flags on the whole server: one stream for several environments, as long as
//! their secret is good.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::flags_streams::{FLAG, Stream, sample, switch};
use crate::process::{Launch, Server, TempDir, eventually};

const RELAYS: &str = "/v1/relay-proxies";
const KIND: &str = "relay-proxy";

fn start(dir: &TempDir) -> (Server, Client) {
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let imported = client.post("/v1/environments/dev/import", &sample());
    assert_eq!(imported.status, 200, "{}", imported.text());
    (server, client)
}

fn make(client: &Client, name: &str, environments: &Value) -> Value {
    let made = client.post(RELAYS, &json!({ "name": name, "environments": environments }));
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()
}

/// A stream that has all of so many environments, and its first sync. A new secret is published a
/// moment after its response.
fn follow(server: &Server, value: &str, environments: usize) -> (Stream, Value) {
    eventually("the relay proxy's secret opens its environments", || {
        let sdk = server.client().header("Authorization", value);
        if register(&sdk).status != 200 {
            return None;
        }
        let mut agent = Stream::open(server, "", KIND, value);
        let full = agent.try_ask_for(&json!({ "timestamp": 0 }))?;
        let is_all = full["items"].as_array().unwrap().len() == environments;
        is_all.then_some((agent, full))
    })
}

fn register(sdk: &Client) -> Answer {
    sdk.post("/api/public/agent/register", &json!("agent-1"))
}

fn text<'v>(relay: &'v Value, field: &str) -> &'v str {
    relay[field].as_str().unwrap()
}

fn names(client: &Client) -> Vec<String> {
    let listed = client.get(RELAYS);
    assert_eq!(listed.status, 200, "{}", listed.text());
    let relays = listed.json();
    let relays = relays["relayProxies"].as_array().unwrap();
    relays.iter().map(|it| text(it, "name").to_owned()).collect()
}

#[test]
fn a_relay_proxy_follows_its_environments_until_its_secret_ends() {
    let dir = TempDir::new();
    let (server, client) = start(&dir);
    let relay = make(&client, "agent", &json!("all"));
    assert_eq!(relay["environments"], json!(["dev", "prod"]));
    let value = text(&relay, "value");
    assert!(value.starts_with("rp-") && value.len() == 25, "{value}");
    let (mut agent, full) = follow(&server, value, 2);
    assert_eq!(full["eventType"], "rp_full");
    let items = full["items"].as_array().unwrap();
    let environments = client.get("/v1/environments").json();
    let ids = |list: &[Value], field: &str| -> Vec<Value> {
        list.iter().map(|it| it[field].clone()).collect()
    };
    assert_eq!(ids(items, "envId"), ids(environments.as_array().unwrap(), "id"));
    assert_eq!(items[0]["featureFlags"][0]["key"], FLAG);
    // The others' secrets, and not its own.
    for (item, environment) in items.iter().zip(environments.as_array().unwrap()) {
        let sent = item["secrets"].as_array().unwrap();
        assert_eq!(ids(sent, "type"), [json!("server"), json!("client")]);
        assert_eq!(ids(sent, "value"), ids(environment["secrets"].as_array().unwrap(), "value"));
    }
    let changed_at = items[0]["featureFlags"][0]["updatedAt"].clone();

    let registered = register(&server.client().header("Authorization", value));
    assert_eq!((registered.status, registered.text().as_str()), (200, "agent-1"));

    switch(&client, false);
    assert_eq!(agent.next()["featureFlags"][0]["isEnabled"], false);

    // What was missed meanwhile, and it is known after a restart.
    server.kill();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    let had = |item: &Value| json!({ "envId": item["envId"], "timestamp": 1 });
    let had: Vec<Value> = items.iter().map(had).collect();
    let mut agent = Stream::open(&server, "", KIND, value);
    let patch = agent.ask_for(&json!({ "timestamp": 1, "envs": had }));
    assert_eq!(patch["eventType"], "rp_patch");
    let flag = &patch["items"][0]["featureFlags"][0];
    assert_eq!((&flag["key"], &flag["isEnabled"]), (&json!(FLAG), &json!(false)));
    assert_ne!(flag["updatedAt"], changed_at);

    let path = format!("{RELAYS}/{}", text(&relay, "id"));
    assert_eq!(client.delete(&format!("{path}?after=3600")).status, 204);
    agent.ask_for(&json!({ "timestamp": 0 }));
    assert_eq!(client.delete(&path).status, 204);
    assert_eq!(agent.closed(), 4003);
    assert_eq!(Stream::open(&server, "", KIND, value).closed(), 4003);
    assert_eq!(register(&server.client().header("Authorization", value)).status, 401);
    assert_eq!(client.delete(&path).status, 404);
    assert_eq!(names(&client), Vec::<String>::new());
}

#[test]
fn relay_proxies_are_made_and_listed() {
    let dir = TempDir::new();
    let (server, client) = start(&dir);
    let first = make(&client, "first", &json!(["prod"]));
    let second = make(&client, "second", &json!(["prod", "dev"]));
    assert_ne!(first["value"], second["value"]);
    assert_eq!(names(&client), ["first", "second"]);
    assert_eq!(client.get(RELAYS).json()["relayProxies"], json!([first, second]));
    // One ends as a whole, and by its own route alone.
    let id = text(&first, "id");
    assert_eq!(client.delete(&format!("/v1/environments/prod/secrets/{id}")).status, 404);
    assert_eq!(client.get("/v1/environments").json()[1]["secrets"].as_array().unwrap().len(), 2);
    assert_eq!(client.delete(&format!("{RELAYS}/{id}")).status, 204);
    assert_eq!(names(&client), ["second"]);
    follow(&server, text(&second, "value"), 2);

    for (body, status) in [
        (json!({ "name": "x", "environments": ["dev", "staging"] }), 404),
        (json!({ "name": "x", "project": "other", "environments": ["dev"] }), 404),
        (json!({ "name": "x", "environments": [] }), 400),
        (json!({ "name": "x", "environments": ["dev", "dev"] }), 400),
        (json!({ "name": "x", "environments": "some" }), 400),
        (json!({ "name": "", "environments": "all" }), 400),
        (json!({ "name": "x" }), 400),
    ] {
        let refused = client.post(RELAYS, &body);
        assert_eq!(refused.status, status, "{body}: {}", refused.text());
    }
    let other = server.client().tenant("bob", "lazar");
    assert_eq!(other.delete(&format!("{RELAYS}/{id}")).status, 404);
    assert_eq!(client.delete(&format!("{RELAYS}/nobody")).status, 400);
    assert_eq!(names(&client), ["second"]);
}
