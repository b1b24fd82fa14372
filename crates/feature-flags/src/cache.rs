//! The node's environments and the grants of their secrets, in memory. APIs read them without locks;
//! [`crate::FlagFeed`] keeps them up to date.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::TenantNo;
use evaluation::{Flag, Segment, Snapshot, User};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::accounts::Accounts;
use crate::cached_environment::CachedEnvironment;
use crate::close;
use crate::entitled_keys::EntitledKeys;
use crate::entitled_user::{EntitledUser, NotKnown};
use crate::found_within::found_within;
use crate::insights::Insights;
use crate::key_ledger::KeyLedger;
use crate::message::Message;
use crate::profile::Profile;
use crate::rate_limit::{Limiters, RateLimits, RequestKind};
use crate::secret::{Digest, Secret, SecretKind};
use crate::subscribers::{Permits, Subscriber};
use crate::time::now_ms;

/// The pause between two steps of a drain.
const DRAIN_STEP: Duration = Duration::from_millis(10);

/// The longest share of a drain for one socket, so that a drain of a few is short.
const DRAIN_PER_SOCKET_MAX: Duration = Duration::from_millis(2);

/// How long a request waits until it is known what its user is entitled to.
const ENTITLED_WITHIN: Duration = Duration::from_secs(2);

/// An environment, as the store has it.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The id; FeatBit's clients call it `envId`.
    pub id: Uuid,
    /// Whose it is.
    pub tenant: TenantNo,
    /// Unique in its project.
    pub key: String,
    pub project_key: String,
    pub secrets: Vec<Secret>,
    /// Flags and segments, archived ones included.
    ///
    /// Each change has a later time than all before it in the environment: readers ask for what is
    /// later than the latest that they have.
    pub snapshot: Snapshot,
}

/// The cached environments of a node.
#[derive(Default)]
pub struct FlagCache {
    index: ArcSwap<Index>,
    writing: Mutex<()>,
    /// Notified when grants change.
    indexed: Notify,
    is_available: AtomicBool,
    is_draining: AtomicBool,
    /// Open sockets of FeatBit's streams.
    pub connections: Arc<Permits>,
    /// The entitlements of users' accounts.
    pub accounts: Arc<Accounts>,
    /// The keys of users who are entitled to something, for readers that evaluate by themselves.
    pub entitled_keys: Arc<EntitledKeys>,
    /// The accounts and users' keys that `entitled_keys` are made of, in a process that has the database.
    pub key_ledger: Arc<KeyLedger>,
}

#[derive(Default)]
struct Index {
    environments: BTreeMap<Uuid, Arc<CachedEnvironment>>,
    grants: HashMap<Digest, Arc<Grant>>,
    channels: HashMap<Box<str>, Arc<Grant>>,
}

/// The environments that a secret grants access to.
pub struct Grant {
    kind: SecretKind,
    /// Sorted by id; one, except for a relay proxy's secret.
    environments: Vec<Arc<CachedEnvironment>>,
    profiles: Vec<Arc<Profile>>,
    expires_at_ms: AtomicI64,
    /// The code with which its sockets close; 0: it is valid.
    revoked: AtomicU16,
    /// Made on first use.
    limiters: OnceLock<Limiters>,
    /// The hash of the secret.
    pub digest: Digest,
    /// The public name of its event stream.
    pub channel: Box<str>,
}

impl FlagCache {
    /// An empty cache that is not available yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the environments are loaded. Until they are, streams are closed with 1011 and
    /// requests get 503.
    pub fn set_available(&self, is_available: bool) {
        self.is_available.store(is_available, Ordering::Release);
    }

    /// Whether the environments are loaded.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.is_available.load(Ordering::Acquire)
    }

    /// Inserts environments, or replaces those of the same ids: at the start, and where names or
    /// secrets change. Sockets stay open while their grant stays valid.
    pub fn upsert(&self, environments: impl IntoIterator<Item = Environment>) {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.index.load_full();
        let mut all = before.environments.clone();
        let mut touched = vec![];
        for environment in environments {
            let Environment { id, tenant, key, project_key, secrets, snapshot } = environment;
            let secrets = secrets.into_iter().map(|it| (Digest::of(&it.value), it)).collect();
            let profile = Profile { key, project_key, secrets };
            let environment = match all.get(&id) {
                Some(environment) => {
                    environment.replace(profile, &snapshot);
                    Arc::clone(environment)
                }
                None => Arc::new(CachedEnvironment::new((id, tenant), profile, &snapshot)),
            };
            all.insert(id, Arc::clone(&environment));
            touched.push(environment);
        }
        self.reindex(&before, all, &touched);
        drop(writing);
    }

    /// Removes an environment. Its sockets are closed with 4003.
    pub fn remove(&self, id: Uuid) {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.index.load_full();
        let mut all = before.environments.clone();
        let touched: Vec<Arc<CachedEnvironment>> = all.remove(&id).into_iter().collect();
        self.reindex(&before, all, &touched);
        drop(writing);
    }

    fn reindex(
        &self,
        before: &Index,
        environments: BTreeMap<Uuid, Arc<CachedEnvironment>>,
        touched: &[Arc<CachedEnvironment>],
    ) {
        let index = Arc::new(Index::new(environments, before));
        self.index.store(Arc::clone(&index));
        self.indexed.notify_waiters();
        for (digest, grant) in &before.grants {
            let now = index.grants.get(digest);
            if now.is_some_and(|it| Arc::ptr_eq(it, grant)) {
                continue;
            }
            let is_replaced = now.is_some_and(|it| it.kind == grant.kind);
            grant.revoke(if is_replaced { close::SERVICE_RESTART } else { close::INVALID_REQUEST });
            grant.environments.iter().for_each(|it| it.subscribers.wake_all());
        }
        touched.iter().for_each(|it| it.subscribers.wake_all());
    }

    /// Applies committed changes of flags and segments to an environment and wakes its subscribers.
    /// Returns whether the environment is cached.
    ///
    /// A definition that is older than the cached one is ignored: changes may be published twice.
    pub fn apply(&self, id: Uuid, flags: Vec<Flag>, segments: Vec<Segment>) -> bool {
        let environment = self.index.load().environments.get(&id).cloned();
        if let Some(environment) = &environment {
            environment.apply(flags, segments);
        }
        environment.is_some()
    }

    #[must_use]
    pub fn environment(&self, id: Uuid) -> Option<Arc<CachedEnvironment>> {
        self.index.load().environments.get(&id).cloned()
    }

    /// The grant of a secret, if it is valid.
    #[must_use]
    pub fn find(&self, secret: &str) -> Option<Arc<Grant>> {
        let grant = self.index.load().grants.get(&Digest::of(secret)).cloned();
        grant.filter(|it| !it.has_expired(now_ms()))
    }

    /// The grant of a secret, if it is valid or becomes valid within `timeout`.
    pub async fn find_within(&self, secret: &str, timeout: Duration) -> Option<Arc<Grant>> {
        found_within(timeout, &self.indexed, || self.find(secret)).await
    }

    /// Whether the secret is cached, valid or expired.
    pub fn knows(&self, secret: &str) -> bool {
        self.index.load().grants.contains_key(&Digest::of(secret))
    }

    /// The grant whose event stream has this name.
    pub fn find_channel(&self, channel: &str) -> Option<Arc<Grant>> {
        let grant = self.index.load().channels.get(channel).cloned();
        grant.filter(|it| !it.has_expired(now_ms()))
    }

    /// A user with what it is entitled to, where the environment's flags depend on that; `None` where it was not
    /// found out in time.
    pub async fn with_entitled(
        &self,
        environment: &CachedEnvironment,
        user: User,
    ) -> Option<EntitledUser> {
        let mut it = EntitledUser::new(user);
        if environment.state().asks_for_entitled {
            let key = (environment.tenant(), it.user.key_id.as_str());
            let known = self.accounts.entitled(key, ENTITLED_WITHIN).await?;
            it.take(known);
        }
        Some(it)
    }

    /// All of an environment for a reader that evaluates by itself and has everything up to `timestamp`, where users who
    /// are entitled to something are a part of it.
    ///
    /// # Errors
    /// They were not found out in time.
    pub async fn with_entitled_keys(
        &self,
        environment: &CachedEnvironment,
        timestamp: i64,
    ) -> Result<Option<Message>, NotKnown> {
        let features = Arc::clone(&environment.state().entitled_features);
        if !environment.state().had_entitled_features {
            return Ok(None);
        }
        let keys = match features.is_empty() {
            true => Arc::default(),
            false => {
                let of = (environment.tenant(), &*features);
                self.entitled_keys.within(of, ENTITLED_WITHIN).await.ok_or(NotKnown)?
            }
        };
        let times = (timestamp, self.accounts.now().millis());
        let marked = environment.state().marked_sync(&keys, times);
        marked.map(|it| Some(it.message.clone())).ok_or(NotKnown)
    }

    /// Takes the counts of evaluations and metrics since the last call: the cache forgets them.
    #[must_use]
    pub fn take_insights(&self) -> Insights {
        let mut insights = Insights::default();
        for (id, environment) in &self.index.load().environments {
            environment.tally().drain_into(*id, &mut insights);
        }
        insights
    }

    /// Adds the counts that another process took. Those of environments that are not cached are
    /// dropped.
    pub fn add_insights(&self, insights: Insights) {
        let index = self.index.load();
        let Insights { flags, metrics, dropped } = insights;
        if let Some(any) = index.environments.values().next() {
            any.tally().add_dropped(dropped);
        }
        for it in flags {
            if let Some(environment) = index.environments.get(&it.environment) {
                environment.tally().add_flag(it);
            }
        }
        for it in metrics {
            if let Some(environment) = index.environments.get(&it.environment) {
                environment.tally().add_metric(it);
            }
        }
    }

    /// How many sockets of streams are open.
    #[must_use]
    pub fn open_sockets(&self) -> usize {
        self.connections.in_use()
    }

    /// Whether sockets are being closed because the node stops.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Closes all sockets with 1001, spread over `duration` at most, and new ones at once. Returns
    /// when all are closed, or `timeout` after the last was asked to.
    pub async fn drain(&self, duration: Duration, timeout: Duration) {
        self.is_draining.store(true, Ordering::Release);
        let environments: Vec<_> = self.index.load().environments.values().cloned().collect();
        let subscribers = |environments: &[Arc<CachedEnvironment>]| -> Vec<Arc<Subscriber>> {
            environments.iter().flat_map(|it| it.subscribers.all()).collect()
        };
        let all = subscribers(&environments);
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let duration = duration.min(DRAIN_PER_SOCKET_MAX.saturating_mul(count));
        let started = Instant::now();
        let mut closed = 0;
        while closed < all.len() {
            let due = due_count(all.len(), started.elapsed(), duration).max(closed);
            all[closed..due].iter().for_each(|it| it.close(close::GOING_AWAY));
            closed = due;
            if closed < all.len() {
                tokio::time::sleep(DRAIN_STEP).await;
            }
        }
        // Sockets that were opened meanwhile.
        subscribers(&environments).iter().for_each(|it| it.close(close::GOING_AWAY));
        let last_closed = Instant::now();
        while self.connections.in_use() > 0 && last_closed.elapsed() < timeout {
            tokio::time::sleep(DRAIN_STEP).await;
        }
    }
}

/// How many of all are due when this much of the duration has passed.
fn due_count(all: usize, passed: Duration, duration: Duration) -> usize {
    let (passed, duration) = (passed.as_micros(), duration.as_micros().max(1));
    let due = (all as u128).saturating_mul(passed) / duration;
    usize::try_from(due).unwrap_or(all).min(all)
}

/// An environment and the secret that grants it.
struct GrantedEnvironment {
    secret: Secret,
    environment: Arc<CachedEnvironment>,
    profile: Arc<Profile>,
}

impl Index {
    /// Grants that did not change stay the same objects: sockets hold them.
    fn new(environments: BTreeMap<Uuid, Arc<CachedEnvironment>>, before: &Self) -> Self {
        let mut found: HashMap<Digest, Vec<GrantedEnvironment>> = HashMap::new();
        for environment in environments.values() {
            let profile = Arc::clone(&environment.state().profile);
            for (digest, secret) in &profile.secrets {
                let granted = GrantedEnvironment {
                    secret: secret.clone(),
                    environment: Arc::clone(environment),
                    profile: Arc::clone(&profile),
                };
                found.entry(*digest).or_default().push(granted);
            }
        }
        let mut grants = HashMap::with_capacity(found.len());
        for (digest, granted) in found {
            let Some(grant) = Grant::new(digest, granted) else { continue };
            let known = before.grants.get(&digest).filter(|it| it.is_same(&grant));
            let grant = match known {
                Some(known) => {
                    let end = grant.expires_at_ms.into_inner();
                    known.expires_at_ms.store(end, Ordering::Release);
                    Arc::clone(known)
                }
                None => Arc::new(grant),
            };
            grants.insert(digest, grant);
        }
        let channels = grants.values().map(|it| (it.channel.clone(), Arc::clone(it))).collect();
        Self { environments, grants, channels }
    }
}

impl Grant {
    /// The grant of a secret of these environments. A secret that several of them claim, or as
    /// several kinds, grants nothing.
    fn new(digest: Digest, granted: Vec<GrantedEnvironment>) -> Option<Self> {
        let kind = granted[0].secret.kind;
        let is_clear = granted.iter().all(|it| it.secret.kind == kind)
            && (kind == SecretKind::RelayProxy || granted.len() == 1);
        if !is_clear {
            let ids: Vec<Uuid> = granted.iter().map(|it| it.environment.id()).collect();
            tracing::error!(
                kind = kind.text(),
                ?ids,
                "refused a secret that several environments claim"
            );
            return None;
        }
        let ends = granted.iter().map(|it| it.secret.expires_at_ms.unwrap_or(i64::MAX));
        Some(Self {
            kind,
            expires_at_ms: ends.max().unwrap_or(i64::MAX).into(),
            revoked: AtomicU16::default(),
            limiters: OnceLock::new(),
            channel: digest.channel().into(),
            digest,
            environments: granted.iter().map(|it| Arc::clone(&it.environment)).collect(),
            profiles: granted.into_iter().map(|it| it.profile).collect(),
        })
    }

    #[must_use]
    pub const fn kind(&self) -> SecretKind {
        self.kind
    }

    /// One, except for a relay proxy's secret.
    #[must_use]
    pub fn environments(&self) -> &[Arc<CachedEnvironment>] {
        &self.environments
    }

    /// Counts a use of the secret.
    ///
    /// # Errors
    /// How long to wait.
    pub fn check_rate(&self, limits: &RateLimits, kind: RequestKind) -> Result<(), Duration> {
        self.limiters.get_or_init(|| Limiters::new(limits)).check(kind)
    }

    /// The code with which its sockets close; none while it is valid.
    pub fn close_code(&self, now_ms: i64) -> Option<u16> {
        match self.revoked.load(Ordering::Acquire) {
            0 if self.has_expired(now_ms) => Some(close::INVALID_REQUEST),
            0 => None,
            code => Some(code),
        }
    }

    fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.load(Ordering::Acquire) <= now_ms
    }

    fn revoke(&self, code: u16) {
        self.revoked.store(code, Ordering::Release);
    }

    /// A relay proxy is sent secrets and names: it has to reconnect when they change.
    fn is_same(&self, other: &Self) -> bool {
        let same_live = |(one, other): (&Arc<CachedEnvironment>, &Arc<CachedEnvironment>)| {
            Arc::ptr_eq(one, other)
        };
        let same_profile =
            |(one, other): (&Arc<Profile>, &Arc<Profile>)| one.is_same_for_relays(other);
        self.kind == other.kind
            && self.environments.len() == other.environments.len()
            && self.environments.iter().zip(&other.environments).all(same_live)
            && (self.kind != SecretKind::RelayProxy
                || self.profiles.iter().zip(&other.profiles).all(same_profile))
    }
}
