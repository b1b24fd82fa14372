//! The users of the installation: operators, who call the APIs with a password. Kill Bill's API makes and changes
//! them, and lists none.

use axum::Json;
use engine::ports::UserView;
use engine::time::rfc3339;
use http::Uri;
use serde::Serialize;
use utoipa::ToSchema;

use crate::caller::InstallationCall;
use crate::error::Error;
use crate::openapi::{InvalidParameter, PageParameters, Unauthenticated};
use crate::parameters::Parameters;

/// The permission: that of making and changing them.
const CREATE: &str = "user:create";

/// Users, by name.
#[derive(Serialize, ToSchema)]
pub struct UserPage {
    users: Vec<UserDetails>,
    /// Whether there are further ones
    more: bool,
}

/// A user of the installation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserDetails {
    /// The name to log in with
    username: String,
    /// Names of roles; one that does not exist permits nothing
    roles: Vec<String>,
    /// Whether the user can log in; false once deleted
    active: bool,
    /// When the roles, the password or `active` changed last (RFC 3339)
    updated_at: String,
}

/// The users of the installation by name, deleted ones too
#[utoipa::path(get, path = "/v1/users", tag = "Security", operation_id = "list_users",
    params(PageParameters),
    responses((status = 200, description = "The users", body = UserPage),
        (status = 403, description = "user:create is missing"), Unauthenticated, InvalidParameter))]
pub async fn list(
    InstallationCall { api, operator }: InstallationCall,
    uri: Uri,
) -> Result<Json<UserPage>, Error> {
    operator.require(CREATE)?;
    let window = Parameters::only_window(&uri)?;
    let read = api.engine.read(move |queries| queries.users(window.one_more()));
    let (found, more) = window.cut(read.await?);
    let users = found.into_iter().map(describe).collect();
    Ok(Json(UserPage { users, more }))
}

fn describe(user: UserView) -> UserDetails {
    UserDetails {
        username: user.username,
        roles: user.roles,
        active: user.active,
        updated_at: rfc3339(user.updated_at),
    }
}
