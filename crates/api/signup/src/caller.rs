//! The caller of a request: a customer with an access token, an operator, or an unauthenticated
//! client.

use axum::extract::Request;
use domain::CustomerId;
use domain::card_data::NumericKeys;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use sign_up::TenantCredentials;
use sign_up::service::{AuthenticatedCustomer, RequestContext};
use web::card_data;
use web::headers::{self, IncompleteTenant, bearer};

use crate::Api;
use crate::body::Fields;
use crate::error::{ApiError, card_number};

/// The context of a request, authenticated or not.
///
/// # Errors
/// An invalid idempotency key, a missing tenant or wrong credentials of one.
pub(crate) async fn context(api: &Api, parts: &Parts) -> Result<RequestContext, ApiError> {
    let from = headers::client_address(&parts.extensions);
    let credentials = credentials(&parts.headers)?;
    let is_of_tenant = credentials.is_some();
    let tenant = api.tenants.find(credentials, from).await?;
    let idempotency_key = headers::idempotency_key(&parts.headers)
        .map_err(|_| ApiError::bad("Idempotency-Key should have 1 to 255 visible characters"))?;
    let in_head = card_data::find_in_head(&parts.uri, &parts.headers, NumericKeys::Checked);
    if let Some(field) = in_head {
        return Err(card_number(&field));
    }
    let is_exempt = headers::is_local(&parts.extensions);
    let id = api.sign_up.engine().mint();
    Ok(RequestContext { tenant, id, idempotency_key, from, is_exempt, is_of_tenant })
}

fn credentials(headers: &HeaderMap) -> Result<Option<TenantCredentials<'_>>, ApiError> {
    let found = headers::tenant(headers)
        .map_err(|IncompleteTenant| ApiError::unauthorized("Not authenticated"))?;
    Ok(found.map(|it| TenantCredentials { api_key: it.key, secret: it.secret }))
}

/// The customer whose access token a request has.
///
/// # Errors
/// 401.
pub(crate) async fn customer(
    api: &Api,
    parts: &Parts,
) -> Result<(RequestContext, AuthenticatedCustomer), ApiError> {
    let context = context(api, parts).await?;
    let token =
        bearer(&parts.headers).ok_or_else(|| ApiError::unauthorized("Not authenticated"))?;
    let caller = api.sign_up.authenticate(context.tenant, token).await?;
    Ok((context, caller))
}

/// The context of a request with a body, and the fields of the body, which is read last.
///
/// # Errors
/// As [`context`]; the body cannot be read.
pub(crate) async fn form(
    api: &Api,
    request: Request,
) -> Result<(RequestContext, Fields), ApiError> {
    let (parts, body) = request.into_parts();
    Ok((context(api, &parts).await?, Fields::read(body).await?))
}

/// As [`form`], of a customer.
///
/// # Errors
/// As [`customer`]; the body cannot be read.
pub(crate) async fn customer_form(
    api: &Api,
    request: Request,
) -> Result<((RequestContext, AuthenticatedCustomer), Fields), ApiError> {
    let (parts, body) = request.into_parts();
    Ok((customer(api, &parts).await?, Fields::read(body).await?))
}

/// A caller of an internal route, which may read customers.
pub(crate) struct InternalCaller {
    pub(crate) context: RequestContext,
    /// A customer may read only themselves.
    only: Option<CustomerId>,
}

impl InternalCaller {
    /// The context of a request about this customer.
    ///
    /// # Errors
    /// 404 for another customer's token, as if the customer did not exist.
    pub(crate) fn about(self, customer: &str) -> Result<RequestContext, ApiError> {
        match self.only {
            Some(own) if own.to_string() != customer => {
                Err(ApiError::not_found("Customer not found"))
            }
            Some(_) | None => Ok(self.context),
        }
    }
}

/// The caller of an internal route: a customer, an operator with the permission who shows the credentials
/// of their tenant, or, if `signup.trust_internal` is set, any client.
///
/// # Errors
/// 401, 403.
pub(crate) async fn internal(
    api: &Api,
    parts: &Parts,
    permission: &str,
) -> Result<InternalCaller, ApiError> {
    let authorization = parts.headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    if authorization.is_none() && api.sign_up.settings().trust_internal {
        return Ok(InternalCaller { context: context(api, parts).await?, only: None });
    }
    if bearer(&parts.headers).is_some() {
        let (context, caller) = self::customer(api, parts).await?;
        return Ok(InternalCaller { context, only: Some(caller.customer.id) });
    }
    let from = headers::client_address(&parts.extensions);
    let caller = api.access.user(from, authorization).await?;
    // The configured tenant is for customers.
    if credentials(&parts.headers)?.is_none() {
        return Err(ApiError::unauthorized("Not authenticated"));
    }
    match caller.may(permission) {
        true => Ok(InternalCaller { context: context(api, parts).await?, only: None }),
        false => Err(ApiError::new(http::StatusCode::FORBIDDEN, "Not permitted")),
    }
}
