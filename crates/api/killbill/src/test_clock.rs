//! The test clock, and waiting for pending work. Served only if the server runs on a test clock.

use std::time::Duration;

use domain::Timestamp;
use engine::time::rfc3339_second;
use http::StatusCode;
use jiff::Span;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::ToSchema;

use crate::call::Call;
use crate::date;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::reply;
use crate::request::printable;

/// The default time to wait, in seconds.
const TIMEOUT_DEFAULT_S: u64 = 5;

/// The longest time to wait, in seconds.
const TIMEOUT_MAX_S: u64 = 600;

/// The largest step of the clock, in days: a hundred years.
const DAYS_MAX: i64 = 36_525;

/// Kill Bill's representation of its clock.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClockJson {
    current_utc_time: String,
    time_zone: String,
    local_date: String,
}

/// Reads the time.
#[utoipa::path(get, path = "/1.0/kb/test/clock", tag = "Test",
    params(("timeZone" = Option<String>, Query)),
    responses((status = 200, body = ClockJson), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let zone = zone(&call)?;
    Ok(clock_response(&call, zone))
}

/// Sets the time; without `requestedDate`, resets it to real time.
#[utoipa::path(post, path = "/1.0/kb/test/clock", tag = "Test",
    params(("requestedDate" = Option<String>, Query), ("timeZone" = Option<String>, Query),
        ("timeoutSec" = Option<u64>, Query)),
    responses((status = 200, body = ClockJson), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn set(call: Call) -> HandlerResult {
    let (zone, timeout) = (zone(&call)?, timeout(&call)?);
    let clock = call.api.engine().clock();
    match call.query().text("requestedDate")? {
        Some(text) => clock.set(date::parse(&text).ok_or_else(|| {
            Failure::illegal(format!("Invalid format: \"{}\" (requestedDate)", printable(&text)))
        })?),
        None => clock.reset(),
    }
    wait_for_due_work(&call, timeout).await;
    Ok(clock_response(&call, zone))
}

/// Moves the time.
#[utoipa::path(put, path = "/1.0/kb/test/clock", tag = "Test",
    params(
        ("days" = Option<i64>, Query, description = "Days to move by"),
        ("weeks" = Option<i64>, Query, description = "Weeks to move by"),
        ("months" = Option<i64>, Query, description = "Months to move by"),
        ("years" = Option<i64>, Query, description = "Years to move by"),
        ("timeZone" = Option<String>, Query), ("timeoutSec" = Option<u64>, Query)),
    responses((status = 200, body = ClockJson), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn advance(call: Call) -> HandlerResult {
    let (zone, timeout) = (zone(&call)?, timeout(&call)?);
    let amount = |name: &'static str, days: i64| -> Result<i64, Failure> {
        let Some(text) = call.query().text(name)? else { return Ok(0) };
        let amount: Option<i64> = text.parse().ok();
        let amount = amount.filter(|amount| amount.abs() <= DAYS_MAX / days);
        amount
            .ok_or_else(|| Failure::illegal(format!("{name} is no number of {name}, or too many")))
    };
    let span = Span::new()
        .days(amount("days", 1)?)
        .weeks(amount("weeks", 7)?)
        .months(amount("months", 31)?)
        .years(amount("years", 366)?);
    if !span.is_zero() {
        let clock = call.api.engine().clock();
        let moved = add(clock.now(), span).ok_or_else(|| {
            Failure::illegal("days, weeks, months, years: the clock ends with the year 9999")
        })?;
        clock.set(moved);
    }
    wait_for_due_work(&call, timeout).await;
    Ok(clock_response(&call, zone))
}

/// Waits until all events are delivered and no work is due; 412 after the timeout.
#[utoipa::path(get, path = "/1.0/kb/test/queues", tag = "Test",
    params(("timeoutSec" = Option<u64>, Query)),
    responses((status = 200, description = "Everything is done"),
        (status = 412, description = "Not everything is done yet")))]
pub(crate) async fn queues(call: Call) -> HandlerResult {
    let timeout = timeout(&call)?;
    let is_quiet = call.api.engine().quiesce(timeout).await;
    Ok(reply::empty(if is_quiet { StatusCode::OK } else { StatusCode::PRECONDITION_FAILED }))
}

/// Waits for the work that is due after the move. A timeout is only logged: the clock has moved.
async fn wait_for_due_work(call: &Call, timeout: Duration) {
    let engine = call.api.engine();
    engine.pay_attention().await;
    if !engine.quiesce(timeout).await {
        tracing::info!("test clock moved; due work is not done yet");
    }
}

fn add(now: Timestamp, span: Span) -> Option<Timestamp> {
    let now = jiff::Timestamp::from_microsecond(now.0).ok()?.to_zoned(TimeZone::UTC);
    let moved = now.checked_add(span).ok()?;
    (1..=9999).contains(&moved.year()).then(|| Timestamp(moved.timestamp().as_microsecond()))
}

fn timeout(call: &Call) -> Result<Duration, Failure> {
    let Some(text) = call.query().text("timeoutSec")? else {
        return Ok(Duration::from_secs(TIMEOUT_DEFAULT_S));
    };
    let seconds: u64 =
        text.parse().map_err(|_| Failure::illegal("timeoutSec is no number of seconds"))?;
    Ok(Duration::from_secs(seconds.min(TIMEOUT_MAX_S)))
}

fn zone(call: &Call) -> Result<(String, TimeZone), Failure> {
    match call.query().text("timeZone")? {
        None => Ok(("UTC".to_owned(), TimeZone::UTC)),
        Some(name) => match date::zone(&name) {
            Some(zone) => Ok((name.into_owned(), zone)),
            None => {
                let name = printable(&name);
                let message = format!("The datetime zone id '{name}' is not recognised (timeZone)");
                Err(Failure::illegal(message))
            }
        },
    }
}

fn clock_response(call: &Call, (name, zone): (String, TimeZone)) -> axum::response::Response {
    let now = call.api.engine().clock().now();
    reply::ok(&ClockJson {
        current_utc_time: rfc3339_second(now),
        time_zone: name,
        local_date: date::local_date(now, &zone).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;

    fn check(from: &str, span: Span, expected: &str) {
        let moved = add(date::parse(from).unwrap(), span);
        assert_eq!(moved.map_or("too far".to_owned(), rfc3339_second), expected);
    }

    #[test]
    fn the_clock_moves_by_the_calendar() {
        check("2027-01-31T10:00:00Z", 1.month(), "2027-02-28T10:00:00.000Z");
        check("2027-01-15T10:00:00Z", 1.week().days(1), "2027-01-23T10:00:00.000Z");
        check("2028-02-29", 1.year(), "2029-02-28T00:00:00.000Z");
        check("2027-01-01", (-1).days(), "2026-12-31T00:00:00.000Z");
        check("9999-12-01", 1.month(), "too far");
    }
}
