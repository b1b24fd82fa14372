//! Fills a store with payments and measures what reads and further writes cost then.
//!
//! `cargo run --release -p store --example big_store -- [PAYMENTS] [DIRECTORY]`. A directory that
//! holds a store already is measured as it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use domain::Account;
use domain::account::CreateAccount;
use domain::account::custom_field::{AddCustomFields, NewCustomField};
use domain::account::payment_method::CreatePaymentMethod;
use domain::command::{AccountCommand, PaymentCommand, TenantCommand};
use domain::object::{Object, ObjectType};
use domain::payment::Payment;
use domain::payment::Transaction;
use domain::payment::{
    Actor, FollowUp, GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus, Initiate,
};
use domain::reply::AccountReply;
use domain::tenant::CreateTenant;
use domain::{
    AccountId, Command, Currency, EXTERNAL_PAYMENT, Effect, GatewaySettings, PaymentId,
    PaymentMethodId, Person, Reply, Request, RequestId, Seq, Settings, TenantNo, Timestamp,
    TransactionId,
};
use engine::analytics::{Deltas, ROWS_MAX, ReadModels};
use engine::partition::{Answer, BATCH_COMMANDS_MAX, Partition, Times, Verdict, Work};
use engine::ports::{
    AnalyticsQueries as _, Cause, FieldSearch, FollowerQueries, HistoryOf, LedgerFilter, Page,
    Queries, Store, StoreError, TransactionsFilter,
};
use store::analytics::{SqliteAnalyticsQueries, SqliteReadModels, analytics_path};
use store::{Options, Reader, SqlQueries, SqlStore, database_path, open_dir};
use uuid::Uuid;

const TENANT: TenantNo = TenantNo(1);
const CARDS: &str = "cards";
/// The values of the custom field `plan` of an account.
const PLANS: [&str; 4] = ["free", "team", "business", "enterprise"];
/// 2024-01-01T00:00:00Z in Unix time.
const BEGIN_US: i64 = 1_704_067_200 * Timestamp::SECOND_US;
/// Domain time between two payments while filling: two million of them are two months.
const PAYMENT_EVERY_US: i64 = 2_600_000;
/// How often each read is measured.
const SAMPLES: usize = 2_000;
/// How often a read is measured that scans.
const SCANS: usize = 5;
/// Flows per measurement of writes.
const FLOWS: usize = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let payments: usize = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let given = arguments.next().map(PathBuf::from);
    let dir = given.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("faregate-big-store-{}", std::process::id()))
    });
    if !database_path(&dir).exists() {
        fill(&dir, payments)?;
    }
    println!("database: {} MiB", fs::metadata(database_path(&dir))?.len() >> 20);
    measure_reads(&dir)?;
    measure_analytics(&dir)?;
    let empty = dir.join("empty");
    let _ = fs::remove_dir_all(&empty);
    for (name, dir) in [("empty store", &empty), ("full store", &dir)] {
        measure_writes(&format!("{name}, with keys"), dir, true)?;
        measure_writes(&format!("{name}, without"), dir, false)?;
    }
    fs::remove_dir_all(&empty)?;
    if given.is_none() {
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

/// A splitmix64 generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).expect("it is below a usize")
    }

    /// A key as clients make them: a random UUID.
    fn key(&mut self) -> String {
        Uuid::from_u64_pair(self.next(), self.next()).to_string()
    }
}

/// A partition with a client.
struct Shop {
    partition: Partition<SqlStore>,
    random: Random,
    now: Timestamp,
    /// Whether accounts, payments and transactions have keys of the client's.
    with_keys: bool,
}

impl Shop {
    fn open(dir: &Path, options: &Options, now: Timestamp) -> Result<Self, StoreError> {
        let gateway = |settles_at_once| GatewaySettings {
            settles_at_once,
            needs_merchant_account: false,
            attaches_methods: false,
            action_timeout_us: None,
            timeout_us: Timestamp::SECOND_US,
            settle_after_us: 0,
        };
        let settings = Settings {
            gateways: BTreeMap::from([
                (EXTERNAL_PAYMENT.to_owned(), gateway(true)),
                (CARDS.to_owned(), gateway(false)),
            ]),
            unknown_delays_us: vec![Timestamp::SECOND_US],
            pending_delays_us: vec![Timestamp::SECOND_US],
            reply_keep_us: Timestamp::DAY_US,
            transactions_per_payment_max: 100,
            routing: domain::context::RoutingSettings::DEFAULT,
        };
        let store = open_dir(dir, options).map_err(|it| StoreError::Database(Cause::new(it)))?;
        let partition = Partition::open(store, Arc::new(settings))?;
        // Another seed each time, so that no key comes twice.
        let seed = u64::try_from(partition.head().0).unwrap_or(0);
        let mut shop = Self { partition, random: Random(seed), now, with_keys: true };
        if shop.partition.head() == Seq(0) {
            let command = Command::Tenant(TenantCommand::Create(CreateTenant {
                id: None,
                external_key: None,
                api_key: "bob".to_owned(),
                secret_hash: "hash".to_owned(),
            }));
            let request = shop.request(TenantNo::SYSTEM, command);
            shop.batch(vec![request]);
        }
        Ok(shop)
    }

    fn request(&mut self, tenant: TenantNo, command: Command) -> Request {
        let ms = u64::try_from(self.now.0 / 1000).unwrap_or(0);
        let high = (ms << 16) | 0x7000 | (self.random.next() & 0x0fff);
        let id = RequestId(Uuid::from_u64_pair(high, (self.random.next() >> 2) | (1 << 63)));
        let actor = Actor::new("admin", "admin", id.0);
        Request { id, tenant, actor, idempotency: None, command }
    }

    /// Executes and commits; gateway calls are answered in the next commit. Every command must be
    /// accepted.
    fn batch(&mut self, requests: Vec<Request>) -> Vec<Reply> {
        let works: Vec<Work> = requests.into_iter().map(|it| Work::Request(Box::new(it))).collect();
        let times = Times { now: self.now, real_now: self.now };
        let processed = self.partition.process(&works, times, &mut |_, _| Ok(()));
        assert!(processed.is_committed(), "{:?}", processed.verdicts);
        let mut replies = Vec::with_capacity(processed.verdicts.len());
        for verdict in processed.verdicts {
            match verdict {
                Verdict::Answered(Answer::Replied(reply)) => replies.push(reply),
                Verdict::Waits(_) => {}
                verdict @ (Verdict::Answered(_) | Verdict::Unavailable(_)) => {
                    panic!("not accepted: {verdict:?}");
                }
            }
        }
        let answers: Vec<Request> = processed
            .calls
            .into_iter()
            .map(|performing| {
                let Effect::CallGateway(call) = performing.effect else {
                    panic!("no gateway attaches methods")
                };
                let answer = GatewayAnswer::Outcome(GatewayOutcome {
                    first_reference: Some("0123456789abcdef".to_owned()),
                    ..GatewayOutcome::new(GatewayStatus::Processed)
                });
                let (payment, transaction) = (call.payment, call.transaction);
                let replied = GatewayReplied {
                    payment,
                    transaction,
                    answer,
                    is_controlled: false,
                    tries: None,
                };
                self.request(TENANT, Command::Payment(PaymentCommand::GatewayReplied(replied)))
            })
            .collect();
        if !answers.is_empty() {
            replies.extend(self.batch(answers));
        }
        replies
    }

    fn key(&mut self) -> Option<String> {
        self.with_keys.then(|| self.random.key())
    }

    fn create_account(&mut self) -> Request {
        let (external_key, number) = (self.key(), self.random.below(1_000_000));
        let command = Command::Account(AccountCommand::Create(Box::new(CreateAccount {
            external_key,
            person: Person {
                name: Some(format!("Customer {number}")),
                email: Some(format!("customer.{number}@example.org")),
                country: Some("FR".to_owned()),
                locale: Some("fr_FR".to_owned()),
                ..Person::default()
            },
            currency: Currency::parse("USD"),
            ..CreateAccount::default()
        })));
        self.request(TENANT, command)
    }

    fn create_method(&mut self, account: AccountId, gateway: &str) -> Request {
        let method = CreatePaymentMethod::default_of(account, gateway.to_owned());
        self.request(TENANT, Command::Account(AccountCommand::CreatePaymentMethod(method)))
    }

    /// Two custom fields: a value that is the account's own, and one that many have.
    fn add_fields(&mut self, account: AccountId) -> Request {
        let field = |name: &str, value: String| NewCustomField { name: name.to_owned(), value };
        let plan = PLANS[self.random.below(PLANS.len())];
        let fields = vec![field("crm_id", account.to_string()), field("plan", plan.to_owned())];
        let added = AddCustomFields { account, object: Object::Account(account), fields };
        self.request(TENANT, Command::Account(AccountCommand::AddCustomFields(added)))
    }

    fn initiate(&mut self, account: AccountId) -> Initiate {
        Initiate {
            account,
            payment: None,
            payment_method: None,
            payment_key: self.key(),
            transaction_key: self.key(),
            amount: Some(format!("{}.99", 1 + self.random.below(200))),
            currency: Currency::parse("USD"),
            properties: vec![],
            control: vec![],
            approved: vec![],
            gateways: vec![],
        }
    }

    fn follow_up(payment: PaymentId) -> FollowUp {
        FollowUp {
            amount: Some("0.50".to_owned()),
            currency: Currency::parse("USD"),
            ..FollowUp::of(payment)
        }
    }
}

/// Two custom fields and three payments for each new account, the payments now and then for an old one; a tenth through a gateway
/// that answers later; a quarter authorized and captured, the others purchases, some refunded.
fn fill(dir: &Path, payments: usize) -> Result<(), StoreError> {
    const ACCOUNTS: usize = 256;
    let options = Options { is_durable: false, ..Options::default() };
    let mut shop = Shop::open(dir, &options, Timestamp(BEGIN_US))?;
    let started = Instant::now();
    let mut known: Vec<AccountId> = vec![];
    let mut done = 0;
    while done < payments {
        let accounts = open_accounts(&mut shop, ACCOUNTS);
        for _ in 0..3 {
            pay(&mut shop, &accounts, &known);
            done += ACCOUNTS;
        }
        known.extend(accounts);
    }
    let (seconds, accounts) = (started.elapsed().as_secs_f64(), known.len());
    println!("filled with {done} payments on {accounts} accounts in {seconds:.1} s");
    Ok(())
}

fn open_accounts(shop: &mut Shop, count: usize) -> Vec<AccountId> {
    let requests = (0..count).map(|_| shop.create_account()).collect();
    let accounts: Vec<AccountId> = shop
        .batch(requests)
        .iter()
        .filter_map(|reply| {
            if let Reply::Account(AccountReply::Created(id)) = reply { Some(*id) } else { None }
        })
        .collect();
    let gateway = |n: usize| if n.is_multiple_of(10) { CARDS } else { EXTERNAL_PAYMENT };
    let requests = accounts.iter().enumerate();
    let requests = requests.map(|(n, account)| shop.create_method(*account, gateway(n))).collect();
    shop.batch(requests);
    let requests = accounts.iter().map(|account| shop.add_fields(*account)).collect();
    shop.batch(requests);
    accounts
}

fn pay(shop: &mut Shop, accounts: &[AccountId], known: &[AccountId]) {
    let (mut begun, mut followed) = (vec![], vec![]);
    for (n, account) in accounts.iter().enumerate() {
        let old = n.is_multiple_of(8) && !known.is_empty();
        let account = if old { known[shop.random.below(known.len())] } else { *account };
        let it = shop.initiate(account);
        let authorize = n % 4 == 1;
        let command = if authorize {
            Command::Payment(PaymentCommand::Authorize(it))
        } else {
            Command::Payment(PaymentCommand::Purchase(it))
        };
        let request = shop.request(TENANT, command);
        let follow_up = Shop::follow_up(request.id.entity(0));
        if authorize {
            followed.push(Command::Payment(PaymentCommand::Capture(follow_up)));
        } else if n % 16 == 3 {
            followed.push(Command::Payment(PaymentCommand::Refund(follow_up)));
        }
        begun.push(request);
    }
    shop.batch(begun);
    let followed = followed.into_iter().map(|command| shop.request(TENANT, command)).collect();
    shop.batch(followed);
    let elapsed_us = i64::try_from(accounts.len()).unwrap_or(0) * PAYMENT_EVERY_US;
    shop.now = shop.now.plus_us(elapsed_us);
}

/// The rows that reads are asked about, from here and there in the whole store.
struct Sample {
    accounts: Vec<(AccountId, String)>,
    payments: Vec<(PaymentId, AccountId, String)>,
    transactions: Vec<(TransactionId, String)>,
    methods: Vec<PaymentMethodId>,
}

impl Sample {
    fn draw(path: &Path) -> Result<Self, StoreError> {
        let reader = Reader::open(path, &Options::default())?;
        let tenant = || TENANT.into();
        let bound = |order: &str| {
            let sql =
                format!("SELECT id FROM payment WHERE tenant = ?1 ORDER BY id {order} LIMIT 1");
            let id = reader.query_one(&sql, &[tenant()], |cells| cells.id())?;
            Ok::<u128, StoreError>(id.unwrap_or_default().as_u128())
        };
        let (first, last) = (bound("ASC")?, bound("DESC")?);
        let (mut random, mut sample) = (Random(7), Self::none());
        for _ in 0..SAMPLES {
            let share = u128::from(random.next() >> 32);
            let id = Uuid::from_u128(first + (((last - first) >> 32) * share));
            let sql = "SELECT p.id, p.account_id, p.external_key, t.id, t.external_key, \
                 p.payment_method_id, a.external_key FROM \
                 (SELECT * FROM payment WHERE tenant = ?1 AND id >= ?2 ORDER BY id LIMIT 1) p \
                 JOIN payment_transaction t ON t.tenant = p.tenant AND t.payment_id = p.id \
                 JOIN account a ON a.tenant = p.tenant AND a.id = p.account_id \
                 WHERE t.external_key IS NOT NULL LIMIT 1";
            reader.query_one(sql, &[tenant(), id.into()], |cells| {
                let (payment, account) = (cells.entity()?, cells.entity()?);
                sample.payments.push((payment, account, cells.string()?));
                sample.transactions.push((cells.entity()?, cells.string()?));
                sample.methods.push(cells.entity()?);
                sample.accounts.push((account, cells.string()?));
                Ok(())
            })?;
        }
        Ok(sample)
    }

    const fn none() -> Self {
        Self { accounts: vec![], payments: vec![], transactions: vec![], methods: vec![] }
    }
}

/// Runs `read` `times` times and prints how long it took.
fn time(name: &str, times: usize, mut read: impl FnMut(usize) -> Result<usize, StoreError>) {
    let mut took_us = Vec::with_capacity(times);
    let (mut rows, cpu) = (0, cpu_seconds());
    for n in 0..times {
        let started = Instant::now();
        rows += read(n).unwrap_or_else(|error| panic!("{name}: {error}"));
        took_us.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let cpu_us = (cpu_seconds() - cpu) * 1e6 / took_us.len() as f64;
    took_us.sort_by(f64::total_cmp);
    let at = |percent: usize| took_us[(times * percent / 100).min(times - 1)];
    let (p50, p99, max) = (at(50), at(99), at(100));
    let late = if p99 > 5_000.0 { " > 5 ms" } else { "" };
    let rows = rows / times;
    println!("{name:<52} {rows:>6} {cpu_us:>10.0} {p50:>10.0} {p99:>10.0} {max:>10.0}{late}");
}

fn measure_reads(dir: &Path) -> Result<(), StoreError> {
    let path = database_path(dir);
    let sample = Sample::draw(&path)?;
    let mut store =
        open_dir(dir, &Options::default()).map_err(|it| StoreError::Database(Cause::new(it)))?;
    store.open()?;
    let queries = store.queries(2)?;
    let columns = ["rows", "CPU us", "p50 us", "p99 us", "max us"];
    let [rows, cpu, p50, p99, max] = columns;
    println!("{:<52} {rows:>6} {cpu:>10} {p50:>10} {p99:>10} {max:>10}", "read");
    measure_lookups(&queries, &sample);
    measure_lists(&queries, &sample);
    measure_histories(&queries, &sample);
    measure_searches(&queries, &sample);
    Ok(())
}

fn measure_lookups(queries: &dyn Queries, sample: &Sample) {
    let found = |found: bool| usize::from(found);
    time("account by id", SAMPLES, |n| {
        Ok(found(queries.account(TENANT, sample.accounts[n].0)?.is_some()))
    });
    time("account by key", SAMPLES, |n| {
        Ok(found(queries.account_by_key(TENANT, &sample.accounts[n].1)?.is_some()))
    });
    time("payment method by id", SAMPLES, |n| {
        Ok(found(queries.payment_method(TENANT, sample.methods[n])?.is_some()))
    });
    time("payment by id", SAMPLES, |n| {
        Ok(found(queries.payment(TENANT, sample.payments[n].0)?.is_some()))
    });
    time("payment by key", SAMPLES, |n| {
        Ok(found(queries.payment_by_key(TENANT, &sample.payments[n].2)?.is_some()))
    });
    time("payment by transaction's id", SAMPLES, |n| {
        Ok(found(queries.payment_of_transaction(TENANT, sample.transactions[n].0)?.is_some()))
    });
    time("payment by transaction's key", SAMPLES, |n| {
        let key = &sample.transactions[n].1;
        Ok(found(queries.payment_of_transaction_key(TENANT, key)?.is_some()))
    });
    time("payment by a key that nobody has", SAMPLES, |n| {
        Ok(found(queries.payment_by_key(TENANT, &format!("nobody-{n}"))?.is_some()))
    });
}

fn measure_lists(queries: &dyn Queries, sample: &Sample) {
    let page = |offset| Page { offset, limit: 100 };
    time("payments of an account", SAMPLES, |n| {
        Ok(queries.payments_of(TENANT, sample.accounts[n].0, page(0))?.len())
    });
    time("payment methods of an account", SAMPLES, |n| {
        Ok(queries.payment_methods_of(TENANT, sample.accounts[n].0)?.len())
    });
    for offset in [0, 10_000] {
        time(&format!("accounts, 100 from {offset}"), 200, |_| {
            Ok(queries.accounts(TENANT, page(offset))?.items.len())
        });
        time(&format!("payment methods, 100 from {offset}"), 200, |_| {
            Ok(queries.payment_methods(TENANT, page(offset).of_gateway(None))?.items.len())
        });
        time(&format!("payment methods of a gateway, 100 from {offset}"), 200, |_| {
            Ok(queries.payment_methods(TENANT, page(offset).of_gateway(Some(CARDS)))?.items.len())
        });
        time(&format!("payments, 100 from {offset}"), 200, |_| {
            Ok(queries.payments(TENANT, page(offset).of_gateway(None))?.items.len())
        });
        time(&format!("payments of a gateway, 100 from {offset}"), 200, |_| {
            Ok(queries.payments(TENANT, page(offset).of_gateway(Some(CARDS)))?.items.len())
        });
        time(&format!("ledger entries by time, 100 from {offset}"), 200, |_| {
            Ok(queries.ledger_entries(TENANT, &LedgerFilter::default(), page(offset))?.len())
        });
    }
    time("payments of a gateway that nobody uses", 20, |_| {
        Ok(queries.payments(TENANT, page(0).of_gateway(Some("nobody")))?.items.len())
    });
}

fn measure_histories(queries: &dyn Queries, sample: &Sample) {
    let page = Page { offset: 0, limit: 100 };
    time("history of a payment", SAMPLES, |n| {
        Ok(queries.history(TENANT, HistoryOf::new::<Payment>(sample.payments[n].0.uuid()))?.len())
    });
    time("history of a transaction", SAMPLES, |n| {
        Ok(queries
            .history(TENANT, HistoryOf::new::<Transaction>(sample.transactions[n].0.uuid()))?
            .len())
    });
    time("history of an account", SAMPLES, |n| {
        Ok(queries.history(TENANT, HistoryOf::new::<Account>(sample.accounts[n].0.uuid()))?.len())
    });
    time("histories of all of an account", SAMPLES, |n| {
        Ok(queries.account_histories(TENANT, sample.accounts[n].0, 1_000)?.len())
    });
    time("ledger entries of a payment", SAMPLES, |n| {
        let payment = Some(sample.payments[n].0);
        let filter = LedgerFilter { payment, ..LedgerFilter::default() };
        Ok(queries.ledger_entries(TENANT, &filter, page)?.len())
    });
    time("ledger entries of an account", SAMPLES, |n| {
        let account = Some(sample.accounts[n].0);
        let filter = LedgerFilter { account, ..LedgerFilter::default() };
        Ok(queries.ledger_entries(TENANT, &filter, page)?.len())
    });
    time("ledger totals of a customer", SAMPLES, |n| {
        Ok(queries.customer_totals(TENANT, sample.accounts[n].0)?.len())
    });
    time("trial balance", SAMPLES, |_| Ok(queries.trial_balance(TENANT)?.len()));
    time("journal head", SAMPLES, |_| queries.journal_head().map(|_| 1));
}

fn measure_searches(queries: &dyn Queries, sample: &Sample) {
    let page = Page { offset: 0, limit: 100 };
    time("search payments by account's id", SAMPLES, |n| {
        let text = sample.accounts[n].0.to_string();
        Ok(queries.payments_named(TENANT, &text, page.of_gateway(None))?.items.len())
    });
    time("search payments by key", SAMPLES, |n| {
        Ok(queries
            .payments_named(TENANT, &sample.payments[n].2, page.of_gateway(None))?
            .items
            .len())
    });
    let named = |name: &str, value: String| FieldSearch::Value {
        kind: ObjectType::Account,
        name: name.to_owned(),
        value: Some(value),
    };
    time("custom fields of a name and a rare value", SAMPLES, |n| {
        let search = named("crm_id", sample.accounts[n].0.to_string());
        Ok(queries.custom_fields_named(TENANT, &search, page)?.items.len())
    });
    time("custom fields of a name and a frequent value", SAMPLES, |n| {
        let search = named("plan", PLANS[n % PLANS.len()].to_owned());
        Ok(queries.custom_fields_named(TENANT, &search, page)?.items.len())
    });
    time("custom fields, 100 from 10000", 200, |_| {
        Ok(queries.custom_fields(TENANT, Page { offset: 10_000, ..page })?.items.len())
    });
    time("search accounts by part of a name", SCANS, |_| {
        Ok(queries.search_accounts(TENANT, "omer 12345", page)?.items.len())
    });
    time("search accounts: all match", SCANS, |_| {
        Ok(queries.search_accounts(TENANT, "customer", page)?.items.len())
    });
    time("search payment methods by part of a key", SCANS, |_| {
        Ok(queries.search_payment_methods(TENANT, "visa", page.of_gateway(None))?.items.len())
    });
}

/// The processor time of this thread, in seconds.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

fn measure_analytics(dir: &Path) -> Result<(), StoreError> {
    let (path, truth) = (analytics_path(dir), database_path(dir));
    let failed = |error: store::Error| StoreError::Database(Cause::new(error));
    let mut models =
        SqliteReadModels::open(&path, &store::Source::in_dir(dir), &Options::default())
            .map_err(failed)?;
    let queries = SqlQueries::open(&truth, &Options::default(), 1)?;
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let begin = models.cursor()?;
    let mut cursor = begin;
    loop {
        let (rows, upto) = queries.journal_after(cursor, ROWS_MAX)?;
        if upto == cursor {
            break;
        }
        cursor = models.apply(&Deltas::of(cursor, upto, &rows))?;
    }
    let (rows, seconds) = (cursor.0 - begin.0, started.elapsed().as_secs_f64());
    if rows > 0 {
        let cpu_us =
            (cpu_seconds() - cpu) * 1e6 * 3.0 / f64::from(i32::try_from(rows).unwrap_or(1));
        println!(
            "analytics: followed {rows} rows in {seconds:.1} s, {cpu_us:.1} us CPU per 3 rows"
        );
    }
    let started = Instant::now();
    models.rebuild()?;
    println!("analytics: rebuilt in {:.1} s", started.elapsed().as_secs_f64());
    let analytics = SqliteAnalyticsQueries::open(&path, &Options::default(), 1)?;
    let sample = Sample::draw(&truth)?;
    let page = Page { offset: 0, limit: 1_000 };
    time("analytics: transactions", 200, |_| {
        Ok(analytics.transactions(TENANT, &TransactionsFilter::default(), page)?.len())
    });
    time("analytics: account's summary", SAMPLES, |n| {
        Ok(analytics.account(TENANT, sample.accounts[n].0)?.amounts.len())
    });
    Ok(())
}

/// The founding flow: a new account, a payment method and a payment, each in a commit of its own
/// kind with those of its neighbours.
fn measure_writes(name: &str, dir: &Path, with_keys: bool) -> Result<(), StoreError> {
    let now = Timestamp(BEGIN_US + 400 * Timestamp::DAY_US);
    let mut shop = Shop::open(dir, &Options::default(), now)?;
    shop.with_keys = with_keys;
    for flows in [64, BATCH_COMMANDS_MAX] {
        let (started, cpu) = (Instant::now(), cpu_seconds());
        for _ in 0..FLOWS / flows {
            let requests = (0..flows).map(|_| shop.create_account()).collect();
            let accounts = shop.batch(requests);
            let accounts: Vec<AccountId> = accounts
                .iter()
                .filter_map(|it| {
                    if let Reply::Account(AccountReply::Created(id)) = it {
                        Some(*id)
                    } else {
                        None
                    }
                })
                .collect();
            let requests = accounts.iter().map(|id| shop.create_method(*id, EXTERNAL_PAYMENT));
            let requests = requests.collect();
            shop.batch(requests);
            let requests = accounts.iter().map(|id| {
                let it = shop.initiate(*id);
                shop.request(TENANT, Command::Payment(PaymentCommand::Purchase(it)))
            });
            let requests = requests.collect();
            shop.batch(requests);
            shop.now = shop.now.plus_us(Timestamp::SECOND_US / 50);
        }
        let flows_done = f64::from(u32::try_from(FLOWS / flows * flows).unwrap_or(1));
        let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        println!(
            "{name}: batches of {flows}: {:.0} us CPU, {:.0} us in all per flow",
            cpu * 1e6 / flows_done,
            seconds * 1e6 / flows_done
        );
    }
    Ok(())
}
