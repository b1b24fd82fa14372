//! An environment at one moment: its flags and segments, what is newer than what a reader has, and
//! the messages that readers share.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use evaluation::{CompiledFlag, CompiledSegment, Snapshot, User};
use uuid::Uuid;

use crate::secret::{Digest, Secret, SecretKind};
use crate::wire::{self, Extent, Message, RelayItem};

/// How many messages are kept of each sort: readers that come together ask for the same.
const KEPT_MAX: usize = 4;

/// What an environment is called, and what opens it.
#[derive(PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) key: String,
    pub(crate) project_key: String,
    /// Each with what it is looked up by.
    pub(crate) secrets: Vec<(Digest, Secret)>,
}

impl Profile {
    /// Whether relay proxies are told the same of it: their own secrets are not told.
    pub(crate) fn is_told_as(&self, other: &Self) -> bool {
        let told = |it: &&(Digest, Secret)| it.1.kind != SecretKind::RelayProxy;
        let secrets = self.secrets.iter().filter(told);
        self.key == other.key
            && self.project_key == other.project_key
            && secrets.eq(other.secrets.iter().filter(told))
    }
}

/// An environment at one moment.
pub(crate) struct State {
    pub(crate) profile: Arc<Profile>,
    pub(crate) snapshot: Snapshot,
    /// Grows with every change on this node. Times do not say what a socket lacks: two changes may
    /// be of the same millisecond.
    pub(crate) revision: u64,
    /// When the newest flag or segment was changed, in milliseconds since 1970.
    pub(crate) changed_at_ms: i64,
    /// What it is called among those that were and will be, on all nodes: that time, and how many
    /// flags and segments there are.
    pub(crate) version: Box<str>,
    /// Since when each flag may be another for somebody, in the order of the snapshot.
    flags_changed_at_ms: Vec<i64>,
    changes: Changes,
    full: OnceLock<Message>,
    since: Kept<i64, Message>,
    patches: Kept<u64, Arc<Patch>>,
}

/// The revisions of what was changed on this node.
#[derive(Clone, Default)]
struct Changes {
    flags: BTreeMap<Arc<str>, u64>,
    segments: BTreeMap<Arc<str>, u64>,
}

/// What was changed since a revision.
pub(crate) struct Patch {
    /// For those who evaluate by themselves; nothing where nothing is different for them.
    pub(crate) message: Option<Message>,
    /// Keys of the flags that may be others for somebody, and since when.
    affected: Vec<(Box<str>, i64)>,
}

impl State {
    /// The first.
    pub(crate) fn new(profile: Arc<Profile>, snapshot: Snapshot) -> Self {
        Self::assemble(profile, snapshot, 0, Changes::default())
    }

    /// The next, in which these flags and segments are others.
    pub(crate) fn after<'c>(
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
        Self::assemble(Arc::clone(&self.profile), snapshot, revision, changes)
    }

    fn assemble(
        profile: Arc<Profile>,
        snapshot: Snapshot,
        revision: u64,
        changes: Changes,
    ) -> Self {
        let flags_changed_at_ms: Vec<i64> =
            snapshot.flags().map(|flag| snapshot.changed_at_ms(flag)).collect();
        let newest_segment = snapshot.segments().map(CompiledSegment::changed_at_ms).max();
        let changed_at_ms = flags_changed_at_ms.iter().copied().chain(newest_segment).max();
        let changed_at_ms = changed_at_ms.unwrap_or_default();
        let counts = (flags_changed_at_ms.len(), snapshot.segments().count());
        let version = format!("{changed_at_ms:x}-{:x}-{:x}", counts.0, counts.1).into();
        Self {
            profile,
            snapshot,
            revision,
            changed_at_ms,
            version,
            flags_changed_at_ms,
            changes,
            full: OnceLock::new(),
            since: Kept::default(),
            patches: Kept::default(),
        }
    }

    /// All flags, each with the time since which it may be another for somebody.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (&CompiledFlag, i64)> {
        self.snapshot.flags().zip(self.flags_changed_at_ms.iter().copied())
    }

    /// What somebody lacks who evaluates by themselves and has everything up to `timestamp`.
    pub(crate) fn server_sync(&self, timestamp: i64) -> Message {
        match Extent::since(timestamp) {
            Extent::Full => self.full.get_or_init(|| self.server_message(0)).clone(),
            Extent::Patch => self.since.get_or(timestamp, || self.server_message(timestamp)),
        }
    }

    /// Whether that would be anything.
    pub(crate) fn is_newer_for_servers(&self, timestamp: i64) -> bool {
        self.flags_since(timestamp).next().is_some()
            || self.segments_since(timestamp).next().is_some()
    }

    fn server_message(&self, timestamp: i64) -> Message {
        let (flags, segments) = (self.flags_since(timestamp), self.segments_since(timestamp));
        let flags = flags.map(CompiledFlag::flag);
        wire::server(Extent::since(timestamp), flags, segments.map(CompiledSegment::segment))
    }

    fn flags_since(&self, timestamp: i64) -> impl Iterator<Item = &CompiledFlag> {
        let is_full = timestamp <= 0;
        self.snapshot.flags().filter(move |it| is_full || it.changed_at_ms() > timestamp)
    }

    fn segments_since(&self, timestamp: i64) -> impl Iterator<Item = &CompiledSegment> {
        let is_full = timestamp <= 0;
        self.snapshot.segments().filter(move |it| is_full || it.changed_at_ms() > timestamp)
    }

    /// What a client lacks that has everything of this user up to `timestamp`.
    pub(crate) fn client_sync(&self, user: &User, timestamp: i64) -> Message {
        let extent = Extent::since(timestamp);
        let newer = self.flags().filter(|(_, at_ms)| extent == Extent::Full || *at_ms > timestamp);
        let count = if extent == Extent::Full { self.flags_changed_at_ms.len() } else { 0 };
        let evaluated = newer.map(|(flag, at_ms)| (self.snapshot.evaluate_flag(flag, user), at_ms));
        wire::client(extent, user, count, evaluated)
    }

    /// Whether that would be anything.
    pub(crate) fn is_newer_for_clients(&self, timestamp: i64) -> bool {
        self.flags_changed_at_ms.iter().any(|it| *it > timestamp)
    }

    /// What a relay proxy lacks that has everything of this environment up to `timestamp`.
    pub(crate) fn relay_item(&self, id: Uuid, timestamp: i64) -> RelayItem<'_> {
        RelayItem {
            id,
            profile: &self.profile,
            flags: self.flags_since(timestamp).map(CompiledFlag::flag).collect(),
            segments: self.segments_since(timestamp).map(CompiledSegment::segment).collect(),
        }
    }

    /// What was changed after a revision.
    pub(crate) fn patch_since(&self, revision: u64) -> Arc<Patch> {
        self.patches.get_or(revision, || Arc::new(self.patch(revision)))
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
            wire::server(Extent::Patch, flags, segments.iter().map(|it| it.segment()))
        });
        let is_affected = |flag: &CompiledFlag| {
            flags.iter().any(|it| std::ptr::eq(*it, flag))
                || segments.iter().any(|it| self.snapshot.uses_segment(flag, &it.segment().id))
        };
        let affected = self.flags().filter(|(flag, _)| is_affected(flag));
        let affected =
            affected.map(|(flag, at_ms)| (flag.flag().key.as_str().into(), at_ms)).collect();
        Patch { message, affected }
    }

    /// What a patch is for a user; nothing where no flag is affected.
    pub(crate) fn client_patch(&self, patch: &Patch, user: &User) -> Option<Message> {
        if patch.affected.is_empty() {
            return None;
        }
        let affected = patch.affected.iter().filter_map(|(key, at_ms)| {
            self.snapshot.evaluate(key, user).map(|evaluation| (evaluation, *at_ms))
        });
        Some(wire::client(Extent::Patch, user, patch.affected.len(), affected))
    }
}

impl Patch {
    /// Keys of the flags that may be others for somebody, in their order, and since when.
    pub(crate) fn affected(&self) -> impl Iterator<Item = (&str, i64)> {
        self.affected.iter().map(|(key, at_ms)| (&**key, *at_ms))
    }
}

/// The last few of what was made, to be found again without a lock.
struct Kept<K, V> {
    kept: ArcSwap<Vec<(K, V)>>,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { kept: ArcSwap::from_pointee(vec![]) }
    }
}

impl<K: Clone + PartialEq, V: Clone> Kept<K, V> {
    fn get_or(&self, key: K, make: impl FnOnce() -> V) -> V {
        if let Some((_, value)) = self.kept.load().iter().find(|(it, _)| *it == key) {
            return value.clone();
        }
        let made = make();
        self.kept.rcu(|kept| {
            let oldest = (kept.len() + 1).saturating_sub(KEPT_MAX);
            let mut next = kept[oldest..].to_vec();
            next.push((key.clone(), made.clone()));
            next
        });
        made
    }
}
