//! The core's own works are committed before commands that wait.

use std::future::Future as _;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use domain::{Seq, TenantNo};
use engine::partition::BATCH_COMMANDS_MAX;
use engine::ports::{Bookkeeping, Store as _};
use futures_util::future::join_all;
use store::Options;

use crate::commits::two_tenants;
use crate::home::Home;
use crate::refused;
use crate::watched::{Gate, Watched};
use crate::workload::{create_account, person};

const BATCHES: usize = 3;

#[test]
fn it_is_written_with_the_next_batch() {
    let home = Home::new();
    let mut workload = two_tenants(home.open(&Options::DEFAULT), 7);
    let count = BATCHES * BATCH_COMMANDS_MAX;
    let requests: Vec<_> = (0..count)
        .map(|n| {
            workload.request(TenantNo(1), create_account(None, person(&format!("Account {n}"))))
        })
        .collect();
    drop(workload);
    let store = home.open(&Options::DEFAULT);
    let queries = store.queries(1).unwrap();
    let gate = Gate::default();
    // For each commit, whether it has bookkeeping.
    let commits = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&commits);
    let store = Watched::new(store, Arc::clone(&gate), move |store, batch| {
        seen.lock().unwrap().push(!batch.bookkeeping.is_empty());
        store.commit(batch)
    });
    let (runtime, engine, running) = refused::start(store, queries);

    let gate = gate.lock().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = requests.into_iter().map(|it| Box::pin(engine.submit(it))).collect();
    assert!(waiting.iter_mut().all(|it| it.as_mut().poll(&mut context).is_pending()));
    let followed = Bookkeeping::Followed { follower: "anybody", upto: Seq(1) };
    let mut recording = Box::pin(engine.record(vec![followed]));
    assert!(recording.as_mut().poll(&mut context).is_pending());
    drop(gate);
    runtime.block_on(recording).unwrap();
    for reply in runtime.block_on(join_all(waiting)) {
        reply.expect("every request is answered");
    }
    let commits = commits.lock().unwrap().clone();
    assert!(commits.len() >= BATCHES, "{commits:?}");
    let at = commits.iter().position(|has_bookkeeping| *has_bookkeeping);
    assert!(
        at.is_some_and(|at| at < 2),
        "with the batch after the one that had begun: {commits:?}"
    );
    drop(engine);
    runtime.block_on(running.stop(std::time::Duration::from_secs(5)));
}
