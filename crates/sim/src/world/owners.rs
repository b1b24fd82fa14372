//! Partitions, and the processes that own them or believe so.
//!
//! With more than one partition, requests come from a queue: each partition has a list of records,
//! and a record's place in it is its offset. An owner reads on where the store says, executes what
//! it reads beside work of its own, and hands the place over in the same commit. A partition goes
//! to another owner at any moment: also between the load and the commit of a batch, and while
//! gateways are called. The earlier owner is not notified. It goes on with what it has in its hands
//! until the store refuses its commit; then it ends, or the queue assigns the partition to it anew.
//!
//! Who asks and hears nothing for some time asks again, with another record, which may come before
//! the first; what is read too late is passed over. The model judges each record when it is
//! committed, so that nothing may be answered otherwise than if one process had done it all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use domain::command::Subject;
use domain::payment::routed::Tries;
use domain::{PartitionNo, RequestId, TenantNo};
use engine::partition::Partition;
use engine::ports::{Store, StoreError};
use store::Share;

use super::{Event, Job, SECOND_US, World};
use crate::ask::{Ask, Uid};
use crate::audit::Wrong;
use crate::disk::Disk;
use crate::faulty::{Faulty, Spy};
use crate::gateway::{Call, Later};
use crate::mutant::Mutant;
use crate::translate;

/// How long a client waits for an answer from the queue.
const PATIENCE_US: i64 = 30 * SECOND_US;

/// How long a record may wait to be begun.
const TIME_TO_LIVE_US: i64 = 20 * SECOND_US;

/// How long a record is on its way at most, where it does not come at once.
const ON_ITS_WAY_US: i64 = 5 * SECOND_US;

/// How many owners of the past a partition has at most.
const STALE_MAX: usize = 3;

pub(super) const LIVES: &str = "an owner that is named lives";

/// Names an owner.
pub(super) type OwnerId = u64;

/// A process that owns a partition, or believes so.
pub(super) struct Owner<S: Store> {
    pub(super) no: PartitionNo,
    pub(super) partition: Partition<Faulty<S, Mutant>>,
    pub(super) spy: Spy,
    /// The planted bug.
    pub(super) mutant: Option<Mutant>,
    /// Its own work; where there is no queue, also what clients ask.
    pub(super) inbox: VecDeque<Job>,
    /// Calls that it runs.
    pub(super) running: BTreeMap<Uid, Call>,
    /// Where they may go on after a decline.
    pub(super) tries: BTreeMap<Uid, Box<Tries>>,
    /// Who waits for the outcome of which transaction.
    pub(super) waiters: BTreeMap<Uid, u64>,
    /// The next record to read.
    pub(super) read_on: usize,
    /// Set once it is not known whether what was read was committed.
    pub(super) lost_place: bool,
    /// How many jobs its next batch has at most, where the store refused a row of the last one.
    pub(super) at_most: Option<usize>,
}

/// All records that ever came for a partition, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    records: Vec<Record>,
    /// How many of them are dealt with, by what was committed.
    dealt: usize,
}

/// One delivery of a request.
#[derive(Clone, Debug)]
pub(super) struct Record {
    job: Job,
    /// Real time from which on it is passed over.
    expires_at: i64,
}

/// Records that one batch deals with.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) from: usize,
    pub(super) upto: usize,
    /// The clients whose requests are passed over.
    pub(super) expired: Vec<u64>,
}

impl Queue {
    /// Reads at most so many records, and what they bring.
    fn read(&self, from: usize, most: usize, now: i64) -> Option<(Reading, Vec<Job>)> {
        let records = self.records.get(from..)?;
        let records = &records[..most.min(records.len())];
        let (begun, late): (Vec<&Record>, Vec<&Record>) =
            records.iter().partition(|it| it.expires_at >= now);
        let expired = late.iter().filter_map(|it| it.job.client()).collect();
        let reading = Reading { from, upto: from + records.len(), expired };
        let jobs = begun.into_iter().map(|it| it.job.clone()).collect();
        (!records.is_empty()).then_some((reading, jobs))
    }

    const fn has_unread(&self, from: usize) -> bool {
        self.records.len() > from
    }
}

impl<S: Store> Owner<S> {
    pub(super) fn has_work(&self, queues: &BTreeMap<PartitionNo, Queue>) -> bool {
        let queue = queues.get(&self.no);
        let unread = queue.is_some_and(|queue| queue.has_unread(self.read_on));
        !self.inbox.is_empty() || self.lost_place || unread
    }
}

impl<D: Disk> World<D> {
    /// Whether there are several partitions, and a queue.
    pub(super) const fn is_shared(&self) -> bool {
        self.plan.partitions > 1
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionNo> + use<D> {
        (0..self.plan.partitions).filter_map(|no| PartitionNo::new(no.into()))
    }

    /// Whether the partition has been taken over since.
    pub(super) fn is_stale(&self, id: OwnerId) -> bool {
        self.current.get(&self.owners[&id].no) != Some(&id)
    }

    /// The owner of the partition that has a payment's account.
    pub(super) fn owner_of(&self, tenant: u32, payment: Uid) -> OwnerId {
        let account = self.model.payment(tenant, payment).map(|payment| payment.account);
        self.current[&self.partition_of(tenant, account)]
    }

    /// The owner of the partition that executes a request.
    pub(super) fn owner_for(&self, ask: &Ask) -> OwnerId {
        self.current[&self.route(ask)]
    }

    fn partition_of(&self, tenant: u32, account: Option<Uid>) -> PartitionNo {
        account.map_or(PartitionNo::FIRST, |account| {
            PartitionNo::of(TenantNo(tenant), translate::id(account), self.plan.partitions)
        })
    }

    /// Where a front sends a request; what is about something that is not there, goes to the first.
    fn route(&self, ask: &Ask) -> PartitionNo {
        let request = translate::request(ask);
        let account = match request.command.subject(RequestId(uuid::Uuid::from_u128(ask.id))) {
            Subject::System => None,
            Subject::Account(id) => Some(id.uuid().as_u128()),
            Subject::Payment(id) => {
                self.model.payment(ask.tenant, id.uuid().as_u128()).map(|it| it.account)
            }
            Subject::PaymentMethod(id) => {
                let tenant = self.model.tenants.get(&ask.tenant);
                let method = tenant.and_then(|it| it.methods.get(&id.uuid().as_u128()));
                method.map(|it| it.account)
            }
        };
        self.partition_of(ask.tenant, account)
    }

    /// A request is on its way to the queue; `tries` says which attempt of its client it is.
    pub(super) fn append(&mut self, client: u64, tries: u32, job: Job) {
        let no = self.route(&job.ask);
        let record = Record { job, expires_at: self.real + TIME_TO_LIVE_US };
        if !self.calm && self.random.chance(200) {
            let delay = self.random.between(1, ON_ITS_WAY_US);
            self.later(delay, Event::Append(no, Box::new(record)));
        } else {
            self.appended(no, record);
        }
        self.later(PATIENCE_US, Event::Patience(client, tries));
    }

    pub(super) fn appended(&mut self, no: PartitionNo, record: Record) {
        self.queues.entry(no).or_default().records.push(record);
    }

    /// Whether some request has come and was not dealt with.
    pub(super) fn has_undealt(&self) -> bool {
        self.queues.values().any(|queue| queue.has_unread(queue.dealt))
    }

    /// How much work there is.
    pub(super) fn pending(&self) -> usize {
        let unread = |it: &Owner<D::Store>| {
            self.queues
                .get(&it.no)
                .map_or(0, |queue| queue.records.len().saturating_sub(it.read_on))
        };
        self.owners.values().map(|it| it.inbox.len() + unread(it)).sum()
    }

    /// Somebody who has something to do.
    pub(super) fn next_up(&mut self, stale_too: bool) -> Option<OwnerId> {
        let ready = self
            .owners
            .iter()
            .filter(|(id, it)| it.has_work(&self.queues) && (stale_too || !self.is_stale(**id)));
        let ready: Vec<OwnerId> = ready.map(|(id, _)| *id).collect();
        match ready.as_slice() {
            [] => None,
            [one] => Some(*one),
            several => Some(*self.random.pick(several)),
        }
    }

    /// So much of what an owner finds to do: its own work, and records.
    pub(super) fn take(&mut self, id: OwnerId, most: usize) -> (Vec<Job>, Option<Reading>) {
        let owner = self.owners.get_mut(&id).expect(LIVES);
        let most = owner.at_most.map_or(most, |at_most| at_most.min(most));
        let count = most.min(owner.inbox.len());
        let mut jobs: Vec<Job> = owner.inbox.drain(..count).collect();
        let queue = self.queues.get(&owner.no).filter(|_| !owner.lost_place);
        let read = queue.and_then(|queue| queue.read(owner.read_on, most - count, self.real));
        let (reading, read) = read.unzip();
        jobs.extend(read.into_iter().flatten());
        (jobs, reading)
    }

    /// The store refused a row of one of the jobs: all of them are tried again in their order, half as
    /// many at a time, until the one that is to blame is alone.
    pub(super) fn halve(&mut self, id: OwnerId, jobs: Vec<Job>) {
        self.note(format!("{} jobs are refused", jobs.len()));
        let is_shared = self.is_shared();
        let owner = self.owners.get_mut(&id).expect(LIVES);
        owner.at_most = Some((jobs.len() / 2).max(1));
        // What came from a queue is still there.
        let own = jobs.into_iter().filter(|job| !is_shared || job.client().is_none());
        own.rev().for_each(|job| owner.inbox.push_front(job));
    }

    /// Notes that the records of a reading are committed, and checks that none was before and none is passed over.
    pub(super) fn dealt_with(&mut self, no: PartitionNo, reading: &Reading) -> Result<(), Wrong> {
        let queue = self.queues.entry(no).or_default();
        let Reading { from, upto, .. } = *reading;
        let dealt = std::mem::replace(&mut queue.dealt, upto);
        let context = format!("records {from} to {upto} of {no:?} after record {dealt}");
        if from < dealt {
            self.hold(Err(Wrong::new("a record is dealt with once", &context)))?;
        }
        if from > dealt {
            self.hold(Err(Wrong::new("no record is passed over", &context)))?;
        }
        Ok(())
    }

    /// In the end.
    pub(super) fn all_are_dealt_with(&self) -> Result<(), Wrong> {
        match self.queues.iter().find(|(_, queue)| queue.dealt != queue.records.len()) {
            None => Ok(()),
            Some((no, queue)) => {
                let context = format!("{} of {} of {no:?}", queue.dealt, queue.records.len());
                Err(Wrong::new("no record is passed over", &context))
            }
        }
    }

    /// Somebody takes a partition over, and asks about the calls that nobody may run any more.
    pub(super) fn take_over(&mut self, no: PartitionNo) -> Result<(), Wrong> {
        self.open(no).map_err(|error| Wrong::new("the store opens", &error))?;
        self.resolve();
        Ok(())
    }

    pub(super) fn open(&mut self, no: PartitionNo) -> Result<(), StoreError> {
        let (store, spy) = self.connect(no);
        let partition = Partition::open(store, Arc::clone(&self.settings))?;
        self.seat(no, spy, partition);
        Ok(())
    }

    pub(super) fn connect(&self, no: PartitionNo) -> (Faulty<D::Store, Mutant>, Spy) {
        let spy = if self.is_shared() { Spy::default() } else { self.spy.clone() };
        let share = Share { partition: no, partitions: self.plan.partitions };
        let store = self.disk.connect(share);
        (Faulty::new(store, spy.clone(), self.disk.cut(), self.plan.mutant), spy)
    }

    pub(super) fn seat(
        &mut self,
        no: PartitionNo,
        spy: Spy,
        partition: Partition<Faulty<D::Store, Mutant>>,
    ) {
        self.seats += 1;
        let id = self.seats;
        let offset = partition.queue_offset().unwrap_or(0);
        let owner = Owner {
            no,
            partition,
            spy,
            mutant: self.plan.mutant,
            inbox: VecDeque::new(),
            running: BTreeMap::new(),
            tries: BTreeMap::new(),
            waiters: BTreeMap::new(),
            read_on: usize::try_from(offset).expect("offsets are not negative"),
            lost_place: false,
            at_most: None,
        };
        self.owners.insert(id, owner);
        self.current.insert(no, id);
        if self.is_shared() {
            self.note(format!("{id} takes {no:?} over from record {offset}"));
        }
    }

    /// A partition goes to another owner, and the earlier one is not notified.
    pub(super) fn move_partition(&mut self) -> Result<(), Wrong> {
        let all: Vec<PartitionNo> = self.partitions().collect();
        let no = *self.random.pick(&all);
        self.summary.moves += 1;
        self.take_over(no)?;
        let stale: Vec<OwnerId> =
            self.owners.keys().copied().filter(|id| self.is_stale(*id)).collect();
        if stale.len() > STALE_MAX {
            self.end(stale[0]);
        }
        Ok(())
    }

    /// An owner is gone, with all that it knew; gateways tell again what nobody has heard.
    pub(super) fn end(&mut self, id: OwnerId) {
        self.owners.remove(&id);
        let unheard: Vec<Uid> = self.gateway.unheard.iter().copied().collect();
        for transaction in unheard {
            self.later(5 * SECOND_US, Event::Gateway(Later::Notify(transaction)));
        }
    }

    /// An owner ends because the store says that it is none, or because it lost its partition. A client that
    /// has the partition by the queue's word takes it over anew; who has lost it may get it again.
    pub(super) fn open_again(&mut self, id: OwnerId) -> Result<(), Wrong> {
        let (no, was_stale) = (self.owners[&id].no, self.is_stale(id));
        self.note(format!("{id} ends"));
        self.end(id);
        if was_stale && (self.calm || !self.random.chance(200)) {
            return Ok(());
        }
        self.take_over(no)
    }
}
