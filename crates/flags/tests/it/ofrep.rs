//! OpenFeature's clients.

use std::time::Duration;

use expect_test::expect;
use flags::{Environment, Secret, SecretKind, Settings};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::asking::Ask;
use crate::world::{
    CHECKOUT, CLIENT_SECRET, LAYOUT, PATIENCE, RELAY_SECRET, SERVER_SECRET, World, moment_ms,
    sample,
};

const ALL: &str = "/ofrep/v1/evaluate/flags";

fn context(key: &str) -> Value {
    json!({"context": {"targetingKey": key, "age": 70, "country": "de"}})
}

fn of(key: &str) -> String {
    format!("{ALL}/{key}")
}

#[tokio::test]
async fn one_flag() {
    let world = World::start().await;
    let ask = async |key: &str| {
        let ask = Ask::post(&of(key), &context("dan")).header("x-api-key", SERVER_SECRET);
        ask.of(&world).await.text
    };
    let mut all = String::new();
    for key in [CHECKOUT, "banner", "page-size", LAYOUT] {
        all += &ask(key).await;
        all.push('\n');
    }
    expect![[r#"
        {"key":"new-checkout","value":true,"reason":"STATIC","variant":"c1f0a7d2-0001-4c1e-8f00-000000000001"}
        {"key":"banner","value":"\"50 %\" off","reason":"TARGETING_MATCH","variant":"c1f0a7d2-0003-4c1e-8f00-000000000003"}
        {"key":"page-size","value":20,"reason":"SPLIT","variant":"c1f0a7d2-0004-4c1e-8f00-000000000001"}
        {"key":"layout","value":{"columns": 1, "dense": true},"reason":"TARGETING_MATCH","variant":"c1f0a7d2-0005-4c1e-8f00-000000000002"}
    "#]]
    .assert_eq(&all);
    world.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    assert!(ask(CHECKOUT).await.contains("\"value\":false,\"reason\":\"DISABLED\""));
}

#[tokio::test]
async fn one_flag_that_there_is_not() {
    let world = World::start().await;
    world.change_flag(LAYOUT, 1, |it| it.is_archived = true);
    world.change_flag(CHECKOUT, 2, |it| it.variations[0].value = "perhaps".to_owned());
    let bad = |code: &str, details: &str| json!({"errorCode": code, "errorDetails": details});
    let missing = bad("FLAG_NOT_FOUND", "there is no such flag");
    let parse = bad("PARSE_ERROR", "a JSON object was expected");
    let no_key = bad("TARGETING_KEY_MISSING", "targetingKey is missing");
    let no_context = bad("INVALID_CONTEXT", "the context is an object, and targetingKey a string");
    let unusable = bad("PARSE_ERROR", "the flag's value is not of its kind");
    let ann = context("ann").to_string();
    for (key, name, body, status, mut expected) in [
        ("gone", "gone", ann.as_str(), 404, missing.clone()),
        (LAYOUT, LAYOUT, &ann, 404, missing.clone()),
        ("a%2Fb%20%22", "a/b \"", &ann, 404, missing.clone()),
        ("a/b", "a/b", &ann, 404, missing),
        ("banner", "banner", "", 400, parse),
        ("banner", "banner", "{}", 400, no_key),
        ("banner", "banner", "{\"context\":[]}", 400, no_context),
        (CHECKOUT, CHECKOUT, &ann, 400, unusable),
    ] {
        let ask = Ask::post_text(&of(key), body.to_owned()).header("x-api-key", CLIENT_SECRET);
        let answer = ask.of(&world).await;
        expected["key"] = json!(name);
        assert_eq!((answer.status.as_u16(), answer.json()), (status, expected));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
}

#[tokio::test]
async fn a_key_that_is_no_text_is_refused_in_json() {
    let world = World::start().await;
    let ask = Ask::post(&of("%FF"), &context("ann")).header("x-api-key", CLIENT_SECRET);
    let answer = ask.of(&world).await;
    let expected =
        json!({"errorCode": "PARSE_ERROR", "errorDetails": "the flag's key is no UTF-8"});
    assert_eq!((answer.status.as_u16(), answer.json()), (400, expected));
    assert_eq!(Ask::post(&of("%FF"), &context("ann")).of(&world).await.status, 401);
}

/// Whoever has any answer has none for a context that cannot be.
#[tokio::test]
async fn a_context_is_looked_at_before_what_the_client_has() {
    let world = World::start().await;
    for (body, status) in
        [("", 400), ("{}", 400), ("{\"context\":{}}", 400), (&*context("ann").to_string(), 304)]
    {
        let ask = Ask::post_text(ALL, body.to_owned()).header("x-api-key", CLIENT_SECRET);
        let answer = ask.header("if-none-match", "*").of(&world).await;
        assert_eq!(answer.status, status, "{body}");
    }
}

#[tokio::test]
async fn all_flags() {
    let world = World::start().await;
    world.change_flag(LAYOUT, 1, |it| it.is_archived = true);
    world.change_flag(CHECKOUT, 2, |it| it.variations[0].value = "perhaps".to_owned());
    let ask = |body: &Value| Ask::post(ALL, body).header("x-api-key", CLIENT_SECRET);
    let answer = ask(&context("dan")).of(&world).await;
    let mut all = answer.json();
    let streams = all["eventStreams"].take();
    let channel = streams[0]["endpoint"]["requestUri"].as_str().unwrap();
    assert!(channel.starts_with("/ofrep/v1/events/") && channel.len() == 41, "{channel}");
    assert!(!answer.text.contains(CLIENT_SECRET));
    assert_eq!(
        (&streams[0]["type"], &streams[0]["inactivityDelaySec"]),
        (&json!("sse"), &json!(120))
    );
    expect![[r#"
        {
          "eventStreams": null,
          "flags": [
            {
              "key": "banner",
              "reason": "TARGETING_MATCH",
              "value": "\"50 %\" off",
              "variant": "c1f0a7d2-0003-4c1e-8f00-000000000003"
            },
            {
              "key": "fast-search",
              "reason": "SPLIT",
              "value": false,
              "variant": "c1f0a7d2-0002-4c1e-8f00-000000000002"
            },
            {
              "errorCode": "PARSE_ERROR",
              "errorDetails": "the flag's value is not of its kind",
              "key": "new-checkout"
            },
            {
              "key": "page-size",
              "reason": "SPLIT",
              "value": 20,
              "variant": "c1f0a7d2-0004-4c1e-8f00-000000000001"
            }
          ],
          "metadata": {
            "version": "19e807af3d0-5-2"
          }
        }"#]]
    .assert_eq(&format!("{all:#}"));
    assert_eq!(answer.header("access-control-expose-headers"), Some("ETag"));
    let answer = ask(&json!({"context": {}})).of(&world).await;
    let expected =
        json!({"errorCode": "TARGETING_KEY_MISSING", "errorDetails": "targetingKey is missing"});
    assert_eq!((answer.status.as_u16(), answer.json()), (400, expected));
}

#[tokio::test]
async fn an_etag_is_of_a_version_and_a_context() {
    let world = World::start().await;
    let ask = async |body: &Value, etag: &str, secret: &str| {
        let ask = Ask::post(ALL, body).header("x-api-key", secret).header("if-none-match", etag);
        let answer = ask.of(&world).await;
        (answer.status.as_u16(), answer.header("etag").unwrap_or_default().to_owned())
    };
    let (ann, bob) = (context("ann"), context("bob"));
    let (status, etag) = ask(&ann, "\"x\"", CLIENT_SECRET).await;
    assert_eq!(status, 200);
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() == 26, "{etag}");
    for known in [etag.clone(), format!("W/{etag}"), format!("\"a\" , {etag}"), "*".to_owned()] {
        assert_eq!(ask(&ann, &known, CLIENT_SECRET).await, (304, etag.clone()), "{known}");
    }
    // Another secret of the environment sees the same.
    assert_eq!(ask(&ann, &etag, SERVER_SECRET).await.0, 304);
    assert_eq!(ask(&bob, &etag, CLIENT_SECRET).await.0, 200, "another user");
    let mut older = ann.clone();
    older["context"]["age"] = json!(71);
    assert_eq!(ask(&older, &etag, CLIENT_SECRET).await.0, 200, "another property");
    world.change_segment(crate::world::MEMBERS, 1, |it| it.included.push("ann".to_owned()));
    let (status, newer) = ask(&ann, &etag, CLIENT_SECRET).await;
    assert!(status == 200 && newer != etag, "a changed segment");
    world.change_flag(LAYOUT, 2, |it| it.is_archived = true);
    assert_eq!(ask(&ann, &newer, CLIENT_SECRET).await.0, 200, "a flag that is put away");
    let other = Environment {
        id: uuid::Uuid::from_u128(7),
        secrets: vec![Secret {
            kind: SecretKind::Client,
            value: "Bq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn".to_owned(),
            expires_at_ms: None,
        }],
        ..sample()
    };
    let secret = other.secrets[0].value.clone();
    world.board.put([other]);
    assert_eq!(ask(&ann, &etag, &secret).await.0, 200, "another environment");
}

#[tokio::test]
async fn who_may_ask() {
    let world = World::start().await;
    let body = context("ann");
    for path in [ALL.to_owned(), of("banner")] {
        let ask = || Ask::post(&path, &body);
        let bearer = |secret: &str| format!("Bearer {secret}");
        for (ask, status) in [
            (ask().header("x-api-key", SERVER_SECRET), 200),
            (ask().header("x-api-key", CLIENT_SECRET), 200),
            (ask().header("authorization", &bearer(CLIENT_SECRET)), 200),
            (ask().header("authorization", &format!("bearer  {SERVER_SECRET}")), 200),
            (ask(), 401),
            (ask().header("x-api-key", RELAY_SECRET), 401),
            (ask().header("x-api-key", ""), 401),
            (ask().header("authorization", SERVER_SECRET), 401),
            (ask().header("authorization", &bearer("x")), 401),
            (ask().header("authorization", &format!("Basic {SERVER_SECRET}")), 401),
        ] {
            assert_eq!(ask.of(&world).await.status, status);
        }
        let preflight = Ask::options(&path).header("access-control-request-headers", "x-api-key");
        assert_eq!(
            preflight.of(&world).await.header("access-control-allow-headers"),
            Some("x-api-key")
        );
    }
    world.board.set_available(false);
    let answer = Ask::post(ALL, &body).header("x-api-key", CLIENT_SECRET).of(&world).await;
    assert_eq!(answer.status, 503);
}

/// The address at which changes are told.
async fn channel(world: &World, secret: &str) -> String {
    let answer = Ask::post(ALL, &context("ann")).header("x-api-key", secret).of(world).await;
    answer.json()["eventStreams"][0]["endpoint"]["requestUri"].as_str().unwrap().to_owned()
}

struct Listener(Incoming);

impl Listener {
    async fn start(world: &World, path: &str, last: &str) -> Self {
        let answer = Ask::get(path).header("last-event-id", last).begin(world).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        Self(answer.into_body())
    }

    /// What is told next; nothing where the stream ends.
    async fn next(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(PATIENCE, self.0.frame()).await.expect("nothing comes");
        let data = frame?.unwrap().into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }
}

/// What is told of a version.
fn event(at_ms: i64) -> String {
    let (version, seconds) = (format!("{at_ms:x}-5-2"), at_ms / 1_000);
    let data = format!(
        r#"{{"type":"refetchEvaluation","etag":"\"{version}\"","lastModified":{seconds}}}"#
    );
    assert_eq!(serde_json::from_str::<Value>(&data).unwrap()["etag"], format!("\"{version}\""));
    format!("id: {version}\nevent: message\nretry: 2000\ndata: {data}\n\n")
}

#[tokio::test]
async fn listeners_are_told_to_ask_again() {
    let world = World::start().await;
    let path = channel(&world, CLIENT_SECRET).await;
    assert_eq!(path, channel(&world, CLIENT_SECRET).await, "a page keeps its stream");
    assert_ne!(path, channel(&world, SERVER_SECRET).await);
    world.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    // It may have changed between the answer and the stream.
    let mut new = Listener::start(&world, &path, "").await;
    assert_eq!(new.next().await, Some(event(moment_ms(1))));
    let known = format!("{:x}-5-2", moment_ms(1));
    let mut back = Listener::start(&world, &path, &known).await;
    world.change_flag(LAYOUT, 2, |it| it.is_enabled = false);
    for listener in [&mut new, &mut back] {
        assert_eq!(listener.next().await, Some(event(moment_ms(2))));
    }
    let mut late = Listener::start(&world, &path, &known).await;
    assert_eq!(late.next().await, Some(event(moment_ms(2))));
    world.board.drain(Duration::ZERO, PATIENCE).await;
    for listener in [&mut new, &mut back, &mut late] {
        assert_eq!(listener.next().await, None);
    }
    assert_eq!(Ask::get(&path).of(&world).await.status, 503);
}

#[tokio::test]
async fn a_channel_ends_with_its_secret() {
    let world = World::start().await;
    let path = channel(&world, CLIENT_SECRET).await;
    let mut listener = Listener::start(&world, &path, "").await;
    assert!(listener.next().await.is_some());
    for wrong in ["", "x", SERVER_SECRET, RELAY_SECRET] {
        let path = format!("/ofrep/v1/events/{wrong}");
        let status = Ask::get(&path).of(&world).await.status;
        assert_eq!(status, if wrong.is_empty() { 404 } else { 401 });
    }
    world.board.put([Environment { secrets: vec![], ..sample() }]);
    assert_eq!(listener.next().await, None);
    assert_eq!(Ask::get(&path).of(&world).await.status, 401);
}

#[tokio::test]
async fn no_more_listeners_than_may_be() {
    let world = World::start_with(Settings { listeners_max: 1, ..Settings::default() }).await;
    let path = channel(&world, CLIENT_SECRET).await;
    let listener = Listener::start(&world, &path, "").await;
    assert_eq!(Ask::get(&path).of(&world).await.status, 503);
    drop(listener);
    let ask = async || Ask::get(&path).begin(&world).await.status();
    tokio::time::timeout(PATIENCE, async { while ask().await != 200 {} }).await.unwrap();
}

#[tokio::test]
async fn a_prefix_stands_before_the_paths() {
    let settings = Settings { prefix: "/flags".to_owned(), ..Settings::default() };
    let world = World::start_with(settings).await;
    let path = format!("/flags{ALL}");
    let answer =
        Ask::post(&path, &context("ann")).header("x-api-key", CLIENT_SECRET).of(&world).await;
    let path =
        answer.json()["eventStreams"][0]["endpoint"]["requestUri"].as_str().unwrap().to_owned();
    assert!(path.starts_with("/flags/ofrep/v1/events/"), "{path}");
    Listener::start(&world, &path, "").await;
}
