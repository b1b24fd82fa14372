//! Waits for what another task provides.

use std::time::Duration;

use tokio::sync::Notify;

/// The result of `find` now, or after a notification of `changed`; `None` where that is nothing within `timeout`.
pub(crate) async fn found_within<T>(
    timeout: Duration,
    changed: &Notify,
    find: impl Fn() -> Option<T>,
) -> Option<T> {
    if let Some(found) = find() {
        return Some(found);
    }
    let waiting = async {
        loop {
            // Before the look: a change that comes after it notifies.
            let changed = changed.notified();
            if let Some(found) = find() {
                return found;
            }
            changed.await;
        }
    };
    tokio::time::timeout(timeout, waiting).await.ok()
}
