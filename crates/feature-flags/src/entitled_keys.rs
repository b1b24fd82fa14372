//! The keys of the users who are entitled to features, for readers that evaluate by themselves: server SDKs and relay
//! proxies.
//!
//! They are kept for the tenants of which one is connected, or asked a while ago, in an environment whose flags name such
//! features. A [`crate::key_ledger::KeyLedger`] publishes them, in this process or in the server of which this
//! process is a worker.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use domain::TenantNo;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::found_within::found_within;
use crate::shard::{PublishedKeys, Shard};
use crate::subscribers::{Subscriber, Subscribers};
use crate::time::now_ms;

/// A tenant that nobody asks for is forgotten after this time.
const IDLE_MS: i64 = 600_000;

/// The keys of the tenants whose server SDKs ask for them.
pub struct EntitledKeys {
    tenants: Mutex<HashMap<TenantNo, Arc<TenantKeys>>>,
    /// Counts what was asked for that was not asked for before.
    wanted: watch::Sender<u64>,
    /// Counts what was published.
    published: watch::Sender<u64>,
}

/// The keys of a tenant.
pub struct TenantKeys {
    tenant: TenantNo,
    wanted: Mutex<BTreeSet<Box<str>>>,
    published: ArcSwap<PublishedKeys>,
    subscribers: Subscribers,
    used_at_ms: AtomicI64,
    found: tokio::sync::Notify,
}

/// A reader's place among those of its tenant; dropping it ends that.
pub struct FollowingKeys {
    tenant: Arc<TenantKeys>,
    slot: usize,
}

/// Keys that were published, in place of those of the same shards.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyUpdate {
    pub tenant: TenantNo,
    pub at_ms: i64,
    pub shards: Vec<SentShard>,
}

/// A shard that was published.
#[derive(Clone, Serialize, Deserialize)]
pub struct SentShard {
    pub feature: Box<str>,
    pub number: usize,
    pub at_ms: i64,
    pub keys: Vec<Box<str>>,
}

impl std::fmt::Debug for SentShard {
    /// Without the keys, which may name persons.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { feature, number, at_ms, keys: _ } = self;
        write!(f, "{feature}:{number} at {at_ms}")
    }
}

impl Default for EntitledKeys {
    fn default() -> Self {
        let (wanted, published) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { tenants: Mutex::default(), wanted, published }
    }
}

impl EntitledKeys {
    /// The keys of a tenant, and that these features are asked for.
    pub fn of(&self, tenant: TenantNo, features: &[Box<str>]) -> Arc<TenantKeys> {
        let mut tenants = self.tenants();
        let keys = tenants.entry(tenant).or_insert_with(|| Arc::new(TenantKeys::new(tenant)));
        let keys = Arc::clone(keys);
        drop(tenants);
        keys.used_at_ms.store(now_ms(), Ordering::Relaxed);
        let mut wanted = keys.wanted();
        let before = wanted.len();
        for feature in features {
            if !wanted.contains(feature) {
                wanted.insert(feature.clone());
            }
        }
        let is_more = wanted.len() > before;
        drop(wanted);
        if is_more {
            self.wanted.send_modify(|it| *it += 1);
        }
        keys
    }

    /// Keys of a tenant that have these features; `None` where they were not found in time.
    pub async fn within(
        &self,
        (tenant, features): (TenantNo, &[Box<str>]),
        timeout: Duration,
    ) -> Option<Arc<PublishedKeys>> {
        let keys = self.of(tenant, features);
        let find = || {
            Some(keys.published.load_full())
                .filter(|published| published.shards(features).is_some())
        };
        found_within(timeout, &keys.found, find).await
    }

    /// Tells of what is asked for that was not asked for before.
    #[must_use]
    pub fn wanted(&self) -> watch::Receiver<u64> {
        self.wanted.subscribe()
    }

    /// Tells of what is published.
    #[must_use]
    pub fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// The tenants whose keys are asked for. Those that nobody has asked for for a while are forgotten.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<TenantKeys>> {
        let mut tenants = self.tenants();
        let until_ms = now_ms().saturating_sub(IDLE_MS);
        tenants.retain(|_, it| {
            Arc::strong_count(it) > 1 || it.used_at_ms.load(Ordering::Relaxed) > until_ms
        });
        tenants.values().cloned().collect()
    }

    /// Publishes keys of a tenant and wakes its readers. Those of a tenant that is not asked for are passed over.
    pub fn publish(&self, update: KeyUpdate) {
        let Some(keys) = self.tenants().get(&update.tenant).cloned() else { return };
        let mut next = PublishedKeys::clone(&keys.published.load());
        next.at_ms = update.at_ms;
        for it in update.shards {
            let shards = next.features.entry(it.feature.clone()).or_default();
            let shard = Arc::new(Shard::new(&it.feature, it.number, it.at_ms, it.keys));
            match shards.get_mut(it.number) {
                Some(place) => *place = shard,
                None => shards.push(shard),
            }
        }
        keys.published.store(Arc::new(next));
        keys.found.notify_waiters();
        keys.subscribers.wake_all();
        self.published.send_modify(|it| *it += 1);
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantNo, Arc<TenantKeys>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TenantKeys {
    fn new(tenant: TenantNo) -> Self {
        Self {
            tenant,
            wanted: Mutex::default(),
            published: ArcSwap::default(),
            subscribers: Subscribers::default(),
            used_at_ms: AtomicI64::new(now_ms()),
            found: tokio::sync::Notify::new(),
        }
    }

    #[must_use]
    pub const fn tenant(&self) -> TenantNo {
        self.tenant
    }

    /// The features that are asked for.
    #[must_use]
    pub fn features(&self) -> BTreeSet<Box<str>> {
        self.wanted().clone()
    }

    /// The keys of the tenant that were published.
    pub fn published(&self) -> Guard<Arc<PublishedKeys>> {
        self.published.load()
    }

    /// The keys that were published after a time, in milliseconds since 1970; `None` where there are none.
    #[must_use]
    pub fn since(&self, after_ms: i64) -> Option<KeyUpdate> {
        let published = self.published.load();
        let features = published.features.iter();
        let shards = features.flat_map(|(feature, shards)| {
            let newer = shards.iter().enumerate().filter(|(_, it)| it.at_ms > after_ms);
            newer.map(|(number, it)| SentShard {
                feature: feature.clone(),
                number,
                at_ms: it.at_ms,
                keys: it.keys.clone(),
            })
        });
        let shards: Vec<SentShard> = shards.collect();
        let (tenant, at_ms) = (self.tenant, published.at_ms);
        (!shards.is_empty()).then_some(KeyUpdate { tenant, at_ms, shards })
    }

    /// Wakes a reader with each change.
    pub fn follow(self: &Arc<Self>, subscriber: &Arc<Subscriber>) -> FollowingKeys {
        // The streams of its environments are bounded already.
        let slot = self.subscribers.add(subscriber, usize::MAX).unwrap_or_default();
        FollowingKeys { tenant: Arc::clone(self), slot }
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeSet<Box<str>>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FollowingKeys {
    /// The keys that are followed.
    #[must_use]
    pub fn keys(&self) -> &TenantKeys {
        &self.tenant
    }
}

impl Drop for FollowingKeys {
    fn drop(&mut self) {
        self.tenant.subscribers.remove(self.slot);
    }
}
