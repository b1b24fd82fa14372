//! Which accounts are entitled to features, and by which keys programs name their users: what [`EntitledKeys`] are made of.
//!
//! One task reads what [`KeyLedger::next_work`] asks for, all accounts of a tenant at first, then those that changed. Its
//! reads follow each other, so that what is learned later is newer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use domain::entitlement::Entitlements;
use domain::{AccountId, TenantNo, Timestamp};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::entitled_keys::{EntitledKeys, KeyUpdate, SentShard, TenantKeys};
use crate::shard::{SHARD_KEYS_MAX, SHARDS, number_of};

/// How many keys of users a feature has at most. More are left out.
pub const FEATURE_KEYS_MAX: usize = 100_000;

/// How many accounts are read together.
pub const ACCOUNTS_MAX: usize = 256;

/// From so many on, a feature's keys are a matter for an operator.
const MANY_KEYS: usize = FEATURE_KEYS_MAX / 10 * 8;

/// Which accounts are entitled to features, of the tenants whose keys are asked for.
#[derive(Default)]
pub struct KeyLedger {
    known: Mutex<Known>,
    has_work: Notify,
    has_changed: Notify,
}

#[derive(Default)]
struct Known {
    /// Whether changes are published.
    has_begun: bool,
    tenants: BTreeMap<TenantNo, Tenant>,
}

#[derive(Default)]
struct Tenant {
    published: Weak<TenantKeys>,
    loaded: BTreeSet<Box<str>>,
    loading: Option<Loading>,
    accounts: HashMap<Uuid, Holder>,
    features: BTreeMap<Box<str>, Holders>,
    /// Accounts to be read.
    changed: BTreeSet<Uuid>,
    at_ms: i64,
}

/// How far all accounts were read.
struct Loading {
    features: BTreeSet<Box<str>>,
    after: Option<AccountId>,
}

/// An account that is entitled to features that are asked for.
#[derive(Default, PartialEq, Eq)]
struct Holder {
    keys: Vec<Box<str>>,
    features: Vec<Box<str>>,
}

/// The users who are entitled to a feature.
struct Holders {
    /// By their keys, with their accounts.
    shards: Vec<BTreeMap<Box<str>, Uuid>>,
    keys: usize,
    /// The shards that are not published.
    changed: BTreeSet<usize>,
    /// Whether a key was left out, which is logged once.
    is_full: bool,
}

/// The accounts to be read.
#[derive(Clone, Debug)]
pub enum KeyWork {
    /// The next accounts of a tenant, at most [`ACCOUNTS_MAX`].
    Next { tenant: TenantNo, after: Option<AccountId> },
    /// Accounts that changed.
    Changed { tenant: TenantNo, accounts: Vec<AccountId> },
}

/// The entitlements of an account and the keys of its users, as they were read.
pub struct FoundKeys {
    pub account: AccountId,
    /// `None` where it was never entitled to anything.
    pub entitlements: Option<Entitlements>,
    /// The keys of its users; empty where it is entitled to nothing.
    pub keys: Vec<String>,
}

impl KeyLedger {
    /// From now on [`Self::changed`] gets every change: accounts may be read.
    pub fn begin(&self) {
        self.known().has_begun = true;
        self.has_work.notify_one();
    }

    /// Whether keys of a tenant's users are asked for.
    #[must_use]
    pub fn shows(&self, tenant: TenantNo) -> bool {
        self.known().tenants.contains_key(&tenant)
    }

    /// Receives changed entitlements; queues a read of the accounts with a feature that is asked for, now or before.
    pub fn changed(&self, changed: &[Entitlements]) {
        let mut known = self.known();
        let mut has_work = false;
        for it in changed {
            let Some(tenant) = known.tenants.get_mut(&it.tenant) else { continue };
            let account = it.account_id.uuid();
            let has_one = it.grants.iter().any(|it| tenant.tracks(&it.feature));
            if has_one || tenant.accounts.contains_key(&account) {
                has_work |= tenant.changed.insert(account);
            }
        }
        drop(known);
        if has_work {
            self.has_work.notify_one();
        }
    }

    /// Waits for accounts to be read; [`Self::learn`] or [`Self::failed`] ends that work. One caller at a time.
    pub async fn next_work(&self, keys: &EntitledKeys) -> KeyWork {
        let mut wanted = keys.wanted();
        loop {
            wanted.mark_unchanged();
            if let Some(work) = self.work(keys) {
                return work;
            }
            tokio::select! {
                () = self.has_work.notified() => {}
                _ = wanted.changed() => {}
            }
        }
    }

    fn work(&self, keys: &EntitledKeys) -> Option<KeyWork> {
        let asked_for = keys.all();
        let mut known = self.known();
        known.take_over(&asked_for);
        known.work()
    }

    /// Takes over what was read.
    pub fn learn(&self, work: &KeyWork, found: Vec<FoundKeys>, now: Timestamp) {
        let mut known = self.known();
        let (KeyWork::Next { tenant, .. } | KeyWork::Changed { tenant, .. }) = work;
        let Some(tenant) = known.tenants.get_mut(tenant) else { return };
        let last = found.last().map(|it| it.account);
        let is_last = found.len() < ACCOUNTS_MAX;
        for it in found {
            tenant.set(it, now);
        }
        match (work, &mut tenant.loading) {
            (KeyWork::Next { .. }, Some(loading)) if is_last => {
                tenant.loaded = std::mem::take(&mut loading.features);
                tenant.loading = None;
            }
            (KeyWork::Next { .. }, Some(loading)) => loading.after = last,
            (KeyWork::Next { .. } | KeyWork::Changed { .. }, _) => {}
        }
        drop(known);
        self.has_changed.notify_one();
    }

    /// It could not be read: it is asked for again.
    pub fn failed(&self, work: KeyWork) {
        let KeyWork::Changed { tenant, accounts } = work else { return };
        if let Some(tenant) = self.known().tenants.get_mut(&tenant) {
            tenant.changed.extend(accounts.into_iter().map(|it| it.uuid()));
        }
    }

    /// Waits until there may be something to publish.
    pub async fn has_changed(&self) {
        self.has_changed.notified().await;
    }

    /// Publishes what changed of the tenants that are read.
    pub fn publish(&self, keys: &EntitledKeys, now: Timestamp) {
        let mut known = self.known();
        let tenants = known.tenants.iter_mut();
        let updates: Vec<KeyUpdate> =
            tenants.filter_map(|(no, it)| it.update(*no, now.millis())).collect();
        let of_all = known.tenants.values().flat_map(|it| it.features.values());
        #[expect(clippy::cast_precision_loss, reason = "at most 100,000")]
        let most = of_all.map(|it| it.keys).max().unwrap_or_default() as f64;
        drop(known);
        metrics::gauge!("faregate_entitled_keys").set(most);
        updates.into_iter().for_each(|it| keys.publish(it));
    }

    /// Those of a user's features of which server SDKs and relay proxies do not get the user, because the features have
    /// as many users as they take.
    pub fn left_out<'a>(
        &self,
        tenant: TenantNo,
        user: &str,
        features: impl Iterator<Item = &'a str>,
    ) -> Vec<String> {
        let known = self.known();
        let Some(tenant) = known.tenants.get(&tenant) else { return vec![] };
        let is_left_out = |feature: &&str| {
            let holders = tenant.features.get(*feature).filter(|it| it.is_full);
            holders.is_some_and(|it| !it.shards[number_of(user)].contains_key(user))
        };
        features.filter(is_left_out).map(str::to_owned).collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Begins with the tenants that are asked for, and forgets those that no longer are.
    fn take_over(&mut self, asked_for: &[Arc<TenantKeys>]) {
        let is_same = |keys: &Weak<TenantKeys>, other: &Arc<TenantKeys>| {
            std::ptr::eq(keys.as_ptr(), Arc::as_ptr(other))
        };
        self.tenants.retain(|_, it| asked_for.iter().any(|other| is_same(&it.published, other)));
        for keys in asked_for {
            let tenant = self.tenants.entry(keys.tenant()).or_default();
            tenant.published = Arc::downgrade(keys);
            let features = keys.features();
            if tenant.loading.is_none() && !features.is_subset(&tenant.loaded) {
                tenant.loading = Some(Loading { features, after: None });
            }
        }
    }

    /// Accounts that changed come first: readers wait for them.
    fn work(&mut self) -> Option<KeyWork> {
        for (no, tenant) in &mut self.tenants {
            let mut accounts = vec![];
            while accounts.len() < ACCOUNTS_MAX
                && let Some(account) = tenant.changed.pop_first()
            {
                accounts.push(AccountId::new(account));
            }
            if !accounts.is_empty() {
                return Some(KeyWork::Changed { tenant: *no, accounts });
            }
        }
        if !self.has_begun {
            return None;
        }
        self.tenants.iter().find_map(|(no, it)| {
            let after = it.loading.as_ref()?.after;
            Some(KeyWork::Next { tenant: *no, after })
        })
    }
}

impl Tenant {
    /// Whether it matters who is entitled to a feature.
    fn tracks(&self, feature: &str) -> bool {
        self.loaded.contains(feature)
            || self.loading.as_ref().is_some_and(|it| it.features.contains(feature))
    }

    /// Sets what an account is entitled to, and the keys of its users.
    fn set(&mut self, found: FoundKeys, now: Timestamp) {
        let account = found.account.uuid();
        let entitled = found.entitlements.as_ref().map(|it| it.at(now)).unwrap_or_default();
        let features = entitled.keys().filter(|it| self.tracks(it)).map(|it| Box::from(*it));
        let features: Vec<Box<str>> = features.collect();
        let keys: Vec<Box<str>> = found.keys.into_iter().map(Into::into).collect();
        let holder = Holder { keys, features };
        let before = self.accounts.remove(&account).unwrap_or_default();
        if before != holder {
            for feature in &before.features {
                let keeps = holder.features.contains(feature);
                let Some(holders) = self.features.get_mut(feature) else { continue };
                let gone = before.keys.iter().filter(|it| !(keeps && holder.keys.contains(it)));
                gone.for_each(|key| holders.remove(key, account));
            }
            for feature in &holder.features {
                let holders = self.features.entry(feature.clone()).or_default();
                holder.keys.iter().for_each(|key| holders.add(key, (account, feature)));
            }
        }
        if !holder.features.is_empty() {
            self.accounts.insert(account, holder);
        }
    }

    /// The shards that are not published yet, of the features that are read. Each has a time of its own; those of a
    /// new feature share one.
    fn update(&mut self, tenant: TenantNo, now_ms: i64) -> Option<KeyUpdate> {
        let published = self.published.upgrade()?;
        let known = published.published();
        let mut shards = vec![];
        for feature in &self.loaded {
            let holders = self.features.entry(feature.clone()).or_default();
            let is_new = !known.features.contains_key(feature);
            for number in std::mem::take(&mut holders.changed) {
                // Those of a new feature are sent together.
                if !(is_new && number > 0) {
                    self.at_ms = now_ms.max(self.at_ms.saturating_add(1));
                }
                let keys = holders.shards[number].keys().cloned().collect();
                shards.push(SentShard {
                    feature: feature.clone(),
                    number,
                    at_ms: self.at_ms,
                    keys,
                });
            }
        }
        (!shards.is_empty()).then_some(KeyUpdate { tenant, at_ms: self.at_ms, shards })
    }
}

impl Default for Holders {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| BTreeMap::new()).collect();
        Self { shards, keys: 0, changed: (0..SHARDS).collect(), is_full: false }
    }
}

impl Holders {
    /// Adds the key of a user, if there is room for it.
    fn add(&mut self, key: &str, (account, feature): (Uuid, &str)) {
        let number = number_of(key);
        let shard = &mut self.shards[number];
        if let Some(holder) = shard.get_mut(key) {
            *holder = account;
            return;
        }
        if self.keys >= FEATURE_KEYS_MAX || shard.len() >= SHARD_KEYS_MAX {
            if !std::mem::replace(&mut self.is_full, true) {
                tracing::warn!(feature, "left out users of a feature for server SDKs: too many");
            }
            return;
        }
        shard.insert(key.into(), account);
        self.keys += 1;
        self.changed.insert(number);
        if self.keys == MANY_KEYS {
            tracing::warn!(
                feature,
                keys = MANY_KEYS,
                "server SDKs get few more users of a feature"
            );
        }
    }

    /// Removes the key of a user, unless another account has it.
    fn remove(&mut self, key: &str, account: Uuid) {
        let number = number_of(key);
        if self.shards[number].get(key) == Some(&account) {
            self.shards[number].remove(key);
            self.keys -= 1;
            self.changed.insert(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_none_loses_what_it_has() {
        let mut holders = Holders::default();
        let account = Uuid::from_u128(1);
        (0..FEATURE_KEYS_MAX).for_each(|it| holders.add(&format!("u{it}"), (account, "pro")));
        assert_eq!((holders.keys, holders.is_full), (FEATURE_KEYS_MAX, false));
        holders.changed.clear();
        holders.add("one more", (account, "pro"));
        assert_eq!((holders.keys, holders.is_full), (FEATURE_KEYS_MAX, true));
        assert!(holders.changed.is_empty());
        // What another account has by now is not taken from it.
        let other = Uuid::from_u128(2);
        holders.add("u7", (other, "pro"));
        holders.remove("u7", account);
        assert_eq!(holders.keys, FEATURE_KEYS_MAX);
        holders.remove("u7", other);
        assert_eq!(holders.changed.iter().copied().collect::<Vec<_>>(), [number_of("u7")]);
        holders.add("one more", (account, "pro"));
        assert_eq!(holders.keys, FEATURE_KEYS_MAX);
    }

    #[test]
    fn a_shard_has_a_bound_of_its_own() {
        let mut holders = Holders::default();
        let keys = (0..).map(|it| format!("u{it}")).filter(|it| number_of(it) == 5);
        let keys: Vec<String> = keys.take(SHARD_KEYS_MAX + 1).collect();
        keys.iter().for_each(|it| holders.add(it, (Uuid::nil(), "pro")));
        assert_eq!((holders.keys, holders.is_full), (SHARD_KEYS_MAX, true));

        // Who does not fit is said to be left out of that feature, in that tenant.
        let (ledger, no) = (KeyLedger::default(), TenantNo(1));
        let features = BTreeMap::from([("pro".into(), holders)]);
        ledger.known().tenants.insert(no, Tenant { features, ..Tenant::default() });
        let left_out = |no, key: &str| ledger.left_out(no, key, ["pro", "sso"].into_iter());
        assert_eq!(left_out(no, &keys[SHARD_KEYS_MAX]), ["pro"]);
        assert!(left_out(no, &keys[0]).is_empty());
        assert!(left_out(TenantNo(2), &keys[SHARD_KEYS_MAX]).is_empty());
    }
}
