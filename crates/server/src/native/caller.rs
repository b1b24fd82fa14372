//! Who calls the native API, and for which tenant.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use engine::access::{ClientAddress, TenantRef};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::Native;
use crate::problem::Problem;

/// The tenant's headers: ours, or those that Kill Bill's clients send.
const API_KEY: [&str; 2] = ["x-faregate-apikey", "x-killbill-apikey"];
const API_SECRET: [&str; 2] = ["x-faregate-apisecret", "x-killbill-apisecret"];

/// The tenant that an authenticated user may read. Reads need no permission.
pub struct ReaderOf(pub Arc<TenantRef>);

/// Lets a request in whose user and tenant are known; the answer tells the log which tenant it was.
pub async fn admit(State(native): State<Native>, mut request: Request, next: Next) -> Response {
    let from = request.extensions().get().copied().unwrap_or(ClientAddress::UNKNOWN);
    let tenant = match tenant(&native, from, request.headers()).await {
        Ok(tenant) => tenant,
        Err(problem) => return problem.into_response(),
    };
    let no = tenant.no;
    request.extensions_mut().insert(tenant);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(no);
    response
}

async fn tenant(
    native: &Native,
    from: ClientAddress,
    headers: &HeaderMap,
) -> Result<Arc<TenantRef>, Problem> {
    let authorization = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    native.access.user(from, authorization).await?;
    let key = text(headers, API_KEY).ok_or(Problem::TenantMissing)?;
    let secret = text(headers, API_SECRET).ok_or(Problem::TenantMissing)?;
    Ok(native.access.tenant(from, key, secret).await?)
}

fn text<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Option<&'a str> {
    let value = names.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().filter(|text| !text.is_empty())
}

impl FromRequestParts<Native> for ReaderOf {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Native) -> Result<Self, Problem> {
        parts.extensions.get().cloned().map(Self).ok_or(Problem::TenantMissing)
    }
}
