//! Which users of feature flags are of which account, and what a user may do.

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::AccountId;
use domain::command::EntitlementCommand;
use domain::entitlement::account_user::SetAccountUsers;
use engine::entitlements;
use engine::ports::{Page, ROWS_MAX};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::document;
use super::{account_id, expected};
use crate::Api;
use crate::caller::Call;
use crate::entitlements::view::EntitlementsView;
use crate::error::Error;
use crate::input;
use crate::openapi::{IfMatch, ObjectRejections};

/// The users that are to be mapped to an account.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUsers {
    /// Their keys, 1 to 255 characters each; 10000 users at most
    users: Vec<String>,
}

/// The users that are mapped to an account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsersView {
    account_id: Uuid,
    /// Counts the changes of the list
    version: i64,
    /// Their keys, in order
    users: Vec<String>,
}

/// The users of feature flags that are mapped to an account
#[utoipa::path(get, path = "/v1/accounts/{accountId}/users", tag = "Entitlements", operation_id = "account_users",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, description = "The users; the version is the ETag", body = UsersView),
        ObjectRejections))]
pub async fn show(call: Call, Path(account): Path<String>) -> Result<Response, Error> {
    let Call { api, context, .. } = call.allowed("entitlement:users")?;
    let account = account_id(&account)?;
    let no = context.tenant.no;
    let is_there = api.engine.read(move |queries| queries.account(no, account)).await?.is_some();
    if !is_there {
        return Err(Error::NotFound { what: "account", name: account.to_string() });
    }
    let view = view(&api, no, account).await?;
    Ok(([input::etag(view.version)], Json(view)).into_response())
}

/// Replaces the users of feature flags that are mapped to an account
#[utoipa::path(put, path = "/v1/accounts/{accountId}/users", tag = "Entitlements", operation_id = "set_account_users",
    params(("accountId" = Uuid, Path), IfMatch), request_body = NewUsers,
    responses((status = 200, description = "They are mapped; the version is the ETag", body = UsersView),
        (status = 400, description = "A key is invalid, or there are more than 10000"),
        (status = 409, description = "A key is the id, the external key, the customer's id or a user of another account"),
        (status = 412, description = "The list has another version"), ObjectRejections))]
pub async fn put(call: Call, Path(account): Path<String>, body: Body) -> Result<Response, Error> {
    let Call { api, context, headers, .. } = call.allowed("entitlement:users")?;
    let (account, expected) = (account_id(&account)?, expected(&headers)?);
    let NewUsers { users } = input::json(body, &context.tenant).await?;
    let command = SetAccountUsers { account, users, expected };
    let command = EntitlementCommand::SetUsers(Box::new(command));
    super::put(&api, &context, command).await?;
    let view = view(&api, context.tenant.no, account).await?;
    Ok((StatusCode::OK, [input::etag(view.version)], Json(view)).into_response())
}

/// All that the account of a user of feature flags may do now
#[utoipa::path(get, path = "/v1/users/{keyId}/entitlements", tag = "Entitlements", operation_id = "user_entitlements",
    params(("keyId" = String, Path, description = "The user's key; percent-encoded")),
    responses((status = 200, description = "What it may do; the version is the ETag. With `Accept: application/jose`, signed", content(
            (EntitlementsView = "application/json"), (String = "application/jose"))),
        (status = 304, description = "The version is that of If-None-Match"),
        (status = 501, description = "There is no key to sign with"), ObjectRejections))]
pub async fn entitlements(call: Call, Path(user): Path<String>) -> Result<Response, Error> {
    let Call { api, context, headers, .. } = call.allowed("entitlement:read")?;
    let no = context.tenant.no;
    let holding = document::holding(&api, context.tenant.entitlements_held_us);
    let read = move |queries: &dyn engine::ports::Queries| {
        let Some(account) = queries.account_of_user(no, &user)? else { return Ok(None) };
        entitlements::read(queries, (no, account), holding.now)
    };
    // The key is personal data: no error quotes it.
    let known = api.engine.read(read).await?.ok_or(Error::NoSuch("user"))?;
    document::answer(&known, holding, api.sealer.as_deref(), &headers)
}

async fn view(api: &Api, no: domain::TenantNo, account: AccountId) -> Result<UsersView, Error> {
    let read = move |queries: &dyn engine::ports::Queries| {
        let page = Page { offset: 0, limit: ROWS_MAX };
        let version = queries.entitlements(no, account)?.map_or(0, |it| it.users_version);
        Ok((version, queries.users_of_account(no, account, page)?))
    };
    let (version, mut users) = api.engine.read(read).await?;
    users.sort_unstable();
    Ok(UsersView { account_id: account.uuid(), version, users })
}
