//! A store in memory: maps and lists, written as plainly as the port's promises read.

mod disk;
mod images;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::change::{
    AccountChange, Change, ClaimChange, CustomerChange, EntitlementChange, PaymentChange,
    TimerChange,
};
use domain::claim::{Claim, ClaimKey};
use domain::customer::mail::Mail;
use domain::customer::{CustomerFile, Session};
use domain::entitlement::account_user::ChangedUsers;
use domain::entitlement::usage::{Reservation, ReservationStatus, Usage, UsageEvent};
use domain::payment::attempt::PaymentVelocity;
use domain::payment::{Outstanding, Payment, PaymentFile, ReplyKey, Transaction};
use domain::read::Read;
use domain::rows::{Keyed, Rows};
use domain::timer::{Timer, TimerKey};
use domain::{
    AccountId, CustomerId, MailId, PartitionNo, PaymentId, Person, Seq, Sequences, SessionId,
    TenantNo, Timestamp, TransactionId,
};
use engine::ports::{
    Batch, Bookkeeping, Cause, Entry, LedgerEntry, Loaded, Opened, Store, StoreError, StoredReply,
};
use store::Share;
use uuid::Uuid;

use self::images::{Images, row};
use crate::disk::is_made;
use crate::mutant::Mutant;

/// The data, shared by all that have it open.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    tables: Arc<Mutex<Tables>>,
    /// A planted bug: owners that lost their partition go on writing.
    forgets_epochs: bool,
    /// A planted bug: what is there already is made once more.
    forgets_keys: bool,
}

/// The writer of one partition.
#[derive(Debug)]
pub struct MemoryStore {
    disk: MemoryDisk,
    share: Share,
    /// The epoch that this writer minted last.
    epoch: Option<u64>,
    /// The owners of the keys that the batch looked at.
    owners: BTreeMap<ClaimKey, Option<Uuid>>,
    /// Until when the replies hold that the batch looked for; `None` for those that were not there.
    answered: BTreeMap<ReplyKey, Option<Timestamp>>,
}

/// The rows that a partition has once.
#[derive(Clone, Copy, Debug)]
struct Part {
    epoch: u64,
    head: Seq,
    sequences: Sequences,
    queue_offset: Option<i64>,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    parts: BTreeMap<PartitionNo, Part>,
    /// The newest images of all entities.
    images: Images,
    /// The transactions of payments, in the order in which they were made.
    transactions: BTreeMap<(TenantNo, PaymentId), Vec<TransactionId>>,
    people: BTreeMap<(TenantNo, AccountId), Person>,
    sessions: BTreeMap<(TenantNo, SessionId), Session>,
    mails: BTreeMap<(TenantNo, MailId), Mail>,
    velocities: Rows<PaymentVelocity>,
    /// The keys of the users that are mapped to accounts.
    users: BTreeMap<(TenantNo, AccountId), BTreeSet<String>>,
    usage: Rows<Usage>,
    usage_events: Rows<UsageEvent>,
    reservations: Rows<Reservation>,
    claims: BTreeMap<ClaimKey, Claim>,
    outstanding: BTreeMap<(TenantNo, TransactionId), Outstanding>,
    timers: BTreeMap<(TenantNo, TimerKey), Timer>,
    replies: BTreeMap<ReplyKey, StoredReply>,
    entries: Vec<(TenantNo, LedgerEntry)>,
    journal: Vec<Entry>,
    followed: BTreeMap<(PartitionNo, &'static str), Seq>,
}

impl Part {
    fn new(no: PartitionNo) -> Self {
        let head = no.start();
        let sequences = Sequences { payment_number: head.0 + 1, tenant_no: 1 };
        Self { epoch: 0, head, sequences, queue_offset: None }
    }
}

impl MemoryDisk {
    /// No data; with a planted bug, where it is one of what outlives a process.
    #[must_use]
    pub fn new(mutant: Option<Mutant>) -> Self {
        let forgets_epochs = mutant == Some(Mutant::ForgetsEpochs);
        let forgets_keys = mutant == Some(Mutant::ForgetsKeys);
        Self { forgets_epochs, forgets_keys, ..Self::default() }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn open(&mut self) -> Result<Opened, StoreError> {
        let mut tables = self.disk.tables();
        let part = tables.part(self.share.partition);
        // A store that shares the data never takes back what another one has taken over since.
        let is_lost = self.epoch.is_some_and(|minted| minted != part.epoch);
        if self.share != Share::WHOLE && is_lost && !self.disk.forgets_epochs {
            return Err(StoreError::NotOwner);
        }
        part.epoch += 1;
        self.epoch = Some(part.epoch);
        let Part { head, sequences, queue_offset, .. } = *part;
        Ok(Opened {
            next_seq: Seq(head.0 + 1),
            sequences,
            queue_offset,
            is_writable: true,
            // Nothing is out of service in a simulation: a command that broke an invariant ends it.
            quarantined: BTreeSet::new(),
        })
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        let tables = self.disk.tables();
        let state = tables.read(reads, self.share.partition);
        let found = replies.iter().filter_map(|key| tables.replies.get(key));
        let found: BTreeMap<_, _> = found.map(|reply| (reply.key, reply.clone())).collect();
        let owner = |claim: &Option<Claim>| claim.map(|claim| claim.owner);
        self.owners = state.claims.iter().map(|(key, it)| (key.clone(), owner(it))).collect();
        let expires_at = |key| found.get(key).map(|reply: &StoredReply| reply.expires_at);
        self.answered = replies.iter().map(|key| (*key, expires_at(key))).collect();
        Ok(Loaded { state, replies: found })
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut tables = self.disk.tables();
        if is_empty(batch) {
            return Ok(());
        }
        let part = *tables.part(self.share.partition);
        if self.epoch != Some(part.epoch) && !self.disk.forgets_epochs {
            return Err(StoreError::NotOwner);
        }
        if self.is_taken(&tables, batch) {
            return Err(StoreError::KeyTaken);
        }
        tables.check(batch, part.head)?;
        if !self.disk.forgets_keys {
            tables.refuse_repeated(batch)?;
        }
        if self.is_answered(&tables, batch) {
            return Err(StoreError::KeyTaken);
        }
        tables.write(batch, self.share.partition);
        Ok(())
    }
}

impl MemoryStore {
    /// Whether somebody else took a key since the batch was loaded.
    fn is_taken(&self, tables: &Tables, batch: &Batch) -> bool {
        let mut changes = batch.entries.iter().flat_map(|entry| &entry.changes);
        changes.any(|change| {
            let Change::Claim(ClaimChange::Taken { key, .. } | ClaimChange::Released { key }) =
                change
            else {
                return false;
            };
            let now = tables.claims.get(key).map(|claim| claim.owner);
            self.owners.get(key).is_some_and(|then| *then != now)
        })
    }

    /// Whether somebody else got the same request since the batch was loaded.
    fn is_answered(&self, tables: &Tables, batch: &Batch) -> bool {
        let now = |key| tables.replies.get(key).map(|reply| reply.expires_at);
        let mut replies = batch.replies.iter().map(|reply| &reply.key);
        replies.any(|key| self.answered.get(key).is_some_and(|then| *then != now(key)))
    }
}

fn is_empty(batch: &Batch) -> bool {
    let Batch { entries, replies, bookkeeping, sequences, queue_offset } = batch;
    entries.is_empty()
        && replies.is_empty()
        && bookkeeping.is_empty()
        && sequences.is_none()
        && queue_offset.is_none()
}

impl Tables {
    fn part(&mut self, no: PartitionNo) -> &mut Part {
        self.parts.entry(no).or_insert_with(|| Part::new(no))
    }

    /// Refuses what cannot be written before anything is: all or nothing.
    fn check(&self, batch: &Batch, head: Seq) -> Result<(), StoreError> {
        let mut seq = head.0;
        for entry in &batch.entries {
            if entry.seq.0 <= seq {
                return Err(StoreError::Database(Cause::new(format!(
                    "row {} is there",
                    entry.seq.0
                ))));
            }
            seq = entry.seq.0;
            for change in &entry.changes {
                let Some(settled) = change.settled_reply() else { continue };
                if !self.replies.contains_key(&settled.key) {
                    return Err(StoreError::Database(Cause::new("a reply to nothing")));
                }
            }
        }
        Ok(())
    }

    /// Refuses to make what is there, as the real store does by its primary keys.
    fn refuse_repeated(&self, batch: &Batch) -> Result<(), StoreError> {
        for entry in &batch.entries {
            for change in &entry.changes {
                if self.is_repeated(entry, change) {
                    return Err(StoreError::Repeated(Cause::new(format!("{change:?} is there"))));
                }
            }
        }
        Ok(())
    }

    fn is_repeated(&self, entry: &Entry, change: &Change) -> bool {
        if let Change::Customer(CustomerChange::Mail(it)) = change {
            return self.mails.contains_key(&(it.tenant, it.id));
        }
        if let Change::Entitlement(EntitlementChange::Reservation(it)) = change {
            let known = self.reservations.find(&it.key());
            return it.status == ReservationStatus::Open && known.is_some();
        }
        is_made(entry, change) && self.images.have(change)
    }

    fn write(&mut self, batch: &Batch, no: PartitionNo) {
        for entry in &batch.entries {
            for change in &entry.changes {
                if !self.images.put(change) {
                    self.change(entry, change.clone());
                }
                if let Some(settled) = change.settled_reply()
                    && let Some(stored) = self.replies.get_mut(&settled.key)
                {
                    stored.expires_at = settled.expires_at;
                    stored.answer = Some(Ok(settled.reply.clone()));
                }
                if let Change::Payment(PaymentChange::Transaction(it)) = change {
                    let of_payment = self.transactions.entry((it.tenant, it.payment_id));
                    let of_payment = of_payment.or_default();
                    if !of_payment.contains(&it.id) {
                        of_payment.push(it.id);
                    }
                }
            }
            self.journal.push(entry.clone());
        }
        for reply in &batch.replies {
            self.replies.insert(reply.key, reply.clone());
        }
        for row in &batch.bookkeeping {
            if let Bookkeeping::Followed { follower, upto } = row {
                self.followed.insert((no, follower), *upto);
            }
        }
        let part = self.part(no);
        part.head = batch.entries.last().map_or(part.head, |entry| entry.seq);
        part.sequences = batch.sequences.unwrap_or(part.sequences);
        part.queue_offset = batch.queue_offset.or(part.queue_offset);
    }

    /// Writes a row that is no entity.
    fn change(&mut self, entry: &Entry, change: Change) {
        let tenant = entry.tenant;
        match change {
            Change::Account(AccountChange::Person { account, person }) => {
                self.people.insert((tenant, account), *person);
            }
            Change::Account(AccountChange::PersonErased { account }) => {
                self.people.remove(&(tenant, account));
                self.images.erase(account);
            }
            Change::Customer(it) => self.change_customer(tenant, it),
            Change::Payment(it) => self.change_payment(entry, it),
            Change::Posting(posting) => {
                self.entries.push((tenant, LedgerEntry { seq: entry.seq, posting }));
            }
            Change::Entitlement(it) => self.change_entitlement(it),
            Change::Claim(ClaimChange::Taken { key, claim }) => {
                self.claims.insert(key, claim);
            }
            Change::Claim(ClaimChange::Released { key }) => drop(self.claims.remove(&key)),
            Change::Timer(TimerChange::Set(it)) => drop(self.timers.insert(it.key(), it)),
            Change::Timer(TimerChange::Cleared(key)) => drop(self.timers.remove(&(tenant, key))),
            // Entities and replies; and imported audit logs: the workload imports nothing.
            Change::Tenant(_)
            | Change::Access(_)
            | Change::Flag(_)
            | Change::Billing(_)
            | Change::Account(_)
            | Change::ReplySettled(_) => {}
        }
    }

    fn change_customer(&mut self, tenant: TenantNo, change: CustomerChange) {
        match change {
            CustomerChange::MailsErased { customer } => {
                self.mails.retain(|(no, _), mail| (*no, mail.customer) != (tenant, customer));
            }
            CustomerChange::Session(it) => drop(self.sessions.insert(it.key(), it)),
            CustomerChange::SessionEnded { session, .. } => {
                self.sessions.remove(&(tenant, session));
            }
            CustomerChange::Mail(it) => drop(self.mails.insert((it.tenant, it.id), it)),
            CustomerChange::Customer(_) | CustomerChange::Operation(_) => {}
        }
    }

    fn change_payment(&mut self, entry: &Entry, change: PaymentChange) {
        match change {
            PaymentChange::Velocity(it) => drop(self.velocities.put(it)),
            PaymentChange::Outstanding(it) => drop(self.outstanding.insert(it.key(), it)),
            PaymentChange::OutstandingClosed { transaction } => {
                self.outstanding.remove(&(entry.tenant, transaction));
            }
            PaymentChange::Payment(_)
            | PaymentChange::Transaction(_)
            | PaymentChange::Attempt(_)
            | PaymentChange::Dispute(_) => {}
        }
    }

    fn change_entitlement(&mut self, change: EntitlementChange) {
        match change {
            EntitlementChange::Users(it) => {
                let ChangedUsers { tenant, account, mapped, unmapped } = *it;
                let users = self.users.entry((tenant, account)).or_default();
                users.retain(|user| !unmapped.contains(user));
                users.extend(mapped);
            }
            EntitlementChange::Usage(it) => drop(self.usage.put(*it)),
            EntitlementChange::UsageEvent(it) => drop(self.usage_events.put(*it)),
            EntitlementChange::Reservation(it) => drop(self.reservations.put(*it)),
            EntitlementChange::Feature(_)
            | EntitlementChange::Offer(_)
            | EntitlementChange::PlanFeatures(_)
            | EntitlementChange::Purchase(_)
            | EntitlementChange::Entitlements(_) => {}
        }
    }

    /// A payment with its transactions.
    fn file(&self, key: (TenantNo, PaymentId)) -> Option<PaymentFile> {
        let payment = self.images.get::<Payment>(&key)?;
        let ids = self.transactions.get(&key).into_iter().flatten();
        let transactions = ids.filter_map(|id| self.images.get::<Transaction>(&(key.0, *id)));
        Some(PaymentFile { payment, transactions: transactions.collect() })
    }

    /// A customer with their sessions.
    fn customer(&self, key: (TenantNo, CustomerId)) -> Option<CustomerFile> {
        let customer = self.images.get(&key)?;
        let own = self.sessions.values().filter(|it| (it.tenant, it.customer) == key);
        Some(CustomerFile { customer, sessions: own.cloned().collect() })
    }
}
