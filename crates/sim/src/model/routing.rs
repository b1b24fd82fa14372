//! Where routed payments go, and where a declined one goes on.

use super::ending::Target;
use super::paying::{MoveAt, field};
use super::{Expected, Model, Move, Retry, Tenant, Way};
use crate::ask::{
    Code, Created, End, Heard, Kind, LIMITED, ROUTER, Reason, Said, Status, Uid, When,
};

/// How many tries a payment has at most.
const TRIES_MAX: u32 = 4;

impl Model {
    /// Where a payment with a method goes.
    pub(super) fn way(
        &self,
        tenant_no: u32,
        (method, currency): (Uid, Code),
        when: When,
    ) -> Result<Way, Reason> {
        let Some(tenant) = self.tenants.get(&tenant_no) else { return Ok(Way::default()) };
        let routed = tenant.methods.get(&method).filter(|it| it.gateway == ROUTER);
        let Some(routed) = routed else { return Ok(Way::default()) };
        if routed.is_bare {
            return Err(field("paymentMethodId"));
        }
        let of = |orders: crate::ask::Orders| match currency == LIMITED {
            true => Some(orders.limited),
            false => orders.others,
        };
        let order = tenant.control.orders.and_then(of).ok_or_else(|| field("paymentMethodId"))?;
        let at = order.iter().position(|it| !self.is_unready(tenant_no, it)).unwrap_or(0);
        Ok(Way {
            gateway: Some(order[at]),
            left: order[at + 1..].to_vec(),
            until: Some(when.real + self.rules.tries_us),
            number: 1,
            first: 0,
        })
    }

    fn is_unready(&self, tenant: u32, gateway: &'static str) -> bool {
        [None, Some(tenant)].iter().any(|whose| self.unready.contains(&(*whose, gateway)))
    }

    /// The gateway that a declined call goes on to.
    pub(super) fn goes_on_to(
        &self,
        target: Target,
        heard: Heard,
        when: When,
    ) -> Option<&'static str> {
        let Heard::Said(outcome) = heard else { return None };
        let tenant = self.tenants.get(&target.tenant)?;
        let payment = tenant.payments.get(&target.payment)?;
        let (last, others) = payment.moves.split_last()?;
        let is_waited_for = last.open.is_some_and(|it| it.asked == 0 && it.ask_at.is_none());
        let is_declined = outcome.end == End::Error
            && matches!(last.kind, Kind::Authorize | Kind::Purchase)
            && tenant.control.orders.is_none_or(|it| it.goes_on);
        let is_final = last.id == target.transaction
            && is_waited_for
            && !last.was_revived
            && others.iter().all(|it| it.status.came_to_nothing());
        let has_time = last.way.until? - when.real >= self.rules.next_try_min_us;
        let has_room = payment.moves.len() < self.rules.transactions_max;
        let account = &tenant.accounts[&payment.account];
        let may_pay = !account.is_closed()
            && account.forgotten.is_none()
            && tenant.methods[&last.method].active
            && tenant.has_key(payment.account, (target.payment, last))
            && tenant.has_place(payment.account, last);
        let is_next = last.way.number < TRIES_MAX;
        if !(is_declined && is_final && has_time && has_room && may_pay && is_next) {
            return None;
        }
        last.way.left.iter().find(|it| !self.is_unready(target.tenant, it)).copied()
    }

    /// The decline is written, and the next try goes out.
    pub(super) fn go_on(
        &mut self,
        (Target { tenant: tenant_no, payment: id, .. }, gateway): (Target, &'static str),
        (when, created): (When, Created),
    ) -> Expected {
        let tenant = self.tenant(tenant_no);
        let payment = tenant.payments.get_mut(&id).expect("it was declined");
        let at = payment.moves.len() - 1;
        if !payment.moves[at].status.came_to_nothing() {
            payment.settle(at, Status::Declined, 0);
        }
        let it = &mut payment.moves[at];
        it.changed = false;
        it.revived = false;
        it.retry = Retry::None;
        let reply = it.open.take().and_then(|it| it.reply);
        let first = it.way.first;
        let place = it.way.left.iter().position(|it| *it == gateway).unwrap_or_default();
        let way = Way {
            gateway: Some(gateway),
            left: it.way.left[place + 1..].to_vec(),
            number: it.way.number + 1,
            until: it.way.until,
            first,
        };
        let begun =
            Move::begun((it.kind, it.key.clone()), (gateway, it.method), it.asked, it.currency);
        let next = Move {
            id: created.transaction.unwrap_or_default(),
            begun: it.begun,
            has_attempt: std::mem::take(&mut it.has_attempt),
            counted_on: it.counted_on.take(),
            was_limited: it.was_limited,
            asks_for_retries: it.asks_for_retries,
            way,
            ..begun
        };
        let key = it.key.clone();
        (payment.method, payment.gateway) = (it.method, gateway);
        payment.moves.push(next);
        if let Some(key) = key {
            tenant.key_owners.insert(key, id);
        }
        match self.send(MoveAt { tenant: tenant_no, payment: id, at: at + 1 }, (when, reply)) {
            said @ Expected::Said(Said::Waits(_)) => said,
            other @ (Expected::Said(_) | Expected::Refused(_)) => {
                unreachable!("a next try is called: {other:?}")
            }
        }
    }
}

impl Tenant {
    /// Notes where a transaction that was just opened goes.
    pub(super) fn set_out(&mut self, (payment, at): (Uid, usize), way: Way) {
        let payment = self.payments.get_mut(&payment).expect("it was just opened");
        let it = &mut payment.moves[at];
        it.gateway = way.gateway.unwrap_or(it.gateway);
        it.way = Way { first: it.id, ..way };
        payment.gateway = it.gateway;
    }

    /// Whether a transaction still counts in its day, or can count in it again.
    fn has_place(&self, account: Uid, it: &Move) -> bool {
        let Some(day) = it.counted_on.filter(|_| it.status.came_to_nothing()) else { return true };
        if self.days().get(&account) != Some(&day) {
            return true;
        }
        let Some(limits) = self.control.limits() else { return true };
        let counted = self.counted(account, day);
        let alike = counted.iter().filter(|other| other.currency == it.currency);
        let sum: i64 = alike.filter_map(|other| other.asked).sum();
        let is_limited = it.currency == LIMITED;
        let sum = sum + it.asked.unwrap_or(0);
        counted.len() < limits.a_day as usize
            && limits.amount_a_day.is_none_or(|most| !is_limited || sum <= most)
    }

    /// Whether a transaction's key is still its payment's, or is free.
    fn has_key(&self, account: Uid, (payment, it): (Uid, &Move)) -> bool {
        let Some(key) = &it.key else { return true };
        self.key_owners.get(key) == Some(&payment)
            || self.key_is_used(account, Some(key), Some(payment)).is_empty()
    }
}
