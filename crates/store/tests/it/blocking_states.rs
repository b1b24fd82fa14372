//! Blocking states: committed and read back, with their history.

use domain::account::blocking_state::{
    ACCOUNT_SERVICE, AddBlockingState, Blockable, BlockingState, Blocks, CloseAccount,
};
use domain::change::{AccountChange, Change};
use domain::command::AccountCommand;
use domain::reply::AccountReply;
use domain::{AccountId, Command, Person, Reply, TenantNo, Timestamp};
use engine::ports::{HistoryOf, HistoryRow, Store};
use store::tables;
use store::verify::verify_source;

use crate::workload::{Workload, World, create_account};

const TENANT: TenantNo = TenantNo(1);

fn add<S: Store>(
    workload: &mut Workload<S>,
    account: AccountId,
    (service, name): (&str, &str),
    effective_at: Option<Timestamp>,
) {
    let it = AddBlockingState {
        account,
        of: Blockable::Account,
        service: service.to_owned(),
        name: name.to_owned(),
        blocks: Blocks { billing: true, ..Blocks::default() },
        effective_at,
    };
    let command = AccountCommand::AddBlockingState(it);
    workload.accepted_later(TENANT, Command::Account(command));
}

fn account<S: Store>(workload: &mut Workload<S>) -> AccountId {
    let reply = workload.accepted(TENANT, create_account(None, Person::default()));
    let Reply::Account(AccountReply::Created(account)) = reply else { panic!("{reply:?}") };
    account
}

fn close<S: Store>(workload: &mut Workload<S>, account: AccountId) {
    let it =
        CloseAccount { account, remove_future_notifications: true, cancel_subscriptions: false };
    workload.accepted_later(TENANT, Command::Account(AccountCommand::Close(it)));
}

/// An account that was closed, opened and closed again, and one that is open. Of the first the state `OD1` was
/// recorded, and then for an earlier time.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> [AccountId; 2] {
    let [closed, open] = [(); 2].map(|()| account(workload));
    add(workload, closed, ("overdue-service", "OD1"), None);
    let earlier = workload.now.plus_us(-9);
    add(workload, closed, ("overdue-service", "OD1"), Some(earlier));
    for _ in 0..2 {
        close(workload, closed);
        add(workload, closed, (ACCOUNT_SERVICE, "OPEN"), None);
    }
    close(workload, closed);
    close(workload, open);
    add(workload, open, (ACCOUNT_SERVICE, "OPEN"), None);
    [closed, open]
}

fn shown(states: &[BlockingState]) -> Vec<String> {
    states.iter().map(|it| format!("{} {}", it.ordinal, it.name)).collect()
}

#[test]
fn states_are_read_in_their_order_with_their_history() {
    let mut world = World::new(52);
    let [closed, open] = fill(&mut world.workload);
    let queries = &world.queries;
    let states = queries.blocking_states(TENANT, closed).unwrap();
    let names =
        ["2 OD1", "3 CLOSE_ACCOUNT", "4 OPEN", "5 CLOSE_ACCOUNT", "6 OPEN", "7 CLOSE_ACCOUNT"];
    assert_eq!(shown(&states), names);
    assert_eq!(
        shown(&queries.blocking_states(TENANT, open).unwrap()),
        ["1 CLOSE_ACCOUNT", "2 OPEN"]
    );
    assert_eq!(shown(&queries.blocking_states(TenantNo(2), closed).unwrap()), [""; 0]);
    let all = queries.account_histories(TENANT, closed, 100).unwrap();
    assert_eq!(all.len(), 9, "the account, seven states, of which one ended");
    let state = |row: &HistoryRow| {
        let Change::Account(AccountChange::BlockingState(it)) = &row.image else { return None };
        Some((it.id, it.active))
    };
    let (ended, _) = all.iter().filter_map(state).find(|(_, active)| !active).unwrap();
    let of = HistoryOf::new::<BlockingState>(ended.uuid());
    assert_eq!(queries.history(TENANT, of).unwrap().len(), 2);
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// The index is over a text that the domain defines.
#[test]
fn the_index_of_closings_is_over_the_account_service() {
    let only = tables::BLOCKING_STATE.indexes.iter().find_map(|it| it.only);
    assert_eq!(only, Some(format!("service = '{ACCOUNT_SERVICE}'").as_str()));
}
