//! The server's side of one worker: starts it, tells it what is committed, takes what it hands over,
//! and starts it again where it ends.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::EnvironmentId;
use domain::definition::Definition;
use engine::Engine;
use engine::ports::{Audience, EnvironmentFile};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc, watch};

use super::pipe::{self, Pair, Said, Told};
use super::sorter::{self, Arrival};
use super::{Drain, worker};
use crate::config::Config;
use crate::flags::Feed;

/// The binary that runs, even where another was put in its place.
const OWN_BINARY: &str = "/proc/self/exe";

/// How long to wait before a worker that ended is started again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a worker may say nothing: it tells how many streams it has each second.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// What may wait to be told. A worker that lets so much wait is ended and started again: then it is
/// told how everything is, not how it became so.
const WORDS_WAITING_MAX: usize = 4_096;

/// Looks after one worker.
pub struct Supervisor {
    pub number: usize,
    pub config: Config,
    pub engine: Engine,
    /// Reads what is committed.
    pub feed: Feed,
    pub arrived: mpsc::Sender<Arrival>,
    pub streams: Arc<[AtomicUsize]>,
    pub stopped: watch::Receiver<Option<Drain>>,
}

impl Supervisor {
    /// Keeps a worker running until all are stopped.
    pub async fn run(mut self, ready: mpsc::Sender<()>) {
        let mut ready = Some(ready);
        loop {
            let ended = self.one(&mut ready).await;
            self.streams[self.number].store(0, Ordering::Relaxed);
            if self.stopped.borrow().is_some() {
                return;
            }
            let reason = ended.err().map(|error| error.to_string());
            tracing::error!(worker = self.number, reason, "a worker of feature flags ended");
            tokio::select! {
                () = tokio::time::sleep(AGAIN_AFTER) => {}
                _ = self.stopped.wait_for(Option::is_some) => return,
            }
        }
    }

    /// Runs a worker until it ends.
    async fn one(&mut self, ready: &mut Option<mpsc::Sender<()>>) -> io::Result<()> {
        let Pair { telling, hearing, worker_input, worker_output } = Pair::new()?;
        let mut child = Command::new(OWN_BINARY)
            .arg(worker::COMMAND)
            .env_clear()
            .stdin(Stdio::from(worker_input))
            .stdout(Stdio::from(worker_output))
            .kill_on_drop(true)
            .spawn()?;
        let (words, heard) = mpsc::channel(WORDS_WAITING_MAX);
        let telling = tokio::spawn(tell(telling, heard));
        let config = Told::Config(Box::new(self.config.clone()));
        words.send(config).await.map_err(io::Error::other)?;
        let is_stuck = Arc::new(Notify::new());
        let (feed, stuck) = (self.feed.clone(), Arc::clone(&is_stuck));
        let teller = Arc::new(Teller { feed, words: words.clone(), stuck });
        let mut stopped = self.stopped.clone();
        let is_stopped = async move { drop(stopped.wait_for(Option::is_some).await) };
        let following = engine::flags::follow(self.engine.clone(), teller, is_stopped);
        let ended = tokio::select! {
            ended = self.listen(&hearing, ready) => ended,
            () = following => self.end(&mut child, &words, &hearing).await,
            () = is_stuck.notified() => Err(io::Error::other("it does not listen")),
        };
        telling.abort();
        ended
    }

    /// Takes what the worker says until it ends.
    async fn listen(
        &self,
        hearing: &pipe::Packets,
        ready: &mut Option<mpsc::Sender<()>>,
    ) -> io::Result<()> {
        loop {
            let said = tokio::time::timeout(SILENT_MAX, hearing.hear()).await;
            let said = said.map_err(|_| io::Error::other("it says nothing"))??;
            match said.ok_or_else(|| io::Error::other("it hung up"))? {
                Said::Ready => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(()).await;
                    }
                }
                Said::Streams(count) => self.streams[self.number].store(count, Ordering::Relaxed),
                Said::Insights(insights) => self.feed.board.add_insights(insights),
                Said::Handed(connection) => match sorter::arrival(connection) {
                    Ok(arrival) => drop(self.arrived.send(arrival).await),
                    Err(error) => tracing::debug!(%error, "a connection was gone"),
                },
            }
        }
    }

    /// Tells the worker to end, and waits until it has.
    async fn end(
        &self,
        child: &mut Child,
        words: &mpsc::Sender<Told>,
        hearing: &pipe::Packets,
    ) -> io::Result<()> {
        let Some(drain) = *self.stopped.borrow() else { return Ok(()) };
        drop(words.send(Told::Stop(drain.over)).await);
        let mut nobody = None;
        let listening = self.listen(hearing, &mut nobody);
        let ended = async { tokio::join!(listening, child.wait()).1 };
        match tokio::time::timeout(drain.within, ended).await {
            Ok(ended) => ended.map(drop),
            Err(_) => child.kill().await,
        }
    }
}

async fn tell(mut pipe: tokio::net::UnixStream, mut words: mpsc::Receiver<Told>) {
    while let Some(told) = words.recv().await {
        if pipe::tell(&mut pipe, &told).await.is_err() {
            return;
        }
    }
}

/// Tells a worker what is committed.
struct Teller {
    feed: Feed,
    words: mpsc::Sender<Told>,
    stuck: Arc<Notify>,
}

impl Teller {
    fn read(&self, file: EnvironmentFile) -> pipe::Environment {
        let read = self.feed.read(file);
        let secrets = read.secrets.into_iter().map(|it| pipe::Secret {
            kind: it.kind.text().to_owned(),
            value: it.value,
            expires_at_ms: it.expires_at_ms,
        });
        pipe::Environment {
            id: read.id,
            key: read.key,
            project_key: read.project_key,
            secrets: secrets.collect(),
            flags: read.flags,
            segments: read.segments,
        }
    }

    fn tell(&self, told: Told) {
        if self.words.try_send(told).is_err() {
            self.stuck.notify_one();
        }
    }
}

impl Audience for Teller {
    fn environments(&self, files: Vec<EnvironmentFile>) {
        let all = files.into_iter().map(|file| self.read(file)).collect();
        self.tell(Told::Environments(all));
    }

    fn changed(&self, environment: EnvironmentId, definitions: Vec<Definition>) {
        let (flags, segments) = crate::flags::documents(environment, &definitions);
        self.tell(Told::Changed { id: environment.uuid(), flags, segments });
    }

    fn caught_up(&self) {
        self.tell(Told::CaughtUp);
    }
}
