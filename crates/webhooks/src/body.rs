//! The body of a push notification: Kill Bill's JSON for an event.

use bytes::Bytes;
use domain::account::blocking_state::{Blockable, ENTITLEMENT_SERVICE};
use domain::account::tag::NamedDefinition;
use domain::payment::{TransactionStatus, TransactionType};
use domain::{
    AccountId, AmountMinor, Currency, CustomFieldId, Event, TagId, TenantValueId, TransactionChange,
};
use engine::time::rfc3339_second;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::billing::{self, plain};

/// The body for an event; `None` for an event that is not notified.
#[must_use]
pub fn body(event: &Event) -> Option<Bytes> {
    let notification = match event {
        Event::AccountCreated { account } => Notification::of_account("ACCOUNT_CREATION", account),
        Event::AccountChanged { account } => Notification::of_account("ACCOUNT_CHANGE", account),
        Event::TenantConfigChanged { value, key } => {
            Notification::of_config("TENANT_CONFIG_CHANGE", value, key)
        }
        Event::TenantConfigDeleted { value, key } => {
            Notification::of_config("TENANT_CONFIG_DELETION", value, key)
        }
        Event::TagAdded { account, tag, definition } => {
            Notification::of_tag("TAG_CREATION", account, (tag, definition))
        }
        Event::TagRemoved { account, tag, definition } => {
            Notification::of_tag("TAG_DELETION", account, (tag, definition))
        }
        Event::CustomFieldAdded { account, field } => {
            Notification::of_custom_field("CUSTOM_FIELD_CREATION", account, field)
        }
        Event::CustomFieldRemoved { account, field } => {
            Notification::of_custom_field("CUSTOM_FIELD_DELETION", account, field)
        }
        Event::BlockingStateAdded { .. } => of_blocking_state(event)?,
        Event::TransactionChanged(it) => of_transaction(it)?,
        Event::SubscriptionChanged { account, .. }
        | Event::InvoiceCreated { account, .. }
        | Event::InvoiceAdjusted { account, .. }
        | Event::InvoicePaid { account, .. }
        | Event::InvoiceUpcoming { account, .. } => {
            let (event_type, object_type, object_id) = billing::killbill_event(event)?;
            let of_account = Notification::of_account(event_type, account);
            let meta_data = billing::meta_data(event);
            Notification { object_type, object_id, meta_data, ..of_account }
        }
        // Kill Bill does not have these events.
        Event::AccountReleased { .. }
        | Event::WebhookEndpointDisabled { .. }
        | Event::LateSuccess { .. }
        | Event::DisputeChanged { .. }
        | Event::DisputeExcess { .. }
        | Event::DisputeEvidenceDue { .. }
        | Event::PurchaseChanged { .. }
        | Event::EntitlementsGranted { .. }
        | Event::EntitlementsRevoked { .. }
        | Event::EntitlementsExpired { .. }
        | Event::EntitlementsChanged { .. }
        | Event::LimitReached { .. }
        | Event::AccountParked { .. }
        | Event::CustomerRegistered { .. }
        | Event::CustomerVerified { .. }
        | Event::CustomerChanged { .. }
        | Event::CustomerErased { .. }
        | Event::EnvironmentChanged { .. }
        | Event::DefinitionsChanged { .. } => return None,
    };
    Some(json(&notification).into())
}

fn of_blocking_state(event: &Event) -> Option<Notification> {
    let Event::BlockingStateAdded {
        account, of, service, name, effective_at, before, after, ..
    } = event
    else {
        return None;
    };
    let about = |event| Notification {
        object_type: object_type(*of),
        object_id: Some(of.id(*account).to_string()),
        ..Notification::of_account(event, account)
    };
    // Its states are events of their own in Kill Bill, without meta data.
    if service == ENTITLEMENT_SERVICE {
        return Some(about(entitlement_event(name)?));
    }
    let meta_data = BlockingStateMetaData {
        blockable_id: of.id(*account).to_string(),
        service,
        state_name: name,
        blocking_type: of.type_name(),
        effective_date: rfc3339_second(*effective_at),
        transitioned_to_blocked_billing: !before.billing && after.billing,
        transitioned_to_unblocked_billing: before.billing && !after.billing,
        transitioned_to_blocked_entitlement: !before.entitlement && after.entitlement,
        transitioned_to_unblocked_entitlement: before.entitlement && !after.entitlement,
    };
    Some(Notification { meta_data: Some(json(&meta_data)), ..about("BLOCKING_STATE") })
}

/// The type of what a state is of, among Kill Bill's types of objects.
const fn object_type(of: Blockable) -> &'static str {
    match of {
        Blockable::Account => "ACCOUNT",
        Blockable::Bundle(_) => "BUNDLE",
        Blockable::Subscription(_) => "SUBSCRIPTION",
    }
}

/// The event of a state of [`ENTITLEMENT_SERVICE`]; `None` for a state that Kill Bill posts nothing of.
fn entitlement_event(state: &str) -> Option<&'static str> {
    match state {
        "ENT_STARTED" => Some("ENTITLEMENT_CREATION"),
        "ENT_BLOCKED" => Some("BUNDLE_PAUSE"),
        "ENT_CLEAR" => Some("BUNDLE_RESUME"),
        "ENT_CANCELLED" => Some("ENTITLEMENT_CANCEL"),
        _ => None,
    }
}

fn of_transaction(it: &TransactionChange) -> Option<Notification> {
    let result = result_of(it.kind, it.status)?;
    let (amount, currency) = match (it.kind, result.succeeded) {
        // Kill Bill books a reversal as a chargeback that failed, without amount and currency.
        (TransactionType::ChargebackReversal, _) => (AmountMinor::ZERO, None),
        (
            TransactionType::Authorize
            | TransactionType::Capture
            | TransactionType::Purchase
            | TransactionType::Refund
            | TransactionType::Credit
            | TransactionType::Void
            | TransactionType::Chargeback,
            succeeded,
        ) => (if succeeded { it.amount } else { AmountMinor::ZERO }, it.currency),
    };
    let meta_data = TransactionMetaData {
        payment_transaction_id: it.transaction.to_string(),
        amount: plain(amount, it.payment_currency),
        currency: currency.as_ref().map(Currency::code),
        status: result.status,
        transaction_type: it.kind.killbill_name(),
        effective_date: rfc3339_second(it.effective_at),
    };
    Some(Notification {
        event_type: if result.succeeded { "PAYMENT_SUCCESS" } else { "PAYMENT_FAILED" },
        account_id: Some(it.account.to_string()),
        object_type: "PAYMENT",
        object_id: Some(it.payment.to_string()),
        meta_data: Some(json(&meta_data)),
    })
}

struct TransactionResult {
    succeeded: bool,
    status: &'static str,
}

/// The result in Kill Bill's terms; `None` for a transaction that is not notified yet. As in Kill
/// Bill, a pending transaction counts as a success.
const fn result_of(kind: TransactionType, status: TransactionStatus) -> Option<TransactionResult> {
    let (succeeded, status) = match (kind, status) {
        (_, TransactionStatus::InFlight) => return None,
        (TransactionType::ChargebackReversal, TransactionStatus::Success) => {
            (false, "PAYMENT_FAILURE")
        }
        (_, TransactionStatus::Success) => (true, "SUCCESS"),
        (_, TransactionStatus::Pending) => (true, "PENDING"),
        (_, TransactionStatus::PaymentFailure) => (false, "PAYMENT_FAILURE"),
        (_, TransactionStatus::PluginFailure) => (false, "PLUGIN_FAILURE"),
        (_, TransactionStatus::Unknown) => (false, "UNKNOWN"),
    };
    Some(TransactionResult { succeeded, status })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("structs of strings and numbers can be serialized")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Notification {
    event_type: &'static str,
    account_id: Option<String>,
    object_type: &'static str,
    /// `None`: there is no such object yet.
    object_id: Option<String>,
    meta_data: Option<String>,
}

impl Notification {
    fn of_account(event_type: &'static str, account: &AccountId) -> Self {
        Self {
            event_type,
            account_id: Some(account.to_string()),
            object_type: "ACCOUNT",
            object_id: Some(account.to_string()),
            meta_data: None,
        }
    }

    fn of_config(event_type: &'static str, value: &TenantValueId, key: &str) -> Self {
        Self {
            event_type,
            account_id: None,
            object_type: "TENANT_KVS",
            object_id: Some(value.to_string()),
            meta_data: Some(json(&ConfigMetaData { key })),
        }
    }

    fn of_tag(
        event_type: &'static str,
        account: &AccountId,
        (tag, definition): (&TagId, &NamedDefinition),
    ) -> Self {
        let tag_definition_name = definition.name();
        Self {
            event_type,
            account_id: Some(account.to_string()),
            object_type: "TAG",
            object_id: Some(tag.to_string()),
            meta_data: Some(json(&TagMetaData { tag_definition_name })),
        }
    }

    /// Without the field's name, which may say something of a person.
    fn of_custom_field(
        event_type: &'static str,
        account: &AccountId,
        field: &CustomFieldId,
    ) -> Self {
        Self {
            event_type,
            account_id: Some(account.to_string()),
            object_type: "CUSTOM_FIELD",
            object_id: Some(field.to_string()),
            meta_data: None,
        }
    }
}

#[derive(Serialize)]
struct ConfigMetaData<'a> {
    key: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TagMetaData<'a> {
    tag_definition_name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TransactionMetaData<'a> {
    payment_transaction_id: String,
    amount: Box<RawValue>,
    currency: Option<&'a str>,
    status: &'static str,
    transaction_type: &'static str,
    effective_date: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockingStateMetaData<'a> {
    blockable_id: String,
    service: &'a str,
    state_name: &'a str,
    blocking_type: &'static str,
    effective_date: String,
    transitioned_to_blocked_billing: bool,
    transitioned_to_unblocked_billing: bool,
    transitioned_to_blocked_entitlement: bool,
    transitioned_to_unblocked_entitlement: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::tests::transaction_change;
    use domain::account::blocking_state::Blocks;
    use domain::{PaymentId, TenantValueId, Timestamp, TransactionId};
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use TransactionStatus as S;
    use TransactionType as T;

    fn id(last: u128) -> Uuid {
        Uuid::from_u128(0x0192_aabb_ccdd_7000_8000_0000_0000_0000 + last)
    }

    fn transaction(kind: T, status: S, minor: i64, code: Option<&str>) -> Event {
        let currency = code.map(|code| Currency::parse(code).unwrap());
        Event::TransactionChanged(TransactionChange {
            account: AccountId::new(id(1)),
            payment: PaymentId::new(id(2)),
            transaction: TransactionId::new(id(3)),
            amount: AmountMinor(minor),
            currency,
            payment_currency: currency.unwrap_or(Currency::parse("USD").unwrap()),
            ..transaction_change(status, kind)
        })
    }

    fn check(event: &Event, expected: Expect) {
        let body = body(event).map(|body| String::from_utf8(body.to_vec()).unwrap());
        expected.assert_eq(body.as_deref().unwrap_or("nothing"));
    }

    /// The event's type and its meta data from `amount` to `transactionType`.
    fn short(event: &Event) -> String {
        let Some(body) = body(event) else { return "nothing".to_owned() };
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let meta = body["metaData"].as_str().unwrap();
        let from = meta.find("\"amount\"").unwrap();
        let to = meta.find(",\"effectiveDate\"").unwrap();
        format!("{} {}", body["eventType"].as_str().unwrap(), &meta[from..to])
    }

    #[test]
    fn bodies_equal_those_of_kill_bill() {
        let account = AccountId::new(id(1));
        check(
            &Event::AccountCreated { account },
            expect![[
                r#"{"eventType":"ACCOUNT_CREATION","accountId":"0192aabb-ccdd-7000-8000-000000000001","objectType":"ACCOUNT","objectId":"0192aabb-ccdd-7000-8000-000000000001","metaData":null}"#
            ]],
        );
        check(
            &Event::AccountChanged { account },
            expect![[
                r#"{"eventType":"ACCOUNT_CHANGE","accountId":"0192aabb-ccdd-7000-8000-000000000001","objectType":"ACCOUNT","objectId":"0192aabb-ccdd-7000-8000-000000000001","metaData":null}"#
            ]],
        );
        let tag = TagId::new(id(8));
        let definition = || NamedDefinition::Control(domain::account::tag::ControlTag::AutoPayOff);
        check(
            &Event::TagAdded { account, tag, definition: definition() },
            expect![[
                r#"{"eventType":"TAG_CREATION","accountId":"0192aabb-ccdd-7000-8000-000000000001","objectType":"TAG","objectId":"0192aabb-ccdd-7000-8000-000000000008","metaData":"{\"tagDefinitionName\":\"AUTO_PAY_OFF\"}"}"#
            ]],
        );
        check(
            &Event::TagRemoved { account, tag, definition: definition() },
            expect![[
                r#"{"eventType":"TAG_DELETION","accountId":"0192aabb-ccdd-7000-8000-000000000001","objectType":"TAG","objectId":"0192aabb-ccdd-7000-8000-000000000008","metaData":"{\"tagDefinitionName\":\"AUTO_PAY_OFF\"}"}"#
            ]],
        );
        let block = |before, after| Event::BlockingStateAdded {
            account,
            of: Blockable::Account,
            state: domain::BlockingStateId::new(id(7)),
            service: "overdue-service".to_owned(),
            name: "OD1".to_owned(),
            effective_at: Timestamp(1_795_174_252_987_654),
            before,
            after,
        };
        let blocks = |entitlement, billing| Blocks { change: false, entitlement, billing };
        check(
            &block(blocks(false, true), blocks(true, true)),
            expect![[
                r#"{"eventType":"BLOCKING_STATE","accountId":"0192aabb-ccdd-7000-8000-000000000001","objectType":"ACCOUNT","objectId":"0192aabb-ccdd-7000-8000-000000000001","metaData":"{\"blockableId\":\"0192aabb-ccdd-7000-8000-000000000001\",\"service\":\"overdue-service\",\"stateName\":\"OD1\",\"blockingType\":\"ACCOUNT\",\"effectiveDate\":\"2026-11-20T11:30:52.000Z\",\"transitionedToBlockedBilling\":false,\"transitionedToUnblockedBilling\":false,\"transitionedToBlockedEntitlement\":true,\"transitionedToUnblockedEntitlement\":false}"}"#
            ]],
        );
        check(
            &block(blocks(true, false), blocks(false, true)),
            expect![[
                r#"{"eventType":"BLOCKING_STATE","accountId":"0192aabb-ccdd-7000-8000-000000000001","objectType":"ACCOUNT","objectId":"0192aabb-ccdd-7000-8000-000000000001","metaData":"{\"blockableId\":\"0192aabb-ccdd-7000-8000-000000000001\",\"service\":\"overdue-service\",\"stateName\":\"OD1\",\"blockingType\":\"ACCOUNT\",\"effectiveDate\":\"2026-11-20T11:30:52.000Z\",\"transitionedToBlockedBilling\":true,\"transitionedToUnblockedBilling\":false,\"transitionedToBlockedEntitlement\":false,\"transitionedToUnblockedEntitlement\":true}"}"#
            ]],
        );
        let value = TenantValueId::new(id(9));
        check(
            &Event::TenantConfigChanged { value, key: "PUSH_NOTIFICATION_CB".to_owned() },
            expect![[
                r#"{"eventType":"TENANT_CONFIG_CHANGE","accountId":null,"objectType":"TENANT_KVS","objectId":"0192aabb-ccdd-7000-8000-000000000009","metaData":"{\"key\":\"PUSH_NOTIFICATION_CB\"}"}"#
            ]],
        );
        check(
            &transaction(T::Purchase, S::Success, 1_000, Some("USD")),
            expect![[
                r#"{"eventType":"PAYMENT_SUCCESS","accountId":"0192aabb-ccdd-7000-8000-000000000001","objectType":"PAYMENT","objectId":"0192aabb-ccdd-7000-8000-000000000002","metaData":"{\"paymentTransactionId\":\"0192aabb-ccdd-7000-8000-000000000003\",\"amount\":10,\"currency\":\"USD\",\"status\":\"SUCCESS\",\"transactionType\":\"PURCHASE\",\"effectiveDate\":\"2026-11-20T11:30:52.000Z\"}"}"#
            ]],
        );
    }

    #[test]
    fn states_of_the_entitlement_service_are_events_of_their_own() {
        let account = AccountId::new(id(1));
        let blocks = Blocks { change: false, entitlement: false, billing: false };
        let shown = |name: &str| {
            let event = Event::BlockingStateAdded {
                account,
                of: Blockable::Account,
                state: domain::BlockingStateId::new(id(7)),
                service: ENTITLEMENT_SERVICE.to_owned(),
                name: name.to_owned(),
                effective_at: Timestamp(0),
                before: blocks,
                after: blocks,
            };
            let Some(body) = body(&event) else { return "nothing".to_owned() };
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            format!("{} {} {}", body["eventType"], body["objectType"], body["metaData"])
        };
        let names = ["ENT_STARTED", "ENT_BLOCKED", "ENT_CLEAR", "ENT_CANCELLED", "ENT_ODD"];
        expect![[r#"
            "ENTITLEMENT_CREATION" "ACCOUNT" null
            "BUNDLE_PAUSE" "ACCOUNT" null
            "BUNDLE_RESUME" "ACCOUNT" null
            "ENTITLEMENT_CANCEL" "ACCOUNT" null
            nothing"#]]
        .assert_eq(&names.map(shown).join("\n"));
    }

    #[test]
    fn statuses_map_to_those_of_kill_bill() {
        let body_of = |kind, status, minor, code| short(&transaction(kind, status, minor, code));
        let all = [
            body_of(T::Purchase, S::InFlight, 0, Some("USD")),
            body_of(T::Purchase, S::Pending, 550, Some("USD")),
            body_of(T::Purchase, S::PaymentFailure, 500, Some("USD")),
            body_of(T::Purchase, S::PluginFailure, 0, Some("USD")),
            body_of(T::Capture, S::Unknown, 0, Some("JPY")),
            body_of(T::Refund, S::Success, 1_234, Some("KWD")),
            body_of(T::Credit, S::Success, 100, Some("JPY")),
            body_of(T::Authorize, S::Success, 5, Some("USD")),
            body_of(T::Void, S::Success, 0, None),
            body_of(T::Chargeback, S::Success, 100, Some("USD")),
            body_of(T::ChargebackReversal, S::Success, 100, Some("USD")),
        ];
        expect![[r#"
            nothing
            PAYMENT_SUCCESS "amount":5.5,"currency":"USD","status":"PENDING","transactionType":"PURCHASE"
            PAYMENT_FAILED "amount":0,"currency":"USD","status":"PAYMENT_FAILURE","transactionType":"PURCHASE"
            PAYMENT_FAILED "amount":0,"currency":"USD","status":"PLUGIN_FAILURE","transactionType":"PURCHASE"
            PAYMENT_FAILED "amount":0,"currency":"JPY","status":"UNKNOWN","transactionType":"CAPTURE"
            PAYMENT_SUCCESS "amount":1.234,"currency":"KWD","status":"SUCCESS","transactionType":"REFUND"
            PAYMENT_SUCCESS "amount":100,"currency":"JPY","status":"SUCCESS","transactionType":"CREDIT"
            PAYMENT_SUCCESS "amount":0.05,"currency":"USD","status":"SUCCESS","transactionType":"AUTHORIZE"
            PAYMENT_SUCCESS "amount":0,"currency":null,"status":"SUCCESS","transactionType":"VOID"
            PAYMENT_SUCCESS "amount":1,"currency":"USD","status":"SUCCESS","transactionType":"CHARGEBACK"
            PAYMENT_FAILED "amount":0,"currency":null,"status":"PAYMENT_FAILURE","transactionType":"CHARGEBACK""#]]
        .assert_eq(&all.join("\n"));
    }
}
