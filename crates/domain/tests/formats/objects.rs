//! Custom fields, and tags of a tenant's own definitions.

use domain::account::blocking_state::{
    AddBlockingState, Blockable, BlockingState, Blocks, CloseAccount, ClosedTo,
};
use domain::account::custom_field::{
    AddCustomFields, CustomField, NewCustomField, NewValue, RemoveCustomFields, UpdateCustomFields,
};
use domain::account::email::{AccountEmail, ChangeAccountEmail};
use domain::account::tag::{
    CreateTagDefinition, DefinitionRef, NamedDefinition, TagDefinition, TagKey,
};
use domain::change::{AccountChange, Change, TenantChange};
use domain::command::{AccountCommand, TenantCommand};
use domain::object::Object;
use domain::payment::TransactionType;
use domain::{
    AccountRejection, Command, Event, Rejection, Reply, Revision, Seq, TenantNo, TenantRejection,
    Timestamp,
};
use expect_test::expect;

use crate::{check, id};

#[test]
fn custom_fields() {
    let account = id(1);
    check(
        &Event::CustomFieldAdded { account, field: id(9) },
        expect![[
            r#"{"CustomFieldAdded":{"account":"00000000-0000-0000-0000-000000000001","field":"00000000-0000-0000-0000-000000000009"}}"#
        ]],
    );
    check(
        &Event::CustomFieldRemoved { account, field: id(9) },
        expect![[
            r#"{"CustomFieldRemoved":{"account":"00000000-0000-0000-0000-000000000001","field":"00000000-0000-0000-0000-000000000009"}}"#
        ]],
    );
    let objects = [Object::Account(account), Object::PaymentMethod(id(2)), Object::Payment(id(3))];
    for (object, expected) in objects.into_iter().zip([
        expect![[r#"{"Account":"00000000-0000-0000-0000-000000000001"}"#]],
        expect![[r#"{"PaymentMethod":"00000000-0000-0000-0000-000000000002"}"#]],
        expect![[r#"{"Payment":"00000000-0000-0000-0000-000000000003"}"#]],
    ]) {
        check(&object, expected);
    }
    let billed = [
        Object::Bundle(id(2)),
        Object::Subscription(id(3)),
        Object::Invoice(id(4)),
        Object::InvoiceItem(id(5)),
    ];
    check(
        &billed,
        expect![[
            r#"[{"Bundle":"00000000-0000-0000-0000-000000000002"},{"Subscription":"00000000-0000-0000-0000-000000000003"},{"Invoice":"00000000-0000-0000-0000-000000000004"},{"InvoiceItem":"00000000-0000-0000-0000-000000000005"}]"#
        ]],
    );
    let object = Object::Transaction { payment: id(3), id: id(4) };
    check(
        &Change::Account(AccountChange::CustomField(CustomField {
            tenant: TenantNo(1),
            id: id(5),
            account,
            object,
            // Neither is written.
            name: String::new(),
            value: String::new(),
            ordinal: 1,
            active: true,
            created_at: Timestamp(1),
            updated_at: Timestamp(2),
            revision: Revision::first(Seq(9)),
        })),
        expect![[
            r#"{"Account":{"CustomField":{"tenant":1,"id":"00000000-0000-0000-0000-000000000005","account":"00000000-0000-0000-0000-000000000001","object":{"Transaction":{"payment":"00000000-0000-0000-0000-000000000003","id":"00000000-0000-0000-0000-000000000004"}},"ordinal":1,"active":true,"created_at":1,"updated_at":2,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
}

#[test]
fn commands_about_custom_fields() {
    let (account, object) = (id(1), Object::Payment(id(3)));
    let fields = vec![NewCustomField { name: "x".to_owned(), value: "x".to_owned() }];
    check(
        &Command::Account(AccountCommand::AddCustomFields(AddCustomFields {
            account,
            object,
            fields,
        })),
        expect![[
            r#"{"Account":{"AddCustomFields":{"account":"00000000-0000-0000-0000-000000000001","object":{"Payment":"00000000-0000-0000-0000-000000000003"},"fields":[{"name":"x","value":"x"}]}}}"#
        ]],
    );
    let fields = vec![NewValue { id: id(5), name: Some("x".to_owned()), value: "x".to_owned() }];
    check(
        &Command::Account(AccountCommand::UpdateCustomFields(UpdateCustomFields {
            account,
            object,
            fields,
        })),
        expect![[
            r#"{"Account":{"UpdateCustomFields":{"account":"00000000-0000-0000-0000-000000000001","object":{"Payment":"00000000-0000-0000-0000-000000000003"},"fields":[{"id":"00000000-0000-0000-0000-000000000005","name":"x","value":"x"}]}}}"#
        ]],
    );
    check(
        &Command::Account(AccountCommand::RemoveCustomFields(RemoveCustomFields {
            account,
            object,
            fields: vec![id(5)],
        })),
        expect![[
            r#"{"Account":{"RemoveCustomFields":{"account":"00000000-0000-0000-0000-000000000001","object":{"Payment":"00000000-0000-0000-0000-000000000003"},"fields":["00000000-0000-0000-0000-000000000005"]}}}"#
        ]],
    );
}

#[test]
fn tags_of_own_definitions() {
    let account = id(1);
    check(
        &Event::TagAdded {
            account,
            tag: id(9),
            definition: NamedDefinition::Own { id: id(2), name: "x".to_owned() },
        },
        expect![[
            r#"{"TagAdded":{"account":"00000000-0000-0000-0000-000000000001","tag":"00000000-0000-0000-0000-000000000009","definition":{"id":"00000000-0000-0000-0000-000000000002","name":"x"}}}"#
        ]],
    );
    check(
        &TagKey::new(account, Object::Payment(id(3)), DefinitionRef::Own(id(2))),
        expect![[
            r#"{"account":"00000000-0000-0000-0000-000000000001","part":{"Payment":"00000000-0000-0000-0000-000000000003"},"definition":"00000000-0000-0000-0000-000000000002"}"#
        ]],
    );
    check(
        &Change::Tenant(TenantChange::TagDefinition(TagDefinition {
            tenant: TenantNo(1),
            id: id(2),
            name: "x".to_owned(),
            description: "y".to_owned(),
            applies_to: vec!["ACCOUNT".to_owned()],
            active: true,
            created_at: Timestamp(1),
            revision: Revision::first(Seq(9)),
        })),
        expect![[
            r#"{"Tenant":{"TagDefinition":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","name":"x","description":"y","applies_to":["ACCOUNT"],"active":true,"created_at":1,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    check(
        &Command::Tenant(TenantCommand::DefineTag(CreateTagDefinition {
            name: "x".to_owned(),
            description: "y".to_owned(),
            applies_to: vec!["ACCOUNT".to_owned()],
        })),
        expect![[
            r#"{"Tenant":{"DefineTag":{"name":"x","description":"y","applies_to":["ACCOUNT"]}}}"#
        ]],
    );
    check(
        &Command::Tenant(TenantCommand::UndefineTag(id(2))),
        expect![[r#"{"Tenant":{"UndefineTag":"00000000-0000-0000-0000-000000000002"}}"#]],
    );
    check(
        &Reply::TagDefinitionCreated(id(2)),
        expect![[r#"{"TagDefinitionCreated":"00000000-0000-0000-0000-000000000002"}"#]],
    );
}

#[test]
fn refusals_about_definitions_of_tags() {
    let name = || "x".to_owned();
    let rejections = [
        (
            TenantRejection::TagDefinitionExists { name: name() },
            expect![[r#"{"TagDefinitionExists":{"name":"x"}}"#]],
        ),
        (
            TenantRejection::TagDefinitionReserved { name: name() },
            expect![[r#"{"TagDefinitionReserved":{"name":"x"}}"#]],
        ),
        (
            TenantRejection::TagDefinitionNotLowercase { name: name() },
            expect![[r#"{"TagDefinitionNotLowercase":{"name":"x"}}"#]],
        ),
        (
            TenantRejection::TagDefinitionInUse { id: id(2) },
            expect![[r#"{"TagDefinitionInUse":{"id":"00000000-0000-0000-0000-000000000002"}}"#]],
        ),
        (
            TenantRejection::TagDefinitionNotFound { id: id(2) },
            expect![[r#"{"TagDefinitionNotFound":{"id":"00000000-0000-0000-0000-000000000002"}}"#]],
        ),
    ];
    for (rejection, expected) in rejections {
        check(&rejection, expected);
    }
}

#[test]
fn further_addresses_of_accounts() {
    let account = id(1);
    check(
        &Change::Account(AccountChange::Email(AccountEmail {
            tenant: TenantNo(1),
            id: id(2),
            account,
            // It is not written.
            email: String::new(),
            active: true,
            created_at: Timestamp(1),
            revision: Revision::first(Seq(9)),
        })),
        expect![[
            r#"{"Account":{"Email":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account":"00000000-0000-0000-0000-000000000001","active":true,"created_at":1,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    let email = ChangeAccountEmail { account, email: "x".to_owned() };
    check(
        &Command::Account(AccountCommand::AddEmail(email.clone())),
        expect![[
            r#"{"Account":{"AddEmail":{"account":"00000000-0000-0000-0000-000000000001","email":"x"}}}"#
        ]],
    );
    check(
        &Command::Account(AccountCommand::RemoveEmail(email)),
        expect![[
            r#"{"Account":{"RemoveEmail":{"account":"00000000-0000-0000-0000-000000000001","email":"x"}}}"#
        ]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "the text of each format")]
fn blocking_states_of_accounts() {
    let account = id(1);
    let blocks = Blocks { change: true, entitlement: false, billing: true };
    let [service, name] = ["s", "n"].map(str::to_owned);
    let state = BlockingState {
        tenant: TenantNo(1),
        id: id(2),
        account,
        of: Blockable::Account,
        ordinal: 3,
        service: service.clone(),
        name: name.clone(),
        blocks,
        effective_at: Timestamp(5),
        active: true,
        created_at: Timestamp(6),
        revision: Revision::first(Seq(9)),
    };
    check(
        &Change::Account(AccountChange::BlockingState(state)),
        expect![[
            r#"{"Account":{"BlockingState":{"tenant":1,"id":"00000000-0000-0000-0000-000000000002","account":"00000000-0000-0000-0000-000000000001","ordinal":3,"service":"s","name":"n","blocks":{"change":true,"entitlement":false,"billing":true},"effective_at":5,"active":true,"created_at":6,"revision":{"seq":9,"previous":null}}}}"#
        ]],
    );
    check(
        &Event::BlockingStateAdded {
            account,
            of: Blockable::Account,
            state: id(2),
            service: service.clone(),
            name: name.clone(),
            effective_at: Timestamp(5),
            before: Blocks::default(),
            after: blocks,
        },
        expect![[
            r#"{"BlockingStateAdded":{"account":"00000000-0000-0000-0000-000000000001","state":"00000000-0000-0000-0000-000000000002","service":"s","name":"n","effective_at":5,"before":{"change":false,"entitlement":false,"billing":false},"after":{"change":true,"entitlement":false,"billing":true}}}"#
        ]],
    );
    let close =
        CloseAccount { account, remove_future_notifications: true, cancel_subscriptions: false };
    check(
        &Command::Account(AccountCommand::Close(close)),
        expect![[
            r#"{"Account":{"Close":{"account":"00000000-0000-0000-0000-000000000001","remove_future_notifications":true}}}"#
        ]],
    );
    let effective_at = Some(Timestamp(5));
    let of = Blockable::Account;
    let add = AddBlockingState { account, of, service, name, blocks, effective_at };
    check(
        &Command::Account(AccountCommand::AddBlockingState(add)),
        expect![[
            r#"{"Account":{"AddBlockingState":{"account":"00000000-0000-0000-0000-000000000001","service":"s","name":"n","blocks":{"change":true,"entitlement":false,"billing":true},"effective_at":5}}}"#
        ]],
    );
    for (to, expected) in [
        (
            ClosedTo::Payment(TransactionType::Purchase),
            expect![[
                r#"{"Account":{"Closed":{"account":"00000000-0000-0000-0000-000000000001","to":{"Payment":"Purchase"}}}}"#
            ]],
        ),
        (
            ClosedTo::PaymentMethod,
            expect![[
                r#"{"Account":{"Closed":{"account":"00000000-0000-0000-0000-000000000001","to":"PaymentMethod"}}}"#
            ]],
        ),
    ] {
        check(&Rejection::Account(AccountRejection::Closed { account, to }), expected);
    }
}
