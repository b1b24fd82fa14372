//! The requests: payments and balances of accounts that are created first.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use grpc::api;
use http::{HeaderMap, HeaderValue};

use super::channel::{Channel, Failure, Head, decode, frame};
use super::delay::DelayMs;
use command_line::Target;

/// The amount of each payment.
const AMOUNT_MINOR: i64 = 1_000;
const CURRENCY: &str = "USD";
/// The gateway that settles at once.
const EXTERNAL: &str = "__EXTERNAL_PAYMENT__";
/// The gateway that settles after the requested delay.
const SIMULATOR: &str = "faregate-simulator";
/// The property of the simulator's delay, drawn for each transaction.
const PAYMENT_DELAY: &str = "jitterMs";
/// The metadata that delays a balance.
const BALANCE_DELAY: &str = "faregate-balance-delay-ms";

const CREATE: &str = "/faregate.v1.AccountService/Create";
const ADD_PAYMENT_METHOD: &str = "/faregate.v1.AccountService/AddPaymentMethod";
const PAY: &str = "/faregate.v1.PaymentService/Pay";
const GET_BALANCE: &str = "/faregate.v1.BalanceService/GetBalance";

/// Accounts being created at one time.
const CREATING_MAX: usize = 64;

/// The kinds of requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mix {
    /// Payments.
    Payment,
    /// Balances.
    Balance,
    /// Payments and balances in turn, both delayed.
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

/// The kind of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// 10.00 USD of an account.
    Payment,
    /// An account's balance.
    Balance,
}

impl RequestKind {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Balance => "balance",
        }
    }

    /// Checks that a call was answered with a successful result of this kind.
    pub fn check(self, answer: Result<Bytes, Failure>) -> Result<(), Problem> {
        let problem = |failure: Failure| Problem {
            kind: format!("{} {failure}", self.name()),
            details: failure.details().to_owned(),
        };
        let message = answer.map_err(problem)?;
        match self {
            Self::Payment => {
                let paid: api::PayResponse = decode(&message).map_err(problem)?;
                let outcome = paid.outcome.unwrap_or_default();
                let status = outcome.status();
                if status == api::TransactionStatus::Success {
                    return Ok(());
                }
                let kind = format!("{} {}", self.name(), status.as_str_name());
                Err(Problem { kind, details: outcome.gateway_error_message })
            }
            Self::Balance => decode::<api::GetBalanceResponse>(&message).map(drop).map_err(problem),
        }
    }
}

/// Why a request failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {details}")]
pub struct Problem {
    /// The kind, as reports count it.
    pub kind: String,
    /// The server's message.
    pub details: String,
}

/// The settings that all clients share.
#[derive(Clone)]
pub struct Plan {
    pub targets: Vec<Target>,
    /// The metadata of every call.
    pub metadata: HeaderMap,
    /// The kinds of requests of a run.
    pub mix: Mix,
    /// How long payments take at their gateway; `None`: they settle at once.
    pub payment_delay: Option<DelayMs>,
    /// How long balances take.
    pub balance_delay: Option<DelayMs>,
    /// How long a request may take, counted from the start of its round.
    pub timeout: Duration,
}

impl Plan {
    /// The kind of the `number`-th request on a connection. Counted per connection, so that each target has the
    /// same share of both, whatever the number of targets.
    pub const fn kind(&self, number: u32) -> RequestKind {
        match self.mix {
            Mix::Payment => RequestKind::Payment,
            Mix::Balance => RequestKind::Balance,
            Mix::Half if number.is_multiple_of(2) => RequestKind::Payment,
            Mix::Half => RequestKind::Balance,
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

    /// Creates `count` accounts with a payment method, in turn on each channel; channels are in the
    /// order of the targets.
    pub async fn create_accounts(
        &self,
        channels: &[Channel],
        count: u32,
    ) -> Result<Accounts, Failure> {
        let creators: Vec<AccountCreator<'_>> = channels
            .iter()
            .zip(&self.targets)
            .map(|(channel, target)| AccountCreator::new(self, target, channel.clone()))
            .collect();
        // The first on each target alone: until a node has verified the user once, it hashes the
        // password for each request.
        let mut accounts = Accounts::default();
        for creator in &creators {
            accounts.add(&creator.create_account().await?, self.payment_delay);
        }
        let rest = usize::try_from(count).expect("32 bits fit").saturating_sub(creators.len());
        let creating = creators.iter().cycle().take(rest).map(AccountCreator::create_account);
        let mut creating = stream::iter(creating).buffer_unordered(CREATING_MAX);
        while let Some(created) = creating.next().await {
            accounts.add(&created?, self.payment_delay);
        }
        Ok(accounts)
    }
}

/// Creates accounts on one target.
struct AccountCreator<'a> {
    plan: &'a Plan,
    channel: Channel,
    create: Head,
    add_payment_method: Head,
}

impl<'a> AccountCreator<'a> {
    fn new(plan: &'a Plan, target: &Target, channel: Channel) -> Self {
        Self {
            plan,
            channel,
            create: Head::new(target, CREATE, &plan.metadata),
            add_payment_method: Head::new(target, ADD_PAYMENT_METHOD, &plan.metadata),
        }
    }

    /// Creates an account with a payment method. Returns its id.
    async fn create_account(&self) -> Result<String, Failure> {
        let (mut channel, timeout) = (self.channel.clone(), self.plan.timeout);
        let create = frame(&api::AccountServiceCreateRequest {
            currency_code: CURRENCY.to_owned(),
            ..Default::default()
        });
        let created: api::AccountServiceCreateResponse =
            channel.call(&self.create, create, timeout).await?;
        let add = frame(&api::AddPaymentMethodRequest {
            account_id: created.account_id.clone(),
            gateway: self.plan.gateway().to_owned(),
            is_default: true,
            ..Default::default()
        });
        let added: api::AddPaymentMethodResponse =
            channel.call(&self.add_payment_method, add, timeout).await?;
        if created.account_id.is_empty() || added.payment_method_id.is_empty() {
            return Err(Failure::Malformed("no id"));
        }
        Ok(created.account_id)
    }
}

/// The heads of the requests to one target.
pub struct Heads {
    pay: Head,
    balance: Head,
    /// The head of a balance without delay.
    pub probe: Head,
}

impl Heads {
    /// The head of a kind of request.
    pub const fn of(&self, kind: RequestKind) -> &Head {
        match kind {
            RequestKind::Payment => &self.pay,
            RequestKind::Balance => &self.balance,
        }
    }
}

/// The requests about each account, built once: they carry no keys, so that all requests of a kind
/// about an account are the same bytes.
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

    /// A request about the account that `random` chooses.
    pub fn request(&self, kind: RequestKind, random: u64) -> Bytes {
        let of_all = match kind {
            RequestKind::Payment => &self.pay,
            RequestKind::Balance => &self.balance,
        };
        let index = random % u64::try_from(of_all.len()).expect("a length fits");
        of_all[usize::try_from(index).expect("below a length")].clone()
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
    fn half_alternates_payments_and_balances() {
        let kinds = |mix| [0, 1, 2, 3].map(|number| plan(mix).kind(number).name()).join(" ");
        assert_eq!(kinds(Mix::Payment), "payment payment payment payment");
        assert_eq!(kinds(Mix::Balance), "balance balance balance balance");
        assert_eq!(kinds(Mix::Half), "payment balance payment balance");
    }

    #[test]
    fn payments_carry_their_delay_as_property_and_balances_as_metadata() {
        const NAME: &str = "\"faregate-balance-delay-ms\": \"2000-5000\"";
        for (mix, property) in [(Mix::Half, "100-1000"), (Mix::Balance, "")] {
            let plan = plan(mix);
            let heads = plan.heads(&plan.targets[0]);
            let shown = |head: &Head| format!("{head:?}").contains(NAME);
            assert_eq!(shown(heads.of(RequestKind::Balance)), mix == Mix::Half);
            assert!(!shown(heads.of(RequestKind::Payment)) && !shown(&heads.probe));
            let mut accounts = Accounts::default();
            accounts.add("a", plan.payment_delay);
            let body = accounts.request(RequestKind::Payment, 7).slice(5..);
            let pay: api::PayRequest = decode(&body).unwrap();
            let values: String = pay.properties.into_iter().map(|it| it.value).collect();
            assert_eq!((pay.account_id.as_str(), values.as_str()), ("a", property));
        }
    }

    #[test]
    fn other_statuses_and_failures_are_problems() {
        let paid = |status| {
            let outcome = api::Outcome { status, ..Default::default() };
            frame(&api::PayResponse { outcome: Some(outcome) }).slice(5..)
        };
        let check = |status: api::TransactionStatus| {
            RequestKind::Payment.check(Ok(paid(status.into()))).map_err(|problem| problem.kind)
        };
        assert_eq!(check(api::TransactionStatus::Success), Ok(()));
        let unknown = check(api::TransactionStatus::Unknown).unwrap_err();
        assert_eq!(unknown, "payment TRANSACTION_STATUS_UNKNOWN");
        let broken = RequestKind::Balance.check(Ok(Bytes::from_static(b"\xff"))).unwrap_err();
        assert_eq!(broken.kind, "balance not the message expected");
        let late = RequestKind::Payment.check(Err(Failure::Timeout)).unwrap_err();
        assert_eq!(late.kind, "payment timeout");
    }
}
