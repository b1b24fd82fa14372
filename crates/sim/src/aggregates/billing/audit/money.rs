//! What is owed, paid, credited and posted: sums that are added up anew.

use std::collections::BTreeMap;

use domain::billing::invoice::{Invoice, InvoiceStatus, ItemKind};
use domain::ledger::{LedgerAccount, PostingSource};
use domain::payment::{PaidFor, PaymentFile, Transaction, TransactionStatus};
use domain::{AccountId, InvoiceId, Seq};

use super::super::Billing;
use crate::ask::Uid;
use crate::disk::{Bills, Disk};
use crate::gateway::{Line, Stand};

impl<D: Disk> Billing<D> {
    /// Whoever is asked for an invoice pays it in the same commit, unless a tag holds it up.
    pub(in super::super) fn is_paid_at_once(&self, id: InvoiceId) -> Result<(), String> {
        let it = &self.issued.invoices[&id];
        let is_held_up = self.model.accounts[&it.account_id].is_paying_off;
        match it.balance().0 <= 0 || is_held_up || !it.payments.is_empty() {
            true => Ok(()),
            false => Err(format!("a new invoice is paid at once: {it:?}")),
        }
    }

    /// What was taken for an invoice, and what may still be taken, is not more than it is over.
    pub(in super::super) fn is_paid_once(&self, id: InvoiceId) -> Result<(), String> {
        let it = &self.issued.invoices[&id];
        let of = self.issued.paid_for.iter().filter(|(_, invoice)| **invoice == id);
        let files = of.filter_map(|(payment, _)| self.kernel.disk.payment(it.tenant, *payment));
        let taken: i64 = files.map(|file| taken(&file)).sum();
        let over = it.charged.0 + it.credit.0;
        match taken <= over {
            true => Ok(()),
            false => Err(format!("an invoice is paid once: {taken} for {over} of {it:?}")),
        }
    }
}

/// What a payment took and what it may still take.
fn taken(file: &PaymentFile) -> i64 {
    let amount = |it: &Transaction| match it.status {
        TransactionStatus::Success => it.processed_amount.or(it.amount),
        TransactionStatus::InFlight | TransactionStatus::Pending | TransactionStatus::Unknown => {
            it.amount
        }
        TransactionStatus::PaymentFailure | TransactionStatus::PluginFailure => None,
    };
    file.transactions.iter().filter_map(amount).map(|it| it.0).sum()
}

/// Invoices are the sums of their items, accounts' credit is that of their invoices, and the ledger has both.
pub(super) fn audit(bills: &Bills) -> Result<(), String> {
    let mut credit: BTreeMap<AccountId, i64> = BTreeMap::new();
    let mut unpaid: BTreeMap<AccountId, i64> = BTreeMap::new();
    for it in &bills.invoices {
        let items = || bills.items.iter().filter(|item| item.invoice_id == it.id);
        let sum = |is_credit: bool| -> i64 {
            let of = items().filter(|it| (it.kind == ItemKind::CbaAdj) == is_credit);
            of.map(|it| it.amount.0).sum()
        };
        if (sum(false), sum(true)) != (it.charged.0, it.credit.0) {
            return Err(format!("invoices are the sums of their items: {it:?}"));
        }
        let took = transactions_of(it, bills).filter_map(|(_, took)| took).sum::<i64>();
        if paid(it) != took {
            return Err(format!("invoices have what their payments took: {took} for {it:?}"));
        }
        let posted = posted(bills, it.id);
        let is_committed = it.status == InvoiceStatus::Committed;
        if posted != if is_committed { sum(false) } else { 0 } {
            return Err(format!("the ledger has what invoices charge: {posted} for {it:?}"));
        }
        if is_committed {
            *credit.entry(it.account_id).or_default() += it.credit.0;
            *unpaid.entry(it.account_id).or_default() += it.charged.0 + it.credit.0 - paid(it);
        }
    }
    audit_numbers(bills)?;
    for it in &bills.accounts {
        let made = credit.get(&it.account_id).copied().unwrap_or_default();
        if it.credit.0 != made || made < 0 {
            let context = format!("{} has {}, invoices {made}", it.account_id, it.credit.0);
            return Err(format!("credit is what invoices made and used: {context}"));
        }
        let unpaid = unpaid.get(&it.account_id).copied().unwrap_or_default();
        let customer = customer(bills, it.account_id);
        if customer != made - unpaid {
            let context = format!("{} has {customer}, {made} less {unpaid}", it.account_id);
            return Err(format!("the ledger has what the customer owes: {context}"));
        }
    }
    Ok(())
}

/// Invoices are numbered one after the other, in each partition.
fn audit_numbers(bills: &Bills) -> Result<(), String> {
    let mut numbers: Vec<i64> = bills.invoices.iter().map(|it| it.number).collect();
    numbers.sort_unstable();
    let mut last = 0;
    for number in numbers {
        let first = Seq(number).partition().start().0 + 1;
        let begins = number == first && last < first;
        if number != last + 1 && !begins {
            return Err(format!("invoices are numbered without gaps: {number} after {last}"));
        }
        last = number;
    }
    Ok(())
}

fn paid(it: &Invoice) -> i64 {
    it.payments.values().map(|it| it.paid.0).sum()
}

/// What was posted for the items of an invoice.
fn posted(bills: &Bills, invoice: InvoiceId) -> i64 {
    let is_of = |of: &PostingSource| matches!(of, PostingSource::Invoice { invoice: it, .. } if *it == invoice);
    let own = bills.postings.iter().filter(|it| is_of(&it.source));
    own.map(|it| if it.debit == LedgerAccount::Customer { it.amount.0 } else { -it.amount.0 }).sum()
}

/// What the ledger has of a customer: above zero, what was paid and not invoiced.
fn customer(bills: &Bills, account: AccountId) -> i64 {
    let own = bills.postings.iter().filter(|it| it.account_id == account);
    own.map(|it| match (it.credit, it.debit) {
        (LedgerAccount::Customer, _) => it.amount.0,
        (_, LedgerAccount::Customer) => -it.amount.0,
        (_, _) => 0,
    })
    .sum()
}

/// The transactions of an invoice's payments, each with what it took.
fn transactions_of(it: &Invoice, bills: &Bills) -> impl Iterator<Item = (Uid, Option<i64>)> {
    let is_for =
        |file: &&PaymentFile| file.payment.paid_for.and_then(PaidFor::invoice) == Some(it.id);
    let transactions = bills.payments.iter().filter(is_for).flat_map(|file| &file.transactions);
    let took = |it: &Transaction| {
        let amount = it.processed_amount.or(it.amount).map(|it| it.0);
        amount.filter(|_| it.status == TransactionStatus::Success)
    };
    transactions.map(|it| (it.id.uuid().as_u128(), took(it))).collect::<Vec<_>>().into_iter()
}

/// Invoices have what the gateway took for them, and nothing is on its way any more.
pub(super) fn audit_payments(bills: &Bills, book: &BTreeMap<Uid, Line>) -> Result<(), String> {
    for it in &bills.invoices {
        let took = transactions_of(it, bills).filter_map(|(id, took)| match book.get(&id) {
            Some(line) => line.amount.filter(|_| line.stand == Stand::Done),
            // It did not go there.
            None => took,
        });
        let took: i64 = took.sum();
        let in_flight: i64 = it.payments.values().map(|it| it.in_flight.0).sum();
        if (paid(it), in_flight) != (took, 0) {
            return Err(format!("invoices have what the gateway took: {took} for {it:?}"));
        }
    }
    Ok(())
}
