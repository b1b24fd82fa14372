//! Payment methods at their gateway: attached, charged and deleted at any moment, by processes that die, at a gateway
//! that loses requests and answers.

mod gateway;
mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::account::CreateAccount;
use domain::account::payment_method::{ContinueMethod, CreatePaymentMethod, DeletePaymentMethod};
use domain::change::{Change, TimerChange};
use domain::command::{AccountCommand, PaymentCommand};
use domain::payment::combo::{ComboAccount, ComboMethod, ExistingAccount, InitiateCombo};
use domain::payment::{Initiate, TransactionType};
use domain::timer::{Timer, TimerKind};
use domain::{
    AccountId, Command, Currency, Effect, GatewaySettings, PaymentMethod, PaymentMethodId,
    RequestId, Settings, Timestamp,
};
use engine::ports::{Entry, Loaded};
use store::Share;

use self::gateway::Event;
use self::model::Model;
use crate::disk::Disk;
use crate::faulty::StoreBug;
use crate::kernel::{self, Due, Kernel, Setup, Tally, Workload};

const GATEWAY: &str = "vault";
const SECOND_US: i64 = Timestamp::SECOND_US;
const TIMEOUT_US: i64 = kernel::GATEWAY.timeout_us;
const SETTLE_AFTER_US: i64 = 4 * SECOND_US;
/// How often a gateway is asked about one method.
const QUESTIONS_MAX: usize = 12;

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

impl StoreBug for MethodMutant {
    fn spoil_load(&mut self, loaded: &mut Loaded) {
        if *self == Self::ChargesUnattached {
            let methods = loaded.state.account.payment_methods.iter_mut();
            methods.filter(|it| it.is_attaching()).for_each(|it| it.active = true);
        }
    }

    fn spoil_entry(&mut self, entry: &mut Entry) {
        if *self == Self::DropsTimer {
            entry.changes.retain(|it| !matches!(it, Change::Timer(TimerChange::Set(_))));
        }
    }
}

/// The workload.
pub struct Methods {
    kernel: Kernel<MethodMutant, Event>,
    mutant: Option<MethodMutant>,
    model: Model,
    /// Whether anything is lost any more.
    is_lossy: bool,
}

impl Workload for Methods {
    type Mutant = MethodMutant;

    const NAME: &'static str = "methods";
    const STEPS: usize = 250;
    const COUNTS: &'static [&'static str] =
        &["active", "refused", "deleted", "charged", "asked", "deaths"];
    const MUTANTS: &'static [(MethodMutant, &'static str)] = &[
        (MethodMutant::ChargesUnattached, "a method that is charged is attached"),
        (MethodMutant::DropsTimer, "no step is left"),
        (MethodMutant::SendsNoDetach, "what is active here is attached there"),
        (MethodMutant::AsksTooEarly, "what is active here is attached there"),
        (MethodMutant::TakesLostForRefused, "what is active here is attached there"),
    ];

    fn new(seed: u64, mutant: Option<MethodMutant>) -> Self {
        let gateway = GatewaySettings {
            attaches_methods: true,
            settle_after_us: SETTLE_AFTER_US,
            ..kernel::GATEWAY
        };
        let settings = Arc::new(Settings {
            gateways: BTreeMap::from([(GATEWAY.to_owned(), gateway)]),
            unknown_delays_us: vec![3 * SECOND_US; QUESTIONS_MAX],
            ..Settings::without_gateways(Timestamp::DAY_US, 10)
        });
        let setup =
            Setup { settings, share: Share::WHOLE, begins_at: 1_000 * SECOND_US, bug: mutant };
        let kernel = Kernel::new(seed, Self::NAME, setup);
        Self { kernel, mutant, model: Model::default(), is_lossy: true }
    }

    fn furnish(&mut self) -> Result<(), String> {
        for _ in 0..2 {
            let create = Command::Account(AccountCommand::Create(Box::<CreateAccount>::default()));
            let id = self.submit(create)?;
            self.kernel.accounts.push(id.entity(0));
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        let until = self.kernel.now + self.kernel.random.between(0, 2 * SECOND_US);
        self.advance(until)?;
        let account = self.kernel.any_account();
        match self.kernel.random.below(100) {
            0..=34 => self.create(account),
            35..=49 => self.combo(account),
            50..=74 => self.charge(account),
            75..=94 => self.delete(),
            _ => {
                self.kernel.die();
                Ok(())
            }
        }
    }

    fn finish(mut self) -> Result<Tally, String> {
        self.is_lossy = false;
        self.settle()?;
        self.model.audit(&self.kernel.disk.books(), &mut self.kernel.tally)?;
        Ok(self.kernel.tally)
    }
}

impl Methods {
    fn create(&mut self, account: AccountId) -> Result<(), String> {
        let random = &mut self.kernel.random;
        let key = random.chance(300).then(|| format!("k{}", random.below(20)));
        let create = CreatePaymentMethod {
            external_key: key,
            is_default: random.chance(500),
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
            payment_method: Some(*self.kernel.random.pick(&own)),
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
        let payment_method = *self.kernel.random.pick(&methods);
        let (even_if_default, auto_pay_off) = (true, None);
        let delete = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
        self.submit(Command::Account(AccountCommand::DeletePaymentMethod(delete))).map(drop)
    }

    fn methods(&self) -> Vec<PaymentMethod> {
        self.kernel.disk.books().methods
    }

    /// Commits a command, whatever it is answered, and performs what it asks for.
    fn submit(&mut self, command: Command) -> Result<RequestId, String> {
        let attaches = matches!(command, Command::Payment(PaymentCommand::InitiateCombo(_)));
        let done = self.kernel.submit(command).committed()?;
        for effect in done.effects {
            match effect {
                Effect::CallGateway(call) => self.call(call, attaches)?,
                Effect::AskAboutMethod(request) => self.ask(*request),
            }
        }
        Ok(done.id)
    }

    /// Time passes: what is due happens, in order.
    fn advance(&mut self, until: i64) -> Result<(), String> {
        while let Some(due) = self.kernel.next(until) {
            match due {
                Due::Event(event) => self.happen(event)?,
                Due::Timer(timer) => self.fire(&timer)?,
            }
        }
        Ok(())
    }

    fn fire(&mut self, timer: &Timer) -> Result<(), String> {
        assert_eq!(timer.key.kind, TimerKind::MethodStep, "nothing here sets another timer");
        let fire = ContinueMethod {
            account: timer.account,
            payment_method: PaymentMethodId::new(timer.key.object),
            due: timer.due,
        };
        self.submit(Command::Account(AccountCommand::ContinueMethod(fire))).map(drop)
    }

    /// Nothing more is asked for, and nothing is lost: until nothing is to be done any more.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..1_000 {
            if self.kernel.is_idle() {
                return Ok(());
            }
            self.advance(self.kernel.now + TIMEOUT_US)?;
        }
        Err("every step ends".to_owned())
    }
}
