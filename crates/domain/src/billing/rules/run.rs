//! A run: what is to happen by an instant takes effect, and what is due on its day is invoiced and paid.

use jiff::civil::Date;

use super::books::Books;
use super::issue::{self, NewInvoice};
use crate::account::rules::blocking_state::announce;
use crate::account::tag::ControlTag;
use crate::billing::account::Parked;
use crate::billing::account_basis::base_of;
use crate::billing::invoice::{InvoiceItem, InvoiceStatus, ItemKind, OfSubscription};
use crate::billing::propose::{Proposal, propose};
use crate::billing::reconcile::{Billed, Due, reconcile};
use crate::billing::subscription::Subscription;
use crate::billing::timeline::To;
use crate::billing::{BillingEvent, Run, Terms, Unbillable};
use crate::context::Context;
use crate::event::SubscriptionStep;
use crate::{AmountMinor, Event, InvoiceId, Timestamp};

/// Does what is due at an instant, which is not later than now.
pub(super) fn at(books: &mut Books<'_>, instant: Timestamp, cx: &mut Context) {
    take_effect(books, instant, cx);
    block(books, instant, cx);
    end_entitlements(books, instant, cx);
    if books.billing.parked.is_some() {
        return;
    }
    if books.has(ControlTag::AutoInvoicingOff) {
        // Taking the tag away makes a run due.
        books.subscriptions.iter_mut().for_each(|it| it.next_due = None);
        return;
    }
    let target = books.calendar.date(instant);
    until(books, target, cx);
}

/// Invoices what is due until a day, and has it paid; `None`: nothing is, or it cannot be.
pub(super) fn until(books: &mut Books<'_>, target: Date, cx: &mut Context) -> Option<InvoiceId> {
    match invoice(books, target, cx) {
        Ok(invoice) => invoice,
        Err(reason) => {
            books.billing.parked = Some(Parked { since: cx.now, reason });
            cx.event(Event::AccountParked { account: books.account.id, reason });
            None
        }
    }
}

/// Lets the transitions until an instant take effect. A phase that begins knows the next one.
fn take_effect(books: &mut Books<'_>, until: Timestamp, cx: &mut Context) {
    for at in 0..books.subscriptions.len() {
        while let Some(next) = books.subscriptions[at].pending().filter(|it| it.at <= until) {
            let (effective_at, step) = (next.at, SubscriptionStep::of(&next.to));
            let begins_phase = matches!(next.to, To::Plan { .. });
            let subscription = &mut books.subscriptions[at];
            subscription.in_effect += 1;
            cx.event(Event::SubscriptionChanged {
                account: books.account.id,
                subscription: subscription.id,
                step,
                effective_at,
                is_in_effect: true,
            });
            if begins_phase {
                books.follow_phase(at);
            }
        }
    }
}

/// Lets the blocking states until an instant take effect.
fn block(books: &mut Books<'_>, until: Timestamp, cx: &mut Context) {
    let mut coming: Vec<_> = books.states.iter().filter(|it| books.is_to_come(it)).collect();
    coming.retain(|it| it.effective_at <= until);
    coming.sort_by_key(|it| it.order());
    for it in &coming {
        announce(books.states.iter(), it, cx);
    }
    if let Some(last) = coming.last() {
        books.billing.blocked_until = Some(last.effective_at);
    }
}

/// Lets the ends of entitlements until an instant take effect.
pub(super) fn end_entitlements(books: &mut Books<'_>, until: Timestamp, cx: &mut Context) {
    for it in &mut books.subscriptions {
        let Some(effective_at) = it.entitlement_ends().filter(|at| *at <= until) else { continue };
        it.entitlement_ended = true;
        cx.event(Event::SubscriptionChanged {
            account: books.account.id,
            subscription: it.id,
            step: SubscriptionStep::EntitlementEnded,
            effective_at,
            is_in_effect: true,
        });
    }
    close_ended(books);
}

/// Puts aside the subscriptions of which nothing is to happen any more. As long as an account is not invoiced, what they
/// owe is to come.
fn close_ended(books: &mut Books<'_>) {
    let is_invoiced = !books.has(ControlTag::AutoInvoicingOff) && books.billing.parked.is_none();
    for it in &mut books.subscriptions {
        let has_ended = it.has_ended() && it.entitlement_ends().is_none();
        it.is_over = is_invoiced && has_ended && it.next_due.is_none();
    }
}

/// Invoices what is due on a day, and has it paid.
///
/// # Errors
/// Why the account cannot be billed.
pub(super) fn invoice(
    books: &mut Books<'_>,
    target: Date,
    cx: &mut Context,
) -> Result<Option<InvoiceId>, Unbillable> {
    let target = books.billing.invoiced_until.map_or(target, |it| it.max(target));
    let events = events(books)?;
    let billed: Vec<Billed> =
        books.subscriptions.iter().map(|it| Billed::of(&books.items(it))).collect();
    let settings = books.settings(cx);
    let mut dues: Vec<(Due<'_>, Option<Date>)> = vec![];
    for ((it, events), billed) in books.subscriptions.iter().zip(&events).zip(&billed) {
        let run = Run {
            target,
            horizon: it.settled,
            today: books.calendar.date(cx.now),
            currency: books.currency,
            settings,
        };
        let proposal: Proposal<'_> = propose(events, &run)?;
        let next = proposal.next.into_iter().chain(next_version(books, it, target)).min();
        dues.push((reconcile(billed, proposal, &run)?, next));
    }
    let is_due = dues.iter().any(|(due, _)| !due.is_empty());
    let invoice = is_due.then(|| write(books, &dues, target, cx)).transpose()?;
    for (it, (due, next)) in books.subscriptions.iter_mut().zip(dues) {
        it.settled = due.settled;
        it.next_due = next;
    }
    close_ended(books);
    Ok(invoice)
}

/// The day after `after` from which on a newer version of the catalog is for the plan that a subscription has.
fn next_version(books: &Books<'_>, of: &Subscription, after: Date) -> Option<Date> {
    let current = of.current().filter(|_| !of.has_ended())?;
    let until = of.pending().map(|it| it.at);
    let later = current.later_versions(&books.versions);
    let later = later.map(|it| it.from).filter(|from| until.is_none_or(|until| *from < until));
    later.map(|from| books.calendar.date(from)).filter(|date| *date > after).min()
}

/// The events of each subscription. The first price that recurs gives the account its bill cycle day, where the
/// catalog's rules ask for the account's.
fn events(books: &mut Books<'_>) -> Result<Vec<Vec<BillingEvent>>, Unbillable> {
    let mut all = vec![];
    for at in 0..books.subscriptions.len() {
        let it = &books.subscriptions[at];
        let base = base_of(it, &books.subscriptions);
        let blocked = books.blocked(it);
        let events = books.basis().events((it, &blocked), base)?;
        let recurs = |it: &Terms| it.is_aligned_to_account && it.recurring.is_some();
        let first = events.iter().find(|it| it.terms.as_ref().is_some_and(recurs));
        if let (0, Some(first)) = (books.account.bill_cycle_day_local, first) {
            // A day of its own from its start on counts as well.
            let of_day = events.iter().filter(|it| it.date == first.date);
            let terms = of_day.filter_map(|it| it.terms.as_ref()).next_back();
            let day = terms.map_or(0, |it| it.bill_cycle_day);
            books.account.bill_cycle_day_local = day;
        }
        all.push(events);
    }
    Ok(all)
}

/// Writes an invoice with what is due, and starts its payment.
fn write(
    books: &mut Books<'_>,
    dues: &[(Due<'_>, Option<Date>)],
    target: Date,
    cx: &mut Context,
) -> Result<InvoiceId, Unbillable> {
    let (status, draft) = (books.run_status(), books.reused_draft(cx));
    let id = draft.as_ref().map_or_else(|| cx.mint(), |it| it.id);
    let mut made: Vec<InvoiceItem> = vec![];
    for (at, (due, _)) in dues.iter().enumerate() {
        let items = items(books, (at, id), due, cx);
        made.extend(items);
    }
    // A draft charges nothing yet.
    if status == InvoiceStatus::Committed {
        books.charge_through(&made);
    }
    mark_repaired(books, &made, cx);
    books.billing.invoiced_until = Some(target);
    match draft {
        Some(draft) => issue::extend(books, &draft, made, cx)?,
        None => {
            let date = books.calendar.date(cx.now);
            issue::issue(books, NewInvoice { id, items: made, date, target, status }, cx)?;
        }
    }
    Ok(id)
}

/// The items of a subscription on an invoice.
fn items(
    books: &Books<'_>,
    (at, invoice): (usize, InvoiceId),
    due: &Due<'_>,
    cx: &mut Context,
) -> Vec<InvoiceItem> {
    let subscription = &books.subscriptions[at];
    let known = books.items(subscription);
    let known: Vec<_> = known.into_iter().filter(|it| it.kind == ItemKind::Recurring).collect();
    let of = |terms: &Terms| OfSubscription {
        subscription: subscription.id,
        bundle: subscription.bundle_id,
        product: terms.product.clone(),
        plan: terms.plan.clone(),
        phase: terms.phase.clone(),
        rate: None,
        catalog_effective_at: terms.catalog_effective_at,
    };
    let mut item = |kind, amount, start, end| books.item((invoice, kind), amount, (start, end), cx);
    let mut items = vec![];
    for it in &due.fixed {
        let made = item(ItemKind::Fixed, it.amount, it.start, it.end);
        items.push(InvoiceItem { of: Some(of(it.terms)), last_day: it.start, ..made });
    }
    for it in &due.recurring {
        let made = item(ItemKind::Recurring, it.amount, it.start, Some(it.end));
        let of = OfSubscription { rate: Some(it.rate), ..of(it.terms) };
        items.push(InvoiceItem { of: Some(of), ..made });
    }
    for it in &due.repairs {
        let repaired = known[it.of];
        let made = item(ItemKind::RepairAdj, AmountMinor(-it.amount.0), it.start, Some(it.end));
        let (of, linked, last_day) = (repaired.of.clone(), Some(repaired.id), repaired.last_day);
        items.push(InvoiceItem { of, linked, last_day, ..made });
    }
    items
}

/// Notes on the items that new ones repair how much of them that is.
fn mark_repaired(books: &mut Books<'_>, made: &[InvoiceItem], cx: &mut Context) {
    for repair in made.iter().filter(|it| it.kind == ItemKind::RepairAdj) {
        let (Some(id), Some(of)) = (repair.linked, &repair.of) else { continue };
        let key = (cx.tenant, id);
        let owner = (cx.tenant, of.subscription);
        let known = books.state.billing.items.find(&owner).and_then(|it| it.get(&key));
        if let Some(known) = cx.newest::<InvoiceItem>(&key).or(known).cloned() {
            let repaired = AmountMinor(known.repaired.0 - repair.amount.0);
            let revision = known.revision.next(cx.seq);
            books.put_item(InvoiceItem { repaired, revision, ..known }, cx);
        }
    }
}
