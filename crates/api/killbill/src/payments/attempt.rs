//! Attempts in responses: Kill Bill's `PaymentAttemptJson`.

use std::borrow::Cow;

use domain::Currency;
use domain::payment::attempt::{AttemptState, PaymentAttempt};
use engine::ports::HistoryRow;
use engine::time::rfc3339_second;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::amount::Decimal;
use crate::audit::{AuditLevel, AuditLogJson};
use crate::json::PropertyJson;

/// Kill Bill's `PaymentAttemptJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttemptJson<'a> {
    account_id: Uuid,
    payment_method_id: Option<Uuid>,
    #[schema(value_type = Option<String>)]
    payment_external_key: Option<Cow<'a, str>>,
    transaction_id: Option<Uuid>,
    #[schema(value_type = Option<String>)]
    transaction_external_key: Option<Cow<'a, str>>,
    transaction_type: &'static str,
    effective_date: String,
    state_name: &'static str,
    #[schema(value_type = Option<f64>)]
    amount: Option<Decimal>,
    currency: &'a str,
    /// The control plugins, separated by commas.
    plugin_name: String,
    plugin_properties: Vec<PropertyJson<'a>>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

impl<'a> AttemptJson<'a> {
    /// An attempt; behind one that waits for its retry, the retry at the time when it is due, as in Kill Bill.
    pub(crate) fn all_of(
        it: &'a PaymentAttempt,
        audit: AuditLevel,
        rows: &'a [HistoryRow],
    ) -> impl Iterator<Item = Self> {
        let of_attempt = Self::of(it, audit, rows);
        let due = it.due_at.filter(|_| it.state == AttemptState::Scheduled);
        let (attempt, retry) = match due {
            Some(due) => {
                let retry =
                    Self { effective_date: rfc3339_second(due), ..Self::of(it, audit, &[]) };
                (Self { state_name: AttemptState::Retried.name(), ..of_attempt }, Some(retry))
            }
            None => (of_attempt, None),
        };
        std::iter::once(attempt).chain(retry)
    }

    pub(crate) fn of(it: &'a PaymentAttempt, audit: AuditLevel, rows: &'a [HistoryRow]) -> Self {
        let payment = it.payment_id.map(|it| it.uuid());
        let transaction = it.transaction_id.map(|it| it.uuid());
        Self {
            account_id: it.account_id.uuid(),
            payment_method_id: it.payment_method_id.map(|it| it.uuid()),
            payment_external_key: key_or_id(it.payment_key.as_deref(), payment),
            transaction_id: transaction,
            transaction_external_key: key_or_id(it.transaction_key.as_deref(), transaction),
            transaction_type: it.kind.killbill_name(),
            effective_date: rfc3339_second(it.created_at),
            state_name: it.state.name(),
            amount: Decimal::of_attempt(it),
            currency: Currency::code(&it.currency),
            plugin_name: it.plugins.join(","),
            plugin_properties: PropertyJson::all(&it.properties),
            audit_logs: audit.logs(rows),
        }
    }
}

fn key_or_id(key: Option<&str>, id: Option<Uuid>) -> Option<Cow<'_, str>> {
    match key {
        Some(key) => Some(Cow::Borrowed(key)),
        None => id.map(|id| Cow::Owned(id.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use domain::payment::TransactionType;
    use domain::{AmountMinor, Id, Revision, Seq, TenantNo, Timestamp};
    use expect_test::{Expect, expect};

    use super::*;

    fn check(attempt: &PaymentAttempt, expected: Expect) {
        let json = AttemptJson::of(attempt, AuditLevel::None, &[]);
        expected.assert_eq(&serde_json::to_string(&json).unwrap());
    }

    #[test]
    fn an_attempt_without_keys_shows_ids_and_an_aborted_one_has_none() {
        let id = |n| Uuid::from_u128(n);
        let attempt = PaymentAttempt {
            tenant: TenantNo(1),
            id: Id::new(id(1)),
            account_id: Id::new(id(2)),
            payment_id: Some(Id::new(id(3))),
            transaction_id: Some(Id::new(id(4))),
            payment_key: Some("r3".to_owned()),
            transaction_key: None,
            payment_method_id: Some(Id::new(id(5))),
            kind: TransactionType::Purchase,
            state: AttemptState::Success,
            amount: AmountMinor(100),
            currency: Currency::parse("USD").unwrap(),
            plugins: vec!["faregate-rules".to_owned()],
            properties: vec![("a".to_owned(), "b".to_owned())],
            rules: Some(Seq(7)),
            counted_on: Some(20_777),
            retries: false,
            tries: 0,
            due_at: None,
            created_at: Timestamp(1_795_174_252_123_456),
            revision: Revision::first(Seq(9)),
        };
        check(
            &attempt,
            expect![[
                r#"{"accountId":"00000000-0000-0000-0000-000000000002","paymentMethodId":"00000000-0000-0000-0000-000000000005","paymentExternalKey":"r3","transactionId":"00000000-0000-0000-0000-000000000004","transactionExternalKey":"00000000-0000-0000-0000-000000000004","transactionType":"PURCHASE","effectiveDate":"2026-11-20T11:30:52.000Z","stateName":"SUCCESS","amount":1.00,"currency":"USD","pluginName":"faregate-rules","pluginProperties":[{"key":"a","value":"b","isUpdatable":false}],"auditLogs":[]}"#
            ]],
        );
        let aborted = PaymentAttempt {
            payment_id: None,
            transaction_id: None,
            payment_key: None,
            state: AttemptState::Aborted,
            properties: vec![],
            ..attempt
        };
        check(
            &aborted,
            expect![[
                r#"{"accountId":"00000000-0000-0000-0000-000000000002","paymentMethodId":"00000000-0000-0000-0000-000000000005","paymentExternalKey":null,"transactionId":null,"transactionExternalKey":null,"transactionType":"PURCHASE","effectiveDate":"2026-11-20T11:30:52.000Z","stateName":"ABORTED","amount":1.00,"currency":"USD","pluginName":"faregate-rules","pluginProperties":[],"auditLogs":[]}"#
            ]],
        );
    }
}
