//! The environments of this node and what opens them, in memory. Doors read it without locks;
//! whoever knows the store keeps it up to date.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use evaluation::{Flag, Segment, Snapshot};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::insights::Insights;
use crate::limit::{Limiters, RateLimits, Sort};
use crate::live::Live;
use crate::secret::{Digest, Secret, SecretKind};
use crate::sockets::Open;
use crate::state::Profile;
use crate::streaming::close;

/// How often a drain looks whom to close next, and whether all are gone.
const DRAIN_STEP: Duration = Duration::from_millis(10);

/// How long a drain takes for each socket at most: few are not to be waited for.
const DRAIN_EACH_MAX: Duration = Duration::from_millis(2);

/// An environment as its owner knows it.
#[derive(Clone, Debug)]
pub struct Environment {
    /// What FeatBit calls `envId`.
    pub id: Uuid,
    /// Its key in its project.
    pub key: String,
    /// The key of its project.
    pub project_key: String,
    /// What opens it.
    pub secrets: Vec<Secret>,
    /// Its flags and segments, those that are put away included.
    ///
    /// Each change has a later time than all before it in the environment: readers ask for what is
    /// later than the latest that they have.
    pub snapshot: Snapshot,
}

/// All environments of this node.
#[derive(Default)]
pub struct Board {
    index: ArcSwap<Index>,
    writing: Mutex<()>,
    /// Told when what secrets open was changed.
    indexed: Notify,
    is_available: AtomicBool,
    is_draining: AtomicBool,
    pub(crate) open: Arc<Open>,
}

#[derive(Default)]
struct Index {
    environments: BTreeMap<Uuid, Arc<Live>>,
    grants: HashMap<Digest, Arc<Grant>>,
    channels: HashMap<Box<str>, Arc<Grant>>,
}

/// What a secret opens.
pub struct Grant {
    kind: SecretKind,
    /// In the order of their ids; one, except for a relay proxy's secret.
    environments: Vec<Arc<Live>>,
    profiles: Vec<Arc<Profile>>,
    expires_at_ms: AtomicI64,
    /// The code that sockets which came in by it close with; 0: it is good.
    revoked: AtomicU16,
    /// What is left of its limits; made when it is used first.
    limiters: OnceLock<Limiters>,
    /// By what those are found who listen to what it opens.
    pub(crate) channel: Box<str>,
}

impl Board {
    /// A board without anything, which says that it is not available.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says whether the environments are those of the store. While they are not, streams are told
    /// to come again (1011) and requests get 503.
    pub fn set_available(&self, is_available: bool) {
        self.is_available.store(is_available, Ordering::Release);
    }

    /// Whether the environments are those of the store.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.is_available.load(Ordering::Acquire)
    }

    /// Puts environments on the board, in place of those of the same ids: at the start, and where
    /// names or secrets change. Sockets stay, if what they came in by is still good.
    pub fn put(&self, environments: impl IntoIterator<Item = Environment>) {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.index.load_full();
        let mut all = before.environments.clone();
        let mut touched = vec![];
        for environment in environments {
            let Environment { id, key, project_key, secrets, snapshot } = environment;
            let secrets = secrets.into_iter().map(|it| (Digest::of(&it.value), it)).collect();
            let profile = Profile { key, project_key, secrets };
            let live = match all.get(&id) {
                Some(live) => {
                    live.replace(profile, &snapshot);
                    Arc::clone(live)
                }
                None => Arc::new(Live::new(id, profile, &snapshot)),
            };
            all.insert(id, Arc::clone(&live));
            touched.push(live);
        }
        self.index_again(&before, all, &touched);
        drop(writing);
    }

    /// Takes an environment off the board. Its sockets are closed for good.
    pub fn remove(&self, id: Uuid) {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.index.load_full();
        let mut all = before.environments.clone();
        let touched: Vec<Arc<Live>> = all.remove(&id).into_iter().collect();
        self.index_again(&before, all, &touched);
        drop(writing);
    }

    fn index_again(
        &self,
        before: &Index,
        environments: BTreeMap<Uuid, Arc<Live>>,
        touched: &[Arc<Live>],
    ) {
        let index = Arc::new(Index::new(environments, before));
        self.index.store(Arc::clone(&index));
        self.indexed.notify_waiters();
        for (digest, grant) in &before.grants {
            let now = index.grants.get(digest);
            if now.is_some_and(|it| Arc::ptr_eq(it, grant)) {
                continue;
            }
            let opens_still = now.is_some_and(|it| it.kind == grant.kind);
            grant.revoke(if opens_still { close::COME_AGAIN } else { close::INVALID_REQUEST });
            grant.environments.iter().for_each(|it| it.sockets.wake());
        }
        touched.iter().for_each(|it| it.sockets.wake());
    }

    /// Takes in flags and segments of an environment that were changed and committed, and has its
    /// sockets told. Says whether there is such an environment.
    ///
    /// What is older than what the board has is passed over: changes may be told twice.
    pub fn change(&self, id: Uuid, flags: Vec<Flag>, segments: Vec<Segment>) -> bool {
        let live = self.index.load().environments.get(&id).cloned();
        if let Some(live) = &live {
            live.change(flags, segments);
        }
        live.is_some()
    }

    /// An environment.
    #[must_use]
    pub fn environment(&self, id: Uuid) -> Option<Arc<Live>> {
        self.index.load().environments.get(&id).cloned()
    }

    /// What a secret opens, if it is good.
    #[must_use]
    pub fn find(&self, secret: &str) -> Option<Arc<Grant>> {
        let grant = self.index.load().grants.get(&Digest::of(secret)).cloned();
        grant.filter(|it| !it.has_expired(now_ms()))
    }

    /// What a secret opens, if it is good or becomes so within `patience`.
    pub async fn find_within(&self, secret: &str, patience: Duration) -> Option<Arc<Grant>> {
        let waiting = async {
            loop {
                // Before the look: what is put on the board behind it is heard of.
                let indexed = self.indexed.notified();
                if let Some(grant) = self.find(secret) {
                    return grant;
                }
                indexed.await;
            }
        };
        tokio::time::timeout(patience, waiting).await.ok()
    }

    /// Whether there is such a secret, good or ended.
    pub(crate) fn knows(&self, secret: &str) -> bool {
        self.index.load().grants.contains_key(&Digest::of(secret))
    }

    /// What the listeners to a channel came in by.
    pub(crate) fn find_channel(&self, channel: &str) -> Option<Arc<Grant>> {
        let grant = self.index.load().channels.get(channel).cloned();
        grant.filter(|it| !it.has_expired(now_ms()))
    }

    /// What SDKs told of their evaluations since this was asked last: it is kept nowhere else.
    #[must_use]
    pub fn take_insights(&self) -> Insights {
        let mut insights = Insights::default();
        for (id, live) in &self.index.load().environments {
            live.tally().drain_into(*id, &mut insights);
        }
        insights
    }

    /// Counts what the board of another process took. What is of an environment that is not here is
    /// lost.
    pub fn add_insights(&self, insights: Insights) {
        let index = self.index.load();
        let Insights { flags, metrics, dropped } = insights;
        if let Some(any) = index.environments.values().next() {
            any.tally().add_dropped(dropped);
        }
        for it in flags {
            if let Some(live) = index.environments.get(&it.environment) {
                live.tally().add_flag(it);
            }
        }
        for it in metrics {
            if let Some(live) = index.environments.get(&it.environment) {
                live.tally().add_metric(it);
            }
        }
    }

    /// How many sockets are open.
    #[must_use]
    pub fn open_sockets(&self) -> usize {
        self.open.count()
    }

    /// Whether sockets are being closed because the node stops.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Closes all sockets with 1001, one after the other in so much time at most, and those at once
    /// that come meanwhile; returns when all are gone, or have been told so and were given `patience`.
    pub async fn drain(&self, over: Duration, patience: Duration) {
        self.is_draining.store(true, Ordering::Release);
        let environments: Vec<_> = self.index.load().environments.values().cloned().collect();
        let seats: Vec<_> = environments.iter().flat_map(|it| it.sockets.all()).collect();
        let each = u32::try_from(seats.len()).unwrap_or(u32::MAX);
        let over = over.min(DRAIN_EACH_MAX.saturating_mul(each));
        let started = Instant::now();
        let mut told = 0;
        while told < seats.len() {
            let due = share(seats.len(), started.elapsed(), over);
            seats[told..due.max(told)].iter().for_each(|seat| seat.close(close::GOING_AWAY));
            told = due.max(told);
            if told < seats.len() {
                tokio::time::sleep(DRAIN_STEP).await;
            }
        }
        // Sockets that were let in while the others were counted.
        let rest = environments.iter().flat_map(|it| it.sockets.all());
        rest.for_each(|seat| seat.close(close::GOING_AWAY));
        let told_at = Instant::now();
        while self.open.count() > 0 && told_at.elapsed() < patience {
            tokio::time::sleep(DRAIN_STEP).await;
        }
    }
}

/// How many of them are due when so much of the time has passed.
fn share(all: usize, passed: Duration, over: Duration) -> usize {
    let (passed, over) = (passed.as_micros(), over.as_micros().max(1));
    let due = (all as u128).saturating_mul(passed) / over;
    usize::try_from(due).unwrap_or(all).min(all)
}

/// An environment that a secret opens.
struct Opened {
    secret: Secret,
    live: Arc<Live>,
    profile: Arc<Profile>,
}

impl Index {
    /// Grants that are as they were are taken over: sockets hold on to them.
    fn new(environments: BTreeMap<Uuid, Arc<Live>>, before: &Self) -> Self {
        let mut found: HashMap<Digest, Vec<Opened>> = HashMap::new();
        for live in environments.values() {
            let profile = Arc::clone(&live.state().profile);
            for (digest, secret) in &profile.secrets {
                let (secret, live) = (secret.clone(), Arc::clone(live));
                let opened = Opened { secret, live, profile: Arc::clone(&profile) };
                found.entry(*digest).or_default().push(opened);
            }
        }
        let mut grants = HashMap::with_capacity(found.len());
        for (digest, opened) in found {
            let Some(grant) = Grant::new(digest.channel(), opened) else { continue };
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
    /// What a secret opens that these environments have. One that several of them claim, or for
    /// several purposes, opens nothing.
    fn new(channel: String, opened: Vec<Opened>) -> Option<Self> {
        let kind = opened[0].secret.kind;
        let is_clear = opened.iter().all(|it| it.secret.kind == kind)
            && (kind == SecretKind::RelayProxy || opened.len() == 1);
        if !is_clear {
            let ids: Vec<Uuid> = opened.iter().map(|it| it.live.id()).collect();
            tracing::error!(
                kind = kind.text(),
                ?ids,
                "a secret of several environments is refused"
            );
            return None;
        }
        let ends = opened.iter().map(|it| it.secret.expires_at_ms.unwrap_or(i64::MAX));
        Some(Self {
            kind,
            expires_at_ms: ends.max().unwrap_or(i64::MAX).into(),
            revoked: AtomicU16::default(),
            limiters: OnceLock::new(),
            channel: channel.into(),
            environments: opened.iter().map(|it| Arc::clone(&it.live)).collect(),
            profiles: opened.into_iter().map(|it| it.profile).collect(),
        })
    }

    /// What it opens.
    #[must_use]
    pub const fn kind(&self) -> SecretKind {
        self.kind
    }

    /// The environments; one, except for a relay proxy's secret.
    #[must_use]
    pub fn environments(&self) -> &[Arc<Live>] {
        &self.environments
    }

    /// Counts a use of the secret, or says how long to wait.
    pub(crate) fn check_rate(&self, limits: &RateLimits, sort: Sort) -> Result<(), Duration> {
        self.limiters.get_or_init(|| Limiters::new(limits)).check(sort)
    }

    /// The code to close with what came in by it; nothing while it is good.
    pub(crate) fn ended(&self, now_ms: i64) -> Option<u16> {
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

    /// A relay proxy is given secrets and names: it has to come again where they change.
    fn is_same(&self, other: &Self) -> bool {
        let same_live = |(one, other): (&Arc<Live>, &Arc<Live>)| Arc::ptr_eq(one, other);
        let same_profile = |(one, other): (&Arc<Profile>, &Arc<Profile>)| one.is_told_as(other);
        self.kind == other.kind
            && self.environments.len() == other.environments.len()
            && self.environments.iter().zip(&other.environments).all(same_live)
            && (self.kind != SecretKind::RelayProxy
                || self.profiles.iter().zip(&other.profiles).all(same_profile))
    }
}

/// Milliseconds since 1970, by the real time.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
