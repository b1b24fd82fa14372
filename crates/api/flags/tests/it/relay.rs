//! FeatBit's agent: a socket for several environments.

use feature_flags::{Environment, Secret, SecretKind};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{
    CHECKOUT, CLIENT_SECRET, Client, ENVIRONMENT, Fixture, MEMBERS, RELAY_SECRET, SERVER_SECRET,
    item, keys, now_ms, sample, stream, time_ms,
};

const OTHER: Uuid = Uuid::from_u128(7);

fn relay(value: &str) -> Secret {
    Secret { kind: SecretKind::RelayProxy, value: value.to_owned(), expires_at_ms: None }
}

/// The sample, and an environment beside it that the same agent serves.
async fn two() -> (Fixture, Client) {
    let fixture = Fixture::start().await;
    fixture.cache.upsert([Environment {
        id: OTHER,
        key: "prod".to_owned(),
        secrets: vec![relay(RELAY_SECRET)],
        ..sample()
    }]);
    let client = fixture.client(&stream("relay-proxy", RELAY_SECRET)).await;
    (fixture, client)
}

fn of(data: &Value, id: Uuid) -> &Value {
    let items = data["items"].as_array().unwrap();
    items.iter().find(|it| it["envId"] == json!(id)).unwrap()
}

#[tokio::test]
async fn all_of_all_environments() {
    let (_world, mut client) = two().await;
    let all = client.sync(&json!({"timestamp": 0})).await;
    assert_eq!(all["eventType"], "rp_full");
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    for id in [ENVIRONMENT, OTHER] {
        assert_eq!(of(&all, id)["featureFlags"].as_array().unwrap().len(), 5);
        assert_eq!(of(&all, id)["segments"].as_array().unwrap().len(), 2);
    }
    let secret = |kind: &str, value: &str| json!({"type": kind, "projectKey": "default", "envId": ENVIRONMENT, "envKey": "dev", "value": value});
    let secrets = json!([secret("server", SERVER_SECRET), secret("client", CLIENT_SECRET)]);
    assert_eq!(of(&all, ENVIRONMENT)["secrets"], secrets);
    assert_eq!(of(&all, OTHER)["secrets"], json!([]));
}

#[tokio::test]
async fn sync_returns_what_is_newer_in_each_environment() {
    let (fixture, mut client) = two().await;
    fixture.change_flag(CHECKOUT, 1, |it| it.is_archived = true);
    client.data().await;
    let has = |id: Uuid, timestamp: i64| json!({"envId": id, "timestamp": timestamp});
    let request = |envs: Value| json!({"timestamp": time_ms(0), "envs": envs});
    let both = json!([has(ENVIRONMENT, time_ms(0)), has(OTHER, time_ms(0))]);
    let newer = client.sync(&request(both)).await;
    assert_eq!(newer["eventType"], "rp_patch");
    assert_eq!(keys(of(&newer, ENVIRONMENT), "key"), [CHECKOUT]);
    assert_eq!(of(&newer, OTHER)["featureFlags"], json!([]));
    let both = json!([has(OTHER, 0), has(ENVIRONMENT, time_ms(1))]);
    let newer = client.sync(&request(both)).await;
    assert_eq!(of(&newer, ENVIRONMENT)["featureFlags"], json!([]));
    assert_eq!(of(&newer, OTHER)["segments"].as_array().unwrap().len(), 2);
    // Who does not know the very environments does not know their secrets.
    let strange = Uuid::from_u128(8);
    for envs in [
        json!(null),
        json!([has(OTHER, time_ms(9))]),
        json!([has(OTHER, time_ms(9)), has(strange, time_ms(9))]),
        json!([has(OTHER, 9), has(ENVIRONMENT, 9), has(strange, 9)]),
    ] {
        assert_eq!(client.sync(&request(envs)).await["eventType"], "rp_full");
    }
}

/// As many as the domain allows a relay proxy, which names each of them in one message.
#[tokio::test]
async fn a_hundred_environments_are_asked_for_in_one_message() {
    let (_world, mut client) = two().await;
    let now = now_ms();
    let envs: Vec<Value> =
        (7..107).map(|it| json!({"envId": Uuid::from_u128(it), "timestamp": now})).collect();
    let answer = client.sync(&json!({"timestamp": now, "envs": envs})).await;
    assert_eq!(answer["items"].as_array().map(Vec::len), Some(2), "it is read, not too long");
}

#[tokio::test]
async fn changes_of_each() {
    let (fixture, mut client) = two().await;
    client.sync(&json!({"timestamp": 0})).await;
    fixture.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    let data = client.data().await;
    assert_eq!((data["eventType"].as_str(), keys(&data, "key")), (Some("patch"), vec![CHECKOUT]));
    assert_eq!(item(&data, CHECKOUT)["envId"], json!(ENVIRONMENT));
    let mut segment = fixture.segment(MEMBERS);
    segment.updated_at = crate::fixture::time(2);
    segment.env_id = String::new();
    assert!(fixture.cache.apply(OTHER, vec![], vec![segment]));
    assert_eq!(client.data().await["segments"][0]["envId"], json!(OTHER));
    client.receives_nothing().await;
}

#[tokio::test]
async fn an_agent_comes_again_where_its_environments_or_secrets_change() {
    let (fixture, mut client) = two().await;
    client.receives_nothing().await;
    let other = |secrets| Environment { id: OTHER, secrets, ..sample() };
    fixture.cache.upsert([other(vec![relay(RELAY_SECRET)])]);
    // It is called otherwise now.
    assert_eq!(client.ended().await, (1012, "service restart".to_owned()));
    let mut client = fixture.client(&stream("relay-proxy", RELAY_SECRET)).await;
    client.receives_nothing().await;
    fixture.cache.upsert([other(vec![relay(RELAY_SECRET)])]);
    client.receives_nothing().await;
    fixture.cache.upsert([other(vec![])]);
    assert_eq!(client.ended().await.0, 1012);
    let mut client = fixture.client(&stream("relay-proxy", RELAY_SECRET)).await;
    assert_eq!(client.sync(&json!({})).await["items"].as_array().unwrap().len(), 1);
    fixture.cache.upsert([Environment { secrets: vec![], ..sample() }]);
    assert_eq!(client.ended().await.0, 4003);
}

/// A relay proxy's secret ends where it has ended in all of its environments, one after the other.
#[tokio::test]
async fn a_secret_that_ends_in_all_environments() {
    let (fixture, mut client) = two().await;
    client.sync(&json!({"timestamp": 0})).await;
    let ending = |id: Uuid, at_ms: i64| {
        let secrets = match id {
            OTHER => vec![relay(RELAY_SECRET)],
            _ => sample().secrets,
        };
        let end = |it: Secret| match it.kind {
            SecretKind::RelayProxy => Secret { expires_at_ms: Some(at_ms), ..it },
            SecretKind::Server | SecretKind::Client => it,
        };
        let key = if id == OTHER { "prod" } else { "dev" }.to_owned();
        Environment { id, key, secrets: secrets.into_iter().map(end).collect(), ..sample() }
    };
    // Later, and one more relay proxy: this one's stream goes on.
    fixture.cache.upsert([ending(ENVIRONMENT, now_ms() + 3_600_000)]);
    let mut more = ending(OTHER, now_ms() + 3_600_000);
    more.secrets.push(relay("rp-another"));
    fixture.cache.upsert([more]);
    client.receives_nothing().await;
    fixture.cache.upsert([ending(ENVIRONMENT, now_ms())]);
    client.receives_nothing().await;
    fixture.cache.upsert([ending(OTHER, now_ms())]);
    assert_eq!(client.ended().await.0, 4003);
}
