//! What a tenant stores through Kill Bill's API: settings, configurations of plugins, keys of its own.

use serde_json::json;

use crate::client::{Answer, Client};
use crate::process::Server;

const SETTINGS: &str = "/1.0/kb/tenants/uploadPerTenantConfig";
const STATE_MACHINE: &str = "/1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/stripe";
const PLUGIN: &str = "/1.0/kb/tenants/uploadPluginConfig/stripe";
const SECRET: &str = "api_key=sk_live_canary";

fn key(name: &str) -> String {
    format!("/1.0/kb/tenants/userKeyValue/{name}")
}

fn put(client: &Client, path: &str, text: &str) -> Answer {
    client.clone().header("Content-Type", "text/plain").send("POST", path, Some(text.as_bytes()))
}

fn store(client: &Client, path: &str, text: &str) {
    let answer = put(client, path, text);
    assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    assert!(answer.header("location").unwrap().ends_with(path), "{path}");
}

fn values(client: &Client, path: &str) -> serde_json::Value {
    let answer = client.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()["values"].clone()
}

#[test]
fn a_key_of_the_tenants_own_has_several_values_and_settings_one() {
    let server = Server::start();
    let client = server.tenant();
    let colour = &key("colour%20of%20shop");
    assert_eq!(values(&client, colour), json!([]));
    store(&client, colour, "blue");
    store(&client, colour, "red\nand green");
    assert_eq!(values(&client, colour), json!(["blue", "red\nand green"]));
    assert_eq!(client.get(colour).json()["key"], "colour of shop");
    store(&client, SETTINGS, r#"{"org.killbill.payment.retry.days":"1,2"}"#);
    store(&client, SETTINGS, r#"{"other":"x"}"#);
    assert_eq!(values(&client, SETTINGS), json!([r#"{"other":"x"}"#]));
    let found = client.get("/1.0/kb/tenants/uploadPerTenantConfig/col/search").json();
    assert_eq!(
        found,
        json!([{ "key": "colour of shop", "values": ["blue", "red\nand green"], "auditLogs": [] }])
    );

    let stranger = server.another_tenant();
    assert_eq!(values(&stranger, colour), json!([]));
    assert_eq!(stranger.get("/1.0/kb/tenants/uploadPerTenantConfig/col/search").json(), json!([]));
    assert_eq!(stranger.delete(colour).status, 204);
    assert_eq!(values(&client, colour), json!(["blue", "red\nand green"]));

    for _ in 0..2 {
        assert_eq!((client.delete(colour).status, client.delete(SETTINGS).status), (204, 204));
        assert_eq!((values(&client, colour), values(&client, SETTINGS)), (json!([]), json!([])));
    }
    let events = client.get("/v1/events?after=0").json();
    let types = events["events"].as_array().unwrap().iter().map(|it| it["eventType"].clone());
    let of_configuration: Vec<_> =
        types.filter(|it| it.as_str().unwrap().starts_with("TENANT_CONFIG")).collect();
    let (change, deletion) = ("TENANT_CONFIG_CHANGE", "TENANT_CONFIG_DELETION");
    assert_eq!(of_configuration, [change, change, deletion], "keys of its own are no events");
}

#[test]
fn a_plugins_configuration_is_stored_sealed_and_shown_to_those_who_may_write_it() {
    let server = Server::start();
    let client = server.tenant();
    store(&client, PLUGIN, SECRET);
    assert_eq!(values(&client, PLUGIN), json!([SECRET]));
    assert_eq!(client.get(PLUGIN).json()["key"], "PLUGIN_CONFIG_stripe");
    let user = json!({ "username": "joe", "password": "joes password", "roles": [] });
    assert_eq!(server.client().post("/1.0/kb/security/users", &user).status, 201);
    let joe = client.clone().user("joe", "joes password");
    assert_eq!(values(&joe, PLUGIN), json!(["***"]));
    let found = joe.get("/1.0/kb/tenants/uploadPerTenantConfig/PLUGIN/search");
    assert!(!found.text().contains("canary"), "{}", found.text());
    assert_eq!(put(&joe, PLUGIN, SECRET).status, 401);
    // A stored text cannot be opened under another key of the tenant.
    for path in [key("PLUGIN_CONFIG_stripe"), key("PUSH_NOTIFICATION_CB"), key("CATALOG")] {
        assert_eq!(client.get(&path).status, 400, "{path}");
        assert_eq!(put(&client, &path, "x").status, 400, "{path}");
        assert_eq!(client.delete(&path).status, 400, "{path}");
    }
    let dir = server.data_dir.clone();
    let (_, log) = server.stop();
    assert!(!log.contains("canary"), "{log}");
    for file in ["faregate.db", "faregate.db-wal"] {
        let bytes = std::fs::read(dir.join(file)).unwrap_or_default();
        assert!(!bytes.windows(6).any(|it| it == b"canary"), "{file}");
    }
}

#[test]
fn a_value_that_cannot_be_stored_is_refused_by_name() {
    let server = Server::start();
    let client = server.tenant();
    let large = "x".repeat(256 * 1024 + 1);
    let long_key = key(&"k".repeat(256));
    let colour = key("colour");
    for (path, text, expected) in [
        (colour.as_str(), "", "value needs to be set"),
        (&colour, "a\0b", "value has a character U+0000"),
        (&colour, "a\u{1e}b", "Invalid parameter value: must not have the character U+001E"),
        (&colour, &large, "value has more than 256 KiB"),
        (&colour, "4111111111111111", "Invalid parameter body"),
        (&long_key, "x", "keyName has more than 255 characters"),
        (PLUGIN, "pan 4111 1111 1111 1111", "Invalid parameter body"),
        (STATE_MACHINE, "", "paymentStateMachineConfig needs to be set"),
        (
            STATE_MACHINE,
            "<stateMachineConfig/>",
            "Failed to load payment state machine configuration: paymentStateMachineConfig is not Kill Bill's",
        ),
        (SETTINGS, "a=b", "perTenantConfig should be a JSON object of names with texts"),
        (
            SETTINGS,
            r#"{"org.killbill.payment.retry.days":"-1"}"#,
            "perTenantConfig org.killbill.payment.retry.days: should be at most 100 days",
        ),
    ] {
        let answer = put(&client, path, text);
        assert_eq!(answer.status, 400, "{path} {}", answer.text());
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(expected), "{path}: {message}");
    }
    assert_eq!(client.post(&colour, &json!("blue")).status, 415);
    assert_eq!(values(&client, &colour), json!([]));
    assert_eq!(values(&client, SETTINGS), json!([]));
    assert_eq!(values(&client, STATE_MACHINE), json!([]));
    let refused = put(&client, STATE_MACHINE, "<stateMachineConfig/>");
    assert_eq!(refused.json()["code"], 7036, "{}", refused.text());
}
