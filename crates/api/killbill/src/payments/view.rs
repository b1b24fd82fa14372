//! Payments in responses: Kill Bill's `PaymentJson` and `PaymentTransactionJson`.

use std::borrow::Cow;

use domain::payment::Payment;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::{Outstanding, PaymentFile, Transaction, TransactionStatus};
use domain::{Currency, EXTERNAL_PAYMENT, TransactionId};
use engine::ports::{HistoryOf, HistoryRow, Queries, StoreError};
use engine::time::rfc3339_second;
use secrets::{Purpose, Sealer};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::attempt::AttemptJson;
use crate::amount::Decimal;
use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::Call;
use crate::error::Failure;
use crate::page::RowFormat;
use crate::payment_states::status_name;

/// Kill Bill's `PaymentJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaymentJson<'a> {
    account_id: Uuid,
    payment_id: Uuid,
    payment_number: String,
    #[schema(value_type = String)]
    payment_external_key: Cow<'a, str>,
    #[schema(value_type = f64)]
    auth_amount: Decimal,
    #[schema(value_type = f64)]
    captured_amount: Decimal,
    #[schema(value_type = f64)]
    purchased_amount: Decimal,
    #[schema(value_type = f64)]
    refunded_amount: Decimal,
    #[schema(value_type = f64)]
    credited_amount: Decimal,
    currency: &'a str,
    payment_method_id: Uuid,
    transactions: Vec<TransactionJson<'a>>,
    /// Null if the request does not ask for them. Only controlled calls make attempts.
    payment_attempts: Option<Vec<AttemptJson<'a>>>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// Kill Bill's `PaymentTransactionJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionJson<'a> {
    transaction_id: Uuid,
    #[schema(value_type = String)]
    transaction_external_key: Cow<'a, str>,
    payment_id: Uuid,
    #[schema(value_type = String)]
    payment_external_key: Cow<'a, str>,
    transaction_type: &'static str,
    #[schema(value_type = Option<f64>)]
    amount: Option<Decimal>,
    currency: Option<&'a str>,
    effective_date: String,
    #[schema(value_type = Option<f64>)]
    processed_amount: Option<Decimal>,
    processed_currency: Option<&'a str>,
    status: &'static str,
    gateway_error_code: Option<&'a str>,
    gateway_error_msg: Option<&'a str>,
    first_payment_reference_id: Option<&'a str>,
    second_payment_reference_id: Option<&'a str>,
    /// The customer's next action, where one payment is read whose transaction waits for it.
    properties: Option<Vec<PropertyJson<'a>>>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// Kill Bill's `PluginPropertyJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PropertyJson<'a> {
    key: &'a str,
    value: &'a str,
    is_updatable: bool,
}

/// A payment with the rows of its audit that the response includes.
pub(crate) struct Audited {
    pub(crate) file: PaymentFile,
    /// Of the transactions whose customer has something to do; read for one payment only.
    pub(crate) next_actions: Vec<NextAction>,
    payment_rows: Vec<HistoryRow>,
    /// One per transaction, in order; empty if the response includes none.
    transaction_rows: Vec<Vec<HistoryRow>>,
    /// Each with the rows of its audit; empty if the response includes none.
    attempts: Vec<(PaymentAttempt, Vec<HistoryRow>)>,
}

/// The customer's next action before a transaction goes on.
pub(crate) struct NextAction {
    transaction: TransactionId,
    properties: Vec<(String, String)>,
}

impl NextAction {
    /// Opens what waits for the customer of a transaction.
    pub(crate) fn open(of: &Outstanding, sealer: &Sealer) -> Option<Self> {
        let row = (of.transaction_id.uuid(), "");
        let text = sealer.open_named(Purpose::NextAction, row, of.next_action.as_ref()?).ok()?;
        let properties = serde_json::from_str(&text).ok()?;
        Some(Self { transaction: of.transaction_id, properties })
    }
}

/// The parts that a response includes beside the payment.
#[derive(Clone, Copy)]
pub(crate) struct ReadOptions {
    pub(crate) audit: AuditLevel,
    pub(crate) plugin_info: bool,
    attempts: bool,
}

impl RowFormat for ReadOptions {
    type Row = PaymentFile;
    type Audited = Audited;
    type Json<'a> = PaymentJson<'a>;

    fn of(call: &Call) -> Result<Self, Failure> {
        let query = call.query();
        Ok(Self {
            audit: AuditLevel::of(query)?,
            plugin_info: query.flag("withPluginInfo"),
            attempts: query.flag("withAttempts"),
        })
    }

    fn reads_audit(self) -> bool {
        self.audit != AuditLevel::None || self.attempts
    }

    fn with_audit(self, queries: &dyn Queries, file: PaymentFile) -> Result<Audited, StoreError> {
        let tenant = file.payment.tenant;
        let payment_rows =
            self.audit.read(queries, tenant, HistoryOf::new::<Payment>(file.payment.id.uuid()))?;
        let transactions = file.transactions.iter();
        let transaction_rows = transactions
            .map(|it| self.audit.read(queries, tenant, HistoryOf::new::<Transaction>(it.id.uuid())))
            .collect::<Result<_, _>>()?;
        let attempts = match self.attempts {
            true => queries.payment_attempts(tenant, file.payment.id)?,
            false => vec![],
        };
        let with_rows = |it: PaymentAttempt| {
            let rows =
                self.audit.read(queries, tenant, HistoryOf::new::<PaymentAttempt>(it.id.uuid()))?;
            Ok((it, rows))
        };
        let attempts = attempts.into_iter().map(with_rows).collect::<Result<_, StoreError>>()?;
        let next_actions = vec![];
        Ok(Audited { file, next_actions, payment_rows, transaction_rows, attempts })
    }

    fn json(self, audited: &Audited) -> PaymentJson<'_> {
        let payment = &audited.file.payment;
        let (amounts, currency) = (payment.amounts, payment.currency);
        let key = key_or_id(payment.external_key.as_ref(), payment.id.uuid());
        // Kill Bill subtracts a chargeback from the captured and from the purchased amount.
        let captured = amounts.captured.minus_floor_zero(amounts.charged_back);
        let purchased = amounts.purchased.minus_floor_zero(amounts.charged_back);
        let transactions = audited.file.transactions.iter().zip(&audited.transaction_rows);
        let transactions = transactions.map(|(it, rows)| {
            let is_pending = it.status == TransactionStatus::Pending;
            let mut next = audited.next_actions.iter().filter(|_| is_pending);
            let next = next.find(|next| next.transaction == it.id);
            self.transaction(it, next, (key.clone(), rows))
        });
        let transactions = transactions.collect();
        PaymentJson {
            account_id: payment.account_id.uuid(),
            payment_id: payment.id.uuid(),
            payment_number: payment.number.to_string(),
            payment_external_key: key,
            auth_amount: Decimal::sum(amounts.authorized, currency),
            captured_amount: Decimal::sum(captured, currency),
            purchased_amount: Decimal::sum(purchased, currency),
            refunded_amount: Decimal::sum(amounts.refunded, currency),
            credited_amount: Decimal::sum(amounts.credited, currency),
            currency: payment.currency.code(),
            payment_method_id: payment.payment_method_id.uuid(),
            transactions,
            payment_attempts: self.attempts.then(|| {
                let attempts = audited.attempts.iter();
                attempts.flat_map(|(it, rows)| AttemptJson::all_of(it, self.audit, rows)).collect()
            }),
            audit_logs: self.audit.logs(&audited.payment_rows),
        }
    }
}

impl ReadOptions {
    /// References and properties come from the gateway, and are included only if the request asks
    /// for them. A reversal of a chargeback has no amount, as in Kill Bill.
    fn transaction<'a>(
        self,
        it: &'a Transaction,
        next_action: Option<&'a NextAction>,
        (payment_external_key, rows): (Cow<'a, str>, &'a [HistoryRow]),
    ) -> TransactionJson<'a> {
        let plugin_info = self.plugin_info && it.gateway != EXTERNAL_PAYMENT;
        let reversal = it.kind == domain::payment::TransactionType::ChargebackReversal;
        let currency = it.currency.as_ref().filter(|_| !reversal);
        let processed_currency = it.processed_currency.as_ref().filter(|_| !reversal);
        let processed = it.processed_amount.map(|amount| {
            let amount = if reversal { domain::AmountMinor::ZERO } else { amount };
            Decimal::new(amount, processed_currency.copied())
        });
        let reference =
            |text: &'a Option<String>| plugin_info.then(|| text.as_deref().unwrap_or_default());
        TransactionJson {
            transaction_id: it.id.uuid(),
            transaction_external_key: key_or_id(it.external_key.as_ref(), it.id.uuid()),
            payment_id: it.payment_id.uuid(),
            payment_external_key,
            transaction_type: it.kind.killbill_name(),
            amount: it.amount.filter(|_| !reversal).map(|it| Decimal::new(it, currency.copied())),
            currency: currency.map(Currency::code),
            effective_date: rfc3339_second(it.effective_at),
            processed_amount: processed,
            processed_currency: processed_currency.map(Currency::code),
            status: status_name(it.kind, it.status),
            gateway_error_code: it.gateway_error_code.as_deref(),
            gateway_error_msg: it.gateway_error_message.as_deref(),
            first_payment_reference_id: reference(&it.first_reference),
            second_payment_reference_id: reference(&it.second_reference),
            properties: plugin_info.then(|| properties(next_action)),
            audit_logs: self.audit.logs(rows),
        }
    }
}

fn properties(of: Option<&NextAction>) -> Vec<PropertyJson<'_>> {
    let all = of.into_iter().flat_map(|it| &it.properties);
    all.map(|(key, value)| PropertyJson { key, value, is_updatable: false }).collect()
}

fn key_or_id<'a>(key: Option<&'a String>, id: Uuid) -> Cow<'a, str> {
    key.map_or_else(|| Cow::Owned(id.to_string()), |key| Cow::Borrowed(key.as_str()))
}

#[cfg(test)]
pub(crate) mod tests {
    use domain::payment::routed::Destination;
    use domain::payment::{Amounts, Payment, PaymentState, TransactionStatus, TransactionType};
    use domain::{AccountId, AmountMinor, Id, PaymentMethodId, Revision, Seq, TenantNo, Timestamp};
    use expect_test::{Expect, expect};

    use super::*;

    fn transaction(
        kind: TransactionType,
        gateway: &str,
        currency: Option<Currency>,
    ) -> Transaction {
        let to = Destination {
            gateway: gateway.to_owned(),
            merchant_account: None,
            payment_method: PaymentMethodId::new(Uuid::from_u128(4)),
        };
        Transaction {
            status: TransactionStatus::Success,
            amount: currency.map(|_| AmountMinor(2050)),
            currency,
            processed_amount: Some(AmountMinor(currency.map_or(0, |_| 2050))),
            processed_currency: currency,
            first_reference: Some("ref".to_owned()),
            ..Transaction::in_flight(
                (TenantNo(1), Id::new(Uuid::from_u128(5))),
                (Id::new(Uuid::from_u128(1)), AccountId::new(Uuid::from_u128(2))),
                (kind, to),
                (Timestamp(1_795_174_252_123_456), Seq(1)),
            )
        }
    }

    /// A purchase of USD that succeeded outside of any gateway.
    pub(crate) fn payment() -> Payment {
        let state = PaymentState {
            operation: TransactionType::Purchase,
            status: TransactionStatus::Success,
        };
        Payment {
            tenant: TenantNo(1),
            id: Id::new(Uuid::from_u128(1)),
            account_id: AccountId::new(Uuid::from_u128(2)),
            payment_method_id: PaymentMethodId::new(Uuid::from_u128(4)),
            number: 7,
            external_key: Some("f1".to_owned()),
            currency: Currency::parse("USD").unwrap(),
            gateway: EXTERNAL_PAYMENT.to_owned(),
            paid_for: None,
            state,
            last_success: Some(state),
            amounts: Amounts::default(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            revision: Revision::first(Seq(1)),
        }
    }

    fn audited(transactions: Vec<Transaction>) -> Audited {
        let payment = Payment { amounts: Amounts::of(&transactions), ..payment() };
        let transaction_rows = transactions.iter().map(|_| vec![]).collect();
        let file = PaymentFile { payment, transactions };
        let (next_actions, attempts) = (vec![], vec![]);
        Audited { file, next_actions, payment_rows: vec![], transaction_rows, attempts }
    }

    fn check(transactions: Vec<Transaction>, plugin_info: bool, expected: Expect) {
        let options = ReadOptions { audit: AuditLevel::None, plugin_info, attempts: false };
        let audited = audited(transactions);
        let mut json = options.json(&audited);
        let transactions = std::mem::take(&mut json.transactions);
        let payment = serde_json::to_string(&json).unwrap();
        let transactions = transactions.iter().map(|it| serde_json::to_string(it).unwrap());
        let lines: Vec<_> = std::iter::once(payment).chain(transactions).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_reversed_chargeback_is_a_failed_chargeback_without_an_amount() {
        let usd = Currency::parse("USD");
        let kinds = [
            TransactionType::Purchase,
            TransactionType::Chargeback,
            TransactionType::ChargebackReversal,
        ];
        let transactions = kinds.map(|kind| transaction(kind, EXTERNAL_PAYMENT, usd));
        check(
            transactions.to_vec(),
            false,
            expect![[r#"
            {"accountId":"00000000-0000-0000-0000-000000000002","paymentId":"00000000-0000-0000-0000-000000000001","paymentNumber":"7","paymentExternalKey":"f1","authAmount":0,"capturedAmount":0,"purchasedAmount":20.50,"refundedAmount":0,"creditedAmount":0,"currency":"USD","paymentMethodId":"00000000-0000-0000-0000-000000000004","transactions":[],"paymentAttempts":null,"auditLogs":[]}
            {"transactionId":"00000000-0000-0000-0000-000000000005","transactionExternalKey":"00000000-0000-0000-0000-000000000005","paymentId":"00000000-0000-0000-0000-000000000001","paymentExternalKey":"f1","transactionType":"PURCHASE","amount":20.50,"currency":"USD","effectiveDate":"2026-11-20T11:30:52.000Z","processedAmount":20.50,"processedCurrency":"USD","status":"SUCCESS","gatewayErrorCode":null,"gatewayErrorMsg":null,"firstPaymentReferenceId":null,"secondPaymentReferenceId":null,"properties":null,"auditLogs":[]}
            {"transactionId":"00000000-0000-0000-0000-000000000005","transactionExternalKey":"00000000-0000-0000-0000-000000000005","paymentId":"00000000-0000-0000-0000-000000000001","paymentExternalKey":"f1","transactionType":"CHARGEBACK","amount":20.50,"currency":"USD","effectiveDate":"2026-11-20T11:30:52.000Z","processedAmount":20.50,"processedCurrency":"USD","status":"SUCCESS","gatewayErrorCode":null,"gatewayErrorMsg":null,"firstPaymentReferenceId":null,"secondPaymentReferenceId":null,"properties":null,"auditLogs":[]}
            {"transactionId":"00000000-0000-0000-0000-000000000005","transactionExternalKey":"00000000-0000-0000-0000-000000000005","paymentId":"00000000-0000-0000-0000-000000000001","paymentExternalKey":"f1","transactionType":"CHARGEBACK","amount":null,"currency":null,"effectiveDate":"2026-11-20T11:30:52.000Z","processedAmount":0,"processedCurrency":null,"status":"PAYMENT_FAILURE","gatewayErrorCode":null,"gatewayErrorMsg":null,"firstPaymentReferenceId":null,"secondPaymentReferenceId":null,"properties":null,"auditLogs":[]}"#]],
        );
    }

    #[test]
    fn references_need_plugin_info_and_a_void_has_no_amount() {
        let usd = Currency::parse("USD");
        let authorized = transaction(TransactionType::Authorize, "g", usd);
        let voided = transaction(TransactionType::Void, EXTERNAL_PAYMENT, None);
        check(
            vec![authorized, voided],
            true,
            expect![[r#"
            {"accountId":"00000000-0000-0000-0000-000000000002","paymentId":"00000000-0000-0000-0000-000000000001","paymentNumber":"7","paymentExternalKey":"f1","authAmount":20.50,"capturedAmount":0,"purchasedAmount":0,"refundedAmount":0,"creditedAmount":0,"currency":"USD","paymentMethodId":"00000000-0000-0000-0000-000000000004","transactions":[],"paymentAttempts":null,"auditLogs":[]}
            {"transactionId":"00000000-0000-0000-0000-000000000005","transactionExternalKey":"00000000-0000-0000-0000-000000000005","paymentId":"00000000-0000-0000-0000-000000000001","paymentExternalKey":"f1","transactionType":"AUTHORIZE","amount":20.50,"currency":"USD","effectiveDate":"2026-11-20T11:30:52.000Z","processedAmount":20.50,"processedCurrency":"USD","status":"SUCCESS","gatewayErrorCode":null,"gatewayErrorMsg":null,"firstPaymentReferenceId":"ref","secondPaymentReferenceId":"","properties":[],"auditLogs":[]}
            {"transactionId":"00000000-0000-0000-0000-000000000005","transactionExternalKey":"00000000-0000-0000-0000-000000000005","paymentId":"00000000-0000-0000-0000-000000000001","paymentExternalKey":"f1","transactionType":"VOID","amount":null,"currency":null,"effectiveDate":"2026-11-20T11:30:52.000Z","processedAmount":0,"processedCurrency":null,"status":"SUCCESS","gatewayErrorCode":null,"gatewayErrorMsg":null,"firstPaymentReferenceId":null,"secondPaymentReferenceId":null,"properties":null,"auditLogs":[]}"#]],
        );
    }
}
