//! Evaluations of a flag and metrics that programs reported, by the hour.

use axum::Json;
use axum::extract::Path;
use domain::Timestamp;
use domain::flag::definition::DefinitionKind;
use domain::flag::environment::Environment;
use engine::insights::{FlagCount, Hours, MetricCount};
use engine::ports::{HoursPage, Queries};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::find;
use crate::caller::Call;
use crate::openapi::{
    EnvironmentParameters, InvalidParameter, NoEnvironment, NoFlag, PageParameters,
    ProjectParameter,
};
use crate::parameters::{Parameters, Window, invalid};
use engine::time::rfc3339;

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

/// The hours that are counted.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
struct HoursParameters {
    /// From this time's hour on (RFC 3339, or a date)
    from: Option<String>,
    /// Hours that began before this time
    to: Option<String>,
}

/// How often programs reported each variation of a flag, by the hour
#[utoipa::path(get, path = "/v1/flags/{key}/insights", tag = "Feature flags", operation_id = "flag_insights",
    params(("key" = String, Path, description = "The flag's key"),
        EnvironmentParameters, HoursParameters, PageParameters),
    responses((status = 200, description = "The counts", body = FlagInsights),
        (status = 403, description = "flag:read is missing"), InvalidParameter, NoFlag))]
pub async fn of_flag(call: Call, Path(key): Path<String>) -> Result<Json<FlagInsights>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let environment = find::environment(&api, &context, &mut parameters).await?;
    let (hours, window) = hours(parameters)?;
    find::definition(&api, &environment, DefinitionKind::Flag, &key).await?;
    let Environment { tenant, id, .. } = environment;
    let page = HoursPage { hours, page: window.one_more() };
    let read = move |queries: &dyn Queries| queries.flag_insights((tenant, id), &key, page);
    let (counts, more) = window.cut(api.engine.read(read).await?);
    let insights = counts.into_iter().map(|it: FlagCount| FlagLine {
        hour: began(it.hour),
        variation_id: it.variation,
        count: it.evaluations,
        experiment_count: it.for_experiments,
    });
    Ok(Json(FlagInsights { insights: insights.collect(), more }))
}

/// A metric that programs reported, by the hour
#[utoipa::path(get, path = "/v1/environments/{key}/insights/metrics", tag = "Feature flags", operation_id = "metric_insights",
    params(("key" = String, Path, description = "The environment"),
        ProjectParameter,
        ("event" = String, Query, description = "The name"),
        HoursParameters, PageParameters),
    responses((status = 200, description = "The counts", body = MetricInsights),
        (status = 400, description = "A parameter is wrong or missing"),
        (status = 403, description = "flag:read is missing"), NoEnvironment))]
pub async fn of_metric(call: Call, Path(key): Path<String>) -> Result<Json<MetricInsights>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let environment = find::environment_by_key(&api, &context, key, &mut parameters).await?;
    let event = parameters.text("event")?;
    let (hours, window) = hours(parameters)?;
    let event = event.ok_or_else(|| invalid("event", "is missing"))?;
    let Environment { tenant, id, .. } = environment;
    let page = HoursPage { hours, page: window.one_more() };
    let read = move |queries: &dyn Queries| queries.metric_insights((tenant, id), &event, page);
    let (counts, more) = window.cut(api.engine.read(read).await?);
    let metrics = counts.into_iter().map(|it: MetricCount| MetricLine {
        hour: began(it.hour),
        kind: it.kind,
        count: it.events,
        sum: it.total,
    });
    Ok(Json(MetricInsights { metrics: metrics.collect(), more }))
}

/// The requested hours and page, from the rest of the parameters.
fn hours(mut parameters: Parameters) -> Result<(Hours, Window), Error> {
    let (from, to) = (parameters.time("from")?, parameters.time("to")?);
    let window = parameters.window()?;
    parameters.end()?;
    let from = from.map_or(i64::MIN, |it| it.0.div_euclid(HOUR_US));
    // Hours that began before it: the one that it is in, unless it is its first moment.
    let to = to.map_or(i64::MAX, |it| (it.0.saturating_sub(1)).div_euclid(HOUR_US) + 1);
    Ok((Hours { from, to }, window))
}

fn began(hour: i64) -> String {
    rfc3339(Timestamp(hour.saturating_mul(HOUR_US)))
}
