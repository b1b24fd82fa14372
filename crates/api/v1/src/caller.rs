//! The operator and the tenant of a request.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::card_data::NumericKeys;
use domain::payment::Actor;
use domain::{Command, Idempotency, Reply, Request as CoreRequest, RequestId, TenantNo};
use engine::Answer;
use engine::access::{AccessError, Caller, ClientAddress, TenantRef, text_of_header};
use engine::ports::Page;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use sign_up::Error as SignUpError;
use web::{card_data, headers};

use crate::Api;
use crate::error::Error;
use crate::parameters::{Parameters, invalid, refuse_card_number};

/// The reason of a request, for the history of what it changes.
const REASON: [&str; 2] = ["x-faregate-reason", "x-killbill-reason"];
const COMMENT: [&str; 2] = ["x-faregate-comment", "x-killbill-comment"];

/// The longest of either, in characters.
pub const REASON_CHARS_MAX: usize = 255;

/// An admitted request of an operator, but for the parts of its path and its body. Handlers extract
/// it first.
pub struct Call {
    pub api: Api,
    pub context: RequestContext,
    pub uri: Uri,
    pub headers: HeaderMap,
}

/// An admitted request that is about the installation: it needs no tenant's credentials. Handlers
/// extract it first.
pub struct InstallationCall {
    pub api: Api,
    pub operator: Operator,
}

/// The operator of a request, with the reason given.
#[derive(Clone)]
pub struct Operator {
    pub caller: Arc<Caller>,
    /// The reason, where one is given.
    pub reason: Option<String>,
    /// A comment, where one is given.
    pub comment: Option<String>,
}

/// The operator and the tenant of a request.
#[derive(Clone)]
pub struct RequestContext {
    pub operator: Operator,
    pub tenant: Arc<TenantRef>,
    /// Where the request comes from.
    pub from: ClientAddress,
}

impl Call {
    /// The request, where its operator has the permission and it has no parameters.
    ///
    /// # Errors
    /// [`Error::Forbidden`], and where it has one.
    pub fn allowed(self, permission: &'static str) -> Result<Self, Error> {
        self.context.require(permission)?;
        Parameters::none(&self.uri)?;
        Ok(self)
    }

    /// The request and its parameters, where its operator has the permission.
    ///
    /// # Errors
    /// [`Error::Forbidden`], and as [`Parameters::of`].
    pub fn with_parameters(self, permission: &'static str) -> Result<(Self, Parameters), Error> {
        self.context.require(permission)?;
        let parameters = Parameters::of(&self.uri)?;
        Ok((self, parameters))
    }

    /// The request and the page that it asks for, where its operator has the permission and it has no other parameters.
    ///
    /// # Errors
    /// [`Error::Forbidden`], and as [`Parameters::only_page`].
    pub fn with_page(self, permission: &'static str) -> Result<(Self, Page), Error> {
        self.context.require(permission)?;
        let page = Parameters::only_page(&self.uri)?;
        Ok((self, page))
    }
}

impl Operator {
    /// Submits a command of the operator about a tenant.
    ///
    /// # Errors
    /// Where it is refused, or cannot be done now.
    pub async fn submit(
        &self,
        api: &Api,
        tenant: TenantNo,
        command: Command,
    ) -> Result<Reply, Error> {
        self.submit_once(api, tenant, (command, None)).await
    }

    /// As [`Operator::submit`], of a request that may come again.
    ///
    /// # Errors
    /// As there, and where its key was used for another request, or the first one still runs.
    pub async fn submit_once(
        &self,
        api: &Api,
        tenant: TenantNo,
        (command, idempotency): (Command, Option<Idempotency>),
    ) -> Result<Reply, Error> {
        self.submit_as(api, (tenant, api.engine.mint()), (command, idempotency)).await
    }

    /// The same with an id that was minted for it.
    async fn submit_as(
        &self,
        api: &Api,
        (tenant, id): (TenantNo, RequestId),
        (command, idempotency): (Command, Option<Idempotency>),
    ) -> Result<Reply, Error> {
        let user = self.caller.username.clone();
        let created_by = user.clone();
        let (reason, comments) = (self.reason.clone(), self.comment.clone());
        let actor = Actor { user, created_by, reason, comments, token: id.0 };
        let request = CoreRequest { id, tenant, actor, idempotency, command };
        match api.engine.submit(request).await? {
            Answer::Replied(reply) => Ok(reply),
            Answer::Refused(rejection) => Err(Error::Rejected(Box::new(rejection))),
            Answer::StillRunning => Err(SignUpError::StillRunning.into()),
            Answer::AnotherRequest => Err(SignUpError::AnotherRequest.into()),
        }
    }

    /// Checks a permission.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub fn require(&self, permission: &'static str) -> Result<(), Error> {
        if self.caller.may(permission) { Ok(()) } else { Err(Error::Forbidden(permission)) }
    }
}

impl RequestContext {
    /// The same with the reason in the body, if there is one.
    ///
    /// # Errors
    /// Where it is too long.
    pub fn because(self, reason: Option<String>) -> Result<Self, Error> {
        if reason.as_ref().is_some_and(|it| it.chars().nth(REASON_CHARS_MAX).is_some()) {
            let reason = format!("has more than {REASON_CHARS_MAX} characters");
            return Err(invalid("reason", reason));
        }
        let Self { operator, tenant, from } = self;
        let reason = reason.or(operator.reason);
        Ok(Self { operator: Operator { reason, ..operator }, tenant, from })
    }

    /// Submits a command of the operator about the request's tenant.
    ///
    /// # Errors
    /// See [`Operator::submit`].
    pub async fn submit(&self, api: &Api, command: Command) -> Result<Reply, Error> {
        self.operator.submit(api, self.tenant.no, command).await
    }

    /// Submits a command about the request's tenant that may come again.
    ///
    /// # Errors
    /// See [`Operator::submit_once`].
    pub async fn submit_once(
        &self,
        api: &Api,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<Reply, Error> {
        self.operator.submit_once(api, self.tenant.no, (command, idempotency)).await
    }

    /// The same with an id that was minted for it.
    ///
    /// # Errors
    /// See [`Self::submit_once`].
    pub async fn submit_as(
        &self,
        api: &Api,
        id: RequestId,
        (command, idempotency): (Command, Option<Idempotency>),
    ) -> Result<Reply, Error> {
        self.operator.submit_as(api, (self.tenant.no, id), (command, idempotency)).await
    }

    /// Checks a permission.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub fn require(&self, permission: &'static str) -> Result<(), Error> {
        self.operator.require(permission)
    }
}

/// Admits a request with valid credentials; the response carries the tenant's number for the log.
pub async fn admit(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let from = headers::client_address(request.extensions());
    let context = match context(&api, from, request.headers()).await {
        Ok(context) => context,
        Err(problem) => return problem.into_response(),
    };
    if let Err(error) = check_head(&request, context.tenant.numeric_keys) {
        return error.into_response();
    }
    let no = context.tenant.no;
    request.extensions_mut().insert(context);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(no);
    response
}

/// Admits a request of an operator; no tenant is needed.
pub async fn admit_operator(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let from = headers::client_address(request.extensions());
    let operator = match operator(&api, from, request.headers()).await {
        Ok(operator) => operator,
        Err(problem) => return problem.into_response(),
    };
    if let Err(error) = check_head(&request, NumericKeys::Checked) {
        return error.into_response();
    }
    request.extensions_mut().insert(operator);
    next.run(request).await
}

fn check_head(request: &Request, keys: NumericKeys) -> Result<(), Error> {
    // axum's own extractor would refuse it in plain text.
    if percent_decode_str(request.uri().path()).decode_utf8().is_err() {
        return Err(invalid("path", "is no UTF-8"));
    }
    refuse_card_number(card_data::find_in_head(request.uri(), request.headers(), keys))
}

async fn context(
    api: &Api,
    from: ClientAddress,
    headers: &HeaderMap,
) -> Result<RequestContext, Error> {
    let operator = operator(api, from, headers).await?;
    let shown = headers::tenant(headers).ok().flatten().ok_or(Error::TenantMissing)?;
    let tenant = api.access.tenant(from, shown.key, shown.secret).await?;
    Ok(RequestContext { operator, tenant, from })
}

/// Whether what a request was admitted with is still valid, and grants a permission. It counts as valid while
/// that cannot be checked.
pub async fn is_still_admitted(
    api: &Api,
    from: ClientAddress,
    headers: &HeaderMap,
    permission: &'static str,
) -> bool {
    match context(api, from, headers).await {
        Ok(context) => context.require(permission).is_ok(),
        Err(Error::Access(AccessError::Unavailable(_) | AccessError::Throttled { .. })) => true,
        Err(_) => false,
    }
}

async fn operator(api: &Api, from: ClientAddress, headers: &HeaderMap) -> Result<Operator, Error> {
    let authorization = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let caller = api.access.user(from, authorization).await?;
    Ok(Operator { caller, reason: note(headers, REASON)?, comment: note(headers, COMMENT)? })
}

/// The text of a header that goes into histories.
fn note(headers: &HeaderMap, names: [&'static str; 2]) -> Result<Option<String>, Error> {
    let Some(value) = headers::first_of(headers, names) else { return Ok(None) };
    let text = text_of_header(value.as_bytes());
    if text.chars().nth(REASON_CHARS_MAX).is_some() {
        return Err(invalid(names[0], format!("has more than {REASON_CHARS_MAX} characters")));
    }
    Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
}

impl FromRequestParts<Api> for Call {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Error> {
        let context = parts.extensions.get().cloned().ok_or(Error::TenantMissing)?;
        let (uri, headers) = (parts.uri.clone(), std::mem::take(&mut parts.headers));
        Ok(Self { api: api.clone(), context, uri, headers })
    }
}

impl FromRequestParts<Api> for InstallationCall {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Error> {
        let operator = parts.extensions.get().cloned().ok_or(AccessError::Missing)?;
        Ok(Self { api: api.clone(), operator })
    }
}
