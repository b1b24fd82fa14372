//! What accounts have subscribed to, as their accepted commands said: what is billed and given follows from it alone.

use std::collections::BTreeMap;

use domain::catalog::rules::Policy;
use domain::{AccountId, BundleId, SubscriptionId};

use super::catalog::{ADD_ON, Later, Sold};
use super::days::{Billed, Course, Dated, Fact, Zone, calendar};

/// An account.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) zone: Zone,
    /// The day of the month on which its periods begin; 0: its first subscription will say.
    pub(super) cycle_day: u8,
    pub(super) billed: Billed,
    /// Whether it has the tag `AUTO_INVOICING_OFF`.
    pub(super) is_invoicing_off: bool,
    /// Whether it has the tag `AUTO_PAY_OFF`.
    pub(super) is_paying_off: bool,
}

/// A subscription.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) account: AccountId,
    pub(super) bundle: BundleId,
    pub(super) is_add_on: bool,
    facts: Vec<Dated>,
    /// Until when its product may be used.
    entitled_until: Option<i64>,
    /// Whether it ends because its base does.
    ends_with_base: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) accounts: BTreeMap<AccountId, Account>,
    pub(super) lines: BTreeMap<SubscriptionId, Line>,
    /// When bundles are paused, and go on.
    pauses: BTreeMap<BundleId, Vec<Dated>>,
    pub(super) later: Option<Later>,
}

impl Line {
    /// Forgets what was to come, as far as it is meant.
    fn drop_coming(&mut self, now: i64, is_meant: impl Fn(&Dated) -> bool) {
        self.facts.retain(|it| it.0 <= now || !is_meant(it));
    }

    /// Whether something is to come.
    pub(super) fn awaits(&self, is_it: impl Fn(&Fact) -> bool, now: i64) -> bool {
        self.facts.iter().any(|(at, fact)| *at > now && is_it(fact))
    }

    /// When it is billed no more, or will be.
    fn ends_at(&self) -> Option<i64> {
        self.facts.iter().find(|(_, it)| *it == Fact::End).map(|(at, _)| *at)
    }

    fn end(&mut self, billed_until: i64, entitled_until: i64, now: i64) {
        self.ends_with_base = false;
        self.drop_coming(now, |(at, it)| *at >= billed_until || *it == Fact::End);
        self.facts.push((billed_until, Fact::End));
        self.entitled_until = Some(entitled_until);
    }

    fn go_on(&mut self) {
        self.facts.retain(|(_, it)| *it != Fact::End);
        self.entitled_until = None;
    }
}

impl Model {
    /// The account of a subscription.
    fn account(&mut self, of: SubscriptionId) -> &mut Account {
        let account = self.lines[&of].account;
        self.accounts.get_mut(&account).expect("accounts stay")
    }

    /// An account was billed for what happened until an instant.
    pub(super) fn ran(&mut self, account: AccountId, at: i64) {
        let it = self.accounts.get_mut(&account).expect("accounts stay");
        if !it.is_invoicing_off {
            it.billed.run_for = it.billed.run_for.max(it.zone.day(at));
        }
    }

    fn line(&mut self, of: SubscriptionId) -> &mut Line {
        self.lines.get_mut(&of).expect("subscriptions stay")
    }

    /// The facts of a subscription, those of its bundle among them.
    pub(super) fn course(&self, of: SubscriptionId) -> Course {
        let line = &self.lines[&of];
        let pauses = self.pauses.get(&line.bundle).into_iter().flatten();
        Course::new(line.facts.iter().chain(pauses).copied().collect())
    }

    pub(super) fn subscribe(
        &mut self,
        id: SubscriptionId,
        (account, bundle): (AccountId, BundleId),
        (plan, quantity): (&'static Sold, Option<u32>),
        now: i64,
    ) {
        let quantity = quantity.map(|it| (now, Fact::Quantity(it)));
        let facts = [(now, Fact::Plan(plan))].into_iter().chain(quantity).collect();
        let is_add_on = plan.product == ADD_ON;
        let line =
            Line { account, bundle, is_add_on, facts, entitled_until: None, ends_with_base: false };
        self.lines.insert(id, line);
        let first_charge = self.course(id).trial_ends.unwrap_or(now);
        let it = self.account(id);
        if it.cycle_day == 0 {
            let day = calendar(it.zone.day(first_charge)).day();
            it.cycle_day = day.unsigned_abs();
        }
        self.ran(account, now);
    }

    /// When a policy takes effect, of a subscription that is charged through a day.
    fn effective_at(
        &mut self,
        of: SubscriptionId,
        policy: Policy,
        through: Option<i64>,
        now: i64,
    ) -> i64 {
        let zone = self.account(of).zone;
        match policy {
            Policy::EndOfTerm => through.map_or(now, |day| zone.instant(day).max(now)),
            Policy::Immediate | Policy::StartOfTerm | Policy::Illegal => now,
        }
    }

    pub(super) fn change(
        &mut self,
        of: SubscriptionId,
        plan: &'static Sold,
        (policy, through): (Policy, Option<i64>),
        now: i64,
    ) {
        let at = self.effective_at(of, policy, through, now);
        let line = self.line(of);
        line.drop_coming(now, |(_, it)| matches!(it, Fact::Plan(_)));
        line.facts.push((at, Fact::Plan(plan)));
        if at <= now {
            let account = self.lines[&of].account;
            self.ran(account, now);
        }
    }

    pub(super) fn undo_change(&mut self, of: SubscriptionId, now: i64) {
        self.line(of).drop_coming(now, |(_, it)| matches!(it, Fact::Plan(_)));
        let account = self.lines[&of].account;
        self.ran(account, now);
    }

    /// Ends a subscription, and with a base its add-ons: its use by one policy, and its bills by another. Without them
    /// at once, and by the catalog's rules.
    pub(super) fn cancel(
        &mut self,
        of: SubscriptionId,
        (entitlement, billing): (Option<Policy>, Option<Policy>),
        through: Option<i64>,
        now: i64,
    ) {
        let zone = self.account(of).zone;
        let today = zone.instant(zone.day(now));
        let entitled_until = match entitlement {
            None => now,
            Some(Policy::EndOfTerm) => through.map_or(today, |day| zone.instant(day)),
            Some(Policy::Immediate | Policy::StartOfTerm | Policy::Illegal) => today,
        };
        let billing = billing.unwrap_or(Policy::EndOfTerm);
        let billed_until = self.effective_at(of, billing, through, now);
        self.end(of, (entitled_until, billed_until), now);
    }

    /// Ends a subscription, and with a base its add-ons: its use and its bills.
    pub(super) fn end(
        &mut self,
        of: SubscriptionId,
        (entitled_until, billed_until): (i64, i64),
        now: i64,
    ) {
        let entitled_until = entitled_until.max(self.lines[&of].facts[0].0);
        self.line(of).end(billed_until, entitled_until, now);
        for add_on in self.add_ons(of, now) {
            let line = self.line(add_on);
            if line.ends_at().is_none_or(|end| end > billed_until) {
                line.end(billed_until, entitled_until, now);
                line.ends_with_base = true;
            }
        }
        if billed_until <= now {
            let account = self.lines[&of].account;
            self.ran(account, now);
        }
    }

    pub(super) fn uncancel(&mut self, of: SubscriptionId, now: i64) {
        let end = self.lines[&of].ends_at();
        let add_ons = self.add_ons(of, now).into_iter();
        let is_with_it = |it: &Line| it.ends_with_base && it.ends_at() == end;
        let with_it: Vec<_> = add_ons.filter(|it| is_with_it(&self.lines[it])).collect();
        for id in [vec![of], with_it].concat() {
            self.line(id).go_on();
        }
        let account = self.lines[&of].account;
        self.ran(account, now);
    }

    /// The add-ons of a base that have not ended.
    fn add_ons(&self, of: SubscriptionId, now: i64) -> Vec<SubscriptionId> {
        let base = &self.lines[&of];
        let own = self.lines.iter().filter(|(_, it)| {
            !base.is_add_on
                && it.is_add_on
                && it.bundle == base.bundle
                && it.ends_at().is_none_or(|end| end > now)
        });
        own.map(|(id, _)| *id).collect()
    }

    pub(super) fn set_quantity(&mut self, of: SubscriptionId, quantity: u32, now: i64) {
        self.line(of).facts.push((now, Fact::Quantity(quantity)));
        let account = self.lines[&of].account;
        self.ran(account, now);
    }

    /// Pauses a bundle from a time on, or lets it go on.
    pub(super) fn pause(
        &mut self,
        (account, bundle): (AccountId, BundleId),
        pauses: bool,
        (at, now): (i64, i64),
    ) {
        let has_lines =
            self.lines.iter().any(|(id, it)| it.bundle == bundle && !self.is_over(*id, now));
        let fact = Fact::Pause(pauses);
        let known = self.pauses.entry(bundle).or_default();
        // What holds already is not recorded, and the same that was to come later is no longer needed.
        if known.iter().rfind(|(it, _)| *it <= at).is_some_and(|(_, it)| *it == fact) {
            return;
        }
        let place = known.iter().position(|(it, _)| *it > at).unwrap_or(known.len());
        if known.get(place).is_some_and(|(_, it)| *it == fact) {
            known.remove(place);
        }
        known.insert(place, (at, fact));
        if at <= now && has_lines {
            self.ran(account, now);
        }
    }

    /// Whether an account may be billed for more on a day that it was billed for: a bundle is to be paused, and what was
    /// charged beyond that may be given back before; or something that was asked for since is to happen on that day.
    pub(super) fn may_be_billed_again(&self, account: AccountId, now: i64) -> bool {
        let it = &self.accounts[&account];
        let own = || self.lines.values().filter(|it| it.account == account);
        let mut pauses = own().filter_map(|it| self.pauses.get(&it.bundle)).flatten();
        let mut facts = own().flat_map(|it| &it.facts);
        pauses.any(|(at, _)| *at > now)
            || facts.any(|(at, _)| *at > now && it.zone.day(*at) <= it.billed.run_for)
    }

    /// Whether nothing of a subscription is to happen any more.
    pub(super) fn is_over(&self, of: SubscriptionId, now: i64) -> bool {
        let line = &self.lines[&of];
        self.course(of).has_ended(now) && line.entitled_until.is_none_or(|until| until <= now)
    }

    /// The plan and the quantity of a subscription whose product may be used.
    pub(super) fn active(&self, of: SubscriptionId, now: i64) -> Option<(&'static Sold, u32)> {
        let (line, course) = (&self.lines[&of], self.course(of));
        let is_entitled = line.entitled_until.is_none_or(|until| until > now);
        course.plan(now).filter(|_| is_entitled && !course.is_paused(now))
    }

    /// When something of an account is to happen next, and when at the earliest a later version of the catalog may ask
    /// for it.
    pub(super) fn due(&self, account: AccountId, now: i64) -> (Option<i64>, Option<i64>) {
        let own = self.lines.iter().filter(|(_, it)| it.account == account);
        let (mut due, mut version): (Vec<i64>, Option<i64>) = (vec![], None);
        for (id, line) in own {
            let pauses = self.pauses.get(&line.bundle).into_iter().flatten();
            due.extend(pauses.map(|(at, _)| *at).filter(|at| *at > now));
            due.extend(line.entitled_until.filter(|until| *until > now));
            if let Some(it) = self.later {
                let zone = self.accounts[&account].zone;
                let at = zone.instant(zone.day(it.existing_from));
                version = Some(at).filter(|at| *at > now);
            }
            due.extend(self.own_due(*id, now));
        }
        (due.into_iter().min(), version)
    }

    /// When something of a subscription itself is to happen next.
    fn own_due(&self, of: SubscriptionId, now: i64) -> Option<i64> {
        let (line, course) = (&self.lines[&of], self.course(of));
        let it = &self.accounts[&line.account];
        let facts = line.facts.iter().map(|(at, _)| *at).filter(|at| *at > now);
        let plans = course.plans().into_iter();
        let phases = plans.filter(|(plan, from, until)| {
            plan.has_trial
                && *from <= now
                && course.trial_ends.is_some_and(|ends| until.is_none_or(|until| ends < until))
        });
        let phases = phases.filter_map(|_| course.trial_ends).filter(|at| *at > now);
        let spans = course.spans(it.zone, self.later);
        let current = spans.iter().rfind(|span| span.is_billed(it.billed));
        let next = current.filter(|_| !it.is_invoicing_off);
        let next = next.and_then(|span| span.next_due(it.cycle_day, it.billed));
        facts.chain(phases).chain(next.map(|day| it.zone.instant(day))).min()
    }

    /// All that an account was billed for until now: nothing was due since.
    pub(super) fn settle(&mut self, now: i64) {
        for it in self.accounts.values_mut().filter(|it| !it.is_invoicing_off) {
            let today = it.zone.day(now);
            it.billed.settled = if now >= it.zone.instant(today) { today } else { today - 1 };
            it.billed.now = now;
        }
    }
}
