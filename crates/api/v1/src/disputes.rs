//! Disputes of payments.

use axum::Json;
use axum::extract::Path;
use domain::payment::dispute::{Dispute as Row, DisputeStatus};
use domain::{AmountMinor, DisputeId};
use engine::ports::DisputeFilter;
use engine::time::rfc3339;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, PageParameters, PaymentParameters, Unauthenticated};
use crate::parameters::{id_of, invalid, next_offset};

/// A page of disputes, oldest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disputes {
    /// The disputes of the page.
    disputes: Vec<Dispute>,
    /// The `offset` of the next page, which may be empty; `null` after the last page.
    next_offset: Option<u64>,
}

/// A case in which a customer's bank takes money back. Amounts are in the major unit of `currency`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dispute {
    dispute_id: Uuid,
    /// The gateway's name.
    gateway: String,
    /// The gateway's id of the case.
    gateway_dispute_id: String,
    /// The billing account's id.
    account_id: Uuid,
    payment_id: Uuid,
    /// The charge that is disputed.
    transaction_id: Uuid,
    /// `WARNING_NEEDS_RESPONSE`, `WARNING_UNDER_REVIEW`, `WARNING_CLOSED`, `NEEDS_RESPONSE`, `UNDER_REVIEW`, `WON`
    /// or `LOST`.
    status: &'static str,
    /// The gateway's code.
    reason: Option<String>,
    /// How much is disputed.
    amount: String,
    /// ISO 4217 code, such as `USD`.
    currency: String,
    /// Until when evidence may be sent (RFC 3339).
    evidence_due_by: Option<String>,
    /// The amount that the gateway withdrew, in all.
    withdrawn: String,
    /// The amount that the gateway reinstated, in all.
    reinstated: String,
    booked: DisputeBooked,
    /// When booking is tried again (RFC 3339); `null` where all is booked.
    booking_at: Option<String>,
    /// When it was recorded (RFC 3339).
    created_at: String,
    /// When it last changed (RFC 3339).
    updated_at: String,
}

/// The booked amounts of a dispute, in all.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DisputeBooked {
    /// As CHARGEBACK.
    charged_back: String,
    /// As reversals of these.
    reversed: String,
    /// The amount withdrawn beyond what was left of the payment.
    excess: String,
    /// The amount reinstated of that, or beyond what was charged back.
    excess_returned: String,
}

/// Disputes, oldest first
#[utoipa::path(get, path = "/v1/disputes", tag = "Disputes", operation_id = "list_disputes",
    params(PaymentParameters,
        ("status" = Option<String>, Query, description = "In this status, such as NEEDS_RESPONSE"),
        PageParameters),
    responses((status = 200, description = "The disputes", body = Disputes),
        (status = 403, description = "dispute:read is missing"), InvalidParameter, Unauthenticated))]
pub async fn list(call: Call) -> Result<Json<Disputes>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("dispute:read")?;
    let filter = DisputeFilter {
        account: parameters.id("account")?,
        payment: parameters.id("payment")?,
        status: parameters.text("status")?.as_deref().map(status).transpose()?,
    };
    let page = parameters.page()?;
    parameters.end()?;
    let no = context.tenant.no;
    let read = api.engine.read_page((no, page), move |queries| queries.disputes(no, &filter, page));
    let rows = read.await?;
    let next_offset = next_offset(page, rows.len());
    Ok(Json(Disputes { disputes: rows.iter().map(describe).collect(), next_offset }))
}

/// A dispute
#[utoipa::path(get, path = "/v1/disputes/{disputeId}", tag = "Disputes", operation_id = "show_dispute",
    params(("disputeId" = Uuid, Path)),
    responses((status = 200, description = "The dispute", body = Dispute),
        (status = 403, description = "dispute:read is missing"),
        (status = 404, description = "There is no such dispute"), Unauthenticated))]
pub async fn show(call: Call, Path(name): Path<String>) -> Result<Json<Dispute>, Error> {
    let Call { api, context, .. } = call.allowed("dispute:read")?;
    let (no, id): (_, DisputeId) = (context.tenant.no, id_of("dispute", &name)?);
    let found = api.engine.read(move |queries| queries.dispute(no, id)).await?;
    found.as_ref().map(describe).map(Json).ok_or_else(|| Error::not_found("dispute", &name))
}

fn status(name: &str) -> Result<DisputeStatus, Error> {
    DisputeStatus::named(name).ok_or_else(|| {
        let names = DisputeStatus::ALL.map(DisputeStatus::name).join(", ");
        invalid("status", format!("is not one of {names}"))
    })
}

fn describe(it: &Row) -> Dispute {
    let decimal = |amount: AmountMinor| amount.decimal(it.currency);
    Dispute {
        dispute_id: it.id.uuid(),
        gateway: it.case.gateway.clone(),
        gateway_dispute_id: it.case.case.clone(),
        account_id: it.account_id.uuid(),
        payment_id: it.payment_id.uuid(),
        transaction_id: it.transaction_id.uuid(),
        status: it.status.name(),
        reason: it.reason.clone(),
        amount: decimal(it.amount),
        currency: it.currency.to_string(),
        evidence_due_by: it.evidence_due_by.map(rfc3339),
        withdrawn: decimal(it.withdrawn),
        reinstated: decimal(it.reinstated),
        booked: DisputeBooked {
            charged_back: decimal(it.booked.charged_back),
            reversed: decimal(it.booked.reversed),
            excess: decimal(it.booked.excess),
            excess_returned: decimal(it.booked.excess_returned),
        },
        booking_at: it.booking_at.map(rfc3339),
        created_at: rfc3339(it.created_at),
        updated_at: rfc3339(it.updated_at),
    }
}
