//! Who calls: a customer with their access token, an operator, or anybody.

use domain::CustomerId;
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

/// Somebody who may see customers from outside, of whom it is not asked yet which.
pub(super) struct Internal {
    pub(super) asked: Asked,
    /// The one customer, where it is a customer who asks.
    only: Option<CustomerId>,
}

impl Internal {
    /// On whose behalf it is asked about this customer.
    ///
    /// # Errors
    /// 404 for another customer's token, as if there were nobody of that id.
    pub(super) fn about(self, customer: &str) -> Result<Asked, Failure> {
        match self.only {
            Some(own) if own.to_string() != customer => {
                Err(Failure::not_found("Customer not found"))
            }
            Some(_) | None => Ok(self.asked),
        }
    }
}

/// Lets in whoever may see a customer from outside: the customer, an operator with a permission, or,
/// where the door is told to trust whoever reaches it, anybody.
///
/// # Errors
/// 401, 403.
pub(super) async fn internal(
    door: &Door,
    parts: &Parts,
    permission: &str,
) -> Result<Internal, Failure> {
    let authorization = parts.headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    if authorization.is_none() && door.sign_up.settings().trust_internal {
        return Ok(Internal { asked: asked(door, parts).await?, only: None });
    }
    if bearer(&parts.headers).is_some() {
        let (asked, who) = self::customer(door, parts).await?;
        return Ok(Internal { asked, only: Some(who.customer.id) });
    }
    let caller = door.access.user(from(parts), authorization).await?;
    match caller.may(permission) {
        true => Ok(Internal { asked: asked(door, parts).await?, only: None }),
        false => Err(Failure::new(http::StatusCode::FORBIDDEN, "Not permitted")),
    }
}
