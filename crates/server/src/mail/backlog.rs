//! Shows how much waits to be done for customers: mails, and operations.

use std::future::Future;
use std::time::Duration;

use domain::Timestamp;
use engine::Engine;
use engine::ports::Backlog;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Shows it until `stop` is ready, and then nothing: whoever owns the first partition next does.
pub async fn run(engine: Engine, stop: impl Future<Output = ()>) {
    tokio::select! {
        () = look(engine) => {}
        () = stop => {}
    }
    show(&Backlog::default(), Timestamp(0));
}

async fn look(engine: Engine) {
    loop {
        // Where the store does not answer, the last values stay; its failures are counted elsewhere.
        if let Ok(backlog) = engine.read(|queries| queries.backlog()).await {
            show(&backlog, engine.clock().now());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn show(backlog: &Backlog, now: Timestamp) {
    let age = |since: Option<Timestamp>| {
        since.map_or(0, |at| now.0.saturating_sub(at.0).max(0)) / Timestamp::SECOND_US
    };
    #[expect(clippy::cast_precision_loss, reason = "a metric")]
    let set = |name: &'static str, value: i64| metrics::gauge!(name).set(value as f64);
    set("faregate_mail_queue_depth", backlog.mails);
    set("faregate_mail_oldest_seconds", age(backlog.mail_due_at));
    set("faregate_operations_waiting", backlog.operations);
    set("faregate_operations_oldest_seconds", age(backlog.oldest_operation_at));
}
