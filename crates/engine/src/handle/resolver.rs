//! Asks gateways about unknown outcomes: orphans of a crash at once, others on schedule.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::command::PaymentCommand;
use domain::payment::{Actor, GatewayInquired, GatewayKnowledge, Outstanding};
use domain::{Command, EffectId, Request, TenantNo, TransactionId};
use futures_util::FutureExt;
use tokio::sync::Semaphore;

use crate::lane::Lane;
use crate::periodic::{Job, Pass, Periodic};
use crate::ports::Inquiry;
use crate::{Answer, Engine, Unavailable};

/// How long a gateway may take to answer a question.
pub(crate) const INQUIRY_TIMEOUT: Duration = Duration::from_secs(10);

/// How often to look for forgotten outcomes, which no inquiry is planned for.
const FORGOTTEN_EVERY: Duration = Duration::from_secs(5);

/// After failed reads the pause doubles up to so many ticks.
const BACKOFF_TICKS_MAX: u32 = 4;

/// How many due outcomes are fetched at a time.
const DUE_MAX: usize = 256;

/// Runs until the engine stops. `orphans` are the calls that ran when the last process ended.
pub(crate) async fn run(engine: Engine, orphans: Vec<Outstanding>) {
    let inquiries = Inquiries {
        permits: Arc::new(Semaphore::new(engine.shared().options.inquiries_max)),
        ids: Arc::default(),
    };
    for orphan in orphans {
        inquiries.begin(&engine, orphan).await;
    }
    let tick = engine.shared().options.resolver_tick;
    let resolver = Resolver { engine, inquiries, forgotten_at: Instant::now() };
    let periodic = Periodic::every(tick).with_backoff(tick, tick * BACKOFF_TICKS_MAX);
    periodic.run(std::future::pending(), resolver).await;
}

struct Resolver {
    engine: Engine,
    inquiries: Inquiries,
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
            self.inquiries.begin_forgotten(engine).await;
        }
        let now = engine.clock().now();
        match engine.read(move |queries| queries.outstanding_due(now, DUE_MAX)).await {
            Ok(due) => {
                for outstanding in due {
                    self.inquiries.begin(engine, outstanding).await;
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

/// The inquiries under way.
struct Inquiries {
    permits: Arc<Semaphore>,
    ids: Arc<Mutex<HashSet<TransactionId>>>,
}

impl Inquiries {
    /// Asks about forgotten outcomes: calls that do not run although their time is over (those
    /// of a batch that was committed after all, when the store could not say so), and what a clock
    /// planned that has been set back since.
    async fn begin_forgotten(&self, engine: &Engine) {
        let settings = &engine.shared().settings;
        let ask_latest = engine.clock().now().plus_us(settings.longest_delay_us());
        let found = engine.read(move |queries| {
            let orphans = queries.outstanding_orphans()?;
            Ok((orphans, queries.outstanding_after(ask_latest, DUE_MAX)?))
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
            self.begin(engine, outstanding).await;
        }
    }

    /// Asks in the background, unless the same question is under way or the call itself still is.
    async fn begin(&self, engine: &Engine, outstanding: Outstanding) {
        let id = outstanding.transaction_id;
        let lock = move |ids: &Mutex<HashSet<TransactionId>>, insert: bool| {
            let mut ids = ids.lock().unwrap_or_else(PoisonError::into_inner);
            if insert { ids.insert(id) } else { ids.remove(&id) }
        };
        if engine.shared().calls.is_running(EffectId::Transaction(id)) || !lock(&self.ids, true) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
        let (engine, ids) = (engine.clone(), Arc::clone(&self.ids));
        tokio::spawn(async move {
            let asked = ask(&engine, outstanding).await;
            if let Err(error) = &asked {
                tracing::warn!(error = %error, transaction.id = %id, "an outcome was not written");
            }
            // What an operator has to look at first is not asked about again and again.
            if !asked.is_err_and(|error| error.reason.is_parked()) {
                lock(&ids, false);
            }
            drop(permit);
        });
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

/// What a gateway answered to an inquiry.
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
            let guarded = AssertUnwindSafe(gateway.inquire(inquiry)).catch_unwind();
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
