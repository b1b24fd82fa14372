//! The fixtures of the cases: topics of their own, processors that keep what they executed in memory,
//! and records made by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::command::TenantCommand;
use domain::payment::Actor;
use domain::tenant::SetTenantValue;
use domain::{AccountId, Command as DomainCommand, Request, RequestId, TenantNo, TransactionId};
use engine::ports::{BoxFuture, Cause, LedgerTotal, Question, StoreError};
use engine::queue::{
    Inquired, Message, Processor, Queue, QueuePosition, Reply, Resend, Route, SimulatedWork, Work,
};
use engine::{Answer, Reason};
use kafka::processor::{ProcessorOptions, RunningProcessor};
use kafka::signature::{Content, SIGNATURE};
use kafka::topics::{self, Class, Layout};
use kafka::{
    ClusterKeys, Command, CommandBody, Front, FrontOptions, GroupProtocol, ReplyTo, Role, Secret,
    Security, Settings,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Message as _, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use secrets::{KEY_BYTES, RootKey};
use uuid::Uuid;

/// Longer than anything here takes.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Keys of a cluster; each number is another key.
pub fn keys(current: u8, previous: Option<u8>) -> ClusterKeys {
    let root = |byte| RootKey::new([byte; KEY_BYTES]);
    ClusterKeys::new(&root(current), previous.map(root).as_ref())
}

/// Settings with a prefix of their own, and key 7.
pub fn settings() -> Settings {
    let topic_prefix = format!("test-{}", Uuid::now_v7().simple());
    let brokers =
        std::env::var("FAREGATE_TEST_KAFKA").expect("FAREGATE_TEST_KAFKA is HOST:PORT of a broker");
    let keys = Some(keys(7, None));
    Settings { topic_prefix, security: security(), keys, ..Settings::new(brokers) }
}

/// The client's security settings, from the variables that `scripts/kafka run --security` sets.
fn security() -> Security {
    let setting = |name: &str| std::env::var(format!("FAREGATE_TEST_KAFKA_{name}")).ok();
    let user = setting("USER");
    let mechanism = setting("MECHANISM").unwrap_or_else(|| "PLAIN".to_owned());
    Security {
        protocol: setting("SECURITY").map_or_else(Default::default, |it| it.parse().unwrap()),
        sasl_mechanism: user.as_ref().map_or_else(String::new, |_| mechanism),
        sasl_username: user.unwrap_or_default(),
        sasl_password: Secret::new(setting("PASSWORD").unwrap_or_default()),
        ssl_ca_location: setting("CA").unwrap_or_default(),
        ..Security::default()
    }
}

/// A client of the tests' own.
pub fn client(settings: &Settings) -> ClientConfig {
    let Security { protocol, sasl_mechanism, sasl_username, ssl_ca_location, .. } =
        &settings.security;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &settings.brokers).set("security.protocol", protocol.name());
    if !sasl_mechanism.is_empty() {
        let password = std::env::var("FAREGATE_TEST_KAFKA_PASSWORD").unwrap();
        config.set("sasl.mechanism", sasl_mechanism).set("sasl.username", sasl_username);
        config.set("sasl.password", password);
    }
    if !ssl_ca_location.is_empty() {
        config.set("ssl.ca.location", ssl_ca_location);
    }
    config
}

/// As [`settings`], with topics.
pub async fn scene() -> Settings {
    let settings = settings();
    let layout = Layout { partitions: 3, fronts: 2, replication: 1, in_sync_min: 1 };
    topics::create(&settings, layout).await.unwrap();
    settings
}

/// Owns what was given up.
pub const NO_OWNER: u64 = 0;

/// The state that several processors share, as they share a database: what was executed, and how far
/// each partition is.
#[derive(Default)]
pub struct Database {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    partitions: BTreeMap<i32, Stored>,
    executed: Vec<RequestId>,
    skipped: Vec<(i32, i64)>,
    inquired: Vec<TransactionId>,
    resent: Vec<(i32, Resend)>,
    /// Commits fail; what is not durable is lost, as with a database that is away.
    is_away: bool,
    opened: usize,
}

#[derive(Default)]
struct Stored {
    next: Option<i64>,
    owner: u64,
    epoch: u64,
    /// A commit of the owner failed.
    failed: bool,
}

impl Database {
    /// The requests that were executed, in order.
    pub fn executed(&self) -> Vec<RequestId> {
        self.state.lock().unwrap().executed.clone()
    }

    /// The offsets at which there was nothing to do.
    pub fn skipped(&self) -> Vec<(i32, i64)> {
        self.state.lock().unwrap().skipped.clone()
    }

    /// The transactions that were inquired about.
    pub fn inquired(&self) -> Vec<TransactionId> {
        self.state.lock().unwrap().inquired.clone()
    }

    /// The events that were sent again, each by the partition that did.
    pub fn resent(&self) -> Vec<(i32, Resend)> {
        self.state.lock().unwrap().resent.clone()
    }

    /// How often a partition was opened.
    pub fn opened(&self) -> usize {
        self.state.lock().unwrap().opened
    }

    pub fn set_away(&self, is_away: bool) {
        self.state.lock().unwrap().is_away = is_away;
    }

    /// Who owns how many partitions; [`NO_OWNER`] what was given up.
    pub fn owners(&self) -> BTreeMap<u64, usize> {
        let mut owners = BTreeMap::new();
        for stored in self.state.lock().unwrap().partitions.values() {
            *owners.entry(stored.owner).or_default() += 1;
        }
        owners
    }
}

/// A processor on a [`Database`]: each command is a commit of its own, fenced by owner and epoch.
pub struct Counting {
    id: u64,
    database: Arc<Database>,
    epochs: Mutex<BTreeMap<i32, u64>>,
}

impl Counting {
    pub fn new(id: u64, database: &Arc<Database>) -> Arc<Self> {
        Arc::new(Self { id, database: Arc::clone(database), epochs: Mutex::default() })
    }

    fn commit(
        &self,
        partition: i32,
        offset: i64,
        write: impl FnOnce(&mut State),
    ) -> Result<(), Reason> {
        let epoch = self.epochs.lock().unwrap().get(&partition).copied();
        let mut state = self.database.state.lock().unwrap();
        let is_away = state.is_away;
        let stored = state.partitions.entry(partition).or_default();
        stored.failed |= is_away;
        if stored.failed || stored.owner != self.id || Some(stored.epoch) != epoch {
            return Err(Reason::Store);
        }
        let next = stored.next.unwrap_or(0);
        assert!(offset >= next, "offset {offset} of partition {partition} comes after {next}");
        stored.next = Some(offset + 1);
        write(&mut state);
        Ok(())
    }
}

impl Processor for Counting {
    fn assigned(&self, partition: i32) -> BoxFuture<'_, Result<Option<i64>, StoreError>> {
        Box::pin(async move {
            let mut state = self.database.state.lock().unwrap();
            if state.is_away {
                return Err(StoreError::Database(Cause::new("away")));
            }
            state.opened += 1;
            let stored = state.partitions.entry(partition).or_default();
            stored.owner = self.id;
            stored.epoch += 1;
            stored.failed = false;
            self.epochs.lock().unwrap().insert(partition, stored.epoch);
            Ok(stored.next)
        })
    }

    fn revoked(&self, partition: i32) -> BoxFuture<'_, ()> {
        self.epochs.lock().unwrap().remove(&partition);
        let mut state = self.database.state.lock().unwrap();
        if let Some(stored) = state.partitions.get_mut(&partition).filter(|it| it.owner == self.id)
        {
            stored.owner = NO_OWNER;
        }
        Box::pin(async {})
    }

    /// Tells of its key: `park` is parked, `full` is refused for now, anything else is done.
    fn execute(&self, partition: i32, position: QueuePosition, request: Request) -> Work<Answer> {
        let DomainCommand::Tenant(TenantCommand::SetValue(it)) = &request.command else {
            panic!("the cases send nothing else")
        };
        let refusal = match it.key.as_str() {
            "park" => Some(Reason::Bug),
            "full" => Some(Reason::GatewayFull),
            "again" => Some(Reason::Repeated),
            _ => None,
        };
        let done = self.commit(partition, position.offset, |state| {
            if refusal.is_none() {
                state.executed.push(request.id);
            }
        });
        Box::pin(async move {
            done?;
            match refusal {
                Some(reason) => Err(reason.into()),
                None => Ok(Answer::Replied(domain::Reply::Done)),
            }
        })
    }

    fn skip(&self, partition: i32, offset: i64) -> Work<()> {
        let done = self.commit(partition, offset, |state| state.skipped.push((partition, offset)));
        Box::pin(async move { Ok(done?) })
    }

    /// Tenant 2 has every transaction; what tenant 3 asks for fails.
    fn inquire(&self, _: i32, question: Question) -> Work<Inquired> {
        self.database.state.lock().unwrap().inquired.push(question.of().transaction);
        Box::pin(async move {
            match question.of().tenant.0 {
                2 => Ok(Inquired::Final),
                3 => Err(Reason::Stopping.into()),
                _ => Ok(Inquired::NoTransaction),
            }
        })
    }

    fn resend(&self, partition: i32, resend: Resend) -> Work<()> {
        self.database.state.lock().unwrap().resent.push((partition, resend));
        Box::pin(std::future::ready(Ok(())))
    }

    fn balance(
        &self,
        tenant: TenantNo,
        _: AccountId,
        _: Option<SimulatedWork>,
    ) -> Work<Option<Vec<LedgerTotal>>> {
        Box::pin(async move { Ok((tenant.0 > 1).then(Vec::new)) })
    }
}

pub fn process(settings: &Settings, class: Class, processor: Arc<Counting>) -> RunningProcessor {
    let options = ProcessorOptions { class, in_flight_max: 1_000 };
    kafka::processor::start(settings, options, processor).unwrap()
}

/// A front that is available.
pub async fn front(settings: &Settings, time_to_live: Duration) -> Arc<Front> {
    let options = FrontOptions { time_to_live, ..FrontOptions::new(&settings.topics(), 0) };
    let front = Front::start(settings, options).unwrap();
    let mut available = front.availability();
    tokio::time::timeout(TIMEOUT, available.wait_for(|it| *it)).await.unwrap().unwrap();
    Arc::new(front)
}

/// A command that is identified by its id, for an account that its number names.
pub fn request(key: &str) -> Request {
    let actor = Actor::new("u", "t", Uuid::nil());
    let value = Some("v".to_owned());
    Request {
        id: RequestId(Uuid::now_v7()),
        tenant: TenantNo(2),
        actor,
        idempotency: None,
        command: DomainCommand::Tenant(TenantCommand::SetValue(SetTenantValue {
            key: key.to_owned(),
            value,
            rules: None,
        })),
    }
}

/// A route to some account.
pub fn route(account: u128) -> Route {
    Route::Account(TenantNo(2), AccountId::new(Uuid::from_u128(account)))
}

pub const DONE: Result<Reply, Reason> = Ok(Reply::Answer(Answer::Replied(domain::Reply::Done)));

/// Sends a request through a front; its reply, or the reason why there is none.
pub async fn ask(front: &Front, route: Route, request: Request) -> Result<Reply, Reason> {
    front.ask(route, Message::Request(Box::new(request))).await.map_err(|it| it.reason)
}

/// A command as a front would write it.
pub fn command(request: Request, topic: &str, partition: i32, time_to_live: Duration) -> Vec<u8> {
    let reply_to = ReplyTo { front: 1, correlation: 2, topic: topic.to_owned(), partition };
    Command { reply_to, time_to_live, body: CommandBody::Ask(Message::Request(Box::new(request))) }
        .encode()
}

/// Writes a record as a front would, and waits until it is there.
pub fn write(settings: &Settings, topic: &str, partition: i32, value: &[u8]) {
    let signature = sign(settings, (Role::Front, Duration::ZERO), (topic, partition), value);
    write_signed(settings, (topic, partition), value, Some(&signature));
}

/// The signature of a record with the key `k` by a producer of this role, so long ago.
pub fn sign(
    settings: &Settings,
    (role, ago): (Role, Duration),
    (topic, partition): (&str, i32),
    value: &[u8],
) -> Vec<u8> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - ago;
    let at_ms = i64::try_from(at.as_millis()).unwrap();
    let value = Some(value);
    let content = Content { topic, partition, key: Some(b"k"), headers: &[], value };
    settings.keys.as_ref().unwrap().sign(role, at_ms, &content).to_vec()
}

/// Writes a record with a signature that need not be its own, and waits until it is there.
pub fn write_signed(
    settings: &Settings,
    (topic, partition): (&str, i32),
    value: &[u8],
    signature: Option<&[u8]>,
) {
    let producer: BaseProducer =
        client(settings).set("message.max.bytes", "9000000").create().unwrap();
    let mut record = BaseRecord::to(topic).partition(partition).key("k").payload(value);
    if let Some(signature) = signature {
        let header = Header { key: SIGNATURE, value: Some(signature) };
        record = record.headers(OwnedHeaders::new().insert(header));
    }
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(TIMEOUT).unwrap();
}

/// The records of a partition, until there are so many.
pub fn read(settings: &Settings, topic: &str, partition: i32, count: usize) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = client(settings).set("group.id", "reader").create().unwrap();
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    consumer.assign(&assignment).unwrap();
    let until = Instant::now() + TIMEOUT;
    let mut records = vec![];
    while records.len() < count && Instant::now() < until {
        if let Some(record) = consumer.poll(Duration::from_millis(100)) {
            let record = record.unwrap();
            records.push(record.detach());
            assert!(record.payload().is_some());
        }
    }
    records
}

/// Waits until something is so, looking every few milliseconds.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut look = tokio::time::interval(Duration::from_millis(10));
    let looking = async {
        while !is_so() {
            look.tick().await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, looking).await.is_ok(), "{what}: not in time");
}

pub const PROTOCOLS: [GroupProtocol; 2] = [GroupProtocol::Consumer, GroupProtocol::Classic];
