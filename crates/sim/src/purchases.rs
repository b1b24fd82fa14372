//! A seeded simulation of purchases: offers that change, payments that end at any time and end otherwise later, money
//! that goes back, grants that are over, and processes that die; beside a naive model of what each account has, and of
//! what its users see of flags.

mod model;
mod people;
mod planted;
mod screens;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::account::CreateAccount;
use domain::blocking_state::CloseAccount;
use domain::command::{AccountCommand, EntitlementCommand, PaymentCommand};
use domain::context::RoutingSettings;
use domain::definition::Expected;
use domain::entitlement::{ContinueEntitlements, GrantFeature, RevokeGrant};
use domain::feature::{
    Combine, FeatureKind, FeatureTerms, FeatureValue, LimitTerms, PutFeature, Reset,
};
use domain::offer::{Again, Buyers, Lasts, OfferTerms, Price, PutOffer, Revocation};
use domain::payment::{
    Actor, FollowUp, GatewayAnswer, GatewayInquired, GatewayKnowledge, GatewayOutcome,
    GatewayReplied, GatewayStatus, RefundLateSuccess,
};
use domain::payment_method::CreatePaymentMethod;
use domain::purchase::{Buy, PurchaseStatus};
use domain::timer::{Timer, TimerKind};
use domain::{
    AccountId, AmountMinor, Command, Currency, Effect, GatewayCall, GatewaySettings, GrantId,
    PaymentId, Request, RequestId, Settings, TenantNo, Timestamp, TransactionId,
};
use engine::Answer;
use engine::partition::{Partition, Processed, Times, Verdict, Work};
use uuid::Uuid;

use self::model::Model;
use self::planted::{Notes, Planted, opened};
use self::screens::Screens;
use crate::disk::Disk;
use crate::memory::MemoryDisk;
use crate::random::Random;

const TENANT: TenantNo = TenantNo(1);
const GATEWAY: &str = "till";
/// How many things happen in a run.
const STEPS: usize = 700;
/// The prices that offers have, in minor units.
const PRICES: [i64; 2] = [1_000, 1_200];
/// How many accounts are made in a run, with those that take the place of closed ones.
const ACCOUNTS_MAX: usize = 6;
const OFFERS: [&str; 3] = ["monthly", "once", "forever"];

/// A bug planted at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurchaseMutant {
    /// New grants are not written with the purchase that is paid.
    LosesGrants,
    /// Purchases are loaded as if they were free.
    GrantsUnpaid,
    /// The offers that an account bought are not loaded.
    ForgetsBought,
    /// The removal of revoked grants is not written.
    StaysOn,
    /// The timers of entitlements are forgotten.
    DropsTimer,
    /// Grants are loaded as if they never ended.
    ForgetsEnds,
    /// Closed accounts are loaded as open ones.
    ForgetsClosing,
    /// The offer for newcomers is not loaded.
    ForgetsNewcomers,
    /// Keys of users are loaded as if they were free.
    ForgetsKeys,
    /// The removal of an account's users at its erasure is not written.
    KeepsUsers,
    /// Entitlements are sent to the users of accounts before they are committed.
    PushesEarly,
    /// A user who was away is sent what has changed by the times of flags alone.
    MissesWhileAway,
    /// An account's change is sent to another account's users.
    WakesOthers,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Purchases that were paid.
    pub paid: usize,
    /// Purchases whose money went back.
    pub returned: usize,
    /// Purchases that were paid when the account had the offer already.
    pub duplicates: usize,
    /// Purchases that were paid when the account was closed.
    pub late: usize,
    /// Purchases that were refused.
    pub refused: usize,
    /// Successes that were taken back, and failures that were none.
    pub corrected: usize,
    /// Newcomers who got the offer for them.
    pub newcomers: usize,
    /// Lists of users that were mapped.
    pub mapped: usize,
    /// Timers of entitlements that fired.
    pub fired: usize,
    pub deaths: usize,
    /// Owners whose partition went to another one while they ran.
    pub moves: usize,
    /// Messages that users' streams received.
    pub seen: usize,
    /// Users who came back to what they had.
    pub returns: usize,
}

struct World {
    random: Random,
    mutant: Option<PurchaseMutant>,
    disk: MemoryDisk,
    partition: Partition<Planted>,
    settings: Arc<Settings>,
    now: i64,
    minted: u128,
    accounts: Vec<AccountId>,
    /// Calls that are not answered yet.
    calls: Vec<GatewayCall>,
    /// Transactions that were ever called.
    called: Vec<(PaymentId, TransactionId)>,
    /// Chargebacks, by the key of their case.
    cases: Vec<(PaymentId, String)>,
    grants: Vec<(AccountId, GrantId)>,
    /// How many seats newcomers get; 0 while they get nothing.
    welcome: i64,
    model: Model,
    screens: Screens,
    notes: Notes,
    tally: Tally,
}

/// Runs a seed.
///
/// # Errors
/// The first failure, as text.
pub fn run(seed: u64, mutant: Option<PurchaseMutant>) -> Result<Tally, String> {
    let mut world = World::new(seed, mutant);
    world.furnish()?;
    for _ in 0..STEPS {
        let until = world.now + world.random.between(0, 4 * Timestamp::DAY_US);
        world.advance(until)?;
        world.step()?;
        world.audit()?;
        if world.random.chance(200) {
            world.look()?;
        }
    }
    world.settle()?;
    world.advance(world.now + 100 * Timestamp::DAY_US)?;
    world.audit()?;
    world.look()?;
    world.check_events()?;
    let Screens { seen, returns, .. } = world.screens;
    Ok(Tally { seen, returns, ..world.tally })
}

impl World {
    fn new(seed: u64, mutant: Option<PurchaseMutant>) -> Self {
        let gateway = GatewaySettings {
            settles_at_once: false,
            needs_merchant_account: false,
            attaches_methods: false,
            timeout_us: 10 * Timestamp::SECOND_US,
            action_timeout_us: None,
            settle_after_us: Timestamp::SECOND_US,
        };
        let settings = Arc::new(Settings {
            gateways: BTreeMap::from([(GATEWAY.to_owned(), gateway)]),
            unknown_delays_us: vec![],
            pending_delays_us: vec![],
            reply_keep_us: Timestamp::DAY_US,
            transactions_per_payment_max: 40,
            routing: RoutingSettings::DEFAULT,
        });
        let disk = MemoryDisk::new(None);
        let (notes, now) = (Notes::default(), 1_000 * Timestamp::DAY_US);
        Self {
            random: Random::new(seed, "purchases"),
            mutant,
            partition: opened(&disk, &settings, (mutant, &notes)),
            disk,
            settings,
            now,
            minted: 0,
            accounts: vec![],
            calls: vec![],
            called: vec![],
            cases: vec![],
            grants: vec![],
            welcome: 0,
            model: Model::default(),
            screens: Screens::new(now, mutant),
            notes,
            tally: Tally::default(),
        }
    }

    /// Two features, three offers, and accounts that can pay.
    fn furnish(&mut self) -> Result<(), String> {
        let seats = LimitTerms { unit: "seats".to_owned(), resets: Reset::Never, overdraft: false };
        let features = [
            ("pro", FeatureTerms { kind: FeatureKind::Switch, combine: Combine::Latest }),
            ("seats", FeatureTerms { kind: FeatureKind::Limit(seats), combine: Combine::Sum }),
        ];
        for (key, terms) in features {
            let (key, name, expected) = (key.to_owned(), key.to_owned(), Expected::Nothing);
            let put = PutFeature { key, name, terms, archived: false, expected };
            self.submit(EntitlementCommand::PutFeature(Box::new(put)).into())?;
        }
        for offer in OFFERS {
            self.put_offer(offer)?;
        }
        self.put_offer_for_newcomers()?;
        (0..3).try_for_each(|_| self.add_account())
    }

    fn add_account(&mut self) -> Result<(), String> {
        let create = Command::Account(AccountCommand::Create(Box::<CreateAccount>::default()));
        let (id, _) = self.submit(create)?;
        let account = AccountId::new(id.entity::<domain::kind::Account>(0).uuid());
        let method = CreatePaymentMethod::default_of(account, GATEWAY.to_owned());
        self.submit(Command::Account(AccountCommand::CreatePaymentMethod(method)))?;
        self.accounts.push(account);
        self.screens.connect(account)
    }

    /// Closes an account, beside which another one is made.
    fn close(&mut self) -> Result<(), String> {
        let account = *self.random.pick(&self.accounts);
        if self.accounts.len() >= ACCOUNTS_MAX || self.model.is_closed(account) {
            return Ok(());
        }
        self.model.close(account);
        let close = CloseAccount { account, remove_future_notifications: false };
        self.submit(Command::Account(AccountCommand::Close(close)))?;
        self.add_account()
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(160) {
            0..=29 => self.buy(),
            30..=54 => self.answer(),
            55..=66 => self.inquire(),
            67..=78 => self.give_back(),
            79..=82 => self.reverse(),
            83..=87 => {
                let offer = *self.random.pick(&OFFERS);
                self.put_offer(offer)
            }
            88..=92 => self.grant(),
            93..=94 => self.revoke(),
            95 => self.close(),
            96 => self.put_offer_for_newcomers(),
            97..=98 => self.join(),
            99..=107 => self.map_users(),
            108..=151 => self.change_screens(),
            152..=154 => self.lose_commit(),
            155..=156 => self.move_partition(),
            _ => {
                self.tally.deaths += 1;
                self.partition = opened(&self.disk, &self.settings, (self.mutant, &self.notes));
                // Where it is a front too, its streams end.
                if self.random.chance(500) {
                    self.screens.lose_front(&self.disk);
                }
                // Nobody knows what became of the calls of the process before.
                let calls = std::mem::take(&mut self.calls);
                calls.iter().try_for_each(|it| self.replied(it, GatewayAnswer::TimedOut))
            }
        }
    }

    /// Something happens to the users' streams, or at the front.
    fn change_screens(&mut self) -> Result<(), String> {
        let account = *self.random.pick(&self.accounts);
        match self.random.below(44) {
            0..=11 => self.screens.connect(account),
            12..=17 => {
                self.screens.disconnect(account);
                Ok(())
            }
            18..=23 => {
                self.screens.switch(self.now);
                Ok(())
            }
            24..=33 => {
                self.screens.look_up(&self.disk, self.now);
                Ok(())
            }
            34..=39 => self.screens.follow(&self.disk, self.now),
            _ => self.screens.read(),
        }
    }

    /// Another process takes the partition over. The one before goes on to run, and writes nothing any more.
    fn move_partition(&mut self) -> Result<(), String> {
        let new = opened(&self.disk, &self.settings, (self.mutant, &self.notes));
        let open = self.accounts.iter().filter(|it| !self.model.is_closed(**it));
        let account = *self.random.pick(&open.copied().collect::<Vec<_>>());
        let (_, late) = self.process(any_grant(account));
        self.partition = new;
        self.tally.moves += 1;
        match late.is_committed() {
            true => Err("who does not own the partition any more writes nothing".to_owned()),
            false => Ok(()),
        }
    }

    /// A grant is never committed: the process dies.
    fn lose_commit(&mut self) -> Result<(), String> {
        let account = *self.random.pick(&self.accounts);
        self.notes.fail_next();
        if self.process(any_grant(account)).1.is_committed() {
            return Err("a commit that fails is none".to_owned());
        }
        let lost = self.notes.take_lost();
        if self.mutant == Some(PurchaseMutant::PushesEarly) {
            self.screens.publish_lost(&lost, self.now)?;
        }
        self.partition = opened(&self.disk, &self.settings, (self.mutant, &self.notes));
        Ok(())
    }

    /// Each user who is connected sees what the account has.
    fn look(&mut self) -> Result<(), String> {
        self.screens.settle(&self.disk, self.now)?;
        let (model, now) = (&self.model, self.now);
        self.screens.check(|account| {
            let has = model.has(account, now).into_iter();
            has.map(|(key, value)| (key, amount(&value))).collect()
        })
    }

    /// The gateway answers for all that it was called for: what waits for an outcome has it.
    fn settle(&mut self) -> Result<(), String> {
        for call in std::mem::take(&mut self.calls) {
            self.replied(&call, GatewayAnswer::Outcome(GatewayOutcome::new(GatewayStatus::Error)))?;
        }
        for (payment, transaction) in self.called.clone() {
            let knowledge = GatewayKnowledge::Found(GatewayOutcome::new(GatewayStatus::Processed));
            let asked_at = Timestamp(self.now);
            let it = GatewayInquired { payment, transaction, knowledge, asked_at };
            self.submit(Command::Payment(PaymentCommand::GatewayInquired(it)))?;
        }
        Ok(())
    }

    fn put_offer(&mut self, key: &str) -> Result<(), String> {
        let price = usd(*self.random.pick(&PRICES));
        let (lasts, again) = match key {
            "forever" => (Lasts::Forever, Again::Refuse),
            "once" => (Lasts::Days(20), Again::Refuse),
            _ => (Lasts::Days(30), Again::Extend),
        };
        let rule = |random: &mut Random| match random.below(4) {
            0 if lasts != Lasts::Forever => Revocation::AtEnd,
            1 => Revocation::Never,
            _ => Revocation::AtOnce,
        };
        let (on_refund, on_chargeback) = (rule(&mut self.random), rule(&mut self.random));
        let terms = OfferTerms {
            name: key.to_owned(),
            price: Some(price),
            features: BTreeMap::from([
                ("pro".to_owned(), FeatureValue::On),
                ("seats".to_owned(), FeatureValue::Limit(self.random.between(1, 5))),
            ]),
            lasts,
            on_refund,
            on_chargeback,
            again,
            buyers: Buyers { once: key == "once", ..Buyers::default() },
            refunds_duplicates: self.random.chance(500),
            is_trial: false,
            for_newcomers: false,
            withdrawn: false,
        };
        self.model.put_offer(key, &terms);
        let put = PutOffer { key: key.to_owned(), terms, expected: Expected::Anything };
        self.submit(EntitlementCommand::PutOffer(Box::new(put)).into()).map(drop)
    }

    /// Buys an offer, sometimes for a price that it had before, or for an account that is closed.
    fn buy(&mut self) -> Result<(), String> {
        let any = self.random.chance(50);
        let accounts = self.accounts.iter().filter(|it| any || !self.model.is_closed(**it));
        let accounts: Vec<AccountId> = accounts.copied().collect();
        let account = *self.random.pick(&accounts);
        let offer = *self.random.pick(&OFFERS);
        let price = match self.random.chance(100) {
            true => usd(*self.random.pick(&PRICES)),
            false => self.model.price(offer),
        };
        let buy = Buy {
            account,
            offer: offer.to_owned(),
            version: None,
            expected: Some(price),
            payment_method: None,
            properties: vec![],
        };
        let may = self.model.may_buy(account, offer, price, self.now);
        let command = Command::Payment(PaymentCommand::Buy(Box::new(buy)));
        let (_, is_accepted) = self.submit(command)?;
        self.tally.refused += usize::from(!is_accepted);
        match may == is_accepted {
            true => Ok(()),
            false if may => Err(format!("what may be bought is sold: {offer} to {account}")),
            false => Err(format!("what may not be bought is refused: {offer} to {account}")),
        }
    }

    /// The gateway answers a call.
    fn answer(&mut self) -> Result<(), String> {
        if self.calls.is_empty() {
            return Ok(());
        }
        let number = u64::try_from(self.calls.len()).expect("they are few");
        let at = usize::try_from(self.random.below(number)).expect("it is less");
        let call = self.calls.swap_remove(at);
        let outcome = |status| GatewayAnswer::Outcome(GatewayOutcome::new(status));
        let answer = match self.random.below(10) {
            0..=5 => outcome(GatewayStatus::Processed),
            6..=7 => outcome(GatewayStatus::Error),
            8 => outcome(GatewayStatus::Pending),
            _ => GatewayAnswer::TimedOut,
        };
        self.replied(&call, answer)
    }

    fn replied(&mut self, call: &GatewayCall, answer: GatewayAnswer) -> Result<(), String> {
        let replied = GatewayReplied {
            payment: call.payment,
            transaction: call.transaction,
            answer,
            is_controlled: false,
            tries: None,
        };
        self.submit(Command::Payment(PaymentCommand::GatewayReplied(replied))).map(drop)
    }

    /// The gateway says what became of a transaction, also of one that has ended, and also otherwise than before.
    fn inquire(&mut self) -> Result<(), String> {
        let running: BTreeSet<TransactionId> = self.calls.iter().map(|it| it.transaction).collect();
        let over = self.called.iter().filter(|(_, id)| !running.contains(id));
        let over: Vec<_> = over.copied().collect();
        if over.is_empty() {
            return Ok(());
        }
        let (payment, transaction) = *self.random.pick(&over);
        let status = match self.random.chance(600) {
            true => GatewayStatus::Processed,
            false => GatewayStatus::Error,
        };
        let knowledge = GatewayKnowledge::Found(GatewayOutcome::new(status));
        let asked_at = Timestamp(self.now);
        let it = GatewayInquired { payment, transaction, knowledge, asked_at };
        self.submit(Command::Payment(PaymentCommand::GatewayInquired(it))).map(drop)
    }

    /// Money of a payment goes back: some of it, or all.
    fn give_back(&mut self) -> Result<(), String> {
        let payments: Vec<PaymentId> =
            self.disk.books().payments.iter().map(|it| it.payment.id).collect();
        if payments.is_empty() {
            return Ok(());
        }
        let payment = *self.random.pick(&payments);
        let amount = *self.random.pick(&["4", "10", "12"]);
        self.minted += 1;
        let is_chargeback = self.random.chance(400);
        let key = is_chargeback.then(|| format!("case-{}", self.minted));
        let back = FollowUp {
            transaction_key: key.clone(),
            amount: Some(amount.to_owned()),
            currency: Currency::parse("USD"),
            ..FollowUp::of(payment)
        };
        let command = match is_chargeback {
            true => PaymentCommand::Chargeback(back),
            false => PaymentCommand::Refund(back),
        };
        self.cases.extend(key.map(|key| (payment, key)));
        self.submit(Command::Payment(command)).map(drop)
    }

    fn reverse(&mut self) -> Result<(), String> {
        if self.cases.is_empty() {
            return Ok(());
        }
        let (payment, key) = self.random.pick(&self.cases).clone();
        let reversal = FollowUp { transaction_key: Some(key), ..FollowUp::of(payment) };
        self.submit(Command::Payment(PaymentCommand::ReverseChargeback(reversal))).map(drop)
    }

    fn grant(&mut self) -> Result<(), String> {
        let account = *self.random.pick(&self.accounts);
        let days = self.random.between(1, 40);
        let until = Timestamp(self.now + days * Timestamp::DAY_US);
        let value = self.random.between(1, 3);
        let grant = GrantFeature {
            account,
            feature: "seats".to_owned(),
            value: FeatureValue::Limit(value),
            from: None,
            until: Some(until),
            reason: "goodwill".to_owned(),
        };
        let command = EntitlementCommand::Grant(Box::new(grant));
        let (id, is_accepted) = self.submit(command.into())?;
        if is_accepted {
            let id = id.entity(0);
            self.grants.push((account, id));
            self.model.grant(account, id, value, (self.now, until.0));
        }
        Ok(())
    }

    fn revoke(&mut self) -> Result<(), String> {
        if self.grants.is_empty() {
            return Ok(());
        }
        let (account, grant) = *self.random.pick(&self.grants);
        self.model.revoke(grant);
        let revoke = EntitlementCommand::Revoke(RevokeGrant { account, grant });
        self.submit(revoke.into()).map(drop)
    }

    /// Has a command carried out, and its batch committed.
    fn process(&mut self, command: Command) -> (RequestId, Processed) {
        self.minted += 1;
        let id = RequestId(Uuid::from_u128((0x0192_0000_0000_7000 << 64) | self.minted));
        let actor = Actor::new("client", "client", id.0);
        let request = Request { id, tenant: TENANT, actor, idempotency: None, command };
        let (now, real_now) = (Timestamp(self.now), Timestamp(self.now));
        let works = [Work::Request(Box::new(request))];
        (id, self.partition.process(&works, Times { now, real_now }, &mut |_, _| Ok(())))
    }

    /// Commits a command; its request, and whether it was accepted. The model follows what became of payments.
    fn submit(&mut self, command: Command) -> Result<(RequestId, bool), String> {
        let name = command.name();
        let (id, processed) = self.process(command);
        if !processed.is_committed() {
            return Err(format!("{name} is committed: {:?}", processed.verdicts));
        }
        for performing in processed.calls {
            match performing.effect {
                Effect::CallGateway(call) => {
                    self.called.push((call.payment, call.transaction));
                    self.calls.push(*call);
                }
                Effect::AskAboutMethod(_) => unreachable!("the gateway attaches no methods"),
            }
        }
        let is_refused = matches!(processed.verdicts[0], Verdict::Answered(Answer::Refused(_)));
        let changed = self.model.follow(&self.disk, self.now);
        self.tally.paid += changed.paid;
        self.tally.returned += changed.returned;
        self.tally.duplicates += changed.duplicates;
        self.tally.late += changed.late;
        self.tally.corrected += changed.corrected;
        self.screens.note(&self.disk, self.now);
        Ok((id, !is_refused))
    }

    /// Time passes: timers that are due fire, in order.
    fn advance(&mut self, until: i64) -> Result<(), String> {
        while let Some(timer) =
            self.timers().into_iter().filter(|it| it.due.0 <= until).min_by_key(|it| it.due)
        {
            self.now = self.now.max(timer.due.0);
            self.fire(&timer)?;
        }
        self.now = self.now.max(until);
        self.screens.note(&self.disk, self.now);
        Ok(())
    }

    fn timers(&self) -> Vec<Timer> {
        self.disk.timers_due(Timestamp(i64::MAX))
    }

    fn fire(&mut self, timer: &Timer) -> Result<(), String> {
        let (account, due) = (timer.account, timer.due);
        let command = match timer.key.kind {
            TimerKind::Entitlements => {
                self.tally.fired += 1;
                EntitlementCommand::Continue(ContinueEntitlements { account, due }).into()
            }
            TimerKind::LateRefund => {
                let transaction = TransactionId::new(timer.key.object);
                let mut called = self.called.iter();
                let found = called.find(|(_, id)| *id == transaction).map(|it| it.0);
                let payment = found.expect("a late success was called");
                let refund = RefundLateSuccess { payment, transaction, due };
                Command::Payment(PaymentCommand::RefundLateSuccess(refund))
            }
            TimerKind::PaymentRetry
            | TimerKind::PaymentAction
            | TimerKind::DisputeBooking
            | TimerKind::DisputeEvidence
            | TimerKind::MethodStep => unreachable!("nothing here sets such a timer"),
        };
        self.submit(command).map(drop)
    }

    /// Compares the late purchases, the users and the entitlements of accounts with the model; entitlements also
    /// at later times.
    fn audit(&self) -> Result<(), String> {
        for it in self.disk.purchases() {
            let is_late = it.status == PurchaseStatus::Closed;
            if is_late != self.model.is_late(it.id) {
                let text = format!("{} is {}", it.id, it.status.name());
                return Err(format!("a purchase says that its account was closed: {text}"));
            }
        }
        let mapped = self.disk.account_users();
        let expected = self.model.users().iter();
        if !expected
            .map(|(key, of)| (key, vec![*of]))
            .eq(mapped.iter().map(|(key, of)| (key, of.clone())))
        {
            let text = format!("{mapped:?}, not {:?}", self.model.users());
            return Err(format!("a user is of the account that has it: {text}"));
        }
        let entitled = self.disk.entitlements();
        for account in &self.accounts {
            let row = entitled.iter().find(|it| it.account_id == *account);
            for days in [0, 1, 7, 29, 61] {
                let at = Timestamp(self.now + days * Timestamp::DAY_US);
                let has = row.map(|it| it.at(at)).unwrap_or_default();
                let has: BTreeMap<String, FeatureValue> =
                    has.into_iter().map(|(key, it)| (key.to_owned(), it.value)).collect();
                let expected = self.model.has(*account, at.0);
                if has != expected {
                    let text = format!("{account} in {days} days: {has:?}, not {expected:?}");
                    return Err(format!("an account has what it paid for: {text}"));
                }
            }
        }
        Ok(())
    }

    /// Each version had one event, and the last event says what the account has.
    fn check_events(&self) -> Result<(), String> {
        let events = self.notes.events();
        for account in &self.accounts {
            let seen = events.get(account).map_or(&[][..], Vec::as_slice);
            let versions: Vec<i64> = seen.iter().map(|it| it.version).collect();
            if !versions.iter().copied().eq(1..=i64::try_from(seen.len()).unwrap_or(0)) {
                return Err(format!("versions have no gaps: {account}: {versions:?}"));
            }
            let expected = self.model.has(*account, self.now);
            let last = seen.last().map(|it| it.features.clone()).unwrap_or_default();
            if last != expected {
                let text = format!("{account}: {last:?}, not {expected:?}");
                return Err(format!("the last event says what the account has: {text}"));
            }
        }
        let problems = self.disk.problems();
        if problems.is_empty() { Ok(()) } else { Err(format!("{problems:?}")) }
    }
}

/// A grant that would be seen.
fn any_grant(account: AccountId) -> Command {
    let grant = GrantFeature {
        account,
        feature: "seats".to_owned(),
        value: FeatureValue::Limit(100),
        from: None,
        until: None,
        reason: "goodwill".to_owned(),
    };
    EntitlementCommand::Grant(Box::new(grant)).into()
}

/// A limit, or 1 for what is on.
fn amount(value: &FeatureValue) -> i64 {
    match value {
        FeatureValue::Limit(limit) => *limit,
        FeatureValue::On
        | FeatureValue::Boolean(_)
        | FeatureValue::Number(_)
        | FeatureValue::String(_)
        | FeatureValue::Json(_) => 1,
    }
}

fn usd(minor: i64) -> Price {
    let currency = Currency::parse("USD").expect("it is one");
    Price { amount: AmountMinor(minor), currency }
}
