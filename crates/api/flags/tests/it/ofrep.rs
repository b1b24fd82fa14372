//! OpenFeature's clients.

use std::time::Duration;

use expect_test::expect;
use feature_flags::{Environment, Secret, SecretKind};
use flags::Settings;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::fixture::{
    CHECKOUT, CLIENT_SECRET, Fixture, LAYOUT, RELAY_SECRET, SERVER_SECRET, TIMEOUT, sample, time_ms,
};
use crate::request::TestRequest;

const ALL: &str = "/ofrep/v1/evaluate/flags";

const UNAUTHORIZED: &str = "{\"errorCode\":\"GENERAL\",\"errorDetails\":\"the secret is missing, \
    unknown, expired or of another type: `X-API-Key` or `Authorization: Bearer` has a secret of the \
    environment\"}";

fn context(key: &str) -> Value {
    json!({"context": {"targetingKey": key, "age": 70, "country": "de"}})
}

fn of(key: &str) -> String {
    format!("{ALL}/{key}")
}

#[tokio::test]
async fn one_flag_is_evaluated() {
    let fixture = Fixture::start().await;
    let request = async |key: &str| {
        let request =
            TestRequest::post(&of(key), &context("dan")).header("x-api-key", SERVER_SECRET);
        request.send(&fixture).await.text
    };
    let mut all = String::new();
    for key in [CHECKOUT, "banner", "page-size", LAYOUT] {
        all += &request(key).await;
        all.push('\n');
    }
    expect![[r#"
        {"key":"new-checkout","value":true,"reason":"STATIC","variant":"c1f0a7d2-0001-4c1e-8f00-000000000001"}
        {"key":"banner","value":"\"50 %\" off","reason":"TARGETING_MATCH","variant":"c1f0a7d2-0003-4c1e-8f00-000000000003"}
        {"key":"page-size","value":20,"reason":"SPLIT","variant":"c1f0a7d2-0004-4c1e-8f00-000000000001"}
        {"key":"layout","value":{"columns": 1, "dense": true},"reason":"TARGETING_MATCH","variant":"c1f0a7d2-0005-4c1e-8f00-000000000002"}
    "#]]
    .assert_eq(&all);
    fixture.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    assert!(request(CHECKOUT).await.contains("\"value\":false,\"reason\":\"DISABLED\""));
}

#[tokio::test]
async fn one_flag_that_cannot_be_evaluated_has_an_error_code() {
    let fixture = Fixture::start().await;
    fixture.change_flag(LAYOUT, 1, |it| it.is_archived = true);
    fixture.change_flag(CHECKOUT, 2, |it| it.variations[0].value = "perhaps".to_owned());
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
        let request =
            TestRequest::post_text(&of(key), body.to_owned()).header("x-api-key", CLIENT_SECRET);
        let answer = request.send(&fixture).await;
        expected["key"] = json!(name);
        assert_eq!((answer.status.as_u16(), answer.json()), (status, expected));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
}

#[tokio::test]
async fn a_flag_that_is_the_same_for_all_needs_no_targeting_key() {
    let fixture = Fixture::start().await;
    let ask = async |key: &str, body: &str| {
        let request =
            TestRequest::post_text(&of(key), body.to_owned()).header("x-api-key", CLIENT_SECRET);
        let answer = request.send(&fixture).await;
        (answer.status.as_u16(), answer.json()["value"].clone(), answer.json()["errorCode"].clone())
    };
    let no_key = || (400, Value::Null, json!("TARGETING_KEY_MISSING"));
    for body in ["{}", "{\"context\":{}}", "{\"context\":{\"age\":7,\"targetingKey\":\" \"}}"] {
        assert_eq!(ask(CHECKOUT, body).await, (200, json!(true), Value::Null), "{body}");
        for of_users in ["banner", "page-size", LAYOUT] {
            assert_eq!(ask(of_users, body).await, no_key(), "{of_users} {body}");
        }
    }
    assert_eq!(ask(CHECKOUT, "").await.0, 400);
    assert_eq!(ask(CHECKOUT, "{\"context\":{\"targetingKey\":7}}").await.0, 400);
    fixture.change_flag("banner", 1, |it| it.is_enabled = false);
    assert_eq!(ask("banner", "{}").await.0, 200, "it is off for all");
    fixture.change_flag(CHECKOUT, 2, |it| it.fallthrough.variations[0].rollout = [0.0, 0.5]);
    assert_eq!(ask(CHECKOUT, "{}").await, no_key());
}

#[tokio::test]
async fn a_key_that_is_not_utf8_is_refused_in_json() {
    let fixture = Fixture::start().await;
    let request = TestRequest::post(&of("%FF"), &context("ann")).header("x-api-key", CLIENT_SECRET);
    let answer = request.send(&fixture).await;
    let expected =
        json!({"errorCode": "PARSE_ERROR", "errorDetails": "the flag's key is no UTF-8"});
    assert_eq!((answer.status.as_u16(), answer.json()), (400, expected));
    assert_eq!(TestRequest::post(&of("%FF"), &context("ann")).send(&fixture).await.status, 401);
}

#[tokio::test]
async fn an_invalid_context_is_refused_before_the_etag_is_compared() {
    let fixture = Fixture::start().await;
    for (body, status) in
        [("", 400), ("{}", 400), ("{\"context\":{}}", 400), (&*context("ann").to_string(), 304)]
    {
        let request =
            TestRequest::post_text(ALL, body.to_owned()).header("x-api-key", CLIENT_SECRET);
        let answer = request.header("if-none-match", "*").send(&fixture).await;
        assert_eq!(answer.status, status, "{body}");
    }
}

#[tokio::test]
async fn all_flags_are_evaluated() {
    let fixture = Fixture::start().await;
    fixture.change_flag(LAYOUT, 1, |it| it.is_archived = true);
    fixture.change_flag(CHECKOUT, 2, |it| it.variations[0].value = "perhaps".to_owned());
    let request = |body: &Value| TestRequest::post(ALL, body).header("x-api-key", CLIENT_SECRET);
    let answer = request(&context("dan")).send(&fixture).await;
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
    let answer = request(&json!({"context": {}})).send(&fixture).await;
    let expected =
        json!({"errorCode": "TARGETING_KEY_MISSING", "errorDetails": "targetingKey is missing"});
    assert_eq!((answer.status.as_u16(), answer.json()), (400, expected));
}

#[tokio::test]
async fn an_etag_depends_on_version_and_context() {
    let fixture = Fixture::start().await;
    let request = async |body: &Value, etag: &str, secret: &str| {
        let request =
            TestRequest::post(ALL, body).header("x-api-key", secret).header("if-none-match", etag);
        let answer = request.send(&fixture).await;
        (answer.status.as_u16(), answer.header("etag").unwrap_or_default().to_owned())
    };
    let (ann, bob) = (context("ann"), context("bob"));
    let (status, etag) = request(&ann, "\"x\"", CLIENT_SECRET).await;
    assert_eq!(status, 200);
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() == 26, "{etag}");
    for known in [etag.clone(), format!("W/{etag}"), format!("\"a\" , {etag}"), "*".to_owned()] {
        assert_eq!(request(&ann, &known, CLIENT_SECRET).await, (304, etag.clone()), "{known}");
    }
    // Another secret of the environment sees the same.
    assert_eq!(request(&ann, &etag, SERVER_SECRET).await.0, 304);
    assert_eq!(request(&bob, &etag, CLIENT_SECRET).await.0, 200, "another user");
    let mut older = ann.clone();
    older["context"]["age"] = json!(71);
    assert_eq!(request(&older, &etag, CLIENT_SECRET).await.0, 200, "another property");
    fixture.change_segment(crate::fixture::MEMBERS, 1, |it| it.included.push("ann".to_owned()));
    let (status, newer) = request(&ann, &etag, CLIENT_SECRET).await;
    assert!(status == 200 && newer != etag, "a changed segment");
    fixture.change_flag(LAYOUT, 2, |it| it.is_archived = true);
    assert_eq!(request(&ann, &newer, CLIENT_SECRET).await.0, 200, "an archived flag");
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
    fixture.cache.upsert([other]);
    assert_eq!(request(&ann, &etag, &secret).await.0, 200, "another environment");
}

#[tokio::test]
async fn secrets_authenticate_in_both_headers() {
    let fixture = Fixture::start().await;
    let body = context("ann");
    for path in [ALL.to_owned(), of("banner")] {
        let request = || TestRequest::post(&path, &body);
        let bearer = |secret: &str| format!("Bearer {secret}");
        for (request, status) in [
            (request().header("x-api-key", SERVER_SECRET), 200),
            (request().header("x-api-key", CLIENT_SECRET), 200),
            (request().header("authorization", &bearer(CLIENT_SECRET)), 200),
            (request().header("authorization", &format!("bearer  {SERVER_SECRET}")), 200),
            (request(), 401),
            (request().header("x-api-key", RELAY_SECRET), 401),
            (request().header("x-api-key", ""), 401),
            (request().header("authorization", SERVER_SECRET), 401),
            (request().header("authorization", &bearer("x")), 401),
            (request().header("authorization", &format!("Basic {SERVER_SECRET}")), 401),
        ] {
            let answer = request.send(&fixture).await;
            assert_eq!(answer.status, status);
            if status == 401 {
                assert_eq!(answer.text, UNAUTHORIZED);
                assert_eq!(answer.header("content-type"), Some("application/json"));
                assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
            }
        }
        let preflight =
            TestRequest::options(&path).header("access-control-request-headers", "x-api-key");
        assert_eq!(
            preflight.send(&fixture).await.header("access-control-allow-headers"),
            Some("x-api-key")
        );
    }
    fixture.cache.set_available(false);
    let answer =
        TestRequest::post(ALL, &body).header("x-api-key", CLIENT_SECRET).send(&fixture).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, Some("1")));
    let not_ready =
        r#"{"errorCode":"PROVIDER_NOT_READY","errorDetails":"the flags cannot be read now"}"#;
    assert_eq!(answer.text, not_ready);
}

#[tokio::test]
async fn what_is_refused_has_a_body_for_the_provider() {
    let fixture =
        Fixture::start_with(Settings { user_bytes_max: 100, ..Settings::default() }).await;
    let long = TestRequest::post_text(&of("banner"), " ".repeat(101));
    let answer = long.header("x-api-key", CLIENT_SECRET).send(&fixture).await;
    let too_large = r#"{"errorCode":"INVALID_CONTEXT","errorDetails":"the body is too large"}"#;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (413, too_large));
    let events = TestRequest::get("/ofrep/v1/events/x").send(&fixture).await;
    assert_eq!((events.status.as_u16(), events.text.as_str()), (401, UNAUTHORIZED));
}

/// As those that FeatBit's SDKs report.
#[tokio::test]
async fn evaluations_are_counted_in_insights() {
    let fixture = Fixture::start().await;
    fixture.change_flag(LAYOUT, 1, |it| it.is_archived = true);
    fixture.change_flag("page-size", 3, |it| {
        it.fallthrough.variations.clear();
        it.rules.clear();
    });
    fixture.change_flag(CHECKOUT, 4, |it| it.expt_include_all_targets = true);
    let request = async |path: &str, body: &Value, etag: &str| {
        let request = TestRequest::post(path, body).header("x-api-key", CLIENT_SECRET);
        request.header("if-none-match", etag).send(&fixture).await.status.as_u16()
    };
    let (ann, nobody) = (context("ann"), json!({"context": {}}));
    for (path, body, etag, status) in [
        (of(CHECKOUT), &ann, "", 200),
        (ALL.to_owned(), &ann, "", 200),
        // None of these gives a value.
        (ALL.to_owned(), &ann, "*", 304),
        (of(LAYOUT), &ann, "", 404),
        (of("page-size"), &ann, "", 200),
        (of("gone"), &ann, "", 404),
        (of("banner"), &nobody, "", 400),
        // Of nobody, it is evaluated and in no experiment.
        (of(CHECKOUT), &nobody, "", 200),
    ] {
        assert_eq!(request(&path, body, etag).await, status, "{path} {etag}");
    }
    let taken = fixture.cache.take_insights();
    let mut counts: Vec<_> = taken
        .flags
        .iter()
        .map(|it| (it.flag_key.as_str(), it.variation_id.as_str(), it.count, it.experiment_count))
        .collect();
    counts.sort_unstable();
    let expected = [
        ("banner", "c1f0a7d2-0003-4c1e-8f00-000000000002", 1, 0),
        ("fast-search", "c1f0a7d2-0002-4c1e-8f00-000000000002", 1, 1),
        (CHECKOUT, "c1f0a7d2-0001-4c1e-8f00-000000000001", 3, 2),
    ];
    assert_eq!((counts, taken.dropped), (expected.to_vec(), 0));
}

/// The URL of the event stream.
async fn channel(fixture: &Fixture, secret: &str) -> String {
    let answer =
        TestRequest::post(ALL, &context("ann")).header("x-api-key", secret).send(fixture).await;
    answer.json()["eventStreams"][0]["endpoint"]["requestUri"].as_str().unwrap().to_owned()
}

struct Listener(Incoming);

impl Listener {
    async fn start(fixture: &Fixture, path: &str, last: &str) -> Self {
        let answer = TestRequest::get(path).header("last-event-id", last).begin(fixture).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        Self(answer.into_body())
    }

    /// The next event; none where the stream ends.
    async fn next(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(TIMEOUT, self.0.frame()).await.expect("nothing comes");
        let data = frame?.unwrap().into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }
}

/// The event of a version.
fn event(at_ms: i64) -> String {
    let (version, seconds) = (format!("{at_ms:x}-5-2"), at_ms / 1_000);
    let data = format!(
        r#"{{"type":"refetchEvaluation","etag":"\"{version}\"","lastModified":{seconds}}}"#
    );
    assert_eq!(serde_json::from_str::<Value>(&data).unwrap()["etag"], format!("\"{version}\""));
    format!("id: {version}\nevent: message\nretry: 2000\ndata: {data}\n\n")
}

#[tokio::test]
async fn listeners_get_an_event_per_change() {
    let fixture = Fixture::start().await;
    let path = channel(&fixture, CLIENT_SECRET).await;
    assert_eq!(path, channel(&fixture, CLIENT_SECRET).await, "a page keeps its stream");
    assert_ne!(path, channel(&fixture, SERVER_SECRET).await);
    fixture.change_flag(CHECKOUT, 1, |it| it.is_enabled = false);
    // A flag may have changed between the evaluation and the stream.
    let mut new = Listener::start(&fixture, &path, "").await;
    assert_eq!(new.next().await, Some(event(time_ms(1))));
    let known = format!("{:x}-5-2", time_ms(1));
    let mut back = Listener::start(&fixture, &path, &known).await;
    fixture.change_flag(LAYOUT, 2, |it| it.is_enabled = false);
    for listener in [&mut new, &mut back] {
        assert_eq!(listener.next().await, Some(event(time_ms(2))));
    }
    let mut late = Listener::start(&fixture, &path, &known).await;
    assert_eq!(late.next().await, Some(event(time_ms(2))));
    fixture.cache.drain(Duration::ZERO, TIMEOUT).await;
    for listener in [&mut new, &mut back, &mut late] {
        assert_eq!(listener.next().await, None);
    }
    assert_eq!(TestRequest::get(&path).send(&fixture).await.status, 503);
}

#[tokio::test]
async fn a_channel_expires_with_its_secret() {
    let fixture = Fixture::start().await;
    let path = channel(&fixture, CLIENT_SECRET).await;
    let mut listener = Listener::start(&fixture, &path, "").await;
    assert!(listener.next().await.is_some());
    for wrong in ["", "x", SERVER_SECRET, RELAY_SECRET] {
        let path = format!("/ofrep/v1/events/{wrong}");
        let status = TestRequest::get(&path).send(&fixture).await.status;
        assert_eq!(status, if wrong.is_empty() { 404 } else { 401 });
    }
    fixture.cache.upsert([Environment { secrets: vec![], ..sample() }]);
    assert_eq!(listener.next().await, None);
    assert_eq!(TestRequest::get(&path).send(&fixture).await.status, 401);
}

#[tokio::test]
async fn listeners_above_their_bound_are_refused() {
    let fixture = Fixture::start_with(Settings { listeners_max: 1, ..Settings::default() }).await;
    let path = channel(&fixture, CLIENT_SECRET).await;
    let listener = Listener::start(&fixture, &path, "").await;
    assert_eq!(TestRequest::get(&path).send(&fixture).await.status, 503);
    drop(listener);
    let request = async || TestRequest::get(&path).begin(&fixture).await.status();
    tokio::time::timeout(TIMEOUT, async { while request().await != 200 {} }).await.unwrap();
}

#[tokio::test]
async fn a_prefix_stands_before_the_paths() {
    let settings = Settings { prefix: "/flags".to_owned(), ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    let path = format!("/flags{ALL}");
    let answer = TestRequest::post(&path, &context("ann"))
        .header("x-api-key", CLIENT_SECRET)
        .send(&fixture)
        .await;
    let path =
        answer.json()["eventStreams"][0]["endpoint"]["requestUri"].as_str().unwrap().to_owned();
    assert!(path.starts_with("/flags/ofrep/v1/events/"), "{path}");
    Listener::start(&fixture, &path, "").await;
}
