//! Payment control: rules, attempts and velocities are committed, loaded, read and erased.

use domain::account::EraseAccount;
use domain::account::payment_method::CreatePaymentMethod;
use domain::change::{Change, PaymentChange};
use domain::command::{AccountCommand, PaymentCommand, TenantCommand};
use domain::payment::attempt::{AttemptState, PaymentAttempt};
use domain::payment::{GatewayAnswer, GatewayOutcome, GatewayReplied, GatewayStatus, Initiate};
use domain::reply::AccountReply;
use domain::tenant::payment_rules::{AmountLimits, Limits, RulesPart};
use domain::tenant::{PLUGIN_CONFIGURATION, SetTenantValue};
use domain::{AccountId, AmountMinor, AttemptId, Command, Reply, TenantNo, Timestamp};
use engine::Reason;
use engine::partition::{Answer, Times, Verdict, Work};
use engine::ports::{HistoryOf, QueueWindow, ScheduledRetry, Store};
use store::verify::verify_source;

use crate::workload::{Workload, World, currency};

const TENANT: TenantNo = TenantNo(1);

fn set(limits: Option<Limits>) -> Command {
    let rules = limits.map(RulesPart::Limits);
    let value = rules.as_ref().map(|_| "sealed".to_owned());
    let key = format!("{PLUGIN_CONFIGURATION}faregate-rules");
    Command::Tenant(TenantCommand::SetValue(SetTenantValue { key, value, rules }))
}

/// Two payments a day, and at most 20 USD each.
fn limits(every_payment: bool) -> Limits {
    let amounts = AmountLimits { payment: Some(AmountMinor(2_000)), day: None };
    Limits {
        every_payment,
        amounts: [(currency("USD"), amounts)].into(),
        payments_per_day: Some(2),
        ..Limits::default()
    }
}

fn purchase(account: AccountId, amount: &str, is_named: bool) -> Command {
    Command::Payment(PaymentCommand::Purchase(Initiate {
        amount: Some(amount.to_owned()),
        currency: Some(currency("USD")),
        properties: vec![("note".to_owned(), "of ann".to_owned())],
        control: is_named.then(|| "faregate-rules".to_owned()).into_iter().collect(),
        ..Initiate::of(account)
    }))
}

/// The gateway answers the call that was made last.
fn answer<S: Store>(workload: &mut Workload<S>, status: GatewayStatus) {
    let call = workload.calls.pop().unwrap();
    let outcome = GatewayOutcome::new(status);
    let (payment, transaction) = (call.payment, call.transaction);
    let (answer, is_controlled) = (GatewayAnswer::Outcome(outcome), call.is_controlled);
    let replied = GatewayReplied { payment, transaction, answer, is_controlled, tries: None };
    workload.accepted(TENANT, Command::Payment(PaymentCommand::GatewayReplied(replied)));
}

/// Ids are in the order of their milliseconds.
fn later<S: Store>(workload: &mut Workload<S>) {
    workload.now = workload.now.plus_us(1_000);
}

/// An account with a payment that worked, one that was declined, one that runs, and one that was aborted.
pub fn fill<S: Store>(workload: &mut Workload<S>) -> AccountId {
    workload.accepted(TENANT, set(Some(limits(false))));
    let account = workload.paying_account(TENANT);
    for status in [GatewayStatus::Processed, GatewayStatus::Error] {
        later(workload);
        workload.one(TENANT, purchase(account, "12", true));
        answer(workload, status);
    }
    later(workload);
    workload.one(TENANT, purchase(account, "7.50", true));
    later(workload);
    let aborted = workload.accepted(TENANT, purchase(account, "5", true));
    assert!(matches!(aborted, Reply::PaymentAborted(_)), "{aborted:?}");
    account
}

#[test]
fn a_payment_without_a_method_goes_with_the_newest_of_the_gateway_that_rules_choose() {
    let mut world = World::new(99);
    let workload = &mut world.workload;
    let rules = Limits { method_gateways: vec!["beta".to_owned()], ..limits(true) };
    workload.accepted(TENANT, set(Some(rules)));
    let account = workload.paying_account(TENANT);
    let pay = |workload: &mut Workload<_>| {
        later(workload);
        workload.one(TENANT, purchase(account, "1", false));
        let call = workload.calls.pop().unwrap();
        let file = world.queries.payment(TENANT, call.payment).unwrap().unwrap();
        file.payment.payment_method_id
    };
    let default = pay(workload);
    let add = |workload: &mut Workload<_>| {
        later(workload);
        let beta = CreatePaymentMethod::default_of(account, "beta".to_owned());
        let new = CreatePaymentMethod { is_default: false, ..beta };
        let new = Command::Account(AccountCommand::CreatePaymentMethod(new));
        let reply = workload.accepted(TENANT, new);
        let Reply::Account(AccountReply::PaymentMethodCreated(id)) = reply else {
            panic!("{reply:?}")
        };
        id
    };
    let (first, second) = (add(workload), add(workload));
    assert_eq!(pay(workload), second);
    assert_ne!(first, default);
}

/// The attempts of an account, by what its histories have.
fn attempts(world: &World, account: AccountId) -> Vec<PaymentAttempt> {
    let rows = world.queries.account_histories(TENANT, account, 1_000).unwrap();
    let mut newest: Vec<PaymentAttempt> = vec![];
    for row in rows {
        if let Change::Payment(PaymentChange::Attempt(it)) = row.image {
            newest.retain(|known| known.id != it.id);
            newest.push(it);
        }
    }
    newest
}

fn shown(attempts: &[PaymentAttempt]) -> Vec<String> {
    attempts.iter().map(|it| format!("{} {}", it.state.name(), it.amount.0)).collect()
}

#[test]
fn attempts_are_read_with_their_history_and_erased_with_the_person() {
    let mut world = World::new(98);
    let account = fill(&mut world.workload);
    let all = attempts(&world, account);
    assert_eq!(shown(&all), ["SUCCESS 1200", "ABORTED 1200", "INIT 750", "ABORTED 500"]);
    let aborted = all.last().unwrap();
    assert_eq!((aborted.payment_id, aborted.counted_on), (None, None));
    let declined = &all[1];
    let payment = declined.payment_id.unwrap();
    let of_payment = world.queries.payment_attempts(TENANT, payment).unwrap();
    assert_eq!(shown(&of_payment), ["ABORTED 1200"]);
    assert_eq!(world.queries.payment_attempts(TenantNo(2), payment).unwrap(), []);
    let states = |id: AttemptId| {
        let rows =
            world.queries.history(TENANT, HistoryOf::new::<PaymentAttempt>(id.uuid())).unwrap();
        let state = rows.into_iter().map(|row| {
            let Change::Payment(PaymentChange::Attempt(it)) = row.image else { panic!("{row:?}") };
            format!("{} {}", it.state.name(), it.properties.len())
        });
        state.collect::<Vec<_>>()
    };
    assert_eq!(states(declined.id), ["INIT 1", "ABORTED 1"]);
    let erase = Command::Account(AccountCommand::Erase(EraseAccount { account }));
    let request = world.workload.request(TENANT, erase);
    // One that ends after the erasure, in the same batch, brings no property back.
    let call = world.workload.calls.pop().unwrap();
    let replied = GatewayReplied {
        payment: call.payment,
        transaction: call.transaction,
        answer: GatewayAnswer::TimedOut,
        is_controlled: call.is_controlled,
        tries: None,
    };
    let replied = Command::Payment(PaymentCommand::GatewayReplied(replied));
    let replied = world.workload.request(TENANT, replied);
    world.workload.batch(vec![request, replied]);
    let states = |id: AttemptId| {
        let rows =
            world.queries.history(TENANT, HistoryOf::new::<PaymentAttempt>(id.uuid())).unwrap();
        rows.iter().map(|row| format!("{:?}", row.image)).collect::<String>()
    };
    assert!(all.iter().all(|it| !states(it.id).contains("ann")));
    let report = verify_source(&world.home.source()).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn rules_that_are_set_hold_from_the_next_batch_on() {
    let mut world = World::new(99);
    let workload = &mut world.workload;
    let account = workload.paying_account(TENANT);
    let set_now = workload.request(TENANT, set(Some(limits(true))));
    let too_much = workload.request(TENANT, purchase(account, "20.01", false));
    let verdicts = workload.batch(vec![set_now, too_much]);
    assert!(matches!(verdicts[1], Verdict::Waits(_)), "{verdicts:?}");
    let aborted = workload.accepted(TENANT, purchase(account, "20.01", false));
    assert!(matches!(aborted, Reply::PaymentAborted(_)), "{aborted:?}");
    // Of another tenant they say nothing.
    let lifted = workload.request(TENANT, set(None));
    let still = workload.request(TENANT, purchase(account, "20.01", false));
    let verdicts = workload.batch(vec![lifted, still]);
    let is_aborted = |verdict: &Verdict| {
        matches!(verdict, Verdict::Answered(Answer::Replied(Reply::PaymentAborted(_))))
    };
    assert!(is_aborted(&verdicts[1]), "{verdicts:?}");
    let verdict = workload.one(TENANT, purchase(account, "20.01", false));
    assert!(matches!(verdict, Verdict::Waits(_)), "{verdict:?}");
}

/// A purchase that is declined and tried again in 8 days.
fn failed<S: Store>(workload: &mut Workload<S>, account: AccountId) {
    later(workload);
    let Command::Payment(PaymentCommand::Purchase(mut call)) = purchase(account, "1", true) else {
        unreachable!("it is a purchase")
    };
    call.properties.push(("IPCD_RETRIES".to_owned(), "true".to_owned()));
    workload.one(TENANT, Command::Payment(PaymentCommand::Purchase(call)));
    answer(workload, GatewayStatus::Error);
}

#[test]
fn scheduled_retries_are_read_in_parts_by_account_and_by_due_time() {
    let mut world = World::new(102);
    let workload = &mut world.workload;
    workload.accepted(TENANT, set(Some(Limits::default())));
    let accounts = [workload.paying_account(TENANT), workload.paying_account(TENANT)];
    for account in [accounts[0], accounts[1], accounts[0], accounts[0]] {
        failed(workload, account);
    }
    let always = (Timestamp(i64::MIN), Timestamp(i64::MAX));
    let read = |no, account, after, times, limit| {
        let window = QueueWindow { after, times, limit };
        world.queries.retries_of_tenant(no, account, window).unwrap()
    };
    let all = read(TENANT, None, None, always, u64::MAX);
    let mut scheduled = [attempts(&world, accounts[0]), attempts(&world, accounts[1])].concat();
    scheduled.retain(|it| it.state == AttemptState::Scheduled);
    scheduled.sort_by_key(|it| it.id);
    assert_eq!((all.len(), scheduled.len()), (4, 4));
    for (retry, attempt) in all.iter().zip(&scheduled) {
        assert_eq!((retry.attempt(), retry.timer.account), (attempt.id, attempt.account_id));
        assert_eq!((Some(retry.payment), &retry.plugins), (attempt.payment_id, &attempt.plugins));
        assert_eq!(Some(retry.timer.due), attempt.due_at);
        assert_eq!(retry.timer.due, retry.at.plus_us(8 * Timestamp::DAY_US));
    }
    let (mut found, mut after) = (vec![], None);
    while let part = read(TENANT, None, after, always, 3)
        && let Some(last) = part.last()
    {
        after = Some(last.attempt());
        found.extend(part);
    }
    assert_eq!(found, all, "in parts");
    let of = |keep: &dyn Fn(&ScheduledRetry) -> bool| {
        all.iter().filter(|it| keep(it)).cloned().collect::<Vec<_>>()
    };
    let of_account = read(TENANT, Some(accounts[0]), None, always, u64::MAX);
    assert_eq!(of_account, of(&|it| it.timer.account == accounts[0]));
    assert_eq!(of_account.len(), 3);
    let due = all[1].timer.due;
    assert_eq!(read(TENANT, None, None, (due, due), u64::MAX), of(&|it| it.timer.due == due));
    assert_eq!(read(TenantNo(2), None, None, always, u64::MAX), []);
    assert_eq!(read(TenantNo(2), Some(accounts[0]), None, always, u64::MAX), []);
}

#[test]
fn calls_of_one_batch_do_not_exceed_a_limit_together() {
    let mut world = World::new(100);
    let workload = &mut world.workload;
    workload.accepted(TENANT, set(Some(limits(true))));
    let account = workload.paying_account(TENANT);
    let requests = (0..5).map(|_| workload.request(TENANT, purchase(account, "1", false)));
    let requests = requests.collect();
    let verdicts = workload.batch(requests);
    let begun = verdicts.iter().filter(|it| matches!(it, Verdict::Waits(_))).count();
    assert_eq!(begun, 2, "{verdicts:?}");
}

#[test]
fn an_aborted_call_that_comes_twice_is_aborted_once() {
    let mut world = World::new(101);
    let account = fill(&mut world.workload);
    let before = attempts(&world, account).len();
    let workload = &mut world.workload;
    let request = workload.request(TENANT, purchase(account, "50", true));
    let times = Times { now: workload.now, real_now: workload.now };
    let mut deliver = |count: usize| {
        let work = || Work::Request(Box::new(request.clone()));
        let works: Vec<Work> = std::iter::repeat_with(work).take(count).collect();
        workload.partition.process(&works, times, &mut |_, _| Ok(())).verdicts
    };
    let repeated = |verdict: &Verdict| matches!(verdict, Verdict::Unavailable(Reason::Repeated));
    let at_once = deliver(2);
    assert!(!repeated(&at_once[0]) && repeated(&at_once[1]), "{at_once:?}");
    let later = deliver(1);
    assert!(repeated(&later[0]), "{later:?}");
    assert_eq!(attempts(&world, account).len(), before + 1);
}
