//! Admits each call (limit of calls, deadline, caller, tenant) and calls its service. It is one
//! hand-written service instead of a stack of layers and a router, because each of them allocates per
//! call.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use engine::client::{self, Client};
use futures_util::FutureExt;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};
use web::NetworkPermits;
use web::refusal_log::is_worth_a_line;

use crate::accounts::Accounts;
use crate::anonymous_streams::{AnonymousStreams, ConnectionStreams};
use crate::api::account_service_server::{AccountServiceServer, SERVICE_NAME as ACCOUNTS};
use crate::api::balance_service_server::{BalanceServiceServer, SERVICE_NAME as BALANCES};
use crate::api::entitlement_service_server::{
    EntitlementServiceServer, SERVICE_NAME as ENTITLEMENTS,
};
use crate::api::flag_service_server::SERVICE_NAME as FLAGS;
use crate::api::payment_service_server::{PaymentServiceServer, SERVICE_NAME as PAYMENTS};
use crate::balances::Balances;
use crate::call::{Authenticated, ServiceContext, requests_simulated_work};
use crate::call_window::{Backlog, CallWindow};
use crate::entitlements::AccountEntitlements;
use crate::metrics::CallMetrics;
use crate::payments::Payments;
use crate::refusal::Refusal;
use crate::{ClientOf, Limits, Parts, api, deadline};

/// The services without authentication: health and reflection.
const HEALTH: &str = "grpc.health.v1.Health";
/// The one call of it that is a stream.
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";

/// The services with a health status; the empty name is the whole server.
const SERVICES: [&str; 6] = ["", PAYMENTS, BALANCES, ACCOUNTS, ENTITLEMENTS, FLAGS];

/// The length in bytes of a message's prefix: whether the message is compressed, and its length.
const PREFIX_BYTES: usize = 5;

type Request = http::Request<Incoming>;
type Response = http::Response<Body>;

/// The service of feature flags, which authenticates its calls itself: see `flags::service`.
pub type FlagCalls = BoxCloneSyncService<Request, Response, Infallible>;

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// The gRPC API. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct GrpcApi {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<ServiceContext>,
    client_of: ClientOf,
    networks: Arc<NetworkPermits>,
    limits: Limits,
    in_progress: AtomicUsize,
    window: CallWindow,
    metrics: CallMetrics,
    payments: PaymentServiceServer<Payments>,
    balances: BalanceServiceServer<Balances>,
    accounts: AccountServiceServer<Accounts>,
    entitlements: EntitlementServiceServer<AccountEntitlements>,
    flags: FlagCalls,
    reporter: HealthReporter,
    health: HealthServer<HealthService>,
    /// `None` where it is off.
    reflection: Option<BoxCloneSyncService<Request, Response, Infallible>>,
    anonymous: AnonymousStreams,
}

/// The service of a call.
#[derive(Clone, Copy)]
enum Target {
    Payments,
    Balances,
    Accounts,
    Entitlements,
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
            ENTITLEMENTS => Some(Self::Entitlements),
            FLAGS => Some(Self::Flags),
            HEALTH => Some(Self::Health),
            REFLECTION => Some(Self::Reflection),
            _ => None,
        }
    }
}

impl GrpcApi {
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { engine, access, flags, simulates_work, client_of, limits, .. } = parts;
        let Parts { watched, networks, streams, .. } = parts;
        let context = ServiceContext { engine, access, simulates_work, watched, streams };
        let context = Arc::new(context);
        let bytes = limits.message_bytes_max;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(api::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The details of errors, for clients that know the API by reflection only.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the committed descriptors are valid, which a test checks");
        let reporter = HealthReporter::new();
        let inner = Inner {
            context: Arc::clone(&context),
            client_of,
            networks,
            limits,
            in_progress: AtomicUsize::new(0),
            window: CallWindow::new(limits.executing_calls_max),
            metrics: CallMetrics::new(),
            payments: PaymentServiceServer::new(Payments::new(Arc::clone(&context)))
                .max_decoding_message_size(bytes),
            balances: BalanceServiceServer::new(Balances::new(Arc::clone(&context)))
                .max_decoding_message_size(bytes),
            accounts: AccountServiceServer::new(Accounts::new(Arc::clone(&context)))
                .max_decoding_message_size(bytes),
            entitlements: EntitlementServiceServer::new(AccountEntitlements::new(context))
                .max_decoding_message_size(bytes),
            flags,
            health: HealthServer::new(HealthService::from_health_reporter(reporter.clone())),
            reporter,
            reflection: limits.reflection.then(|| BoxCloneSyncService::new(reflection)),
            anonymous: AnonymousStreams::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sets the status that the health service reports.
    pub async fn report_health(&self, is_serving: bool) {
        let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in SERVICES {
            self.inner.reporter.set_service_status(service, status).await;
        }
    }

    /// Reports that the API stops, and ends the calls that watch its health or an account: they would keep
    /// their connections open.
    pub(crate) async fn end_watches(&self) {
        self.inner.context.watched.end();
        self.report_health(false).await;
        let mut reporter = self.inner.reporter.clone();
        for service in SERVICES {
            reporter.clear_service_status(service).await;
        }
    }

    /// Connections by network.
    pub(crate) fn networks(&self) -> &Arc<NetworkPermits> {
        &self.inner.networks
    }

    pub(crate) fn limits(&self) -> Limits {
        self.inner.limits
    }
}

/// The service of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionService {
    api: GrpcApi,
    peer: IpAddr,
    anonymous: ConnectionStreams,
    backlog: Arc<Backlog>,
}

impl ConnectionService {
    pub(crate) fn new(api: GrpcApi, peer: IpAddr) -> Self {
        let anonymous = api.inner.anonymous.of_connection();
        let backlog = Arc::default();
        Self { api, peer, anonymous, backlog }
    }

    /// The connection's calls that wait until others are executed.
    pub(crate) fn backlog(&self) -> Arc<Backlog> {
        Arc::clone(&self.backlog)
    }

    /// Serves a stream that needs no credentials, if there are not too many.
    fn serve_anonymous<F>(&self, serve: impl FnOnce() -> F) -> ResponseFuture
    where
        F: Future<Output = Result<Response, Infallible>> + Send + 'static,
    {
        let Some(permit) = self.anonymous.acquire() else {
            return Box::pin(std::future::ready(Ok(refused(Refusal::Full))));
        };
        let served = serve();
        Box::pin(async move { Ok(served.await?.map(|body| permit.hold(body))) })
    }
}

impl hyper::service::Service<Request> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request) -> ResponseFuture {
        let inner = Arc::clone(&self.api.inner);
        match Target::of(request.uri().path()) {
            Some(Target::Health) if request.uri().path() == HEALTH_WATCH => {
                self.serve_anonymous(|| inner.health.clone().call(request))
            }
            Some(Target::Health) => inner.health.clone().call(request),
            Some(Target::Reflection) => match inner.reflection.clone() {
                Some(reflection) => self.serve_anonymous(|| reflection.oneshot(request)),
                None => Box::pin(std::future::ready(Ok(refused(Refusal::NoMethod)))),
            },
            Some(
                target @ (Target::Payments
                | Target::Balances
                | Target::Accounts
                | Target::Entitlements
                | Target::Flags),
            ) => Box::pin(serve_call(inner, target, (self.peer, self.backlog()), request)),
            None => Box::pin(std::future::ready(Ok(refused(Refusal::NoMethod)))),
        }
    }
}

fn refused(refusal: Refusal) -> Response {
    Status::from(refusal).into_http()
}

/// Admits a call, serves it within its deadline, and counts it.
async fn serve_call(
    inner: Arc<Inner>,
    target: Target,
    (peer, backlog): (IpAddr, Arc<Backlog>),
    mut request: Request,
) -> Result<Response, Infallible> {
    let started = Instant::now();
    let method = inner.metrics.method(request.uri().path());
    let (from, caller) =
        ((inner.client_of)(peer, request.headers()), Arc::new(Client::new(|| false)));
    let serving = async {
        let Some(_permit) = CallPermit::acquire(&inner) else { return Err(Refusal::Full) };
        let timeout = deadline::of(request.headers())?;
        let serving = async {
            if matches!(target, Target::Flags) {
                request.extensions_mut().insert(from);
                let response = inner.flags.clone().oneshot(request).await;
                return Ok(response.unwrap_or_else(|never| match never {}));
            }
            let authenticated =
                Authenticated::of(&inner.context.access, from, request.headers()).await?;
            request.extensions_mut().insert(authenticated);
            let waits_by_design = inner.context.simulates_work
                && matches!(target, Target::Balances)
                && requests_simulated_work(request.headers());
            let request = received(request, inner.limits.message_bytes_max).await;
            let executing = async {
                let response = match target {
                    Target::Payments => inner.payments.clone().call(request).await,
                    Target::Balances => inner.balances.clone().call(request).await,
                    Target::Accounts => inner.accounts.clone().call(request).await,
                    Target::Entitlements => inner.entitlements.clone().call(request).await,
                    Target::Flags | Target::Health | Target::Reflection => {
                        return Err(Refusal::NoMethod);
                    }
                };
                Ok(response.unwrap_or_else(|never| match never {}))
            };
            match waits_by_design {
                true => executing.await,
                false => inner.window.run(&backlog, executing).await,
            }
        };
        // Its reads are its tenant's.
        let serving = client::serve(Arc::clone(&caller), serving);
        // The panic hook logs the message and the location.
        let serving = AssertUnwindSafe(serving).catch_unwind();
        match tokio::time::timeout(timeout, serving).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => Err(Refusal::Bug),
            // A submitted command continues in the engine.
            Err(_) => Err(Refusal::DeadlineExceeded),
        }
    };
    let response = serving.await.unwrap_or_else(refused);
    let code = code(&response);
    method.record(code, started.elapsed());
    log_refusal(code, method.path(), from.network(), &caller);
    Ok(response)
}

/// Logs a refusal for want of credentials or rights.
fn log_refusal(code: Code, route: &str, network: IpAddr, client: &Client) {
    let status = if code == Code::Unauthenticated {
        StatusCode::UNAUTHORIZED
    } else if code == Code::PermissionDenied {
        StatusCode::FORBIDDEN
    } else {
        return;
    };
    let user = client.user();
    if !is_worth_a_line(status, network, user.is_some()) {
        return;
    }
    let user = user.as_ref().map(|user| user.username.as_str());
    let tenant = client.tenant().map(|tenant| tenant.0);
    let reason = code.description();
    tracing::info!(user, %network, tenant, route, api = "grpc", reason, "request refused");
}

/// Receives a call's message before it takes a place in the window: neither a client that does not send it
/// nor the connection's flow control holds up other calls. What is beyond the longest message, or did not
/// come, is left out: the decoder refuses a message that is not as long as it announces.
async fn received(request: Request, message_bytes_max: usize) -> http::Request<Full<Bytes>> {
    let (head, mut body) = request.into_parts();
    let mut message = BytesMut::new();
    while message.len() < PREFIX_BYTES + message_bytes_max
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Ok(data) = frame.into_data() {
            message.extend_from_slice(&data);
        }
    }
    http::Request::from_parts(head, Full::new(message.freeze()))
}

/// The code of a response. A response with a message has its code in the trailers; it is `Ok`.
fn code(response: &Response) -> Code {
    let status = response.headers().get(Status::GRPC_STATUS);
    status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()))
}

/// The permit of a call in progress.
struct CallPermit<'a>(&'a AtomicUsize);

impl<'a> CallPermit<'a> {
    /// `None` if the limit of calls is reached.
    fn acquire(inner: &'a Inner) -> Option<Self> {
        let permit = Self(&inner.in_progress);
        let before = inner.in_progress.fetch_add(1, Ordering::Relaxed);
        if before < inner.limits.calls_max {
            return Some(permit);
        }
        inner.metrics.refused();
        None
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
