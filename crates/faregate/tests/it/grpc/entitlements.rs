//! `EntitlementService`, and what `FlagService` makes of grants.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use grpc::api::feature_value::Value;
use grpc::api::reserve_request::Ends;
use grpc::api::{
    CheckReason, CheckRequest, CheckResponse, ConfirmRequest, ConfirmResponse, EntitledFeature,
    EntitlementServiceGetRequest, EntitlementServiceWatchRequest, EntitlementServiceWatchResponse,
    Entitlements, EvaluateRequest, FeatureValue, FlagUser, FlagValue, GrantSource, LimitUsage,
    ReleaseRequest, ReserveRequest, ReserveResponse, WatchRequest, flag_value,
};
use prost_types::{Duration, Timestamp};
use serde_json::json;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use super::{Caller, refused, soon};
use crate::client::{Client, advance};
use crate::cluster::Cluster;
use crate::entitlements::{monthly, sell};
use crate::flags_streams::secret;
use crate::gateways::account;
use crate::paid_to_on::{SIMULATOR, buy, refund, start as start_with_flags};
use crate::postgres::Scratch;
use crate::process::{Launch, Server, eventually};

/// A server that sells the offer, and its administrator by HTTP.
fn start_server(launch: Launch) -> (Server, Client) {
    let server = Server::start_with(launch.grpc());
    let client = server.tenant();
    sell(&client, &monthly());
    (server, client)
}

/// The same, and its administrator by gRPC.
fn start(launch: Launch) -> (Server, Client, Caller) {
    let (server, client) = start_server(launch);
    let caller = Caller::of(&server);
    (server, client, caller)
}

async fn get(caller: &Caller, account_id: &str) -> Result<Entitlements, Status> {
    let message = EntitlementServiceGetRequest { account_id: account_id.to_owned() };
    let answer = caller.entitlements().get(caller.request(message)).await?;
    Ok(answer.into_inner().entitlements.expect("a document"))
}

async fn check(caller: &Caller, account: &str, feature: &str) -> Result<CheckResponse, Status> {
    let message = CheckRequest { account_id: account.to_owned(), feature: feature.to_owned() };
    Ok(caller.entitlements().check(caller.request(message)).await?.into_inner())
}

fn reserve_seats(account: &str, quantity: i64) -> ReserveRequest {
    ReserveRequest {
        account_id: account.to_owned(),
        feature: "seats".to_owned(),
        quantity,
        ends: Some(Ends::Ttl(Duration { seconds: 60, nanos: 0 })),
    }
}

async fn reserve(caller: &Caller, message: ReserveRequest) -> Result<ReserveResponse, Status> {
    Ok(caller.entitlements().reserve(caller.request(message)).await?.into_inner())
}

async fn confirm(
    caller: &Caller,
    (account, reservation): (&str, &str),
    quantity: Option<i64>,
) -> Result<ConfirmResponse, Status> {
    let (account_id, reservation_id) = (account.to_owned(), reservation.to_owned());
    let message = ConfirmRequest { account_id, reservation_id, quantity };
    Ok(caller.entitlements().confirm(caller.request(message)).await?.into_inner())
}

type Watched = Streaming<EntitlementServiceWatchResponse>;

async fn watch(caller: &Caller, account_id: &str) -> Result<Watched, Status> {
    let message = EntitlementServiceWatchRequest { account_id: account_id.to_owned() };
    caller.entitlements().watch(caller.request(message)).await.map(tonic::Response::into_inner)
}

async fn next(stream: &mut Watched) -> Result<Entitlements, Status> {
    let message = soon(stream.message()).await?.expect("it ends with a status");
    Ok(message.entitlements.expect("a document"))
}

/// The first document of this version: one that is sent again before it ends to be valid is passed over.
async fn version(stream: &mut Watched, version: i64) -> Entitlements {
    loop {
        let document = next(stream).await.unwrap();
        assert!(document.version <= version, "{document:?}");
        if document.version == version {
            return document;
        }
    }
}

/// The value of a feature, as JSON.
fn json_of(it: Option<&FeatureValue>) -> serde_json::Value {
    match it.and_then(|it| it.value.as_ref()).expect("a feature has a value") {
        Value::On(it) | Value::Boolean(it) => json!(it),
        Value::Limit(it) => json!(it),
        Value::Number(it) => json!(it),
        Value::Text(it) => json!(it),
        Value::Json(it) => serde_json::from_str(it).expect("JSON"),
    }
}

/// The version, and the features with their values.
fn shown(it: &Entitlements) -> (i64, Vec<(&str, serde_json::Value)>) {
    let features = it.features.iter();
    let features = features.map(|it| (it.feature.as_str(), json_of(it.value.as_ref())));
    (it.version, features.collect())
}

fn grant(client: &Client, account: &str, body: &serde_json::Value) {
    let granted = client.post(&format!("/v1/accounts/{account}/grants"), body);
    assert_eq!(granted.status, 201, "{}", granted.text());
}

/// A time as HTTP writes it.
fn at(time: Option<&Timestamp>) -> serde_json::Value {
    let Some(time) = time else { return serde_json::Value::Null };
    let written = jiff::Timestamp::new(time.seconds, time.nanos).unwrap();
    json!(written.to_string())
}

/// A feature as HTTP shows it, without the end of its validity.
fn as_http(it: &EntitledFeature) -> serde_json::Value {
    let text = |it: &str| if it.is_empty() { serde_json::Value::Null } else { json!(it) };
    let grants = it.grants.iter().map(|it| {
        let source = match it.source() {
            GrantSource::Offer => "offer",
            GrantSource::Trial => "trial",
            GrantSource::Manual => "manual",
            GrantSource::Subscription => "subscription",
            GrantSource::Unspecified => "none",
        };
        let version = (it.offer_version != 0).then_some(it.offer_version);
        json!({
            "grantId": it.id, "value": json_of(it.value.as_ref()), "source": source,
            "offer": text(&it.offer), "offerVersion": version,
            "purchaseId": text(&it.purchase_id), "paymentId": text(&it.payment_id),
            "reason": text(&it.reason), "from": at(it.since.as_ref()), "until": at(it.until.as_ref()),
        })
    });
    let grants: Vec<_> = grants.collect();
    let usage = it.usage.as_ref().map(|it| {
        json!({ "limit": it.limit, "used": it.used, "reserved": it.reserved, "left": it.left,
            "resetsAt": at(it.resets_at.as_ref()) })
    });
    json!({
        "feature": it.feature, "value": json_of(it.value.as_ref()), "unit": text(&it.unit),
        "until": at(it.until.as_ref()), "grants": grants, "usage": usage,
    })
}

/// Without what is `null`: HTTP leaves some of it out.
fn without_null(it: &serde_json::Value) -> serde_json::Value {
    if let Some(fields) = it.as_object() {
        let there = fields.iter().filter(|(_, it)| !it.is_null());
        return there.map(|(name, it)| (name.clone(), without_null(it))).collect();
    }
    it.as_array().map_or_else(|| it.clone(), |all| all.iter().map(without_null).collect())
}

#[tokio::test]
async fn the_document_is_that_of_http() {
    let (_server, client, caller) = start(Launch::usual());
    let buyer = account(&client, SIMULATOR);
    assert_eq!(shown(&get(&caller, &buyer).await.unwrap()), (0, vec![]));
    buy(&client, &buyer);
    grant(&client, &buyer, &json!({ "feature": "pro", "value": true, "reason": "goodwill" }));
    reserve(&caller, reserve_seats(&buyer, 2)).await.unwrap();
    let document = get(&caller, &buyer).await.unwrap();
    assert_eq!(document.account_id, buyer);
    assert_eq!(document.features[1].usage.unwrap().left, 3);
    assert_eq!(shown(&document), (2, vec![("pro", json!(true)), ("seats", json!(5))]));
    let http = client.get(&format!("/v1/accounts/{buyer}/entitlements")).json();
    assert_eq!(http["version"], 2);
    let mut expected = without_null(&http["features"]);
    for it in expected.as_array_mut().unwrap() {
        let it = it.as_object_mut().unwrap();
        it.remove("kind");
        it.remove("validUntil");
    }
    let features: Vec<_> = document.features.iter().map(as_http).collect();
    assert_eq!(without_null(&json!(features)), expected);
    // A day, and the limit no longer than it is granted.
    let seconds = |it: Option<&Timestamp>| it.unwrap().seconds;
    let now = jiff::Timestamp::now().as_second();
    let held = seconds(document.valid_until.as_ref()) - now;
    assert!((held - 24 * 3600).abs() < 30, "{held}");
    assert_eq!(document.features[1].valid_until, document.valid_until);
}

#[tokio::test]
async fn a_check_says_whether_and_why() {
    let (_server, client, caller) = start(Launch::usual());
    let buyer = account(&client, SIMULATOR);
    let nothing = check(&caller, &buyer, "pro").await.unwrap();
    assert_eq!((nothing.allowed, nothing.reason()), (false, CheckReason::NotGranted));
    assert_eq!((nothing.value, nothing.until, nothing.usage), (None, None, None));
    buy(&client, &buyer);
    let on = check(&caller, &buyer, "pro").await.unwrap();
    assert_eq!((on.allowed, on.reason()), (true, CheckReason::Granted));
    assert_eq!(json_of(on.value.as_ref()), true);
    assert!(on.until.is_some(), "it is sold for a month");
    reserve(&caller, reserve_seats(&buyer, 5)).await.unwrap();
    let full = check(&caller, &buyer, "seats").await.unwrap();
    assert_eq!((full.allowed, full.reason()), (false, CheckReason::LimitReached));
    let level = LimitUsage { limit: 5, used: 0, reserved: 5, left: 0, resets_at: None };
    assert_eq!((json_of(full.value.as_ref()), full.usage), (json!(5), Some(level)));
    let unknown = (Code::NotFound, "FEATURE_NOT_FOUND".to_owned(), vec!["feature".to_owned()]);
    assert_eq!(refused(check(&caller, &buyer, "gold").await), unknown);
}

#[tokio::test]
async fn a_reservation_is_confirmed_or_released_once() {
    let (_server, client, caller) = start(Launch::usual());
    let buyer = account(&client, SIMULATOR);
    buy(&client, &buyer);
    let once = caller.clone().with("idempotency-key", "order-1");
    let first = reserve(&once, reserve_seats(&buyer, 3)).await.unwrap();
    let level = LimitUsage { limit: 5, used: 0, reserved: 3, left: 2, resets_at: None };
    assert_eq!((first.quantity, &first.usage), (3, &Some(level)));
    assert_eq!(reserve(&once, reserve_seats(&buyer, 3)).await.unwrap(), first);
    let other = refused(reserve(&once, reserve_seats(&buyer, 2)).await);
    assert_eq!(other, (Code::FailedPrecondition, "IDEMPOTENCY_KEY_REUSED".to_owned(), vec![]));
    // What does not fit, with where the limit stands.
    let status = reserve(&caller, reserve_seats(&buyer, 3)).await.unwrap_err();
    let info = status.get_details_error_info().unwrap();
    let metadata = ["limit", "used", "reserved", "left"].map(|name| info.metadata[name].as_str());
    assert_eq!(metadata, ["5", "0", "3", "2"]);
    let reached =
        (Code::FailedPrecondition, "LIMIT_REACHED".to_owned(), vec!["quantity".to_owned()]);
    assert_eq!(refused::<()>(Err(status)), reached);
    let reservation = (buyer.as_str(), first.reservation_id.as_str());
    let confirming = caller.clone().with("idempotency-key", "order-1 is done");
    let confirmed = confirm(&confirming, reservation, Some(2)).await.unwrap();
    let level = LimitUsage { limit: 5, used: 2, reserved: 0, left: 3, resets_at: None };
    assert_eq!((confirmed.quantity, &confirmed.usage), (2, &Some(level)));
    assert_eq!(confirm(&confirming, reservation, Some(2)).await.unwrap(), confirmed);
    let ended = (Code::FailedPrecondition, "RESERVATION_ENDED".to_owned(), vec![]);
    assert_eq!(refused(confirm(&caller, reservation, None).await), ended);
    let second = reserve(&caller, reserve_seats(&buyer, 1)).await.unwrap().reservation_id;
    let message = ReleaseRequest { account_id: buyer.clone(), reservation_id: second };
    let release = || {
        let (mut client, request) = (caller.entitlements(), caller.request(message.clone()));
        async move { client.release(request).await.map(tonic::Response::into_inner) }
    };
    let released = release().await.unwrap();
    assert_eq!((released.quantity, released.usage.unwrap().left), (0, 3));
    assert_eq!(refused(release().await), ended);
}

#[tokio::test]
async fn invalid_calls_name_the_field() {
    let (_server, client, caller) = start(Launch::usual());
    let buyer = account(&client, SIMULATOR);
    buy(&client, &buyer);
    let invalid = |field: &str| {
        (Code::InvalidArgument, "INVALID_ARGUMENT".to_owned(), vec![field.to_owned()])
    };
    let with = |change: &dyn Fn(&mut ReserveRequest)| {
        let mut message = reserve_seats(&buyer, 1);
        change(&mut message);
        message
    };
    let at = |seconds| Some(Ends::Until(Timestamp { seconds, nanos: 0 }));
    let after = |seconds| Some(Ends::Ttl(Duration { seconds, nanos: 0 }));
    for (message, field) in [
        (with(&|it| it.account_id = String::new()), "account_id"),
        (with(&|it| it.account_id = "1".to_owned()), "account_id"),
        (with(&|it| it.feature = String::new()), "feature"),
        (with(&|it| it.feature = "pro".to_owned()), "feature"),
        (with(&|it| it.quantity = 0), "quantity"),
        (with(&|it| it.quantity = -1), "quantity"),
        (with(&|it| it.quantity = i64::MAX), "quantity"),
        (with(&|it| it.ends = None), "until"),
        (with(&|it| it.ends = at(1)), "until"),
        (with(&|it| it.ends = at(i64::MAX)), "until"),
        (with(&|it| it.ends = after(0)), "ttl"),
        (with(&|it| it.ends = after(i64::MIN)), "ttl"),
        (with(&|it| it.ends = after(31 * 24 * 3600 + 1)), "ttl"),
    ] {
        assert_eq!(refused(reserve(&caller, message.clone()).await), invalid(field), "{message:?}");
    }
    let reservation = reserve(&caller, reserve_seats(&buyer, 1)).await.unwrap().reservation_id;
    for (id, quantity, field) in [
        ("", None, "reservation_id"),
        ("1", None, "reservation_id"),
        (&*reservation, Some(0), "quantity"),
        (&*reservation, Some(2), "quantity"),
    ] {
        let answer = confirm(&caller, (&buyer, id), quantity).await;
        assert_eq!(refused(answer), invalid(field), "{id} {quantity:?}");
    }
    assert_eq!(refused(get(&caller, "").await), invalid("account_id"));
    assert_eq!(refused(check(&caller, &buyer, "").await), invalid("feature"));
    assert_eq!(refused(watch(&caller, "1").await.map(|_| ())), invalid("account_id"));
    let missing = |reason: &str| (Code::NotFound, reason.to_owned(), Vec::<String>::new());
    let nobody = "0192aabb-ccdd-7123-9456-789abcdef012";
    assert_eq!(refused(get(&caller, nobody).await), missing("ACCOUNT_NOT_FOUND"));
    assert_eq!(refused(watch(&caller, nobody).await.map(|_| ())), missing("ACCOUNT_NOT_FOUND"));
    assert_eq!(refused(check(&caller, nobody, "pro").await), missing("ACCOUNT_NOT_FOUND"));
    let unknown = confirm(&caller, (&buyer, nobody), None).await;
    assert_eq!(refused(unknown), missing("RESERVATION_NOT_FOUND"));
    let poor = account(&client, SIMULATOR);
    let nothing = refused(reserve(&caller, reserve_seats(&poor, 1)).await);
    let fields = vec!["feature".to_owned()];
    assert_eq!(nothing, (Code::FailedPrecondition, "NOT_ENTITLED".to_owned(), fields));
}

#[tokio::test]
async fn a_watch_has_every_change_of_its_account_and_no_other() {
    let (_server, client, caller) = start(Launch::usual());
    let (buyer, other) = (account(&client, SIMULATOR), account(&client, SIMULATOR));
    let mut watching = watch(&caller, &buyer).await.unwrap();
    let mut others = watch(&caller, &other).await.unwrap();
    for stream in [&mut watching, &mut others] {
        assert_eq!(shown(&next(stream).await.unwrap()), (0, vec![]));
    }
    let payment = buy(&client, &buyer);
    let on = vec![("pro", json!(true)), ("seats", json!(5))];
    assert_eq!(shown(&next(&mut watching).await.unwrap()), (1, on));
    refund(&client, &payment);
    assert_eq!(shown(&next(&mut watching).await.unwrap()), (2, vec![]));
    // What ends by time is sent by the commit of its timer.
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(12);
    let until =
        json!({ "feature": "pro", "value": true, "reason": "day", "until": until.to_string() });
    grant(&client, &buyer, &until);
    let day = next(&mut watching).await.unwrap();
    assert_eq!(shown(&day), (3, vec![("pro", json!(true))]));
    assert_eq!(day.features[0].valid_until, day.features[0].until);
    advance(&client, 1);
    assert_eq!(shown(&version(&mut watching, 4).await), (4, vec![]));
    // The list of its users is a part of the version.
    let users = client.put(&format!("/v1/accounts/{buyer}/users"), &json!({ "users": ["ada"] }));
    assert_eq!(users.status, 200, "{}", users.text());
    version(&mut watching, 5).await;
    // The other account's watch is sent nothing but its own.
    grant(&client, &other, &json!({ "feature": "pro", "value": true, "reason": "goodwill" }));
    assert_eq!(shown(&version(&mut others, 1).await), (1, vec![("pro", json!(true))]));
}

#[tokio::test]
async fn a_document_is_sent_again_before_it_ends_to_be_valid() {
    let (_server, client, caller) = start(Launch::usual());
    let buyer = account(&client, SIMULATOR);
    let mut watching = watch(&caller, &buyer).await.unwrap();
    let first = next(&mut watching).await.unwrap();
    advance(&client, 1);
    let again = next(&mut watching).await.unwrap();
    assert_eq!(again.version, first.version);
    let seconds = |it: &Entitlements| it.valid_until.unwrap().seconds;
    assert!(seconds(&again) >= seconds(&first) + 24 * 3600);
}

#[tokio::test]
async fn a_watch_that_is_not_read_has_the_latest_state_alone() {
    let (_server, client, caller) = start(Launch::usual());
    client.put("/v1/features/text", &json!({ "name": "T", "kind": "value", "type": "string" }));
    let buyer = account(&client, SIMULATOR);
    let mut watching = watch(&caller, &buyer).await.unwrap();
    for round in 0..200 {
        let text = format!("{round:03}{}", "x".repeat(250));
        grant(&client, &buyer, &json!({ "feature": "text", "value": text, "reason": "test" }));
    }
    let (mut messages, mut before) = (0, -1);
    loop {
        let document = next(&mut watching).await.unwrap();
        assert!(document.version > before, "versions grow");
        before = document.version;
        messages += 1;
        if document.version == 200 {
            break;
        }
    }
    assert!(messages < 150, "{messages} messages");
}

#[tokio::test]
async fn a_watch_ends_with_the_permission() {
    let (server, client, _) = start(Launch::usual());
    let buyer = account(&client, SIMULATOR);
    let admin = server.client();
    let role = json!({ "role": "readers", "permissions": ["entitlement:read"] });
    assert_eq!(admin.post("/1.0/kb/security/roles", &role).status, 201);
    let user = json!({ "username": "reader", "password": "right", "roles": ["readers"] });
    assert_eq!(admin.post("/1.0/kb/security/users", &user).status, 201);
    let basic = format!("Basic {}", BASE64.encode("reader:right"));
    let reader = Caller::of(&server).with("authorization", &basic);
    let mut watching = watch(&reader, &buyer).await.unwrap();
    assert_eq!(next(&mut watching).await.unwrap().version, 0);
    let seats = refused(reserve(&reader, reserve_seats(&buyer, 1)).await);
    assert_eq!(seats.0, Code::PermissionDenied);
    let none = json!({ "role": "readers", "permissions": ["account:create"] });
    assert_eq!(admin.put("/1.0/kb/security/roles", &none).status, 204);
    let ended = (Code::PermissionDenied, "PERMISSION_MISSING".to_owned(), vec![]);
    assert_eq!(refused(next(&mut watching).await), ended);
    assert_eq!(refused(watch(&reader, &buyer).await.map(|_| ())), ended);
}

#[tokio::test]
async fn an_account_of_another_tenant_is_not_there() {
    let (server, client, caller) = start(Launch::usual());
    let buyer = account(&client, SIMULATOR);
    buy(&client, &buyer);
    let body = json!({ "apiKey": "eve", "apiSecret": "adam" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &body).status, 201);
    sell(&server.client().tenant("eve", "adam"), &monthly());
    let reservation = reserve(&caller, reserve_seats(&buyer, 1)).await.unwrap().reservation_id;
    let eve = caller.with("x-faregate-apikey", "eve").with("x-faregate-apisecret", "adam");
    let missing = (Code::NotFound, "ACCOUNT_NOT_FOUND".to_owned(), Vec::<String>::new());
    assert_eq!(refused(get(&eve, &buyer).await), missing);
    assert_eq!(refused(watch(&eve, &buyer).await.map(|_| ())), missing);
    assert_eq!(refused(check(&eve, &buyer, "pro").await), missing);
    assert_eq!(refused(reserve(&eve, reserve_seats(&buyer, 1)).await), missing);
    assert_eq!(refused(confirm(&eve, (&buyer, &reservation), None).await), missing);
}

#[tokio::test]
async fn watches_of_a_network_are_bounded_and_end_with_the_server() {
    let launch = Launch::usual()
        .env("FAREGATE_ACCESS_TRUSTED_PROXIES", "192.0.2.1")
        .env("FAREGATE_FLAGS_NETWORK_STREAMS_MAX", "2")
        .env("FAREGATE_DRAIN_DEADLINE", "20s");
    let (server, client, caller) = start(launch);
    let buyer = account(&client, SIMULATOR);
    let mut first = watch(&caller, &buyer).await.unwrap();
    let second = watch(&caller, &buyer).await.unwrap();
    let full = (Code::ResourceExhausted, "OVERLOADED".to_owned(), Vec::<String>::new());
    assert_eq!(refused(watch(&caller, &buyer).await.map(|_| ())), full);
    get(&caller, &buyer).await.unwrap();
    drop(second);
    soon(async { while watch(&caller, &buyer).await.is_err() {} }).await;
    assert_eq!(next(&mut first).await.unwrap().version, 0);
    server.signal("-TERM");
    let ended = (Code::Unavailable, "STOPPING".to_owned(), vec![]);
    assert_eq!(refused(next(&mut first).await), ended);
    // The client goes on reading: it has to acknowledge that the connection ends.
    let waiting = tokio::task::spawn_blocking(move || server.wait());
    let (status, said) = waiting.await.unwrap();
    assert!(status.success(), "{said}");
    assert!(!said.contains("the drain deadline has passed"), "{said}");
}

/// The values of flags by key.
fn values(flags: &[FlagValue]) -> Vec<(&str, bool)> {
    let is_on = |it: &FlagValue| it.value == Some(flag_value::Value::Boolean(true));
    flags.iter().map(|it| (it.key.as_str(), is_on(it))).collect()
}

#[tokio::test]
async fn flags_follow_what_the_account_of_their_user_has() {
    let (server, client) = start_with_flags(Launch::usual().grpc());
    let (buyer, other) = (account(&client, SIMULATOR), account(&client, SIMULATOR));
    let caller = Caller::of(&server).with("x-api-key", &secret(&client, "client"));
    // What a client claims counts for nothing.
    let user = |key: &str| {
        let claimed = [("entitled.pro", "true"), ("entitled.seats", "99")];
        let attributes = claimed.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Some(FlagUser { key: key.to_owned(), attributes, ..FlagUser::default() })
    };
    let watch = |key: &str| {
        let (mut flags, request) =
            (caller.flags(), caller.request(WatchRequest { user: user(key) }));
        async move { flags.watch(request).await.unwrap().into_inner() }
    };
    let evaluate = |key: &str| {
        let message = EvaluateRequest { user: user(key), keys: vec![] };
        let (mut flags, request) = (caller.flags(), caller.request(message));
        async move { flags.evaluate(request).await.unwrap().into_inner().flags }
    };
    let off = [("gated", false), ("plain", false), ("ruled", false)];
    let on = [("gated", true), ("plain", false), ("ruled", true)];
    // An import is published a moment after its response.
    soon(async { while evaluate(&buyer).await.len() < 3 {} }).await;
    let (mut watching, mut others) = (watch(&buyer).await, watch(&other).await);
    for stream in [&mut watching, &mut others] {
        assert_eq!(values(&soon(stream.message()).await.unwrap().unwrap().flags), off);
    }
    let payment = buy(&client, &buyer);
    let changed = soon(watching.message()).await.unwrap().unwrap();
    assert_eq!(values(&changed.flags), [("gated", true), ("ruled", true)]);
    assert!(!changed.is_full && changed.removed_keys.is_empty());
    assert_eq!(values(&evaluate(&buyer).await), on);
    assert_eq!(values(&evaluate(&other).await), off);
    refund(&client, &payment);
    let changed = soon(watching.message()).await.unwrap().unwrap();
    assert_eq!(values(&changed.flags), [("gated", false), ("ruled", false)]);
    assert_eq!(values(&evaluate(&buyer).await), off);
    // The first that the other user is sent is of its own account.
    grant(&client, &other, &json!({ "feature": "pro", "value": true, "reason": "goodwill" }));
    let changed = soon(others.message()).await.unwrap().unwrap();
    assert_eq!(values(&changed.flags), [("gated", true)]);
}

#[test]
#[ignore = "needs Kafka and PostgreSQL: conformance/run"]
fn a_watch_at_another_front_has_what_was_bought_at_this_one() {
    let cluster = Cluster::start_with(&[]);
    let [client, _other] = cluster.tenant();
    sell(&client, &monthly());
    let follow = async {
        let caller = Caller::of(cluster.other_front());
        // Accounts of several partitions.
        for _ in 0..8 {
            let buyer = account(&client, "__EXTERNAL_PAYMENT__");
            let mut watching = watch(&caller, &buyer).await.unwrap();
            assert_eq!(next(&mut watching).await.unwrap().version, 0);
            let payment = buy(&client, &buyer);
            assert_eq!(version(&mut watching, 1).await.features.len(), 2);
            let reserved = reserve(&caller, reserve_seats(&buyer, 1)).await.unwrap();
            confirm(&caller, (&buyer, &reserved.reservation_id), None).await.unwrap();
            refund(&client, &payment);
            assert_eq!(shown(&version(&mut watching, 2).await), (2, vec![]));
        }
    };
    tokio::runtime::Runtime::new().unwrap().block_on(follow);
}

#[test]
#[ignore = "needs PostgreSQL: conformance/run"]
fn a_watch_goes_on_where_the_database_loses_its_connections() {
    let scratch = Scratch::new();
    let (server, client) = start_server(scratch.launch());
    let buyer = account(&client, SIMULATOR);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut watching = runtime.block_on(async {
        let mut watching = watch(&Caller::of(&server), &buyer).await.unwrap();
        assert_eq!(next(&mut watching).await.unwrap().version, 0);
        watching
    });
    for _ in 0..5 {
        scratch.end_sessions();
        let body = json!({ "feature": "pro", "value": true, "reason": "goodwill" });
        eventually("a grant works again", || {
            let granted = client.post(&format!("/v1/accounts/{buyer}/grants"), &body);
            assert!(matches!(granted.status, 201 | 503), "{}", granted.text());
            (granted.status == 201).then_some(())
        });
        // A commit that was in doubt may have happened too.
        let document = client.get(&format!("/v1/accounts/{buyer}/entitlements")).json();
        runtime.block_on(version(&mut watching, document["version"].as_i64().unwrap()));
    }
}
