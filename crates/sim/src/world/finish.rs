//! The end of a simulation: faults stop, time passes, and then nothing may be stuck.

use super::{SECOND_US, World};
use crate::ask::{Status, Uid, What};
use crate::audit::{self, Wrong};
use crate::disk::Disk;

/// How many things may happen until the world is quiet.
const ROUNDS_MAX: u32 = 20_000;

impl<D: Disk> World<D> {
    pub(super) fn finish(&mut self) -> Result<(), Wrong> {
        self.note("faults stop".to_owned());
        self.calm = true;
        self.gateway.behaves = true;
        self.quieten()?;
        self.hold(self.only_exhausted_is_left())?;
        self.look_at_what_is_left()?;
        self.quieten()?;
        self.operators_clear_up()?;
        self.repeat_disputes();
        self.quieten()?;
        self.hold(self.all_are_dealt_with())?;
        self.hold(self.no_customer_is_waited_for())?;
        self.hold(self.nothing_is_stuck())?;
        self.hold(self.nobody_waits())?;
        let books = self.disk.books();
        let everything = (&self.disk, &books);
        let found = audit::everything(everything, &self.model, &self.gateway, &self.ledgers);
        self.hold_all(found)?;
        self.digest.add(&format!("{:?} {:?}", books.payments, books.entries));
        self.summary.digest = self.digest.value();
        let moves = books.payments.iter().flat_map(|file| &file.transactions);
        for transaction in moves {
            let status = crate::translate::status_from(transaction.status);
            self.summary.transactions += 1;
            self.summary.successes += u64::from(status == Status::Success);
        }
        Ok(())
    }

    /// Lets time pass until nothing is due any more.
    fn quieten(&mut self) -> Result<(), Wrong> {
        for _ in 0..ROUNDS_MAX {
            self.drain_all()?;
            let Some(due) = self.next_due() else { return Ok(()) };
            self.advance(due)?;
            self.resolve();
        }
        let next = self.events.first();
        let wrong = Wrong::new("the world comes to rest", &format!("{next:x?}"));
        self.hold(Err(wrong))
    }

    /// After the schedule, only those are open about which was asked as often as it says.
    fn only_exhausted_is_left(&self) -> Result<(), Wrong> {
        let rules = &self.model.rules;
        let enough = rules.unknown_delays_us.len().min(rules.pending_delays_us.len());
        for it in self.disk.books().outstanding {
            if (it.asked as usize) <= enough {
                let context = format!("asked only {} times: {it:?}", it.asked);
                return Err(Wrong::new("nothing is stuck", &context));
            }
        }
        Ok(())
    }

    /// Somebody reads the payments that the schedule gave up.
    fn look_at_what_is_left(&mut self) -> Result<(), Wrong> {
        let left = self.disk.books().outstanding;
        for it in left {
            self.refresh_payment(it.tenant.0, it.payment_id.uuid().as_u128());
        }
        self.drain_all()
    }

    /// Has operators set the status of the transactions that an operator put in doubt: open ones without an awaited
    /// outcome, and open voids.
    fn operators_clear_up(&mut self) -> Result<(), Wrong> {
        let mut left: Vec<(u32, Uid, Uid)> = vec![];
        for (no, tenant) in &self.model.tenants {
            for (id, payment) in &tenant.payments {
                let open = payment.moves.iter().filter(|it| it.status.is_open());
                let unasked = open.filter(|it| it.open.is_none() || it.asked.is_none());
                left.extend(unasked.map(|it| (*no, *id, it.id)));
            }
        }
        for (tenant, payment, transaction) in left {
            if let Some(status) = self.truth(transaction) {
                let fix = What::Fix { payment, transaction, status, has_reason: false };
                self.client_wants(tenant, fix, false);
            }
        }
        self.drain_all()?;
        self.advance(self.real + SECOND_US)
    }

    /// A customer who does nothing is given up: the gateway waits for no customer any more, except where an operator said
    /// how the transaction ended.
    fn no_customer_is_waited_for(&self) -> Result<(), Wrong> {
        let mut awaited = self.gateway.book.iter().filter(|(_, line)| line.acts);
        match awaited.find(|(id, _)| !self.ledgers.astray.contains(id)) {
            Some(it) => Err(Wrong::new("who does nothing is given up", &format!("{it:x?}"))),
            None => Ok(()),
        }
    }

    fn nothing_is_stuck(&self) -> Result<(), Wrong> {
        let check = "nothing is stuck";
        if let Some(it) = self.disk.books().outstanding.first() {
            return Err(Wrong::new(check, &format!("still waited for: {it:?}")));
        }
        for payment in self.model.tenants.values().flat_map(|tenant| tenant.payments.values()) {
            if let Some(it) = payment.moves.iter().find(|it| it.status.is_open()) {
                return Err(Wrong::new(check, &format!("{it:x?}")));
            }
        }
        Ok(())
    }

    fn nobody_waits(&self) -> Result<(), Wrong> {
        if let Some((no, caller)) = self.callers.iter().next() {
            let context = format!("client {no} was not answered: {:x?}", caller.ask);
            return Err(Wrong::new("who asks is answered", &context));
        }
        let mut waiters = self.owners.values().flat_map(|owner| &owner.waiters);
        if let Some((transaction, no)) = waiters.next() {
            let context = format!("client {no} waits for {transaction:x}");
            return Err(Wrong::new("who asks is answered", &context));
        }
        Ok(())
    }
}
