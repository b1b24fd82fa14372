//! Reservations: parts of limits that are kept for something.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::command::EntitlementCommand;
use domain::entitlement::usage::{
    ConfirmReservation, Ends, ReleaseReservation, Reservation, ReservationStatus, Reserve,
};
use domain::reply::EntitlementReply;
use domain::{Command, Idempotency, Reply, ReservationId, Timestamp};
use engine::time::rfc3339;
use http::StatusCode;
use http::header::LOCATION;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use utoipa::ToSchema;
use uuid::Uuid;

use super::usage::quantity;
use super::{AccountRequest, account_id, unexpected};
use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::input;
use crate::openapi::{AnotherRequest, IdempotencyKey, InvalidField, ObjectRejections};
use crate::parameters::{id_of, invalid, time};
use crate::repeatable::Repeatable;
use crate::usage_view::{CountedView, LevelView};

/// A reservation to be made: `until` or `ttlSeconds` sets its end.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewReservation {
    /// The key of a feature that is a limit
    feature: String,
    /// A whole number from 1 to 9007199254740991
    #[schema(value_type = i64)]
    quantity: Number,
    /// When it ends by itself (RFC 3339), within 31 days; rounded up to a second
    until: Option<String>,
    /// The same, in seconds from now on
    ttl_seconds: Option<i64>,
}

/// How much of a reservation is confirmed.
#[derive(Serialize, Deserialize, Default, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Confirmation {
    /// As much as was reserved, or less: the rest is given back; all by default
    #[schema(value_type = Option<i64>)]
    quantity: Option<Number>,
}

/// A reservation that was made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reserved {
    reservation_id: Uuid,
    feature: String,
    /// How much is reserved
    quantity: i64,
    /// When it ends by itself (RFC 3339)
    until: String,
    #[serde(flatten)]
    level: LevelView,
}

/// A reservation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservationView {
    reservation_id: Uuid,
    feature: String,
    /// How much was reserved
    quantity: i64,
    /// When it ends by itself (RFC 3339)
    until: String,
    /// `open`, `confirmed`, `released` or `expired`
    status: &'static str,
    /// How much of it was used
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed: Option<i64>,
    /// When it was made (RFC 3339)
    created_at: String,
}

/// Reserves a part of a limit: it counts as used until it is released or ends
#[utoipa::path(post, path = "/v1/accounts/{accountId}/reservations", tag = "Entitlements", operation_id = "reserve",
    params(("accountId" = Uuid, Path), IdempotencyKey), request_body = NewReservation,
    responses((status = 201, description = "Reserved", body = Reserved),
        (status = 409, description = "There is not so much left (`known` is what there is), the account has nothing of the feature, it has reservations that end at 1000 times, or it is closed"),
        ObjectRejections, InvalidField, AnotherRequest))]
pub async fn create(call: Call, account: Path<String>, body: Body) -> Result<Response, Error> {
    let request =
        AccountRequest::<NewReservation>::read(call, "usage:write", (&account, body)).await?;
    let AccountRequest { api, context, account, body: it, once } = request;
    let ends = ends(&it)?;
    let quantity = quantity(&it.quantity)?;
    let reserve = Reserve { account, feature: it.feature, quantity, ends };
    let command = EntitlementCommand::Reserve(Box::new(reserve));
    let reply = context.submit_once(&api, command.into(), once).await?;
    let Reply::Entitlement(EntitlementReply::Reserved { reservation, until, counted }) = reply
    else {
        return Err(unexpected());
    };
    let location = format!("/v1/accounts/{account}/reservations/{reservation}");
    let reserved = Reserved {
        reservation_id: reservation.uuid(),
        feature: counted.feature,
        quantity: counted.quantity,
        until: rfc3339(until),
        level: LevelView::of(counted.level),
    };
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(reserved)).into_response())
}

/// A reservation; known until 35 days after its end
#[utoipa::path(get, path = "/v1/accounts/{accountId}/reservations/{reservationId}", tag = "Entitlements", operation_id = "show_reservation",
    params(("accountId" = Uuid, Path), ("reservationId" = Uuid, Path)),
    responses((status = 200, description = "The reservation", body = ReservationView), ObjectRejections))]
pub async fn show(
    call: Call,
    Path((account, id)): Path<(String, String)>,
) -> Result<Json<ReservationView>, Error> {
    let Call { api, context, .. } = call.allowed("usage:read")?;
    let account = account_id(&account)?;
    let reservation = reservation_id(&id)?;
    let no = context.tenant.no;
    let read = move |queries: &dyn engine::ports::Queries| {
        let Some(it) = queries.reservation(no, account, reservation)? else { return Ok(None) };
        let counts = queries.usage_now(no, account, &[&it.feature])?;
        let of_period = counts.iter().find(|count| count.period == it.period);
        // Of a period that is not among the newest nothing is open.
        let endings = of_period.map_or(u32::MAX, |count| count.endings);
        Ok(Some((it, endings)))
    };
    let (found, now) = (api.engine.read(read).await?, api.engine.clock().now());
    let found = found.filter(|(it, _)| it.is_known(now));
    let (it, endings) = found.ok_or_else(|| Error::not_found("reservation", &id))?;
    Ok(Json(view(&it, endings, now)))
}

/// Counts what was reserved as used
#[utoipa::path(post, path = "/v1/accounts/{accountId}/reservations/{reservationId}/confirm", tag = "Entitlements", operation_id = "confirm_reservation",
    params(("accountId" = Uuid, Path), ("reservationId" = Uuid, Path), IdempotencyKey),
    request_body = Option<Confirmation>,
    responses((status = 200, description = "Counted", body = CountedView),
        (status = 400, description = "A field is invalid, or it is more than was reserved"),
        (status = 409, description = "It was confirmed or released, it is over, or the account is closed"),
        ObjectRejections, AnotherRequest))]
pub async fn confirm(
    call: Call,
    Path((account, id)): Path<(String, String)>,
    body: Body,
) -> Result<Json<CountedView>, Error> {
    let Call { api, context, uri, headers } = call.allowed("usage:write")?;
    let (account, reservation) = (account_id(&account)?, reservation_id(&id)?);
    let it: Confirmation = input::json_or_nothing(body, &context.tenant).await?;
    let quantity = it.quantity.as_ref().map(quantity).transpose()?;
    let confirm = ConfirmReservation { account, reservation, quantity };
    let once = Repeatable::of(&context, (&uri, &headers), &it)?.map(Repeatable::idempotency);
    settle(&api, &context, EntitlementCommand::Confirm(confirm).into(), once).await
}

/// Gives back what was reserved
#[utoipa::path(post, path = "/v1/accounts/{accountId}/reservations/{reservationId}/release", tag = "Entitlements", operation_id = "release_reservation",
    params(("accountId" = Uuid, Path), ("reservationId" = Uuid, Path), IdempotencyKey),
    responses((status = 200, description = "Given back: `quantity` is 0", body = CountedView),
        (status = 409, description = "It was confirmed or released, it is over, or the account is closed"),
        ObjectRejections, AnotherRequest))]
pub async fn release(
    call: Call,
    Path((account, id)): Path<(String, String)>,
) -> Result<Json<CountedView>, Error> {
    let Call { api, context, uri, headers } = call.allowed("usage:write")?;
    let (account, reservation) = (account_id(&account)?, reservation_id(&id)?);
    let release = ReleaseReservation { account, reservation };
    let once = Repeatable::of(&context, (&uri, &headers), &())?.map(Repeatable::idempotency);
    settle(&api, &context, EntitlementCommand::Release(release).into(), once).await
}

/// Submits what ends a reservation.
async fn settle(
    api: &Api,
    context: &RequestContext,
    command: Command,
    once: Option<Idempotency>,
) -> Result<Json<CountedView>, Error> {
    let reply = context.submit_once(api, command, once).await?;
    let Reply::Entitlement(EntitlementReply::Counted(counted)) = reply else {
        return Err(unexpected());
    };
    Ok(Json(CountedView::of(&counted)))
}

fn ends(it: &NewReservation) -> Result<Ends, Error> {
    match (&it.until, it.ttl_seconds) {
        (Some(until), None) => Ok(Ends::At(time("until", until)?)),
        (None, Some(seconds)) => Ok(Ends::After(seconds.saturating_mul(Timestamp::SECOND_US))),
        (None, None) => Err(invalid("until", "is missing, and so is ttlSeconds")),
        (Some(_), Some(_)) => Err(invalid("ttlSeconds", "is there, and so is until")),
    }
}

fn reservation_id(text: &str) -> Result<ReservationId, Error> {
    id_of("reservation", text)
}

fn view(it: &Reservation, endings: u32, now: Timestamp) -> ReservationView {
    ReservationView {
        reservation_id: it.id.uuid(),
        feature: it.feature.clone(),
        quantity: it.quantity,
        until: rfc3339(it.until),
        status: if it.is_open(endings, now) { "open" } else { it.status.ended_name() },
        confirmed: match it.status {
            ReservationStatus::Confirmed { quantity } => Some(quantity),
            ReservationStatus::Open | ReservationStatus::Released => None,
        },
        created_at: rfc3339(it.created_at),
    }
}
