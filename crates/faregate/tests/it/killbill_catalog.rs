//! The catalog that a tenant uploads through Kill Bill's API.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::catalogs::simple as catalog;
use crate::client::{Answer, Client};
use crate::process::Server;

const JSON: &str = "/1.0/kb/catalog";
const XML: &str = "/1.0/kb/catalog/xml";

fn upload(client: &Client, path: &str, text: &str) -> Answer {
    client.clone().header("Content-Type", "text/xml").send("POST", path, Some(text.as_bytes()))
}

fn xml(client: &Client, query: &str) -> Answer {
    client.clone().header("Accept", "text/xml").get(&format!("{XML}{query}"))
}

fn dates(client: &Client, query: &str) -> Vec<Value> {
    let answer = client.get(&format!("{JSON}{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().as_array().unwrap().iter().map(|it| it["effectiveDate"].clone()).collect()
}

/// As Kill Bill's Python client sends it.
#[test]
fn a_catalog_without_a_content_type_is_stored() {
    let server = Server::start();
    let client = server.tenant();
    let text = catalog("Gold", "2020-01-01T00:00:00+00:00");
    for (path, body, status) in [(XML, &*text, 201), ("/1.0/kb/accounts", "{}", 415)] {
        let request = client.request("POST", path, Some(body.as_bytes()), "close");
        let request = String::from_utf8(request).unwrap();
        let mut stream = client.connect();
        let untyped = request.replace("Content-Type: application/json\r\n", "");
        stream.write_all(untyped.as_bytes()).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    assert_eq!(dates(&client, ""), [json!("2020-01-01T00:00:00.000Z")]);
}

#[test]
fn versions_of_a_catalog_are_stored_listed_and_deleted() {
    let server = Server::start();
    let client = server.tenant();
    assert_eq!(client.get(JSON).json(), json!([]));
    assert_eq!(xml(&client, "").status, 404);
    let later = catalog("Gold", "2025-01-01T00:00:00+00:00");
    let earlier = catalog("Gold", "2020-01-01T00:00:00+00:00");
    for (path, text) in [(JSON, &later), (XML, &earlier)] {
        let stored = upload(&client, path, text);
        assert_eq!(stored.status, 201, "{}", stored.text());
        assert!(stored.header("location").unwrap().ends_with(path), "{path}");
    }
    let first = client.get(JSON).json()[0].clone();
    let price =
        |amount: &str| json!([{ "currency": "USD", "value": amount.parse::<f64>().unwrap() }]);
    let trial = json!({
        "type": "TRIAL", "prices": [], "fixedPrices": [{ "currency": "USD", "value": 0 }],
        "duration": { "unit": "DAYS", "number": 30 }, "usages": [],
    });
    let evergreen = json!({
        "type": "EVERGREEN", "prices": price("20"), "fixedPrices": [],
        "duration": { "unit": "UNLIMITED", "number": -1 }, "usages": [],
    });
    let plan = &first["products"][0]["plans"][0];
    assert_eq!(plan["phases"][0], trial);
    assert_eq!(plan["phases"][1]["prices"][0]["value"].to_string(), "20");
    assert_eq!(plan["phases"][1]["duration"], evergreen["duration"]);
    assert_eq!((&first["name"], &first["currencies"]), (&json!("Gold"), &json!(["USD"])));
    assert_eq!(first["priceLists"], json!([{ "name": "DEFAULT", "plans": ["pro-monthly"] }]));
    let (a, b) = ("2020-01-01T00:00:00.000Z", "2025-01-01T00:00:00.000Z");
    assert_eq!(dates(&client, ""), [a, b]);
    assert_eq!(dates(&client, "?requestedDate=2024-12-31"), [a]);
    assert_eq!(dates(&client, "?requestedDate=2019-12-31"), [""; 0]);
    assert_eq!(client.get("/1.0/kb/catalog/versions").json(), json!([a, b]));
    let newest = xml(&client, "");
    assert_eq!(newest.header("content-type"), Some("text/xml"));
    assert_eq!(newest.text(), later);
    assert_eq!(xml(&client, "?requestedDate=2024-12-31").text(), earlier);
    assert_eq!(xml(&client, "?requestedDate=2019-12-31").status, 404);
    assert_eq!(client.clone().header("Accept", "text/xml").get(JSON).text(), later);
    assert_eq!(client.get(&format!("{JSON}?requestedDate=x")).status, 400);

    let eve = json!({ "apiKey": "eve", "apiSecret": "eves" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &eve).status, 201);
    let eve = server.client().tenant("eve", "eves");
    assert_eq!((eve.get(JSON).json(), eve.delete(JSON).status), (json!([]), 204));
    assert_eq!(dates(&client, "").len(), 2);
    let user = json!({ "username": "joe", "password": "joes password", "roles": [] });
    assert_eq!(server.client().post("/1.0/kb/security/users", &user).status, 201);
    let joe = client.clone().user("joe", "joes password");
    assert_eq!((upload(&joe, JSON, &later).status, joe.delete(JSON).status), (401, 401));
    for _ in 0..2 {
        assert_eq!((client.delete(JSON).status, dates(&client, "").len()), (204, 0));
    }
    let events = client.get("/v1/events?after=0").json();
    let events = events["events"].as_array().unwrap().iter().map(|it| it["eventType"].clone());
    let of_configuration: Vec<_> =
        events.filter(|it| it.as_str().unwrap().starts_with("TENANT_CONFIG")).collect();
    let (change, deletion) = ("TENANT_CONFIG_CHANGE", "TENANT_CONFIG_DELETION");
    assert_eq!(of_configuration, [change, change, deletion]);
}

#[test]
fn a_catalog_that_cannot_be_stored_is_refused_by_name() {
    let server = Server::start();
    let client = server.tenant();
    let at = "2020-01-01T00:00:00Z";
    assert_eq!(upload(&client, JSON, &catalog("Gold", at)).status, 201);
    let with_type = catalog("Gold", "2021-01-01T00:00:00Z")
        .replace("<catalog>", "<!DOCTYPE catalog [<!ENTITY a \"b\">]><catalog>");
    let missing = "line 1, catalog: has no root";
    for (text, expected) in [
        (String::new(), missing),
        ("<catalog>".to_owned(), "line 1, catalog: has an element that is not closed"),
        ("<overdue/>".to_owned(), "line 1, overdue: should be catalog"),
        (with_type, "line 2, catalog: has a document type"),
        (catalog("Gold", "soon"), "line 3, effectiveDate: soon is no date with time (ISO 8601)"),
        (
            catalog("Gold", at),
            "line 1, catalog: Catalog effective date 'Wed Jan 01 00:00:00 GMT 2020' already exists for a previous version",
        ),
        (
            catalog("Silver", "2021-01-01T00:00:00Z"),
            "line 1, catalog: Catalog name 'Silver' is different from existing catalog name 'Gold'",
        ),
        ("x".repeat(1024), "line 1, catalog: has text outside its root"),
    ] {
        let answer = upload(&client, JSON, &text);
        let json = answer.json();
        let message = json["message"].as_str().unwrap();
        assert!(message.starts_with("Invalid catalog for tenant : 2: "), "{message}");
        let (_, problem) = message.split_once(" : ").unwrap();
        let (_, problem) = problem.split_once(": ").unwrap();
        assert_eq!((answer.status, json["code"].clone(), problem), (400, json!(2080), expected));
    }
    assert_eq!(upload(&client, JSON, &" ".repeat(1024 * 1024 + 1)).status, 413);
    assert_eq!(client.post(JSON, &json!({})).status, 415);
    assert_eq!(dates(&client, "").len(), 1);
}

#[test]
fn a_validation_lists_mistakes_and_stores_nothing() {
    let server = Server::start();
    let client = server.tenant();
    let validate = |text: &str| upload(&client, "/1.0/kb/catalog/xml/validate", text);
    let empty = validate("");
    assert_eq!(empty.header("content-type"), Some("application/json"));
    assert_eq!((empty.status, empty.header("location")), (200, None));
    let no_root = json!({ "errorDescription": "has no root", "line": 1, "element": "catalog" });
    assert_eq!(empty.json(), json!({ "catalogValidationErrors": [no_root] }));
    let recorded = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../conformance/vectors/subscriptions/uploads/19-ok.xml"
    );
    let valid = std::fs::read_to_string(recorded).unwrap();
    assert_eq!(validate(&valid).json(), json!({ "catalogValidationErrors": [] }));
    assert_eq!(client.get(JSON).json(), json!([]));
    // Beside the same version it has errors.
    assert_eq!(upload(&client, XML, &valid).status, 201);
    let date = "Catalog effective date 'Sun Jan 01 00:00:00 GMT 2023' already exists for a previous version";
    let errors = validate(&valid).json();
    assert_eq!(errors["catalogValidationErrors"][0]["errorDescription"], date);
    assert_eq!(dates(&client, "").len(), 1);
}
