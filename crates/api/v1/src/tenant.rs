//! The tenant of the request, and what it has chosen.

use axum::Json;
use axum::body::Body;
use domain::card_data::NumericKeys;
use domain::command::TenantCommand;
use domain::tenant::{
    ENTITLEMENTS_HELD, ENTITLEMENTS_HELD_S_MAX, ENTITLEMENTS_HELD_S_MIN, NUMERIC_KEYS,
    NUMERIC_KEYS_ALLOWED, SetTenantValue,
};
use domain::{Command, Timestamp};
use engine::access::TenantRef;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{InvalidField, Unauthenticated};
use crate::parameters::{Parameters, invalid};

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
    /// How many seconds a program may hold what one of its accounts may do.
    entitlements_held_seconds: i64,
}

impl From<NumericKeys> for NumericKeysChoice {
    fn from(keys: NumericKeys) -> Self {
        match keys {
            NumericKeys::Checked => Self::Checked,
            NumericKeys::Allowed => Self::Allowed,
        }
    }
}

/// A change of the tenant; fields that are absent keep their values.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantPatch {
    /// `checked` (the default): a key that is one number is refused where it may be the number of a card,
    /// as one in ten is of 16-digit numbers that begin with 4. `allowed`: it is taken.
    numeric_keys: Option<NumericKeysChoice>,
    /// How many seconds a program may hold what one of its accounts may do: 60 to 2592000, 86400 by default.
    #[schema(minimum = 60, maximum = 2_592_000)]
    entitlements_held_seconds: Option<i64>,
}

/// The tenant of the request
#[utoipa::path(get, path = "/v1/tenant", tag = "Tenant", operation_id = "get_tenant",
    responses((status = 200, description = "The tenant", body = TenantView), Unauthenticated))]
pub async fn show(Call { context, uri, .. }: Call) -> Result<Json<TenantView>, Error> {
    Parameters::none(&uri)?;
    Ok(Json(view(&context.tenant)))
}

fn view(tenant: &TenantRef) -> TenantView {
    TenantView {
        tenant_id: tenant.id.uuid(),
        numeric_keys: tenant.numeric_keys.into(),
        entitlements_held_seconds: tenant.entitlements_held_us / Timestamp::SECOND_US,
    }
}

/// Changes what the tenant of the request has chosen
#[utoipa::path(patch, path = "/v1/tenant", tag = "Tenant", operation_id = "patch_tenant",
    request_body = TenantPatch,
    responses((status = 200, description = "The tenant as it is now", body = TenantView),
        (status = 403, description = "tenant:update is missing"), Unauthenticated, InvalidField))]
pub async fn patch(Call { api, context, .. }: Call, body: Body) -> Result<Json<TenantView>, Error> {
    context.require("tenant:update")?;
    let patch: TenantPatch = input::json(body, &context.tenant).await?;
    let before = view(&context.tenant);
    let held = patch.entitlements_held_seconds.unwrap_or(before.entitlements_held_seconds);
    if !(ENTITLEMENTS_HELD_S_MIN..=ENTITLEMENTS_HELD_S_MAX).contains(&held) {
        return Err(invalid("entitlementsHeldSeconds", "should be 60 to 2592000"));
    }
    if held != before.entitlements_held_seconds {
        let set = SetTenantValue::new(ENTITLEMENTS_HELD.to_owned(), Some(held.to_string()));
        context.submit(&api, Command::Tenant(TenantCommand::SetValue(set))).await?;
    }
    let numeric_keys = patch.numeric_keys.unwrap_or(before.numeric_keys);
    if numeric_keys != before.numeric_keys {
        let value = match numeric_keys {
            NumericKeysChoice::Checked => None,
            NumericKeysChoice::Allowed => Some(NUMERIC_KEYS_ALLOWED.to_owned()),
        };
        let set = SetTenantValue::new(NUMERIC_KEYS.to_owned(), value);
        context.submit(&api, Command::Tenant(TenantCommand::SetValue(set))).await?;
    }
    Ok(Json(TenantView { numeric_keys, entitlements_held_seconds: held, ..before }))
}
