//! Secrets that are used too often.

use flags::{RateLimits, Settings};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::asking::Ask;
use crate::world::{CLIENT_SECRET, RELAY_SECRET, SERVER_SECRET, World, stream, token};

/// So many that not each of them comes a second after the one before.
const TRIES: usize = 50;

const ONE_OF_EACH: RateLimits =
    RateLimits { streaming: 1, sdk: 1, insight: 1, feature_flag: 1, ofrep: 1 };

async fn limited() -> World {
    World::start_with(Settings { rate_limits: ONE_OF_EACH, ..Settings::default() }).await
}

#[tokio::test]
async fn requests_are_told_when_to_come_again() {
    const TRACK: &str = "/api/public/insight/track";
    let world = limited().await;
    let asks: [fn() -> Ask; 5] = [
        || Ask::get("/api/public/sdk/server/latest-all").secret(SERVER_SECRET),
        || Ask::post(TRACK, &json!([])).secret(SERVER_SECRET),
        || {
            let user = json!({ "user": { "keyId": "ada" } });
            Ask::post("/api/public/featureflag/evaluate", &user).secret(SERVER_SECRET)
        },
        || {
            let context = json!({ "context": { "targetingKey": "ada" } });
            Ask::post("/ofrep/v1/evaluate/flags", &context).header("x-api-key", SERVER_SECRET)
        },
        || Ask::post("/api/public/agent/register", &json!("agent")).secret(RELAY_SECRET),
    ];
    for (number, ask) in asks.into_iter().enumerate() {
        assert_eq!(ask().of(&world).await.status, 200, "{number}");
        let mut refused = None;
        for _ in 0..TRIES {
            let answer = ask().of(&world).await;
            refused = refused.or_else(|| (answer.status == 429).then_some(answer));
        }
        let refused = refused.unwrap_or_else(|| panic!("{number} was never refused"));
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(refused.header("access-control-expose-headers"), Some("Retry-After"));
    }
    // Each secret has limits of its own.
    let client = Ask::post(TRACK, &json!([])).secret(CLIENT_SECRET);
    assert_eq!(client.of(&world).await.status, 200);
    // One that opens nothing has none.
    for _ in 0..TRIES {
        let stranger = Ask::get("/api/public/sdk/server/latest-all").secret("stranger");
        assert_eq!(stranger.of(&world).await.status, 401);
    }
}

#[tokio::test]
async fn streams_are_let_in_and_told_to_come_again() {
    let world = limited().await;
    world.server().await.hears_nothing().await;
    let mut refused = 0;
    for _ in 0..TRIES {
        let mut one_more = world.server().await;
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
        assert_eq!(world.client(&stranger).await.ended().await.0, 4003);
    }
}

#[tokio::test]
async fn there_is_no_limit_by_default() {
    let world = World::start().await;
    for _ in 0..TRIES {
        let answer = Ask::get("/api/public/sdk/server/latest-all").secret(SERVER_SECRET);
        assert_eq!(answer.of(&world).await.status, 200);
    }
}
