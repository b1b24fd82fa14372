//! The catalog that a tenant uploads through Kill Bill's API.

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::process::Server;

const JSON: &str = "/1.0/kb/catalog";
const XML: &str = "/1.0/kb/catalog/xml";

fn catalog(name: &str, date: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<catalog>\n  <effectiveDate>{date}</effectiveDate>\n  \
         <catalogName>{name}</catalogName>\n  <recurringBillingMode>IN_ADVANCE</recurringBillingMode>\n\
         </catalog>\n"
    )
}

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
    let first = json!({
        "name": "Gold",
        "effectiveDate": "2020-01-01T00:00:00.000Z",
        "currencies": [], "units": [], "products": [], "priceLists": [],
    });
    assert_eq!(client.get(JSON).json()[0], first);
    let (a, b) = ("2020-01-01T00:00:00.000Z", "2025-01-01T00:00:00.000Z");
    assert_eq!(dates(&client, ""), [a, b]);
    assert_eq!(dates(&client, "?requestedDate=2024-12-31"), [a]);
    assert_eq!(dates(&client, "?requestedDate=2019-12-31"), [""; 0]);
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
    for (text, expected) in [
        (String::new(), "catalog has no root at line 1"),
        ("<catalog>".to_owned(), "catalog has an element that is not closed at line 1"),
        ("<overdue/>".to_owned(), "catalog has the root overdue: it should be catalog at line 1"),
        (with_type, "catalog has a document type at line 2"),
        (catalog("Gold", "soon"), "catalog effectiveDate soon is no date with time (ISO 8601)"),
        (catalog("", at), "catalog catalogName should be a text of at most 255 characters"),
        (catalog("Gold", at), "catalog effectiveDate is that of another version"),
        (
            catalog("Silver", "2021-01-01T00:00:00Z"),
            "catalog catalogName should be Gold, as in other versions",
        ),
        ("x".repeat(256 * 1024 + 1), "catalog has more than 256 KiB"),
    ] {
        let answer = upload(&client, JSON, &text);
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert_eq!((answer.status, message.as_str()), (400, expected));
    }
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
