//! Measures the cost of a flow on the partition's thread: an account, a payment method and an external payment,
//! executed and committed with fsync, at several batch sizes.
//!
//! `cargo run --release -p store --example flow_cost -- [--flows N] [--page-bytes N]
//! [--cache-kib N] [--checkpoint-pages N] [--claims-held N] [--keys] [--batch N] [--dir DIR] [--verify]`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::account::CreateAccount;
use domain::account::payment_method::CreatePaymentMethod;
use domain::command::{AccountCommand, PaymentCommand, TenantCommand};
use domain::payment::{Actor, Initiate};
use domain::reply::AccountReply;
use domain::tenant::CreateTenant;
use domain::{
    AccountId, Command, Currency, EXTERNAL_PAYMENT, GatewaySettings, Person, Reply, Request,
    RequestId, Settings, TenantNo, Timestamp,
};
use engine::partition::{Answer, Partition, Times, Verdict, Work};
use store::verify::verify_dir;
use store::{Options, SqlStore, open_dir};
use uuid::Uuid;

struct Arguments {
    flows: usize,
    keys: bool,
    verify: bool,
    batches: Vec<usize>,
    dir: Option<PathBuf>,
    options: Options,
}

fn main() {
    let arguments = Arguments::parse();
    println!("batch   flows/s  CPU us/flow  commit p50 us  p99 us  max us   bytes/flow");
    for &batch in &arguments.batches {
        let dir = arguments.dir.clone().unwrap_or_else(|| {
            std::env::temp_dir().join(format!("faregate-flow-cost-{}", std::process::id()))
        });
        run(&arguments, batch, &dir);
        if arguments.verify {
            let began = Instant::now();
            let report = verify_dir(&dir).expect("it can be read");
            assert!(report.is_sound(), "{:?}", report.problems);
            println!("      sound; verified in {:.1} s", began.elapsed().as_secs_f64());
        }
        if arguments.dir.is_none() {
            std::fs::remove_dir_all(&dir).expect("what was made can be removed");
        }
    }
}

impl Arguments {
    fn parse() -> Self {
        let mut parsed = Self {
            flows: 100_000,
            keys: false,
            verify: false,
            batches: vec![16, 64, 256],
            dir: None,
            options: Options::default(),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || -> u32 {
                let text = words.next().expect("a number follows");
                text.parse().expect("it is a number")
            };
            match word.as_str() {
                "--keys" => parsed.keys = true,
                "--verify" => parsed.verify = true,
                "--flows" => parsed.flows = number() as usize,
                "--batch" => parsed.batches = vec![number() as usize],
                "--page-bytes" => parsed.options.page_bytes = number(),
                "--cache-kib" => parsed.options.cache_kib = number(),
                "--claims-held" => parsed.options.claims_held = number() as usize,
                "--checkpoint-pages" => parsed.options.checkpoint_pages = number(),
                "--dir" => parsed.dir = words.next().map(PathBuf::from),
                other => panic!("unknown argument {other}"),
            }
        }
        parsed
    }
}

fn run(arguments: &Arguments, batch: usize, dir: &Path) {
    let mut bench = Bench::open(dir, arguments);
    let tenant = bench.tenant();
    let mut commits = Vec::new();
    let (began, cpu_before) = (Instant::now(), cpu());
    let rounds = arguments.flows / batch;
    for _ in 0..rounds {
        bench.round(tenant, batch, &mut commits);
    }
    let (elapsed, cpu) = (began.elapsed(), cpu().saturating_sub(cpu_before));
    commits.sort_unstable();
    let flows = u32::try_from(rounds * batch).expect("fits");
    let at = |percent: usize| commits[(commits.len() - 1) * percent / 100].as_micros();
    println!(
        "{batch:5} {:9.0} {:12.1} {:14} {:7} {:7} {:12}",
        f64::from(flows) / elapsed.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / f64::from(flows),
        at(50),
        at(99),
        at(100),
        std::fs::metadata(store::database_path(dir)).expect("it is there").len() / u64::from(flows),
    );
}

struct Bench {
    partition: Partition<SqlStore>,
    keys: bool,
}

impl Bench {
    fn open(dir: &Path, arguments: &Arguments) -> Self {
        let store = open_dir(dir, &arguments.options).expect("the directory can be used");
        let settings = Settings {
            gateways: [(EXTERNAL_PAYMENT.to_owned(), GatewaySettings::EXTERNAL)].into(),
            ..Settings::without_gateways(Timestamp::DAY_US, 100)
        };
        let partition = Partition::open(store, Arc::new(settings));
        Self { partition: partition.expect("it opens"), keys: arguments.keys }
    }

    fn tenant(&mut self) -> TenantNo {
        let command = Command::Tenant(TenantCommand::Create(CreateTenant {
            id: None,
            external_key: None,
            api_key: Uuid::now_v7().to_string(),
            secret_hash: "hash".to_owned(),
        }));
        self.process(TenantNo::SYSTEM, vec![command], &mut vec![]);
        TenantNo(1)
    }

    fn round(&mut self, tenant: TenantNo, batch: usize, commits: &mut Vec<Duration>) {
        let accounts = (0..batch).map(|_| self.create_account()).collect();
        let accounts: Vec<AccountId> = self
            .process(tenant, accounts, commits)
            .into_iter()
            .map(|reply| {
                let Reply::Account(AccountReply::Created(id)) = reply else { panic!("{reply:?}") };
                id
            })
            .collect();
        let methods = accounts.iter().map(|&account| create_method(account)).collect();
        self.process(tenant, methods, commits);
        let payments = accounts.iter().map(|&account| self.purchase(account)).collect();
        self.process(tenant, payments, commits);
    }

    fn process(
        &mut self,
        tenant: TenantNo,
        commands: Vec<Command>,
        commits: &mut Vec<Duration>,
    ) -> Vec<Reply> {
        let works: Vec<Work> =
            commands.into_iter().map(|it| Work::Request(Box::new(request(tenant, it)))).collect();
        let now = Timestamp(1_700_000_000 * Timestamp::SECOND_US);
        let began = Instant::now();
        let processed =
            self.partition.process(&works, Times { now, real_now: now }, &mut |_, _| Ok(()));
        commits.push(began.elapsed());
        let replies = processed.verdicts.into_iter().map(|verdict| {
            let Verdict::Answered(Answer::Replied(reply)) = verdict else { panic!("{verdict:?}") };
            reply
        });
        replies.collect()
    }

    fn key(&self) -> Option<String> {
        self.keys.then(|| Uuid::now_v7().to_string())
    }

    fn create_account(&self) -> Command {
        Command::Account(AccountCommand::Create(Box::new(CreateAccount {
            external_key: self.key(),
            person: Person {
                name: Some("Ada Lovelace".to_owned()),
                email: Some("ada@example.org".to_owned()),
                ..Person::default()
            },
            currency: Currency::parse("USD"),
            ..CreateAccount::default()
        })))
    }

    fn purchase(&self, account: AccountId) -> Command {
        Command::Payment(PaymentCommand::Purchase(Initiate {
            account,
            payment: None,
            payment_method: None,
            payment_key: self.key(),
            transaction_key: self.key(),
            amount: Some("10.00".to_owned()),
            currency: Currency::parse("USD"),
            properties: vec![],
            control: vec![],
            approved: vec![],
            gateways: vec![],
        }))
    }
}

fn create_method(account: AccountId) -> Command {
    let method = CreatePaymentMethod::default_of(account, EXTERNAL_PAYMENT.to_owned());
    Command::Account(AccountCommand::CreatePaymentMethod(method))
}

fn request(tenant: TenantNo, command: Command) -> Request {
    let id = RequestId(Uuid::now_v7());
    let actor = Actor::new("admin", "bench", id.0);
    Request { id, tenant, actor, idempotency: None, command }
}

/// Time on the processor of this process's first thread: the only one that works here.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells it");
    let ns = text.split(' ').next().expect("it has a first word");
    Duration::from_nanos(ns.parse().expect("it is a number"))
}
