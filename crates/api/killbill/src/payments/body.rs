//! The body of payment requests: Kill Bill's `PaymentTransactionJson`.

use domain::payment::TransactionType;
use domain::{Currency, PaymentId, Properties, TransactionId, kind};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::error::{Failure, class};
use crate::json::{Json, PropertyBody, Raw};

pub(crate) const JSON: Json = Json("PaymentTransactionJson");

/// The longest text of an ignored field, in characters.
const IGNORED_CHARS_MAX: usize = 4096;

/// A request about a transaction; the route decides which fields are used.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = TransactionRequest)]
pub(crate) struct TransactionBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    transaction_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    transaction_external_key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    payment_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    payment_external_key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    transaction_type: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    effective_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    status: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    amount: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    currency: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    processed_amount: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    processed_currency: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    gateway_error_code: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    gateway_error_msg: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    first_payment_reference_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    second_payment_reference_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<PropertyBody<'static>>>)]
    properties: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

impl TransactionBody<'_> {
    pub(crate) fn transaction_id(&self) -> Result<Option<TransactionId>, Failure> {
        JSON.id("transactionId", self.transaction_id)
    }

    pub(crate) fn transaction_key(&self) -> Result<Option<String>, Failure> {
        JSON.key("transactionExternalKey", self.transaction_external_key, class::PAYMENT)
    }

    pub(crate) fn payment_id(&self) -> Result<Option<PaymentId>, Failure> {
        JSON.id("paymentId", self.payment_id)
    }

    pub(crate) fn payment_key(&self) -> Result<Option<String>, Failure> {
        JSON.key("paymentExternalKey", self.payment_external_key, class::PAYMENT)
    }

    pub(crate) fn transaction_type(&self) -> Result<Option<TransactionType>, Failure> {
        JSON.transaction_type("transactionType", self.transaction_type)
    }

    pub(crate) fn status(&self) -> Result<Option<String>, Failure> {
        JSON.text("status", self.status, IGNORED_CHARS_MAX)
    }

    pub(crate) fn amount(&self) -> Result<Option<String>, Failure> {
        JSON.amount("amount", self.amount)
    }

    pub(crate) fn currency(&self) -> Result<Option<Currency>, Failure> {
        JSON.currency("currency", self.currency)
    }

    pub(crate) fn properties(&self) -> Result<Properties, Failure> {
        match self.properties {
            Some(_) => JSON.properties("properties", self.properties),
            None => Ok(vec![]),
        }
    }

    /// Validates the fields that the server sets: the values are ignored, but invalid ones are refused.
    pub(crate) fn check_ignored(&self) -> Result<(), Failure> {
        JSON.time("effectiveDate", self.effective_date)?;
        JSON.amount("processedAmount", self.processed_amount)?;
        JSON.currency("processedCurrency", self.processed_currency)?;
        let texts = [
            ("gatewayErrorCode", self.gateway_error_code),
            ("gatewayErrorMsg", self.gateway_error_msg),
            ("firstPaymentReferenceId", self.first_payment_reference_id),
            ("secondPaymentReferenceId", self.second_payment_reference_id),
        ];
        for (field, raw) in texts {
            JSON.lines(field, raw, IGNORED_CHARS_MAX)?;
        }
        JSON.id::<kind::Transaction>("transactionId", self.transaction_id)?;
        let _audit_logs = self.audit_logs;
        Ok(())
    }
}
