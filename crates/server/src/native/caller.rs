//! Who calls the native API, and for which tenant.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use engine::access::TenantRef;
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

impl FromRequestParts<Native> for ReaderOf {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, native: &Native) -> Result<Self, Problem> {
        let authorization = parts.headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
        native.access.user(authorization).await?;
        let key = text(&parts.headers, API_KEY).ok_or(Problem::TenantMissing)?;
        let secret = text(&parts.headers, API_SECRET).ok_or(Problem::TenantMissing)?;
        Ok(Self(native.access.tenant(key, secret).await?))
    }
}

fn text<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Option<&'a str> {
    let value = names.iter().find_map(|name| headers.get(*name))?;
    value.to_str().ok().filter(|text| !text.is_empty())
}
