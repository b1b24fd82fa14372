//! Registrations that are executed later.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::command::CustomerCommand;
use domain::customer::operation::QueueRegistration;
use domain::payment::Actor;
use domain::{Command, OperationId, Request};
use engine::Answer;
use engine::access::ClientAddress;
use futures_util::future::join_all;
use http::Method;
use http_body_util::BodyExt as _;
use ring::hmac;
use serde_json::{Value, json};
use sign_up::operations::{Callback, CallbackCheck, Deliver, Delivery, Disclosure, NotDelivered};
use sign_up::service::{RegistrationForm, RequestContext};
use tempfile::tempdir;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::world::{PASSWORD, Response, TENANT, TIMEOUT, World, form};

const ADA: &str = "ada@example.com";
const SECRET: [u8; 32] = [9; 32];

/// Registers a customer without waiting for the result.
async fn queue(world: &World, headers: &[(&str, &str)], body: Value) -> Response {
    let headers = [headers, &[("prefer", "respond-async")]].concat();
    let queued = world.call((Method::POST, "/v1/registrations"), &headers, body).await;
    assert_eq!(queued.status, 202, "{}", queued.body);
    assert_eq!(queued.headers["preference-applied"], "respond-async");
    queued
}

async fn show(world: &World, location: &str) -> Response {
    world.call((Method::GET, location), &[], Value::Null).await
}

/// The event at the end of an operation's stream.
async fn ended(world: &World, path: &str) -> Value {
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let response = world.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let all = timeout(TIMEOUT, response.into_body().collect()).await.unwrap().unwrap();
    let text = String::from_utf8(all.to_bytes().to_vec()).unwrap();
    assert!(text.starts_with(": waiting\n\n"), "{text}");
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str(data).unwrap()
}

fn location(answered: &Response) -> String {
    answered.headers["location"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_stored_registration_survives_a_restart_and_is_executed_once() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let queued = queue(&world, &[], form(ADA)).await;
    let waiting = show(&world, &location(&queued)).await;
    assert_eq!(
        (waiting.text("status").as_str(), &waiting.headers["retry-after"]),
        ("waiting", &http::HeaderValue::from_static("1"))
    );
    assert!(world.customer(ADA).await.is_none());
    world.stop().await;

    let mut world = World::start(dir.path()).await;
    assert_eq!(show(&world, &location(&queued)).await.text("status"), "waiting");
    world.work(None);
    let done = ended(&world, &format!("{}/events", location(&queued))).await;
    assert_eq!((&done["status"], &done["customerId"]), (&json!("succeeded"), &Value::Null));
    let customer = world.customer(ADA).await.unwrap();
    let id: OperationId = OperationId::new(queued.text("operationId").parse().unwrap());
    let account = domain::RequestId(id.uuid()).entity(0);
    assert_eq!(customer.account, account, "in the operation's partition");
    let (no, count) = (world.no, domain::Timestamp(i64::MAX));
    let operation = world.engine.read(move |queries| queries.operation(no, id)).await.unwrap();
    assert_eq!(operation.unwrap().sealed, None, "the request is deleted");
    let mails = world.engine.read(move |queries| queries.mails_due(count, 100)).await.unwrap();
    assert_eq!(mails.len(), 2);
    let ended = show(&world, &location(&queued)).await;
    assert!(ended.headers.get("retry-after").is_none());
    world.stop().await;
}

#[tokio::test]
async fn a_worker_executes_the_registrations_of_its_own_partition_only() {
    let dir = tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    let of = |tenant, account| domain::PartitionNo::of(tenant, account, 3);
    // Two of different partitions; the first one is not executed.
    let mut queued = vec![];
    while queued.iter().map(|(_, partition)| *partition).collect::<BTreeSet<_>>().len() < 2 {
        let email = format!("ada{}@example.com", queued.len());
        let answered = queue(&world, &[], form(&email)).await;
        let id = domain::RequestId(answered.text("operationId").parse().unwrap());
        queued.push((location(&answered), of(world.no, id.entity(0))));
    }
    let owned = queued.last().unwrap().1;
    world.work_on(Arc::new(move |tenant, account| of(tenant, account) == owned), None);
    for (path, partition) in &queued {
        if *partition == owned {
            assert_eq!(ended(&world, &format!("{path}/events")).await["status"], "succeeded");
        }
    }
    let (first, _) = queued.first().unwrap();
    assert_eq!(show(&world, first).await.text("status"), "waiting");
    world.stop().await;
}

#[tokio::test]
async fn repeating_a_request_with_its_key_returns_the_same_operation() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let key = [("idempotency-key", "one")];
    let first = queue(&world, &key, form(ADA)).await;
    let again = queue(&world, &key, form(ADA)).await;
    assert_eq!(location(&first), location(&again));
    assert_ne!(location(&first), location(&queue(&world, &[], form(ADA)).await));
    let headers = [key[0], ("prefer", "respond-async")];
    let mut other = form(ADA);
    other["lastName"] = json!("Byron");
    let refused = world.call((Method::POST, "/v1/registrations"), &headers, other).await;
    assert_eq!(refused.outcome(), (422, "idempotency-key-reused"));
    let of_another = queue(&world, &key, form("grace@example.com")).await;
    assert_ne!(location(&first), location(&of_another), "keys of different people do not meet");
    world.stop().await;
}

#[tokio::test]
async fn registrations_above_the_maximum_are_refused_but_repetitions_are_answered() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let key = [("idempotency-key", "one")];
    let first = queue(&world, &key, form(ADA)).await;
    let fill = || async {
        let id = world.engine.mint();
        let operation = OperationId::new(id.0);
        let stored = QueueRegistration { operation, sealed: String::new(), callback: None };
        let actor = Actor {
            user: "filler".to_owned(),
            created_by: "filler".to_owned(),
            reason: None,
            comments: None,
            token: id.0,
        };
        let command = Command::Customer(CustomerCommand::QueueRegistration(stored));
        let request = Request { id, tenant: world.no, actor, idempotency: None, command };
        assert!(matches!(world.engine.submit(request).await, Ok(Answer::Replied(_))));
    };
    for count in [500; 19].into_iter().chain([498]) {
        join_all((0..count).map(|_| fill())).await;
    }
    let grace = form("grace@example.com");
    queue(&world, &[], grace.clone()).await;
    let prefer = [("prefer", "respond-async")];
    let refused = world.call((Method::POST, "/v1/registrations"), &prefer, grace).await;
    assert_eq!(
        (refused.status.as_u16(), refused.headers["retry-after"].to_str().unwrap()),
        (503, "60")
    );
    let again = queue(&world, &key, form(ADA)).await;
    assert_eq!(location(&first), location(&again));
    world.stop().await;
}

#[tokio::test]
async fn operations_of_another_tenant_are_not_found() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let path = location(&queue(&world, &[], form(ADA)).await);
    let own = world.call((Method::GET, &path), &TENANT, Value::Null).await;
    assert_eq!(own.status, 200);
    let other = [(TENANT[0].0, "main"), TENANT[1]];
    let refused = world.call((Method::GET, &path), &other, Value::Null).await;
    assert_eq!(refused.outcome(), (404, "not-found"));
    for nothing in
        ["/v1/operations/x", "/v1/operations/0192aabb-ccdd-7123-9456-789abcdef012/events"]
    {
        assert_eq!(show(&world, nothing).await.outcome(), (404, "not-found"));
    }
    world.stop().await;
}

fn new(email: &str) -> RegistrationForm {
    RegistrationForm {
        email: email.to_owned(),
        password: PASSWORD.to_owned(),
        first_name: "Ada".to_owned(),
        last_name: "Lovelace".to_owned(),
        ..RegistrationForm::default()
    }
}

#[tokio::test]
async fn only_open_registrations_disclose_customers() {
    let dir = tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    let (tenant, engine) = (world.no, world.engine.clone());
    let context = || RequestContext {
        tenant,
        id: engine.mint(),
        idempotency_key: None,
        from: ClientAddress::UNKNOWN,
        is_exempt: true,
        is_of_tenant: false,
    };
    let first = world.sign_up.queue(&context(), &new(ADA), Disclosure::Open, None).await.unwrap();
    let (path, proof) = first.location.split_once("?proof=").unwrap();
    world.work(None);
    let done = ended(&world, &format!("{path}/events?proof={proof}")).await;
    let customer = world.customer(ADA).await.unwrap();
    assert_eq!(done["customerId"], customer.id.to_string());
    assert!(show(&world, path).await.body["customerId"].is_null());
    let wrong = show(&world, &format!("{path}?proof={}", proof.to_lowercase())).await;
    assert_eq!(wrong.outcome(), (404, "not-found"));

    let taken = world.sign_up.queue(&context(), &new(ADA), Disclosure::Open, None).await.unwrap();
    let (path, _) = taken.location.split_once('?').unwrap();
    let failed = ended(&world, &format!("{path}/events")).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["problem"]["type"], "urn:faregate:problem:email-taken");
    assert!(!failed.to_string().contains("ada"));
    let discreet = queue(&world, &[], form(ADA)).await;
    let done = ended(&world, &format!("{}/events", location(&discreet))).await;
    assert_eq!((&done["status"], &done["customerId"]), (&json!("succeeded"), &Value::Null));
    world.stop().await;
}

/// A client that receives callbacks.
fn receiver() -> (Deliver, mpsc::UnboundedReceiver<Delivery>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let post: Deliver = Arc::new(move |delivery| {
        let sent = sender.send(delivery).map_err(|error| NotDelivered::Refused(error.to_string()));
        Box::pin(async move { sent })
    });
    (post, receiver)
}

#[tokio::test]
async fn a_callback_is_signed_and_delivered_once() {
    let dir = tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    let mut body = form(ADA);
    body["callback"] = json!({"url": "https://example.com/hook", "secret": BASE64.encode(SECRET)});
    let queued = queue(&world, &TENANT, body.clone()).await;
    let (post, mut received) = receiver();
    world.work(Some(post));
    let delivery = timeout(TIMEOUT, received.recv()).await.unwrap().unwrap();
    assert_eq!(delivery.url, "https://example.com/hook");
    let header = |name: &str| {
        let found = delivery.headers.iter().find(|(given, _)| *given == name);
        found.unwrap().1.clone()
    };
    assert_eq!(header("webhook-id"), queued.text("operationId"));
    let text = std::str::from_utf8(&delivery.body).unwrap();
    let signed = format!("{}.{}.{text}", header("webhook-id"), header("webhook-timestamp"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &SECRET);
    let signature = header("webhook-signature");
    let code = BASE64.decode(signature.strip_prefix("v1,").unwrap()).unwrap();
    hmac::verify(&key, signed.as_bytes(), &code).unwrap();
    let payload: Value = serde_json::from_str(text).unwrap();
    assert_eq!(payload["type"], "registration.succeeded");
    assert_eq!(payload["data"]["id"], header("webhook-id"));
    assert!(payload["data"]["customerId"].is_null());
    let is_left = async |world: &World| {
        let at = domain::Timestamp(i64::MAX);
        let left = world.engine.read(move |queries| queries.operations_to_notify(at, None, 10));
        left.await.unwrap().iter().any(|it| it.id.to_string() == queued.text("operationId"))
    };
    let recorded = async {
        while is_left(&world).await {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, recorded).await.unwrap();
    body["email"] = json!("grace@example.com");
    let second = queue(&world, &TENANT, body).await;
    let delivery = timeout(TIMEOUT, received.recv()).await.unwrap().unwrap();
    assert_eq!(delivery.headers[1].1, second.text("operationId"));
    world.stop().await;
    let world = World::start(dir.path()).await;
    assert!(!is_left(&world).await, "it would be called again");
    world.stop().await;
}

/// Stores a registration whose end is reported to this URL.
async fn queue_calling(world: &World, email: &str, url: &str) -> String {
    let mut body = form(email);
    body["callback"] = json!({"url": url, "secret": BASE64.encode(SECRET)});
    queue(world, &TENANT, body).await.text("operationId")
}

#[tokio::test]
async fn a_host_that_does_not_answer_holds_up_nobody_else() {
    let dir = tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    // More than are read at once.
    for number in 0..150 {
        let email = format!("slow-{number}@example.com");
        queue_calling(&world, &email, "https://slow.example.com/hook").await;
    }
    let quick = queue_calling(&world, ADA, "https://quick.example.com/hook").await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let post: Deliver = Arc::new(move |delivery| {
        let is_slow = delivery.url.contains("slow");
        let sent = sender.send(delivery).map_err(|it| NotDelivered::Refused(it.to_string()));
        Box::pin(async move { if is_slow { std::future::pending().await } else { sent } })
    });
    world.work(Some(post));
    let mut to_slow = 0;
    let called = async {
        loop {
            let delivery: Delivery = received.recv().await.unwrap();
            if delivery.headers[1].1 == quick {
                break;
            }
            to_slow += 1;
        }
    };
    timeout(TIMEOUT, called).await.unwrap();
    assert!(to_slow <= 2, "{to_slow} at once");
    world.stop().await;
}

#[tokio::test]
async fn a_host_that_timed_out_is_left_alone_for_a_while() {
    let dir = tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    for email in ["first@example.com", "second@example.com", "third@example.com"] {
        queue_calling(&world, email, "https://slow.example.com:8443/hook").await;
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let post: Deliver = Arc::new(move |delivery| {
        let is_slow = delivery.url.contains("slow");
        drop(sender.send(delivery));
        Box::pin(async move { if is_slow { Err(NotDelivered::TimedOut) } else { Ok(()) } })
    });
    world.work(Some(post));
    let mut called = Vec::new();
    let next = async |received: &mut mpsc::UnboundedReceiver<Delivery>| {
        timeout(TIMEOUT, received.recv()).await.unwrap().unwrap().url
    };
    // Two at once, before either of them is known not to answer.
    called.push(next(&mut received).await);
    called.push(next(&mut received).await);
    for email in ["fourth@example.com", "fifth@example.com"] {
        queue_calling(&world, email, "https://quick.example.com/hook").await;
        called.push(next(&mut received).await);
    }
    let slow = called.iter().filter(|url| url.contains("slow")).count();
    assert_eq!(slow, 2, "the third is due, and its host left alone: {called:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_call_that_panics_gives_its_place_back_and_is_retried() {
    let dir = tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    for number in 0..3 {
        let email = format!("ann-{number}@example.com");
        queue_calling(&world, &email, "https://example.com/hook").await;
    }
    let (sender, mut received) = mpsc::unbounded_channel();
    let post: Deliver = Arc::new(move |delivery| {
        drop(sender.send(delivery));
        Box::pin(async { panic!("a bug of the client's library") })
    });
    world.work(Some(post));
    let mut called = BTreeSet::new();
    while called.len() < 3 {
        let delivery = timeout(TIMEOUT, received.recv()).await.unwrap().unwrap();
        called.insert(delivery.headers[1].1.clone());
    }
    world.stop().await;
}

#[tokio::test]
async fn a_callback_without_the_tenants_secret_is_refused() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let (context, check) = (
        RequestContext {
            tenant: world.no,
            id: world.engine.mint(),
            idempotency_key: None,
            from: ClientAddress::UNKNOWN,
            is_exempt: true,
            is_of_tenant: false,
        },
        Arc::new(|_: &str| Ok(())) as CallbackCheck,
    );
    let named = || Callback::read("https://example.com", &BASE64.encode(SECRET), &check).unwrap();
    let queue = async |context: &RequestContext| {
        world.sign_up.queue(context, &new(ADA), Disclosure::Open, Some(named())).await
    };
    let refused = queue(&context).await;
    assert!(matches!(refused, Err(sign_up::service::Error::TenantNeeded)), "{refused:?}");
    queue(&RequestContext { is_of_tenant: true, ..context }).await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn a_failed_callback_is_retried_later() {
    let dir = tempdir().unwrap();
    let mut world = World::start(dir.path()).await;
    let mut body = form(ADA);
    body["callback"] = json!({"url": "https://example.com/hook", "secret": BASE64.encode(SECRET)});
    let failures = Arc::new(Mutex::new(0));
    let (sender, mut received) = mpsc::unbounded_channel();
    let post: Deliver = Arc::new(move |delivery| {
        let mut failures = failures.lock().unwrap();
        *failures += 1;
        let answer =
            if *failures == 1 { Err(NotDelivered::Refused("away".to_owned())) } else { Ok(()) };
        drop(sender.send(delivery));
        Box::pin(async move { answer })
    });
    queue(&world, &TENANT, body).await;
    world.work(Some(post));
    let first = timeout(TIMEOUT, received.recv()).await.unwrap().unwrap();
    let clock = world.engine.clock().clone();
    let second = timeout(TIMEOUT, async {
        loop {
            clock.set(clock.now().plus_us(6_000_000));
            if let Ok(delivery) = timeout(Duration::from_millis(50), received.recv()).await {
                return delivery;
            }
        }
    });
    let second = second.await.unwrap().unwrap();
    assert_eq!(
        (first.headers[1].1.as_str(), &first.body),
        (second.headers[1].1.as_str(), &second.body)
    );
    world.stop().await;
}

#[tokio::test]
async fn an_invalid_callback_is_refused_before_anything_is_stored() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let prefer = [("prefer", "respond-async")];
    for (url, secret, field) in [
        ("http://example.com", BASE64.encode(SECRET), "callback.url"),
        ("https://example.com", BASE64.encode([1; 23]), "callback.secret"),
    ] {
        let mut body = form(ADA);
        body["callback"] = json!({"url": url, "secret": secret});
        let refused = world.call((Method::POST, "/v1/registrations"), &prefer, body).await;
        assert_eq!(refused.outcome(), (422, "wrong-fields"));
        assert_eq!(refused.body["problems"][0]["field"], field);
    }
    let mut wrong = form(ADA);
    wrong["password"] = json!("short");
    let refused = world.call((Method::POST, "/v1/registrations"), &prefer, wrong).await;
    assert_eq!(refused.outcome(), (422, "wrong-fields"));
    let waiting = world.engine.read(|queries| queries.operations_waiting(None, 10)).await.unwrap();
    assert!(waiting.is_empty());
    world.stop().await;
}
