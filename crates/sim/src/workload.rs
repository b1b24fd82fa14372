//! The requests of the simulated clients: of every kind, in every order, often about the same payment,
//! and now and then impossible ones.

mod combo;
mod signing;

use crate::ask::{
    Ask, CURRENCIES, Code, Completion, Dropped, Follow, Kind, Limits, Orders, RETIRED, ROUTER,
    Repeat, Start, Status, Uid, What, decimal,
};
use crate::model::{EXTERNAL, Model, Payment, Tenant};
use crate::random::Random;

/// A gateway that is called.
pub const CARD: &str = "card";
/// Another gateway that is called.
pub const WALLET: &str = "wallet";
/// A third one.
pub const BANK: &str = "bank";

/// How much of what is wanted is about customers: payments are what matters.
const CUSTOMERS_PERMILLE: u64 = 90;

/// How many starts of payments name the control plugin.
const CONTROLLED_PERMILLE: u64 = 250;

/// How many ask to be retried, which only controlled ones are.
const RETRIED_PERMILLE: u64 = 500;

/// The simulated clients.
#[derive(Debug)]
pub struct Workload {
    random: Random,
    /// A separate source for requests that were added later, so that the other draws stay as they were.
    later: Random,
    /// The same, of routing.
    routing: Random,
    /// The same, of what customers have to do.
    acting: Random,
    made: u64,
    /// Idempotency keys of earlier requests, to be misused.
    repeats: Vec<Repeat>,
}

impl Workload {
    /// The clients of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed, "workload"),
            later: Random::new(seed, "later"),
            routing: Random::new(seed, "routing"),
            acting: Random::new(seed, "acting"),
            made: 0,
            repeats: vec![],
        }
    }

    /// A new request id: the time, then a counter among random bits (RFC 9562, version 7).
    pub fn mint(&mut self, real_us: i64) -> Uid {
        self.made += 1;
        let ms = u128::from((real_us / 1000).unsigned_abs()) & 0xffff_ffff_ffff;
        let random = u128::from(self.random.below(0x1000));
        let rest = (u128::from(self.made) << 30) | u128::from(self.random.below(1 << 30));
        (ms << 80) | (7 << 76) | (random << 64) | (2 << 62) | (rest & ((1 << 62) - 1))
    }

    /// The id of a request that a source of its own draws: what others draw stays as it was.
    pub fn mint_from(&mut self, random: &mut Random, real_us: i64) -> Uid {
        self.made += 1;
        let ms = u128::from((real_us / 1000).unsigned_abs()) & 0xffff_ffff_ffff;
        let rest = (u128::from(self.made) << 30) | u128::from(random.below(1 << 30));
        let version = u128::from(random.below(0x1000));
        (ms << 80) | (7 << 76) | (version << 64) | (2 << 62) | (rest & ((1 << 62) - 1))
    }

    /// A request as this client sends it: sometimes one that can come twice.
    pub fn ask(&mut self, real_us: i64, tenant: u32, what: What) -> Ask {
        let id = self.mint(real_us);
        let repeat = match self.random.below(100) {
            0..=39 => {
                let print = u128::from(self.random.draw());
                Some(Repeat { key: u128::from(self.random.draw()), print })
            }
            40..=41 if !self.repeats.is_empty() => {
                let old = *self.random.pick(&self.repeats);
                Some(Repeat { print: u128::from(self.random.draw()), ..old })
            }
            _ => None,
        };
        self.repeats.extend(repeat);
        Ask { id, tenant, repeat, what }
    }

    /// The next request of a client, with its tenant's number.
    pub fn next(&mut self, model: &Model) -> (u32, What) {
        let numbers: Vec<u32> = model.tenants.keys().copied().collect();
        let no = *self.random.pick(&numbers);
        let tenant = &model.tenants[&no];
        if tenant.accounts.is_empty() && self.random.chance(800) {
            return (no, self.new_account(tenant));
        }
        if self.random.chance(CUSTOMERS_PERMILLE) {
            return (no, self.about_customers(tenant));
        }
        let what = match self.random.below(100) {
            0 => What::NewTenant { api_key: format!("tenant-{}", self.random.below(4)) },
            1 => What::SetValue {
                key: format!("key-{}", self.random.below(3)),
                value: self.random.chance(700).then(|| self.random.below(9).to_string()),
            },
            2..=4 => self.new_account(tenant),
            5..=9 => self.new_method(tenant),
            10 if self.random.chance(500) => self.rename(tenant),
            10 => self.set_limits(no),
            11 if self.routing.chance(250) => self.set_routing(),
            11 => self.set_default(tenant),
            12 => self.state(tenant),
            13..=14 => self.drop_method(tenant),
            15..=37 => self.start(model, no),
            38..=44 => self.combo(model, no),
            45..=84 => self.follow(model, no),
            85..=91 => self.complete(tenant),
            92..=97 => self.try_again(tenant).unwrap_or_else(|| self.start(model, no)),
            _ => self.start(model, no),
        };
        (no, what)
    }

    fn new_account(&mut self, tenant: &Tenant) -> What {
        let old = tenant.accounts.values().filter_map(|account| account.key.clone());
        let key = self.key("a", old.collect(), 100);
        let currency = self.random.chance(800).then(|| self.random.pick(&CURRENCIES).0);
        What::NewAccount { key, currency }
    }

    /// A new payment method, mostly of a gateway that is called.
    pub fn new_method(&mut self, tenant: &Tenant) -> What {
        let account = self.account(tenant);
        let old = tenant.methods.values().filter_map(|method| method.key.clone());
        let key = self.key("m", old.collect(), 50);
        let gateway = self.random.weighted(&[(50, CARD), (30, WALLET), (20, EXTERNAL)]);
        let gateway = if self.routing.chance(120) { ROUTER } else { gateway };
        What::NewMethod { account, key, gateway, default: self.random.chance(600) }
    }

    fn rename(&mut self, tenant: &Tenant) -> What {
        What::Rename {
            account: self.account(tenant),
            name: format!("name {}", self.random.below(5)),
        }
    }

    /// Limits of a tenant: how many payments is its own for ever, and seldom are they lifted.
    fn set_limits(&mut self, no: u32) -> What {
        let limits = Limits {
            every: self.random.chance(300),
            a_day: 2 + no % 2,
            amount: self.random.chance(300).then_some(80_000),
            amount_a_day: self.random.chance(500).then_some(150_000),
            lowers: self.later.chance(400),
            methods_of: self.later.weighted(&[
                (60, &[][..]),
                (20, &[WALLET, CARD]),
                (20, &[EXTERNAL]),
            ]),
        };
        What::SetLimits { limits: self.random.chance(950).then_some(limits) }
    }

    /// Where routed payments go, in any order.
    pub fn set_routing(&mut self) -> What {
        let mut order = || {
            let mut all = [CARD, WALLET, BANK];
            let first =
                usize::from(self.routing.chance(500)) + usize::from(self.routing.chance(300));
            all.rotate_left(first);
            if self.routing.chance(500) {
                all.swap(1, 2);
            }
            all
        };
        let (limited, others) = (order(), order());
        let others = self.routing.chance(900).then_some(others);
        What::SetRouting(Orders { limited, others, goes_on: self.routing.chance(800) })
    }

    fn set_default(&mut self, tenant: &Tenant) -> What {
        What::SetDefault { account: self.account(tenant), method: self.method(tenant) }
    }

    /// Accounts are closed, mostly those that pay, and opened again. States of another service change nothing.
    fn state(&mut self, tenant: &Tenant) -> What {
        let account = self.payer(tenant);
        let is_closed = tenant.accounts.get(&account).is_some_and(|it| it.is_closed());
        match self.random.below(10) {
            0..=4 if !is_closed => What::Close { account },
            0..=4 => What::Record { account, service: "account-service", state: "OPEN" },
            5 => What::Close { account },
            6 => What::Record { account, service: "account-service", state: "CLOSE_ACCOUNT" },
            _ => {
                let state = *self.random.pick(&["OD1", "OD2", "CLOSE_ACCOUNT"]);
                What::Record { account, service: "overdue-service", state }
            }
        }
    }

    fn drop_method(&mut self, tenant: &Tenant) -> What {
        let method = self.method(tenant);
        let own = tenant.methods.get(&method).map(|it| it.account);
        let account =
            own.filter(|_| self.random.chance(900)).unwrap_or_else(|| self.account(tenant));
        let ways = [Dropped::Not, Dropped::Even, Dropped::Suspending(account)];
        let if_default = *self.random.pick(&ways);
        What::DropMethod { method, if_default }
    }

    fn start(&mut self, model: &Model, no: u32) -> What {
        let tenant = &model.tenants[&no];
        let account = self.payer(tenant);
        let known = tenant.accounts.get(&account);
        let own: Vec<Uid> = tenant
            .methods
            .iter()
            .filter(|(_, method)| method.account == account && method.active)
            .map(|(id, _)| *id)
            .collect();
        let method = match self.random.below(100) {
            0..=69 if !own.is_empty() => Some(*self.random.pick(&own)),
            0..=3 => Some(self.method(tenant)),
            _ => None,
        };
        let account_currency = known.and_then(|account| account.currency);
        let currency = match account_currency {
            Some(_) if self.random.chance(900) => None,
            _ if self.random.chance(50) => Some(RETIRED),
            _ => Some(self.random.pick(&CURRENCIES).0),
        };
        let old_payments = tenant.payments.values().filter_map(|payment| payment.key.clone());
        let payment_key = if self.random.chance(20) {
            self.payment(tenant).map(|(id, _)| uuid::Uuid::from_u128(id).to_string())
        } else {
            self.key("p", old_payments.collect(), 120)
        };
        let kind = self.random.weighted(&[
            (50, Kind::Authorize),
            (40, Kind::Purchase),
            (10, Kind::Credit),
        ]);
        let code = currency.or(account_currency).unwrap_or("USD");
        let amount = self.random.between(1, 100_000);
        What::Start(Start {
            kind,
            account,
            payment: None,
            method,
            payment_key,
            key: self.transaction_key(tenant),
            amount: self.amount(amount, code),
            currency,
            is_controlled: self.random.chance(CONTROLLED_PERMILLE),
            asks_for_retries: self.random.chance(RETRIED_PERMILLE),
        })
    }

    /// The same request for a payment whose first tries failed, or are pending.
    fn try_again(&mut self, tenant: &Tenant) -> Option<What> {
        let again: Vec<(&Uid, &Payment)> =
            tenant.payments.iter().filter(|(_, payment)| payment.last_success.is_none()).collect();
        if again.is_empty() {
            return None;
        }
        let (id, payment) = *self.random.pick(&again);
        let last = payment.moves.last()?;
        let kind = match last.kind {
            kind @ (Kind::Authorize | Kind::Purchase | Kind::Credit) => kind,
            Kind::Capture | Kind::Refund | Kind::Void | Kind::Chargeback | Kind::Reversal => {
                Kind::Authorize
            }
        };
        let by_key = payment.key.is_some() && self.random.chance(700);
        let minor = last.asked.unwrap_or(1);
        let account_currency =
            tenant.accounts.get(&payment.account).and_then(|account| account.currency);
        let own: Vec<Uid> = tenant
            .methods
            .iter()
            .filter(|(_, method)| method.account == payment.account && method.active)
            .map(|(id, _)| *id)
            .collect();
        let method = if own.is_empty() || self.random.chance(500) {
            Some(payment.method)
        } else {
            Some(*self.random.pick(&own))
        };
        let currency = Some(payment.currency)
            .filter(|_| account_currency != Some(payment.currency) || self.random.chance(500));
        Some(What::Start(Start {
            kind,
            account: payment.account,
            payment: (!by_key || self.random.chance(200)).then_some(*id),
            method,
            payment_key: if by_key { payment.key.clone() } else { None },
            key: if self.random.chance(700) { last.key.clone() } else { None },
            amount: self.amount(minor, payment.currency),
            currency,
            is_controlled: self.random.chance(CONTROLLED_PERMILLE),
            asks_for_retries: self.random.chance(RETRIED_PERMILLE),
        }))
    }

    fn follow(&mut self, model: &Model, no: u32) -> What {
        let tenant = &model.tenants[&no];
        let twice = self.started_twice(tenant);
        let Some((id, payment)) = twice.or_else(|| self.payment(tenant)) else {
            return self.start(model, no);
        };
        let likely: &[Kind] = match payment.last_success {
            Some(Kind::Authorize) => &[Kind::Capture, Kind::Capture, Kind::Capture, Kind::Void],
            Some(Kind::Capture) => &[Kind::Capture, Kind::Refund, Kind::Chargeback],
            Some(Kind::Purchase | Kind::Refund) => &[Kind::Refund, Kind::Refund, Kind::Chargeback],
            Some(Kind::Chargeback) => &[Kind::Reversal, Kind::Chargeback],
            Some(Kind::Reversal) => &[Kind::Refund],
            Some(Kind::Credit | Kind::Void) | None => &[Kind::Capture, Kind::Void],
        };
        let all = [Kind::Capture, Kind::Refund, Kind::Void, Kind::Chargeback, Kind::Reversal];
        let usual = if twice.is_some() { 500 } else { 850 };
        let kinds = if self.random.chance(usual) { likely } else { &all };
        let kind = *self.random.pick(kinds);
        let left = if kind == Kind::Capture {
            payment.left_to_capture()
        } else {
            payment.left_to_return()
        };
        let minor = match self.random.below(100) {
            0..=59 => self.random.between(1, left.max(1)),
            60..=84 => left.max(1),
            _ => left + self.random.between(1, 100),
        };
        let account = tenant.accounts.get(&payment.account);
        let account_currency = account.and_then(|account| account.currency);
        let currency = match account_currency {
            Some(code) if code != payment.currency && self.random.chance(900) => {
                Some(payment.currency)
            }
            _ if self.random.chance(30) => Some(self.random.pick(&CURRENCIES).0),
            _ => None,
        };
        let key = if kind == Kind::Reversal && self.random.chance(900) {
            let mut moves = payment.moves.iter().rev();
            moves.find(|it| it.kind == Kind::Chargeback).and_then(|it| it.key.clone())
        } else if kind == Kind::Chargeback && self.random.chance(500) {
            self.made += 1;
            Some(format!("t-{}", self.made))
        } else {
            self.transaction_key(tenant)
        };
        let id = if self.random.chance(15) { self.foreign(model, no) } else { id };
        let amount = self.amount(minor, payment.currency);
        let is_controlled = self.later.chance(CONTROLLED_PERMILLE);
        What::Follow(Follow { kind, payment: id, key, amount, currency, is_controlled })
    }

    /// A payment that is not there for this tenant: another one's, or nobody's.
    fn foreign(&mut self, model: &Model, no: u32) -> Uid {
        let others = model.tenants.iter().filter(|(other, _)| **other != no);
        let ids: Vec<Uid> = others.flat_map(|(_, other)| other.payments.keys()).copied().collect();
        if ids.is_empty() || self.random.chance(300) {
            return self.mint(0);
        }
        *self.random.pick(&ids)
    }

    fn complete(&mut self, tenant: &Tenant) -> What {
        let pending =
            |payment: &&Payment| payment.moves.iter().any(|it| it.status == Status::Pending);
        let any: Vec<(&Uid, &Payment)> =
            tenant.payments.iter().filter(|(_, payment)| pending(payment)).collect();
        let chosen = if any.is_empty() || self.random.chance(150) {
            self.payment(tenant)
        } else {
            let (id, payment) = *self.random.pick(&any);
            Some((*id, payment))
        };
        let Some((id, payment)) = chosen else { return self.rename(tenant) };
        let open = payment.moves.iter().find(|it| it.status == Status::Pending);
        let it = open.unwrap_or(&payment.moves[0]);
        let amount = if self.random.chance(400) {
            let asked = it.asked.unwrap_or(5);
            let minor =
                if self.random.chance(900) { self.random.between(1, asked) } else { asked + 1 };
            self.amount(minor, it.currency)
        } else {
            None
        };
        let by = self.random.below(3);
        let cancels = it.awaits_customer() && self.acting.chance(300);
        What::Complete(Completion {
            cancels,
            payment: id,
            transaction: (by == 0).then_some(it.id),
            key: if by == 1 { it.key.clone() } else { None },
            kind: match self.random.below(10) {
                0..=2 => Some(it.kind),
                3 => Some(Kind::Purchase),
                _ => None,
            },
            amount,
        })
    }

    fn account(&mut self, tenant: &Tenant) -> Uid {
        let ids: Vec<Uid> = tenant.accounts.keys().copied().collect();
        if ids.is_empty() || self.random.chance(15) {
            return self.mint(0);
        }
        *self.random.pick(&ids)
    }

    /// An account that pays: mostly one that can.
    fn payer(&mut self, tenant: &Tenant) -> Uid {
        let able: Vec<Uid> =
            tenant.methods.values().filter(|it| it.active).map(|it| it.account).collect();
        if able.is_empty() || self.random.chance(100) {
            return self.account(tenant);
        }
        *self.random.pick(&able)
    }

    fn method(&mut self, tenant: &Tenant) -> Uid {
        let ids: Vec<Uid> = tenant.methods.keys().copied().collect();
        if ids.is_empty() || self.random.chance(30) {
            return self.mint(0);
        }
        *self.random.pick(&ids)
    }

    /// A payment, mostly a recent one, so that operations meet on it.
    fn payment<'a>(&mut self, tenant: &'a Tenant) -> Option<(Uid, &'a Payment)> {
        let all: Vec<(&Uid, &Payment)> = tenant.payments.iter().collect();
        if all.is_empty() {
            return None;
        }
        let recent = all.len().saturating_sub(6);
        let from = if self.random.chance(700) { &all[recent..] } else { &all[..] };
        let (id, payment) = *self.random.pick(from);
        Some((*id, payment))
    }

    /// A payment of which more than one try worked, now and then: that is reported when it is no longer
    /// recent.
    fn started_twice<'a>(&mut self, tenant: &'a Tenant) -> Option<(Uid, &'a Payment)> {
        let worked = |payment: &Payment| {
            let starts = payment.moves.iter().filter(|it| it.starts());
            starts.filter(|it| it.status == Status::Success).count()
        };
        let twice: Vec<(Uid, &Payment)> = tenant
            .payments
            .iter()
            .filter(|(_, payment)| worked(payment) > 1)
            .map(|(id, payment)| (*id, payment))
            .collect();
        (!twice.is_empty() && self.random.chance(300)).then(|| *self.random.pick(&twice))
    }

    fn transaction_key(&mut self, tenant: &Tenant) -> Option<String> {
        let moves = tenant.payments.values().flat_map(|payment| &payment.moves);
        if self.random.chance(20) {
            // What has no key is shown under its id, and some send that back.
            let ids: Vec<Uid> = moves.map(|it| it.id).collect();
            let id = (!ids.is_empty()).then(|| *self.random.pick(&ids));
            return id.map(|id| uuid::Uuid::from_u128(id).to_string());
        }
        let old = moves.filter_map(|it| it.key.clone());
        self.key("t", old.collect(), 150)
    }

    /// A new key, an old one, or none.
    fn key(&mut self, kind: &str, old: Vec<String>, reuse_permille: u64) -> Option<String> {
        if !old.is_empty() && self.random.chance(reuse_permille) {
            return Some(self.random.pick(&old).clone());
        }
        self.random.chance(600).then(|| {
            self.made += 1;
            format!("{kind}-{}", self.made)
        })
    }

    fn amount(&mut self, minor: i64, currency: Code) -> Option<String> {
        let wrong = |text: &str| Some(text.to_owned());
        match self.random.below(200) {
            0 => None,
            1 => wrong("0"),
            2 => wrong("-1"),
            3 => wrong("1.23456"),
            4 => wrong("much"),
            5 => wrong("99999999999999999999"),
            _ => Some(decimal(minor, currency)),
        }
    }
}
