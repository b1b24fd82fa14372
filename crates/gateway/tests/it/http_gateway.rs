//! Tests of gateways that are other programs, with programs that answer well, badly and not at all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use domain::payment::{GatewayAnswer, TransactionType};
use domain::{
    AccountId, AmountMinor, Currency, GatewayCall, GatewayReference, PaymentMethodId, TenantNo,
    Timestamp, TransactionId,
};
use engine::ports::{ControlDecision, ControlRequest, FormRequest, Gateway as _};
use engine::{Clock, Deadline};
use expect_test::expect;
use gateway::Limits;
use gateway::http_gateway::{ANSWER_BYTES_MAX, HttpGateway, ListError, Options, Secret};
use gateway::tenants::Tenants;
use outbound::{Base, Reach};
use secrets::{Purpose, Sealer, webhook};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::calls::{answer, id, inquiry, knowledge, perform, purchase};

const CHARGE: &str = concat!(
    r#"{"call":"charge","deadline":0,"#,
    r#""tenantId":"0192aabb-ccdd-7000-8000-000000000064","#,
    r#""accountId":"0192aabb-ccdd-7000-8000-000000000001","#,
    r#""paymentId":"0192aabb-ccdd-7000-8000-000000000001","#,
    r#""transactionId":"0192aabb-ccdd-7000-8000-000000000001","operation":"CAPTURE","#,
    r#""amount":"10.50","currency":"USD","paymentMethod":{"externalId":"card-7","#,
    r#""properties":[{"key":"network","value":"visa"}]},"properties":[{"key":"statement","#,
    r#""value":"ACME"}],"references":[{"transactionId":"0192aabb-ccdd-7000-8000-000000000009","#,
    r#""operation":"AUTHORIZE","firstReference":"auth-1","secondReference":null}]}"#,
);
const INQUIRY: &str = concat!(
    r#"{"call":"inquire","#,
    r#""tenantId":"0192aabb-ccdd-7000-8000-000000000064","#,
    r#""paymentId":"0192aabb-ccdd-7000-8000-000000000001","#,
    r#""transactionId":"0192aabb-ccdd-7000-8000-000000000001"}"#,
);

const FORM: &str = concat!(
    r#"{"call":"form","#,
    r#""tenantId":"0192aabb-ccdd-7000-8000-000000000064","#,
    r#""accountId":"0192aabb-ccdd-7000-8000-000000000001","#,
    r#""fields":[{"key":"successUrl","value":"https://shop.example.com"}]}"#,
);

const CONTROL: &str = concat!(
    r#"{"call":"control","deadline":0,"#,
    r#""tenantId":"0192aabb-ccdd-7000-8000-000000000064","#,
    r#""requestId":"0192aabb-ccdd-7000-8000-000000000001","#,
    r#""accountId":"0192aabb-ccdd-7000-8000-000000000002","paymentId":null,"#,
    r#""paymentExternalKey":"order-7","transactionExternalKey":null,"operation":"PURCHASE","#,
    r#""amount":"10.50","currency":"USD","#,
    r#""paymentMethodId":"0192aabb-ccdd-7000-8000-000000000003","#,
    r#""properties":[{"key":"channel","value":"web"}]}"#,
);

const TRANSACTIONS: &str = concat!(
    r#"{"call":"transactions","#,
    r#""tenantId":"0192aabb-ccdd-7000-8000-000000000064","#,
    r#""since":"1970-01-01T00:00:03Z","after":"page-2","limit":100}"#,
);

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The program's answer to every request.
#[derive(Clone, Default)]
struct Answer {
    status: Option<u16>,
    body: String,
    /// Sent in place of the right one.
    signature: Option<String>,
    timestamp: Option<String>,
    id: Option<String>,
}

impl Answer {
    fn json(body: impl ToString) -> Self {
        Self { body: body.to_string(), ..Self::default() }
    }
}

#[derive(Clone, Default)]
struct Program {
    url: String,
    answer: Arc<Mutex<Answer>>,
    seen: Arc<Mutex<Vec<(String, HeaderMap, String)>>>,
}

impl Program {
    async fn start() -> (Self, HttpGateway) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/faregate/", listener.local_addr().unwrap());
        let program = Self { url: url.clone(), ..Self::default() };
        let routes = Router::new().fallback(reply).with_state(program.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        (program, gateway_at(&url))
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn take_seen(&self) -> Vec<(String, HeaderMap, String)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

async fn reply(
    State(program): State<Program>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let text = |name| headers.get(name).unwrap().to_str().unwrap();
    let secret = Secret::parse(SECRET).unwrap();
    let signed = webhook::Headers {
        id: text(webhook::ID),
        timestamp: text(webhook::TIMESTAMP),
        signature: text(webhook::SIGNATURE),
    };
    secret.verify(signed, &body, now_s()).unwrap();
    let own_id = signed.id.to_owned();
    let body = without_deadline(uri.path(), &headers, &body);
    program.seen.lock().unwrap().push((uri.to_string(), headers, body));
    let answer = program.answer.lock().unwrap().clone();
    let id = answer.id.unwrap_or(own_id);
    let timestamp = answer.timestamp.unwrap_or_else(|| now_s().to_string());
    let right = secret.sign(&id, &timestamp, answer.body.as_bytes());
    Response::builder()
        .status(answer.status.unwrap_or(200))
        .header(webhook::ID, id)
        .header(webhook::TIMESTAMP, timestamp)
        .header(webhook::SIGNATURE, answer.signature.unwrap_or(right))
        .header("location", "http://127.0.0.1:9/elsewhere")
        .body(Body::from(answer.body))
        .unwrap()
}

/// A message without the time of its deadline, once it says what it was sent for and what the header says.
fn without_deadline(path: &str, headers: &HeaderMap, body: &[u8]) -> String {
    let message: serde_json::Value = serde_json::from_slice(body).unwrap();
    assert_eq!(message["call"], path.rsplit('/').next().unwrap());
    let body = String::from_utf8(body.to_vec()).unwrap();
    let Some(until_ms) = headers.get("faregate-deadline") else {
        assert!(message.get("deadline").is_none(), "{body}");
        return body;
    };
    let until_ms = until_ms.to_str().unwrap();
    assert_eq!(message["deadline"].to_string(), until_ms);
    body.replace(until_ms, "0")
}

fn now_s() -> i64 {
    Clock::new(false).real_now().0 / 1_000_000
}

fn gateway_at(url: &str) -> HttpGateway {
    gateway_of(Base::parse(url, Reach::PublicAndPrivate).unwrap())
}

pub fn gateway_of(base: Base) -> HttpGateway {
    HttpGateway::new(options(base))
}

fn options(base: Base) -> Options {
    Options {
        base,
        secret: Secret::parse(SECRET).unwrap(),
        limits: Limits {
            timeout: Duration::from_secs(30),
            settle_after: Duration::from_secs(5),
            action_timeout: Duration::from_secs(86_400),
            in_flight_max: 8,
        },
        control: true,
        clock: Clock::new(false),
        sealer: Some(Arc::new(sealer())),
        tenants: Arc::new(Tenants::knowing([(TenantNo(1), id(100))])),
    }
}

fn sealer() -> Sealer {
    Sealer::new(&[7; 32])
}

/// An outcome of the first transaction.
fn outcome(fields: &str) -> String {
    let transaction = id(1);
    format!(r#"{{"transactionId": "{transaction}", {fields}}}"#)
}

#[tokio::test]
async fn a_charge_and_an_inquiry_are_sent_as_the_contract_says() {
    let (program, gateway) = Program::start().await;
    program.answers(Answer::json(outcome(r#""status": "PROCESSED""#)));
    let call = GatewayCall {
        operation: TransactionType::Capture,
        amount: Some(AmountMinor(1_050)),
        external_payment_method_id: Some("card-7".to_owned()),
        payment_method_properties: vec![("network".to_owned(), "visa".to_owned())],
        references: vec![GatewayReference {
            transaction: TransactionId::new(id(9)),
            operation: TransactionType::Authorize,
            first: Some("auth-1".to_owned()),
            second: None,
        }],
        ..purchase(1, "statement=ACME")
    };
    assert_eq!(answer(&perform(&gateway, call).await), "Processed");
    gateway.inquire(inquiry(1)).await;
    let seen = program.take_seen();
    let shown: String = seen.iter().map(|(path, _, body)| format!("{path} {body}\n")).collect();
    expect![[r#"
        /faregate/charge {"call":"charge","deadline":0,"tenantId":"0192aabb-ccdd-7000-8000-000000000064","accountId":"0192aabb-ccdd-7000-8000-000000000001","paymentId":"0192aabb-ccdd-7000-8000-000000000001","transactionId":"0192aabb-ccdd-7000-8000-000000000001","operation":"CAPTURE","amount":"10.50","currency":"USD","paymentMethod":{"externalId":"card-7","properties":[{"key":"network","value":"visa"}]},"properties":[{"key":"statement","value":"ACME"}],"references":[{"transactionId":"0192aabb-ccdd-7000-8000-000000000009","operation":"AUTHORIZE","firstReference":"auth-1","secondReference":null}]}
        /faregate/inquire {"call":"inquire","tenantId":"0192aabb-ccdd-7000-8000-000000000064","paymentId":"0192aabb-ccdd-7000-8000-000000000001","transactionId":"0192aabb-ccdd-7000-8000-000000000001"}
    "#]]
    .assert_eq(&shown);
    for (path, headers, _) in &seen {
        let has = |name: &str| headers.contains_key(name);
        assert!(has("content-type") && headers["faregate-gateway-version"] == "1");
        assert_eq!(has("faregate-deadline"), path.ends_with("/charge"), "{path}");
    }
    assert_ne!(seen[0].1[webhook::ID], seen[1].1[webhook::ID]);
}

#[tokio::test]
async fn answers_are_believed_as_far_as_they_can_be() {
    let (program, gateway) = Program::start().await;
    let now = now_s();
    let signed = |body: String| Answer::json(body);
    let good = || outcome(r#""status": "PROCESSED""#);
    let cases = [
        ("amount", signed(outcome(r#""status": "PROCESSED", "amount": "10", "currency": "USD""#))),
        ("pending", signed(outcome(r#""status": "PENDING", "firstReference": "r""#))),
        ("declined", signed(outcome(r#""status": "ERROR", "errorCode": "51""#))),
        ("canceled", signed(outcome(r#""status": "CANCELED""#))),
        ("undefined", signed(outcome(r#""status": "UNDEFINED""#))),
        ("nothing", signed(String::new())),
        ("unknown status", signed(outcome(r#""status": "FINE""#))),
        ("no status", signed(outcome(r#""amount": "10""#))),
        ("another id", signed(good().replace(&id(1).to_string(), &id(2).to_string()))),
        ("no currency", signed(outcome(r#""status": "PROCESSED", "amount": "10""#))),
        (
            "no amount",
            signed(outcome(r#""status": "PROCESSED", "amount": "x", "currency": "USD""#)),
        ),
        (
            "decimals",
            signed(outcome(r#""status": "PROCESSED", "amount": "1.5", "currency": "JPY""#)),
        ),
        (
            "bad currency",
            signed(outcome(r#""status": "PROCESSED", "amount": "1", "currency": "usd""#)),
        ),
        ("html", signed("<html>4111111111111111</html>".to_owned())),
        ("too long", signed(" ".repeat(ANSWER_BYTES_MAX + 1) + &good())),
        ("ten megabytes", signed(" ".repeat(10 << 20))),
        ("error", Answer { status: Some(500), ..signed(good()) }),
        ("redirect", Answer { status: Some(307), ..signed(good()) }),
        ("unsigned", Answer { signature: Some(String::new()), ..signed(good()) }),
        ("forged", Answer { signature: Some(format!("v1,{}=", "A".repeat(43))), ..signed(good()) }),
        ("old", Answer { timestamp: Some((now - 400).to_string()), ..signed(good()) }),
        ("future", Answer { timestamp: Some((now + 400).to_string()), ..signed(good()) }),
        ("replayed", Answer { id: Some("msg_other".to_owned()), ..signed(good()) }),
    ];
    let mut shown = String::new();
    for (name, said) in cases {
        program.answers(said);
        shown += &format!("{name}: {}\n", answer(&perform(&gateway, purchase(1, "")).await));
        assert_eq!(program.take_seen().len(), 1, "{name}: it is sent once");
    }
    expect![[r#"
        amount: Processed 1000
        pending: Pending
        declined: Error 51
        canceled: Canceled
        undefined: Undefined
        nothing: nothing
        unknown status: failed: the answer is not as the contract says: line 1, column 74
        no status: failed: the answer is not as the contract says: line 1, column 73
        another id: failed: transactionId: is not that of the request
        no currency: failed: currency: is missing beside the amount
        no amount: failed: amount: not a decimal number
        decimals: failed: amount: more decimals than the currency has (0)
        bad currency: failed: currency: is no alphabetic code of ISO 4217
        html: failed: the answer is not as the contract says: line 1, column 1
        too long: failed: the answer's body: length limit exceeded
        ten megabytes: failed: the answer's body: length limit exceeded
        error: failed: it answered HTTP 500
        redirect: failed: it answered HTTP 307
        unsigned: failed: the answer cannot be trusted: webhook-signature does not match
        forged: failed: the answer cannot be trusted: webhook-signature does not match
        old: failed: the answer cannot be trusted: webhook-timestamp is missing, or more than five minutes off
        future: failed: the answer cannot be trusted: webhook-timestamp is missing, or more than five minutes off
        replayed: failed: webhook-id of the answer is not that of the request
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn what_a_customer_has_to_do_is_sealed() {
    let (program, gateway) = Program::start().await;
    let asks = |action: &str| outcome(&format!(r#""status": "PENDING", "nextAction": {action}"#));
    let action = r#"{"redirectUrl": "https://acs.example.com/c?id=1", "clientSecret": "s3cret"}"#;
    program.answers(Answer::json(asks(action)));
    let GatewayAnswer::Outcome(answered) = perform(&gateway, purchase(1, "")).await else {
        panic!("it answers");
    };
    let sealed = answered.next_action.unwrap();
    assert!(!sealed.contains("s3cret"), "{sealed}");
    let opened = sealer().open_named(Purpose::NextAction, (id(1), ""), &sealed).unwrap();
    expect![[r#"[["redirectUrl","https://acs.example.com/c?id=1"],["clientSecret","s3cret"]]"#]]
        .assert_eq(&opened);
    let wrong = |action: &str| (action.to_owned(), asks(action));
    let processed = asks(action).replace("PENDING", "PROCESSED");
    let mut shown = String::new();
    for (action, said) in [
        wrong("{}"),
        wrong(r#"{"redirectUrl": "javascript:alert(1)"}"#),
        wrong(r#"{"redirectUrl": "/only/a/path"}"#),
        wrong(r#"{"clientSecret": ""}"#),
        ("beside PROCESSED".to_owned(), processed),
    ] {
        program.answers(Answer::json(said));
        shown += &format!("{action}: {}\n", answer(&perform(&gateway, purchase(1, "")).await));
    }
    expect![[r#"
        {}: failed: nextAction: has neither redirectUrl nor clientSecret
        {"redirectUrl": "javascript:alert(1)"}: failed: nextAction.redirectUrl: is no URL of http or https
        {"redirectUrl": "/only/a/path"}: failed: nextAction.redirectUrl: is no URL of http or https
        {"clientSecret": ""}: failed: nextAction.clientSecret: has to have 1 to 2048 printable bytes
        beside PROCESSED: failed: nextAction: stands beside another status than PENDING
    "#]].assert_eq(&shown);
    let keyless = HttpGateway::new(Options {
        sealer: None,
        ..options(Base::parse(&program.url(), Reach::PublicAndPrivate).unwrap())
    });
    program.answers(Answer::json(asks(action)));
    expect!["failed: nextAction: there is no key to encrypt it with (flags.key_file)"]
        .assert_eq(&answer(&perform(&keyless, purchase(1, "")).await));
}

#[tokio::test]
async fn a_program_has_a_page_or_says_why_not() {
    let (program, gateway) = Program::start().await;
    let asked = || FormRequest {
        tenant: TenantNo(1),
        request: id(7),
        account: AccountId::new(id(1)),
        fields: vec![("successUrl".to_owned(), "https://shop.example.com".to_owned())],
    };
    program.answers(Answer::json(
        r#"{"url": "https://pay.example.com/7", "fields": [{"key": "session", "value": "7"}]}"#,
    ));
    let made = gateway.form(asked()).await.unwrap();
    assert_eq!(made.url, "https://pay.example.com/7");
    assert_eq!(made.fields, [("session".to_owned(), "7".to_owned())]);
    let seen = program.take_seen();
    assert_eq!((seen[0].0.as_str(), seen[0].2.as_str()), ("/faregate/form", FORM));
    let mut shown = String::new();
    for answer in [
        Answer::json(r#"{"refused": "successUrl: is not ours"}"#),
        Answer::json(r#"{"refused": "no", "url": "https://pay.example.com/7"}"#),
        Answer::json("{}"),
        Answer::json(r#"{"url": "javascript:alert(1)"}"#),
        Answer { status: Some(404), ..Answer::json("") },
        Answer { status: Some(500), ..Answer::json("") },
        Answer { signature: Some(String::new()), ..Answer::json("{}") },
    ] {
        let said = format!("{} {}", answer.status.unwrap_or(200), answer.body);
        program.answers(answer);
        shown += &format!("{said}: {:?}\n", gateway.form(asked()).await.unwrap_err());
    }
    expect![[r#"
        200 {"refused": "successUrl: is not ours"}: Invalid("successUrl: is not ours")
        200 {"refused": "no", "url": "https://pay.example.com/7"}: Unavailable("refused: stands beside a url")
        200 {}: Unavailable("url: is missing")
        200 {"url": "javascript:alert(1)"}: Unavailable("url: is no URL of http or https")
        404 : Unsupported
        500 : Unavailable("it answered HTTP 500")
        200 {}: Unavailable("the answer cannot be trusted: webhook-signature does not match")
    "#]].assert_eq(&shown);
}

/// A purchase of 10.50 USD that the program decides about.
pub fn controlled() -> ControlRequest {
    ControlRequest {
        tenant: TenantNo(1),
        request: id(1),
        account: Some(AccountId::new(id(2))),
        payment: None,
        payment_key: Some("order-7".to_owned()),
        transaction_key: None,
        operation: TransactionType::Purchase,
        amount: Some(AmountMinor(1_050)),
        currency: Currency::parse("USD").unwrap(),
        payment_method: Some(PaymentMethodId::new(id(3))),
        properties: vec![("channel".to_owned(), "web".to_owned())],
    }
}

/// A program's decision, in a line.
async fn decided(gateway: &HttpGateway, request: ControlRequest) -> String {
    let deadline = Deadline::within(&Clock::new(false), Duration::from_millis(500));
    match gateway.control(request, deadline).await {
        Ok(ControlDecision::GoesOn { amount, payment_method }) => {
            format!("goes on: {:?} {:?}", amount.map(|it| it.0), payment_method.map(|it| it.uuid()))
        }
        Ok(ControlDecision::Aborted { reason }) => format!("aborted: {reason}"),
        Err(reason) => format!("no decision: {reason}"),
    }
}

/// An answer to the control request.
fn says(fields: &str) -> String {
    format!(r#"{{"requestId": "{}", {fields}}}"#, id(1))
}

/// Answers to a control request, right and wrong ones.
fn decisions() -> Vec<(&'static str, Answer)> {
    let goes_on = says(r#""aborted": false"#);
    let (aborts, lowers) = (r#""aborted": true"#, r#""aborted": false, "amount""#);
    let method = format!(r#""paymentMethodId": "{}""#, id(4));
    let text = |length: usize| format!(r#"{aborts}, "reason": "{}""#, "r".repeat(length));
    vec![
        ("lower", Answer::json(says(&format!(r#"{lowers}: "7", "currency": "USD""#)))),
        ("method", Answer::json(says(&format!(r#""aborted": false, {method}"#)))),
        ("aborted", Answer::json(says(&format!(r#"{aborts}, "reason": "too risky""#)))),
        ("nothing", Answer::json("")),
        ("an empty object", Answer::json("{}")),
        ("no decision", Answer::json(says(r#""amount": "7""#))),
        ("a text for a decision", Answer::json(says(r#""aborted": "no""#))),
        ("another request", Answer::json(goes_on.replace(&id(1).to_string(), &id(2).to_string()))),
        ("more", Answer::json(says(&format!(r#"{lowers}: "10.51""#)))),
        ("zero", Answer::json(says(&format!(r#"{lowers}: "0""#)))),
        ("less than nothing", Answer::json(says(&format!(r#"{lowers}: "-1""#)))),
        ("no number", Answer::json(says(&format!(r#"{lowers}: "x""#)))),
        ("decimals", Answer::json(says(&format!(r#"{lowers}: "1.001""#)))),
        ("another currency", Answer::json(says(&format!(r#"{lowers}: "7", "currency": "EUR""#)))),
        ("no method", Answer::json(says(r#""aborted": false, "paymentMethodId": "card""#))),
        ("aborted without a reason", Answer::json(says(aborts))),
        (
            "aborted with a method",
            Answer::json(says(&format!(r#"{aborts}, "reason": "r", {method}"#))),
        ),
        ("a reason beside", Answer::json(says(r#""aborted": false, "reason": "r""#))),
        ("a long reason", Answer::json(says(&text(2_049)))),
        ("a reason of two lines", Answer::json(says(&format!(r#"{aborts}, "reason": "a\nb""#)))),
        ("html", Answer::json("<html>4111111111111111</html>")),
        ("ten megabytes", Answer::json(" ".repeat(10 << 20))),
        ("error", Answer { status: Some(500), ..Answer::json(&goes_on) }),
        ("redirect", Answer { status: Some(307), ..Answer::json(&goes_on) }),
        ("unsigned", Answer { signature: Some(String::new()), ..Answer::json(&goes_on) }),
        ("old", Answer { timestamp: Some((now_s() - 400).to_string()), ..Answer::json(&goes_on) }),
        ("replayed", Answer { id: Some("msg_other".to_owned()), ..Answer::json(&goes_on) }),
    ]
}

#[tokio::test]
async fn a_program_decides_about_a_call_and_is_believed_as_far_as_it_can_be() {
    let (program, gateway) = Program::start().await;
    assert!(gateway.controls());
    program.answers(Answer::json(says(r#""aborted": false"#)));
    assert_eq!(decided(&gateway, controlled()).await, "goes on: None None");
    let seen = program.take_seen();
    assert_eq!((seen[0].0.as_str(), seen[0].2.as_str()), ("/faregate/control", CONTROL));
    assert!(seen[0].1.contains_key("faregate-deadline"));
    let mut shown = String::new();
    for (name, said) in decisions() {
        program.answers(said);
        shown += &format!("{name}: {}\n", decided(&gateway, controlled()).await);
        assert_eq!(program.take_seen().len(), 1, "{name}: it is asked once");
    }
    expect![[r#"
        lower: goes on: Some(700) None
        method: goes on: None Some(0192aabb-ccdd-7000-8000-000000000004)
        aborted: aborted: too risky
        nothing: no decision: the answer is not as the contract says: line 1, column 0
        an empty object: no decision: the answer is not as the contract says: line 1, column 2
        no decision: no decision: the answer is not as the contract says: line 1, column 68
        a text for a decision: no decision: the answer is not as the contract says: line 1, column 69
        another request: no decision: requestId: is not that of the request
        more: no decision: amount: is not above 0, or more than that of the request
        zero: no decision: amount: is not above 0, or more than that of the request
        less than nothing: no decision: amount: is not above 0, or more than that of the request
        no number: no decision: amount: not a decimal number
        decimals: no decision: amount: more decimals than the currency has (2)
        another currency: no decision: currency: is not that of the request
        no method: no decision: the answer is not as the contract says: line 1, column 97
        aborted without a reason: no decision: reason: is missing
        aborted with a method: no decision: aborted: stands beside what would go on
        a reason beside: no decision: reason: stands beside a call that goes on
        a long reason: no decision: reason: has to have 1 to 2048 printable bytes
        a reason of two lines: no decision: reason: has to have 1 to 2048 printable bytes
        html: no decision: the answer is not as the contract says: line 1, column 1
        ten megabytes: no decision: the answer's body: length limit exceeded
        error: no decision: it answered HTTP 500
        redirect: no decision: it answered HTTP 307
        unsigned: no decision: the answer cannot be trusted: webhook-signature does not match
        old: no decision: the answer cannot be trusted: webhook-timestamp is missing, or more than five minutes off
        replayed: no decision: webhook-id of the answer is not that of the request
    "#]].assert_eq(&shown);
    program.answers(Answer::json(says(r#""aborted": false, "amount": "7""#)));
    let void = ControlRequest { amount: None, ..controlled() };
    expect!["no decision: amount: the request has none"].assert_eq(&decided(&gateway, void).await);
    let (hanging, _) = listen(b"", true).await;
    expect!["no decision: it did not answer in time"]
        .assert_eq(&decided(&gateway_at(&hanging), controlled()).await);
    let closed = decided(&gateway_at("http://127.0.0.1:9"), controlled()).await;
    assert!(closed.starts_with("no decision: "), "{closed}");
}

#[tokio::test]
async fn an_inquiry_says_what_the_gateway_knows() {
    let (program, gateway) = Program::start().await;
    let asked = |said: &str| {
        program.answers(Answer::json(said));
        gateway.inquire(inquiry(1))
    };
    let found = outcome(&format!(r#""outcome": {}"#, outcome(r#""status": "PROCESSED""#)));
    assert_eq!(knowledge(&asked(&found).await), "Processed");
    assert_eq!(knowledge(&asked(&outcome(r#""outcome": null"#)).await), "not found");
    // What is wrong is no "not found", which would free the payment for another charge.
    let other = found.replace(&id(1).to_string(), &id(2).to_string());
    let (no_outcome, of_a_charge) =
        (format!(r#"{{"transactionId": "{}"}}"#, id(1)), outcome(r#""status": "PROCESSED""#));
    for wrong in ["", "{}", "null", r#"{"outcome": null}"#, &other, &no_outcome, &of_a_charge] {
        assert_eq!(knowledge(&asked(wrong).await), "unreachable", "{wrong}");
    }
}

/// A listener that does the same with each connection, and how many there were.
async fn listen(answer: &'static [u8], stays: bool) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut request = [0; 4096];
                drop(stream.read(&mut request).await);
                drop(stream.write_all(answer).await);
                if stays {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    (url, count)
}

#[tokio::test]
async fn a_program_that_does_not_answer_leaves_the_outcome_unknown() {
    let short = || GatewayCall { timeout_us: 200_000, ..purchase(1, "") };
    let cases: [(&str, &'static [u8], bool, &str); 4] = [
        ("hangs", b"", true, "timed out"),
        (
            "hangs in its answer",
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{",
            true,
            "timed out",
        ),
        ("closes", b"", false, "failed: "),
        ("cuts", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", false, "failed: "),
    ];
    for (name, said, stays, expected) in cases {
        let (url, count) = listen(said, stays).await;
        let shown = answer(&perform(&gateway_at(&url), short()).await);
        assert!(shown.starts_with(expected), "{name}: {shown}");
        assert_eq!(count.load(Ordering::Relaxed), 1, "{name}: it is sent once");
    }
}

fn not_sent(answer: GatewayAnswer) -> String {
    match answer {
        GatewayAnswer::NotSent { message, .. } => message,
        other @ (GatewayAnswer::Outcome(_)
        | GatewayAnswer::Failed { .. }
        | GatewayAnswer::Nothing
        | GatewayAnswer::TimedOut) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_not_sent_says_so() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let reason = not_sent(perform(&gateway_at(&url), purchase(1, "")).await);
    assert!(reason.contains("refused"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_charge_waits_for_the_engine_that_reads_its_tenant_and_not_for_ever() {
    let nobody = GatewayCall { tenant: TenantNo(2), ..purchase(1, "") };
    let gateway = gateway_at("http://127.0.0.1:9");
    assert_eq!(not_sent(perform(&gateway, nobody).await), "the server is starting");
}

#[tokio::test]
async fn a_charge_reaches_public_addresses_alone_unless_others_are_allowed() {
    let refused = Base::parse("http://127.0.0.1:8080", Reach::Public).err().unwrap();
    assert_eq!(refused.to_string(), "leads to an address that is not public");
    for wrong in ["", "ftp://example.com", "https://example.com/?a=b", "https://u:p@example.com"] {
        assert!(Base::parse(wrong, Reach::Public).is_err(), "{wrong}");
    }
    // A name is looked up with each connection.
    let (program, _) = Program::start().await;
    let base = Base::parse("http://localhost.localdomain:1", Reach::Public).unwrap();
    let gateway = HttpGateway::new(options(base));
    let reason = not_sent(perform(&gateway, purchase(1, "")).await);
    assert!(reason.starts_with("the host has no address"), "{reason}");
    assert!(program.take_seen().is_empty());
}

#[tokio::test]
async fn transactions_are_listed_page_by_page() {
    let (program, gateway) = Program::start().await;
    let of = (TenantNo(1), id(100));
    let list = async || {
        let mut listed = vec![];
        let since = Some(Timestamp(3_000_000));
        gateway.transactions(of, since, |it| listed.push(it)).await.map(|()| listed)
    };
    let page = |status: &str, amount: &str, next: &str| {
        let ids = r#""paymentId":"0192aabb-ccdd-7000-8000-000000000001","transactionId":"0192aabb-ccdd-7000-8000-000000000002""#;
        let rest = r#""at":"2026-11-29T10:00:00Z","more":1"#;
        format!(
            r#"{{"transactions":[{{{ids},"status":"{status}","amount":{amount},"currency":"USD",{rest}}}],"next":{next}}}"#
        )
    };
    program.answers(Answer::json(page("PROCESSED", r#""10.50""#, "null")));
    let listed = list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].amount, Some(AmountMinor(1_050)));
    assert_eq!(listed[0].transaction, TransactionId::new(id(2)));
    let first = TRANSACTIONS.replace(r#""page-2""#, "null");
    assert_eq!(program.take_seen().remove(0).2, first);
    // A list that goes on from where it was does not end.
    program.answers(Answer::json(page("ERROR", "null", r#""page-2""#)));
    assert_eq!(list().await, Err(failed("next: goes on from where it was")));
    let bodies: Vec<String> = program.take_seen().into_iter().map(|it| it.2).collect();
    assert_eq!(bodies, [first, TRANSACTIONS.to_owned()]);
    for (answer, reason) in [
        (page("PROCESSED", r#""10.505""#, "null"), "amount: "),
        (page("PROCESSED", "null", r#""""#), "next: "),
        (r#"{"transactions":[],"next":"more"}"#.to_owned(), "next: "),
        (r#"{"transactions":[]}"#.to_owned(), "the answer is not as the contract says"),
        (page("PROCESSED", "null", "null").replace("2026-11-29", "yesterday"), "at: "),
    ] {
        program.answers(Answer::json(&answer));
        let Err(ListError::Failed(said)) = list().await else { panic!("{answer}") };
        assert!(said.starts_with(reason), "{said}");
    }
    for status in [404, 501] {
        program.answers(Answer { status: Some(status), ..Answer::default() });
        assert_eq!(list().await, Err(ListError::Unsupported));
    }
    program.answers(Answer { status: Some(500), ..Answer::default() });
    assert_eq!(list().await, Err(failed("it answered HTTP 500")));
}

fn failed(reason: &str) -> ListError {
    ListError::Failed(reason.to_owned())
}

#[test]
fn the_openapi_document_has_the_fields_of_the_messages() {
    let document = include_str!("../../../../docs/reference/http-gateway.openapi.json");
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    let schemas = &document["components"]["schemas"];
    let fields = |schema: &str| {
        let names = schemas[schema]["properties"].as_object().unwrap().keys();
        names.cloned().collect::<std::collections::BTreeSet<_>>()
    };
    let sent = |message: &str| {
        let message: serde_json::Value = serde_json::from_str(message).unwrap();
        message.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(fields("Charge"), sent(CHARGE));
    assert_eq!(fields("Inquiry"), sent(INQUIRY));
    assert_eq!(fields("Form"), sent(FORM));
    assert_eq!(fields("Control"), sent(CONTROL));
    assert_eq!(fields("TransactionList"), sent(TRANSACTIONS));
    for (schema, call) in [
        ("Charge", "charge"),
        ("Inquiry", "inquire"),
        ("Notification", "notification"),
        ("DisputeInquiry", "dispute"),
        ("Form", "form"),
        ("Control", "control"),
        ("TransactionList", "transactions"),
    ] {
        assert_eq!(schemas[schema]["properties"]["call"]["const"], call, "{schema}");
        let required = schemas[schema]["required"].as_array().unwrap();
        assert!(required.contains(&"call".into()), "{schema}");
    }
}
