//! A command whose record is copied and comes again later does not undo what followed it.

use domain::access::{CreateUser, PutRole, UpdateUser};
use domain::command::{AccessCommand, TenantCommand};
use domain::reply::AccountReply;
use domain::tenant::SetTenantValue;
use domain::{Command, Reply, Request, TenantNo};
use engine::Reason;
use engine::partition::{Answer, Times, Verdict, Work};
use store::{Options, SqlStore};

use crate::commits::two_tenants;
use crate::home::Home;
use crate::workload::{Workload, create_account, person, rename};

const TENANT: TenantNo = TenantNo(1);

fn user(password_hash: &str, active: Option<bool>) -> Command {
    Command::Access(AccessCommand::UpdateUser(UpdateUser {
        username: "ada".to_owned(),
        password_hash: Some(password_hash.to_owned()),
        roles: None,
        active,
    }))
}

fn role(permissions: &[&str], create: bool) -> Command {
    let permissions = permissions.iter().map(|it| (*it).to_owned()).collect();
    Command::Access(AccessCommand::PutRole(PutRole {
        name: "clerk".to_owned(),
        permissions,
        create,
    }))
}

fn value(value: &str) -> Command {
    let (key, value) = ("PUSH_NOTIFICATION_CB".to_owned(), Some(value.to_owned()));
    Command::Tenant(TenantCommand::SetValue(SetTenantValue::new(key, value)))
}

/// Carries a request out; false where it had been carried out before.
fn deliver(workload: &mut Workload<SqlStore>, request: &Request) -> bool {
    let times = Times { now: workload.now, real_now: workload.now };
    let work = [Work::Request(Box::new(request.clone()))];
    let processed = workload.partition.process(&work, times, &mut |_, _| Ok(()));
    assert!(processed.is_committed());
    match &processed.verdicts[0] {
        Verdict::Answered(Answer::Replied(_)) => true,
        Verdict::Unavailable(Reason::Repeated) => false,
        other @ (Verdict::Answered(_) | Verdict::Waits(_) | Verdict::Unavailable(_)) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn an_old_command_that_is_delivered_again_does_not_undo_later_ones() {
    let home = Home::new();
    let mut workload = two_tenants(home.open(&Options::DEFAULT), 7);
    let made = workload.accepted(TENANT, create_account(None, person("A")));
    let Reply::Account(AccountReply::Created(account)) = made else { panic!("it is made") };
    let created = Command::Access(AccessCommand::CreateUser(CreateUser {
        username: "ada".to_owned(),
        password_hash: "first".to_owned(),
        roles: vec!["clerk".to_owned()],
    }));
    let system = TenantNo::SYSTEM;
    let commands = [
        (system, role(&["payment", "account"], true)),
        (system, created),
        (system, role(&["payment"], false)),
        (system, user("second", None)),
        (system, user("third", Some(false))),
        (TENANT, value("http://localhost/old")),
        (TENANT, value("http://localhost/new")),
        (TENANT, rename(account, person("B"))),
        (TENANT, rename(account, person("C"))),
    ];
    let requests: Vec<Request> =
        commands.into_iter().map(|(tenant, command)| workload.request(tenant, command)).collect();
    for request in &requests {
        assert!(deliver(&mut workload, request), "{:?}", request.command);
    }
    let head = workload.head();
    for request in &requests {
        assert!(!deliver(&mut workload, request), "{:?}", request.command);
    }
    assert_eq!(workload.head(), head, "nothing was written");
}
