//! Histories: walks along the chains of journal rows that entities' revisions make.

use std::collections::BTreeMap;

use domain::change::{AccountChange, Change, FlagChange, PaymentChange, TenantChange};
use domain::custom_field::CustomField;
use domain::definition::DefinitionKey;
use domain::import::ImportedAudit;
use domain::payment::Actor;
use domain::{
    AccountEmailId, AccountId, AttemptId, BlockingStateId, PaymentId, PaymentMethodId, Person, Seq,
    TenantNo, Timestamp, TransactionId,
};
use engine::ports::{HistoryOf, HistoryQueries, HistoryRow, Page, ROWS_MAX, StoreError};
use uuid::Uuid;

use super::{SqlQueries, accounts, custom_fields, tags, window};
use crate::driver::{Load, Reader, Value};
use crate::stored::KeyColumns;
use crate::tables::{self, Table};

impl HistoryQueries for SqlQueries {
    fn history(&self, no: TenantNo, of: HistoryOf) -> Result<Vec<HistoryRow>, StoreError> {
        self.snapshot(|reader| of_entity(reader, no, of))
    }

    fn account_histories(
        &self,
        no: TenantNo,
        account: AccountId,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        self.snapshot(|reader| of_all_of_account(reader, no, account, limit))
    }
}

fn of_entity(reader: &Reader, no: TenantNo, of: HistoryOf) -> Result<Vec<HistoryRow>, StoreError> {
    let mut walker = Walker::new(reader, no)?;
    // Where there are more, the newest states are shown.
    let limit = window::bounded(usize::MAX);
    match of {
        HistoryOf::Account(id) => walker.account(id, limit),
        HistoryOf::AccountEmail(id) => walker.account_email(id, limit),
        HistoryOf::PaymentAttempt(id) => walker.payment_attempt(id, limit),
        HistoryOf::CustomField(id) => match custom_fields::by_id(reader, no, id)? {
            Some(now) => walker.custom_field(&now, limit),
            None => Ok(vec![]),
        },
        HistoryOf::Tag(_)
        | HistoryOf::BlockingState(_)
        | HistoryOf::TagDefinition(_)
        | HistoryOf::PaymentMethod(_)
        | HistoryOf::Payment(_)
        | HistoryOf::Transaction(_) => {
            let newest = newest(reader, no, of)?;
            walker.walk(of, newest, limit)
        }
    }
}

pub(super) fn of_definition(
    reader: &Reader,
    no: TenantNo,
    key: &DefinitionKey,
    page: Page,
) -> Result<Vec<HistoryRow>, StoreError> {
    let sql = format!("SELECT seq FROM definition {}", tables::DEFINITION.by_key());
    let named = (no, key.clone());
    let mut next = reader.query_one(&sql, &named.columns(), |cells| cells.seq())?;
    let is_it = |change: &Change| matches!(change, Change::Flag(FlagChange::Definition(it)) if it.key == *key);
    let mut walker = Walker::new(reader, no)?;
    let window = page.offset..page.offset.saturating_add(page.limit.min(ROWS_MAX));
    let (mut states, mut at) = (Vec::new(), 0);
    while let Some(seq) = next.filter(|_| at < window.end) {
        let (state, previous) = walker.state(&is_it, seq)?;
        if window.contains(&at) {
            states.push(state);
        }
        // An import's row has all that came with it, and no other state of this one.
        walker.records.clear();
        (next, at) = (previous, at + 1);
    }
    Ok(states)
}

fn of_all_of_account(
    reader: &Reader,
    no: TenantNo,
    account: AccountId,
    limit: usize,
) -> Result<Vec<HistoryRow>, StoreError> {
    let limit = window::bounded(limit);
    let mut walker = Walker::new(reader, no)?;
    let mut all = walker.account(account, limit)?;
    if all.is_empty() {
        return Ok(all);
    }
    let parameters = [no.into(), account.into()];
    walker.imported = Some(imported_of_account(reader, &parameters)?);
    for tag in tags::of_account(reader, no, account, limit - all.len())? {
        let left = limit - all.len();
        all.extend(walker.walk(HistoryOf::Tag(tag.id), Some(tag.revision.seq), left)?);
    }
    let sql = "SELECT id FROM account_email WHERE tenant = ?1 AND account_id = ?2 ORDER BY created_at_us, id";
    let emails: Vec<AccountEmailId> = reader.query(sql, &parameters, |cells| cells.entity())?;
    for id in emails {
        let left = limit - all.len();
        all.extend(walker.account_email(id, left)?);
    }
    let sql =
        "SELECT id, seq FROM blocking_state WHERE tenant = ?1 AND account_id = ?2 ORDER BY ordinal";
    let states: Vec<(BlockingStateId, Seq)> =
        reader.query(sql, &parameters, |cells| Ok((cells.entity()?, cells.seq()?)))?;
    for (id, newest) in states {
        let left = limit - all.len();
        all.extend(walker.walk(HistoryOf::BlockingState(id), Some(newest), left)?);
    }
    for field in custom_fields::of_account(reader, no, account, limit - all.len())? {
        let left = limit - all.len();
        all.extend(walker.custom_field(&field, left)?);
    }
    let sql =
        "SELECT id, seq FROM payment_method WHERE tenant = ?1 AND account_id = ?2 ORDER BY id";
    let methods: Vec<(PaymentMethodId, Seq)> =
        reader.query(sql, &parameters, |cells| Ok((cells.entity()?, cells.seq()?)))?;
    for (id, newest) in methods {
        let left = limit - all.len();
        all.extend(walker.walk(HistoryOf::PaymentMethod(id), Some(newest), left)?);
    }
    // A payment and its transactions share their journal rows: they are walked together.
    let sql = "SELECT id, seq FROM payment WHERE tenant = ?1 AND account_id = ?2 ORDER BY id";
    let mut payments = reader.load(sql)?;
    let (mut of_payments, mut of_transactions) = (Vec::new(), Vec::new());
    payments.rows(&parameters, &mut |cells| {
        let left = limit - all.len() - of_payments.len();
        if left == 0 {
            return Ok(());
        }
        let (id, newest): (PaymentId, Seq) = (cells.entity()?, cells.seq()?);
        walker.records.clear();
        of_payments.extend(walker.walk(HistoryOf::Payment(id), Some(newest), left)?);
        for (id, newest) in transactions(reader, no, id)? {
            let left = left.saturating_sub(of_transactions.len());
            of_transactions.extend(walker.walk(HistoryOf::Transaction(id), Some(newest), left)?);
        }
        Ok(())
    })?;
    all.append(&mut of_payments);
    of_transactions.truncate(limit - all.len());
    all.append(&mut of_transactions);
    let sql =
        "SELECT id FROM payment_attempt WHERE tenant = ?1 AND account_id = ?2 ORDER BY id LIMIT ?3";
    let left = i64::try_from(limit - all.len()).unwrap_or(i64::MAX);
    let attempts: Vec<AttemptId> =
        reader.query(sql, &[no.into(), account.into(), left.into()], |cells| cells.entity())?;
    for id in attempts {
        let left = limit - all.len();
        all.extend(walker.payment_attempt(id, left)?);
    }
    Ok(all)
}

fn transactions(
    reader: &Reader,
    no: TenantNo,
    payment: PaymentId,
) -> Result<Vec<(TransactionId, Seq)>, StoreError> {
    let sql = "SELECT id, seq FROM payment_transaction WHERE tenant = ?1 AND payment_id = ?2 \
         ORDER BY opened_seq, effective_at_us";
    reader.query(sql, &[no.into(), payment.into()], |cells| Ok((cells.entity()?, cells.seq()?)))
}

/// The imported audit entries of an account, by object.
fn imported_of_account(
    reader: &Reader,
    account: &[Value<'_>],
) -> Result<BTreeMap<Uuid, Vec<ImportedAudit>>, StoreError> {
    let sql = tables::AUDIT_IMPORTED
        .select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY object_id, ordinal");
    let mut found: BTreeMap<Uuid, Vec<ImportedAudit>> = BTreeMap::new();
    for it in reader.query(&sql, account, tables::imported_audit)? {
        found.entry(it.object).or_default().push(it);
    }
    Ok(found)
}

/// The journal row of an entity's newest state.
fn newest(reader: &Reader, no: TenantNo, of: HistoryOf) -> Result<Option<Seq>, StoreError> {
    let table: &Table = match of {
        HistoryOf::Account(_) => &tables::ACCOUNT,
        HistoryOf::Tag(_) => &tables::TAG,
        HistoryOf::TagDefinition(_) => &tables::TAG_DEFINITION,
        HistoryOf::AccountEmail(_) => &tables::ACCOUNT_EMAIL,
        HistoryOf::BlockingState(_) => &tables::BLOCKING_STATE,
        HistoryOf::CustomField(_) => &tables::CUSTOM_FIELD,
        HistoryOf::PaymentMethod(_) => &tables::PAYMENT_METHOD,
        HistoryOf::PaymentAttempt(_) => &tables::PAYMENT_ATTEMPT,
        HistoryOf::Payment(_) => &tables::PAYMENT,
        HistoryOf::Transaction(_) => &tables::PAYMENT_TRANSACTION,
    };
    let sql = format!("SELECT seq FROM {} WHERE tenant = ?1 AND id = ?2", table.name);
    reader.query_one(&sql, &[no.into(), of.id().into()], |cells| cells.seq())
}

/// The columns of a journal row that a walk needs.
struct Record {
    at: Timestamp,
    actor: Actor,
    changes: Vec<Change>,
}

struct Walker<'r> {
    reader: &'r Reader,
    no: TenantNo,
    load: Load<'r>,
    records: BTreeMap<Seq, Record>,
    /// The imported audit entries of the account whose histories are read; `None`: they are read by
    /// object.
    imported: Option<BTreeMap<Uuid, Vec<ImportedAudit>>>,
}

impl<'r> Walker<'r> {
    fn new(reader: &'r Reader, no: TenantNo) -> Result<Self, StoreError> {
        let load = reader.load(
            "SELECT j.at_us, coalesce(a.user_name, m.actor_user), \
             coalesce(a.created_by, m.actor_created_by), coalesce(a.reason, m.actor_reason), \
             coalesce(a.comments, m.actor_comments), j.token, j.changes FROM journal j \
             LEFT JOIN actor a ON a.tenant = j.tenant AND a.id = j.actor \
             AND a.account_id = coalesce(j.account_id, ?2) \
             LEFT JOIN account m ON m.tenant = j.tenant AND m.id = j.account_id \
             AND m.actor = j.actor WHERE j.seq = ?1",
        )?;
        Ok(Self { reader, no, load, records: BTreeMap::new(), imported: None })
    }

    /// An account's states, with what its table and that of people know of each.
    fn account(&mut self, id: AccountId, limit: usize) -> Result<Vec<HistoryRow>, StoreError> {
        let Some(now) = accounts::by_id(self.reader, self.no, id)? else { return Ok(vec![]) };
        let newest = Some(now.account.revision.seq);
        let mut states = self.walk(HistoryOf::Account(id), newest, limit)?;
        let people = self.people(id)?;
        for state in &mut states {
            if let Change::Account(AccountChange::Account(image)) = &mut state.image {
                image.external_key.clone_from(&now.account.external_key);
                image.external_payment_method = now.account.external_payment_method;
            }
            let known = people.iter().rev().find(|(since, _)| *since <= state.seq);
            state.person = Some(known.map(|(_, person)| person.clone()).unwrap_or_default());
        }
        Ok(states)
    }

    /// A further address's states, with the address.
    fn account_email(
        &mut self,
        id: AccountEmailId,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        let sql = tables::ACCOUNT_EMAIL.select("WHERE tenant = ?1 AND id = ?2");
        let key = [self.no.into(), id.into()];
        let Some(now) =
            self.reader.query_one(&sql, &key, |cells| tables::ACCOUNT_EMAIL.row(cells))?
        else {
            return Ok(vec![]);
        };
        let newest = Some(now.revision.seq);
        let mut states = self.walk(HistoryOf::AccountEmail(id), newest, limit)?;
        for state in &mut states {
            if let Change::Account(AccountChange::Email(image)) = &mut state.image {
                image.email.clone_from(&now.email);
            }
        }
        Ok(states)
    }

    /// An attempt's states, with the properties of its call.
    fn payment_attempt(
        &mut self,
        id: AttemptId,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        let sql = tables::PAYMENT_ATTEMPT.select("WHERE tenant = ?1 AND id = ?2");
        let key = [self.no.into(), id.into()];
        let Some(now) =
            self.reader.query_one(&sql, &key, |cells| tables::PAYMENT_ATTEMPT.row(cells))?
        else {
            return Ok(vec![]);
        };
        let newest = Some(now.revision.seq);
        let mut states = self.walk(HistoryOf::PaymentAttempt(id), newest, limit)?;
        for state in &mut states {
            if let Change::Payment(PaymentChange::Attempt(image)) = &mut state.image {
                image.properties.clone_from(&now.properties);
            }
        }
        Ok(states)
    }

    /// A field's states, with what its tables know of each.
    fn custom_field(
        &mut self,
        now: &CustomField,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        let newest = Some(now.revision.seq);
        let mut states = self.walk(HistoryOf::CustomField(now.id), newest, limit)?;
        let values = custom_fields::values(self.reader, self.no, now.id)?;
        for state in &mut states {
            if let Change::Account(AccountChange::CustomField(image)) = &mut state.image {
                image.name.clone_from(&now.name);
                let value = values.range(..=state.seq).next_back();
                image.value = value.map(|(_, value)| value.clone()).unwrap_or_default();
            }
        }
        Ok(states)
    }

    /// The states of an account's person, each with its journal row, oldest first.
    fn people(&self, account: AccountId) -> Result<Vec<(Seq, Person)>, StoreError> {
        let sql =
            tables::ACCOUNT_PERSON.select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY seq");
        self.reader.query(&sql, &[self.no.into(), account.into()], |cells| {
            tables::person(cells).map(|(_, since, person)| (since, person))
        })
    }

    /// The states of an entity from its newest back, at most `limit` of them, oldest first.
    fn walk(
        &mut self,
        of: HistoryOf,
        newest: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        let mut states = Vec::new();
        let mut next = newest;
        while let Some(seq) = next {
            if states.len() == limit {
                break;
            }
            let (state, previous) = self.state(&|change| is_of(change, of), seq)?;
            states.push(state);
            next = previous;
        }
        states.reverse();
        // The first of all may have been brought over.
        if next.is_none() {
            self.with_imported(of.id(), &mut states)?;
        }
        Ok(states)
    }

    /// The state of an entity that a journal row made, and the row of the state before.
    fn state(
        &mut self,
        is_it: &dyn Fn(&Change) -> bool,
        seq: Seq,
    ) -> Result<(HistoryRow, Option<Seq>), StoreError> {
        let record = self.record(seq)?;
        let is_state =
            |change: &&Change| is_it(change) && change.revision().is_some_and(|it| it.seq == seq);
        let Some(image) = record.changes.iter().rev().find(is_state) else {
            return Err(broken(seq, "has no image of an entity that names it"));
        };
        let revision = image.revision().expect("it was found by its revision");
        if revision.previous.is_some_and(|previous| previous >= seq) {
            return Err(broken(seq, "names a later row as the one before"));
        }
        let (at, actor) = (record.at, record.actor.clone());
        let state =
            HistoryRow { seq, at, actor, image: image.clone(), person: None, imported: None };
        Ok((state, revision.previous))
    }

    /// Puts what was brought over of an object's audit in the place of the row that brought it.
    fn with_imported(&self, object: Uuid, states: &mut Vec<HistoryRow>) -> Result<(), StoreError> {
        let entries = match &self.imported {
            Some(of_account) => of_account.get(&object).cloned().unwrap_or_default(),
            None => {
                let sql = tables::AUDIT_IMPORTED
                    .select("WHERE tenant = ?1 AND object_id = ?2 ORDER BY ordinal");
                self.reader.query(&sql, &[self.no.into(), object.into()], tables::imported_audit)?
            }
        };
        let Some(first) = states.first().filter(|_| !entries.is_empty()).cloned() else {
            return Ok(());
        };
        let entries = entries.into_iter().map(|it| HistoryRow {
            at: it.at,
            imported: Some(it.kind),
            actor: Actor {
                created_by: it.changed_by,
                reason: it.reason,
                comments: it.comments,
                token: it.token,
                ..first.actor.clone()
            },
            ..first.clone()
        });
        states.splice(..1, entries);
        Ok(())
    }

    fn record(&mut self, seq: Seq) -> Result<&Record, StoreError> {
        use std::collections::btree_map::Entry;
        match self.records.entry(seq) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(slot) => {
                let record = self.load.first(&[seq.into(), Uuid::nil().into()], |cells| {
                    cells.of(&tables::JOURNAL);
                    Ok(Record {
                        at: cells.time()?,
                        actor: tables::actor(cells)?,
                        changes: cells.opt_json()?.unwrap_or_default(),
                    })
                })?;
                Ok(slot.insert(record.ok_or_else(|| broken(seq, "is not there"))?))
            }
        }
    }
}

fn broken(seq: Seq, what: &str) -> StoreError {
    StoreError::Corrupt { table: tables::JOURNAL.name, reason: format!("row {} {what}", seq.0) }
}

/// Whether a change is an image of this entity.
fn is_of(change: &Change, of: HistoryOf) -> bool {
    match (of, change) {
        (HistoryOf::Account(id), Change::Account(AccountChange::Account(it))) => it.id == id,
        (HistoryOf::Tag(id), Change::Account(AccountChange::Tag(it))) => it.id == id,
        (HistoryOf::TagDefinition(id), Change::Tenant(TenantChange::TagDefinition(it))) => {
            it.id == id
        }
        (HistoryOf::AccountEmail(id), Change::Account(AccountChange::Email(it))) => it.id == id,
        (HistoryOf::BlockingState(id), Change::Account(AccountChange::BlockingState(it))) => {
            it.id == id
        }
        (HistoryOf::CustomField(id), Change::Account(AccountChange::CustomField(it))) => {
            it.id == id
        }
        (HistoryOf::PaymentMethod(id), Change::Account(AccountChange::PaymentMethod(it))) => {
            it.id == id
        }
        (HistoryOf::PaymentAttempt(id), Change::Payment(PaymentChange::Attempt(it))) => it.id == id,
        (HistoryOf::Payment(id), Change::Payment(PaymentChange::Payment(it))) => it.id == id,
        (HistoryOf::Transaction(id), Change::Payment(PaymentChange::Transaction(it))) => {
            it.id == id
        }
        (
            HistoryOf::Account(_)
            | HistoryOf::Tag(_)
            | HistoryOf::AccountEmail(_)
            | HistoryOf::BlockingState(_)
            | HistoryOf::CustomField(_)
            | HistoryOf::TagDefinition(_)
            | HistoryOf::PaymentMethod(_)
            | HistoryOf::Payment(_)
            | HistoryOf::PaymentAttempt(_)
            | HistoryOf::Transaction(_),
            _,
        ) => false,
    }
}
