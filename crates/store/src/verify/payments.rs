//! Payments against their transactions, transactions against their postings.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::ledger::{LedgerAccount, Posting, PostingSource, sides};
use domain::payment::dispute::Dispute;
use domain::payment::{Amounts, Payment, Transaction, TransactionStatus};
use domain::{AmountMinor, Currency, Seq};
use engine::ports::StoreError;
use uuid::Uuid;

use super::{Report, count, each_row, list};
use crate::driver::{Cells, Load, Reader};
use crate::tables::{self, DISPUTE, INVOICE, PAYMENT, PAYMENT_TRANSACTION, POSTING, Table};

static PAYMENTS: LazyLock<String> = LazyLock::new(|| PAYMENT.select("ORDER BY tenant, id"));
static TRANSACTIONS: LazyLock<String> = LazyLock::new(|| {
    PAYMENT_TRANSACTION
        .select("WHERE tenant = ?1 AND payment_id = ?2 ORDER BY opened_seq, effective_at_us")
});
static POSTINGS: LazyLock<String> = LazyLock::new(|| {
    POSTING.select("WHERE tenant = ?1 AND account_id = ?2 AND source_id = ?3 ORDER BY seq")
});

static DISPUTES: LazyLock<String> =
    LazyLock::new(|| DISPUTE.select("WHERE payment_id = ?2 AND tenant + 0 = ?1"));

static ACCOUNT_OF_PAYMENT: LazyLock<String> = LazyLock::new(|| account_of(&PAYMENT));
static ACCOUNT_OF_INVOICE: LazyLock<String> = LazyLock::new(|| account_of(&INVOICE));

fn account_of(table: &Table) -> String {
    format!("SELECT account_id FROM {} WHERE tenant = ?1 AND id = ?2", table.name)
}

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut transactions = reader.load(&TRANSACTIONS)?;
    let mut postings = reader.load(&POSTINGS)?;
    let mut disputes = reader.load(&DISPUTES)?;
    each_row(reader, report, (&PAYMENT, &PAYMENTS), |cells, report| {
        let payment = tables::PAYMENT.row(cells)?;
        let file = transactions_of(&payment, &mut transactions)?;
        let posted = postings_of(&payment, &mut postings)?;
        report.payments += 1;
        verify_payment(&payment, &file, report);
        for transaction in &file {
            verify_transaction(&payment, transaction, &posted, report);
        }
        verify_disputes(&payment, &disputes_of(&payment, &mut disputes)?, &posted, report);
        for (seq, posting) in &posted {
            if !file.iter().any(|it| posting.transaction() == Some(it.id)) {
                let what = format!("is of transaction {}, which is not there", part(posting));
                report.problem(POSTING.name, format!("{} of {}", seq.0, payment.id), what);
            }
        }
        Ok(())
    })?;
    let mut accounts = Accounts::prepare(reader)?;
    each_row(reader, report, (&POSTING, &POSTING.select("")), |cells, report| {
        report.postings += 1;
        accounts.posting(cells, report)
    })?;
    verify_owners(reader, report)
}

/// The id of the transaction or the item that moved the money.
const fn part(posting: &Posting) -> Uuid {
    match &posting.source {
        PostingSource::Payment { transaction, .. } => transaction.uuid(),
        PostingSource::Invoice { item, .. } => item.uuid(),
    }
}

/// Compares the account of a posting with that of its payment or invoice, as their rows name them: reads by these take
/// both from the index, which a damaged row leaves as it was.
pub(super) struct Accounts<'r> {
    of_payment: Load<'r>,
    of_invoice: Load<'r>,
}

impl<'r> Accounts<'r> {
    pub(super) fn prepare(reader: &'r Reader) -> Result<Self, StoreError> {
        Ok(Self {
            of_payment: reader.load(&ACCOUNT_OF_PAYMENT)?,
            of_invoice: reader.load(&ACCOUNT_OF_INVOICE)?,
        })
    }

    pub(super) fn posting(
        &mut self,
        cells: &mut Cells<'_>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let (seq, posting) = tables::posting(cells)?;
        let (accounts, id, absent) = match &posting.source {
            PostingSource::Payment { payment, .. } => {
                (&mut self.of_payment, (*payment).into(), "is of a payment that is not there")
            }
            PostingSource::Invoice { invoice, .. } => {
                (&mut self.of_invoice, (*invoice).into(), "is of an invoice that is not there")
            }
        };
        let account = accounts.first(&[posting.tenant.into(), id], |cells| cells.entity())?;
        let what = match account {
            Some(account) if account == posting.account_id => return Ok(()),
            Some(_) => "is of another account than its payment or invoice",
            None => absent,
        };
        report.problem(POSTING.name, format!("{} of {}", seq.0, part(&posting)), what);
        Ok(())
    }
}

fn transactions_of(payment: &Payment, load: &mut Load<'_>) -> Result<Vec<Transaction>, StoreError> {
    let mut found = Vec::new();
    load.rows(&[payment.tenant.into(), payment.id.into()], &mut |cells| {
        found.push(tables::PAYMENT_TRANSACTION.row(cells)?);
        Ok(())
    })?;
    Ok(found)
}

fn postings_of(payment: &Payment, load: &mut Load<'_>) -> Result<Vec<(Seq, Posting)>, StoreError> {
    let mut found = Vec::new();
    let key = [payment.tenant.into(), payment.account_id.into(), payment.id.into()];
    load.rows(&key, &mut |cells| {
        found.push(tables::posting(cells)?);
        Ok(())
    })?;
    Ok(found)
}

fn disputes_of(payment: &Payment, load: &mut Load<'_>) -> Result<Vec<Dispute>, StoreError> {
    let mut found = Vec::new();
    load.rows(&[payment.tenant.into(), payment.id.into()], &mut |cells| {
        found.push(tables::DISPUTE.row(cells)?);
        Ok(())
    })?;
    Ok(found)
}

/// Whether a posting is of what a dispute took beyond its payment.
fn is_excess(posting: &Posting) -> bool {
    [posting.debit, posting.credit].contains(&LedgerAccount::DisputeExcess)
}

/// No more is booked of a dispute than moved, and what is excess is what was posted.
fn verify_disputes(
    payment: &Payment,
    disputes: &[Dispute],
    posted: &[(Seq, Posting)],
    report: &mut Report,
) {
    let mut net: BTreeMap<Currency, i128> = BTreeMap::new();
    for it in disputes {
        let booked = it.booked;
        if booked.withdrawn() > it.withdrawn || booked.reinstated() > it.reinstated {
            report.problem(DISPUTE.name, it.id, "more is booked than moved");
        }
        if it.account_id != payment.account_id {
            report.problem(DISPUTE.name, it.id, "is of another account than its payment");
        }
        let excess = i128::from(booked.excess.0) - i128::from(booked.excess_returned.0);
        *net.entry(it.currency).or_default() += excess;
    }
    let sides = (LedgerAccount::DisputeExcess, LedgerAccount::Disputes);
    for (_, it) in posted.iter().filter(|(_, it)| is_excess(it)) {
        let net = net.entry(it.currency).or_default();
        if (it.debit, it.credit) == sides {
            *net -= i128::from(it.amount.0);
        } else if (it.credit, it.debit) == sides {
            *net += i128::from(it.amount.0);
        } else {
            let what = "has a posting of excess that is not with the disputes";
            report.problem(PAYMENT.name, payment.id, what);
        }
    }
    if net.values().any(|it| *it != 0) {
        let what = "its postings of excess do not add up to that of its disputes";
        report.problem(PAYMENT.name, payment.id, what);
    }
}

fn verify_payment(payment: &Payment, file: &[Transaction], report: &mut Report) {
    let Some(first) = file.first() else {
        report.problem(PAYMENT.name, payment.id, "has no transactions");
        return;
    };
    if payment.amounts != Amounts::of(file) {
        report.problem(PAYMENT.name, payment.id, "its amounts are not those of its transactions");
    }
    if payment.created_at > first.effective_at {
        report.problem(PAYMENT.name, payment.id, "is younger than its first transaction");
    }
    let last = payment.state;
    if !file.iter().any(|it| (it.kind, it.status) == (last.operation, last.status)) {
        report.problem(PAYMENT.name, payment.id, "is in a state that no transaction has");
    }
}

fn verify_transaction(
    payment: &Payment,
    transaction: &Transaction,
    posted: &[(Seq, Posting)],
    report: &mut Report,
) {
    report.transactions += 1;
    let mut problem =
        |what: &str| report.problem(PAYMENT_TRANSACTION.name, transaction.id, what.to_owned());
    if transaction.account_id != payment.account_id {
        problem("is of another account than its payment");
    }
    let own = posted.iter().map(|(_, posting)| posting);
    let own = own.filter(|it| it.transaction() == Some(transaction.id) && !is_excess(it));
    let mut net = 0_i128;
    for posting in own {
        let amount = i128::from(posting.amount.0);
        let (there, back) = match sides(transaction.kind) {
            Some((debit, credit)) => ((debit, credit), (credit, debit)),
            None => {
                problem("has a posting, though it moves no money");
                continue;
            }
        };
        if posting.amount <= AmountMinor::ZERO {
            problem("has a posting that moves nothing");
        }
        if posting.gateway() != transaction.gateway {
            problem("has a posting of another gateway");
        }
        if posting.currency != transaction.currency.unwrap_or(payment.currency) {
            problem("has a posting in another currency");
        }
        let sides = (posting.debit, posting.credit);
        if sides == there {
            net += amount;
        } else if sides == back {
            net -= amount;
        } else {
            problem("has a posting between accounts that it does not touch");
        }
    }
    let succeeded = transaction.status == TransactionStatus::Success;
    let moved =
        transaction.processed_amount.filter(|_| succeeded && sides(transaction.kind).is_some());
    if net != i128::from(moved.unwrap_or_default().0) {
        problem("its postings do not add up to what it moved");
    }
}

/// Nothing is there without what it belongs to.
fn verify_owners(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    report.accounts = count(reader, "SELECT count(*) FROM account")?;
    // What payments led to are theirs: only where there is more, somebody has to look for it.
    let transactions = count(reader, "SELECT count(*) FROM payment_transaction")?;
    if transactions != report.transactions {
        list(
            reader,
            report,
            (PAYMENT_TRANSACTION.name, "is of a payment that is not there"),
            "SELECT t.id FROM payment_transaction t WHERE NOT EXISTS (SELECT 1 \
             FROM payment o WHERE o.tenant = t.tenant AND o.id = t.payment_id)",
        )?;
    }
    let orphans = [
        (
            POSTING.name,
            "is of a journal row that is not there, or of another time",
            "SELECT p.part_id FROM posting p WHERE NOT EXISTS (SELECT 1 FROM journal j \
             WHERE j.seq = p.seq AND j.at_us = p.at_us)",
        ),
        (
            PAYMENT.name,
            "is of an account or a payment method that is not there",
            "SELECT p.id FROM payment p WHERE NOT EXISTS (SELECT 1 FROM account a \
             WHERE a.tenant = p.tenant AND a.id = p.account_id) OR NOT EXISTS (SELECT 1 \
             FROM payment_method m WHERE m.tenant = p.tenant AND m.id = p.payment_method_id)",
        ),
        (
            "payment_method",
            "is of an account that is not there",
            "SELECT m.id FROM payment_method m WHERE NOT EXISTS (SELECT 1 FROM account a \
             WHERE a.tenant = m.tenant AND a.id = m.account_id)",
        ),
        (
            "account_person",
            "is of an account that is not there",
            "SELECT p.account_id FROM account_person p WHERE NOT EXISTS (SELECT 1 \
             FROM account a WHERE a.tenant = p.tenant AND a.id = p.account_id)",
        ),
    ];
    for (table, what, sql) in orphans {
        list(reader, report, (table, what), sql)?;
    }
    verify_outstanding(reader, report)
}

/// Checks that each open transaction has an `outstanding` row, and that each such row is of an open transaction, or
/// of one whose gateway is asked again: it has no record of the transaction, or reports another end. Where an outcome
/// is reported while the call may still run, the row stays for the call.
fn verify_outstanding(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let in_flight = crate::codes::code(TransactionStatus::InFlight);
    let pending = crate::codes::code(TransactionStatus::Pending);
    let unknown = crate::codes::code(TransactionStatus::Unknown);
    let plugin_failure = crate::codes::code(TransactionStatus::PluginFailure);
    list(
        reader,
        report,
        (PAYMENT_TRANSACTION.name, "is open, and nobody waits for its outcome"),
        &format!(
            "SELECT t.id FROM payment_transaction t \
             WHERE t.status IN ({in_flight}, {pending}, {unknown}) AND \
             NOT EXISTS (SELECT 1 FROM outstanding o \
             WHERE o.tenant = t.tenant AND o.transaction_id = t.id)"
        ),
    )?;
    list(
        reader,
        report,
        (
            "outstanding",
            "is of a transaction that is not there, or has ended and is not asked about",
        ),
        &format!(
            "SELECT o.transaction_id FROM outstanding o WHERE NOT EXISTS (SELECT 1 \
             FROM payment_transaction t WHERE t.tenant = o.tenant \
             AND t.payment_id = o.payment_id AND t.id = o.transaction_id \
             AND (t.status IN ({in_flight}, {pending}, {unknown}, {plugin_failure}) \
             OR o.asked = 0 OR o.ask_at_us IS NOT NULL))"
        ),
    )
}
