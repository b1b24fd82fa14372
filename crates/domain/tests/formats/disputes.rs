//! Disputes: rows, commands and events.

use domain::change::{Change, PaymentChange};
use domain::claim::ClaimKind;
use domain::command::PaymentCommand;
use domain::ledger::LedgerAccount;
use domain::payment::dispute::{
    Dispute, DisputeBooked, DisputeCase, DisputeSaid, DisputeStatus, DisputeTimer, RecordDispute,
};
use domain::timer::TimerKind;
use domain::{AmountMinor, Command, Event, Revision, Seq, TenantNo, Timestamp};
use expect_test::expect;

use super::control::usd;
use super::{check, id};

fn case() -> DisputeCase {
    DisputeCase::new("acme", "c-1").expect("it is one")
}

#[test]
fn rows() {
    let dispute = Dispute {
        tenant: TenantNo(1),
        id: id(2),
        account_id: id(3),
        payment_id: id(4),
        transaction_id: id(5),
        case: case(),
        status: DisputeStatus::NeedsResponse,
        reason: Some("fraudulent".to_owned()),
        amount: AmountMinor(1_000),
        currency: usd(),
        evidence_due_by: Some(Timestamp(9)),
        warned_of: None,
        withdrawn: AmountMinor(1_000),
        reinstated: AmountMinor(0),
        booked: DisputeBooked { charged_back: AmountMinor(700), ..DisputeBooked::default() },
        booking_at: Some(Timestamp(8)),
        warning_at: None,
        asked_at: Timestamp(7),
        created_at: Timestamp(1),
        updated_at: Timestamp(2),
        revision: Revision::first(Seq(9)),
    };
    check(
        &Change::Payment(PaymentChange::Dispute(Box::new(dispute))),
        expect![[
            r#"{"Payment":{"Dispute":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account_id":"00000000-0000-0000-0000-000000000003","payment_id":"00000000-0000-0000-0000-000000000004","transaction_id":"00000000-0000-0000-0000-000000000005","case":{"gateway":"acme","case":"c-1"},"status":"NeedsResponse","reason":"fraudulent","amount":1000,"currency":"USD","evidence_due_by":9,"warned_of":null,"withdrawn":1000,"reinstated":0,"booked":{"charged_back":700,"reversed":0,"excess":0,"excess_returned":0},"booking_at":8,"warning_at":null,"asked_at":7,"created_at":1,"updated_at":2,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    check(&ClaimKind::Dispute, expect![[r#""Dispute""#]]);
    check(&LedgerAccount::DisputeExcess, expect![[r#""DisputeExcess""#]]);
    check(
        &[TimerKind::DisputeBooking, TimerKind::DisputeEvidence].to_vec(),
        expect![[r#"["DisputeBooking","DisputeEvidence"]"#]],
    );
    check(
        &DisputeStatus::ALL.to_vec(),
        expect![[
            r#"["WarningNeedsResponse","WarningUnderReview","WarningClosed","NeedsResponse","UnderReview","Won","Lost"]"#
        ]],
    );
}

#[test]
fn commands() {
    let record = RecordDispute {
        payment: id(4),
        transaction: id(5),
        case: case(),
        said: DisputeSaid {
            status: DisputeStatus::Won,
            reason: None,
            amount: AmountMinor(1_000),
            currency: usd(),
            evidence_due_by: None,
            withdrawn: AmountMinor(1_000),
            reinstated: AmountMinor(1_000),
        },
        asked_at: Timestamp(7),
    };
    check(
        &Command::Payment(PaymentCommand::RecordDispute(Box::new(record))),
        expect![[
            r#"{"Payment":{"RecordDispute":{"payment":"00000000-0000-0000-0000-000000000004","transaction":"00000000-0000-0000-0000-000000000005","case":{"gateway":"acme","case":"c-1"},"said":{"status":"Won","reason":null,"amount":1000,"currency":"USD","evidence_due_by":null,"withdrawn":1000,"reinstated":1000},"asked_at":7}}}"#
        ]],
    );
    let timer = DisputeTimer { payment: id(4), dispute: id(2), case: case(), due: Timestamp(8) };
    check(
        &Command::Payment(PaymentCommand::BookDispute(timer.clone())),
        expect![[
            r#"{"Payment":{"BookDispute":{"payment":"00000000-0000-0000-0000-000000000004","dispute":"00000000-0000-0000-0000-000000000002","case":{"gateway":"acme","case":"c-1"},"due":8}}}"#
        ]],
    );
    check(
        &Command::Payment(PaymentCommand::WarnOfDispute(timer)),
        expect![[
            r#"{"Payment":{"WarnOfDispute":{"payment":"00000000-0000-0000-0000-000000000004","dispute":"00000000-0000-0000-0000-000000000002","case":{"gateway":"acme","case":"c-1"},"due":8}}}"#
        ]],
    );
}

#[test]
fn events() {
    check(
        &Event::DisputeChanged {
            account: id(3),
            payment: id(4),
            transaction: id(5),
            dispute: id(2),
            case: case(),
            before: Some(DisputeStatus::NeedsResponse),
            status: DisputeStatus::Lost,
            amount: AmountMinor(1_000),
            currency: usd(),
            withdrawn: AmountMinor(1_000),
            reinstated: AmountMinor(0),
        },
        expect![[
            r#"{"DisputeChanged":{"account":"00000000-0000-0000-0000-000000000003","payment":"00000000-0000-0000-0000-000000000004","transaction":"00000000-0000-0000-0000-000000000005","dispute":"00000000-0000-0000-0000-000000000002","case":{"gateway":"acme","case":"c-1"},"before":"NeedsResponse","status":"Lost","amount":1000,"currency":"USD","withdrawn":1000,"reinstated":0}}"#
        ]],
    );
    check(
        &Event::DisputeExcess {
            account: id(3),
            payment: id(4),
            dispute: id(2),
            amount: AmountMinor(300),
            currency: usd(),
        },
        expect![[
            r#"{"DisputeExcess":{"account":"00000000-0000-0000-0000-000000000003","payment":"00000000-0000-0000-0000-000000000004","dispute":"00000000-0000-0000-0000-000000000002","amount":300,"currency":"USD"}}"#
        ]],
    );
    check(
        &Event::DisputeEvidenceDue {
            account: id(3),
            payment: id(4),
            dispute: id(2),
            due_by: Timestamp(9),
        },
        expect![[
            r#"{"DisputeEvidenceDue":{"account":"00000000-0000-0000-0000-000000000003","payment":"00000000-0000-0000-0000-000000000004","dispute":"00000000-0000-0000-0000-000000000002","due_by":9}}"#
        ]],
    );
}
