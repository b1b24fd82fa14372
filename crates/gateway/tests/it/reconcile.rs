//! Tests of the reconciliation of the simulator's journal with transactions of a store.

use domain::payment::routed::Destination;
use domain::payment::{Transaction, TransactionStatus, TransactionType};
use domain::{
    AccountId, AmountMinor, Currency, PaymentId, PaymentMethodId, Seq, TenantNo, Timestamp,
    TransactionId,
};
use expect_test::{Expect, expect};
use gateway::reconcile::Charges;
use gateway::simulator::record::Record;
use tempfile::tempdir;

use crate::calls::{id, open, perform, purchase, records, usd};

fn booked(number: u128, status: TransactionStatus, minor: i64) -> Transaction {
    let to = Destination {
        gateway: gateway::simulator::NAME.to_owned(),
        merchant_account: None,
        payment_method: PaymentMethodId::new(id(number)),
    };
    Transaction {
        status,
        amount: Some(AmountMinor(1_000)),
        currency: Some(usd()),
        processed_amount: Some(AmountMinor(minor)),
        processed_currency: Some(usd()),
        ..Transaction::in_flight(
            (TenantNo(1), TransactionId::new(id(number))),
            (PaymentId::new(id(number)), AccountId::new(id(number))),
            (TransactionType::Purchase, to),
            (Timestamp(0), Seq(1)),
        )
    }
}

fn paid(number: u128) -> Transaction {
    booked(number, TransactionStatus::Success, 1_000)
}

async fn journal(cases: &[&str]) -> Vec<Record> {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    for (number, properties) in (1..).zip(cases) {
        perform(&simulator, purchase(number, properties)).await;
    }
    records(dir.path())
}

fn check(journal: &[Record], store: &[Transaction], expected: Expect) {
    let mut charges = Charges::default();
    journal.iter().for_each(|record| charges.add(record));
    let mut lines = vec![];
    let each = |see: &mut dyn FnMut(&Transaction)| {
        store.iter().for_each(see);
        Ok::<(), std::convert::Infallible>(())
    };
    let compared = charges.compare(each, |difference| lines.push(difference.to_string())).unwrap();
    lines.sort();
    assert_eq!(compared.differences, lines.len() as u64);
    lines.push(format!("{} charged, {} booked", compared.charged, compared.booked));
    expected.assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn matching_transactions_are_not_reported() {
    let journal = journal(&["", "outcome=ERROR", "outcome=PENDING", "outcome=NULL"]).await;
    let store = [
        paid(1),
        booked(2, TransactionStatus::PaymentFailure, 0),
        booked(3, TransactionStatus::Pending, 1_000),
        booked(4, TransactionStatus::Unknown, 0),
        Transaction {
            kind: TransactionType::Chargeback,
            ..booked(5, TransactionStatus::Success, 1)
        },
    ];
    check(&journal, &store, expect!["1 charged, 1 booked"]);
}

#[tokio::test]
async fn each_kind_of_mismatch_is_reported() {
    let mut journal = journal(&["", "", "outcome=ERROR", "processedAmount=3", "", ""]).await;
    journal.push(journal[4].clone());
    let store = [
        booked(2, TransactionStatus::Unknown, 0),
        paid(3),
        paid(4),
        paid(5),
        Transaction { processed_currency: Currency::parse("EUR"), ..paid(6) },
        paid(7),
    ];
    check(
        &journal,
        &store,
        expect![[r#"
        tenant 1 transaction 0192aabb-ccdd-7000-8000-000000000001 of payment 0192aabb-ccdd-7000-8000-000000000001: charged, but not in the store
        tenant 1 transaction 0192aabb-ccdd-7000-8000-000000000002 of payment 0192aabb-ccdd-7000-8000-000000000002: charged, but Unknown in the store
        tenant 1 transaction 0192aabb-ccdd-7000-8000-000000000003 of payment 0192aabb-ccdd-7000-8000-000000000003: Success in the store, but not charged
        tenant 1 transaction 0192aabb-ccdd-7000-8000-000000000004 of payment 0192aabb-ccdd-7000-8000-000000000004: charged 300 minor units, booked 1000
        tenant 1 transaction 0192aabb-ccdd-7000-8000-000000000005 of payment 0192aabb-ccdd-7000-8000-000000000005: charged 2 times
        tenant 1 transaction 0192aabb-ccdd-7000-8000-000000000006 of payment 0192aabb-ccdd-7000-8000-000000000006: charged in USD, booked in EUR
        tenant 1 transaction 0192aabb-ccdd-7000-8000-000000000007 of payment 0192aabb-ccdd-7000-8000-000000000007: Success in the store, but not charged
        5 charged, 5 booked"#]],
    );
}

#[tokio::test(start_paused = true)]
async fn a_reversed_charge_is_not_a_success() {
    let dir = tempdir().unwrap();
    let simulator = open(dir.path());
    let mut notifications = simulator.notifications();
    perform(&simulator, purchase(1, "reverseAfterMs=5")).await;
    notifications.recv().await.unwrap();
    let journal = records(dir.path());
    check(
        &journal,
        &[booked(1, TransactionStatus::PaymentFailure, 0)],
        expect!["0 charged, 0 booked"],
    );
    check(
        &journal,
        &[paid(1)],
        expect![[r#"
        tenant 1 transaction 0192aabb-ccdd-7000-8000-000000000001 of payment 0192aabb-ccdd-7000-8000-000000000001: Success in the store, but not charged
        0 charged, 1 booked"#]],
    );
}
