//! A seeded simulation of payment methods at their gateway: attached, charged and deleted at any moment, by processes
//! that die, at a gateway that loses requests and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::account::CreateAccount;
use domain::change::{Change, TimerChange};
use domain::combo::{ComboAccount, ComboMethod, ExistingAccount, InitiateCombo};
use domain::command::{AccountCommand, PaymentCommand};
use domain::context::RoutingSettings;
use domain::payment::{
    Actor, GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus, Initiate, MethodAtGateway,
    ReplyKey, TransactionType,
};
use domain::payment_method::{
    ContinueMethod, CreatePaymentMethod, DeletePaymentMethod, MethodAnswer, MethodAnswered,
    MethodRequest, MethodStep, MethodTask,
};
use domain::read::Read;
use domain::timer::{Timer, TimerKind};
use domain::{
    AccountId, Command, Currency, Effect, GatewayCall, GatewaySettings, PaymentMethod,
    PaymentMethodId, Request, RequestId, Settings, TenantNo, Timestamp,
};
use engine::partition::{Partition, Times, Work};
use engine::ports::{Batch, Loaded, Opened, Store, StoreError};
use store::Share;
use uuid::Uuid;

use crate::disk::Disk;
use crate::memory::{MemoryDisk, MemoryStore};
use crate::random::Random;

const TENANT: TenantNo = TenantNo(1);
const GATEWAY: &str = "vault";
const SECOND_US: i64 = Timestamp::SECOND_US;
const TIMEOUT_US: i64 = 10 * SECOND_US;
const SETTLE_AFTER_US: i64 = 4 * SECOND_US;
/// How often a gateway is asked about one method.
const QUESTIONS_MAX: usize = 12;
/// How many things clients do.
const STEPS: usize = 250;

/// A bug planted at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodMutant {
    /// The store loads methods that are not attached yet as active: they are charged.
    ChargesUnattached,
    /// The store forgets the timers of steps.
    DropsTimer,
    /// The gateway's client says that it detached a method, and sent nothing.
    SendsNoDetach,
    /// The engine says that it asked later than it did.
    AsksTooEarly,
    /// The answer to a request that was lost is taken for a refusal.
    TakesLostForRefused,
}

/// The store, with a bug where one is planted.
struct Planted {
    store: MemoryStore,
    mutant: Option<MethodMutant>,
}

impl Store for Planted {
    fn open(&mut self) -> Result<Opened, StoreError> {
        self.store.open()
    }

    fn load(
        &mut self,
        reads: &BTreeSet<Read>,
        replies: &BTreeSet<ReplyKey>,
    ) -> Result<Loaded, StoreError> {
        let mut loaded = self.store.load(reads, replies)?;
        if self.mutant == Some(MethodMutant::ChargesUnattached) {
            let methods = loaded.state.account.payment_methods.iter_mut();
            methods.filter(|it| it.is_attaching()).for_each(|it| it.active = true);
        }
        Ok(loaded)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.mutant != Some(MethodMutant::DropsTimer) {
            return self.store.commit(batch);
        }
        let mut entries = batch.entries.clone();
        for entry in &mut entries {
            entry.changes.retain(|it| !matches!(it, Change::Timer(TimerChange::Set(_))));
        }
        self.store.commit(&Batch { entries, ..batch.clone() })
    }
}

/// An event that is scheduled for later.
enum Event {
    /// A request about a method reaches the gateway, and its answer comes back after a while or never.
    Arrive { request: MethodRequest, is_refused: bool, answers: Option<i64> },
    /// A call reaches the gateway that attaches its method first.
    Charge { call: Box<GatewayCall>, is_refused: bool, answers: Option<i64> },
    /// An answer reaches the process that waits for it.
    Answer { life: u64, command: Command },
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Methods that are active in the end.
    pub active: usize,
    /// Methods that were refused, or given up.
    pub refused: usize,
    /// Methods that were deleted.
    pub deleted: usize,
    pub charged: usize,
    /// Questions whether a method is attached.
    pub asked: usize,
    pub deaths: usize,
}

struct World {
    random: Random,
    mutant: Option<MethodMutant>,
    disk: MemoryDisk,
    partition: Partition<Planted>,
    settings: Arc<Settings>,
    now: i64,
    minted: u128,
    accounts: Vec<AccountId>,
    /// The methods that the gateway has attached.
    attached: BTreeSet<PaymentMethodId>,
    /// Answers to calls whose time is over are of no use.
    answered: BTreeSet<u64>,
    events: BTreeMap<(i64, u64), Event>,
    counter: u64,
    /// The number of the process.
    life: u64,
    /// Whether anything is lost any more.
    is_lossy: bool,
    tally: Tally,
}

/// Runs a seed.
///
/// # Errors
/// The first failure, as text.
pub fn run(seed: u64, mutant: Option<MethodMutant>) -> Result<Tally, String> {
    let mut world = World::new(seed, mutant);
    for _ in 0..2 {
        let create = Command::Account(AccountCommand::Create(Box::<CreateAccount>::default()));
        let id = world.submit(create)?;
        world.accounts.push(AccountId::new(id.entity::<domain::kind::Account>(0).uuid()));
    }
    for _ in 0..STEPS {
        let until = world.now + world.random.between(0, 2 * SECOND_US);
        world.advance(until)?;
        world.step()?;
    }
    world.is_lossy = false;
    world.settle()?;
    world.audit()
}

impl World {
    fn new(seed: u64, mutant: Option<MethodMutant>) -> Self {
        let gateway = GatewaySettings {
            settles_at_once: false,
            needs_merchant_account: false,
            attaches_methods: true,
            timeout_us: TIMEOUT_US,
            action_timeout_us: None,
            settle_after_us: SETTLE_AFTER_US,
        };
        let settings = Arc::new(Settings {
            gateways: BTreeMap::from([(GATEWAY.to_owned(), gateway)]),
            unknown_delays_us: vec![3 * SECOND_US; QUESTIONS_MAX],
            pending_delays_us: vec![],
            reply_keep_us: Timestamp::DAY_US,
            transactions_per_payment_max: 10,
            routing: RoutingSettings::DEFAULT,
        });
        let disk = MemoryDisk::new(None);
        Self {
            random: Random::new(seed, "methods"),
            mutant,
            partition: opened(&disk, &settings, mutant),
            disk,
            settings,
            now: 1_000 * SECOND_US,
            minted: 0,
            accounts: vec![],
            attached: BTreeSet::new(),
            answered: BTreeSet::new(),
            events: BTreeMap::new(),
            counter: 0,
            life: 0,
            is_lossy: true,
            tally: Tally::default(),
        }
    }

    /// A client does something, or the process dies.
    fn step(&mut self) -> Result<(), String> {
        let account = *self.random.pick(&self.accounts);
        match self.random.below(100) {
            0..=34 => self.create(account),
            35..=49 => self.combo(account),
            50..=74 => self.charge(account),
            75..=94 => self.delete(),
            _ => {
                self.life += 1;
                self.tally.deaths += 1;
                self.partition = opened(&self.disk, &self.settings, self.mutant);
                Ok(())
            }
        }
    }

    fn create(&mut self, account: AccountId) -> Result<(), String> {
        let key = self.random.chance(300).then(|| format!("k{}", self.random.below(20)));
        let create = CreatePaymentMethod {
            external_key: key,
            is_default: self.random.chance(500),
            ..CreatePaymentMethod::default_of(account, GATEWAY.to_owned())
        };
        self.submit(Command::Account(AccountCommand::CreatePaymentMethod(create))).map(drop)
    }

    fn combo(&mut self, id: AccountId) -> Result<(), String> {
        let account = ExistingAccount { id, external_key: None, currency: None };
        let gateway = Some(GATEWAY.to_owned());
        let combo = InitiateCombo {
            kind: TransactionType::Purchase,
            account: ComboAccount::Existing(account),
            payment_method: Some(ComboMethod { gateway, ..ComboMethod::default() }),
            payment: None,
            payment_key: None,
            transaction_key: None,
            amount: Some("1".to_owned()),
            currency: Currency::parse("USD"),
            properties: vec![],
            control: vec![],
            approved: vec![],
            gateways: vec![],
        };
        self.submit(Command::Payment(PaymentCommand::InitiateCombo(Box::new(combo)))).map(drop)
    }

    fn charge(&mut self, account: AccountId) -> Result<(), String> {
        let own: Vec<PaymentMethodId> =
            self.methods().iter().filter(|it| it.account_id == account).map(|it| it.id).collect();
        if own.is_empty() {
            return Ok(());
        }
        let purchase = Initiate {
            payment_method: Some(*self.random.pick(&own)),
            amount: Some("1".to_owned()),
            currency: Currency::parse("USD"),
            ..Initiate::of(account)
        };
        self.submit(Command::Payment(PaymentCommand::Purchase(purchase))).map(drop)
    }

    fn delete(&mut self) -> Result<(), String> {
        let methods: Vec<PaymentMethodId> = self.methods().iter().map(|it| it.id).collect();
        if methods.is_empty() {
            return Ok(());
        }
        let payment_method = *self.random.pick(&methods);
        let (even_if_default, auto_pay_off) = (true, None);
        let delete = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
        self.submit(Command::Account(AccountCommand::DeletePaymentMethod(delete))).map(drop)
    }

    fn methods(&self) -> Vec<PaymentMethod> {
        self.disk.books().methods
    }

    /// Commits a command, whatever it is answered, and performs what it asks for.
    fn submit(&mut self, command: Command) -> Result<RequestId, String> {
        self.minted += 1;
        let id = RequestId(Uuid::from_u128((0x0192_0000_0000_7000 << 64) | self.minted));
        let actor = Actor::new("client", "client", id.0);
        let name = command.name();
        let attaches = matches!(command, Command::Payment(PaymentCommand::InitiateCombo(_)));
        let request = Request { id, tenant: TENANT, actor, idempotency: None, command };
        let (now, real_now) = (Timestamp(self.now), Timestamp(self.now));
        let works = [Work::Request(Box::new(request))];
        let processed = self.partition.process(&works, Times { now, real_now }, &mut |_, _| Ok(()));
        if !processed.is_committed() {
            return Err(format!("{name} is committed: {:?}", processed.verdicts));
        }
        for performing in processed.calls {
            match performing.effect {
                Effect::CallGateway(call) => self.call(call, attaches)?,
                Effect::AskAboutMethod(request) => self.ask(*request),
            }
        }
        Ok(id)
    }

    /// A call leaves. A method that it does not attach itself is attached by now.
    fn call(&mut self, call: Box<GatewayCall>, attaches: bool) -> Result<(), String> {
        self.tally.charged += 1;
        if !attaches && !self.attached.contains(&call.payment_method) {
            return Err(format!("a method that is charged is attached: {}", call.payment_method));
        }
        let (arrives, answers) = self.way();
        let is_refused = attaches && self.random.chance(200);
        let number = self.deadline(|number| (number, lost_call(&call)));
        if let Some(at) = arrives {
            let answers = answers.map(|at| self.claim_answer(number, at));
            self.at(at, Event::Charge { call, is_refused, answers });
        }
        Ok(())
    }

    fn ask(&mut self, request: MethodRequest) {
        self.tally.asked += usize::from(request.task == MethodTask::Find);
        if request.task == MethodTask::Find {
            let is_unreachable = self.is_lossy && self.random.chance(200);
            let answer = match self.attached.contains(&request.payment_method) {
                _ if is_unreachable => lost(),
                true => attached(request.payment_method),
                false => MethodAnswer::Absent,
            };
            let command = answer_to(&request, answer, self.asked_at());
            let at = self.now + self.random.between(0, SECOND_US);
            self.at(at, Event::Answer { life: self.life, command });
            return;
        }
        let (arrives, answers) = self.way();
        let is_refused = request.task == MethodTask::Attach && self.random.chance(200);
        let in_doubt = match self.mutant {
            Some(MethodMutant::TakesLostForRefused) => refusal(),
            Some(_) | None => lost(),
        };
        let asked_at = Timestamp(self.now);
        let number = self.deadline(|number| (number, answer_to(&request, in_doubt, asked_at)));
        if request.task == MethodTask::Detach && self.mutant == Some(MethodMutant::SendsNoDetach) {
            let command = answer_to(&request, MethodAnswer::Absent, asked_at);
            self.at(self.now + 1, Event::Answer { life: self.life, command });
            return;
        }
        if let Some(at) = arrives {
            let answers = answers.map(|at| self.claim_answer(number, at));
            self.at(at, Event::Arrive { request, is_refused, answers });
        }
    }

    /// When the gateway was asked, as the engine says.
    fn asked_at(&self) -> Timestamp {
        let ahead_us = match self.mutant {
            Some(MethodMutant::AsksTooEarly) => TIMEOUT_US + SETTLE_AFTER_US,
            Some(_) | None => 0,
        };
        Timestamp(self.now + ahead_us)
    }

    /// When a request arrives, and its answer; `None`: it gets lost. It may arrive after its deadline, but not much.
    fn way(&mut self) -> (Option<i64>, Option<i64>) {
        if !self.is_lossy {
            return (Some(self.now + 1), Some(self.now + 2));
        }
        let latest =
            if self.random.chance(100) { TIMEOUT_US + SETTLE_AFTER_US / 2 } else { SECOND_US };
        let arrives = self.now + self.random.between(1, latest);
        let answers = arrives + self.random.between(1, SECOND_US);
        let arrives = (!self.random.chance(150)).then_some(arrives);
        (arrives, (!self.random.chance(200)).then_some(answers))
    }

    /// Ends the waiting for an answer: after the deadline none is taken.
    fn deadline(&mut self, lost: impl FnOnce(u64) -> (u64, Command)) -> u64 {
        let (number, command) = lost(self.counter);
        self.answered.insert(number);
        self.at(self.now + TIMEOUT_US, Event::Answer { life: self.life, command });
        number
    }

    /// An answer that comes before the deadline takes the place of the lost one.
    fn claim_answer(&mut self, number: u64, at: i64) -> i64 {
        let deadline = self.now + TIMEOUT_US;
        if at < deadline && self.answered.remove(&number) {
            self.events.remove(&(deadline, number));
            return at;
        }
        i64::MAX
    }

    fn at(&mut self, at: i64, event: Event) {
        self.events.insert((at, self.counter), event);
        self.counter += 1;
    }

    /// Time passes: what is due happens, in order.
    fn advance(&mut self, until: i64) -> Result<(), String> {
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let timer = self.timers().into_iter().min_by_key(|it| it.due);
            let due = timer.as_ref().map(|it| it.due.0);
            let Some(next) = event.into_iter().chain(due).min().filter(|at| *at <= until) else {
                break;
            };
            self.now = self.now.max(next);
            if event == Some(next) {
                let (_, event) = self.events.pop_first().expect("it is the first");
                self.happen(event)?;
            } else if let Some(timer) = timer {
                let fire = ContinueMethod {
                    account: timer.account,
                    payment_method: PaymentMethodId::new(timer.key.object),
                    due: timer.due,
                };
                self.submit(Command::Account(AccountCommand::ContinueMethod(fire)))?;
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn timers(&self) -> Vec<Timer> {
        let all = self.disk.timers_due(Timestamp(i64::MAX));
        all.into_iter().filter(|it| it.key.kind == TimerKind::MethodStep).collect()
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrive { request, is_refused, answers } => {
                let id = request.payment_method;
                let answer = match request.task {
                    _ if is_refused => refusal(),
                    MethodTask::Attach => {
                        self.attached.insert(id);
                        attached(id)
                    }
                    MethodTask::Detach | MethodTask::Find => {
                        self.attached.remove(&id);
                        MethodAnswer::Absent
                    }
                };
                self.answer(answers, answer_to(&request, answer, Timestamp(self.now)));
            }
            Event::Charge { call, is_refused, answers } => {
                let id = call.payment_method;
                let outcome = match is_refused {
                    true => GatewayOutcome::new(GatewayStatus::Error),
                    false => {
                        // What is attached stays so; a charge of a method that was detached since attaches nothing.
                        if self.is_attaching(id) {
                            self.attached.insert(id);
                        }
                        GatewayOutcome {
                            payment_method: Some(named(id)),
                            ..GatewayOutcome::new(GatewayStatus::Processed)
                        }
                    }
                };
                self.answer(answers, replied(&call, GatewayAnswer::Outcome(outcome)));
            }
            Event::Answer { life, command } if life == self.life => drop(self.submit(command)?),
            // The process that waited for it is dead.
            Event::Answer { .. } => {}
        }
        Ok(())
    }

    fn is_attaching(&self, id: PaymentMethodId) -> bool {
        self.methods().iter().any(|it| it.id == id && it.is_attaching())
    }

    fn answer(&mut self, at: Option<i64>, command: Command) {
        if let Some(at) = at.filter(|at| *at < i64::MAX) {
            self.at(at.max(self.now), Event::Answer { life: self.life, command });
        }
    }

    /// Nothing more is asked for, and nothing is lost: until nothing is to be done any more.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..1_000 {
            if self.events.is_empty() && self.timers().is_empty() {
                return Ok(());
            }
            self.advance(self.now + TIMEOUT_US)?;
        }
        Err("every step ends".to_owned())
    }

    /// Checks that no step is left, that the gateway has exactly the active methods attached, and that every default
    /// method is active.
    fn audit(&mut self) -> Result<Tally, String> {
        let books = self.disk.books();
        for it in &books.methods {
            match (it.step, it.active) {
                (None, true) => self.tally.active += 1,
                (None, false) => self.tally.deleted += 1,
                (Some(MethodStep::Refused), false) => self.tally.refused += 1,
                (Some(_), _) => return Err(format!("no step is left: {it:?}")),
            }
            if it.active != self.attached.contains(&it.id) {
                let there = if it.active { "is not" } else { "is" };
                return Err(format!("what is active here is attached there: {} {there}", it.id));
            }
        }
        let is_active =
            |id: &PaymentMethodId| books.methods.iter().any(|it| it.id == *id && it.active);
        let defaults = books.accounts.iter().filter_map(|(it, _)| it.payment_method_id.as_ref());
        if let Some(id) = defaults.into_iter().find(|id| !is_active(id)) {
            return Err(format!("a default method is active: {id}"));
        }
        let problems = self.disk.problems();
        if problems.is_empty() { Ok(self.tally) } else { Err(format!("{problems:?}")) }
    }
}

fn opened(
    disk: &MemoryDisk,
    settings: &Arc<Settings>,
    mutant: Option<MethodMutant>,
) -> Partition<Planted> {
    let store = Planted { store: disk.connect(Share::WHOLE), mutant };
    Partition::open(store, Arc::clone(settings)).expect("memory is always there")
}

fn named(id: PaymentMethodId) -> MethodAtGateway {
    MethodAtGateway { external_id: format!("at vault {id}"), properties: vec![] }
}

fn attached(id: PaymentMethodId) -> MethodAnswer {
    MethodAnswer::Attached(named(id))
}

fn refusal() -> MethodAnswer {
    MethodAnswer::Refused { code: None, message: "no".to_owned() }
}

fn lost() -> MethodAnswer {
    MethodAnswer::Unknown { message: "lost".to_owned() }
}

fn answer_to(request: &MethodRequest, answer: MethodAnswer, asked_at: Timestamp) -> Command {
    Command::Account(AccountCommand::MethodAnswered(Box::new(MethodAnswered {
        account: request.account,
        payment_method: request.payment_method,
        task: request.task,
        answer,
        asked_at,
    })))
}

fn lost_call(call: &GatewayCall) -> Command {
    replied(call, GatewayAnswer::TimedOut)
}

fn replied(call: &GatewayCall, answer: GatewayAnswer) -> Command {
    Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
        payment: call.payment,
        transaction: call.transaction,
        answer,
        is_controlled: false,
        tries: None,
    }))
}
