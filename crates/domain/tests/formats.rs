//! The durable formats: what is written today must be readable for ever, so each has its golden text.

use domain::definition::{Definition, DefinitionKey, DefinitionKind};
use domain::environment::{Environment, Secret, SecretKind};
use domain::payment::{PaymentState, TransactionStatus, TransactionType};
use domain::state::Change;
use domain::{
    AccountId, AmountMinor, Currency, Event, PaymentId, PaymentReply, PaymentResult, Rejection,
    Reply, Revision, Seq, TenantId, TenantNo, TenantValueId, Timestamp, TransactionId,
};
use expect_test::{Expect, expect};
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

/// The value is written as expected, and what is written reads as the value.
fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, text: Expect) {
    let written = serde_json::to_string(value).expect("it is plain data");
    text.assert_eq(&written);
    assert_eq!(&serde_json::from_str::<T>(&written).expect("what was written"), value);
}

const fn id<K>(n: u128) -> domain::Id<K> {
    domain::Id::new(Uuid::from_u128(n))
}

#[test]
fn events() {
    let account: AccountId = id(1);
    check(
        &Event::AccountCreated { account },
        expect![[r#"{"AccountCreated":{"account":"00000000-0000-0000-0000-000000000001"}}"#]],
    );
    check(
        &Event::AccountChanged { account },
        expect![[r#"{"AccountChanged":{"account":"00000000-0000-0000-0000-000000000001"}}"#]],
    );
    let value: TenantValueId = id(2);
    let key = "PUSH_NOTIFICATION_CB".to_owned();
    check(
        &Event::TenantConfigChanged { value, key },
        expect![[
            r#"{"TenantConfigChanged":{"value":"00000000-0000-0000-0000-000000000002","key":"PUSH_NOTIFICATION_CB"}}"#
        ]],
    );
    check(
        &Event::EnvironmentChanged { environment: id(5) },
        expect![[
            r#"{"EnvironmentChanged":{"environment":"00000000-0000-0000-0000-000000000005"}}"#
        ]],
    );
    check(
        &Event::DefinitionsChanged { environment: id(5), version: 1_700_000_000_000 },
        expect![[
            r#"{"DefinitionsChanged":{"environment":"00000000-0000-0000-0000-000000000005","version":1700000000000}}"#
        ]],
    );
    let (payment, transaction): (PaymentId, TransactionId) = (id(3), id(4));
    let usd = Currency::parse("USD").unwrap();
    check(
        &Event::TransactionChanged {
            account,
            payment,
            transaction,
            kind: TransactionType::Purchase,
            before: Some(TransactionStatus::InFlight),
            before_amount: AmountMinor(0),
            opens_payment: false,
            status: TransactionStatus::Success,
            gateway: "stripe".to_owned(),
            amount: AmountMinor(1000),
            currency: Some(usd),
            payment_currency: usd,
            effective_at: Timestamp(1_700_000_000_000_000),
        },
        expect![[
            r#"{"TransactionChanged":{"account":"00000000-0000-0000-0000-000000000001","payment":"00000000-0000-0000-0000-000000000003","transaction":"00000000-0000-0000-0000-000000000004","kind":"Purchase","before":"InFlight","status":"Success","gateway":"stripe","amount":1000,"currency":"USD","payment_currency":"USD","effective_at":1700000000000000}}"#
        ]],
    );
}

#[test]
fn replies() {
    let tenant: TenantId = id(1);
    check(&Reply::Done, expect![[r#""Done""#]]);
    check(
        &Reply::TenantCreated(tenant),
        expect![[r#"{"TenantCreated":"00000000-0000-0000-0000-000000000001"}"#]],
    );
    check(&Reply::UserCreated("joe".to_owned()), expect![[r#"{"UserCreated":"joe"}"#]]);
    check(&Reply::RoleCreated("clerk".to_owned()), expect![[r#"{"RoleCreated":"clerk"}"#]]);
    check(
        &Reply::AccountCreated(id(2)),
        expect![[r#"{"AccountCreated":"00000000-0000-0000-0000-000000000002"}"#]],
    );
    check(
        &Reply::PaymentMethodCreated(id(3)),
        expect![[r#"{"PaymentMethodCreated":"00000000-0000-0000-0000-000000000003"}"#]],
    );
    check(
        &Reply::EnvironmentCreated(id(6)),
        expect![[r#"{"EnvironmentCreated":"00000000-0000-0000-0000-000000000006"}"#]],
    );
    check(
        &Reply::SecretAdded(id(7)),
        expect![[r#"{"SecretAdded":"00000000-0000-0000-0000-000000000007"}"#]],
    );
    check(
        &Reply::DefinitionsPut { version: 1_700_000_000_000 },
        expect![[r#"{"DefinitionsPut":{"version":1700000000000}}"#]],
    );
    let payment =
        |result| Reply::Payment(PaymentReply { payment: id(4), transaction: id(5), result });
    let (status, message) = (TransactionStatus::PaymentFailure, Some("no funds".to_owned()));
    check(
        &payment(PaymentResult::Status { status, message }),
        expect![[
            r#"{"Payment":{"payment":"00000000-0000-0000-0000-000000000004","transaction":"00000000-0000-0000-0000-000000000005","result":{"Status":{"status":"PaymentFailure","message":"no funds"}}}}"#
        ]],
    );
    let message = "boom".to_owned();
    check(
        &payment(PaymentResult::GatewayFailed { message }),
        expect![[
            r#"{"Payment":{"payment":"00000000-0000-0000-0000-000000000004","transaction":"00000000-0000-0000-0000-000000000005","result":{"GatewayFailed":{"message":"boom"}}}}"#
        ]],
    );
    check(
        &payment(PaymentResult::GatewayAnsweredNothing),
        expect![[
            r#"{"Payment":{"payment":"00000000-0000-0000-0000-000000000004","transaction":"00000000-0000-0000-0000-000000000005","result":"GatewayAnsweredNothing"}}"#
        ]],
    );
    check(
        &payment(PaymentResult::GatewayTimedOut),
        expect![[
            r#"{"Payment":{"payment":"00000000-0000-0000-0000-000000000004","transaction":"00000000-0000-0000-0000-000000000005","result":"GatewayTimedOut"}}"#
        ]],
    );
}

#[test]
fn rejections() {
    let text = || "x".to_owned();
    check(
        &Rejection::TenantAlreadyExists { key: text() },
        expect![[r#"{"TenantAlreadyExists":{"key":"x"}}"#]],
    );
    check(
        &Rejection::UserAlreadyExists { username: text() },
        expect![[r#"{"UserAlreadyExists":{"username":"x"}}"#]],
    );
    check(
        &Rejection::UserNotFound { username: text() },
        expect![[r#"{"UserNotFound":{"username":"x"}}"#]],
    );
    check(
        &Rejection::RoleAlreadyExists { role: text() },
        expect![[r#"{"RoleAlreadyExists":{"role":"x"}}"#]],
    );
    check(&Rejection::RoleNotFound { role: text() }, expect![[r#"{"RoleNotFound":{"role":"x"}}"#]]);
    check(
        &Rejection::PermissionInvalid { permission: text() },
        expect![[r#"{"PermissionInvalid":{"permission":"x"}}"#]],
    );
    check(
        &Rejection::AccountAlreadyExists { key: text() },
        expect![[r#"{"AccountAlreadyExists":{"key":"x"}}"#]],
    );
    check(
        &Rejection::AccountNotFound { id: id(1) },
        expect![[r#"{"AccountNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}"#]],
    );
    check(
        &Rejection::AccountKeyIsFixed { current: text() },
        expect![[r#"{"AccountKeyIsFixed":{"current":"x"}}"#]],
    );
    check(
        &Rejection::AccountFieldIsFixed { field: text() },
        expect![[r#"{"AccountFieldIsFixed":{"field":"x"}}"#]],
    );
    check(
        &Rejection::PaymentMethodNotFound { id: id(1) },
        expect![[r#"{"PaymentMethodNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}"#]],
    );
    check(
        &Rejection::ExternalPaymentMethodExists { account: id(1) },
        expect![[
            r#"{"ExternalPaymentMethodExists":{"account":"00000000-0000-0000-0000-000000000001"}}"#
        ]],
    );
    check(
        &Rejection::DefaultPaymentMethodInUse { account: id(1) },
        expect![[
            r#"{"DefaultPaymentMethodInUse":{"account":"00000000-0000-0000-0000-000000000001"}}"#
        ]],
    );
}

#[test]
fn rejections_of_feature_flags() {
    let text = || "x".to_owned();
    check(
        &Rejection::EnvironmentAlreadyExists { key: text() },
        expect![[r#"{"EnvironmentAlreadyExists":{"key":"x"}}"#]],
    );
    check(
        &Rejection::EnvironmentNotFound { id: id(1) },
        expect![[r#"{"EnvironmentNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}"#]],
    );
    check(
        &Rejection::SecretNotFound { id: id(1) },
        expect![[r#"{"SecretNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}"#]],
    );
    check(
        &Rejection::DefinitionChanged { key: text(), version: Some(7) },
        expect![[r#"{"DefinitionChanged":{"key":"x","version":7}}"#]],
    );
}

/// The rows in the journal: what is secret is not there.
#[test]
fn images_of_feature_flags() {
    let (at, revision) = (Timestamp(1), Revision::first(Seq(9)));
    let environment = Environment {
        tenant: TenantNo(1),
        id: id(1),
        project: "default".to_owned(),
        key: "dev".to_owned(),
        name: "Dev".to_owned(),
        version: 7,
        definitions: 1,
        secrets: 2,
        created_at: at,
        revision,
    };
    check(
        &Change::Environment(environment),
        expect![[
            r#"{"Environment":{"tenant":1,"id":"00000000-0000-0000-0000-000000000001","project":"default","key":"dev","name":"Dev","version":7,"definitions":1,"secrets":2,"created_at":1,"revision":{"seq":9,"previous":null}}}"#
        ]],
    );
    let mut secret = Secret {
        tenant: TenantNo(1),
        id: id(2),
        environment: id(1),
        kind: SecretKind::Server,
        name: "main".to_owned(),
        sealed: String::new(),
        created_at: at,
        expires_at: Some(Timestamp(5)),
        revision,
    };
    check(
        &Change::Secret(secret.clone()),
        expect![[
            r#"{"Secret":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","environment":"00000000-0000-0000-0000-000000000001","kind":"Server","name":"main","created_at":1,"expires_at":5,"revision":{"seq":9,"previous":null}}}"#
        ]],
    );
    let unsealed = serde_json::to_string(&secret).unwrap();
    secret.sealed = "sealed".to_owned();
    assert_eq!(serde_json::to_string(&secret).unwrap(), unsealed);
    let definition = Definition {
        tenant: TenantNo(1),
        key: DefinitionKey { environment: id(1), kind: DefinitionKind::Flag, key: "a".to_owned() },
        id: id(3),
        body: "{}".to_owned(),
        is_archived: false,
        version: 7,
        created_at: at,
        revision,
    };
    check(
        &Change::Definition(definition),
        expect![[
            r#"{"Definition":{"tenant":1,"key":{"environment":"00000000-0000-0000-0000-000000000001","kind":"Flag","key":"a"},"id":"00000000-0000-0000-0000-000000000003","body":"{}","is_archived":false,"version":7,"created_at":1,"revision":{"seq":9,"previous":null}}}"#
        ]],
    );
}

#[test]
fn rejections_of_payments() {
    let text = || "x".to_owned();
    check(
        &Rejection::GatewayNotRegistered { gateway: text() },
        expect![[r#"{"GatewayNotRegistered":{"gateway":"x"}}"#]],
    );
    check(
        &Rejection::PaymentNotFound { payment: text() },
        expect![[r#"{"PaymentNotFound":{"payment":"x"}}"#]],
    );
    check(
        &Rejection::TransactionNotFound { transaction: text() },
        expect![[r#"{"TransactionNotFound":{"transaction":"x"}}"#]],
    );
    check(
        &Rejection::PaymentOfAnotherAccount { payment: text() },
        expect![[r#"{"PaymentOfAnotherAccount":{"payment":"x"}}"#]],
    );
    check(
        &Rejection::TransactionOfAnotherAccount { key: text() },
        expect![[r#"{"TransactionOfAnotherAccount":{"key":"x"}}"#]],
    );
    check(
        &Rejection::TransactionKeySucceeded { key: text() },
        expect![[r#"{"TransactionKeySucceeded":{"key":"x"}}"#]],
    );
    check(
        &Rejection::NoSuchSuccess { payment: id(1) },
        expect![[r#"{"NoSuchSuccess":{"payment":"00000000-0000-0000-0000-000000000001"}}"#]],
    );
    let from = Some(PaymentState {
        operation: TransactionType::Authorize,
        status: TransactionStatus::Success,
    });
    let operation = TransactionType::Refund;
    check(
        &Rejection::InvalidTransition { operation, from },
        expect![[
            r#"{"InvalidTransition":{"operation":"Refund","from":{"operation":"Authorize","status":"Success"}}}"#
        ]],
    );
    check(
        &Rejection::PaymentInDoubt { operation },
        expect![[r#"{"PaymentInDoubt":{"operation":"Refund"}}"#]],
    );
    check(
        &Rejection::invalid("amount", "needs to be set"),
        expect![[r#"{"InvalidParameter":{"field":"amount","reason":"needs to be set"}}"#]],
    );
}
