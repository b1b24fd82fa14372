//! Bundles and subscriptions through Kill Bill's API: their tags and custom fields, lists, keys and audit.

use serde_json::{Value, json};

use crate::catalogs;
use crate::client::{Answer, Client, code};
use crate::process::{Launch, Server, TempDir, run};

const NOTHING: &str = "00000000-0000-0000-0000-00000000000a";
const AUTO_INVOICING_OFF: &str = "00000000-0000-0000-0000-000000000002";
const WRITTEN_OFF: &str = "00000000-0000-0000-0000-000000000004";

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name}: {value}")).to_owned()
}

/// A tenant with a catalog.
fn shop(server: &Server) -> Client {
    let client = server.tenant();
    let catalog = catalogs::simple("Gold", "2020-01-01T00:00:00Z");
    let xml = client.clone().header("Content-Type", "text/xml");
    assert_eq!(xml.send("POST", "/1.0/kb/catalog/xml", Some(catalog.as_bytes())).status, 201);
    client
}

fn account(client: &Client) -> String {
    text(&client.create("/1.0/kb/accounts", &json!({ "currency": "USD" })), "accountId")
}

/// A subscription of an account with these keys: of its bundle, and its own.
fn subscribe(client: &Client, account: &str, [bundle, key]: [&str; 2]) -> Value {
    let it = json!({
        "accountId": account, "planName": "pro-monthly", "bundleExternalKey": bundle,
        "externalKey": key,
    });
    client.create("/1.0/kb/subscriptions", &it)
}

/// The paths of what an account with one subscription is billed by, each with its type.
fn billed(client: &Client, made: &Value) -> [(String, &'static str); 4] {
    let account = text(made, "accountId");
    let invoices = format!("/1.0/kb/accounts/{account}/invoices?includeInvoiceComponents=true");
    let invoice = client.get(&invoices).json()[0].clone();
    [
        (format!("/1.0/kb/bundles/{}", text(made, "bundleId")), "BUNDLE"),
        (format!("/1.0/kb/subscriptions/{}", text(made, "subscriptionId")), "SUBSCRIPTION"),
        (format!("/1.0/kb/invoices/{}", text(&invoice, "invoiceId")), "INVOICE"),
        (
            format!("/1.0/kb/invoiceItems/{}", text(&invoice["items"][0], "invoiceItemId")),
            "INVOICE_ITEM",
        ),
    ]
}

/// The values that the objects of a list have in a field.
fn all(answer: &Answer, name: &str) -> Vec<String> {
    let json = answer.json();
    let list = json.as_array().unwrap_or_else(|| panic!("{json}"));
    list.iter().map(|it| text(it, name)).collect()
}

#[test]
fn custom_fields_are_there_in_the_next_request_and_are_found() {
    let server = Server::start();
    let client = shop(&server);
    let account = account(&client);
    let made = subscribe(&client, &account, ["first", "mine"]);
    for (path, kind) in billed(&client, &made) {
        let fields = format!("{path}/customFields");
        let two = json!([{ "name": "tier", "value": kind }, { "name": "size", "value": "L" }]);
        let added = client.post(&fields, &two);
        assert_eq!(added.status, 201, "{}", added.text());
        assert!(added.header("location").unwrap().ends_with(&fields));
        let listed = client.get(&fields).json();
        assert_eq!((&listed[0]["objectType"], &listed[0]["value"]), (&json!(kind), &json!(kind)));
        assert!(path.ends_with(&text(&listed[0], "objectId")));
        let size = text(&listed[1], "customFieldId");
        let other = json!([{ "customFieldId": size, "value": "M" }]);
        assert_eq!(client.put(&fields, &other).status, 204);
        let tier = text(&listed[0], "customFieldId");
        assert_eq!(client.delete(&format!("{fields}?customField={tier}")).status, 204);
        assert_eq!(all(&client.get(&fields), "value"), ["M"]);
        let history = format!("/1.0/kb/customFields/{size}/auditLogsWithHistory");
        let states = client.get(&history).json();
        assert_eq!(states[1]["history"]["objectType"], kind);
        let search = format!("/1.0/kb/customFields/search?objectType={kind}&fieldName=size");
        assert_eq!(all(&client.get(&search), "objectType"), [kind]);
        let other = path.rsplit_once('/').unwrap().0;
        let absent = client.get(&format!("{other}/{NOTHING}/customFields"));
        assert_eq!(absent.status, 404, "{}", absent.text());
    }
    let of_account = format!("/1.0/kb/accounts/{account}/allCustomFields");
    let kinds = ["BUNDLE", "SUBSCRIPTION", "INVOICE", "INVOICE_ITEM"];
    assert_eq!(all(&client.get(&of_account), "objectType"), kinds);
    let bundles = client.get(&format!("{of_account}?objectType=bundle"));
    assert_eq!(all(&bundles, "objectType"), ["BUNDLE"]);
    let found = client.get("/1.0/kb/customFields/search/M");
    assert_eq!(all(&found, "value"), ["M"; 4]);
    let export = client.clone().header("Accept", "text/plain");
    let export = export.get(&format!("/1.0/kb/export/{account}")).text();
    for kind in kinds {
        assert!(export.contains(&format!("|{kind}|")), "{kind}: {export}");
    }
}

#[test]
fn tags_are_added_and_control_tags_are_refused_by_name() {
    let server = Server::start();
    let client = shop(&server);
    let account = account(&client);
    let made = subscribe(&client, &account, ["first", "mine"]);
    let types = ["BUNDLE", "SUBSCRIPTION", "INVOICE", "INVOICE_ITEM"];
    let own = json!({ "name": "vip", "description": "v", "applicableObjectTypes": types });
    let own = text(&client.create("/1.0/kb/tagDefinitions", &own), "id");
    for (path, kind) in billed(&client, &made) {
        let tags = format!("{path}/tags");
        assert_eq!(client.post(&tags, &json!([own])).status, 201);
        let listed = client.get(&format!("{tags}?audit=FULL")).json();
        assert_eq!((&listed[0]["objectType"], listed.as_array().unwrap().len()), (&json!(kind), 1));
        assert_eq!(listed[0]["auditLogs"][0]["changeType"], "INSERT");
        for control in [AUTO_INVOICING_OFF, WRITTEN_OFF] {
            let refused = client.post(&tags, &json!([control]));
            assert_eq!(refused.status, 400, "{}", refused.text());
            let name = if control == WRITTEN_OFF { "WRITTEN_OFF" } else { "AUTO_INVOICING_OFF" };
            let message = text(&refused.json(), "message");
            assert!(message.contains(name) && message.contains(kind), "{message}");
        }
        let absent = client.delete(&format!("{tags}?tagDef={AUTO_INVOICING_OFF}"));
        assert_eq!(code(&absent), "404 3950");
    }
    assert_eq!(all(&client.get("/1.0/kb/tags/search/vip"), "objectType"), types);
    let of_account = format!("/1.0/kb/accounts/{account}/allTags");
    assert_eq!(all(&client.get(&of_account), "objectType"), types);
    for (path, _) in billed(&client, &made) {
        let tags = format!("{path}/tags");
        assert_eq!(client.delete(&format!("{tags}?tagDef={own}")).status, 204);
        assert_eq!(client.get(&tags).json(), json!([]));
        assert_eq!(
            all(&client.get(&format!("{tags}?includedDeleted=true")), "tagDefinitionName"),
            ["vip"]
        );
    }
}

#[test]
fn bundles_are_listed_and_found_and_renamed() {
    let folder = TempDir::new();
    let server = Server::start_in(folder.path(), Launch::usual());
    let client = shop(&server);
    let (ada, bob) = (account(&client), account(&client));
    let first = subscribe(&client, &ada, ["Ångström one", "key-1"]);
    let second = subscribe(&client, &ada, ["two", "key-2"]);
    let third = subscribe(&client, &bob, ["three", "key-2"]);
    let keys = |path: &str| all(&client.get(path), "externalKey");
    assert_eq!(keys("/1.0/kb/bundles/pagination"), ["Ångström one", "two", "three"]);
    let page = client.get("/1.0/kb/bundles/pagination?limit=2");
    assert_eq!(page.header("x-killbill-pagination-maxnbrecords"), Some("3"));
    let next = page.header("x-killbill-pagination-nextpageuri").unwrap().to_owned();
    assert_eq!(next, "/1.0/kb/bundles/pagination?offset=2&limit=2&audit=NONE");
    assert_eq!(keys(&next), ["three"]);
    let of_ada = format!("/1.0/kb/accounts/{ada}/bundles/pagination");
    assert_eq!(keys(&of_ada), ["Ångström one", "two"]);
    let page = client.get(&format!("{of_ada}?offset=1"));
    assert_eq!(all(&page, "bundleId"), [text(&second, "bundleId")]);
    assert_eq!(page.header("x-killbill-pagination-totalnbrecords"), Some("2"));
    let absent = client.get(&format!("/1.0/kb/accounts/{NOTHING}/bundles/pagination"));
    assert_eq!(absent.status, 404);
    let search = |key: &str| keys(&format!("/1.0/kb/bundles/search/{key}"));
    assert_eq!(search(&text(&third, "bundleId")), ["three"]);
    assert_eq!(search(&ada), ["Ångström one", "two"]);
    assert_eq!(search("two"), ["two"]);
    assert_eq!(search("%C3%A5NGSTR"), ["Ångström one"], "a part, in any case");
    assert_eq!(search("four"), [""; 0]);
    let by_key = |key: &str| client.get(&format!("/1.0/kb/subscriptions?externalKey={key}"));
    assert_eq!(by_key("key-1").json()["subscriptionId"], first["subscriptionId"]);
    assert_eq!(by_key("key-2").json()["subscriptionId"], third["subscriptionId"], "the newest");
    assert_eq!(code(&by_key("none")), "404 1080");

    let rename = |made: &Value, key: &str| {
        let path = format!("/1.0/kb/bundles/{}/renameKey", text(made, "bundleId"));
        client.put(&path, &json!({ "externalKey": key }))
    };
    assert_eq!(code(&rename(&first, "two")), "400 1014");
    assert_eq!(rename(&first, "one").status, 204);
    assert_eq!(rename(&first, "one").status, 204, "once more");
    assert_eq!(keys("/1.0/kb/bundles?externalKey=one"), ["one"]);
    let former = "/1.0/kb/bundles?externalKey=%C3%85ngstr%C3%B6m%20one";
    assert_eq!(code(&client.get(former)), "404 1083");
    assert_eq!(rename(&second, "Ångström one").status, 204, "it is free");
    assert_eq!(keys(former), ["Ångström one"]);
    let empty = json!({ "externalKey": "" });
    let path = format!("/1.0/kb/bundles/{}/renameKey", text(&first, "bundleId"));
    assert_eq!(code(&client.put(&path, &empty)), "400 null");
    let path = format!("/1.0/kb/bundles/{NOTHING}/renameKey");
    assert_eq!(code(&client.put(&path, &json!({ "externalKey": "x" }))), "404 1081");

    // A bundle whose subscriptions have all ended is listed only where it is asked for.
    let cancel = format!(
        "/1.0/kb/subscriptions/{}?entitlementPolicy=IMMEDIATE&billingPolicy=IMMEDIATE",
        text(&first, "subscriptionId")
    );
    assert_eq!(client.delete(&cancel).status, 204);
    assert_eq!(code(&client.get("/1.0/kb/bundles?externalKey=one")), "404 1083");
    assert_eq!(keys("/1.0/kb/bundles?externalKey=one&includedDeleted=true"), ["one"]);
    assert_eq!(keys("/1.0/kb/bundles?externalKey=none&includedDeleted=true"), [""; 0]);
    assert_eq!(code(&client.get("/1.0/kb/bundles")), "404 1083");
    server.stop();
    let verified = run(&["verify", "--data-dir", folder.path().to_str().unwrap()]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn bundles_subscriptions_and_events_are_audited() {
    let server = Server::start();
    let client = shop(&server);
    let account = account(&client);
    let made = subscribe(&client, &account, ["first", "mine"]);
    let bundle = format!("/1.0/kb/bundles/{}", text(&made, "bundleId"));
    let renamed = client.put(&format!("{bundle}/renameKey"), &json!({ "externalKey": "second" }));
    assert_eq!(renamed.status, 204);
    let logs = client.get(&format!("{bundle}/auditLogsWithHistory")).json();
    let types = |logs: &Value| -> Vec<String> {
        logs.as_array().unwrap().iter().map(|it| text(it, "changeType")).collect()
    };
    assert_eq!(types(&logs), ["INSERT", "UPDATE"]);
    assert_eq!(
        (&logs[1]["objectType"], &logs[1]["objectId"]),
        (&json!("BUNDLE"), &made["bundleId"])
    );
    let history = &logs[1]["history"];
    assert_eq!(
        (&history["externalKey"], &history["tableName"]),
        (&json!("second"), &json!("BUNDLES"))
    );
    let subscriptions = "/1.0/kb/subscriptions";
    let path = format!("{subscriptions}/{}", text(&made, "subscriptionId"));
    let quantity = client.put(&format!("{path}/quantity"), &json!({ "quantity": 2 }));
    assert_eq!(quantity.status, 204, "{}", quantity.text());
    let logs = client.get(&format!("{path}/auditLogsWithHistory")).json();
    assert_eq!(types(&logs), ["INSERT", "UPDATE"]);
    assert_eq!(logs[0]["objectType"], "SUBSCRIPTION");
    assert_eq!(logs[0]["history"]["bundleId"], made["bundleId"]);
    assert_eq!(logs[0]["history"]["category"], "BASE");
    for event in made["events"].as_array().unwrap() {
        let id = text(event, "eventId");
        let logs = client.get(&format!("{subscriptions}/events/{id}/auditLogsWithHistory")).json();
        assert_eq!(types(&logs), ["INSERT"], "{event}");
        assert_eq!(
            (&logs[0]["objectType"], &logs[0]["objectId"]),
            (&json!("SUBSCRIPTION_EVENT"), &json!(id))
        );
        let history = &logs[0]["history"];
        assert_eq!(history["subscriptionId"], made["subscriptionId"]);
        assert_eq!(history["effectiveDate"], event["effectiveDate"]);
    }
    let listed = format!("/1.0/kb/accounts/{account}/bundles");
    for (path, at) in [(&bundle, ""), (&listed, "/0")] {
        let shown = client.get(&format!("{path}?audit=FULL")).json();
        let count = |of: &str| {
            let logs = shown.pointer(&format!("{at}{of}/auditLogs"));
            logs.and_then(Value::as_array).unwrap_or_else(|| panic!("{shown}")).len()
        };
        assert_eq!((count(""), count("/subscriptions/0")), (2, 2), "{path}");
    }
    for query in [format!("/{}", text(&made, "subscriptionId")), "?externalKey=mine".to_owned()] {
        let joint = if query.contains('?') { '&' } else { '?' };
        let shown = client.get(&format!("{subscriptions}{query}{joint}audit=MINIMAL")).json();
        assert_eq!(types(&shown["auditLogs"]), ["INSERT"], "{query}");
    }
    for absent in [
        format!("/1.0/kb/bundles/{NOTHING}/auditLogsWithHistory"),
        format!("{subscriptions}/{NOTHING}/auditLogsWithHistory"),
        format!("{subscriptions}/events/{NOTHING}/auditLogsWithHistory"),
    ] {
        assert_eq!(client.get(&absent).status, 404, "{absent}");
    }
    let of_account = client.get(&format!("/1.0/kb/accounts/{account}/auditLogs")).json();
    let count = |kind: &str| {
        of_account.as_array().unwrap().iter().filter(|it| it["objectType"] == kind).count()
    };
    assert_eq!((count("BUNDLE"), count("SUBSCRIPTION")), (2, 2));
}
