//! FeatBit's HTTP API.

use expect_test::expect;
use feature_flags::{FlagCount, MetricCount};
use flags::Settings;
use serde_json::{Value, json};

use crate::fixture::{
    CHECKOUT, CLIENT_SECRET, ENVIRONMENT, Fixture, LAYOUT, RELAY_SECRET, SERVER_SECRET, item, keys,
    now_ms, time_ms, token,
};
use crate::request::TestRequest;

const SERVER: &str = "/api/public/sdk/server/latest-all";
const CLIENT: &str = "/api/public/sdk/client/latest-all";
const TRACK: &str = "/api/public/insight/track";
const EVALUATE: &str = "/api/public/featureflag/evaluate";
const REGISTER: &str = "/api/public/agent/register";

#[tokio::test]
async fn a_server_polls_everything_and_changes() {
    let fixture = Fixture::start().await;
    let request = async |query: &str| {
        TestRequest::get(&format!("{SERVER}{query}")).secret(SERVER_SECRET).send(&fixture).await
    };
    for query in ["", "?timestamp=0", "?timestamp=", "?timestamp=-5"] {
        let answer = request(query).await;
        let message = answer.json();
        assert_eq!(message["messageType"], "data-sync");
        assert_eq!(message["data"]["eventType"], "full");
        assert_eq!(keys(&message["data"], "key").len(), 5);
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
    // The same message as on a stream.
    let mut stream = fixture.server().await;
    assert_eq!(request("").await.json()["data"], stream.sync(&json!({"timestamp": 0})).await);
    fixture.change_flag(CHECKOUT, 1, |it| it.is_archived = true);
    let newer = request(&format!("?timestamp={}", time_ms(0))).await.json();
    assert_eq!(
        (&newer["data"]["eventType"], keys(&newer["data"], "key")),
        (&json!("patch"), vec![CHECKOUT])
    );
    let nothing = request(&format!("?timestamp={}", time_ms(1))).await;
    assert_eq!((nothing.status.as_u16(), nothing.text.as_str()), (200, ""));
    assert_eq!(request("?timestamp=soon").await.status, 400);
}

#[tokio::test]
async fn a_client_polls_everything_and_changes() {
    let fixture = Fixture::start().await;
    let request = async |query: &str, user: &Value| {
        TestRequest::post(&format!("{CLIENT}{query}"), user)
            .secret(CLIENT_SECRET)
            .send(&fixture)
            .await
    };
    let dan = json!({"keyId": "dan", "name": "Dan"});
    let all = request("", &dan).await.json();
    assert_eq!(all["data"]["userKeyId"], "dan");
    assert_eq!(item(&all["data"], "banner")["matchReason"], "targeted");
    let mut stream = fixture.browser().await;
    assert_eq!(all["data"], stream.sync(&json!({"user": dan})).await);
    fixture.change_segment(crate::fixture::MEMBERS, 1, |it| it.included.push("dan".to_owned()));
    let newer = request(&format!("?timestamp={}", time_ms(0)), &dan).await.json();
    assert_eq!(keys(&newer["data"], "id"), [LAYOUT]);
    let nothing = request(&format!("?timestamp={}", time_ms(1)), &dan).await;
    assert_eq!((nothing.status.as_u16(), nothing.text.as_str()), (200, ""));
    for wrong in [
        json!({}),
        json!({"keyId": ""}),
        json!([]),
        json!(null),
        json!({"keyId": "a", "customizedProperties": 7}),
    ] {
        let refused = request("", &wrong).await;
        assert_eq!((refused.status.as_u16(), refused.text.as_str()), (400, "invalid end user"));
        assert_eq!(refused.header("access-control-allow-origin"), Some("*"));
    }
}

/// However long the values are: in one part, in parts behind the first, and in parts from the beginning.
#[tokio::test]
async fn a_client_polls_long_values_in_parts() {
    let fixture = Fixture::start().await;
    let dan = json!({"keyId": "dan", "name": "Dan"});
    for (second, length, is_whole) in [(1, 1_000, true), (2, 40_000, false), (3, 400_000, false)] {
        for key in ["banner", CHECKOUT] {
            let lengthen = |it: &mut String| *it = "x".repeat(length);
            fixture.change_flag(key, second, |it| {
                it.variations.iter_mut().for_each(|it| lengthen(&mut it.value));
            });
        }
        let poll = TestRequest::post(CLIENT, &dan).secret(CLIENT_SECRET).send(&fixture).await;
        assert_eq!(poll.header("content-length").is_some(), is_whole, "{length}");
        let mut stream = fixture.browser().await;
        assert_eq!(poll.json()["data"], stream.sync(&json!({"user": dan})).await, "{length}");
        let context = json!({"context": {"targetingKey": "dan"}});
        let bulk = TestRequest::post("/ofrep/v1/evaluate/flags", &context);
        let bulk = bulk.header("X-API-Key", CLIENT_SECRET).send(&fixture).await;
        assert_eq!(bulk.status, 200);
        assert_eq!(bulk.json()["flags"].as_array().map(Vec::len), Some(5), "{length}");
    }
}

#[tokio::test]
async fn each_route_takes_its_kind_of_secret() {
    let fixture = Fixture::start().await;
    let user = json!({"keyId": "ann"});
    let requests = [
        (SERVER, None, "server"),
        (CLIENT, Some(user.clone()), "client"),
        (TRACK, Some(json!([])), "server client"),
        (EVALUATE, Some(json!({"user": user})), "server client"),
        (REGISTER, Some(json!("agent-1")), "relay-proxy"),
    ];
    let tokens = token(SERVER_SECRET);
    for (path, body, kinds) in requests {
        for (kind, secret) in [
            ("server", SERVER_SECRET),
            ("client", CLIENT_SECRET),
            ("relay-proxy", RELAY_SECRET),
            // FeatBit's own API takes the environment from the end of any secret.
            ("forged", "AAAAAAAAAAAAAAAAAAAAAADjchZ8arFUDk-fHCuNkOGn"),
            ("token", &tokens),
            ("nothing", ""),
        ] {
            let request = || match &body {
                Some(body) => TestRequest::post(path, body),
                None => TestRequest::get(path),
            };
            let answer = request().secret(secret).send(&fixture).await;
            let expected = if kinds.split(' ').any(|it| it == kind) { 200 } else { 401 };
            assert_eq!(answer.status, expected, "{path} with {kind}");
            assert_eq!(request().send(&fixture).await.status, 401, "{path} without");
        }
    }
}

#[tokio::test]
async fn a_stranger_is_refused_before_the_body_is_read() {
    let fixture = Fixture::start().await;
    let endless = futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
    let body = axum::body::Body::from_stream(endless);
    let answer = TestRequest::post_text(CLIENT, body).secret(SERVER_SECRET).begin(&fixture).await;
    assert_eq!(answer.status(), 401);
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let settings = Settings { user_bytes_max: 200, insights_bytes_max: 300, ..Settings::default() };
    let fixture = Fixture::start_with(settings).await;
    let padded = |bytes: usize| format!("{:bytes$}", r#"{"keyId": "ann"}"#);
    for (path, body, status) in [
        (CLIENT, padded(200), 200),
        (CLIENT, padded(201), 413),
        (EVALUATE, padded(201), 413),
        (TRACK, format!("{:300}", "[]"), 200),
        (TRACK, format!("{:301}", "[]"), 413),
    ] {
        let answer = TestRequest::post_text(path, body).secret(CLIENT_SECRET).send(&fixture).await;
        assert_eq!(answer.status, status, "{path}");
    }
    let long = TestRequest::post(REGISTER, &json!("x".repeat(257))).secret(RELAY_SECRET);
    assert_eq!(long.send(&fixture).await.status, 400);
    let long = TestRequest::post(REGISTER, &json!("x".repeat(600))).secret(RELAY_SECRET);
    assert_eq!(long.send(&fixture).await.status, 413);
}

#[tokio::test]
async fn without_the_store_requests_come_again() {
    let fixture = Fixture::start().await;
    fixture.cache.set_available(false);
    let answer = TestRequest::get(SERVER).secret(SERVER_SECRET).send(&fixture).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, Some("1")));
}

#[tokio::test]
async fn pages_of_any_origin_may_ask() {
    let fixture = Fixture::start().await;
    for path in [SERVER, CLIENT, TRACK, EVALUATE, REGISTER] {
        let request = TestRequest::options(path)
            .header("origin", "https://shop.example")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type,x-user-agent");
        let answer = request.send(&fixture).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST, OPTIONS"));
        let headers = answer.header("access-control-allow-headers");
        assert_eq!(headers, Some("authorization,content-type,x-user-agent"));
    }
}

#[tokio::test]
async fn flags_are_evaluated_in_one_question() {
    let fixture = Fixture::start().await;
    fixture.change_flag(LAYOUT, 1, |it| it.is_archived = true);
    let request = async |filter: Value| {
        let body = json!({"user": {"keyId": "dan"}, "filter": filter});
        TestRequest::post(EVALUATE, &body).secret(SERVER_SECRET).send(&fixture).await
    };
    let all = request(json!(null)).await.json();
    expect![[r#"
        {
          "key": "banner",
          "variation": {
            "id": "c1f0a7d2-0003-4c1e-8f00-000000000003",
            "matchReason": "targeted",
            "sendToExperiment": false,
            "type": "string",
            "value": "\"50 %\" off"
          }
        }"#]]
    .assert_eq(&format!("{:#}", all[0]));
    let named = async |filter: Value| {
        let answers = request(filter).await.json();
        let keys =
            answers.as_array().unwrap().iter().map(|it| it["key"].as_str().unwrap().to_owned());
        keys.collect::<Vec<_>>().join(" ")
    };
    for (filter, expected) in [
        // Archived flags are left out.
        (json!({}), "banner fast-search new-checkout page-size"),
        (json!({"keys": ["page-size", "banner", "nothing"]}), "banner page-size"),
        (json!({"tags": ["shop"]}), "fast-search new-checkout page-size"),
        (json!({"tags": ["shop", "search"]}), "fast-search"),
        (json!({"tags": ["shop", "search"], "tagFilterMode": "and"}), "fast-search"),
        (
            json!({"tags": ["shop", "search"], "tagFilterMode": "or"}),
            "fast-search new-checkout page-size",
        ),
        (json!({"tags": [], "tagFilterMode": "or"}), "banner fast-search new-checkout page-size"),
        (
            json!({"tags": ["shop"], "tagFilterMode": " "}),
            "banner fast-search new-checkout page-size",
        ),
        (
            json!({"tags": null, "tagFilterMode": null, "keys": null, "timestamp": null}),
            "banner fast-search new-checkout page-size",
        ),
        (json!({"tags": ["shop"], "keys": ["banner"]}), ""),
        (json!({"timestamp": 1_772_538_139_003_i64}), "page-size"),
    ] {
        assert_eq!(named(filter.clone()).await, expected, "{filter}");
    }
    let wrong = request(json!({"tagFilterMode": "nor"})).await;
    assert_eq!((wrong.status.as_u16(), &wrong.text[..23]), (400, "Invalid tag filter mode"));
    for body in [json!({}), json!({"user": {}}), json!({"user": {"keyId": " "}})] {
        let answer = TestRequest::post(EVALUATE, &body).secret(CLIENT_SECRET).send(&fixture).await;
        assert_eq!(
            (answer.status.as_u16(), answer.text.as_str()),
            (400, "A valid user is required.")
        );
    }
    let answer = TestRequest::post_text(EVALUATE, "{").secret(CLIENT_SECRET).send(&fixture).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn insights_are_counted_and_handed_out_once() {
    let fixture = Fixture::start().await;
    let (now, on) = (now_ms(), "c1f0a7d2-0001-4c1e-8f00-000000000001");
    let evaluated = |key: &str, id: &str, counts: bool| {
        json!({"featureFlagKey": key, "variation": {"id": id, "value": "true"}, "timestamp": now,
               "sendToExperiment": counts})
    };
    let metric = json!({"route": "index/metric", "type": "CustomEvent", "eventName": "paid",
                        "numericValue": 2.5, "appType": "x", "timestamp": now});
    let body = json!([
        {"user": {"keyId": "ann", "name": "Ann", "customizedProperties": []},
         "variations": [evaluated(CHECKOUT, on, true), evaluated(CHECKOUT, on, false)],
         "metrics": [metric]},
        {"user": {"keyId": "bob"}, "variations": [evaluated(CHECKOUT, on, false), evaluated("gone", on, true)],
         "metrics": null},
        {"user": {"keyId": "bob"}, "metrics": [{"type": "Click", "eventName": "paid", "timestamp": now}, {}]},
        {"user": {"name": "Nobody"}, "variations": [evaluated(CHECKOUT, on, true)]},
        {"variations": [evaluated(CHECKOUT, on, true)]},
    ]);
    for secret in [SERVER_SECRET, CLIENT_SECRET] {
        let answer = TestRequest::post(TRACK, &body).secret(secret).send(&fixture).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
    }
    let taken = fixture.cache.take_insights();
    let hour_ms = now - now % 3_600_000;
    let flag = FlagCount {
        environment: ENVIRONMENT,
        flag_key: CHECKOUT.to_owned(),
        variation_id: on.to_owned(),
        hour_ms,
        count: 6,
        experiment_count: 2,
    };
    assert_eq!(taken.flags, [flag]);
    let mut metrics: Vec<MetricCount> = taken.metrics;
    metrics.sort_by(|one, other| one.kind.cmp(&other.kind));
    let counts: Vec<_> = metrics.iter().map(|it| (it.kind.as_str(), it.count, it.sum)).collect();
    assert_eq!(counts, [("Click", 2, 2.0), ("CustomEvent", 2, 5.0)]);
    assert_eq!(taken.dropped, 4);
    assert_eq!(fixture.cache.take_insights(), feature_flags::Insights::default());
    for wrong in ["", "{}", "[7", "[{\"variations\": }]"] {
        let answer =
            TestRequest::post_text(TRACK, wrong).secret(CLIENT_SECRET).send(&fixture).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

/// An invalid entry does not lose the others of its batch.
#[tokio::test]
async fn of_odd_insights_the_others_count() {
    let fixture = Fixture::start().await;
    let on = json!({"id": "c1f0a7d2-0001-4c1e-8f00-000000000001"});
    let good = json!({"featureFlagKey": CHECKOUT, "variation": on});
    let user = json!({"keyId": "ann"});
    let body = json!([
        7,
        {"user": user, "variations": {}},
        {"user": user, "variations": [good, {"featureFlagKey": 7, "variation": on}, null, good]},
        {"user": user, "variations": [{"featureFlagKey": CHECKOUT, "variation": on, "timestamp": "soon"}]},
        {"user": user, "metrics": [{"type": "Click", "eventName": "a", "numericValue": "2"},
                                   {"type": "Click", "eventName": "b", "numericValue": 2}]},
    ]);
    let answer = TestRequest::post(TRACK, &body).secret(SERVER_SECRET).send(&fixture).await;
    assert_eq!(answer.status, 200);
    let taken = fixture.cache.take_insights();
    let counts: Vec<u64> = taken.flags.iter().map(|it| it.count).collect();
    let metrics: Vec<_> = taken.metrics.iter().map(|it| (it.event_name.as_str(), it.sum)).collect();
    assert_eq!((counts, metrics, taken.dropped), (vec![2], vec![("b", 2.0)], 6));
}

#[tokio::test]
async fn an_agent_registers_by_its_name() {
    let fixture = Fixture::start().await;
    let answer =
        TestRequest::post(REGISTER, &json!("agent-1")).secret(RELAY_SECRET).send(&fixture).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "agent-1"));
    for wrong in [json!(""), json!(" "), json!({"agentId": "x"}), json!(7)] {
        let answer = TestRequest::post(REGISTER, &wrong).secret(RELAY_SECRET).send(&fixture).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
}
