//! The secrets that deliveries are signed with: how they are replaced, with a time in which both sign.

use ::webhooks::endpoint::{Key, Keys, callback_secret};
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use domain::Timestamp;
use engine::time::rfc3339;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use secrets::webhook::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoints::{find, secret_of};
use super::{WRITE, document};
use crate::caller::Call;
use crate::error::Error;
use crate::input;
use crate::openapi::{
    AnotherRequest, IdempotencyKey, InvalidField, NoSecretsKey, ObjectRejections,
};
use crate::parameters::invalid;
use crate::repeatable::Repeatable;

/// The name of the callback that is registered under /1.0/kb, in place of an endpoint's id.
const CALLBACK: &str = "callback";

/// How long a replaced secret signs where the request does not say: a day.
const OVERLAP_SECONDS_DEFAULT: u32 = 86_400;
/// The longest overlap: 90 days.
const OVERLAP_SECONDS_MAX: u32 = 90 * 86_400;

/// A new secret.
#[derive(Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewWebhookSecret {
    /// 24 to 64 bytes in base64, with or without `whsec_`; one is drawn where it is absent
    secret: Option<String>,
    /// How long the secret before signs too; 86400 by default, 7776000 at most
    overlap_seconds: Option<u32>,
}

/// The secret that deliveries are signed with from now on.
#[derive(Serialize, ToSchema)]
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

/// Replaces the secret of an endpoint, or of the callback of /1.0/kb; both sign for a time
#[utoipa::path(post, path = "/v1/webhooks/endpoints/{endpointId}/secret", tag = "Webhooks", operation_id = "rotate_webhook_secret",
    description = "Deliveries to the callback are signed from its registration on. The first request about it without a `secret` shows what they are signed with, and replaces nothing.",
    params(("endpointId" = String, Path, description = "The endpoint's id, or `callback`"), IdempotencyKey),
    request_body = NewWebhookSecret,
    responses((status = 201, description = "The new secret, shown once", body = WebhookSecretSet),
        ObjectRejections, InvalidField, AnotherRequest, NoSecretsKey))]
pub async fn rotate(call: Call, Path(id): Path<String>, body: Body) -> Result<Response, Error> {
    let Call { api, context, uri, headers } = call.allowed(WRITE)?;
    let new: NewWebhookSecret = input::json_or_nothing(body, &context.tenant).await?;
    let repeatable = Repeatable::of(&context, (&uri, &headers), &new)?;
    let overlap_seconds = new.overlap_seconds.unwrap_or(OVERLAP_SECONDS_DEFAULT);
    if overlap_seconds > OVERLAP_SECONDS_MAX {
        return Err(invalid("overlapSeconds", format!("is more than {OVERLAP_SECONDS_MAX}")));
    }
    let (secret, drawn) = secret_of(new.secret.as_deref())?;
    let now = api.engine.clock().now();
    let until = now.plus_us(i64::from(overlap_seconds) * Timestamp::SECOND_US);
    let first_of_callback = callback_secret(document::sealer(&api)?, context.tenant.no);
    let set = document::change_once(&api, &context, repeatable, |endpoints| {
        if id == CALLBACK {
            let key = Key::new(&secret, false);
            let (keys, shown) = match (endpoints.callback.take(), &drawn) {
                (Some(keys), drawn) => (keys.rotated(key, until), drawn.clone()),
                // Deliveries are signed with it already.
                (None, Some(_)) => {
                    (first_key(&first_of_callback), Some(first_of_callback.prefixed()))
                }
                (None, None) => (first_key(&first_of_callback).rotated(key, until), None),
            };
            let set = WebhookSecretSet::of(&keys, shown);
            endpoints.callback = Some(keys);
            return Ok(set);
        }
        let endpoint = find(endpoints, &id)?;
        let key = Key::new(&secret, endpoint.is_asymmetric);
        endpoint.keys = endpoint.keys.clone().rotated(key, until);
        endpoint.version += 1;
        Ok(WebhookSecretSet::of(&endpoint.keys, drawn.clone()))
    });
    let json = [(CONTENT_TYPE, "application/json")];
    Ok((StatusCode::CREATED, json, set.await?).into_response())
}

fn first_key(secret: &Secret) -> Keys {
    Keys::of(Key::new(secret, false))
}

impl WebhookSecretSet {
    fn of(keys: &Keys, secret: Option<String>) -> Self {
        Self {
            secret,
            public_key: keys.current.public(),
            previous_secret_until: keys.previous.as_ref().map(|it| rfc3339(it.until)),
        }
    }
}
