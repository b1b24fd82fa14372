//! Single requests at a fixed rate: response times without queueing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::answers::Answers;
use super::client::Client;
use super::plan::{Accounts, Plan, Problem, RequestKind};
use crate::random::Random;
use crate::schedule::{Backlog, Schedule, Times, pace};

/// Requests that may be in progress; those beyond wait in the backlog.
const IN_PROGRESS_MAX: usize = 65_536;
/// Requests that may wait; those beyond are errors.
const BACKLOG_MAX: usize = 10_000;

/// Sends requests on schedule for `duration`, in turn over the client's targets, whether or not
/// earlier ones have ended. Response times count from the instant when the request is due.
pub fn run(
    plan: &Plan,
    accounts: &Accounts,
    client: Client,
    schedule: Schedule,
    duration: Duration,
) -> Answers {
    let backlog = Backlog::new(BACKLOG_MAX);
    let start = Instant::now();
    let times = Times { start, measured_from: start, end: start + duration };
    let mut answers = std::thread::scope(|scope| {
        scope.spawn(|| pace(schedule, &backlog, times));
        send(plan, accounts, client, &backlog)
    });
    answers.errors.count("dropped from a full backlog", backlog.dropped());
    answers
}

type Ended = (Duration, Result<(), Problem>);

fn send(plan: &Plan, accounts: &Accounts, client: Client, backlog: &Backlog) -> Answers {
    let Client { runtime, lanes } = client;
    let lanes: Vec<_> = lanes.into_iter().map(Arc::new).collect();
    let count = u32::try_from(lanes.len()).expect("the number of targets is bounded");
    let mut random = Random::new(0);
    let mut answers = Answers::default();
    let timeout = plan.timeout;
    runtime.block_on(async {
        let mut calls: JoinSet<Ended> = JoinSet::new();
        let mut add = |(took, outcome): Ended| answers.ended(took, outcome);
        for (number, lane) in (0_u32..).zip(lanes.iter().cycle()) {
            let Some(due) = backlog.next().await else { break };
            let kind: RequestKind = plan.kind(number / count);
            let body = accounts.request(kind, random.next());
            let lane = Arc::clone(lane);
            calls.spawn(async move {
                let mut channel = lane.channel.clone();
                let answer = channel.exchange(lane.heads.of(kind), body, timeout).await;
                (due.elapsed(), kind.check(answer))
            });
            while let Some(ended) = calls.try_join_next() {
                add(ended.expect("a call does not panic"));
            }
            if calls.len() >= IN_PROGRESS_MAX
                && let Some(ended) = calls.join_next().await
            {
                add(ended.expect("a call does not panic"));
            }
        }
        while let Some(ended) = calls.join_next().await {
            add(ended.expect("a call does not panic"));
        }
    });
    answers
}
