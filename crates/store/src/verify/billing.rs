//! Invoices against their items and payments, accounts' credit against invoices, and days against being charged twice.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::billing::account::AccountBilling;
use domain::billing::invoice::{Invoice, InvoiceItem, InvoiceStatus, ItemKind, booked_on};
use domain::billing::reconcile::Billed;
use domain::ledger::{LedgerAccount, Posting, PostingSource};
use domain::payment::PaidFor;
use domain::{Currency, InvoiceItemId};
use engine::ports::StoreError;

use super::{Report, each_row};
use crate::codes::code;
use crate::driver::{Load, Reader};
use crate::tables::{self, ACCOUNT_BILLING, INVOICE, INVOICE_ITEM, PAYMENT, POSTING, SUBSCRIPTION};

static INVOICES: LazyLock<String> = LazyLock::new(|| INVOICE.select("ORDER BY tenant, id"));
static ITEMS_OF_INVOICE: LazyLock<String> = LazyLock::new(|| {
    INVOICE_ITEM.select("WHERE tenant = ?1 AND account_id = ?2 AND invoice_id = ?3")
});
static ITEMS_OF_SUBSCRIPTION: LazyLock<String> = LazyLock::new(|| {
    INVOICE_ITEM.select("WHERE tenant = ?1 AND subscription_id = ?2 AND voided = 0")
});
static POSTINGS_OF_INVOICE: LazyLock<String> =
    LazyLock::new(|| POSTING.select("WHERE tenant = ?1 AND account_id = ?2 AND source_id = ?3"));
static PAYMENT_OF: LazyLock<String> =
    LazyLock::new(|| PAYMENT.select("WHERE tenant = ?1 AND id = ?2"));

/// The credit of an account by its invoices that are asked for.
const CREDIT: &str = "SELECT CAST(sum(credit) AS BIGINT) FROM invoice \
     WHERE tenant = ?1 AND account_id = ?2 AND status = ?3";

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut items = reader.load(&ITEMS_OF_INVOICE)?;
    let mut postings = reader.load(&POSTINGS_OF_INVOICE)?;
    let mut payments = reader.load(&PAYMENT_OF)?;
    each_row(reader, report, (&INVOICE, &INVOICES), |cells, report| {
        let it = tables::INVOICE.row(cells)?;
        let of = [it.tenant.into(), it.account_id.into(), it.id.into()];
        let mut found = vec![];
        items.rows(&of, &mut |cells| {
            found.push(tables::INVOICE_ITEM.row(cells)?);
            Ok(())
        })?;
        let mut problem = |what: String| report.problem(INVOICE.name, it.id, what);
        let mut posted: Vec<Posting> = vec![];
        postings.rows(&of, &mut |cells| {
            posted.push(tables::posting(cells)?.1);
            Ok(())
        })?;
        check_items(&it, &found, &mut problem);
        check_postings((&it, &found), posted, &mut problem);
        check_payments(&it, &mut payments, &mut problem)
    })?;
    let mut credits = reader.load(CREDIT)?;
    each_row(reader, report, (&ACCOUNT_BILLING, &ACCOUNT_BILLING.select("")), |cells, report| {
        let it: AccountBilling = tables::ACCOUNT_BILLING.row(cells)?;
        let committed = code(InvoiceStatus::Committed);
        let of = [it.tenant.into(), it.account_id.into(), committed.into()];
        let credit = credits.first(&of, |cells| cells.opt_int())?.flatten().unwrap_or(0);
        if credit != it.credit.0 {
            report.problem(
                ACCOUNT_BILLING.name,
                it.account_id,
                "has another credit than its invoices",
            );
        }
        Ok(())
    })?;
    let mut items = reader.load(&ITEMS_OF_SUBSCRIPTION)?;
    each_row(reader, report, (&SUBSCRIPTION, &SUBSCRIPTION.select("")), |cells, report| {
        let it = tables::SUBSCRIPTION.row(cells)?;
        let mut found: Vec<InvoiceItem> = vec![];
        items.rows(&[it.tenant.into(), it.id.into()], &mut |cells| {
            found.push(tables::INVOICE_ITEM.row(cells)?);
            Ok(())
        })?;
        let billed = Billed::of(&found.iter().collect::<Vec<_>>());
        if let Some(day) = billed.charged_twice() {
            report.problem(SUBSCRIPTION.name, it.id, format!("was charged twice for {day}"));
        }
        Ok(())
    })
}

/// Compares an invoice with its items.
fn check_items(it: &Invoice, items: &[InvoiceItem], problem: &mut dyn FnMut(String)) {
    let sum = |is_credit: bool| {
        let of = items.iter().filter(|item| (item.kind == ItemKind::CbaAdj) == is_credit);
        of.map(|item| i128::from(item.amount.0)).sum::<i128>()
    };
    if sum(false) != i128::from(it.charged.0) {
        problem("charges something else than its items".to_owned());
    }
    if sum(true) != i128::from(it.credit.0) {
        problem("has another credit than its items".to_owned());
    }
    let is_void = it.status == InvoiceStatus::Void;
    if items.iter().any(|item| item.voided != is_void) {
        problem("has items that count, and does not, or the reverse".to_owned());
    }
    for item in items.iter().filter(|item| item.kind.charges() && item.left().0 < 0) {
        problem(format!("has more taken back of the item {} than it charges", item.id));
    }
}

/// Compares what the items of an invoice move with what was posted of them.
fn check_postings(
    (it, items): (&Invoice, &[InvoiceItem]),
    posted: Vec<Posting>,
    problem: &mut dyn FnMut(String),
) {
    let mut moved: BTreeMap<(InvoiceItemId, LedgerAccount, Currency), i128> = BTreeMap::new();
    for posting in posted {
        let PostingSource::Invoice { item, .. } = posting.source else { continue };
        let amount = i128::from(posting.amount.0);
        for (side, amount) in [(posting.credit, amount), (posting.debit, -amount)] {
            *moved.entry((item, side, posting.currency)).or_default() += amount;
        }
    }
    for item in items.iter().filter(|_| it.status == InvoiceStatus::Committed) {
        let Some(account) = booked_on(item, items) else { continue };
        let amount = i128::from(item.amount.0);
        for (side, amount) in [(account, amount), (LedgerAccount::Customer, -amount)] {
            *moved.entry((item.id, side, it.currency)).or_default() -= amount;
        }
    }
    for ((item, account, _), difference) in moved {
        if difference != 0 {
            problem(format!("has another amount of the item {item} on {account:?} than posted"));
        }
    }
}

/// Compares what an invoice says of its payments with them.
fn check_payments(
    it: &Invoice,
    payments: &mut Load<'_>,
    problem: &mut dyn FnMut(String),
) -> Result<(), StoreError> {
    for (id, paid) in &it.payments {
        let key = [it.tenant.into(), (*id).into()];
        let found = payments.first(&key, |cells| tables::PAYMENT.row(cells))?;
        let is_of = |of: PaidFor| of.invoice() == Some(it.id);
        let Some(payment) = found.filter(|found| found.paid_for.is_some_and(is_of)) else {
            problem(format!("has the payment {id}, which is not there or not for it"));
            continue;
        };
        let amounts = payment.amounts;
        let taken = amounts.purchased.0 + amounts.captured.0;
        if paid.paid.0 != taken - amounts.refunded.0 - amounts.charged_back.0 {
            problem(format!("has another amount of the payment {id} than that took"));
        }
    }
    Ok(())
}
