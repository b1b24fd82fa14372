//! Which fields of a flag or a segment are refused, and how.

use expect_test::expect;
use serde_json::{Value, json};

use crate::flags::with_sample;
use crate::process::Server;

/// The fields are those of what was sent. Only an import has several flags, with their places.
#[test]
fn the_same_mistake_is_refused_alike_in_post_put_and_patch() {
    let (server, client) = with_sample();
    let path = "/v1/flags/new-checkout";
    let flag = client.get(path).json();
    let rule = json!([{ "name": "r", "variations": [],
        "conditions": [{ "property": "age", "op": "Resembles", "value": "1" }] }]);
    for (field, value, problems) in [
        ("enabled", json!(false), "enabled: there is no such field"),
        ("isEnabled", json!("yes"), "isEnabled: invalid type: string \"yes\", expected a boolean"),
        ("tags", json!(["a", 1]), "tags[1]: invalid type: integer `1`, expected a string"),
        (
            "variationType",
            json!("bool"),
            "variationType: boolean, string, number or json was expected",
        ),
        (
            "variationType",
            Value::Null,
            "variationType: boolean, string, number or json was expected",
        ),
        ("disabledVariationId", json!("x"), "disabledVariationId: there is no variation \"x\""),
        ("fallthrough", Value::Null, "fallthrough.variations: may not be empty"),
        (
            "rules",
            rule,
            "rules[0].conditions[0].op: there is no operator \"Resembles\"; \
             rules[0].variations: may not be empty",
        ),
        ("id", json!("x"), "id: is no UUID"),
    ] {
        let mut whole = flag.clone();
        whole[field] = value.clone();
        let mut new = whole.clone();
        new["key"] = json!("another");
        if field != "id" {
            new.as_object_mut().unwrap().remove("id");
        }
        let part = json!({ field: value });
        let patched = client.send("PATCH", path, Some(part.to_string().as_bytes()));
        let mut refused = vec![client.post("/v1/flags", &new), client.put(path, &whole)];
        if value.is_null() {
            // A patch says by it that the field is not given.
            let shown = patched.json();
            assert_eq!((patched.status, &shown[field]), (200, &flag[field]), "{}", patched.text());
        } else {
            refused.push(patched);
        }
        for refused in refused {
            let found = refused.json()["problems"].as_array().cloned().unwrap_or_default();
            let found = found.iter().map(|it| {
                let text = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
                format!("{}: {}", text("field"), text("reason"))
            });
            let found = found.collect::<Vec<_>>().join("; ");
            assert_eq!((refused.status, found.as_str()), (422, problems), "{}", refused.text());
        }
    }
    let refused = client.post("/v1/flags", &json!({}));
    expect![[r#"{"type":"urn:faregate:problem:wrong-fields","title":"Unprocessable Entity","status":422,"detail":"fields are wrong: 5","problems":[{"field":"key","reason":"1 to 255 characters were expected"},{"field":"variationType","reason":"boolean, string, number or json was expected"},{"field":"variations","reason":"may not be empty"},{"field":"disabledVariationId","reason":"there is no variation \"\""},{"field":"fallthrough.variations","reason":"may not be empty"}]}"#]].assert_eq(&refused.text());
    let segment =
        json!({ "id": "x", "rules": [{ "conditions": [{ "property": "a", "op": "Foo" }] }] });
    let refused = client.post("/v1/segments", &segment);
    expect![[r#"{"type":"urn:faregate:problem:wrong-fields","title":"Unprocessable Entity","status":422,"detail":"fields are wrong: 2","problems":[{"field":"id","reason":"is no UUID"},{"field":"rules[0].conditions[0].op","reason":"there is no operator \"Foo\""}]}"#]].assert_eq(&refused.text());
    drop(server);
}

/// The document's flag has all fields that a flag needs.
#[test]
fn the_flag_of_the_document_is_created() {
    let document = include_str!("../../../../docs/reference/feature-flags.md");
    let section = document.split("## Fields of a flag").nth(1).unwrap();
    let flag = section.split("```json").nth(1).unwrap().split("```").next().unwrap();
    let flag: Value = serde_json::from_str(flag).unwrap();
    let server = Server::start();
    let client = server.tenant();
    let made = client.post("/v1/flags", &flag);
    assert_eq!(made.status, 201, "{}", made.text());
    for field in ["key", "variationType", "variations", "disabledVariationId", "fallthrough"] {
        let mut less = flag.clone();
        less["key"] = json!("another");
        less.as_object_mut().unwrap().remove(field);
        assert_eq!(client.post("/v1/flags", &less).status, 422, "{field}");
    }
    assert_eq!(client.post("/v1/segments", &json!({})).status, 201);
}
