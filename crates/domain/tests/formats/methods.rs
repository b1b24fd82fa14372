//! The durable formats of what gateways have to do with payment methods.

use domain::account::payment_method::{
    ContinueMethod, CreatePaymentMethod, MethodAnswer, MethodAnswered, MethodRefused, MethodStep,
    MethodTask, RefusalCause,
};
use domain::change::{AccountChange, Change};
use domain::command::AccountCommand;
use domain::payment::{MethodAtGateway, NotSentCause, ReplyKey};
use domain::reply::AccountReply;
use domain::{Command, MerchantAccount, PaymentMethod, Reply, Revision, Seq, TenantNo, Timestamp};
use expect_test::expect;

use crate::{check, id};

#[test]
fn steps_of_methods() {
    let method = |step| {
        Change::Account(AccountChange::PaymentMethod(PaymentMethod {
            tenant: TenantNo(1),
            id: id(2),
            account_id: id(1),
            external_key: None,
            gateway: "g".to_owned(),
            external_payment_method_id: None,
            properties: vec![],
            active: false,
            merchant_account: Some(MerchantAccount("acct/live".to_owned())),
            step,
            created_at: Timestamp(5),
            updated_at: Timestamp(6),
            revision: Revision::first(Seq(7)),
        }))
    };
    let (deadline, reply) = (Timestamp(8), Some(ReplyKey(id::<()>(9).uuid())));
    let steps = [
        (
            None,
            expect![[
                r#"{"Account":{"PaymentMethod":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account_id":"00000000-0000-0000-0000-000000000001","external_key":null,"gateway":"g","active":false,"merchant_account":"acct/live","created_at":5,"updated_at":6,"revision":{"seq":7,"previous":null}}}}"#
            ]],
        ),
        (
            Some(MethodStep::Attach { is_default: true, deadline, asked: 1, reply }),
            expect![[
                r#"{"Account":{"PaymentMethod":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account_id":"00000000-0000-0000-0000-000000000001","external_key":null,"gateway":"g","active":false,"merchant_account":"acct/live","step":{"Attach":{"is_default":true,"deadline":8,"asked":1,"reply":"00000000-0000-0000-0000-000000000009"}},"created_at":5,"updated_at":6,"revision":{"seq":7,"previous":null}}}}"#
            ]],
        ),
        (
            Some(MethodStep::Detach { deadline: Some(deadline), asked: 2, was_refused: false }),
            expect![[
                r#"{"Account":{"PaymentMethod":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account_id":"00000000-0000-0000-0000-000000000001","external_key":null,"gateway":"g","active":false,"merchant_account":"acct/live","step":{"Detach":{"deadline":8,"asked":2,"was_refused":false}},"created_at":5,"updated_at":6,"revision":{"seq":7,"previous":null}}}}"#
            ]],
        ),
        (
            Some(MethodStep::Refused),
            expect![[
                r#"{"Account":{"PaymentMethod":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account_id":"00000000-0000-0000-0000-000000000001","external_key":null,"gateway":"g","active":false,"merchant_account":"acct/live","step":"Refused","created_at":5,"updated_at":6,"revision":{"seq":7,"previous":null}}}}"#
            ]],
        ),
    ];
    for (step, expected) in steps {
        check(&method(step), expected);
    }
}

#[test]
fn answers_about_methods() {
    let answered = |task, answer| {
        Command::Account(AccountCommand::MethodAnswered(Box::new(MethodAnswered {
            account: id(1),
            payment_method: id(2),
            task,
            answer,
            asked_at: Timestamp(3),
        })))
    };
    let said = MethodAtGateway {
        external_id: "pm".to_owned(),
        properties: vec![("customer".to_owned(), "cus".to_owned())],
    };
    let message = || "m".to_owned();
    let answers = [
        (
            MethodTask::Attach,
            MethodAnswer::Attached(said),
            expect![[
                r#"{"Account":{"MethodAnswered":{"account":"00000000-0000-0000-0000-000000000001","payment_method":"00000000-0000-0000-0000-000000000002","task":"Attach","answer":{"Attached":{"external_id":"pm","properties":[["customer","cus"]]}},"asked_at":3}}}"#
            ]],
        ),
        (
            MethodTask::Find,
            MethodAnswer::Absent,
            expect![[
                r#"{"Account":{"MethodAnswered":{"account":"00000000-0000-0000-0000-000000000001","payment_method":"00000000-0000-0000-0000-000000000002","task":"Find","answer":"Absent","asked_at":3}}}"#
            ]],
        ),
        (
            MethodTask::Detach,
            MethodAnswer::Refused { code: Some("c".to_owned()), message: message() },
            expect![[
                r#"{"Account":{"MethodAnswered":{"account":"00000000-0000-0000-0000-000000000001","payment_method":"00000000-0000-0000-0000-000000000002","task":"Detach","answer":{"Refused":{"code":"c","message":"m"}},"asked_at":3}}}"#
            ]],
        ),
        (
            MethodTask::Detach,
            MethodAnswer::NotSent { message: message(), cause: NotSentCause::Call },
            expect![[
                r#"{"Account":{"MethodAnswered":{"account":"00000000-0000-0000-0000-000000000001","payment_method":"00000000-0000-0000-0000-000000000002","task":"Detach","answer":{"NotSent":{"message":"m","cause":"Call"}},"asked_at":3}}}"#
            ]],
        ),
        (
            MethodTask::Attach,
            MethodAnswer::Unknown { message: message() },
            expect![[
                r#"{"Account":{"MethodAnswered":{"account":"00000000-0000-0000-0000-000000000001","payment_method":"00000000-0000-0000-0000-000000000002","task":"Attach","answer":{"Unknown":{"message":"m"}},"asked_at":3}}}"#
            ]],
        ),
    ];
    for (task, answer, expected) in answers {
        check(&answered(task, answer), expected);
    }
}

#[test]
fn commands_of_methods() {
    let it = ContinueMethod { account: id(1), payment_method: id(2), due: Timestamp(4) };
    check(
        &Command::Account(AccountCommand::ContinueMethod(it)),
        expect![[
            r#"{"Account":{"ContinueMethod":{"account":"00000000-0000-0000-0000-000000000001","payment_method":"00000000-0000-0000-0000-000000000002","due":4}}}"#
        ]],
    );
    let it = CreatePaymentMethod {
        is_attached: true,
        ..CreatePaymentMethod::default_of(id(1), "g".to_owned())
    };
    check(
        &Command::Account(AccountCommand::CreatePaymentMethod(it)),
        expect![[
            r#"{"Account":{"CreatePaymentMethod":{"account":"00000000-0000-0000-0000-000000000001","external_key":null,"gateway":"g","external_payment_method_id":null,"properties":[],"is_default":true,"is_attached":true}}}"#
        ]],
    );
}

#[test]
fn replies_about_methods() {
    check(
        &Reply::Account(AccountReply::PaymentMethodPending(id(2))),
        expect![[r#"{"Account":{"PaymentMethodPending":"00000000-0000-0000-0000-000000000002"}}"#]],
    );
    let refused = |cause| {
        let it = MethodRefused { payment_method: id(2), cause, message: "m".to_owned() };
        Reply::Account(AccountReply::PaymentMethodRefused(it))
    };
    check(
        &refused(RefusalCause::Gateway { code: Some("c".to_owned()) }),
        expect![[
            r#"{"Account":{"PaymentMethodRefused":{"payment_method":"00000000-0000-0000-0000-000000000002","cause":{"Gateway":{"code":"c"}},"message":"m"}}}"#
        ]],
    );
    check(
        &refused(RefusalCause::Method),
        expect![[
            r#"{"Account":{"PaymentMethodRefused":{"payment_method":"00000000-0000-0000-0000-000000000002","cause":"Method","message":"m"}}}"#
        ]],
    );
    check(
        &refused(RefusalCause::NotReached),
        expect![[
            r#"{"Account":{"PaymentMethodRefused":{"payment_method":"00000000-0000-0000-0000-000000000002","cause":"NotReached","message":"m"}}}"#
        ]],
    );
}
