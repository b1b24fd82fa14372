//! Features: what a tenant sells or grants.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::TenantNo;
use domain::command::EntitlementCommand;
use domain::entitlement::feature::{
    Combine, Feature as Row, FeatureKind, FeatureTerms, LimitTerms, PutFeature, Reset, ValueType,
};
use engine::time::rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{expected, put_answer};
use crate::Api;
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{
    IfMatch, InvalidParameter, ObjectRejections, PageParameters, Unauthenticated,
};
use crate::parameters::{invalid, next_offset};

/// A feature.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeatureView {
    key: String,
    /// Counts its changes, from 1
    version: i64,
    #[serde(flatten)]
    terms: FeatureBody,
    /// When it was made (RFC 3339)
    created_at: String,
    /// When it last changed (RFC 3339)
    updated_at: String,
}

/// Features, in the order of their keys.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeatureList {
    features: Vec<FeatureView>,
    /// The `offset` of the next page, which may be empty; `null` after the last page
    next_offset: Option<u64>,
}

/// The terms of a feature.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeatureBody {
    /// For people; 1 to 255 characters
    name: String,
    /// `switch`, `value` or `limit`; stays what it was
    kind: String,
    /// Of a value: `boolean`, `number`, `string` or `json`; stays what it was
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    value_type: Option<String>,
    /// Of a limit: what is counted, such as `seats`
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// Of a limit, which is not counted yet: when its count starts again: `never` (the default), `day`, `week`, `month` or `year`
    #[serde(skip_serializing_if = "Option::is_none")]
    resets: Option<String>,
    /// Of a limit, which is not counted yet: whether more may be used than there is; false by default
    #[serde(skip_serializing_if = "Option::is_none")]
    overdraft: Option<bool>,
    /// How several grants add up: `latest` (the default), and of a limit also `largest` or `sum`
    #[serde(skip_serializing_if = "Option::is_none")]
    combine: Option<String>,
    /// Whether it is granted no more; who has it keeps it
    #[serde(default)]
    archived: bool,
}

/// The tenant's features, in the order of their keys
#[utoipa::path(get, path = "/v1/features", tag = "Entitlements", operation_id = "features",
    params(PageParameters),
    responses((status = 200, description = "The features", body = FeatureList),
        (status = 403, description = "feature:read is missing"), InvalidParameter, Unauthenticated))]
pub async fn list(call: Call) -> Result<Json<FeatureList>, Error> {
    let (Call { api, context, .. }, page) = call.with_page("feature:read")?;
    let no = context.tenant.no;
    let rows = api.engine.read_page((no, page), move |queries| queries.features(no, page)).await?;
    let next_offset = next_offset(page, rows.len());
    Ok(Json(FeatureList { features: rows.iter().map(view).collect(), next_offset }))
}

/// A feature
#[utoipa::path(get, path = "/v1/features/{featureKey}", tag = "Entitlements", operation_id = "feature",
    params(("featureKey" = String, Path)),
    responses((status = 200, description = "The feature; its version is the ETag", body = FeatureView),
        ObjectRejections))]
pub async fn show(call: Call, Path(key): Path<String>) -> Result<Response, Error> {
    let Call { api, context, .. } = call.allowed("feature:read")?;
    let it = find(&api, context.tenant.no, &key).await?;
    Ok(([input::etag(it.version)], Json(view(&it))).into_response())
}

/// Makes a feature, or changes it
#[utoipa::path(put, path = "/v1/features/{featureKey}", tag = "Entitlements", operation_id = "put_feature",
    params(("featureKey" = String, Path), IfMatch), request_body = FeatureBody,
    responses((status = 200, description = "Changed; its version is the ETag", body = FeatureView),
        (status = 201, description = "Made", body = FeatureView),
        (status = 400, description = "A field is invalid, or there are 1000 features"),
        (status = 412, description = "It has another version than If-Match says, or is there in spite of If-None-Match"),
        (status = 403, description = "feature:write is missing"), Unauthenticated))]
pub async fn put(call: Call, Path(key): Path<String>, body: Body) -> Result<Response, Error> {
    let Call { api, context, headers, .. } = call.allowed("feature:write")?;
    let expected = expected(&headers)?;
    let body: FeatureBody = input::json(body, &context.tenant).await?;
    let terms = body.terms()?;
    let put =
        PutFeature { key: key.clone(), name: body.name, terms, archived: body.archived, expected };
    let command = EntitlementCommand::PutFeature(Box::new(put));
    let version = super::put(&api, &context, command).await?;
    let it = find(&api, context.tenant.no, &key).await?;
    Ok(put_answer(version, view(&it)))
}

impl FeatureBody {
    fn terms(&self) -> Result<FeatureTerms, Error> {
        let combine = self.combine.as_deref().unwrap_or(Combine::Latest.name());
        let combine = Combine::ALL.into_iter().find(|it| it.name() == combine);
        let combine =
            combine.ok_or_else(|| invalid("combine", "is none of largest, sum, latest"))?;
        let kind = match self.kind.as_str() {
            "switch" => FeatureKind::Switch,
            "value" => FeatureKind::Value(self.value_type()?),
            "limit" => FeatureKind::Limit(self.limit()?),
            _ => return Err(invalid("kind", "is none of switch, value, limit")),
        };
        self.refuse_others(&kind)?;
        Ok(FeatureTerms { kind, combine })
    }

    fn value_type(&self) -> Result<ValueType, Error> {
        let name = self.value_type.as_deref().unwrap_or_default();
        let found = ValueType::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| invalid("type", "is none of boolean, number, string, json"))
    }

    fn limit(&self) -> Result<LimitTerms, Error> {
        let resets = self.resets.as_deref().unwrap_or(Reset::Never.name());
        let resets = Reset::ALL.into_iter().find(|it| it.name() == resets);
        let resets =
            resets.ok_or_else(|| invalid("resets", "is none of never, day, week, month, year"))?;
        let unit = self.unit.clone().ok_or_else(|| invalid("unit", "is missing"))?;
        Ok(LimitTerms { unit, resets, overdraft: self.overdraft.unwrap_or(false) })
    }

    /// Refuses fields that a feature of the kind does not have.
    fn refuse_others(&self, kind: &FeatureKind) -> Result<(), Error> {
        let is_value = matches!(kind, FeatureKind::Value(_));
        let is_limit = matches!(kind, FeatureKind::Limit(_));
        let stray = [
            ("type", self.value_type.is_some() && !is_value),
            ("unit", self.unit.is_some() && !is_limit),
            ("resets", self.resets.is_some() && !is_limit),
            ("overdraft", self.overdraft.is_some() && !is_limit),
        ];
        match stray.into_iter().find(|(_, is_stray)| *is_stray) {
            Some((field, _)) => Err(invalid(field, "is not for a feature of this kind")),
            None => Ok(()),
        }
    }
}

async fn find(api: &Api, no: TenantNo, key: &str) -> Result<Row, Error> {
    let wanted = key.to_owned();
    let found = api.engine.read(move |queries| queries.feature(no, &wanted)).await?;
    found.ok_or_else(|| Error::not_found("feature", key))
}

fn view(it: &Row) -> FeatureView {
    let (value_type, limit) = match &it.terms.kind {
        FeatureKind::Switch => (None, None),
        FeatureKind::Value(kind) => (Some(kind.name().to_owned()), None),
        FeatureKind::Limit(limit) => (None, Some(limit)),
    };
    FeatureView {
        key: it.key.clone(),
        version: it.version,
        terms: FeatureBody {
            name: it.name.clone(),
            kind: it.terms.kind.name().to_owned(),
            value_type,
            unit: limit.map(|it| it.unit.clone()),
            resets: limit.map(|it| it.resets.name().to_owned()),
            overdraft: limit.map(|it| it.overdraft),
            combine: Some(it.terms.combine.name().to_owned()),
            archived: it.archived,
        },
        created_at: rfc3339(it.created_at),
        updated_at: rfc3339(it.updated_at),
    }
}
