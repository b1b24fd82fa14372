//! Calls for the tests.

use std::path::Path;
use std::time::Duration;

use domain::payment::{GatewayAnswer, GatewayKnowledge, GatewayOutcome, TransactionType};
use domain::{
    AccountId, AmountMinor, Currency, GatewayCall, PaymentId, PaymentMethodId, TenantNo,
    TransactionId,
};
use engine::ports::{Gateway, Inquiry};
use engine::{Clock, Deadline};
use gateway::simulator::journal::{FILE, read};
use gateway::simulator::record::Record;
use gateway::simulator::{Options, Simulator};
use gateway::{Error, simulator};
use uuid::Uuid;

/// The timeout of a test that waits for an event.
pub const TIMEOUT: Duration = Duration::from_secs(20);

pub fn usd() -> Currency {
    Currency::parse("USD").unwrap()
}

pub fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x0192_aabb_ccdd_7000_8000_0000_0000_0000 + number)
}

/// A purchase of 10.00 USD with properties such as `delayMs=5 outcome=ERROR`.
pub fn purchase(number: u128, properties: &str) -> GatewayCall {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    GatewayCall {
        tenant: TenantNo(1),
        account: AccountId::new(id(number)),
        payment: PaymentId::new(id(number)),
        transaction: TransactionId::new(id(number)),
        payment_method: PaymentMethodId::new(Uuid::nil()),
        gateway: simulator::NAME.to_owned(),
        operation: TransactionType::Purchase,
        amount: Some(AmountMinor(1_000)),
        currency: usd(),
        external_payment_method_id: None,
        payment_method_properties: vec![],
        properties: properties.split(' ').filter(|it| !it.is_empty()).map(pair).collect(),
        references: vec![],
        is_controlled: false,
        merchant_account: None,
        seq: domain::Seq(1),
        timeout_us: 30_000_000,
        tries: None,
    }
}

pub fn inquiry(number: u128) -> Inquiry {
    Inquiry {
        tenant: TenantNo(1),
        payment: PaymentId::new(id(number)),
        transaction: TransactionId::new(id(number)),
    }
}

pub fn options() -> Options {
    Options::new(Clock::new(false))
}

/// Performs a call that begins now.
pub async fn perform(gateway: &impl Gateway, call: GatewayCall) -> GatewayAnswer {
    let timeout = Duration::from_micros(u64::try_from(call.timeout_us).unwrap());
    let deadline = Deadline::within(&Clock::new(false), timeout);
    gateway.call(call, deadline).await
}

/// Opens a simulator. Its predecessor may still hold the journal.
pub fn open(dir: &Path) -> Simulator {
    retry(|| Simulator::open(dir, options())).unwrap()
}

/// Retries while another simulator holds the journal.
pub fn retry<T>(mut open: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let started = std::time::Instant::now();
    loop {
        match open() {
            Err(Error::JournalInUse { .. }) if started.elapsed() < TIMEOUT => {
                std::thread::yield_now();
            }
            result => return result,
        }
    }
}

pub fn records(dir: &Path) -> Vec<Record> {
    read(&dir.join(FILE), u64::MAX).unwrap().collect::<Result<_, _>>().unwrap()
}

pub fn outcome(it: &GatewayOutcome) -> String {
    let amount = it.amount.map_or(String::new(), |amount| format!(" {}", amount.0));
    let code = it.error_code.as_ref().map_or(String::new(), |code| format!(" {code}"));
    format!("{:?}{amount}{code}", it.status)
}

pub fn answer(it: &GatewayAnswer) -> String {
    match it {
        GatewayAnswer::Outcome(it) => outcome(it),
        GatewayAnswer::Failed { message } => format!("failed: {message}"),
        GatewayAnswer::Nothing => "nothing".to_owned(),
        GatewayAnswer::TimedOut => "timed out".to_owned(),
        GatewayAnswer::NotSent { .. } => "not sent".to_owned(),
    }
}

pub fn knowledge(it: &GatewayKnowledge) -> String {
    match it {
        GatewayKnowledge::Found(it) => outcome(it),
        GatewayKnowledge::NotFound => "not found".to_owned(),
        GatewayKnowledge::Unreachable => "unreachable".to_owned(),
    }
}

/// One record per line: kind, effect and state of the transaction.
pub fn shown(records: &[Record]) -> String {
    let line = |it: &Record| {
        let last = it.transaction.uuid().as_u128() & 0xffff;
        let outcome = outcome(&it.outcome.clone().outcome());
        format!("{last} {:?} {:?} {outcome}\n", it.kind, it.effect)
    };
    records.iter().map(line).collect()
}
