//! Random histories: commands of every kind, executed and committed the way the engine does it.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::account::payment_method::{
    CreatePaymentMethod, DeletePaymentMethod, MethodRequest, SetDefaultPaymentMethod,
};
use domain::account::{CreateAccount, UpdateAccount};
use domain::command::{AccountCommand, PaymentCommand, TenantCommand};
use domain::payment::{
    Actor, Complete, FixTransaction, FollowUp, GatewayAnswer, GatewayInquired, GatewayKnowledge,
    GatewayOutcome, GatewayReplied, GatewayStatus, Initiate, ResolvePending, TransactionStatus,
};
use domain::reply::AccountReply;
use domain::tenant::CreateTenant;
use domain::{
    AccountId, AmountMinor, Command, Currency, EXTERNAL_PAYMENT, Effect, GatewayCall,
    GatewaySettings, PaymentId, PaymentMethodId, Person, Reply, Request, RequestId, Seq, Settings,
    TenantNo, Timestamp, TransactionId,
};
use engine::partition::{Answer, BATCH_COMMANDS_MAX, Partition, Performing, Times, Verdict, Work};
use engine::ports::{Entry, Queries, Store};
use store::SqlStore;
use uuid::Uuid;

use crate::commits::two_tenants;
use crate::home::Home;
use crate::watched::{Entries, Watched};

/// 2024-03-01T10:00:00Z, where histories begin.
pub const BEGIN: Timestamp = Timestamp(1_709_287_200 * Timestamp::SECOND_US);

/// The gateways that histories use.
pub const GATEWAYS: [&str; 3] = [EXTERNAL_PAYMENT, "alpha", "beta"];
/// The gateway that attaches methods.
pub const ATTACHING: &str = "gamma";

/// splitmix64: the same seed, the same history.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(&from[self.below(from.len())]) }
    }
}

/// A store with a history in it, and connections to read it with.
pub struct World {
    pub workload: Workload<Watched<SqlStore>>,
    pub queries: Arc<dyn Queries>,
    pub home: Home,
    entries: Entries,
}

impl World {
    /// An empty one, but for two tenants.
    pub fn new(seed: u64) -> Self {
        Self::at(Home::new(), seed)
    }

    /// An empty one in a place of the caller's choice.
    pub fn at(home: Home, seed: u64) -> Self {
        let store = home.open(&crate::sqlite::OPTIONS);
        let queries = Arc::new(store.queries(3).unwrap());
        let entries = Entries::default();
        let workload = two_tenants(Watched::recording(store, Arc::clone(&entries)), seed);
        Self { workload, queries, home, entries }
    }

    /// One after this many random commands.
    pub fn after(seed: u64, commands: usize) -> Self {
        Self::new(seed).run(commands)
    }

    /// With this many random commands more.
    pub fn run(mut self, commands: usize) -> Self {
        self.workload.run(commands);
        self
    }

    /// The entries committed so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }
}

/// A store with its client: what the client knows of it, and which gateway answers are due.
pub struct Workload<S> {
    pub partition: Partition<S>,
    pub random: Random,
    pub now: Timestamp,
    pub tenants: Vec<TenantNo>,
    pub accounts: Vec<(TenantNo, AccountId)>,
    pub methods: Vec<(TenantNo, AccountId, PaymentMethodId)>,
    pub transactions: Vec<(TenantNo, PaymentId, TransactionId)>,
    pub calls: Vec<GatewayCall>,
    /// The requests to gateways about payment methods.
    pub requests: Vec<MethodRequest>,
    pub accepted: usize,
    payers: BTreeMap<PaymentId, AccountId>,
}

impl<S: Store> Workload<S> {
    pub fn new(store: S, seed: u64) -> Self {
        let gateway = |settles_at_once| GatewaySettings {
            settles_at_once,
            needs_merchant_account: false,
            attaches_methods: false,
            action_timeout_us: None,
            timeout_us: 10 * Timestamp::SECOND_US,
            settle_after_us: 0,
        };
        let attaching = GatewaySettings { attaches_methods: true, ..gateway(false) };
        let settings = Settings {
            gateways: GATEWAYS
                .iter()
                .map(|name| ((*name).to_owned(), gateway(*name == EXTERNAL_PAYMENT)))
                .chain([(ATTACHING.to_owned(), attaching)])
                .collect(),
            unknown_delays_us: vec![Timestamp::SECOND_US; 9],
            pending_delays_us: vec![Timestamp::SECOND_US; 9],
            reply_keep_us: Timestamp::DAY_US,
            transactions_per_payment_max: 20,
            routing: domain::context::RoutingSettings::DEFAULT,
        };
        let partition = Partition::open(store, Arc::new(settings)).unwrap();
        Self {
            partition,
            random: Random(seed),
            now: BEGIN,
            tenants: vec![],
            accounts: vec![],
            methods: vec![],
            transactions: vec![],
            calls: vec![],
            requests: vec![],
            accepted: 0,
            payers: BTreeMap::new(),
        }
    }

    /// The last journal row.
    pub fn head(&self) -> Seq {
        self.partition.head()
    }

    /// Executes and commits one command on its own.
    pub fn one(&mut self, tenant: TenantNo, command: Command) -> Verdict {
        let request = self.request(tenant, command);
        self.batch(vec![request]).pop().unwrap()
    }

    /// Executes one command that is accepted and answered at once.
    pub fn accepted(&mut self, tenant: TenantNo, command: Command) -> Reply {
        match self.one(tenant, command) {
            Verdict::Answered(Answer::Replied(reply)) => reply,
            verdict @ (Verdict::Answered(_) | Verdict::Waits(_) | Verdict::Unavailable(_)) => {
                panic!("not accepted: {verdict:?}")
            }
        }
    }

    /// Creates an account that pays through gateway `alpha`.
    pub fn paying_account(&mut self, tenant: TenantNo) -> AccountId {
        let reply = self.accepted(tenant, create_account(None, Person::default()));
        let Reply::Account(AccountReply::Created(account)) = reply else { panic!("{reply:?}") };
        let method = CreatePaymentMethod::default_of(account, "alpha".to_owned());
        self.accepted(tenant, Command::Account(AccountCommand::CreatePaymentMethod(method)));
        account
    }

    /// Like [`Self::accepted`], a microsecond later than what was before.
    pub fn accepted_later(&mut self, tenant: TenantNo, command: Command) -> Reply {
        self.now = self.now.plus_us(1);
        self.accepted(tenant, command)
    }

    pub fn request(&mut self, tenant: TenantNo, command: Command) -> Request {
        let ms = u64::try_from(self.now.0 / 1000).unwrap();
        let (high, low) = (self.random.next(), self.random.next());
        let high = (ms << 16) | 0x7000 | (high & 0x0fff);
        let id = RequestId(Uuid::from_u64_pair(high, (low >> 2) | (1 << 63)));
        let actor = Actor {
            user: "admin".to_owned(),
            created_by: format!("clerk {}", self.random.below(3)),
            reason: self.random.chance(30).then(|| "because".to_owned()),
            comments: None,
            token: id.0,
        };
        Request { id, tenant, actor, idempotency: None, command }
    }

    /// Executes and commits requests as one batch, and learns from the answers.
    pub fn batch(&mut self, requests: Vec<Request>) -> Vec<Verdict> {
        assert!(requests.len() <= BATCH_COMMANDS_MAX);
        let about: Vec<(TenantNo, Option<AccountId>)> =
            requests.iter().map(|it| (it.tenant, it.command.account())).collect();
        let works: Vec<Work> = requests.into_iter().map(|it| Work::Request(Box::new(it))).collect();
        let times = Times { now: self.now, real_now: self.now };
        let processed = self.partition.process(&works, times, &mut |_, _| Ok(()));
        assert!(processed.is_committed(), "{:?}", processed.verdicts);
        for Performing { effect, .. } in processed.calls {
            let call = match effect {
                Effect::CallGateway(call) => call,
                Effect::AskAboutMethod(request) => {
                    self.requests.push(*request);
                    continue;
                }
            };
            self.learn_transaction(call.tenant, call.payment, call.transaction);
            self.payers.insert(call.payment, call.account);
            self.calls.push(*call);
        }
        for ((tenant, account), verdict) in about.iter().zip(&processed.verdicts) {
            match verdict {
                Verdict::Answered(Answer::Replied(reply)) => {
                    self.accepted += 1;
                    self.learn(*tenant, *account, reply);
                }
                Verdict::Waits(_) => self.accepted += 1,
                Verdict::Answered(_) => {}
                Verdict::Unavailable(reason) => panic!("unavailable: {reason:?}"),
            }
        }
        processed.verdicts
    }

    fn learn(&mut self, tenant: TenantNo, account: Option<AccountId>, reply: &Reply) {
        match reply {
            Reply::Account(AccountReply::Created(id)) => self.accounts.push((tenant, *id)),
            Reply::Account(
                AccountReply::PaymentMethodPending(_) | AccountReply::PaymentMethodRefused(_),
            ) => {}
            Reply::Account(AccountReply::PaymentMethodCreated(id)) => {
                self.methods.push((tenant, account.expect("it was named"), *id));
            }
            Reply::Payment(it) => {
                self.learn_transaction(tenant, it.payment, it.transaction);
                self.payers.extend(account.map(|account| (it.payment, account)));
            }
            Reply::TenantCreated(_) | Reply::TagDefinitionCreated(_) => {
                let no = u32::try_from(self.tenants.len()).unwrap() + 1;
                self.tenants.push(TenantNo(no));
            }
            Reply::Done
            | Reply::Access(_)
            | Reply::Flag(_)
            | Reply::Customer(_)
            | Reply::PaymentAborted(_)
            | Reply::Entitlement(_)
            | Reply::Billing(_)
            | Reply::Imported { .. } => {}
        }
    }

    fn learn_transaction(&mut self, tenant: TenantNo, payment: PaymentId, id: TransactionId) {
        if !self.transactions.contains(&(tenant, payment, id)) {
            self.transactions.push((tenant, payment, id));
        }
    }

    /// A history of about `commands` commands, in batches, over some days.
    pub fn run(&mut self, commands: usize) {
        let mut left = commands;
        while left > 0 {
            let size = (1 + self.random.below(40)).min(left);
            left -= size;
            let requests = (0..size).filter_map(|_| self.random_request()).collect();
            self.batch(requests);
            // Seconds mostly, now and then hours; once in a while a clock that steps back.
            let step_us = match self.random.below(20) {
                0 | 2 => 5 * 3600 * Timestamp::SECOND_US,
                1 => -40 * Timestamp::SECOND_US,
                _ => 3 * Timestamp::SECOND_US,
            };
            self.now = self.now.plus_us(step_us);
        }
    }

    fn random_request(&mut self) -> Option<Request> {
        let roll = self.random.below(100);
        let (tenant, command) = match roll {
            0..10 => (*self.random.pick(&self.tenants)?, self.create_account()),
            10..13 => self.update_account()?,
            13..25 => self.create_method()?,
            25..28 => self.change_method()?,
            28..52 => self.initiate()?,
            52..72 => self.follow_up()?,
            72..90 => self.answer_call()?,
            _ => self.late_word()?,
        };
        Some(self.request(tenant, command))
    }

    fn create_account(&mut self) -> Command {
        let external_key =
            self.random.chance(70).then(|| format!("customer-{}", self.random.next()));
        let person = if self.random.chance(60) {
            person(&format!("Person {}", self.random.below(1000)))
        } else {
            Person::default()
        };
        create_account(external_key, person)
    }

    fn update_account(&mut self) -> Option<(TenantNo, Command)> {
        let (tenant, account) = *self.random.pick(&self.accounts)?;
        let person = person(&format!("Renamed {}", self.random.below(1000)));
        Some((tenant, rename(account, person)))
    }

    fn create_method(&mut self) -> Option<(TenantNo, Command)> {
        let (tenant, account) = *self.random.pick(&self.accounts)?;
        let command = Command::Account(AccountCommand::CreatePaymentMethod(CreatePaymentMethod {
            account,
            external_key: self.random.chance(30).then(|| format!("card-{}", self.random.next())),
            gateway: (*self.random.pick(&GATEWAYS)?).to_owned(),
            external_payment_method_id: None,
            properties: vec![("color".to_owned(), "blue".to_owned())],
            is_default: self.random.chance(70),
            is_attached: false,
        }));
        Some((tenant, command))
    }

    fn change_method(&mut self) -> Option<(TenantNo, Command)> {
        let (tenant, account, payment_method) = *self.random.pick(&self.methods)?;
        let command = if self.random.chance(30) {
            let (even_if_default, auto_pay_off) = match self.random.below(3) {
                0 => (false, None),
                1 => (true, None),
                _ => (false, Some(account)),
            };
            let it = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
            Command::Account(AccountCommand::DeletePaymentMethod(it))
        } else {
            Command::Account(AccountCommand::SetDefaultPaymentMethod(SetDefaultPaymentMethod {
                account,
                payment_method,
            }))
        };
        Some((tenant, command))
    }

    fn initiate(&mut self) -> Option<(TenantNo, Command)> {
        let (tenant, mut account, mut method) = *self.random.pick(&self.methods)?;
        // Often a further try of a payment that exists, perhaps through another gateway.
        let again = self.random.chance(50).then(|| self.random.pick(&self.transactions).copied());
        let again = again.flatten().filter(|(of, ..)| *of == tenant);
        if let Some((_, payment, _)) = again {
            account = self.payers[&payment];
            let own = self.methods.iter().filter(|it| it.1 == account);
            method = self.random.pick(&own.copied().collect::<Vec<_>>())?.2;
        }
        // Of every fourth there is an attempt.
        let is_controlled = self.transactions.len().is_multiple_of(4);
        let it = Initiate {
            account,
            payment: again.map(|(_, payment, _)| payment),
            payment_method: self.random.chance(70).then_some(method),
            payment_key: (again.is_none() && self.random.chance(50))
                .then(|| format!("order-{}", self.random.next())),
            transaction_key: self.random.chance(40).then(|| format!("try-{}", self.random.next())),
            amount: Some(format!("{}.50", 1 + self.random.below(300))),
            currency: self.random.chance(30).then(|| currency("EUR")),
            properties: vec![],
            control: is_controlled.then(|| "faregate-rules".to_owned()).into_iter().collect(),
            approved: vec![],
            gateways: vec![],
        };
        Some((
            tenant,
            match self.random.below(5) {
                0 => Command::Payment(PaymentCommand::Credit(it)),
                1 | 2 => Command::Payment(PaymentCommand::Authorize(it)),
                _ => Command::Payment(PaymentCommand::Purchase(it)),
            },
        ))
    }

    fn follow_up(&mut self) -> Option<(TenantNo, Command)> {
        let (tenant, payment, _) = *self.random.pick(&self.transactions)?;
        let chargeback = self.random.chance(30);
        let it = FollowUp {
            transaction_key: chargeback.then(|| format!("dispute-{payment}")),
            amount: Some(format!("{}.25", self.random.below(90))),
            currency: Some(currency(if self.random.chance(60) { "USD" } else { "EUR" })),
            ..FollowUp::of(payment)
        };
        Some((
            tenant,
            match (chargeback, self.random.below(6)) {
                (true, 0..3) => Command::Payment(PaymentCommand::Chargeback(it)),
                (true, _) => Command::Payment(PaymentCommand::ReverseChargeback(it)),
                (false, 0 | 1) => Command::Payment(PaymentCommand::Capture(it)),
                (false, 2 | 3) => Command::Payment(PaymentCommand::Refund(it)),
                (false, 4) => Command::Payment(PaymentCommand::Void(it)),
                (false, _) => Command::Payment(PaymentCommand::Complete(Complete {
                    payment,
                    transaction: None,
                    transaction_key: None,
                    kind: None,
                    amount: None,
                    currency: None,
                    properties: vec![],
                })),
            },
        ))
    }

    fn answer_call(&mut self) -> Option<(TenantNo, Command)> {
        if self.calls.is_empty() {
            return None;
        }
        let call = self.calls.swap_remove(self.random.below(self.calls.len()));
        let answer = match self.random.below(12) {
            0 => GatewayAnswer::TimedOut,
            1 => GatewayAnswer::Nothing,
            2 => GatewayAnswer::Failed { message: "on fire".to_owned() },
            3 => GatewayAnswer::not_reached("no route".to_owned()),
            _ => GatewayAnswer::Outcome(self.outcome()),
        };
        let (payment, transaction) = (call.payment, call.transaction);
        Some((
            call.tenant,
            Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
                payment,
                transaction,
                answer,
                is_controlled: call.is_controlled,
                tries: None,
            })),
        ))
    }

    /// Notifications, hearsay and operators: successes that fail, failures that succeed.
    fn late_word(&mut self) -> Option<(TenantNo, Command)> {
        let (tenant, payment, transaction) = *self.random.pick(&self.transactions)?;
        let command = match self.random.below(4) {
            0 => {
                let success = Some(self.random.chance(60));
                Command::Payment(PaymentCommand::ResolvePending(ResolvePending {
                    payment,
                    transaction,
                    success,
                }))
            }
            1 => {
                let statuses = [
                    TransactionStatus::Success,
                    TransactionStatus::Pending,
                    TransactionStatus::PaymentFailure,
                    TransactionStatus::Unknown,
                ];
                let status = *self.random.pick(&statuses)?;
                Command::Payment(PaymentCommand::FixTransaction(FixTransaction {
                    payment,
                    transaction,
                    status,
                }))
            }
            _ => {
                let knowledge = match self.random.below(5) {
                    0 => GatewayKnowledge::NotFound,
                    1 => GatewayKnowledge::Unreachable,
                    _ => GatewayKnowledge::Found(self.outcome()),
                };
                let asked_at = self.now;
                Command::Payment(PaymentCommand::GatewayInquired(GatewayInquired {
                    payment,
                    transaction,
                    knowledge,
                    asked_at,
                }))
            }
        };
        Some((tenant, command))
    }

    fn outcome(&mut self) -> GatewayOutcome {
        let statuses = [
            GatewayStatus::Processed,
            GatewayStatus::Processed,
            GatewayStatus::Processed,
            GatewayStatus::Pending,
            GatewayStatus::Error,
            GatewayStatus::Canceled,
            GatewayStatus::Undefined,
        ];
        GatewayOutcome {
            status: *self.random.pick(&statuses).expect("there are some"),
            amount: self.random.chance(30).then_some(AmountMinor(25)),
            currency: None,
            error_code: None,
            error_message: None,
            first_reference: self.random.chance(50).then(|| "ref".to_owned()),
            second_reference: None,
            next_action: None,
            payment_method: None,
        }
    }
}

pub fn currency(code: &str) -> Currency {
    Currency::parse(code).unwrap()
}

pub fn person(name: &str) -> Person {
    let mail = name.to_ascii_lowercase().replace(' ', ".");
    Person {
        name: Some(name.to_owned()),
        email: Some(format!("{mail}@example.org")),
        city: Some("Lyon".to_owned()),
        ..Person::default()
    }
}

pub fn create_tenant(api_key: &str) -> Command {
    Command::Tenant(TenantCommand::Create(CreateTenant {
        id: None,
        external_key: None,
        api_key: api_key.to_owned(),
        secret_hash: "hash".to_owned(),
    }))
}

pub fn create_account(external_key: Option<String>, person: Person) -> Command {
    Command::Account(AccountCommand::Create(Box::new(CreateAccount {
        external_key,
        person,
        currency: Some(currency("USD")),
        ..CreateAccount::default()
    })))
}

pub fn rename(account: AccountId, person: Person) -> Command {
    let update = UpdateAccount { person, ..UpdateAccount::unchanged(account) };
    Command::Account(AccountCommand::Update(Box::new(update)))
}
