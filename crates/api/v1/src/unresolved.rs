//! Payments whose outcome nobody knows yet, for those who have to look after them.

use axum::Json;
use axum::extract::State;
use domain::Timestamp;
use engine::ports::{Page, Unresolved};
use http::Uri;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::TenantReader;
use crate::error::Error;
use crate::parameters::Parameters;
use crate::{Api, kind_label, status_label};
use engine::time::rfc3339;

/// Payments without an outcome, oldest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnresolvedPayments {
    /// The transactions.
    unresolved: Vec<UnresolvedTransaction>,
    /// Whether there are more behind these.
    more: bool,
}

/// A transaction that is unknown or pending after its call has ended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UnresolvedTransaction {
    /// The payment.
    payment_id: Uuid,
    /// The transaction: the idempotency key towards the gateway.
    transaction_id: Uuid,
    /// The billing account.
    account_id: Uuid,
    /// The gateway that knows, if anybody does.
    gateway: String,
    /// What the transaction does.
    transaction_type: &'static str,
    /// `UNKNOWN` or `PENDING`.
    status: &'static str,
    /// In the major unit; absent for a void.
    amount: Option<String>,
    /// ISO 4217.
    currency: Option<String>,
    /// When the transaction was asked for.
    since: String,
    /// Seconds since then.
    age_seconds: i64,
    /// How often the gateway was asked.
    asked: u32,
    /// When it is asked next; absent where only an operator can settle it.
    next_question_at: Option<String>,
}

/// Payments without an outcome, oldest first.
#[utoipa::path(
    get,
    path = "/v1/payments/unresolved",
    tag = "Payments",
    operation_id = "payments_unresolved",
    summary = "Payments whose outcome is unknown or pending after their call ended, oldest first",
    params(
        ("offset" = Option<u64>, Query, description = "How many to skip"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most"),
    ),
    responses(
        (status = 200, description = "What was asked for", body = UnresolvedPayments),
        (status = 400, description = "A parameter is wrong"),
        (status = 401, description = "User or tenant is missing or wrong"),
    )
)]
pub async fn list(
    State(api): State<Api>,
    TenantReader(tenant): TenantReader,
    uri: Uri,
) -> Result<Json<UnresolvedPayments>, Error> {
    let mut parameters = Parameters::of(&uri)?;
    let page = parameters.page()?;
    parameters.end()?;
    // One more than is shown tells whether there are more.
    let (no, asked_for) = (tenant.no, Page { limit: page.limit + 1, ..page });
    let mut found = api.engine.read(move |queries| queries.unresolved(no, asked_for)).await?;
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
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
        transaction_type: kind_label(transaction.kind),
        status: status_label(transaction.status),
        amount: amount.map(|(amount, currency)| amount.decimal(currency)),
        currency: transaction.currency.map(|currency| currency.to_string()),
        since: rfc3339(transaction.effective_at),
        age_seconds: age_us / Timestamp::SECOND_US,
        asked: questions,
        next_question_at: ask_at.map(rfc3339),
    }
}
