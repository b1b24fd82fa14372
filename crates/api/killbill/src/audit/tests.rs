//! The audit of payments that settle within one commit, and of those that a gateway settles.

use domain::change::{Change, PaymentChange};
use domain::payment::routed::Destination;
use domain::payment::{Actor, PaymentState};
use domain::{AmountMinor, Currency, Id, Seq, Timestamp};
use expect_test::{Expect, expect};

use super::*;
use crate::payments::view;

const START: Timestamp = Timestamp(1_795_174_252_123_456);

fn row(seq: i64, image: Change) -> HistoryRow {
    let actor = Actor {
        user: "admin".to_owned(),
        created_by: "wire".to_owned(),
        reason: None,
        comments: Some("c".to_owned()),
        token: Uuid::from_u128(7),
    };
    let at = START.plus_us(seq * Timestamp::SECOND_US);
    HistoryRow { seq: Seq(seq), at, actor, image, person: None, imported: None }
}

fn payment(
    gateway: &str,
    (operation, status): (TransactionType, TransactionStatus),
    last_success: Option<TransactionType>,
) -> Change {
    let success = |operation| PaymentState { operation, status: TransactionStatus::Success };
    Change::Payment(PaymentChange::Payment(Payment {
        tenant: TenantNo(3),
        number: 1,
        external_key: Some("r1".to_owned()),
        gateway: gateway.to_owned(),
        state: PaymentState { operation, status },
        last_success: last_success.map(success),
        created_at: START,
        updated_at: START,
        ..view::tests::payment()
    }))
}

fn transaction(status: TransactionStatus) -> Change {
    let currency = Currency::parse("USD");
    let payment = view::tests::payment();
    let to = Destination {
        gateway: "g".to_owned(),
        merchant_account: None,
        payment_method: payment.payment_method_id,
    };
    Change::Payment(PaymentChange::Transaction(Transaction {
        status,
        amount: Some(AmountMinor(1000)),
        currency,
        processed_amount: Some(AmountMinor(1000)),
        processed_currency: currency,
        ..Transaction::in_flight(
            (TenantNo(3), Id::new(Uuid::from_u128(5))),
            (payment.id, payment.account_id),
            (TransactionType::Purchase, to),
            (START, Seq(1)),
        )
    }))
}

fn check(rows: &[HistoryRow], expected: Expect) {
    let value = serde_json::to_value(with_history(rows)).unwrap();
    let entries = value.as_array().unwrap().iter().map(|entry| {
        let history = &entry["history"];
        let state = history.get("stateName").or_else(|| history.get("transactionStatus"));
        let more = history.get("lastSuccessStateName").or_else(|| history.get("processedAmount"));
        format!("{} {} {}", entry["changeType"], state.unwrap(), more.unwrap())
    });
    expected.assert_eq(&entries.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_payment_settled_in_one_commit_has_two_entries() {
    use {TransactionStatus as S, TransactionType as T};
    let rows = [
        row(1, payment(EXTERNAL_PAYMENT, (T::Authorize, S::Success), Some(T::Authorize))),
        row(2, payment(EXTERNAL_PAYMENT, (T::Capture, S::Success), Some(T::Capture))),
    ];
    check(
        &rows,
        expect![[r#"
        "INSERT" null null
        "UPDATE" "AUTH_SUCCESS" "AUTH_SUCCESS"
        "UPDATE" "AUTH_SUCCESS" "AUTH_SUCCESS"
        "UPDATE" "CAPTURE_SUCCESS" "CAPTURE_SUCCESS""#]],
    );
    check(
        &[row(1, transaction(S::Success))],
        expect![[r#"
        "INSERT" "UNKNOWN" null
        "UPDATE" "SUCCESS" 10.0"#]],
    );
}

#[test]
fn a_payment_settled_by_a_gateway_has_one_entry_per_commit() {
    use {TransactionStatus as S, TransactionType as T};
    let rows = [
        row(1, payment("g", (T::Purchase, S::InFlight), None)),
        row(2, payment("g", (T::Purchase, S::Unknown), None)),
        row(3, payment("g", (T::Purchase, S::Success), Some(T::Purchase))),
        row(4, payment("g", (T::Refund, S::InFlight), Some(T::Purchase))),
        row(5, payment("g", (T::Refund, S::PaymentFailure), Some(T::Purchase))),
        row(6, payment("g", (T::Chargeback, S::Success), Some(T::Chargeback))),
    ];
    check(
        &rows,
        expect![[r#"
        "INSERT" null null
        "UPDATE" "PURCHASE_ERRORED" null
        "UPDATE" "PURCHASE_SUCCESS" "PURCHASE_SUCCESS"
        "UPDATE" "PURCHASE_SUCCESS" "PURCHASE_SUCCESS"
        "UPDATE" "REFUND_FAILED" "PURCHASE_SUCCESS"
        "UPDATE" "REFUND_FAILED" "PURCHASE_SUCCESS"
        "UPDATE" "CHARGEBACK_SUCCESS" "CHARGEBACK_SUCCESS""#]],
    );
    let rows = [row(1, transaction(S::InFlight)), row(2, transaction(S::Pending))];
    check(
        &rows,
        expect![[r#"
        "INSERT" "UNKNOWN" null
        "UPDATE" "PENDING" 10.0"#]],
    );
}

#[test]
fn an_entry_with_history_has_kill_bills_columns() {
    let rows = [row(1, transaction(TransactionStatus::Success))];
    let entries = with_history(&rows);
    expect![[r#"
        {
          "changeType": "UPDATE",
          "changeDate": "2026-11-20T11:30:53.000Z",
          "objectType": "TRANSACTION",
          "objectId": "00000000-0000-0000-0000-000000000005",
          "changedBy": "wire",
          "reasonCode": null,
          "comments": "c",
          "userToken": "00000000-0000-0000-0000-000000000007",
          "history": {
            "id": null,
            "createdDate": "2026-11-20T11:30:52.000Z",
            "updatedDate": "2026-11-20T11:30:53.000Z",
            "recordId": 1,
            "accountRecordId": 2,
            "tenantRecordId": 3,
            "attemptId": null,
            "paymentId": "00000000-0000-0000-0000-000000000001",
            "transactionExternalKey": "00000000-0000-0000-0000-000000000005",
            "transactionType": "PURCHASE",
            "effectiveDate": "2026-11-20T11:30:52.000Z",
            "transactionStatus": "SUCCESS",
            "amount": 10.00,
            "currency": "USD",
            "processedAmount": 10.00,
            "processedCurrency": "USD",
            "gatewayErrorCode": null,
            "gatewayErrorMsg": null,
            "historyTableName": "PAYMENT_TRANSACTION_HISTORY",
            "tableName": "PAYMENT_TRANSACTIONS"
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&entries[1]).unwrap());
}

#[test]
fn the_level_limits_the_entries_and_an_unknown_one_is_refused() {
    let rows = [row(1, transaction(TransactionStatus::Success))];
    let count = |query| AuditLevel::of(Query::new(query)).map(|level| level.logs(&rows).len());
    assert_eq!(count("").unwrap(), 0);
    assert_eq!(count("audit=none").unwrap(), 0);
    assert_eq!(count("audit=MINIMAL").unwrap(), 1);
    assert_eq!(count("audit=FULL").unwrap(), 2);
    let Err(Failure::Problem(problem)) = count("audit=SOME") else { panic!("accepted") };
    assert_eq!(problem.message, "audit=SOME: should be NONE, MINIMAL or FULL");
}
