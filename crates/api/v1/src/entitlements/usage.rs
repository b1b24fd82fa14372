//! The usage of accounts' limits.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::command::EntitlementCommand;
use domain::entitlement::usage::{
    EVENT_ID_CHARS_MAX, EventKey, ITEMS_MAX, RecordUsage, RecordUsages, Recorded, Usage, UsageItem,
};
use domain::reply::EntitlementReply;
use domain::{EntitlementRejection as R, Rejection, Reply, Timestamp};
use engine::ports::Queries;
use engine::time::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use utoipa::ToSchema;
use web::fingerprint;

use super::{AccountRequest, account_id, unexpected};
use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{
    AnotherRequest, IdempotencyKey, InvalidField, InvalidParameter, ObjectRejections,
    PageParameters,
};
use crate::parameters::{Parameters, invalid, next_offset, time};
use crate::usage_view::CountedView;

/// Something that an account used, or a batch of that: `events` alone.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewUsage {
    /// The key of a feature that is a limit
    feature: Option<String>,
    /// A whole number from 1 to 9007199254740991
    #[schema(value_type = Option<i64>)]
    quantity: Option<Number>,
    /// 1 to 256 characters. Within 35 days, what has the same one is not counted again
    event_id: Option<String>,
    /// When (RFC 3339), an hour ago at most; now by default
    at: Option<String>,
    /// 1 to 1000 events, each of which is counted or refused by itself
    events: Option<Vec<NewEvent>>,
}

/// Something that an account used, in a batch.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewEvent {
    /// The key of a feature that is a limit
    feature: String,
    /// A whole number from 1 to 9007199254740991
    #[schema(value_type = i64)]
    quantity: Number,
    /// 1 to 256 characters. Within 35 days, what has the same one is not counted again
    event_id: String,
    /// When (RFC 3339), an hour ago at most; now by default
    at: Option<String>,
}

/// The results of the events of a batch.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedView {
    /// How many were counted
    counted: usize,
    /// In the order of the request
    events: Vec<EventView>,
}

/// The result of an event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    event_id: String,
    /// `counted`; `duplicate`, where an event of the id was counted before; or `refused`
    outcome: &'static str,
    /// The count of this event, or of the earlier one with its id
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<CountedView>,
    /// Why it was refused
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<RefusedView>,
}

/// Why an event was refused.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedView {
    /// As of a problem
    #[serde(rename = "type")]
    kind: String,
    detail: String,
    /// The field that is wrong
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

/// The usage of a feature by an account in a period.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeriodView {
    feature: String,
    /// When the period began (RFC 3339); `null`, where the count never starts again
    from: Option<String>,
    /// When it ends (RFC 3339); `null`: never
    until: Option<String>,
    used: i64,
    /// The quantity that is reserved now
    reserved: i64,
    /// When it last changed (RFC 3339)
    updated_at: String,
}

/// A page of counts, the newest period first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageList {
    usage: Vec<PeriodView>,
    /// The `offset` of the next page, which may be empty; `null` after the last page
    next_offset: Option<u64>,
}

/// Counts what an account used of its limits: an event, or a batch
#[utoipa::path(post, path = "/v1/accounts/{accountId}/usage", tag = "Entitlements", operation_id = "record_usage",
    params(("accountId" = Uuid, Path), IdempotencyKey), request_body = NewUsage,
    responses((status = 200, description = "Counted; of a batch, what became of each event", body = CountedView),
        (status = 409, description = "The event was counted before (`known` is the first answer), there is not so much left (`known` is what there is), the account has nothing of the feature, or it is closed"),
        ObjectRejections, InvalidField, AnotherRequest))]
pub async fn record(call: Call, account: Path<String>, body: Body) -> Result<Response, Error> {
    let request = AccountRequest::<NewUsage>::read(call, "usage:write", (&account, body)).await?;
    let AccountRequest { api, context, account, body: it, once } = request;
    let Some(events) = it.events else {
        let item = item(&one(it)?, String::new())?;
        let command = EntitlementCommand::RecordUsage(Box::new(RecordUsage { account, item }));
        let reply = context.submit_once(&api, command.into(), once).await?;
        let Reply::Entitlement(EntitlementReply::Counted(counted)) = reply else {
            return Err(unexpected());
        };
        return Ok(Json(CountedView::of(&counted)).into_response());
    };
    let alone = [
        ("feature", it.feature.is_some()),
        ("quantity", it.quantity.is_some()),
        ("eventId", it.event_id.is_some()),
        ("at", it.at.is_some()),
    ];
    if let Some((field, _)) = alone.into_iter().find(|(_, is_there)| *is_there) {
        return Err(invalid(field, "is in each of the events where there are events"));
    }
    if !(1..=ITEMS_MAX).contains(&events.len()) {
        return Err(invalid("events", format!("should be 1 to {ITEMS_MAX}")));
    }
    let items = events.iter().enumerate().map(|(at, it)| item(it, format!("events[{at}].")));
    let items = items.collect::<Result<_, _>>()?;
    let command = EntitlementCommand::RecordUsages(Box::new(RecordUsages { account, items }));
    let reply = context.submit_once(&api, command.into(), once).await?;
    let Reply::Entitlement(EntitlementReply::Recorded(recorded)) = reply else {
        return Err(unexpected());
    };
    let events = events.into_iter().zip(recorded).map(|(event, it)| shown(event.event_id, it));
    let events: Vec<EventView> = events.collect();
    let counted = events.iter().filter(|it| it.outcome == "counted").count();
    Ok(Json(RecordedView { counted, events }).into_response())
}

/// What an account used of a feature, by period, the newest first
#[utoipa::path(get, path = "/v1/accounts/{accountId}/usage", tag = "Entitlements", operation_id = "list_usage",
    params(("accountId" = Uuid, Path), ("feature" = String, Query, description = "The key of a feature"), PageParameters),
    responses((status = 200, description = "Periods in which something was used or reserved", body = UsageList),
        ObjectRejections, InvalidParameter))]
pub async fn list(
    Call { api, context, uri, .. }: Call,
    Path(account): Path<String>,
) -> Result<Json<UsageList>, Error> {
    context.require("usage:read")?;
    let account = account_id(&account)?;
    let mut parameters = Parameters::of(&uri)?;
    let feature = parameters.text("feature")?;
    let page = parameters.page()?;
    parameters.end()?;
    let key = feature.ok_or_else(|| invalid("feature", "is missing"))?;
    let (no, wanted) = (context.tenant.no, key.clone());
    let read = move |queries: &dyn Queries| {
        let feature = queries.feature(no, &wanted)?;
        let is_there = queries.account(no, account)?.is_some();
        Ok((feature, is_there, queries.usage(no, account, &wanted, page)?))
    };
    let (feature, is_there, found) = api.engine.read(read).await?;
    if feature.is_none() {
        return Err(Error::not_found("feature", &key));
    }
    if !is_there {
        return Err(Error::NotFound { what: "account", name: account.to_string() });
    }
    let now = api.engine.clock().now();
    let next_offset = next_offset(page, found.len());
    Ok(Json(UsageList { usage: found.iter().map(|it| period(it, now)).collect(), next_offset }))
}

fn period(it: &Usage, now: Timestamp) -> PeriodView {
    let until = it.period.until;
    PeriodView {
        feature: it.feature.clone(),
        from: until.map(|_| rfc3339(it.period.from)),
        until: until.map(rfc3339),
        used: it.used,
        reserved: it.reserved_at(now),
        updated_at: rfc3339(it.updated_at),
    }
}

/// The event of a request without a batch.
fn one(it: NewUsage) -> Result<NewEvent, Error> {
    let missing = |field: &'static str| move || invalid(field, "is missing");
    Ok(NewEvent {
        feature: it.feature.ok_or_else(missing("feature"))?,
        quantity: it.quantity.ok_or_else(missing("quantity"))?,
        event_id: it.event_id.ok_or_else(missing("eventId"))?,
        at: it.at,
    })
}

/// An event; `path` is before the names of its fields.
fn item(it: &NewEvent, path: String) -> Result<UsageItem, Error> {
    let named = |error: Error| {
        let Error::InvalidParameter { field, reason } = error else { return error };
        Error::InvalidParameter { field: format!("{path}{field}").into(), reason }
    };
    let read = || {
        let event = event_key(&it.event_id)?;
        let at = it.at.as_ref().map(|at| time("at", at)).transpose()?;
        Ok(UsageItem { feature: it.feature.clone(), quantity: quantity(&it.quantity)?, event, at })
    };
    read().map_err(named)
}

/// A quantity that is a whole number; whether it is in range, the core says.
pub(super) fn quantity(it: &Number) -> Result<i64, Error> {
    let reason = "is not a whole number between 1 and 9007199254740991";
    it.as_i64().ok_or_else(|| invalid("quantity", reason))
}

fn event_key(id: &str) -> Result<EventKey, Error> {
    match id.chars().count() {
        1..=EVENT_ID_CHARS_MAX => Ok(EventKey(fingerprint(&[id.as_bytes()]))),
        _ => Err(invalid("eventId", format!("should have 1 to {EVENT_ID_CHARS_MAX} characters"))),
    }
}

fn shown(event_id: String, recorded: Recorded) -> EventView {
    let refused = match recorded {
        Ok(counted) => {
            let counted = Some(CountedView::of(&counted));
            return EventView { event_id, outcome: "counted", counted, problem: None };
        }
        Err(Rejection::Entitlement(R::EventCounted(first))) => {
            let counted = Some(CountedView::of(&first));
            return EventView { event_id, outcome: "duplicate", counted, problem: None };
        }
        Err(refused) => refused,
    };
    let problem = Error::Rejected(Box::new(refused)).problem();
    let (kind, detail, field) = problem.into_parts();
    let problem = Some(RefusedView { kind, detail, field });
    EventView { event_id, outcome: "refused", counted: None, problem }
}
