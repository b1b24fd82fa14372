//! The store of the simulation, with a bug where one is planted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::change::{Change, EntitlementChange, TimerChange};
use domain::entitlement::Entitlements;
use domain::feature::FeatureValue;
use domain::payment::ReplyKey;
use domain::read::Read;
use domain::timer::TimerKind;
use domain::{AccountId, Event, PartitionNo, Settings};
use engine::partition::Partition;
use engine::ports::{Batch, Loaded, Opened, Store, StoreError};
use store::Share;

use super::PurchaseMutant;
use crate::disk::Disk;
use crate::memory::{MemoryDisk, MemoryStore};

/// What an event said that an account has.
#[derive(Clone, Debug)]
pub(super) struct EventVersion {
    pub(super) version: i64,
    pub(super) features: BTreeMap<String, FeatureValue>,
}

/// What the store notes, and whether its next commit fails: it outlives processes.
#[derive(Clone, Default)]
pub(super) struct Notes {
    events: Arc<Mutex<BTreeMap<AccountId, Vec<EventVersion>>>>,
    fails: Arc<AtomicBool>,
    /// What was not committed.
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

    /// What would have been committed since the last call.
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
            let purchases = loaded.state.purchases.values_mut();
            purchases.for_each(|it| it.terms.offer.price = None);
        }
        if self.mutant == Some(PurchaseMutant::ForgetsBought) {
            let all = loaded.state.entitlements.values_mut().flatten();
            all.for_each(|it| it.bought.clear());
        }
        if self.mutant == Some(PurchaseMutant::ForgetsEnds) {
            let all = loaded.state.entitlements.values_mut().flatten();
            all.flat_map(|it| &mut it.grants).for_each(|it| it.until = None);
        }
        if self.mutant == Some(PurchaseMutant::ForgetsClosing) {
            loaded.state.closed_accounts.clear();
        }
        if self.mutant == Some(PurchaseMutant::ForgetsNewcomers) {
            loaded.state.newcomers_offers.values_mut().for_each(|it| *it = None);
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
                if let Change::Entitlement(EntitlementChange::Entitlements(it)) = change {
                    lost.push((**it).clone());
                }
            }
            return Err(StoreError::Database("the power is gone".to_owned()));
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
        match (change, self.mutant) {
            (Change::Timer(TimerChange::Set(it)), Some(PurchaseMutant::DropsTimer)) => {
                it.key.kind == TimerKind::Entitlements
            }
            (Change::Entitlement(EntitlementChange::Users(it)), mutant) => {
                mutant == Some(PurchaseMutant::KeepsUsers) && it.mapped.is_empty()
            }
            (Change::Entitlement(EntitlementChange::Entitlements(it)), mutant) => {
                let now = it.grants.len();
                let before = self.grants.insert(it.account_id, now).unwrap_or_default();
                match mutant {
                    Some(PurchaseMutant::LosesGrants) => now > before,
                    Some(PurchaseMutant::StaysOn) => now < before && !is_timer,
                    Some(_) | None => false,
                }
            }
            (
                Change::Timer(_)
                | Change::Entitlement(_)
                | Change::Tenant(_)
                | Change::Access(_)
                | Change::Flag(_)
                | Change::Account(_)
                | Change::Customer(_)
                | Change::Payment(_)
                | Change::Claim(_)
                | Change::ReplySettled { .. },
                _,
            ) => false,
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
