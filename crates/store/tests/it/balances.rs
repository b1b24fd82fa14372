//! A read of a balance takes no longer than it has to.

use std::time::Duration;

use domain::reply::AccountReply;
use domain::{Reply, TenantNo};
use engine::queue::SimulatedWork;
use store::Options;

use crate::commits::two_tenants;
use crate::home::Home;
use crate::refused::start;
use crate::workload::{create_account, person};

const TENANT: TenantNo = TenantNo(1);

#[test]
fn no_work_is_simulated_where_nothing_is() {
    const WITHIN: Duration = Duration::from_secs(50);
    let home = Home::new();
    let mut workload = two_tenants(home.open(&Options::DEFAULT), 7);
    let made = workload.accepted(TENANT, create_account(None, person("A")));
    let Reply::Account(AccountReply::Created(account)) = made else { panic!("it is made") };
    drop(workload);
    let store = home.open(&Options::DEFAULT);
    let queries = store.queries(2).unwrap();
    let (runtime, engine, running) = start(store, queries);
    let day = Duration::from_secs(86_400);
    let work = Some(SimulatedWork { from: day, to: day });
    let read = engine.read_balance(TENANT, account, work);
    let read = runtime.block_on(async { tokio::time::timeout(WITHIN, read).await });
    assert_eq!(read.expect("it does not wait").unwrap(), Some(vec![]));
    runtime.block_on(running.stop(Duration::ZERO));
}
