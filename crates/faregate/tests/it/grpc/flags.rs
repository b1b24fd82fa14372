//! `FlagService`: flags evaluated once, and followed as they are committed.

use std::collections::HashMap;

use expect_test::expect;
use grpc::api::flag_value::Value;
use grpc::api::{
    EvaluateRequest, EvaluateResponse, FlagUser, FlagValue, ResolutionReason, WatchRequest,
    WatchResponse,
};
use serde_json::json;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use super::{Caller, refused, soon};
use crate::client::Client;
use crate::process::{Launch, Server, TIMEOUT};

/// A flag that is on for staff.
fn flag(key: &str, kind: &str, [on, off]: [&str; 2]) -> serde_json::Value {
    let everybody = |id: &str| json!([{ "id": id, "rollout": [0, 1], "exptRollout": 1 }]);
    json!({
        "key": key,
        "name": key,
        "variationType": kind,
        "variations": [{ "id": "on", "value": on }, { "id": "off", "value": off }],
        "isEnabled": true,
        "disabledVariationId": "off",
        "rules": [{ "id": "r", "name": "staff", "variations": everybody("on"), "conditions": [
            { "property": "team", "op": "Equal", "value": "staff" },
        ] }],
        "fallthrough": { "variations": everybody("off") },
    })
}

/// A server with flags of each type, and callers with the secrets of their environment for servers and
/// clients.
async fn start(launch: Launch) -> (Server, Client, [Caller; 2]) {
    let server = Server::start_with(launch.grpc());
    let client = server.tenant();
    let documents = json!({ "featureFlags": [
        flag("dark-mode", "boolean", ["true", "false"]),
        flag("limit", "number", ["0.5", "7"]),
        flag("motto", "string", ["festina lente", ""]),
        flag("theme", "json", ["{\"a\": 1}", "null"]),
    ] });
    let imported = client.post("/v1/environments/dev/import", &documents);
    assert_eq!(imported.status, 200, "{}", imported.text());
    let listed = client.get("/v1/environments").json();
    let secrets = [0, 1].map(|at| listed[0]["secrets"][at]["value"].as_str().unwrap().to_owned());
    let without_credentials = ["authorization", "x-faregate-apikey", "x-faregate-apisecret"]
        .into_iter()
        .fold(Caller::of(&server), |caller, name| caller.with(name, ""));
    let callers = [
        without_credentials.clone().with("x-api-key", &secrets[0]),
        without_credentials.with("authorization", &format!("Bearer {}", secrets[1])),
    ];
    // An import is published a moment after its response.
    for caller in &callers {
        let published = async {
            while evaluate(caller, Some(ada()), &[]).await.unwrap().flags.len() < 4 {
                tokio::task::yield_now().await;
            }
        };
        soon(published).await;
    }
    (server, client, callers)
}

fn ada() -> FlagUser {
    let attributes = HashMap::from([("team".to_owned(), "staff".to_owned())]);
    FlagUser { key: "ada".to_owned(), name: None, attributes }
}

async fn evaluate(
    caller: &Caller,
    user: Option<FlagUser>,
    keys: &[&str],
) -> Result<EvaluateResponse, Status> {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    let message = EvaluateRequest { user, keys };
    caller.flags().evaluate(caller.request(message)).await.map(tonic::Response::into_inner)
}

async fn watch(caller: &Caller) -> Result<Streaming<WatchResponse>, Status> {
    let message = WatchRequest { user: Some(ada()) };
    caller.flags().watch(caller.request(message)).await.map(tonic::Response::into_inner)
}

async fn next(stream: &mut Streaming<WatchResponse>) -> Result<WatchResponse, Status> {
    soon(stream.message()).await.map(|it| it.expect("it ends with a status"))
}

fn shown(flags: &[FlagValue]) -> Vec<String> {
    let lines = flags.iter();
    lines.map(|it| format!("{} {:?} {} {}", it.key, it.value, it.variation_id, it.reason)).collect()
}

fn patch(client: &Client, key: &str, change: &serde_json::Value) {
    let path = format!("/v1/flags/{key}?environment=dev");
    let answer = client.send("PATCH", &path, Some(change.to_string().as_bytes()));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn flags_are_evaluated_with_the_secrets_of_their_environment() {
    let (_server, client, callers) = start(Launch::usual()).await;
    for caller in &callers {
        let answer = evaluate(caller, Some(ada()), &[]).await.unwrap();
        expect![[r#"
            dark-mode Some(Boolean(true)) on staff
            limit Some(Number(0.5)) on staff
            motto Some(Text("festina lente")) on staff
            theme Some(Json("{\"a\": 1}")) on staff"#]]
        .assert_eq(&shown(&answer.flags).join("\n"));
        let reasons = answer.flags.iter().map(FlagValue::resolution_reason);
        assert!(reasons.into_iter().all(|it| it == ResolutionReason::TargetingMatch));
        let joe = FlagUser { key: "joe".to_owned(), ..FlagUser::default() };
        let answer = evaluate(caller, Some(joe), &["limit", "nothing"]).await.unwrap();
        assert_eq!(shown(&answer.flags), ["limit Some(Number(7.0)) off default"]);
        assert_eq!(answer.flags[0].resolution_reason(), ResolutionReason::Default);
        let version = client.get("/v1/environments").json()[0]["version"].as_i64();
        assert_eq!(Some(answer.flags[0].version), version);
    }
}

#[tokio::test]
async fn a_watch_above_the_networks_limit_is_refused() {
    let launch = Launch::usual()
        .env("FAREGATE_ACCESS_TRUSTED_PROXIES", "192.0.2.1")
        .env("FAREGATE_FLAGS_NETWORK_STREAMS_MAX", "2");
    let (server, _client, [caller, browser]) = start(launch).await;
    let (first, _second) = (watch(&caller).await.unwrap(), watch(&browser).await.unwrap());
    let full = (Code::ResourceExhausted, "OVERLOADED".to_owned(), Vec::<String>::new());
    assert_eq!(refused(watch(&caller).await.map(|_| ())), full);
    // Other calls are no streams.
    evaluate(&caller, Some(ada()), &[]).await.unwrap();
    server.metrics_with("faregate_refused_total{reason=\"network_streams\"} 1");
    drop(first);
    let until = std::time::Instant::now() + TIMEOUT;
    while watch(&caller).await.is_err() {
        assert!(std::time::Instant::now() < until, "there is room again");
    }
}

#[tokio::test]
async fn invalid_requests_name_the_field() {
    let (_server, client, [caller, _]) = start(Launch::usual()).await;
    let wrong = |code, reason: &str| (code, reason.to_owned(), Vec::<String>::new());
    let unknown = caller.clone().with("x-api-key", &"x".repeat(44));
    let unknown_secret = wrong(Code::Unauthenticated, "SECRET_WRONG");
    assert_eq!(refused(evaluate(&unknown, Some(ada()), &[]).await), unknown_secret);
    // Without credentials not even a malformed message is reported.
    assert_eq!(refused(evaluate(&unknown, None, &[]).await), unknown_secret);
    assert_eq!(refused(watch(&unknown).await.map(|_| ())), unknown_secret);
    let none = caller.clone().with("x-api-key", "");
    assert_eq!(refused(evaluate(&none, Some(ada()), &[]).await), unknown_secret);
    // A user's password is no secret of an environment.
    let admin = none.with("authorization", "Basic YWRtaW46cGFzc3dvcmQ=");
    assert_eq!(refused(evaluate(&admin, Some(ada()), &[]).await), unknown_secret);
    // And the secret opens no payments.
    let message = grpc::api::PaymentServiceListRequest::default();
    let payments = caller.payments().list(caller.request(message)).await;
    assert_eq!(refused(payments).0, Code::Unauthenticated);

    let invalid = |field: &str| {
        let (code, reason) = (Code::InvalidArgument, "INVALID_ARGUMENT".to_owned());
        (code, reason, vec![field.to_owned()])
    };
    assert_eq!(refused(evaluate(&caller, None, &[]).await), invalid("user.key"));
    let blank = FlagUser { key: " ".to_owned(), ..FlagUser::default() };
    assert_eq!(refused(evaluate(&caller, Some(blank), &[]).await), invalid("user.key"));
    let attributes = (0..1_001).map(|n| (n.to_string(), String::new())).collect();
    let large = FlagUser { attributes, ..ada() };
    assert_eq!(refused(evaluate(&caller, Some(large), &[]).await), invalid("user.attributes"));
    assert_eq!(refused(evaluate(&caller, Some(ada()), &["x"; 5_001]).await), invalid("keys"));
    let message = WatchRequest { user: None };
    let watched = caller.flags().watch(caller.request(message)).await;
    assert_eq!(refused(watched.map(|_| ())), invalid("user.key"));
    drop(client);
}

#[tokio::test]
async fn committed_changes_are_published_to_watchers() {
    let (_server, client, [caller, browser]) = start(Launch::usual()).await;
    let mut watching = [watch(&caller).await.unwrap(), watch(&browser).await.unwrap()];
    for stream in &mut watching {
        let full = next(stream).await.unwrap();
        assert!(full.is_full);
        let answer = evaluate(&caller, Some(ada()), &[]).await.unwrap();
        assert_eq!(full.flags, answer.flags);
    }
    patch(&client, "dark-mode", &json!({ "isEnabled": false }));
    for stream in &mut watching {
        let update = next(stream).await.unwrap();
        assert!(!update.is_full && update.removed_keys.is_empty());
        assert_eq!(shown(&update.flags), ["dark-mode Some(Boolean(false)) off flag disabled"]);
    }
    assert_eq!(client.delete("/v1/flags/motto").status, 204);
    for stream in &mut watching {
        let update = next(stream).await.unwrap();
        assert_eq!((update.flags, update.removed_keys), (vec![], vec!["motto".to_owned()]));
    }
    // The secret of clients ends, and with it what came in by it.
    let dev = client.get("/v1/environments").json()[0].clone();
    let id = dev["secrets"][1]["id"].as_str().unwrap();
    let path = format!("/v1/environments/dev/secrets/{id}");
    assert_eq!(client.delete(&path).status, 204);
    let [server_stream, browser_stream] = &mut watching;
    let ended = (Code::Unauthenticated, "SECRET_WRONG".to_owned(), vec![]);
    assert_eq!(refused(next(browser_stream).await), ended);
    patch(&client, "dark-mode", &json!({ "isEnabled": true }));
    let update = next(server_stream).await.unwrap();
    assert_eq!(update.flags[0].value, Some(Value::Boolean(true)));
}

/// More updates than the buffers between the server and a client that does not read can hold.
#[tokio::test]
async fn slow_reader_blocks_no_one_and_receives_the_latest_state() {
    let (_server, client, [slow, quick]) = start(Launch::usual()).await;
    let mut reading = watch(&quick).await.unwrap();
    assert!(next(&mut reading).await.unwrap().is_full);
    let mut idle = watch(&slow).await.unwrap();
    for round in 0..60 {
        let motto = format!("{round}{}", "x".repeat(100_000));
        let change =
            json!({ "variations": [{ "id": "on", "value": motto }, { "id": "off", "value": "" }] });
        patch(&client, "motto", &change);
        let update = next(&mut reading).await.unwrap();
        assert_eq!(update.flags[0].value, Some(Value::Text(motto)));
    }
    // What it missed comes together.
    let mut messages = 0;
    loop {
        let update = next(&mut idle).await.unwrap();
        messages += 1;
        let motto = update.flags.iter().find(|it| it.key == "motto");
        let Some(FlagValue { value: Some(Value::Text(text)), .. }) = motto else { continue };
        if text.starts_with("59x") {
            break;
        }
    }
    assert!(messages < 50, "{messages} messages");
}

#[tokio::test]
async fn stopping_server_ends_watches() {
    let launch = Launch::usual().env("FAREGATE_DRAIN_DEADLINE", "20s");
    let (server, _client, [caller, _]) = start(launch).await;
    let mut watching = watch(&caller).await.unwrap();
    assert!(next(&mut watching).await.unwrap().is_full);
    server.signal("-TERM");
    let ended = (Code::Unavailable, "STOPPING".to_owned(), vec![]);
    assert_eq!(refused(next(&mut watching).await), ended);
    // The client goes on reading: it has to acknowledge that the connection ends.
    let waiting = tokio::task::spawn_blocking(move || server.wait());
    let (status, said) = waiting.await.unwrap();
    assert!(status.success(), "{said}");
    assert!(!said.contains("the drain deadline has passed"), "{said}");
}

/// The limits of a secret are those that it has over HTTP.
#[tokio::test]
async fn calls_above_the_rate_limit_are_refused() {
    let launch = Launch::usual()
        .env("FAREGATE_FLAGS_RATE_LIMITS_FEATURE_FLAG", "100")
        .env("FAREGATE_FLAGS_RATE_LIMITS_STREAMING", "1");
    let (_server, _client, [caller, other]) = start(launch).await;
    let refusal = soon(async {
        loop {
            if let Err(status) = evaluate(&caller, Some(ada()), &[]).await {
                break status;
            }
        }
    })
    .await;
    assert_eq!(
        (refusal.code(), refusal.message()),
        (Code::ResourceExhausted, "too many calls with this secret")
    );
    let retry = refusal.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert!(retry <= std::time::Duration::from_secs(1), "{retry:?}");
    let watch = || {
        let message = WatchRequest { user: Some(ada()) };
        let (mut flags, request) = (other.flags(), other.request(message));
        async move { flags.watch(request).await }
    };
    let _open = watch().await.unwrap();
    let refusal = soon(async {
        loop {
            if let Err(status) = watch().await {
                break status;
            }
        }
    })
    .await;
    assert_eq!(refusal.code(), Code::ResourceExhausted);
}
