//! Purchases: offers that change, payments that end at any time and end otherwise later, money that goes back, grants that
//! are over, and processes that die; beside a naive model of what each account has, and of what its users see of flags.

mod model;
mod people;
mod planted;
mod screens;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use domain::account::CreateAccount;
use domain::account::blocking_state::CloseAccount;
use domain::change::Image as _;
use domain::command::{AccountCommand, EntitlementCommand, PaymentCommand};
use domain::entitlement::feature::{Combine, FeatureKind, FeatureTerms, FeatureValue, Reset};
use domain::entitlement::offer::{Again, Buyers, Lasts, OfferTerms, Price, PutOffer, Revocation};
use domain::entitlement::purchase::{Buy, PurchaseStatus};
use domain::entitlement::{ContinueEntitlements, Entitlements, RevokeGrant};
use domain::flag::definition::Expected;
use domain::payment::{
    FollowUp, GatewayAnswer, GatewayInquired, GatewayKnowledge, GatewayOutcome, GatewayStatus,
    RefundLateSuccess,
};
use domain::timer::{Timer, TimerKind};
use domain::{
    AccountId, AmountMinor, Command, Currency, Effect, Event, GatewayCall, GrantId, PartitionNo,
    PaymentId, RequestId, Settings, Timestamp, TransactionId,
};
use engine::Answer;
use engine::partition::Verdict;
use store::Share;

use self::model::Model;
use self::planted::Planted;
pub use self::planted::PurchaseMutant;
use self::screens::Screens;
use super::commands;
use crate::disk::Disk;
use crate::kernel::{self, Due, Kernel, Setup, Tally, Workload};
use crate::random::Random;

const GATEWAY: &str = "till";
/// As of several: who has lost a partition then never takes it back.
const SHARE: Share = Share { partition: PartitionNo::FIRST, partitions: 2 };
/// The prices that offers have, in minor units.
const PRICES: [i64; 2] = [1_000, 1_200];
/// How many accounts are made in a run, with those that take the place of closed ones.
const ACCOUNTS_MAX: usize = 6;
const OFFERS: [&str; 3] = ["monthly", "once", "forever"];

/// A version of an account's features, as an event reported it.
struct EventVersion {
    version: i64,
    features: BTreeMap<String, FeatureValue>,
}

/// The workload.
pub struct Purchases {
    kernel: Kernel<Planted, Infallible>,
    mutant: Option<PurchaseMutant>,
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
    /// The versions that events reported, oldest first.
    versions: BTreeMap<AccountId, Vec<EventVersion>>,
}

impl Workload for Purchases {
    type Mutant = PurchaseMutant;

    const NAME: &'static str = "purchases";
    const STEPS: usize = 700;
    const COUNTS: &'static [&'static str] = &[
        // Purchases that were paid, and those whose money went back.
        "paid",
        "returned",
        // Purchases that were paid when the account had the offer already, or was closed.
        "duplicates",
        "late",
        "refused",
        // Successes that were taken back, and failures that were none.
        "corrected",
        // Newcomers who got the offer for them.
        "newcomers",
        // Lists of users that were mapped.
        "mapped",
        // Timers of entitlements that fired.
        "fired",
        "deaths",
        // Owners whose partition went to another one while they ran.
        "moves",
        // Messages that users' streams received.
        "seen",
        // Users who came back to what they had.
        "returns",
    ];
    const MUTANTS: &'static [(PurchaseMutant, &'static str)] = &[
        (PurchaseMutant::LosesGrants, "an account has what it paid for"),
        (PurchaseMutant::GrantsUnpaid, "an account has what it paid for"),
        (PurchaseMutant::ForgetsBought, "what may not be bought is refused"),
        (PurchaseMutant::StaysOn, "an account has what it paid for"),
        (PurchaseMutant::ForgetsEnds, "an account has what it paid for"),
        (PurchaseMutant::DropsTimer, "the last event says what the account has"),
        (PurchaseMutant::ForgetsNewcomers, "an account has what it paid for"),
        (PurchaseMutant::ForgetsKeys, "a key is of one account"),
        (PurchaseMutant::KeepsUsers, "a user is of the account that has it"),
        (PurchaseMutant::ForgetsClosing, "a purchase says that its account was closed"),
        (PurchaseMutant::PushesEarly, "what a user sees is durable"),
        (PurchaseMutant::MissesWhileAway, "a user sees what the account has"),
        (PurchaseMutant::WakesOthers, "only its users are woken by an account"),
    ];

    fn new(seed: u64, mutant: Option<PurchaseMutant>) -> Self {
        let settings = Arc::new(Settings {
            gateways: BTreeMap::from([(GATEWAY.to_owned(), kernel::GATEWAY)]),
            ..Settings::without_gateways(Timestamp::DAY_US, 40)
        });
        let begins_at = 1_000 * Timestamp::DAY_US;
        let setup = Setup { settings, share: SHARE, begins_at, bug: mutant.map(Planted::from) };
        Self {
            kernel: Kernel::new(seed, Self::NAME, setup),
            mutant,
            calls: vec![],
            called: vec![],
            cases: vec![],
            grants: vec![],
            welcome: 0,
            model: Model::default(),
            screens: Screens::new(begins_at, mutant),
            versions: BTreeMap::new(),
        }
    }

    /// Two features, three offers, and accounts that can pay.
    fn furnish(&mut self) -> Result<(), String> {
        let pro = FeatureTerms { kind: FeatureKind::Switch, combine: Combine::Latest };
        self.submit(commands::put_feature("pro", pro))?;
        let seats = commands::limit("seats", Reset::Never, false);
        self.submit(commands::put_feature("seats", seats))?;
        for offer in OFFERS {
            self.put_offer(offer)?;
        }
        self.put_offer_for_newcomers()?;
        (0..3).try_for_each(|_| self.add_account())
    }

    fn step(&mut self) -> Result<(), String> {
        let until = self.kernel.now + self.kernel.random.between(0, 4 * Timestamp::DAY_US);
        self.advance(until)?;
        self.act()?;
        self.audit()?;
        if self.kernel.random.chance(200) {
            self.look()?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Tally, String> {
        self.settle()?;
        self.advance(self.kernel.now + 100 * Timestamp::DAY_US)?;
        self.audit()?;
        self.look()?;
        self.check_events()?;
        let mut tally = self.kernel.tally;
        tally.add("seen", self.screens.seen);
        tally.add("returns", self.screens.returns);
        Ok(tally)
    }
}

impl Purchases {
    fn add_account(&mut self) -> Result<(), String> {
        let create = Command::Account(AccountCommand::Create(Box::<CreateAccount>::default()));
        let (id, _) = self.submit(create)?;
        self.equip(id.entity(0))
    }

    /// Gives a new account a payment method, and connects its user.
    fn equip(&mut self, account: AccountId) -> Result<(), String> {
        self.submit(commands::create_method(account, GATEWAY))?;
        self.kernel.accounts.push(account);
        self.screens.connect(account)
    }

    /// Closes an account, beside which another one is made.
    fn close(&mut self) -> Result<(), String> {
        let account = self.kernel.any_account();
        if self.kernel.accounts.len() >= ACCOUNTS_MAX || self.model.is_closed(account) {
            return Ok(());
        }
        self.model.close(account);
        let close = CloseAccount {
            account,
            remove_future_notifications: false,
            cancel_subscriptions: false,
        };
        self.submit(Command::Account(AccountCommand::Close(close)))?;
        self.add_account()
    }

    fn act(&mut self) -> Result<(), String> {
        match self.kernel.random.below(160) {
            0..=29 => self.buy(),
            30..=54 => self.answer(),
            55..=66 => self.inquire(),
            67..=78 => self.give_back(),
            79..=82 => self.reverse(),
            83..=87 => {
                let offer = *self.kernel.random.pick(&OFFERS);
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
                self.kernel.die();
                // Where it is a front too, its streams end.
                if self.kernel.random.chance(500) {
                    self.screens.lose_front(&self.kernel.disk);
                }
                // Nobody knows what became of the calls of the process before.
                let calls = std::mem::take(&mut self.calls);
                calls.iter().try_for_each(|it| self.replied(it, GatewayAnswer::TimedOut))
            }
        }
    }

    /// Something happens to the users' streams, or at the front.
    fn change_screens(&mut self) -> Result<(), String> {
        let account = self.kernel.any_account();
        match self.kernel.random.below(44) {
            0..=11 => self.screens.connect(account),
            12..=17 => {
                self.screens.disconnect(account);
                Ok(())
            }
            18..=23 => {
                self.screens.switch(self.kernel.now);
                Ok(())
            }
            24..=33 => {
                self.screens.look_up(&self.kernel.disk, self.kernel.now);
                Ok(())
            }
            34..=39 => self.screens.follow(&self.kernel.disk, self.kernel.now),
            _ => self.screens.read(),
        }
    }

    /// Another process takes the partition over. The one before goes on to run, and writes nothing any more.
    fn move_partition(&mut self) -> Result<(), String> {
        let open = self.kernel.accounts.iter().filter(|it| !self.model.is_closed(**it));
        let open: Vec<AccountId> = open.copied().collect();
        let account = *self.kernel.random.pick(&open);
        let late = self.kernel.take_over(any_grant(account));
        self.kernel.count("moves");
        match late.is_committed {
            true => Err("who does not own the partition any more writes nothing".to_owned()),
            false => Ok(()),
        }
    }

    /// A grant is never committed: the process dies.
    fn lose_commit(&mut self) -> Result<(), String> {
        let account = self.kernel.any_account();
        let done = self.kernel.lose_commit(any_grant(account));
        if done.is_committed {
            return Err("a commit that fails is none".to_owned());
        }
        if self.mutant == Some(PurchaseMutant::PushesEarly) {
            let changes = done.entries.iter().flat_map(|it| &it.changes);
            let lost: Vec<Entitlements> = changes.filter_map(Entitlements::of).cloned().collect();
            self.screens.publish_lost(&lost, self.kernel.now)?;
        }
        Ok(())
    }

    /// Each user who is connected sees what the account has.
    fn look(&mut self) -> Result<(), String> {
        self.screens.settle(&self.kernel.disk, self.kernel.now)?;
        let (model, now) = (&self.model, self.kernel.now);
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
            let asked_at = Timestamp(self.kernel.now);
            let it = GatewayInquired { payment, transaction, knowledge, asked_at };
            self.submit(Command::Payment(PaymentCommand::GatewayInquired(it)))?;
        }
        Ok(())
    }

    fn put_offer(&mut self, key: &str) -> Result<(), String> {
        let price = usd(*self.kernel.random.pick(&PRICES));
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
        let (on_refund, on_chargeback) =
            (rule(&mut self.kernel.random), rule(&mut self.kernel.random));
        let terms = OfferTerms {
            name: key.to_owned(),
            price: Some(price),
            features: BTreeMap::from([
                ("pro".to_owned(), FeatureValue::On),
                ("seats".to_owned(), FeatureValue::Limit(self.kernel.random.between(1, 5))),
            ]),
            lasts,
            on_refund,
            on_chargeback,
            again,
            buyers: Buyers { once: key == "once", ..Buyers::default() },
            refunds_duplicates: self.kernel.random.chance(500),
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
        let any = self.kernel.random.chance(50);
        let accounts = self.kernel.accounts.iter().filter(|it| any || !self.model.is_closed(**it));
        let accounts: Vec<AccountId> = accounts.copied().collect();
        let account = *self.kernel.random.pick(&accounts);
        let offer = *self.kernel.random.pick(&OFFERS);
        let price = match self.kernel.random.chance(100) {
            true => usd(*self.kernel.random.pick(&PRICES)),
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
        let may = self.model.may_buy(account, offer, price, self.kernel.now);
        let command = Command::Payment(PaymentCommand::Buy(Box::new(buy)));
        let (_, is_accepted) = self.submit(command)?;
        self.kernel.tally.add("refused", (!is_accepted).into());
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
        let call = self.calls.swap_remove(self.kernel.random.index(self.calls.len()));
        let outcome = |status| GatewayAnswer::Outcome(GatewayOutcome::new(status));
        let answer = match self.kernel.random.below(10) {
            0..=5 => outcome(GatewayStatus::Processed),
            6..=7 => outcome(GatewayStatus::Error),
            8 => outcome(GatewayStatus::Pending),
            _ => GatewayAnswer::TimedOut,
        };
        self.replied(&call, answer)
    }

    fn replied(&mut self, call: &GatewayCall, answer: GatewayAnswer) -> Result<(), String> {
        self.submit(commands::replied(call, answer)).map(drop)
    }

    /// The gateway says what became of a transaction, also of one that has ended, and also otherwise than before.
    fn inquire(&mut self) -> Result<(), String> {
        let running: BTreeSet<TransactionId> = self.calls.iter().map(|it| it.transaction).collect();
        let over = self.called.iter().filter(|(_, id)| !running.contains(id));
        let over: Vec<_> = over.copied().collect();
        if over.is_empty() {
            return Ok(());
        }
        let (payment, transaction) = *self.kernel.random.pick(&over);
        let status = match self.kernel.random.chance(600) {
            true => GatewayStatus::Processed,
            false => GatewayStatus::Error,
        };
        let knowledge = GatewayKnowledge::Found(GatewayOutcome::new(status));
        let asked_at = Timestamp(self.kernel.now);
        let it = GatewayInquired { payment, transaction, knowledge, asked_at };
        self.submit(Command::Payment(PaymentCommand::GatewayInquired(it))).map(drop)
    }

    /// Money of a payment goes back: some of it, or all.
    fn give_back(&mut self) -> Result<(), String> {
        let payments: Vec<PaymentId> =
            self.kernel.disk.books().payments.iter().map(|it| it.payment.id).collect();
        if payments.is_empty() {
            return Ok(());
        }
        let payment = *self.kernel.random.pick(&payments);
        let amount = *self.kernel.random.pick(&["4", "10", "12"]);
        let case = self.kernel.mint();
        let is_chargeback = self.kernel.random.chance(400);
        let key = is_chargeback.then(|| format!("case-{case}"));
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
        let (payment, key) = self.kernel.random.pick(&self.cases).clone();
        let reversal = FollowUp { transaction_key: Some(key), ..FollowUp::of(payment) };
        self.submit(Command::Payment(PaymentCommand::ReverseChargeback(reversal))).map(drop)
    }

    fn grant(&mut self) -> Result<(), String> {
        let account = self.kernel.any_account();
        let days = self.kernel.random.between(1, 40);
        let until = self.kernel.now + days * Timestamp::DAY_US;
        let value = self.kernel.random.between(1, 3);
        let grant = commands::grant(account, "seats", value, Some(until), "goodwill");
        let (id, is_accepted) = self.submit(grant)?;
        if is_accepted {
            let id = id.entity(0);
            self.grants.push((account, id));
            self.model.grant(account, id, value, (self.kernel.now, until));
        }
        Ok(())
    }

    fn revoke(&mut self) -> Result<(), String> {
        if self.grants.is_empty() {
            return Ok(());
        }
        let (account, grant) = *self.kernel.random.pick(&self.grants);
        self.model.revoke(grant);
        let revoke = EntitlementCommand::Revoke(RevokeGrant { account, grant });
        self.submit(revoke.into()).map(drop)
    }

    /// Commits a command; its request, and whether it was accepted. The model follows what became of payments.
    fn submit(&mut self, command: Command) -> Result<(RequestId, bool), String> {
        let done = self.kernel.submit(command).committed()?;
        for effect in done.effects {
            match effect {
                Effect::CallGateway(call) => {
                    self.called.push((call.payment, call.transaction));
                    self.calls.push(*call);
                }
                Effect::AskAboutMethod(_) => unreachable!("the gateway attaches no methods"),
            }
        }
        done.entries.iter().flat_map(|it| &it.events).for_each(|it| self.note(it));
        self.model.follow(&self.kernel.disk, self.kernel.now, &mut self.kernel.tally);
        self.screens.note(&self.kernel.disk, self.kernel.now);
        let is_refused = matches!(done.verdict, Verdict::Answered(Answer::Refused(_)));
        Ok((done.id, !is_refused))
    }

    fn note(&mut self, event: &Event) {
        if let Event::EntitlementsChanged { account, version, features, .. } = event {
            let features = features.iter().map(|it| (it.feature.clone(), it.value.clone()));
            let seen = EventVersion { version: *version, features: features.collect() };
            self.versions.entry(*account).or_default().push(seen);
        }
    }

    /// Time passes: timers that are due fire, in order.
    fn advance(&mut self, until: i64) -> Result<(), String> {
        while let Some(due) = self.kernel.next(until) {
            match due {
                Due::Event(never) => match never {},
                Due::Timer(timer) => self.fire(&timer)?,
            }
        }
        self.screens.note(&self.kernel.disk, self.kernel.now);
        Ok(())
    }

    fn fire(&mut self, timer: &Timer) -> Result<(), String> {
        let (account, due) = (timer.account, timer.due);
        let command = match timer.key.kind {
            TimerKind::Entitlements => {
                self.kernel.count("fired");
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
            | TimerKind::Billing
            | TimerKind::InvoicePayment
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
        for it in self.kernel.disk.purchases() {
            let is_late = it.status == PurchaseStatus::Closed;
            if is_late != self.model.is_late(it.id) {
                let text = format!("{} is {}", it.id, it.status.name());
                return Err(format!("a purchase says that its account was closed: {text}"));
            }
        }
        let mapped = self.kernel.disk.account_users();
        let expected = self.model.users().iter();
        if !expected
            .map(|(key, of)| (key, vec![*of]))
            .eq(mapped.iter().map(|(key, of)| (key, of.clone())))
        {
            let text = format!("{mapped:?}, not {:?}", self.model.users());
            return Err(format!("a user is of the account that has it: {text}"));
        }
        let entitled = self.kernel.disk.entitlements();
        for account in &self.kernel.accounts {
            let row = entitled.iter().find(|it| it.account_id == *account);
            for days in [0, 1, 7, 29, 61] {
                let at = Timestamp(self.kernel.now + days * Timestamp::DAY_US);
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
        for account in &self.kernel.accounts {
            let seen = self.versions.get(account).map_or(&[][..], Vec::as_slice);
            let versions: Vec<i64> = seen.iter().map(|it| it.version).collect();
            if !versions.iter().copied().eq(1..=i64::try_from(seen.len()).unwrap_or(0)) {
                return Err(format!("versions have no gaps: {account}: {versions:?}"));
            }
            let expected = self.model.has(*account, self.kernel.now);
            let last = seen.last().map(|it| it.features.clone()).unwrap_or_default();
            if last != expected {
                let text = format!("{account}: {last:?}, not {expected:?}");
                return Err(format!("the last event says what the account has: {text}"));
            }
        }
        Ok(())
    }
}

/// A grant that would be seen.
fn any_grant(account: AccountId) -> Command {
    commands::grant(account, "seats", 100, None, "goodwill")
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
