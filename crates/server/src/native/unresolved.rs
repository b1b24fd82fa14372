//! Payments whose outcome nobody knows yet, for those who have to look after them.

use axum::Json;
use axum::extract::State;
use domain::payment::{Outstanding, PaymentFile};
use domain::{TenantNo, Timestamp};
use engine::ports::{Queries, StoreError};
use http::Uri;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::caller::ReaderOf;
use super::parameters::Parameters;
use super::{Native, kind_label, moment, status_label};
use crate::problem::Problem;

/// Outcomes looked at per request, over all tenants.
const LOOKED_AT_MAX: usize = 10_000;

/// Payments without an outcome, oldest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnresolvedPayments {
    /// The transactions.
    unresolved: Vec<Unresolved>,
    /// Whether there are more than are listed.
    more: bool,
}

/// A transaction that is unknown or pending after its call has ended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Unresolved {
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
    params(("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most")),
    responses(
        (status = 200, description = "What was asked for", body = UnresolvedPayments),
        (status = 400, description = "A parameter is wrong"),
        (status = 401, description = "User or tenant is missing or wrong"),
    )
)]
pub async fn list(
    State(native): State<Native>,
    ReaderOf(tenant): ReaderOf,
    uri: Uri,
) -> Result<Json<UnresolvedPayments>, Problem> {
    let mut parameters = Parameters::of(&uri)?;
    let limit = parameters.page()?.limit;
    parameters.end()?;
    let (no, now) = (tenant.no, native.engine.clock().now());
    let listed = native.engine.read(move |queries| look(queries, no, (limit, now)));
    Ok(Json(listed.await?))
}

fn look(
    queries: &dyn Queries,
    tenant: TenantNo,
    (limit, now): (u64, Timestamp),
) -> Result<UnresolvedPayments, StoreError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let all = queries.outstanding(LOOKED_AT_MAX)?;
    // A call that still runs is nobody's worry: the first question is asked when it has ended.
    let own: Vec<Outstanding> =
        all.into_iter().filter(|it| it.tenant == tenant && it.asked > 0).collect();
    let mut unresolved = Vec::new();
    for outstanding in own.iter().take(limit) {
        let Some(file) = queries.payment(tenant, outstanding.payment_id)? else { continue };
        unresolved.extend(describe(outstanding, &file, now));
    }
    Ok(UnresolvedPayments { unresolved, more: own.len() > limit })
}

fn describe(outstanding: &Outstanding, file: &PaymentFile, now: Timestamp) -> Option<Unresolved> {
    let transaction = file.transaction(outstanding.transaction_id)?;
    let amount = transaction.amount.zip(transaction.currency);
    let age_us = now.0.saturating_sub(transaction.effective_at.0).max(0);
    Some(Unresolved {
        payment_id: outstanding.payment_id.uuid(),
        transaction_id: outstanding.transaction_id.uuid(),
        account_id: outstanding.account_id.uuid(),
        gateway: outstanding.gateway.clone(),
        transaction_type: kind_label(transaction.kind),
        status: status_label(transaction.status),
        amount: amount.map(|(amount, currency)| amount.decimal(currency)),
        currency: transaction.currency.map(|currency| currency.to_string()),
        since: moment(transaction.effective_at),
        age_seconds: age_us / Timestamp::SECOND_US,
        asked: outstanding.asked.saturating_sub(1),
        next_question_at: outstanding.ask_at.map(moment),
    })
}
