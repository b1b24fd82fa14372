//! A worker: the feature-flag APIs in a process of their own.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use domain::TenantNo;
use evaluation::MissingAttribute;
use feature_flags::entitled_keys::TenantKeys;
use feature_flags::{FlagCache, Insights, account_lookup};
use http::Uri;
use http::header::CONNECTION;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use super::channel::{self, ServerMessage, WorkerMessage, WorkerSocket};
use crate::http_setup::{self, Memory, Networks};
use crate::logging;
use crate::process::{self, Signals};
use config::Config;
use http_server::listener::{self, Incoming};
use http_server::{Sorter, is_flag_path, with_route_labels};
use v1::Error;

/// The hidden command by which the server starts its own binary.
pub const COMMAND: &str = "flag-worker";

/// File descriptors that are not for clients.
const OPEN_FILES_OWN: u64 = 64;

/// Connections that wait to be handed over.
const HANDING_OVER_MAX: usize = 1_024;

/// Users in a packet: keys have up to 255 bytes, and JSON may make six of each.
const PACKET_USERS: usize = 16;

/// Rows of insights in a packet: names have up to 256 bytes, and JSON may make six of each.
const PACKET_ROWS: usize = 8;

/// How often the count of open streams and insights are sent to the server.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// How long to wait for the first environments before listening without them.
const ENVIRONMENTS_WITHIN: Duration = Duration::from_secs(5);

/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long a closing stream may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Serves until the server stops it, or ends.
///
/// # Errors
/// Where it was not started by a server, or the port cannot be bound.
pub fn run() -> anyhow::Result<ExitCode> {
    // The configuration has the number of threads: it is received first.
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let received = first.block_on(async { channel::receive(&mut channel::inherited()?.0).await });
    drop(first);
    let Ok(ServerMessage::Config(config)) = received else {
        anyhow::bail!("this command is for the server itself: set `flags.workers`")
    };
    logging::start(&config)?;
    Ok(process::runtime(&config)?.block_on(serve(&config))?)
}

async fn serve(config: &Config) -> io::Result<ExitCode> {
    let (from_server, to_server) = channel::inherited()?;
    let to_server = Arc::new(to_server);
    // The server ends its workers: signals of a terminal or a service manager come to both.
    let mut signals = Signals::new()?;
    tokio::spawn(async move {
        loop {
            signals.wait().await;
        }
    });
    let connections_max =
        http_setup::connections_max(config, process::raise_open_files(), OPEN_FILES_OWN);
    let cache = Arc::<FlagCache>::default();
    let missing = config.flags.missing_attribute.rule();
    let answered = Arc::<Notify>::default();
    let follower = follow(from_server, missing, (Arc::clone(&cache), Arc::clone(&answered)));
    let following = tokio::spawn(follower);
    tokio::spawn(look_up(Arc::clone(&cache), Arc::clone(&to_server), answered));
    tokio::spawn(ask_for_keys(Arc::clone(&cache), Arc::clone(&to_server)));
    await_environments(&cache, &following).await;
    let listener = bind(config.listen)?;
    let (others, handed) = mpsc::channel(HANDING_OVER_MAX);
    tokio::spawn(hand_over(handed, Arc::clone(&to_server)));
    let (stopping, stopped) = watch::channel(false);
    let networks = Networks::new(config);
    let memory = Memory::new(config, Arc::clone(&networks.answers));
    let settings = http_setup::flag_settings(config, networks.streams, networks.answers);
    let prefix = config.flags.path_prefix.clone();
    let router = ::flags::router(Arc::clone(&cache), settings)
        .fallback(async move |uri: Uri| elsewhere(&prefix, &uri));
    let front = http_setup::front(config, memory, with_route_labels(router));
    let sorter = Sorter::new(config.flags.path_prefix.clone(), others);
    let connection_options = http_setup::connection_options(
        config,
        None,
        (connections_max, networks.connections),
        Some(sorter),
    );
    let arrivals = Incoming::Listening(listener);
    let accepting =
        tokio::spawn(listener::serve(arrivals, Arc::new(front), connection_options, stopped));
    to_server.send(&WorkerMessage::Ready).await?;
    tokio::spawn(count(Arc::clone(&cache), Arc::clone(&to_server)));
    let over = match following.await.map_err(io::Error::other)? {
        Ok(over) => over,
        Err(error) => {
            tracing::error!(%error, "lost the server; the worker ends");
            return Ok(ExitCode::FAILURE);
        }
    };
    stopping.send_replace(true);
    cache.drain(over, CLOSE_TIMEOUT).await;
    drop(tokio::time::timeout(CLOSE_TIMEOUT, accepting).await);
    send_insights(&cache, &to_server).await?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until all environments are received, for a bounded time: until then, SDKs are refused and
/// retry.
async fn await_environments(cache: &FlagCache, following: &JoinHandle<io::Result<Duration>>) {
    let given_up_at = tokio::time::Instant::now() + ENVIRONMENTS_WITHIN;
    while !cache.is_available() && !following.is_finished() {
        if tokio::time::Instant::now() >= given_up_at {
            tracing::warn!("feature flags are not received yet; listening without them");
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = super::sharing(address)?;
    socket.bind(&address.into())?;
    listener::listen(socket)
}

/// Applies the server's messages until the stop.
async fn follow(
    mut from_server: UnixStream,
    missing: MissingAttribute,
    (cache, answered): (Arc<FlagCache>, Arc<Notify>),
) -> io::Result<Duration> {
    let accounts = &cache.accounts;
    loop {
        match channel::receive(&mut from_server).await? {
            ServerMessage::Config(_) => {}
            ServerMessage::Environments(all) => {
                cache.upsert(all.into_iter().map(|it| it.compiled(missing)))
            }
            ServerMessage::Changed { id, flags, segments } => {
                cache.apply(id, flags, segments);
            }
            ServerMessage::CaughtUp => cache.set_available(true),
            ServerMessage::FollowsAccounts => accounts.begin(),
            ServerMessage::Accounts(changed) => accounts.changed(changed),
            ServerMessage::Used(all) => accounts.used(all),
            ServerMessage::Found(found) => {
                accounts.learn(found);
                answered.notify_one();
            }
            ServerMessage::NotFound(users) => {
                accounts.failed(users);
                answered.notify_one();
            }
            ServerMessage::Keys(update) => cache.entitled_keys.publish(update),
            ServerMessage::Stop(over) => return Ok(over),
        }
    }
}

/// Has the server look up users as they are wanted.
async fn look_up(cache: Arc<FlagCache>, to_server: Arc<WorkerSocket>, answered: Arc<Notify>) {
    let ask = async {
        loop {
            let wanted = cache.accounts.wanted(PACKET_USERS).await;
            if to_server.send(&WorkerMessage::LookUp(wanted)).await.is_err() {
                return;
            }
            answered.notified().await;
        }
    };
    tokio::join!(ask, account_lookup::look_again(&cache.accounts));
}

/// Has the server send the users who are entitled to features that server SDKs ask for.
async fn ask_for_keys(cache: Arc<FlagCache>, to_server: Arc<WorkerSocket>) {
    let mut wanted = cache.entitled_keys.wanted();
    let mut asked = HashMap::<TenantNo, (Weak<TenantKeys>, BTreeSet<Box<str>>)>::new();
    loop {
        for keys in cache.entitled_keys.all() {
            let (tenant, features) = (keys.tenant(), keys.features());
            let now = (Arc::downgrade(&keys), features.clone());
            let before = asked.insert(tenant, now);
            // What was forgotten meanwhile is asked for again.
            let before = before.filter(|it| it.0.ptr_eq(&Arc::downgrade(&keys)));
            let before = before.map(|it| it.1).unwrap_or_default();
            let more: Vec<Box<str>> = features.difference(&before).cloned().collect();
            for more in more.chunks(PACKET_USERS) {
                let asked = WorkerMessage::RequestKeys(tenant, more.to_vec());
                if to_server.send(&asked).await.is_err() {
                    return;
                }
            }
        }
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

async fn hand_over(
    mut handed: mpsc::Receiver<tokio::net::TcpStream>,
    to_server: Arc<WorkerSocket>,
) {
    while let Some(connection) = handed.recv().await {
        let Ok(connection) = connection.into_std() else { continue };
        drop(to_server.send(&WorkerMessage::Connection(connection)).await);
    }
}

async fn count(cache: Arc<FlagCache>, to_server: Arc<WorkerSocket>) {
    let mut every = tokio::time::interval(COUNT_EVERY);
    loop {
        every.tick().await;
        drop(to_server.send(&WorkerMessage::Streams(cache.open_sockets())).await);
        if let Err(error) = send_insights(&cache, &to_server).await {
            tracing::warn!(%error, "failed to send insights; they are lost");
        }
    }
}

/// Sends insights to the server, in packets of bounded size.
async fn send_insights(cache: &FlagCache, to_server: &WorkerSocket) -> io::Result<()> {
    let Insights { flags, metrics, dropped } = cache.take_insights();
    if dropped > 0 {
        to_server
            .send(&WorkerMessage::Insights(Insights { dropped, ..Insights::default() }))
            .await?;
    }
    for flags in flags.chunks(PACKET_ROWS) {
        let flags = flags.to_vec();
        to_server.send(&WorkerMessage::Insights(Insights { flags, ..Insights::default() })).await?;
    }
    for metrics in metrics.chunks(PACKET_ROWS) {
        let metrics = metrics.to_vec();
        to_server
            .send(&WorkerMessage::Insights(Insights { metrics, ..Insights::default() }))
            .await?;
    }
    Ok(())
}

/// The response on a flags connection to a path that is not of feature flags.
fn elsewhere(prefix: &str, uri: &Uri) -> Response {
    match is_flag_path(prefix, uri.path().as_bytes()) {
        true => Error::NoRoute.into_response(),
        false => ([(CONNECTION, "close")], Error::OtherConnection).into_response(),
    }
}
