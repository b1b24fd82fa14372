//! The rows that a batch writes: each entity's newest image once, however often it was changed.

mod customers;
mod entitlements;

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use domain::account::blocking_state::BlockingState;
use domain::account::custom_field::CustomField;
use domain::change::{
    AccountChange, BillingChange, Change, ClaimChange, PaymentChange, SettledReply, TenantChange,
    TimerChange,
};
use domain::import::AuditEntry;
use domain::ledger::Posting;
use domain::payment::attempt::PaymentVelocity;
use domain::payment::{Outstanding, Payment, ReplyKey, Transaction};
use domain::tenant::catalog::CatalogText;
use domain::timer::{Timer, TimerKey};
use domain::{
    Account, AccountId, PaymentId, PaymentMethod, PaymentMethodId, Person, Seq, TenantNo,
    TransactionId,
};
use engine::ports::{Batch, Entry, HistoryOf, StoreError};

use self::customers::CustomerRows;
use self::entitlements::EntitlementRows;
use crate::actors::Named;
use crate::claims::Memtable;
use crate::driver::{Database, Value};
use crate::entities::ReadKind;
use crate::recent::Recent;
use crate::share::Share;
use crate::stored::{Images, Newest, Texts, WriteContext, begun, made_here};
use crate::tables::{self, Claimed, Table};
use crate::totals::{Counted, Deltas};

/// The state, before the batch, of the loaded payments and payment methods that the totals count.
#[derive(Default)]
pub(crate) struct CountedBefore {
    /// The gateways of payments.
    pub(crate) gateways: BTreeMap<(TenantNo, PaymentId), String>,
    /// Payment methods that were not active.
    pub(crate) inactive_methods: BTreeSet<(TenantNo, PaymentMethodId)>,
}

/// The rows that a batch writes, sorted by key, so that neighbours are written together.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    /// The images of entities that neither totals nor caches look at, by kind, each with its journal row.
    images: BTreeMap<TypeId, Vec<(Seq, &'a Change)>>,
    accounts: Images<'a, Account>,
    methods: Images<'a, PaymentMethod>,
    payments: Images<'a, Payment>,
    transactions: Images<'a, Transaction>,
    catalog_texts: Vec<&'a CatalogText>,
    customers: CustomerRows<'a>,
    velocities: BTreeMap<(TenantNo, AccountId), &'a PaymentVelocity>,
    entitlements: EntitlementRows<'a>,
    people: Vec<(TenantNo, AccountId, Seq, &'a Person)>,
    /// Whether accounts whose newest state of the account service the batch made are closed.
    closed: BTreeMap<(TenantNo, AccountId), bool>,
    /// The values that custom fields got, with the fields.
    field_values: Vec<&'a CustomField>,
    /// Entries of other systems' audit logs.
    audits: Vec<Newest<'a, AuditEntry>>,
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
            Change::Tenant(TenantChange::CatalogText(it)) => self.catalog_texts.push(it),
            Change::Tenant(_) | Change::Access(_) | Change::Flag(_) => {
                self.take_image(change, seq);
            }
            Change::Billing(it) => {
                let made = match it {
                    BillingChange::Bundle(it) => (it.tenant, it.revision, Counted::Bundles),
                    BillingChange::Invoice(it) => (it.tenant, it.revision, Counted::Invoices),
                    BillingChange::Subscription(_)
                    | BillingChange::Item(_)
                    | BillingChange::Account(_) => return self.take_image(change, seq),
                };
                let (tenant, revision, counted) = made;
                // A command may write what it makes more than once.
                if made_here(revision, seq) && is_first_image(entry, change) {
                    self.deltas.count(tenant, counted, 1);
                }
                self.take_image(change, seq);
            }
            Change::Account(AccountChange::PaymentMethod(it)) => self.take_method(it, seq, before),
            Change::Account(it) => self.take_account(entry, (change, it)),
            Change::Customer(it) => {
                self.customers.take(entry.tenant, it, seq);
                self.take_image(change, seq);
            }
            Change::Payment(PaymentChange::Payment(it)) => self.take_payment(it, seq, before),
            Change::Payment(PaymentChange::Transaction(it)) => self.transactions.take(it, seq),
            Change::Payment(PaymentChange::Attempt(_) | PaymentChange::Dispute(_)) => {
                self.take_image(change, seq);
            }
            Change::Payment(PaymentChange::Velocity(it)) => {
                self.velocities.insert((it.tenant, it.account_id), it);
            }
            Change::Posting(it) => {
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
            Change::Entitlement(it) => {
                self.entitlements.take(it, seq);
                self.take_image(change, seq);
            }
            Change::Claim(ClaimChange::Taken { key, claim }) => {
                let claimed = Claimed { tenant: key.tenant, kind: key.kind, claim: *claim };
                self.claims.insert(tables::claim_hash(key), claimed);
            }
            Change::Claim(ClaimChange::Released { key }) => {
                self.claims.insert(tables::claim_hash(key), Claimed::released(key));
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

    /// The image of an entity, if the change has one.
    fn take_image(&mut self, change: &'a Change, seq: Seq) {
        if let Some(kind) = change.entity(ReadKind) {
            self.images.entry(kind).or_default().push((seq, change));
        }
    }

    fn take_account(
        &mut self,
        entry: &Entry,
        (change, of_account): (&'a Change, &'a AccountChange),
    ) {
        let (tenant, seq) = (entry.tenant, entry.seq);
        if let AccountChange::Account(it) = of_account {
            if made_here(it.revision, seq) {
                self.deltas.count(it.tenant, Counted::Accounts, 1);
            }
            return self.accounts.take(it, seq);
        }
        if let AccountChange::Person { account, person } = of_account {
            self.people.push((tenant, *account, seq, person));
        } else if let AccountChange::PersonErased { account } = of_account {
            self.people.retain(|it| (it.0, it.1) != (tenant, *account));
            self.erased.push((tenant, *account, seq));
        } else if let AccountChange::Tag(it) = of_account {
            // Each change of a tag puts it there or takes it off.
            self.deltas.count(it.tenant, Counted::Tags, if it.active { 1 } else { -1 });
        } else if let AccountChange::BlockingState(it) = of_account {
            self.take_closing(it);
        } else if let AccountChange::CustomField(it) = of_account {
            self.take_field(it, seq);
        } else if let AccountChange::AuditImported(it) = of_account {
            self.audits.push(Newest { image: it, made_by: Some(seq) });
        }
        self.take_image(change, seq);
    }

    fn take_closing(&mut self, it: &BlockingState) {
        if let Some(is_closed) = it.closes().filter(|_| it.active) {
            self.closed.insert((it.tenant, it.account), is_closed);
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
        let texts = Texts::default();
        let cx = WriteContext::new(share.partition, actors, &texts);
        let mut kinds = 0;
        for table in tables::of_entities() {
            if let Some(images) = self.images.get(&table.kind()) {
                table.write(db, images, cx)?;
                kinds += 1;
            }
        }
        // Otherwise its rows would be in the journal alone.
        assert_eq!(kinds, self.images.len(), "every kind of entity has a table");
        tables::ACCOUNT.write(db, self.accounts.values(), cx)?;
        self.customers.forget(db)?;
        for &(tenant, account, _) in &self.erased {
            let sql = "DELETE FROM account_person WHERE tenant = ?1 AND account_id = ?2";
            db.exec(sql, &[tenant.into(), account.into()])?;
        }
        self.write_parts(db, cx)?;
        self.customers.write(db, cx)?;
        tables::CATALOG_TEXT.put(db, self.catalog_texts.iter().copied(), cx)?;
        tables::PAYMENT_METHOD.write(db, self.methods.values(), cx)?;
        tables::PAYMENT_VELOCITY.put(db, self.velocities.values().copied(), cx)?;
        self.entitlements.write(db, cx)?;
        tables::TIMER.set(db, &self.timers, cx)?;
        tables::OUTSTANDING.set(db, &self.outstanding, cx)?;
        self.erase_actors(db)?;
        tables::PAYMENT.write(db, self.payments.values(), cx)?;
        tables::PAYMENT_TRANSACTION.write(db, self.transactions.values(), cx)?;
        let postings = &self.postings;
        insert(
            db,
            &tables::POSTING,
            postings.iter().map(|it| tables::posting_row(it.0, it.1, it.2)),
        )
    }

    /// Writes the rows that are no entities but belong to one.
    fn write_parts(&self, db: &Database, cx: WriteContext<'_>) -> Result<(), StoreError> {
        if !self.people.is_empty() {
            let mut put = db.insert(&tables::ACCOUNT_PERSON)?;
            for &(tenant, account, seq, person) in &self.people {
                let folded = tables::folded_person(person);
                put.row(&tables::person_row((tenant, account, seq), person, &folded))?;
            }
        }
        let values = self.field_values.iter().map(|it| tables::custom_field_value_row(it));
        insert(db, &tables::CUSTOM_FIELD_VALUE, values)?;
        tables::AUDIT_IMPORTED.write(db, &self.audits, cx)
    }

    /// Erases texts in rows that stay, once the rows are written. What came after the erasure keeps its own.
    pub(crate) fn erase_columns(&mut self, db: &Database) -> Result<(), StoreError> {
        for (tenant, account, seq) in self.erased.clone() {
            let these = [tenant.into(), account.into(), seq.into()];
            let of_account = "WHERE tenant = ?1 AND account_id = ?2 AND seq < ?3";
            let sql =
                format!("SELECT count(*) FROM custom_field {of_account} AND {}", tables::SHOWN);
            let shown = db.reader().query_one(&sql, &these, |cells| cells.int())?.unwrap_or(0);
            if shown > 0 {
                self.deltas.count(tenant, Counted::CustomFields, -shown);
            }
            for table in tables::TABLES.iter().filter(|it| it.has_erased()) {
                let erased = table.columns.iter().filter(|it| it.erased);
                let nothing: Vec<String> = erased.map(|it| format!("{} = NULL", it.name)).collect();
                let (name, nothing) = (table.name, nothing.join(", "));
                db.exec(&format!("UPDATE {name} SET {nothing} {of_account}"), &these)?;
                db.check_again(table, of_account, &these)?;
            }
            db.exec(&format!("DELETE FROM custom_field_value {of_account}"), &these)?;
        }
        Ok(())
    }

    /// Erases who acted on people's accounts, and the audit logs that were brought over.
    fn erase_actors(&self, db: &Database) -> Result<(), StoreError> {
        for &(tenant, account, _) in &self.erased {
            let of_account = [tenant.into(), account.into()];
            let rest = "WHERE tenant = ?1 AND account_id = ?2";
            // An outcome is written in the name of who asked for the transaction.
            let sql = "UPDATE outstanding SET created_by = user_name, reason = NULL, comments = NULL \
                       WHERE tenant = ?1 AND account_id = ?2";
            db.exec(sql, &of_account)?;
            db.check_again(&tables::OUTSTANDING, rest, &of_account)?;
            db.exec(&format!("DELETE FROM audit_imported {rest}"), &of_account)?;
            erase_actors(db, tenant, account)?;
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
        for it in self.entitlements.newest.values() {
            recent.entitlements_changed(it);
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
}

/// Erases the texts on an account's rows. The user who acted stays: it is the installation's operator.
fn erase_actors(db: &Database, tenant: TenantNo, account: AccountId) -> Result<(), StoreError> {
    let parameters = [tenant.into(), account.into()];
    let sql = "UPDATE actor SET salt = NULL, created_by = user_name, reason = NULL, comments = NULL \
               WHERE tenant = ?1 AND account_id = ?2";
    db.prepare(sql)?.row(&parameters)?;
    db.check_again(&tables::ACTOR, "WHERE tenant = ?1 AND account_id = ?2", &parameters)?;
    let sql = "UPDATE account SET actor_salt = NULL, actor_created_by = actor_user, \
               actor_reason = NULL, actor_comments = NULL WHERE tenant = ?1 AND id = ?2";
    db.prepare(sql)?.row(&parameters)?;
    db.check_again(&tables::ACCOUNT, "WHERE tenant = ?1 AND id = ?2", &parameters)
}

/// Inserts rows, if there are any.
fn insert<'r>(
    db: &Database,
    table: &'static Table,
    rows: impl IntoIterator<Item = impl AsRef<[Value<'r>]>>,
) -> Result<(), StoreError> {
    let mut put = None;
    for row in rows {
        begun(&mut put, || db.insert(table))?.row(row.as_ref())?;
    }
    Ok(())
}

/// Whether an entry has no earlier image of the entity of a change.
fn is_first_image(entry: &Entry, change: &Change) -> bool {
    let of = HistoryOf::in_change(change);
    let first = entry.changes.iter().find(|it| HistoryOf::in_change(it) == of);
    first.is_some_and(|first| std::ptr::eq(first, change))
}
