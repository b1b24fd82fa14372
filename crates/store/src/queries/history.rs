//! Histories: walks along the chains of journal rows that entities' revisions make.

use std::any::TypeId;
use std::collections::BTreeMap;

use domain::account::custom_field::CustomField;
use domain::change::{AccountChange, Change, FlagChange};
use domain::flag::definition::DefinitionKey;
use domain::import::ImportedAudit;
use domain::payment::Actor;
use domain::{
    Account, AccountId, CustomFieldId, PaymentId, Person, Seq, TenantNo, Timestamp, TransactionId,
};
use engine::ports::{HistoryOf, HistoryQueries, HistoryRow, Page, ROWS_MAX, StoreError};
use uuid::Uuid;

use super::{SqlQueries, custom_fields, window};
use crate::driver::{Load, Reader, Value};
use crate::entities::EntityTable;
use crate::stored::KeyColumns;
use crate::tables::{self, PAYMENT, PAYMENT_TRANSACTION, Table};

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

    fn first_states(
        &self,
        no: TenantNo,
        of: &[HistoryOf],
    ) -> Result<BTreeMap<Uuid, HistoryRow>, StoreError> {
        self.snapshot(|reader| {
            let mut walker = Walker::new(reader, no)?;
            let mut found = BTreeMap::new();
            for of in of {
                let newest = newest(reader, no, *of)?;
                let first =
                    newest.map(|newest| walker.back(*of, newest, |_, previous| previous.is_none()));
                found.extend(first.transpose()?.flatten().map(|it| (of.id, it)));
            }
            Ok(found)
        })
    }

    fn state_in(
        &self,
        no: TenantNo,
        of: HistoryOf,
        seq: Seq,
    ) -> Result<Option<HistoryRow>, StoreError> {
        self.snapshot(|reader| Walker::new(reader, no)?.written(of, seq))
    }

    fn state_at(
        &self,
        no: TenantNo,
        of: HistoryOf,
        seq: Seq,
    ) -> Result<Option<HistoryRow>, StoreError> {
        self.snapshot(|reader| {
            let mut walker = Walker::new(reader, no)?;
            if let Some(written) = walker.written(of, seq)? {
                return Ok(Some(written));
            }
            let Some(newest) = newest(reader, no, of)? else { return Ok(None) };
            walker.back(of, newest, |at, _| at <= seq)
        })
    }
}

/// The journal row of an entity's newest state.
fn newest(reader: &Reader, no: TenantNo, of: HistoryOf) -> Result<Option<Seq>, StoreError> {
    let table = tables::of_entity(of.kind).table().name;
    let sql = format!("SELECT seq FROM {table} WHERE tenant = ?1 AND id = ?2");
    reader.query_one(&sql, &[no.into(), of.id.into()], |cells| cells.seq())
}

fn of_entity(reader: &Reader, no: TenantNo, of: HistoryOf) -> Result<Vec<HistoryRow>, StoreError> {
    let table = tables::of_entity(of.kind);
    let Some(newest) = newest(reader, no, of)? else { return Ok(vec![]) };
    // Where there are more, the newest states are shown.
    let limit = window::bounded(usize::MAX);
    Walker::new(reader, no)?.entity(table, (of.id, newest), limit)
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
    let mut all = of_entity(reader, no, HistoryOf::new::<Account>(account.uuid()))?;
    all.drain(..all.len().saturating_sub(limit));
    if all.is_empty() {
        return Ok(all);
    }
    let parameters = [no.into(), account.into()];
    walker.imported = Some(imported_of_account(reader, &parameters)?);
    let of_payments = |table: &Table| table.name == PAYMENT.name;
    let is_listed = |table: &Table| table.history.is_some() && !of_payments(table);
    for table in tables::of_entities().filter(|it| is_listed(it.table())) {
        for entity in of_account(reader, table.table(), &parameters, limit - all.len())? {
            let left = limit - all.len();
            all.extend(walker.entity(table, entity, left)?);
        }
    }
    all.extend(of_payments_of_account(&mut walker, &parameters, limit - all.len())?);
    Ok(all)
}

/// The ids of an account's rows of a table, each with the journal row of its newest state; at most `limit`.
fn of_account(
    reader: &Reader,
    table: &Table,
    account: &[Value<'_>; 2],
    limit: usize,
) -> Result<Vec<(Uuid, Seq)>, StoreError> {
    let (name, order) = (table.name, table.history.unwrap_or("id"));
    let sql = format!(
        "SELECT id, seq FROM {name} WHERE tenant = ?1 AND account_id = ?2 ORDER BY {order} LIMIT ?3"
    );
    let [tenant, account] = *account;
    let parameters = [tenant, account, window::limit(limit as u64)];
    reader.query(&sql, &parameters, |cells| Ok((cells.id()?, cells.seq()?)))
}

/// The histories of an account's payments, and behind them those of their transactions.
fn of_payments_of_account(
    walker: &mut Walker<'_>,
    account: &[Value<'_>; 2],
    limit: usize,
) -> Result<Vec<HistoryRow>, StoreError> {
    let (reader, no) = (walker.reader, walker.no);
    // A payment and its transactions share their journal rows: they are walked together.
    let sql = "SELECT id, seq FROM payment WHERE tenant = ?1 AND account_id = ?2 ORDER BY id";
    let mut payments = reader.load(sql)?;
    let (mut of_payments, mut of_transactions) = (Vec::new(), Vec::new());
    payments.rows(account, &mut |cells| {
        let left = limit - of_payments.len();
        if left == 0 {
            return Ok(());
        }
        let (id, newest): (PaymentId, Seq) = (cells.entity()?, cells.seq()?);
        walker.records.clear();
        of_payments.extend(walker.entity(&PAYMENT, (id.uuid(), newest), left)?);
        for (id, newest) in transactions(reader, no, id)? {
            let left = left.saturating_sub(of_transactions.len());
            let of_transaction = walker.entity(&PAYMENT_TRANSACTION, (id.uuid(), newest), left)?;
            of_transactions.extend(of_transaction);
        }
        Ok(())
    })?;
    of_transactions.truncate(limit - of_payments.len());
    of_payments.append(&mut of_transactions);
    Ok(of_payments)
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
    for it in reader.query(&sql, account, |cells| Ok(tables::AUDIT_IMPORTED.row(cells)?.entry))? {
        found.entry(it.object).or_default().push(it);
    }
    Ok(found)
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

    /// An entity's states, with what its tables know of each.
    fn entity(
        &mut self,
        table: &'static dyn EntityTable,
        (id, newest): (Uuid, Seq),
        limit: usize,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        let mut states = self.walk(HistoryOf { kind: table.kind(), id }, Some(newest), limit)?;
        let mut images = states.iter_mut().map(|state| &mut state.image);
        table.restore(self.reader, (self.no, id), &mut images)?;
        if table.kind() == TypeId::of::<Account>() {
            self.add_people(AccountId::new(id), &mut states)?;
        }
        if table.kind() == TypeId::of::<CustomField>() {
            self.add_values(CustomFieldId::new(id), &mut states)?;
        }
        Ok(states)
    }

    /// Adds the person to each state of an account.
    fn add_people(&self, id: AccountId, states: &mut [HistoryRow]) -> Result<(), StoreError> {
        let people = self.people(id)?;
        for state in states {
            let known = people.iter().rev().find(|(since, _)| *since <= state.seq);
            state.person = Some(known.map(|(_, person)| person.clone()).unwrap_or_default());
        }
        Ok(())
    }

    /// Adds the value to each state of a custom field.
    fn add_values(&self, id: CustomFieldId, states: &mut [HistoryRow]) -> Result<(), StoreError> {
        let values = custom_fields::values(self.reader, self.no, id)?;
        for state in states {
            if let Change::Account(AccountChange::CustomField(image)) = &mut state.image {
                let value = values.range(..=state.seq).next_back();
                image.value = value.map(|(_, value)| value.clone()).unwrap_or_default();
            }
        }
        Ok(())
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
            let is_it = |change: &Change| HistoryOf::in_change(change) == Some(of);
            let (state, previous) = self.state(&is_it, seq)?;
            states.push(state);
            next = previous;
        }
        states.reverse();
        // The first of all may have been brought over.
        if next.is_none() {
            self.with_imported(of.id, &mut states)?;
        }
        Ok(states)
    }

    /// The newest state of an entity, from one back, that is the one looked for by its row and the row before; at most as
    /// many states as an answer has rows are looked at.
    fn back(
        &mut self,
        of: HistoryOf,
        newest: Seq,
        is_it: impl Fn(Seq, Option<Seq>) -> bool,
    ) -> Result<Option<HistoryRow>, StoreError> {
        let mut next = Some(newest);
        for _ in 0..ROWS_MAX {
            let Some(seq) = next else { break };
            let (state, previous) =
                self.state(&|change| HistoryOf::in_change(change) == Some(of), seq)?;
            if is_it(seq, previous) {
                return Ok(Some(state));
            }
            next = previous;
        }
        Ok(None)
    }

    /// The state of an entity that a journal row wrote, if any.
    fn written(&mut self, of: HistoryOf, seq: Seq) -> Result<Option<HistoryRow>, StoreError> {
        let is_it = |change: &Change| HistoryOf::in_change(change) == Some(of);
        let is_written = self
            .record(seq)?
            .changes
            .iter()
            .any(|change| is_it(change) && change.revision().is_some_and(|it| it.seq == seq));
        is_written.then(|| self.state(&is_it, seq).map(|(state, _)| state)).transpose()
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
                self.reader.query(&sql, &[self.no.into(), object.into()], |cells| {
                    Ok(tables::AUDIT_IMPORTED.row(cells)?.entry)
                })?
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
