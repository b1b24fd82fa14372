//! Secrets that are used too often.

use feature_flags::RateLimits;
use flags::Settings;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::fixture::{CLIENT_SECRET, Fixture, RELAY_SECRET, SERVER_SECRET, stream, token};
use crate::request::TestRequest;

/// So many that not each of them comes a second after the one before.
const TRIES: usize = 50;

const ONE_OF_EACH: RateLimits =
    RateLimits { streaming: 1, sdk: 1, insight: 1, feature_flag: 1, ofrep: 1 };

async fn limited() -> Fixture {
    Fixture::start_with(Settings { rate_limits: ONE_OF_EACH, ..Settings::default() }).await
}

#[tokio::test]
async fn limited_requests_get_retry_after() {
    const TRACK: &str = "/api/public/insight/track";
    let fixture = limited().await;
    let requests: [fn() -> TestRequest; 5] = [
        || TestRequest::get("/api/public/sdk/server/latest-all").secret(SERVER_SECRET),
        || TestRequest::post(TRACK, &json!([])).secret(SERVER_SECRET),
        || {
            let user = json!({ "user": { "keyId": "ada" } });
            TestRequest::post("/api/public/featureflag/evaluate", &user).secret(SERVER_SECRET)
        },
        || {
            let context = json!({ "context": { "targetingKey": "ada" } });
            TestRequest::post("/ofrep/v1/evaluate/flags", &context)
                .header("x-api-key", SERVER_SECRET)
        },
        || TestRequest::post("/api/public/agent/register", &json!("agent")).secret(RELAY_SECRET),
    ];
    for (number, request) in requests.into_iter().enumerate() {
        assert_eq!(request().send(&fixture).await.status, 200, "{number}");
        let mut refused = None;
        for _ in 0..TRIES {
            let answer = request().send(&fixture).await;
            refused = refused.or_else(|| (answer.status == 429).then_some(answer));
        }
        let refused = refused.unwrap_or_else(|| panic!("{number} was never refused"));
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(refused.header("access-control-expose-headers"), Some("Retry-After"));
    }
    // Each secret has limits of its own.
    let client = TestRequest::post(TRACK, &json!([])).secret(CLIENT_SECRET);
    assert_eq!(client.send(&fixture).await.status, 200);
    // One that opens nothing has none.
    for _ in 0..TRIES {
        let stranger = TestRequest::get("/api/public/sdk/server/latest-all").secret("stranger");
        assert_eq!(stranger.send(&fixture).await.status, 401);
    }
}

#[tokio::test]
async fn streams_above_the_rate_limit_close_with_1013() {
    let fixture = limited().await;
    fixture.server().await.receives_nothing().await;
    let mut refused = 0;
    for _ in 0..TRIES {
        let mut one_more = fixture.server().await;
        one_more.say(&json!({ "messageType": "ping", "data": {} })).await;
        match one_more.next().await {
            Some(Message::Close(Some(frame))) => {
                assert_eq!(
                    (frame.code.into(), frame.reason.as_str()),
                    (1013_u16, "too many requests")
                );
                refused += 1;
            }
            Some(Message::Text(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 0, "all were let in");
    // What is wrong stays wrong, however often it comes.
    for _ in 0..TRIES {
        let stranger = stream("server", &token(CLIENT_SECRET));
        assert_eq!(fixture.client(&stranger).await.ended().await.0, 4003);
    }
}

#[tokio::test]
async fn ordinary_use_is_within_the_limits_of_default_settings() {
    let fixture = Fixture::start().await;
    for _ in 0..TRIES {
        let answer = TestRequest::get("/api/public/sdk/server/latest-all").secret(SERVER_SECRET);
        assert_eq!(answer.send(&fixture).await.status, 200);
    }
}
