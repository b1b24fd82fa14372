//! What is stored against the model: each day of each subscription, what is given, and what is due next.

mod money;

use std::collections::{BTreeMap, BTreeSet};

use domain::billing::invoice::{Invoice, InvoiceItem, ItemKind};
use domain::billing::subscription::InvoiceUntil;
use domain::change::Image;
use domain::command::BillingCommand;
use domain::entitlement::feature::FeatureValue;
use domain::timer::TimerKind;
use domain::{AccountId, AmountMinor, InvoiceId, SubscriptionId, Timestamp};
use engine::ports::Entry;

use super::days::{Charge, Span, calendar, number};
use super::{BACKUP, Billing, SEATS, SEATS_EACH, SUPPORT};
use crate::disk::{Bills, Disk};

/// What is charged for a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Charged<'a> {
    plan: &'a str,
    /// In cents.
    rate: i64,
}

impl<D: Disk> Billing<D> {
    /// Checks all that holds at any time once what is due was done.
    pub(super) fn audit(&mut self) -> Result<(), String> {
        self.advance(self.kernel.now)?;
        let bills = self.kernel.disk.bills();
        self.model.settle(self.kernel.now);
        if let Some(it) = bills.accounts.iter().find(|it| it.parked.is_some()) {
            return Err(format!("no account is parked: {it:?}"));
        }
        for subscription in self.model.lines.keys() {
            self.audit_days(*subscription, &bills)?;
            self.audit_grants(*subscription, &bills)?;
        }
        let open: Vec<AccountId> = self.model.accounts.keys().copied().collect();
        open.iter().try_for_each(|it| self.audit_timer(*it, &bills))?;
        money::audit(&bills)
    }

    /// Checks what holds once all payments have ended.
    pub(super) fn audit_end(&mut self) -> Result<(), String> {
        let bills = self.kernel.disk.bills();
        let repairs = bills.items.iter().filter(|it| it.kind == ItemKind::RepairAdj).count();
        self.kernel.tally.add("repairs", repairs);
        money::audit_payments(&bills, &self.gateway.book)?;
        if let Some(it) = bills.timers.iter().find(|it| it.due <= Timestamp(self.kernel.now)) {
            return Err(format!("nothing that is due is left: {it:?}"));
        }
        let (model, now) = (&self.model, self.kernel.now);
        let billed = model.accounts.iter().filter(|(_, it)| !it.is_invoicing_off);
        let billed = billed.filter(|(id, _)| !model.may_be_billed_again(**id, now));
        let billed: Vec<_> = billed.map(|(id, it)| (*id, it.billed.run_for)).collect();
        for (account, run_for) in billed {
            let target = Some(calendar(run_for));
            let invoice = BillingCommand::InvoiceUntil(InvoiceUntil { account, target });
            gives_nothing(account, &self.submit(invoice.into())?.entries)?;
        }
        match self.kernel.disk.problems().as_slice() {
            [] => Ok(()),
            problems => {
                Err(format!("the store's own verification finds nothing: {}", problems.join("; ")))
            }
        }
    }

    /// Each day of a subscription is charged once, at the price of its plan, if it is to be charged, and otherwise not.
    fn audit_days(&self, id: SubscriptionId, bills: &Bills) -> Result<(), String> {
        let line = &self.model.lines[&id];
        let account = &self.model.accounts[&line.account];
        let is_own = |it: &&InvoiceItem| it.of.as_ref().is_some_and(|of| of.subscription == id);
        let items: Vec<&InvoiceItem> = bills.items.iter().filter(is_own).collect();
        items.iter().try_for_each(|it| audit_amount(it, &items))?;
        let charged = charged(&items)?;
        // Nobody says what an account is charged that is invoiced no more for a time.
        if account.is_invoicing_off {
            return Ok(());
        }
        let mut expected: BTreeMap<i64, (Charge, bool)> = BTreeMap::new();
        for span in self.model.course(id).spans(account.zone, self.model.later) {
            let Span { from, charge: Some(charge), .. } = span else { continue };
            let until = span.charged_until(account.cycle_day, account.billed).unwrap_or(from);
            // What was charged before an end was known is given back when it comes, or before.
            let is_due = |day| span.is_due(day, account.cycle_day, account.billed);
            expected.extend((from..until).map(|day| (day, (charge, is_due(day)))));
        }
        let of = |day: i64| {
            let (day, run_for) = (calendar(day), calendar(account.billed.run_for));
            let is_of_day =
                |it: &&&InvoiceItem| it.end.is_some_and(|end| it.start <= day && day < end);
            let those: Vec<String> = items.iter().filter(is_of_day).map(|it| shown(it)).collect();
            let cycle_day = account.cycle_day;
            let billed = format!("billed for {run_for}, day {cycle_day} of months");
            format!("{id} on {day}, {billed}, by {}", those.join(" and "))
        };
        let mut due = expected.iter().filter(|(_, (_, is_due))| *is_due);
        if let Some((day, _)) = due.find(|(day, _)| !charged.contains_key(day)) {
            return Err(format!("no day is left free: {}", of(*day)));
        }
        for (day, is) in &charged {
            let Some((should, _)) = expected.get(day) else {
                return Err(format!("only days of the plan are charged: {}, {is:?}", of(*day)));
            };
            if (is.plan, is.rate) != (should.plan.name, should.rate) {
                let context = format!("{}, {is:?}, not {should:?}", of(*day));
                return Err(format!("a day has the price of its plan: {context}"));
            }
        }
        Ok(())
    }

    /// An active subscription has what its plan gives, what waits for its first invoice once that is paid, and another
    /// one nothing.
    fn audit_grants(&self, id: SubscriptionId, bills: &Bills) -> Result<(), String> {
        let line = &self.model.lines[&id];
        let now = Timestamp(self.kernel.now);
        let own = bills.entitlements.iter().filter(|it| it.account_id == line.account);
        let grants = own.flat_map(|it| &it.grants);
        let grants = grants.filter(|it| it.subscription() == Some(id) && it.holds(now));
        let has: Vec<(&str, FeatureValue)> =
            grants.map(|it| (it.feature.as_str(), it.value.clone())).collect();
        let should = match self.model.active(id, self.kernel.now) {
            Some((plan, quantity)) if plan.product == "Pro" => {
                vec![(SEATS, FeatureValue::Limit(SEATS_EACH * i64::from(quantity)))]
            }
            Some((plan, _)) if plan.name == "extra" => vec![(SUPPORT, FeatureValue::On)],
            Some((plan, _)) if plan.product == "Basic" => match first_charged(id, bills) {
                Some(it) if it.balance() <= AmountMinor::ZERO => vec![(BACKUP, FeatureValue::On)],
                // What was paid once is not taken back as long as some of it is.
                Some(it) if it.paid() > AmountMinor::ZERO => has.clone(),
                Some(_) | None => vec![],
            },
            Some(_) | None => vec![],
        };
        match has == should {
            true => Ok(()),
            false => {
                let context = format!("{id} has {has:?}, not {should:?}");
                Err(format!("grants are those of active subscriptions: {context}"))
            }
        }
    }

    /// An account's timer is set for exactly what is due next.
    fn audit_timer(&self, account: AccountId, bills: &Bills) -> Result<(), String> {
        let is_own =
            |it: &&domain::timer::Timer| it.key.kind == TimerKind::Billing && it.account == account;
        let is = bills.timers.iter().find(is_own).map(|it| it.due.0);
        let (should, version) = self.model.due(account, self.kernel.now);
        // Where it was set before the tag came, it is for a period that will not be invoiced.
        let is_early = self.model.accounts[&account].is_invoicing_off
            && is.is_some_and(|is| should.is_none_or(|should| is < should));
        let is_for_version = is.is_some() && is == version && should.is_none_or(|it| is < Some(it));
        // A period that was to begin on the day of an end or a pause, before it: it was known first, and finds nothing.
        let zone = self.model.accounts[&account].zone;
        let is_for_day = should.is_some_and(|should| {
            let begins = zone.instant(zone.day(should));
            begins < should && is == Some(begins)
        });
        if is == should || is_early || is_for_version || is_for_day {
            return Ok(());
        }
        let [is, should] = [is, should].map(|it| it.map(jiff::Timestamp::from_microsecond));
        let context = format!("{account} at {is:?}, not {should:?}");
        Err(format!("a timer is set for what is due next: {context}"))
    }
}

/// The first invoice that charged a subscription something.
fn first_charged(id: SubscriptionId, bills: &Bills) -> Option<&Invoice> {
    let is_of = |it: &&InvoiceItem| {
        it.amount > AmountMinor::ZERO && it.of.as_ref().is_some_and(|of| of.subscription == id)
    };
    let charging: BTreeSet<InvoiceId> =
        bills.items.iter().filter(is_of).map(|it| it.invoice_id).collect();
    let invoices = bills.invoices.iter().filter(|it| charging.contains(&it.id));
    invoices.min_by_key(|it| it.number)
}

/// What is charged for each day, after all that was repaired.
fn charged<'a>(items: &[&'a InvoiceItem]) -> Result<BTreeMap<i64, Charged<'a>>, String> {
    let mut charged = BTreeMap::new();
    for it in items.iter().filter(|it| it.kind == ItemKind::Recurring) {
        let of = it.of.as_ref().expect("a period is of a subscription");
        let rate = of.rate.map_or(0, |rate| cents(&rate.to_string()));
        let repairs = items.iter().filter(|repair| repair.linked == Some(it.id));
        let repairs: Vec<_> = repairs.map(|it| days(it)).collect();
        for day in days(it).filter(|day| !repairs.iter().any(|days| days.contains(day))) {
            let before = charged.insert(day, Charged { plan: &of.plan, rate });
            if before.is_some() {
                let context = format!("{} for {}", of.subscription, calendar(day));
                return Err(format!("a day is charged once: {context}"));
            }
        }
    }
    Ok(charged)
}

/// Checks that a run wrote nothing.
pub(super) fn gives_nothing(account: AccountId, entries: &[Entry]) -> Result<(), String> {
    if entries.is_empty() {
        return Ok(());
    }
    let changes = entries.iter().flat_map(|it| &it.changes);
    let items: Vec<String> = changes.filter_map(InvoiceItem::of).map(shown).collect();
    Err(format!("running again gives nothing: {account} got {}", items.join(", ")))
}

fn shown(it: &InvoiceItem) -> String {
    let of = it.of.as_ref().map(|it| format!("{} of {}", it.phase, it.subscription));
    let (of, end) = (of.unwrap_or_default(), it.end.map(|it| it.to_string()).unwrap_or_default());
    format!("{} {of} {} > {end} {}", it.kind.name(), it.start, it.amount.0)
}

/// The days of an item.
fn days(it: &InvoiceItem) -> std::ops::Range<i64> {
    number(it.start)..number(it.end.unwrap_or(it.start))
}

/// A price as a text, in cents.
fn cents(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = format!("{part:0<2}");
    whole.parse::<i64>().unwrap_or(-1) * 100 + part.parse::<i64>().unwrap_or(-1)
}

/// An item charges its rate for a whole period, and otherwise its days of one: so many of a month, or of a year. What is
/// repaired is the part of its item that its days are.
fn audit_amount(it: &InvoiceItem, all: &[&InvoiceItem]) -> Result<(), String> {
    let wrong = |should: &str| {
        let (start, end, amount) = (it.start, it.end, it.amount.0);
        Err(format!("an item is charged by its days: {start} > {end:?} {amount}, not {should}"))
    };
    let count = i64::try_from(days(it).count()).unwrap_or(i64::MAX);
    match it.kind {
        ItemKind::Recurring => {
            let of = it.of.as_ref().expect("a period is of a subscription");
            let rate = of.rate.map_or(0, |rate| cents(&rate.to_string()));
            let (shortest, longest) = if of.plan == "year" { (365, 366) } else { (28, 31) };
            // A part after the last day of February is measured by the month until that day of March, as Kill Bill
            // does it: with a later cycle day it may be longer than that, and cost more than its rate.
            let is_after_february = it.start.month() == 2 && it.start == it.start.last_of_month();
            let limit = if is_after_february { i64::MAX } else { rate };
            let least = (rate * count / longest - 2).min(rate);
            let most = (rate * count / shortest + 2).min(limit);
            let is_whole = count > longest - 1;
            let is_right =
                if is_whole { it.amount.0 == rate } else { (least..=most).contains(&it.amount.0) };
            if is_right { Ok(()) } else { wrong(&format!("{least} to {most}")) }
        }
        ItemKind::RepairAdj => {
            let repaired = all.iter().find(|of| it.linked == Some(of.id));
            let repaired = repaired.ok_or("a repair is of an item: there is none")?;
            let whole = i64::try_from(days(repaired).count()).unwrap_or(i64::MAX).max(1);
            let should = repaired.amount.0 * count / whole;
            if (it.amount.0 + should).abs() <= 2 { Ok(()) } else { wrong(&format!("-{should}")) }
        }
        ItemKind::Fixed => {
            if it.amount.0 == 0 {
                Ok(())
            } else {
                wrong("0")
            }
        }
        ItemKind::CbaAdj
        | ItemKind::ExternalCharge
        | ItemKind::Tax
        | ItemKind::CreditAdj
        | ItemKind::ItemAdj => Ok(()),
    }
}
