//! Disputes: what banks take back and give back, as plain sums.

use super::paying::{MoveAt, field};
use super::{Expected, Model, Move, Way};
use crate::ask::{Created, Disputed, Kind, Late, Reason, Said, Stage, Uid, When};

const MINUTE_US: i64 = 60_000_000;
const HOUR_US: i64 = 60 * MINUTE_US;

/// How long before evidence is due a warning is given.
const WARNED_BEFORE_US: i64 = 72 * HOUR_US;

/// How many names the chargebacks of a case may have.
const NAMES_MAX: u32 = 8;

/// A dispute.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub id: Uid,
    pub payment: Uid,
    /// The charge.
    pub transaction: Uid,
    pub withdrawn: i64,
    pub reinstated: i64,
    /// Charged back.
    pub back: i64,
    /// Of that, reversed.
    pub reversed: i64,
    /// Withdrawn, and more than there was.
    pub excess: i64,
    /// Of that, given back; or given back beyond everything.
    pub excess_back: i64,
    /// When it is tried again, in domain time.
    pub waits: Option<i64>,
    pub stage: Stage,
    /// When evidence is due, in domain time.
    pub due_by: Option<i64>,
    /// Of which of these times a warning was given.
    pub warned_of: Option<i64>,
    /// When a warning is given, in domain time.
    pub warns: Option<i64>,
    /// Real time of the question that the stage answers.
    pub asked_at: i64,
    /// When it last changed, in domain time.
    pub changed: i64,
}

type Name = (&'static str, u32);

fn key((gateway, case): Name, number: u32) -> String {
    let suffix = if number == 1 { String::new() } else { format!("/{number}") };
    format!("{gateway}/c-{case}{suffix}")
}

/// The money that a bank takes back, or gives back.
struct BankMove {
    kind: Kind,
    key: String,
    amount: i64,
}

impl Model {
    pub(super) fn disputed(
        &mut self,
        (tenant_no, it): (u32, &Disputed),
        when: When,
        created: Created,
    ) -> Expected {
        let tenant = self.tenant(tenant_no);
        let Some(payment) = tenant.payments.get(&it.payment) else {
            return Expected::refused(Reason::NoPayment);
        };
        let charge = payment.moves.iter().find(|own| own.id == it.transaction);
        if charge.is_none_or(|charge| charge.gateway != it.gateway) {
            return Expected::refused(Reason::NoTransaction);
        }
        let name = (it.gateway, it.case);
        let known = tenant.disputes.get(&name).copied();
        if known.is_some_and(|known| known.payment != it.payment) {
            return Expected::refused(field("case"));
        }
        let mut case = known.unwrap_or(Case {
            id: created.dispute.unwrap_or_default(),
            payment: it.payment,
            transaction: it.transaction,
            withdrawn: 0,
            reinstated: 0,
            back: 0,
            reversed: 0,
            excess: 0,
            excess_back: 0,
            waits: None,
            stage: it.stage,
            due_by: it.due_by,
            warned_of: None,
            warns: None,
            asked_at: it.asked_at,
            changed: when.domain,
        });
        if it.asked_at >= case.asked_at {
            (case.stage, case.due_by, case.asked_at) = (it.stage, it.due_by, it.asked_at);
        }
        if !it.stage.is_warning() {
            case.withdrawn = case.withdrawn.max(it.withdrawn);
            case.reinstated = case.reinstated.max(it.reinstated);
        }
        self.book((tenant_no, name), (known, case), when, created);
        Expected::Said(Said::Done)
    }

    /// A timer fires.
    pub(super) fn book_dispute(
        &mut self,
        (tenant_no, it): (u32, &Late),
        when: When,
        created: Created,
    ) -> Expected {
        let name = (it.gateway, it.case);
        let known = self.tenant(tenant_no).disputes.get(&name).copied();
        let is_due = |case: &Case| case.waits == Some(it.due) && it.due <= when.domain;
        if let Some(case) = known.filter(is_due) {
            self.book((tenant_no, name), (known, case), when, created);
        }
        Expected::Said(Said::Done)
    }

    /// A timer fires: a warning is given, unless it is too late for it.
    pub(super) fn warn_of_dispute(
        &mut self,
        (tenant_no, it): (u32, &Late),
        when: When,
    ) -> Expected {
        let case = self.tenant(tenant_no).disputes.get_mut(&(it.gateway, it.case));
        if let Some(case) = case
            && case.warns == Some(it.due)
            && it.due <= when.domain
        {
            let in_time =
                case.due_by.filter(|it| case.stage.awaits_evidence() && *it > when.domain);
            case.warned_of = in_time.or(case.warned_of);
            case.warns = None;
        }
        Expected::Said(Said::Done)
    }

    fn book(
        &mut self,
        (tenant_no, name): (u32, Name),
        (before, mut case): (Option<Case>, Case),
        when: When,
        created: Created,
    ) {
        let out = case.withdrawn - case.back - case.excess;
        let back = case.reinstated - case.reversed - case.excess_back;
        let payment = &self.tenant(tenant_no).payments[&case.payment];
        case.waits = None;
        if out == 0 && back == 0 {
        } else if payment.moves.iter().any(|it| it.status.is_open()) {
            let wait = (when.domain - case.changed).clamp(MINUTE_US, HOUR_US);
            case.waits = Some(when.domain + wait);
        } else {
            let mut ids = created.moves.into_iter().flatten();
            self.withdraw((tenant_no, name), (&mut case, out), (when, &mut ids));
            self.reinstate((tenant_no, name), (&mut case, back), (when, &mut ids));
        }
        let news = |it: &Case| {
            let sums =
                (it.withdrawn, it.reinstated, it.back, it.reversed, it.excess, it.excess_back);
            (sums, it.stage, it.due_by)
        };
        if before.is_none_or(|before| news(&before) != news(&case)) {
            case.changed = when.domain;
        }
        let to_warn = case.due_by.filter(|at| {
            case.stage.awaits_evidence() && case.warned_of != Some(*at) && *at > when.domain
        });
        case.warns = to_warn.map(|at| (at - WARNED_BEFORE_US).max(when.domain));
        self.tenant(tenant_no).disputes.insert(name, case);
    }

    fn withdraw(
        &mut self,
        (tenant_no, name): (u32, Name),
        (case, amount): (&mut Case, i64),
        (when, ids): (When, &mut dyn Iterator<Item = Uid>),
    ) {
        let most = self.rules.transactions_max;
        let tenant = self.tenant(tenant_no);
        let payment = &tenant.payments[&case.payment];
        let at = payment.moves.iter().position(|it| it.id == case.transaction).unwrap_or(0);
        let mut keys = (1..=NAMES_MAX).map(|number| key(name, number));
        let free = keys.find(|key| !tenant.key_owners.contains_key(key));
        let left = payment.beside(at).left_to_return();
        let fits = amount.min(left);
        match free {
            Some(key) if fits > 0 && payment.moves.len() < most => {
                let of = payment.moves[at].clone();
                let taken = BankMove { kind: Kind::Chargeback, key, amount: fits };
                self.add((tenant_no, case.payment), taken, &of, (when, ids));
                case.back += fits;
                case.excess += amount - fits;
            }
            Some(_) | None => case.excess += amount,
        }
    }

    fn reinstate(
        &mut self,
        (tenant_no, name): (u32, Name),
        (case, amount): (&mut Case, i64),
        (when, ids): (When, &mut dyn Iterator<Item = Uid>),
    ) {
        let of_excess = (case.excess - case.excess_back).max(0).min(amount);
        case.excess_back += of_excess;
        let mut rest = amount - of_excess;
        for number in (1..=NAMES_MAX).rev() {
            let key = key(name, number);
            let most = self.rules.transactions_max;
            let payment = &self.tenant(tenant_no).payments[&case.payment];
            let open = payment.left_to_reverse(&key).min(rest);
            if open <= 0 || payment.moves.len() >= most {
                continue;
            }
            let of = payment.last_of(|it| it.kind == Kind::Chargeback && it.is_named(&key));
            let of = payment.moves[of.expect("some of it is not reversed")].clone();
            let given = BankMove { kind: Kind::Reversal, key, amount: open };
            self.add((tenant_no, case.payment), given, &of, (when, ids));
            case.reversed += open;
            rest -= open;
        }
        case.excess_back += rest;
    }

    fn add(
        &mut self,
        (tenant_no, id): (u32, Uid),
        BankMove { kind, key, amount }: BankMove,
        of: &Move,
        (when, ids): (When, &mut dyn Iterator<Item = Uid>),
    ) {
        let tenant = self.tenant(tenant_no);
        tenant.key_owners.insert(key.clone(), id);
        let payment = tenant.payments.get_mut(&id).expect("it is disputed");
        let begun =
            Move::begun((kind, Some(key)), (of.gateway, of.method), Some(amount), payment.currency);
        let own = ids.next().unwrap_or_default();
        let way = Way { first: own, ..Way::default() };
        payment.moves.push(Move { id: own, begun: when.domain, way, ..begun });
        let at = payment.moves.len() - 1;
        self.send(MoveAt { tenant: tenant_no, payment: id, at }, (when, None));
    }
}
