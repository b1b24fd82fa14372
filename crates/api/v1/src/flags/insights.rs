//! Evaluations of a flag and metrics that programs reported, by the hour.

use axum::Json;
use axum::extract::{Path, State};
use domain::Timestamp;
use domain::definition::DefinitionKind;
use domain::environment::Environment;
use engine::insights::{FlagCount, Hours, MetricCount};
use engine::ports::Page;
use http::Uri;
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use crate::caller::RequestContext;
use crate::parameters::{Parameters, invalid};
use engine::time::rfc3339;

use crate::Api;
use crate::error::Error;

const HOUR_US: i64 = 3_600_000_000;

/// The evaluations of a flag, by hour and variation.
#[derive(Serialize, ToSchema)]
pub struct FlagInsights {
    /// The lines of the page, in the order of the hours.
    insights: Vec<FlagLine>,
    /// Whether more lines follow after this page.
    more: bool,
}

/// The evaluations of a flag to one variation in an hour.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FlagLine {
    /// The start of the hour (RFC 3339).
    hour: String,
    /// The variation's id.
    variation_id: String,
    /// The number of evaluations.
    count: i64,
    /// The number of these that count for experiments.
    experiment_count: i64,
}

/// The metric events of a name, by hour and type.
#[derive(Serialize, ToSchema)]
pub struct MetricInsights {
    /// The lines of the page, in the order of the hours.
    metrics: Vec<MetricLine>,
    /// Whether more lines follow after this page.
    more: bool,
}

/// The metric events of a name and a type in an hour.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MetricLine {
    /// The start of the hour (RFC 3339).
    hour: String,
    /// The type of the events, as the program reported it.
    #[serde(rename = "type")]
    kind: String,
    /// The number of events.
    count: i64,
    /// The sum of the values.
    sum: f64,
}

/// Shows the evaluations of a flag, by hour and variation.
#[utoipa::path(
    get,
    path = "/v1/flags/{key}/insights",
    tag = "Feature flags",
    operation_id = "flag_insights",
    summary = "How often programs reported each variation of a flag, by the hour",
    params(
        ("key" = String, Path, description = "The flag's key"),
        ("environment" = Option<String>, Query, description = "Its key; dev by default"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
        ("from" = Option<String>, Query, description = "From this time's hour on (RFC 3339, or a date)"),
        ("to" = Option<String>, Query, description = "Hours that began before this time"),
        ("offset" = Option<u64>, Query, description = "How many to skip"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most"),
    ),
    responses(
        (status = 200, description = "What was counted", body = FlagInsights),
        (status = 400, description = "A parameter is wrong"),
        (status = 403, description = "flag:read is missing"),
        (status = 404, description = "There is no such environment or flag"),
    )
)]
pub async fn of_flag(
    State(api): State<Api>,
    context: RequestContext,
    Path(key): Path<String>,
    uri: Uri,
) -> Result<Json<FlagInsights>, Error> {
    context.require("flag:read")?;
    let mut parameters = Parameters::of(&uri)?;
    let environment = find::environment(&api, &context, &mut parameters).await?;
    let window = Window::of(parameters)?;
    find::definition(&api, &environment, DefinitionKind::Flag, &key).await?;
    let Environment { tenant, id, .. } = environment;
    let counts = api
        .engine
        .read(move |queries| {
            queries.flag_insights((tenant, id), &key, window.hours, window.one_more())
        })
        .await?;
    let (counts, more) = window.cut(counts);
    let insights = counts.into_iter().map(|it: FlagCount| FlagLine {
        hour: began(it.hour),
        variation_id: it.variation,
        count: it.evaluations,
        experiment_count: it.for_experiments,
    });
    Ok(Json(FlagInsights { insights: insights.collect(), more }))
}

/// Shows the metric events of a name, by hour and type.
#[utoipa::path(
    get,
    path = "/v1/environments/{key}/insights/metrics",
    tag = "Feature flags",
    operation_id = "metric_insights",
    summary = "What programs measured by a name, by the hour",
    params(
        ("key" = String, Path, description = "The environment"),
        ("project" = Option<String>, Query, description = "Its project; default by default"),
        ("event" = String, Query, description = "The name"),
        ("from" = Option<String>, Query, description = "From this time's hour on (RFC 3339, or a date)"),
        ("to" = Option<String>, Query, description = "Hours that began before this time"),
        ("offset" = Option<u64>, Query, description = "How many to skip"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most"),
    ),
    responses(
        (status = 200, description = "What was counted", body = MetricInsights),
        (status = 400, description = "A parameter is wrong or missing"),
        (status = 403, description = "flag:read is missing"),
        (status = 404, description = "There is no such environment"),
    )
)]
pub async fn of_metric(
    State(api): State<Api>,
    context: RequestContext,
    Path(key): Path<String>,
    uri: Uri,
) -> Result<Json<MetricInsights>, Error> {
    context.require("flag:read")?;
    let mut parameters = Parameters::of(&uri)?;
    let environment = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    let event = parameters.text("event")?;
    let window = Window::of(parameters)?;
    let event = event.ok_or_else(|| invalid("event", "is missing"))?;
    let Environment { tenant, id, .. } = environment;
    let counts = api
        .engine
        .read(move |queries| {
            queries.metric_insights((tenant, id), &event, window.hours, window.one_more())
        })
        .await?;
    let (counts, more) = window.cut(counts);
    let metrics = counts.into_iter().map(|it: MetricCount| MetricLine {
        hour: began(it.hour),
        kind: it.kind,
        count: it.events,
        sum: it.total,
    });
    Ok(Json(MetricInsights { metrics: metrics.collect(), more }))
}

/// The requested hours and page.
#[derive(Clone, Copy)]
struct Window {
    hours: Hours,
    page: Page,
}

impl Window {
    /// Parses the rest of the parameters.
    fn of(mut parameters: Parameters) -> Result<Self, Error> {
        let (from, to) = (parameters.time("from")?, parameters.time("to")?);
        let page = parameters.page()?;
        parameters.end()?;
        let from = from.map_or(i64::MIN, |it| it.0.div_euclid(HOUR_US));
        // Hours that began before it: the one that it is in, unless it is its first moment.
        let to = to.map_or(i64::MAX, |it| (it.0.saturating_sub(1)).div_euclid(HOUR_US) + 1);
        Ok(Self { hours: Hours { from, to }, page })
    }

    /// The page and one more row.
    const fn one_more(self) -> Page {
        Page { offset: self.page.offset, limit: self.page.limit + 1 }
    }

    /// The page, and whether there is more.
    fn cut<T>(self, mut rows: Vec<T>) -> (Vec<T>, bool) {
        let limit = usize::try_from(self.page.limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        (rows, more)
    }
}

fn began(hour: i64) -> String {
    rfc3339(Timestamp(hour.saturating_mul(HOUR_US)))
}
