//! A round: all requests of all clients at the same instant.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use h2::client::ResponseFuture;
use tokio::task::JoinSet;

use super::answers::Answers;
use super::channel::{Failure, answer};
use super::client::{Client, Lane};
use super::plan::{Accounts, Plan, RequestKind};
use crate::random::Random;

/// Between the last connection and the start: time for every thread to be there.
const START_DELAY: Duration = Duration::from_millis(20);
/// Requests begun on a connection before responses and other connections are polled.
const BURST: usize = 64;

/// The settings that all clients of a round share.
struct Round {
    plan: Arc<Plan>,
    accounts: Arc<Accounts>,
    /// All requests are due at this instant; response times count from it.
    start: Instant,
}

/// Lets each client send `requests` at once from a thread of its own.
pub fn run(
    plan: &Arc<Plan>,
    accounts: &Arc<Accounts>,
    clients: Vec<Client>,
    requests: u32,
) -> Answers {
    let start = Instant::now() + START_DELAY;
    let round = Round { plan: Arc::clone(plan), accounts: Arc::clone(accounts), start };
    let round = &Arc::new(round);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0_u32..)
            .zip(clients)
            .map(|(number, client)| scope.spawn(move || send(client, number, round, requests)))
            .collect();
        let mut sum = Answers::default();
        for thread in threads {
            sum.add(thread.join().expect("a client does not panic"));
        }
        sum
    })
}

/// Sends one client's requests, in turn over the targets. The `number`-th client begins with the
/// `number`-th target, so that the first requests of all do not go to one.
fn send(client: Client, number: u32, round: &Arc<Round>, requests: u32) -> Answers {
    let Client { runtime, mut lanes } = client;
    let count = u32::try_from(lanes.len()).expect("the number of targets is bounded");
    lanes.rotate_left(usize::try_from(number % count).expect("32 bits fit"));
    runtime.block_on(async {
        tokio::time::sleep_until(round.start.into()).await;
        let mut running = JoinSet::new();
        for (index, lane) in (0..count).zip(lanes) {
            let left = requests / count + u32::from(index < requests % count);
            let random = Random::new(u64::from(number) << 32 | u64::from(index));
            let sender = Sender { lane, round: Arc::clone(round), left, sent: 0, random };
            running.spawn(sender.run());
        }
        let mut sum = Answers::default();
        while let Some(answers) = running.join_next().await {
            sum.add(answers.expect("a connection's task does not panic"));
        }
        sum
    })
}

/// Sends the requests of one connection.
struct Sender {
    lane: Lane,
    round: Arc<Round>,
    /// Requests that have not begun.
    left: u32,
    sent: u32,
    random: Random,
}

impl Sender {
    async fn run(mut self) -> Answers {
        let start = self.round.start;
        let deadline = start + self.round.plan.timeout;
        let mut answers = Answers::default();
        let mut calls = FuturesUnordered::new();
        let all = poll_fn(|context| {
            for begun in 1.. {
                match self.poll_begin(context, calls.len()) {
                    Poll::Ready(Some((kind, Ok(response)))) => calls.push(answered(kind, response)),
                    Poll::Ready(Some((kind, Err(failure)))) => {
                        answers.ended(start.elapsed(), kind.check(Err(failure)));
                    }
                    Poll::Ready(None) | Poll::Pending => break,
                }
                if begun == BURST {
                    context.waker().wake_by_ref();
                    break;
                }
            }
            let before = calls.len();
            while let Poll::Ready(Some((kind, answer))) = calls.poll_next_unpin(context) {
                answers.ended(start.elapsed(), kind.check(answer));
            }
            if calls.len() < before && self.left > 0 {
                context.waker().wake_by_ref();
            }
            if self.left == 0 && calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        });
        let cut_off = tokio::time::timeout_at(deadline.into(), all).await.is_err();
        if cut_off {
            let unsent = u64::from(self.left);
            let unanswered = u64::try_from(calls.len()).expect("a length fits");
            answers.errors.count("timeout", unanswered);
            answers.errors.count("not sent in time: the server takes no more at once", unsent);
        }
        answers
    }

    /// Begins a request unless `in_progress` has reached the server's limit; `None`: all have begun.
    fn poll_begin(
        &mut self,
        context: &mut Context<'_>,
        in_progress: usize,
    ) -> Poll<Option<(RequestKind, Result<ResponseFuture, Failure>)>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let Self { lane: Lane { channel, heads }, round, .. } = self;
        // A response lowers the number of calls and wakes this task.
        if in_progress >= channel.calls_max() {
            return Poll::Pending;
        }
        let ready = ready!(channel.poll_ready(context));
        let kind = round.plan.kind(self.sent);
        self.left -= 1;
        self.sent += 1;
        let body = round.accounts.request(kind, self.random.next());
        Poll::Ready(Some((kind, ready.and_then(|()| channel.begin(heads.of(kind), body)))))
    }
}

async fn answered(
    kind: RequestKind,
    response: ResponseFuture,
) -> (RequestKind, Result<Bytes, Failure>) {
    (kind, answer(response).await)
}
