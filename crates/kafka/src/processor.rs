//! A processor's end of the queue: a member of the consumer group of a class, which gives what its
//! partitions bring to [`engine::queue::Processor`] and sends the replies.
//!
//! One thread polls and hands over, in the order of the offsets; one task waits for the results.
//! SQL alone says where commands are read from; the offsets stored in Kafka are for tools. Questions
//! are read from the offsets stored in Kafka.

mod clock;
mod lane;
mod member;
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak, mpsc as threads};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::periodic::Backoff;
use engine::queue::{Message, Processor, QueuePosition, Reply};
use futures_util::TryFutureExt as _;
use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message as _, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use self::lane::Lane;
use self::member::Member;
use self::work::{InFlight, Item, Task};
use crate::dead_letter::DeadLetter;
use crate::envelope::{Command, CommandBody, EnvelopeError, ReplyBody, ReplyTo};
use crate::outlet::Outlet;
use crate::refused::{Allowance, RefusedRecords};
use crate::settings::Settings;
use crate::signature::{Role, SignatureError, Signed, Signer};
use crate::topics::Class;

/// How many commands are handed over at once, at most.
const HANDED_OVER_MAX: usize = 64;

/// How long the thread waits for a record before it looks around.
const POLL: Duration = Duration::from_millis(50);

/// How long the thread waits for room without polling. Then the partitions are paused and it polls
/// on, so that the group can change; what was fetched ahead is fetched again afterwards.
const FULL_WITHOUT_POLLING: Duration = Duration::from_millis(200);

/// How long the broker may take to return its time, at first and later. Without it no record is
/// known to be expired.
const TIME_WITHIN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(2));

/// How long a partition may take to be read from elsewhere.
const SEEK_WITHIN: Duration = Duration::from_secs(5);

/// How often offsets are stored in Kafka, and broken partitions are looked for.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// Between two attempts to open a broken partition, at first and at most.
const OPEN_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// After a consumer broke for good.
const JOIN_AGAIN: Duration = Duration::from_secs(1);

/// How a processor is set up.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorOptions {
    /// The class of topics that it processes.
    pub class: Class,
    /// Commands or questions in progress at the same time, gateway calls included; more wait in
    /// Kafka.
    pub in_flight_max: usize,
}

/// A running member of a group.
pub struct RunningProcessor {
    stopping: Arc<Stopping>,
    thread: JoinHandle<()>,
    driving: tokio::task::JoinHandle<()>,
    outlet: Arc<Outlet>,
    closed: oneshot::Receiver<()>,
}

#[derive(Default)]
struct Stopping {
    requested: AtomicBool,
    /// Whether the stop does not wait for tasks in progress.
    at_once: AtomicBool,
}

/// Joins the group of a class on the current tokio runtime.
///
/// # Errors
/// Where librdkafka does not take the settings.
///
/// # Panics
/// Outside a tokio runtime, or where no thread can be started.
pub fn start(
    settings: &Settings,
    options: ProcessorOptions,
    processor: Arc<dyn Processor>,
) -> Result<RunningProcessor, KafkaError> {
    let outlet = Arc::new(Outlet::new(settings)?);
    let topic = settings.topics().commands(options.class);
    let member = || {
        let runtime = Handle::current();
        Member::new(options.class, topic.clone(), Arc::clone(&processor), runtime)
    };
    let config = settings.member(&topic);
    let consumer: BaseConsumer<Member> = config.create_with_context(member())?;
    consumer.subscribe(&[&topic])?;
    let stopping = Arc::new(Stopping::default());
    let (items, received) = mpsc::unbounded_channel();
    let (opened, openings) = threads::channel();
    let (parts, parted) = threads::channel::<Polling>();
    let (closing, closed) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name(format!("kafka-{}", options.class.name()))
        .spawn(move || {
            if let Ok(mut polling) = parted.recv() {
                polling.run(consumer);
            }
            // The waiter may have gone away.
            let _ = closing.send(());
        })
        .expect("the system gives one more thread");
    let class = options.class.name();
    let gauge = metrics::gauge!("faregate_queue_in_flight", "class" => class);
    let in_flight = Arc::new(InFlight::new(options.in_flight_max, gauge, thread.thread().clone()));
    let driving = tokio::spawn(work::drive(received, Arc::clone(&outlet), Arc::clone(&in_flight)));
    let polling = Polling {
        rejoin: Rejoin { config, topic, processor: Arc::clone(&processor) },
        class: options.class,
        runtime: Handle::current(),
        processor,
        outlet: Arc::clone(&outlet),
        stopping: Arc::clone(&stopping),
        in_flight,
        items,
        begun: vec![],
        opened,
        openings,
        looked_around: Instant::now(),
        paused_at: None,
        last_error: String::new(),
        taken: metrics::counter!("faregate_queue_taken_total", "class" => class),
        expired: metrics::counter!("faregate_queue_expired_total", "class" => class),
        signer: settings.signer(Role::Processor),
        signed_within: settings.signed_within,
        refused: RefusedRecords::new(class),
        stored: Allowance::new(Instant::now()),
    };
    parts.send(polling).expect("the thread was just started");
    Ok(RunningProcessor { stopping, thread, driving, outlet, closed })
}

impl RunningProcessor {
    /// Takes nothing new, lets what is in progress end until `deadline` has passed, and leaves the
    /// group.
    pub async fn stop(self, deadline: Duration) {
        const FLUSH: Duration = Duration::from_secs(2);
        let Self { stopping, thread, driving, outlet, mut closed } = self;
        stopping.requested.store(true, Ordering::Release);
        if tokio::time::timeout(deadline, &mut closed).await.is_err() {
            stopping.at_once.store(true, Ordering::Release);
            drop(closed.await);
        }
        let ended = tokio::task::spawn_blocking(move || {
            let joined = thread.join();
            outlet.flush(FLUSH);
            joined
        });
        if !matches!(ended.await, Ok(Ok(()))) {
            tracing::error!("the thread that polls Kafka panicked");
        }
        let abort = driving.abort_handle();
        if tokio::time::timeout(FLUSH, driving).await.is_err() {
            abort.abort();
        }
    }
}

/// The inputs of a consumer that joins the group again.
struct Rejoin {
    config: rdkafka::ClientConfig,
    topic: String,
    processor: Arc<dyn Processor>,
}

/// The thread that polls.
struct Polling {
    rejoin: Rejoin,
    class: Class,
    runtime: Handle,
    processor: Arc<dyn Processor>,
    outlet: Arc<Outlet>,
    stopping: Arc<Stopping>,
    in_flight: Arc<InFlight>,
    items: mpsc::UnboundedSender<Vec<Item>>,
    /// Tasks that have begun and are not handed over yet.
    begun: Vec<Item>,
    opened: threads::Sender<(Arc<Lane>, Option<i64>)>,
    openings: threads::Receiver<(Arc<Lane>, Option<i64>)>,
    looked_around: Instant,
    /// Set while all partitions are paused: how many assignments there had been then.
    paused_at: Option<u64>,
    last_error: String,
    taken: metrics::Counter,
    expired: metrics::Counter,
    signer: Signer,
    signed_within: Duration,
    refused: RefusedRecords,
    stored: Allowance,
}

impl Polling {
    fn run(&mut self, first: BaseConsumer<Member>) {
        let mut next = Some(first);
        while !self.is_stopping() {
            match next.take().map_or_else(|| self.join(), Ok) {
                Ok(consumer) => {
                    self.poll_on(&consumer);
                    self.drain(&consumer);
                    let member = Arc::clone(consumer.context());
                    // Closes it: what it owns is revoked.
                    drop(consumer);
                    // Unless it broke in a way that it did not say so.
                    let left: Vec<i32> = member.lanes().iter().map(|it| it.partition).collect();
                    member.give_up(&left);
                }
                Err(error) => {
                    tracing::error!(error = %error, "the group cannot be joined");
                    std::thread::park_timeout(JOIN_AGAIN);
                }
            }
        }
    }

    fn join(&self) -> Result<BaseConsumer<Member>, KafkaError> {
        let Rejoin { config, topic, processor } = &self.rejoin;
        let processor = Arc::clone(processor);
        let member = Member::new(self.class, topic.clone(), processor, self.runtime.clone());
        let consumer: BaseConsumer<Member> = config.create_with_context(member)?;
        consumer.subscribe(&[topic])?;
        Ok(consumer)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.requested.load(Ordering::Acquire)
    }

    /// Until it is to stop, or the consumer broke for good.
    fn poll_on(&mut self, consumer: &BaseConsumer<Member>) {
        self.paused_at = None;
        while !self.is_stopping() {
            self.make_room(consumer);
            if self.looked_around.elapsed() >= LOOK_AROUND {
                self.hand_over();
                self.look_around(consumer);
                self.looked_around = Instant::now();
            }
            match consumer.poll(if self.begun.is_empty() { POLL } else { Duration::ZERO }) {
                None => self.hand_over(),
                Some(Ok(record)) => self.take(consumer, &record),
                Some(Err(error)) => {
                    self.hand_over();
                    if matches!(error, KafkaError::MessageConsumptionFatal(_)) {
                        tracing::error!(error = %error, "the consumer broke: it is replaced");
                        std::thread::park_timeout(JOIN_AGAIN);
                        return;
                    }
                    self.log_once(&error);
                }
            }
        }
    }

    /// Takes nothing new, and polls on until what is in progress has ended.
    fn drain(&mut self, consumer: &BaseConsumer<Member>) {
        self.hand_over();
        if let Ok(owned) = consumer.assignment()
            && let Err(error) = consumer.pause(&owned)
        {
            tracing::debug!(error = %error, "the partitions were not paused");
        }
        while self.in_flight.count() > 0 && !self.stopping.at_once.load(Ordering::Acquire) {
            // What was fetched before is read again by the next owner.
            drop(consumer.poll(POLL));
        }
        self.look_around(consumer);
    }

    /// Waits while too much is in progress.
    fn make_room(&mut self, consumer: &BaseConsumer<Member>) {
        if self.in_flight.is_full() {
            self.hand_over();
        }
        let since = Instant::now();
        let assignment = consumer.context().assignments();
        // What was assigned since then is not paused.
        let is_paused = self.paused_at == Some(assignment);
        while self.in_flight.is_full() && !is_paused && !self.is_stopping() {
            let left = FULL_WITHOUT_POLLING.saturating_sub(since.elapsed());
            if left.is_zero() {
                if self.for_all(consumer, BaseConsumer::pause) {
                    self.paused_at = Some(assignment);
                }
                return;
            }
            std::thread::park_timeout(left);
        }
        if self.paused_at.is_some()
            && !self.in_flight.is_full()
            && self.for_all(consumer, BaseConsumer::resume)
        {
            self.paused_at = None;
        }
    }

    /// Pauses or resumes all partitions that are ours and not broken; says whether that worked.
    fn for_all(
        &self,
        consumer: &BaseConsumer<Member>,
        change: impl FnOnce(&BaseConsumer<Member>, &TopicPartitionList) -> Result<(), KafkaError>,
    ) -> bool {
        let mut partitions = TopicPartitionList::new();
        for lane in consumer.context().lanes().iter().filter(|it| !it.is_broken()) {
            partitions.add_partition(&self.rejoin.topic, lane.partition);
        }
        match change(consumer, &partitions) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(error = %error, "partitions were not paused or resumed");
                false
            }
        }
    }

    /// The same error once.
    fn log_once(&mut self, error: &KafkaError) {
        let error = error.to_string();
        if error != self.last_error {
            tracing::warn!(class = self.class.name(), error, "commands cannot be read now");
            self.last_error = error;
        }
    }

    fn take(&mut self, consumer: &BaseConsumer<Member>, record: &BorrowedMessage<'_>) {
        let Some(lane) = consumer.context().lane(record.partition()) else { return };
        // It will be read again from where it stands in SQL.
        if lane.is_broken() {
            return;
        }
        self.last_error.clear();
        let signed = match self.signer.verify(record) {
            Ok(signed) => signed,
            Err(error) => return self.refuse(consumer, &lane, record, error),
        };
        match Command::decode(record.payload().unwrap_or_default()) {
            Ok(command) if !may_say(signed, &command.body) => {
                self.refuse(consumer, &lane, record, SignatureError::WrongRole);
            }
            Ok(command) => self.begin(consumer, (&lane, record), (command, signed)),
            Err(error) => self.park(consumer, &lane, record, &error),
        }
    }

    fn begin(
        &mut self,
        consumer: &BaseConsumer<Member>,
        (lane, record): (&Arc<Lane>, &BorrowedMessage<'_>),
        (command, signed): (Command, Option<Signed>),
    ) {
        let Command { reply_to, time_to_live, body } = command;
        let message = match body {
            CommandBody::Ask(message) => message,
            CommandBody::Echo(bytes) => {
                lane.dealt_with(record.offset());
                let _runtime = self.runtime.enter();
                return self.outlet.reply(&reply_to, ReplyBody::Echo(bytes));
            }
            CommandBody::Clock => return lane.dealt_with(record.offset()),
        };
        self.taken.increment(1);
        let (partition, offset) = (lane.partition, record.offset());
        if self.is_expired(lane, record, time_to_live) {
            self.expired.increment(1);
            return self.skip(lane, offset, Some(reply_to), ReplyBody::Expired);
        }
        if signed.is_some_and(|signed| is_stale(signed, record.timestamp(), self.signed_within)) {
            return self.refuse(consumer, lane, record, SignatureError::Stale);
        }
        let task = match message {
            Message::Request(_) | Message::Inquire(_) | Message::Resend(_)
                if self.class == Class::Balance =>
            {
                // Its partition has no owner here.
                let error = EnvelopeError::Garbage("a command among questions".to_owned());
                return self.park(consumer, lane, record, &error);
            }
            Message::Request(request) => {
                let dead_letter = DeadLetter::of(record, "");
                let expires_at = Instant::now().checked_add(time_to_live);
                let place = QueuePosition { offset, expires_at };
                Task::Execute(self.processor.execute(partition, place, *request), dead_letter)
            }
            Message::Balance { tenant, account, work } => {
                Task::Balance(self.processor.balance(tenant, account, work))
            }
            Message::Inquire(question) => {
                let skipping = self.processor.skip(partition, offset);
                let inquiring = self.processor.inquire(partition, question);
                Task::Passed { skipping, then: Box::pin(inquiring.map_ok(Reply::Inquired)) }
            }
            Message::Resend(resend) => {
                let skipping = self.processor.skip(partition, offset);
                let resending = self.processor.resend(partition, resend);
                Task::Passed { skipping, then: Box::pin(resending.map_ok(|()| Reply::Resent)) }
            }
        };
        self.add(Item { lane: Arc::clone(lane), offset, reply_to: Some(reply_to), task });
    }

    fn skip(
        &mut self,
        lane: &Arc<Lane>,
        offset: i64,
        reply_to: Option<ReplyTo>,
        outcome: ReplyBody,
    ) {
        let task = match self.class {
            Class::Payment => Task::Skip(self.processor.skip(lane.partition, offset), outcome),
            // Where questions stand is not in SQL.
            Class::Balance => Task::Skip(Box::pin(async { Ok(()) }), outcome),
        };
        self.add(Item { lane: Arc::clone(lane), offset, reply_to, task });
    }

    fn add(&mut self, item: Item) {
        item.lane.begin(item.offset);
        self.in_flight.begin();
        self.begun.push(item);
        if self.begun.len() >= HANDED_OVER_MAX {
            self.hand_over();
        }
    }

    /// Hands over what was begun, all at once: each time wakes the task that receives, and with it the
    /// engine.
    fn hand_over(&mut self) {
        if !self.begun.is_empty() {
            // That task ends after this thread, unless the runtime does.
            drop(self.items.send(std::mem::take(&mut self.begun)));
        }
    }

    /// Waits for a future. What was begun does not wait with it.
    fn wait<T>(&mut self, future: impl Future<Output = T>) -> T {
        self.hand_over();
        self.runtime.block_on(future)
    }

    /// Stores a record that cannot be read as a dead letter, before its offset is passed; the partition
    /// waits for that.
    fn park(
        &mut self,
        consumer: &BaseConsumer<Member>,
        lane: &Arc<Lane>,
        record: &BorrowedMessage<'_>,
        error: &EnvelopeError,
    ) {
        tracing::error!(
            topic = record.topic(),
            partition = record.partition(),
            offset = record.offset(),
            error = %error,
            "a command cannot be read"
        );
        self.set_aside(consumer, lane, DeadLetter::of(record, error.label()));
    }

    /// Refuses a record that no member of the cluster has signed: it is neither decoded nor executed, and
    /// the partition goes on. Its producer gets no reply: where that would go is not known either.
    fn refuse(
        &mut self,
        consumer: &BaseConsumer<Member>,
        lane: &Arc<Lane>,
        record: &BorrowedMessage<'_>,
        error: SignatureError,
    ) {
        self.refused.count(error);
        if self.stored.take(Instant::now()) {
            tracing::error!(
                topic = record.topic(),
                partition = record.partition(),
                offset = record.offset(),
                error = %error,
                "a record is refused"
            );
            return self.set_aside(consumer, lane, DeadLetter::refused(record, error));
        }
        self.skip(lane, record.offset(), None, ReplyBody::Expired);
    }

    /// Has a record written to the dead letters before its offset is passed. The partition waits for that, and
    /// nothing else does: the thread polls on, and other partitions go on.
    fn set_aside(
        &mut self,
        consumer: &BaseConsumer<Member>,
        lane: &Arc<Lane>,
        dead_letter: DeadLetter,
    ) {
        self.hand_over();
        lane.set_aside(true);
        self.change(consumer, lane.partition, BaseConsumer::pause);
        let aside = Aside {
            class: self.class,
            lane: Arc::downgrade(lane),
            dead_letter,
            outlet: Arc::clone(&self.outlet),
            processor: Arc::clone(&self.processor),
            opened: self.opened.clone(),
        };
        self.runtime.spawn(aside.run());
    }

    /// Whether a command's time to live is over, by the clock of the broker that has it.
    fn is_expired(&mut self, lane: &Lane, record: &BorrowedMessage<'_>, limit: Duration) -> bool {
        // Topics are made so that the broker stamps them; what it did not stamp has no age.
        let Timestamp::LogAppendTime(stamped) = record.timestamp() else { return false };
        let mut clock = lane.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if clock.wants_measuring(now, clock.is_too_old(now, stamped, limit)) {
            let outlet = Arc::clone(&self.outlet);
            let asking = outlet.time(record.topic(), record.partition());
            let timeout = if clock.is_known() { TIME_WITHIN.1 } else { TIME_WITHIN.0 };
            let measured = async { tokio::time::timeout(timeout, asking).await.ok().flatten() };
            let theirs = self.wait(measured);
            if theirs.is_none() {
                tracing::warn!(partition = lane.partition, "the broker does not tell its time");
            }
            clock.measured(Instant::now(), theirs);
        }
        let now = Instant::now();
        clock.saw(now, stamped);
        clock.is_too_old(now, stamped, limit)
    }

    /// Opens broken partitions again, and tells Kafka how far we are.
    fn look_around(&self, consumer: &BaseConsumer<Member>) {
        let topic = &self.rejoin.topic;
        for (lane, offset) in self.openings.try_iter().collect::<Vec<_>>() {
            self.read_again(consumer, &lane, offset);
        }
        for lane in consumer.context().lanes() {
            if lane.is_setting_aside() {
                continue;
            }
            if lane.is_broken() {
                self.open_again(consumer, &lane);
            } else if let Some(next) = lane.read_on() {
                let mut stored = TopicPartitionList::new();
                let taken = stored
                    .add_partition_offset(topic, lane.partition, Offset::Offset(next))
                    .and_then(|()| consumer.store_offsets(&stored));
                if let Err(error) = taken {
                    tracing::debug!(error = %error, "failed to store offsets in Kafka");
                }
            }
        }
    }

    fn open_again(&self, consumer: &BaseConsumer<Member>, lane: &Arc<Lane>) {
        let began = consumer.context().begin_opening(lane, |ended| {
            let (processor, opened) = (Arc::clone(&self.processor), self.opened.clone());
            self.runtime.spawn(open(processor, Arc::clone(lane), opened, ended))
        });
        if began {
            self.change(consumer, lane.partition, BaseConsumer::pause);
            metrics::counter!("faregate_queue_reopened_total").increment(1);
        }
    }

    fn read_again(&self, consumer: &BaseConsumer<Member>, lane: &Arc<Lane>, offset: Option<i64>) {
        let from = offset.map_or(Offset::Beginning, Offset::Offset);
        let (topic, partition) = (&self.rejoin.topic, lane.partition);
        if consumer.context().lane(partition).is_none_or(|it| !Arc::ptr_eq(&it, lane)) {
            return;
        }
        if let Err(error) = consumer.seek(topic, partition, from, SEEK_WITHIN) {
            tracing::warn!(partition, error = %error, "a partition is not read again yet");
            // There is no other sender; the end of this thread is the end of the channel.
            drop(self.opened.send((Arc::clone(lane), offset)));
            return;
        }
        let _runtime = self.runtime.enter();
        for to in lane.read_again_from(offset) {
            work::reply_in_doubt(&self.outlet, &to);
        }
        consumer.context().opened(lane);
        if self.paused_at.is_none() {
            self.change(consumer, partition, BaseConsumer::resume);
        }
        tracing::info!(partition, offset, "a partition is read again");
    }

    fn change(
        &self,
        consumer: &BaseConsumer<Member>,
        partition: i32,
        change: impl FnOnce(&BaseConsumer<Member>, &TopicPartitionList) -> Result<(), KafkaError>,
    ) {
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition(&self.rejoin.topic, partition);
        if let Err(error) = change(consumer, &partitions) {
            tracing::warn!(partition, error = %error, "a partition was not paused or resumed");
        }
    }
}

/// Whether a producer of this role sends this. A gateway's answer comes from the engine that asked, and
/// from no queue, signed or not.
fn may_say(signed: Option<Signed>, body: &CommandBody) -> bool {
    let role = signed.map(|it| it.role);
    match body {
        CommandBody::Ask(Message::Request(it)) if it.command.is_gateway_answer() => false,
        CommandBody::Ask(_) | CommandBody::Echo(_) => role != Some(Role::Processor),
        CommandBody::Clock => role.is_none_or(|role| role == Role::Processor),
    }
}

/// Whether a record was signed long before or after it was appended, or an unknown time ago.
fn is_stale(signed: Signed, appended: Timestamp, within: Duration) -> bool {
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    // Any other time is the producer's own.
    let Timestamp::LogAppendTime(appended_ms) = appended else { return true };
    appended_ms.abs_diff(signed.signed_at_ms) > within_ms
}

/// A record on its way to the dead letters.
struct Aside {
    class: Class,
    /// Gone once the partition is no longer ours: its next owner reads the record again.
    lane: Weak<Lane>,
    dead_letter: DeadLetter,
    outlet: Arc<Outlet>,
    processor: Arc<dyn Processor>,
    opened: threads::Sender<(Arc<Lane>, Option<i64>)>,
}

impl Aside {
    async fn run(self) {
        let is_ours = || self.lane.strong_count() > 0;
        if !self.outlet.write_dead_letter(&self.dead_letter, is_ours).await {
            return;
        }
        let DeadLetter { partition, offset, .. } = self.dead_letter;
        let skipped = match self.class {
            Class::Payment => self.processor.skip(partition, offset).await,
            // Where questions stand is not in SQL.
            Class::Balance => Ok(()),
        };
        let Some(lane) = self.lane.upgrade() else { return };
        match skipped {
            // The polling thread may have ended.
            Ok(()) => drop(self.opened.send((lane, Some(offset + 1)))),
            Err(unavailable) => {
                tracing::warn!(
                    partition,
                    offset,
                    reason = unavailable.reason.label(),
                    "a record was not passed: its partition is read again"
                );
                lane.set_aside(false);
            }
        }
    }
}

/// Opens a partition, however long that takes, unless it is no longer ours.
async fn open(
    processor: Arc<dyn Processor>,
    lane: Arc<Lane>,
    opened: threads::Sender<(Arc<Lane>, Option<i64>)>,
    ended: Arc<AtomicBool>,
) {
    let mut backoff = Backoff::new(OPEN_AGAIN.0, OPEN_AGAIN.1);
    while !ended.load(Ordering::Acquire) {
        match processor.assigned(lane.partition).await {
            Ok(offset) => {
                // The polling thread may have ended.
                drop(opened.send((lane, offset)));
                return;
            }
            Err(error) => {
                let partition = lane.partition;
                tracing::error!(partition, error = %error, "a partition cannot be opened");
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::command::PaymentCommand;
    use domain::payment::{Actor, GatewayInquired, GatewayKnowledge};
    use domain::{PaymentId, Request, RequestId, TenantNo, TransactionId};
    use uuid::Uuid;

    #[test]
    fn who_may_say_what() {
        let signed = |role| Some(Signed { role, signed_at_ms: 0 });
        let (front, processor, operator) =
            (signed(Role::Front), signed(Role::Processor), signed(Role::Operator));
        let echo = CommandBody::Echo(vec![]);
        assert_eq!(
            [None, front, operator, processor].map(|it| may_say(it, &echo)),
            [true, true, true, false]
        );
        let clock = CommandBody::Clock;
        assert_eq!(
            [None, front, operator, processor].map(|it| may_say(it, &clock)),
            [true, false, false, true]
        );
        let request = Request {
            id: RequestId(Uuid::nil()),
            tenant: TenantNo(2),
            actor: Actor::new("u", "t", Uuid::nil()),
            idempotency: None,
            command: PaymentCommand::GatewayInquired(GatewayInquired {
                payment: PaymentId::new(Uuid::nil()),
                transaction: TransactionId::new(Uuid::nil()),
                knowledge: GatewayKnowledge::NotFound,
                asked_at: domain::Timestamp(0),
            })
            .into(),
        };
        let answer = CommandBody::Ask(Message::Request(Box::new(request)));
        assert_eq!([None, front, operator, processor].map(|it| may_say(it, &answer)), [false; 4]);
    }

    #[test]
    fn a_signature_is_as_old_as_its_record_within_the_difference_of_clocks() {
        let within = Duration::from_secs(10);
        let check = |signed_at_ms, appended, expected| {
            let signed = Signed { role: Role::Front, signed_at_ms };
            assert_eq!(is_stale(signed, appended, within), expected, "{signed_at_ms} {appended:?}");
        };
        let appended = Timestamp::LogAppendTime(1_000_000);
        for (signed_at_ms, is_stale) in [
            (990_000, false),
            (989_999, true),
            (1_010_000, false),
            (1_010_001, true),
            (i64::MIN, true),
        ] {
            check(signed_at_ms, appended, is_stale);
        }
        check(0, Timestamp::NotAvailable, true);
        check(0, Timestamp::CreateTime(0), true);
    }
}
