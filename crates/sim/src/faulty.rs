//! A store with faults: it fails to load, to commit, or to say whether it committed; and it lets
//! the simulation see what was handed to it. Between load and commit, somebody else may write.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::Seq;
use domain::payment::ReplyKey;
use domain::read::Read;
use engine::ports::{
    Batch, Bookkeeping, Cause, Entry, Loaded, Opened, Store, StoreError, StoredReply,
};

use crate::mutant::Mutant;

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
    mutant: Option<Mutant>,
    batches: u64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("trouble", &self.trouble).finish_non_exhaustive()
    }
}

impl Spy {
    /// A spy on a store with this planted bug.
    #[must_use]
    pub fn new(mutant: Option<Mutant>) -> Self {
        let shared = Shared { mutant, ..Shared::default() };
        Self(Arc::new(Mutex::new(shared)))
    }

    /// The planted bug.
    #[must_use]
    pub fn mutant(&self) -> Option<Mutant> {
        self.lock().mutant
    }

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

/// A store that troubles befall.
pub struct Faulty<S> {
    store: S,
    spy: Spy,
    cut: Option<Cut>,
}

impl<S: Store> Faulty<S> {
    /// A store under a spy; with `cut`, what nobody can say is so because the connection is gone.
    pub const fn new(store: S, spy: Spy, cut: Option<Cut>) -> Self {
        Self { store, spy, cut }
    }

    fn fail(&mut self, error: StoreError) -> Result<(), StoreError> {
        // What `load` began is to be ended; an empty batch writes nothing.
        self.store.commit(&Batch::default())?;
        Err(error)
    }
}

impl<S: Store> Store for Faulty<S> {
    fn open(&mut self) -> Result<Opened, StoreError> {
        let mut opened = self.store.open()?;
        if self.spy.lock().mutant == Some(Mutant::SkipsJournalRow) {
            opened.next_seq = Seq(opened.next_seq.0 + 1);
        }
        Ok(opened)
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        let (trouble, mutant) = {
            let shared = self.spy.lock();
            (shared.trouble, shared.mutant)
        };
        if trouble == Trouble::LoadFails {
            return Err(StoreError::Database(Cause::new("planned: nothing can be loaded")));
        }
        let mut loaded = self.store.load(reads, replies)?;
        if let Some(mutant) = mutant {
            mutant.spoil_load(&mut loaded);
        }
        Ok(loaded)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if let Some(meanwhile) = self.spy.left_over() {
            meanwhile();
        }
        let (trouble, mutant, nth) = {
            let mut shared = self.spy.lock();
            shared.seen.entries.clone_from(&batch.entries);
            shared.seen.replies.clone_from(&batch.replies);
            shared.seen.followed = batch.bookkeeping.iter().rev().find_map(followed);
            shared.seen.read_on = batch.queue_offset;
            shared.batches += u64::from(!batch.entries.is_empty());
            (shared.trouble, shared.mutant, shared.batches)
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
        let spoilt = mutant.map(|mutant| mutant.spoil(batch, nth));
        match spoilt {
            None => self.store.commit(batch)?,
            Some(Some(spoilt)) => self.store.commit(&spoilt)?,
            Some(None) => self.store.commit(&Batch::default())?,
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
