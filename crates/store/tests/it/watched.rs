//! A store around another one: a test holds its loads back, and sees and decides its commits.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use domain::payment::ReplyKey;
use domain::read::Read;
use engine::ports::{Batch, Entry, Loaded, Opened, Store, StoreError};

/// Nothing is loaded while a test holds it.
pub type Gate = Arc<Mutex<()>>;

/// All that was committed.
pub type Entries = Arc<Mutex<Vec<Entry>>>;

/// Commits a batch to the store within.
type Commit<S> = Box<dyn FnMut(&mut S, &Batch) -> Result<(), StoreError> + Send>;

pub struct Watched<S> {
    store: S,
    gate: Gate,
    commit: Commit<S>,
}

impl<S: Store> Watched<S> {
    /// Loads when the gate is open, and commits with a function of the test.
    pub fn new<F>(store: S, gate: Gate, commit: F) -> Self
    where
        F: FnMut(&mut S, &Batch) -> Result<(), StoreError> + Send + 'static,
    {
        Self { store, gate, commit: Box::new(commit) }
    }

    /// Adds what is committed to `entries`.
    pub fn recording(store: S, entries: Entries) -> Self {
        Self::new(store, Gate::default(), move |store, batch| {
            store.commit(batch)?;
            entries.lock().unwrap().extend(batch.entries.iter().cloned());
            Ok(())
        })
    }
}

impl<S: Store> Store for Watched<S> {
    fn open(&mut self) -> Result<Opened, StoreError> {
        self.store.open()
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        self.store.load(reads, replies)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        (self.commit)(&mut self.store, batch)
    }
}
