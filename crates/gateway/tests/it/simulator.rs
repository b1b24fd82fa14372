//! The simulator inside a process, on a real journal.

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
use tokio::sync::mpsc;

use crate::calls::{Scratch, answer, inquiry, knowledge, open, options, purchase, records, shown};

async fn call(simulator: &Simulator, call: GatewayCall) -> String {
    answer(&simulator.call(call).await)
}

async fn ask(simulator: &Simulator, number: u128) -> String {
    knowledge(&simulator.inquire(inquiry(number)).await)
}

/// Waits without a limit: a limit would come at once where time stands still while a file is
/// written.
async fn told(notifications: &mut mpsc::Receiver<Notification>) -> String {
    let told = notifications.recv().await.unwrap();
    let last = told.transaction.uuid().as_u128() & 0xffff;
    format!("{last} {}", knowledge(&told.knowledge))
}

#[tokio::test]
async fn external_payments_are_never_sent() {
    assert!(External.settings().settles_at_once);
    assert_eq!(answer(&External.call(purchase(1, "")).await), "not sent");
    assert_eq!(knowledge(&External.inquire(inquiry(1)).await), "not found");
}

#[tokio::test(start_paused = true)]
async fn each_outcome_is_answered_remembered_and_written_down() {
    let dir = Scratch::new();
    let simulator = open(dir.path());
    let wishes = [
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
    for (number, wish) in (1..).zip(wishes) {
        let answered = call(&simulator, purchase(number, wish)).await;
        let known = ask(&simulator, number).await;
        seen += &format!("{number} {wish}: {answered}; asked: {known}\n");
    }
    expect![[r#"
        1 : Processed 1000; asked: Processed 1000
        2 outcome=PENDING: Pending 1000; asked: Pending 1000
        3 outcome=ERROR errorCode=51: Error 1000 51; asked: Error 1000 51
        4 outcome=CANCELED: Canceled 1000; asked: Canceled 1000
        5 outcome=UNDEFINED: Undefined 1000; asked: Undefined 1000
        6 outcome=EXCEPTION: failed: EXCEPTION for purchasePayment; asked: not found
        7 outcome=NULL: nothing; asked: not found
        8 outcome=TIMEOUT: timed out; asked: not found
        9 lostAnswer=true: timed out; asked: Processed 1000
        10 ACTION_THROW_EXCEPTION=*: failed: ACTION_THROW_EXCEPTION for purchasePayment; asked: Undefined 1000
        11 processedAmount=3: Processed 300; asked: Processed 300
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
async fn one_transaction_is_charged_once_however_often_and_at_once_it_comes() {
    let dir = Scratch::new();
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
async fn another_charge_for_the_same_transaction_is_an_attempt_and_no_charge() {
    let dir = Scratch::new();
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
    assert_eq!(records[1].asked, Some(AmountMinor(5_000)));
    assert_eq!(records[2].operation, TransactionType::Refund);
}

#[tokio::test]
async fn a_pending_transaction_is_completed_by_a_second_call() {
    let dir = Scratch::new();
    let simulator = open(dir.path());
    assert_eq!(call(&simulator, purchase(1, "outcome=PENDING")).await, "Pending 1000");
    assert_eq!(call(&simulator, purchase(1, "outcome=PENDING")).await, "Pending 1000");
    let less = GatewayCall { amount: Some(AmountMinor(300)), ..purchase(1, "") };
    assert_eq!(call(&simulator, less.clone()).await, "Processed 300");
    assert_eq!(call(&simulator, less).await, "Processed 300");
    assert_eq!(ask(&simulator, 1).await, "Processed 300");
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
async fn what_belongs_to_others_is_not_found() {
    let dir = Scratch::new();
    let simulator = open(dir.path());
    call(&simulator, purchase(1, "")).await;
    let other = Inquiry { tenant: TenantNo(2), ..inquiry(1) };
    assert_eq!(knowledge(&simulator.inquire(other).await), "not found");
    let other = Inquiry { payment: inquiry(2).payment, ..inquiry(1) };
    assert_eq!(knowledge(&simulator.inquire(other).await), "not found");
}

#[tokio::test(start_paused = true)]
async fn a_charge_goes_on_when_its_caller_gives_up_and_is_told() {
    let dir = Scratch::new();
    let simulator = open(dir.path());
    let mut notifications = simulator.notifications();
    let late = GatewayCall { timeout_us: 1_000_000, ..purchase(1, "chargeAfterMs=2000") };
    let given_up = tokio::time::timeout(Duration::from_secs(1), simulator.call(late)).await;
    assert!(given_up.is_err());
    assert_eq!(ask(&simulator, 1).await, "not found");
    assert_eq!(told(&mut notifications).await, "1 Processed 1000");
    assert_eq!(ask(&simulator, 1).await, "Processed 1000");
}

#[tokio::test(start_paused = true)]
async fn what_comes_later_is_told() {
    let dir = Scratch::new();
    let simulator = open(dir.path());
    let mut notifications = simulator.notifications();
    call(&simulator, purchase(1, "outcome=PENDING lateMs=2000")).await;
    assert_eq!(told(&mut notifications).await, "1 Processed 1000");
    call(&simulator, purchase(2, "reverseAfterMs=2000")).await;
    assert_eq!(told(&mut notifications).await, "2 Error 1000 REVERSED");
    call(&simulator, purchase(3, "outcome=TIMEOUT lateMs=2000 truth=ERROR reverseAfterMs=1")).await;
    assert_eq!(told(&mut notifications).await, "3 Error 1000");
    call(&simulator, purchase(4, "outcome=PENDING lateMs=10 reverseAfterMs=5")).await;
    assert_eq!(told(&mut notifications).await, "4 Processed 1000");
    assert_eq!(told(&mut notifications).await, "4 Error 1000 REVERSED");
    call(&simulator, purchase(5, "duplicate=true")).await;
    assert_eq!(told(&mut notifications).await, "5 Processed 1000");
    assert_eq!(told(&mut notifications).await, "5 Processed 1000");
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
async fn a_completion_calls_off_what_was_planned() {
    let dir = Scratch::new();
    let simulator = open(dir.path());
    let mut notifications = simulator.notifications();
    call(&simulator, purchase(1, "outcome=PENDING lateMs=5000 truth=ERROR")).await;
    assert_eq!(call(&simulator, purchase(1, "")).await, "Processed 1000");
    call(&simulator, purchase(2, "outcome=PENDING lateMs=60000")).await;
    assert_eq!(told(&mut notifications).await, "2 Processed 1000");
    assert_eq!(ask(&simulator, 1).await, "Processed 1000");
}

#[test]
fn what_was_planned_happens_after_a_restart_too_and_is_told_again() {
    let dir = Scratch::new();
    let run = |test: &dyn Fn(&tokio::runtime::Runtime)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        test(&runtime);
        // Ends everything that runs on it at once, as the end of a process does.
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
                assert_eq!(told(&mut notifications).await, "1 Processed 1000");
                assert_eq!(told(&mut notifications).await, "1 Error 1000 REVERSED");
            });
        });
    }
    let effects: Vec<Effect> = records(dir.path()).iter().map(|record| record.effect).collect();
    assert_eq!(effects, [Effect::Nothing, Effect::Charged, Effect::Reversed]);
}

/// What a process leaves behind when it is killed at this moment is a copy of its file.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_answered_finds_the_charge_after_a_kill() {
    let dir = Scratch::new();
    let simulator = open(dir.path());
    let (answered, mut answers) = mpsc::unbounded_channel();
    let callers: Vec<_> = (0..8)
        .map(|caller: u128| {
            let (simulator, answered) = (simulator.clone(), answered.clone());
            tokio::spawn(async move {
                for turn in 0..200 {
                    let number = turn * 8 + caller;
                    call(&simulator, purchase(number, "")).await;
                    answered.send(number).unwrap();
                }
            })
        })
        .collect();
    drop(answered);
    let mut heard = vec![];
    while let Some(number) = answers.recv().await {
        heard.push(number);
        if heard.len() % 100 == 0 {
            let left = Scratch::new();
            std::fs::copy(dir.path().join(FILE), left.path().join(FILE)).unwrap();
            let after = Simulator::open(left.path(), options()).unwrap();
            for number in &heard {
                assert_eq!(ask(&after, *number).await, "Processed 1000", "{number}");
            }
        }
    }
    assert_eq!(heard.len(), 1_600);
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
async fn thousands_of_calls_are_in_flight_at_once() {
    let dir = Scratch::new();
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
    // One after another they would take fifteen minutes.
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}
