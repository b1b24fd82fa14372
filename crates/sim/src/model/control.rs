//! The limits on a tenant's payments, and the payments that an account started in a day.

use std::collections::BTreeMap;

use domain::payment::Transaction;

use super::{Model, Move, Tenant};
use crate::ask::{Code, Kind, LIMITED, Limits, Orders, Start, Uid, When};

/// A day in microseconds.
const DAY_US: i64 = 86_400_000_000;

/// A tenant's limits and routing, and the counts that the limits need.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// The limits that hold.
    limits: Option<Limits>,
    /// The limits that hold from the next batch on.
    next: Option<Limits>,
    /// Where routed payments go.
    pub(super) orders: Option<Orders>,
    /// Where they go from the next batch on.
    next_orders: Option<Orders>,
    /// Whether limits were ever set, and never lifted.
    pub most_a_day: Most,
    /// The latest day in which each account counted something.
    days: BTreeMap<Uid, i64>,
    /// The payments that were aborted because of a limit.
    pub aborted: Vec<Aborted>,
}

/// How many payments an account can have started in a day under the limits so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Most {
    /// No limits were set so far.
    #[default]
    None,
    So(u32),
    /// Limits were lifted: any number.
    Any,
}

/// A payment that would have passed a limit.
#[derive(Clone, Copy, Debug)]
pub struct Aborted {
    pub account: Uid,
    pub kind: Kind,
    /// Its amount.
    pub minor: Option<i64>,
}

impl Control {
    pub(super) const fn limits(&self) -> Option<Limits> {
        self.limits
    }

    pub(super) const fn set_routing(&mut self, orders: Orders) {
        self.next_orders = Some(orders);
    }

    pub(super) fn set(&mut self, limits: Option<Limits>) {
        self.next = limits;
        self.most_a_day = match (self.most_a_day, limits) {
            (Most::Any, _) | (_, None) => Most::Any,
            (Most::None, Some(limits)) => Most::So(limits.a_day),
            (Most::So(most), Some(limits)) => Most::So(most.max(limits.a_day)),
        };
    }
}

impl Model {
    /// A batch begins: limits that were set before hold for all of it.
    pub fn begin_batch(&mut self) {
        for tenant in self.tenants.values_mut() {
            tenant.control.limits = tenant.control.next;
            tenant.control.orders = tenant.control.next_orders;
        }
    }

    /// Whether a transaction was begun as it is written: with that method and amount, at that gateway, and with an
    /// attempt or without one.
    #[must_use]
    pub fn has_begun(&self, written: &Transaction, has_attempt: bool) -> bool {
        let id = written.id.uuid().as_u128();
        let payments = self.tenants.values().flat_map(|tenant| tenant.payments.values());
        let mut moves = payments.flat_map(|payment| &payment.moves);
        let found = moves.find(|it| it.id == id);
        found.map_or(!has_attempt, |it| {
            it.method == written.payment_method_id.uuid().as_u128()
                && it.asked == written.amount.map(|amount| amount.0)
                && (!it.is_called() || it.gateway == written.gateway)
                && it.has_attempt == has_attempt
        })
    }
}

impl Tenant {
    /// The day in which a payment counts that is about to start; `None` where nothing is checked.
    pub(super) fn day_to_count_in(&self, it: &Start, when: When) -> Option<i64> {
        let is_checked = it.is_controlled || self.control.limits.is_some_and(|it| it.every);
        let today = when.domain.div_euclid(DAY_US);
        // A clock that was set back does not begin a day once more.
        let day = self.control.days.get(&it.account).copied().unwrap_or(today).max(today);
        is_checked.then_some(day)
    }

    /// The amount that a payment begins with, in minor units: where limits lower it, what they leave; where
    /// they leave nothing, the requested amount.
    pub(super) fn lowered(&self, it: &Start, (minor, currency): (i64, Code), day: i64) -> i64 {
        let limits = self.control.limits.filter(|it| it.lowers && currency == LIMITED);
        let Some(limits) = limits else { return minor };
        let sum = sum(&self.counted(it.account, day), currency);
        let left = limits.amount_a_day.map_or(minor, |most| most - sum);
        let left = left.min(limits.amount.unwrap_or(minor)).min(minor);
        if left > 0 { left } else { minor }
    }

    /// Whether limits lower the amounts of a call.
    pub(super) fn is_lowered(&self, it: &Start) -> bool {
        self.limits_of(it).is_some_and(|limits| limits.lowers)
    }

    /// The method that is chosen for a call that names none.
    pub(super) fn chosen(&self, it: &Start) -> Option<Uid> {
        let newest_of = |gateway: &&str| {
            let own = self.methods.iter().filter(|(_, method)| {
                method.active && method.account == it.account && method.gateway == *gateway
            });
            own.max_by_key(|(id, method)| (method.made_at, **id)).map(|(id, _)| *id)
        };
        self.limits_of(it)?.methods_of.iter().find_map(newest_of)
    }

    /// The limits that a call is checked by.
    fn limits_of(&self, it: &Start) -> Option<Limits> {
        self.control.limits.filter(|limits| it.is_controlled || limits.every)
    }

    pub(super) fn passes_a_limit(
        &self,
        it: &Start,
        (minor, currency): (i64, Code),
        day: i64,
    ) -> bool {
        let Some(limits) = self.control.limits else { return false };
        let counted = self.counted(it.account, day);
        let is_limited = currency == LIMITED;
        let sum = sum(&counted, currency);
        counted.len() >= limits.a_day as usize
            || (is_limited && limits.amount.is_some_and(|most| minor > most))
            || (is_limited && limits.amount_a_day.is_some_and(|most| sum + minor > most))
    }

    pub(super) fn count(&mut self, account: Uid, (id, at): (Uid, usize), day: Option<i64>) {
        let Some(day) = day else { return };
        self.control.days.insert(account, day);
        let payment = self.payments.get_mut(&id).expect("it was just opened");
        payment.moves[at].has_attempt = true;
        payment.moves[at].counted_on = Some(day);
        payment.moves[at].was_limited = self.control.limits.is_some();
    }

    /// The transactions that count in a day of an account: started in it, and neither declined nor failed.
    /// Days are counted from 1970.
    #[must_use]
    pub fn counted(&self, account: Uid, day: i64) -> Vec<&Move> {
        let own = self.payments.values().filter(|payment| payment.account == account);
        let counted = own.flat_map(|payment| &payment.moves);
        counted.filter(|it| it.counted_on == Some(day) && !it.status.came_to_nothing()).collect()
    }

    /// The latest day in which each account counted something.
    #[must_use]
    pub const fn days(&self) -> &BTreeMap<Uid, i64> {
        &self.control.days
    }
}

/// The sum of the requested amounts in a currency, in minor units.
fn sum(payments: &[&Move], currency: Code) -> i64 {
    payments.iter().filter(|it| it.currency == currency).filter_map(|it| it.asked).sum()
}
