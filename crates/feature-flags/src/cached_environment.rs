//! The cache entry of an environment: its state at this moment, and its subscribers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use domain::TenantNo;
use evaluation::{CompiledFlag, CompiledSegment, Entitled, Flag, Segment, Snapshot};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::accounts::Accounts;
use crate::entitled_user::{EntitledUser, NotKnown};
use crate::environment_state::EnvironmentState;
use crate::found_within::found_within;
use crate::insights::Tally;
use crate::profile::Profile;
use crate::subscribers::{Subscriber, Subscribers};

/// A cached environment.
pub struct CachedEnvironment {
    id: Uuid,
    tenant: TenantNo,
    state: ArcSwap<EnvironmentState>,
    changing: Mutex<()>,
    /// Notified when the state changes.
    changed: Notify,
    pub subscribers: Subscribers,
    tally: Mutex<Tally>,
}

impl CachedEnvironment {
    pub(crate) fn new(
        (id, tenant): (Uuid, TenantNo),
        profile: Profile,
        snapshot: &Snapshot,
    ) -> Self {
        let state = EnvironmentState::new(id, Arc::new(profile), with_owner(snapshot, id));
        Self {
            id,
            tenant,
            state: ArcSwap::from_pointee(state),
            changing: Mutex::default(),
            changed: Notify::new(),
            subscribers: Subscribers::default(),
            tally: Mutex::default(),
        }
    }

    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.id
    }

    /// Whose it is.
    #[must_use]
    pub const fn tenant(&self) -> TenantNo {
        self.tenant
    }

    /// All flags and segments at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.state.load().snapshot.clone()
    }

    /// The state at this moment.
    pub fn state(&self) -> Guard<Arc<EnvironmentState>> {
        self.state.load()
    }

    /// Takes over what a user is entitled to now, where flags of this state depend on that. Returns what it was entitled
    /// to before, where that differs.
    ///
    /// # Errors
    /// It is not known yet: the subscriber is woken once it is.
    pub fn update_user(
        &self,
        user: &mut EntitledUser,
        state: &EnvironmentState,
        followed: (&Accounts, &Arc<Subscriber>),
    ) -> Result<Option<Entitled>, NotKnown> {
        match state.asks_for_entitled {
            true => user.update(self.tenant, followed),
            false => Ok(None),
        }
    }

    /// The counts of evaluations and metrics since they were taken last.
    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces flags and segments of the same key or id, and wakes the subscribers. What is older
    /// than the cached one, or equal to it, is ignored: a follower of the journal may publish a
    /// change twice.
    pub(crate) fn apply(&self, mut flags: Vec<Flag>, mut segments: Vec<Segment>) {
        let changing = self.changing();
        let state = self.state.load_full();
        let before = &state.snapshot;
        for segment in &mut segments {
            set_owner(segment, self.id);
        }
        let mut after = before.with(flags.iter().cloned(), segments.iter().cloned());
        let published = flags.len() + segments.len();
        flags.retain(|flag| {
            let at_ms = after.flag(&flag.key).map(CompiledFlag::changed_at_ms);
            before
                .flag(&flag.key)
                .is_none_or(|had| Some(had.changed_at_ms()) <= at_ms && had.flag() != flag)
        });
        segments.retain(|segment| {
            let at_ms = after.segment(&segment.id).map(CompiledSegment::changed_at_ms);
            before
                .segment(&segment.id)
                .is_none_or(|had| Some(had.changed_at_ms()) <= at_ms && had.segment() != segment)
        });
        if flags.is_empty() && segments.is_empty() {
            return;
        }
        if flags.len() + segments.len() < published {
            after = before.with(flags.iter().cloned(), segments.iter().cloned());
        }
        let keys = flags.iter().map(|flag| flag.key.as_str());
        let ids = segments.iter().map(|segment| segment.id.as_str());
        self.swap(state.after(after, keys, ids), changing);
    }

    /// Replaces everything, as if every flag and segment that differs were changed. Subscribers are
    /// not notified of those that are missing: archive them first.
    pub(crate) fn replace(&self, profile: Profile, snapshot: &Snapshot) {
        let changing = self.changing();
        let state = self.state.load_full();
        let (before, after) = (&state.snapshot, with_owner(snapshot, self.id));
        let is_new = |it: &&CompiledFlag| {
            before.flag(&it.flag().key).is_none_or(|had| had.flag() != it.flag())
        };
        let flags: Vec<String> =
            after.flags().filter(is_new).map(|it| it.flag().key.clone()).collect();
        let is_new = |it: &&CompiledSegment| {
            before.segment(&it.segment().id).is_none_or(|had| had.segment() != it.segment())
        };
        let segments: Vec<String> =
            after.segments().filter(is_new).map(|it| it.segment().id.clone()).collect();
        let keys = flags.iter().map(String::as_str);
        let mut state = state.after(after, keys, segments.iter().map(String::as_str));
        state.profile = Arc::new(profile);
        self.swap(state, changing);
    }

    /// Stores the state before it wakes: a subscriber that is added in between sees the new state.
    fn swap(&self, state: EnvironmentState, changing: MutexGuard<'_, ()>) {
        self.state.store(Arc::new(state));
        drop(changing);
        self.changed.notify_waiters();
        self.subscribers.wake_all();
    }

    /// Waits until the state has what was committed as this version, or for so long.
    pub async fn reach(&self, version: i64, within: Duration) {
        let reached = || (self.state.load().changed_at_ms >= version).then_some(());
        // Who waits in vain reads what is older than the commit, as on any other node.
        found_within(within, &self.changed, reached).await;
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A segment that environments share is shown as the own one of each.
fn set_owner(segment: &mut Segment, id: Uuid) {
    if segment.env_id.is_empty() {
        segment.env_id = id.to_string();
    }
}

fn with_owner(snapshot: &Snapshot, id: Uuid) -> Snapshot {
    let shared = snapshot.segments().map(CompiledSegment::segment);
    let shared = shared.filter(|it| it.env_id.is_empty()).cloned().map(|mut it| {
        set_owner(&mut it, id);
        it
    });
    snapshot.with([], shared)
}
