//! Tasks in progress: waits for their results, and sends the replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;

use engine::ports::{BoxFuture, LedgerTotal};
use engine::queue::{Reply, is_settled};
use engine::{Answer, Reason, Unavailable};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::lane::Lane;
use crate::dead_letter::DeadLetter;
use crate::envelope::{ReplyBody, ReplyTo};
use crate::outlet::Outlet;

/// A task in progress.
pub(super) struct Item {
    pub(super) lane: Arc<Lane>,
    pub(super) offset: i64,
    /// `None` where no reply is sent.
    pub(super) reply_to: Option<ReplyTo>,
    pub(super) task: Task,
}

/// The future that a task runs.
pub(super) enum Task {
    /// A command, and the dead-letter record that it becomes where it is parked, without its reason.
    Execute(BoxFuture<'static, Result<Answer, Unavailable>>, DeadLetter),
    /// An offset at which there is nothing to do, and the reply to its front.
    Skip(BoxFuture<'static, Result<(), Unavailable>>, ReplyBody),
    /// A balance query; `None` where there is no such account.
    Balance(BoxFuture<'static, Result<Option<Vec<LedgerTotal>>, Unavailable>>),
    /// A task that begins once its offset is passed: a crash does not repeat it, because its client does.
    Passed {
        skipping: BoxFuture<'static, Result<(), Unavailable>>,
        then: BoxFuture<'static, Result<Reply, Unavailable>>,
    },
}

/// The number of tasks in progress, and the polling thread to wake when it falls.
pub(super) struct InFlight {
    count: AtomicUsize,
    max: usize,
    gauge: metrics::Gauge,
    polling: Thread,
}

impl InFlight {
    /// `polling` is woken when something ends while it is full.
    pub(super) const fn new(max: usize, gauge: metrics::Gauge, polling: Thread) -> Self {
        Self { count: AtomicUsize::new(0), max, gauge, polling }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn is_full(&self) -> bool {
        self.count() >= self.max
    }

    pub(super) fn begin(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.gauge.increment(1.0);
    }

    fn end(&self) {
        self.gauge.decrement(1.0);
        if self.count.fetch_sub(1, Ordering::AcqRel) >= self.max {
            self.polling.unpark();
        }
    }
}

/// Waits for everything that was begun; ends when nothing more comes and all has ended.
pub(super) async fn drive(
    mut items: mpsc::UnboundedReceiver<Vec<Item>>,
    outlet: Arc<Outlet>,
    in_flight: Arc<InFlight>,
) {
    let mut running = FuturesUnordered::new();
    let mut more = true;
    while more || !running.is_empty() {
        tokio::select! {
            biased;
            begun = items.recv(), if more => match begun {
                Some(begun) => running.extend(begun.into_iter().map(|item| finish(item, &outlet))),
                None => more = false,
            },
            Some(()) = running.next(), if !running.is_empty() => in_flight.end(),
        }
    }
}

async fn finish(item: Item, outlet: &Arc<Outlet>) {
    let Item { lane, offset, reply_to, task } = item;
    let ended = match task {
        Task::Execute(executing, mut dead_letter) => match executing.await {
            Ok(answer) => Ok(ReplyBody::Reply(Reply::Answer(answer))),
            Err(unavailable) if is_settled(unavailable.reason) => {
                if unavailable.reason.is_parked() {
                    unavailable.reason.label().clone_into(&mut dead_letter.reason);
                    outlet.write_dead_letter(&dead_letter, || true).await;
                }
                Ok(unavailable.into())
            }
            Err(unavailable) => Err(unavailable),
        },
        Task::Skip(skipping, outcome) => skipping.await.map(|()| outcome),
        Task::Balance(asking) => Ok(match asking.await {
            Ok(totals) => ReplyBody::Reply(Reply::Balance(totals)),
            Err(unavailable) => unavailable.into(),
        }),
        Task::Passed { skipping, then } => match skipping.await {
            Ok(()) => Ok(match then.await {
                Ok(reply) => ReplyBody::Reply(reply),
                Err(unavailable) => unavailable.into(),
            }),
            Err(unavailable) => Err(unavailable),
        },
    };
    match ended {
        Ok(outcome) => {
            lane.dealt_with(offset);
            // The first of two deliveries gets the answer.
            let is_replied = !matches!(outcome, ReplyBody::Unavailable(Reason::Repeated, _));
            if let Some(to) = reply_to.filter(|_| is_replied) {
                outlet.reply(&to, outcome);
            }
        }
        Err(unavailable) => {
            tracing::warn!(
                partition = lane.partition,
                offset,
                reason = unavailable.reason.label(),
                "a command was not carried out: its partition is read again"
            );
            match reply_to {
                Some(to) => {
                    let known = lane.failed(offset, to);
                    known.into_iter().for_each(|to| reply_in_doubt(outlet, &to));
                }
                None => lane.set_broken(),
            }
        }
    }
}

/// Replies to a command that was carried out and whose answer was lost.
pub(super) fn reply_in_doubt(outlet: &Arc<Outlet>, to: &ReplyTo) {
    outlet.reply(to, ReplyBody::from(Unavailable::from(Reason::CommitInDoubt)));
}
