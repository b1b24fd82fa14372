//! The steps that the gateways of payment methods have still to do are committed, loaded, counted and verified.

use domain::account::payment_method::{
    CreatePaymentMethod, DeletePaymentMethod, MethodAnswer, MethodAnswered, MethodStep, MethodTask,
    RefusalCause,
};
use domain::command::AccountCommand;
use domain::payment::{MethodAtGateway, ReplyKey};
use domain::reply::AccountReply;
use domain::{
    AccountId, Command, Idempotency, PaymentMethodId, Person, Reply, TenantNo, Timestamp,
};
use engine::partition::Verdict;
use engine::ports::{Page, Store};
use store::verify::verify_source;
use uuid::Uuid;

use crate::workload::{ATTACHING, Workload, World, create_account};

const TENANT: TenantNo = TenantNo(1);

fn account<S: Store>(workload: &mut Workload<S>) -> AccountId {
    let reply = workload.accepted(TENANT, create_account(None, Person::default()));
    let Reply::Account(AccountReply::Created(account)) = reply else { panic!("{reply:?}") };
    account
}

/// Adds a method that is to be attached.
fn add<S: Store>(workload: &mut Workload<S>, of: AccountId, key: Option<&str>) -> PaymentMethodId {
    let it = CreatePaymentMethod {
        external_key: key.map(str::to_owned),
        external_payment_method_id: Some("token".to_owned()),
        ..CreatePaymentMethod::default_of(of, ATTACHING.to_owned())
    };
    let mut request =
        workload.request(TENANT, Command::Account(AccountCommand::CreatePaymentMethod(it)));
    request.idempotency =
        Some(Idempotency { key: ReplyKey(request.id.0), fingerprint: Uuid::nil() });
    let verdict = workload.batch(vec![request]).pop().unwrap();
    assert!(matches!(verdict, Verdict::Waits(_)), "{verdict:?}");
    workload.requests.pop().unwrap().payment_method
}

fn answer<S: Store>(
    workload: &mut Workload<S>,
    (account, payment_method): (AccountId, PaymentMethodId),
    (task, answer): (MethodTask, MethodAnswer),
) -> Reply {
    let asked_at = Timestamp(i64::MAX / 2);
    let it = MethodAnswered { account, payment_method, task, answer, asked_at };
    workload.accepted(TENANT, Command::Account(AccountCommand::MethodAnswered(Box::new(it))))
}

fn attached() -> MethodAnswer {
    let external_id = "pm_1".to_owned();
    MethodAnswer::Attached(MethodAtGateway { external_id, properties: vec![] })
}

fn refused() -> MethodAnswer {
    MethodAnswer::Refused { code: Some("declined".to_owned()), message: "no".to_owned() }
}

/// An account with a method in each step: attached, attaching, refused, refused and detaching, deleted.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> (AccountId, [PaymentMethodId; 5]) {
    let account = account(workload);
    let methods = [(); 5].map(|()| add(workload, account, None));
    let [active, _, first, second, deleted] = methods;
    answer(workload, (account, active), (MethodTask::Attach, attached()));
    answer(workload, (account, first), (MethodTask::Attach, refused()));
    answer(workload, (account, second), (MethodTask::Attach, refused()));
    answer(workload, (account, second), (MethodTask::Attach, attached()));
    answer(workload, (account, deleted), (MethodTask::Attach, attached()));
    let it =
        DeletePaymentMethod { payment_method: deleted, even_if_default: true, auto_pay_off: None };
    workload.accepted(TENANT, Command::Account(AccountCommand::DeletePaymentMethod(it)));
    (account, methods)
}

#[test]
fn steps_are_read_as_they_were_written() {
    let mut world = World::new(131);
    let (account, methods) = fill(&mut world.workload);
    let step = |id| world.queries.payment_method(TENANT, id).unwrap().unwrap().method.step;
    let [active, attaching, refused, detaching, deleted] = methods.map(step);
    assert_eq!((active, refused), (None, Some(MethodStep::Refused)));
    let Some(MethodStep::Attach { is_default: true, asked: 0, reply: Some(_), .. }) = attaching
    else {
        panic!("{attaching:?}")
    };
    let detach = |was_refused| MethodStep::Detach { deadline: None, asked: 0, was_refused };
    assert_eq!((detaching, deleted), (Some(detach(true)), Some(detach(false))));
    let page = Page { offset: 0, limit: 10 };
    let counted = || {
        let found =
            world.queries.payment_methods(TENANT, page.of_gateway(Some(ATTACHING))).unwrap();
        (found.items.len(), found.matching)
    };
    assert_eq!(counted(), (1, 1), "only what is attached counts");
    let late = answer(&mut world.workload, (account, methods[1]), (MethodTask::Find, attached()));
    assert_eq!(late, Reply::Account(AccountReply::PaymentMethodCreated(methods[1])));
    let found = world.queries.payment_methods(TENANT, page.of_gateway(Some(ATTACHING))).unwrap();
    assert_eq!((found.items.len(), found.matching), (2, 2));
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn active_methods_are_found_by_their_id_at_the_gateway() {
    let mut world = World::new(133);
    let (_, [active, _, _, _, deleted]) = fill(&mut world.workload);
    let has = |tenant, gateway, external_id, except| {
        world.queries.has_method_at_gateway(tenant, gateway, external_id, except).unwrap()
    };
    assert!(has(TENANT, ATTACHING, "pm_1", deleted));
    assert!(!has(TENANT, ATTACHING, "pm_1", active), "the other one is deleted");
    assert!(!has(TENANT, ATTACHING, "token", deleted), "those are not attached");
    assert!(!has(TENANT, "another", "pm_1", deleted));
    assert!(!has(TenantNo(2), ATTACHING, "pm_1", deleted));
}

#[test]
fn the_key_of_a_refused_method_is_taken_again() {
    let mut world = World::new(132);
    let account = account(&mut world.workload);
    let first = add(&mut world.workload, account, Some("k"));
    let reply = answer(&mut world.workload, (account, first), (MethodTask::Attach, refused()));
    let Reply::Account(AccountReply::PaymentMethodRefused(why)) = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(why.cause, RefusalCause::Gateway { code: Some("declined".to_owned()) });
    let second = add(&mut world.workload, account, Some("k"));
    answer(&mut world.workload, (account, second), (MethodTask::Attach, attached()));
    let found = world.queries.payment_method_by_key(TENANT, "k").unwrap().unwrap();
    assert_eq!(found.method.id, second);
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}
