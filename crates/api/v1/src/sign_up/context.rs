//! The tenant and the caller of a request: customers send an access token, operators a password and
//! the credentials of their tenant.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::TenantNo;
use domain::card_data::NumericKeys;
use engine::access::Caller;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Extensions, HeaderMap};
use sign_up::service::{AuthenticatedCustomer, RequestContext};
use sign_up::{Error as SignUpError, SignUp, TenantCredentials};
use web::card_data;
use web::headers::{self, IncompleteTenant};

use super::SignUpApi;
use crate::error::Error;
use crate::input;
use crate::parameters::refuse_card_number;

/// Adds the [`RequestContext`] to a request, and its tenant to the response for the access log.
pub(super) async fn add(
    State(api): State<SignUpApi>,
    mut request: Request,
    next: Next,
) -> Response {
    let context = match context(&api, request.extensions(), request.headers()).await {
        Ok(context) => context,
        Err(error) => return error.into_response(),
    };
    let in_head = card_data::find_in_head(request.uri(), request.headers(), NumericKeys::Checked);
    if let Err(error) = refuse_card_number(in_head) {
        return error.into_response();
    }
    let tenant = context.tenant;
    request.extensions_mut().insert(context);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(tenant);
    response
}

async fn context(
    api: &SignUpApi,
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Result<RequestContext, Error> {
    let idempotency_key = input::idempotency_key(headers)?;
    let from = headers::client_address(extensions);
    let credentials = credentials(headers)?;
    let is_of_tenant = credentials.is_some();
    let tenant = api.tenants.find(credentials, from).await?;
    let (id, is_exempt) = (api.sign_up.engine().mint(), headers::is_local(extensions));
    Ok(RequestContext { tenant, id, idempotency_key, from, is_exempt, is_of_tenant })
}

pub(super) fn credentials(headers: &HeaderMap) -> Result<Option<TenantCredentials<'_>>, Error> {
    let found = headers::tenant(headers).map_err(|IncompleteTenant| Error::TenantMissing)?;
    Ok(found.map(|it| TenantCredentials { api_key: it.key, secret: it.secret }))
}

/// Extracts what [`add`] has added.
pub(super) struct Context(pub(super) RequestContext);

impl FromRequestParts<SignUpApi> for Context {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &SignUpApi) -> Result<Self, Error> {
        parts.extensions.get().cloned().map(Self).ok_or(Error::TenantMissing)
    }
}

/// A customer who is logged in.
pub(super) struct LoggedIn {
    pub(super) sign_up: SignUp,
    pub(super) context: RequestContext,
    pub(super) caller: AuthenticatedCustomer,
}

impl FromRequestParts<SignUpApi> for LoggedIn {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &SignUpApi) -> Result<Self, Error> {
        let Context(context) = Context::from_request_parts(parts, api).await?;
        let token = headers::bearer(&parts.headers).ok_or(SignUpError::NoSession)?;
        let caller = api.sign_up.authenticate(context.tenant, token).await?;
        Ok(Self { sign_up: api.sign_up.clone(), context, caller })
    }
}

/// An operator, and the tenant whose credentials the request has.
pub(super) struct Operator {
    pub(super) sign_up: SignUp,
    pub(super) context: RequestContext,
    pub(super) tenant: TenantNo,
    caller: Arc<Caller>,
}

impl Operator {
    /// Checks a permission.
    pub(super) fn require(&self, permission: &'static str) -> Result<(), Error> {
        if self.caller.may(permission) { Ok(()) } else { Err(Error::Forbidden(permission)) }
    }

    pub(super) fn name(&self) -> &str {
        &self.caller.username
    }
}

impl FromRequestParts<SignUpApi> for Operator {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &SignUpApi) -> Result<Self, Error> {
        let Context(context) = Context::from_request_parts(parts, api).await?;
        let authorization = parts.headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
        let caller = api.tenants.access().user(context.from, authorization).await?;
        // The configured tenant is for customers: operators send their tenant's credentials.
        let credentials = credentials(&parts.headers)?.ok_or(Error::TenantMissing)?;
        let tenant = api.tenants.authenticate(credentials, context.from).await?;
        Ok(Self { sign_up: api.sign_up.clone(), context, tenant, caller })
    }
}
