//! Asks gateways about unknown outcomes: orphans of a crash at once, others on schedule.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::command::PaymentCommand;
use domain::payment::{Actor, GatewayInquired, GatewayKnowledge, Outstanding};
use domain::{Command, EffectId, Request, TenantNo, TransactionId};
use futures_util::FutureExt;

use crate::lane::Lane;
use crate::periodic::{Job, Pass, Periodic};
use crate::ports::{Inquiry, Queries, StoreError};
use crate::{Answer, Engine, Unavailable};

/// How long a gateway may take to answer a question.
pub(crate) const INQUIRY_TIMEOUT: Duration = Duration::from_secs(10);

/// How often to look for forgotten outcomes, which no inquiry is planned for.
const FORGOTTEN_EVERY: Duration = Duration::from_secs(5);

/// After failed reads the pause doubles up to so many ticks.
const BACKOFF_TICKS_MAX: u32 = 4;

/// How many due outcomes of a gateway wait in memory.
const WAITING_MAX: usize = 256;

/// Runs until the engine stops. `orphans` are the calls that ran when the last process ended.
pub(crate) async fn run(engine: Engine, orphans: Vec<Outstanding>) {
    let inquiries = Arc::new(Inquiries::new(&engine));
    for orphan in orphans {
        inquiries.add(&engine, orphan);
    }
    let tick = engine.shared().options.resolver_tick;
    let resolver = Resolver { engine, inquiries, forgotten_at: Instant::now() };
    let periodic = Periodic::every(tick).with_backoff(tick, tick * BACKOFF_TICKS_MAX);
    periodic.run(std::future::pending(), resolver).await;
}

struct Resolver {
    engine: Engine,
    inquiries: Arc<Inquiries>,
    /// When forgotten outcomes were last looked for.
    forgotten_at: Instant,
}

impl Job for Resolver {
    async fn pass(&mut self) -> Pass {
        let engine = &self.engine;
        if engine.is_stopping() {
            return Pass::Done;
        }
        if self.forgotten_at.elapsed() >= FORGOTTEN_EVERY {
            self.forgotten_at = Instant::now();
            self.inquiries.add_forgotten(engine).await;
        }
        let (now, inquiries) = (engine.clock().now(), Arc::clone(&self.inquiries));
        let due = engine.read(move |queries| {
            inquiries
                .of_each(queries, |gateway, limit| queries.outstanding_due(gateway, now, limit))
        });
        match due.await {
            Ok(due) => {
                for outstanding in due {
                    self.inquiries.add(engine, outstanding);
                }
                Pass::Idle
            }
            Err(error) => {
                tracing::warn!(error = %error, "failed to read unresolved payments; retried");
                Pass::Failed
            }
        }
    }

    async fn woken(&mut self) {
        self.engine.shared().attention.notified().await;
    }
}

/// The inquiries of each gateway: one that hangs delays those of no other.
struct Inquiries {
    by_gateway: BTreeMap<String, Arc<Backlog>>,
    /// Those of gateways that are not there, which are answered at once.
    of_no_gateway: Arc<Backlog>,
}

/// The inquiries of a gateway.
#[derive(Default)]
struct Backlog(Mutex<Inquired>);

#[derive(Default)]
struct Inquired {
    /// To be asked about next.
    waiting: VecDeque<Outstanding>,
    /// How many are under way.
    asking: usize,
    /// Those that wait, those under way, and those that an operator has to look at first.
    ids: HashSet<TransactionId>,
}

impl Inquiries {
    fn new(engine: &Engine) -> Self {
        let names = engine.shared().gateways.keys();
        let by_gateway = names.map(|name| (name.clone(), Arc::default())).collect();
        Self { by_gateway, of_no_gateway: Arc::default() }
    }

    fn of(&self, gateway: &str) -> &Arc<Backlog> {
        self.by_gateway.get(gateway).unwrap_or(&self.of_no_gateway)
    }

    /// Reads outcomes of each gateway, as many as it has room for.
    fn of_each(
        &self,
        queries: &dyn Queries,
        read: impl Fn(&str, usize) -> Result<Vec<Outstanding>, StoreError>,
    ) -> Result<Vec<Outstanding>, StoreError> {
        let mut found = vec![];
        for gateway in queries.outstanding_gateways()? {
            let limit = self.of(&gateway).limit();
            if limit > 0 {
                found.extend(read(&gateway, limit)?);
            }
        }
        Ok(found)
    }

    /// Adds forgotten outcomes: calls that do not run although their time is over (those of a batch that was
    /// committed after all, when the store could not say so), and what a clock planned that has been set back
    /// since.
    async fn add_forgotten(self: &Arc<Self>, engine: &Engine) {
        let settings = &engine.shared().settings;
        let ask_latest = engine.clock().now().plus_us(settings.longest_delay_us());
        let inquiries = Arc::clone(self);
        let found = engine.read(move |queries| {
            let orphans = queries.outstanding_orphans()?;
            let misplanned = inquiries.of_each(queries, |gateway, limit| {
                queries.outstanding_after(gateway, ask_latest, limit)
            })?;
            Ok((orphans, misplanned))
        });
        let (orphans, misplanned) = match found.await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = %error, "cannot look for forgotten outcomes");
                return;
            }
        };
        let real_now = engine.clock().real_now();
        let is_over = |it: &Outstanding| {
            let timeout_us = settings.gateway(&it.gateway).map_or(0, |it| it.timeout_us);
            it.deadline < real_now || it.deadline > real_now.plus_us(timeout_us)
        };
        for outstanding in orphans.into_iter().filter(is_over).chain(misplanned) {
            self.add(engine, outstanding);
        }
    }

    /// Has an outcome asked about in the background, unless it is already.
    fn add(&self, engine: &Engine, outstanding: Outstanding) {
        let backlog = self.of(&outstanding.gateway);
        if backlog.push(outstanding, engine.shared().options.inquiries_max) {
            tokio::spawn(ask_all(engine.clone(), Arc::clone(backlog)));
        }
    }
}

impl Backlog {
    /// How many outcomes are to be read so that those which are known already hide no others; 0 where there is no
    /// room.
    fn limit(&self) -> usize {
        let inquired = self.lock();
        match WAITING_MAX.saturating_sub(inquired.waiting.len()) {
            0 => 0,
            room => room + inquired.ids.len(),
        }
    }

    /// Adds an outcome that is not there yet; returns whether another inquiry may begin.
    fn push(&self, outstanding: Outstanding, asking_max: usize) -> bool {
        let mut inquired = self.lock();
        if !inquired.ids.insert(outstanding.transaction_id) {
            return false;
        }
        inquired.waiting.push_back(outstanding);
        let may_begin = inquired.asking < asking_max;
        inquired.asking += usize::from(may_begin);
        may_begin
    }

    /// The next outcome to ask about. Where there is none, one inquiry less is under way.
    fn next(&self) -> Option<Outstanding> {
        let mut inquired = self.lock();
        let next = inquired.waiting.pop_front();
        inquired.asking -= usize::from(next.is_none());
        next
    }

    fn forget(&self, id: TransactionId) {
        self.lock().ids.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, Inquired> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks about one outcome after the other until none waits. A call that still runs is left alone.
async fn ask_all(engine: Engine, backlog: Arc<Backlog>) {
    while let Some(outstanding) = backlog.next() {
        let id = outstanding.transaction_id;
        let is_left =
            engine.is_stopping() || engine.shared().calls.is_running(EffectId::Transaction(id));
        if is_left {
            backlog.forget(id);
            continue;
        }
        // What an operator has to look at first is not asked about again and again.
        let is_parked = match AssertUnwindSafe(ask(&engine, outstanding)).catch_unwind().await {
            Ok(Ok(())) => false,
            Ok(Err(error)) => {
                tracing::warn!(error = %error, transaction.id = %id, "an outcome was not written");
                error.reason.is_parked()
            }
            Err(_) => {
                tracing::error!(transaction.id = %id, "an inquiry panicked; it is not made again");
                true
            }
        };
        if !is_parked {
            backlog.forget(id);
        }
    }
}

/// Asks the gateway about one transaction and commits what it says.
pub(crate) async fn ask(engine: &Engine, outstanding: Outstanding) -> Result<(), Unavailable> {
    let inquiry = Inquiry {
        tenant: outstanding.tenant,
        payment: outstanding.payment_id,
        transaction: outstanding.transaction_id,
    };
    let actor = outstanding.actor;
    inquire(engine, (&outstanding.gateway, inquiry), actor, Lane::Own).await.map(drop)
}

/// Asks a gateway about a transaction, commits what it answers in the name of `actor`, and returns whether the
/// answer was definite ([`GatewayKnowledge::is_definite`]).
pub(crate) async fn inquire(
    engine: &Engine,
    (gateway, inquiry): (&str, Inquiry),
    actor: Actor,
    lane: Lane,
) -> Result<bool, Unavailable> {
    let answer = ask_gateway(engine, gateway, inquiry).await;
    let is_definite = answer.inquired.knowledge.is_definite();
    book(engine, answer, actor, lane).await?;
    Ok(is_definite)
}

/// A gateway's answer to an inquiry.
pub(crate) struct InquiryAnswer {
    pub(crate) tenant: TenantNo,
    pub(crate) inquired: GatewayInquired,
}

/// Sends an inquiry to a gateway. One that does not answer, or is not there, is unreachable.
pub(crate) async fn ask_gateway(engine: &Engine, gateway: &str, inquiry: Inquiry) -> InquiryAnswer {
    let (tenant, payment, transaction) = (inquiry.tenant, inquiry.payment, inquiry.transaction);
    let asked_at = engine.clock().real_now();
    let knowledge = match engine.shared().gateways.get(gateway) {
        Some(gateway) => {
            let inquiring = async move { gateway.inquire(inquiry).await };
            let guarded = AssertUnwindSafe(inquiring).catch_unwind();
            match tokio::time::timeout(INQUIRY_TIMEOUT, guarded).await {
                Ok(Ok(knowledge)) => knowledge,
                Ok(Err(_)) | Err(_) => GatewayKnowledge::Unreachable,
            }
        }
        None => GatewayKnowledge::Unreachable,
    };
    let inquired = GatewayInquired { payment, transaction, knowledge, asked_at };
    InquiryAnswer { tenant, inquired }
}

/// Commits what a gateway answered, in the name of `actor`.
pub(crate) async fn book(
    engine: &Engine,
    answer: InquiryAnswer,
    actor: Actor,
    lane: Lane,
) -> Result<(), Unavailable> {
    let request = Request {
        id: engine.mint(),
        tenant: answer.tenant,
        actor,
        idempotency: None,
        command: Command::Payment(PaymentCommand::GatewayInquired(answer.inquired)),
    };
    match engine.submit_in(lane, request).await? {
        Answer::Replied(_) => {}
        Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest => {
            tracing::error!("an inquiry's answer was refused");
        }
    }
    Ok(())
}
