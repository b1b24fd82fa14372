//! [`Engine`]: the APIs submit requests to it and read with it. Behind it is the partition's thread,
//! or the queue that leads to it.

mod coalesced_reads;
mod committed_purchases;
mod control;
mod disputes;
mod health;
mod lanes;
mod methods;
mod notifications;
mod options;
mod outbox;
mod payment_queue;
mod permits;
mod progress;
mod quiet;
mod requests;
mod resend;
mod resolver;
mod stopped;
mod submit;
mod timers;
mod worker;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use domain::command::Subject;
use domain::payment::health::{BatchHealth, Health};
use domain::{AccountId, EffectId, PaymentId, Request, RequestId, Seq, Settings, TenantNo};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use uuid::Uuid;

use self::coalesced_reads::CoalescedReads;
use self::committed_purchases::CommittedPurchases;
pub use self::committed_purchases::ExpectedPurchase;
use self::health::LastCheck;
pub use self::health::{CHECK_AGE_MAX, Unhealthy};
pub use self::notifications::NotificationError;
use self::notifications::Notifications;
pub use self::options::{Options, StartError};
use self::outbox::Calls;
use self::payment_queue::PaymentQueues;
use self::permits::GatewayPermits;
pub use self::progress::Progress;
pub use self::stopped::StoppedGateways;
use self::worker::Worker;

use crate::lane::Lane;
use crate::partition::{Answer, Partition, Work};
use crate::ports::{
    Bookkeeping, Bought, BoughtBy, Checked, Gateway, LedgerTotal, Page, Queries,
    ROWS_BESIDE_OTHERS_MAX, ROWS_MAX, Store, StoreError,
};
use crate::queue::{self, Queue, QueuePosition, Route, SimulatedWork};
use crate::readers::Readers;
use crate::scans::Scans;
use crate::{Clock, Reason, Unavailable};

/// The exit status of a process whose partition panicked (`EX_SOFTWARE` of sysexits.h).
const EXIT_AFTER_PANIC: i32 = 70;

/// How long the end of a partition's thread is waited for, once its calls have ended: it commits what has come in.
const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// The parts of an engine.
pub struct Parts<S> {
    pub store: S,
    pub queries: Arc<dyn Queries>,
    /// Payment gateways by name.
    pub gateways: BTreeMap<String, Arc<dyn Gateway>>,
    pub clock: Clock,
    /// The domain's settings; their gateways are those of `gateways`.
    pub settings: Settings,
    /// The engine's own settings.
    pub options: Options,
}

/// The parts of a front: an engine without a partition.
pub struct FrontParts {
    /// Leads to the partitions.
    pub queue: Arc<dyn Queue>,
    pub queries: Arc<dyn Queries>,
    /// Payment gateways by name: they read notifications and decide about calls, and are not called.
    pub gateways: BTreeMap<String, Arc<dyn Gateway>>,
    pub clock: Clock,
    /// The domain's settings.
    pub settings: Settings,
    /// The engine's own settings.
    pub options: Options,
}

/// A handle that does not keep what the core holds, for those that the core itself holds.
#[derive(Clone)]
pub struct WeakEngine(Weak<Shared>);

impl WeakEngine {
    /// The core, where somebody still keeps it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(|shared| Engine { shared })
    }
}

/// A cheap handle on the running core.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) settings: Arc<Settings>,
    pub(crate) gateways: BTreeMap<String, Arc<dyn Gateway>>,
    /// For each gateway, the calls that may still begin.
    permits: GatewayPermits,
    pub(crate) calls: Calls,
    pub(crate) payment_queues: PaymentQueues,
    pub(crate) options: Options,
    readers: Readers,
    scans: Scans,
    transport: Transport,
    waiting: AtomicUsize,
    last_check: LastCheck,
    stopping: AtomicBool,
    /// Whether operations that wait for their turn are to give up, so that no call begins late.
    pub(crate) draining: AtomicBool,
    head: watch::Sender<Seq>,
    access_generation: AtomicI64,
    followers: Mutex<Vec<watch::Receiver<Seq>>>,
    /// Of a front: the partitions that are in the same process.
    partitions_here: Mutex<BTreeMap<i32, Engine>>,
    pub(crate) balances: CoalescedReads<(TenantNo, AccountId), Option<Vec<LedgerTotal>>>,
    pub(crate) committed_purchases: CommittedPurchases,
    pub(crate) bought: CoalescedReads<(TenantNo, AccountId, BoughtBy), Arc<Bought>>,
    pub(crate) checks: CoalescedReads<(TenantNo, AccountId, String), Arc<Checked>>,
    notifications: Notifications,
    pub(crate) attention: Notify,
}

/// Where requests go.
enum Transport {
    /// To the partition's thread.
    Partition(mpsc::UnboundedSender<Message>),
    /// To the partition's owner.
    Queue(Arc<dyn Queue>),
}

enum Message {
    Work(Waiting),
    Stop,
}

/// A work on its way to a batch.
struct Waiting {
    work: Work,
    answer: oneshot::Sender<Result<Answer, Unavailable>>,
    lane: Lane,
    /// Set where a queue brought it that keeps what was read.
    position: Option<QueuePosition>,
}

impl Waiting {
    /// Whether it counts as one of the commands that wait.
    const fn is_counted(&self) -> bool {
        matches!((self.lane, &self.work), (Lane::Request, Work::Request(_)))
    }
}

/// The core's thread; dropped handles do not stop it, [`Running::stop`] does.
pub struct Running {
    engine: Engine,
    thread: std::thread::JoinHandle<()>,
    queue_offset: Option<i64>,
}

impl Engine {
    /// Opens the partition and starts its thread and its resolver on the current tokio runtime.
    ///
    /// # Errors
    /// Where the store cannot be opened, or the clock is far behind the journal.
    ///
    /// # Panics
    /// Outside a tokio runtime, or where no thread can be started.
    pub fn start<S: Store + 'static>(parts: Parts<S>) -> Result<(Self, Running), StartError> {
        let Parts { store, queries, gateways, clock, settings, options } = parts;
        let settings = Arc::new(settings);
        let partition = Partition::open(store, Arc::clone(&settings))?;
        let queue_offset = partition.queue_offset();
        if let Some(journal) = queries.journal_heads_at()? {
            clock.go_on_from(journal, options.accepts_clock_behind)?;
        }
        let orphans = queries.outstanding_orphans()?;
        let (queue, messages) = mpsc::unbounded_channel();
        let engine = Self::new(Shared {
            head: watch::Sender::new(partition.head()),
            ..Shared::new(
                (Transport::Partition(queue), gateways),
                queries,
                (clock, settings),
                options,
            )
        });
        let exit = engine.shared.options.exit;
        let worker = Worker::new(partition, engine.clone());
        let thread = std::thread::Builder::new()
            .name("partition".to_owned())
            .spawn(move || {
                // Nothing above the core can tell what such a panic left behind; a fresh start can.
                if catch_unwind(AssertUnwindSafe(|| worker.run(messages))).is_err() {
                    tracing::error!("the partition's thread panicked: the process ends");
                    exit(EXIT_AFTER_PANIC);
                }
            })
            .expect("the system gives one more thread");
        tokio::spawn(resolver::run(engine.clone(), orphans));
        tokio::spawn(timers::run(engine.clone()));
        Ok((engine.clone(), Running { engine, thread, queue_offset }))
    }

    /// An engine that owns no partition: its requests go through the queue.
    #[must_use]
    pub fn front(parts: FrontParts) -> Self {
        let FrontParts { queue, queries, gateways, clock, settings, options } = parts;
        let domain = (clock, Arc::new(settings));
        Self::new(Shared::new((Transport::Queue(queue), gateways), queries, domain, options))
    }

    fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// A handle that does not keep what the core holds.
    #[must_use]
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.shared))
    }

    /// Which gateways take no calls of a tenant now, as this process knows.
    #[must_use]
    pub fn gateway_health(&self, tenant: TenantNo) -> Health {
        self.batch_health().of(tenant).into_owned()
    }

    /// Forgets the breakers of tenants that do not call any more, also where no batch looks at them.
    pub fn forget_idle_breakers(&self) {
        self.shared.options.breakers.forget_idle();
    }

    fn batch_health(&self) -> BatchHealth {
        let mut health = BatchHealth::default();
        self.shared.options.breakers.note(&mut health);
        self.shared.options.stopped_gateways.note(&mut health);
        health
    }

    /// A new request id (UUID v7).
    #[must_use]
    pub fn mint(&self) -> RequestId {
        RequestId(Uuid::now_v7())
    }

    /// As [`Engine::submit`], without asking a gateway after a refusal.
    pub(crate) async fn submit_once(&self, request: Request) -> Result<Answer, Unavailable> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Reason::Stopping.into());
        }
        if self.shared.waiting.fetch_add(1, Ordering::Relaxed) >= self.shared.options.queue_max {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            metrics::counter!("faregate_refused_total", "reason" => "queue_full").increment(1);
            return Err(Reason::QueueFull.into());
        }
        let queue = match &self.shared.transport {
            Transport::Partition(_) => {
                return self.enqueue(Work::Request(Box::new(request)), Lane::Request, None).await;
            }
            Transport::Queue(queue) => Arc::clone(queue),
        };
        let answered = self.send(&*queue, request).await;
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        answered
    }

    /// Sends a request to its partition's owner.
    async fn send(&self, queue: &dyn Queue, request: Request) -> Result<Answer, Unavailable> {
        if !queue.is_available() {
            return Err(Reason::QueueAway.into());
        }
        let route = self.route(&request).await?;
        let reply = queue.ask(route, queue::Message::Request(Box::new(request))).await;
        if route == Route::System {
            // Whatever came of it: users, roles or tenants may have changed.
            self.shared.access_generation.fetch_add(1, Ordering::AcqRel);
        }
        match reply? {
            queue::Reply::Answer(answer) => Ok(answer),
            queue::Reply::Balance(_) | queue::Reply::Inquired(_) | queue::Reply::Resent => {
                Err(Reason::Bug.into())
            }
        }
    }

    /// The account whose partition executes a request. Whose a payment is never changes; of one that
    /// is not there, the first partition says so.
    async fn route(&self, request: &Request) -> Result<Route, Unavailable> {
        let tenant = request.tenant;
        let account = match request.command.subject(request.id) {
            Subject::System => None,
            Subject::Account(account) => Some(account),
            Subject::Payment(payment) => {
                self.read(move |queries| queries.payment_account(tenant, payment)).await?
            }
            Subject::PaymentMethod(id) => {
                let found = self.read(move |queries| queries.payment_method(tenant, id)).await?;
                found.map(|view| view.method.account_id)
            }
        };
        Ok(account.map_or(Route::System, |account| Route::Account(tenant, account)))
    }

    /// The totals of an account's ledger account, per currency; `None` where there is no such account.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn balance(
        &self,
        tenant: TenantNo,
        account: AccountId,
        work: Option<SimulatedWork>,
    ) -> Result<Option<Vec<LedgerTotal>>, Unavailable> {
        if let Transport::Queue(queue) = &self.shared.transport {
            let message = queue::Message::Balance { tenant, account, work };
            return match queue.ask(Route::Account(tenant, account), message).await? {
                queue::Reply::Balance(balance) => Ok(balance),
                queue::Reply::Answer(_) | queue::Reply::Inquired(_) | queue::Reply::Resent => {
                    Err(Reason::Bug.into())
                }
            };
        }
        self.read_balance(tenant, account, work).await
    }

    /// As [`Engine::balance`], but always read by this process. Work is simulated only where
    /// [`Options::simulates_work`] says so.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn read_balance(
        &self,
        tenant: TenantNo,
        account: AccountId,
        work: Option<SimulatedWork>,
    ) -> Result<Option<Vec<LedgerTotal>>, Unavailable> {
        if let Some(work) = work.filter(|_| self.shared.options.simulates_work) {
            tokio::time::sleep(work.duration()).await;
        }
        let most = self.shared.options.reads_waiting_max;
        self.shared.balances.ask(self, (tenant, account), most).await
    }

    /// Reads what there is to say whether an account may use a feature: what is asked at the same time is read at
    /// once.
    ///
    /// # Errors
    /// See [`Engine::read`].
    pub async fn read_check(
        &self,
        (tenant, account): (TenantNo, AccountId),
        feature: String,
    ) -> Result<Arc<Checked>, Unavailable> {
        let most = self.shared.options.reads_waiting_max;
        self.shared.checks.ask(self, (tenant, account, feature), most).await
    }

    /// The rows of a purchase that was begun: as the request committed them, where this process did that; otherwise they
    /// are read. Those that are asked for at the same time are read at once.
    ///
    /// # Errors
    /// See [`Engine::read`].
    pub async fn read_bought(
        &self,
        (tenant, account): (TenantNo, AccountId),
        by: BoughtBy,
        expected: &ExpectedPurchase,
    ) -> Result<Arc<Bought>, Unavailable> {
        if let Some(committed) = expected.rows() {
            return Ok(committed);
        }
        let most = self.shared.options.reads_waiting_max;
        self.shared.bought.ask(self, (tenant, account, by), most).await
    }

    /// Executes what a queue brought that keeps what was read: in the order of the calls, and again
    /// until it is written. The same commit stores the position.
    pub fn submit_queued(
        &self,
        position: QueuePosition,
        request: Request,
    ) -> impl Future<Output = Result<Answer, Unavailable>> + use<> {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        self.enqueue(Work::Request(Box::new(request)), Lane::Request, Some(position))
    }

    /// Remembers that what a queue has at an offset is dealt with.
    pub fn skip_queued(
        &self,
        offset: i64,
    ) -> impl Future<Output = Result<Answer, Unavailable>> + use<> {
        let position = QueuePosition { offset, expires_at: None };
        self.enqueue(Work::ReadOn(offset + 1), Lane::Request, Some(position))
    }

    /// As [`Engine::submit`], for what the core itself has to say: never refused for lack of room.
    pub async fn submit_own(&self, request: Request) -> Result<Answer, Unavailable> {
        self.submit_in(Lane::Own, request).await
    }

    /// As [`Engine::submit_own`], in a lane.
    async fn submit_in(&self, lane: Lane, request: Request) -> Result<Answer, Unavailable> {
        self.enqueue(Work::Request(Box::new(request)), lane, None).await
    }

    /// Writes the progress of a follower of the journal, together with whatever is committed next.
    ///
    /// # Errors
    /// [`Unavailable`]: it was not written.
    pub async fn record(&self, rows: Vec<Bookkeeping>) -> Result<(), Unavailable> {
        self.enqueue(Work::Bookkeeping(rows), Lane::Own, None).await.map(|_| ())
    }

    /// Hands work to the partition's thread, at once; the future is the answer. A front has no such
    /// thread, and no work of its own.
    fn enqueue(
        &self,
        work: Work,
        lane: Lane,
        position: Option<QueuePosition>,
    ) -> impl Future<Output = Result<Answer, Unavailable>> + use<> {
        let (answer, answered) = oneshot::channel();
        let refused = match &self.shared.transport {
            Transport::Partition(thread) => {
                let message = Message::Work(Waiting { work, answer, lane, position });
                thread.send(message).err().map(|_| Reason::Stopping)
            }
            Transport::Queue(queue) if queue.is_available() => Some(Reason::NotOwner),
            Transport::Queue(_) => Some(Reason::QueueAway),
        };
        async move {
            match refused {
                Some(reason) => Err(reason.into()),
                None => answered.await.unwrap_or_else(|_| Err(Reason::Stopping.into())),
            }
        }
    }

    /// Runs a query of committed rows on a reader thread. It ends when its caller waits no longer.
    ///
    /// # Errors
    /// [`Unavailable`] where too many reads wait, it takes longer than two seconds with the time that it waits,
    /// or the database fails.
    pub async fn read<T, F>(&self, query: F) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.shared.readers.read(query).await
    }

    /// Runs a query for a page: a scan where it has many rows, or begins far behind the first row, because
    /// the rows before it are read too.
    ///
    /// # Errors
    /// See [`Engine::read`] and [`Engine::scan`].
    pub async fn read_page<T, F>(
        &self,
        (tenant, page): (TenantNo, Page),
        query: F,
    ) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        match page.offset > ROWS_MAX || page.limit > ROWS_BESIDE_OTHERS_MAX {
            true => self.scan(tenant, query).await,
            false => self.read(query).await,
        }
    }

    /// Runs a query that may look at every row of a tenant: on a thread and a connection that no other
    /// read needs, one at a time for each tenant. It ends when its caller waits no longer.
    ///
    /// # Errors
    /// [`Unavailable`] where it could not begin within two seconds, takes longer than two seconds, or
    /// the database fails.
    pub async fn scan<T, F>(&self, tenant: TenantNo, query: F) -> Result<T, Unavailable>
    where
        F: FnOnce(&dyn Queries) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        self.shared.scans.scan(tenant, query).await
    }

    /// Asks the gateway about a payment's unknown and pending transactions, and commits what it
    /// says. A call that still runs is left alone. A front leaves all of them to the processors.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn refresh(&self, tenant: TenantNo, payment: PaymentId) -> Result<(), Unavailable> {
        if matches!(self.shared.transport, Transport::Queue(_)) {
            return Ok(());
        }
        let open = self.read(move |queries| queries.outstanding_of(tenant, payment)).await?;
        for outstanding in open {
            if !self.shared.calls.is_running(EffectId::Transaction(outstanding.transaction_id)) {
                resolver::ask(self, outstanding).await?;
            }
        }
        Ok(())
    }
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The domain's settings, among them the gateways there are.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Whether there is a gateway of this name.
    #[must_use]
    pub fn has_gateway(&self, name: &str) -> bool {
        self.shared.gateways.contains_key(name)
    }

    /// The gateway of this name. Others ask it through the engine, which bounds what is in flight.
    pub(crate) fn gateway(&self, name: &str) -> Option<&dyn Gateway> {
        self.shared.gateways.get(name).map(|it| &**it)
    }

    /// The last durable journal row, as it grows.
    #[must_use]
    pub fn head(&self) -> watch::Receiver<Seq> {
        self.shared.head.subscribe()
    }

    /// Grows whenever users, roles, tenants or their values changed: what was cached of them is stale.
    #[must_use]
    pub fn access_generation(&self) -> i64 {
        self.shared.access_generation.load(Ordering::Acquire)
    }

    /// Makes cached users, roles and tenants stale.
    pub(crate) fn access_changed(&self) {
        self.shared.access_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Notified of each commit that changes feature flags.
    pub(crate) fn flags_changed(&self) -> watch::Receiver<()> {
        self.shared.options.flags.subscribe()
    }

    /// Notified of each commit here that changes what accounts are entitled to.
    pub(crate) fn entitlements_changed(&self) -> watch::Receiver<()> {
        self.shared.options.entitlements.subscribe()
    }

    /// Notified of each commit that queues mails.
    #[must_use]
    pub fn mails_queued(&self) -> watch::Receiver<()> {
        self.shared.options.mails.subscribe()
    }

    /// Whether other processes commit.
    #[must_use]
    pub fn is_front(&self) -> bool {
        matches!(self.shared.transport, Transport::Queue(_))
    }

    /// The gateways that an operator has stopped in this process.
    #[must_use]
    pub fn stopped_gateways(&self) -> &StoppedGateways {
        &self.shared.options.stopped_gateways
    }

    /// Whether another command would find room in the queue.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) < self.shared.options.queue_max
    }

    /// Whether another call would find room at every gateway.
    #[must_use]
    pub fn gateways_have_room(&self) -> bool {
        self.shared.permits.have_room()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The server takes no more requests: operations that wait for their turn are answered
    /// [`Reason::Stopping`], and begin no calls that the end would cut.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the server takes no more requests: what would go on for long ends now.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn new(
        (transport, gateways): (Transport, BTreeMap<String, Arc<dyn Gateway>>),
        queries: Arc<dyn Queries>,
        (clock, settings): (Clock, Arc<Settings>),
        options: Options,
    ) -> Self {
        Self {
            clock,
            settings,
            notifications: Notifications::new(gateways.keys(), &options),
            permits: GatewayPermits::new(&gateways, options.in_flight_max),
            gateways,
            calls: Calls::default(),
            payment_queues: PaymentQueues::default(),
            scans: Scans::new(Arc::clone(&queries)),
            readers: Readers::new(queries, options.readers, options.reads_waiting_max),
            options,
            transport,
            waiting: AtomicUsize::new(0),
            last_check: LastCheck::new(),
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            head: watch::Sender::new(Seq(0)),
            access_generation: AtomicI64::new(0),
            followers: Mutex::default(),
            partitions_here: Mutex::default(),
            balances: CoalescedReads::new(
                |queries, accounts| queries.balances(accounts),
                |engine| &engine.shared.balances,
            ),
            committed_purchases: CommittedPurchases::default(),
            bought: CoalescedReads::new(
                |queries, asked| queries.bought(asked),
                |engine| &engine.shared.bought,
            ),
            checks: CoalescedReads::new(
                |queries, asked| queries.checked(asked),
                |engine| &engine.shared.checks,
            ),
            attention: Notify::new(),
        }
    }
}

impl Running {
    /// Where to read on in a queue that keeps what was read, as the partition was found; `None` where
    /// nothing of it was read.
    #[must_use]
    pub const fn queue_offset(&self) -> Option<i64> {
        self.queue_offset
    }

    /// Refuses new requests, lets calls in flight end until `deadline` has passed, commits what
    /// has come in, and stops the partition.
    pub async fn stop(self, deadline: Duration) {
        let shared = Arc::clone(&self.engine.shared);
        shared.stopping.store(true, Ordering::Relaxed);
        let until = Instant::now() + deadline;
        while !(shared.calls.is_empty() && shared.waiting.load(Ordering::Relaxed) == 0)
            && Instant::now() < until
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Where the thread has ended already, there is nothing left to stop.
        if let Transport::Partition(thread) = &shared.transport {
            drop(thread.send(Message::Stop));
        }
        let until = Instant::now() + ENDED_WITHIN;
        while !self.thread.is_finished() {
            if Instant::now() >= until {
                return tracing::error!(
                    "the partition's thread does not end: its last commit is in doubt"
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if self.thread.join().is_err() {
            tracing::error!("the partition's thread panicked");
        }
    }
}
