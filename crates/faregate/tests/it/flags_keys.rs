//! The keys of flags: new ones are such as every client takes as they are, others stay and are warned of.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use domain::command::FlagCommand;
use domain::flag::definition::{DefinitionKind, Expected, NewDefinition, PutDefinitions};
use domain::payment::Actor;
use domain::{Command, DefinitionId, Request, Settings};
use engine::{Answer, Clock, Engine, Options, Parts};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Client;
use crate::process::{Launch, Server, TIMEOUT, TempDir, eventually};

const RESERVED: &str = "a/b?c#d \u{fc}";
const PATH: &str = "/v1/flags/a%2Fb%3Fc%23d%20%C3%BC";

fn flag(key: &str) -> Value {
    json!({
        "key": key, "isEnabled": true, "variationType": "boolean",
        "variations": [{ "id": "on", "value": "true" }, { "id": "off", "value": "false" }],
        "disabledVariationId": "off",
        "fallthrough": { "variations": [{ "id": "on", "rollout": [0, 1] }] },
    })
}

/// Writes a flag as a server without the rule did: into the environment `dev` of the first tenant.
async fn write_flag(dir: &Path, key: &str, document: &str) {
    let store = store::open_dir(dir, &store::Options::default()).unwrap();
    let queries = Arc::new(store.queries(1).unwrap());
    let settings = Settings {
        gateways: BTreeMap::new(),
        unknown_delays_us: vec![],
        pending_delays_us: vec![],
        reply_keep_us: domain::Timestamp::DAY_US,
        transactions_per_payment_max: 1_000,
        routing: domain::context::RoutingSettings::DEFAULT,
    };
    let (gateways, clock, options) = (BTreeMap::new(), Clock::new(true), Options::default());
    let parts = Parts { store, queries, gateways, clock, settings, options };
    let (engine, running) = Engine::start(parts).unwrap();
    let found = engine.read(|queries| {
        let tenant = queries.tenant_named("bob")?.expect("the tenant was made");
        queries.environment_by_key(tenant.no, "default", "dev")
    });
    let environment = found.await.unwrap().expect("the environment was made");
    let new = NewDefinition {
        kind: DefinitionKind::Flag,
        key: key.to_owned(),
        id: DefinitionId::new(Uuid::now_v7()),
        body: document.to_owned(),
        is_archived: false,
        expected: Expected::Nothing,
    };
    let put = PutDefinitions { environment: environment.id, version: None, definitions: vec![new] };
    let id = engine.mint();
    let (user, created_by) = ("admin".to_owned(), "admin".to_owned());
    let request = Request {
        id,
        tenant: environment.tenant,
        actor: Actor { user, created_by, reason: None, comments: None, token: id.0 },
        idempotency: None,
        command: Command::Flag(FlagCommand::PutDefinitions(put)),
    };
    assert!(matches!(engine.submit(request).await, Ok(Answer::Replied(_))));
    drop(engine);
    running.stop(TIMEOUT).await;
}

fn refused_key(client: &Client, path: &str, body: &Value, field: &str) {
    let refused = client.post(path, body);
    assert_eq!(refused.status, 422, "{}", refused.text());
    let problem = &refused.json()["problems"][0];
    assert_eq!(problem["field"], field, "{problem}");
    assert!(problem["reason"].as_str().unwrap().contains("OpenFeature"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_plain_and_others_stay_and_are_warned_of() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    for key in ["a/b", "a?b", "a#b", "a b", "a%b", "a+b", "a:b", "\u{fc}"] {
        refused_key(&client, "/v1/flags", &flag(key), "key");
        let import = json!({ "featureFlags": [flag(key)] });
        let field = "featureFlags[0].key";
        refused_key(&client, "/v1/environments/dev/import", &import, field);
        refused_key(&client, "/v1/changes", &json!({ "flag": key, "patch": flag(key) }), "key");
    }
    let plain = client.post("/v1/flags", &flag("Az09._-"));
    assert_eq!((plain.status, plain.header("x-faregate-warning")), (201, None));
    assert!(server.stop().0.success());

    write_flag(dir.path(), RESERVED, &flag(RESERVED).to_string()).await;
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    let warned = |it: crate::client::Answer| {
        assert_eq!(it.status, 200, "{}", it.text());
        let warning = it.header("x-faregate-warning");
        assert!(warning.is_some_and(|it| it.contains("OpenFeature")), "{warning:?}");
    };
    warned(client.get(PATH));
    warned(client.send("PATCH", PATH, Some(br#"{"name": "old"}"#)));
    warned(client.put(PATH, &flag(RESERVED)));
    let environments = client.get("/v1/environments").json();
    let secret = environments[0]["secrets"][0]["value"].as_str().unwrap().to_owned();
    let sdk = server.client().header("X-API-Key", &secret);
    let context = json!({ "context": { "targetingKey": "ann" } });
    let path = PATH.replace("/v1/flags", "/ofrep/v1/evaluate/flags");
    eventually("the flag over OFREP", || {
        Some(sdk.post(&path, &context).json()).filter(|it| it["value"] == json!(true))
    });
    // An export can be imported where it comes from, and copied to where it is promoted.
    let exported = client.get("/v1/environments/dev/export").json();
    assert_eq!(client.post("/v1/environments/dev/import", &exported).status, 200);
    refused_key(&client, "/v1/environments/prod/import", &exported, "featureFlags[1].key");
    let copied = client.post("/v1/environments/prod/copy", &json!({ "from": "dev" }));
    assert_eq!(copied.status, 200, "{}", copied.text());
    let log = server.stop().1;
    assert!(log.contains("the key of a flag has other characters"), "{log}");
}
