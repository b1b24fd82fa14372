//! Submits the simulator's notifications to the engine.

use std::time::Duration;

use engine::{Engine, NotificationError};
use tokio::sync::mpsc;

use super::core::Notification;

/// How long to wait before a notification is written again that could not be.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Submits the simulator's notifications until `stop` is ready, each until it is written: a reversed success is
/// reported only here.
pub async fn take_notifications(
    engine: Engine,
    mut notifications: mpsc::Receiver<Notification>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = std::pin::pin!(stop);
    loop {
        let notification = tokio::select! {
            notification = notifications.recv() => notification,
            () = &mut stop => None,
        };
        let Some(notification) = notification else { return };
        tokio::select! {
            () = book(&engine, notification) => {}
            () = &mut stop => return,
        }
    }
}

async fn book(engine: &Engine, notification: Notification) {
    let Notification { tenant, payment, transaction, knowledge } = notification;
    while let Err(error) = engine.notified(tenant, (payment, transaction), knowledge.clone()).await
    {
        tracing::warn!(
            error = %error,
            tenant = tenant.0,
            payment.id = %payment,
            transaction.id = %transaction,
            "a gateway's notification was not written yet"
        );
        if matches!(&error, NotificationError::Unavailable(it) if it.reason.is_parked()) {
            return;
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}
