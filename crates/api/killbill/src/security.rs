//! Users and roles of the installation, and the caller's permissions.
//!
//! Who may create users gives no more than they hold themselves: roles, and passwords of users and the
//! content of roles that are there already, are refused where they reach further.

use domain::access::{CreateUser, PutRole, Role, UpdateUser, normalize_permission};
use domain::command::AccessCommand;
use domain::reply::AccessReply;
use domain::{AccessRejection, Command, Rejection, Reply};
use engine::text;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::call::{Call, unexpected};
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::json::{Json, Raw};
use crate::reply;

const USER_JSON: Json = Json("UserRolesJson");
const ROLE_JSON: Json = Json("RoleDefinitionJson");

/// The longest name of a user, a role or a permission, in characters.
const NAME_CHARS_MAX: usize = 128;
/// The longest password, in characters: it bounds the work of the hash.
const PASSWORD_CHARS_MAX: usize = 256;

/// Kill Bill's `UserRolesJson`. Responses never contain the password.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserRolesJson {
    username: String,
    password: Option<String>,
    roles: Vec<String>,
}

/// Kill Bill's `RoleDefinitionJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleJson {
    role: String,
    permissions: Vec<String>,
}

/// Kill Bill's `SubjectJson`. There are no sessions.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubjectJson<'a> {
    principal: &'a str,
    is_authenticated: bool,
    is_remembered: bool,
    session: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = UserRolesRequest)]
struct UserBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    username: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    password: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<String>>)]
    roles: Raw<'a>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RoleRequest)]
struct RoleBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = String)]
    role: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Vec<String>)]
    permissions: Raw<'a>,
}

impl UserBody<'_> {
    /// The user's name, without the colon that Basic authentication cannot carry.
    fn username(&self) -> Result<String, Failure> {
        let name = USER_JSON.text("username", self.username, NAME_CHARS_MAX)?;
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| USER_JSON.missing("username"))?;
        if name.contains(':') {
            return Err(Failure::illegal("UserRolesJson username should not contain a colon"));
        }
        Ok(text::username(&name).into_owned())
    }

    async fn password_hash(&self, call: &Call) -> Result<String, Failure> {
        let password = USER_JSON.text("password", self.password, PASSWORD_CHARS_MAX)?;
        let password = password.filter(|password| !password.is_empty());
        let password = password.ok_or_else(|| USER_JSON.missing("password"))?;
        call.api.access().hash(&password).await.map_err(Failure::of_user)
    }

    fn roles(&self) -> Result<Option<Vec<String>>, Failure> {
        USER_JSON.texts("roles", self.roles, NAME_CHARS_MAX)
    }
}

/// Creates a user.
#[utoipa::path(post, path = "/1.0/kb/security/users", tag = "Security",
    request_body = UserBody<'static>,
    responses((status = 201, description = "Created; Location names their roles"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create_user(call: Call) -> HandlerResult {
    let body: UserBody<'_> = call.body(USER_JSON)?;
    let (username, roles) = (body.username()?, body.roles()?.unwrap_or_default());
    require_roles(&call, roles.clone()).await?;
    let password_hash = body.password_hash(&call).await?;
    let rest = (username.clone(), roles.clone());
    let command =
        Command::Access(AccessCommand::CreateUser(CreateUser { username, password_hash, roles }));
    let Reply::Access(AccessReply::UserCreated(username)) =
        call.submit_secret(command, rest).await?
    else {
        unexpected()
    };
    let username = reply::segment(&username);
    let path = ["/1.0/kb/security/users/", &username, "/roles"];
    Ok(reply::created(call.location(&path)))
}

/// Changes a user's password.
#[utoipa::path(put, path = "/1.0/kb/security/users/{username}/password", tag = "Security",
    params(("username" = String, Path)), request_body = UserBody<'static>,
    responses((status = 204, description = "Changed"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn update_password(call: Call) -> HandlerResult {
    let body: UserBody<'_> = call.body(USER_JSON)?;
    // With HTTP Basic, who changes their own has just proved the old one.
    if username(&call)? != call.caller.username {
        require_roles_of_user(&call).await?;
    }
    let password_hash = Some(body.password_hash(&call).await?);
    update(&call, |username| UpdateUser { username, password_hash, roles: None, active: None })
        .await
}

/// Replaces a user's roles.
#[utoipa::path(put, path = "/1.0/kb/security/users/{username}/roles", tag = "Security",
    params(("username" = String, Path)), request_body = UserBody<'static>,
    responses((status = 204, description = "Changed"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn update_roles(call: Call) -> HandlerResult {
    let body: UserBody<'_> = call.body(USER_JSON)?;
    let roles = body.roles()?.ok_or_else(|| USER_JSON.missing("roles"))?;
    require_roles_of_user(&call).await?;
    require_roles(&call, roles.clone()).await?;
    let roles = Some(roles);
    update(&call, |username| UpdateUser { username, password_hash: None, roles, active: None })
        .await
}

/// Deletes a user.
#[utoipa::path(delete, path = "/1.0/kb/security/users/{username}", tag = "Security",
    params(("username" = String, Path)),
    responses((status = 204, description = "Deleted"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete_user(call: Call) -> HandlerResult {
    require_roles_of_user(&call).await?;
    let active = Some(false);
    update(&call, |username| UpdateUser { username, password_hash: None, roles: None, active })
        .await
}

/// Refuses a caller who lacks a permission that the user of the path has.
async fn require_roles_of_user(call: &Call) -> Result<(), Failure> {
    let username = username(call)?;
    let user = call.read(move |queries| queries.user(&username)).await?;
    // Of one that is not there, the command says so.
    require_roles(call, user.map(|user| user.roles).unwrap_or_default()).await
}

/// Refuses a caller who lacks a permission of these roles. A role that is not there may be made later with
/// any permission: only who has all may give it.
async fn require_roles(call: &Call, roles: Vec<String>) -> Result<(), Failure> {
    let all = || vec!["*:*".to_owned()];
    let found = call.read(move |queries| {
        let permissions = roles.iter().map(|role| {
            let found = queries.role(role)?;
            Ok(found.map_or_else(all, |role| role.permissions))
        });
        permissions.collect::<Result<Vec<_>, _>>()
    });
    let mut permissions = found.await?.into_iter().flatten();
    permissions.try_for_each(|permission| require_held(call, &permission))
}

fn require_held(call: &Call, permission: &str) -> Result<(), Failure> {
    match call.caller.may(permission) {
        true => Ok(()),
        false => Err(Failure::forbidden(permission)),
    }
}

/// The operator whom the path names.
fn username(call: &Call) -> Result<String, Failure> {
    Ok(text::username(&call.param("username")?).into_owned())
}

async fn update(call: &Call, change: impl FnOnce(String) -> UpdateUser) -> HandlerResult {
    let username = username(call)?;
    call.submit_change(Command::Access(AccessCommand::UpdateUser(change(username)))).await?;
    Ok(reply::no_content())
}

/// Reads a user's roles.
#[utoipa::path(get, path = "/1.0/kb/security/users/{username}/roles", tag = "Security",
    params(("username" = String, Path)),
    responses((status = 200, body = UserRolesJson),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn user_roles(call: Call) -> HandlerResult {
    let username = username(&call)?;
    let wanted = username.clone();
    let found = call.read(move |queries| queries.user(&wanted)).await?;
    match found.filter(|user| user.active) {
        Some(user) => {
            let username = user.username;
            Ok(reply::ok(&UserRolesJson { username, password: None, roles: user.roles }))
        }
        None => Err(Failure::Refused(Box::new(Rejection::Access(AccessRejection::UserNotFound {
            username,
        })))),
    }
}

/// Creates a role.
#[utoipa::path(post, path = "/1.0/kb/security/roles", tag = "Security",
    request_body = RoleBody<'static>,
    responses((status = 201, description = "Created; Location names it"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create_role(call: Call) -> HandlerResult {
    let role = put_role(&call, true).await?;
    let role = reply::segment(&role);
    Ok(reply::created(call.location(&["/1.0/kb/security/roles/", &role])))
}

/// Replaces a role's permissions, from the next request on.
#[utoipa::path(put, path = "/1.0/kb/security/roles", tag = "Security",
    request_body = RoleBody<'static>,
    responses((status = 204, description = "Changed"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn update_role(call: Call) -> HandlerResult {
    put_role(&call, false).await?;
    Ok(reply::no_content())
}

async fn put_role(call: &Call, create: bool) -> Result<String, Failure> {
    let body: RoleBody<'_> = call.body(ROLE_JSON)?;
    let name = ROLE_JSON.text("role", body.role, NAME_CHARS_MAX)?;
    let name = name.filter(|name| !name.is_empty()).ok_or_else(|| ROLE_JSON.missing("role"))?;
    let permissions = ROLE_JSON.texts("permissions", body.permissions, NAME_CHARS_MAX)?;
    let permissions = permissions.ok_or_else(|| ROLE_JSON.missing("permissions"))?;
    let wanted = name.clone();
    let before = call.read(move |queries| queries.role(&wanted)).await?;
    let mut before = before.into_iter().flat_map(|role| role.permissions);
    before.try_for_each(|permission| require_held(call, &permission))?;
    // The command refuses one that is none.
    let given = permissions.iter().filter_map(|it| normalize_permission(it));
    given.into_iter().try_for_each(|permission| require_held(call, &permission))?;
    let Reply::Access(AccessReply::RoleCreated(role)) = call
        .submit(Command::Access(AccessCommand::PutRole(PutRole { name, permissions, create })))
        .await?
    else {
        unexpected()
    };
    Ok(role)
}

/// Reads a role; an unknown role has no permissions, as in Kill Bill.
#[utoipa::path(get, path = "/1.0/kb/security/roles/{role}", tag = "Security",
    params(("role" = String, Path, description = "The role's name")),
    responses((status = 200, body = RoleJson), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn role(call: Call) -> HandlerResult {
    let name = call.param("role")?.into_owned();
    let wanted = name.clone();
    let found = call.read(move |queries| queries.role(&wanted)).await?;
    let permissions = found.map(|role| role.permissions).unwrap_or_default();
    Ok(reply::ok(&RoleJson { role: name, permissions }))
}

/// Lists the roles.
#[utoipa::path(get, path = "/1.0/kb/security/roles", tag = "Security",
    responses((status = 200, body = [RoleJson]), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn roles(call: Call) -> HandlerResult {
    let json = |it: Role| RoleJson { role: it.name, permissions: it.permissions };
    let roles = call.read(|queries| queries.roles()).await?;
    Ok(reply::ok(&roles.into_iter().map(json).collect::<Vec<_>>()))
}

/// Reads the caller.
#[utoipa::path(get, path = "/1.0/kb/security/subject", tag = "Security",
    responses((status = 200, body = SubjectJson<'static>)))]
pub(crate) async fn subject(call: Call) -> HandlerResult {
    let principal = &call.caller.username;
    let subject =
        SubjectJson { principal, is_authenticated: true, is_remembered: false, session: None };
    Ok(reply::ok(&subject))
}

/// Lists the caller's permissions.
#[utoipa::path(get, path = "/1.0/kb/security/permissions", tag = "Security",
    responses((status = 200, body = [String])))]
pub(crate) async fn permissions(call: Call) -> HandlerResult {
    Ok(reply::ok(&call.caller.permissions))
}
