//! Payment control: a tenant's rules, attempts, velocities.

use std::collections::BTreeMap;

use domain::billing::BillingSettings;
use domain::change::{Change, PaymentChange, TenantChange, TimerChange};
use domain::command::{PaymentCommand, TenantCommand};
use domain::payment::attempt::{
    AttemptState, CancelRetries, PaymentAttempt, PaymentVelocity, RetryPayment,
};
use domain::payment::{
    ExpireAction, FollowUp, GatewayAnswer, GatewayReplied, Initiate, TransactionType,
};
use domain::reply::PaymentAborted;
use domain::tenant::SetTenantValue;
use domain::tenant::payment_rules::{
    AmountLimits, Limits, PaymentRules, RetrySettings, RulesPart, Settings,
};
use domain::timer::{Timer, TimerKey, TimerKind};
use domain::{AmountMinor, Command, Currency, Reply, Revision, Seq, TenantNo, Timestamp};
use expect_test::expect;

use crate::{check, id};

pub fn usd() -> Currency {
    Currency::parse("USD").expect("it is a currency")
}

fn limits() -> Limits {
    let (payment, day) = (Some(AmountMinor(10_000)), None);
    Limits {
        every_payment: true,
        currencies: Some([usd()].into()),
        gateways: Some(["simulator".to_owned()].into()),
        amounts: [(usd(), AmountLimits { payment, day })].into(),
        payments_per_day: Some(10),
        lower_amounts: true,
        method_gateways: vec!["simulator".to_owned()],
    }
}

#[test]
fn rules() {
    let set = |rules| {
        Command::Tenant(TenantCommand::SetValue(SetTenantValue {
            key: "k".to_owned(),
            value: None,
            rules,
        }))
    };
    check(&set(None), expect![[r#"{"Tenant":{"SetValue":{"key":"k","value":null}}}"#]]);
    check(
        &set(Some(RulesPart::Limits(Limits::default()))),
        expect![[
            r#"{"Tenant":{"SetValue":{"key":"k","value":null,"rules":{"Limits":{"every_payment":false,"currencies":null,"gateways":null,"amounts":{},"payments_per_day":null}}}}}"#
        ]],
    );
    let retries = RetrySettings { days: Some(vec![8, 8]), api: true };
    check(
        &set(Some(RulesPart::Settings(Settings {
            retries: Some(retries.clone()),
            billing: BillingSettings { greedy: true, fixed_days: 30, announced_us: 0 },
        }))),
        expect![[
            r#"{"Tenant":{"SetValue":{"key":"k","value":null,"rules":{"Settings":{"retries":{"days":[8,8],"api":true},"billing":{"greedy":true,"fixed_days":30}}}}}}"#
        ]],
    );
    check(
        &Change::Tenant(TenantChange::PaymentRules(PaymentRules {
            tenant: TenantNo(1),
            retries: Some(retries),
            billing: BillingSettings::DEFAULT,
            limits: Some(limits()),
            merchant_accounts: BTreeMap::new(),
            revision: Revision::first(Seq(9)),
            routing: None,
        })),
        expect![[
            r#"{"Tenant":{"PaymentRules":{"tenant":1,"retries":{"days":[8,8],"api":true},"limits":{"every_payment":true,"currencies":["USD"],"gateways":["simulator"],"amounts":{"USD":{"payment":10000,"day":null}},"payments_per_day":10,"lower_amounts":true,"method_gateways":["simulator"]},"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

#[test]
fn attempts_and_velocities() {
    let attempt = PaymentAttempt {
        tenant: TenantNo(1),
        id: id(2),
        account_id: id(3),
        payment_id: Some(id(4)),
        transaction_id: Some(id(5)),
        payment_key: Some("p".to_owned()),
        transaction_key: None,
        payment_method_id: Some(id(6)),
        kind: TransactionType::Purchase,
        state: AttemptState::Init,
        amount: AmountMinor(1_000),
        currency: usd(),
        plugins: vec!["faregate-rules".to_owned()],
        properties: vec![],
        rules: Some(Seq(7)),
        counted_on: Some(20_777),
        retries: true,
        tries: 0,
        due_at: None,
        created_at: Timestamp(1),
        revision: Revision::first(Seq(9)),
    };
    let note = vec![("note".to_owned(), "of ann".to_owned())];
    let with_properties = PaymentAttempt { properties: note, ..attempt.clone() };
    let image = serde_json::to_string(&with_properties).expect("plain data");
    assert_eq!(
        image,
        serde_json::to_string(&attempt).expect("plain data"),
        "properties are not journalled"
    );
    check(
        &Change::Payment(PaymentChange::Attempt(attempt)),
        expect![[
            r#"{"Payment":{"Attempt":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account_id":"00000000-0000-0000-0000-000000000003","payment_id":"00000000-0000-0000-0000-000000000004","transaction_id":"00000000-0000-0000-0000-000000000005","payment_key":"p","transaction_key":null,"payment_method_id":"00000000-0000-0000-0000-000000000006","kind":"Purchase","state":"Init","amount":1000,"currency":"USD","plugins":["faregate-rules"],"rules":7,"counted_on":20777,"retries":true,"tries":0,"due_at":null,"created_at":1,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    for (state, expected) in AttemptState::ALL.into_iter().zip([
        expect![[r#""Init""#]],
        expect![[r#""Success""#]],
        expect![[r#""Aborted""#]],
        expect![[r#""Scheduled""#]],
        expect![[r#""Retried""#]],
    ]) {
        check(&state, expected);
    }
    check(
        &Change::Payment(PaymentChange::Velocity(PaymentVelocity {
            tenant: TenantNo(1),
            account_id: id(3),
            day: 20_777,
            count: 2,
            amounts: [(usd(), AmountMinor(1_000))].into(),
        })),
        expect![[
            r#"{"Payment":{"Velocity":{"tenant":1,"account_id":"00000000-0000-0000-0000-000000000003","day":20777,"count":2,"amounts":{"USD":1000}}}}"#
        ]],
    );
}

#[test]
fn controlled_calls() {
    let plugin = || "faregate-rules".to_owned();
    check(
        &Command::Payment(PaymentCommand::Purchase(Initiate {
            control: vec![plugin()],
            ..Initiate::of(id(1))
        })),
        expect![[
            r#"{"Payment":{"Purchase":{"account":"00000000-0000-0000-0000-000000000001","payment":null,"payment_method":null,"payment_key":null,"transaction_key":null,"amount":null,"currency":null,"properties":[],"control":["faregate-rules"]}}}"#
        ]],
    );
    check(
        &Command::Payment(PaymentCommand::Capture(FollowUp {
            approved: vec!["acme".to_owned()],
            ..FollowUp::of(id(1))
        })),
        expect![[
            r#"{"Payment":{"Capture":{"payment":"00000000-0000-0000-0000-000000000001","transaction_key":null,"amount":null,"currency":null,"properties":[],"approved":["acme"]}}}"#
        ]],
    );
    check(
        &Command::Payment(PaymentCommand::GatewayReplied(GatewayReplied {
            payment: id(1),
            transaction: id(2),
            answer: GatewayAnswer::Nothing,
            is_controlled: true,
            tries: None,
        })),
        expect![[
            r#"{"Payment":{"GatewayReplied":{"payment":"00000000-0000-0000-0000-000000000001","transaction":"00000000-0000-0000-0000-000000000002","answer":"Nothing","is_controlled":true}}}"#
        ]],
    );
    let (program, reason) = ("acme".to_owned(), "too risky".to_owned());
    check(
        &Reply::PaymentAborted(PaymentAborted { attempt: None, plugin: program, reason }),
        expect![[r#"{"PaymentAborted":{"plugin":"acme","reason":"too risky"}}"#]],
    );
    let reason = "the currency EUR is not allowed".to_owned();
    check(
        &Reply::PaymentAborted(PaymentAborted { attempt: Some(id(2)), plugin: plugin(), reason }),
        expect![[
            r#"{"PaymentAborted":{"attempt":"00000000-0000-0000-0000-000000000002","plugin":"faregate-rules","reason":"the currency EUR is not allowed"}}"#
        ]],
    );
}

#[test]
fn timers_and_retries() {
    let key = TimerKey { kind: TimerKind::PaymentRetry, object: uuid::Uuid::from_u128(4) };
    let (tenant, account, due) = (TenantNo(1), id(1), Timestamp(7));
    let timer = Timer { tenant, key, account, due };
    check(
        &Change::Timer(TimerChange::Set(timer)),
        expect![[
            r#"{"Timer":{"Set":{"tenant":1,"key":{"kind":"PaymentRetry","object":"00000000-0000-0000-0000-000000000004"},"account":"00000000-0000-0000-0000-000000000001","due":7}}}"#
        ]],
    );
    check(
        &Change::Timer(TimerChange::Cleared(key)),
        expect![[
            r#"{"Timer":{"Cleared":{"kind":"PaymentRetry","object":"00000000-0000-0000-0000-000000000004"}}}"#
        ]],
    );
    let retry = RetryPayment {
        account,
        payment: id(2),
        attempt: id(4),
        transaction_key: Some("t".to_owned()),
        is_answered: true,
        due,
    };
    check(
        &Command::Payment(PaymentCommand::Retry(retry)),
        expect![[
            r#"{"Payment":{"Retry":{"account":"00000000-0000-0000-0000-000000000001","payment":"00000000-0000-0000-0000-000000000002","attempt":"00000000-0000-0000-0000-000000000004","transaction_key":"t","is_answered":true,"due":7}}}"#
        ]],
    );
    let expire = ExpireAction { payment: id(2), transaction: id(3), due };
    check(
        &Command::Payment(PaymentCommand::ExpireAction(expire)),
        expect![[
            r#"{"Payment":{"ExpireAction":{"payment":"00000000-0000-0000-0000-000000000002","transaction":"00000000-0000-0000-0000-000000000003","due":7}}}"#
        ]],
    );
    let cancel = CancelRetries { payment: id(2), transaction: id(3) };
    check(
        &Command::Payment(PaymentCommand::CancelRetries(cancel)),
        expect![[
            r#"{"Payment":{"CancelRetries":{"payment":"00000000-0000-0000-0000-000000000002","transaction":"00000000-0000-0000-0000-000000000003"}}}"#
        ]],
    );
}
