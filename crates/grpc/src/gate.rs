//! Every call's way in: room, caller, tenant, deadline; then its service. One hand-written service
//! instead of a stack of layers and a router, because each of them costs allocations per call.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use engine::Engine;
use engine::access::Access;
use futures_util::FutureExt;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use crate::accounts::Accounts;
use crate::api::account_service_server::{AccountServiceServer, SERVICE_NAME as ACCOUNTS};
use crate::api::balance_service_server::{BalanceServiceServer, SERVICE_NAME as BALANCES};
use crate::api::flag_service_server::SERVICE_NAME as FLAGS;
use crate::api::payment_service_server::{PaymentServiceServer, SERVICE_NAME as PAYMENTS};
use crate::balances::Balances;
use crate::call::Entered;
use crate::measure::Measures;
use crate::payments::Payments;
use crate::refusal::Refusal;
use crate::{ClientOf, Limits, Parts, api, deadline};

/// The tenant's metadata: ours, or that of Kill Bill's clients.
const API_KEY: [&str; 2] = ["x-faregate-apikey", "x-killbill-apikey"];
const API_SECRET: [&str; 2] = ["x-faregate-apisecret", "x-killbill-apisecret"];

/// The services that say whether the door works, and what it speaks. Anybody may ask.
const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";

/// What the health service knows; the empty name is the server as a whole.
const SERVICES: [&str; 5] = ["", PAYMENTS, BALANCES, ACCOUNTS, FLAGS];

type Request = http::Request<Incoming>;
type Response = http::Response<Body>;

/// The service of feature flags with a gate of its own. What flags are is known elsewhere: whoever
/// puts the door together has it.
pub type FlagCalls = BoxCloneSyncService<Request, Response, Infallible>;

type Answer = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// What the services work with.
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) simulates_work: bool,
}

/// The door. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Door {
    inner: Arc<Inner>,
}

struct Inner {
    access: Access,
    client_of: ClientOf,
    limits: Limits,
    in_progress: AtomicUsize,
    measures: Measures,
    payments: PaymentServiceServer<Payments>,
    balances: BalanceServiceServer<Balances>,
    accounts: AccountServiceServer<Accounts>,
    flags: FlagCalls,
    reporter: HealthReporter,
    health: HealthServer<HealthService>,
    reflection: BoxCloneSyncService<Request, Response, Infallible>,
}

/// The services that there are.
#[derive(Clone, Copy)]
enum Target {
    Payments,
    Balances,
    Accounts,
    Flags,
    Health,
    Reflection,
}

impl Target {
    /// The service of a path such as `/faregate.v1.PaymentService/Pay`.
    fn of(path: &str) -> Option<Self> {
        match path.strip_prefix('/')?.split_once('/')?.0 {
            PAYMENTS => Some(Self::Payments),
            BALANCES => Some(Self::Balances),
            ACCOUNTS => Some(Self::Accounts),
            FLAGS => Some(Self::Flags),
            HEALTH => Some(Self::Health),
            REFLECTION => Some(Self::Reflection),
            _ => None,
        }
    }
}

impl Door {
    /// A door that works with these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { engine, access, flags, simulates_work, client_of, limits } = parts;
        let core = Arc::new(Core { engine, simulates_work });
        let bytes = limits.message_bytes_max;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(api::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The details of errors, so that who knows us by reflection only can read them.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the committed descriptors can be read, which a test shows");
        let reporter = HealthReporter::new();
        let inner = Inner {
            access,
            client_of,
            limits,
            in_progress: AtomicUsize::new(0),
            measures: Measures::new(),
            payments: PaymentServiceServer::new(Payments::new(Arc::clone(&core)))
                .max_decoding_message_size(bytes),
            balances: BalanceServiceServer::new(Balances::new(Arc::clone(&core)))
                .max_decoding_message_size(bytes),
            accounts: AccountServiceServer::new(Accounts::new(core))
                .max_decoding_message_size(bytes),
            flags,
            health: HealthServer::new(HealthService::from_health_reporter(reporter.clone())),
            reporter,
            reflection: BoxCloneSyncService::new(reflection),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Says to whoever asks for the door's health whether it works.
    pub async fn report_health(&self, is_serving: bool) {
        let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in SERVICES {
            self.inner.reporter.set_service_status(service, status).await;
        }
    }

    /// Says that the door is about to close, and ends the calls that watch its health: they would
    /// keep their connections open.
    pub(crate) async fn close_health(&self) {
        self.report_health(false).await;
        let mut reporter = self.inner.reporter.clone();
        for service in SERVICES {
            reporter.clear_service_status(service).await;
        }
    }

    /// The door's limits.
    pub(crate) fn limits(&self) -> Limits {
        self.inner.limits
    }
}

/// The door as one connection sees it.
#[derive(Clone)]
pub(crate) struct Gate {
    door: Door,
    peer: IpAddr,
}

impl Gate {
    pub(crate) const fn new(door: Door, peer: IpAddr) -> Self {
        Self { door, peer }
    }
}

impl hyper::service::Service<Request> for Gate {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request) -> Answer {
        let inner = Arc::clone(&self.door.inner);
        match Target::of(request.uri().path()) {
            Some(Target::Health) => inner.health.clone().call(request),
            Some(Target::Reflection) => Box::pin(inner.reflection.clone().oneshot(request)),
            Some(
                target @ (Target::Payments | Target::Balances | Target::Accounts | Target::Flags),
            ) => Box::pin(enter(inner, target, self.peer, request)),
            None => Box::pin(std::future::ready(Ok(refused(Refusal::NoMethod)))),
        }
    }
}

fn refused(refusal: Refusal) -> Response {
    Status::from(refusal).into_http()
}

/// Lets a call in, has it answered in time, and counts it.
async fn enter(
    inner: Arc<Inner>,
    target: Target,
    peer: IpAddr,
    mut request: Request,
) -> Result<Response, Infallible> {
    let started = Instant::now();
    let method = inner.measures.method(request.uri().path());
    let answer = async {
        let Some(_place) = Place::take(&inner) else { return Err(Refusal::Full) };
        let limit = deadline::of(request.headers())?;
        let passing = async {
            if matches!(target, Target::Flags) {
                let answered = inner.flags.clone().oneshot(request).await;
                return Ok(answered.unwrap_or_else(|never| match never {}));
            }
            let entered = admit(&inner, peer, request.headers()).await?;
            request.extensions_mut().insert(entered);
            let answered = match target {
                Target::Payments => inner.payments.clone().call(request).await,
                Target::Balances => inner.balances.clone().call(request).await,
                Target::Accounts => inner.accounts.clone().call(request).await,
                Target::Flags | Target::Health | Target::Reflection => {
                    return Err(Refusal::NoMethod);
                }
            };
            Ok(answered.unwrap_or_else(|never| match never {}))
        };
        // The panic hook has logged what and where.
        let passing = AssertUnwindSafe(passing).catch_unwind();
        match tokio::time::timeout(limit, passing).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) => Err(Refusal::Bug),
            // What was submitted goes on by itself: the core has it.
            Err(_) => Err(Refusal::DeadlineExceeded),
        }
    };
    let response = answer.await.unwrap_or_else(refused);
    method.record(code(&response), started.elapsed());
    Ok(response)
}

/// The code of an answer; what is answered with a message says its code afterwards, and it is `Ok`.
fn code(response: &Response) -> Code {
    let status = response.headers().get(Status::GRPC_STATUS);
    status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()))
}

async fn admit(inner: &Inner, peer: IpAddr, headers: &HeaderMap) -> Result<Entered, Refusal> {
    let from = (inner.client_of)(peer, headers);
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let caller = inner.access.user(from, authorization).await?;
    let key = text(headers, API_KEY).ok_or(Refusal::TenantMissing)?;
    let secret = text(headers, API_SECRET).ok_or(Refusal::TenantMissing)?;
    let tenant = inner.access.tenant(from, key, secret).await?;
    Ok(Entered { caller, tenant })
}

fn text<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Option<&'a str> {
    let value = names.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().filter(|text| !text.is_empty())
}

/// A call's place among those in progress.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    /// A place, if there is one.
    fn take(inner: &'a Inner) -> Option<Self> {
        let place = Self(&inner.in_progress);
        let before = inner.in_progress.fetch_add(1, Ordering::Relaxed);
        if before < inner.limits.calls_max {
            return Some(place);
        }
        inner.measures.refused();
        None
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
