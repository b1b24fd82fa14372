//! `/v1/customers`: operators read, deactivate and erase their tenant's customers.

use axum::extract::Path;
use axum::response::Response;
use domain::customer::{Customer, CustomerStatus};
use engine::time::rfc3339;
use http::{StatusCode, Uri};
use serde::Serialize;
use utoipa::ToSchema;

use super::context::Operator;
use super::json::{answer, done};

use crate::error::Error;
use crate::openapi::{InvalidParameter, ObjectRejections, PageParameters, Unauthenticated};
use crate::parameters::Parameters;

const READ: &str = "customer:read";
const WRITE: &str = "customer:write";

/// A customer, as operators see them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CustomerView {
    id: String,
    account_id: String,
    /// Missing where the customer is erased, like the names.
    #[serde(skip_serializing_if = "String::is_empty")]
    email: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    first_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    last_name: String,
    /// `active`, `deactivated` or `erased`
    status: &'static str,
    /// Whether the address is verified.
    verified: bool,
    second_factor: bool,
    created_at: String,
    updated_at: String,
}

/// Customers, oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Customers {
    customers: Vec<CustomerView>,
}

const fn label(status: CustomerStatus) -> &'static str {
    match status {
        CustomerStatus::Active => "active",
        CustomerStatus::Deactivated => "deactivated",
        CustomerStatus::Erased => "erased",
    }
}

fn view(customer: Customer) -> CustomerView {
    CustomerView {
        id: customer.id.to_string(),
        account_id: customer.account.to_string(),
        second_factor: customer.needs_code(),
        email: customer.profile.email,
        first_name: customer.profile.first_name,
        last_name: customer.profile.last_name,
        status: label(customer.status),
        verified: customer.is_verified,
        created_at: rfc3339(customer.created_at),
        updated_at: rfc3339(customer.updated_at),
    }
}

/// The tenant's customers, oldest first, including erased ones; needs customer:read
#[utoipa::path(get, path = "/v1/customers", tag = "Customers", operation_id = "customers_list",
    params(PageParameters),
    responses((status = 200, description = "The customers", body = Customers),
        (status = 403, description = "The user lacks the permission"), InvalidParameter, Unauthenticated))]
pub(super) async fn list(uri: Uri, operator: Operator) -> Result<Response, Error> {
    operator.require(READ)?;
    let page = Parameters::only_page(&uri)?;
    let customers = operator.sign_up.customers(operator.tenant, page).await?;
    let customers = customers.into_iter().map(view).collect();
    Ok(answer(StatusCode::OK, &Customers { customers }))
}

/// A customer; needs customer:read
#[utoipa::path(get, path = "/v1/customers/{id}", tag = "Customers", operation_id = "customers_show",
    params(("id" = String, Path, description = "The customer")),
    responses((status = 200, description = "The customer", body = CustomerView), ObjectRejections))]
pub(super) async fn show(Path(id): Path<String>, operator: Operator) -> Result<Response, Error> {
    Ok(answer(StatusCode::OK, &view(find(&operator, READ, &id).await?)))
}

/// Deactivates a customer, who can no longer log in, and ends their sessions; needs customer:write
#[utoipa::path(post, path = "/v1/customers/{id}/deactivate", tag = "Customers", operation_id = "customers_deactivate",
    params(("id" = String, Path, description = "The customer")),
    responses((status = 204, description = "The customer is deactivated"), ObjectRejections))]
pub(super) async fn deactivate(
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Error> {
    set_active(&operator, &id, false).await
}

/// Activates a customer, who can log in again; needs customer:write
#[utoipa::path(post, path = "/v1/customers/{id}/activate", tag = "Customers", operation_id = "customers_activate",
    params(("id" = String, Path, description = "The customer")),
    responses((status = 204, description = "The customer is active"), ObjectRejections))]
pub(super) async fn activate(
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Error> {
    set_active(&operator, &id, true).await
}

/// Erases a customer; needs customer:write
#[utoipa::path(delete, path = "/v1/customers/{id}", tag = "Customers", operation_id = "customers_erase",
    params(("id" = String, Path, description = "The customer")),
    responses((status = 204, description = "The customer is erased"), ObjectRejections))]
pub(super) async fn erase(Path(id): Path<String>, operator: Operator) -> Result<Response, Error> {
    let customer = find(&operator, WRITE, &id).await?;
    operator.sign_up.erase_for(&operator.context, operator.name(), &customer).await?;
    Ok(done())
}

/// Removes the second factor of a customer who has lost it; needs customer:write
#[utoipa::path(delete, path = "/v1/customers/{id}/second-factor", tag = "Customers", operation_id = "customers_remove_second_factor",
    params(("id" = String, Path, description = "The customer")),
    responses((status = 204, description = "The customer has no second factor"), ObjectRejections))]
pub(super) async fn remove_second_factor(
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Error> {
    let customer = find(&operator, WRITE, &id).await?;
    operator
        .sign_up
        .remove_second_factor_for(&operator.context, operator.name(), &customer)
        .await?;
    Ok(done())
}

async fn set_active(operator: &Operator, id: &str, is_active: bool) -> Result<Response, Error> {
    let customer = find(operator, WRITE, id).await?;
    let (context, by) = (&operator.context, operator.name());
    operator.sign_up.set_active(context, by, &customer, is_active).await?;
    Ok(done())
}

/// The customer of the operator's tenant, if the operator has the permission.
async fn find(operator: &Operator, permission: &'static str, id: &str) -> Result<Customer, Error> {
    operator.require(permission)?;
    let found = operator.sign_up.customer(operator.tenant, super::id(id, "customer")?).await?;
    found.ok_or(Error::NoSuch("customer"))
}
