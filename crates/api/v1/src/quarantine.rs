//! Accounts of all tenants that are out of service, for the operators who look at why: none of this needs a
//! tenant's credentials.

use axum::Json;
use axum::extract::Path;
use domain::account::ReleaseAccount;
use domain::command::AccountCommand;
use domain::{AccountId, AccountRejection, Command, Rejection, TenantId};
use engine::ports::Quarantined;
use engine::time::rfc3339;
use http::{StatusCode, Uri};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::InstallationCall;
use crate::error::Error;
use crate::openapi::{InvalidParameter, PageParameters, Unauthenticated};
use crate::parameters::Parameters;

/// The permission for both.
const RELEASE: &str = "account:release";

/// Accounts out of service, by tenant and id.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantinedAccounts {
    /// The accounts of the page.
    quarantined: Vec<QuarantinedAccount>,
    /// Whether more follow after this page.
    more: bool,
}

/// An account whose commands are refused since one of them could not be carried out.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QuarantinedAccount {
    /// The tenant's id.
    tenant_id: Uuid,
    /// The billing account's id.
    account_id: Uuid,
    /// Since when (RFC 3339).
    since: String,
    /// The request of that command, as the log names it.
    request_id: Uuid,
    /// The command's name, such as `UpdateAccount`.
    command: String,
    /// `bug`: it broke an invariant. `refused-by-database`: the database refuses what it writes.
    /// `unreadable`: a row that it needs cannot be read.
    reason: &'static str,
}

/// Accounts whose commands are refused since one of them could not be carried out
#[utoipa::path(get, path = "/v1/quarantine", tag = "Account", operation_id = "quarantine",
    params(PageParameters),
    responses((status = 200, description = "The accounts", body = QuarantinedAccounts),
        (status = 403, description = "account:release is missing"), Unauthenticated, InvalidParameter))]
pub async fn list(
    InstallationCall { api, operator }: InstallationCall,
    uri: Uri,
) -> Result<Json<QuarantinedAccounts>, Error> {
    operator.require(RELEASE)?;
    let window = Parameters::only_window(&uri)?;
    let read = api.engine.read(move |queries| queries.quarantined(window.one_more()));
    let (found, more) = window.cut(read.await?);
    let quarantined = found.into_iter().map(describe).collect();
    Ok(Json(QuarantinedAccounts { quarantined, more }))
}

fn describe((tenant, it): (TenantId, Quarantined)) -> QuarantinedAccount {
    QuarantinedAccount {
        tenant_id: tenant.uuid(),
        account_id: it.account.uuid(),
        since: rfc3339(it.since),
        request_id: it.request.0,
        command: it.command,
        reason: it.reason.label(),
    }
}

/// Puts an account back into service, once what was wrong with it is mended
#[utoipa::path(delete, path = "/v1/quarantine/{accountId}", tag = "Account", operation_id = "release_account",
    params(("accountId" = Uuid, Path)),
    responses((status = 204, description = "Its commands are executed again"),
        (status = 403, description = "account:release is missing"),
        (status = 404, description = "No such account is out of service"), Unauthenticated))]
pub async fn release(
    InstallationCall { api, operator }: InstallationCall,
    Path(id): Path<String>,
) -> Result<StatusCode, Error> {
    operator.require(RELEASE)?;
    let not_found = || Error::NotFound { what: "account out of service", name: id.clone() };
    let account = Uuid::try_parse(&id).map(AccountId::new).map_err(|_| not_found())?;
    let tenants = api.engine.read(move |queries| queries.quarantined_by_id(account)).await?;
    if tenants.is_empty() {
        return Err(not_found());
    }
    for tenant in tenants {
        let command = Command::Account(AccountCommand::Release(ReleaseAccount { account }));
        match operator.submit(&api, tenant, command).await {
            Ok(_) => {}
            // Another request released it meanwhile.
            Err(Error::Rejected(why)) if is_in_service(&why) => return Err(not_found()),
            Err(error) => return Err(error),
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

fn is_in_service(why: &Rejection) -> bool {
    matches!(why, Rejection::Account(AccountRejection::NotFound { .. }))
}
