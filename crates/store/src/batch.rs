//! The rows that a batch writes: each entity's newest image once, however often it was changed.

mod customers;
mod entitlements;

use std::collections::{BTreeMap, BTreeSet};

use domain::access::{Role, User};
use domain::account_email::AccountEmail;
use domain::blocking_state::BlockingState;
use domain::change::{
    AccessChange, AccountChange, Change, ClaimChange, FlagChange, PaymentChange, SettledReply,
    TenantChange, TimerChange,
};
use domain::change_request::ChangeRequest;
use domain::custom_field::CustomField;
use domain::definition::Definition;
use domain::dispute::Dispute;
use domain::entity::Entity;
use domain::environment::{Environment, Secret};
use domain::import::AuditEntry;
use domain::ledger::Posting;
use domain::payment::{Outstanding, Payment, ReplyKey, Transaction};
use domain::payment_attempt::{PaymentAttempt, PaymentVelocity};
use domain::payment_rules::PaymentRules;
use domain::rows::Keyed;
use domain::tag::{Tag, TagDefinition};
use domain::tenant::{Tenant, TenantValue};
use domain::timer::{Timer, TimerKey};
use domain::{
    Account, AccountId, PaymentId, PaymentMethod, PaymentMethodId, Person, Revision, Seq, TenantNo,
    TransactionId,
};
use engine::ports::{Batch, Entry, StoreError};

use self::customers::CustomerRows;
use self::entitlements::EntitlementRows;
use crate::actors::{self, Named};
use crate::claims::Memtable;
use crate::codes::timer_kind_code;
use crate::driver::{Database, Value};
use crate::recent::Recent;
use crate::rows::{self, Claimed};
use crate::share::Share;
use crate::stored::{self, Newest, WriteContext};
use crate::tables;
use crate::totals::{Counted, Deltas};

/// The state, before the batch, of the loaded payments and payment methods that the totals count.
#[derive(Default)]
pub(crate) struct CountedBefore {
    /// The gateways of payments.
    pub(crate) gateways: BTreeMap<(TenantNo, PaymentId), String>,
    /// Payment methods that were not active.
    pub(crate) inactive_methods: BTreeSet<(TenantNo, PaymentMethodId)>,
}

/// The newest images of a kind in a batch, sorted by key, so that neighbours are written together.
struct Images<'a, T: Keyed>(BTreeMap<T::Key, Newest<'a, T>>);

impl<T: Keyed> Default for Images<'_, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'a, T: Entity> Images<'a, T> {
    fn take(&mut self, image: &'a T, seq: Seq) {
        let made_by = made_here(image.revision(), seq).then_some(seq);
        let known = self.0.entry(image.key()).or_insert(Newest { image, made_by });
        known.image = image;
    }

    fn get(&self, key: &T::Key) -> Option<&'a T> {
        self.0.get(key).map(|it| it.image)
    }

    fn values(&self) -> impl Iterator<Item = &Newest<'a, T>> + Clone {
        self.0.values()
    }
}

/// The rows that a batch writes, sorted by key, so that neighbours are written together.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    tenants: Images<'a, Tenant>,
    values: Images<'a, TenantValue>,
    tag_definitions: Images<'a, TagDefinition>,
    users: Images<'a, User>,
    roles: Images<'a, Role>,
    environments: Images<'a, Environment>,
    secrets: Images<'a, Secret>,
    definitions: Images<'a, Definition>,
    change_requests: Images<'a, ChangeRequest>,
    customers: CustomerRows<'a>,
    rules: Images<'a, PaymentRules>,
    attempts: Images<'a, PaymentAttempt>,
    velocities: BTreeMap<(TenantNo, AccountId), &'a PaymentVelocity>,
    entitlements: EntitlementRows<'a>,
    accounts: Images<'a, Account>,
    people: Vec<(TenantNo, AccountId, Seq, &'a Person)>,
    tags: Images<'a, Tag>,
    emails: Images<'a, AccountEmail>,
    blocking_states: Images<'a, BlockingState>,
    /// Whether accounts whose newest state of the account service the batch made are closed.
    closed: BTreeMap<(TenantNo, AccountId), bool>,
    custom_fields: Images<'a, CustomField>,
    /// The values that custom fields got, with the fields.
    field_values: Vec<&'a CustomField>,
    /// Entries of other systems' audit logs.
    audits: Vec<&'a AuditEntry>,
    methods: Images<'a, PaymentMethod>,
    payments: Images<'a, Payment>,
    transactions: Images<'a, Transaction>,
    disputes: Images<'a, Dispute>,
    postings: Vec<(Seq, i64, &'a Posting)>,
    /// Accounts whose personal data is erased.
    erased: Vec<(TenantNo, AccountId, Seq)>,
    pub(crate) claims: Memtable,
    outstanding: BTreeMap<(TenantNo, TransactionId), Option<&'a Outstanding>>,
    timers: BTreeMap<(TenantNo, TimerKey), Option<&'a Timer>>,
    /// The final replies to earlier requests.
    pub(crate) settled: BTreeMap<ReplyKey, &'a SettledReply>,
    /// The batch's changes of the totals.
    pub(crate) deltas: Deltas<'a>,
}

impl<'a> Rows<'a> {
    /// The rows that `batch` writes. `before` is the earlier state of the entities that it changes
    /// and did not make.
    pub(crate) fn of(batch: &'a Batch, before: &'a CountedBefore) -> Self {
        let mut rows = Self::default();
        for entry in &batch.entries {
            let mut ordinal = 0;
            for change in &entry.changes {
                rows.take(entry, change, &mut ordinal, before);
            }
        }
        rows
    }

    fn take(
        &mut self,
        entry: &'a Entry,
        change: &'a Change,
        ordinal: &mut i64,
        before: &'a CountedBefore,
    ) {
        let seq = entry.seq;
        match change {
            Change::Tenant(it) => self.take_tenant(it, seq),
            Change::Access(it) => self.take_access(it, seq),
            Change::Flag(it) => self.take_flag(it, seq),
            Change::Account(AccountChange::PaymentMethod(it)) => self.take_method(it, seq, before),
            Change::Account(it) => self.take_account(entry.tenant, it, seq),
            Change::Customer(it) => self.customers.take(entry.tenant, it, seq),
            Change::Payment(PaymentChange::Payment(it)) => self.take_payment(it, seq, before),
            Change::Payment(PaymentChange::Transaction(it)) => {
                self.transactions.take(it, seq);
            }
            Change::Payment(PaymentChange::Attempt(it)) => self.attempts.take(it, seq),
            Change::Payment(PaymentChange::Velocity(it)) => {
                self.velocities.insert((it.tenant, it.account_id), it);
            }
            Change::Payment(PaymentChange::Dispute(it)) => {
                self.disputes.take(it, seq);
            }
            Change::Payment(PaymentChange::Posting(it)) => {
                self.postings.push((seq, *ordinal, it));
                *ordinal += 1;
                self.deltas.post(it);
            }
            Change::Payment(PaymentChange::Outstanding(it)) => {
                self.outstanding.insert((it.tenant, it.transaction_id), Some(it));
            }
            Change::Payment(PaymentChange::OutstandingClosed { transaction }) => {
                self.outstanding.insert((entry.tenant, *transaction), None);
            }
            Change::Entitlement(it) => self.entitlements.take(it, seq),
            Change::Claim(ClaimChange::Taken { key, claim }) => {
                let claimed = Claimed { tenant: key.tenant, kind: key.kind, claim: *claim };
                self.claims.insert(rows::claim_hash(key), claimed);
            }
            Change::Claim(ClaimChange::Released { key }) => {
                self.claims.insert(rows::claim_hash(key), Claimed::released(key));
            }
            Change::Timer(TimerChange::Set(it)) => {
                self.timers.insert((it.tenant, it.key), Some(it));
            }
            Change::Timer(TimerChange::Cleared(key)) => {
                self.timers.insert((entry.tenant, *key), None);
            }
            Change::ReplySettled(it) => drop(self.settled.insert(it.key, it)),
        }
    }

    fn take_tenant(&mut self, change: &'a TenantChange, seq: Seq) {
        match change {
            TenantChange::Tenant(it) => self.tenants.take(it, seq),
            TenantChange::TagDefinition(it) => {
                self.tag_definitions.take(it, seq);
            }
            TenantChange::PaymentRules(it) => self.rules.take(it, seq),
            TenantChange::Value(it) => {
                self.values.take(it, seq);
            }
        }
    }

    fn take_access(&mut self, change: &'a AccessChange, seq: Seq) {
        match change {
            AccessChange::User(it) => {
                self.users.take(it, seq);
            }
            AccessChange::Role(it) => self.roles.take(it, seq),
        }
    }

    fn take_flag(&mut self, change: &'a FlagChange, seq: Seq) {
        match change {
            FlagChange::Environment(it) => {
                self.environments.take(it, seq);
            }
            FlagChange::Secret(it) => {
                self.secrets.take(it, seq);
            }
            FlagChange::Definition(it) => {
                self.definitions.take(it, seq);
            }
            FlagChange::ChangeRequest(it) => {
                self.change_requests.take(it, seq);
            }
        }
    }

    fn take_account(&mut self, tenant: TenantNo, change: &'a AccountChange, seq: Seq) {
        match change {
            AccountChange::Account(it) => {
                if made_here(it.revision, seq) {
                    self.deltas.count(it.tenant, Counted::Accounts, 1);
                }
                self.accounts.take(it, seq);
            }
            AccountChange::Person { account, person } => {
                self.people.push((tenant, *account, seq, person));
            }
            AccountChange::PersonErased { account } => {
                self.people.retain(|it| (it.0, it.1) != (tenant, *account));
                self.erased.push((tenant, *account, seq));
            }
            AccountChange::Tag(it) => {
                // Each change of a tag puts it there or takes it off.
                let delta = if it.active { 1 } else { -1 };
                self.deltas.count(it.tenant, Counted::Tags, delta);
                self.tags.take(it, seq);
            }
            AccountChange::Email(it) => {
                self.emails.take(it, seq);
            }
            AccountChange::BlockingState(it) => {
                if let Some(is_closed) = it.closes().filter(|_| it.active) {
                    self.closed.insert((it.tenant, it.account), is_closed);
                }
                self.blocking_states.take(it, seq);
            }
            AccountChange::CustomField(it) => self.take_field(it, seq),
            AccountChange::PaymentMethod(_) => unreachable!("it is taken by itself"),
            AccountChange::AuditImported(it) => self.audits.push(it),
        }
    }

    fn take_field(&mut self, it: &'a CustomField, seq: Seq) {
        let is_new = made_here(it.revision, seq);
        if is_new || !it.active {
            self.deltas.count(it.tenant, Counted::CustomFields, if is_new { 1 } else { -1 });
        }
        if it.active {
            self.field_values.push(it);
        }
        self.custom_fields.take(it, seq);
    }

    fn take_method(&mut self, it: &'a PaymentMethod, seq: Seq, before: &CountedBefore) {
        let key = (it.tenant, it.id);
        let was_active = match self.methods.get(&key) {
            Some(earlier) => earlier.active,
            None => !made_here(it.revision, seq) && !before.inactive_methods.contains(&key),
        };
        let delta = i64::from(it.active) - i64::from(was_active);
        if delta != 0 {
            self.deltas.count(it.tenant, Counted::PaymentMethods, delta);
            self.deltas.count_of_gateway(it.tenant, Counted::PaymentMethods, &it.gateway, delta);
        }
        self.methods.take(it, seq);
    }

    fn take_payment(&mut self, it: &'a Payment, seq: Seq, counted: &'a CountedBefore) {
        let key = (it.tenant, it.id);
        let before = match self.payments.get(&key) {
            Some(earlier) => Some(&earlier.gateway),
            None => counted.gateways.get(&key),
        };
        match before {
            None => {
                assert!(made_here(it.revision, seq), "a payment is loaded before it is changed");
                self.deltas.count(it.tenant, Counted::Payments, 1);
                self.deltas.count_of_gateway(it.tenant, Counted::Payments, &it.gateway, 1);
            }
            Some(gateway) if *gateway != it.gateway => {
                self.deltas.count_of_gateway(it.tenant, Counted::Payments, gateway, -1);
                self.deltas.count_of_gateway(it.tenant, Counted::Payments, &it.gateway, 1);
            }
            Some(_) => {}
        }
        self.payments.take(it, seq);
    }

    /// Writes the rows, table by table.
    pub(crate) fn write(
        &self,
        db: &Database,
        actors: &Named,
        share: Share,
    ) -> Result<(), StoreError> {
        let cx = WriteContext { made_by: None, actors, partition: share.partition };
        self.write_tenants(db, cx)?;
        stored::ACCOUNTS.write(db, self.accounts.values(), cx)?;
        self.customers.forget(db)?;
        for &(tenant, account, _) in &self.erased {
            let sql = "DELETE FROM account_person WHERE tenant = ?1 AND account_id = ?2";
            db.exec(sql, &[tenant.into(), account.into()])?;
        }
        if !self.people.is_empty() {
            let mut put = db.insert(&tables::ACCOUNT_PERSON)?;
            for &(tenant, account, seq, person) in &self.people {
                let folded = rows::folded::of_person(person);
                put.row(&rows::person_row((tenant, account, seq), person, &folded))?;
            }
        }
        self.customers.write(db, cx)?;
        stored::TAGS.write(db, self.tags.values(), cx)?;
        self.write_parts(db, cx)?;
        stored::PAYMENT_METHODS.write(db, self.methods.values(), cx)?;
        stored::PAYMENT_RULES.write(db, self.rules.values(), cx)?;
        stored::ATTEMPTS.write(db, self.attempts.values(), cx)?;
        let velocities: Vec<&PaymentVelocity> = self.velocities.values().copied().collect();
        stored::VELOCITIES.put(&velocities, db, cx)?;
        self.entitlements.write(db, cx)?;
        self.write_outstanding(db, share)?;
        self.write_timers(db, cx)?;
        self.erase_texts(db)?;
        stored::PAYMENTS.write(db, self.payments.values(), cx)?;
        stored::TRANSACTIONS.write(db, self.transactions.values(), cx)?;
        if !self.postings.is_empty() {
            let mut put = db.insert(&tables::POSTING)?;
            for &(seq, ordinal, posting) in &self.postings {
                put.row(&rows::posting_row(seq, ordinal, posting))?;
            }
        }
        Ok(())
    }

    fn write_tenants(&self, db: &Database, cx: WriteContext<'_>) -> Result<(), StoreError> {
        stored::TENANTS.write(db, self.tenants.values(), cx)?;
        stored::TENANT_VALUES.write(db, self.values.values(), cx)?;
        stored::TAG_DEFINITIONS.write(db, self.tag_definitions.values(), cx)?;
        stored::USERS.write(db, self.users.values(), cx)?;
        stored::ROLES.write(db, self.roles.values(), cx)?;
        stored::ENVIRONMENTS.write(db, self.environments.values(), cx)?;
        stored::SECRETS.write(db, self.secrets.values(), cx)?;
        stored::DEFINITIONS.write(db, self.definitions.values(), cx)?;
        stored::CHANGE_REQUESTS.write(db, self.change_requests.values(), cx)
    }

    fn write_parts(&self, db: &Database, cx: WriteContext<'_>) -> Result<(), StoreError> {
        stored::ACCOUNT_EMAILS.write(db, self.emails.values(), cx)?;
        stored::BLOCKING_STATES.write(db, self.blocking_states.values(), cx)?;
        stored::DISPUTES.write(db, self.disputes.values(), cx)?;
        stored::CUSTOM_FIELDS.write(db, self.custom_fields.values(), cx)?;
        if !self.field_values.is_empty() {
            let mut put = db.insert(&tables::CUSTOM_FIELD_VALUE)?;
            for it in &self.field_values {
                put.row(&rows::custom_field_value_row(it))?;
            }
        }
        if !self.audits.is_empty() {
            let mut put = db.insert(&tables::AUDIT_IMPORTED)?;
            for it in &self.audits {
                put.row(&rows::audit_row(it))?;
            }
        }
        Ok(())
    }

    /// Erases the custom fields and further addresses of people, once the rows are written. Those that came after the erasure
    /// stay.
    pub(crate) fn erase_fields(&mut self, db: &Database) -> Result<(), StoreError> {
        for (tenant, account, seq) in self.erased.clone() {
            let these = [tenant.into(), account.into(), seq.into()];
            let of_account = "WHERE tenant = ?1 AND account_id = ?2 AND seq < ?3";
            let sql =
                format!("SELECT count(*) FROM custom_field {of_account} AND {}", tables::SHOWN);
            let shown = db.reader().query_one(&sql, &these, |cells| cells.int())?.unwrap_or(0);
            if shown > 0 {
                self.deltas.count(tenant, Counted::CustomFields, -shown);
            }
            let sql = format!(
                "UPDATE custom_field SET name = NULL, value = NULL, name_folded = NULL, \
                 value_folded = NULL {of_account}"
            );
            db.exec(&sql, &these)?;
            db.check_again(&tables::CUSTOM_FIELD, of_account, &these)?;
            db.exec(&format!("DELETE FROM custom_field_value {of_account}"), &these)?;
            db.exec(&format!("UPDATE account_email SET email = NULL {of_account}"), &these)?;
            db.check_again(&tables::ACCOUNT_EMAIL, of_account, &these)?;
        }
        Ok(())
    }

    /// Erases texts in rows that stay. A payment method that came after the erasure keeps its own.
    fn erase_texts(&self, db: &Database) -> Result<(), StoreError> {
        for &(tenant, account, seq) in &self.erased {
            let sql = "UPDATE payment_method SET external_payment_method_id = NULL, properties = NULL \
                       WHERE tenant = ?1 AND account_id = ?2 AND seq < ?3";
            db.exec(sql, &[tenant.into(), account.into(), seq.into()])?;
            let of_account = [tenant.into(), account.into()];
            let rest = "WHERE tenant = ?1 AND account_id = ?2";
            db.check_again(&tables::PAYMENT_METHOD, rest, &of_account)?;
            let sql = "UPDATE payment_attempt SET properties = NULL \
                       WHERE tenant = ?1 AND account_id = ?2 AND seq < ?3";
            db.exec(sql, &[tenant.into(), account.into(), seq.into()])?;
            db.check_again(&tables::PAYMENT_ATTEMPT, rest, &of_account)?;
            // An outcome is written in the name of who asked for the transaction.
            let sql = "UPDATE outstanding SET created_by = user_name, reason = NULL, comments = NULL \
                       WHERE tenant = ?1 AND account_id = ?2";
            db.exec(sql, &of_account)?;
            db.check_again(&tables::OUTSTANDING, rest, &of_account)?;
            db.exec(&format!("DELETE FROM audit_imported {rest}"), &of_account)?;
            actors::erase(db, tenant, account)?;
        }
        Ok(())
    }

    /// Whose personal data is erased.
    pub(crate) fn erased(&self) -> impl Iterator<Item = (TenantNo, AccountId)> + '_ {
        self.erased.iter().map(|&(tenant, account, _)| (tenant, account))
    }

    /// Makes what is durable now known to the batches to come.
    pub(crate) fn hold(&self, recent: &mut Recent) {
        for it in self.accounts.values() {
            recent.account_changed(it.image, it.made_by.is_some());
        }
        for (&(tenant, account), &is_closed) in &self.closed {
            recent.account_closed(tenant, account, is_closed);
        }
        for (tenant, account) in self.erased() {
            recent.person_changed(tenant, account, None);
        }
        for &(tenant, account, _, person) in &self.people {
            recent.person_changed(tenant, account, Some(person));
        }
        for it in self.methods.values() {
            recent.method_changed(it.image);
        }
        for &(tenant, account, seq) in &self.erased {
            recent.methods_erased(tenant, account, seq);
        }
        for it in self.payments.values() {
            recent.payment_changed(it.image, it.made_by.is_some());
        }
        let mut transactions: Vec<&Newest<'_, Transaction>> = self.transactions.values().collect();
        transactions.sort_by_key(|it| it.made_by);
        for it in &transactions {
            recent.transaction_changed(it.image);
        }
        for (&(tenant, id), outstanding) in &self.outstanding {
            match outstanding {
                Some(it) => recent.outstanding_changed(it),
                None => {
                    let changed = transactions
                        .iter()
                        .find(|it| (it.image.tenant, it.image.id) == (tenant, id));
                    let payment = changed.map(|it| it.image.payment_id);
                    recent.outstanding_closed(tenant, id, payment);
                }
            }
        }
        for (tenant, account) in self.erased() {
            recent.outstanding_erased(tenant, account);
        }
    }

    fn write_timers(&self, db: &Database, cx: WriteContext<'_>) -> Result<(), StoreError> {
        let set: Vec<&Timer> = self.timers.values().copied().flatten().collect();
        stored::TIMERS.put(&set, db, cx)?;
        let sql = "DELETE FROM timer WHERE tenant = ?1 AND kind = ?2 AND object_id = ?3";
        let cleared = self.timers.iter().filter(|(_, it)| it.is_none());
        for ((tenant, key), _) in cleared {
            let kind = timer_kind_code(key.kind).into();
            db.exec(sql, &[(*tenant).into(), kind, key.object.into()])?;
        }
        Ok(())
    }

    fn write_outstanding(&self, db: &Database, share: Share) -> Result<(), StoreError> {
        let open: Vec<&Outstanding> = self.outstanding.values().copied().flatten().collect();
        if !open.is_empty() {
            let mut put = db.upsert(&tables::OUTSTANDING)?;
            for it in open {
                put.row(&rows::outstanding_row(it, share.partition))?;
            }
        }
        let closed: Vec<[Value<'_>; 2]> = self
            .outstanding
            .iter()
            .filter(|(_, it)| it.is_none())
            .map(|((tenant, transaction), _)| [(*tenant).into(), (*transaction).into()])
            .collect();
        if !closed.is_empty() {
            let sql = "DELETE FROM outstanding WHERE tenant = ?1 AND transaction_id = ?2";
            let mut delete = db.prepare(sql)?;
            for key in &closed {
                delete.row(key)?;
            }
        }
        Ok(())
    }
}

/// Whether this command made the entity: its revision has none before.
fn made_here(revision: Revision, seq: Seq) -> bool {
    revision.seq == seq && revision.previous.is_none()
}
