//! The durable formats: what is written today must be readable for ever, so each has its golden text.

use domain::account::payment_method::DeletePaymentMethod;
use domain::account::tag::{AddTags, ControlTag, NamedDefinition, RemoveTags, Tag, TagKey};
use domain::change::{AccountChange, Change, FlagChange};
use domain::command::{AccountCommand, FlagCommand, TenantCommand};
use domain::flag::change_request::{
    ApplyChange, ChangeRequest, ChangeStatus, DecideChange, Decision, Judged, RequestChange, Seen,
};
use domain::flag::definition::{Definition, DefinitionKey, DefinitionKind};
use domain::flag::environment::{Environment, Secret, SecretKind, UpdateEnvironment};
use domain::object::{Object, ObjectType};
use domain::payment::{PaymentState, TransactionStatus, TransactionType};
use domain::reply::{AccessReply, AccountReply, FlagReply};
use domain::tenant::webhook::{DisableReason, DisabledEndpoint, SetWebhookEndpoints};
use domain::{
    AccessRejection, AccountId, AccountRejection, AmountMinor, Command, Currency, Event,
    FlagRejection, PaymentId, PaymentRejection, PaymentReply, PaymentResult, Rejection, Reply,
    Revision, Seq, TenantId, TenantNo, TenantRejection, TenantValueId, Timestamp,
    TransactionChange, TransactionId,
};
use expect_test::{Expect, expect};
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

#[path = "formats/billing.rs"]
mod billing;
#[path = "formats/combo.rs"]
mod combo;
#[path = "formats/control.rs"]
mod control;
#[path = "formats/customers.rs"]
mod customers;
#[path = "formats/disputes.rs"]
mod disputes;
#[path = "formats/entitlements.rs"]
mod entitlements;
#[path = "formats/methods.rs"]
mod methods;
#[path = "formats/objects.rs"]
mod objects;
#[path = "formats/usage.rs"]
mod usage;

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
fn events_of_tenants() {
    let value: TenantValueId = id(2);
    let key = "PUSH_NOTIFICATION_CB".to_owned();
    check(
        &Event::TenantConfigChanged { value, key: key.clone() },
        expect![[
            r#"{"TenantConfigChanged":{"value":"00000000-0000-0000-0000-000000000002","key":"PUSH_NOTIFICATION_CB"}}"#
        ]],
    );
    check(
        &Event::WebhookEndpointDisabled { endpoint: id(3), reason: DisableReason::Gone },
        expect![[
            r#"{"WebhookEndpointDisabled":{"endpoint":"00000000-0000-0000-0000-000000000003","reason":"Gone"}}"#
        ]],
    );
    let set = SetWebhookEndpoints {
        sealed: Some("sealed".to_owned()),
        read_at: Some(Seq(7)),
        disabled: Some(DisabledEndpoint { endpoint: id(3), reason: DisableReason::Failing }),
    };
    check(
        &Command::Tenant(TenantCommand::SetWebhookEndpoints(set)),
        expect![[
            r#"{"Tenant":{"SetWebhookEndpoints":{"sealed":"sealed","read_at":7,"disabled":{"endpoint":"00000000-0000-0000-0000-000000000003","reason":"Failing"}}}}"#
        ]],
    );
    check(
        &Event::TenantConfigDeleted { value, key },
        expect![[
            r#"{"TenantConfigDeleted":{"value":"00000000-0000-0000-0000-000000000002","key":"PUSH_NOTIFICATION_CB"}}"#
        ]],
    );
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
    check(
        &Event::AccountReleased { account },
        expect![[r#"{"AccountReleased":{"account":"00000000-0000-0000-0000-000000000001"}}"#]],
    );
    check(
        &Event::TagAdded {
            account,
            tag: id(9),
            definition: NamedDefinition::Control(ControlTag::AutoPayOff),
        },
        expect![[
            r#"{"TagAdded":{"account":"00000000-0000-0000-0000-000000000001","tag":"00000000-0000-0000-0000-000000000009","definition":"AutoPayOff"}}"#
        ]],
    );
    check(
        &Event::TagRemoved {
            account,
            tag: id(9),
            definition: NamedDefinition::Control(ControlTag::ManualPay),
        },
        expect![[
            r#"{"TagRemoved":{"account":"00000000-0000-0000-0000-000000000001","tag":"00000000-0000-0000-0000-000000000009","definition":"ManualPay"}}"#
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
        &Event::TransactionChanged(TransactionChange {
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
        }),
        expect![[
            r#"{"TransactionChanged":{"account":"00000000-0000-0000-0000-000000000001","payment":"00000000-0000-0000-0000-000000000003","transaction":"00000000-0000-0000-0000-000000000004","kind":"Purchase","before":"InFlight","status":"Success","gateway":"stripe","amount":1000,"currency":"USD","payment_currency":"USD","effective_at":1700000000000000}}"#
        ]],
    );
}

#[test]
fn a_reply_says_that_an_amount_is_not_taken() {
    let result = PaymentResult::AmountNotTaken { message: None };
    check(
        &Reply::Payment(PaymentReply { payment: id(4), transaction: id(5), result }),
        expect![[
            r#"{"Payment":{"payment":"00000000-0000-0000-0000-000000000004","transaction":"00000000-0000-0000-0000-000000000005","result":{"AmountNotTaken":{"message":null}}}}"#
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
    check(
        &Reply::Access(AccessReply::UserCreated("joe".to_owned())),
        expect![[r#"{"Access":{"UserCreated":"joe"}}"#]],
    );
    check(
        &Reply::Access(AccessReply::RoleCreated("clerk".to_owned())),
        expect![[r#"{"Access":{"RoleCreated":"clerk"}}"#]],
    );
    check(
        &Reply::Account(AccountReply::Created(id(2))),
        expect![[r#"{"Account":{"Created":"00000000-0000-0000-0000-000000000002"}}"#]],
    );
    check(
        &Reply::Account(AccountReply::PaymentMethodCreated(id(3))),
        expect![[r#"{"Account":{"PaymentMethodCreated":"00000000-0000-0000-0000-000000000003"}}"#]],
    );
    check(
        &Reply::Flag(FlagReply::EnvironmentCreated(id(6))),
        expect![[r#"{"Flag":{"EnvironmentCreated":"00000000-0000-0000-0000-000000000006"}}"#]],
    );
    check(
        &Reply::Flag(FlagReply::SecretAdded(id(7))),
        expect![[r#"{"Flag":{"SecretAdded":"00000000-0000-0000-0000-000000000007"}}"#]],
    );
    check(
        &Reply::Flag(FlagReply::DefinitionsPut { version: 1_700_000_000_000 }),
        expect![[r#"{"Flag":{"DefinitionsPut":{"version":1700000000000}}}"#]],
    );
    check(
        &Reply::Flag(FlagReply::ChangeRequested(id(8))),
        expect![[r#"{"Flag":{"ChangeRequested":"00000000-0000-0000-0000-000000000008"}}"#]],
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
        &Rejection::Tenant(TenantRejection::AlreadyExists { key: text() }),
        expect![[r#"{"Tenant":{"AlreadyExists":{"key":"x"}}}"#]],
    );
    check(
        &Rejection::Access(AccessRejection::UserAlreadyExists { username: text() }),
        expect![[r#"{"Access":{"UserAlreadyExists":{"username":"x"}}}"#]],
    );
    check(
        &Rejection::Access(AccessRejection::UserNotFound { username: text() }),
        expect![[r#"{"Access":{"UserNotFound":{"username":"x"}}}"#]],
    );
    check(
        &Rejection::Access(AccessRejection::RoleAlreadyExists { role: text() }),
        expect![[r#"{"Access":{"RoleAlreadyExists":{"role":"x"}}}"#]],
    );
    check(
        &Rejection::Access(AccessRejection::RoleNotFound { role: text() }),
        expect![[r#"{"Access":{"RoleNotFound":{"role":"x"}}}"#]],
    );
    check(
        &Rejection::Access(AccessRejection::PermissionInvalid { permission: text() }),
        expect![[r#"{"Access":{"PermissionInvalid":{"permission":"x"}}}"#]],
    );
}

#[test]
fn rejections_of_accounts() {
    let text = || "x".to_owned();
    check(
        &Rejection::Account(AccountRejection::AlreadyExists { key: text() }),
        expect![[r#"{"Account":{"AlreadyExists":{"key":"x"}}}"#]],
    );
    check(
        &Rejection::Account(AccountRejection::NotFound { id: id(1) }),
        expect![[r#"{"Account":{"NotFound":{"id":"00000000-0000-0000-0000-000000000001"}}}"#]],
    );
    check(
        &Rejection::Account(AccountRejection::KeyIsFixed { current: text() }),
        expect![[r#"{"Account":{"KeyIsFixed":{"current":"x"}}}"#]],
    );
    check(
        &Rejection::Account(AccountRejection::FieldIsFixed { field: text() }),
        expect![[r#"{"Account":{"FieldIsFixed":{"field":"x"}}}"#]],
    );
    check(
        &Rejection::Account(AccountRejection::TagDefinitionNotFound { id: id(1) }),
        expect![[
            r#"{"Account":{"TagDefinitionNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}}"#
        ]],
    );
    check(
        &Rejection::Account(AccountRejection::TagNotFound { name: text() }),
        expect![[r#"{"Account":{"TagNotFound":{"name":"x"}}}"#]],
    );
    check(
        &Rejection::Account(AccountRejection::TagNeedsDefaultMethod { name: text() }),
        expect![[r#"{"Account":{"TagNeedsDefaultMethod":{"name":"x"}}}"#]],
    );
    check(
        &Rejection::Account(AccountRejection::CustomFieldNotFound { id: id(1) }),
        expect![[
            r#"{"Account":{"CustomFieldNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}}"#
        ]],
    );
    check(
        &Rejection::Account(AccountRejection::CustomFieldNameIsFixed { id: id(1), name: text() }),
        expect![[
            r#"{"Account":{"CustomFieldNameIsFixed":{"id":"00000000-0000-0000-0000-000000000001","name":"x"}}}"#
        ]],
    );
    check(
        &Rejection::Account(AccountRejection::TooManyCustomFields),
        expect![[r#"{"Account":"TooManyCustomFields"}"#]],
    );
    check(
        &Rejection::Account(AccountRejection::TagNotApplicable {
            name: text(),
            on: ObjectType::Payment,
        }),
        expect![[r#"{"Account":{"TagNotApplicable":{"name":"x","on":"Payment"}}}"#]],
    );
}

#[test]
fn rejections_of_payment_methods() {
    check(
        &Rejection::Account(AccountRejection::PaymentMethodNotFound { id: id(1) }),
        expect![[
            r#"{"Account":{"PaymentMethodNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}}"#
        ]],
    );
    check(
        &Rejection::Account(AccountRejection::ExternalPaymentMethodExists { account: id(1) }),
        expect![[
            r#"{"Account":{"ExternalPaymentMethodExists":{"account":"00000000-0000-0000-0000-000000000001"}}}"#
        ]],
    );
    check(
        &Rejection::Account(AccountRejection::DefaultPaymentMethodInUse { account: id(1) }),
        expect![[
            r#"{"Account":{"DefaultPaymentMethodInUse":{"account":"00000000-0000-0000-0000-000000000001"}}}"#
        ]],
    );
}

#[test]
fn rejections_of_feature_flags() {
    let text = || "x".to_owned();
    check(
        &Rejection::Flag(FlagRejection::EnvironmentAlreadyExists { key: text() }),
        expect![[r#"{"Flag":{"EnvironmentAlreadyExists":{"key":"x"}}}"#]],
    );
    check(
        &Rejection::Flag(FlagRejection::EnvironmentNotFound { id: id(1) }),
        expect![[
            r#"{"Flag":{"EnvironmentNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}}"#
        ]],
    );
    check(
        &Rejection::Flag(FlagRejection::SecretNotFound { id: id(1) }),
        expect![[r#"{"Flag":{"SecretNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}}"#]],
    );
    check(
        &Rejection::Flag(FlagRejection::DefinitionChanged { key: text(), version: Some(7) }),
        expect![[r#"{"Flag":{"DefinitionChanged":{"key":"x","version":7}}}"#]],
    );
    check(
        &Rejection::Flag(FlagRejection::ApprovalNeeded { environment: text() }),
        expect![[r#"{"Flag":{"ApprovalNeeded":{"environment":"x"}}}"#]],
    );
    check(
        &Rejection::Flag(FlagRejection::ChangeNotFound { id: id(1) }),
        expect![[r#"{"Flag":{"ChangeNotFound":{"id":"00000000-0000-0000-0000-000000000001"}}}"#]],
    );
    check(
        &Rejection::Flag(FlagRejection::ChangeNotWaiting {
            id: id(1),
            status: ChangeStatus::Withdrawn,
        }),
        expect![[
            r#"{"Flag":{"ChangeNotWaiting":{"id":"00000000-0000-0000-0000-000000000001","status":"Withdrawn"}}}"#
        ]],
    );
    check(
        &Rejection::Flag(FlagRejection::ApprovalByAuthor { id: id(1) }),
        expect![[r#"{"Flag":{"ApprovalByAuthor":{"id":"00000000-0000-0000-0000-000000000001"}}}"#]],
    );
    check(
        &Rejection::Flag(FlagRejection::WithdrawalByAnother { id: id(1) }),
        expect![[
            r#"{"Flag":{"WithdrawalByAnother":{"id":"00000000-0000-0000-0000-000000000001"}}}"#
        ]],
    );
}

#[test]
fn tags() {
    let (account, definitions) = (id(1), vec![id(2)]);
    check(
        &Change::Account(AccountChange::Tag(Tag {
            tenant: TenantNo(1),
            key: TagKey::of_account(account, ControlTag::AutoPayOff),
            id: id(3),
            active: true,
            created_at: Timestamp(1),
            revision: Revision::first(Seq(9)),
        })),
        expect![[
            r#"{"Account":{"Tag":{"tenant":1,"key":{"account":"00000000-0000-0000-0000-000000000001","definition":"AutoPayOff"},"id":"00000000-0000-0000-0000-000000000003","active":true,"created_at":1,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    check(
        &Command::Account(AccountCommand::AddTags(AddTags {
            account,
            part: None,
            definitions: definitions.clone(),
        })),
        expect![[
            r#"{"Account":{"AddTags":{"account":"00000000-0000-0000-0000-000000000001","definitions":["00000000-0000-0000-0000-000000000002"]}}}"#
        ]],
    );
    check(
        &Command::Account(AccountCommand::RemoveTags(RemoveTags {
            account,
            part: Some(Object::Payment(id(3))),
            definitions,
        })),
        expect![[
            r#"{"Account":{"RemoveTags":{"account":"00000000-0000-0000-0000-000000000001","part":{"Payment":"00000000-0000-0000-0000-000000000003"},"definitions":["00000000-0000-0000-0000-000000000002"]}}}"#
        ]],
    );
    for it in domain::account::tag::CONTROL_TAGS {
        let written = serde_json::to_string(&it.tag).unwrap();
        assert_eq!(
            written.trim_matches('"').to_lowercase(),
            it.name.replace('_', "").to_lowercase()
        );
    }
}

/// The patch and the texts of people are in the table, and not in the journal as well.
#[test]
fn images_of_changes_that_are_kept() {
    let mut change = ChangeRequest {
        tenant: TenantNo(1),
        id: id(2),
        key: DefinitionKey { environment: id(1), kind: DefinitionKind::Flag, key: "a".to_owned() },
        patch: String::new(),
        expected: Some(7),
        due_at: Some(Timestamp(5)),
        author: "ann".to_owned(),
        reason: None,
        comment: None,
        status: ChangeStatus::Rejected,
        decided_by: Some("bob".to_owned()),
        explanation: None,
        version: None,
        created_at: Timestamp(1),
        settled_at: Some(Timestamp(6)),
        revision: Revision::first(Seq(9)),
    };
    check(
        &Change::Flag(FlagChange::ChangeRequest(change.clone())),
        expect![[
            r#"{"Flag":{"ChangeRequest":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","key":{"environment":"00000000-0000-0000-0000-000000000001","kind":"Flag","key":"a"},"expected":7,"due_at":5,"author":"ann","status":"Rejected","decided_by":"bob","version":null,"created_at":1,"settled_at":6,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    let without = serde_json::to_string(&change).unwrap();
    change.patch = "{}".to_owned();
    change.reason = Some("why".to_owned());
    change.comment = Some("at night".to_owned());
    change.explanation = Some("no".to_owned());
    assert_eq!(serde_json::to_string(&change).unwrap(), without);
    let environment = Environment {
        tenant: TenantNo(1),
        id: id(1),
        project: "default".to_owned(),
        key: "dev".to_owned(),
        name: "Dev".to_owned(),
        version: 7,
        definitions: 1,
        secrets: 2,
        changes_need_approval: true,
        definitions_bytes: 99,
        changes_waiting: 3,
        created_at: Timestamp(1),
        revision: Revision::first(Seq(9)),
    };
    check(
        &Change::Flag(FlagChange::Environment(environment)),
        expect![[
            r#"{"Flag":{"Environment":{"tenant":1,"id":"00000000-0000-0000-0000-000000000001","project":"default","key":"dev","name":"Dev","version":7,"definitions":1,"definitions_bytes":99,"secrets":2,"changes_need_approval":true,"changes_waiting":3,"created_at":1,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

fn key() -> DefinitionKey {
    DefinitionKey { environment: id(1), kind: DefinitionKind::Segment, key: "a".to_owned() }
}

/// As they go over the queue.
#[test]
fn commands_of_changes_that_are_kept() {
    check(
        &Command::Flag(FlagCommand::UpdateEnvironment(UpdateEnvironment {
            environment: id(1),
            name: Some("Dev".to_owned()),
            changes_need_approval: Some(true),
        })),
        expect![[
            r#"{"Flag":{"UpdateEnvironment":{"environment":"00000000-0000-0000-0000-000000000001","name":"Dev","changes_need_approval":true}}}"#
        ]],
    );
    check(
        &Command::Flag(FlagCommand::RequestChange(RequestChange {
            key: key(),
            patch: "{}".to_owned(),
            expected: Some(7),
            due_at: Some(Timestamp(5)),
            needs_approval: true,
        })),
        expect![[
            r#"{"Flag":{"RequestChange":{"key":{"environment":"00000000-0000-0000-0000-000000000001","kind":"Segment","key":"a"},"patch":"{}","expected":7,"due_at":5,"needs_approval":true}}}"#
        ]],
    );
    let (environment, change) = (id(1), id(2));
    let decide = |decision| {
        Command::Flag(FlagCommand::DecideChange(DecideChange {
            environment,
            change,
            decision,
            seen: None,
        }))
    };
    check(
        &decide(Decision::Approve),
        expect![[
            r#"{"Flag":{"DecideChange":{"environment":"00000000-0000-0000-0000-000000000001","change":"00000000-0000-0000-0000-000000000002","decision":"Approve","seen":null}}}"#
        ]],
    );
    check(
        &decide(Decision::Reject),
        expect![[
            r#"{"Flag":{"DecideChange":{"environment":"00000000-0000-0000-0000-000000000001","change":"00000000-0000-0000-0000-000000000002","decision":"Reject","seen":null}}}"#
        ]],
    );
    check(
        &decide(Decision::Withdraw),
        expect![[
            r#"{"Flag":{"DecideChange":{"environment":"00000000-0000-0000-0000-000000000001","change":"00000000-0000-0000-0000-000000000002","decision":"Withdraw","seen":null}}}"#
        ]],
    );
    let seen = Some(Seen { change: Seq(9), key: key(), version: Some(7) });
    let decision = Decision::Approve;
    check(
        &Command::Flag(FlagCommand::DecideChange(DecideChange {
            environment,
            change,
            decision,
            seen,
        })),
        expect![[
            r#"{"Flag":{"DecideChange":{"environment":"00000000-0000-0000-0000-000000000001","change":"00000000-0000-0000-0000-000000000002","decision":"Approve","seen":{"change":9,"key":{"environment":"00000000-0000-0000-0000-000000000001","kind":"Segment","key":"a"},"version":7}}}}"#
        ]],
    );
}

#[test]
fn commands_that_make_a_change() {
    let change = id(2);
    let apply = |judged| {
        Command::Flag(FlagCommand::ApplyChange(ApplyChange {
            change,
            key: key(),
            upon: Some(7),
            version: None,
            judged,
        }))
    };
    let body = "{}".to_owned();
    check(
        &apply(Judged::Fits { id: id(3), body, is_archived: true }),
        expect![[
            r#"{"Flag":{"ApplyChange":{"change":"00000000-0000-0000-0000-000000000002","key":{"environment":"00000000-0000-0000-0000-000000000001","kind":"Segment","key":"a"},"upon":7,"version":null,"judged":{"Fits":{"id":"00000000-0000-0000-0000-000000000003","body":"{}","is_archived":true}}}}}"#
        ]],
    );
    check(
        &apply(Judged::Fails { explanation: "no".to_owned() }),
        expect![[
            r#"{"Flag":{"ApplyChange":{"change":"00000000-0000-0000-0000-000000000002","key":{"environment":"00000000-0000-0000-0000-000000000001","kind":"Segment","key":"a"},"upon":7,"version":null,"judged":{"Fails":{"explanation":"no"}}}}}"#
        ]],
    );
}

#[test]
fn commands_that_delete_a_payment_method() {
    let it = |even_if_default, auto_pay_off| {
        let payment_method = id(1);
        let it = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
        Command::Account(AccountCommand::DeletePaymentMethod(it))
    };
    check(
        &it(true, None),
        expect![[
            r#"{"Account":{"DeletePaymentMethod":{"payment_method":"00000000-0000-0000-0000-000000000001","even_if_default":true,"auto_pay_off":null}}}"#
        ]],
    );
    check(
        &it(false, Some(id(2))),
        expect![[
            r#"{"Account":{"DeletePaymentMethod":{"payment_method":"00000000-0000-0000-0000-000000000001","even_if_default":false,"auto_pay_off":"00000000-0000-0000-0000-000000000002"}}}"#
        ]],
    );
    // As it was written before an account could be tagged with it.
    let old = r#"{"Account":{"DeletePaymentMethod":{"payment_method":"00000000-0000-0000-0000-000000000001","even_if_default":true}}}"#;
    assert_eq!(serde_json::from_str::<Command>(old).expect("what was written"), it(true, None));
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
        changes_need_approval: false,
        definitions_bytes: 0,
        changes_waiting: 0,
        created_at: at,
        revision,
    };
    check(
        &Change::Flag(FlagChange::Environment(environment)),
        expect![[
            r#"{"Flag":{"Environment":{"tenant":1,"id":"00000000-0000-0000-0000-000000000001","project":"default","key":"dev","name":"Dev","version":7,"definitions":1,"definitions_bytes":0,"secrets":2,"created_at":1,"revision":{"seq":9,"previous":null}}}}"#
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
        &Change::Flag(FlagChange::Secret(secret.clone())),
        expect![[
            r#"{"Flag":{"Secret":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","environment":"00000000-0000-0000-0000-000000000001","kind":"Server","name":"main","created_at":1,"expires_at":5,"revision":{"seq":9,"previous":null}}}}"#
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
        &Change::Flag(FlagChange::Definition(definition)),
        expect![[
            r#"{"Flag":{"Definition":{"tenant":1,"key":{"environment":"00000000-0000-0000-0000-000000000001","kind":"Flag","key":"a"},"id":"00000000-0000-0000-0000-000000000003","body":"{}","is_archived":false,"version":7,"created_at":1,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

#[test]
fn rejections_of_payments() {
    let text = || "x".to_owned();
    check(
        &Rejection::Payment(PaymentRejection::GatewayNotRegistered { gateway: text() }),
        expect![[r#"{"Payment":{"GatewayNotRegistered":{"gateway":"x"}}}"#]],
    );
    check(
        &Rejection::Payment(PaymentRejection::NotFound { payment: text() }),
        expect![[r#"{"Payment":{"NotFound":{"payment":"x"}}}"#]],
    );
    check(
        &Rejection::Payment(PaymentRejection::TransactionNotFound { transaction: text() }),
        expect![[r#"{"Payment":{"TransactionNotFound":{"transaction":"x"}}}"#]],
    );
    check(
        &Rejection::Payment(PaymentRejection::OfAnotherAccount { payment: text() }),
        expect![[r#"{"Payment":{"OfAnotherAccount":{"payment":"x"}}}"#]],
    );
    check(
        &Rejection::Payment(PaymentRejection::TransactionOfAnotherAccount { key: text() }),
        expect![[r#"{"Payment":{"TransactionOfAnotherAccount":{"key":"x"}}}"#]],
    );
    check(
        &Rejection::Payment(PaymentRejection::TransactionKeySucceeded { key: text() }),
        expect![[r#"{"Payment":{"TransactionKeySucceeded":{"key":"x"}}}"#]],
    );
    check(
        &Rejection::Payment(PaymentRejection::NoSuchSuccess { payment: id(1) }),
        expect![[
            r#"{"Payment":{"NoSuchSuccess":{"payment":"00000000-0000-0000-0000-000000000001"}}}"#
        ]],
    );
    let from = Some(PaymentState {
        operation: TransactionType::Authorize,
        status: TransactionStatus::Success,
    });
    let operation = TransactionType::Refund;
    check(
        &Rejection::Payment(PaymentRejection::InvalidTransition { operation, from }),
        expect![[
            r#"{"Payment":{"InvalidTransition":{"operation":"Refund","from":{"operation":"Authorize","status":"Success"}}}}"#
        ]],
    );
    check(
        &Rejection::Payment(PaymentRejection::InDoubt { payment: id(7), operation }),
        expect![[
            r#"{"Payment":{"InDoubt":{"payment":"00000000-0000-0000-0000-000000000007","operation":"Refund"}}}"#
        ]],
    );
    check(
        &Rejection::invalid("amount", "needs to be set"),
        expect![[r#"{"InvalidParameter":{"field":"amount","reason":"needs to be set"}}"#]],
    );
}
