//! Payments without a known outcome, for the operators who resolve them.

use axum::Json;
use domain::Timestamp;
use engine::ports::Unresolved;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, PageParameters, Unauthenticated};
use crate::parameters::Parameters;
use engine::time::rfc3339;

/// Payments without an outcome, oldest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnresolvedPayments {
    /// The transactions of the page.
    unresolved: Vec<UnresolvedTransaction>,
    /// Whether more follow after this page.
    more: bool,
}

/// A transaction that is unknown or pending after its call has ended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UnresolvedTransaction {
    /// The payment's id.
    payment_id: Uuid,
    /// The transaction's id, which is the idempotency key towards the gateway.
    transaction_id: Uuid,
    /// The billing account's id.
    account_id: Uuid,
    /// The gateway's name.
    gateway: String,
    /// The type in Kill Bill's spelling, such as `PURCHASE`.
    transaction_type: &'static str,
    /// `UNKNOWN` or `PENDING`.
    status: &'static str,
    /// The amount in the major unit; `null` for a void.
    amount: Option<String>,
    /// ISO 4217 code; `null` for a void.
    currency: Option<String>,
    /// When the transaction was requested (RFC 3339).
    since: String,
    /// Seconds since the request.
    age_seconds: i64,
    /// The number of inquiries so far.
    asked: u32,
    /// The next inquiry (RFC 3339); `null` if only an operator can resolve the transaction.
    next_question_at: Option<String>,
}

/// Payments whose outcome is unknown or pending after their call ended, oldest first
#[utoipa::path(get, path = "/v1/payments/unresolved", tag = "Payments", operation_id = "payments_unresolved",
    params(PageParameters),
    responses((status = 200, description = "The payments", body = UnresolvedPayments),
        InvalidParameter, Unauthenticated))]
pub async fn list(Call { api, context, uri, .. }: Call) -> Result<Json<UnresolvedPayments>, Error> {
    let window = Parameters::only_window(&uri)?;
    let no = context.tenant.no;
    let read = api.engine.read(move |queries| queries.unresolved(no, window.one_more()));
    let (found, more) = window.cut(read.await?);
    let now = api.engine.clock().now();
    let unresolved = found.into_iter().map(|it| describe(it, now)).collect();
    Ok(Json(UnresolvedPayments { unresolved, more }))
}

fn describe(it: Unresolved, now: Timestamp) -> UnresolvedTransaction {
    let Unresolved { transaction, questions, ask_at } = it;
    let amount = transaction.amount.zip(transaction.currency);
    let age_us = now.0.saturating_sub(transaction.effective_at.0).max(0);
    UnresolvedTransaction {
        payment_id: transaction.payment_id.uuid(),
        transaction_id: transaction.id.uuid(),
        account_id: transaction.account_id.uuid(),
        gateway: transaction.gateway,
        transaction_type: transaction.kind.name(),
        status: transaction.status.name(),
        amount: amount.map(|(amount, currency)| amount.decimal(currency)),
        currency: transaction.currency.map(|currency| currency.to_string()),
        since: rfc3339(transaction.effective_at),
        age_seconds: age_us / Timestamp::SECOND_US,
        asked: questions,
        next_question_at: ask_at.map(rfc3339),
    }
}
