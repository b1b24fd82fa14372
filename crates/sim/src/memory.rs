//! A store in memory: maps and lists, written as plainly as the port's promises read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::access::{Role, User};
use domain::payment::{Outstanding, Payment, PaymentFile, ReplyKey, Transaction};
use domain::state::{Change, Claim, ClaimKey, ClaimKind, Read, State};
use domain::tenant::{Tenant, TenantValue};
use domain::{
    Account, AccountId, PaymentId, PaymentMethod, PaymentMethodId, Person, Revision, Seq,
    Sequences, TenantNo, Timestamp, TransactionId,
};
use engine::ports::{
    Batch, Bookkeeping, Entry, HistoryOf, LedgerEntry, Loaded, Opened, Store, StoreError,
    StoredReply,
};

use crate::disk::{Books, Disk, Image, entity};

/// The data, shared by whoever has it open.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Tables>>);

/// The writer of one process.
#[derive(Debug)]
pub struct MemoryStore {
    disk: MemoryDisk,
    epoch: u64,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    epoch: u64,
    sequences: Option<Sequences>,
    queue_offset: Option<i64>,
    tenants: BTreeMap<TenantNo, Tenant>,
    tenant_values: BTreeMap<(TenantNo, String), TenantValue>,
    users: BTreeMap<String, User>,
    roles: BTreeMap<String, Role>,
    accounts: BTreeMap<(TenantNo, AccountId), Account>,
    people: BTreeMap<(TenantNo, AccountId), Person>,
    methods: BTreeMap<(TenantNo, PaymentMethodId), PaymentMethod>,
    payments: BTreeMap<(TenantNo, PaymentId), Payment>,
    transactions: BTreeMap<(TenantNo, PaymentId), Vec<Transaction>>,
    claims: BTreeMap<ClaimKey, Claim>,
    outstanding: BTreeMap<(TenantNo, TransactionId), Outstanding>,
    replies: BTreeMap<ReplyKey, StoredReply>,
    entries: Vec<(TenantNo, LedgerEntry)>,
    journal: Vec<Entry>,
    followed: BTreeMap<&'static str, Seq>,
}

impl MemoryDisk {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn open(&mut self) -> Result<Opened, StoreError> {
        let mut tables = self.disk.tables();
        tables.epoch += 1;
        self.epoch = tables.epoch;
        let first = Sequences { payment_number: 1, tenant_no: 1 };
        Ok(Opened {
            next_seq: Seq(tables.head() + 1),
            sequences: tables.sequences.unwrap_or(first),
            queue_offset: tables.queue_offset,
        })
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        let tables = self.disk.tables();
        let mut state = State::default();
        for read in reads {
            tables.read(read, &mut state);
        }
        let found = replies.iter().filter_map(|key| tables.replies.get(key));
        Ok(Loaded { state, replies: found.map(|reply| (reply.key, reply.clone())).collect() })
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut tables = self.disk.tables();
        if tables.epoch != self.epoch {
            return Err(StoreError::NotOwner);
        }
        tables.check(batch)?;
        tables.write(batch);
        Ok(())
    }
}

impl Tables {
    fn head(&self) -> i64 {
        self.journal.last().map_or(0, |entry| entry.seq.0)
    }

    /// Refuses what cannot be written before anything is: all or nothing.
    fn check(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut seq = self.head();
        for entry in &batch.entries {
            if entry.seq.0 <= seq {
                return Err(StoreError::Database(format!("row {} is there", entry.seq.0)));
            }
            seq = entry.seq.0;
            for change in &entry.changes {
                let Change::ReplySettled { key, .. } = change else { continue };
                if !self.replies.contains_key(key) {
                    return Err(StoreError::Database("a reply to nothing".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, batch: &Batch) {
        for entry in &batch.entries {
            for change in &entry.changes {
                self.change(entry, change);
            }
            self.journal.push(entry.clone());
        }
        for reply in &batch.replies {
            self.replies.insert(reply.key, reply.clone());
        }
        for row in &batch.bookkeeping {
            match row {
                Bookkeeping::Followed { follower, upto } => {
                    self.followed.insert(follower, *upto);
                }
                Bookkeeping::DeliveryPostponed(_) | Bookkeeping::DeliveryClosed { .. } => {}
            }
        }
        self.sequences = batch.sequences.or(self.sequences);
        self.queue_offset = batch.queue_offset.or(self.queue_offset);
    }

    fn change(&mut self, entry: &Entry, change: &Change) {
        let tenant = entry.tenant;
        match change.clone() {
            Change::Tenant(it) => drop(self.tenants.insert(it.no, it)),
            Change::TenantValue(it) => {
                drop(self.tenant_values.insert((it.tenant, it.key.clone()), it));
            }
            Change::User(it) => drop(self.users.insert(it.username.clone(), it)),
            Change::Role(it) => drop(self.roles.insert(it.name.clone(), it)),
            Change::Account(mut it) => {
                tabled(&mut it.revision);
                self.accounts.insert((it.tenant, it.id), it);
            }
            Change::Person { account, person } => {
                self.people.insert((tenant, account), *person);
            }
            Change::PaymentMethod(mut it) => {
                tabled(&mut it.revision);
                self.methods.insert((it.tenant, it.id), it);
            }
            Change::Payment(mut it) => {
                tabled(&mut it.revision);
                self.payments.insert((it.tenant, it.id), it);
            }
            Change::Transaction(mut it) => {
                tabled(&mut it.revision);
                let of_payment = self.transactions.entry((it.tenant, it.payment_id)).or_default();
                match of_payment.iter_mut().find(|known| known.id == it.id) {
                    Some(known) => *known = it,
                    None => of_payment.push(it),
                }
            }
            Change::Posting(posting) => {
                self.entries.push((tenant, LedgerEntry { seq: entry.seq, posting }));
            }
            Change::Claim { key, claim } => drop(self.claims.insert(key, claim)),
            Change::Outstanding(it) => {
                self.outstanding.insert((it.tenant, it.transaction_id), it);
            }
            Change::OutstandingClosed { transaction } => {
                self.outstanding.remove(&(tenant, transaction));
            }
            Change::ReplySettled { key, reply, expires_at } => {
                if let Some(stored) = self.replies.get_mut(&key) {
                    stored.expires_at = expires_at;
                    stored.answer = Some(Ok(reply));
                }
            }
        }
    }

    /// Loads a row with what belongs to it.
    fn read(&self, read: &Read, state: &mut State) {
        match read {
            Read::Account(tenant, id) => self.read_account(*tenant, *id, state),
            Read::PaymentMethod(tenant, id) => self.read_method(*tenant, *id, state),
            Read::Payment(tenant, id) => self.read_payment(*tenant, *id, state),
            Read::Transaction(tenant, id) => {
                let mut own = self.transactions.iter().filter(|((no, _), _)| no == tenant);
                let found = own.find(|(_, moves)| moves.iter().any(|it| it.id == *id));
                let payment = found.map(|((_, payment), _)| *payment);
                state.transactions.insert((*tenant, *id), payment);
                if let Some(payment) = payment {
                    self.read_payment(*tenant, payment, state);
                }
            }
            Read::Claim(key) => self.read_claim(key, state),
            Read::TenantValue(tenant, key) => {
                let place = (*tenant, key.clone());
                let found = self.tenant_values.get(&place).cloned();
                state.tenant_values.insert(place, found);
            }
            Read::User(name) => {
                state.users.insert(name.clone(), self.users.get(name).cloned());
            }
            Read::Role(name) => {
                state.roles.insert(name.clone(), self.roles.get(name).cloned());
            }
        }
    }

    fn read_account(&self, tenant: TenantNo, id: AccountId, state: &mut State) {
        let account = self.accounts.get(&(tenant, id)).cloned();
        if let Some(person) = self.people.get(&(tenant, id)) {
            state.people.insert((tenant, id), person.clone());
        }
        if let Some(default) = account.as_ref().and_then(|account| account.payment_method_id) {
            let method = self.methods.get(&(tenant, default)).cloned();
            state.payment_methods.insert((tenant, default), method);
        }
        state.accounts.insert((tenant, id), account);
    }

    fn read_method(&self, tenant: TenantNo, id: PaymentMethodId, state: &mut State) {
        let method = self.methods.get(&(tenant, id)).cloned();
        if let Some(method) = &method {
            self.read_account(tenant, method.account_id, state);
        }
        state.payment_methods.insert((tenant, id), method);
    }

    fn read_payment(&self, tenant: TenantNo, id: PaymentId, state: &mut State) {
        let file = self.file(tenant, id);
        if let Some(file) = &file {
            self.read_account(tenant, file.payment.account_id, state);
            self.read_method(tenant, file.payment.payment_method_id, state);
            for transaction in &file.transactions {
                self.read_method(tenant, transaction.payment_method_id, state);
                if let Some(open) = self.outstanding.get(&(tenant, transaction.id)) {
                    state.outstanding.insert((tenant, transaction.id), open.clone());
                }
            }
        }
        state.payments.insert((tenant, id), file);
    }

    fn read_claim(&self, key: &ClaimKey, state: &mut State) {
        let claim = self.claims.get(key).copied();
        state.claims.insert(key.clone(), claim);
        let Some(claim) = claim else { return };
        match key.kind {
            ClaimKind::Account => {
                self.read_account(key.tenant, AccountId::new(claim.owner), state);
            }
            ClaimKind::PaymentMethod => {
                self.read_method(key.tenant, PaymentMethodId::new(claim.owner), state);
            }
            ClaimKind::Payment | ClaimKind::Transaction => {
                self.read_payment(key.tenant, PaymentId::new(claim.owner), state);
            }
            ClaimKind::TenantApiKey | ClaimKind::TenantId => {}
        }
    }

    fn file(&self, tenant: TenantNo, id: PaymentId) -> Option<PaymentFile> {
        let payment = self.payments.get(&(tenant, id))?.clone();
        let transactions = self.transactions.get(&(tenant, id)).cloned().unwrap_or_default();
        Some(PaymentFile { payment, transactions })
    }
}

/// A table's row names its journal row only; the one before is in the journal's image.
const fn tabled(revision: &mut Revision) {
    revision.previous = None;
}

impl Disk for MemoryDisk {
    type Store = MemoryStore;

    fn connect(&self) -> MemoryStore {
        MemoryStore { disk: self.clone(), epoch: 0 }
    }

    fn due(&self, now: Timestamp) -> Vec<Outstanding> {
        let tables = self.tables();
        let is_due = |it: &&Outstanding| it.ask_at.is_some_and(|at| at <= now);
        let mut due: Vec<Outstanding> =
            tables.outstanding.values().filter(is_due).cloned().collect();
        due.sort_by_key(|it| it.ask_at);
        due
    }

    fn orphans(&self) -> Vec<Outstanding> {
        let tables = self.tables();
        let orphaned = |it: &&Outstanding| it.ask_at.is_none() && it.asked == 0;
        tables.outstanding.values().filter(orphaned).cloned().collect()
    }

    fn outstanding_of(&self, tenant: TenantNo, payment: PaymentId) -> Vec<Outstanding> {
        let tables = self.tables();
        let of_payment = |it: &&Outstanding| (it.tenant, it.payment_id) == (tenant, payment);
        tables.outstanding.values().filter(of_payment).cloned().collect()
    }

    fn payment(&self, tenant: TenantNo, payment: PaymentId) -> Option<PaymentFile> {
        self.tables().file(tenant, payment)
    }

    fn history(&self, tenant: TenantNo, of: HistoryOf) -> Vec<Image> {
        let tables = self.tables();
        let entries = tables.journal.iter().filter(|entry| entry.tenant == tenant);
        let images = entries.flat_map(|entry| {
            let own = entry.changes.iter().filter(move |change| entity(change) == Some(of));
            own.map(|change| Image { seq: entry.seq.0, image: change.clone() })
        });
        images.collect()
    }

    fn problems(&self) -> Vec<String> {
        vec![]
    }

    fn books(&self) -> Books {
        let tables = self.tables();
        let person = |key| tables.people.get(key).cloned().unwrap_or_default();
        let accounts = tables.accounts.iter();
        let files = tables.payments.keys().filter_map(|(tenant, id)| tables.file(*tenant, *id));
        Books {
            head: tables.head(),
            journal: tables.journal.iter().map(|entry| entry.seq.0).collect(),
            accounts: accounts.map(|(key, account)| (account.clone(), person(key))).collect(),
            methods: tables.methods.values().cloned().collect(),
            payments: files.collect(),
            entries: tables.entries.clone(),
            outstanding: tables.outstanding.values().cloned().collect(),
            followed: tables.followed.values().next().map_or(0, |seq| seq.0),
        }
    }
}
