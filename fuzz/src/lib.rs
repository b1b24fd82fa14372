//! What several targets share: requests as plain text, the sample's flags, and an engine on an empty
//! database.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::access::{CreateUser, PutRole};
use domain::command::{AccessCommand, TenantCommand};
use domain::payment::Actor;
use domain::tenant::CreateTenant;
use domain::{
    Command, EXTERNAL_PAYMENT, GatewaySettings, Request as CoreRequest, Settings, TenantNo,
    Timestamp,
};
use engine::access::Access;
use engine::{Answer, CHECK_AGE_MAX, Clock, Engine, Options, Parts};
use evaluation::{Flag, MissingAttribute, Segment, Snapshot};
use feature_flags::{Environment, FlagCache, Secret, SecretKind};
use http::response::Parts as Head;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use secrets::RootKey;
use sign_up::passwords::{self, Cost, Hasher, Hashing};
use sign_up::{SignUp, Tenants};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;
use uuid::Uuid;

/// The largest response that is read, in bytes.
const RESPONSE_BYTES_MAX: usize = 8 * 1_024 * 1_024;

pub const SERVER_SECRET: &str = "Xq3sVb1kQe6TgYh8mNp0RwDjchZ8arFUDk-fHCuNkOGn";
pub const CLIENT_SECRET: &str = "Jt7zLr2wSa9KcUe5oBv4MwDjchZ8arFUDk-fHCuNkOGn";
pub const RELAY_SECRET: &str = "rp-Wm4Hn8yFd2ZkPq6sXc0TjRvB";

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_all().build().expect("a runtime can be built")
});

/// The name of the user and of the tenant of [`World::admit`], and their password and secret.
const OPERATOR: &str = "operator";
const OPERATOR_SECRET: &str = "the secret of the operator";

/// Runs a future to its end, with the tasks that it has spawned meanwhile.
pub fn run<F: Future>(future: F) -> F::Output {
    RUNTIME.block_on(future)
}

/// Writes bytes in pieces of `step`, until the reader has gone, and ends the stream.
pub async fn write_in_pieces(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8], step: usize) {
    for piece in bytes.chunks(step) {
        if to.write_all(piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(to.shutdown().await);
}

/// The headers in lines of `name: value`; what is no header is left out.
#[must_use]
pub fn header_lines(lines: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// A request: a line with the method and the target, lines of headers, an empty line, and the body.
/// `None` where it is none that an HTTP library would hand in.
#[must_use]
pub fn request(text: &[u8]) -> Option<Request<Bytes>> {
    let end = text.windows(2).position(|it| it == b"\n\n").unwrap_or(text.len());
    let (head, body) = (&text[..end], text.get(end + 2..).unwrap_or_default());
    let (line, headers) = head.split_at(head.iter().position(|it| *it == b'\n').unwrap_or(end));
    let (method, target) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    // Others are of proxies and of CONNECT.
    if !target.starts_with('/') {
        return None;
    }
    let body = Bytes::copy_from_slice(body);
    let mut request = Request::builder().method(method).uri(target).body(body).ok()?;
    *request.headers_mut() = header_lines(headers);
    Some(request)
}

/// The response of routes to a request, with its whole body.
///
/// # Panics
/// Where the response is a fault of the server, has an endless body, or says that it is JSON and is not.
pub fn call(router: &Router, request: Request<Bytes>) -> (Head, Bytes) {
    let response = run(async {
        let response = router.clone().oneshot(request.map(Body::from)).await;
        let (head, body) = response.unwrap_or_else(|never| match never {}).into_parts();
        let body = to_bytes(body, RESPONSE_BYTES_MAX).await;
        (head, body.expect("a response has an end"))
    });
    let (head, body) = &response;
    assert_ne!(head.status, 500, "{}", String::from_utf8_lossy(body));
    let kind = head.headers.get("content-type").map_or(&b""[..], HeaderValue::as_bytes);
    if kind.windows(4).any(|it| it == b"json") && !body.is_empty() {
        let value: Result<serde_json::Value, _> = serde_json::from_slice(body);
        assert!(value.is_ok(), "{}", String::from_utf8_lossy(body));
    }
    response
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    feature_flags: Vec<Flag>,
    segments: Vec<Segment>,
}

/// The sample's flags and segments.
#[must_use]
pub fn snapshot(missing: MissingAttribute) -> Snapshot {
    let sample: Sample = serde_json::from_str(include_str!("../../crates/api/flags/sample.json"))
        .expect("the sample is of flags");
    Snapshot::new(missing).with(sample.feature_flags, sample.segments)
}

/// A cache with the sample's environment.
#[must_use]
pub fn flag_cache() -> Arc<FlagCache> {
    let secret = |kind, value: &str| Secret { kind, value: value.to_owned(), expires_at_ms: None };
    let cache = Arc::new(FlagCache::new());
    cache.upsert([Environment {
        id: Uuid::from_u128(0x6a3d_7c0e_54b1_4f0e_9f1c_2b8d_90e1_a701),
        tenant: TenantNo(1),
        key: "dev".to_owned(),
        project_key: "default".to_owned(),
        secrets: vec![
            secret(SecretKind::Server, SERVER_SECRET),
            secret(SecretKind::Client, CLIENT_SECRET),
            secret(SecretKind::RelayProxy, RELAY_SECRET),
        ],
        snapshot: snapshot(MissingAttribute::Empty),
    }]);
    cache.set_available(true);
    cache
}

/// An engine that takes external payments, on an empty database with one tenant that no client knows the
/// secret of, and no user.
pub struct World {
    pub engine: Engine,
    pub access: Access,
}

impl World {
    /// Starts it; the database is below the directory for temporary files.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[must_use]
    pub fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("faregate-fuzz-{}", std::process::id()));
        let store = store::open_dir(&directory, &store::Options::default()).expect("a database");
        let queries = Arc::new(store.queries(2).expect("connections"));
        let parts = Parts {
            store,
            queries,
            gateways: BTreeMap::new(),
            clock: Clock::new(true),
            settings: settings(),
            options: Options { readers: 2, ..Options::default() },
        };
        run(async {
            let (engine, running) = Engine::start(parts).expect("the engine starts");
            std::mem::forget(running);
            create_tenant(&engine, "main", String::new()).await;
            let access = Access::new(engine.clone(), Duration::from_secs(60), 1);
            let checked = engine.clone();
            std::thread::spawn(move || check(&checked));
            Self { engine, access }
        })
    }

    /// Makes a tenant, and a user who may do everything: the headers of their requests. Their secrets are hashed
    /// at the lowest cost, which takes less memory than one allocation may have.
    ///
    /// # Panics
    /// Where they cannot be made.
    #[must_use]
    pub fn admit(&self) -> HeaderMap {
        let hash = || Hashing::new(low_cost()).hash(OPERATOR_SECRET).into_string();
        run(async {
            create_tenant(&self.engine, OPERATOR, hash()).await;
            let permissions = vec!["*".to_owned()];
            let role = PutRole { name: OPERATOR.to_owned(), permissions, create: true };
            submit(&self.engine, Command::Access(AccessCommand::PutRole(role))).await;
            let (username, roles) = (OPERATOR.to_owned(), vec![OPERATOR.to_owned()]);
            let user = CreateUser { username, password_hash: hash(), roles };
            submit(&self.engine, Command::Access(AccessCommand::CreateUser(user))).await;
        });
        let basic = STANDARD.encode(format!("{OPERATOR}:{OPERATOR_SECRET}"));
        let lines = format!(
            "authorization: Basic {basic}\nx-killbill-apikey: {OPERATOR}\n\
             x-killbill-apisecret: {OPERATOR_SECRET}\nx-killbill-createdby: {OPERATOR}"
        );
        header_lines(lines.as_bytes())
    }

    /// Sign-up of the tenant, which refuses to hash passwords: what is valid is refused with 503 and
    /// changes nothing.
    ///
    /// # Panics
    /// Where the hasher cannot be started.
    #[must_use]
    pub fn sign_up(&self) -> (SignUp, Tenants) {
        let hasher = Hasher::new(passwords::Options {
            threads: 1,
            queue_jobs_max: 0,
            cost: low_cost(),
            ..passwords::Options::default()
        });
        let day = Duration::from_secs(86_400);
        let settings = sign_up::service::Settings {
            tenant: "main".to_owned(),
            verify_within: day,
            reset_within: day,
            session: day,
            session_remembered: day,
            refresh: day,
            refresh_grace: day,
            session_max: day,
            issuer: "Faregate".to_owned(),
            currency: "USD".to_owned(),
            trust_internal: false,
            erasure_needs_password: true,
            limits: sign_up::limits::Settings::OFF,
        };
        let (engine, key) = (self.engine.clone(), RootKey::new([7; 32]));
        let sign_up = SignUp::new(engine.clone(), hasher.expect("a hasher"), &key, settings);
        (sign_up, Tenants::new(self.access.clone(), engine, "main"))
    }
}

/// Keeps the engine healthy, as the server does: on a thread of its own, because calls that wait for
/// nothing do not let other tasks run.
fn check(engine: &Engine) {
    let runtime =
        Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
    loop {
        runtime.block_on(engine.check()).expect("the engine takes requests");
        std::thread::sleep(CHECK_AGE_MAX / 10);
    }
}

/// Payments settle in their commit; no gateway is called.
fn settings() -> Settings {
    let gateways = [(EXTERNAL_PAYMENT.to_owned(), GatewaySettings::EXTERNAL)].into();
    Settings { gateways, ..Settings::without_gateways(Timestamp::DAY_US, 1_000) }
}

fn low_cost() -> Cost {
    Cost::new(8, 1, 1).expect("a cost")
}

async fn create_tenant(engine: &Engine, name: &str, secret_hash: String) {
    let command = Command::Tenant(TenantCommand::Create(CreateTenant {
        id: None,
        external_key: Some(name.to_owned()),
        api_key: name.to_owned(),
        secret_hash,
    }));
    submit(engine, command).await;
}

/// Executes a command of the installation.
async fn submit(engine: &Engine, command: Command) {
    let id = engine.mint();
    let actor = Actor::new("fuzz", "fuzz", id.0);
    let request = CoreRequest { id, tenant: TenantNo::SYSTEM, actor, idempotency: None, command };
    let answer = engine.submit(request).await.expect("the engine runs");
    assert!(matches!(answer, Answer::Replied(_)), "{answer:?}");
}
