//! The store of the simulation, with a bug where one is planted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::change::{Change, EntitlementChange, Image, TimerChange};
use domain::entitlement::Entitlements;
use domain::feature::FeatureValue;
use domain::payment::ReplyKey;
use domain::read::Read;
use domain::timer::TimerKind;
use domain::{AccountId, Event, PartitionNo, Settings};
use engine::partition::Partition;
use engine::ports::{Batch, Cause, Loaded, Opened, Store, StoreError};
use store::Share;

use super::PurchaseMutant;
use crate::disk::Disk;
use crate::memory::{MemoryDisk, MemoryStore};

/// A version of an account's features, as an event reported it.
#[derive(Clone, Debug)]
pub(super) struct EventVersion {
    pub(super) version: i64,
    pub(super) features: BTreeMap<String, FeatureValue>,
}

/// The events that the store noted, and whether its next commit fails; both outlive processes.
#[derive(Clone, Default)]
pub(super) struct Notes {
    events: Arc<Mutex<BTreeMap<AccountId, Vec<EventVersion>>>>,
    fails: Arc<AtomicBool>,
    /// The entitlements whose commit failed.
    lost: Arc<Mutex<Vec<Entitlements>>>,
}

impl Notes {
    /// The events of each account, oldest first.
    pub(super) fn events(&self) -> MutexGuard<'_, BTreeMap<AccountId, Vec<EventVersion>>> {
        lock(&self.events)
    }

    /// The next commit fails.
    pub(super) fn fail_next(&self) {
        self.fails.store(true, Ordering::Relaxed);
    }

    /// Takes the entitlements whose commit failed since the last call.
    pub(super) fn take_lost(&self) -> Vec<Entitlements> {
        std::mem::take(&mut lock(&self.lost))
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The store, with a bug where one is planted. It notes the events.
pub(super) struct Planted {
    store: MemoryStore,
    mutant: Option<PurchaseMutant>,
    notes: Notes,
    /// How many grants accounts had before.
    grants: BTreeMap<AccountId, usize>,
}

impl Store for Planted {
    fn open(&mut self) -> Result<Opened, StoreError> {
        self.store.open()
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        let mut loaded = self.store.load(reads, replies)?;
        if self.mutant == Some(PurchaseMutant::GrantsUnpaid) {
            let purchases = loaded.state.entitlement.purchases.iter_mut();
            purchases.for_each(|it| it.terms.offer.price = None);
        }
        if self.mutant == Some(PurchaseMutant::ForgetsBought) {
            let all = loaded.state.entitlement.entitlements.iter_mut();
            all.for_each(|it| it.bought.clear());
        }
        if self.mutant == Some(PurchaseMutant::ForgetsEnds) {
            let all = loaded.state.entitlement.entitlements.iter_mut();
            all.flat_map(|it| &mut it.grants).for_each(|it| it.until = None);
        }
        if self.mutant == Some(PurchaseMutant::ForgetsClosing) {
            loaded.state.account.closed.clear();
        }
        if self.mutant == Some(PurchaseMutant::ForgetsNewcomers) {
            let offers = &mut loaded.state.entitlement.newcomers_offers;
            offers.values_mut().for_each(|it| *it = None);
        }
        if self.mutant == Some(PurchaseMutant::ForgetsKeys) {
            loaded.state.claims.values_mut().for_each(|it| *it = None);
        }
        Ok(loaded)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.notes.fails.swap(false, Ordering::Relaxed) {
            let changes = batch.entries.iter().flat_map(|it| &it.changes);
            let mut lost = lock(&self.notes.lost);
            for change in changes {
                lost.extend(Entitlements::of(change).cloned());
            }
            return Err(StoreError::Database(Cause::new("the power is gone")));
        }
        let mut entries = batch.entries.clone();
        for entry in &mut entries {
            let is_timer = entry.command == "ContinueEntitlements";
            entry.changes.retain(|it| !self.is_lost(it, is_timer));
        }
        self.store.commit(&Batch { entries, ..batch.clone() })?;
        batch.entries.iter().flat_map(|it| &it.events).for_each(|it| self.note(it));
        Ok(())
    }
}

impl Planted {
    fn is_lost(&mut self, change: &Change, is_timer: bool) -> bool {
        let mutant = self.mutant;
        if let Change::Timer(TimerChange::Set(it)) = change {
            return mutant == Some(PurchaseMutant::DropsTimer)
                && it.key.kind == TimerKind::Entitlements;
        }
        if let Change::Entitlement(EntitlementChange::Users(it)) = change {
            return mutant == Some(PurchaseMutant::KeepsUsers) && it.mapped.is_empty();
        }
        let Some(it) = Entitlements::of(change) else { return false };
        let now = it.grants.len();
        let before = self.grants.insert(it.account_id, now).unwrap_or_default();
        match mutant {
            Some(PurchaseMutant::LosesGrants) => now > before,
            Some(PurchaseMutant::StaysOn) => now < before && !is_timer,
            Some(_) | None => false,
        }
    }

    fn note(&self, event: &Event) {
        if let Event::EntitlementsChanged { account, version, features, .. } = event {
            let features = features.iter().map(|it| (it.feature.clone(), it.value.clone()));
            let seen = EventVersion { version: *version, features: features.collect() };
            self.notes.events().entry(*account).or_default().push(seen);
        }
    }
}

/// As of several: who has lost a partition then never takes it back.
const SHARE: Share = Share { partition: PartitionNo::FIRST, partitions: 2 };

/// A process that starts on what is there.
pub(super) fn opened(
    disk: &MemoryDisk,
    settings: &Arc<Settings>,
    (mutant, notes): (Option<PurchaseMutant>, &Notes),
) -> Partition<Planted> {
    let (store, notes) = (disk.connect(SHARE), notes.clone());
    let store = Planted { store, mutant, notes, grants: BTreeMap::new() };
    Partition::open(store, Arc::clone(settings)).expect("memory is always there")
}
