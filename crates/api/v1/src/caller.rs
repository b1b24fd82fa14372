//! The operator and the tenant of a request.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::payment::Actor;
use domain::{Command, Reply, Request as CoreRequest};
use engine::access::{Caller, ClientAddress, TenantRef};
use engine::{Answer, Reason};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use web::{card_data, headers};

use crate::Api;
use crate::error::Error;
use crate::parameters::{invalid, refuse_card_number};

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

/// The operator and the tenant of a request, with its reason.
#[derive(Clone)]
pub struct RequestContext {
    pub caller: Arc<Caller>,
    pub tenant: Arc<TenantRef>,
    /// The reason, where one is given.
    pub reason: Option<String>,
    /// A comment, where one is given.
    pub comment: Option<String>,
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
        Ok(Self { reason: reason.or(self.reason), ..self })
    }

    /// Submits a command of the caller.
    ///
    /// # Errors
    /// Where it is refused, or cannot be done now.
    pub async fn submit(&self, api: &Api, command: Command) -> Result<Reply, Error> {
        let id = api.engine.mint();
        let user = self.caller.username.clone();
        let created_by = user.clone();
        let (reason, comments) = (self.reason.clone(), self.comment.clone());
        let actor = Actor { user, created_by, reason, comments, token: id.0 };
        let request = CoreRequest { id, tenant: self.tenant.no, actor, idempotency: None, command };
        match api.engine.submit(request).await? {
            Answer::Replied(reply) => Ok(reply),
            Answer::Refused(rejection) => Err(Error::Rejected(Box::new(rejection))),
            // Only of a request that can come twice.
            Answer::StillRunning | Answer::AnotherRequest => {
                Err(Error::Unavailable(Reason::Bug.into()))
            }
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

/// Admits a request with valid credentials; the response carries the tenant's number for the log.
pub async fn admit(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let from = headers::client_address(request.extensions());
    let context = match context(&api, from, request.headers()).await {
        Ok(context) => context,
        Err(problem) => return problem.into_response(),
    };
    // axum's own extractor would refuse it in plain text.
    if percent_decode_str(request.uri().path()).decode_utf8().is_err() {
        return invalid("path", "is no UTF-8").into_response();
    }
    let keys = context.tenant.numeric_keys;
    let in_head = card_data::find_in_head(request.uri(), request.headers(), keys);
    if let Err(error) = refuse_card_number(in_head) {
        return error.into_response();
    }
    let no = context.tenant.no;
    request.extensions_mut().insert(context);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(no);
    response
}

async fn context(
    api: &Api,
    from: ClientAddress,
    headers: &HeaderMap,
) -> Result<RequestContext, Error> {
    let authorization = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let caller = api.access.user(from, authorization).await?;
    let shown = headers::tenant(headers).ok().flatten().ok_or(Error::TenantMissing)?;
    let tenant = api.access.tenant(from, shown.key, shown.secret).await?;
    let reason = note(headers, REASON)?;
    Ok(RequestContext { caller, tenant, reason, comment: note(headers, COMMENT)? })
}

/// The text of a header that goes into histories.
fn note(headers: &HeaderMap, names: [&'static str; 2]) -> Result<Option<String>, Error> {
    let Some(value) = headers::first_of(headers, names) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes());
    let text = text.map_err(|_| invalid(names[0], "is not UTF-8"))?;
    if text.chars().nth(REASON_CHARS_MAX).is_some() {
        return Err(invalid(names[0], format!("has more than {REASON_CHARS_MAX} characters")));
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

impl FromRequestParts<Api> for Call {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Error> {
        let context = parts.extensions.get().cloned().ok_or(Error::TenantMissing)?;
        let (uri, headers) = (parts.uri.clone(), std::mem::take(&mut parts.headers));
        Ok(Self { api: api.clone(), context, uri, headers })
    }
}
