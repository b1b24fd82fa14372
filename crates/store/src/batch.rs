//! The rows that a batch writes: each entity's newest image once, however often it was changed.

mod control;
mod customers;
mod entitlements;

use std::collections::{BTreeMap, BTreeSet};

use domain::access::{Role, User};
use domain::account_email::AccountEmail;
use domain::blocking_state::BlockingState;
use domain::change::{
    AccessChange, AccountChange, Change, ClaimChange, FlagChange, PaymentChange, TenantChange,
    TimerChange,
};
use domain::change_request::ChangeRequest;
use domain::custom_field::CustomField;
use domain::definition::{Definition, DefinitionKey};
use domain::dispute::Dispute;
use domain::environment::{Environment, Secret};
use domain::import::AuditEntry;
use domain::ledger::Posting;
use domain::payment::{Outstanding, Payment, ReplyKey, Transaction};
use domain::tag::{Tag, TagDefinition, TagKey};
use domain::tenant::{Tenant, TenantValue};
use domain::timer::{Timer, TimerKey};
use domain::{
    Account, AccountEmailId, AccountId, BlockingStateId, ChangeRequestId, CustomFieldId, DisputeId,
    EnvironmentId, PaymentId, PaymentMethod, PaymentMethodId, Person, Reply, Revision, SecretId,
    Seq, TagDefinitionId, TenantNo, Timestamp, TransactionId,
};
use engine::ports::{Batch, Entry, StoreError};

use self::control::ControlRows;
use self::customers::CustomerRows;
use self::entitlements::EntitlementRows;
use crate::actors::{self, Named};
use crate::cells::json;
use crate::claims::Memtable;
use crate::codes::timer_kind_code;
use crate::driver::{Database, Value};
use crate::recent::Recent;
use crate::rows::{self, Claimed};
use crate::share::Share;
use crate::tables::{self, Table};
use crate::totals::{Counted, Deltas};

/// What a batch loaded of what its totals count, as it was then.
#[derive(Default)]
pub(crate) struct CountedBefore {
    /// The gateways of payments.
    pub(crate) gateways: BTreeMap<(TenantNo, PaymentId), String>,
    /// Payment methods that were not active.
    pub(crate) inactive_methods: BTreeSet<(TenantNo, PaymentMethodId)>,
}

/// An entity's newest image in a batch.
struct Newest<'a, T> {
    image: &'a T,
    /// Set where the batch made it.
    made_by: Option<Seq>,
}

/// What a batch writes, sorted by key, so that neighbours are written together.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    tenants: BTreeMap<TenantNo, Newest<'a, Tenant>>,
    values: BTreeMap<(TenantNo, &'a str), Newest<'a, TenantValue>>,
    tag_definitions: BTreeMap<(TenantNo, TagDefinitionId), Newest<'a, TagDefinition>>,
    users: BTreeMap<&'a str, Newest<'a, User>>,
    roles: BTreeMap<&'a str, Newest<'a, Role>>,
    environments: BTreeMap<(TenantNo, EnvironmentId), Newest<'a, Environment>>,
    secrets: BTreeMap<(TenantNo, SecretId), Newest<'a, Secret>>,
    definitions: BTreeMap<(TenantNo, &'a DefinitionKey), Newest<'a, Definition>>,
    change_requests: BTreeMap<(TenantNo, ChangeRequestId), Newest<'a, ChangeRequest>>,
    customers: CustomerRows<'a>,
    control: ControlRows<'a>,
    entitlements: EntitlementRows<'a>,
    accounts: BTreeMap<(TenantNo, AccountId), Newest<'a, Account>>,
    people: Vec<(TenantNo, AccountId, Seq, &'a Person)>,
    tags: BTreeMap<(TenantNo, TagKey), Newest<'a, Tag>>,
    emails: BTreeMap<(TenantNo, AccountEmailId), Newest<'a, AccountEmail>>,
    blocking_states: BTreeMap<(TenantNo, BlockingStateId), Newest<'a, BlockingState>>,
    /// Whether accounts whose newest state of the account service the batch made are closed.
    closed: BTreeMap<(TenantNo, AccountId), bool>,
    custom_fields: BTreeMap<(TenantNo, CustomFieldId), Newest<'a, CustomField>>,
    /// The values that custom fields got, with the fields.
    field_values: Vec<&'a CustomField>,
    /// Entries of other systems' audit logs.
    audits: Vec<&'a AuditEntry>,
    methods: BTreeMap<(TenantNo, PaymentMethodId), Newest<'a, PaymentMethod>>,
    payments: BTreeMap<(TenantNo, PaymentId), Newest<'a, Payment>>,
    transactions: BTreeMap<(TenantNo, PaymentId, TransactionId), Newest<'a, Transaction>>,
    disputes: BTreeMap<(TenantNo, DisputeId), Newest<'a, Dispute>>,
    postings: Vec<(Seq, i64, &'a Posting)>,
    /// Accounts whose personal data is erased.
    erased: Vec<(TenantNo, AccountId, Seq)>,
    pub(crate) claims: Memtable,
    outstanding: BTreeMap<(TenantNo, TransactionId), Option<&'a Outstanding>>,
    timers: BTreeMap<(TenantNo, TimerKey), Option<&'a Timer>>,
    /// The final replies to earlier requests.
    pub(crate) settled: BTreeMap<ReplyKey, (&'a Reply, Timestamp)>,
    /// What the batch does to the totals.
    pub(crate) deltas: Deltas<'a>,
}

impl<'a> Rows<'a> {
    /// What `batch` writes. `before` is of what it changes and did not make.
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
                let key = (it.tenant, it.payment_id, it.id);
                newest(&mut self.transactions, key, it, (it.revision, seq));
            }
            Change::Payment(PaymentChange::Attempt(it)) => self.control.take_attempt(it, seq),
            Change::Payment(PaymentChange::Velocity(it)) => self.control.take_velocity(it),
            Change::Payment(PaymentChange::Dispute(it)) => {
                newest(&mut self.disputes, (it.tenant, it.id), it, (it.revision, seq));
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
            Change::ReplySettled { key, reply, expires_at } => {
                self.settled.insert(*key, (reply, *expires_at));
            }
        }
    }

    fn take_tenant(&mut self, change: &'a TenantChange, seq: Seq) {
        match change {
            TenantChange::Tenant(it) => newest(&mut self.tenants, it.no, it, (it.revision, seq)),
            TenantChange::TagDefinition(it) => {
                newest(&mut self.tag_definitions, (it.tenant, it.id), it, (it.revision, seq));
            }
            TenantChange::PaymentRules(it) => self.control.take_rules(it, seq),
            TenantChange::Value(it) => {
                newest(&mut self.values, (it.tenant, &it.key), it, (it.revision, seq));
            }
        }
    }

    fn take_access(&mut self, change: &'a AccessChange, seq: Seq) {
        match change {
            AccessChange::User(it) => {
                newest(&mut self.users, &it.username, it, (it.revision, seq));
            }
            AccessChange::Role(it) => newest(&mut self.roles, &it.name, it, (it.revision, seq)),
        }
    }

    fn take_flag(&mut self, change: &'a FlagChange, seq: Seq) {
        match change {
            FlagChange::Environment(it) => {
                newest(&mut self.environments, (it.tenant, it.id), it, (it.revision, seq));
            }
            FlagChange::Secret(it) => {
                newest(&mut self.secrets, (it.tenant, it.id), it, (it.revision, seq));
            }
            FlagChange::Definition(it) => {
                newest(&mut self.definitions, (it.tenant, &it.key), it, (it.revision, seq));
            }
            FlagChange::ChangeRequest(it) => {
                newest(&mut self.change_requests, (it.tenant, it.id), it, (it.revision, seq));
            }
        }
    }

    fn take_account(&mut self, tenant: TenantNo, change: &'a AccountChange, seq: Seq) {
        match change {
            AccountChange::Account(it) => {
                if made_here(it.revision, seq) {
                    self.deltas.count(it.tenant, Counted::Accounts, 1);
                }
                newest(&mut self.accounts, (it.tenant, it.id), it, (it.revision, seq));
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
                newest(&mut self.tags, (it.tenant, it.key), it, (it.revision, seq));
            }
            AccountChange::Email(it) => {
                newest(&mut self.emails, (it.tenant, it.id), it, (it.revision, seq));
            }
            AccountChange::BlockingState(it) => {
                if let Some(is_closed) = it.closes().filter(|_| it.active) {
                    self.closed.insert((it.tenant, it.account), is_closed);
                }
                newest(&mut self.blocking_states, (it.tenant, it.id), it, (it.revision, seq));
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
        newest(&mut self.custom_fields, (it.tenant, it.id), it, (it.revision, seq));
    }

    fn take_method(&mut self, it: &'a PaymentMethod, seq: Seq, before: &CountedBefore) {
        let key = (it.tenant, it.id);
        let was_active = match self.methods.get(&key) {
            Some(earlier) => earlier.image.active,
            None => !made_here(it.revision, seq) && !before.inactive_methods.contains(&key),
        };
        let delta = i64::from(it.active) - i64::from(was_active);
        if delta != 0 {
            self.deltas.count(it.tenant, Counted::PaymentMethods, delta);
            self.deltas.count_of_gateway(it.tenant, Counted::PaymentMethods, &it.gateway, delta);
        }
        newest(&mut self.methods, (it.tenant, it.id), it, (it.revision, seq));
    }

    fn take_payment(&mut self, it: &'a Payment, seq: Seq, counted: &'a CountedBefore) {
        let key = (it.tenant, it.id);
        let before = match self.payments.get(&key) {
            Some(earlier) => Some(&earlier.image.gateway),
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
        newest(&mut self.payments, key, it, (it.revision, seq));
    }

    /// Writes the rows, table by table.
    pub(crate) fn write(
        &self,
        db: &Database,
        actors: &Named,
        share: Share,
    ) -> Result<(), StoreError> {
        self.write_access(db)?;
        self.write_flags(db)?;
        put_all(db, &tables::ACCOUNT, self.accounts.values(), |put, it| {
            let folded = rows::folded::of_account(it.image);
            put.row(&rows::account_row(it.image, actors.maker(it.image), &folded))
        })?;
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
        self.customers.write(db)?;
        put_all(db, &tables::TAG, self.tags.values(), |put, it| put.row(&rows::tag_row(it.image)))?;
        self.write_parts(db)?;
        put_all(db, &tables::PAYMENT_METHOD, self.methods.values(), |put, it| {
            let properties = rows::properties_text(it.image);
            let folded = rows::folded::of_payment_method(it.image);
            put.row(&rows::payment_method_row(it.image, properties.as_deref(), &folded))
        })?;
        self.control.write(db)?;
        self.entitlements.write(db)?;
        self.write_outstanding(db, share)?;
        self.write_timers(db, share)?;
        self.erase_texts(db)?;
        put_all(db, &tables::PAYMENT, self.payments.values(), |put, it| {
            put.row(&rows::payment_row(it.image))
        })?;
        put_all(db, &tables::PAYMENT_TRANSACTION, self.transactions.values(), |put, it| {
            // Where the batch did not make it, the row keeps what it was made by.
            let opened_seq = it.made_by.unwrap_or(it.image.revision.seq);
            let routed = it.image.routed.as_ref().map(json);
            put.row(&rows::transaction_row(it.image, opened_seq, routed.as_ref()))
        })?;
        if !self.postings.is_empty() {
            let mut put = db.insert(&tables::POSTING)?;
            for &(seq, ordinal, posting) in &self.postings {
                put.row(&rows::posting_row(seq, ordinal, posting))?;
            }
        }
        Ok(())
    }

    fn write_parts(&self, db: &Database) -> Result<(), StoreError> {
        put_all(db, &tables::ACCOUNT_EMAIL, self.emails.values(), |put, it| {
            put.row(&rows::account_email_row(it.image))
        })?;
        put_all(db, &tables::BLOCKING_STATE, self.blocking_states.values(), |put, it| {
            put.row(&rows::blocking_state_row(it.image))
        })?;
        put_all(db, &tables::DISPUTE, self.disputes.values(), |put, it| {
            put.row(&rows::dispute_row(it.image))
        })?;
        put_all(db, &tables::CUSTOM_FIELD, self.custom_fields.values(), |put, it| {
            let folded = rows::folded::of_custom_field(it.image);
            put.row(&rows::custom_field_row(it.image, &folded))
        })?;
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

    fn write_access(&self, db: &Database) -> Result<(), StoreError> {
        put_all(db, &tables::TENANT, self.tenants.values(), |put, it| {
            put.row(&rows::tenant_row(it.image))
        })?;
        put_all(db, &tables::TENANT_VALUE, self.values.values(), |put, it| {
            put.row(&rows::tenant_value_row(it.image))
        })?;
        put_all(db, &tables::TAG_DEFINITION, self.tag_definitions.values(), |put, it| {
            put.row(&rows::tag_definition_row(it.image, &json(&it.image.applies_to)))
        })?;
        put_all(db, &tables::APP_USER, self.users.values(), |put, it| {
            put.row(&rows::user_row(it.image, &json(&it.image.roles)))
        })?;
        put_all(db, &tables::ROLE, self.roles.values(), |put, it| {
            put.row(&rows::role_row(it.image, &json(&it.image.permissions)))
        })
    }

    fn write_flags(&self, db: &Database) -> Result<(), StoreError> {
        put_all(db, &tables::ENVIRONMENT, self.environments.values(), |put, it| {
            put.row(&rows::environment_row(it.image))
        })?;
        put_all(db, &tables::ENVIRONMENT_SECRET, self.secrets.values(), |put, it| {
            put.row(&rows::secret_row(it.image))
        })?;
        put_all(db, &tables::DEFINITION, self.definitions.values(), |put, it| {
            put.row(&rows::definition_row(it.image))
        })?;
        put_all(db, &tables::CHANGE_REQUEST, self.change_requests.values(), |put, it| {
            put.row(&rows::change_request_row(it.image))
        })
    }

    fn write_timers(&self, db: &Database, share: Share) -> Result<(), StoreError> {
        let set: Vec<&Timer> = self.timers.values().copied().flatten().collect();
        if !set.is_empty() {
            let mut put = db.upsert(&tables::TIMER)?;
            for it in set {
                put.row(&rows::timer_row(it, share.partition))?;
            }
        }
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

fn newest<'a, K: Ord, T>(
    all: &mut BTreeMap<K, Newest<'a, T>>,
    key: K,
    image: &'a T,
    (revision, seq): (Revision, Seq),
) {
    all.entry(key)
        .and_modify(|newest| newest.image = image)
        .or_insert_with(|| Newest { image, made_by: made_here(revision, seq).then_some(seq) });
}

/// Inserts what the batch made, so that a key that is there already is an error, and changes the
/// rest.
fn put_all<'a, T: 'a>(
    db: &Database,
    table: &'static Table,
    rows: impl Iterator<Item = &'a Newest<'a, T>> + Clone,
    put_row: impl Fn(&mut crate::driver::Put<'_>, &Newest<'a, T>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut insert = None;
    let mut upsert = None;
    for row in rows {
        let slot = if row.made_by.is_some() { &mut insert } else { &mut upsert };
        let put = match slot {
            Some(put) => put,
            None if row.made_by.is_some() => slot.insert(db.insert(table)?),
            None => slot.insert(db.upsert(table)?),
        };
        put_row(put, row)?;
    }
    Ok(())
}
