//! An environment at one moment: its flags and segments, the changes since a reader's last update,
//! and the encoded messages that readers share.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use evaluation::{CompiledFlag, CompiledSegment, Entitled, Evaluation, Snapshot, User};
use uuid::Uuid;

use crate::entitled_user::EntitledUser;
use crate::message::{self, Extent, Message, RelayItem};
use crate::profile::Profile;
use crate::shard::{PublishedKeys, Shard};

/// How many messages of each sort are kept: readers that connect together ask for the same ones.
const RECENT_MAX: usize = 4;

/// How far ahead of this node's clock the times of a reader may be.
const AHEAD_MS_MAX: i64 = 366 * 24 * 3_600_000;

/// An environment at one moment.
pub struct EnvironmentState {
    id: Uuid,
    pub profile: Arc<Profile>,
    pub snapshot: Snapshot,
    /// Grows with every change on this node. Times do not show what a socket lacks: two changes may
    /// have the same millisecond.
    pub revision: u64,
    /// When the newest flag or segment was changed, in milliseconds since 1970.
    pub changed_at_ms: i64,
    /// Identifies the state on all nodes: that time, and the numbers of flags and of segments.
    pub version: Box<str>,
    /// How long the values of all flags are together, in bytes: nearly all of a long message.
    pub values_bytes: usize,
    /// Since when each flag may have another value for some user, in the order of the snapshot, apart from what users
    /// are entitled to.
    flags_changed_at_ms: Vec<i64>,
    /// Whether each flag depends on that.
    depend_on_entitled: Vec<bool>,
    /// Whether any does.
    pub asks_for_entitled: bool,
    /// The features of which flags or segments name the users who are entitled to them.
    pub entitled_features: Arc<[Box<str>]>,
    /// Whether there are any, or were since this process has the environment: the times of readers are not of flags and
    /// segments alone.
    pub had_entitled_features: bool,
    changes: Changes,
    full: OnceLock<Message>,
    since: RecentCache<i64, Message>,
    patches: RecentCache<u64, Arc<Patch>>,
    marked: ArcSwapOption<MarkedMessage>,
    shard_patches: RecentCache<i64, Message>,
}

/// All flags and segments, with the users who are entitled to features, and a time that is later than all of them.
pub struct MarkedMessage {
    pub message: Message,
    /// The latest time of those users.
    keys_at_ms: i64,
    /// That time. Some SDKs take no message over whose latest time they had before.
    pub at_ms: i64,
}

/// The revisions in which flags and segments changed last on this node.
#[derive(Clone, Default)]
struct Changes {
    flags: BTreeMap<Arc<str>, u64>,
    segments: BTreeMap<Arc<str>, u64>,
}

/// The changes since a revision.
pub struct Patch {
    /// The earliest and the latest time of its flags and segments.
    pub times_ms: (i64, i64),
    /// For readers that evaluate by themselves; none where nothing changed for them.
    pub message: Option<Message>,
    /// Keys of the flags that may have another value for some user, in their order, and since when.
    affected: Vec<(Box<str>, i64)>,
}

impl EnvironmentState {
    /// The first state of an environment.
    pub fn new(id: Uuid, profile: Arc<Profile>, snapshot: Snapshot) -> Self {
        Self::assemble((id, profile), snapshot, 0, Changes::default())
    }

    /// The next state, in which these flags and segments changed.
    pub fn after<'c>(
        &self,
        snapshot: Snapshot,
        flags: impl Iterator<Item = &'c str>,
        segments: impl Iterator<Item = &'c str>,
    ) -> Self {
        let (revision, mut changes) = (self.revision + 1, self.changes.clone());
        changes.flags.extend(flags.map(|key| (key.into(), revision)));
        changes.flags.retain(|key, _| snapshot.flag(key).is_some());
        changes.segments.extend(segments.map(|id| (id.into(), revision)));
        changes.segments.retain(|id, _| snapshot.segment(id).is_some());
        let next = (self.id, Arc::clone(&self.profile));
        let mut next = Self::assemble(next, snapshot, revision, changes);
        next.had_entitled_features |= self.had_entitled_features;
        next
    }

    fn assemble(
        (id, profile): (Uuid, Arc<Profile>),
        snapshot: Snapshot,
        revision: u64,
        changes: Changes,
    ) -> Self {
        let flags_changed_at_ms: Vec<i64> =
            snapshot.flags().map(|flag| snapshot.changed_at_ms(flag)).collect();
        let depend_on_entitled: Vec<bool> =
            snapshot.flags().map(|flag| snapshot.depends_on_entitled(flag)).collect();
        let asks_for_entitled = depend_on_entitled.contains(&true);
        let newest_segment = snapshot.segments().map(CompiledSegment::changed_at_ms).max();
        let changed_at_ms = flags_changed_at_ms.iter().copied().chain(newest_segment).max();
        let changed_at_ms = changed_at_ms.unwrap_or_default();
        let counts = (flags_changed_at_ms.len(), snapshot.segments().count());
        let version = format!("{changed_at_ms:x}-{:x}-{:x}", counts.0, counts.1).into();
        let variations = snapshot.flags().flat_map(|it| &it.flag().variations);
        let values_bytes = variations.map(|it| it.value.len()).sum();
        let features = snapshot.entitled_features().into_iter().map(Box::from);
        let entitled_features: Arc<[Box<str>]> = features.collect();
        Self {
            id,
            profile,
            snapshot,
            revision,
            changed_at_ms,
            version,
            values_bytes,
            flags_changed_at_ms,
            depend_on_entitled,
            asks_for_entitled,
            had_entitled_features: !entitled_features.is_empty(),
            entitled_features,
            changes,
            full: OnceLock::new(),
            since: RecentCache::default(),
            patches: RecentCache::default(),
            marked: ArcSwapOption::default(),
            shard_patches: RecentCache::default(),
        }
    }

    /// All flags, each with the time since which it may have another value for some user, apart from what users are
    /// entitled to.
    pub fn flags(&self) -> impl Iterator<Item = (&CompiledFlag, i64)> {
        self.snapshot.flags().zip(self.flags_changed_at_ms.iter().copied())
    }

    /// The changes after `timestamp` for a reader that evaluates by itself; everything for 0.
    pub fn server_sync(&self, timestamp: i64) -> Message {
        match Extent::since(timestamp) {
            Extent::Full => self.full.get_or_init(|| self.server_message(0)).clone(),
            Extent::Patch => {
                self.since.get_or_compute(timestamp, || self.server_message(timestamp))
            }
        }
    }

    /// Whether that message has any content.
    pub fn is_newer_for_servers(&self, timestamp: i64) -> bool {
        self.flags_since(timestamp).next().is_some()
            || self.segments_since(timestamp).next().is_some()
    }

    fn server_message(&self, timestamp: i64) -> Message {
        let (flags, segments) = (self.flags_since(timestamp), self.segments_since(timestamp));
        let flags = flags.map(CompiledFlag::flag);
        let segments = segments.map(CompiledSegment::segment);
        message::server(Extent::since(timestamp), flags, segments, (self.id, &[]))
    }

    /// All of it for a reader that evaluates by itself and has everything up to `timestamp`, with the users who are
    /// entitled to features; `None` where they are not known yet.
    pub fn marked_sync(
        &self,
        keys: &PublishedKeys,
        (timestamp, now_ms): (i64, i64),
    ) -> Option<Arc<MarkedMessage>> {
        let shards = keys.shards(&self.entitled_features)?;
        let known = self.marked.load_full();
        if let Some(known) = known.filter(|it| it.keys_at_ms == keys.at_ms && it.at_ms > timestamp)
        {
            return Some(known);
        }
        let (mark, at_ms) = self.mark(keys, (timestamp, now_ms));
        let shards: Vec<&Shard> = shards.into_iter().chain([&mark]).collect();
        let (flags, segments) = (self.flags_since(0), self.segments_since(0));
        let (flags, segments) =
            (flags.map(CompiledFlag::flag), segments.map(CompiledSegment::segment));
        let message = message::server(Extent::Full, flags, segments, (self.id, &shards));
        let marked = Arc::new(MarkedMessage { message, keys_at_ms: keys.at_ms, at_ms });
        self.marked.store(Some(Arc::clone(&marked)));
        Some(marked)
    }

    /// A segment that is later than all that a reader has, and when that is.
    pub fn mark(&self, keys: &PublishedKeys, (timestamp, now_ms): (i64, i64)) -> (Shard, i64) {
        // A time that a reader cannot have had counts for nothing.
        let had_ms = if timestamp > now_ms.saturating_add(AHEAD_MS_MAX) { 0 } else { timestamp };
        let latest_ms = self.changed_at_ms.max(keys.at_ms).max(had_ms);
        let at_ms = now_ms.max(latest_ms.saturating_add(1));
        (Shard::mark(at_ms), at_ms)
    }

    /// The patch of users who are entitled to a feature.
    pub fn shard_patch(&self, shard: &Shard) -> Message {
        let patch = || {
            let none = (std::iter::empty(), std::iter::empty());
            message::server(Extent::Patch, none.0, none.1, (self.id, &[shard]))
        };
        self.shard_patches.get_or_compute(shard.at_ms, patch)
    }

    fn flags_since(&self, timestamp: i64) -> impl Iterator<Item = &CompiledFlag> {
        let is_full = timestamp <= 0;
        self.snapshot.flags().filter(move |it| is_full || it.changed_at_ms() > timestamp)
    }

    fn segments_since(&self, timestamp: i64) -> impl Iterator<Item = &CompiledSegment> {
        let is_full = timestamp <= 0;
        self.snapshot.segments().filter(move |it| is_full || it.changed_at_ms() > timestamp)
    }

    /// The changes after `timestamp` of this user's flags; everything for 0, or where flags depend on what users are
    /// entitled to, because that has no time here.
    pub fn client_sync(&self, it: &EntitledUser, timestamp: i64) -> Message {
        let extent = self.client_extent(timestamp);
        let is_full = extent == Extent::Full;
        let newer = self.flags().filter(|(_, at_ms)| is_full || *at_ms > timestamp);
        let count = if is_full { self.flags_changed_at_ms.len() } else { 0 };
        let evaluated =
            newer.map(|(flag, at_ms)| (self.snapshot.evaluate_flag(flag, &it.user), at_ms));
        message::client(extent, &it.user, count, evaluated)
    }

    /// Whether that message is of all flags.
    pub const fn client_extent(&self, timestamp: i64) -> Extent {
        if self.asks_for_entitled { Extent::Full } else { Extent::since(timestamp) }
    }

    /// Whether that message has any content.
    pub fn is_newer_for_clients(&self, timestamp: i64) -> bool {
        self.asks_for_entitled || self.flags_changed_at_ms.iter().any(|it| *it > timestamp)
    }

    /// The changes after `timestamp` for a relay proxy; everything for 0.
    pub fn relay_item<'s>(&'s self, timestamp: i64, shards: Vec<&'s Shard>) -> RelayItem<'s> {
        RelayItem {
            id: self.id,
            profile: &self.profile,
            flags: self.flags_since(timestamp).map(CompiledFlag::flag).collect(),
            segments: self.segments_since(timestamp).map(CompiledSegment::segment).collect(),
            shards,
        }
    }

    /// The changes after a revision.
    pub fn patch_since(&self, revision: u64) -> Arc<Patch> {
        self.patches.get_or_compute(revision, || Arc::new(self.patch(revision)))
    }

    fn patch(&self, since: u64) -> Patch {
        let is_newer = |(_, revision): &(&Arc<str>, &u64)| **revision > since;
        let flags = self.changes.flags.iter().filter(is_newer);
        let flags: Vec<&CompiledFlag> =
            flags.filter_map(|(key, _)| self.snapshot.flag(key)).collect();
        let segments = self.changes.segments.iter().filter(is_newer);
        let segments: Vec<&CompiledSegment> =
            segments.filter_map(|(id, _)| self.snapshot.segment(id)).collect();
        let is_empty = flags.is_empty() && segments.is_empty();
        let message = (!is_empty).then(|| {
            let flags = flags.iter().map(|it| it.flag());
            let segments = segments.iter().map(|it| it.segment());
            message::server(Extent::Patch, flags, segments, (self.id, &[]))
        });
        let of_flags = flags.iter().map(|it| it.changed_at_ms());
        let of_segments = segments.iter().map(|it| it.changed_at_ms());
        let times: Vec<i64> = of_flags.chain(of_segments).collect();
        let times_ms = times.iter().min().copied().zip(times.iter().max().copied());
        let is_affected = |flag: &CompiledFlag| {
            flags.iter().any(|it| std::ptr::eq(*it, flag))
                || segments.iter().any(|it| self.snapshot.uses_segment(flag, &it.segment().id))
        };
        let affected = self.flags().filter(|(flag, _)| is_affected(flag));
        let affected =
            affected.map(|(flag, at_ms)| (flag.flag().key.as_str().into(), at_ms)).collect();
        Patch { times_ms: times_ms.unwrap_or_default(), message, affected }
    }

    /// The changes for a user: the flags that a patch affects, and those whose evaluation with the entitlements
    /// `before` differs.
    pub fn changes_for<'s>(
        &'s self,
        it: &EntitledUser,
        (patch, before): (Option<&Patch>, Option<Entitled>),
    ) -> Vec<(Evaluation<'s>, i64)> {
        let affected = patch.map_or(&[][..], |patch| &patch.affected);
        let Some(before) = before else {
            let evaluated = affected
                .iter()
                .filter_map(|(key, at_ms)| Some((self.snapshot.evaluate(key, &it.user)?, *at_ms)));
            return evaluated.collect();
        };
        let former = User { entitled: before, ..it.user.clone() };
        let is_affected = |flag: &CompiledFlag| {
            affected.binary_search_by(|(key, _)| (**key).cmp(flag.flag().key.as_str())).is_ok()
        };
        let flags = self.flags().zip(&self.depend_on_entitled);
        let changed = flags.filter_map(|((flag, at_ms), depends)| {
            let now = self.snapshot.evaluate_flag(flag, &it.user);
            let differs = || {
                let before = self.snapshot.evaluate_flag(flag, &former);
                *depends && !before.is_alike(&now)
            };
            (is_affected(flag) || differs()).then_some((now, at_ms))
        });
        changed.collect()
    }

    /// A patch for a user; none where nothing changed for it.
    pub fn client_patch(
        &self,
        it: &EntitledUser,
        changed: (Option<&Patch>, Option<Entitled>),
    ) -> Option<Message> {
        let flags = self.changes_for(it, changed);
        let count = flags.len();
        (count > 0).then(|| message::client(Extent::Patch, &it.user, count, flags.into_iter()))
    }
}

/// The last few values that were computed, read without a lock.
struct RecentCache<K, V> {
    entries: ArcSwap<Vec<(K, V)>>,
}

impl<K, V> Default for RecentCache<K, V> {
    fn default() -> Self {
        Self { entries: ArcSwap::from_pointee(vec![]) }
    }
}

impl<K: Clone + PartialEq, V: Clone> RecentCache<K, V> {
    fn get_or_compute(&self, key: K, compute: impl FnOnce() -> V) -> V {
        if let Some((_, value)) = self.entries.load().iter().find(|(it, _)| *it == key) {
            return value.clone();
        }
        let value = compute();
        self.entries.rcu(|entries| {
            let oldest = (entries.len() + 1).saturating_sub(RECENT_MAX);
            let mut next = entries[oldest..].to_vec();
            next.push((key.clone(), value.clone()));
            next
        });
        value
    }
}
