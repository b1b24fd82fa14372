//! An environment that is served: what it is at the moment, and who is woken when that changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use evaluation::{CompiledFlag, CompiledSegment, Flag, Segment, Snapshot};
use uuid::Uuid;

use crate::insights::Tally;
use crate::sockets::Sockets;
use crate::state::{Profile, State};

/// An environment on the board.
pub struct Live {
    id: Uuid,
    state: ArcSwap<State>,
    changing: Mutex<()>,
    pub(crate) sockets: Sockets,
    tally: Mutex<Tally>,
}

impl Live {
    pub(crate) fn new(id: Uuid, profile: Profile, snapshot: &Snapshot) -> Self {
        let state = State::new(Arc::new(profile), with_owner(snapshot, id));
        Self {
            id,
            state: ArcSwap::from_pointee(state),
            changing: Mutex::default(),
            sockets: Sockets::default(),
            tally: Mutex::default(),
        }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.id
    }

    /// All flags and segments as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.state.load().snapshot.clone()
    }

    pub(crate) fn state(&self) -> Guard<Arc<State>> {
        self.state.load()
    }

    /// What SDKs told.
    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes flags and segments in, in place of those of the same key or id, and wakes the sockets.
    /// What is older than what is there is passed over, and so is what is the same: whoever follows
    /// a journal may tell things twice.
    pub(crate) fn change(&self, mut flags: Vec<Flag>, mut segments: Vec<Segment>) {
        let changing = self.changing();
        let state = self.state.load_full();
        let before = &state.snapshot;
        for segment in &mut segments {
            own(segment, self.id);
        }
        let mut after = before.with(flags.iter().cloned(), segments.iter().cloned());
        let told = flags.len() + segments.len();
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
        if flags.len() + segments.len() < told {
            after = before.with(flags.iter().cloned(), segments.iter().cloned());
        }
        let keys = flags.iter().map(|flag| flag.key.as_str());
        let ids = segments.iter().map(|segment| segment.id.as_str());
        self.swap(state.after(after, keys, ids), changing);
    }

    /// Becomes another, as if every flag and segment that is different were changed. Nobody is told
    /// of those that are gone: put them away first.
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

    /// Swapped first and told afterwards: a socket that comes in between sees the new state.
    fn swap(&self, state: State, changing: MutexGuard<'_, ()>) {
        self.state.store(Arc::new(state));
        drop(changing);
        self.sockets.wake();
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Segments that environments share are told as those of the one that is asked.
fn own(segment: &mut Segment, id: Uuid) {
    if segment.env_id.is_empty() {
        segment.env_id = id.to_string();
    }
}

fn with_owner(snapshot: &Snapshot, id: Uuid) -> Snapshot {
    let shared = snapshot.segments().map(CompiledSegment::segment);
    let shared = shared.filter(|it| it.env_id.is_empty()).cloned().map(|mut it| {
        own(&mut it, id);
        it
    });
    snapshot.with([], shared)
}
