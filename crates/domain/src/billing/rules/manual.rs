//! Changes of invoices by clients: items, adjustments, commits of drafts, voids.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::books::Books;
use super::issue::{self, NewInvoice, adjusted, put, settle_credit, use_credit};
use super::ledger;
use crate::billing::Unbillable;
use crate::billing::invoice::{Invoice, InvoiceItem, InvoiceStatus, ItemKind};
use crate::billing::reconcile::Billed;
use crate::billing::subscription::{
    AddItems, AdjustItem, DeleteCredit, ITEMS_MAX, InvoiceOf, ManualKind, NewItem, When,
};
use crate::context::Context;
use crate::reply::{BillingReply, Outcome};
use crate::rows::{Keyed, Part};
use crate::state::State;
use crate::{
    Accepted, AccountId, AmountMinor, BillingRejection as R, Currency, InvoiceId, InvoiceItemId,
    Rejection, Reply,
};

pub(crate) fn add_items(state: &State, it: &AddItems, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    if it.items.is_empty() || it.items.len() > ITEMS_MAX {
        return Err(Rejection::invalid("items", "should be from 1 to 1000"));
    }
    let read = it.items.iter().map(|item| amount_of(&books, it.kind, item, cx));
    let amounts = read.collect::<Result<Vec<AmountMinor>, Rejection>>()?;
    let day = requested_day(&books, it.day, cx)?;
    let id: InvoiceId = cx.mint();
    let (mut added, mut of_drafts) = (vec![], BTreeMap::<InvoiceId, Vec<InvoiceItem>>::new());
    for (new, amount) in it.items.iter().zip(amounts) {
        let invoice = new.invoice.unwrap_or(id);
        let (kind, amount) = match it.kind {
            ManualKind::Charge => (ItemKind::ExternalCharge, amount),
            ManualKind::Tax => (ItemKind::Tax, amount),
            ManualKind::Credit => (ItemKind::CreditAdj, AmountMinor(-amount.0)),
        };
        let start = new.start.unwrap_or(day);
        let end =
            if it.kind == ManualKind::Credit { Some(new.end.unwrap_or(start)) } else { new.end };
        let item = InvoiceItem {
            manual: Some(Box::new(new.manual.clone())),
            description: new.description.clone(),
            details: new.details.clone(),
            ..books.item((invoice, kind), amount, (start, end), cx)
        };
        added.push((invoice, item.id));
        of_drafts.entry(invoice).or_default().push(item);
    }
    for (invoice, items) in of_drafts {
        let done = match books.invoice(invoice, cx).cloned() {
            Some(draft) => issue::extend(&mut books, &draft, items, cx),
            None => {
                let status =
                    if it.commits { InvoiceStatus::Committed } else { InvoiceStatus::Draft };
                let new = NewInvoice { id, items, date: day, target: day, status };
                issue::issue(&mut books, new, cx)
            }
        };
        done.map_err(too_large)?;
    }
    books.close(cx);
    Ok(Accepted::now(Reply::Billing(BillingReply::Added(added))))
}

/// The amount of a new item, which can be put where it is to be.
fn amount_of(
    books: &Books<'_>,
    kind: ManualKind,
    item: &NewItem,
    cx: &Context,
) -> Result<AmountMinor, Rejection> {
    refuse_currency(books, item.currency)?;
    let amount = amount(books, item.amount.as_deref().unwrap_or("0"))?;
    if amount.0 <= 0 {
        return Err(match kind {
            ManualKind::Credit => R::CreditNotPositive.into(),
            ManualKind::Charge | ManualKind::Tax => R::ChargeNotPositive.into(),
        });
    }
    if item.end.is_some_and(|end| item.start.is_some_and(|start| end < start)) {
        return Err(Rejection::invalid("endDate", "should not be before startDate"));
    }
    let Some(id) = item.invoice else { return Ok(amount) };
    match books.invoice(id, cx).map(|it| it.status) {
        None => Err(R::NoSuchInvoice { invoice: id }.into()),
        Some(InvoiceStatus::Draft) => Ok(amount),
        Some(InvoiceStatus::Committed) => Err(R::InvoiceCommitted { invoice: id }.into()),
        Some(InvoiceStatus::Void) => Err(R::InvoiceVoid { invoice: id }.into()),
    }
}

/// The account's day that a client named, or today.
fn requested_day(books: &Books<'_>, day: Option<When>, cx: &Context) -> Result<Date, Rejection> {
    let at = day.map(|when| books.instant(when, "requestedDate")).transpose()?;
    Ok(books.calendar.date(at.unwrap_or(cx.now)))
}

fn amount(books: &Books<'_>, text: &str) -> Result<AmountMinor, Rejection> {
    AmountMinor::parse(text, books.currency).map_err(|error| Rejection::InvalidParameter {
        field: "amount".to_owned(),
        reason: format!("{text}: {error}"),
    })
}

fn refuse_currency(books: &Books<'_>, currency: Option<Currency>) -> Result<(), Rejection> {
    match currency.is_none_or(|it| it == books.currency) {
        true => Ok(()),
        false => Err(R::OtherCurrency { currency: books.currency }.into()),
    }
}

pub(crate) fn adjust(state: &State, it: &AdjustItem, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    refuse_currency(&books, it.currency)?;
    let mut invoice = known_invoice(&books, it.invoice, cx)?;
    if invoice.status == InvoiceStatus::Void {
        return Err(R::InvoiceVoid { invoice: it.invoice }.into());
    }
    let item = known_item(&books, (it.invoice, it.item))?;
    if !item.kind.charges() {
        return Err(R::NotAdjustable { item: it.item }.into());
    }
    let asked = it.amount.as_deref().map(|text| amount(&books, text)).transpose()?;
    if asked.is_some_and(|it| it.0 <= 0) {
        return Err(R::AdjustmentNotPositive.into());
    }
    let amount = asked.unwrap_or_else(|| item.left());
    // What a payment may still take stays charged until its outcome is known.
    let is_open = invoice.payable() != invoice.balance() && invoice.balance() > AmountMinor::ZERO;
    let left = if is_open { item.left().min(invoice.payable()) } else { item.left() };
    if amount > left {
        let left = left.decimal(books.currency);
        return Err(R::AdjustmentTooLarge { left }.into());
    }
    let day = requested_day(&books, it.day, cx)?;
    let adjustment = InvoiceItem {
        of: item.of.clone(),
        last_day: item.last_day,
        description: it.description.clone(),
        details: it.details.clone(),
        linked: Some(item.id),
        ..books.item((it.invoice, ItemKind::ItemAdj), AmountMinor(-amount.0), (day, Some(day)), cx)
    };
    if invoice.status == InvoiceStatus::Committed {
        ledger::post_adjustment(&adjustment, &item, cx);
    }
    let total = AmountMinor(item.adjusted.0 + amount.0);
    let revision = item.revision.next(cx.seq);
    books.put_item(InvoiceItem { adjusted: total, revision, ..item }, cx);
    books.put_item(adjustment, cx);
    invoice.charged = AmountMinor(invoice.charged.0 - amount.0);
    if invoice.status == InvoiceStatus::Committed {
        settle_credit(&mut books, &mut invoice, cx).map_err(too_large)?;
    }
    adjusted(&invoice, cx);
    put(invoice, cx);
    use_credit(&mut books, cx).map_err(too_large)?;
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn commit(state: &State, it: &InvoiceOf, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    let draft = known_invoice(&books, it.invoice, cx)?;
    if draft.status != InvoiceStatus::Draft {
        return Err(R::NoDraft { invoice: it.invoice }.into());
    }
    let items = items_of(&books, it.invoice);
    books.charge_through(&items);
    issue::commit(&mut books, (&draft, &items), cx).map_err(too_large)?;
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

pub(crate) fn void(state: &State, it: &InvoiceOf, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    let invoice = known_invoice(&books, it.invoice, cx)?;
    let items = items_of(&books, it.invoice);
    refuse_void(&books, &invoice, &items)?;
    if invoice.status == InvoiceStatus::Committed {
        books.add_credit(AmountMinor(-invoice.credit.0)).map_err(too_large)?;
        ledger::reverse(&items, cx);
    }
    books.forget_first_charge(it.invoice);
    for item in items {
        books.reopen_days_of(&item);
        if let Some(repaired) = item.linked.filter(|_| item.kind == ItemKind::RepairAdj) {
            take_back_repair(&mut books, (it.invoice, repaired), item.amount, cx);
        }
        let revision = item.revision.next(cx.seq);
        books.put_item(InvoiceItem { voided: true, revision, ..item }, cx);
    }
    let invoice = Invoice { status: InvoiceStatus::Void, ..invoice };
    adjusted(&invoice, cx);
    put(invoice, cx);
    use_credit(&mut books, cx).map_err(too_large)?;
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

fn refuse_void(
    books: &Books<'_>,
    invoice: &Invoice,
    items: &[InvoiceItem],
) -> Result<(), Rejection> {
    let id = invoice.id;
    if invoice.status == InvoiceStatus::Void {
        return Err(R::InvoiceVoid { invoice: id }.into());
    }
    if invoice.payments.values().any(|it| it.paid.0 > 0 || it.in_flight.0 > 0) {
        return Err(R::InvoicePaid { invoice: id }.into());
    }
    if items.iter().any(|it| !it.repaired.is_zero()) {
        return Err(R::InvoiceRepaired { invoice: id }.into());
    }
    if items.iter().any(|it| it.kind == ItemKind::RepairAdj && is_charged_again(books, it)) {
        return Err(R::DaysChargedAgain { invoice: id }.into());
    }
    let made = invoice.status == InvoiceStatus::Committed && invoice.credit.0 > 0;
    if made && books.billing.credit < invoice.credit {
        return Err(R::CreditUsed { invoice: id }.into());
    }
    Ok(())
}

/// Whether the days that an item gave back would be charged twice without its invoice.
fn is_charged_again(books: &Books<'_>, repair: &InvoiceItem) -> bool {
    let known = books.state.billing.items.find(&repair.owner());
    let known = known.into_iter().flat_map(BTreeMap::values);
    let others: Vec<&InvoiceItem> =
        known.filter(|it| !it.voided && it.invoice_id != repair.invoice_id).collect();
    Billed::of(&others).charged_twice().is_some()
}

/// Lets an item that a void invoice had repaired be charged again.
fn take_back_repair(
    books: &mut Books<'_>,
    (invoice, item): (InvoiceId, InvoiceItemId),
    amount: AmountMinor,
    cx: &mut Context,
) {
    let key = (cx.tenant, item);
    let of_invoice = books.state.billing.invoice_items.get(&(cx.tenant, books.account.id, invoice));
    let known = cx.newest::<InvoiceItem>(&key);
    let known = known.or_else(|| of_invoice.and_then(|it| it.get(&item)));
    if let Some(known) = known.cloned() {
        let repaired = AmountMinor(known.repaired.0 + amount.0);
        let revision = known.revision.next(cx.seq);
        books.put_item(InvoiceItem { repaired, revision, ..known }, cx);
    }
}

/// Takes back the credit that an item made, with what made it, or that it used.
pub(crate) fn delete_credit(state: &State, it: &DeleteCredit, cx: &mut Context) -> Outcome {
    let mut books = Books::open(state, it.account, cx)?;
    let mut invoice = known_invoice(&books, it.invoice, cx)?;
    let item = known_item(&books, (it.invoice, it.item))?;
    if item.kind != ItemKind::CbaAdj || invoice.status != InvoiceStatus::Committed {
        return Err(R::NoSuchItem { item: it.item }.into());
    }
    if item.amount.0 > 0 {
        let made_by = items_of(&books, it.invoice).into_iter();
        let mut made_by =
            made_by.filter(|by| by.kind == ItemKind::CreditAdj && by.amount.0 == -item.amount.0);
        let made_by = made_by.next().ok_or(R::SystemCredit { item: it.item })?;
        if books.billing.credit < item.amount {
            return Err(R::CreditUsed { invoice: it.invoice }.into());
        }
        invoice.charged = AmountMinor(invoice.charged.0 - made_by.amount.0);
        ledger::reverse(std::slice::from_ref(&made_by), cx);
        clear(&mut books, made_by, "Delete gen credit", cx);
    }
    let change = AmountMinor(-item.amount.0);
    books.add_credit(change).map_err(too_large)?;
    invoice.credit = AmountMinor(invoice.credit.0 + change.0);
    let words = if item.amount.0 > 0 { "Delete gen credit" } else { "Delete used credit" };
    clear(&mut books, item, words, cx);
    put(invoice, cx);
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

/// Leaves nothing of an item, in Kill Bill's words.
fn clear(books: &mut Books<'_>, item: InvoiceItem, words: &str, cx: &mut Context) {
    let (description, revision) = (Some(words.to_owned()), item.revision.next(cx.seq));
    let cleared = InvoiceItem { amount: AmountMinor::ZERO, description, revision, ..item };
    books.put_item(cleared, cx);
}

/// Lets the account's credit pay its unpaid invoices.
pub(crate) fn spend_credit(state: &State, account: AccountId, cx: &mut Context) -> Outcome {
    let known = state.account(cx.tenant, account);
    if known.is_some_and(|it| it.currency.is_none()) {
        // It was never charged.
        return Ok(Accepted::now(Reply::Done));
    }
    let mut books = Books::open(state, account, cx)?;
    use_credit(&mut books, cx).map_err(too_large)?;
    books.close(cx);
    Ok(Accepted::now(Reply::Done))
}

fn too_large(_: Unbillable) -> Rejection {
    R::InvoiceTooLarge.into()
}

fn known_invoice(books: &Books<'_>, id: InvoiceId, cx: &Context) -> Result<Invoice, Rejection> {
    let found = books.invoice(id, cx).cloned();
    found.ok_or_else(|| R::NoSuchInvoice { invoice: id }.into())
}

/// The items of an invoice, without those that they repair.
fn items_of(books: &Books<'_>, invoice: InvoiceId) -> Vec<InvoiceItem> {
    let (tenant, account) = books.account.key();
    let found = books.state.billing.invoice_items.get(&(tenant, account, invoice));
    let items = found.into_iter().flat_map(BTreeMap::values);
    items.filter(|it| it.invoice_id == invoice).cloned().collect()
}

fn known_item(
    books: &Books<'_>,
    (invoice, item): (InvoiceId, InvoiceItemId),
) -> Result<InvoiceItem, Rejection> {
    let mut items = items_of(books, invoice).into_iter();
    items.find(|it| it.id == item).ok_or_else(|| R::NoSuchItem { item }.into())
}
