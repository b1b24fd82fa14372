//! What is asked for: payments and balances of accounts that are made first.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use grpc::api;
use http::{HeaderMap, HeaderValue};

use super::channel::{Channel, Failure, Head, decode, frame};
use super::delay::DelayMs;
use crate::bench::target::Target;

/// What a payment takes.
const AMOUNT_MINOR: i64 = 1_000;
const CURRENCY: &str = "USD";
/// Settles at once.
const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";
/// Settles when it is asked to.
const SIMULATOR: &str = "faregate-simulator";
/// What the simulator calls a delay drawn anew for each transaction.
const PAYMENT_DELAY: &str = "jitterMs";
/// Asks for a balance that takes its time.
const BALANCE_DELAY: &str = "faregate-balance-delay-ms";

const CREATE: &str = "/faregate.v1.AccountService/Create";
const ADD_PAYMENT_METHOD: &str = "/faregate.v1.AccountService/AddPaymentMethod";
const PAY: &str = "/faregate.v1.PaymentService/Pay";
const GET_BALANCE: &str = "/faregate.v1.BalanceService/GetBalance";

/// Accounts that are being made at one time.
const MAKING_MAX: usize = 64;

/// What the requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// Payments.
    Payment,
    /// Balances.
    Balance,
    /// In turn a payment and a balance, which take their time.
    Half,
}

impl Mix {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Balance => "balance",
            Self::Half => "half",
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// 10.00 USD of an account.
    Payment,
    /// An account's balance.
    Balance,
}

impl Ask {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Balance => "balance",
        }
    }

    /// Whether a call was answered with what was asked for; the kind of failure where it was not.
    pub fn check(self, answer: Result<Bytes, Failure>) -> Result<(), Problem> {
        let wrong = |failure: Failure| Problem {
            kind: format!("{} {failure}", self.name()),
            details: failure.details().to_owned(),
        };
        let message = answer.map_err(wrong)?;
        match self {
            Self::Payment => {
                let paid: api::PayResponse = decode(&message).map_err(wrong)?;
                let outcome = paid.outcome.unwrap_or_default();
                let status = outcome.status();
                if status == api::TransactionStatus::Success {
                    return Ok(());
                }
                let kind = format!("{} {}", self.name(), status.as_str_name());
                Err(Problem { kind, details: outcome.gateway_error_message })
            }
            Self::Balance => decode::<api::GetBalanceResponse>(&message).map(drop).map_err(wrong),
        }
    }
}

/// Why a request failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {details}")]
pub struct Problem {
    /// What it is counted as.
    pub kind: String,
    /// What the server said.
    pub details: String,
}

/// What all clients share.
#[derive(Clone)]
pub struct Plan {
    /// The doors.
    pub targets: Vec<Target>,
    /// Of every call.
    pub metadata: HeaderMap,
    /// What the requests are.
    pub mix: Mix,
    /// How long payments take at their gateway; `None`: they settle at once.
    pub payment_delay: Option<DelayMs>,
    /// How long balances take.
    pub balance_delay: Option<DelayMs>,
    /// How long a request may take, counted from the start of its round.
    pub timeout: Duration,
}

impl Plan {
    /// The `number`-th request on a connection. Counted per connection, so that each target has the
    /// same share of both, whatever the number of targets.
    pub const fn ask(&self, number: u32) -> Ask {
        match self.mix {
            Mix::Payment => Ask::Payment,
            Mix::Balance => Ask::Balance,
            Mix::Half if number.is_multiple_of(2) => Ask::Payment,
            Mix::Half => Ask::Balance,
        }
    }

    /// The heads of the requests to a target.
    pub fn heads(&self, target: &Target) -> Heads {
        let probe = Head::new(target, GET_BALANCE, &self.metadata);
        let balance = match self.balance_delay {
            None => probe.clone(),
            Some(delay) => {
                let range = HeaderValue::from_str(&delay.to_string());
                probe.clone().with(BALANCE_DELAY, range.expect("digits and a dash are visible"))
            }
        };
        Heads { pay: Head::new(target, PAY, &self.metadata), balance, probe }
    }

    const fn gateway(&self) -> &'static str {
        if self.payment_delay.is_some() { SIMULATOR } else { EXTERNAL }
    }

    /// Makes accounts that can pay, `count` of them, in turn on each of the channels, which are in
    /// the order of the targets.
    pub async fn make_accounts(
        &self,
        channels: &[Channel],
        count: u32,
    ) -> Result<Accounts, Failure> {
        let makers: Vec<Maker<'_>> = channels
            .iter()
            .zip(&self.targets)
            .map(|(channel, target)| Maker::new(self, target, channel.clone()))
            .collect();
        // The first on each target alone: a node that has not seen the user yet hashes the password
        // for each request that comes before it knows it.
        let mut accounts = Accounts::default();
        for maker in &makers {
            accounts.add(&maker.make().await?, self.payment_delay);
        }
        let rest = usize::try_from(count).expect("32 bits fit").saturating_sub(makers.len());
        let making = makers.iter().cycle().take(rest).map(Maker::make);
        let mut making = stream::iter(making).buffer_unordered(MAKING_MAX);
        while let Some(made) = making.next().await {
            accounts.add(&made?, self.payment_delay);
        }
        Ok(accounts)
    }
}

/// Makes accounts on one target.
struct Maker<'a> {
    plan: &'a Plan,
    channel: Channel,
    create: Head,
    add_payment_method: Head,
}

impl<'a> Maker<'a> {
    fn new(plan: &'a Plan, target: &Target, channel: Channel) -> Self {
        Self {
            plan,
            channel,
            create: Head::new(target, CREATE, &plan.metadata),
            add_payment_method: Head::new(target, ADD_PAYMENT_METHOD, &plan.metadata),
        }
    }

    /// Makes an account that can pay; its id.
    async fn make(&self) -> Result<String, Failure> {
        let (mut channel, timeout) = (self.channel.clone(), self.plan.timeout);
        let create = frame(&api::AccountServiceCreateRequest {
            currency_code: CURRENCY.to_owned(),
            ..Default::default()
        });
        let made: api::AccountServiceCreateResponse =
            channel.call(&self.create, create, timeout).await?;
        let add = frame(&api::AddPaymentMethodRequest {
            account_id: made.account_id.clone(),
            gateway: self.plan.gateway().to_owned(),
            is_default: true,
            ..Default::default()
        });
        let added: api::AddPaymentMethodResponse =
            channel.call(&self.add_payment_method, add, timeout).await?;
        if made.account_id.is_empty() || added.payment_method_id.is_empty() {
            return Err(Failure::Malformed("no id"));
        }
        Ok(made.account_id)
    }
}

/// The heads of the requests to one target.
pub struct Heads {
    pay: Head,
    balance: Head,
    /// Of a balance that takes no longer than it has to, whatever the others do.
    pub probe: Head,
}

impl Heads {
    /// Of a request.
    pub const fn of(&self, ask: Ask) -> &Head {
        match ask {
            Ask::Payment => &self.pay,
            Ask::Balance => &self.balance,
        }
    }
}

/// The requests about each account, laid out once: they carry no keys of their own, so that two
/// about the same account are the same bytes.
#[derive(Default)]
pub struct Accounts {
    pay: Vec<Bytes>,
    balance: Vec<Bytes>,
}

impl Accounts {
    fn add(&mut self, account_id: &str, payment_delay: Option<DelayMs>) {
        let property = |delay: DelayMs| api::Property {
            key: PAYMENT_DELAY.to_owned(),
            value: delay.to_string(),
        };
        self.pay.push(frame(&api::PayRequest {
            account_id: account_id.to_owned(),
            amount: Some(api::Money {
                minor_units: AMOUNT_MINOR,
                currency_code: CURRENCY.to_owned(),
            }),
            properties: payment_delay.map(property).into_iter().collect(),
            ..Default::default()
        }));
        self.balance.push(frame(&api::GetBalanceRequest { account_id: account_id.to_owned() }));
    }

    /// A request about any of them.
    pub fn request(&self, ask: Ask, random: u64) -> Bytes {
        let of_all = match ask {
            Ask::Payment => &self.pay,
            Ask::Balance => &self.balance,
        };
        let place = random % u64::try_from(of_all.len()).expect("a length fits");
        of_all[usize::try_from(place).expect("below a length")].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(mix: Mix) -> Plan {
        let half = mix == Mix::Half;
        Plan {
            targets: vec![Target::parse("--targets", "127.0.0.1:9090").unwrap()],
            metadata: HeaderMap::new(),
            mix,
            payment_delay: half.then_some(DelayMs::HALF_PAYMENT),
            balance_delay: half.then_some(DelayMs::HALF_BALANCE),
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn mixes() {
        let asked = |mix| [0, 1, 2, 3].map(|number| plan(mix).ask(number).name()).join(" ");
        assert_eq!(asked(Mix::Payment), "payment payment payment payment");
        assert_eq!(asked(Mix::Balance), "balance balance balance balance");
        assert_eq!(asked(Mix::Half), "payment balance payment balance");
    }

    /// Payments name their delay in a property, balances in metadata.
    #[test]
    fn delays_are_asked_for() {
        const NAME: &str = "\"faregate-balance-delay-ms\": \"2000-5000\"";
        for (mix, property) in [(Mix::Half, "100-1000"), (Mix::Balance, "")] {
            let plan = plan(mix);
            let heads = plan.heads(&plan.targets[0]);
            let shown = |head: &Head| format!("{head:?}").contains(NAME);
            assert_eq!(shown(heads.of(Ask::Balance)), mix == Mix::Half);
            assert!(!shown(heads.of(Ask::Payment)) && !shown(&heads.probe));
            let mut accounts = Accounts::default();
            accounts.add("a", plan.payment_delay);
            let body = accounts.request(Ask::Payment, 7).slice(5..);
            let pay: api::PayRequest = decode(&body).unwrap();
            let values: String = pay.properties.into_iter().map(|it| it.value).collect();
            assert_eq!((pay.account_id.as_str(), values.as_str()), ("a", property));
        }
    }

    #[test]
    fn only_success_is_one() {
        let paid = |status| {
            let outcome = api::Outcome { status, ..Default::default() };
            frame(&api::PayResponse { outcome: Some(outcome) }).slice(5..)
        };
        let check = |status: api::TransactionStatus| {
            Ask::Payment.check(Ok(paid(status.into()))).map_err(|problem| problem.kind)
        };
        assert_eq!(check(api::TransactionStatus::Success), Ok(()));
        let unknown = check(api::TransactionStatus::Unknown).unwrap_err();
        assert_eq!(unknown, "payment TRANSACTION_STATUS_UNKNOWN");
        let broken = Ask::Balance.check(Ok(Bytes::from_static(b"\xff"))).unwrap_err();
        assert_eq!(broken.kind, "balance not the message expected");
        let late = Ask::Payment.check(Err(Failure::Timeout)).unwrap_err();
        assert_eq!(late.kind, "payment timeout");
    }
}
