//! Changes of feature flags that are kept for later: how they are read, and what damage is found.

use domain::command::FlagCommand;
use domain::flag::change_request::{
    ApplyChange, ChangeRequest, ChangeStatus, DecideChange, Decision, Judged, RequestChange,
};
use domain::reply::FlagReply;
use domain::{ChangeRequestId, Command, Id, Reply, TenantNo, Timestamp};
use engine::ports::{Page, Store};
use expect_test::expect;
use uuid::Uuid;

use crate::flags::{self, damaged, key};
use crate::workload::{Workload, World};

const TENANT: TenantNo = TenantNo(1);

/// Keeps a change of a flag for some seconds, or until it is approved.
fn keep<S: Store>(
    workload: &mut Workload<S>,
    (environment, name): (u128, &str),
    seconds: Option<i64>,
) -> ChangeRequestId {
    // Ids are in the order of the milliseconds.
    workload.now = workload.now.plus_us(1_000);
    let due_at = seconds.map(|it| workload.now.plus_us(it * Timestamp::SECOND_US));
    let command = RequestChange {
        key: key(environment, name),
        patch: format!("{{\"name\":\"{name} \u{1f680}\"}}"),
        expected: seconds.filter(|it| *it == 60),
        due_at,
        needs_approval: seconds.is_none(),
    };
    let reply = workload.accepted(TENANT, Command::Flag(FlagCommand::RequestChange(command)));
    let Reply::Flag(FlagReply::ChangeRequested(id)) = reply else { panic!("{reply:?}") };
    id
}

fn decide<S: Store>(workload: &mut Workload<S>, change: ChangeRequestId, decision: Decision) {
    let environment = key(1, "").environment;
    let command = DecideChange { environment, change, decision, seen: None };
    workload.accepted(TENANT, Command::Flag(FlagCommand::DecideChange(command)));
}

fn apply<S: Store>(
    workload: &mut Workload<S>,
    change: ChangeRequestId,
    (name, upon): (&str, Option<i64>),
    judged: Judged,
) {
    let command = ApplyChange { change, key: key(1, name), upon, version: None, judged };
    workload.accepted(TENANT, Command::Flag(FlagCommand::ApplyChange(command)));
}

/// Changes in each status, of the first environment but for the last. The flag `b` is there in this
/// version.
pub fn fill<S: Store>(workload: &mut Workload<S>, version: i64) {
    let began_at = workload.now;
    let applied = keep(workload, (1, "b"), Some(0));
    let id = Id::new(Uuid::from_u128(88));
    let fits = Judged::Fits { id, body: "{}".to_owned(), is_archived: false };
    apply(workload, applied, ("b", Some(version)), fits);
    let failed = keep(workload, (1, "none"), Some(0));
    let fails = Judged::Fails { explanation: "\u{1f680}".to_owned() };
    apply(workload, failed, ("none", None), fails);
    let rejected = keep(workload, (1, "b"), Some(60));
    decide(workload, rejected, Decision::Reject);
    let withdrawn = keep(workload, (1, "b"), None);
    decide(workload, withdrawn, Decision::Withdraw);
    for seconds in [Some(60), Some(30), None] {
        keep(workload, (1, "b"), seconds);
    }
    keep(workload, (2, "a"), Some(10));
    workload.now = began_at;
}

fn statuses(changes: &[ChangeRequest]) -> Vec<ChangeStatus> {
    changes.iter().map(|it| it.status).collect()
}

#[test]
fn stored_changes_are_read() {
    use ChangeStatus as S;
    let mut world = World::new(96);
    flags::fill(&mut world.workload);
    let queries = &*world.queries;
    let (here, all) = (key(1, "").environment, Page { offset: 0, limit: 10 });
    let of = |no, status, page| queries.change_requests((no, here), status, page).unwrap();
    let found = of(TENANT, None, all);
    let newest_first =
        [S::Pending, S::Scheduled, S::Scheduled, S::Withdrawn, S::Rejected, S::Failed, S::Applied];
    assert_eq!(statuses(&found), newest_first);
    assert_eq!(of(TENANT, Some(S::Scheduled), all), found[1..3]);
    assert_eq!(of(TENANT, None, Page { offset: 4, limit: 2 }), found[4..6]);
    assert_eq!(of(TenantNo(2), None, all), []);
    let applied = &found[6];
    assert_eq!(applied.patch, "{\"name\":\"b \u{1f680}\"}");
    assert!(applied.version.is_some() && applied.settled_at.is_some());
    let one = |no| queries.change_request(no, applied.id).unwrap();
    assert_eq!(one(TENANT).as_ref(), Some(applied));
    assert_eq!(one(TenantNo(2)), None);

    // Of all environments, by their time.
    let latest = Timestamp(i64::MAX);
    let due = |now, after, limit| queries.change_requests_due(now, after, limit).unwrap();
    let whole = due(latest, None, 10);
    let named: Vec<(&str, Option<i64>)> =
        whole.iter().map(|it| (it.key.key.as_str(), it.expected)).collect();
    assert_eq!(named, [("a", None), ("b", None), ("b", Some(60))]);
    let place = |at: usize| whole[at].due_at.map(|due_at| (due_at, whole[at].id));
    assert_eq!(due(latest, None, 2), whole[..2]);
    assert_eq!(due(latest, place(1), 10), whole[2..]);
    assert_eq!(due(latest, place(2), 10), []);
    let second = whole[1].due_at.unwrap();
    assert_eq!(due(second, None, 10), whole[..2]);
    assert_eq!(due(Timestamp(second.0 - 1), None, 10), whole[..1]);
}

#[test]
fn damage_is_found() {
    expect![[r#"
        change_request is not what was written
        change_request it is not what journal row N says"#]]
    .assert_eq(&damaged("UPDATE change_request SET author = 'eve' WHERE status = 1"));
    expect![[r#"
        change_request is not what was written
        change_request it is not what journal row N says
        environment does not count what belongs to it"#]]
    .assert_eq(&damaged("UPDATE change_request SET status = 3 WHERE status = 1"));
    expect![[r#"
        environment does not count what belongs to it
        journal change 018df974-d507-7168-bb6d-e7defd875016 is on no chain"#]]
    .assert_eq(&damaged("DELETE FROM change_request WHERE status = 1"));
    expect!["environment it is not what journal row N says"]
        .assert_eq(&damaged("UPDATE environment SET changes_need_approval = 1 WHERE key = 'prod'"));
}
