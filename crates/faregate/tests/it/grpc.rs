//! The gRPC API: a client generated from the protos against the real binary.

mod entitlements;
mod flags;
mod limits;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use grpc::api::account_service_client::AccountServiceClient;
use grpc::api::balance_service_client::BalanceServiceClient;
use grpc::api::entitlement_service_client::EntitlementServiceClient;
use grpc::api::flag_service_client::FlagServiceClient;
use grpc::api::payment_service_client::PaymentServiceClient;
use grpc::api::{
    AccountServiceCreateRequest, AccountServiceGetByKeyRequest, AccountServiceGetRequest,
    AddPaymentMethodRequest, AuthorizeRequest, CaptureRequest, GatewayFault, GetBalanceRequest,
    Money, Outcome, PayRequest, PaymentServiceGetByKeyRequest, PaymentServiceGetRequest,
    PaymentServiceListRequest, Person, Property, RefundRequest, TransactionStatus, VoidRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use crate::process::{Launch, Server, TIMEOUT};

const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";
const SIMULATOR: &str = "faregate-simulator";

/// A client with credentials.
#[derive(Clone)]
pub struct Caller {
    channel: Channel,
    metadata: Vec<(&'static str, String)>,
}

impl Caller {
    /// The administrator, of the tenant `bob`/`lazar`, which has to be there.
    pub fn of(server: &Server) -> Self {
        let url = server.grpc_url.clone().unwrap();
        Self::over(Channel::from_shared(url).unwrap().connect_lazy())
    }

    pub fn over(channel: Channel) -> Self {
        let basic = format!("Basic {}", BASE64.encode("admin:password"));
        let metadata = vec![
            ("authorization", basic),
            ("x-faregate-apikey", "bob".to_owned()),
            ("x-faregate-apisecret", "lazar".to_owned()),
        ];
        Self { channel, metadata }
    }

    /// With this metadata in place of one of the same name; empty: without it.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.metadata.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            self.metadata.push((name, value.to_owned()));
        }
        self
    }

    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (name, value) in &self.metadata {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        request
    }

    pub fn payments(&self) -> PaymentServiceClient<Channel> {
        PaymentServiceClient::new(self.channel.clone())
    }

    pub fn accounts(&self) -> AccountServiceClient<Channel> {
        AccountServiceClient::new(self.channel.clone())
    }

    pub fn entitlements(&self) -> EntitlementServiceClient<Channel> {
        EntitlementServiceClient::new(self.channel.clone())
    }

    pub fn flags(&self) -> FlagServiceClient<Channel> {
        FlagServiceClient::new(self.channel.clone())
    }

    /// An account that pays with this gateway.
    pub async fn account(&self, gateway: &str) -> String {
        let create = AccountServiceCreateRequest {
            currency_code: "USD".to_owned(),
            ..AccountServiceCreateRequest::default()
        };
        let made = self.accounts().create(self.request(create)).await.unwrap();
        let account_id = made.into_inner().account_id;
        let method = AddPaymentMethodRequest {
            account_id: account_id.clone(),
            gateway: gateway.to_owned(),
            is_default: true,
            ..AddPaymentMethodRequest::default()
        };
        self.accounts().add_payment_method(self.request(method)).await.unwrap();
        account_id
    }

    pub async fn pay(&self, message: PayRequest) -> Result<Outcome, Status> {
        let answer = self.payments().pay(self.request(message)).await?;
        Ok(answer.into_inner().outcome.expect("an outcome"))
    }

    async fn balance(&self, account_id: &str) -> Result<Vec<(String, i64, i64, i64)>, Status> {
        let message = GetBalanceRequest { account_id: account_id.to_owned() };
        let mut client = BalanceServiceClient::new(self.channel.clone());
        let answer = client.get_balance(self.request(message)).await?.into_inner();
        assert_eq!(answer.account_id, account_id);
        let lines = answer.balances.into_iter().map(|it| {
            let (debit, credit) = (it.debit_minor_units, it.credit_minor_units);
            (it.currency_code, debit, credit, it.balance_minor_units)
        });
        Ok(lines.collect())
    }
}

pub fn usd(minor_units: i64) -> Option<Money> {
    Some(Money { minor_units, currency_code: "USD".to_owned() })
}

/// A payment of ten dollars.
pub fn ten(account_id: &str) -> PayRequest {
    PayRequest { account_id: account_id.to_owned(), amount: usd(1000), ..PayRequest::default() }
}

/// The code, the reason and the fields that are wrong.
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String, Vec<String>) {
    let status = answer.unwrap_err();
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no details: {status:?}"));
    assert_eq!(info.domain, "faregate");
    let violations = details.bad_request().map(|it| it.field_violations.clone());
    let fields = violations.unwrap_or_default().into_iter().map(|it| it.field).collect();
    (status.code(), info.reason.clone(), fields)
}

/// The result of a future, within a test's timeout.
pub async fn soon<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, waiting).await.expect("it happens")
}

fn start() -> Server {
    let server = Server::start_with(Launch::usual().grpc());
    server.tenant();
    server
}

#[tokio::test]
async fn payments_from_the_first_to_the_balance() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(EXTERNAL).await;
    let paid = caller.pay(ten(&account)).await.unwrap();
    assert_eq!(paid.status(), TransactionStatus::Success);

    let reserve = AuthorizeRequest {
        account_id: account.clone(),
        amount: usd(5000),
        payment_key: "order-1".to_owned(),
        ..AuthorizeRequest::default()
    };
    let reserved = caller.payments().authorize(caller.request(reserve)).await.unwrap();
    let payment_id = reserved.into_inner().outcome.unwrap().payment_id;
    let take = CaptureRequest {
        payment_id: payment_id.clone(),
        amount: usd(2000),
        ..CaptureRequest::default()
    };
    let taken = caller.payments().capture(caller.request(take)).await.unwrap().into_inner();
    assert_eq!(taken.outcome.unwrap().status(), TransactionStatus::Success);
    let back = RefundRequest {
        payment_id: payment_id.clone(),
        amount: usd(500),
        ..RefundRequest::default()
    };
    caller.payments().refund(caller.request(back)).await.unwrap();

    let by_key = PaymentServiceGetByKeyRequest { payment_key: "order-1".to_owned() };
    let read = caller.payments().get_by_key(caller.request(by_key)).await.unwrap().into_inner();
    let payment = read.payment.unwrap();
    let amounts = payment.amounts.unwrap();
    let sums = (
        amounts.authorized_minor_units,
        amounts.captured_minor_units,
        amounts.refunded_minor_units,
    );
    assert_eq!((payment.id, payment.transactions.len(), sums), (payment_id, 3, (5000, 2000, 500)));
    let took = &payment.transactions[1];
    assert_eq!((&took.amount, &took.processed_amount), (&usd(2000), &usd(2000)));

    let balance = caller.balance(&account).await.unwrap();
    assert_eq!(balance, [("USD".to_owned(), 500, 3000, -2500)]);
    // The HTTP API shows the same.
    let path = format!("/v1/ledger/accounts?account={account}");
    let shown = server.client().tenant("bob", "lazar").get(&path).json();
    assert_eq!(shown["accounts"][0]["balance"], "-25.00");
}

#[tokio::test]
async fn balances_asked_for_at_once_are_each_their_own() {
    let server = start();
    let caller = Caller::of(&server);
    let mut requested = vec![];
    for payments in 0..4_usize {
        let account = caller.account(EXTERNAL).await;
        for _ in 0..payments {
            caller.pay(ten(&account)).await.unwrap();
        }
        requested.extend(std::iter::repeat_n((payments, account), 25));
    }
    requested.push((99, uuid::Uuid::now_v7().to_string()));
    requested.extend_from_within(..);
    let answers = requested.iter().map(|(_, account)| caller.balance(account));
    let answers = futures_util::future::join_all(answers).await;
    for ((payments, _), answer) in requested.iter().zip(answers) {
        match (payments, answer) {
            (99, answer) => assert_eq!(refused(answer).0, Code::NotFound),
            (0, answer) => assert_eq!(answer.unwrap(), []),
            (payments, answer) => {
                let paid = i64::try_from(*payments).unwrap() * 1000;
                assert_eq!(answer.unwrap(), [("USD".to_owned(), 0, paid, -paid)]);
            }
        }
    }
}

#[tokio::test]
async fn void_releases_the_authorization() {
    let server = start();
    let caller = Caller::of(&server);
    let account_id = caller.account(EXTERNAL).await;
    let reserve = AuthorizeRequest { account_id, amount: usd(5), ..AuthorizeRequest::default() };
    let reserved = caller.payments().authorize(caller.request(reserve)).await.unwrap();
    let payment_id = reserved.into_inner().outcome.unwrap().payment_id;
    let release = VoidRequest { payment_id: payment_id.clone(), ..VoidRequest::default() };
    caller.payments().void(caller.request(release.clone())).await.unwrap();
    let get = PaymentServiceGetRequest { payment_id };
    let read = caller.payments().get(caller.request(get)).await.unwrap().into_inner();
    let payment = read.payment.unwrap();
    assert_eq!(payment.transactions[1].amount, None);
    assert_eq!(payment.amounts.unwrap().authorized_minor_units, 0);
    let again = caller.payments().void(caller.request(release)).await;
    let (code, reason, _) = refused(again);
    assert_eq!((code, reason.as_str()), (Code::FailedPrecondition, "INVALID_TRANSITION"));
}

#[tokio::test]
async fn declined_and_pending_outcomes_are_no_errors() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(SIMULATOR).await;
    let pay = async |wishes: &[(&str, &str)]| {
        let wish = |(key, value): &(&str, &str)| Property {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        let properties = wishes.iter().map(wish).collect();
        caller.pay(PayRequest { properties, ..ten(&account) }).await.unwrap()
    };
    let declined =
        pay(&[("outcome", "ERROR"), ("errorCode", "51"), ("errorMessage", "no money")]).await;
    assert_eq!(declined.status(), TransactionStatus::PaymentFailure);
    assert_eq!(declined.gateway_error_code, "51");
    assert_eq!(declined.gateway_error_message, "no money");
    let not_taken = pay(&[("outcome", "CANCELED")]).await;
    assert_eq!(not_taken.status(), TransactionStatus::PluginFailure);
    let pending = pay(&[("outcome", "PENDING")]).await;
    assert_eq!(pending.status(), TransactionStatus::Pending);
    for (outcome, fault) in
        [("EXCEPTION", GatewayFault::Failed), ("NULL", GatewayFault::AnsweredNothing)]
    {
        let unknown = pay(&[("outcome", outcome)]).await;
        assert_eq!(unknown.status(), TransactionStatus::Unknown, "{outcome}");
        assert_eq!(unknown.gateway_fault(), fault);
    }
}

#[tokio::test]
async fn a_repeated_call_is_answered_again_and_another_one_refused() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(EXTERNAL).await;
    let keyed = caller.clone().with("idempotency-key", "once");
    let first = keyed.pay(ten(&account)).await.unwrap();
    assert_eq!(keyed.pay(ten(&account)).await.unwrap(), first);
    assert_eq!(caller.balance(&account).await.unwrap()[0].2, 1000);
    let other = PayRequest { amount: usd(1001), ..ten(&account) };
    let (code, reason, _) = refused(keyed.pay(other).await);
    assert_eq!((code, reason.as_str()), (Code::FailedPrecondition, "IDEMPOTENCY_KEY_REUSED"));
    // The same message to another method is another call.
    let reserve = AuthorizeRequest {
        account_id: account.clone(),
        amount: usd(1000),
        ..AuthorizeRequest::default()
    };
    let reserved = keyed.payments().authorize(keyed.request(reserve)).await;
    assert_eq!(refused(reserved).1, "IDEMPOTENCY_KEY_REUSED");
    let empty = caller.clone().with("idempotency-key", "\"\"").pay(ten(&account)).await;
    assert_eq!(refused(empty).0, Code::InvalidArgument);
    assert_eq!(caller.balance(&account).await.unwrap()[0].2, 1000);
}

#[tokio::test]
async fn call_concurrent_with_its_duplicate_is_aborted() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(SIMULATOR).await;
    let delay = Property { key: "delayMs".to_owned(), value: "500000".to_owned() };
    let slow = PayRequest { properties: vec![delay], ..ten(&account) };
    let keyed = caller.with("idempotency-key", "slow");
    let twin = {
        let (keyed, slow) = (keyed.clone(), slow.clone());
        tokio::spawn(async move { keyed.pay(slow).await })
    };
    // Until the first has arrived, the second would be the first: it is cancelled and repeated.
    let refusal = soon(async {
        loop {
            let mut request = keyed.request(slow.clone());
            request.set_timeout(Duration::from_millis(200));
            let status = keyed.payments().pay(request).await.unwrap_err();
            if !matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled) {
                break status;
            }
        }
    })
    .await;
    assert_eq!(refusal.code(), Code::Aborted);
    assert!(refusal.get_error_details().retry_info().is_some());
    twin.abort();
}

#[tokio::test]
async fn pages_of_payments() {
    let server = start();
    let caller = Caller::of(&server);
    let (account, other) = (caller.account(EXTERNAL).await, caller.account(EXTERNAL).await);
    let mut made = vec![];
    for minor_units in 1..=5 {
        let message = PayRequest { amount: usd(minor_units), ..ten(&account) };
        made.push(caller.pay(message).await.unwrap().payment_id);
    }
    // In the order of their ids, which within a millisecond is any.
    made.sort();
    caller.pay(ten(&other)).await.unwrap();
    let list = async |account_id: &str, page_size: i32, page_token: &str| {
        let (account_id, page_token) = (account_id.to_owned(), page_token.to_owned());
        let message = PaymentServiceListRequest { account_id, page_size, page_token };
        let answer = caller.payments().list(caller.request(message)).await?.into_inner();
        let ids: Vec<_> = answer.payments.into_iter().map(|it| it.id).collect();
        Ok((ids, answer.next_page_token))
    };
    let (first, token) = list(&account, 3, "").await.unwrap();
    let (second, end) = list(&account, 3, &token).await.unwrap();
    assert_eq!((first.len(), second.len(), end.as_str()), (3, 2, ""));
    assert_eq!([first, second].concat(), made);
    let (exactly, end) = list(&account, 5, "").await.unwrap();
    assert_eq!((exactly.len(), end.as_str()), (5, ""));
    assert_eq!(list("", 0, "").await.unwrap().0.len(), 6);
    let wrong: [Result<_, Status>; 3] =
        [list(&other, 3, &token).await, list("", 0, "x").await, list("", 1001, "").await];
    let wrong = wrong.map(|it| refused(it).2.concat());
    assert_eq!(wrong, ["page_token", "page_token", "page_size"]);
    let unknown_id = "0192aabb-ccdd-7123-9456-789abcdef012";
    assert_eq!(refused(list(unknown_id, 3, "").await).1, "ACCOUNT_NOT_FOUND");
}

#[tokio::test]
async fn accounts_by_id_and_by_key() {
    let server = start();
    let caller = Caller::of(&server);
    let person = Person { name: "Ada".to_owned(), ..Person::default() };
    let create = AccountServiceCreateRequest {
        account_key: "ada".to_owned(),
        currency_code: "EUR".to_owned(),
        person: Some(person.clone()),
    };
    let made = caller.accounts().create(caller.request(create.clone())).await.unwrap();
    let account_id = made.into_inner().account_id;
    let get = AccountServiceGetRequest { account_id: account_id.clone() };
    let by_id = caller.accounts().get(caller.request(get)).await.unwrap().into_inner();
    let get = AccountServiceGetByKeyRequest { account_key: "ada".to_owned() };
    let by_key = caller.accounts().get_by_key(caller.request(get)).await.unwrap().into_inner();
    assert_eq!(by_id.account, by_key.account);
    let account = by_id.account.unwrap();
    assert_eq!((account.id, account.person), (account_id.clone(), Some(person)));
    let again = caller.accounts().create(caller.request(create)).await;
    assert_eq!(refused(again).0, Code::AlreadyExists);
    assert!(caller.balance(&account_id).await.unwrap().is_empty());
    let unknown_id = "0192aabb-ccdd-7123-9456-789abcdef012";
    assert_eq!(refused(caller.balance(unknown_id).await).1, "ACCOUNT_NOT_FOUND");
    let get = PaymentServiceGetRequest { payment_id: unknown_id.to_owned() };
    let absent = caller.payments().get(caller.request(get)).await;
    assert_eq!(refused(absent).1, "PAYMENT_NOT_FOUND");
}

#[tokio::test]
async fn bad_fields_are_named() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(EXTERNAL).await;
    let check = async |message: PayRequest, field: &str| {
        let (code, _, fields) = refused(caller.pay(message).await);
        assert_eq!((code, fields), (Code::InvalidArgument, vec![field.to_owned()]));
    };
    let money =
        |minor_units, code: &str| Some(Money { minor_units, currency_code: code.to_owned() });
    check(PayRequest { amount: None, ..ten(&account) }, "amount").await;
    check(PayRequest { amount: usd(0), ..ten(&account) }, "amount.minor_units").await;
    check(PayRequest { amount: usd(-1), ..ten(&account) }, "amount.minor_units").await;
    check(PayRequest { amount: money(1, "XXL"), ..ten(&account) }, "amount.currency_code").await;
    check(PayRequest { amount: money(1, ""), ..ten(&account) }, "amount.currency_code").await;
    check(ten(""), "account_id").await;
    check(ten("1"), "account_id").await;
    let long = "k".repeat(256);
    check(PayRequest { payment_key: long.clone(), ..ten(&account) }, "payment_key").await;
    check(PayRequest { transaction_key: long, ..ten(&account) }, "transaction_key").await;
    let method = "x".to_owned();
    check(PayRequest { payment_method_id: method, ..ten(&account) }, "payment_method_id").await;
    let card = Property { key: "pan".to_owned(), value: "4111111111111111".to_owned() };
    check(PayRequest { properties: vec![card], ..ten(&account) }, "properties").await;
    let create = AccountServiceCreateRequest::default();
    let poor = caller.accounts().create(caller.request(create)).await.unwrap().into_inner();
    check(ten(&poor.account_id), "payment_method_id").await;
    let gateway = AddPaymentMethodRequest {
        account_id: poor.account_id,
        gateway: "nope".to_owned(),
        ..AddPaymentMethodRequest::default()
    };
    let unknown = caller.accounts().add_payment_method(caller.request(gateway)).await;
    assert_eq!(refused(unknown).2, ["gateway"]);
    assert!(caller.balance(&account).await.unwrap().is_empty());
}

#[tokio::test]
async fn calls_without_permission_are_refused() {
    let server = start();
    let caller = Caller::of(&server);
    let account = caller.account(EXTERNAL).await;
    let check = async |name: &'static str, value: &str, (code, reason): (Code, &str)| {
        let answer = caller.clone().with(name, value).pay(ten(&account)).await;
        let (found, why, _) = refused(answer);
        assert_eq!((found, why.as_str()), (code, reason), "{name}");
    };
    let out = Code::Unauthenticated;
    check("authorization", "", (out, "CREDENTIALS_MISSING")).await;
    let wrong = format!("Basic {}", BASE64.encode("admin:wrong"));
    check("authorization", &wrong, (out, "CREDENTIALS_WRONG")).await;
    check("x-faregate-apikey", "", (out, "TENANT_MISSING")).await;
    check("x-faregate-apikey", "alice", (out, "TENANT_UNKNOWN")).await;
    check("x-faregate-apisecret", "wrong", (out, "TENANT_UNKNOWN")).await;

    let admin = server.client();
    let role = serde_json::json!({ "role": "reader", "permissions": ["account:create"] });
    assert_eq!(admin.post("/1.0/kb/security/roles", &role).status, 201);
    let user =
        serde_json::json!({ "username": "eve", "password": "password", "roles": ["reader"] });
    assert_eq!(admin.post("/1.0/kb/security/users", &user).status, 201);
    let eve = format!("Basic {}", BASE64.encode("eve:password"));
    check("authorization", &eve, (Code::PermissionDenied, "PERMISSION_MISSING")).await;
    assert!(caller.balance(&account).await.unwrap().is_empty());
    // Kill Bill's names for the tenant's metadata do as well.
    let named = Caller::of(&server)
        .with("x-faregate-apikey", "")
        .with("x-faregate-apisecret", "")
        .with("x-killbill-apikey", "bob")
        .with("x-killbill-apisecret", "lazar");
    named.pay(ten(&account)).await.unwrap();
}
