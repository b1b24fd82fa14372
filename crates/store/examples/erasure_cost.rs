//! Measures the cost of an erasure on the partition's thread: accounts with several revisions of a person and a
//! payment method are made, and then erased, each batch with fsync.
//!
//! `cargo run --release --workspace --example erasure_cost -- [--accounts N] [--revisions N]
//! [--notes-bytes N] [--batch N] [--dir DIR]`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use domain::account::payment_method::CreatePaymentMethod;
use domain::account::{CreateAccount, EraseAccount, UpdateAccount};
use domain::command::{AccountCommand, TenantCommand};
use domain::payment::Actor;
use domain::reply::AccountReply;
use domain::tenant::CreateTenant;
use domain::{
    AccountId, Command, Currency, EXTERNAL_PAYMENT, GatewaySettings, Person, Reply, Request,
    RequestId, Settings, TenantNo, Timestamp,
};
use engine::partition::{Answer, Partition, Times, Verdict, Work};
use store::{Options, SqlStore, database_path, open_dir};
use uuid::Uuid;

/// How many commands a batch has while accounts are made.
const MADE_AT_ONCE: usize = 256;

struct Arguments {
    accounts: usize,
    revisions: usize,
    notes_bytes: usize,
    batch: usize,
    dir: PathBuf,
}

fn main() {
    let arguments = Arguments::parse();
    let mut bench = Bench::open(&arguments.dir);
    bench.process(TenantNo::SYSTEM, vec![create_tenant()]);
    let accounts = bench.people(&arguments);
    let (began, written) = (Instant::now(), bytes_written());
    for some in accounts.chunks(arguments.batch) {
        bench.process(TenantNo(1), some.iter().map(|account| erase(*account)).collect());
    }
    let elapsed = began.elapsed().as_secs_f64();
    // What the write-ahead log still has is written to the database when it is closed.
    drop(bench);
    let written = bytes_written() - written;
    let count = u32::try_from(accounts.len()).expect("fits");
    println!(
        "batch {}: {:.0} erasures/s, {} bytes written/erasure, database {} bytes",
        arguments.batch,
        f64::from(count) / elapsed,
        written / u64::from(count),
        std::fs::metadata(database_path(&arguments.dir)).expect("it is there").len(),
    );
    std::fs::remove_dir_all(&arguments.dir).expect("what was made can be removed");
}

impl Arguments {
    fn parse() -> Self {
        let name = format!("faregate-erasure-cost-{}", std::process::id());
        let mut parsed = Self {
            accounts: 10_000,
            revisions: 3,
            notes_bytes: 100,
            batch: 1,
            dir: std::env::temp_dir().join(name),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words.next().expect("a value follows");
            let number = || value.parse().expect("it is a number");
            match word.as_str() {
                "--accounts" => parsed.accounts = number(),
                "--revisions" => parsed.revisions = number(),
                "--notes-bytes" => parsed.notes_bytes = number(),
                "--batch" => parsed.batch = number(),
                "--dir" => parsed.dir = PathBuf::from(value),
                other => panic!("unknown argument {other}"),
            }
        }
        parsed
    }
}

struct Bench {
    partition: Partition<SqlStore>,
}

impl Bench {
    fn open(dir: &Path) -> Self {
        let store = open_dir(dir, &Options::default()).expect("the directory can be used");
        let settings = Settings {
            gateways: [(EXTERNAL_PAYMENT.to_owned(), GatewaySettings::EXTERNAL)].into(),
            ..Settings::without_gateways(Timestamp::DAY_US, 100)
        };
        let partition = Partition::open(store, Arc::new(settings)).expect("it opens");
        Self { partition }
    }

    /// Accounts, each with revisions of a person and a payment method.
    fn people(&mut self, arguments: &Arguments) -> Vec<AccountId> {
        let mut accounts = vec![];
        while accounts.len() < arguments.accounts {
            let count = MADE_AT_ONCE.min(arguments.accounts - accounts.len());
            let made = self.process(TenantNo(1), (0..count).map(|_| create_account()).collect());
            let made = made.into_iter().map(|reply| {
                let Reply::Account(AccountReply::Created(id)) = reply else { panic!("{reply:?}") };
                id
            });
            accounts.extend(made);
        }
        for revision in 1..=arguments.revisions {
            for some in accounts.chunks(MADE_AT_ONCE) {
                let notes = "x".repeat(arguments.notes_bytes);
                let change = |id: &AccountId| rename(*id, revision, &notes);
                self.process(TenantNo(1), some.iter().map(change).collect());
            }
        }
        for some in accounts.chunks(MADE_AT_ONCE) {
            self.process(TenantNo(1), some.iter().map(|id| create_method(*id)).collect());
        }
        accounts
    }

    fn process(&mut self, tenant: TenantNo, commands: Vec<Command>) -> Vec<Reply> {
        let works: Vec<Work> =
            commands.into_iter().map(|it| Work::Request(Box::new(request(tenant, it)))).collect();
        let now = Timestamp(1_700_000_000 * Timestamp::SECOND_US);
        let processed =
            self.partition.process(&works, Times { now, real_now: now }, &mut |_, _| Ok(()));
        let replies = processed.verdicts.into_iter().map(|verdict| {
            let Verdict::Answered(Answer::Replied(reply)) = verdict else { panic!("{verdict:?}") };
            reply
        });
        replies.collect()
    }
}

fn create_tenant() -> Command {
    Command::Tenant(TenantCommand::Create(CreateTenant {
        id: None,
        external_key: None,
        api_key: "bench".to_owned(),
        secret_hash: "hash".to_owned(),
    }))
}

fn create_account() -> Command {
    Command::Account(AccountCommand::Create(Box::new(CreateAccount {
        external_key: Some(Uuid::now_v7().to_string()),
        person: person(0, ""),
        currency: Currency::parse("USD"),
        ..CreateAccount::default()
    })))
}

fn rename(account: AccountId, revision: usize, notes: &str) -> Command {
    Command::Account(AccountCommand::Update(Box::new(UpdateAccount {
        person: person(revision, notes),
        ..UpdateAccount::unchanged(account)
    })))
}

fn person(revision: usize, notes: &str) -> Person {
    Person {
        name: Some(format!("Ada Lovelace {revision}")),
        email: Some("ada@example.org".to_owned()),
        address1: Some("12 St James's Square".to_owned()),
        city: Some("London".to_owned()),
        notes: Some(notes.to_owned()),
        ..Person::default()
    }
}

fn create_method(account: AccountId) -> Command {
    let method = CreatePaymentMethod::default_of(account, EXTERNAL_PAYMENT.to_owned());
    Command::Account(AccountCommand::CreatePaymentMethod(method))
}

fn erase(account: AccountId) -> Command {
    Command::Account(AccountCommand::Erase(EraseAccount { account }))
}

fn request(tenant: TenantNo, command: Command) -> Request {
    let id = RequestId(Uuid::now_v7());
    let actor = Actor::new("admin", "bench", id.0);
    Request { id, tenant, actor, idempotency: None, command }
}

/// The bytes that this process has written to files so far.
fn bytes_written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").expect("Linux has it");
    let line = text.lines().find_map(|it| it.strip_prefix("wchar: "));
    line.expect("it is counted").parse().expect("it is a number")
}
