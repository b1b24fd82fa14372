//! The events as time passes: calls arrive, answers come back, deadlines pass, clients try again;
//! and the process's own work: it sends inquiries to gateways about unknown outcomes.

use std::collections::BTreeSet;

use domain::Timestamp;
use domain::payment::Outstanding;
use domain::payment::attempt::PaymentAttempt;
use domain::timer::{Timer, TimerKind};

use super::owners::{LIVES, Owner, OwnerId};
use super::{Event, From, Job, SECOND_US, World};
use crate::ask::{Again, Ask, End, Expired, Known, Status, Uid, What};
use crate::audit::Wrong;
use crate::disk::Disk;
use crate::gateway::{Call, Later, Stand};
use crate::model::{Operation, Payment, Target};
use crate::mutant::Mutant;
use crate::translate;

impl<D: Disk> World<D> {
    /// Lets time pass, and what is due happen.
    pub(super) fn advance(&mut self, until: i64) -> Result<(), Wrong> {
        while let Some((at, event)) = self.events.take(until) {
            self.real = self.real.max(at);
            self.happen(event)?;
            if self.random.chance(600) {
                self.drain()?;
            }
        }
        self.real = self.real.max(until);
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), Wrong> {
        match event {
            Event::Arrive(call, fate) => {
                self.note(format!("arrives: {:x} {:?}", call.transaction, fate.deed));
                let (tenant, payment, transaction) = (call.tenant, call.payment, call.transaction);
                let target = Target { tenant, payment, transaction };
                let is_awaited = self.real <= call.deadline || self.model.believes_lost(target);
                let later = self.gateway.arrive(&call, (fate.deed, is_awaited), self.real);
                for (at, event) in later {
                    self.events.at(at, Event::Gateway(event));
                }
            }
            Event::Answer(call, fate) => {
                let heard = self.gateway.answer(&call, fate.form);
                if let Some(id) = self.runner(&call) {
                    self.note(format!("answers: {:x} {heard:?}", call.transaction));
                    self.call_ended(id, &call, heard);
                }
            }
            Event::Deadline(call) => {
                if let Some(id) = self.runner(&call) {
                    self.note(format!("times out: {:x}", call.transaction));
                    self.call_ended(id, &call, crate::ask::Heard::TooLate);
                }
            }
            Event::Gateway(Later::Turn(transaction, from, to)) => {
                // What is on its way in is heard before a line turns: answers keep their order.
                self.drain_all()?;
                self.note(format!("turns: {transaction:x} from {from:?} to {to:?}"));
                self.gateway.turn(transaction, from, to);
            }
            Event::Gateway(Later::Notify(transaction)) => self.notify(transaction),
            Event::Again(no) => self.send(no),
            Event::Append(no, record) => self.appended(no, *record),
            Event::Patience(no, tries) => {
                if self.callers.get(&no).is_some_and(|caller| caller.tries == tries) {
                    self.lost(no);
                }
            }
        }
        Ok(())
    }

    /// Who runs a call.
    fn runner(&self, call: &Call) -> Option<OwnerId> {
        let runs = |owner: &Owner<D::Store>| {
            owner.running.get(&call.transaction).is_some_and(|it| it.no == call.no)
        };
        self.owners.iter().find(|(_, owner)| runs(owner)).map(|(id, _)| *id)
    }

    fn is_running(&self, transaction: Uid) -> bool {
        self.owners.values().any(|owner| owner.running.contains_key(&transaction))
    }

    /// A call ended: its outcome is offered to the partition until it is written.
    fn call_ended(&mut self, id: OwnerId, call: &Call, heard: crate::ask::Heard) {
        let (payment, transaction) = (call.payment, call.transaction);
        let is_controlled = call.is_controlled;
        let what = What::Replied { payment, transaction, heard, is_controlled };
        let times = if self.random.chance(30) { 2 } else { 1 };
        self.owners.get_mut(&id).expect(LIVES).running.remove(&call.transaction);
        for _ in 0..times {
            self.tell(id, call.tenant, what.clone(), From::Call);
        }
    }

    fn notify(&mut self, transaction: Uid) {
        let called = self.called(transaction);
        let line = &self.gateway.book[&transaction];
        let known = Known::Found(line.outcome_of(called));
        let (tenant, payment) = (line.tenant, line.payment);
        if self.is(Mutant::IgnoresPending) && line.stand == Stand::Pending {
            return;
        }
        self.gateway.unheard.insert(transaction);
        self.note(format!("notifies: {transaction:x} {known:?}"));
        self.misname(transaction, known);
        let what = What::Inquired { payment, transaction, known, asked_at: self.real };
        let owner = self.owner_of(tenant, payment);
        self.tell(owner, tenant, what, From::Notification);
    }

    /// Now and then sends a notification once more with the id of another payment; the process must not apply it.
    fn misname(&mut self, transaction: Uid, known: Known) {
        let Some(other) = self.gateway.misnamed(transaction) else { return };
        let line = &self.gateway.book[&other];
        let (tenant, payment) = (line.tenant, line.payment);
        let believed = if self.is(Mutant::BelievesMisnamed) { other } else { transaction };
        self.note(format!("misnames: {transaction:x} is said to be of {payment:x}"));
        let what = What::Inquired { payment, transaction: believed, known, asked_at: self.real };
        let owner = self.owner_of(tenant, payment);
        self.tell(owner, tenant, what, From::Notification);
    }

    /// The amount of the last call for a transaction, where both sides mean the same: only then may a
    /// gateway leave the amount out. `None` where a client may be about to request another one.
    fn called(&self, transaction: Uid) -> Option<i64> {
        let is_clients = |job: &Job| matches!(job.from, From::Client(_));
        let mut inboxes = self.owners.values().flat_map(|owner| &owner.inbox);
        if inboxes.any(is_clients) || self.has_undealt() {
            return None;
        }
        self.find_move(transaction)?.called
    }

    /// Puts a request of the process itself into an owner's inbox.
    pub(super) fn tell(&mut self, id: OwnerId, tenant: u32, what: What, from: From) {
        let request = self.workload.mint(self.real);
        let ask = crate::ask::Ask { id: request, tenant, repeat: None, what };
        self.owners.get_mut(&id).expect(LIVES).inbox.push_back(Job { ask, from });
    }

    /// Somebody makes a registration that was kept: by a request with the name that it was kept under.
    pub(super) fn make_kept(&mut self) {
        let tenants = self.model.tenants.iter();
        let kept = tenants.flat_map(|(no, it)| it.people.operations.iter().map(|it| (*no, it)));
        let waiting = kept.filter(|(_, (_, how))| **how == Operation::Waiting);
        let waiting: Vec<(u32, Uid)> = waiting.map(|(no, (id, _))| (no, *id)).collect();
        if waiting.is_empty() {
            return;
        }
        let (tenant, operation) = *self.random.pick(&waiting);
        let what = self.workload.make(operation);
        let ask = crate::ask::Ask { id: operation, tenant, repeat: None, what };
        let id = self.owner_for(&ask);
        self.note(format!("makes {operation:x}"));
        let job = Job { ask, from: From::Maker };
        self.owners.get_mut(&id).expect(LIVES).inbox.push_back(job);
    }

    /// The resolver looks for outcomes to ask about: those that are due, and those whose call
    /// nobody runs any more.
    pub(super) fn resolve(&mut self) {
        if self.is(Mutant::NeverAsks) {
            return;
        }
        let now = Timestamp(self.when().domain);
        let mut due = self.disk.due(now);
        due.extend(self.disk.orphans());
        for outstanding in due {
            self.inquire(&outstanding);
        }
        for timer in self.disk.timers_due(now) {
            match timer.key.kind {
                TimerKind::DisputeBooking | TimerKind::DisputeEvidence => self.fire_dispute(&timer),
                TimerKind::PaymentAction => self.give_up(&timer),
                TimerKind::PaymentRetry => self.fire(&timer),
                TimerKind::LateRefund
                | TimerKind::MethodStep
                | TimerKind::Entitlements
                | TimerKind::Billing
                | TimerKind::InvoicePayment => {
                    unreachable!(
                        "no tenant refunds late successes, no gateway attaches methods, nothing is granted or billed"
                    )
                }
            }
        }
    }

    /// Fires the timer of a customer who was waited for: sometimes twice.
    fn give_up(&mut self, timer: &Timer) {
        let (tenant, transaction) = (timer.tenant.0, timer.key.object.as_u128());
        let payment = self.payment_of(tenant, transaction);
        let expired = Expired { payment, transaction, due: timer.due.0 };
        self.note(format!("gives up: {expired:x?}"));
        let owner = self.owner_of(tenant, payment);
        let is_same =
            |job: &Job| matches!(&job.ask.what, What::GiveUp(it) if it.transaction == transaction);
        if self.owners[&owner].inbox.iter().any(is_same) {
            return;
        }
        let times = if self.customers.chance(200) { 2 } else { 1 };
        for _ in 0..times {
            let id = self.workload.mint_from(&mut self.customers, self.real);
            let ask = Ask { id, tenant, repeat: None, what: What::GiveUp(expired) };
            let job = Job { ask, from: From::Resolver };
            self.owners.get_mut(&owner).expect(LIVES).inbox.push_back(job);
        }
    }

    /// The payment of a transaction.
    fn payment_of(&self, tenant: u32, transaction: Uid) -> Uid {
        let payments = self.model.tenants.get(&tenant).into_iter().flat_map(|it| &it.payments);
        let mut payments =
            payments.filter(|(_, it)| it.moves.iter().any(|it| it.id == transaction));
        payments.next().map(|(id, _)| *id).unwrap_or_default()
    }

    /// Fires a timer that is due: an inquiry, then the retry. Sometimes twice, or on a node that has lost the
    /// partition.
    fn fire(&mut self, timer: &Timer) {
        let attempt = self.attempt(timer);
        let (transaction, payment) = tried_by(&attempt);
        let tenant = timer.tenant.0;
        let owner = self.owner_of(tenant, payment);
        let is_about =
            |job: &Job| matches!(&job.ask.what, What::Retry(it) if it.transaction == transaction);
        if self.owners[&owner].inbox.iter().any(is_about) {
            return;
        }
        let called = self.called(transaction);
        let known = self.gateway.inquire(transaction, called, self.real);
        self.note(format!("fires: {transaction:x} {known:?}"));
        let is_answered = match known {
            Known::Found(outcome) => outcome.end != End::Undefined,
            Known::NotFound => true,
            Known::Unreachable => false,
        };
        let inquired = What::Inquired { payment, transaction, known, asked_at: self.real };
        let again = What::Retry(Again {
            account: timer.account.uuid().as_u128(),
            payment,
            transaction,
            attempt: timer.key.object.as_u128(),
            key: attempt.transaction_key,
            is_answered,
            due: timer.due.0,
        });
        self.tell(owner, tenant, inquired, From::Resolver);
        let no = self.owners[&owner].no;
        let others = self.owners.iter().filter(|(id, it)| **id != owner && it.no == no);
        let other = others.map(|(id, _)| *id).next();
        self.tell(owner, tenant, again.clone(), From::Resolver);
        if self.random.chance(200) {
            self.tell(other.unwrap_or(owner), tenant, again, From::Resolver);
        }
    }

    /// A client reads a payment with what the gateway knows of it.
    pub(super) fn refresh(&mut self) {
        let open = self.model.tenants.iter().flat_map(|(no, tenant)| {
            let payments = tenant.payments.iter();
            let open = payments.filter(|(_, it)| it.moves.iter().any(|it| it.status.is_open()));
            open.map(|(id, _)| (*no, *id))
        });
        let open: Vec<(u32, Uid)> = open.collect();
        if !open.is_empty() {
            let (tenant, payment) = *self.random.pick(&open);
            self.refresh_payment(tenant, payment);
        }
    }

    pub(super) fn refresh_payment(&mut self, tenant: u32, payment: Uid) {
        let tenant = domain::TenantNo(tenant);
        for outstanding in self.disk.outstanding_of(tenant, translate::id(payment)) {
            self.inquire(&outstanding);
        }
    }

    /// The owner of its partition asks the gateway, and now and then so does one that was it.
    fn inquire(&mut self, outstanding: &Outstanding) {
        let payment = outstanding.payment_id.uuid().as_u128();
        let owner = self.owner_of(outstanding.tenant.0, payment);
        self.inquire_as(owner, outstanding);
        if self.is_shared() && self.random.chance(200) {
            let no = self.owners[&owner].no;
            let mut others = self.owners.iter().filter(|(id, it)| **id != owner && it.no == no);
            if let Some((id, _)) = others.next() {
                self.inquire_as(*id, outstanding);
            }
        }
    }

    /// Asks, unless the call itself still runs there or the question is under way.
    fn inquire_as(&mut self, id: OwnerId, outstanding: &Outstanding) {
        let transaction = outstanding.transaction_id.uuid().as_u128();
        let payment = outstanding.payment_id.uuid().as_u128();
        let is_about = |what: &What| {
            matches!(
                what,
                What::Replied { transaction: it, .. } | What::Inquired { transaction: it, .. }
                    if *it == transaction
            )
        };
        let owner = &self.owners[&id];
        let under_way = owner.inbox.iter().any(|job| is_about(&job.ask.what));
        if owner.running.contains_key(&transaction) || under_way {
            return;
        }
        let called = self.called(transaction);
        let known = self.gateway.inquire(transaction, called, self.real);
        self.note(format!("inquires: {transaction:x} {known:?}"));
        let what = What::Inquired { payment, transaction, known, asked_at: self.real };
        self.tell(id, outstanding.tenant.0, what, From::Resolver);
    }

    /// Somebody heard elsewhere how a pending transaction ended; the gateway holds the same.
    pub(super) fn hearsay(&mut self) {
        let Some((tenant, payment, transaction)) =
            self.some_move(|status| status == Status::Pending)
        else {
            return;
        };
        let worked = match self.random.below(10) {
            0 => None,
            1..=6 => Some(true),
            _ => Some(false),
        };
        let called = self.find_move(transaction).and_then(|it| it.called);
        let worked = worked.and_then(|worked| {
            self.gateway.decide(transaction, worked);
            self.mark_amount(transaction, called);
            self.gateway.stand(transaction).map(|stand| stand == Stand::Done)
        });
        let what = What::Hearsay { payment, transaction, worked };
        self.client_wants(tenant, what, false);
    }

    /// An operator puts a transaction right that nobody else could, after a look into the gateway's
    /// back office; now and then without one.
    pub(super) fn operator(&mut self) {
        let Some((tenant, payment, transaction)) = self.some_move(|_| true) else { return };
        let status = if self.random.chance(100) {
            self.ledgers.astray.insert(transaction);
            *self.random.pick(&[Status::Running, Status::Success, Status::Declined, Status::Failed])
        } else {
            match self.truth(transaction) {
                Some(status)
                    if self.find_move(transaction).is_some_and(|it| it.status != status) =>
                {
                    status
                }
                Some(_) | None => return,
            }
        };
        let has_reason = !self.random.chance(100);
        let fix = What::Fix { payment, transaction, status, has_reason };
        self.client_wants(tenant, fix, false);
    }

    /// How a transaction really ended; `None` where that cannot be known yet.
    pub(super) fn truth(&mut self, transaction: Uid) -> Option<Status> {
        let it = self.find_move(transaction)?;
        if !it.is_called() {
            return Some(Status::Success);
        }
        let settle_after_us = self.model.rules.gateways[it.gateway].settle_after_us;
        let over = it.open.is_none_or(|open| self.real > open.deadline + settle_after_us);
        if self.is_running(transaction) || !over {
            return None;
        }
        self.gateway.decide(transaction, true);
        self.mark_amount(transaction, it.called);
        match self.gateway.stand(transaction) {
            None => Some(Status::Failed),
            Some(Stand::Done) => Some(Status::Success),
            Some(Stand::Declined) => Some(Status::Declined),
            Some(Stand::Canceled | Stand::Pending) => Some(Status::Failed),
        }
    }

    /// Who says that a transaction worked says no amount: where the gateway processed less, the
    /// books go astray.
    fn mark_amount(&mut self, transaction: Uid, called: Option<i64>) {
        if self.gateway.book.get(&transaction).is_some_and(|line| line.amount != called) {
            self.ledgers.astray.insert(transaction);
        }
    }

    /// A call may have left or arrived, or the gateway changed its mind, since the one who says how a
    /// transaction ended has looked: the books have what was said.
    pub(super) fn mark_outdated(&mut self, what: &What) {
        let (transaction, worked) = if let What::Fix { transaction, status, .. } = what {
            (*transaction, Some(*status == Status::Success))
        } else if let What::Hearsay { transaction, worked, .. } = what {
            (*transaction, *worked)
        } else {
            return;
        };
        let called = self.find_move(transaction).and_then(|it| it.called);
        self.mark_amount(transaction, called);
        let stands = self.gateway.stand(transaction) == Some(Stand::Done);
        if worked.is_some_and(|worked| worked != stands) {
            self.ledgers.astray.insert(transaction);
        }
    }

    pub(super) fn find_move(&self, transaction: Uid) -> Option<crate::model::Move> {
        let payments = self.model.tenants.values().flat_map(|tenant| tenant.payments.values());
        let mut moves = payments.flat_map(|payment| &payment.moves);
        moves.find(|it| it.id == transaction).cloned()
    }

    fn some_move(&mut self, of: impl Fn(Status) -> bool) -> Option<(u32, Uid, Uid)> {
        let mut found = vec![];
        for (no, tenant) in &self.model.tenants {
            for (id, payment) in &tenant.payments {
                let moves = payment.moves.iter().filter(|it| of(it.status));
                found.extend(moves.map(|it| (*no, *id, it.id)));
            }
        }
        (!found.is_empty()).then(|| *self.random.pick(&found))
    }

    /// When something is to be done next, in real time: an event, or a question.
    pub(super) fn next_due(&self) -> Option<i64> {
        let event = self.events.first().map(|((at, _), _)| *at);
        let far = Timestamp(i64::MAX);
        let runs = |id: domain::TransactionId| self.is_running(id.uuid().as_u128());
        let due = self.disk.due(far);
        let question = due.iter().find(|it| !runs(it.transaction_id)).and_then(|it| it.ask_at);
        let question = question.map(|at| (at.0 - self.offset).max(self.real));
        let orphan = (!self.disk.orphans().is_empty()).then_some(self.real + SECOND_US);
        let asked: BTreeSet<Uid> = due.iter().map(|it| it.payment_id.uuid().as_u128()).collect();
        let timers = self.disk.timers_due(far);
        let timer = timers.iter().find(|timer| !self.is_held(timer, &asked));
        let timer = timer.map(|it| (it.due.0 - self.offset).max(self.real));
        [event, question, orphan, timer].into_iter().flatten().min()
    }

    /// Whether what a timer is for would be put off for ever: an outcome of its payment is open, and the gateway is asked
    /// about it no more. `asked` are the payments that it is still asked about.
    fn is_held(&self, timer: &Timer, asked: &BTreeSet<Uid>) -> bool {
        let payment = match timer.key.kind {
            TimerKind::DisputeBooking => self.dispute_of(timer).map(|(_, case)| case.payment),
            TimerKind::PaymentAction => {
                Some(self.payment_of(timer.tenant.0, timer.key.object.as_u128()))
            }
            TimerKind::PaymentRetry => Some(tried_by(&self.attempt(timer)).1),
            TimerKind::DisputeEvidence
            | TimerKind::LateRefund
            | TimerKind::MethodStep
            | TimerKind::Entitlements
            | TimerKind::Billing
            | TimerKind::InvoicePayment => None,
        };
        let Some(payment) = payment else { return false };
        let file = self.model.payment(timer.tenant.0, payment);
        // A customer is given up while something is pending, and not while something is in doubt.
        let is_customers = timer.key.kind == TimerKind::PaymentAction;
        let holds = |it: &Status| it.is_doubtful() || (it.is_open() && !is_customers);
        let is_held = |it: &Payment| it.moves.iter().any(|it| holds(&it.status));
        !asked.contains(&payment) && file.is_some_and(is_held)
    }

    /// The attempt that a timer is set for.
    fn attempt(&self, timer: &Timer) -> PaymentAttempt {
        let attempt = self.disk.attempt(timer.tenant, domain::AttemptId::new(timer.key.object));
        attempt.expect("a timer is set for an attempt")
    }
}

/// The transaction of an attempt, and its payment.
fn tried_by(attempt: &PaymentAttempt) -> (Uid, Uid) {
    let transaction = attempt.transaction_id.expect("it has one").uuid().as_u128();
    (transaction, attempt.payment_id.expect("it has one").uuid().as_u128())
}
