//! Retries of payments that failed: when they are due, and what they do.

use std::collections::BTreeSet;

use super::signing::SUSPENDING;
use super::{Expected, Model, Moment, Payment, Tenant};
use crate::ask::{Again, Created, Kind, Said, Start, Status, Uid, decimal};

const DAY_US: i64 = 86_400_000_000;

/// How often a decline is retried, each time after so many days.
const DECLINES: [i64; 3] = [8, 8, 8];

/// After how long what the gateway did not take is retried; twice as long each time.
const FAILED_US: i64 = 300_000_000;

/// How often that is done.
const FAILED_MAX: usize = 8;

/// How long a retry is put off.
const PUT_OFF_US: i64 = 3_600_000_000;

/// The status of the retry of a failed transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// None is to come.
    #[default]
    None,
    /// One is due in domain time.
    Due(i64),
    /// It was due, and waits until the account's payments are no longer suspended.
    Suspended(i64),
    /// It was made.
    Made,
}

impl Payment {
    /// Updates the retries of a payment after the status of a transaction changed.
    pub(super) fn reschedule(&mut self, at: usize, before: Status, now: i64) {
        let it = &self.moves[at];
        let (kind, status) = (it.kind, it.status);
        let is_attempt = it.counted_on.is_some();
        if !status.came_to_nothing() {
            self.moves[at].retry = Retry::None;
            if status == Status::Success && before != status && is_attempt {
                self.cancel();
            }
            return;
        }
        if before.came_to_nothing() || !it.asks_for_retries || !is_attempt {
            return;
        }
        let alike = self
            .moves
            .iter()
            .enumerate()
            .filter(|(other, it)| *other != at && (it.kind, it.status) == (kind, status))
            .filter(|(_, it)| it.way.first != self.moves[at].way.first);
        // The tries of one call are one.
        let calls: BTreeSet<Uid> = alike.map(|(_, it)| it.way.first).collect();
        let earlier = calls.len();
        let delay = match status {
            Status::Declined => DECLINES.get(earlier).map(|days| days * DAY_US),
            Status::Failed => (earlier < FAILED_MAX).then(|| FAILED_US << earlier),
            Status::Success | Status::Running | Status::Pending | Status::Unknown => None,
        };
        self.moves[at].retry = delay.map_or(Retry::None, |delay| Retry::Due(now + delay));
    }

    fn cancel(&mut self) {
        for it in &mut self.moves {
            if matches!(it.retry, Retry::Due(_) | Retry::Suspended(_)) {
                it.retry = Retry::None;
            }
        }
    }
}

impl Model {
    /// A timer fires.
    pub(super) fn retry(
        &mut self,
        (tenant_no, again): (u32, &Again),
        moment: Moment,
        created: Created,
    ) -> Expected {
        let now = moment.0.domain;
        let done = Expected::Said(Said::Done);
        let tenant = self.tenant(tenant_no);
        let Some(payment) = tenant.payments.get_mut(&again.payment) else { return done };
        let Some(at) = payment.moves.iter().position(|it| it.id == again.transaction) else {
            return done;
        };
        if payment.moves[at].retry != Retry::Due(again.due) || again.due > now {
            return done;
        }
        let tags = &tenant.people.tags;
        let is_on = |tag: &u8| tags.get(&(again.account, *tag)) == Some(&true);
        if SUSPENDING.iter().any(is_on) {
            payment.moves[at].retry = Retry::Suspended(again.due);
            return done;
        }
        let may_change = |it: &super::Move| it.status.is_open() || it.open.is_some();
        if !again.is_answered || payment.moves.iter().any(may_change) {
            payment.moves[at].retry = Retry::Due(now + PUT_OFF_US);
            return done;
        }
        payment.moves[at].retry = Retry::None;
        let (it, account) = (payment.moves[at].clone(), &tenant.accounts[&again.account]);
        if account.forgotten.is_some_and(|forgotten| forgotten >= it.begun) {
            return done;
        }
        let active = tenant.methods.get(&it.method).filter(|it| it.active).map(|_| it.method);
        let Some(method) = active.or(account.default) else { return done };
        let start = Start {
            account: again.account,
            payment: Some(again.payment),
            payment_key: None,
            kind: it.kind,
            method: Some(method),
            key: it.key.clone(),
            amount: it.asked.map(|asked| decimal(asked, it.currency)),
            currency: Some(it.currency),
            is_controlled: true,
            asks_for_retries: true,
        };
        let expected = self.start((tenant_no, &start), moment, created);
        if matches!(expected, Expected::Refused(_)) {
            return done;
        }
        self.made_again(tenant_no, again);
        expected
    }

    fn made_again(&mut self, tenant_no: u32, again: &Again) {
        let payment = self.tenant(tenant_no).payments.get_mut(&again.payment);
        let moves = payment.into_iter().flat_map(|payment| &mut payment.moves);
        moves.filter(|it| it.id == again.transaction).for_each(|it| it.retry = Retry::Made);
    }
}

impl Tenant {
    /// Closes an account, which ends the retries of its payments.
    pub(super) fn close(&mut self, account: Uid) -> Expected {
        let own = self.payments.values_mut().filter(|payment| payment.account == account);
        own.for_each(Payment::cancel);
        self.record(account, ("account-service", "CLOSE_ACCOUNT"))
    }

    /// Retries that an account's tags suspended are due again, at their own times.
    pub(super) fn resume_retries(&mut self, account: Uid) {
        let own = self.payments.values_mut().filter(|payment| payment.account == account);
        for it in own.flat_map(|payment| &mut payment.moves) {
            if let Retry::Suspended(due) = it.retry {
                it.retry = Retry::Due(due);
            }
        }
    }
}

/// Whether a kind of transaction is retried.
#[must_use]
pub const fn is_retried(kind: Kind) -> bool {
    matches!(kind, Kind::Authorize | Kind::Purchase)
}

/// A timer that is set.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub tenant: u32,
    pub what: Timed,
    /// The transaction or the dispute.
    pub of: Uid,
    /// In domain time.
    pub at: i64,
}

/// The purpose of a timer.
#[derive(Clone, Copy, Debug)]
pub enum Timed {
    Retry,
    /// A customer is given up.
    Action,
    /// A deferred booking of a dispute.
    Booking,
    /// Evidence is due soon.
    Evidence,
}

impl Model {
    /// All timers that are to be set.
    #[must_use]
    pub fn timers(&self) -> Vec<Due> {
        let mut found = vec![];
        for (no, tenant) in &self.tenants {
            let due = |what, of, at| Due { tenant: *no, what, of, at };
            for payment in tenant.payments.values() {
                for it in &payment.moves {
                    let retry = match it.retry {
                        Retry::Due(at) => Some(at),
                        Retry::None | Retry::Suspended(_) | Retry::Made => None,
                    };
                    found.extend(retry.map(|at| due(Timed::Retry, it.id, at)));
                    found.extend(it.given_up.map(|at| due(Timed::Action, it.id, at)));
                }
            }
            for it in tenant.disputes.values() {
                found.extend(it.waits.map(|at| due(Timed::Booking, it.id, at)));
                found.extend(it.warns.map(|at| due(Timed::Evidence, it.id, at)));
            }
        }
        found
    }
}
