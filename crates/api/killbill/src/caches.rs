//! Drops what processes remember of credentials, at an operator's request.

use domain::command::TenantCommand;
use domain::tenant::{CREDENTIALS_DROPPED, SetTenantValue};
use domain::{Command, TenantNo};

use crate::accounts::check_account;
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::reply;
use crate::request::printable;

/// The one cache that there is.
const CREDENTIALS: &str = "credentials";

/// Drops what is remembered of credentials, on every process within a second.
#[utoipa::path(delete, path = "/1.0/kb/admin/cache", tag = "Admin", operation_id = "drop_cache",
    params(
        ("cacheName" = Option<String>, Query,
            description = "`credentials`, which is the only one; all without it")),
    responses((status = 204, description = "Users, roles and tenants are read again"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn drop_all(call: Call) -> HandlerResult {
    if let Some(name) = call.query().text("cacheName")?
        && !name.is_empty()
        && name != CREDENTIALS
    {
        let name = printable(&name);
        let message = format!("cacheName: there is no cache {name}: the only one is credentials");
        return Err(Failure::illegal(message));
    }
    drop_credentials(&call).await
}

/// Drops what is remembered of credentials, on every process within a second: nothing else of an account is
/// remembered.
#[utoipa::path(delete, path = "/1.0/kb/admin/cache/accounts/{accountId}", tag = "Admin",
    operation_id = "drop_cache_of_account",
    params(("accountId" = Uuid, Path)),
    responses((status = 204, description = "Users, roles and tenants are read again"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn drop_of_account(call: Call) -> HandlerResult {
    check_account(&call).await?;
    drop_credentials(&call).await
}

/// Drops what is remembered of credentials, of the tenant and of all others, on every process within a second.
#[utoipa::path(delete, path = "/1.0/kb/admin/cache/tenants", tag = "Admin",
    operation_id = "drop_cache_of_tenant",
    responses((status = 204, description = "Users, roles and tenants are read again"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn drop_of_tenant(call: Call) -> HandlerResult {
    drop_credentials(&call).await
}

/// Writes a new revision of a value of the installation: each process that remembers credentials follows those.
async fn drop_credentials(call: &Call) -> HandlerResult {
    let it = SetTenantValue::new(CREDENTIALS_DROPPED.to_owned(), Some(call.id.0.to_string()));
    call.submit_change_of(TenantNo::SYSTEM, Command::Tenant(TenantCommand::SetValue(it))).await?;
    Ok(reply::no_content())
}
