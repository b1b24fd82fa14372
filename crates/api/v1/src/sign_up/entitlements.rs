//! A customer's entitlements, for their own session.

use axum::extract::State;
use axum::response::Response;
use domain::tenant::{ENTITLEMENTS_HELD, entitlements_held_us};
use engine::entitlements::{self, Holding};
use engine::ports::Queries;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, HeaderValue};

use super::SignUpApi;
use super::context::LoggedIn;
use crate::entitlements::document;
use crate::entitlements::view::EntitlementsView;
use crate::error::Error;
use crate::openapi::NotLoggedIn;

/// All that the customer's account may do now
#[utoipa::path(get, path = "/v1/me/entitlements", tag = "Sign-up", operation_id = "sign_up_my_entitlements",
    responses((status = 200, description = "What it may do; the version is the ETag. With `Accept: application/jose`, signed", content(
            (EntitlementsView = "application/json"), (String = "application/jose"))),
        (status = 304, description = "The version is that of If-None-Match"),
        (status = 501, description = "There is no key to sign with"), NotLoggedIn))]
pub(super) async fn show(
    State(api): State<SignUpApi>,
    LoggedIn { sign_up, caller, .. }: LoggedIn,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let (no, account) = (caller.tenant, caller.customer.account);
    let now = sign_up.engine().clock().now();
    let read = move |queries: &dyn Queries| {
        let held = queries.tenant_value(no, ENTITLEMENTS_HELD)?.and_then(|it| it.value);
        Ok((entitlements::read(queries, (no, account), now)?, held))
    };
    let (known, held) = sign_up.engine().read(read).await?;
    // The customer's account is there as long as the customer is.
    let known = known.ok_or(Error::NoSuch("account"))?;
    let held_us = entitlements_held_us(held.as_deref());
    let holding = Holding { now, held_us };
    let mut answer = document::answer(&known, holding, api.sealer.as_deref(), &headers)?;
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}
