//! Performs what was committed: calls gateways, and hands their answers back as commands.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::command::{AccountCommand, PaymentCommand};
use domain::payment::{GatewayAnswer, GatewayReplied};
use domain::{Command, Effect, EffectId, GatewayCall, Request, Timestamp};
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::methods;
use super::permits::InFlightPermit;
use crate::breaker::{BreakerPass, CallEnd};
use crate::lane::Lane;
use crate::partition::Performing;
use crate::periodic::Backoff;
use crate::ports::Gateway;
use crate::{Deadline, Engine, Reason};

/// How long to wait before the store is offered again what it could not take.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The wait doubles up to this, so that thousands of outcomes do not crowd a store in trouble.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_millis(3_200);

/// The calls of this process that run: the resolver does not inquire about them. A transaction has more than one while
/// the answer to its first is written and its completion is called.
#[derive(Default)]
pub(crate) struct Calls(Mutex<HashMap<EffectId, Call>>);

#[derive(Default)]
struct Call {
    count: usize,
    /// Dropped with the call, which tells those who wait for its end.
    waiters: Vec<oneshot::Sender<()>>,
}

impl Calls {
    pub(crate) fn begin(&self, effect: EffectId) {
        self.lock().entry(effect).or_default().count += 1;
    }

    pub(crate) fn is_running(&self, effect: EffectId) -> bool {
        self.lock().contains_key(&effect)
    }

    /// Returns once the calls of an effect have ended and their outcome is written; `None` where none
    /// runs.
    pub(crate) fn ended(&self, effect: EffectId) -> Option<impl Future<Output = ()> + use<>> {
        let (waiter, ended) = oneshot::channel();
        self.lock().get_mut(&effect)?.waiters.push(waiter);
        Some(async { drop(ended.await) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn end(&self, effect: EffectId) {
        let mut running = self.lock();
        if let Some(call) = running.get_mut(&effect) {
            call.count -= 1;
            if call.count == 0 {
                running.remove(&effect);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<EffectId, Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to a call: one of those that its gateway may have in flight, granted by its breaker too.
pub(crate) struct CallPermit {
    pub(crate) in_flight: InFlightPermit,
    pub(crate) breaker: BreakerPass,
}

/// Performs an effect within its deadline and commits the outcome, which waits for it in `lane`. The permit is held until
/// then: it bounds what is in flight and what waits to be committed alike.
pub(crate) async fn perform(
    engine: Engine,
    (performing, lane): (Performing, Lane),
    permit: CallPermit,
    began: Timestamp,
) {
    let Performing { effect, actor } = performing;
    let (id, tenant) = (effect.id(), effect.tenant());
    let CallPermit { in_flight, breaker } = permit;
    let command = match effect {
        Effect::CallGateway(call) => {
            let (replied, end) = call_gateway(&engine, *call, began).await;
            breaker.ended(end);
            Command::Payment(PaymentCommand::GatewayReplied(replied))
        }
        Effect::AskAboutMethod(request) => {
            let (answered, end) = methods::ask(&engine, *request, began).await;
            breaker.ended(end);
            Command::Account(AccountCommand::MethodAnswered(Box::new(answered)))
        }
    };
    let request = Request { id: engine.mint(), tenant, actor, idempotency: None, command };
    commit_outcome(&engine, lane, request).await;
    engine.shared().calls.end(id);
    drop(in_flight);
}

/// Calls a gateway within the call's deadline.
async fn call_gateway(
    engine: &Engine,
    mut call: GatewayCall,
    began: Timestamp,
) -> (GatewayReplied, CallEnd) {
    let timeout = Duration::from_micros(u64::try_from(call.timeout_us).unwrap_or(0));
    let deadline = Deadline::after(engine.clock(), began, timeout);
    let (payment, transaction) = (call.payment, call.transaction);
    let (is_controlled, tries) = (call.is_controlled, call.tries.take());
    let gateway = engine.shared().gateways.get(&call.gateway).cloned();
    let name = call.gateway.clone();
    let started = Instant::now();
    let answer = match gateway {
        Some(gateway) => call_within(&*gateway, call, deadline).await,
        None => GatewayAnswer::not_sendable("there is no such gateway".to_owned()),
    };
    metrics::histogram!("faregate_gateway_seconds", "gateway" => name.clone())
        .record(started.elapsed().as_secs_f64());
    metrics::counter!("faregate_gateway_calls_total", "gateway" => name, "answer" => label(&answer))
        .increment(1);
    let end = CallEnd::of(&answer, started.elapsed());
    (GatewayReplied { payment, transaction, answer, is_controlled, tries }, end)
}

/// Calls a gateway, within the time that the call had when its commit began. A process that stood
/// still meanwhile does not send what another owner of its partition may have given up by now.
async fn call_within(
    gateway: &dyn Gateway,
    call: GatewayCall,
    deadline: Deadline,
) -> GatewayAnswer {
    let left = deadline.left();
    if left.is_zero() {
        return GatewayAnswer::not_sendable("its time was over before it was sent".to_owned());
    }
    let guarded = AssertUnwindSafe(async move { gateway.call(call, deadline).await });
    tokio::select! {
        // First, so that nothing more is sent once the time is over.
        biased;
        () = tokio::time::sleep(left) => GatewayAnswer::TimedOut,
        answered = guarded.catch_unwind() => answered.unwrap_or_else(|_| GatewayAnswer::Failed {
            message: "the gateway's code failed".to_owned(),
        }),
    }
}

/// Offers an outcome to the partition until it is written: money may have moved. What is lost with
/// the process is asked about after the next start.
async fn commit_outcome(engine: &Engine, lane: Lane, request: Request) {
    let mut backoff = Backoff::new(RETRY_AFTER, RETRY_AFTER_MAX);
    loop {
        match engine.submit_in(lane, request.clone()).await.map_err(|it| it.reason) {
            Err(reason) if is_worth_another_try(reason) => {
                tokio::time::sleep(backoff.pause()).await;
            }
            Ok(_) | Err(_) => return,
        }
    }
}

/// Whether an outcome may be written later, by this process: who takes the partition over asks.
fn is_worth_another_try(reason: Reason) -> bool {
    // One that came a second time has put the next try in flight before.
    let is_over = matches!(reason, Reason::Stopping | Reason::NotOwner | Reason::Repeated);
    !is_over && !reason.is_parked()
}

const fn label(answer: &GatewayAnswer) -> &'static str {
    match answer {
        GatewayAnswer::Outcome(_) => "outcome",
        GatewayAnswer::Failed { .. } => "failed",
        GatewayAnswer::Nothing => "nothing",
        GatewayAnswer::TimedOut => "timed_out",
        GatewayAnswer::NotSent { .. } => "not_sent",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use domain::payment::{GatewayKnowledge, TransactionType};
    use domain::{
        AccountId, Currency, GatewaySettings, PaymentId, PaymentMethodId, Properties, TenantNo,
        TransactionId,
    };
    use uuid::Uuid;

    use super::*;
    use crate::Clock;
    use crate::ports::{BoxFuture, Inquiry};

    /// Counts what reaches it, and never answers.
    #[derive(Default)]
    struct Silent(AtomicUsize);

    impl Gateway for Silent {
        fn settings(&self) -> GatewaySettings {
            GatewaySettings {
                settles_at_once: false,
                needs_merchant_account: false,
                attaches_methods: false,
                action_timeout_us: None,
                timeout_us: 1,
                settle_after_us: 0,
            }
        }
        fn call(&self, _: GatewayCall, _: Deadline) -> BoxFuture<'_, GatewayAnswer> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::pending())
        }
        fn inquire(&self, _: Inquiry) -> BoxFuture<'_, GatewayKnowledge> {
            Box::pin(std::future::pending())
        }
    }

    fn call(timeout_us: i64) -> GatewayCall {
        GatewayCall {
            tenant: TenantNo(1),
            account: AccountId::new(Uuid::nil()),
            payment: PaymentId::new(Uuid::nil()),
            transaction: TransactionId::new(Uuid::nil()),
            payment_method: PaymentMethodId::new(Uuid::nil()),
            gateway: "silent".to_owned(),
            merchant_account: None,
            operation: TransactionType::Purchase,
            amount: None,
            currency: Currency::parse("USD").unwrap(),
            external_payment_method_id: None,
            payment_method_properties: Properties::default(),
            properties: Properties::default(),
            references: vec![],
            is_controlled: false,
            seq: domain::Seq(1),
            tries: None,
            timeout_us,
        }
    }

    #[tokio::test]
    async fn an_expired_call_is_not_sent() {
        let (gateway, clock) = (Silent::default(), Clock::new(false));
        let began = clock.real_now().plus_us(-31_000_000);
        let deadline = |limit_us| Deadline::after(&clock, began, Duration::from_micros(limit_us));
        let answer = call_within(&gateway, call(30_000_000), deadline(30_000_000)).await;
        assert!(matches!(answer, GatewayAnswer::NotSent { .. }), "{answer:?}");
        assert_eq!(gateway.0.load(Ordering::Relaxed), 0, "nothing reached the gateway");
        // What has some time left is sent, and waited for until that is over.
        let answer = call_within(&gateway, call(31_100_000), deadline(31_100_000)).await;
        assert!(matches!(answer, GatewayAnswer::TimedOut), "{answer:?}");
        assert_eq!(gateway.0.load(Ordering::Relaxed), 1);
    }
}
