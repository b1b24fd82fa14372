//! Performs what was committed of payment methods: has gateways attach them, detach them and look for them.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use domain::Timestamp;
use domain::account::payment_method::{MethodAnswer, MethodAnswered, MethodRequest, MethodTask};
use domain::payment::NotSentCause;
use futures_util::FutureExt;

use crate::breaker::CallEnd;
use crate::ports::Gateway;
use crate::{Deadline, Engine};

/// Asks a gateway within the request's deadline, which counts from `began`.
pub(super) async fn ask(
    engine: &Engine,
    request: MethodRequest,
    began: Timestamp,
) -> (MethodAnswered, CallEnd) {
    let timeout = Duration::from_micros(u64::try_from(request.timeout_us).unwrap_or(0));
    let deadline = Deadline::after(engine.clock(), began, timeout);
    let (account, payment_method, task) = (request.account, request.payment_method, request.task);
    let (tenant, name) = (request.tenant, request.gateway.clone());
    let (started, asked_at) = (Instant::now(), engine.clock().real_now());
    let answer = match engine.shared().gateways.get(&name).cloned() {
        Some(gateway) => ask_within(&*gateway, request, deadline).await,
        None => not_sent("there is no such gateway"),
    };
    let labels = [
        ("gateway", name),
        ("task", task.name().to_owned()),
        ("answer", label(&answer).to_owned()),
    ];
    metrics::counter!("faregate_gateway_methods_total", &labels).increment(1);
    if let (MethodTask::Detach, MethodAnswer::Refused { code, .. }) = (task, &answer) {
        tracing::warn!(
            tenant = tenant.0,
            payment_method.id = %payment_method,
            code,
            "the gateway refused to detach a payment method; it is deleted here all the same"
        );
    }
    let end = CallEnd::of_method(&answer, started.elapsed());
    (MethodAnswered { account, payment_method, task, answer, asked_at }, end)
}

async fn ask_within(
    gateway: &dyn Gateway,
    request: MethodRequest,
    deadline: Deadline,
) -> MethodAnswer {
    let left = deadline.left();
    if left.is_zero() {
        return not_sent("its time was over before it was sent");
    }
    let guarded = AssertUnwindSafe(async move { gateway.method(request, deadline).await });
    tokio::select! {
        // First, so that nothing more is sent once the time is over.
        biased;
        () = tokio::time::sleep(left) => unknown("the gateway did not answer in time"),
        answered = guarded.catch_unwind() => {
            answered.unwrap_or_else(|_| unknown("the gateway's code failed"))
        }
    }
}

fn unknown(message: &str) -> MethodAnswer {
    MethodAnswer::Unknown { message: message.to_owned() }
}

fn not_sent(message: &str) -> MethodAnswer {
    MethodAnswer::NotSent { message: message.to_owned(), cause: NotSentCause::Call }
}

const fn label(answer: &MethodAnswer) -> &'static str {
    match answer {
        MethodAnswer::Attached(_) => "attached",
        MethodAnswer::Absent => "absent",
        MethodAnswer::Refused { .. } => "refused",
        MethodAnswer::NotSent { .. } => "not_sent",
        MethodAnswer::Unknown { .. } => "unknown",
    }
}
