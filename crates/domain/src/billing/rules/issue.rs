//! Writes invoices, drafts or committed ones, and pays them from the account's credit.

use jiff::civil::Date;

use super::books::Books;
use super::ledger;
use super::pay::pay;
use crate::account::tag::ControlTag;
use crate::billing::Unbillable;
use crate::billing::invoice::{Invoice, InvoiceItem, InvoiceStatus, ItemKind};
use crate::billing::settle::settle;
use crate::change::BillingChange;
use crate::context::Context;
use crate::rows::Keyed;
use crate::{AmountMinor, Event, InvoiceId, Revision};

/// An invoice to be written.
pub(super) struct NewInvoice {
    pub(super) id: InvoiceId,
    pub(super) items: Vec<InvoiceItem>,
    pub(super) date: Date,
    pub(super) target: Date,
    pub(super) status: InvoiceStatus,
}

/// Writes an invoice. Unless it is a draft, the account's credit pays what it can of it, and its payment is started.
pub(super) fn issue(
    books: &mut Books<'_>,
    new: NewInvoice,
    cx: &mut Context,
) -> Result<(), Unbillable> {
    let newest = books.state.invoice_number(cx.tenant).max(cx.seq.partition().start().0);
    let mut invoice = Invoice {
        tenant: cx.tenant,
        id: new.id,
        account_id: books.account.id,
        number: newest + 1,
        status: new.status,
        currency: books.currency,
        invoice_date: new.date,
        target_date: Some(new.target),
        charged: sum(&new.items)?,
        credit: AmountMinor::ZERO,
        payments: [].into(),
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    };
    if invoice.status == InvoiceStatus::Committed {
        ledger::post(&new.items, cx);
    }
    for item in new.items {
        books.put_item(item, cx);
    }
    match invoice.status {
        InvoiceStatus::Draft | InvoiceStatus::Void => draft_credit(books, &mut invoice, cx)?,
        InvoiceStatus::Committed => on_commit(books, &mut invoice, cx)?,
    }
    cx.change(BillingChange::Invoice(Box::new(invoice)));
    use_credit(books, cx)
}

/// Puts more items on a draft.
pub(super) fn extend(
    books: &mut Books<'_>,
    draft: &Invoice,
    items: Vec<InvoiceItem>,
    cx: &mut Context,
) -> Result<(), Unbillable> {
    let more = sum(&items)?;
    let charged = draft.charged.0.checked_add(more.0).ok_or(Unbillable::TooLarge)?;
    let mut draft = Invoice { charged: AmountMinor(charged), ..draft.clone() };
    for item in items {
        books.put_item(item, cx);
    }
    draft_credit(books, &mut draft, cx)?;
    put(draft, cx);
    Ok(())
}

/// Commits a draft with its items: its credit counts, and its payment is started.
pub(super) fn commit(
    books: &mut Books<'_>,
    (draft, items): (&Invoice, &[InvoiceItem]),
    cx: &mut Context,
) -> Result<(), Unbillable> {
    ledger::post(items, cx);
    let mut invoice = Invoice { status: InvoiceStatus::Committed, ..draft.clone() };
    books.add_credit(invoice.credit)?;
    on_commit(books, &mut invoice, cx)?;
    put(invoice, cx);
    use_credit(books, cx)
}

/// Settles a newly committed invoice with the account's credit, announces it and starts its payment.
fn on_commit(
    books: &mut Books<'_>,
    invoice: &mut Invoice,
    cx: &mut Context,
) -> Result<(), Unbillable> {
    settle_credit(books, invoice, cx)?;
    cx.event(Event::InvoiceCreated {
        account: invoice.account_id,
        invoice: invoice.id,
        number: invoice.number,
        charged: invoice.charged,
        balance: invoice.balance(),
        currency: invoice.currency,
    });
    if !books.is_dry {
        pay(books.state, &books.account, invoice, cx);
    }
    Ok(())
}

/// The credit that a draft below zero makes. It counts once the draft is committed.
fn draft_credit(
    books: &mut Books<'_>,
    draft: &mut Invoice,
    cx: &mut Context,
) -> Result<(), Unbillable> {
    let balance = draft.charged.0.checked_add(draft.credit.0).ok_or(Unbillable::TooLarge)?;
    let credit = settle(AmountMinor(balance), AmountMinor::ZERO);
    if !credit.is_zero() {
        draft.credit = AmountMinor(draft.credit.0 + credit.0);
        books.put_credit(draft.id, credit, cx);
    }
    Ok(())
}

/// Lets the account's credit pay what it can of an invoice, or gives the account what the invoice is below zero. What a
/// payment may still take is not paid from credit as well.
pub(super) fn settle_credit(
    books: &mut Books<'_>,
    invoice: &mut Invoice,
    cx: &mut Context,
) -> Result<(), Unbillable> {
    let balance = invoice.balance();
    let open = if balance > AmountMinor::ZERO { invoice.payable() } else { balance };
    let credit = settle(open, books.billing.credit);
    if credit.is_zero() {
        return Ok(());
    }
    books.add_credit(credit)?;
    let all = invoice.credit.0.checked_add(credit.0).ok_or(Unbillable::TooLarge)?;
    invoice.credit = AmountMinor(all);
    books.put_credit(invoice.id, credit, cx);
    Ok(())
}

/// Lets the account's credit pay its unpaid invoices, the oldest first. One with a payment on its way waits for that.
pub(super) fn use_credit(books: &mut Books<'_>, cx: &mut Context) -> Result<(), Unbillable> {
    if books.billing.credit.0 <= 0 {
        return Ok(());
    }
    let mut unpaid = books.open_invoices(cx);
    unpaid.retain(|it| it.balance() > AmountMinor::ZERO && it.payable() == it.balance());
    unpaid.sort_by_key(|it| (it.invoice_date, it.number));
    for mut invoice in unpaid {
        let before = invoice.credit;
        settle_credit(books, &mut invoice, cx)?;
        if invoice.credit == before {
            break;
        }
        adjusted(&invoice, cx);
        put(invoice, cx);
    }
    Ok(())
}

/// Says that an invoice was changed.
pub(super) fn adjusted(invoice: &Invoice, cx: &mut Context) {
    cx.event(Event::InvoiceAdjusted {
        account: invoice.account_id,
        invoice: invoice.id,
        charged: invoice.charged,
        balance: invoice.balance(),
        currency: invoice.currency,
    });
}

/// Writes an invoice that was there.
pub(super) fn put(invoice: Invoice, cx: &mut Context) {
    let revision = invoice.revision.next(cx.seq);
    cx.change(BillingChange::Invoice(Box::new(Invoice { revision, ..invoice })));
}

fn sum(items: &[InvoiceItem]) -> Result<AmountMinor, Unbillable> {
    let sum = items.iter().try_fold(0_i64, |sum, it| sum.checked_add(it.amount.0));
    sum.map(AmountMinor).ok_or(Unbillable::TooLarge)
}

impl Books<'_> {
    /// Whether new invoices of runs are drafts.
    pub(super) fn run_status(&self) -> InvoiceStatus {
        match self.has(ControlTag::AutoInvoicingDraft) {
            true => InvoiceStatus::Draft,
            false => InvoiceStatus::Committed,
        }
    }

    /// The draft that runs add to; `None`: each makes one of its own.
    pub(super) fn reused_draft(&self, cx: &Context) -> Option<Invoice> {
        let reuses = self.has(ControlTag::AutoInvoicingDraft)
            && self.has(ControlTag::AutoInvoicingReuseDraft);
        let drafts = self.open_invoices(cx).into_iter().filter(|_| reuses);
        drafts.filter(|it| it.status == InvoiceStatus::Draft).max_by_key(|it| it.number)
    }

    /// The account's open invoices, as the command leaves them.
    pub(super) fn open_invoices(&self, cx: &Context) -> Vec<Invoice> {
        let (tenant, account) = self.account.key();
        let known = self.state.billing.open_invoices.get(&(tenant, account));
        let known = known.into_iter().flatten().copied();
        let mut ids: Vec<InvoiceId> = known.collect();
        let written = cx.written::<Invoice>().filter(|it| it.account_id == account);
        ids.extend(written.map(|it| it.id));
        ids.sort_unstable();
        ids.dedup();
        let invoices = ids.into_iter().filter_map(|id| self.invoice(id, cx).cloned());
        invoices.filter(Invoice::is_open).collect()
    }

    /// An invoice of the account, as the command leaves it.
    pub(super) fn invoice<'a>(&'a self, id: InvoiceId, cx: &'a Context) -> Option<&'a Invoice> {
        let key = (self.account.tenant, id);
        let found = cx.newest::<Invoice>(&key).or_else(|| self.state.billing.invoices.find(&key));
        found.filter(|it| it.account_id == self.account.id)
    }

    /// Changes the account's credit.
    pub(super) fn add_credit(&mut self, change: AmountMinor) -> Result<(), Unbillable> {
        let all = self.billing.credit.0.checked_add(change.0).ok_or(Unbillable::TooLarge)?;
        self.billing.credit = AmountMinor(all);
        Ok(())
    }

    /// Writes an item of an invoice. A later run of the command sees it.
    pub(super) fn put_item(&mut self, item: InvoiceItem, cx: &mut Context) {
        self.made.retain(|it| it.id != item.id);
        cx.change(BillingChange::Item(Box::new(item.clone())));
        self.made.push(item);
    }

    /// Writes the change of the account's credit by an invoice, on the day of UTC.
    fn put_credit(&mut self, invoice: InvoiceId, amount: AmountMinor, cx: &mut Context) {
        let today = jiff::Timestamp::from_microsecond(cx.now.0).unwrap_or_default();
        let today = today.to_zoned(jiff::tz::TimeZone::UTC).date();
        let item = self.item((invoice, ItemKind::CbaAdj), amount, (today, Some(today)), cx);
        self.put_item(item, cx);
    }

    /// An item of an invoice, of nothing yet.
    pub(super) fn item(
        &self,
        (invoice_id, kind): (InvoiceId, ItemKind),
        amount: AmountMinor,
        (start, end): (Date, Option<Date>),
        cx: &mut Context,
    ) -> InvoiceItem {
        InvoiceItem {
            tenant: cx.tenant,
            id: cx.mint(),
            invoice_id,
            account_id: self.account.id,
            kind,
            amount,
            currency: self.currency,
            start,
            end,
            last_day: end.unwrap_or(start),
            of: None,
            manual: None,
            description: None,
            details: None,
            linked: None,
            adjusted: AmountMinor::ZERO,
            repaired: AmountMinor::ZERO,
            voided: false,
            created_at: cx.now,
            revision: Revision::first(cx.seq),
        }
    }
}
