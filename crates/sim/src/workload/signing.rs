//! The clients' requests about customers: of few addresses, so that they meet, and now and then of erased customers.

use super::Workload;
use crate::ask::signup::{FieldChange, Join, Proof, Who, Wish};
use crate::ask::{CURRENCIES, Uid, What};
use crate::model::{Customer, Tenant};

/// How many addresses there are for a tenant.
const ADDRESSES: u64 = 5;

impl Workload {
    /// Something about customers.
    pub(super) fn about_customers(&mut self, tenant: &Tenant) -> What {
        let there = tenant.people.customers.iter().filter(|(_, it)| it.address.is_some());
        let there: Vec<(Who, &Customer)> =
            there.map(|(id, it)| (Who { id: *id, account: it.account }, it)).collect();
        let kind = self.random.below(100);
        if there.is_empty() || kind < 18 {
            return What::Customers(Wish::Join(self.join()));
        }
        let (mut who, it) = *self.random.pick(&there);
        if self.random.chance(30) {
            who.id = self.somebody_else(tenant);
        }
        What::Customers(match kind {
            18..=31 => Wish::Verify { who, token: self.token(it.verification) },
            32..=37 => Wish::NewToken { who, reset: self.random.chance(600) },
            38..=43 => Wish::NewPassword { who, proof: self.proof(it) },
            44..=57 => Wish::Login { who, version: self.version(it) },
            58..=69 => self.with_session(who, it),
            70..=75 => Wish::Change {
                who,
                name: self.random.chance(600).then(|| self.name()),
                active: self.random.chance(500).then(|| self.random.chance(700)),
            },
            76..=83 => Wish::Erase { who, if_expired: self.random.chance(400) },
            84..=88 => Wish::Queue,
            89..=90 => self.fail(tenant),
            91..=94 => self.tag(tenant),
            _ => self.fields(tenant),
        })
    }

    /// Somebody signs up.
    pub fn join(&mut self) -> Join {
        Join {
            address: format!("a{}@example.org", self.random.below(ADDRESSES)),
            name: self.name(),
            currency: self.random.chance(800).then(|| self.random.pick(&CURRENCIES).0),
            tell: self.random.chance(400),
            given: self.random.chance(300),
            operation: None,
        }
    }

    /// The request that makes a queued registration.
    pub fn make(&mut self, operation: Uid) -> What {
        What::Customers(Wish::Join(Join { operation: Some(operation), ..self.join() }))
    }

    fn name(&mut self) -> String {
        format!("First{}", self.random.below(9))
    }

    /// Somebody who is forgotten, or was never there.
    fn somebody_else(&mut self, tenant: &Tenant) -> Uid {
        let forgotten = tenant.people.customers.iter().filter(|(_, it)| it.address.is_none());
        let ids: Vec<Uid> = forgotten.map(|(id, _)| *id).collect();
        if ids.is_empty() { self.mint(0) } else { *self.random.pick(&ids) }
    }

    fn token(&mut self, held: Option<(Uid, i64)>) -> Uid {
        match held {
            Some((token, _)) if self.random.chance(900) => token,
            _ => self.mint(0),
        }
    }

    fn version(&mut self, it: &Customer) -> i64 {
        if self.random.chance(900) { it.version } else { it.version - 1 }
    }

    fn proof(&mut self, it: &Customer) -> Proof {
        if it.reset.is_some() || self.random.chance(200) {
            Proof::Token(self.token(it.reset))
        } else {
            Proof::Version(self.version(it))
        }
    }

    fn with_session(&mut self, who: Who, it: &Customer) -> Wish {
        let Some(own) = (!it.sessions.is_empty()).then(|| self.random.pick(&it.sessions)) else {
            return Wish::Login { who, version: self.version(it) };
        };
        match self.random.below(100) {
            0..=24 => Wish::Logout { who, session: self.random.chance(600).then_some(own.id) },
            // A token that was shown before: somebody has it who should not.
            25..=44 => {
                let generation = own.generation.saturating_sub(1);
                Wish::Refresh { who, session: own.id, generation }
            }
            45..=47 => Wish::Refresh { who, session: self.mint(0), generation: 0 },
            48..=49 => Wish::Refresh { who, session: own.id, generation: own.generation + 1 },
            _ => Wish::Refresh { who, session: own.id, generation: own.generation },
        }
    }

    fn fail(&mut self, tenant: &Tenant) -> Wish {
        let kept: Vec<Uid> = tenant.people.operations.keys().copied().collect();
        let operation = if kept.is_empty() || self.random.chance(50) {
            self.mint(0)
        } else {
            *self.random.pick(&kept)
        };
        Wish::Fail { operation }
    }

    /// Mostly of objects that have fields already, so that these change.
    fn fields(&mut self, tenant: &Tenant) -> Wish {
        let known: Vec<(Uid, Option<Uid>)> = tenant.people.fields.keys().copied().collect();
        let (account, payment) = if known.is_empty() || self.random.chance(400) {
            let account = self.account(tenant);
            let of_account = tenant.payments.iter().filter(|(_, it)| it.account == account);
            let payments: Vec<Uid> = of_account.map(|(id, _)| *id).collect();
            let is_of_payment = !payments.is_empty() && self.random.chance(500);
            (account, is_of_payment.then(|| *self.random.pick(&payments)))
        } else {
            *self.random.pick(&known)
        };
        let first = tenant.people.fields.get(&(account, payment)).into_iter().flatten();
        let first: Vec<Uid> = first.filter_map(|it| it.first_of).collect();
        let change = match self.random.below(10) {
            0 => FieldChange::Clear,
            1..=4 if !first.is_empty() => {
                FieldChange::Set { made_by: *self.random.pick(&first), value: self.name() }
            }
            5 => FieldChange::Set { made_by: self.mint(0), value: self.name() },
            _ => {
                let count = 1 + self.random.below(2);
                let new = (0..count).map(|at| (format!("n{at}"), self.name()));
                FieldChange::Add(new.collect())
            }
        };
        Wish::Fields { account, payment, change }
    }

    fn tag(&mut self, tenant: &Tenant) -> Wish {
        let tagged: Vec<Uid> = tenant.people.tags.keys().map(|(account, _)| *account).collect();
        let account = if tagged.is_empty() || self.random.chance(300) {
            self.account(tenant)
        } else {
            *self.random.pick(&tagged)
        };
        let count = 1 + self.random.below(2);
        let mut numbers: Vec<u8> = vec![];
        for _ in 0..count {
            // There are nine, and some ask for a tenth.
            numbers.push(self.random.weighted(&[(8, 1), (3, 5), (3, 6), (1, 4), (1, 10)]));
        }
        Wish::Tag { account, numbers, off: self.random.chance(450) }
    }
}
