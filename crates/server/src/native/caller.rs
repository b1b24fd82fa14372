//! Who calls the native API, and for which tenant.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use engine::access::{Caller, ClientAddress, TenantRef};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::Native;
use super::parameters::invalid;
use crate::problem::Problem;

/// The tenant's headers: ours, or those that Kill Bill's clients send.
const API_KEY: [&str; 2] = ["x-faregate-apikey", "x-killbill-apikey"];
const API_SECRET: [&str; 2] = ["x-faregate-apisecret", "x-killbill-apisecret"];

/// Why somebody asks, for the histories of what they change.
const REASON: [&str; 2] = ["x-faregate-reason", "x-killbill-reason"];
const COMMENT: [&str; 2] = ["x-faregate-comment", "x-killbill-comment"];

/// How long either may be.
pub const REASON_CHARS_MAX: usize = 255;

/// The tenant that an authenticated user may read. Reads need no permission.
pub struct ReaderOf(pub Arc<TenantRef>);

/// Who asks, and for which tenant.
#[derive(Clone)]
pub struct Asking {
    /// The user.
    pub caller: Arc<Caller>,
    /// The tenant.
    pub tenant: Arc<TenantRef>,
    /// Why they ask, where they say so.
    pub reason: Option<String>,
    /// What else they say about it.
    pub comment: Option<String>,
}

impl Asking {
    /// The same for a reason that the body tells, if it does.
    ///
    /// # Errors
    /// Where it is too long.
    pub fn because(self, reason: Option<String>) -> Result<Self, Problem> {
        if reason.as_ref().is_some_and(|it| it.chars().nth(REASON_CHARS_MAX).is_some()) {
            let reason = format!("has more than {REASON_CHARS_MAX} characters");
            return Err(invalid("reason", reason));
        }
        Ok(Self { reason: reason.or(self.reason), ..self })
    }

    /// Refuses what the user may not do.
    ///
    /// # Errors
    /// Where they lack the permission.
    pub fn require(&self, permission: &'static str) -> Result<(), Problem> {
        if self.caller.may(permission) { Ok(()) } else { Err(Problem::Forbidden(permission)) }
    }
}

/// Lets a request in whose user and tenant are known; the answer tells the log which tenant it was.
pub async fn admit(State(native): State<Native>, mut request: Request, next: Next) -> Response {
    let from = request.extensions().get().copied().unwrap_or(ClientAddress::UNKNOWN);
    let asking = match asking(&native, from, request.headers()).await {
        Ok(asking) => asking,
        Err(problem) => return problem.into_response(),
    };
    // A handler that takes the path apart would say so in plain text.
    if percent_decode_str(request.uri().path()).decode_utf8().is_err() {
        return invalid("path", "is no UTF-8").into_response();
    }
    let no = asking.tenant.no;
    request.extensions_mut().insert(asking);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(no);
    response
}

async fn asking(
    native: &Native,
    from: ClientAddress,
    headers: &HeaderMap,
) -> Result<Asking, Problem> {
    let authorization = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let caller = native.access.user(from, authorization).await?;
    let key = text(headers, API_KEY).ok_or(Problem::TenantMissing)?;
    let secret = text(headers, API_SECRET).ok_or(Problem::TenantMissing)?;
    let tenant = native.access.tenant(from, key, secret).await?;
    let reason = said(headers, REASON)?;
    Ok(Asking { caller, tenant, reason, comment: said(headers, COMMENT)? })
}

/// What a header says in words.
fn said(headers: &HeaderMap, names: [&'static str; 2]) -> Result<Option<String>, Problem> {
    let Some(value) = names.iter().find_map(|name| headers.get(*name)) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes());
    let text = text.map_err(|_| invalid(names[0], "is not UTF-8"))?;
    if text.chars().nth(REASON_CHARS_MAX).is_some() {
        return Err(invalid(names[0], format!("has more than {REASON_CHARS_MAX} characters")));
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

fn text<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Option<&'a str> {
    let value = names.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().filter(|text| !text.is_empty())
}

impl FromRequestParts<Native> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Native) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or(Problem::TenantMissing)
    }
}

impl FromRequestParts<Native> for ReaderOf {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, native: &Native) -> Result<Self, Problem> {
        Ok(Self(Asking::from_request_parts(parts, native).await?.tenant))
    }
}
