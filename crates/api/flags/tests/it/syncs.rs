//! Answers to messages.

use expect_test::expect;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::fixture::{CHECKOUT, ENVIRONMENT, Fixture, LAYOUT, item, keys, time_ms};

const ALL: [&str; 5] = ["banner", "fast-search", "layout", "new-checkout", "page-size"];

fn user(key: &str) -> Value {
    json!({"keyId": key, "name": key, "customizedProperties": [
        {"name": "age", "value": "70"}, {"name": "country", "value": "de"}]})
}

#[tokio::test]
async fn pings_and_echoes_are_answered() {
    let fixture = Fixture::start().await;
    let mut client = fixture.server().await;
    for ping in [r#"{}"#, "null", r#"{"timestamp":0}"#] {
        client.send(Message::text(format!(r#"{{"messageType":"ping","data":{ping}}}"#))).await;
        assert_eq!(client.text().await, r#"{"messageType":"pong","data":{}}"#);
    }
    client.send(Message::text(r#"{"data":null,"messageType":"PING"}"#)).await;
    assert_eq!(client.text().await, r#"{"messageType":"pong","data":{}}"#);
    for data in [r#"{"a": [1.50, "\u00e9é"]}"#, "null", "\"x\""] {
        client.send(Message::text(format!(r#"{{"messageType":"Echo","data":{data}}}"#))).await;
        assert_eq!(client.text().await, format!(r#"{{"messageType":"echo","data":{data}}}"#));
    }
}

#[tokio::test]
async fn malformed_messages_get_no_answer() {
    let fixture = Fixture::start().await;
    let mut client = fixture.browser().await;
    for message in [
        "",
        "hello",
        "[]",
        "null",
        "{",
        r#"{"messageType":"ping"}"#,
        r#"{"data":{}}"#,
        r#"{"messageType":7,"data":{}}"#,
        r#"{"messageType":"shutdown","data":{}}"#,
        r#"{"messageType":"rp-agent-status","data":{"agentId":"a","status":"ok"}}"#,
        r#"{"messageType":"data-sync","data":null}"#,
        r#"{"messageType":"data-sync","data":{"timestamp":"soon","user":{"keyId":"ann"}}}"#,
        r#"{"messageType":"data-sync","data":{"timestamp":0}}"#,
        r#"{"messageType":"data-sync","data":{"timestamp":0,"user":null}}"#,
        r#"{"messageType":"data-sync","data":{"timestamp":0,"user":{"name":"Ann"}}}"#,
        r#"{"messageType":"data-sync","data":{"timestamp":0,"user":{"keyId":" ","name":"Ann"}}}"#,
        r#"{"messageType":"data-sync","data":{"timestamp":0,"user":{"keyId":null}}}"#,
    ] {
        client.send(Message::text(message)).await;
        client.receives_nothing().await;
    }
    client.send(Message::binary(vec![0, 159, 146, 150])).await;
    client.receives_nothing().await;
    // FeatBit's server does not tell binary from text.
    client.send(Message::binary(&br#"{"messageType":"ping","data":{}}"#[..])).await;
    assert_eq!(client.text().await, r#"{"messageType":"pong","data":{}}"#);
}

#[tokio::test]
async fn a_server_gets_all_definitions() {
    let fixture = Fixture::start().await;
    let mut client = fixture.server().await;
    for data in [json!({"timestamp": 0}), json!({"timestamp": null}), json!({})] {
        let all = client.sync(&data).await;
        assert_eq!(all["eventType"], "full");
        assert_eq!(keys(&all, "key"), ALL);
        let mut sample: Value = serde_json::from_str(include_str!("../../sample.json")).unwrap();
        for flag in sample["featureFlags"].as_array().unwrap() {
            assert_eq!(normal(item(&all, flag["key"].as_str().unwrap())), normal(flag));
        }
        // A segment that environments share counts as this one's.
        sample["segments"][1]["envId"] = json!(ENVIRONMENT);
        let segments = all["segments"].as_array().unwrap();
        assert_eq!(segments.len(), 2);
        for segment in sample["segments"].as_array().unwrap() {
            assert!(segments.contains(segment), "{segment}");
        }
    }
}

/// Numbers as they are compared: 0 is 0.0.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, it)| (name.clone(), normal(it))).collect())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

#[tokio::test]
async fn a_server_gets_changes_since_its_timestamp() {
    let fixture = Fixture::start().await;
    fixture.change_flag(CHECKOUT, 1, |it| it.is_archived = true);
    fixture.change_flag(LAYOUT, 2, |it| it.is_enabled = false);
    let mut client = fixture.server().await;
    let newer = client.sync(&json!({"timestamp": time_ms(0)})).await;
    assert_eq!(newer["eventType"], "patch");
    assert_eq!(keys(&newer, "key"), [LAYOUT, CHECKOUT]);
    assert_eq!(newer["featureFlags"][1]["isArchived"], true);
    assert_eq!(newer["segments"], json!([]));
    let newer = client.sync(&json!({"timestamp": time_ms(1)})).await;
    assert_eq!(keys(&newer, "key"), [LAYOUT]);
    let nothing = json!({"eventType": "patch", "featureFlags": [], "segments": []});
    assert_eq!(client.sync(&json!({"timestamp": time_ms(2)})).await, nothing);
    assert_eq!(keys(&client.sync(&json!({"timestamp": 0})).await, "key"), ALL);
}

#[tokio::test]
async fn a_client_gets_evaluated_flags_of_its_user() {
    let fixture = Fixture::start().await;
    fixture.change_flag(CHECKOUT, 1, |it| it.is_archived = true);
    let mut client = fixture.browser().await;
    let all = client.sync(&json!({"timestamp": 0, "user": user("dan")})).await;
    assert_eq!((all["eventType"].as_str(), all["userKeyId"].as_str()), (Some("full"), Some("dan")));
    assert_eq!(keys(&all, "id"), ALL);
    expect![[r#"
        {
          "id": "banner",
          "matchReason": "targeted",
          "sendToExperiment": false,
          "timestamp": 1772538139003,
          "variation": "\"50 %\" off",
          "variationId": "c1f0a7d2-0003-4c1e-8f00-000000000003",
          "variationOptions": [
            {
              "id": "c1f0a7d2-0003-4c1e-8f00-000000000001",
              "value": "none"
            },
            {
              "id": "c1f0a7d2-0003-4c1e-8f00-000000000002",
              "value": "sale"
            },
            {
              "id": "c1f0a7d2-0003-4c1e-8f00-000000000003",
              "value": "\"50 %\" off"
            }
          ],
          "variationType": "string"
        }"#]]
    .assert_eq(&format!("{:#}", item(&all, "banner")));
    let archived = item(&all, CHECKOUT);
    assert_eq!(archived["variation"], Value::Null);
    assert_eq!(archived["variationId"], Value::Null);
    assert_eq!(archived["matchReason"], "flag archived");
    assert_eq!(archived["sendToExperiment"], false);
    // Its segment was changed after it.
    assert_eq!(item(&all, LAYOUT)["matchReason"], "older people");
    assert_eq!(item(&all, LAYOUT)["timestamp"], 1_772_693_100_500_i64);
}

#[tokio::test]
async fn a_client_gets_changes_and_everything_for_another_user() {
    let fixture = Fixture::start().await;
    let mut client = fixture.browser().await;
    let request = |key: &str, timestamp: i64| json!({"timestamp": timestamp, "user": user(key)});
    let nothing = json!({"eventType": "patch", "userKeyId": "ann", "featureFlags": []});
    assert_eq!(client.sync(&request("ann", time_ms(0))).await, nothing);
    fixture.change_flag(LAYOUT, 3, |it| it.is_enabled = false);
    client.data().await;
    let newer = client.sync(&request("ann", time_ms(2))).await;
    assert_eq!(keys(&newer, "id"), [LAYOUT]);
    assert_eq!(client.sync(&request("ann", time_ms(3))).await, nothing);
    let all = client.sync(&request("bob", time_ms(2))).await;
    assert_eq!((all["eventType"].as_str(), all["userKeyId"].as_str()), (Some("full"), Some("bob")));
    assert_eq!(keys(&all, "id"), ALL);
    let mut other = user("bob");
    other["customizedProperties"][0]["value"] = json!("17");
    let all = client.sync(&json!({"timestamp": time_ms(9), "user": other})).await;
    assert_eq!(all["eventType"], "full", "the same user with other properties is another");
    let same = client.sync(&json!({"timestamp": time_ms(9), "user": other})).await;
    assert_eq!(same["eventType"], "patch");
}

#[tokio::test]
async fn properties_that_are_no_text_count_as_their_json() {
    let fixture = Fixture::start().await;
    let mut client = fixture.browser().await;
    let odd = json!({"keyId": 7, "name": null, "customizedProperties": [
        {"name": "age", "value": 65}, {"name": "isMember", "value": true},
        {"name": null, "value": null}, {"value": {"a": []}}, {}]});
    let all = client.sync(&json!({"user": odd})).await;
    assert_eq!(all["userKeyId"], "7");
    assert_eq!(item(&all, LAYOUT)["matchReason"], "older people");
    let bare = json!({"keyId": "\u{e9}\"", "customizedProperties": null});
    assert_eq!(client.sync(&json!({"user": bare})).await["userKeyId"], "\u{e9}\"");
}
