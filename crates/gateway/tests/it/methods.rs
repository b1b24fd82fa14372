//! Tests of the simulator's payment methods, in process and as a process of its own.

use std::path::Path;
use std::time::Duration;

use domain::account::payment_method::{MethodAnswer, MethodRequest, MethodTask};
use domain::payment::{GatewayAnswer, MethodAtGateway, TransactionType};
use domain::{AccountId, GatewayCall, PaymentMethodId};
use engine::ports::Gateway;
use engine::{Clock, Deadline};
use expect_test::expect;
use gateway::simulator::{Options, Remote, Simulator, bind};
use tempfile::tempdir;
use tokio::sync::oneshot;

use crate::calls::{answer, id, inquiry, knowledge, options, perform, purchase, records, retry};

fn attaching() -> Options {
    Options { attaches_methods: true, ..options() }
}

fn open(dir: &Path) -> Simulator {
    retry(|| Simulator::open(dir, attaching())).unwrap()
}

/// A request about the method of this number, with properties such as `attach.outcome=ERROR`.
pub fn request(number: u128, task: MethodTask, properties: &str) -> MethodRequest {
    let call = charge(number, number, properties);
    MethodRequest {
        tenant: call.tenant,
        account: call.account,
        payment_method: call.payment_method,
        gateway: call.gateway,
        merchant_account: None,
        task,
        external_payment_method_id: None,
        properties: call.payment_method_properties,
        timeout_us: call.timeout_us,
    }
}

/// A purchase with the method of a number, which has these properties.
fn charge(number: u128, method: u128, properties: &str) -> GatewayCall {
    let call = purchase(number, properties);
    GatewayCall {
        account: AccountId::new(id(method)),
        payment_method: PaymentMethodId::new(id(method)),
        payment_method_properties: call.properties,
        properties: vec![],
        ..call
    }
}

/// The answer to a request, as a text.
pub async fn ask(gateway: &impl Gateway, request: MethodRequest) -> String {
    let timeout = Duration::from_micros(u64::try_from(request.timeout_us).unwrap());
    let deadline = Deadline::within(&Clock::new(false), timeout);
    match gateway.method(request, deadline).await {
        MethodAnswer::Attached(MethodAtGateway { external_id, .. }) => {
            format!("attached as {external_id}")
        }
        MethodAnswer::Absent => "absent".to_owned(),
        MethodAnswer::Refused { code, message } => {
            format!("refused: {} {message}", code.as_deref().unwrap_or("-"))
        }
        MethodAnswer::NotSent { .. } => "not sent".to_owned(),
        MethodAnswer::Unknown { message } => format!("unknown: {message}"),
    }
}

async fn find(gateway: &impl Gateway, number: u128) -> String {
    ask(gateway, request(number, MethodTask::Find, "")).await
}

/// The answers for new methods with these properties: each is attached, found, and attached again.
async fn attach_all(gateway: &impl Gateway, cases: &[&str], timeout_us: i64) -> String {
    let mut seen = String::new();
    for (number, properties) in (1..).zip(cases) {
        let request =
            MethodRequest { timeout_us, ..request(number, MethodTask::Attach, properties) };
        let first = ask(gateway, request.clone()).await;
        let found = find(gateway, number).await;
        let again = ask(gateway, request).await;
        seen += &format!("{number} {properties}: {first}; found: {found}; again: {again}\n");
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn each_answer_about_a_method_is_given_and_what_is_recorded_is_found() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let cases = [
        "",
        "outcome=ERROR delayMs=x lateMs=5",
        "attach.outcome=ERROR attach.errorCode=51 attach.errorMessage=no",
        "attach.outcome=CANCELED",
        "attach.outcome=UNDEFINED",
        "attach.outcome=PENDING attach.truth=PROCESSED",
        "attach.outcome=EXCEPTION",
        "attach.outcome=EXCEPTION attach.truth=PROCESSED",
        "attach.outcome=NULL",
        "attach.outcome=TIMEOUT",
        "attach.lostAnswer=true",
        "attach.ACTION_THROW_EXCEPTION=addPaymentMethod",
        "attach.ACTION_THROW_EXCEPTION=deletePaymentMethod",
        "attach.delayMs=x",
        "attach.lateMs=5",
        "attach.truth=NONE",
    ];
    let seen = attach_all(&simulator, &cases, 30_000_000).await;
    expect![[r#"
        1 : attached as sim_0192aabbccdd70008000000000000001; found: attached as sim_0192aabbccdd70008000000000000001; again: attached as sim_0192aabbccdd70008000000000000001
        2 outcome=ERROR delayMs=x lateMs=5: attached as sim_0192aabbccdd70008000000000000002; found: attached as sim_0192aabbccdd70008000000000000002; again: attached as sim_0192aabbccdd70008000000000000002
        3 attach.outcome=ERROR attach.errorCode=51 attach.errorMessage=no: refused: 51 no; found: absent; again: refused: 51 no
        4 attach.outcome=CANCELED: refused: - the simulator refuses it; found: absent; again: refused: - the simulator refuses it
        5 attach.outcome=UNDEFINED: unknown: the outcome is open; found: absent; again: unknown: the outcome is open
        6 attach.outcome=PENDING attach.truth=PROCESSED: unknown: the outcome is open; found: attached as sim_0192aabbccdd70008000000000000006; again: attached as sim_0192aabbccdd70008000000000000006
        7 attach.outcome=EXCEPTION: unknown: EXCEPTION for addPaymentMethod; found: absent; again: unknown: EXCEPTION for addPaymentMethod
        8 attach.outcome=EXCEPTION attach.truth=PROCESSED: unknown: EXCEPTION for addPaymentMethod; found: attached as sim_0192aabbccdd70008000000000000008; again: attached as sim_0192aabbccdd70008000000000000008
        9 attach.outcome=NULL: unknown: the simulator answered nothing; found: absent; again: unknown: the simulator answered nothing
        10 attach.outcome=TIMEOUT: unknown: the simulator did not answer in time; found: absent; again: unknown: the simulator did not answer in time
        11 attach.lostAnswer=true: unknown: the simulator did not answer in time; found: attached as sim_0192aabbccdd7000800000000000000b; again: attached as sim_0192aabbccdd7000800000000000000b
        12 attach.ACTION_THROW_EXCEPTION=addPaymentMethod: unknown: ACTION_THROW_EXCEPTION for addPaymentMethod; found: absent; again: unknown: ACTION_THROW_EXCEPTION for addPaymentMethod
        13 attach.ACTION_THROW_EXCEPTION=deletePaymentMethod: attached as sim_0192aabbccdd7000800000000000000d; found: attached as sim_0192aabbccdd7000800000000000000d; again: attached as sim_0192aabbccdd7000800000000000000d
        14 attach.delayMs=x: refused: INVALID_PROPERTY attach.delayMs must be a whole number of milliseconds within bounds; found: absent; again: refused: INVALID_PROPERTY attach.delayMs must be a whole number of milliseconds within bounds
        15 attach.lateMs=5: refused: INVALID_PROPERTY attach.lateMs is only of payments; found: absent; again: refused: INVALID_PROPERTY attach.lateMs is only of payments
        16 attach.truth=NONE: attached as sim_0192aabbccdd70008000000000000010; found: absent; again: attached as sim_0192aabbccdd70008000000000000010
    "#]].assert_eq(&seen);
    assert_eq!(records(dir.path()), [], "no money has moved");
}

#[tokio::test(start_paused = true)]
async fn a_method_is_detached_once_and_never_attached_again() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let mut seen = String::new();
    for (number, properties) in (1..).zip([
        "",
        "detach.outcome=ERROR detach.errorCode=used",
        "detach.outcome=EXCEPTION",
        "detach.lostAnswer=true",
        "attach.outcome=ERROR",
    ]) {
        seen += &format!("{number} {properties}:");
        for task in [MethodTask::Attach, MethodTask::Detach, MethodTask::Detach, MethodTask::Attach]
        {
            let name = task.name();
            let said = ask(&simulator, request(number, task, properties)).await;
            seen += &format!(" {name} {said};");
        }
        seen += &format!(" find {}\n", find(&simulator, number).await);
    }
    expect![[r#"
        1 : attach attached as sim_0192aabbccdd70008000000000000001; detach absent; detach absent; attach refused: METHOD_DETACHED the payment method was detached; find absent
        2 detach.outcome=ERROR detach.errorCode=used: attach attached as sim_0192aabbccdd70008000000000000002; detach refused: used the simulator refuses it; detach refused: used the simulator refuses it; attach attached as sim_0192aabbccdd70008000000000000002; find attached as sim_0192aabbccdd70008000000000000002
        3 detach.outcome=EXCEPTION: attach attached as sim_0192aabbccdd70008000000000000003; detach unknown: EXCEPTION for deletePaymentMethod; detach unknown: EXCEPTION for deletePaymentMethod; attach attached as sim_0192aabbccdd70008000000000000003; find attached as sim_0192aabbccdd70008000000000000003
        4 detach.lostAnswer=true: attach attached as sim_0192aabbccdd70008000000000000004; detach unknown: the simulator did not answer in time; detach absent; attach refused: METHOD_DETACHED the payment method was detached; find absent
        5 attach.outcome=ERROR: attach refused: - the simulator refuses it; detach absent; detach absent; attach refused: - the simulator refuses it; find absent
    "#]].assert_eq(&seen);
    assert_eq!(ask(&simulator, request(9, MethodTask::Detach, "")).await, "absent");
    let unanswered = request(1, MethodTask::Find, "find.outcome=EXCEPTION");
    assert_eq!(ask(&simulator, unanswered).await, "unknown: EXCEPTION for getPaymentMethodDetail");
}

#[tokio::test]
async fn a_method_of_another_account_or_tenant_is_not_touched() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    ask(&simulator, request(1, MethodTask::Attach, "")).await;
    for task in [MethodTask::Attach, MethodTask::Find, MethodTask::Detach] {
        let own = request(1, task, "");
        let account = AccountId::new(id(2));
        let other = MethodRequest { account, ..own.clone() };
        let foreign = MethodRequest { tenant: domain::TenantNo(2), ..own };
        for request in [other, foreign] {
            let said = ask(&simulator, request).await;
            assert!(said.starts_with("refused: METHOD_OF_ANOTHER"), "{task:?} {said}");
        }
    }
    assert!(find(&simulator, 1).await.starts_with("attached"));
}

#[tokio::test]
async fn methods_survive_a_restart_beside_charges() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let named = Some("card-7".to_owned());
    let own =
        MethodRequest { external_payment_method_id: named, ..request(1, MethodTask::Attach, "") };
    ask(&simulator, own).await;
    assert_eq!(answer(&perform(&simulator, charge(7, 1, "")).await), "Processed 1000");
    ask(&simulator, request(2, MethodTask::Attach, "attach.outcome=ERROR")).await;
    ask(&simulator, request(3, MethodTask::Attach, "")).await;
    ask(&simulator, request(3, MethodTask::Detach, "")).await;
    drop(simulator);
    let simulator = open(dir.path());
    assert_eq!(find(&simulator, 1).await, "attached as card-7");
    assert_eq!(find(&simulator, 2).await, "absent");
    assert_eq!(find(&simulator, 3).await, "absent");
    let again = ask(&simulator, request(3, MethodTask::Attach, "")).await;
    assert_eq!(again, "refused: METHOD_DETACHED the payment method was detached");
    assert_eq!(knowledge(&simulator.inquire(inquiry(7)).await), "Processed 1000");
    assert_eq!(records(dir.path()).len(), 1, "the charges");
}

/// The answer to a call, and the method that was attached for it.
async fn charged(gateway: &impl Gateway, call: GatewayCall) -> String {
    let said = perform(gateway, call).await;
    let attached = match &said {
        GatewayAnswer::Outcome(it) => it.payment_method.clone(),
        GatewayAnswer::Failed { .. }
        | GatewayAnswer::Nothing
        | GatewayAnswer::TimedOut
        | GatewayAnswer::NotSent { .. } => None,
    };
    let attached = attached.map(|it| format!("; attached as {}", it.external_id));
    answer(&said) + &attached.unwrap_or_default()
}

async fn charge_all(gateway: &impl Gateway) -> String {
    let mut seen = String::new();
    let mut add = |what: &str, said: String| seen += &format!("{what}: {said}\n");
    add("new", charged(gateway, charge(1, 1, "")).await);
    add("known", charged(gateway, charge(2, 1, "")).await);
    add("declined", charged(gateway, charge(3, 3, "outcome=ERROR")).await);
    add(
        "refused",
        charged(gateway, charge(4, 4, "attach.outcome=ERROR attach.errorCode=51")).await,
    );
    add("asked for", find(gateway, 4).await);
    add("lost", charged(gateway, charge(5, 5, "attach.outcome=NULL")).await);
    add("inquiry", knowledge(&gateway.inquire(inquiry(5)).await));
    ask(gateway, request(1, MethodTask::Detach, "")).await;
    add("detached", charged(gateway, charge(6, 1, "")).await);
    add("repeated", charged(gateway, charge(2, 1, "")).await);
    let refund = GatewayCall { operation: TransactionType::Refund, ..charge(7, 1, "") };
    add("refund", charged(gateway, refund).await);
    seen
}

#[tokio::test]
async fn a_charge_attaches_its_method_first_and_none_of_a_detached_one_goes_on() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    expect![[r#"
        new: Processed 1000; attached as sim_0192aabbccdd70008000000000000001
        known: Processed 1000
        declined: Error 1000; attached as sim_0192aabbccdd70008000000000000003
        refused: Error 51
        asked for: absent
        lost: failed: the simulator answered nothing
        inquiry: not found
        detached: Error METHOD_DETACHED
        repeated: Processed 1000
        refund: Processed 1000
    "#]]
    .assert_eq(&charge_all(&simulator).await);
    let other = tempdir().unwrap();
    let plain = retry(|| Simulator::open(other.path(), options())).unwrap();
    assert_eq!(charged(&plain, charge(1, 1, "attach.outcome=ERROR")).await, "Processed 1000");
    assert_eq!(find(&plain, 1).await, "absent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_answers_about_methods_like_the_simulator_in_process() {
    let dirs = [tempdir().unwrap(), tempdir().unwrap()];
    let serve = |listen: &str| {
        // The process needs no setting of its own.
        let bound = retry(|| bind(listen.parse().unwrap(), dirs[0].path(), options())).unwrap();
        let (address, (stop, stopped)) = (bound.address(), oneshot::channel::<()>());
        let running = tokio::spawn(bound.run(async { drop(stopped.await) }));
        (address, stop, running)
    };
    let (address, stop, running) = serve("127.0.0.1:0");
    let remote = Remote::new(&format!("http://{address}"), attaching()).unwrap();
    let simulator = open(dirs[1].path());
    assert!(remote.settings().attaches_methods);
    assert_eq!(charge_all(&remote).await, charge_all(&simulator).await);
    let cases = ["", "attach.outcome=ERROR", "attach.outcome=EXCEPTION"].map(|it| [it; 6]);
    let cases = cases.as_flattened();
    let timeout_us = 1_000_000;
    let seen = attach_all(&remote, cases, timeout_us).await;
    assert_eq!(seen, attach_all(&simulator, cases, timeout_us).await);
    let lost = MethodRequest {
        timeout_us: 100_000,
        ..request(90, MethodTask::Attach, "attach.lostAnswer=true")
    };
    assert_eq!(ask(&remote, lost).await, "unknown: the simulator did not answer");
    let name = format!("attached as sim_{}", id(90).simple());
    assert_eq!(find(&remote, 90).await, name);

    stop.send(()).unwrap();
    running.await.unwrap();
    let another = Remote::new(&format!("http://{address}"), attaching()).unwrap();
    assert_eq!(find(&another, 90).await, "not sent");
    let (_, _stop, _) = serve(&address.to_string());
    assert_eq!(find(&another, 90).await, name, "a restarted process knows it");
}
