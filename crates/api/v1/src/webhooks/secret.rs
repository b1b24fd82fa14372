//! The secrets that deliveries are signed with: how they are replaced, with a time in which both sign.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use domain::Timestamp;
use engine::time::rfc3339;
use gateway::push::endpoint::{Key, Keys};
use http::StatusCode;
use secrets::webhook::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoints::{find, secret_of};
use super::{WRITE, document};
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::ObjectRejections;
use crate::parameters::{Parameters, invalid};

/// The name of the callback that is registered under /1.0/kb, in place of an endpoint's id.
const CALLBACK: &str = "callback";

/// How long a replaced secret signs where the request does not say: a day.
const OVERLAP_SECONDS_DEFAULT: u32 = 86_400;
/// The longest overlap: 90 days.
const OVERLAP_SECONDS_MAX: u32 = 90 * 86_400;

/// A new secret.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewWebhookSecret {
    /// 24 to 64 bytes in base64, with or without `whsec_`; one is drawn where it is absent
    secret: Option<String>,
    /// How long the secret before signs too; 86400 by default, 7776000 at most
    overlap_seconds: Option<u32>,
}

/// The secret that deliveries are signed with from now on.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSecretSet {
    /// Shown once; absent where the request gave it
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// The new Ed25519 key that v1a signatures are verified with
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// Until when the secret before signs too (RFC 3339)
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_secret_until: Option<String>,
}

/// Replaces the secret of an endpoint.
#[utoipa::path(post, path = "/v1/webhooks/endpoints/{endpointId}/secret", tag = "Webhooks", operation_id = "rotate_webhook_secret",
    summary = "Replaces the secret of an endpoint, or of the callback of /1.0/kb; both sign for a time",
    params(("endpointId" = String, Path, description = "The endpoint's id, or `callback`")),
    request_body = NewWebhookSecret,
    responses(
        ObjectRejections,
        (status = 201, description = "The new secret, shown once", body = WebhookSecretSet),
        (status = 400, description = "A field is invalid"),
        (status = 501, description = "flags.key_file is not configured")))]
pub async fn rotate(
    Call { api, context, uri, .. }: Call,
    Path(id): Path<String>,
    body: Body,
) -> Result<(StatusCode, Json<WebhookSecretSet>), Error> {
    context.require(WRITE)?;
    Parameters::of(&uri)?.end()?;
    let new: NewWebhookSecret = input::json_or_nothing(body, &context.tenant).await?;
    let overlap_seconds = new.overlap_seconds.unwrap_or(OVERLAP_SECONDS_DEFAULT);
    if overlap_seconds > OVERLAP_SECONDS_MAX {
        return Err(invalid("overlapSeconds", format!("is more than {OVERLAP_SECONDS_MAX}")));
    }
    let (secret, drawn) = secret_of(new.secret.as_deref())?;
    let now = api.engine.clock().now();
    let until = now.plus_us(i64::from(overlap_seconds) * Timestamp::SECOND_US);
    let set = document::change(&api, &context, |endpoints| {
        let (keys, is_asymmetric) = if id == CALLBACK {
            (endpoints.callback.take(), false)
        } else {
            let endpoint = find(endpoints, &id)?;
            (Some(endpoint.keys.clone()), endpoint.is_asymmetric)
        };
        let keys = rotated(keys, (&secret, is_asymmetric), until);
        let set = WebhookSecretSet {
            secret: drawn.clone(),
            public_key: keys.current.public(),
            previous_secret_until: keys.previous.as_ref().map(|it| rfc3339(it.until)),
        };
        if id == CALLBACK {
            endpoints.callback = Some(keys);
        } else {
            let endpoint = find(endpoints, &id)?;
            (endpoint.keys, endpoint.version) = (keys, endpoint.version + 1);
        }
        Ok(set)
    });
    Ok((StatusCode::CREATED, Json(set.await?)))
}

fn rotated(keys: Option<Keys>, (secret, is_asymmetric): (&Secret, bool), until: Timestamp) -> Keys {
    let key = Key::new(secret, is_asymmetric);
    match keys {
        Some(keys) => keys.rotated(key, until),
        None => Keys::of(key),
    }
}
