//! Accounts: erasing what is known of the person behind one.

use axum::extract::Path;
use domain::account::EraseAccount;
use domain::command::{AccountCommand, CustomerCommand};
use domain::customer::{Customer, CustomerStatus, EraseCustomer};
use domain::{AccountId, Command, CustomerId, TenantNo};
use engine::ports::{Queries, StoreError};
use http::StatusCode;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::openapi::Unauthenticated;

/// Erases what is known of the person behind an account, and the customer who signed up with it
#[utoipa::path(post, path = "/v1/accounts/{accountId}/erase", tag = "Account", operation_id = "erase_account",
    params(("accountId" = Uuid, Path)),
    responses((status = 204, description = "It is erased"),
        (status = 403, description = "account:erase is missing"),
        (status = 404, description = "The tenant has no such account"), Unauthenticated))]
pub async fn erase(call: Call, Path(id): Path<String>) -> Result<StatusCode, Error> {
    let Call { api, context, .. } = call.allowed("account:erase")?;
    let not_found = || Error::NotFound { what: "account", name: id.clone() };
    let account = Uuid::try_parse(&id).map(AccountId::new).map_err(|_| not_found())?;
    let tenant = context.tenant.no;
    let found = api.engine.read(move |queries| find(queries, tenant, account)).await?;
    let command = match found.ok_or_else(not_found)? {
        // The customer's erasure reaches the account.
        Some(customer) => Command::Customer(CustomerCommand::Erase(EraseCustomer {
            customer: customer.reference(),
            if_expired: false,
        })),
        None => Command::Account(AccountCommand::Erase(EraseAccount { account })),
    };
    context.submit(&api, command).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether there is such an account, and the customer who signed up with it and is not erased.
fn find(
    queries: &dyn Queries,
    tenant: TenantNo,
    account: AccountId,
) -> Result<Option<Option<Customer>>, StoreError> {
    let Some(found) = queries.account(tenant, account)? else { return Ok(None) };
    // A customer's account is named after the customer.
    let key = found.account.external_key.as_deref().map(Uuid::try_parse);
    let Some(Ok(id)) = key else { return Ok(Some(None)) };
    let customer = queries.customer(tenant, CustomerId::new(id))?;
    Ok(Some(customer.filter(|it| it.account == account && it.status != CustomerStatus::Erased)))
}
