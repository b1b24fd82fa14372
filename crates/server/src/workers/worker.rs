//! A worker: the doors of feature flags in a process of their own.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ::flags::{Board, Environment, Insights, Secret, SecretKind};
use axum::response::{IntoResponse as _, Response};
use evaluation::{MissingAttribute, Snapshot};
use http::Uri;
use http::header::CONNECTION;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::pipe::{self, Packets, Said, Told};
use super::sorter::{Sorter, is_of_flags};
use crate::config::Config;
use crate::http::Admission;
use crate::http::listener::{self, Arrivals};
use crate::logging;
use crate::problem::Problem;
use crate::serve::{self, Signals};

/// What the server calls its own binary with.
pub const COMMAND: &str = "flag-worker";

/// File descriptors that are not for clients.
const OPEN_FILES_OWN: u64 = 64;

/// Connections that wait to be handed over.
const HANDING_OVER_MAX: usize = 1_024;

/// Rows of insights in a packet: names have up to 256 bytes, and JSON may make six of each.
const PACKET_ROWS: usize = 8;

/// How often the server is told how many streams are open, and what programs told.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// How long to wait for what the server tells at first, before listening without it.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long a stream that was told to go may take to do so.
const FAREWELL: Duration = Duration::from_secs(3);

/// Serves until the server says that it is enough, or is gone.
///
/// # Errors
/// Where nobody called it as a server does, or the port cannot be had.
pub fn run() -> anyhow::Result<ExitCode> {
    // The threads are as many as the server says: it has to be heard first.
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = first.block_on(async { pipe::hear(&mut pipe::inherited()?.0).await });
    drop(first);
    let Ok(Told::Config(config)) = told else {
        anyhow::bail!("this command is for the server itself: set `flags.workers`")
    };
    logging::start(&config)?;
    Ok(serve::runtime(&config)?.block_on(serve(&config))?)
}

async fn serve(config: &Config) -> io::Result<ExitCode> {
    let (told, said) = pipe::inherited()?;
    let said = Arc::new(said);
    // The server ends its workers: signals of a terminal or a service manager come to both.
    let mut signals = Signals::new()?;
    tokio::spawn(async move {
        loop {
            signals.wait().await;
        }
    });
    let connections_max = serve::connections_max(config, serve::raise_open_files(), OPEN_FILES_OWN);
    let board = Arc::<Board>::default();
    let missing = config.flags.missing_attribute.rule();
    let following = tokio::spawn(follow(told, missing, Arc::clone(&board)));
    is_told(&board, &following).await;
    let listener = bind(config.listen)?;
    let (others, handed) = mpsc::channel(HANDING_OVER_MAX);
    tokio::spawn(hand_over(handed, Arc::clone(&said)));
    let (stopping, stopped) = watch::channel(false);
    let settings = serve::flag_settings(config);
    let prefix = config.flags.path_prefix.clone();
    let router = ::flags::router(Arc::clone(&board), settings)
        .fallback(async move |uri: Uri| elsewhere(&prefix, &uri));
    let front = serve::front(config, Admission::new(config.admission.requests_max), |_| router);
    let sorter = Sorter::new(config.flags.path_prefix.clone(), others);
    let manners = serve::manners(config, None, connections_max, Some(sorter));
    let arrivals = Arrivals::Listening(listener);
    let accepting = tokio::spawn(listener::serve(arrivals, Arc::new(front), manners, stopped));
    said.say(&Said::Ready).await?;
    tokio::spawn(count(Arc::clone(&board), Arc::clone(&said)));
    let over = match following.await.map_err(io::Error::other)? {
        Ok(over) => over,
        Err(error) => {
            tracing::error!(%error, "the server is gone: its worker ends");
            return Ok(ExitCode::FAILURE);
        }
    };
    stopping.send_replace(true);
    board.drain(over, FAREWELL).await;
    drop(tokio::time::timeout(FAREWELL, accepting).await);
    tell_insights(&board, &said).await?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until all environments were told, but not for long: whoever asks for them meanwhile is told
/// to come again, and others have not come for them.
async fn is_told(board: &Board, following: &JoinHandle<io::Result<Duration>>) {
    let given_up_at = tokio::time::Instant::now() + TOLD_WITHIN;
    while !board.is_available() && !following.is_finished() {
        if tokio::time::Instant::now() >= given_up_at {
            tracing::warn!("the feature flags are not told yet");
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = super::sharing(address)?;
    socket.bind(&address.into())?;
    socket.listen(listener::BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Does as it is told until that is to end.
async fn follow(
    mut told: UnixStream,
    missing: MissingAttribute,
    board: Arc<Board>,
) -> io::Result<Duration> {
    loop {
        match pipe::hear(&mut told).await? {
            Told::Config(_) => {}
            Told::Environments(all) => board.put(all.into_iter().map(|it| Environment {
                id: it.id,
                key: it.key,
                project_key: it.project_key,
                secrets: it.secrets.into_iter().filter_map(secret).collect(),
                snapshot: Snapshot::new(missing).with(it.flags, it.segments),
            })),
            Told::Changed { id, flags, segments } => {
                board.change(id, flags, segments);
            }
            Told::CaughtUp => board.set_available(true),
            Told::Stop(over) => return Ok(over),
        }
    }
}

fn secret(it: pipe::Secret) -> Option<Secret> {
    let kind = SecretKind::named(&it.kind)?;
    Some(Secret { kind, value: it.value, expires_at_ms: it.expires_at_ms })
}

async fn hand_over(mut handed: mpsc::Receiver<tokio::net::TcpStream>, said: Arc<Packets>) {
    while let Some(connection) = handed.recv().await {
        let Ok(connection) = connection.into_std() else { continue };
        drop(said.say(&Said::Handed(connection)).await);
    }
}

async fn count(board: Arc<Board>, said: Arc<Packets>) {
    let mut every = tokio::time::interval(COUNT_EVERY);
    loop {
        every.tick().await;
        drop(said.say(&Said::Streams(board.open_sockets())).await);
        if let Err(error) = tell_insights(&board, &said).await {
            tracing::warn!(%error, "insights are lost");
        }
    }
}

/// Tells the server what programs told of flags, in packets that are not too long.
async fn tell_insights(board: &Board, said: &Packets) -> io::Result<()> {
    let Insights { flags, metrics, dropped } = board.take_insights();
    if dropped > 0 {
        said.say(&Said::Insights(Insights { dropped, ..Insights::default() })).await?;
    }
    for flags in flags.chunks(PACKET_ROWS) {
        let flags = flags.to_vec();
        said.say(&Said::Insights(Insights { flags, ..Insights::default() })).await?;
    }
    for metrics in metrics.chunks(PACKET_ROWS) {
        let metrics = metrics.to_vec();
        said.say(&Said::Insights(Insights { metrics, ..Insights::default() })).await?;
    }
    Ok(())
}

/// What a client gets that asks on a connection of feature flags for what is nowhere, or elsewhere.
fn elsewhere(prefix: &str, uri: &Uri) -> Response {
    match is_of_flags(prefix, uri.path().as_bytes()) {
        true => Problem::NoRoute.into_response(),
        false => ([(CONNECTION, "close")], Problem::OtherConnection).into_response(),
    }
}
