//! Steps of another owner between the load and the commit of a batch: it takes the partition over, or
//! commits a request of its own with a key that both want.

use std::sync::{Arc, Mutex, PoisonError};

use domain::RequestId;
use domain::change::{Change, PaymentChange};
use engine::partition::{Partition, Processed};

use super::jobs::{Batch, Offer, created_by, process};
use super::owners::{LIVES, OwnerId};
use super::{From, World};
use crate::ask::Said;
use crate::audit::Wrong;
use crate::disk::Disk;
use crate::faulty::{Seen, Trouble};
use crate::model::Model;
use crate::translate;

/// Where an interposed step leaves its result.
type Slot<T> = Arc<Mutex<Option<T>>>;

impl<D: Disk> World<D> {
    pub(super) fn is_to_be_robbed(&mut self, offer: &Offer) -> bool {
        let may = self.is_shared() && !self.calm && offer.trouble == Trouble::None;
        may && self.random.chance(40)
    }

    /// Between the load and the commit of an owner's batch somebody takes its partition over.
    pub(super) fn rob(&mut self, id: OwnerId, mut offer: Offer) -> Result<(), Wrong> {
        let no = self.owners[&id].no;
        self.note(format!("meanwhile {no:?} is taken over"));
        self.summary.moves += 1;
        let ((store, spy), settings) = (self.connect(no), Arc::clone(&self.settings));
        let slot = Slot::default();
        let left = Arc::clone(&slot);
        self.owners[&id].spy.interpose(Box::new(move || {
            put(&left, Partition::open(store, settings));
        }));
        let (processed, seen) = self.process_interposed(id, &mut offer);
        let opened = taken(&slot).map_err(|error| Wrong::new("the store opens", &error))?;
        self.seat(no, spy, opened);
        self.conclude(id, Batch { offer, processed, seen })?;
        self.resolve();
        Ok(())
    }

    /// Somebody else who commits a request of its own while an owner executes one.
    pub(super) fn rival(&mut self, id: OwnerId) -> Option<OwnerId> {
        if !self.is_shared() || self.calm || !self.random.chance(100) {
            return None;
        }
        let ready = self
            .owners
            .iter()
            .filter(|(other, it)| **other != id && !it.lost_place && it.has_work(&self.queues));
        let ready: Vec<OwnerId> = ready.map(|(other, _)| *other).collect();
        (!ready.is_empty()).then(|| *self.random.pick(&ready))
    }

    /// Two owners have one request each: both load, then the other one commits, then the first.
    pub(super) fn race(&mut self, id: OwnerId, other: OwnerId) -> Result<(), Wrong> {
        self.note(format!("{id} and {other} at the same time"));
        let [mut offer, mut others] = [id, other].map(|it| {
            let mut offer = self.offer(it, 1);
            offer.trouble = Trouble::None;
            offer
        });
        let mut owner = self.owners.remove(&other).expect(LIVES);
        let slot = Slot::default();
        let left = Arc::clone(&slot);
        self.owners[&id].spy.interpose(Box::new(move || {
            let processed = process(&mut owner, &mut others);
            let seen = owner.spy.take();
            put(&left, (owner, Batch { offer: others, processed, seen }));
        }));
        let (processed, seen) = self.process_interposed(id, &mut offer);
        let (owner, others) = taken(&slot);
        self.owners.insert(other, owner);
        let own = Batch { offer, processed, seen };
        // Neither saw the other. Where both committed, one order has to explain what was said; where
        // one did not, it may have the other's partition when it is done.
        let both = own.processed.is_committed() && others.processed.is_committed();
        let own_first = own.processed.is_committed() && !(both && self.explains([&others, &own]));
        if own_first {
            self.conclude(id, own)?;
            self.conclude(other, others)
        } else {
            self.conclude(other, others)?;
            self.conclude(id, own)
        }
    }

    fn process_interposed(&mut self, id: OwnerId, offer: &mut Offer) -> (Processed, Seen) {
        let owner = self.owners.get_mut(&id).expect(LIVES);
        let processed = process(owner, offer);
        if let Some(meanwhile) = owner.spy.left_over() {
            meanwhile();
        }
        (processed, owner.spy.take())
    }

    /// Whether the model says and keeps in this order what was said and kept.
    fn explains(&self, order: [&Batch; 2]) -> bool {
        let mut model = self.model.clone();
        order.into_iter().all(|Batch { offer, processed, seen }| {
            model.begin_batch();
            model.unready = offer.unready();
            let created = created_by(seen);
            offer.jobs.iter().zip(&processed.verdicts).all(|(job, verdict)| {
                let said = translate::said(verdict);
                if matches!(said, Said::Unavailable(_)) || matches!(job.from, From::Follower(_)) {
                    return true;
                }
                let key = job.ask.repeat.map(|repeat| repeat.key);
                let kept_until = |model: &Model| Some(model.replies.get(&key?)?.until);
                let before = kept_until(&model);
                let request = RequestId(uuid::Uuid::from_u128(job.ask.id));
                let created = created.get(&request).copied().unwrap_or_default();
                let expected = model.judge(&job.ask, offer.when, created);
                model.keep(&job.ask, &said, offer.when);
                let is_stored = seen.replies.iter().any(|it| Some(it.key.0.as_u128()) == key);
                expected.admits(&said)
                    && (kept_until(&model) != before) == is_stored
                    && is_begun_alike(&model, seen, request)
            })
        })
    }
}

/// Whether the model has the transaction that a request made, if it made one, as it is written: its answer
/// does not say which rules held.
fn is_begun_alike(model: &Model, seen: &Seen, request: RequestId) -> bool {
    let made = seen.entries.iter().filter(|entry| entry.request == request);
    let changes: Vec<&Change> = made.flat_map(|entry| &entry.changes).collect();
    let has_attempt =
        changes.iter().any(|it| matches!(it, Change::Payment(PaymentChange::Attempt(_))));
    changes.iter().all(|change| {
        let Change::Payment(PaymentChange::Transaction(it)) = change else { return true };
        it.revision.previous.is_some() || model.has_begun(it, has_attempt)
    })
}

fn put<T>(slot: &Slot<T>, it: T) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(it);
}

fn taken<T>(slot: &Slot<T>) -> T {
    let it = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    it.expect("what was interposed has happened")
}
