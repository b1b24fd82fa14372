//! Features of plans and products: what subscriptions give, version by version.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::TenantNo;
use domain::catalog::PhaseType;
use domain::command::EntitlementCommand;
use domain::entitlement::feature::{Feature, FeatureKind, FeatureValue};
use domain::entitlement::plan_features::{
    FEATURES_PER_PLAN_MAX, FeaturesOf, PlanFeature, PlanFeatures, PutPlanFeatures, Starts,
};
use engine::entitlements::value_json;
use engine::ports::Queries;
use engine::time::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{expected, put_answer, value};
use crate::Api;
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{
    IfMatch, InvalidParameter, ObjectRejections, PageParameters, Unauthenticated,
};
use crate::parameters::{invalid, next_offset};

/// A version of the features of a plan or a product.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanFeaturesView {
    /// The plan's or the product's name, as the catalog has it
    name: String,
    /// Counts from 1
    version: i64,
    #[serde(flatten)]
    body: PlanFeaturesBody,
    /// When this version was made (RFC 3339)
    created_at: String,
}

/// Versions of the features of a plan or a product.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanFeaturesList {
    versions: Vec<PlanFeaturesView>,
    /// The `offset` of the next page, which may be empty; `null` after the last page
    next_offset: Option<u64>,
}

/// The features that a plan or a product gives.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanFeaturesBody {
    /// By the keys of features; at most 100. `null` for a feature of a plan takes away what its product gives
    #[schema(value_type = BTreeMap<String, PlanFeatureBody>)]
    features: BTreeMap<String, Option<PlanFeatureBody>>,
}

/// What a plan or a product gives of a feature.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanFeatureBody {
    /// `true` for a switch, a number for a limit; absent: only the phases that `phases` names give it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    value: Option<Value>,
    /// Other values, by the types of phases: `TRIAL`, `DISCOUNT`, `FIXEDTERM`, `EVERGREEN`
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>)]
    phases: BTreeMap<String, Value>,
    /// Whether a limit is multiplied by the subscription's quantity
    #[serde(default)]
    times_quantity: bool,
    /// From when on: `start` (the default), or `paid`, once the first invoice that charges the subscription is paid
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

/// The features of a plan, in their newest or another version
#[utoipa::path(get, path = "/v1/plans/{planName}/features", tag = "Entitlements", operation_id = "plan_features",
    params(("planName" = String, Path), ("version" = Option<i64>, Query, description = "In this version")),
    responses((status = 200, description = "The features; their version is the ETag", body = PlanFeaturesView),
        ObjectRejections, InvalidParameter))]
pub async fn show_of_plan(call: Call, Path(name): Path<String>) -> Result<Response, Error> {
    show(call, FeaturesOf::plan(&name)).await
}

/// The features of a product, in their newest or another version
#[utoipa::path(get, path = "/v1/products/{productName}/features", tag = "Entitlements",
    operation_id = "product_features",
    params(("productName" = String, Path), ("version" = Option<i64>, Query, description = "In this version")),
    responses((status = 200, description = "The features; their version is the ETag", body = PlanFeaturesView),
        ObjectRejections, InvalidParameter))]
pub async fn show_of_product(call: Call, Path(name): Path<String>) -> Result<Response, Error> {
    show(call, FeaturesOf::product(&name)).await
}

async fn show(call: Call, of: FeaturesOf) -> Result<Response, Error> {
    let (Call { api, context, .. }, mut parameters) = call.with_parameters("offer:read")?;
    let version = parameters.number("version", i64::MAX.unsigned_abs())?;
    parameters.end()?;
    let version = version.and_then(|it| i64::try_from(it).ok());
    let it = find(&api, context.tenant.no, &of, version).await?;
    Ok(([input::etag(it.version)], Json(view(&it))).into_response())
}

/// The versions of the features of a plan, the newest first
#[utoipa::path(get, path = "/v1/plans/{planName}/features/versions", tag = "Entitlements",
    operation_id = "plan_features_versions",
    params(("planName" = String, Path), PageParameters),
    responses((status = 200, description = "The versions", body = PlanFeaturesList),
        ObjectRejections, InvalidParameter))]
pub async fn versions_of_plan(
    call: Call,
    Path(name): Path<String>,
) -> Result<Json<PlanFeaturesList>, Error> {
    versions(call, FeaturesOf::plan(&name)).await
}

/// The versions of the features of a product, the newest first
#[utoipa::path(get, path = "/v1/products/{productName}/features/versions", tag = "Entitlements",
    operation_id = "product_features_versions",
    params(("productName" = String, Path), PageParameters),
    responses((status = 200, description = "The versions", body = PlanFeaturesList),
        ObjectRejections, InvalidParameter))]
pub async fn versions_of_product(
    call: Call,
    Path(name): Path<String>,
) -> Result<Json<PlanFeaturesList>, Error> {
    versions(call, FeaturesOf::product(&name)).await
}

async fn versions(call: Call, of: FeaturesOf) -> Result<Json<PlanFeaturesList>, Error> {
    let (Call { api, context, .. }, page) = call.with_page("offer:read")?;
    let no = context.tenant.no;
    find(&api, no, &of, None).await?;
    let read = move |queries: &dyn Queries| queries.plan_features_versions(no, &of, page);
    let rows = api.engine.read_page((no, page), read).await?;
    let next_offset = next_offset(page, rows.len());
    Ok(Json(PlanFeaturesList { versions: rows.iter().map(view).collect(), next_offset }))
}

/// Gives a plan features, or other ones; a subscription has them with its next change, phase or period
#[utoipa::path(put, path = "/v1/plans/{planName}/features", tag = "Entitlements", operation_id = "put_plan_features",
    params(("planName" = String, Path), IfMatch), request_body = PlanFeaturesBody,
    responses((status = 200, description = "The next version; it is the ETag", body = PlanFeaturesView),
        (status = 201, description = "The first version", body = PlanFeaturesView),
        (status = 400, description = "A field is invalid, or 10000 plans and products have features"),
        (status = 412, description = "They have another version than If-Match says, or are there in spite of If-None-Match"),
        (status = 403, description = "offer:write is missing"), Unauthenticated))]
pub async fn put_of_plan(
    call: Call,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, Error> {
    put(call, FeaturesOf::plan(&name), body).await
}

/// Gives all plans of a product features, or other ones; a plan's entry for a feature wins over its product's
#[utoipa::path(put, path = "/v1/products/{productName}/features", tag = "Entitlements",
    operation_id = "put_product_features",
    params(("productName" = String, Path), IfMatch), request_body = PlanFeaturesBody,
    responses((status = 200, description = "The next version; it is the ETag", body = PlanFeaturesView),
        (status = 201, description = "The first version", body = PlanFeaturesView),
        (status = 400, description = "A field is invalid, or 10000 plans and products have features"),
        (status = 412, description = "They have another version than If-Match says, or are there in spite of If-None-Match"),
        (status = 403, description = "offer:write is missing"), Unauthenticated))]
pub async fn put_of_product(
    call: Call,
    Path(name): Path<String>,
    body: Body,
) -> Result<Response, Error> {
    put(call, FeaturesOf::product(&name), body).await
}

async fn put(call: Call, of: FeaturesOf, body: Body) -> Result<Response, Error> {
    let Call { api, context, headers, .. } = call.allowed("offer:write")?;
    let expected = expected(&headers)?;
    let body: PlanFeaturesBody = input::json(body, &context.tenant).await?;
    let no = context.tenant.no;
    let features = features(&api, no, body.features).await?;
    let put = PutPlanFeatures { of: of.clone(), features, expected };
    let command = EntitlementCommand::PutPlanFeatures(Box::new(put));
    let version = super::put(&api, &context, command).await?;
    let it = find(&api, no, &of, Some(version)).await?;
    Ok(put_answer(version, view(&it)))
}

async fn find(
    api: &Api,
    no: TenantNo,
    of: &FeaturesOf,
    version: Option<i64>,
) -> Result<PlanFeatures, Error> {
    let wanted = of.clone();
    let read = move |queries: &dyn Queries| queries.plan_features(no, &wanted, version);
    let found = api.engine.read(read).await?;
    found.ok_or_else(|| Error::not_found(of.kind.list_name(), &of.name))
}

/// The entries as the features that they name say of which kind they are.
async fn features(
    api: &Api,
    no: TenantNo,
    given: BTreeMap<String, Option<PlanFeatureBody>>,
) -> Result<BTreeMap<String, PlanFeature>, Error> {
    if given.len() > FEATURES_PER_PLAN_MAX {
        return Err(invalid("features", "should be at most 100"));
    }
    let keys: Vec<String> = given.keys().cloned().collect();
    let read = api.engine.read(move |queries| {
        let found = keys.iter().map(|key| queries.feature(no, key));
        found.collect::<Result<Vec<Option<Feature>>, _>>()
    });
    let known = read.await?;
    let entries = given.into_iter().zip(known).map(|((key, body), known)| {
        let field = format!("features.{}", key.chars().take(64).collect::<String>());
        let known = known.ok_or_else(|| invalid(field.clone(), "there is no such feature"))?;
        let entry = match body {
            Some(body) => body.entry(&known.terms.kind, &field)?,
            None => NOTHING,
        };
        Ok((key, entry))
    });
    entries.collect()
}

/// What takes away the feature of a product.
const NOTHING: PlanFeature = PlanFeature {
    value: None,
    phases: BTreeMap::new(),
    times_quantity: false,
    starts: Starts::Start,
};

impl PlanFeatureBody {
    fn entry(self, kind: &FeatureKind, field: &str) -> Result<PlanFeature, Error> {
        if self.value.is_none() && self.phases.is_empty() {
            return Err(invalid(
                field.to_owned(),
                "should have a value, for all phases or for some",
            ));
        }
        let parse = |json: &Value, field: String| -> Result<FeatureValue, Error> {
            value::parse(kind, json).map_err(|reason| invalid(field, reason))
        };
        let value = self.value.map(|json| parse(&json, format!("{field}.value"))).transpose()?;
        let mut phases = BTreeMap::new();
        for (name, json) in self.phases {
            let field = format!("{field}.phases.{}", name.chars().take(16).collect::<String>());
            let phase = PhaseType::ALL.into_iter().find(|it| it.name() == name);
            let reason = "is none of TRIAL, DISCOUNT, FIXEDTERM, EVERGREEN";
            let phase = phase.ok_or_else(|| invalid(field.clone(), reason))?;
            phases.insert(phase, parse(&json, field)?);
        }
        let starts = self.from.as_deref().unwrap_or(Starts::Start.name());
        let starts = Starts::ALL.into_iter().find(|it| it.name() == starts);
        let starts =
            starts.ok_or_else(|| invalid(format!("{field}.from"), "is neither start nor paid"))?;
        Ok(PlanFeature { value, phases, times_quantity: self.times_quantity, starts })
    }

    /// The entry as it was put; `None`: it takes away what a product gives.
    fn of(it: &PlanFeature) -> Option<Self> {
        let phases = it.phases.iter().map(|(phase, value)| {
            let name = phase.name().to_owned();
            (name, value_json(value))
        });
        (!it.gives_nothing()).then(|| Self {
            value: it.value.as_ref().map(value_json),
            phases: phases.collect(),
            times_quantity: it.times_quantity,
            from: Some(it.starts.name().to_owned()),
        })
    }
}

fn view(it: &PlanFeatures) -> PlanFeaturesView {
    let entry = |(key, entry): (&String, &PlanFeature)| (key.clone(), PlanFeatureBody::of(entry));
    PlanFeaturesView {
        name: it.of.name.clone(),
        version: it.version,
        body: PlanFeaturesBody { features: it.features.iter().map(entry).collect() },
        created_at: rfc3339(it.created_at),
    }
}
