//! The tenant of the request, and what it has chosen.

use axum::Json;
use axum::body::Body;
use domain::Command;
use domain::card_data::NumericKeys;
use domain::command::TenantCommand;
use domain::tenant::{NUMERIC_KEYS, NUMERIC_KEYS_ALLOWED, SetTenantValue};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::Unauthenticated;
use crate::parameters::Parameters;

/// Keys that are one number and nothing else, and look exactly like the number of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NumericKeysChoice {
    /// They are refused.
    Checked,
    /// They are taken.
    Allowed,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantView {
    /// The tenant's id.
    tenant_id: Uuid,
    /// `checked` or `allowed`.
    numeric_keys: NumericKeysChoice,
}

impl From<NumericKeys> for NumericKeysChoice {
    fn from(keys: NumericKeys) -> Self {
        match keys {
            NumericKeys::Checked => Self::Checked,
            NumericKeys::Allowed => Self::Allowed,
        }
    }
}

/// What changes; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantPatch {
    /// `checked` (the default): a key that is one number is refused where it may be the number of a card,
    /// as one in ten is of 16-digit numbers that begin with 4. `allowed`: it is taken.
    numeric_keys: Option<NumericKeysChoice>,
}

/// The tenant of the request.
#[utoipa::path(get, path = "/v1/tenant", tag = "Tenant", operation_id = "get_tenant",
    summary = "The tenant of the request",
    responses((status = 200, description = "The tenant", body = TenantView), Unauthenticated))]
pub async fn show(Call { context, uri, .. }: Call) -> Result<Json<TenantView>, Error> {
    Parameters::of(&uri)?.end()?;
    let numeric_keys = context.tenant.numeric_keys.into();
    Ok(Json(TenantView { tenant_id: context.tenant.id.uuid(), numeric_keys }))
}

/// Changes what the tenant has chosen.
#[utoipa::path(patch, path = "/v1/tenant", tag = "Tenant", operation_id = "patch_tenant",
    summary = "Changes what the tenant of the request has chosen",
    request_body = TenantPatch,
    responses(
        Unauthenticated,
        (status = 403, description = "tenant:update is missing"),
        (status = 400, description = "A field is invalid"),
        (status = 200, description = "The tenant as it is now", body = TenantView)))]
pub async fn patch(Call { api, context, .. }: Call, body: Body) -> Result<Json<TenantView>, Error> {
    context.require("tenant:update")?;
    let patch: TenantPatch = input::json(body, &context.tenant).await?;
    let before = context.tenant.numeric_keys.into();
    let numeric_keys = patch.numeric_keys.unwrap_or(before);
    if numeric_keys != before {
        let value = match numeric_keys {
            NumericKeysChoice::Checked => None,
            NumericKeysChoice::Allowed => Some(NUMERIC_KEYS_ALLOWED.to_owned()),
        };
        let set = SetTenantValue::new(NUMERIC_KEYS.to_owned(), value);
        context.submit(&api, Command::Tenant(TenantCommand::SetValue(set))).await?;
    }
    Ok(Json(TenantView { tenant_id: context.tenant.id.uuid(), numeric_keys }))
}
