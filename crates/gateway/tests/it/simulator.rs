//! Tests of the simulator in process with a real journal.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::payment::TransactionType;
use domain::{AmountMinor, GatewayCall, TenantNo};
use engine::ports::{Gateway, Inquiry};
use expect_test::expect;
use gateway::external::External;
use gateway::simulator::journal::FILE;
use gateway::simulator::record::Effect;
use gateway::simulator::{Notification, Simulator};
use tempfile::tempdir;
use tokio::sync::mpsc;

use crate::calls::{answer, inquiry, knowledge, open, options, perform, purchase, records, shown};

async fn call(simulator: &Simulator, call: GatewayCall) -> String {
    answer(&perform(simulator, call).await)
}

async fn inquire(simulator: &Simulator, number: u128) -> String {
    knowledge(&simulator.inquire(inquiry(number)).await)
}

/// Waits without a timeout, because a timeout would expire at once while the paused clock skips ahead
/// during writes of the journal.
async fn next(notifications: &mut mpsc::Receiver<Notification>) -> String {
    let notification = notifications.recv().await.unwrap();
    let last = notification.transaction.uuid().as_u128() & 0xffff;
    format!("{last} {}", knowledge(&notification.knowledge))
}

#[tokio::test]
async fn external_payments_are_never_sent() {
    assert!(External.settings().settles_at_once);
    assert_eq!(answer(&perform(&External, purchase(1, "")).await), "not sent");
    assert_eq!(knowledge(&External.inquire(inquiry(1)).await), "not found");
}

#[tokio::test(start_paused = true)]
async fn each_outcome_is_answered_and_recorded() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let cases = [
        "",
        "outcome=PENDING",
        "outcome=ERROR errorCode=51",
        "outcome=CANCELED",
        "outcome=UNDEFINED",
        "outcome=EXCEPTION",
        "outcome=NULL",
        "outcome=TIMEOUT",
        "lostAnswer=true",
        "ACTION_THROW_EXCEPTION=*",
        "processedAmount=3",
    ];
    let mut seen = String::new();
    for (number, properties) in (1..).zip(cases) {
        let answer = call(&simulator, purchase(number, properties)).await;
        let known = inquire(&simulator, number).await;
        seen += &format!("{number} {properties}: {answer}; inquiry: {known}\n");
    }
    expect![[r#"
        1 : Processed 1000; inquiry: Processed 1000
        2 outcome=PENDING: Pending 1000; inquiry: Pending 1000
        3 outcome=ERROR errorCode=51: Error 1000 51; inquiry: Error 1000 51
        4 outcome=CANCELED: Canceled 1000; inquiry: Canceled 1000
        5 outcome=UNDEFINED: Undefined 1000; inquiry: Undefined 1000
        6 outcome=EXCEPTION: failed: EXCEPTION for purchasePayment; inquiry: not found
        7 outcome=NULL: nothing; inquiry: not found
        8 outcome=TIMEOUT: timed out; inquiry: not found
        9 lostAnswer=true: timed out; inquiry: Processed 1000
        10 ACTION_THROW_EXCEPTION=*: failed: ACTION_THROW_EXCEPTION for purchasePayment; inquiry: Undefined 1000
        11 processedAmount=3: Processed 300; inquiry: Processed 300
    "#]].assert_eq(&seen);
    expect![[r#"
        1 Call Charged Processed 1000
        2 Call Nothing Pending 1000
        3 Call Nothing Error 1000 51
        4 Call Nothing Canceled 1000
        5 Call Nothing Undefined 1000
        9 Call Charged Processed 1000
        10 Call Nothing Undefined 1000
        11 Call Charged Processed 300
    "#]]
    .assert_eq(&shown(&records(dir.path())));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_of_a_transaction_charge_once() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let simulator = simulator.clone();
            tokio::spawn(async move {
                call(&simulator, purchase(number % 4, "chargeAfterMs=3 delayMs=5")).await
            })
        })
        .collect();
    for one in calls {
        assert_eq!(one.await.unwrap(), "Processed 1000");
    }
    drop(simulator);
    let simulator = open(dir.path());
    assert_eq!(call(&simulator, purchase(0, "outcome=ERROR")).await, "Processed 1000");
    assert_eq!(records(dir.path()).len(), 4);
}

#[tokio::test]
async fn another_amount_for_a_charged_transaction_is_an_attempt_without_effect() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    call(&simulator, purchase(1, "")).await;
    let more = GatewayCall { amount: Some(AmountMinor(5_000)), ..purchase(1, "") };
    assert_eq!(call(&simulator, more).await, "Processed 1000");
    let refund = GatewayCall { operation: TransactionType::Refund, ..purchase(1, "") };
    assert_eq!(call(&simulator, refund).await, "Processed 1000");
    assert_eq!(call(&simulator, purchase(1, "")).await, "Processed 1000");
    let records = records(dir.path());
    expect![[r#"
        1 Call Charged Processed 1000
        1 Attempt Nothing Processed 1000
        1 Attempt Nothing Processed 1000
    "#]]
    .assert_eq(&shown(&records));
    assert_eq!(records[1].requested_amount, Some(AmountMinor(5_000)));
    assert_eq!(records[2].operation, TransactionType::Refund);
}

#[tokio::test]
async fn a_pending_transaction_is_completed_by_a_second_call() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    assert_eq!(call(&simulator, purchase(1, "outcome=PENDING")).await, "Pending 1000");
    assert_eq!(call(&simulator, purchase(1, "outcome=PENDING")).await, "Pending 1000");
    let less = GatewayCall { amount: Some(AmountMinor(300)), ..purchase(1, "") };
    assert_eq!(call(&simulator, less.clone()).await, "Processed 300");
    assert_eq!(call(&simulator, less).await, "Processed 300");
    assert_eq!(inquire(&simulator, 1).await, "Processed 300");
    call(&simulator, purchase(2, "outcome=PENDING")).await;
    assert_eq!(call(&simulator, purchase(2, "outcome=ERROR")).await, "Error 1000");
    expect![[r#"
        1 Call Nothing Pending 1000
        1 Call Charged Processed 300
        2 Call Nothing Pending 1000
        2 Call Nothing Error 1000
    "#]]
    .assert_eq(&shown(&records(dir.path())));
}

#[tokio::test]
async fn transactions_of_other_tenants_and_payments_are_not_found() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    call(&simulator, purchase(1, "")).await;
    let other = Inquiry { tenant: TenantNo(2), ..inquiry(1) };
    assert_eq!(knowledge(&simulator.inquire(other).await), "not found");
    let other = Inquiry { payment: inquiry(2).payment, ..inquiry(1) };
    assert_eq!(knowledge(&simulator.inquire(other).await), "not found");
}

#[tokio::test(start_paused = true)]
async fn a_charge_continues_after_a_timeout_and_is_notified() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let mut notifications = simulator.notifications();
    let late = GatewayCall { timeout_us: 1_000_000, ..purchase(1, "chargeAfterMs=2000") };
    let result = tokio::time::timeout(Duration::from_secs(1), perform(&simulator, late)).await;
    result.expect_err("the charge takes longer than the timeout");
    assert_eq!(inquire(&simulator, 1).await, "not found");
    assert_eq!(next(&mut notifications).await, "1 Processed 1000");
    assert_eq!(inquire(&simulator, 1).await, "Processed 1000");
}

#[tokio::test(start_paused = true)]
async fn late_outcomes_are_notified() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let mut notifications = simulator.notifications();
    call(&simulator, purchase(1, "outcome=PENDING lateMs=2000")).await;
    assert_eq!(next(&mut notifications).await, "1 Processed 1000");
    call(&simulator, purchase(2, "reverseAfterMs=2000")).await;
    assert_eq!(next(&mut notifications).await, "2 Error 1000 REVERSED");
    call(&simulator, purchase(3, "outcome=TIMEOUT lateMs=2000 truth=ERROR reverseAfterMs=1")).await;
    assert_eq!(next(&mut notifications).await, "3 Error 1000");
    call(&simulator, purchase(4, "outcome=PENDING lateMs=10 reverseAfterMs=5")).await;
    assert_eq!(next(&mut notifications).await, "4 Processed 1000");
    assert_eq!(next(&mut notifications).await, "4 Error 1000 REVERSED");
    call(&simulator, purchase(5, "duplicate=true")).await;
    assert_eq!(next(&mut notifications).await, "5 Processed 1000");
    assert_eq!(next(&mut notifications).await, "5 Processed 1000");
    expect![[r#"
        1 Call Nothing Pending 1000
        1 Late Charged Processed 1000
        2 Call Charged Processed 1000
        2 Reversal Reversed Error 1000 REVERSED
        3 Call Nothing Undefined 1000
        3 Late Nothing Error 1000
        4 Call Nothing Pending 1000
        4 Late Charged Processed 1000
        4 Reversal Reversed Error 1000 REVERSED
        5 Call Charged Processed 1000
    "#]]
    .assert_eq(&shown(&records(dir.path())));
}

#[tokio::test(start_paused = true)]
async fn a_completion_cancels_the_scheduled_outcome() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let mut notifications = simulator.notifications();
    call(&simulator, purchase(1, "outcome=PENDING lateMs=5000 truth=ERROR")).await;
    assert_eq!(call(&simulator, purchase(1, "")).await, "Processed 1000");
    call(&simulator, purchase(2, "outcome=PENDING lateMs=60000")).await;
    assert_eq!(next(&mut notifications).await, "2 Processed 1000");
    assert_eq!(inquire(&simulator, 1).await, "Processed 1000");
}

#[test]
fn scheduled_outcomes_survive_a_restart_and_are_notified_again() {
    let dir = tempdir().unwrap();
    let run = |test: &dyn Fn(&tokio::runtime::Runtime)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        test(&runtime);
        // Aborts all tasks, like the end of the process.
        drop(runtime);
    };
    run(&|runtime| {
        runtime.block_on(async {
            let simulator = open(dir.path());
            call(&simulator, purchase(1, "outcome=PENDING lateMs=60000 reverseAfterMs=90000"))
                .await;
        });
    });
    for _ in 0..2 {
        run(&|runtime| {
            runtime.block_on(async {
                let simulator = open(dir.path());
                let mut notifications = simulator.notifications();
                assert_eq!(next(&mut notifications).await, "1 Processed 1000");
                assert_eq!(next(&mut notifications).await, "1 Error 1000 REVERSED");
            });
        });
    }
    let effects: Vec<Effect> = records(dir.path()).iter().map(|record| record.effect).collect();
    assert_eq!(effects, [Effect::Nothing, Effect::Charged, Effect::Reversed]);
}

/// A copy of the file is what a killed process would leave.
#[tokio::test(flavor = "multi_thread")]
async fn answered_calls_are_durable_after_a_kill() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let (answered, mut answers) = mpsc::unbounded_channel();
    let callers: Vec<_> = (0..8)
        .map(|caller: u128| {
            let (simulator, answered) = (simulator.clone(), answered.clone());
            tokio::spawn(async move {
                for round in 0..200 {
                    let number = round * 8 + caller;
                    call(&simulator, purchase(number, "")).await;
                    answered.send(number).unwrap();
                }
            })
        })
        .collect();
    drop(answered);
    let mut received = vec![];
    while let Some(number) = answers.recv().await {
        received.push(number);
        if received.len() % 100 == 0 {
            let left = tempdir().unwrap();
            std::fs::copy(dir.path().join(FILE), left.path().join(FILE)).unwrap();
            let after = Simulator::open(left.path(), options()).unwrap();
            for number in &received {
                assert_eq!(inquire(&after, *number).await, "Processed 1000", "{number}");
            }
        }
    }
    assert_eq!(received.len(), 1_600);
    for caller in callers {
        caller.await.unwrap();
    }
    let mut charged = BTreeMap::new();
    for record in records(dir.path()) {
        *charged.entry(record.transaction).or_insert(0) += 1;
    }
    assert!(charged.values().all(|times| *times == 1), "charged twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_calls_run_concurrently() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let started = tokio::time::Instant::now();
    let calls: Vec<_> = (0..3_000)
        .map(|number| {
            let simulator = simulator.clone();
            tokio::spawn(async move { call(&simulator, purchase(number, "delayMs=300")).await })
        })
        .collect();
    for one in calls {
        assert_eq!(one.await.unwrap(), "Processed 1000");
    }
    // Sequential calls would take 15 minutes.
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}
