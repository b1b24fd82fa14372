//! A tenant's values in Kill Bill's API: settings, configurations of plugins, values under keys of its own.

use serde_json::json;

use crate::catalogs;
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
    // By its key it is shown as by its route.
    assert_eq!(values(&client, &key("PLUGIN_CONFIG_stripe")), json!([SECRET]));
    assert_eq!(values(&joe, &key("PLUGIN_CONFIG_stripe")), json!(["***"]));
    let dir = server.data_dir.clone();
    let (_, log) = server.stop();
    assert!(!log.contains("canary"), "{log}");
    for file in ["faregate.db", "faregate.db-wal"] {
        let bytes = std::fs::read(dir.join(file)).unwrap_or_default();
        assert!(!bytes.windows(6).any(|it| it == b"canary"), "{file}");
    }
}

#[test]
fn kill_bills_keys_are_read_by_key_and_written_by_their_routes() {
    let server = Server::start();
    let client = server.tenant();
    let catalog = &catalogs::simple("c", "2020-01-01T00:00:00Z");
    let xml = client.clone().header("Content-Type", "text/xml");
    let stored = xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes()));
    assert_eq!(stored.status, 201, "{}", stored.text());
    let url = "https://shop.example.com/events";
    let callback = format!("/1.0/kb/tenants/registerNotificationCallback?cb={url}");
    assert_eq!(client.send("POST", &callback, None).status, 201);
    store(&client, SETTINGS, r#"{"other":"x"}"#);
    for (name, expected, route) in [
        ("CATALOG", json!([catalog]), "/1.0/kb/catalog/xml"),
        ("PUSH_NOTIFICATION_CB", json!([url]), "/1.0/kb/tenants/registerNotificationCallback"),
        ("PER_TENANT_CONFIG", json!([r#"{"other":"x"}"#]), SETTINGS),
        ("OVERDUE_CONFIG", json!([]), "/1.0/kb/overdue/xml"),
        ("PLUGIN_CONFIG_x", json!([]), "/1.0/kb/tenants/uploadPluginConfig/{pluginName}"),
        ("CATALOG_TRANSLATION_de", json!([]), "/1.0/kb/invoices/catalogTranslation/{locale}"),
    ] {
        let path = key(name);
        let read = client.get(&path).json();
        let whole = json!({ "key": name, "values": expected, "auditLogs": [] });
        assert_eq!(read, whole, "{name}");
        for answer in [put(&client, &path, "x"), client.delete(&path)] {
            let message = format!("keyName: {name} is written by {route}");
            assert_eq!((answer.status, answer.json()["message"].clone()), (400, json!(message)));
        }
        assert_eq!(client.get(&path).json(), whole, "{name} is what it was");
    }
    // Those of ours are not for Kill Bill's clients.
    for name in ["WEBHOOK_ENDPOINTS", "MAIL_TEMPLATES"] {
        assert_eq!(client.get(&key(name)).status, 400, "{name}");
        assert_eq!(put(&client, &key(name), "x").status, 400, "{name}");
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
