//! Sends an event again: the owner of its partition queues its deliveries, as if they had failed before.

use super::Transport;
use crate::ports::{Bookkeeping, Delivery, DeliveryId};
use crate::queue::{Message, Reply, Resend, Route};
use crate::{Engine, Reason, Unavailable};

impl Engine {
    /// Queues deliveries of an event of the tenant, with the schedule of a new one.
    ///
    /// # Errors
    /// [`Unavailable`]: a retry queues them once, also where they are queued already.
    pub async fn resend(&self, resend: Resend) -> Result<(), Unavailable> {
        let Transport::Queue(queue) = &self.shared().transport else {
            return self.queue_deliveries(resend).await;
        };
        let route = Route::Partition(resend.seq.partition());
        match queue.ask(route, Message::Resend(resend)).await? {
            Reply::Resent => Ok(()),
            Reply::Answer(_) | Reply::Balance(_) | Reply::Inquired(_) => Err(Reason::Bug.into()),
        }
    }

    /// Queues the deliveries. The message of a front is checked: the row has to be one of the tenant in this
    /// partition.
    async fn queue_deliveries(&self, resend: Resend) -> Result<(), Unavailable> {
        let Resend { tenant, seq, ordinal, endpoints } = resend;
        let row = self.read(move |queries| queries.journal_row(seq)).await?;
        let is_own = seq.partition() == self.head().borrow().partition();
        if !is_own || row.is_none_or(|row| row.tenant != tenant) {
            return Err(Reason::Bug.into());
        }
        let due_at = self.clock().now();
        let delivery = |endpoint| {
            let id = DeliveryId { seq, ordinal, endpoint };
            let delivery = Delivery { id, tenant, attempts: 0, due_at, error: String::new() };
            Bookkeeping::DeliveryPostponed(delivery)
        };
        self.record(endpoints.into_iter().map(delivery).collect()).await
    }
}
