//! Gauges of what waits to be done: mails and operations of customers, accounts out of service, billing.

use std::future::Future;
use std::time::Duration;

use domain::Timestamp;
use engine::Engine;
use engine::periodic::{Pass, Periodic};
use engine::ports::Backlog;

/// How often the gauges are set.
const GAUGE_EVERY: Duration = Duration::from_secs(2);

/// Sets the gauges until `stop` is ready, then sets them to zero: the next owner of the first partition
/// sets its own.
pub async fn run(engine: Engine, stop: impl Future<Output = ()>) {
    let job = || async {
        // Where the store does not answer, the last values stay; its failures are counted elsewhere.
        let now = engine.clock().now();
        match engine.read(move |queries| queries.backlog(now)).await {
            Ok(backlog) => {
                gauge(&backlog, now);
                Pass::Idle
            }
            Err(_) => Pass::Failed,
        }
    };
    Periodic::every(GAUGE_EVERY).run(stop, job).await;
    gauge(&Backlog::default(), Timestamp(0));
}

fn gauge(backlog: &Backlog, now: Timestamp) {
    let age = |since: Option<Timestamp>| {
        since.map_or(0, |at| now.0.saturating_sub(at.0).max(0)) / Timestamp::SECOND_US
    };
    #[expect(clippy::cast_precision_loss, reason = "a metric")]
    let set = |name: &'static str, value: i64| metrics::gauge!(name).set(value as f64);
    set("faregate_mail_queue_depth", backlog.mails);
    set("faregate_mail_oldest_seconds", age(backlog.mail_due_at));
    set("faregate_operations_waiting", backlog.operations);
    set("faregate_operations_oldest_seconds", age(backlog.oldest_operation_at));
    set("faregate_quarantined_accounts", backlog.quarantined);
    set("faregate_billing_lag_seconds", age(backlog.billing_due_at));
    set("faregate_billing_parked", backlog.parked);
}
