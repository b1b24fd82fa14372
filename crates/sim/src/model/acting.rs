//! Transactions that wait for their customer to act, and how long they wait.

use super::paying::Completing;
use super::{Expected, Model, Move, Open, Rules};
use crate::ask::{Expired, Said, Status, When};

/// How long giving up is put off while something else is in doubt.
const PUT_OFF_US: i64 = 60_000_000;

/// When giving up is tried again.
const AGAIN_US: i64 = 3_600_000_000;

impl Model {
    /// A timer fires: the gateway is called to cancel.
    pub(super) fn give_up(&mut self, (tenant_no, it): (u32, &Expired), when: When) -> Expected {
        let done = Expected::Said(Said::Done);
        let payment = self.tenant(tenant_no).payments.get_mut(&it.payment);
        let Some(payment) = payment else { return done };
        let in_doubt = payment.is_in_doubt();
        let found = payment.moves.iter().position(|own| own.id == it.transaction);
        let is_set = |at: &usize| payment.moves[*at].given_up == Some(it.due);
        let Some(at) = found.filter(|at| is_set(at) && it.due <= when.domain) else { return done };
        payment.moves[at].given_up = None;
        if !payment.moves[at].status.is_open() {
            return done;
        }
        if in_doubt {
            payment.moves[at].given_up = Some(when.domain + PUT_OFF_US);
            return done;
        }
        let completing =
            Completing { payment: it.payment, at, amount: None, currency: None, cancels: true };
        let expected = self.complete_move(tenant_no, &completing, (when, None));
        if matches!(expected, Expected::Refused(_)) {
            return done;
        }
        let payment = self.tenant(tenant_no).payments.get_mut(&it.payment).expect("it is there");
        payment.moves[at].given_up = Some(when.domain + AGAIN_US);
        expected
    }
}

impl Move {
    /// The gateway says that the customer has to do something first.
    pub(super) fn await_customer(&mut self, rules: &Rules, now: i64) {
        let Some(open) = self.open.as_mut().filter(|_| self.status == Status::Pending) else {
            return;
        };
        if !open.acts {
            let timeout = rules.gateways[self.gateway].action_timeout_us;
            self.given_up = timeout.map(|timeout| now + timeout).or(self.given_up);
        }
        open.acts = true;
    }

    /// Whether its customer may still make it go on.
    #[must_use]
    pub fn awaits_customer(&self) -> bool {
        self.status == Status::Pending && self.open.is_some_and(|it| it.acts)
    }
}

impl Open {
    /// The outcome of a transaction that had ended, open again since `real`: no inquiry is due or was sent.
    pub(super) const fn over(real: i64) -> Self {
        Self { deadline: real, ask_at: None, asked: 0, reply: None, acts: false }
    }
}
