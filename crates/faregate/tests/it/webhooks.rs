//! Webhook endpoints: what may be stored, what is delivered, and what the log says of it.

use std::collections::BTreeSet;

use expect_test::expect;
use secrets::webhook::{Headers, Secret};
use serde_json::{Value, json};

use crate::client::Client;
use crate::native::{account, purchase};
use crate::process::{Launch, Server, TempDir, eventually};
use crate::webhook_receiver::{Answers, Received, Receiver};

const ENDPOINTS: &str = "/v1/webhooks/endpoints";
const REPLAYS: &str = "/v1/webhooks/replays";

fn endpoint(client: &Client, body: &Value) -> Value {
    let made = client.post(ENDPOINTS, body);
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()
}

/// Waits for so many of a type.
fn arrive(receiver: &Receiver, event_type: &str, count: usize) -> Vec<String> {
    eventually(event_type, || {
        let ids = receiver.ids(event_type);
        (ids.len() >= count).then_some(ids)
    })
}

fn later(client: &Client, query: &str) {
    let moved = client.put(&format!("/1.0/kb/test/clock?{query}"), &json!({}));
    assert_eq!(moved.status, 200, "{}", moved.text());
}

fn deliveries(client: &Client, query: &str) -> Vec<Value> {
    let found = client.get(&format!("/v1/webhooks/deliveries{query}"));
    assert_eq!(found.status, 200, "{}", found.text());
    found.json()["deliveries"].as_array().unwrap().clone()
}

fn is_signed(it: &Received, secret: &str) -> bool {
    let header = |name: &str| it.headers[name].as_str();
    let headers = Headers {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    let now_s = headers.timestamp.parse().unwrap();
    Secret::parse(secret).unwrap().verify(headers, it.body.as_bytes(), now_s).is_ok()
}

#[test]
fn endpoints_are_made_changed_and_deleted() {
    let server = Server::start();
    let client = server.tenant();
    let made = client.post(
        ENDPOINTS,
        &json!({ "url": "https://example.com/in", "events": ["payment.*"],
                 "headers": { "Authorization": "Bearer canary-header" } }),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    let etag = made.header("etag").unwrap().to_owned();
    let path = made.header("location").unwrap().to_owned();
    let secret = made.json()["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_"));
    let shown = client.get(&path);
    for hidden in ["secret", "canary-header"] {
        assert!(!shown.text().contains(hidden), "{}", shown.text());
        assert!(!client.get(ENDPOINTS).text().contains(hidden));
    }
    assert_eq!(shown.json()["headers"]["Authorization"], "***");
    let old = client.clone().header("If-Match", "\"7\"");
    assert_eq!(old.send("PATCH", &path, Some(b"{}")).status, 412);
    let now = client.clone().header("If-Match", &etag);
    let patched = now.send("PATCH", &path, Some(br#"{"status":"paused","events":[]}"#));
    assert_eq!((patched.status, &patched.json()["status"]), (200, &json!("paused")));
    assert_eq!(patched.json()["events"], json!([]));
    assert_eq!(now.delete(&path).status, 412, "it was changed");
    let foreign = server.client().tenant("another", "no secret at all");
    assert_eq!(foreign.get(&path).status, 401);
    assert_eq!(client.delete(&path).status, 204);
    assert_eq!(client.get(&path).status, 404);
    let stored = client.get("/1.0/kb/tenants/uploadPerTenantConfig/WEBHOOK/search").text();
    assert!(!stored.contains("example.com"), "{stored}");
}

/// Also those that the checks of callbacks, gateways and their deliveries are tested with.
#[test]
fn no_spelling_of_a_forbidden_address_is_registered() {
    const HOSTS: &str = include_str!("../../../outbound/tests/forbidden_addresses/hosts.txt");
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server::start_with(crate::process::Launch::in_earnest());
    let client = server.tenant();
    for host in HOSTS.lines() {
        let url = format!("http://{host}:{port}/");
        let refused = client.post(ENDPOINTS, &json!({ "url": url }));
        let field = refused.json()["field"].clone();
        assert_eq!((refused.status, field), (400, json!("url")), "{host}");
        let encoded: String = url.bytes().map(|it| format!("%{it:02X}")).collect();
        let callback = format!("/1.0/kb/tenants/registerNotificationCallback?cb={encoded}");
        assert_eq!(client.post(&callback, &json!({})).status, 400, "{host}");
    }
    for _ in 0..3 {
        account(&client, "__EXTERNAL_PAYMENT__");
    }
    drop(server.stop());
    let seen = listener.accept().map_err(|error| error.kind());
    assert_eq!(seen.map(|(_, from)| from), Err(std::io::ErrorKind::WouldBlock));
}

#[test]
fn what_no_endpoint_can_have_is_refused_by_field() {
    let server = Server::start_with(crate::process::Launch::in_earnest());
    let client = server.tenant();
    let mut seen = String::new();
    let short = "whsec_".to_owned() + &"AAAA".repeat(7) + "AAA=";
    let many: Vec<&str> = vec!["payment.failed"; 65];
    let headers: serde_json::Map<String, Value> =
        (0..11).map(|n| (format!("X-{n}"), json!("x"))).collect();
    for (field, value) in [
        ("url", json!("http://169.254.169.254/latest")),
        ("url", json!("http://0x7f000001/")),
        ("url", json!("http://[::ffff:127.0.0.1]/")),
        ("url", json!("http://localhost:9/")),
        ("url", json!("ftp://example.com/")),
        ("url", json!("https://user:secret@example.com/")),
        ("url", json!(format!("https://example.com/{}", "x".repeat(2_048)))),
        ("secret", json!(short)),
        ("secret", json!("not base64!")),
        ("secret", json!("A".repeat(4_096))),
        ("format", json!("xml")),
        ("events", json!(["payment.paid"])),
        ("events", json!(many)),
        ("headers", json!({ "Host": "internal" })),
        ("headers", json!({ "webhook-id": "1" })),
        ("headers", json!({ "X-A": "a\r\nHost: b" })),
        ("headers", json!({ "X-A": "***" })),
        ("headers", json!(headers)),
        ("description", json!("x".repeat(256))),
        ("status", json!("disabled")),
    ] {
        let mut body = json!({ "url": "https://example.com/" });
        body[field] = value;
        let refused = client.post(ENDPOINTS, &body);
        let problem = refused.json();
        assert_eq!(refused.status, 400, "{body} {problem}");
        assert_eq!(problem["field"], field, "{problem}");
        seen += &format!("{}\n", problem["detail"].as_str().unwrap());
    }
    expect![[r#"
        url: leads to an address that is not public
        url: leads to an address that is not public
        url: leads to an address that is not public
        url: leads to an address that is not public
        url: must begin with http:// or https://
        url: must have no user or password
        url: is longer than 2048 bytes
        secret: is not 24 to 64 bytes in base64, with or without `whsec_`
        secret: is not 24 to 64 bytes in base64, with or without `whsec_`
        secret: is not 24 to 64 bytes in base64, with or without `whsec_`
        format: is neither standard nor killbill
        events: payment.paid is neither a type of events nor a group such as payment.*
        events: names more than 64
        headers: Host is set by the server
        headers: webhook-id is set by the server
        headers: X-A has a value that a header does not carry
        headers: has *** as a value: send the value itself
        headers: has more than 10
        description: has more than 255 characters, or control characters
        status: is neither on nor paused
    "#]]
    .assert_eq(&seen);
    let card = client.post(ENDPOINTS, &json!({ "url": "https://example.com/4111111111111111" }));
    assert_eq!(card.status, 400, "{}", card.text());
    for n in 0..100 {
        endpoint(&client, &json!({ "url": format!("https://example.com/{n}") }));
    }
    let full = client.post(ENDPOINTS, &json!({ "url": "https://example.com/" }));
    assert_eq!((full.status, &full.json()["field"]), (400, &json!("endpoints")));
}

#[test]
fn events_are_signed_before_during_and_after_a_rotation() {
    let server = Server::start();
    let client = server.tenant();
    let receiver = Receiver::start();
    let made = endpoint(
        &client,
        &json!({ "url": receiver.url, "events": ["account.created"], "asymmetric": true,
                 "headers": { "X-Mine": "yes" } }),
    );
    let first = made["secret"].as_str().unwrap();
    assert!(made["publicKey"].as_str().unwrap().starts_with("whpk_"));
    account(&client, "__EXTERNAL_PAYMENT__");
    arrive(&receiver, "account.created", 1);
    let rotate = format!("{ENDPOINTS}/{}/secret", made["id"].as_str().unwrap());
    let rotated = client.post(&rotate, &json!({ "overlapSeconds": 3_600 }));
    assert_eq!(rotated.status, 201, "{}", rotated.text());
    let second = rotated.json()["secret"].as_str().unwrap().to_owned();
    account(&client, "__EXTERNAL_PAYMENT__");
    arrive(&receiver, "account.created", 2);
    later(&client, "days=1");
    account(&client, "__EXTERNAL_PAYMENT__");
    arrive(&receiver, "account.created", 3);
    let signed: Vec<_> = receiver
        .received()
        .iter()
        .map(|it| (is_signed(it, first), is_signed(it, &second)))
        .collect();
    assert_eq!(signed, [(true, false), (true, true), (false, true)]);
    let received = receiver.received();
    assert!(received.iter().all(|it| it.headers["x-mine"] == "yes"));
    assert_eq!(received[1].headers["webhook-signature"].matches("v1a,").count(), 2);
    let body = received[0].json();
    assert_eq!(body["type"], "account.created");
    assert_eq!(body["data"]["sequence"].to_string(), received[0].headers["x-faregate-sequence"]);
    assert_eq!(receiver.ids("tenant.config-changed"), [""; 0], "it was not asked for");
}

#[test]
fn kill_bills_callback_is_signed_from_its_registration_on() {
    let server = Server::start();
    let client = server.tenant();
    let receiver = Receiver::start();
    let register = format!("/1.0/kb/tenants/registerNotificationCallback?cb={}", receiver.url);
    assert_eq!(client.post(&register, &json!({})).status, 201);
    let first = eventually("the registration", || receiver.received().first().cloned());
    let path = "/v1/webhooks/endpoints/callback/secret";
    let secret_of = |body: Value| {
        let set = client.post(path, &body);
        assert_eq!(set.status, 201, "{}", set.text());
        set.json()["secret"].as_str().map(str::to_owned)
    };
    let shown = secret_of(json!({})).unwrap();
    assert!(is_signed(&first, &shown), "before it was shown too");
    let drawn = secret_of(json!({ "overlapSeconds": 3_600 })).unwrap();
    assert_ne!(drawn, shown, "it is shown once");
    account(&client, "__EXTERNAL_PAYMENT__");
    let created = eventually("the account", || {
        let all = receiver.received();
        all.into_iter().find(|it| it.json()["eventType"] == "ACCOUNT_CREATION")
    });
    assert!(is_signed(&created, &shown) && is_signed(&created, &drawn));
    // A secret of the tenant's own signs beside the one that was never shown.
    let another = json!({ "apiKey": "joe", "apiSecret": "secret" });
    assert_eq!(server.client().post("/1.0/kb/tenants", &another).status, 201);
    let joe = server.client().tenant("joe", "secret");
    let receiver = Receiver::start();
    let register = format!("/1.0/kb/tenants/registerNotificationCallback?cb={}", receiver.url);
    assert_eq!(joe.post(&register, &json!({})).status, 201);
    let own = "whsec_".to_owned() + &"AAAA".repeat(8);
    assert_eq!(joe.post(path, &json!({ "secret": own })).json().get("secret"), None);
    account(&joe, "__EXTERNAL_PAYMENT__");
    let created = eventually("the account", || {
        let all = receiver.received();
        all.into_iter().find(|it| it.json()["eventType"] == "ACCOUNT_CREATION")
    });
    assert!(is_signed(&created, &own) && !is_signed(&created, &shown));
    assert_eq!(created.headers["webhook-signature"].matches("v1,").count(), 2);
}

#[test]
fn repeated_requests_with_an_idempotency_key_make_one_endpoint_secret_and_replay() {
    let server = Server::start();
    let client = server.tenant();
    let with = |key: &str| client.clone().header("Idempotency-Key", key);
    let body = json!({ "url": "https://example.com/in", "events": ["payment.*"] });
    let made = with("a").post(ENDPOINTS, &body);
    assert_eq!(made.status, 201, "{}", made.text());
    let again = with("a").post(ENDPOINTS, &body);
    assert_eq!((again.status, again.json()), (201, made.json()), "with the same secret");
    for header in ["location", "etag"] {
        assert_eq!(again.header(header), made.header(header));
    }
    let all = client.get(ENDPOINTS).json();
    assert_eq!(all["endpoints"].as_array().unwrap().len(), 1);
    let another = with("a").post(ENDPOINTS, &json!({ "url": "https://example.com/another" }));
    assert_eq!(another.status, 422, "{}", another.text());
    let own = "whsec_".to_owned() + &"AAAA".repeat(8);
    let secret = format!("{}/secret", made.header("location").unwrap());
    for body in [json!({ "overlapSeconds": 60 }), json!({ "secret": own })] {
        let key = body.to_string();
        let rotated = with(&key).post(&secret, &body);
        assert_eq!(rotated.status, 201, "{}", rotated.text());
        let again = with(&key).post(&secret, &body);
        assert_eq!((again.status, again.json()), (201, rotated.json()));
    }
    assert_eq!(client.get(made.header("location").unwrap()).header("etag"), Some("\"3\""));
    assert_eq!(with("a").post(&secret, &json!({})).status, 422, "it was used for another route");
    let replay = json!({ "from": "2020-01-01T00:00:00Z" });
    let first = with("r").post(REPLAYS, &replay);
    let again = with("r").post(REPLAYS, &replay);
    assert_eq!((first.status, again.status), (202, 202), "{} {}", first.text(), again.text());
    assert_eq!(first.header("location"), again.header("location"));
    let another = json!({ "from": "2021-01-01T00:00:00Z" });
    assert_eq!(with("r").post(REPLAYS, &another).status, 422);
    let wrong = with("ä").post(ENDPOINTS, &body);
    assert_eq!((wrong.status, &wrong.json()["field"]), (400, &json!("Idempotency-Key")));
    // After the time for which answers are kept, it is a new request.
    later(&client, "days=2");
    let made_later = with("a").post(ENDPOINTS, &body);
    assert_ne!(made_later.json()["id"], made.json()["id"]);
}

#[test]
fn what_a_receiver_missed_in_a_day_arrives_under_the_same_id() {
    let server = Server::start();
    // Where a redirect leads, nothing arrives.
    let elsewhere = Receiver::start();
    let location: &'static str = format!("Location: {}\r\n", elsewhere.url).leak();
    let down = [
        Answers::Status(500, "", "out of order"),
        Answers::Status(429, "Retry-After: 7200\r\n", "later"),
        Answers::Status(302, location, ""),
        Answers::Status(307, location, ""),
        Answers::Cut,
        Answers::CutBody,
    ];
    let client = arrives_after_a_day(&server, &down, 10);
    assert_eq!(elsewhere.received().len(), 0);
    let page = client.get("/v1/webhooks/deliveries?limit=15").json();
    let rest = format!("/v1/webhooks/deliveries?before={}", page["next"].as_str().unwrap());
    let rest = client.get(&rest).json();
    let place = |it: &Value| {
        (it["eventId"].to_string(), it["endpoint"].to_string(), it["attempt"].to_string())
    };
    let first: BTreeSet<_> = page["deliveries"].as_array().unwrap().iter().map(place).collect();
    let second: BTreeSet<_> = rest["deliveries"].as_array().unwrap().iter().map(place).collect();
    assert_eq!(first.len(), 15);
    assert!(first.is_disjoint(&second));
}

/// More of them would be too many timeouts: then it is tried every half minute only.
#[test]
fn what_a_receiver_missed_while_it_hung_for_a_day_arrives_under_the_same_id() {
    let launch = crate::process::Launch::usual().env("FAREGATE_PUSH_TIMEOUT", "500ms");
    arrives_after_a_day(&Server::start_with(launch), &[Answers::Never], 3);
}

/// Endpoints that answer so for a day, and then take what they are sent: each event arrives, under one id, and the log
/// has every try.
fn arrives_after_a_day(server: &Server, down: &[Answers], events: usize) -> Client {
    let client = server.tenant();
    let of = account(&client, "__EXTERNAL_PAYMENT__");
    let receivers: Vec<(Receiver, String)> = down
        .iter()
        .map(|answers| {
            let receiver = Receiver::start();
            receiver.answer(answers.clone());
            let only = json!({ "url": receiver.url, "events": ["payment.succeeded"] });
            let id = endpoint(&client, &only)["id"].as_str().unwrap().to_owned();
            (receiver, id)
        })
        .collect();
    for _ in 0..events {
        purchase(&client, &of, "1", "");
    }
    for (receiver, _) in &receivers {
        arrive(receiver, "payment.succeeded", 1);
    }
    let all_failed = |times: usize| {
        for (answers, (_, id)) in down.iter().zip(&receivers) {
            // One that asks for a pause gets it.
            let events = if matches!(answers, Answers::Status(429, ..)) { 1 } else { events };
            eventually("all have failed", || {
                let log = deliveries(&client, &format!("?status=failed&endpoint={id}"));
                (log.len() >= events * times).then_some(())
            });
        }
    };
    all_failed(1);
    later(&client, "days=1");
    all_failed(2);
    for (receiver, _) in &receivers {
        receiver.answer(Answers::Status(204, "", ""));
    }
    later(&client, "days=1");
    for (receiver, id) in &receivers {
        let delivered = eventually("all are delivered", || {
            let log = deliveries(&client, &format!("?status=delivered&endpoint={id}"));
            (log.len() == events).then_some(log)
        });
        let ids: BTreeSet<&str> =
            delivered.iter().map(|it| it["eventId"].as_str().unwrap()).collect();
        let received: BTreeSet<String> = receiver.ids("payment.succeeded").into_iter().collect();
        assert_eq!(ids.len(), events);
        assert_eq!(received.iter().map(String::as_str).collect::<BTreeSet<_>>(), ids);
        let failed = deliveries(&client, &format!("?status=failed&endpoint={id}"));
        assert!(failed.len() >= 2, "{failed:?}");
        assert!(failed.iter().all(|it| it["nextAt"].is_string() && it["error"].is_string()));
    }
    client
}

#[test]
fn what_is_given_up_is_what_the_log_says() {
    let server = Server::start();
    let client = server.tenant();
    let receiver = Receiver::start();
    receiver.answer(Answers::Status(500, "", ""));
    let body = json!({ "url": receiver.url, "events": ["account.created"], "format": "killbill" });
    endpoint(&client, &body);
    account(&client, "__EXTERNAL_PAYMENT__");
    // Kill Bill's schedule: five retries, all within five days.
    for attempt in 1..=6 {
        eventually("it is tried", || (deliveries(&client, "").len() == attempt).then_some(()));
        later(&client, "days=1");
    }
    let log = deliveries(&client, "");
    let said: Vec<_> = log.iter().rev().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(said, ["failed", "failed", "failed", "failed", "failed", "given-up"]);
    assert_eq!((&log[0]["attempt"], &log[0]["nextAt"]), (&json!(6), &Value::Null));
    let received = receiver.received();
    let ids: BTreeSet<&str> = received.iter().map(Received::id).collect();
    assert_eq!((received.len(), ids.len()), (6, 1), "one id for every try");
    assert_eq!(ids.first().copied(), log[0]["eventId"].as_str());
}

/// Delivers events and has all of them sent again; what is wrong with what arrives, if anything is.
fn replayed(receiver: &Receiver) -> Result<(), String> {
    let server = Server::start();
    let client = server.tenant();
    endpoint(&client, &json!({ "url": receiver.url, "events": ["payment.*"] }));
    let of = account(&client, "__EXTERNAL_PAYMENT__");
    for _ in 0..5 {
        purchase(&client, &of, "1", "");
    }
    arrive(receiver, "payment.succeeded", 5);
    let replay = client.post(REPLAYS, &json!({ "from": "2020-01-01T00:00:00Z" }));
    assert_eq!(replay.status, 202, "{}", replay.text());
    arrive(receiver, "payment.succeeded", 10);
    let received = receiver.received();
    let (first, again) = received.split_at(5);
    let is_known =
        |it: &&Received| first.iter().any(|known| (known.id(), &known.body) == (it.id(), &it.body));
    match again.iter().find(|it| !is_known(it)) {
        None => Ok(()),
        Some(new) => Err(format!("{} is no event that was sent before", new.id())),
    }
}

#[test]
fn a_replay_under_new_ids_is_found() {
    assert_eq!(replayed(&Receiver::start()), Ok(()));
    assert!(replayed(&Receiver::renaming()).is_err(), "the planted bug is not found");
}

#[test]
fn events_are_sent_again_under_their_ids_one_by_one_and_by_time() {
    let data = crate::process::TempDir::new();
    let server = Server::start_in(data.path(), crate::process::Launch::usual());
    let client = server.tenant();
    let receiver = Receiver::start();
    let all = json!({ "url": receiver.url, "events": ["payment.*", "account.created"] });
    let made = endpoint(&client, &all);
    let of = account(&client, "__EXTERNAL_PAYMENT__");
    for _ in 0..20 {
        purchase(&client, &of, "1", "");
    }
    let first = arrive(&receiver, "payment.succeeded", 20);
    let resend = format!("/v1/events/{}/resend", first[3]);
    let sent = client.post(&resend, &json!({ "endpoint": made["id"] }));
    assert_eq!((sent.status, sent.json()["endpoints"].to_string()), (202, "1".to_owned()));
    assert_eq!(arrive(&receiver, "payment.succeeded", 21)[20], first[3]);
    let event = client.get(&format!("/v1/events/{}", first[3])).json();
    let received = receiver.received();
    let delivered = received.iter().find(|it| it.id() == first[3]).unwrap().json();
    for field in ["type", "timestamp", "data"] {
        assert_eq!(event[field], delivered[field], "{event}");
    }
    let wanted = json!({ "from": "2020-01-01T00:00:00Z", "events": ["payment.*"], "account": of });
    let replay = client.post(REPLAYS, &wanted);
    assert_eq!(replay.status, 202, "{}", replay.text());
    let path = replay.header("location").unwrap().to_owned();
    // It goes on where it was.
    server.kill();
    let server = Server::start_in(data.path(), crate::process::Launch::usual());
    let client = server.client().tenant("bob", "lazar");
    let done = eventually("the replay is done", || {
        let shown = client.get(&path).json();
        (shown["status"] == "done").then_some(shown)
    });
    assert_eq!(done["queued"], 20);
    let again = arrive(&receiver, "payment.succeeded", 41);
    assert_eq!(again[21..].iter().collect::<BTreeSet<_>>(), first.iter().collect());
    assert_eq!(receiver.ids("account.created").len(), 1, "it was not asked for");
    for wrong in [
        json!({ "from": "soon" }),
        json!({ "from": "2020-01-01T00:00:00Z", "to": "2020-01-01T00:00:00Z" }),
        json!({ "from": "2020-01-01T00:00:00Z", "events": ["x"] }),
    ] {
        assert_eq!(client.post(REPLAYS, &wrong).status, 400);
    }
}

/// The answer to a request for a replay to an endpoint: its status, and its problem's field or an empty text.
pub(crate) fn replay_to(client: &Client, endpoint: &Value) -> (u16, String) {
    let wanted = json!({ "from": "2020-01-01T00:00:00Z", "endpoint": endpoint });
    let answer = client.post(REPLAYS, &wanted);
    (answer.status, answer.json()["field"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_replay_is_to_an_endpoint_of_the_tenant() {
    let server = Server::start();
    let client = server.tenant();
    let refused = (400, "endpoint".to_owned());
    let another = json!("0197b3d0-0000-7000-8000-000000000000");
    assert_eq!(replay_to(&client, &another), refused);
    assert_eq!(replay_to(&client, &json!("callback")), refused, "there is none");
    let made = endpoint(&client, &json!({ "url": "https://example.com/in" }));
    assert_eq!(replay_to(&client, &made["id"]).0, 202);
    let other = server.another_tenant();
    assert_eq!(replay_to(&other, &made["id"]), refused, "it is another tenant's");
    let wanted = json!({ "from": "2020-01-01T00:00:00Z", "endpoint": made["id"] });
    let ask = || client.clone().header("Idempotency-Key", "k").post(REPLAYS, &wanted).status;
    assert_eq!(ask(), 202);
    let path = format!("{ENDPOINTS}/{}", made["id"].as_str().unwrap());
    assert_eq!(client.delete(&path).status, 204);
    assert_eq!(ask(), 202, "it is a repetition");
    assert_eq!(replay_to(&client, &made["id"]), refused, "it is gone");
}

#[test]
fn an_endpoint_that_has_gone_is_switched_off_and_the_others_and_the_operator_learn_of_it() {
    let launch = crate::process::Launch::usual();
    let to = "operator@example.org";
    let server = Server::start_with(launch.env("FAREGATE_WEBHOOKS_ALERT_MAIL", to));
    let client = server.tenant();
    let (gone, other) = (Receiver::start(), Receiver::start());
    gone.answer(Answers::Status(410, "", "we moved"));
    let made = endpoint(&client, &json!({ "url": gone.url, "events": ["account.created"] }));
    let of_both = json!({ "url": other.url, "events": ["webhook.*", "account.created"] });
    endpoint(&client, &of_both);
    account(&client, "__EXTERNAL_PAYMENT__");
    arrive(&other, "webhook.endpoint-disabled", 1);
    let received = other.received();
    let is_of_it = |it: &&Received| it.json()["type"] == "webhook.endpoint-disabled";
    let event = received.iter().find(is_of_it).unwrap().json();
    assert_eq!(
        (&event["data"]["endpointId"], &event["data"]["reason"]),
        (&made["id"], &json!("gone"))
    );
    let path = format!("{ENDPOINTS}/{}", made["id"].as_str().unwrap());
    let shown = client.get(&path).json();
    assert_eq!((&shown["status"], &shown["disabledReason"]), (&json!("disabled"), &json!("gone")));
    let mails = eventually("a mail", || {
        let mails = crate::mails::files(&server.data_dir);
        (!mails.is_empty()).then_some(mails)
    });
    assert_eq!(mails.len(), 1);
    assert!(mails[0].contains("To: operator@example.org"), "{}", mails[0]);
    let id = made["id"].as_str().unwrap();
    assert!(mails[0].contains(&format!("The webhook endpoint {id}")), "{}", mails[0]);
    assert!(!mails[0].contains(&gone.url), "{}", mails[0]);
    account(&client, "__EXTERNAL_PAYMENT__");
    arrive(&other, "account.created", 2);
    let on = client.send("PATCH", &path, Some(br#"{"status":"on"}"#));
    assert_eq!(on.json()["status"], "on");
    gone.answer(Answers::Status(200, "", ""));
    account(&client, "__EXTERNAL_PAYMENT__");
    assert_eq!(arrive(&gone, "account.created", 2).len(), 2, "nothing arrived while it was off");
    let log = deliveries(&client, &format!("?endpoint={id}&status=given-up"));
    assert_eq!(log.last().unwrap()["answer"], "we moved");
    assert_eq!(log.last().unwrap()["httpStatus"], 410);
}

#[test]
fn a_callback_that_has_gone_is_switched_off_until_it_is_registered_again() {
    let server = Server::start();
    let client = server.tenant();
    let (gone, other) = (Receiver::start(), Receiver::start());
    gone.answer(Answers::Status(410, "", ""));
    let register = || {
        let path = format!("/1.0/kb/tenants/registerNotificationCallback?cb={}", gone.url);
        assert_eq!(client.post(&path, &json!({})).status, 201);
    };
    register();
    endpoint(&client, &json!({ "url": other.url, "events": ["webhook.*", "account.created"] }));
    account(&client, "__EXTERNAL_PAYMENT__");
    let event = &arrive(&other, "webhook.endpoint-disabled", 1)[0];
    let event = client.get(&format!("/v1/events/{event}")).json();
    let said = (&event["data"]["endpointId"], &event["data"]["reason"]);
    assert_eq!(said, (&json!("callback"), &json!("gone")));
    gone.answer(Answers::Status(200, "", ""));
    account(&client, "__EXTERNAL_PAYMENT__");
    let second = &arrive(&other, "account.created", 2)[1];
    let resend = format!("/v1/events/{second}/resend");
    let to_it = json!({ "endpoint": "callback" });
    assert_eq!(client.post(&resend, &to_it).status, 400, "it is off");
    register();
    let before = gone.received().len();
    assert_eq!(client.post(&resend, &to_it).status, 202);
    eventually("it arrives", || (gone.received().len() > before).then_some(()));
    let to_gone = deliveries(&client, "?endpoint=callback");
    assert_eq!(to_gone.last().unwrap()["status"], "given-up", "{to_gone:?}");
}

#[test]
fn an_endpoint_that_fails_for_five_days_is_switched_off() {
    let server = Server::start();
    let client = server.tenant();
    let (failing, other) = (Receiver::start(), Receiver::start());
    failing.answer(Answers::Status(500, "", ""));
    let made = endpoint(&client, &json!({ "url": failing.url, "events": ["account.created"] }));
    endpoint(&client, &json!({ "url": other.url, "events": ["webhook.*"] }));
    account(&client, "__EXTERNAL_PAYMENT__");
    arrive(&failing, "account.created", 1);
    let path = format!("{ENDPOINTS}/{}", made["id"].as_str().unwrap());
    let failed = |count| {
        let query = format!("?endpoint={}", made["id"].as_str().unwrap());
        eventually("it is logged", || (deliveries(&client, &query).len() >= count).then_some(()));
    };
    failed(1);
    later(&client, "days=4");
    account(&client, "__EXTERNAL_PAYMENT__");
    failed(2);
    assert_eq!(client.get(&path).json()["status"], "on");
    later(&client, "days=2");
    account(&client, "__EXTERNAL_PAYMENT__");
    arrive(&other, "webhook.endpoint-disabled", 1);
    assert_eq!(client.get(&path).json()["disabledReason"], "failing");
}

#[test]
fn a_callback_that_is_registered_anew_is_not_switched_off_for_the_one_before() {
    let server = Server::start();
    let client = server.tenant();
    let (failing, gone, other) = (Receiver::start(), Receiver::start(), Receiver::start());
    failing.answer(Answers::Status(500, "", ""));
    gone.answer(Answers::Status(410, "", ""));
    let register = || {
        let path = format!("/1.0/kb/tenants/registerNotificationCallback?cb={}", failing.url);
        assert_eq!(client.post(&path, &json!({})).status, 201);
    };
    let failed = |count| {
        let logged = || deliveries(&client, "?endpoint=callback").len() >= count;
        eventually("it is logged", || logged().then_some(()));
    };
    register();
    account(&client, "__EXTERNAL_PAYMENT__");
    failed(1);
    later(&client, "days=6");
    register();
    let before = deliveries(&client, "?endpoint=callback").len();
    account(&client, "__EXTERNAL_PAYMENT__");
    failed(before + 1);
    // Once an endpoint that failed after it is off, it would be off as well.
    endpoint(&client, &json!({ "url": other.url, "events": ["webhook.*", "account.created"] }));
    let made = endpoint(&client, &json!({ "url": gone.url, "events": ["account.created"] }));
    account(&client, "__EXTERNAL_PAYMENT__");
    let event = &arrive(&other, "webhook.endpoint-disabled", 1)[0];
    let event = client.get(&format!("/v1/events/{event}")).json();
    assert_eq!(event["data"]["endpointId"], made["id"]);
    let resend = format!("/v1/events/{}/resend", arrive(&other, "account.created", 1)[0]);
    assert_eq!(client.post(&resend, &json!({ "endpoint": "callback" })).status, 202, "it is on");
}

#[test]
fn receivers_that_hang_or_never_end_delay_no_other() {
    let server = Server::start();
    let client = server.tenant();
    let of = account(&client, "__EXTERNAL_PAYMENT__");
    let (hanging, endless, sound) = (Receiver::start(), Receiver::start(), Receiver::start());
    hanging.answer(Answers::Never);
    endless.answer(Answers::Endlessly);
    for receiver in [&hanging, &endless, &sound] {
        endpoint(&client, &json!({ "url": receiver.url, "events": ["payment.*"] }));
    }
    let begun = std::time::Instant::now();
    for _ in 0..50 {
        purchase(&client, &of, "1", "");
    }
    arrive(&sound, "payment.succeeded", 50);
    let took = begun.elapsed();
    arrive(&endless, "payment.succeeded", 1);
    assert!(took.as_secs() < 10, "{took:?}");
    let delivered = eventually("the endless one has received", || {
        let log = deliveries(&client, "?status=delivered");
        log.iter()
            .any(|it| it["answer"].as_str().is_some_and(|it| it.len() == 1_024))
            .then_some(log)
    });
    assert!(delivered.iter().all(|it| it["httpStatus"] == 200));
    server.stop();
}

/// Texts that must be in no file, line or answer: a header's value, an endpoint's secret in base64 and decoded, a
/// token in its URL, and a card number that it answers.
const CANARIES: [&str; 5] = [
    "canary-header-value",
    "Y2FuYXJ5LXNlY3JldC1vZi1hbi1lbmRwb2ludA",
    "canary-secret-of-an-endpoint",
    "canary-url-token",
    "4111111111111111",
];

#[test]
fn secrets_of_endpoints_and_what_they_answer_are_found_nowhere() {
    let launch = crate::process::Launch::usual().env("FAREGATE_LOG_LEVEL", "trace");
    let server = Server::start_with(launch);
    let client = server.tenant();
    let receiver = Receiver::start();
    receiver.answer(Answers::Echo(500, "pan 4111111111111111"));
    let url = format!("{}&token={}", receiver.url, CANARIES[3]);
    let secret = format!("whsec_{}==", CANARIES[1]);
    let body = json!({ "url": url, "secret": secret, "events": ["account.created"],
                       "headers": { "Authorization": format!("Bearer {}", CANARIES[0]) } });
    let made = endpoint(&client, &body);
    let callback = format!("/1.0/kb/tenants/registerNotificationCallback?cb={}", receiver.url);
    assert_eq!(client.post(&callback, &json!({})).status, 201);
    let path = "/v1/webhooks/endpoints/callback/secret";
    let derived = client.post(path, &json!({})).json()["secret"].as_str().unwrap()[6..].to_owned();
    account(&client, "__EXTERNAL_PAYMENT__");
    eventually("it is logged", || (deliveries(&client, "?status=failed").len() >= 2).then_some(()));
    receiver.answer(Answers::Echo(200, "pan 4111 1111 1111 1111"));
    later(&client, "days=1");
    eventually("it is logged", || {
        (!deliveries(&client, "?status=delivered").is_empty()).then_some(())
    });
    let sent = receiver.received();
    assert!(sent.iter().any(|it| it.headers.contains_key("authorization")), "it was echoed");
    let rotate = format!("{ENDPOINTS}/{}/secret", made["id"].as_str().unwrap());
    assert_eq!(client.post(&rotate, &json!({ "secret": secret })).status, 201);
    // Answers name the URL to those who may read endpoints.
    let shown = [
        client.get("/v1/webhooks/deliveries?limit=1000").text(),
        client.get("/v1/events?after=first&limit=1000").text(),
        client.get("/1.0/kb/tenants/uploadPerTenantConfig/WEBHOOK/search").text(),
        server.metrics(),
    ];
    assert!(shown[0].contains("************1111"), "{}", shown[0]);
    let mut written: Vec<String> = shown.into();
    for (_, content) in crate::card_numbers::files(&server.data_dir) {
        written.push(String::from_utf8_lossy(&content).into_owned());
    }
    assert!(written.len() > 8, "{}", written.len());
    let (_, log) = server.stop();
    written.push(log);
    for text in &written {
        for canary in CANARIES.iter().copied().chain([derived.as_str()]) {
            let at =
                text.find(canary).map(|at| text[..at].chars().rev().take(200).collect::<String>());
            let before = at.map(|it| it.chars().rev().collect::<String>());
            assert_eq!(before, None, "{canary}");
        }
    }
}

#[test]
fn a_stop_repeats_nothing_that_was_answered_beside_an_endpoint_that_hangs() {
    let dir = TempDir::new();
    let server = Server::start_in(dir.path(), Launch::usual());
    let client = server.tenant();
    let (hanging, healthy) = (Receiver::start(), Receiver::start());
    hanging.answer(Answers::Never);
    for receiver in [&hanging, &healthy] {
        let events = json!(["account.created"]);
        endpoint(&client, &json!({ "url": receiver.url, "events": events }));
    }
    for _ in 0..10 {
        account(&client, "__EXTERNAL_PAYMENT__");
    }
    arrive(&healthy, "account.created", 10);
    assert!(server.stop().0.success());
    hanging.answer(Answers::Status(200, "", ""));
    let before = hanging.ids("account.created").len();

    let server = Server::start_in(dir.path(), Launch::usual());
    account(&server.client().tenant("bob", "lazar"), "__EXTERNAL_PAYMENT__");
    arrive(&hanging, "account.created", before + 11);
    let mut ids = arrive(&healthy, "account.created", 11);
    assert_eq!(ids.len(), 11, "one was sent again: {ids:?}");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 11);
}
