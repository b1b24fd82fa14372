//! Entities against the journal: the newest image is what the table has, every image is on the
//! chain of one entity, and says what its own row's events say.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use domain::change::{Change, CustomerChange};
use domain::ledger::LedgerAccount;
use domain::payment::{Amounts, Payment, Transaction};
use domain::{Event, Seq, TransactionId};
use engine::ports::StoreError;

use super::{Report, each_row};
use crate::codes::code;
use crate::driver::{Cells, Load, Reader};
use crate::entities::EntityTable;
use crate::follow::{self, Record, Records};
use crate::journal;
use crate::tables::{self, JOURNAL, PAYMENT, PAYMENT_TRANSACTION, POSTING};

static RECORDS: LazyLock<String> = LazyLock::new(|| JOURNAL.select("ORDER BY seq"));
static PAYMENTS: LazyLock<String> = LazyLock::new(|| PAYMENT.select("ORDER BY tenant, id"));
static TRANSACTIONS: LazyLock<String> = LazyLock::new(|| {
    PAYMENT_TRANSACTION
        .select("WHERE tenant = ?1 AND payment_id = ?2 ORDER BY opened_seq, effective_at_us")
});

static POSTED: LazyLock<String> = LazyLock::new(|| {
    // What a dispute took beyond its payment is of no transaction's row.
    let excess = code(LedgerAccount::DisputeExcess);
    let of_payment = "WHERE tenant = ?1 AND source_id = ?2 AND account_id = ?3";
    format!(
        "SELECT part_id, seq FROM {} {of_payment} AND debit <> {excess} AND credit <> {excess}",
        POSTING.name
    )
});

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut entities = Entities::prepare(reader)?;
    for entity in alone() {
        let table = entity.table();
        each_row(reader, report, (table, &table.select("")), |cells, report| {
            entities.entity(entity, cells, report)
        })?;
    }
    each_row(reader, report, (&PAYMENT, &PAYMENTS), |cells, report| {
        entities.payment(cells, report)
    })?;
    if report.images_written != report.images {
        find_strays(reader, &mut entities.records, report)?;
    }
    Ok(())
}

/// The tables of entities but payments and their transactions, which are verified with each other.
pub(super) fn alone() -> impl Iterator<Item = &'static dyn EntityTable> {
    let of_payments = [PAYMENT.name, PAYMENT_TRANSACTION.name];
    tables::of_entities().filter(move |it| !of_payments.contains(&it.table().name))
}

/// Verifies rows of entities, one after another.
pub(super) struct Entities<'c> {
    records: Records<'c>,
    transactions: Load<'c>,
    posted: Load<'c>,
}

impl<'c> Entities<'c> {
    pub(super) fn prepare(reader: &'c Reader) -> Result<Self, StoreError> {
        Ok(Self {
            records: Records::prepare(reader)?,
            transactions: reader.load(&TRANSACTIONS)?,
            posted: reader.load(&POSTED)?,
        })
    }

    /// A row of one of [`alone`].
    pub(super) fn entity(
        &mut self,
        entity: &'static dyn EntityTable,
        cells: &mut Cells<'_>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let followed = entity.follow(cells, &mut self.records)?;
        report.followed(entity.table(), followed);
        Ok(())
    }

    /// A row of [`PAYMENT`], with its transactions.
    pub(super) fn payment(
        &mut self,
        cells: &mut Cells<'_>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let payment = tables::PAYMENT.row(cells)?;
        verify_payment(payment, self, report)
    }
}

/// Follows a payment and its transactions: each image of a transaction is what its row's event
/// says, and each of the payment what the transactions were then.
fn verify_payment(
    payment: Payment,
    Entities { records, transactions, posted }: &mut Entities<'_>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let key = [payment.tenant.into(), payment.id.into()];
    let of_payment = [payment.tenant.into(), payment.id.into(), payment.account_id.into()];
    // The newest state is compared with the tables' rows elsewhere.
    let mut before: Vec<Payment> = Vec::new();
    let newest_seq = payment.revision.seq;
    let name = payment.id;
    let followed = follow::entity(payment, records, &mut |image: &Payment, _| {
        before.extend((image.revision.seq != newest_seq).then(|| image.clone()));
        Ok(())
    })?;
    report.followed(&PAYMENT, followed);
    let mut images: Vec<Vec<Transaction>> = Vec::new();
    let mut changed: BTreeSet<(TransactionId, Seq)> = BTreeSet::new();
    transactions.rows(&key, &mut |cells| {
        let (opened_seq, transaction) = tables::opened_transaction(cells)?;
        let (id, mut first) = (transaction.id, opened_seq);
        let mut own = Vec::new();
        let mut each = |image: &Transaction, record: &Record| {
            first = image.revision.seq;
            changed.insert((image.id, first));
            if !before.is_empty() {
                own.push(image.clone());
            }
            let is_told = record.events.iter().any(|event| is_event_of(event, image));
            let matches = is_told != record.is_import;
            if matches { Ok(()) } else { Err("is not what its event says".to_owned()) }
        };
        let followed = follow::entity(transaction, records, &mut each)?;
        report.followed(&PAYMENT_TRANSACTION, followed);
        if first != opened_seq {
            let what = format!("journal row {} made it, not {}", first.0, opened_seq.0);
            report.problem(PAYMENT_TRANSACTION.name, id, what);
        }
        images.push(own);
        Ok(())
    })?;
    posted.rows(&of_payment, &mut |cells| {
        let of = (cells.entity()?, cells.seq()?);
        if !changed.contains(&of) {
            let what =
                format!("is of journal row {}, which did not change its transaction", of.1.0);
            report.problem(POSTING.name, of.0, what);
        }
        Ok(())
    })?;
    for state in before {
        let seq = state.revision.seq;
        // The newest image comes first.
        let then = |own: &Vec<Transaction>| own.iter().find(|it| it.revision.seq <= seq).cloned();
        let then: Vec<Transaction> = images.iter().filter_map(then).collect();
        if state.amounts != Amounts::of(&then) {
            let what = format!("its image in journal row {} adds up to something else", seq.0);
            report.problem(PAYMENT.name, name, what);
        }
    }
    Ok(())
}

/// Whether an event tells of this image of a transaction.
fn is_event_of(event: &Event, image: &Transaction) -> bool {
    let Event::TransactionChanged(it) = event else { return false };
    (it.account, it.payment, it.transaction) == (image.account_id, image.payment_id, image.id)
        && (it.kind, it.status, &it.gateway) == (image.kind, image.status, &image.gateway)
        && (it.amount, it.currency) == (image.processed_amount.unwrap_or_default(), image.currency)
        && it.effective_at == image.effective_at
}

/// Lists the images that are on no entity's chain.
fn find_strays(
    reader: &Reader,
    records: &mut Records<'_>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let tables = tables::of_entities().map(|table| Ok((table, reader.load(&table.select_seq())?)));
    let mut tables = tables.collect::<Result<Vec<_>, StoreError>>()?;
    each_row(reader, report, (&JOURNAL, &RECORDS), |cells, report| {
        let record = journal::record(cells)?;
        for image in &record.changes {
            if !is_on_chain(image, record.seq, &mut tables, records)? {
                let name = tables.iter().find_map(|(table, _)| table.name(image));
                let name = name.unwrap_or_else(|| "an image of no entity".to_owned());
                report.problem(JOURNAL.name, record.seq.0, format!("{name} is on no chain"));
            }
        }
        Ok(())
    })
}

fn is_on_chain(
    image: &Change,
    seq: Seq,
    tables: &mut [(&dyn EntityTable, Load<'_>)],
    records: &mut Records<'_>,
) -> Result<bool, StoreError> {
    let mut own = None;
    for (table, select_seq) in tables {
        if let Some(newest) = table.newest(image, select_seq)? {
            own = Some((*table, newest));
            break;
        }
    }
    let Some((table, mut next)) = own else { return Ok(false) };
    // An operation is deleted some time after its end; the journal goes on telling of it.
    if next.is_none() && matches!(image, Change::Customer(CustomerChange::Operation(_))) {
        return Ok(true);
    }
    while let Some(at) = next.filter(|at| *at > seq) {
        let record = records.of(at)?;
        let later = record.and_then(|it| it.changes.iter().find(|it| table.have_same(it, image)));
        next = later.and_then(Change::revision).and_then(|revision| revision.previous);
        if next.is_some_and(|previous| previous >= at) {
            return Ok(false);
        }
    }
    Ok(next == Some(seq))
}
