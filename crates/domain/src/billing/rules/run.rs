//! A run: what is to happen by an instant takes effect, and what is due on its day is invoiced and paid.

use jiff::civil::Date;

use super::books::Books;
use super::follow::paid_by;
use crate::account::tag::ControlTag;
use crate::billing::account::Parked;
use crate::billing::invoice::{
    Invoice, InvoiceItem, InvoicePayment, InvoiceStatus, ItemKind, OfSubscription,
};
use crate::billing::propose::{Proposal, propose};
use crate::billing::reconcile::{Billed, BilledFixed, BilledPeriod, Due, Repaired, reconcile};
use crate::billing::settle::settle;
use crate::billing::subscription::Subscription;
use crate::billing::timeline::{
    Basis, BillCycleDays, NoTimeline, PlanChange, To, Transition, own_day, timeline,
};
use crate::billing::{BillingEvent, BillingSettings, Run, Terms, Unbillable};
use crate::catalog::ProductCategory;
use crate::change::BillingChange;
use crate::context::Context;
use crate::event::SubscriptionStep;
use crate::payment::rules::pay_invoice;
use crate::rows::Keyed;
use crate::{AmountMinor, Event, InvoiceId, InvoiceItemId, Revision, Timestamp};

/// Does what is due at an instant, which is not later than now.
pub(super) fn at(books: &mut Books<'_>, instant: Timestamp, cx: &mut Context) {
    take_effect(books, instant, cx);
    if books.billing.parked.is_some() {
        return;
    }
    if books.has(ControlTag::AutoInvoicingOff) {
        // Whoever takes the tag away asks for a run.
        books.subscriptions.iter_mut().for_each(|it| it.next_due = None);
        return;
    }
    let target = books.calendar.date(instant);
    if let Err(reason) = invoice(books, target, cx) {
        books.billing.parked = Some(Parked { since: cx.now, reason });
        cx.event(Event::AccountParked { account: books.account.id, reason });
    }
}

/// Lets the transitions until an instant take effect. A phase that begins knows the next one.
fn take_effect(books: &mut Books<'_>, until: Timestamp, cx: &mut Context) {
    for at in 0..books.subscriptions.len() {
        while let Some(next) = books.subscriptions[at].pending().filter(|it| it.at <= until) {
            let (effective_at, step) = (next.at, SubscriptionStep::of(&next.to));
            let begins_phase = matches!(next.to, To::Plan { by: PlanChange::Phase, .. });
            let subscription = &mut books.subscriptions[at];
            subscription.in_effect += 1;
            let id = subscription.id;
            if begins_phase && subscription.pending().is_none() {
                let next = following(books, at, effective_at);
                books.subscriptions[at].transitions.extend(next);
            }
            cx.event(Event::SubscriptionChanged {
                account: books.account.id,
                subscription: id,
                step,
                effective_at,
                is_in_effect: true,
            });
        }
    }
}

/// The transition to the phase after the one that a subscription is in, or to its end.
fn following(books: &Books<'_>, of: usize, began_at: Timestamp) -> Option<Transition> {
    let current = books.subscriptions[of].current()?;
    let plan = books.versions.plan(current.plan, current.chosen_at, began_at)?.plan;
    let position = plan.phases.iter().position(|it| it.phase == current.phase)?;
    let at = plan.phases[position].duration?.after(began_at)?;
    let to = plan.phases.get(position + 1).map_or(To::Expired, |next| To::Plan {
        by: PlanChange::Phase,
        plan: current.plan.to_owned(),
        price_list: current.price_list.to_owned(),
        phase: next.phase,
    });
    Some(Transition { at, to })
}

/// Invoices what is due on a day, and has it paid.
fn invoice(books: &mut Books<'_>, target: Date, cx: &mut Context) -> Result<(), Unbillable> {
    let events = events(books, target)?;
    let billed: Vec<Billed> =
        books.subscriptions.iter().map(|it| billed(&books.items(it))).collect();
    let mut dues: Vec<(Due<'_>, Option<Date>)> = vec![];
    for ((it, events), billed) in books.subscriptions.iter().zip(&events).zip(&billed) {
        let run = Run {
            target,
            horizon: it.settled,
            currency: books.currency,
            settings: BillingSettings::default(),
        };
        let proposal: Proposal<'_> = propose(events, &run)?;
        let next = proposal.next;
        dues.push((reconcile(billed, proposal, &run)?, next));
    }
    if dues.iter().any(|(due, _)| !due.is_empty()) {
        write(books, &dues, target, cx)?;
    }
    for (it, (due, next)) in books.subscriptions.iter_mut().zip(dues) {
        it.settled = due.settled;
        it.next_due = next;
        it.is_over = it.ends_at().is_some() && it.pending().is_none() && next.is_none();
    }
    Ok(())
}

/// The events of each subscription. The first price that recurs gives the account its bill cycle day, where the
/// catalog's rules ask for the account's.
fn events(books: &mut Books<'_>, target: Date) -> Result<Vec<Vec<BillingEvent>>, Unbillable> {
    let mut all = vec![];
    for at in 0..books.subscriptions.len() {
        let it = &books.subscriptions[at];
        let is_base = |base: &&Subscription| {
            base.bundle_id == it.bundle_id && base.category == ProductCategory::Base
        };
        let base = books.subscriptions.iter().find(is_base).filter(|base| base.id != it.id);
        let bundle = base.map(|base| own_day(&basis(books, base, None))).transpose();
        let events = timeline(&basis(books, it, bundle.map_err(unbillable)?));
        let events = events.map_err(unbillable)?;
        let recurs = |it: &&Terms| it.is_aligned_to_account && it.recurring.is_some();
        let until_target = events.iter().filter(|it| it.date <= target);
        let first = until_target.filter_map(|it| it.terms.as_ref()).find(recurs);
        if let (0, Some(terms)) = (books.account.bill_cycle_day_local, first) {
            books.account.bill_cycle_day_local = terms.bill_cycle_day;
        }
        all.push(events);
    }
    Ok(all)
}

fn basis<'a>(books: &'a Books<'_>, it: &'a Subscription, bundle: Option<u8>) -> Basis<'a> {
    let day = books.account.bill_cycle_day_local;
    Basis {
        transitions: &it.transitions,
        blocked: &[],
        versions: &books.versions,
        calendar: books.calendar,
        currency: books.currency,
        days: BillCycleDays { account: (day > 0).then_some(day), bundle },
    }
}

const fn unbillable(why: NoTimeline) -> Unbillable {
    match why {
        NoTimeline::NoPlan => Unbillable::NoPlan,
        NoTimeline::NoPrice(_) => Unbillable::NoPrice,
    }
}

/// A subscription's items, as a run compares them.
fn billed(items: &[&InvoiceItem]) -> Billed {
    let mut billed = Billed::default();
    for item in items {
        let Some(of) = &item.of else { continue };
        match item.kind {
            ItemKind::Fixed => {
                billed.fixed.push(BilledFixed { start: item.start, amount: item.amount });
            }
            ItemKind::Recurring => billed.periods.push(BilledPeriod {
                plan: of.plan.clone(),
                phase: of.phase.clone(),
                start: item.start,
                end: item.end.unwrap_or(item.start),
                amount: item.amount,
                rate: of.rate.unwrap_or_default(),
                adjusted: AmountMinor::ZERO,
                repairs: repairs(items, item.id),
            }),
            ItemKind::RepairAdj | ItemKind::CbaAdj => {}
        }
    }
    billed
}

fn repairs(items: &[&InvoiceItem], of: InvoiceItemId) -> Vec<Repaired> {
    let repairs = items.iter().filter(|it| it.linked == Some(of));
    let repair = |it: &&InvoiceItem| Repaired {
        start: it.start,
        end: it.end.unwrap_or(it.start),
        amount: AmountMinor(-it.amount.0),
    };
    repairs.map(repair).collect()
}

/// Writes an invoice with what is due, and starts its payment.
fn write(
    books: &mut Books<'_>,
    dues: &[(Due<'_>, Option<Date>)],
    target: Date,
    cx: &mut Context,
) -> Result<(), Unbillable> {
    let id: InvoiceId = cx.mint();
    let mut made: Vec<InvoiceItem> = vec![];
    for (at, (due, _)) in dues.iter().enumerate() {
        let items = items(books, (at, id), due, cx);
        let charged = items.iter().filter(|it| it.kind != ItemKind::RepairAdj);
        let through = charged.map(|it| it.last_day).max();
        let subscription = &mut books.subscriptions[at];
        subscription.charged_through = through.or(subscription.charged_through);
        made.extend(items);
    }
    let sum = |amounts: &[InvoiceItem]| {
        amounts.iter().try_fold(0_i64, |sum, it| sum.checked_add(it.amount.0))
    };
    let charged = AmountMinor(sum(&made).ok_or(Unbillable::TooLarge)?);
    let credit = settle(charged, books.billing.credit);
    let all = books.billing.credit.0.checked_add(credit.0).ok_or(Unbillable::TooLarge)?;
    books.billing.credit = AmountMinor(all);
    if !credit.is_zero() {
        made.push(credit_item(books, id, credit, cx));
    }
    let newest = books.state.invoice_number(cx.tenant).max(cx.seq.partition().start().0);
    let mut invoice = Invoice {
        tenant: cx.tenant,
        id,
        account_id: books.account.id,
        number: newest + 1,
        status: InvoiceStatus::Committed,
        currency: books.currency,
        invoice_date: books.calendar.date(cx.now),
        target_date: Some(target),
        charged,
        credit,
        payments: [].into(),
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    };
    for item in &made {
        cx.change(BillingChange::Item(Box::new(item.clone())));
    }
    books.made.extend(made);
    cx.event(Event::InvoiceCreated {
        account: books.account.id,
        invoice: id,
        number: invoice.number,
        charged,
        balance: invoice.balance(),
        currency: invoice.currency,
    });
    pay(books, &mut invoice, cx);
    cx.change(BillingChange::Invoice(Box::new(invoice)));
    Ok(())
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
    let of = |terms: &Terms| {
        let plan = books.versions.plan_of(&terms.plan, terms.catalog_effective_at);
        OfSubscription {
            subscription: subscription.id,
            bundle: subscription.bundle_id,
            product: plan.map(|it| it.product.clone()).unwrap_or_default(),
            plan: terms.plan.clone(),
            phase: terms.phase.clone(),
            rate: None,
            catalog_effective_at: terms.catalog_effective_at,
        }
    };
    let mut item = |kind, amount, start, end| InvoiceItem {
        tenant: cx.tenant,
        id: cx.mint(),
        invoice_id: invoice,
        account_id: books.account.id,
        kind,
        amount,
        currency: books.currency,
        start,
        end,
        last_day: end.unwrap_or(start),
        of: None,
        linked: None,
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    };
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

/// The change of the account's credit by an invoice, on the day of UTC.
fn credit_item(
    books: &Books<'_>,
    invoice: InvoiceId,
    amount: AmountMinor,
    cx: &mut Context,
) -> InvoiceItem {
    let today = jiff::Timestamp::from_microsecond(cx.now.0).unwrap_or_default();
    let today = today.to_zoned(jiff::tz::TimeZone::UTC).date();
    InvoiceItem {
        tenant: cx.tenant,
        id: cx.mint(),
        invoice_id: invoice,
        account_id: books.account.id,
        kind: ItemKind::CbaAdj,
        amount,
        currency: books.currency,
        start: today,
        end: Some(today),
        last_day: today,
        of: None,
        linked: None,
        created_at: cx.now,
        revision: Revision::first(cx.seq),
    }
}

/// Starts the payment of an invoice with the account's default method. Where there is none, or it is refused, the
/// invoice stays unpaid.
fn pay(books: &Books<'_>, invoice: &mut Invoice, cx: &mut Context) {
    let amount = invoice.payable();
    let is_off = books.has(ControlTag::AutoPayOff) || books.has(ControlTag::ManualPay);
    if amount.is_zero() || is_off {
        return;
    }
    let asked = (invoice.key().1, amount, books.currency);
    let payment = pay_invoice(books.state, &books.account, asked, cx);
    if let Some(payment) = &payment {
        let started = InvoicePayment { paid: AmountMinor::ZERO, in_flight: amount };
        invoice.payments.insert(payment.id, paid_by(payment, started));
    }
    super::follow::note(invoice, payment.as_ref(), cx);
}
