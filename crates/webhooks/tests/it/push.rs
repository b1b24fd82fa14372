//! Tests of the push follower with an engine, a store and sockets.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::account::CreateAccount;
use domain::account::payment_method::CreatePaymentMethod;
use domain::command::{AccountCommand, PaymentCommand, TenantCommand};
use domain::payment::{Actor, EXTERNAL_PAYMENT, FollowUp, Initiate};
use domain::reply::AccountReply;
use domain::tenant::{CreateTenant, PUSH_CALLBACK, SetTenantValue};
use domain::{
    AccountId, Command, Currency, PaymentId, Reply, Request, Seq, Settings, TenantNo, Timestamp,
};
use engine::ports::{Delivery, Gateway};
use engine::webhooks::Replay;
use engine::{Answer as Answered, Clock, Engine, Options, Parts, Running};
use expect_test::expect;
use gateway::external::External;
use gateway::simulator::{self, Simulator};
use outbound::Reach;
use tempfile::tempdir;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use uuid::Uuid;
use webhooks::{RETRY_DELAYS, Resender, ResentPage};

use crate::TIMEOUT;
use crate::callback_stub::{CallbackStub, StubResponse};

pub struct World {
    engine: Engine,
    running: Running,
    follower: tokio::task::JoinHandle<()>,
    resender: Resender,
    stopped: watch::Sender<bool>,
}

impl World {
    pub fn start(dir: &Path, reach: Reach) -> Self {
        Self::start_with(dir, webhooks::Options::new(reach))
    }

    pub fn start_with(dir: &Path, push_options: webhooks::Options) -> Self {
        let store_options = store::Options::default();
        let store = started(|| store::open_dir(dir, &store_options));
        let queries = store.queries(2).unwrap();
        let simulator = started(|| {
            let options = simulator::Options::new(Clock::new(false));
            Simulator::open(&dir.join("simulator"), options)
        });
        let gateways: BTreeMap<String, Arc<dyn Gateway>> = BTreeMap::from([
            (EXTERNAL_PAYMENT.to_owned(), Arc::new(External) as Arc<dyn Gateway>),
            (simulator::NAME.to_owned(), Arc::new(simulator)),
        ]);
        let settings = Settings {
            gateways: gateways.iter().map(|(name, it)| (name.clone(), it.settings())).collect(),
            ..Settings::without_gateways(Timestamp::DAY_US, 1_000)
        };
        let parts = Parts {
            store,
            queries: Arc::new(queries),
            gateways,
            clock: Clock::new(true),
            settings,
            options: Options { readers: 2, ..Options::default() },
        };
        let (engine, running) = Engine::start(parts).unwrap();
        let stopped = watch::Sender::new(false);
        let (follower, resender) =
            webhooks::start(engine.clone(), push_options, stopped.subscribe());
        Self { engine, running, follower, resender, stopped }
    }

    /// A world with a tenant, and the receiver of its events.
    async fn with_receiver(dir: &Path) -> (Self, CallbackStub, TenantNo) {
        Self::with_receiver_that(dir, StubResponse::Status(200)).await
    }

    /// As [`World::with_receiver`], where the receiver responds so from the first event on.
    async fn with_receiver_that(
        dir: &Path,
        response: StubResponse,
    ) -> (Self, CallbackStub, TenantNo) {
        let world = Self::start(dir, Reach::PublicAndPrivate);
        let receiver = CallbackStub::start().await;
        receiver.respond_with(response);
        let tenant = world.tenant("a", &receiver.url).await;
        (world, receiver, tenant)
    }

    pub async fn stop(self) {
        self.stopped.send_replace(true);
        self.follower.await.unwrap();
        self.running.stop(TIMEOUT).await;
    }

    /// Ends without what a stop writes down.
    async fn crash(self) {
        self.follower.abort();
        drop(self.follower.await);
        self.running.stop(TIMEOUT).await;
    }

    /// Waits until the stored cursor is at the end of the journal.
    async fn cursor_at_the_end(&self) {
        self.until(async |world| {
            let read = world.engine.read(|queries| {
                Ok(queries.followed(webhooks::FOLLOWER)? == queries.journal_head()?)
            });
            read.await.unwrap().then_some(())
        })
        .await;
    }

    async fn submit(&self, tenant: TenantNo, command: Command) -> Reply {
        let actor = Actor::new("admin", "test", Uuid::nil());
        let id = self.engine.mint();
        let request = Request { id, tenant, actor, idempotency: None, command };
        match self.engine.submit(request).await.unwrap() {
            Answered::Replied(reply) => reply,
            other @ (Answered::Refused(_) | Answered::StillRunning | Answered::AnotherRequest) => {
                panic!("{other:?}")
            }
        }
    }

    /// A tenant that has registered a callback.
    pub async fn tenant(&self, key: &str, url: &str) -> TenantNo {
        let create = CreateTenant {
            id: None,
            external_key: None,
            api_key: key.to_owned(),
            secret_hash: String::new(),
        };
        let created =
            self.submit(TenantNo::SYSTEM, Command::Tenant(TenantCommand::Create(create))).await;
        let Reply::TenantCreated(id) = created else { panic!("{created:?}") };
        let tenant = self.engine.read(move |queries| queries.tenant(id)).await.unwrap().unwrap();
        self.register(tenant.no, Some(url)).await;
        tenant.no
    }

    async fn register(&self, tenant: TenantNo, url: Option<&str>) {
        let key = PUSH_CALLBACK.to_owned();
        let set = SetTenantValue::new(key, url.map(str::to_owned));
        self.submit(tenant, Command::Tenant(TenantCommand::SetValue(set))).await;
    }

    /// An account with a default payment method.
    async fn account(&self, tenant: TenantNo, gateway: &str) -> AccountId {
        let create = CreateAccount { currency: Currency::parse("USD"), ..CreateAccount::default() };
        let created =
            self.submit(tenant, Command::Account(AccountCommand::Create(Box::new(create)))).await;
        let Reply::Account(AccountReply::Created(account)) = created else { panic!("{created:?}") };
        let method = CreatePaymentMethod::default_of(account, gateway.to_owned());
        self.submit(tenant, Command::Account(AccountCommand::CreatePaymentMethod(method))).await;
        account
    }

    async fn purchase(
        &self,
        tenant: TenantNo,
        account: AccountId,
        amount: &str,
        property: Option<(&str, &str)>,
    ) -> PaymentId {
        let initiate = Initiate {
            amount: Some(amount.to_owned()),
            properties: property.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect(),
            ..Initiate::of(account)
        };
        let reply = self.submit(tenant, Command::Payment(PaymentCommand::Purchase(initiate))).await;
        let Reply::Payment(payment) = reply else { panic!("{reply:?}") };
        payment.payment
    }

    async fn stored_deliveries(&self) -> Vec<Delivery> {
        let far = Timestamp(i64::MAX);
        self.engine.read(move |queries| queries.deliveries_due(far, None, 1_000)).await.unwrap()
    }

    /// Has all events of a tenant delivered again.
    pub async fn resend(&self, tenant: TenantNo) -> ResentPage {
        let replay = Replay {
            tenant,
            id: Uuid::nil(),
            endpoint: None,
            times: (Timestamp(i64::MIN), Timestamp(i64::MAX)),
            events: vec![],
            account: None,
            created_at: Timestamp(0),
        };
        self.resender.resend(&replay, Seq(0), 1_000).await.unwrap()
    }

    /// Waits until `count` deliveries are postponed.
    pub async fn postponed(&self, count: usize) -> Vec<Delivery> {
        self.until(async |world| {
            let waiting = world.stored_deliveries().await;
            (waiting.len() == count).then_some(waiting)
        })
        .await
    }

    pub async fn until<T>(&self, look: impl AsyncFn(&Self) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = look(self).await {
                return found;
            }
            assert!(started.elapsed() < TIMEOUT, "the condition did not become true in time");
            tokio::task::yield_now().await;
        }
    }

    pub fn forward(&self, by: Duration) {
        let by_us = i64::try_from(by.as_micros()).unwrap();
        let clock = self.engine.clock();
        clock.set(clock.now().plus_us(by_us));
    }

    pub async fn quiet(&self) {
        assert!(self.engine.quiesce(TIMEOUT).await, "the follower did not catch up");
    }
}

/// Retries while a predecessor is still stopping.
fn started<T, E: std::fmt::Display>(mut start: impl FnMut() -> Result<T, E>) -> T {
    let since = Instant::now();
    loop {
        match start() {
            Ok(it) => return it,
            Err(error) => assert!(since.elapsed() < TIMEOUT, "{error}"),
        }
    }
}

fn meta_data(posted: &crate::callback_stub::Posted) -> serde_json::Value {
    serde_json::from_str(posted.json()["metaData"].as_str().unwrap()).unwrap()
}

/// Only those that fail become rows of the store.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_sent_again_arrive_under_their_ids_or_are_postponed() {
    let dir = tempdir().unwrap();
    let (world, mut receiver, tenant) = World::with_receiver(dir.path()).await;
    world.account(tenant, EXTERNAL_PAYMENT).await;
    let id = |posted: &crate::callback_stub::Posted| posted.headers["webhook-id"].clone();
    let first = [receiver.next().await, receiver.next().await, receiver.next().await];
    let page = world.resend(tenant).await;
    let again = [receiver.next().await, receiver.next().await, receiver.next().await];
    let sorted = |ids: [_; 3]| {
        let mut ids = ids.map(|it| id(&it));
        ids.sort();
        ids
    };
    assert_eq!(sorted(first), sorted(again));
    assert!(page.is_last);
    assert_eq!(page.done.await, Ok(3));
    assert_eq!(world.stored_deliveries().await, []);

    receiver.respond_with(StubResponse::Status(500));
    assert_eq!(world.resend(tenant).await.done.await, Ok(3));
    let waiting = world.postponed(3).await;
    assert!(waiting.iter().all(|it| it.attempts == 1), "{waiting:?}");
    world.stop().await;
}

/// Otherwise the try that is under way, where it is the last, would give the event up.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_being_retried_is_queued_anew_when_it_is_sent_again() {
    let dir = tempdir().unwrap();
    let response = StubResponse::Status(500);
    let (world, mut receiver, tenant) = World::with_receiver_that(dir.path(), response).await;
    receiver.next().await;
    world.postponed(1).await;
    receiver.respond_with(StubResponse::Never);
    world.forward(RETRY_DELAYS[0]);
    receiver.next().await;
    assert_eq!(world.resend(tenant).await.done.await, Ok(0));
    let attempts = async |world: &World| world.stored_deliveries().await[0].attempts;
    world.until(async |world| (attempts(world).await == 0).then_some(())).await;
    world.stop().await;
}

/// A replay that has heard nothing of a page sends it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_a_follower_left_is_known_to_be_not_done() {
    let dir = tempdir().unwrap();
    let (world, mut receiver, tenant) = World::with_receiver(dir.path()).await;
    receiver.next().await;
    receiver.respond_with(StubResponse::Never);
    let page = world.resend(tenant).await;
    receiver.next().await;
    world.stop().await;
    assert!(page.done.await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_in_kill_bills_format() {
    let dir = tempdir().unwrap();
    let (world, mut receiver, tenant) = World::with_receiver(dir.path()).await;
    let first = receiver.next().await;
    let header = |name: &str| first.headers.get(name).map(|it| it.to_str().unwrap().to_owned());
    assert_eq!(first.target, "/cb?of=test");
    assert_eq!(header("user-agent").as_deref(), Some("KillBill/1.0"));
    assert_eq!(header("content-type").as_deref(), Some("application/json; charset=UTF-8"));
    assert_eq!(header("content-length"), Some(first.text.len().to_string()));
    assert_eq!(header("host").as_deref(), receiver.url[7..].split('/').next());
    assert_eq!(first.json()["metaData"], r#"{"key":"PUSH_NOTIFICATION_CB"}"#);

    let account = world.account(tenant, simulator::NAME).await;
    let payment = world.purchase(tenant, account, "10", None).await;
    let refund = FollowUp { amount: Some("4".to_owned()), ..FollowUp::of(payment) };
    world.submit(tenant, Command::Payment(PaymentCommand::Refund(refund))).await;
    for (property, amount) in [
        ("ACTION_RETURN_PLUGIN_STATUS_ERROR", "5"),
        ("ACTION_RETURN_PLUGIN_STATUS_PENDING", "5"),
        ("ACTION_THROW_EXCEPTION", "5"),
    ] {
        world.purchase(tenant, account, amount, Some((property, "*"))).await;
    }
    let mut seen = String::new();
    for _ in 0..7 {
        let posted = receiver.next().await;
        assert_eq!(posted.json()["accountId"], account.to_string());
        seen += &posted.event_type();
        if posted.json()["objectType"] == "PAYMENT" {
            let meta = meta_data(&posted);
            seen += &format!(" {} {} {}", meta["amount"], meta["status"], meta["transactionType"]);
        }
        seen += "\n";
    }
    expect![[r#"
        ACCOUNT_CREATION
        ACCOUNT_CHANGE
        PAYMENT_SUCCESS 10 "SUCCESS" "PURCHASE"
        PAYMENT_SUCCESS 4 "SUCCESS" "REFUND"
        PAYMENT_FAILED 0 "PAYMENT_FAILURE" "PURCHASE"
        PAYMENT_SUCCESS 5 "PENDING" "PURCHASE"
        PAYMENT_FAILED 0 "UNKNOWN" "PURCHASE"
    "#]]
    .assert_eq(&seen);
    world.register(tenant, None).await;
    world.account(tenant, EXTERNAL_PAYMENT).await;
    world.quiet().await;
    assert_eq!(receiver.rest(), [""; 0]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_once_and_in_order_per_account() {
    const ACCOUNTS: usize = 40;
    const PAYMENTS: u64 = 25;
    let dir = tempdir().unwrap();
    let (world, mut receiver, tenant) = World::with_receiver(dir.path()).await;
    let world = Arc::new(world);
    assert_eq!(receiver.next().await.event_type(), "TENANT_CONFIG_CHANGE");
    let payers: Vec<_> = (0..ACCOUNTS)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let account = world.account(tenant, EXTERNAL_PAYMENT).await;
                for amount in 1..=PAYMENTS {
                    world.purchase(tenant, account, &amount.to_string(), None).await;
                }
            })
        })
        .collect();
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..ACCOUNTS * (2 + usize::try_from(PAYMENTS).unwrap()) {
        let posted = receiver.next().await;
        let account = posted.json()["accountId"].as_str().unwrap().to_owned();
        let what = match posted.event_type().as_str() {
            "PAYMENT_SUCCESS" => meta_data(&posted)["amount"].to_string(),
            other => other.to_owned(),
        };
        seen.entry(account).or_default().push(what);
    }
    let mut expected = vec!["ACCOUNT_CREATION".to_owned(), "ACCOUNT_CHANGE".to_owned()];
    expected.extend((1..=PAYMENTS).map(|amount| amount.to_string()));
    assert_eq!(seen.len(), ACCOUNTS);
    for (account, events) in seen {
        assert_eq!(events, expected, "{account}");
    }
    for payer in payers {
        payer.await.unwrap();
    }
    world.quiet().await;
    assert_eq!(receiver.rest(), [""; 0]);
    Arc::into_inner(world).unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_is_retried_on_schedule_and_then_dropped() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    let mut receiver = CallbackStub::start().await;
    receiver.respond_with(StubResponse::Status(500));
    let before = world.engine.clock().now();
    let tenant = world.tenant("a", &receiver.url).await;
    assert_eq!(receiver.next().await.event_type(), "TENANT_CONFIG_CHANGE");
    for (attempt, delay) in (1..).zip(RETRY_DELAYS) {
        let waiting = world
            .until(async |world| {
                let waiting = world.postponed(1).await;
                (waiting[0].attempts == attempt).then_some(waiting)
            })
            .await;
        let delay_us = i64::try_from(delay.as_micros()).unwrap();
        assert_eq!(waiting[0].tenant, tenant);
        assert_eq!(waiting[0].error, "the callback answered HTTP 500");
        assert!(waiting[0].due_at > before.plus_us(delay_us));
        assert!(waiting[0].due_at <= world.engine.clock().now().plus_us(delay_us));
        assert_eq!(receiver.rest(), [""; 0]);
        world.forward(delay);
        assert_eq!(receiver.next().await.event_type(), "TENANT_CONFIG_CHANGE");
    }
    world.postponed(0).await;
    world.forward(RETRY_DELAYS[4] * 10);
    world.quiet().await;
    assert_eq!(receiver.rest(), [""; 0]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_does_not_delay_later_events_and_is_retried() {
    let dir = tempdir().unwrap();
    let (world, mut receiver, tenant) = World::with_receiver(dir.path()).await;
    receiver.next().await;
    receiver.respond_with(StubResponse::Status(503));
    let account = world.account(tenant, EXTERNAL_PAYMENT).await;
    world.postponed(2).await;
    assert_eq!(receiver.rest(), ["ACCOUNT_CREATION", "ACCOUNT_CHANGE"]);
    receiver.respond_with(StubResponse::Status(204));
    world.purchase(tenant, account, "1", None).await;
    assert_eq!(receiver.next().await.event_type(), "PAYMENT_SUCCESS");
    world.forward(RETRY_DELAYS[0]);
    let mut late = [receiver.next().await.event_type(), receiver.next().await.event_type()];
    late.sort();
    assert_eq!(late, ["ACCOUNT_CHANGE", "ACCOUNT_CREATION"]);
    world.postponed(0).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_failures_and_not_followed() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    let (mut receiver, mut elsewhere) = (CallbackStub::start().await, CallbackStub::start().await);
    receiver.respond_with(StubResponse::RedirectTo(elsewhere.url.clone()));
    world.tenant("a", &receiver.url).await;
    let waiting = world.postponed(1).await;
    assert_eq!(waiting[0].error, "the callback answered HTTP 302");
    assert_eq!(receiver.rest(), ["TENANT_CONFIG_CHANGE"]);
    assert_eq!(elsewhere.rest(), [""; 0]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_addresses_are_not_connected_to() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::Public);
    let mut receiver = CallbackStub::start().await;
    let port = receiver.url[7..].split(['/', ':']).nth(1).unwrap().to_owned();
    for (number, host) in
        ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"].into_iter().enumerate()
    {
        world.tenant(host, &format!("http://{host}:{port}/cb")).await;
        let waiting = world.postponed(number + 1).await;
        let error = &waiting.iter().max_by_key(|it| it.id.seq).unwrap().error;
        assert_eq!(error, "the host has no address, or none that may be called", "{host}");
    }
    world.tenant("x", "not a url").await;
    let waiting = world.postponed(5).await;
    let error = &waiting.iter().max_by_key(|it| it.id.seq).unwrap().error;
    assert_eq!(error, "the callback's URL is not a URL");
    assert_eq!(receiver.rest(), [""; 0]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_certificates_are_validated() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let mut receiver = CallbackStub::start_tls(TlsAcceptor::from(Arc::new(server))).await;
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let trusting = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();

    let dir = tempdir().unwrap();
    let options = webhooks::Options {
        tls: Arc::new(trusting),
        ..webhooks::Options::new(Reach::PublicAndPrivate)
    };
    let world = World::start_with(dir.path(), options);
    world.tenant("named", &receiver.url.replace("127.0.0.1", "localhost")).await;
    assert_eq!(receiver.next().await.event_type(), "TENANT_CONFIG_CHANGE");
    // The certificate does not have the address.
    world.tenant("by address", &receiver.url).await;
    let error = world.postponed(1).await.remove(0).error;
    assert!(error.starts_with("TLS: invalid peer certificate"), "{error}");
    world.stop().await;

    // The default authorities do not include the certificate.
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    world.tenant("named", &receiver.url.replace("127.0.0.1", "localhost")).await;
    let error = world.postponed(1).await.remove(0).error;
    assert!(error.starts_with("TLS: invalid peer certificate"), "{error}");
    assert_eq!(receiver.rest(), [""; 0]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_or_unreachable_callback_does_not_delay_others() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    let (mut hanging, mut healthy) = (CallbackStub::start().await, CallbackStub::start().await);
    hanging.respond_with(StubResponse::Never);
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let down = format!("http://{}/cb", closed.local_addr().unwrap());
    drop(closed);
    let started = Instant::now();
    let slow = world.tenant("slow", &hanging.url).await;
    let gone = world.tenant("gone", &down).await;
    let fine = world.tenant("fine", &healthy.url).await;
    for _ in 0..20 {
        for tenant in [slow, gone, fine] {
            world.account(tenant, EXTERNAL_PAYMENT).await;
        }
    }
    for _ in 0..41 {
        healthy.next().await;
    }
    // The timeout of a delivery is 15 s.
    assert!(started.elapsed() < Duration::from_secs(14), "{:?}", started.elapsed());
    assert!(!hanging.rest().is_empty());
    // What the one that hangs is sent becomes rows too, which were not tried.
    world
        .until(async |world| {
            let waiting = world.stored_deliveries().await;
            let failed = waiting.iter().filter(|it| it.attempts == 1);
            (failed.filter(|it| it.tenant == gone).count() == 41).then_some(())
        })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_continues_from_the_cursor() {
    let dir = tempdir().unwrap();
    let (world, mut receiver, tenant) = World::with_receiver(dir.path()).await;
    world.account(tenant, EXTERNAL_PAYMENT).await;
    world.quiet().await;
    world.cursor_at_the_end().await;
    assert_eq!(receiver.rest().len(), 3);
    receiver.respond_with(StubResponse::Status(500));
    world.account(tenant, EXTERNAL_PAYMENT).await;
    world.postponed(2).await;
    assert_eq!(receiver.rest().len(), 2);
    // These events are written while no follower runs.
    world.follower.abort();
    world.until(async |world| world.follower.is_finished().then_some(())).await;
    world.account(tenant, EXTERNAL_PAYMENT).await;
    world.crash().await;

    receiver.respond_with(StubResponse::Status(200));
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    world.quiet().await;
    assert_eq!(receiver.rest(), ["ACCOUNT_CREATION", "ACCOUNT_CHANGE"]);
    world.forward(RETRY_DELAYS[0]);
    world.postponed(0).await;
    let mut rest = receiver.rest();
    rest.sort();
    assert_eq!(rest, ["ACCOUNT_CHANGE", "ACCOUNT_CREATION"]);
    world.stop().await;
}

/// Twenty accounts of a tenant whose endpoint hangs and of one whose endpoint answers: 41 events for each.
/// Returns both endpoints once the second has its events.
async fn beside_one_that_hangs(world: &World) -> (CallbackStub, CallbackStub) {
    let (hanging, mut healthy) = (CallbackStub::start().await, CallbackStub::start().await);
    hanging.respond_with(StubResponse::Never);
    let slow = world.tenant("slow", &hanging.url).await;
    let fine = world.tenant("fine", &healthy.url).await;
    for _ in 0..20 {
        for tenant in [slow, fine] {
            world.account(tenant, EXTERNAL_PAYMENT).await;
        }
    }
    for _ in 0..41 {
        healthy.next().await;
    }
    (hanging, healthy)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_does_not_have_others_get_their_events_again_after_a_crash() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    let (mut hanging, mut healthy) = beside_one_that_hangs(&world).await;
    let begun = Instant::now();
    world.cursor_at_the_end().await;
    // The timeout of a delivery is 15 s.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let rows = world.stored_deliveries().await;
    assert_eq!(rows.len(), 41);
    assert!(rows.iter().all(|it| it.attempts == 0), "{rows:?}");
    world.crash().await;

    hanging.rest();
    hanging.respond_with(StubResponse::Status(200));
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    world.postponed(0).await;
    world.quiet().await;
    assert_eq!(healthy.rest(), [""; 0]);
    assert_eq!(hanging.rest().len(), 41);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_when_the_follower_stops_becomes_rows_and_nothing_is_repeated() {
    let dir = tempdir().unwrap();
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    let (mut hanging, mut healthy) = beside_one_that_hangs(&world).await;
    world.stop().await;

    hanging.rest();
    let world = World::start(dir.path(), Reach::PublicAndPrivate);
    world.cursor_at_the_end().await;
    hanging.respond_with(StubResponse::Status(200));
    let rows = world.stored_deliveries().await;
    assert_eq!(rows.len(), 41);
    assert_eq!(healthy.rest(), [""; 0]);
    world.stop().await;
}

/// They go on in memory meanwhile, in their order.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_became_rows_are_delivered_once_and_in_order() {
    let dir = tempdir().unwrap();
    let (world, mut receiver, tenant) = World::with_receiver(dir.path()).await;
    receiver.next().await;
    let held = receiver.hold();
    let account = world.account(tenant, EXTERNAL_PAYMENT).await;
    for amount in 1..=5 {
        world.purchase(tenant, account, &amount.to_string(), None).await;
    }
    world.postponed(7).await;
    drop(held);
    let mut seen = vec![];
    for _ in 0..7 {
        let posted = receiver.next().await;
        seen.push(match posted.event_type().as_str() {
            "PAYMENT_SUCCESS" => meta_data(&posted)["amount"].to_string(),
            other => other.to_owned(),
        });
    }
    assert_eq!(seen, ["ACCOUNT_CREATION", "ACCOUNT_CHANGE", "1", "2", "3", "4", "5"]);
    world.postponed(0).await;
    world.quiet().await;
    assert_eq!(receiver.rest(), [""; 0]);
    world.stop().await;
}
