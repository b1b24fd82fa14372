//! Explains a flag's value for a user: the evaluated rules and conditions with their results.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use domain::flag::definition::{Definition, DefinitionKind};
use evaluation::{Explanation, Snapshot, User};
use serde::Serialize;
use utoipa::ToSchema;

use super::find;
use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::input;
use crate::openapi::{EnvironmentParameters, InvalidParameter, NoFlag};
use crate::parameters::{Parameters, invalid};
use feature_flags::definition::{self, check_user};
use feature_flags::{document, gate};

/// The evaluation of a flag for a user, step by step.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationView {
    /// The flag's key.
    key: String,
    /// The variation that the user gets; `null` if the flag is archived.
    variation: Option<VariationView>,
    /// The reason, in FeatBit's wording.
    reason: String,
    /// Whether this counts for experiments.
    send_to_experiment: bool,
    /// The rules up to and including the one that the user meets.
    rules: Vec<RuleView>,
    /// The user's position in the rollout; `null` if no rule was evaluated.
    spread: Option<SpreadView>,
    /// Features that the user has, and of which server SDKs and relay proxies do not get the user: each has as many
    /// users as they take. OFREP, gRPC and client streams do. Absent where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// One of a flag's values.
#[derive(Serialize, ToSchema)]
struct VariationView {
    /// The variation's id; empty if no part of the rollout is the user's.
    id: String,
    /// The variation's value as text.
    value: String,
}

/// A rule that was evaluated.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RuleView {
    /// The rule's name.
    name: String,
    /// Whether all of its conditions hold.
    is_met: bool,
    /// The conditions up to and including the first that does not hold.
    conditions: Vec<ConditionView>,
}

/// A condition that was evaluated.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ConditionView {
    /// The property of the user.
    property: String,
    /// The operator, as the flag defines it.
    op: String,
    /// The operand, as the flag defines it.
    value: String,
    /// The user's value; `null` if the user lacks the property, or for a condition on segments.
    found: Option<String>,
    /// The ids of the condition's segments to which the user belongs.
    segments: Vec<String>,
    /// Whether the condition holds.
    holds: bool,
}

/// The position of a user in a rollout.
#[derive(Serialize, ToSchema)]
struct SpreadView {
    /// The text that is hashed: the flag's key and the user's dispatch value.
    key: String,
    /// The hash, scaled to the range from 0 to 1.
    bucket: f64,
    /// From where to where the variation's part of the rollout goes; `null` where no part has the hash.
    interval: Option<[f64; 2]>,
}

/// Explains which variation of a flag a user of this key gets
#[utoipa::path(get, path = "/v1/flags/{key}/explain", tag = "Feature flags", operation_id = "explain_flag_for_key",
    params(("key" = String, Path, description = "The flag's key"),
        ("user" = String, Query, description = "The user's key"),
        EnvironmentParameters),
    responses((status = 200, description = "The rules and conditions up to the one that decided", body = ExplanationView),
        (status = 403, description = "flag:read is missing"), InvalidParameter, NoFlag))]
pub async fn of_key(call: Call, Path(key): Path<String>) -> Result<Json<ExplanationView>, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("flag:read")?;
    let user = parameters.text("user")?.ok_or_else(|| invalid("user", "needs to be set"))?;
    explain((&api, &context), key, parameters, User::new(user)).await
}

/// Why a user gets what they get of a flag
#[utoipa::path(post, path = "/v1/flags/{key}/explain", tag = "Feature flags", operation_id = "explain_flag",
    params(("key" = String, Path, description = "The flag's key"), EnvironmentParameters), request_body = User,
    responses((status = 200, description = "The rules and conditions up to the one that decided", body = ExplanationView),
        (status = 400, description = "The body is no user"),
        (status = 403, description = "flag:read is missing"), NoFlag))]
pub async fn of_user(
    call: Call,
    Path(key): Path<String>,
    body: Body,
) -> Result<Json<ExplanationView>, Error> {
    let (Call { api, context, .. }, parameters) = call.with_parameters("flag:read")?;
    let user: User = input::json(body, &context.tenant).await?;
    check_user("", &user)?;
    explain((&api, &context), key, parameters, user).await
}

async fn explain(
    (api, context): (&Api, &RequestContext),
    key: String,
    mut parameters: Parameters,
    user: User,
) -> Result<Json<ExplanationView>, Error> {
    let environment = find::environment(api, context, &mut parameters).await?;
    parameters.end()?;
    let all = find::definitions(api, &environment).await?;
    let is_it = |it: &&Definition| it.key.kind == DefinitionKind::Flag && it.key.key == key;
    let Some(row) = all.iter().find(is_it) else {
        return Err(Error::NotFound { what: "flag", name: key });
    };
    let flag = gate::as_rule(document::flag(row)?);
    let segments = definition::segments(&all)?;
    let user = find::with_entitled(api, context, user).await?;
    let features = user.entitled.features().map(|(key, _)| key);
    let left_out = api.cache.key_ledger.left_out(context.tenant.no, &user.key_id, features);
    let missing = api.missing;
    let explaining = tokio::task::spawn_blocking(move || {
        let snapshot = Snapshot::new(missing).with([flag], segments);
        let flag = snapshot.flag(&key)?;
        let explained = ExplanationView::of(key.clone(), snapshot.explain(flag, &user));
        Some(ExplanationView { left_out, ..explained })
    });
    let explained = explaining.await.map_err(|_| find::bug())?;
    explained.map(Json).ok_or_else(find::bug)
}

impl ExplanationView {
    fn of(key: String, it: Explanation<'_>) -> Self {
        let variation = it.evaluation.variation;
        let condition = |asked: evaluation::EvaluatedCondition<'_>| ConditionView {
            property: asked.condition.property.clone(),
            op: asked.condition.op.clone(),
            value: asked.condition.value.clone(),
            found: asked.found,
            segments: asked.segments,
            holds: asked.holds,
        };
        let rule = |asked: evaluation::EvaluatedRule<'_>| RuleView {
            name: asked.name.to_owned(),
            is_met: asked.is_met,
            conditions: asked.conditions.into_iter().map(condition).collect(),
        };
        let spread = |it: evaluation::Dispatch| SpreadView {
            key: it.key,
            bucket: it.bucket,
            interval: it.interval,
        };
        Self {
            key,
            variation: variation
                .map(|it| VariationView { id: it.id.clone(), value: it.value.clone() }),
            reason: it.evaluation.reason.text().to_owned(),
            send_to_experiment: it.evaluation.send_to_experiment,
            rules: it.rules.into_iter().map(rule).collect(),
            spread: it.dispatch.map(spread),
            left_out: vec![],
        }
    }
}
