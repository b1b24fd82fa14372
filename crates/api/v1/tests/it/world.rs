//! The API with one tenant, on a store in a temporary directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use domain::access::{CreateUser, PutRole};
use domain::command::{AccessCommand, CustomerCommand, TenantCommand};
use domain::customer::{Customer, OpenSession, TokenPurpose, UpdateCustomer};
use domain::payment::Actor;
use domain::tenant::CreateTenant;
use domain::{Command, Reply, Request, Settings, TenantNo};
use engine::access::Access;
use engine::{Answer, Clock, Engine, Options, Parts, Running};
use http::{HeaderMap, Method, StatusCode};
use secrets::RootKey;
use serde_json::Value;
use sign_up::Tenants;
use sign_up::operations::{CallbackCheck, Deliver, OwnsAccount, Worker};
use sign_up::passwords::{self, Cost, Hasher};
use sign_up::service::{self, SignUp, token_purpose};
use tokio::sync::oneshot;
use tower::ServiceExt as _;
use uuid::Uuid;

/// How long a test waits for an expected event.
pub const TIMEOUT: Duration = Duration::from_secs(20);

pub const PASSWORD: &str = "Correct-Horse-7";

/// The operator with all permissions, and the one with none.
pub const ADMIN: &str = "Basic YWRtaW46cGFzc3dvcmQ=";
pub const CLERK: &str = "Basic Y2xlcms6cGFzc3dvcmQ=";

/// The credentials of the tenant.
pub const TENANT: [(&str, &str); 2] =
    [("x-faregate-apikey", "bob"), ("x-faregate-apisecret", "lazar")];

pub struct World {
    pub sign_up: SignUp,
    pub engine: Engine,
    pub router: Router,
    pub no: TenantNo,
    running: Running,
    worker: Option<(oneshot::Sender<()>, tokio::task::JoinHandle<()>)>,
}

/// A response, with its body as JSON or null.
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Response {
    /// The status, and the type of the problem where it is one.
    pub fn outcome(&self) -> (u16, &str) {
        let kind = self.body["type"].as_str().unwrap_or_default();
        (self.status.as_u16(), kind.trim_start_matches("urn:faregate:problem:"))
    }

    pub fn text(&self, field: &str) -> String {
        self.body[field]
            .as_str()
            .unwrap_or_else(|| panic!("no {field} in {}", self.body))
            .to_owned()
    }
}

impl World {
    /// Serves the store in a directory; a new one gets a tenant and operators.
    pub async fn start(dir: &Path) -> Self {
        Self::start_with(dir, sign_up::limits::Settings::OFF).await
    }

    /// As [`World::start`], with limits.
    pub async fn start_with(dir: &Path, limits: sign_up::limits::Settings) -> Self {
        let store = store::open_dir(dir, &store::Options::default()).unwrap();
        let queries = Arc::new(store.queries(4).unwrap());
        let settings = Settings {
            gateways: BTreeMap::new(),
            unknown_delays_us: vec![],
            pending_delays_us: vec![],
            reply_keep_us: domain::Timestamp::DAY_US,
            transactions_per_payment_max: 1_000,
            routing: domain::context::RoutingSettings::DEFAULT,
        };
        let options = Options { readers: 4, ..Options::default() };
        let (gateways, clock) = (BTreeMap::new(), Clock::new(true));
        let parts = Parts { store, queries, gateways, clock, settings, options };
        let (engine, running) = Engine::start(parts).unwrap();
        let access = Access::new(engine.clone(), Duration::from_secs(60), 2);
        first_start(&engine, &access).await;
        let options = passwords::Options {
            threads: 1,
            cost: Cost::new(8, 1, 1).unwrap(),
            ..passwords::Options::default()
        };
        let hasher = Hasher::new(options).unwrap();
        let settings = service::Settings { limits, ..sign_up_settings() };
        let sign_up = SignUp::new(engine.clone(), hasher, &RootKey::new([7; 32]), settings);
        let tenants = Tenants::new(access, engine.clone(), "main");
        let check: CallbackCheck = Arc::new(|url| match url.starts_with("https://") {
            true => Ok(()),
            false => Err("must begin with https://".to_owned()),
        });
        let router = v1::sign_up::router(sign_up.clone(), tenants, check, None);
        let found = engine.read(|queries| queries.tenant_named("main")).await.unwrap();
        Self { sign_up, engine, router, no: found.unwrap().no, running, worker: None }
    }

    /// Starts a worker of all partitions.
    pub fn work(&mut self, deliver: Option<Deliver>) {
        self.work_on(Arc::new(|_, _| true), deliver);
    }

    /// Starts a worker that owns these accounts.
    pub fn work_on(&mut self, owns_account: OwnsAccount, deliver: Option<Deliver>) {
        let (sign_up, bookkeeper) = (self.sign_up.clone(), self.engine.clone());
        let representation = v1::sign_up::REPRESENTATION;
        let worker = Worker { sign_up, bookkeeper, owns_account, deliver, representation };
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(sign_up::operations::run(worker, async { drop(stopped.await) }));
        self.worker = Some((stop, running));
    }

    pub async fn stop(self) {
        if let Some((stop, worker)) = self.worker {
            drop(stop);
            worker.await.unwrap();
        }
        self.running.stop(TIMEOUT).await;
    }

    pub async fn call(
        &self,
        (method, path): (Method, &str),
        headers: &[(&str, &str)],
        body: Value,
    ) -> Response {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.body(Body::from(body)).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Response { status: head.status, headers: head.headers, body }
    }

    pub async fn post(&self, path: &str, body: Value) -> Response {
        self.call((Method::POST, path), &[], body).await
    }

    /// As a customer with this access token.
    pub async fn as_customer(&self, token: &str, what: (Method, &str), body: Value) -> Response {
        let bearer = format!("Bearer {token}");
        self.call(what, &[("authorization", &bearer)], body).await
    }

    pub async fn customer(&self, email: &str) -> Option<Customer> {
        let (no, email) = (self.no, email.to_owned());
        self.engine.read(move |queries| queries.customer_by_email(no, &email)).await.unwrap()
    }

    /// Replaces the hash of a customer's password.
    pub async fn store_hash(&self, email: &str, hash: &str) {
        let customer = self.customer(email).await.unwrap();
        let command = Command::Customer(CustomerCommand::OpenSession(OpenSession {
            customer: customer.reference(),
            password_version: customer.password_version,
            rehashed: Some(hash.to_owned()),
            code: None,
            lifetime_us: 1,
            refresh_us: 1,
            network: 0,
        }));
        submit_for(&self.engine, self.no, command).await;
    }

    /// Stores preferences of a customer without validation.
    pub async fn store_preferences(&self, email: &str, preferences: &str) {
        let customer = self.customer(email).await.unwrap().reference();
        let preferences = Some(preferences.to_owned());
        let update = UpdateCustomer { preferences, ..UpdateCustomer::of(customer) };
        let command = Command::Customer(CustomerCommand::Update(Box::new(update)));
        submit_for(&self.engine, self.no, command).await;
    }

    /// The token that was mailed.
    pub async fn mailed(&self, email: &str, purpose: TokenPurpose) -> String {
        let customer = self.customer(email).await.unwrap();
        let id = customer.issued(purpose).unwrap().id.uuid();
        let tokens = self.sign_up.tokens();
        tokens.issue(token_purpose(purpose), self.no, customer.id.uuid(), id)
    }

    /// Registers a customer, verifies their address and logs them in.
    pub async fn logged_in(&self, email: &str) -> Response {
        self.post("/v1/registrations", form(email)).await;
        let token = self.mailed(email, TokenPurpose::Verification).await;
        let verified = self.post("/v1/registrations/verify", serde_json::json!({"token": token}));
        assert_eq!(verified.await.status, 204);
        self.post("/v1/sessions", login(email, PASSWORD)).await
    }
}

pub fn form(email: &str) -> Value {
    serde_json::json!({
        "email": email, "password": PASSWORD, "firstName": "Ada", "lastName": "Lovelace",
        "acceptTerms": true,
    })
}

pub fn login(email: &str, password: &str) -> Value {
    serde_json::json!({"email": email, "password": password})
}

fn sign_up_settings() -> service::Settings {
    let day = Duration::from_secs(86_400);
    service::Settings {
        tenant: "main".to_owned(),
        verify_within: 2 * day,
        reset_within: day,
        session: 7 * day,
        session_remembered: 30 * day,
        refresh: 60 * day,
        refresh_grace: Duration::from_secs(10),
        session_max: 180 * day,
        issuer: "Faregate".to_owned(),
        currency: "USD".to_owned(),
        trust_internal: false,
        erasure_needs_password: true,
        limits: sign_up::limits::Settings::OFF,
    }
}

async fn first_start(engine: &Engine, access: &Access) {
    if engine.read(|queries| queries.tenant_count()).await.unwrap() > 0 {
        return;
    }
    let create = |key: &str, external_key: &str, secret_hash| {
        let (api_key, external_key) = (key.to_owned(), Some(external_key.to_owned()));
        Command::Tenant(TenantCommand::Create(CreateTenant {
            id: None,
            external_key,
            api_key,
            secret_hash,
        }))
    };
    submit(engine, create("bob", "main", access.hash("lazar").await.unwrap())).await;
    // A later tenant with this name as its key does not replace the first one.
    submit(engine, create("main", "other", access.hash("lazar").await.unwrap())).await;
    let permissions = vec!["customer:read".to_owned(), "customer:write".to_owned()];
    let role = PutRole { name: "admins".to_owned(), permissions, create: true };
    submit(engine, Command::Access(AccessCommand::PutRole(role))).await;
    for (name, roles) in [("admin", vec!["admins".to_owned()]), ("clerk", vec![])] {
        let password_hash = access.hash("password").await.unwrap();
        let user = CreateUser { username: name.to_owned(), password_hash, roles };
        submit(engine, Command::Access(AccessCommand::CreateUser(user))).await;
    }
}

async fn submit(engine: &Engine, command: Command) -> Reply {
    submit_for(engine, TenantNo::SYSTEM, command).await
}

async fn submit_for(engine: &Engine, tenant: TenantNo, command: Command) -> Reply {
    let id = engine.mint();
    let actor = Actor {
        user: "test".to_owned(),
        created_by: "test".to_owned(),
        reason: None,
        comments: None,
        token: Uuid::nil(),
    };
    let request = Request { id, tenant, actor, idempotency: None, command };
    match engine.submit(request).await.unwrap() {
        Answer::Replied(reply) => reply,
        other @ (Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => {
            panic!("{other:?}")
        }
    }
}
