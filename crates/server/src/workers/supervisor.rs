//! The server's side of one worker process: starts it, publishes commits to it, takes the connections
//! that it passes on, and restarts it.

use std::collections::HashMap;
use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::entitlement::Entitlements;
use domain::flag::definition::Definition;
use domain::{AccountId, EnvironmentId, TenantNo};
use engine::periodic::{Job, Pass, Periodic};
use engine::ports::{Audience, ChangedAccount, EntitlementAudience, EnvironmentFile};
use engine::{Clock, Engine};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc, watch};

use super::channel::{self, Pair, ServerMessage, WorkerMessage};
use super::{Drain, worker};
use config::Config;
use feature_flags::accounts::{Account, UserKey};
use feature_flags::entitled_keys::{KeyUpdate, TenantKeys};
use feature_flags::{EntitledKeys, FlagFeed, account_lookup};
use http_server::{AcceptedConnection, accepted};

/// The binary that runs, even where another was put in its place.
const OWN_BINARY: &str = "/proc/self/exe";

/// The pause before a worker that ended is restarted.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// How long a worker may send nothing: it sends its count of streams each second.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// Messages that may wait to be sent. A worker that leaves more unread is restarted, and then receives
/// the current state instead of every change.
const MESSAGES_WAITING_MAX: usize = 4_096;

/// Runs one worker.
pub struct Supervisor {
    pub number: usize,
    pub config: Config,
    pub engine: Engine,
    pub feed: FlagFeed,
    pub arrived: mpsc::Sender<AcceptedConnection>,
    pub streams: Arc<[AtomicUsize]>,
    pub stopped: watch::Receiver<Option<Drain>>,
}

impl Supervisor {
    /// Runs a worker and restarts it whenever it ends, until the server stops.
    pub async fn run(self, ready: mpsc::Sender<()>) {
        let mut stopped = self.stopped.clone();
        let stop = async move { drop(stopped.wait_for(Option::is_some).await) };
        let restarts = Restarts { supervisor: self, ready: Some(ready) };
        Periodic::every(RESTART_PAUSE).run_whole_passes(stop, restarts).await;
    }

    /// Runs a worker until it ends.
    async fn run_once(&mut self, ready: &mut Option<mpsc::Sender<()>>) -> io::Result<()> {
        let Pair { to_worker, from_worker, worker_input, worker_output } = Pair::new()?;
        let mut child = Command::new(OWN_BINARY)
            .arg(worker::COMMAND)
            .env_clear()
            .stdin(Stdio::from(worker_input))
            .stdout(Stdio::from(worker_output))
            .kill_on_drop(true)
            .spawn()?;
        let (messages, queued) = mpsc::channel(MESSAGES_WAITING_MAX);
        let to_worker = tokio::spawn(forward(to_worker, queued));
        let config = ServerMessage::Config(Box::new(self.config.clone()));
        messages.send(config).await.map_err(io::Error::other)?;
        let is_stuck = Arc::new(Notify::new());
        let (feed, stuck) = (self.feed.clone(), Arc::clone(&is_stuck));
        let clock = self.engine.clock().clone();
        let worker_feed = Arc::new(WorkerFeed { feed, clock, messages: messages.clone(), stuck });
        let mut stopped = self.stopped.clone();
        let is_stopped = async move { drop(stopped.wait_for(Option::is_some).await) };
        let accounts = engine::accounts::follow(
            self.engine.clone(),
            vec![Arc::clone(&worker_feed) as Arc<dyn EntitlementAudience>],
            std::future::pending(),
        );
        let following = engine::flags::follow(self.engine.clone(), worker_feed, is_stopped);
        let asked = WorkerKeys::default();
        let keys = asked.forward(&self.feed.cache.entitled_keys, &messages);
        let ended = tokio::select! {
            ended = self.listen(&from_worker, ready, (&messages, &asked)) => ended,
            () = accounts => Ok(()),
            () = keys => Ok(()),
            () = following => self.end(&mut child, (&messages, &asked), &from_worker).await,
            () = is_stuck.notified() => Err(io::Error::other("the worker does not read")),
        };
        to_worker.abort();
        ended
    }

    /// Handles the worker's messages until it ends.
    async fn listen(
        &self,
        from_worker: &channel::WorkerSocket,
        ready: &mut Option<mpsc::Sender<()>>,
        (to_worker, asked): (&mpsc::Sender<ServerMessage>, &WorkerKeys),
    ) -> io::Result<()> {
        loop {
            let received = tokio::time::timeout(SILENT_MAX, from_worker.receive()).await;
            let received = received.map_err(|_| io::Error::other("the worker is silent"))??;
            match received.ok_or_else(|| io::Error::other("the worker closed its socket"))? {
                WorkerMessage::Ready => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(()).await;
                    }
                }
                WorkerMessage::Streams(count) => {
                    self.streams[self.number].store(count, Ordering::Relaxed)
                }
                WorkerMessage::Insights(insights) => self.feed.cache.add_insights(insights),
                WorkerMessage::LookUp(users) => {
                    tokio::spawn(answer(self.engine.clone(), users, to_worker.clone()));
                }
                WorkerMessage::RequestKeys(tenant, features) => {
                    asked.add(self.feed.cache.entitled_keys.of(tenant, &features));
                }
                WorkerMessage::Connection(connection) => match accepted(connection) {
                    Ok(arrival) => drop(self.arrived.send(arrival).await),
                    Err(error) => tracing::debug!(%error, "a connection was gone"),
                },
            }
        }
    }

    /// Stops the worker and waits for its end.
    async fn end(
        &self,
        child: &mut Child,
        (messages, asked): (&mpsc::Sender<ServerMessage>, &WorkerKeys),
        from_worker: &channel::WorkerSocket,
    ) -> io::Result<()> {
        let Some(drain) = *self.stopped.borrow() else { return Ok(()) };
        drop(messages.send(ServerMessage::Stop(drain.over)).await);
        let mut no_waiter = None;
        let listening = self.listen(from_worker, &mut no_waiter, (messages, asked));
        let ended = async { tokio::join!(listening, child.wait()).1 };
        match tokio::time::timeout(drain.within, ended).await {
            Ok(ended) => ended.map(drop),
            Err(_) => child.kill().await,
        }
    }
}

/// The tenants of which a worker asked for users who are entitled to features.
#[derive(Default)]
struct WorkerKeys {
    /// Each with the time up to which it was sent.
    tenants: Mutex<HashMap<TenantNo, (Arc<TenantKeys>, i64)>>,
    has_more: Notify,
}

impl WorkerKeys {
    /// All of a tenant that is asked for again is sent again: the worker may have forgotten it.
    fn add(&self, keys: Arc<TenantKeys>) {
        self.tenants().insert(keys.tenant(), (keys, i64::MIN));
        self.has_more.notify_one();
    }

    /// Sends what is published of them, from now on.
    async fn forward(&self, keys: &EntitledKeys, to_worker: &mpsc::Sender<ServerMessage>) {
        let mut published = keys.published();
        loop {
            published.mark_unchanged();
            for update in self.updates() {
                if to_worker.send(ServerMessage::Keys(update)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = self.has_more.notified() => {}
                _ = published.changed() => {}
            }
        }
    }

    /// Takes the updates that were not sent yet.
    fn updates(&self) -> Vec<KeyUpdate> {
        let mut updates = vec![];
        for (keys, sent_ms) in self.tenants().values_mut() {
            let Some(update) = keys.since(*sent_ms) else { continue };
            *sent_ms = update.at_ms;
            updates.push(update);
        }
        updates
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantNo, (Arc<TenantKeys>, i64)>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks up the users that a worker wants.
async fn answer(engine: Engine, users: Vec<UserKey>, to_worker: mpsc::Sender<ServerMessage>) {
    let answer = match account_lookup::find(&engine, users.clone()).await {
        Ok(found) => ServerMessage::Found(found),
        Err(error) => {
            tracing::warn!(error = %error, "failed to look up users of feature flags; retried");
            tokio::time::sleep(account_lookup::AFTER_FAILURE).await;
            ServerMessage::NotFound(users)
        }
    };
    drop(to_worker.send(answer).await);
}

/// The job that runs a worker per pass.
struct Restarts {
    supervisor: Supervisor,
    /// Notified once the first worker is ready.
    ready: Option<mpsc::Sender<()>>,
}

impl Job for Restarts {
    async fn pass(&mut self) -> Pass {
        let Self { supervisor, ready } = self;
        let ended = supervisor.run_once(ready).await;
        supervisor.streams[supervisor.number].store(0, Ordering::Relaxed);
        if supervisor.stopped.borrow().is_some() {
            return Pass::Done;
        }
        let reason = ended.err().map(|error| error.to_string());
        tracing::error!(worker = supervisor.number, reason, "flag worker ended; restarting");
        Pass::Failed
    }
}

async fn forward(mut socket: tokio::net::UnixStream, mut messages: mpsc::Receiver<ServerMessage>) {
    while let Some(message) = messages.recv().await {
        if channel::send(&mut socket, &message).await.is_err() {
            return;
        }
    }
}

/// Publishes commits to a worker.
struct WorkerFeed {
    feed: FlagFeed,
    clock: Clock,
    messages: mpsc::Sender<ServerMessage>,
    stuck: Arc<Notify>,
}

impl WorkerFeed {
    fn send(&self, message: ServerMessage) {
        if self.messages.try_send(message).is_err() {
            self.stuck.notify_one();
        }
    }
}

impl Audience for WorkerFeed {
    fn environments(&self, files: Vec<EnvironmentFile>) {
        let all = files.into_iter().map(|file| self.feed.read(file)).collect();
        self.send(ServerMessage::Environments(all));
    }

    fn changed(&self, environment: EnvironmentId, definitions: Vec<Definition>) {
        let (flags, segments) = feature_flags::documents(environment, &definitions);
        self.send(ServerMessage::Changed { id: environment.uuid(), flags, segments });
    }

    fn caught_up(&self) {
        self.send(ServerMessage::CaughtUp);
    }
}

impl EntitlementAudience for WorkerFeed {
    fn follows(&self) {
        self.send(ServerMessage::FollowsAccounts);
    }

    /// Its worker processes know their users, and it does not.
    fn shows(&self, _: &ChangedAccount) -> bool {
        true
    }

    fn changed(&self, entitlements: &[Entitlements]) {
        let now = self.clock.now();
        let accounts = entitlements.iter().map(|it| Account::of(it, now)).collect();
        self.send(ServerMessage::Accounts(accounts));
    }

    fn used(&self, accounts: &[AccountId]) {
        self.send(ServerMessage::Used(accounts.iter().map(|it| it.uuid()).collect()));
    }
}
