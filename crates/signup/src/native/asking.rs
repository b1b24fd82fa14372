//! Who asks the native API: customers show an access token, operators a password and their tenant.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::{RequestId, TenantNo};
use engine::access::{Caller, ClientAddress, Peer};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::Native;
use super::problem::Problem;
use crate::headers::{self, IDEMPOTENCY_KEY_BYTES_MAX, bearer};
use crate::service::{Asked, Error, Who};

/// A request whose tenant is known.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) tenant: TenantNo,
    from: ClientAddress,
    is_exempt: bool,
    id: RequestId,
    idempotency_key: Option<String>,
}

impl Asking {
    /// The network that it counts for, unless it counts for none.
    pub(super) fn network(&self) -> Option<IpAddr> {
        (!self.is_exempt).then(|| self.from.network())
    }

    /// The same, as sign-up takes it.
    pub(super) fn asked(&self) -> Asked {
        let (tenant, id, from) = (self.tenant, self.id, self.from);
        let (idempotency_key, is_exempt) = (self.idempotency_key.clone(), self.is_exempt);
        Asked { tenant, id, idempotency_key, from, is_exempt }
    }
}

/// Finds the tenant of a request; the answer tells the log which it was.
pub(super) async fn admit(
    State(native): State<Native>,
    mut request: Request,
    next: Next,
) -> Response {
    let from = request.extensions().get().copied().unwrap_or(ClientAddress::UNKNOWN);
    let is_exempt = request.extensions().get().is_some_and(|peer: &Peer| peer.is_local);
    let asking = match asking(&native, (from, is_exempt), request.headers()).await {
        Ok(asking) => asking,
        Err(problem) => return problem.into_response(),
    };
    let tenant = asking.tenant;
    request.extensions_mut().insert(asking);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(tenant);
    response
}

async fn asking(
    native: &Native,
    (from, is_exempt): (ClientAddress, bool),
    headers: &HeaderMap,
) -> Result<Asking, Problem> {
    let idempotency_key = idempotency_key(headers)?;
    let tenant = native.tenants.of(headers, from).await?;
    let id = native.signup.engine().mint();
    Ok(Asking { tenant, from, is_exempt, id, idempotency_key })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    headers::idempotency_key(headers).map_err(|headers::NoKey| Problem::Invalid {
        field: "Idempotency-Key".into(),
        reason: format!("1 to {IDEMPOTENCY_KEY_BYTES_MAX} visible ASCII characters were expected"),
    })
}

impl FromRequestParts<Native> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Native) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or(Problem::TenantMissing)
    }
}

/// A customer who is logged in.
pub(super) struct LoggedIn {
    pub(super) asked: Asked,
    pub(super) who: Who,
}

impl FromRequestParts<Native> for LoggedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, native: &Native) -> Result<Self, Problem> {
        let asking = Asking::from_request_parts(parts, native).await?;
        let token = bearer(&parts.headers).ok_or(Problem::Refused(Error::NoSession))?;
        let who = native.signup.who(asking.tenant, token).await?;
        Ok(Self { asked: asking.asked(), who })
    }
}

/// An operator of a tenant that their request names.
pub(super) struct Operator {
    pub(super) asked: Asked,
    pub(super) tenant: TenantNo,
    caller: Arc<Caller>,
}

impl Operator {
    /// Refuses what the operator may not do.
    pub(super) fn require(&self, permission: &'static str) -> Result<(), Problem> {
        if self.caller.may(permission) { Ok(()) } else { Err(Problem::Forbidden(permission)) }
    }

    pub(super) fn name(&self) -> &str {
        &self.caller.username
    }
}

impl FromRequestParts<Native> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, native: &Native) -> Result<Self, Problem> {
        let asking = Asking::from_request_parts(parts, native).await?;
        let authorization = parts.headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
        let caller = native.tenants.access().user(asking.from, authorization).await?;
        // The door's own tenant is for those who sign up: operators show their tenant's secret.
        let shown = native.tenants.shown(&parts.headers, asking.from).await?;
        let tenant = shown.ok_or(Problem::TenantMissing)?;
        Ok(Self { asked: asking.asked(), tenant, caller })
    }
}
