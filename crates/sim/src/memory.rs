//! A store in memory: maps and lists, written as plainly as the port's promises read.

mod control;
mod customers;
mod definitions;
mod entitlements;
mod methods;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::access::{Role, User};
use domain::account_email::AccountEmail;
use domain::blocking_state::BlockingState;
use domain::change::{
    AccountChange, Change, ClaimChange, CustomerChange, PaymentChange, TenantChange, TimerChange,
};
use domain::change_request::ChangeRequest;
use domain::claim::{Claim, ClaimKey, ClaimKind};
use domain::custom_field::CustomField;
use domain::customer::{Customer, Session};
use domain::definition::{Definition, DefinitionKey};
use domain::environment::{Environment, Secret};
use domain::mail::Mail;
use domain::object::Object;
use domain::operation::Operation;
use domain::payment::{Outstanding, Payment, PaymentFile, ReplyKey, Transaction};
use domain::payment_attempt::PaymentAttempt;
use domain::read::Read;
use domain::state::State;
use domain::tag::{DefinitionRef, Tag, TagDefinition, TagKey};
use domain::tenant::{Tenant, TenantValue};
use domain::timer::{Timer, TimerKey};
use domain::{
    Account, AccountEmailId, AccountId, AttemptId, BlockingStateId, ChangeRequestId, CustomFieldId,
    CustomerId, EnvironmentId, MailId, OperationId, PartitionNo, PaymentId, PaymentMethod,
    PaymentMethodId, Person, Revision, SecretId, Seq, Sequences, SessionId, TagDefinitionId,
    TenantNo, Timestamp, TransactionId,
};
use engine::ports::{
    Batch, Bookkeeping, Entry, HistoryOf, LedgerEntry, Loaded, Opened, Store, StoreError,
    StoredReply,
};
use store::Share;
use uuid::Uuid;

use self::control::ControlTables;
use self::entitlements::EntitlementTables;
use crate::disk::{Books, Disk, Image, entity, is_made};
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
    /// Who had the keys that the batch looked at.
    owners: BTreeMap<ClaimKey, Option<Uuid>>,
    /// Until when the replies hold that the batch looked for; `None` for those that were not there.
    answered: BTreeMap<ReplyKey, Option<Timestamp>>,
}

/// What there is of a partition once.
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
    tenants: BTreeMap<TenantNo, Tenant>,
    tenant_values: BTreeMap<(TenantNo, String), TenantValue>,
    users: BTreeMap<String, User>,
    roles: BTreeMap<String, Role>,
    environments: BTreeMap<(TenantNo, EnvironmentId), Environment>,
    secrets: BTreeMap<(TenantNo, SecretId), Secret>,
    definitions: BTreeMap<(TenantNo, DefinitionKey), Definition>,
    change_requests: BTreeMap<(TenantNo, ChangeRequestId), ChangeRequest>,
    customers: BTreeMap<(TenantNo, CustomerId), Customer>,
    sessions: BTreeMap<(TenantNo, SessionId), Session>,
    mails: BTreeMap<(TenantNo, MailId), Mail>,
    operations: BTreeMap<(TenantNo, OperationId), Operation>,
    accounts: BTreeMap<(TenantNo, AccountId), Account>,
    people: BTreeMap<(TenantNo, AccountId), Person>,
    tags: BTreeMap<(TenantNo, TagKey), Tag>,
    tag_definitions: BTreeMap<(TenantNo, TagDefinitionId), TagDefinition>,
    emails: BTreeMap<(TenantNo, AccountEmailId), AccountEmail>,
    blocking_states: BTreeMap<(TenantNo, BlockingStateId), BlockingState>,
    custom_fields: BTreeMap<(TenantNo, CustomFieldId), CustomField>,
    methods: BTreeMap<(TenantNo, PaymentMethodId), PaymentMethod>,
    payments: BTreeMap<(TenantNo, PaymentId), Payment>,
    transactions: BTreeMap<(TenantNo, PaymentId), Vec<Transaction>>,
    control: ControlTables,
    entitlements: EntitlementTables,
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
        let mut state = State::default();
        for read in reads {
            tables.read(read, &mut state);
        }
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

    /// Refuses to make what is there, as the real store does by its primary keys where a row has its id
    /// from a request. A batch writes a row once: its first change says whether it makes it.
    fn refuse_repeated(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut written = BTreeSet::new();
        for entry in &batch.entries {
            for change in &entry.changes {
                let Some((table, id, is_there)) = self.made_by_request(change) else { continue };
                // A mail has no history: it is only ever made.
                let makes = matches!(change, Change::Customer(CustomerChange::Mail(_)))
                    || is_made(entry, change);
                if written.insert(id) && is_there && makes {
                    return Err(StoreError::Repeated(format!("{table}: {id} is there")));
                }
            }
        }
        Ok(())
    }

    /// Of a row that has its id from the request that makes it: its table, that id, and whether it is
    /// there.
    fn made_by_request(&self, change: &Change) -> Option<(&'static str, Uuid, bool)> {
        Some(match change {
            Change::Account(AccountChange::Account(it)) => {
                ("account", it.id.uuid(), self.accounts.contains_key(&(it.tenant, it.id)))
            }
            Change::Account(AccountChange::PaymentMethod(it)) => {
                ("payment_method", it.id.uuid(), self.methods.contains_key(&(it.tenant, it.id)))
            }
            Change::Account(AccountChange::CustomField(it)) => {
                let is_there = self.custom_fields.contains_key(&(it.tenant, it.id));
                ("custom_field", it.id.uuid(), is_there)
            }
            Change::Account(AccountChange::Email(it)) => {
                let is_there = self.emails.contains_key(&(it.tenant, it.id));
                ("account_email", it.id.uuid(), is_there)
            }
            Change::Account(AccountChange::BlockingState(it)) => {
                let is_there = self.blocking_states.contains_key(&(it.tenant, it.id));
                ("blocking_state", it.id.uuid(), is_there)
            }
            Change::Tenant(TenantChange::TagDefinition(it)) => {
                let is_there = self.tag_definitions.contains_key(&(it.tenant, it.id));
                ("tag_definition", it.id.uuid(), is_there)
            }
            Change::Payment(PaymentChange::Payment(it)) => {
                ("payment", it.id.uuid(), self.payments.contains_key(&(it.tenant, it.id)))
            }
            Change::Customer(CustomerChange::Mail(it)) => {
                ("mail", it.id.uuid(), self.mails.contains_key(&(it.tenant, it.id)))
            }
            Change::Customer(CustomerChange::Operation(it)) => {
                ("operation", it.id.uuid(), self.operations.contains_key(&(it.tenant, it.id)))
            }
            Change::Payment(PaymentChange::Transaction(it)) => {
                let of_payment = self.transactions.get(&(it.tenant, it.payment_id));
                let is_there = of_payment.is_some_and(|all| all.iter().any(|own| own.id == it.id));
                ("payment_transaction", it.id.uuid(), is_there)
            }
            Change::Payment(it) => return self.control.made_by_request(it),
            Change::Entitlement(it) => return self.entitlements.made_by_request(it),
            Change::Tenant(
                TenantChange::Tenant(_) | TenantChange::Value(_) | TenantChange::PaymentRules(_),
            )
            | Change::Access(_)
            | Change::Flag(_)
            | Change::Customer(
                CustomerChange::Customer(_)
                | CustomerChange::Session(_)
                | CustomerChange::SessionEnded { .. }
                | CustomerChange::MailsErased { .. },
            )
            | Change::Claim(_)
            | Change::Timer(_)
            | Change::Account(
                AccountChange::Person { .. }
                | AccountChange::PersonErased { .. }
                | AccountChange::AuditImported(_)
                | AccountChange::Tag(_),
            )
            | Change::ReplySettled { .. } => return None,
        })
    }

    fn write(&mut self, batch: &Batch, no: PartitionNo) {
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
            if let Bookkeeping::Followed { follower, upto } = row {
                self.followed.insert((no, follower), *upto);
            }
        }
        let part = self.part(no);
        part.head = batch.entries.last().map_or(part.head, |entry| entry.seq);
        part.sequences = batch.sequences.unwrap_or(part.sequences);
        part.queue_offset = batch.queue_offset.or(part.queue_offset);
    }

    fn change(&mut self, entry: &Entry, change: &Change) {
        let tenant = entry.tenant;
        match change.clone() {
            Change::Tenant(it) => self.change_tenant(it),
            Change::Access(it) => self.change_access(it),
            Change::Flag(it) => self.change_flag(it),
            Change::Account(it) => self.change_account(tenant, it),
            Change::Customer(it) => self.change_customer(tenant, it),
            Change::Payment(it) => self.change_payment(entry, it),
            Change::Entitlement(it) => self.entitlements.change(it),
            Change::Claim(ClaimChange::Taken { key, claim }) => {
                self.claims.insert(key, claim);
            }
            Change::Claim(ClaimChange::Released { key }) => drop(self.claims.remove(&key)),
            Change::Timer(TimerChange::Set(timer)) => {
                self.timers.insert((timer.tenant, timer.key), timer);
            }
            Change::Timer(TimerChange::Cleared(key)) => drop(self.timers.remove(&(tenant, key))),
            Change::ReplySettled { key, reply, expires_at } => {
                if let Some(stored) = self.replies.get_mut(&key) {
                    stored.expires_at = expires_at;
                    stored.answer = Some(Ok(reply));
                }
            }
        }
    }

    fn change_tenant(&mut self, change: TenantChange) {
        match change {
            TenantChange::Tenant(it) => drop(self.tenants.insert(it.no, it)),
            TenantChange::TagDefinition(mut it) => {
                tabled(&mut it.revision);
                self.tag_definitions.insert((it.tenant, it.id), it);
            }
            TenantChange::PaymentRules(it) => self.control.put_rules(it),
            TenantChange::Value(it) => {
                self.tenant_values.insert((it.tenant, it.key.clone()), it);
            }
        }
    }

    fn change_account(&mut self, tenant: TenantNo, change: AccountChange) {
        match change {
            AccountChange::Account(mut it) => {
                tabled(&mut it.revision);
                self.accounts.insert((it.tenant, it.id), it);
            }
            AccountChange::Person { account, person } => {
                self.people.insert((tenant, account), *person);
            }
            AccountChange::PersonErased { account } => {
                self.people.remove(&(tenant, account));
                let methods = self.methods.values_mut();
                methods
                    .filter(|it| (it.tenant, it.account_id) == (tenant, account))
                    .for_each(PaymentMethod::erase);
                self.control.erase((tenant, account));
                // The rows stay, without what they said.
                let own = |it: (TenantNo, AccountId)| it == (tenant, account);
                let emails = self.emails.values_mut().filter(|it| own((it.tenant, it.account)));
                emails.for_each(|it| it.email.clear());
                let fields = self.custom_fields.values_mut();
                for it in fields.filter(|it| own((it.tenant, it.account))) {
                    it.name.clear();
                    it.value.clear();
                }
            }
            AccountChange::Tag(mut it) => {
                tabled(&mut it.revision);
                self.tags.insert((it.tenant, it.key), it);
            }
            AccountChange::Email(mut it) => {
                tabled(&mut it.revision);
                self.emails.insert((it.tenant, it.id), it);
            }
            AccountChange::BlockingState(mut it) => {
                tabled(&mut it.revision);
                self.blocking_states.insert((it.tenant, it.id), it);
            }
            AccountChange::CustomField(mut it) => {
                tabled(&mut it.revision);
                self.custom_fields.insert((it.tenant, it.id), it);
            }
            AccountChange::PaymentMethod(mut it) => {
                tabled(&mut it.revision);
                self.methods.insert((it.tenant, it.id), it);
            }
            // The workload imports nothing.
            AccountChange::AuditImported(_) => {}
        }
    }

    fn change_payment(&mut self, entry: &Entry, change: PaymentChange) {
        match change {
            PaymentChange::Payment(mut it) => {
                tabled(&mut it.revision);
                self.payments.insert((it.tenant, it.id), it);
            }
            PaymentChange::Transaction(it) => self.put_transaction(it),
            PaymentChange::Attempt(it) => self.control.put_attempt(it),
            PaymentChange::Velocity(it) => self.control.put_velocity(it),
            PaymentChange::Dispute(it) => self.control.put_dispute(*it),
            PaymentChange::Posting(posting) => {
                self.entries.push((entry.tenant, LedgerEntry { seq: entry.seq, posting }));
            }
            PaymentChange::Outstanding(it) => {
                self.outstanding.insert((it.tenant, it.transaction_id), it);
            }
            PaymentChange::OutstandingClosed { transaction } => {
                self.outstanding.remove(&(entry.tenant, transaction));
            }
        }
    }

    fn put_transaction(&mut self, mut it: Transaction) {
        tabled(&mut it.revision);
        let of_payment = self.transactions.entry((it.tenant, it.payment_id)).or_default();
        match of_payment.iter_mut().find(|known| known.id == it.id) {
            Some(known) => *known = it,
            None => of_payment.push(it),
        }
    }

    /// Loads a row with what belongs to it.
    fn count_values(&self, tenant: TenantNo, state: &mut State) {
        let own = self.tenant_values.values().filter(|it| it.tenant == tenant);
        let bytes = own.map(TenantValue::counted_bytes).sum();
        state.tenant_values_bytes.insert(tenant, bytes);
    }

    fn read(&self, read: &Read, state: &mut State) {
        match read {
            Read::Account(tenant, id) => self.read_account(*tenant, *id, state),
            Read::PaymentMethods(tenant, id) => self.list_methods((*tenant, *id), state),
            Read::PaymentMethod(tenant, id) => self.read_method(*tenant, *id, state),
            Read::Payment(tenant, id) => self.read_payment(*tenant, *id, state),
            Read::Transaction(tenant, id) => self.read_transaction((*tenant, *id), state),
            Read::Tag(tenant, key) => copy((*tenant, *key), &self.tags, &mut state.tags),
            Read::TagDefinition(tenant, id) => {
                copy((*tenant, *id), &self.tag_definitions, &mut state.tag_definitions);
            }
            Read::TagDefinitionUse(tenant, id) => self.read_tag_use((*tenant, *id), state),
            Read::AccountEmails(tenant, account) => self.read_emails((*tenant, *account), state),
            Read::BlockingStates(tenant, account) => {
                let states = self.states_of((*tenant, *account)).map(|it| (it.id, it.clone()));
                state.blocking_states.insert((*tenant, *account), states.collect());
            }
            Read::CustomFields(tenant, object) => self.read_fields((*tenant, *object), state),
            Read::PaymentAttempts(tenant, id) => self.control.read_attempts((*tenant, *id), state),
            Read::ScheduledAttempts(tenant, id) => {
                self.control.read_scheduled((*tenant, *id), state);
            }
            Read::PaymentVelocity(tenant, id) => self.control.read_velocity((*tenant, *id), state),
            Read::PaymentRules(tenant) => self.control.read_rules(*tenant, state),
            Read::RulesForPayment(tenant, id) => {
                self.control.read_for_payment((*tenant, *id), state);
                self.read_methods_to_choose((*tenant, *id), state);
            }
            Read::Claim(key) => self.read_claim(key, state),
            Read::Dispute(tenant, case) => self.control.read_dispute((*tenant, case), state),
            Read::DisputeCount(tenant, id) => self.control.count_disputes((*tenant, *id), state),
            Read::Feature(tenant, key) => self.entitlements.read_feature(*tenant, key, state),
            Read::Offer(tenant, key) => self.entitlements.read_offer(*tenant, key, state),
            Read::OfferForAccount(tenant, key, account) => {
                for tag in self.entitlements.read_for_account(*tenant, key, *account, state) {
                    copy((*tenant, tag), &self.tags, &mut state.tags);
                }
            }
            Read::NewcomersOffer(tenant) => self.entitlements.read_newcomers(*tenant, state),
            Read::CatalogSize(tenant) => self.entitlements.read_size(*tenant, state),
            Read::Entitlements(tenant, id) => self.entitlements.read((*tenant, *id), state),
            Read::AccountUsers(no, id) => self.entitlements.read_users((*no, *id), state),
            Read::Usage(read) => self.entitlements.usage.load(read, state),
            Read::Tenant(no) => copy(*no, &self.tenants, &mut state.tenants),
            Read::TenantValue(tenant, key) => {
                copy((*tenant, key.clone()), &self.tenant_values, &mut state.tenant_values);
            }
            Read::TenantValuesBytes(tenant) => self.count_values(*tenant, state),
            Read::User(name) => copy(name.clone(), &self.users, &mut state.users),
            Read::Role(name) => copy(name.clone(), &self.roles, &mut state.roles),
            Read::Environment(tenant, id) => {
                copy((*tenant, *id), &self.environments, &mut state.environments);
            }
            Read::Secret(tenant, id) => {
                copy((*tenant, *id), &self.secrets, &mut state.secrets);
            }
            Read::Definition(tenant, key) => {
                copy((*tenant, key.clone()), &self.definitions, &mut state.definitions);
            }
            Read::Customer(tenant, id) => {
                let key = (*tenant, *id);
                state.customers.insert(key, self.customer(key));
            }
            Read::Timer(tenant, key) => copy((*tenant, *key), &self.timers, &mut state.timers),
            Read::Operation(tenant, id) => {
                copy((*tenant, *id), &self.operations, &mut state.operations);
            }
            Read::ChangeRequest(tenant, id) => {
                copy((*tenant, *id), &self.change_requests, &mut state.change_requests);
            }
        }
    }

    fn list_methods(&self, of: (TenantNo, AccountId), state: &mut State) {
        let ids = self.read_methods(of, state);
        state.methods_listed.insert(of, ids);
    }

    fn read_transaction(&self, (tenant, id): (TenantNo, TransactionId), state: &mut State) {
        let mut own = self.transactions.iter().filter(|((no, _), _)| *no == tenant);
        let found = own.find(|(_, moves)| moves.iter().any(|it| it.id == id));
        let payment = found.map(|((_, payment), _)| *payment);
        state.transactions.insert((tenant, id), payment);
        if let Some(payment) = payment {
            self.read_payment(tenant, payment, state);
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
        let closing = self.states_of((tenant, id)).filter(|it| it.closes().is_some());
        if closing.max_by_key(|it| it.ordinal).is_some_and(|it| it.closes() == Some(true)) {
            state.closed_accounts.insert((tenant, id));
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
            if let Some(purchase) = file.payment.purchase {
                self.entitlements.read_purchase((tenant, purchase), state);
                self.entitlements.read((tenant, file.payment.account_id), state);
            }
            for transaction in &file.transactions {
                self.read_method(tenant, transaction.payment_method_id, state);
                if let Some(open) = self.outstanding.get(&(tenant, transaction.id)) {
                    state.outstanding.insert((tenant, transaction.id), open.clone());
                }
            }
        }
        state.payments.insert((tenant, id), file);
    }

    fn read_tag_use(&self, (tenant, id): (TenantNo, TagDefinitionId), state: &mut State) {
        let of_definition = (tenant, DefinitionRef::Own(id));
        let mut tags = self.tags.values();
        let is_used = tags.any(|it| it.active && (it.tenant, it.key.definition) == of_definition);
        state.tag_definition_uses.insert((tenant, id), is_used);
    }

    fn states_of(&self, of: (TenantNo, AccountId)) -> impl Iterator<Item = &BlockingState> {
        let states = self.blocking_states.values();
        states.filter(move |it| it.active && (it.tenant, it.account) == of)
    }

    fn read_emails(&self, of: (TenantNo, AccountId), state: &mut State) {
        let own =
            |it: &&AccountEmail| is_shown(it.active, &it.email) && (it.tenant, it.account) == of;
        let emails = self.emails.values().filter(own).map(|it| (it.id, it.clone()));
        state.account_emails.insert(of, emails.collect());
    }

    fn read_fields(&self, of: (TenantNo, Object), state: &mut State) {
        let own =
            |it: &&CustomField| is_shown(it.active, &it.value) && (it.tenant, it.object) == of;
        let fields = self.custom_fields.values().filter(own).map(|it| (it.id, it.clone()));
        state.custom_fields.insert(of, fields.collect());
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
            ClaimKind::TenantApiKey
            | ClaimKind::TenantId
            | ClaimKind::CustomerEmail
            | ClaimKind::Environment
            | ClaimKind::TagDefinition
            | ClaimKind::ImportedId
            | ClaimKind::Dispute => {}
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

/// Loads the row of a key, or that there is none.
fn copy<K: Ord, T: Clone>(key: K, table: &BTreeMap<K, T>, loaded: &mut BTreeMap<K, Option<T>>) {
    let row = table.get(&key).cloned();
    loaded.insert(key, row);
}

impl Disk for MemoryDisk {
    type Store = MemoryStore;

    fn connect(&self, share: Share) -> MemoryStore {
        let (owners, answered) = (BTreeMap::new(), BTreeMap::new());
        MemoryStore { disk: self.clone(), share, epoch: None, owners, answered }
    }

    fn due(&self, now: Timestamp) -> Vec<Outstanding> {
        let tables = self.tables();
        let is_due = |it: &&Outstanding| it.ask_at.is_some_and(|at| at <= now);
        let mut due: Vec<Outstanding> =
            tables.outstanding.values().filter(is_due).cloned().collect();
        due.sort_by_key(|it| it.ask_at);
        due
    }

    fn timers_due(&self, now: Timestamp) -> Vec<Timer> {
        let tables = self.tables();
        let mut due: Vec<Timer> =
            tables.timers.values().filter(|it| it.due <= now).cloned().collect();
        due.sort_by_key(|it| (it.due, it.tenant, it.key));
        due
    }

    fn attempt(&self, tenant: TenantNo, id: AttemptId) -> Option<PaymentAttempt> {
        self.tables().control.attempts.get(&(tenant, id)).cloned()
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
        let mut journal: Vec<i64> = tables.journal.iter().map(|entry| entry.seq.0).collect();
        journal.sort_unstable();
        let followed = tables.followed.iter().filter(|((no, _), seq)| **seq > no.start());
        let fields = tables.custom_fields.values();
        let shown_fields = fields.filter(|it| is_shown(it.active, &it.value));
        Books {
            heads: tables.parts.iter().map(|(no, part)| (*no, part.head.0)).collect(),
            journal,
            customers: tables.customers.keys().filter_map(|key| tables.customer(*key)).collect(),
            mails: tables.mails.values().cloned().collect(),
            operations: tables.operations.values().cloned().collect(),
            tags: tables.tags.values().cloned().collect(),
            blocking_states: tables
                .blocking_states
                .values()
                .filter(|it| it.active)
                .cloned()
                .collect(),
            custom_fields: shown_fields.cloned().collect(),
            accounts: accounts.map(|(key, account)| (account.clone(), person(key))).collect(),
            methods: tables.methods.values().cloned().collect(),
            attempts: tables.control.attempts.values().cloned().collect(),
            timers: tables.timers.values().cloned().collect(),
            disputes: tables.control.disputes.values().cloned().collect(),
            velocities: tables.control.velocities.values().cloned().collect(),
            payments: files.collect(),
            entries: tables.entries.clone(),
            outstanding: tables.outstanding.values().cloned().collect(),
            followed: followed.map(|((no, _), seq)| (*no, seq.0)).collect(),
        }
    }
}

/// Whether a row is neither removed nor erased.
const fn is_shown(active: bool, text: &str) -> bool {
    active && !text.is_empty()
}
