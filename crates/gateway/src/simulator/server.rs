//! The simulator as an HTTP process of its own, for crash tests and clusters.
//!
//! `POST /charges` executes a call and returns its outcome; `GET /charges/{transaction}` returns the
//! state of a transaction; `POST /methods` attaches, detaches or looks for a payment method;
//! `GET /notifications?after=N` waits for notifications; `GET /journal` streams all records of
//! transactions, one as JSON per line; `GET /health`. The server speaks HTTP/1.1, and HTTP/2 without an
//! upgrade, so that one connection can carry all concurrent calls.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path as UrlPath, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use domain::account::payment_method::MethodRequest;
use domain::payment::{GatewayAnswer, GatewayKnowledge};
use domain::{GatewayCall, TransactionId};
use engine::Deadline;
use engine::ports::{Gateway, Inquiry};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::core::{Notification, Options, REPLAYED_NOTIFICATIONS_MAX, Simulator, duration};
use super::journal;
use super::protocol::{
    CALLS_MAX, CallQuery, CallResponse, InquiryQuery, LONG_POLL, NOTIFICATIONS_PER_PAGE_MAX,
    NotificationBody, NotificationPage,
};
use crate::error::Error;

/// The maximum size of a call's body.
const CALL_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How long a shutdown waits for open requests.
const DRAIN: Duration = Duration::from_secs(2);

const BACKLOG: u32 = 4_096;

/// The maximum number of concurrent requests of a connection: a client's calls and its inquiries.
const STREAMS_MAX: u32 = 2 * CALLS_MAX;

/// The flow-control window of a connection, for all requests together.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// The delay before the next attempt to accept connections after an error such as too many open
/// files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// A simulator that listens on its address and is ready to run.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    simulator: Simulator,
}

/// Opens the simulator in `dir` and listens on `listen`.
///
/// # Errors
/// The journal cannot be used, or the address cannot be listened on.
pub fn bind(listen: SocketAddr, dir: &Path, options: Options) -> Result<Bound, Error> {
    let simulator = Simulator::open(dir, options)?;
    let failed = |source| Error::Listen { address: listen, source };
    let listener = listen_on(listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, address, simulator })
}

/// [`bind`] and [`Bound::run`].
///
/// # Errors
/// As [`bind`].
pub async fn serve(
    listen: SocketAddr,
    dir: &Path,
    options: Options,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    bind(listen, dir, options)?.run(stop).await;
    Ok(())
}

impl Bound {
    /// The address that the server listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `stop` completes. Open requests then have two seconds to end.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        let (stopping, stopped) = watch::channel(false);
        let service = routes(ServerState { simulator: self.simulator, stopped });
        let service = TowerToHyperService::new(service);
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http2()
            .max_concurrent_streams(STREAMS_MAX)
            // After a pause of this process it receives calls together with their cancellations.
            .max_pending_accept_reset_streams(STREAMS_MAX as usize)
            .initial_connection_window_size(WINDOW_BYTES);
        let connections = GracefulShutdown::new();
        let mut stop = pin!(stop);
        loop {
            let stream = tokio::select! {
                () = stop.as_mut() => break,
                stream = accept(&self.listener) => stream,
            };
            let serving = http.serve_connection(TokioIo::new(stream), service.clone());
            let serving = connections.watch(serving.into_owned());
            tokio::spawn(async move {
                if let Err(error) = serving.await {
                    tracing::debug!(error = %error, "a connection to the simulator failed");
                }
            });
        }
        drop(self.listener);
        stopping.send_replace(true);
        // Requests that take longer are aborted with the process.
        drop(timeout(DRAIN, connections.shutdown()).await);
    }
}

/// Accepts the next connection. Errors are logged and retried.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Otherwise Nagle's algorithm delays small responses.
                drop(stream.set_nodelay(true));
                return stream;
            }
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = %error, "the simulator cannot accept connections; it retries");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The state of the HTTP handlers.
#[derive(Clone)]
struct ServerState {
    simulator: Simulator,
    stopped: watch::Receiver<bool>,
}

fn routes(state: ServerState) -> axum::Router {
    axum::Router::new()
        .route("/charges", post(charge))
        .route("/charges/{transaction}", get(inquire))
        .route("/methods", post(method))
        .route("/notifications", get(notifications))
        .route("/journal", get(whole_journal))
        .route("/health", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(CALL_BYTES_MAX))
        .with_state(state)
}

async fn charge(
    State(ServerState { simulator, .. }): State<ServerState>,
    Query(CallQuery { attaches_methods }): Query<CallQuery>,
    body: Bytes,
) -> Response {
    let call: GatewayCall = match serde_json::from_slice(&body) {
        Ok(call) => call,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    match simulator.perform(call, attaches_methods).await {
        // The client has timed out as well.
        GatewayAnswer::TimedOut => StatusCode::GATEWAY_TIMEOUT.into_response(),
        answer @ (GatewayAnswer::Outcome(_)
        | GatewayAnswer::Failed { .. }
        | GatewayAnswer::Nothing
        | GatewayAnswer::NotSent { .. }) => Json(CallResponse::from(answer)).into_response(),
    }
}

async fn method(State(ServerState { simulator, .. }): State<ServerState>, body: Bytes) -> Response {
    let request: MethodRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let deadline = Deadline::within(simulator.clock(), duration(request.timeout_us));
    Json(simulator.method(request, deadline).await).into_response()
}

async fn inquire(
    State(ServerState { simulator, .. }): State<ServerState>,
    UrlPath(transaction): UrlPath<Uuid>,
    Query(query): Query<InquiryQuery>,
) -> Response {
    let InquiryQuery { tenant, payment } = query;
    let transaction = TransactionId::new(transaction);
    match simulator.inquire(Inquiry { tenant, payment, transaction }).await {
        GatewayKnowledge::Unreachable => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        knowledge @ (GatewayKnowledge::Found(_) | GatewayKnowledge::NotFound) => {
            Json(knowledge).into_response()
        }
    }
}

#[derive(Deserialize)]
struct NotificationsQuery {
    after: Option<u64>,
}

async fn notifications(
    State(ServerState { simulator, mut stopped }): State<ServerState>,
    Query(NotificationsQuery { after }): Query<NotificationsQuery>,
) -> Response {
    let journal = simulator.journal();
    let mut number = journal.notification_count();
    let last = *number.borrow_and_update();
    // A higher number belongs to another journal.
    let after = after.unwrap_or_else(|| last.saturating_sub(REPLAYED_NOTIFICATIONS_MAX)).min(last);
    // An empty page is a valid response.
    tokio::select! {
        _ = number.wait_for(|number| *number > after) => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = sleep(LONG_POLL) => {}
    }
    match journal.notifications_after(after, NOTIFICATIONS_PER_PAGE_MAX) {
        Ok(records) => {
            let notifications: Vec<NotificationBody> =
                records.into_iter().map(|record| Notification::from(record).into()).collect();
            let last = after + notifications.len() as u64;
            Json(NotificationPage { last, notifications }).into_response()
        }
        Err(error) => {
            tracing::error!(error = %error, "the simulator's notifications cannot be read");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Streams the journal. A blocking thread reads it chunk by chunk, as fast as the client receives it.
async fn whole_journal(State(ServerState { simulator, .. }): State<ServerState>) -> Response {
    const CHUNK_BYTES: usize = 64 * 1024;
    let (path, upto) = simulator.journal().durable();
    let (chunks, receiver) = mpsc::channel::<io::Result<Bytes>>(4);
    tokio::task::spawn_blocking(move || {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut write = || -> Result<(), Error> {
            for record in journal::read(&path, upto)? {
                serde_json::to_writer(&mut chunk, &record?).expect("writing to a Vec cannot fail");
                chunk.push(b'\n');
                let is_full = chunk.len() >= CHUNK_BYTES;
                if is_full && chunks.blocking_send(Ok(std::mem::take(&mut chunk).into())).is_err() {
                    return Ok(());
                }
            }
            // An error means that the client has disconnected.
            drop(chunks.blocking_send(Ok(std::mem::take(&mut chunk).into())));
            Ok(())
        };
        if let Err(error) = write() {
            tracing::error!(error = %error, "the simulator's journal cannot be read");
            // The client must not take the body for complete.
            drop(chunks.blocking_send(Err(io::Error::other(error))));
        }
    });
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    Body::from_stream(stream).into_response()
}
