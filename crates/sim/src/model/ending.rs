//! How a transaction ends: by its gateway's answer, by asking later, by hearsay, by an operator.

use super::{Expected, Model, Move, Open, Payment, Rules};
use crate::ask::{Ask, End, Heard, How, Known, Outcome, Reason, Said, Status, Uid, When};

/// Names a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub tenant: u32,
    pub payment: Uid,
    pub transaction: Uid,
}

impl Target {
    /// A transaction of a payment of the tenant that asks.
    pub(super) const fn of(ask: &Ask, payment: &Uid, transaction: &Uid) -> Self {
        Self { tenant: ask.tenant, payment: *payment, transaction: *transaction }
    }
}

impl Model {
    pub(super) fn replied(&mut self, target: Target, heard: Heard, when: When) -> Expected {
        let has_outcome = matches!(heard, Heard::Said(_) | Heard::NotSent);
        self.touch(target, (when, Some(has_outcome)), |payment, at, rules| {
            let it = &mut payment.moves[at];
            // It may have left as late as now.
            if it.status == Status::Running
                && let Some(open) = &mut it.open
            {
                open.deadline = open.deadline.max(when.real);
            }
            if heard == Heard::NotSent && it.status == Status::Running {
                it.called = it.called_before;
            }
            let (status, processed) = match heard {
                Heard::Said(outcome) => it.read(outcome, false),
                Heard::Broke | Heard::Silence | Heard::TooLate => (Status::Unknown, 0),
                Heard::NotSent if it.was_pending => (Status::Pending, 0),
                Heard::NotSent => (Status::Failed, 0),
            };
            let was_running = it.status == Status::Running;
            // A success that was reported meanwhile is newer than the answer.
            let is_newer = it.status == Status::Success;
            if was_running || !is_newer && is_news(it.status, status) {
                payment.settle(at, status, processed);
            }
            if matches!(heard, Heard::Said(outcome) if outcome.acts) {
                payment.moves[at].await_customer(rules, when.domain);
            }
            let it = &payment.moves[at];
            let how = match heard {
                Heard::Broke if was_running => How::Broke,
                Heard::Silence if was_running => How::Silent,
                Heard::TooLate if was_running => How::Late,
                Heard::Said(_)
                | Heard::Broke
                | Heard::Silence
                | Heard::TooLate
                | Heard::NotSent => How::Is(it.status),
            };
            Said::Paid { payment: target.payment, transaction: target.transaction, how }
        })
    }

    pub(super) fn inquired(
        &mut self,
        target: Target,
        (known, asked_at): (Known, i64),
        when: When,
    ) -> Expected {
        // Until its deadline a call may answer itself: an end that is reported before is written, but
        // the waiting goes on.
        let open = self.find(target).and_then(|it| it.open);
        let waits_on =
            open.is_some_and(|it| it.asked == 0 && it.ask_at.is_none() && asked_at < it.deadline);
        let has_outcome = matches!(known, Known::Found(it) if it.end != End::Undefined);
        self.touch(target, (when, (!waits_on).then_some(has_outcome)), |payment, at, rules| {
            // Nothing is planned further off than the longest delay, unless by a clock that has been
            // set back since: then it is due.
            let delays = rules.unknown_delays_us.iter().chain(&rules.pending_delays_us);
            let furthest = when.domain + delays.max().copied().unwrap_or(0);
            if let Some(open) = &mut payment.moves[at].open {
                open.ask_at = open.ask_at.map(|at| if at > furthest { when.domain } else { at });
            }
            let it = &payment.moves[at];
            let settle_after_us = rules.gateways[it.gateway].settle_after_us;
            let over = it.open.is_some_and(|open| asked_at >= open.deadline + settle_after_us);
            let news = match known {
                Known::Found(outcome) => Some(it.read(outcome, true)),
                Known::NotFound if it.status.is_doubtful() && over => Some((Status::Failed, 0)),
                Known::NotFound | Known::Unreachable => None,
            };
            let it = &mut payment.moves[at];
            let had_ended = !it.status.is_open();
            // The later question has the say, unless its time is still to come.
            let outdated =
                had_ended && it.heard_at.is_some_and(|at| asked_at < at && at <= when.real);
            let revives = |status: Status| {
                matches!(status, Status::Pending | Status::Unknown)
                    && it.status.came_to_nothing()
                    && is_about_money(known)
            };
            let is_said = news.is_some_and(|(said, _)| revives(said) || is_news(it.status, said));
            it.contradicted = had_ended && is_said && !waits_on;
            let news = news.filter(|_| !outdated);
            match news {
                // It had come to nothing, and now there may be money in it: nobody knows.
                Some((Status::Pending | Status::Unknown, _))
                    if it.status.came_to_nothing() && is_about_money(known) =>
                {
                    it.open = it.open.or(Some(Open::over(when.real)));
                    it.heard_at = Some(asked_at);
                    payment.settle(at, Status::Unknown, 0);
                }
                Some((status, _)) if waits_on && status.is_open() => {}
                Some((status, processed)) if is_news(it.status, status) => {
                    it.heard_at = Some(asked_at);
                    payment.settle(at, status, processed);
                    if matches!(known, Known::Found(outcome) if outcome.acts) {
                        payment.moves[at].await_customer(rules, when.domain);
                    }
                }
                _ if it.status == Status::Running && !waits_on => {
                    payment.settle(at, Status::Unknown, 0)
                }
                _ => {}
            }
            payment.moves[at].reported(target)
        })
    }

    pub(super) fn hearsay(&mut self, target: Target, worked: Option<bool>, when: When) -> Expected {
        match self.status_of(target) {
            Err(reason) => return Expected::refused(reason),
            Ok(Status::Pending) => {}
            Ok(_) => return Expected::refused(Reason::NoSuccess),
        }
        let Some(worked) = worked else {
            let how = How::Is(Status::Pending);
            return Expected::Said(Said::Paid {
                payment: target.payment,
                transaction: target.transaction,
                how,
            });
        };
        self.touch(target, (when, Some(true)), |payment, at, _| {
            let asked = payment.moves[at].called.unwrap_or(0);
            let (status, processed) =
                if worked { (Status::Success, asked) } else { (Status::Declined, 0) };
            payment.settle(at, status, processed);
            payment.moves[at].reported(target)
        })
    }

    pub(super) fn fix(
        &mut self,
        target: Target,
        (status, has_reason): (Status, bool),
        when: When,
    ) -> Expected {
        let now = match self.status_of(target) {
            Err(reason) => return Expected::refused(reason),
            Ok(now) => now,
        };
        let mut no = vec![];
        if now == Status::Running {
            no.push(Reason::InDoubt);
        } else if now == status {
            return Expected::Said(Said::Done);
        }
        if status.is_open() {
            no.push(Reason::Field("transactionStatus".to_owned()));
        } else if !now.is_open() && !has_reason {
            no.push(Reason::Field("X-Killbill-Reason".to_owned()));
        }
        if !no.is_empty() {
            return Expected::Refused(no);
        }
        self.touch(target, (when, Some(true)), |payment, at, _| {
            let asked = payment.moves[at].called.unwrap_or(0);
            let processed = if status == Status::Success { asked } else { 0 };
            payment.settle(at, status, processed);
            // An operator's word can put a sum wrong; nobody else's can.
            payment.contradicted = true;
            payment.unbalanced = true;
            Said::Done
        })
    }

    fn status_of(&self, target: Target) -> Result<Status, Reason> {
        self.payment(target.tenant, target.payment).ok_or(Reason::NoPayment)?;
        let found = self.find(target);
        found.map(|it| it.status).ok_or(Reason::NoTransaction)
    }

    /// Whether it failed because its gateway has no record of it, and the gateway is still asked.
    pub fn believes_lost(&self, target: Target) -> bool {
        self.find(target).is_some_and(|it| it.status == Status::Failed && it.open.is_some())
    }

    fn find(&self, Target { tenant, payment, transaction }: Target) -> Option<&Move> {
        let payment = self.payment(tenant, payment)?;
        payment.moves.iter().find(|it| it.id == transaction)
    }

    /// Does something to a transaction, then ends the waiting for it or plans the next question: when
    /// that is, and whether an outcome was reported. `None`: the waiting goes on as it is.
    fn touch(
        &mut self,
        target: Target,
        (when, ending): (When, Option<bool>),
        change: impl FnOnce(&mut Payment, usize, &Rules) -> Said,
    ) -> Expected {
        let Target { tenant, payment: id, transaction } = target;
        let rules = self.rules.clone();
        let tenant = self.tenants.entry(tenant).or_default();
        let Some(payment) = tenant.payments.get_mut(&id) else {
            return Expected::refused(Reason::NoPayment);
        };
        let Some(at) = payment.moves.iter().position(|it| it.id == transaction) else {
            return Expected::refused(Reason::NoTransaction);
        };
        let before = payment.moves[at].status;
        let said = change(payment, at, &rules);
        payment.reschedule(at, before, when.domain);
        let it = &mut payment.moves[at];
        let reported = it.reported(target);
        let changed = std::mem::take(&mut it.changed);
        if std::mem::take(&mut it.revived)
            && let Some(key) = &it.key
        {
            tenant.key_owners.insert(key.clone(), id);
        }
        let contradicted = std::mem::take(&mut it.contradicted) && !it.status.is_open();
        let answered = match ending {
            Some(_) if contradicted => it.ask_once_more(&rules, when),
            Some(has_outcome) => it.close_or_ask(&rules, when, (changed, has_outcome)),
            // A success is one, whatever the call that may still run is answered.
            None if changed && it.status == Status::Success => {
                it.open.as_mut().and_then(|open| open.reply.take())
            }
            None => None,
        };
        if let Some(key) = answered
            && let Some(kept) = self.replies.get_mut(&key)
        {
            kept.said = Some(reported);
            kept.until = when.domain.saturating_add(rules.reply_keep_us);
        }
        Expected::Said(said)
    }
}

impl Payment {
    /// Writes how a transaction stands.
    pub(super) fn settle(&mut self, at: usize, status: Status, processed: i64) {
        let it = &mut self.moves[at];
        let before = it.status;
        let starts = it.starts();
        if !before.is_open() && before != status {
            self.contradicted = true;
            // That there is more to take than was thought breaks no sum.
            self.unbalanced |= !starts || before == Status::Success;
        }
        self.reports += 1;
        it.reported = if status == Status::Success { self.reports } else { 0 };
        it.status = status;
        it.processed = processed;
        it.changed = true;
        it.revived = before.came_to_nothing() && !status.came_to_nothing();
        it.was_revived |= it.revived;
        it.was_pending |= status == Status::Pending;
        self.last = (it.kind, status);
        let mut tries = self.moves.iter().rev().filter(|it| it.starts());
        let worked = tries.clone().find(|it| it.status == Status::Success);
        if let Some(it) = worked.or_else(|| tries.next())
            && starts
        {
            (self.method, self.gateway) = (it.method, it.gateway);
        }
        self.last_success = self.leads();
    }
}

impl Move {
    fn reported(&self, Target { payment, transaction, .. }: Target) -> Said {
        Said::Paid { payment, transaction, how: How::Is(self.status) }
    }

    /// The status that a gateway's outcome gives it, and the processed amount in minor units.
    fn read(&self, outcome: Outcome, later: bool) -> (Status, i64) {
        // A running call is answered with what it asked for. What is reported later may be anything up to
        // what was asked for first: a completion for less may have arrived or not. Where no amount
        // is reported, the last call's is meant. A void has no amount.
        let asked = self.asked.unwrap_or(0);
        let called = self.called.unwrap_or(asked);
        let amount = outcome.amount.unwrap_or(called);
        let other_currency = outcome.currency.is_some_and(|code| code != self.currency);
        let other = later && self.status != Status::Running && amount <= asked;
        let fits = amount > 0 && (amount == called || other) && !other_currency;
        match outcome.end {
            End::Processed if self.asked.is_none() => (Status::Success, 0),
            End::Processed if fits => (Status::Success, amount),
            End::Processed => (Status::Unknown, 0),
            End::Pending => (Status::Pending, 0),
            End::Error => (Status::Declined, 0),
            End::Canceled => (Status::Failed, 0),
            End::Undefined => (Status::Unknown, 0),
        }
    }

    /// Has its gateway asked once more, because it says that it ended otherwise, and gives the stored reply.
    fn ask_once_more(&mut self, rules: &Rules, when: When) -> Option<Uid> {
        let mut open = self.open.take().unwrap_or_else(|| Open::over(when.real));
        let reply = open.reply.take();
        if let Some(delay) = rules.unknown_delays_us.get(open.asked as usize) {
            open.ask_at = Some(when.domain + delay);
            open.asked += 1;
            open.acts = false;
            self.open = Some(open);
        }
        reply
    }

    /// Gives the stored reply that can be given now. Of what has failed because no outcome was reported,
    /// the gateway is asked again until the schedule ends.
    fn close_or_ask(
        &mut self,
        rules: &Rules,
        when: When,
        (changed, has_outcome): (bool, bool),
    ) -> Option<Uid> {
        let open = self.open.as_mut()?;
        let believed_lost = self.status == Status::Failed && !has_outcome;
        let (delays, is_open) = match self.status {
            Status::Running | Status::Unknown => (&rules.unknown_delays_us, true),
            Status::Pending => (&rules.pending_delays_us, true),
            Status::Success | Status::Declined | Status::Failed => {
                (&rules.unknown_delays_us, believed_lost)
            }
        };
        // A new status begins a new schedule, and so does the end of a call; a question out of turn
        // uses none of it up.
        let begins = changed || (open.asked == 0 && open.ask_at.is_none());
        if is_open && !begins && open.ask_at.is_none_or(|at| at > when.domain) {
            return None;
        }
        let asked = if begins { 0 } else { open.asked };
        let delay = delays.get(asked as usize);
        if !is_open || (believed_lost && delay.is_none()) {
            let reply = open.reply;
            self.open = None;
            return reply;
        }
        open.ask_at = delay.map(|delay| when.domain + delay);
        open.asked = asked + 1;
        let is_known = self.status == Status::Pending || believed_lost;
        if is_known { open.reply.take() } else { None }
    }
}

/// Whether a gateway says that money may move, or did: not only that it does not know.
fn is_about_money(known: Known) -> bool {
    matches!(known, Known::Found(it) if matches!(it.end, End::Pending | End::Processed))
}

/// Whether what a gateway says changes what is written.
fn is_news(now: Status, said: Status) -> bool {
    match now {
        Status::Running => true,
        Status::Unknown => !said.is_doubtful(),
        Status::Pending => !said.is_open(),
        Status::Success => matches!(said, Status::Declined | Status::Failed),
        Status::Declined | Status::Failed => said == Status::Success,
    }
}
