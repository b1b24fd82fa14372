//! Events as webhooks have them: their types, ids and sequence numbers, and the body of Standard Webhooks.

use bytes::Bytes;
use domain::entitlement::EntitledFeature;
use domain::entitlement::purchase::PurchaseStatus;
use domain::payment::TransactionStatus;
use domain::{AccountId, Currency, Event, PaymentId, Seq, TransactionId, WebhookEndpointId};
use engine::entitlements::value_json;
use engine::ports::{CALLBACK, JournalRow};
use engine::time::rfc3339;
use serde::Serialize;
use serde_json::{Value, json};

use crate::billing;

/// Every type of events, by group.
pub const EVENT_TYPES: &[&str] = &[
    "account.created",
    "account.changed",
    "account.released",
    "account.blocking-state-added",
    "account.entitlements",
    "account.parked",
    "customer.registered",
    "customer.verified",
    "customer.changed",
    "customer.erased",
    "custom-field.added",
    "custom-field.removed",
    "dispute.created",
    "dispute.changed",
    "dispute.excess",
    "dispute.evidence-due",
    "entitlement.granted",
    "entitlement.revoked",
    "entitlement.expired",
    "entitlement.limit_reached",
    "flags.environment-changed",
    "flags.changed",
    "invoice.adjusted",
    "invoice.created",
    "invoice.paid",
    "invoice.payment-failed",
    "invoice.upcoming",
    "payment.succeeded",
    "payment.pending",
    "payment.failed",
    "payment.unknown",
    "purchase.pending",
    "purchase.failed",
    "purchase.active",
    "purchase.returned",
    "purchase.duplicate",
    "purchase.closed",
    "subscription.requested",
    "subscription.created",
    "subscription.entitled",
    "subscription.phase",
    "subscription.changed",
    "subscription.cancelled",
    "subscription.entitlement-ended",
    "subscription.uncancelled",
    "subscription.expired",
    "tag.added",
    "tag.removed",
    "tenant.config-changed",
    "tenant.config-deleted",
    "webhook.endpoint-disabled",
];

/// The prefix of an event's id.
const ID_PREFIX: &str = "evt_";
/// The digits of a journal row, and those of an event's place in it; hexadecimal.
const ID_DIGITS: (usize, usize) = (16, 4);

/// How many sequence numbers a journal row has. With 6,000 rows in a second they fit into 53 bits, as JavaScript
/// needs it, for eleven years.
const SEQUENCE_PER_ROW: i64 = 4_096;

/// An event of the journal: the `ordinal`-th of a row.
#[derive(Clone, Copy)]
pub struct EventOfRow<'a> {
    pub row: &'a JournalRow,
    pub ordinal: u16,
    pub event: &'a Event,
    /// One of [`EVENT_TYPES`].
    pub kind: &'static str,
}

/// The events of a row that webhooks tell of.
pub fn events_of(row: &JournalRow) -> impl Iterator<Item = EventOfRow<'_>> {
    (0..row.events.len()).filter_map(|at| event_of(row, u16::try_from(at).ok()?))
}

/// An event of a row; `None` where there is none, or webhooks do not tell of it.
#[must_use]
pub fn event_of(row: &JournalRow, ordinal: u16) -> Option<EventOfRow<'_>> {
    let event = row.events.get(usize::from(ordinal))?;
    Some(EventOfRow { row, ordinal, event, kind: event_type(event)? })
}

/// The type of an event; `None` for one that webhooks do not tell of: a transaction that is in flight, and that
/// a try beside a later one has succeeded, of which the transaction itself tells.
#[must_use]
pub const fn event_type(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::AccountCreated { .. } => "account.created",
        Event::AccountChanged { .. } => "account.changed",
        Event::AccountReleased { .. } => "account.released",
        Event::BlockingStateAdded { .. } => "account.blocking-state-added",
        Event::CustomerRegistered { .. } => "customer.registered",
        Event::CustomerVerified { .. } => "customer.verified",
        Event::CustomerChanged { .. } => "customer.changed",
        Event::CustomerErased { .. } => "customer.erased",
        Event::CustomFieldAdded { .. } => "custom-field.added",
        Event::CustomFieldRemoved { .. } => "custom-field.removed",
        Event::EnvironmentChanged { .. } => "flags.environment-changed",
        Event::DefinitionsChanged { .. } => "flags.changed",
        Event::TagAdded { .. } => "tag.added",
        Event::TagRemoved { .. } => "tag.removed",
        Event::TenantConfigChanged { .. } => "tenant.config-changed",
        Event::TenantConfigDeleted { .. } => "tenant.config-deleted",
        Event::WebhookEndpointDisabled { .. } => "webhook.endpoint-disabled",
        Event::DisputeChanged { before: None, .. } => "dispute.created",
        Event::DisputeChanged { before: Some(_), .. } => "dispute.changed",
        Event::DisputeExcess { .. } => "dispute.excess",
        Event::DisputeEvidenceDue { .. } => "dispute.evidence-due",
        Event::EntitlementsGranted { .. } => "entitlement.granted",
        Event::EntitlementsRevoked { .. } => "entitlement.revoked",
        Event::EntitlementsExpired { .. } => "entitlement.expired",
        Event::LimitReached { .. } => "entitlement.limit_reached",
        Event::EntitlementsChanged { .. } => "account.entitlements",
        Event::PurchaseChanged { status, .. } => match status {
            PurchaseStatus::Pending => "purchase.pending",
            PurchaseStatus::Failed => "purchase.failed",
            PurchaseStatus::Active => "purchase.active",
            PurchaseStatus::Returned => "purchase.returned",
            PurchaseStatus::Duplicate => "purchase.duplicate",
            PurchaseStatus::Closed => "purchase.closed",
        },
        Event::SubscriptionChanged { step, is_in_effect, .. } => {
            billing::subscription_type(*step, *is_in_effect)
        }
        Event::InvoiceCreated { .. } => "invoice.created",
        Event::InvoiceAdjusted { .. } => "invoice.adjusted",
        Event::InvoicePaid { is_paid: true, .. } => "invoice.paid",
        Event::InvoicePaid { is_paid: false, .. } => "invoice.payment-failed",
        Event::InvoiceUpcoming { .. } => "invoice.upcoming",
        Event::AccountParked { .. } => "account.parked",
        Event::LateSuccess { .. } => return None,
        Event::TransactionChanged(it) => match it.status {
            TransactionStatus::InFlight => return None,
            TransactionStatus::Success => "payment.succeeded",
            TransactionStatus::Pending => "payment.pending",
            TransactionStatus::PaymentFailure | TransactionStatus::PluginFailure => {
                "payment.failed"
            }
            TransactionStatus::Unknown => "payment.unknown",
        },
    })
}

/// The id of an event: the same for every endpoint, try and replay.
#[must_use]
pub fn event_id(seq: Seq, ordinal: u16) -> String {
    format!("{ID_PREFIX}{:016x}{ordinal:04x}", seq.0)
}

/// The place in the journal of an event with this id; `None` where the text is no id.
#[must_use]
pub fn parse_event_id(id: &str) -> Option<(Seq, u16)> {
    let digits = id.strip_prefix(ID_PREFIX)?;
    let is_sound = digits.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it));
    if !is_sound || digits.len() != ID_DIGITS.0 + ID_DIGITS.1 {
        return None;
    }
    let (seq, ordinal) = digits.split_at(ID_DIGITS.0);
    let seq = i64::from_str_radix(seq, 16).ok()?;
    Some((Seq(seq), u16::from_str_radix(ordinal, 16).ok()?))
}

/// A number that grows from one event of an account to the next. There are gaps.
#[must_use]
pub fn sequence(seq: Seq, ordinal: u16) -> i64 {
    let number = seq.0 - seq.partition().start().0;
    number * SEQUENCE_PER_ROW + i64::from(ordinal).min(SEQUENCE_PER_ROW - 1)
}

impl EventOfRow<'_> {
    /// See [`event_id`].
    #[must_use]
    pub fn id(&self) -> String {
        event_id(self.row.seq, self.ordinal)
    }

    /// See [`sequence`].
    #[must_use]
    pub fn sequence(&self) -> i64 {
        sequence(self.row.seq, self.ordinal)
    }

    /// The body of Standard Webhooks.
    #[must_use]
    pub fn standard_body(&self) -> Bytes {
        let timestamp = rfc3339(self.row.at);
        let body = Body { data: self.as_data(), timestamp, kind: self.kind };
        serde_json::to_vec(&body).expect("JSON can be written").into()
    }

    /// The event's data, with its sequence number.
    #[must_use]
    pub fn data(&self) -> Value {
        serde_json::to_value(self.as_data()).expect("JSON can be written")
    }

    fn as_data(&self) -> Data<'_> {
        if let Some(transaction) = transaction(self.event, self.sequence()) {
            return Data::Transaction(transaction);
        }
        let mut data = data(self.event);
        data["sequence"] = self.sequence().into();
        Data::Other(data)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    data: Data<'a>,
    timestamp: String,
    #[serde(rename = "type")]
    kind: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    /// Written for nearly every event, and so without a tree.
    Transaction(Transaction<'a>),
    Other(Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Transaction<'a> {
    account_id: AccountId,
    /// A text, because numbers of JSON are binary fractions to many.
    amount: String,
    currency: Option<&'a str>,
    effective_at: String,
    gateway: &'a str,
    payment_id: PaymentId,
    sequence: i64,
    status: &'static str,
    transaction_id: TransactionId,
    transaction_type: &'static str,
}

fn data(event: &Event) -> Value {
    match event {
        Event::AccountCreated { account }
        | Event::AccountChanged { account }
        | Event::AccountReleased { account } => json!({ "accountId": account }),
        Event::CustomerRegistered { customer, account }
        | Event::CustomerVerified { customer, account }
        | Event::CustomerChanged { customer, account }
        | Event::CustomerErased { customer, account } => {
            json!({ "customerId": customer, "accountId": account })
        }
        Event::CustomFieldAdded { account, field }
        | Event::CustomFieldRemoved { account, field } => {
            json!({ "accountId": account, "customFieldId": field })
        }
        Event::TagAdded { account, tag, definition }
        | Event::TagRemoved { account, tag, definition } => {
            json!({ "accountId": account, "tagId": tag, "tag": definition.name() })
        }
        Event::TenantConfigChanged { key, .. } | Event::TenantConfigDeleted { key, .. } => {
            json!({ "key": key })
        }
        Event::WebhookEndpointDisabled { endpoint, reason } => {
            json!({ "endpointId": endpoint_name(*endpoint), "reason": reason.name() })
        }
        Event::EnvironmentChanged { environment } => json!({ "environmentId": environment }),
        Event::DefinitionsChanged { environment, version } => {
            json!({ "environmentId": environment, "version": version })
        }
        Event::BlockingStateAdded { .. } => blocking_state(event),
        // Webhooks do not tell of the first; [`transaction`] writes the second.
        Event::LateSuccess { .. } | Event::TransactionChanged(_) => json!({}),
        Event::PurchaseChanged { .. } => purchase(event),
        Event::EntitlementsGranted { account, grants }
        | Event::EntitlementsRevoked { account, grants }
        | Event::EntitlementsExpired { account, grants } => {
            let grants = grants.iter();
            let grants = grants.map(|it| json!({ "grantId": it.grant, "feature": it.feature }));
            json!({ "accountId": account, "grants": grants.collect::<Vec<_>>() })
        }
        Event::EntitlementsChanged { .. } => entitlements(event),
        Event::LimitReached { account, feature, limit, used, period } => json!({
            "accountId": account,
            "feature": feature,
            "limit": limit,
            "used": used,
            "from": rfc3339(period.from),
            "resetsAt": period.until.map(rfc3339),
        }),
        Event::SubscriptionChanged { .. }
        | Event::InvoiceCreated { .. }
        | Event::InvoiceAdjusted { .. }
        | Event::InvoicePaid { .. }
        | Event::InvoiceUpcoming { .. }
        | Event::AccountParked { .. } => billing::data(event),
        Event::DisputeChanged { .. } => dispute(event),
        Event::DisputeExcess { account, payment, dispute, amount, currency } => json!({
            "accountId": account,
            "paymentId": payment,
            "disputeId": dispute,
            "amount": amount.decimal(*currency),
            "currency": currency.code(),
        }),
        Event::DisputeEvidenceDue { account, payment, dispute, due_by } => json!({
            "accountId": account,
            "paymentId": payment,
            "disputeId": dispute,
            "evidenceDueBy": rfc3339(*due_by),
        }),
    }
}

fn blocking_state(event: &Event) -> Value {
    let Event::BlockingStateAdded { account, state, service, name, effective_at, .. } = event
    else {
        return json!({});
    };
    json!({
        "accountId": account,
        "blockingStateId": state,
        "service": service,
        "state": name,
        "effectiveAt": rfc3339(*effective_at),
    })
}

fn purchase(event: &Event) -> Value {
    let Event::PurchaseChanged { account, purchase, payment, offer, version, status, .. } = event
    else {
        return json!({});
    };
    json!({
        "accountId": account,
        "purchaseId": purchase,
        "paymentId": payment,
        "offer": offer,
        "offerVersion": version,
        "status": status.name(),
    })
}

fn entitlements(event: &Event) -> Value {
    let Event::EntitlementsChanged { account, version, features, total } = event else {
        return json!({});
    };
    let shown = features.iter().map(entitled).collect::<Vec<_>>();
    let has_more = *total > shown.len();
    json!({ "accountId": account, "version": version, "features": shown, "hasMore": has_more })
}

fn entitled(it: &EntitledFeature) -> Value {
    json!({ "feature": it.feature, "value": value_json(&it.value), "until": it.until.map(rfc3339) })
}

fn dispute(event: &Event) -> Value {
    let Event::DisputeChanged {
        account,
        payment,
        transaction,
        dispute,
        case,
        before: _,
        status,
        amount,
        currency,
        withdrawn,
        reinstated,
    } = event
    else {
        return json!({});
    };
    json!({
        "accountId": account,
        "paymentId": payment,
        "transactionId": transaction,
        "disputeId": dispute,
        "gateway": case.gateway,
        "gatewayDisputeId": case.case,
        "status": status.name(),
        "amount": amount.decimal(*currency),
        "currency": currency.code(),
        "withdrawn": withdrawn.decimal(*currency),
        "reinstated": reinstated.decimal(*currency),
    })
}

fn transaction(event: &Event, sequence: i64) -> Option<Transaction<'_>> {
    let Event::TransactionChanged(it) = event else { return None };
    Some(Transaction {
        account_id: it.account,
        amount: it.amount.decimal(it.payment_currency),
        currency: it.currency.as_ref().map(Currency::code),
        effective_at: rfc3339(it.effective_at),
        gateway: &it.gateway,
        payment_id: it.payment,
        sequence,
        status: status_name(it.status),
        transaction_id: it.transaction,
        transaction_type: it.kind.killbill_name(),
    })
}

const fn status_name(status: TransactionStatus) -> &'static str {
    match status {
        TransactionStatus::InFlight => "IN_FLIGHT",
        TransactionStatus::Success => "SUCCESS",
        TransactionStatus::Pending => "PENDING",
        TransactionStatus::PaymentFailure => "PAYMENT_FAILURE",
        TransactionStatus::PluginFailure => "PLUGIN_FAILURE",
        TransactionStatus::Unknown => "UNKNOWN",
    }
}

/// An endpoint's id; Kill Bill's callback has none.
pub(crate) fn endpoint_name(endpoint: WebhookEndpointId) -> String {
    if endpoint == CALLBACK { "callback".to_owned() } else { endpoint.to_string() }
}

#[cfg(test)]
pub(crate) mod tests {
    use domain::payment::TransactionType as T;
    use domain::{
        AccountId, AmountMinor, PartitionNo, PaymentId, TenantNo, Timestamp, TransactionChange,
        TransactionId,
    };
    use expect_test::{Expect, expect};
    use uuid::Uuid;

    use super::*;

    fn check(event: Event, expected: Expect) {
        let row = JournalRow {
            seq: Seq(7),
            at: Timestamp(1_795_174_252_987_654),
            committed_at: Timestamp(0),
            tenant: TenantNo(1),
            events: vec![event],
        };
        let body =
            event_of(&row, 0).map(|it| String::from_utf8(it.standard_body().to_vec()).unwrap());
        expected.assert_eq(body.as_deref().unwrap_or("nothing"));
    }

    /// The first transaction of a payment of 10.50 USD.
    pub(crate) fn transaction_change(status: TransactionStatus, kind: T) -> TransactionChange {
        let usd = Currency::parse("USD").unwrap();
        TransactionChange {
            account: AccountId::new(Uuid::from_u128(1)),
            payment: PaymentId::new(Uuid::from_u128(2)),
            transaction: TransactionId::new(Uuid::from_u128(3)),
            kind,
            opens_payment: true,
            before: None,
            before_amount: AmountMinor::ZERO,
            status,
            gateway: "faregate-simulator".to_owned(),
            amount: AmountMinor(1_050),
            currency: Some(usd),
            payment_currency: usd,
            effective_at: Timestamp(1_795_174_252_987_654),
        }
    }

    fn transaction(status: TransactionStatus, kind: T, currency: Option<&str>) -> Event {
        Event::TransactionChanged(TransactionChange {
            currency: currency.map(|code| Currency::parse(code).unwrap()),
            ..transaction_change(status, kind)
        })
    }

    #[test]
    fn bodies_are_those_of_standard_webhooks() {
        let account = AccountId::new(Uuid::from_u128(1));
        check(
            Event::AccountCreated { account },
            expect![[
                r#"{"data":{"accountId":"00000000-0000-0000-0000-000000000001","sequence":28672},"timestamp":"2026-11-20T11:30:52.987654Z","type":"account.created"}"#
            ]],
        );
        check(
            transaction(TransactionStatus::Success, T::Purchase, Some("USD")),
            expect![[
                r#"{"data":{"accountId":"00000000-0000-0000-0000-000000000001","amount":"10.50","currency":"USD","effectiveAt":"2026-11-20T11:30:52.987654Z","gateway":"faregate-simulator","paymentId":"00000000-0000-0000-0000-000000000002","sequence":28672,"status":"SUCCESS","transactionId":"00000000-0000-0000-0000-000000000003","transactionType":"PURCHASE"},"timestamp":"2026-11-20T11:30:52.987654Z","type":"payment.succeeded"}"#
            ]],
        );
        check(
            transaction(TransactionStatus::InFlight, T::Purchase, Some("USD")),
            expect!["nothing"],
        );
        check(
            transaction(TransactionStatus::PluginFailure, T::Void, None),
            expect![[
                r#"{"data":{"accountId":"00000000-0000-0000-0000-000000000001","amount":"10.50","currency":null,"effectiveAt":"2026-11-20T11:30:52.987654Z","gateway":"faregate-simulator","paymentId":"00000000-0000-0000-0000-000000000002","sequence":28672,"status":"PLUGIN_FAILURE","transactionId":"00000000-0000-0000-0000-000000000003","transactionType":"VOID"},"timestamp":"2026-11-20T11:30:52.987654Z","type":"payment.failed"}"#
            ]],
        );
    }

    #[test]
    fn ids_name_their_place_in_the_journal() {
        let second = PartitionNo::new(1).unwrap().start();
        for (seq, ordinal) in [(Seq(1), 0), (Seq(i64::MAX), u16::MAX), (second, 7)] {
            assert_eq!(parse_event_id(&event_id(seq, ordinal)), Some((seq, ordinal)));
        }
        assert_eq!(event_id(Seq(1_234), 2), "evt_00000000000004d20002");
        for wrong in [
            "",
            "evt_",
            "evt_00000000000004d2000",
            "evt_00000000000004D20002",
            "evt_+0000000000004d20002",
            "evt_ffffffffffffffff0002",
            "evt_00000000000004d2000ä",
        ] {
            assert_eq!(parse_event_id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sequence_numbers_grow_in_a_partition() {
        let at = |number, ordinal| {
            sequence(Seq(PartitionNo::new(3).unwrap().start().0 + number), ordinal)
        };
        assert!(at(1, 0) < at(1, 1) && at(1, u16::MAX) < at(2, 0));
        assert!(at(1 << 40, 0) < 1 << 53);
    }
}
