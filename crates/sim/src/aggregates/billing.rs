//! Subscriptions: plans that change, are cancelled, paused and go on, months that pass one by one or at once, and invoices
//! that are paid at a gateway which loses requests and answers; beside a naive model of days and of what is owed.

mod audit;
mod catalog;
mod clients;
mod days;
mod gateway;
mod issued;
mod model;
mod planted;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use domain::billing::pay::PayUnpaid;
use domain::billing::subscription::{ContinueBilling, Subscription};
use domain::command::{BillingCommand, EntitlementCommand, PaymentCommand, TenantCommand};
use domain::entitlement::ContinueEntitlements;
use domain::entitlement::feature::{Combine, FeatureKind, FeatureTerms, FeatureValue, Reset};
use domain::entitlement::plan_features::{FeaturesOf, PlanFeature, PutPlanFeatures, Starts};
use domain::flag::definition::Expected;
use domain::payment::ExpireAction;
use domain::tenant::CreateTenant;
use domain::timer::{Timer, TimerKind};
use domain::{Command, Effect, InvoiceId, PartitionNo, PaymentId, TransactionId};
use engine::partition::Verdict;
use store::Share;

use self::catalog::Later;
use self::days::DAY_US;
use self::gateway::Event;
use self::issued::{Issued, Made};
use self::model::Model;
pub use self::planted::BillingMutant;
use self::planted::Planted;
use super::commands;
use crate::ask::Uid;
use crate::disk::Disk;
use crate::faulty::Trouble;
use crate::gateway::{Call, Gateway};
use crate::kernel::{self, Done, Due, Kernel, Setup, Tally, Workload};
use crate::memory::MemoryDisk;
use crate::random::{Digest, Random};
use crate::translate;
use crate::world;

/// A limit that a product gives for each of a subscription's quantity.
const SEATS: &str = "seats";
/// How many of them for each.
const SEATS_EACH: i64 = 2;
/// A switch that the add-on gives.
const SUPPORT: &str = "support";
/// A switch that a product gives once the subscription's first invoice is paid.
const BACKUP: &str = "backup";
/// 2027-01-01T00:00:00Z.
const BEGINNING_US: i64 = 1_798_761_600_000_000;
/// How long the gateway takes to find what came late.
const SETTLE_AFTER_US: i64 = 20_000_000;
/// How many steps a run has.
const STEPS: usize = 110;
/// How much is due at once at most: far above what a simulation has to do.
const DUE_MAX: usize = 5_000;
/// How many lines of what happened a failure shows.
const TRACE_MAX: usize = 10_000;

/// The workload, on a store's data.
pub struct Billing<D: Disk = MemoryDisk> {
    kernel: Kernel<Planted, Event, D>,
    gateway: Gateway,
    /// Calls that the process waits for.
    running: BTreeMap<Uid, Call>,
    model: Model,
    issued: Issued,
    /// Whether partitions go to other owners.
    moves: bool,
    /// Whether nothing goes wrong any more.
    is_calm: bool,
    trace: VecDeque<String>,
    digest: Digest,
}

impl Workload for Billing {
    type Mutant = BillingMutant;

    const NAME: &'static str = "billing";
    const STEPS: usize = STEPS;
    const COUNTS: &'static [&'static str] = &[
        "subscribed",
        "changed",
        "undone",
        "cancelled",
        "uncancelled",
        "quantities",
        "paused",
        "charged",
        "credited",
        "adjusted",
        "paid by hand",
        "tagged",
        "invoicing off",
        // Calls of the gateway, questions about them, and those that came to nothing at first and were paid after all.
        "calls",
        "asked",
        // Timers that fired, and those that were late by days.
        "fired",
        "late",
        // Invoices, and those with repairs.
        "invoices",
        "repairs",
        "deaths",
        "troubles",
        "moves",
    ];
    const MUTANTS: &'static [(BillingMutant, &'static str)] = &[
        (BillingMutant::DoublesPeriod, "a day is charged once"),
        (BillingMutant::LosesTimer, "a timer is set for what is due next"),
        (BillingMutant::SetsTimerEarly, "a timer is set for what is due next"),
        (BillingMutant::PaysTwice, "an invoice is paid once"),
        (BillingMutant::UsesCreditTwice, "credit is what invoices made and used"),
        (BillingMutant::MissesLateOutcome, "invoices have what their payments took"),
        (BillingMutant::ShortensHorizon, "a day is charged once"),
        (BillingMutant::KnowsNoNewVersion, "a day has the price of its plan"),
        (BillingMutant::LeavesGrantOn, "grants are those of active subscriptions"),
        (BillingMutant::GivesNothingForPayments, "grants are those of active subscriptions"),
        (BillingMutant::LosesPosting, "the ledger has what invoices charge"),
        (BillingMutant::LosesPaymentPosting, "the ledger has what the customer owes"),
        (BillingMutant::ForgetsPauses, "only days of the plan are charged"),
        (BillingMutant::LosesPeriod, "no day is left free"),
        (BillingMutant::ChargesMore, "an item is charged by its days"),
        (BillingMutant::MiscountsInvoice, "invoices are the sums of their items"),
        (BillingMutant::LoadsNoMethod, "a new invoice is paid at once"),
        (BillingMutant::SkipsNumber, "invoices are numbered without gaps"),
        (BillingMutant::MixesUpPhases, "running again gives nothing"),
        (BillingMutant::WaitsForNothing, "every payment ends"),
    ];

    /// Every other seed has three partitions.
    fn new(seed: u64, mutant: Option<BillingMutant>) -> Self {
        let partitions = if seed.is_multiple_of(2) { 1 } else { 3 };
        Self::on(MemoryDisk::new(None), partitions, seed, mutant)
    }

    fn furnish(&mut self) -> Result<(), String> {
        self.begin()
    }

    fn step(&mut self) -> Result<(), String> {
        self.live_on()
    }

    fn finish(self) -> Result<Tally, String> {
        self.end().map(|(tally, _)| tally)
    }
}

/// Runs a seed on a store: so many steps. The hash of all that happened.
///
/// # Errors
/// The check that failed, as text.
pub fn run<D: Disk>(disk: D, partitions: u16, seed: u64, steps: usize) -> Result<u64, String> {
    let mut billing = Billing::on(disk, partitions, seed, None);
    billing.begin()?;
    for _ in 0..steps {
        billing.live_on()?;
    }
    billing.end().map(|(_, digest)| digest)
}

impl<D: Disk> Billing<D> {
    fn on(disk: D, partitions: u16, seed: u64, mutant: Option<BillingMutant>) -> Self {
        let numbers = (0..partitions).filter_map(|no| PartitionNo::new(no.into()));
        let shares = match partitions {
            1 => vec![Share::WHOLE],
            _ => numbers.map(|partition| Share { partition, partitions }).collect(),
        };
        let settings = Arc::new(translate::settings(&world::rules()));
        let bug = mutant.map(Planted::from);
        let setup = Setup { settings, share: Share::WHOLE, begins_at: BEGINNING_US, bug };
        Self {
            kernel: Kernel::on(disk, shares, Random::new(seed, "billing"), setup),
            gateway: Gateway::new(seed),
            running: BTreeMap::new(),
            model: Model::default(),
            issued: Issued::default(),
            moves: partitions > 1,
            is_calm: true,
            trace: VecDeque::new(),
            digest: Digest::default(),
        }
    }

    /// A tenant with a catalog, features of its plans, and accounts.
    fn begin(&mut self) -> Result<(), String> {
        let tenant = CreateTenant {
            id: None,
            external_key: None,
            api_key: "tenant".to_owned(),
            secret_hash: String::new(),
        };
        let switch = FeatureTerms { kind: FeatureKind::Switch, combine: Combine::Latest };
        let seats = FeatureValue::Limit(SEATS_EACH);
        let commands = [
            Command::Tenant(TenantCommand::Create(tenant)),
            catalog::upload(None),
            commands::put_feature(SEATS, commands::limit(SEATS, Reset::Never, false)),
            commands::put_feature(SUPPORT, switch.clone()),
            commands::put_feature(BACKUP, switch),
            put_features(FeaturesOf::product("Pro"), SEATS, (seats, Starts::Start)),
            put_features(FeaturesOf::plan("extra"), SUPPORT, (FeatureValue::On, Starts::Start)),
            put_features(FeaturesOf::product("Basic"), BACKUP, (FeatureValue::On, Starts::Paid)),
        ];
        for command in commands {
            self.submit(command)?.committed()?;
        }
        for _ in 0..3 {
            self.kernel.now += self.kernel.random.between(1, DAY_US);
            self.add_account()?;
        }
        self.is_calm = false;
        Ok(())
    }

    /// Days pass, one by one or at once, and somebody does something.
    fn live_on(&mut self) -> Result<(), String> {
        let random = &mut self.kernel.random;
        let pause = match random.below(10) {
            0..=4 => random.between(1, DAY_US / 4),
            5..=8 => random.between(1, 5 * DAY_US),
            _ => random.between(1, 40 * DAY_US),
        };
        let (until, is_down) = (self.kernel.now + pause, random.chance(150));
        let passed = if is_down { self.sleep(until) } else { self.advance(until) };
        let lived = passed.and_then(|()| self.upload_later()).and_then(|()| self.act());
        let checks = self.kernel.random.chance(100);
        let checked = lived.and_then(|()| if checks { self.audit() } else { Ok(()) });
        checked.map_err(|wrong| self.traced(wrong))
    }

    /// The second version of the catalog comes once, in the middle of a run.
    fn upload_later(&mut self) -> Result<(), String> {
        let is_time = self.kernel.now > BEGINNING_US + 60 * DAY_US;
        if self.model.later.is_some() || !is_time {
            return Ok(());
        }
        let later = Later::uploaded_at(self.kernel.now);
        let done = self.submit(catalog::upload(Some(later)))?;
        if done.is_durable {
            self.model.later = Some(later);
        }
        Ok(())
    }

    /// Nothing goes wrong any more, and what is open ends.
    fn end(mut self) -> Result<(Tally, u64), String> {
        self.is_calm = true;
        self.gateway.behaves = true;
        let ended = self.settle().and_then(|()| self.audit()).and_then(|()| self.audit_end());
        ended.map_err(|wrong| self.traced(wrong))?;
        Ok((self.kernel.tally, self.digest.value()))
    }

    /// Days pass until no payment is open any more. Somebody looks at those that are, so that the gateway is asked.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..60 {
            self.advance(self.kernel.now + DAY_US)?;
            let invoices = self.issued.invoices.values();
            let payments = invoices.flat_map(|it| &it.payments);
            let open = payments.filter(|(_, it)| !it.in_flight.is_zero()).map(|(id, _)| *id);
            let open: Vec<PaymentId> = open.collect();
            if self.kernel.events.first().is_none() && open.is_empty() {
                return Ok(());
            }
            for payment in open {
                for it in self.kernel.disk.outstanding_of(kernel::TENANT, payment) {
                    self.ask(&it)?;
                }
            }
        }
        Err("every payment ends".to_owned())
    }

    /// Has a command carried out, with whatever goes wrong, and performs what it asks for.
    fn submit(&mut self, command: Command) -> Result<Done, String> {
        let random = &mut self.kernel.random;
        let trouble = (!self.is_calm && random.chance(20)).then(|| {
            *random.pick(&[
                Trouble::LoadFails,
                Trouble::CommitFails,
                Trouble::DiskFull,
                Trouble::WrittenUnsaid,
                Trouble::LostUnsaid,
            ])
        });
        self.note(&format!("{trouble:?} {command:?}"));
        let done = match trouble {
            None => self.kernel.submit(command),
            Some(trouble) => {
                self.kernel.count("troubles");
                self.running.clear();
                self.kernel.submit_in(trouble, command)
            }
        };
        self.note(&format!("  {:?}", done.verdict));
        if trouble.is_none() && matches!(done.verdict, Verdict::Unavailable(_)) {
            return Err(format!("a command is carried out: {:?}", done.verdict));
        }
        if done.is_durable {
            self.learn(&done)?;
        }
        for effect in &done.effects {
            match effect {
                Effect::CallGateway(call) => self.call(call),
                Effect::AskAboutMethod(_) => unreachable!("no gateway attaches methods"),
            }
        }
        Ok(done)
    }

    /// Looks at what was written.
    fn learn(&mut self, done: &Done) -> Result<(), String> {
        for entry in &done.entries {
            let Made { asked_for, paid, .. } = self.issued.learn(entry);
            for invoice in asked_for {
                self.kernel.count("invoices");
                self.is_paid_at_once(invoice)?;
            }
            for invoice in paid {
                self.is_paid_once(invoice)?;
            }
        }
        Ok(())
    }

    /// The subscription that a command made.
    fn subscribed(&self, done: &Done) -> Option<Subscription> {
        let entries = done.entries.iter().filter(|_| done.is_durable);
        let changes = entries.flat_map(|it| &it.changes);
        let mut made = changes.filter_map(domain::change::Image::of);
        made.find(|it: &&Subscription| !self.model.lines.contains_key(&it.id)).cloned()
    }

    /// Time passes: what is due is done in its order.
    fn advance(&mut self, until: i64) -> Result<(), String> {
        for _ in 0..DUE_MAX {
            let question = self.next_question();
            let asks_at = question.as_ref().map(|(at, _)| (*at).max(self.kernel.now));
            let stop = asks_at.map_or(until, |at| at.min(until));
            match (self.kernel.next(stop), question) {
                (Some(Due::Event(event)), _) => self.happen(event)?,
                (Some(Due::Timer(timer)), _) => self.fire(&timer)?,
                (None, Some((at, it))) if at <= until => self.ask(&it)?,
                (None, _) => return Ok(()),
            }
        }
        Err(format!("what is due is done once: it goes on after {DUE_MAX} times"))
    }

    /// Nobody does anything for some time: all that was due is done afterwards.
    fn sleep(&mut self, until: i64) -> Result<(), String> {
        self.kernel.count("late");
        self.kernel.now = until;
        self.advance(until)
    }

    fn fire(&mut self, timer: &Timer) -> Result<(), String> {
        self.kernel.count("fired");
        let (account, due, object) = (timer.account, timer.due, timer.key.object);
        let command: Command = match timer.key.kind {
            TimerKind::Billing => BillingCommand::Continue(ContinueBilling { account, due }).into(),
            TimerKind::InvoicePayment => {
                let invoice = InvoiceId::new(object);
                BillingCommand::PayUnpaid(PayUnpaid { account, invoice, due }).into()
            }
            TimerKind::Entitlements => {
                EntitlementCommand::Continue(ContinueEntitlements { account, due }).into()
            }
            TimerKind::PaymentAction => {
                let line = &self.gateway.book[&object.as_u128()];
                let (payment, transaction) =
                    (translate::id(line.payment), TransactionId::new(object));
                let expire = ExpireAction { payment, transaction, due };
                Command::Payment(PaymentCommand::ExpireAction(expire))
            }
            TimerKind::PaymentRetry
            | TimerKind::LateRefund
            | TimerKind::DisputeBooking
            | TimerKind::DisputeEvidence
            | TimerKind::MethodStep => unreachable!("nothing is retried, returned or disputed"),
        };
        let done = self.submit(command)?;
        if timer.key.kind == TimerKind::Billing && done.is_durable {
            self.model.ran(account, due.0);
        }
        Ok(())
    }

    fn note(&mut self, line: &str) {
        self.digest.add(line);
        if self.trace.len() >= TRACE_MAX {
            self.trace.pop_front();
        }
        let at = jiff::Timestamp::from_microsecond(self.kernel.now).unwrap_or_default();
        self.trace.push_back(format!("{at} {line}"));
    }

    /// What is wrong, with the last steps before.
    fn traced(&self, wrong: String) -> String {
        let trace: Vec<&str> = self.trace.iter().map(String::as_str).collect();
        format!("{wrong}\n{}", trace.join("\n"))
    }
}

/// Gives a plan or a product a feature.
fn put_features(of: FeaturesOf, feature: &str, (value, starts): (FeatureValue, Starts)) -> Command {
    let times_quantity = matches!(value, FeatureValue::Limit(_));
    let (value, phases) = (Some(value), BTreeMap::new());
    let entry = PlanFeature { value, phases, times_quantity, starts };
    let features = BTreeMap::from([(feature.to_owned(), entry)]);
    let put = PutPlanFeatures { of, features, expected: Expected::Nothing };
    EntitlementCommand::PutPlanFeatures(Box::new(put)).into()
}
