//! The simulator as an HTTP process of its own, for crash tests and clusters.
//!
//! `POST /charges` takes a call and answers how it ended; `GET /charges/{transaction}` says what
//! is known of one; `GET /notifications?after=N` waits for what is told unasked; `GET /journal`
//! is the whole journal, one JSON record per line; `GET /health`. All of it by HTTP/1.1, or by
//! HTTP/2 without an upgrade, where one connection takes as many calls as there are.

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
use domain::payment::{GatewayAnswer, GatewayKnowledge};
use domain::{GatewayCall, PaymentId, TenantNo, TransactionId};
use engine::ports::{Gateway, Inquiry};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::core::NOTIFICATIONS_AGAIN;
use super::remote::CALLS_MAX;
use super::{Notification, Options, Simulator, journal};
use crate::Error;

/// How long a caller may wait for notifications.
pub(super) const POLL: Duration = Duration::from_secs(20);

/// How many notifications one answer holds at most; its size stays below
/// [`super::remote::ANSWER_BYTES_MAX`].
const NOTIFICATIONS_PER_ANSWER_MAX: usize = 16;

/// How large a call may be.
const CALL_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How long requests may go on after the process was asked to stop.
const DRAIN: Duration = Duration::from_secs(2);

const BACKLOG: u32 = 4_096;

/// How many requests may be in progress on one connection: a client's calls, and its questions
/// beside them.
const STREAMS_MAX: u32 = 2 * CALLS_MAX;

/// How much of all requests of a connection together may be under way.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// How long to wait before connections are taken again where there is no room for one.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// A simulator that listens, and answers once it runs.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    simulator: Simulator,
}

/// Opens the simulator in `dir` and listens on `listen`.
///
/// # Errors
/// Where the journal cannot be used or the address is taken.
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
/// Where [`bind`] fails.
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
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` says so; then what is under way has a short while left.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) {
        let (stopping, stopped) = watch::channel(false);
        let service = routes(Served { simulator: self.simulator, stopped });
        let service = TowerToHyperService::new(service);
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http2()
            .max_concurrent_streams(STREAMS_MAX)
            // Calls whose time ran out while this process could not run come with their end.
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
                    tracing::debug!(error = %error, "a connection to the simulator broke");
                }
            });
        }
        drop(self.listener);
        stopping.send_replace(true);
        // What takes longer is cut off with the process.
        drop(timeout(DRAIN, connections.shutdown()).await);
    }
}

/// The next connection, whatever happens to others.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without it small answers wait for acknowledgements.
                drop(stream.set_nodelay(true));
                return stream;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = %error, "the simulator cannot take connections");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What requests are answered from.
#[derive(Clone)]
struct Served {
    simulator: Simulator,
    stopped: watch::Receiver<bool>,
}

fn routes(served: Served) -> axum::Router {
    axum::Router::new()
        .route("/charges", post(charge))
        .route("/charges/{transaction}", get(inquire))
        .route("/notifications", get(notifications))
        .route("/journal", get(whole_journal))
        .route("/health", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(CALL_BYTES_MAX))
        .with_state(served)
}

async fn charge(State(Served { simulator, .. }): State<Served>, body: Bytes) -> Response {
    let call: GatewayCall = match serde_json::from_slice(&body) {
        Ok(call) => call,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    match simulator.call(call).await {
        // The caller gave up by now.
        GatewayAnswer::TimedOut => StatusCode::GATEWAY_TIMEOUT.into_response(),
        answer @ (GatewayAnswer::Outcome(_)
        | GatewayAnswer::Failed { .. }
        | GatewayAnswer::Nothing
        | GatewayAnswer::NotSent { .. }) => Json(answer).into_response(),
    }
}

/// Whose transaction is asked about.
#[derive(Serialize, Deserialize)]
pub(super) struct Whose {
    pub(super) tenant: TenantNo,
    pub(super) payment: PaymentId,
}

async fn inquire(
    State(Served { simulator, .. }): State<Served>,
    UrlPath(transaction): UrlPath<Uuid>,
    Query(whose): Query<Whose>,
) -> Response {
    let Whose { tenant, payment } = whose;
    let transaction = TransactionId::new(transaction);
    match simulator.inquire(Inquiry { tenant, payment, transaction }).await {
        GatewayKnowledge::Unreachable => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        knowledge @ (GatewayKnowledge::Found(_) | GatewayKnowledge::NotFound) => {
            Json(knowledge).into_response()
        }
    }
}

#[derive(Deserialize)]
struct After {
    after: Option<u64>,
}

/// Notifications, and the number of the last of them.
#[derive(Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) last: u64,
    pub(super) notifications: Vec<ToldOne>,
}

/// A [`Notification`] on the wire.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToldOne {
    tenant: TenantNo,
    payment: PaymentId,
    transaction: TransactionId,
    knowledge: GatewayKnowledge,
}

impl From<Notification> for ToldOne {
    fn from(it: Notification) -> Self {
        let Notification { tenant, payment, transaction, knowledge } = it;
        Self { tenant, payment, transaction, knowledge }
    }
}

impl From<ToldOne> for Notification {
    fn from(it: ToldOne) -> Self {
        let ToldOne { tenant, payment, transaction, knowledge } = it;
        Self { tenant, payment, transaction, knowledge }
    }
}

async fn notifications(
    State(Served { simulator, mut stopped }): State<Served>,
    Query(After { after }): Query<After>,
) -> Response {
    let journal = simulator.journal();
    let mut number = journal.notices();
    let last = *number.borrow_and_update();
    // A number that was never given out belongs to another journal.
    let after = after.unwrap_or_else(|| last.saturating_sub(NOTIFICATIONS_AGAIN)).min(last);
    // That there was nothing new is an answer too.
    tokio::select! {
        _ = number.wait_for(|number| *number > after) => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = sleep(POLL) => {}
    }
    match journal.notices_after(after, NOTIFICATIONS_PER_ANSWER_MAX) {
        Ok(records) => {
            let notifications: Vec<ToldOne> =
                records.into_iter().map(|record| Notification::from(record).into()).collect();
            Json(Told { last: after + notifications.len() as u64, notifications }).into_response()
        }
        Err(error) => {
            tracing::error!(error = %error, "the simulator's notifications cannot be read");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Read on a thread of its own, a chunk at a time, as fast as the caller takes it.
async fn whole_journal(State(Served { simulator, .. }): State<Served>) -> Response {
    const CHUNK_BYTES: usize = 64 * 1024;
    let (path, upto) = simulator.journal().durable();
    let (chunks, receiver) = mpsc::channel::<io::Result<Bytes>>(4);
    tokio::task::spawn_blocking(move || {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut write = || -> Result<(), Error> {
            for record in journal::read(&path, upto)? {
                serde_json::to_writer(&mut chunk, &record?).expect("a Vec takes everything");
                chunk.push(b'\n');
                let is_full = chunk.len() >= CHUNK_BYTES;
                if is_full && chunks.blocking_send(Ok(std::mem::take(&mut chunk).into())).is_err() {
                    return Ok(());
                }
            }
            // Who has gone away needs no rest.
            drop(chunks.blocking_send(Ok(std::mem::take(&mut chunk).into())));
            Ok(())
        };
        if let Err(error) = write() {
            tracing::error!(error = %error, "the simulator's journal cannot be read");
            // The body must not look complete.
            drop(chunks.blocking_send(Err(io::Error::other(error))));
        }
    });
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    Body::from_stream(stream).into_response()
}
