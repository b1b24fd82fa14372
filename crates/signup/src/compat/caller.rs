//! Who calls: a customer with their access token, an operator, or anybody.

use engine::access::{ClientAddress, Peer};
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::Door;
use super::error::Failure;
use crate::headers::{self, bearer};
use crate::service::{Asked, Who};

/// Where a request comes from.
pub(super) fn from(parts: &Parts) -> ClientAddress {
    parts.extensions.get().copied().unwrap_or(ClientAddress::UNKNOWN)
}

/// On whose behalf a request is made.
///
/// # Errors
/// An idempotency key that is none, a tenant that is not there or whose secret is wrong.
pub(super) async fn asked(door: &Door, parts: &Parts) -> Result<Asked, Failure> {
    let tenant = door.tenants.of(&parts.headers, from(parts)).await?;
    let idempotency_key = headers::idempotency_key(&parts.headers).map_err(|headers::NoKey| {
        Failure::bad("Idempotency-Key should have 1 to 255 visible characters")
    })?;
    let is_exempt = parts.extensions.get().is_some_and(|peer: &Peer| peer.is_local);
    let id = door.sign_up.engine().mint();
    Ok(Asked { tenant, id, idempotency_key, from: from(parts), is_exempt })
}

/// The customer whose access token a request has.
///
/// # Errors
/// 401.
pub(super) async fn customer(door: &Door, parts: &Parts) -> Result<(Asked, Who), Failure> {
    let asked = asked(door, parts).await?;
    let token = bearer(&parts.headers).ok_or_else(|| Failure::unauthorized("Not authenticated"))?;
    let who = door.sign_up.who(asked.tenant, token).await?;
    Ok((asked, who))
}

/// Lets in whoever may see a customer from outside: the customer, an operator with a permission, or,
/// where the door is told to trust whoever reaches it, anybody.
///
/// # Errors
/// 401; 404 for another customer's token, as if there were nobody of that id.
pub(super) async fn internal(
    door: &Door,
    parts: &Parts,
    (customer, permission): (&str, &str),
) -> Result<Asked, Failure> {
    let authorization = parts.headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    if authorization.is_none() && door.sign_up.settings().trust_internal {
        return asked(door, parts).await;
    }
    if bearer(&parts.headers).is_some() {
        let (asked, who) = self::customer(door, parts).await?;
        return match who.customer.id.to_string() == customer {
            true => Ok(asked),
            false => Err(Failure::not_found("Customer not found")),
        };
    }
    let caller = door.access.user(from(parts), authorization).await?;
    match caller.may(permission) {
        true => asked(door, parts).await,
        false => Err(Failure::new(http::StatusCode::FORBIDDEN, "Not permitted")),
    }
}
