//! Disputes: banks take money back and give it back, and gateways notify of that at any moment, twice, late, and
//! sometimes of another payment.

use domain::timer::{Timer, TimerKind};

use super::owners::LIVES;
use super::{From, HOUR_US, Job, World};
use crate::ask::{Ask, Code, Disputed, Late, Stage, Status, Uid, What};
use crate::disk::Disk;
use crate::model::{self, Move};
use crate::random::Random;

/// The gateways' disputes, and the random sources that they are drawn from.
#[derive(Debug)]
pub(super) struct Disputes {
    random: Random,
    /// Whether there are any in this world: they change what else happens, so that every second has none.
    are_there: bool,
    cases: Vec<Case>,
    /// Apart from the rest, which goes as it would without them.
    stages: Random,
}

/// A case of a gateway.
#[derive(Clone, Copy, Debug)]
struct Case {
    tenant: u32,
    payment: Uid,
    transaction: Uid,
    gateway: &'static str,
    currency: Code,
    withdrawn: i64,
    reinstated: i64,
    stage: Stage,
    /// In domain time.
    due_by: Option<i64>,
}

impl Disputes {
    pub(super) fn new(seed: u64) -> Self {
        let random = Random::new(seed, "disputes");
        let stages = Random::new(seed, "stages");
        Self { random, are_there: !seed.is_multiple_of(2), cases: vec![], stages }
    }

    /// Where a dispute begins: with a question of the bank's, or with the money.
    fn begins(&mut self) -> Stage {
        *self.stages.pick(&[Stage::Asked, Stage::Disputed, Stage::Answered])
    }

    /// When evidence is due of what stands so, in domain time: mostly later than when a warning is given.
    fn due_by(&mut self, stage: Stage, now: i64) -> Option<i64> {
        let is_due = stage.awaits_evidence() && self.stages.chance(900);
        is_due.then(|| now + self.stages.between(-24, 240) * HOUR_US)
    }

    /// A dispute goes on to a later stage; gives it as it was before.
    fn go_on(&mut self, at: usize, now: i64) -> Option<Case> {
        let before = self.cases[at];
        let later = [Stage::AskedAndAnswered, Stage::Disputed, Stage::Answered, Stage::Lost];
        let later: Vec<Stage> = later.into_iter().filter(|it| *it > before.stage).collect();
        if later.is_empty() || !self.stages.chance(400) {
            return None;
        }
        let stage = *self.stages.pick(&later);
        let due_by = self.due_by(stage, now);
        self.cases[at] = Case { stage, due_by, ..before };
        Some(before)
    }
}

impl<D: Disk> World<D> {
    /// Now and then a bank acts, or a gateway notifies.
    pub(super) fn dispute(&mut self) {
        if !self.disputes.are_there || !self.disputes.random.chance(60) {
            return;
        }
        let random = &mut self.disputes.random;
        let (what, count) = (random.below(10), self.disputes.cases.len());
        if what < 4 || count == 0 {
            self.open_case();
            return;
        }
        let at = random.index(count);
        let (now, asked_at) = (self.when().domain, self.real);
        let before = self.disputes.go_on(at, now);
        let random = &mut self.disputes.random;
        let case = &mut self.disputes.cases[at];
        let taken = case.withdrawn - case.reinstated;
        match what {
            4..=6 if taken > 0 => case.reinstated += random.between(1, taken),
            7 => case.withdrawn += random.between(1, case.withdrawn),
            _ => {}
        }
        let case = *case;
        self.notify_of((at, asked_at), case);
        // An older answer comes later.
        if self.disputes.random.chance(300) {
            let withdrawn = self.disputes.random.between(0, case.withdrawn);
            let Case { stage, due_by, .. } = before.unwrap_or(case);
            let older = Case { withdrawn, reinstated: 0, stage, due_by, ..case };
            self.notify_of((at, asked_at - 1), older);
        }
        // Another payment's case is not to be believed.
        if self.disputes.random.chance(600)
            && let Some((tenant, payment, it)) = self.disputed_charge()
            && tenant == case.tenant
            && it.gateway == case.gateway
        {
            let (transaction, currency) = (it.id, it.currency);
            let anothers = Case { payment, transaction, currency, ..case };
            self.notify_of((at, asked_at), anothers);
        }
    }

    /// Every gateway repeats what it has.
    pub(super) fn repeat_disputes(&mut self) {
        for at in 0..self.disputes.cases.len() {
            self.notify_of((at, self.real), self.disputes.cases[at]);
        }
    }

    fn open_case(&mut self) {
        let Some((tenant, payment, it)) = self.disputed_charge() else { return };
        let random = &mut self.disputes.random;
        let part = random.between(1, it.processed.max(1));
        let withdrawn = *random.pick(&[it.processed, part, it.processed + part]);
        let now = self.when().domain;
        let stage = self.disputes.begins();
        let due_by = self.disputes.due_by(stage, now);
        let case = Case {
            tenant,
            payment,
            transaction: it.id,
            gateway: it.gateway,
            currency: it.currency,
            withdrawn,
            reinstated: 0,
            stage,
            due_by,
        };
        self.disputes.cases.push(case);
        self.notify_of((self.disputes.cases.len() - 1, self.real), case);
    }

    /// A charge that worked.
    fn disputed_charge(&mut self) -> Option<(u32, Uid, Move)> {
        let mut found = vec![];
        for (no, tenant) in &self.model.tenants {
            for (id, payment) in &tenant.payments {
                let worked = payment.moves.iter().filter(|it| it.status == Status::Success);
                let charges = worked.filter(|it| it.starts() && it.is_called());
                found.extend(charges.map(|it| (*no, *id, it.clone())));
            }
        }
        (!found.is_empty()).then(|| self.disputes.random.pick(&found).clone())
    }

    fn notify_of(&mut self, (at, asked_at): (usize, i64), case: Case) {
        let what = What::Disputed(Disputed {
            payment: case.payment,
            transaction: case.transaction,
            gateway: case.gateway,
            case: u32::try_from(at).expect("there are few"),
            currency: case.currency,
            stage: case.stage,
            due_by: case.due_by,
            withdrawn: case.withdrawn,
            reinstated: case.reinstated,
            asked_at,
        });
        self.note(format!("disputes: {what:x?}"));
        let times = if self.disputes.random.chance(200) { 2 } else { 1 };
        for _ in 0..times {
            self.tell_of_dispute(case.tenant, case.payment, what.clone(), From::Notification);
        }
    }

    /// The dispute that a timer is of, with its name.
    pub(super) fn dispute_of(&self, timer: &Timer) -> Option<((&'static str, u32), model::Case)> {
        let of = timer.key.object.as_u128();
        let mut cases = self.model.tenants.get(&timer.tenant.0)?.disputes.iter();
        cases.find(|(_, it)| it.id == of).map(|(name, case)| (*name, *case))
    }

    /// Fires the timer of a booking that waits, or of evidence that is due soon.
    pub(super) fn fire_dispute(&mut self, timer: &Timer) {
        let tenant = timer.tenant.0;
        let Some(((gateway, case), known)) = self.dispute_of(timer) else { return };
        let (payment, dispute, due) = (known.payment, known.id, timer.due.0);
        let late = Late { payment, dispute, gateway, case, due };
        self.note(format!("fires: {late:x?}"));
        let times = if self.disputes.random.chance(200) { 2 } else { 1 };
        let is_booking = timer.key.kind == TimerKind::DisputeBooking;
        for _ in 0..times {
            let what = if is_booking { What::BookDispute(late) } else { What::WarnOfDispute(late) };
            self.tell_of_dispute(tenant, late.payment, what, From::Resolver);
        }
    }

    fn tell_of_dispute(&mut self, tenant: u32, payment: Uid, what: What, from: From) {
        let id = self.workload.mint_from(&mut self.disputes.random, self.real);
        let ask = Ask { id, tenant, repeat: None, what };
        let owner = self.owner_of(tenant, payment);
        self.owners.get_mut(&owner).expect(LIVES).inbox.push_back(Job { ask, from });
    }
}
