//! The one wrapper of stores. It fails to load, to commit, or to say whether it committed; a bug may be planted at it;
//! and it lets the simulation see what was handed to it. Between load and commit, somebody else may write.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::payment::ReplyKey;
use domain::read::Read;
use engine::ports::{
    Batch, Bookkeeping, Cause, Entry, Loaded, Opened, Store, StoreError, StoredReply,
};

/// The fault that is injected into a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    #[default]
    None,
    /// Nothing can be loaded.
    LoadFails,
    /// The commit fails, and nothing was written.
    CommitFails,
    /// The disk is full.
    DiskFull,
    /// The commit happened, but nobody can say so.
    WrittenUnsaid,
    /// The commit did not happen, but nobody can say so.
    LostUnsaid,
}

/// The parts of a batch that the simulation observes.
#[derive(Debug, Default)]
pub struct Seen {
    /// The entries handed over.
    pub entries: Vec<Entry>,
    /// The replies handed over.
    pub replies: Vec<StoredReply>,
    /// The follower's place, where it was handed over.
    pub followed: Option<i64>,
    /// Where the queue is to be read on, where that was handed over.
    pub read_on: Option<i64>,
    /// Whether they are durable.
    pub durable: bool,
}

impl Seen {
    /// Whether nothing was handed over: then nobody asks whose the partition is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.replies.is_empty()
            && self.followed.is_none()
            && self.read_on.is_none()
    }
}

/// A step of another owner between the load and the commit of a batch.
pub type Meanwhile = Box<dyn FnOnce() + Send>;

/// Both ends of what goes wrong and what is seen.
#[derive(Clone, Debug, Default)]
pub struct Spy(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    trouble: Trouble,
    seen: Seen,
    meanwhile: Option<Meanwhile>,
    batches: u64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("trouble", &self.trouble).finish_non_exhaustive()
    }
}

impl Spy {
    /// Says what goes wrong in the next batch.
    pub fn arm(&self, trouble: Trouble) {
        let mut shared = self.lock();
        shared.trouble = trouble;
        shared.seen = Seen::default();
    }

    /// Says what happens between the load and the commit of the next batch.
    pub fn interpose(&self, meanwhile: Meanwhile) {
        self.lock().meanwhile = Some(meanwhile);
    }

    /// Takes the step that was interposed in the last batch and did not run, if any.
    #[must_use]
    pub fn left_over(&self) -> Option<Meanwhile> {
        self.lock().meanwhile.take()
    }

    /// Takes the observations of the last batch.
    #[must_use]
    pub fn take(&self) -> Seen {
        std::mem::take(&mut self.lock().seen)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a store's connection to its data.
pub type Cut = Arc<dyn Fn() + Send + Sync>;

/// A bug planted at a store. Each store has its own, which lives as long as its process.
pub trait StoreBug: Send {
    /// Plants the bug in what the store finds when it is opened.
    fn spoil_open(&mut self, _opened: &mut Opened) {}

    /// Plants the bug in what the store loads.
    fn spoil_load(&mut self, _loaded: &mut Loaded) {}

    /// Plants the bug in what the store writes; `false` where it writes nothing of the batch. `_nth` counts the batches
    /// with entries.
    fn spoil(&mut self, batch: &mut Batch, _nth: u64) -> bool {
        batch.entries.iter_mut().for_each(|it| self.spoil_entry(it));
        true
    }

    /// Plants the bug in one entry of a batch.
    fn spoil_entry(&mut self, _entry: &mut Entry) {}
}

/// A store that troubles befall.
pub struct Faulty<S, B> {
    store: S,
    spy: Spy,
    cut: Option<Cut>,
    bug: Option<B>,
}

impl<S: Store, B> Faulty<S, B> {
    /// A store under a spy; with `cut`, what nobody can say is so because the connection is gone.
    pub const fn new(store: S, spy: Spy, cut: Option<Cut>, bug: Option<B>) -> Self {
        Self { store, spy, cut, bug }
    }

    fn fail(&mut self, error: StoreError) -> Result<(), StoreError> {
        // What `load` began is to be ended; an empty batch writes nothing.
        self.store.commit(&Batch::default())?;
        Err(error)
    }
}

impl<S: Store, B: StoreBug> Store for Faulty<S, B> {
    fn open(&mut self) -> Result<Opened, StoreError> {
        let mut opened = self.store.open()?;
        if let Some(bug) = &mut self.bug {
            bug.spoil_open(&mut opened);
        }
        Ok(opened)
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        if self.spy.lock().trouble == Trouble::LoadFails {
            return Err(StoreError::Database(Cause::new("planned: nothing can be loaded")));
        }
        let mut loaded = self.store.load(reads, replies)?;
        if let Some(bug) = &mut self.bug {
            bug.spoil_load(&mut loaded);
        }
        Ok(loaded)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if let Some(meanwhile) = self.spy.left_over() {
            meanwhile();
        }
        let (trouble, nth) = {
            let mut shared = self.spy.lock();
            shared.seen.entries.clone_from(&batch.entries);
            shared.seen.replies.clone_from(&batch.replies);
            shared.seen.followed = batch.bookkeeping.iter().rev().find_map(followed);
            shared.seen.read_on = batch.queue_offset;
            shared.batches += u64::from(!batch.entries.is_empty());
            (shared.trouble, shared.batches)
        };
        match trouble {
            Trouble::CommitFails => {
                return self.fail(StoreError::Database(Cause::new("planned: no commit")));
            }
            Trouble::DiskFull => return self.fail(StoreError::DiskFull),
            Trouble::LostUnsaid => {
                let planned = StoreError::OutcomeUnknown(Cause::new("planned: not written"));
                let Some(cut) = &self.cut else { return self.fail(planned) };
                cut();
                let cut_off = self.store.commit(batch);
                assert!(cut_off.is_err() || is_empty(batch), "a commit without a connection");
                return Err(planned);
            }
            Trouble::None | Trouble::LoadFails | Trouble::WrittenUnsaid => {}
        }
        match &mut self.bug {
            None => self.store.commit(batch)?,
            Some(bug) => {
                let mut spoilt = batch.clone();
                let writes = bug.spoil(&mut spoilt, nth);
                self.store.commit(&if writes { spoilt } else { Batch::default() })?;
            }
        }
        self.spy.lock().seen.durable = true;
        if trouble == Trouble::WrittenUnsaid {
            if let Some(cut) = &self.cut {
                cut();
            }
            return Err(StoreError::OutcomeUnknown(Cause::new("planned: written")));
        }
        Ok(())
    }
}

fn is_empty(batch: &Batch) -> bool {
    batch.entries.is_empty()
        && batch.replies.is_empty()
        && batch.bookkeeping.is_empty()
        && batch.queue_offset.is_none()
}

fn followed(row: &Bookkeeping) -> Option<i64> {
    let Bookkeeping::Followed { upto, .. } = row else { return None };
    Some(upto.0)
}
