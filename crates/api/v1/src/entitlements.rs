//! Features and offers of a tenant, and the purchases, entitlements and usage of its accounts.

pub(crate) mod document;
pub mod features;
pub mod grants;
pub mod offers;
pub mod plans;
pub mod purchases;
pub mod reservations;
pub mod usage;
pub mod users;
mod value;
pub(crate) mod view;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use domain::command::EntitlementCommand;
use domain::flag::definition::Expected;
use domain::reply::EntitlementReply;
use domain::{AccountId, Idempotency, Reply};
use engine::Reason;
use http::header::{HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Api;
use crate::caller::{Call, RequestContext};
use crate::error::Error;
use crate::input;
use crate::parameters::{id_of, invalid};
use crate::repeatable::Repeatable;

/// The routes of features, offers, plans, purchases, grants and usage.
pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(features::list))
        .routes(routes!(features::show, features::put))
        .routes(routes!(offers::list))
        .routes(routes!(offers::show, offers::put))
        .routes(routes!(offers::versions))
        .routes(routes!(plans::show_of_plan, plans::put_of_plan))
        .routes(routes!(plans::versions_of_plan))
        .routes(routes!(plans::show_of_product, plans::put_of_product))
        .routes(routes!(plans::versions_of_product))
        .routes(routes!(purchases::list, purchases::create))
        .routes(routes!(purchases::show))
        .routes(routes!(grants::create))
        .routes(routes!(grants::delete))
        .routes(routes!(grants::entitlements))
        .routes(routes!(grants::check))
        .routes(routes!(users::show, users::put))
        .routes(routes!(users::entitlements))
        .routes(routes!(usage::list, usage::record))
        .routes(routes!(reservations::create))
        .routes(routes!(reservations::show))
        .routes(routes!(reservations::confirm))
        .routes(routes!(reservations::release))
}

/// The version that a `PUT` replaces: `If-Match` names it, `If-None-Match: *` says that there is none.
fn expected(headers: &HeaderMap) -> Result<Expected, Error> {
    let nothing = headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes);
    match (nothing, input::expected(headers)?) {
        (None, None) => Ok(Expected::Anything),
        (None, Some(version)) => Ok(Expected::Version(version)),
        (Some(b"*"), None) => Ok(Expected::Nothing),
        (Some(_), _) => Err(invalid("If-None-Match", "is * where there is no If-Match")),
    }
}

/// A document with its version as `ETag`; 201 where it is the first.
fn put_answer(version: i64, document: impl Serialize) -> Response {
    let status = if version == 1 { StatusCode::CREATED } else { StatusCode::OK };
    (status, [input::etag(version)], Json(document)).into_response()
}

fn account_id(text: &str) -> Result<AccountId, Error> {
    id_of("account", text)
}

/// A request about an account, which may come again.
struct AccountRequest<T> {
    api: Api,
    context: RequestContext,
    account: AccountId,
    body: T,
    once: Option<Idempotency>,
}

impl<T: Serialize + DeserializeOwned> AccountRequest<T> {
    /// Reads the request, where its operator has the permission.
    async fn read(
        call: Call,
        permission: &'static str,
        (account, body): (&str, Body),
    ) -> Result<Self, Error> {
        let Call { api, context, uri, headers } = call.allowed(permission)?;
        let account = account_id(account)?;
        let body: T = input::json(body, &context.tenant).await?;
        let once = Repeatable::of(&context, (&uri, &headers), &body)?.map(Repeatable::idempotency);
        Ok(Self { api, context, account, body, once })
    }
}

/// Submits a command whose reply is the version of what it put.
async fn put(
    api: &Api,
    context: &RequestContext,
    command: EntitlementCommand,
) -> Result<i64, Error> {
    let reply = context.submit(api, command.into()).await?;
    let Reply::Entitlement(EntitlementReply::Put { version }) = reply else {
        return Err(unexpected());
    };
    Ok(version)
}

/// A reply of another command: the core has no such answer.
fn unexpected() -> Error {
    Error::Unavailable(Reason::Bug.into())
}
