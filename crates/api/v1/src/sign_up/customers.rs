//! `/v1/customers`: operators read, deactivate and erase their tenant's customers.

use axum::extract::{Path, State};
use axum::response::Response;
use domain::customer::{Customer, CustomerStatus};
use engine::ports::Page;
use engine::time::rfc3339;
use http::{StatusCode, Uri};
use serde::Serialize;
use utoipa::ToSchema;
use web::Query;

use super::SignUpApi;
use super::context::Operator;
use super::json::{answer, done};

use crate::error::Error;

const READ: &str = "customer:read";
const WRITE: &str = "customer:write";

/// Rows per page by default.
const LIMIT_DEFAULT: u64 = 100;
/// The most rows per page.
const LIMIT_MAX: u64 = 1_000;
/// The most rows that can be skipped.
const OFFSET_MAX: u64 = 1_000_000;

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

/// Parses `offset` and `limit`; other parameters are refused.
fn page(uri: &Uri) -> Result<Page, Error> {
    let mut page = Page { offset: 0, limit: LIMIT_DEFAULT };
    let unknown = || Error::InvalidParameter {
        field: "query".into(),
        reason: "is not `offset` or `limit`".to_owned(),
    };
    let query = Query::parse(uri.query().unwrap_or_default()).map_err(|_| unknown())?;
    for (name, value) in query.into_pairs() {
        let number = |field: &'static str, max: u64| {
            let number = value.parse().ok().filter(|number| *number <= max);
            let reason = format!("is no number from 0 to {max}");
            number.ok_or(Error::InvalidParameter { field: field.into(), reason })
        };
        match &*name {
            "offset" => page.offset = number("offset", OFFSET_MAX)?,
            "limit" => page.limit = number("limit", LIMIT_MAX)?,
            _ => return Err(unknown()),
        }
    }
    Ok(page)
}

#[utoipa::path(
    get,
    path = "/v1/customers",
    tag = "Customers",
    operation_id = "customers_list",
    summary = "The tenant's customers, oldest first, including erased ones; needs customer:read",
    params(
        ("offset" = Option<u64>, Query, description = "How many to skip"),
        ("limit" = Option<u64>, Query, description = "The page size; 100 by default, 1000 at most"),
    ),
    responses(
        (status = 200, description = "The customers", body = Customers),
        (status = 400, description = "A parameter is invalid"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
    )
)]
pub(super) async fn list(
    State(api): State<SignUpApi>,
    uri: Uri,
    operator: Operator,
) -> Result<Response, Error> {
    operator.require(READ)?;
    let customers = api.sign_up.customers(operator.tenant, page(&uri)?).await?;
    let customers = customers.into_iter().map(view).collect();
    Ok(answer(StatusCode::OK, &Customers { customers }))
}

#[utoipa::path(
    get,
    path = "/v1/customers/{id}",
    tag = "Customers",
    operation_id = "customers_show",
    summary = "A customer; needs customer:read",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 200, description = "The customer", body = CustomerView),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn show(
    State(api): State<SignUpApi>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Error> {
    operator.require(READ)?;
    Ok(answer(StatusCode::OK, &view(find(&api, &operator, &id).await?)))
}

#[utoipa::path(
    post,
    path = "/v1/customers/{id}/deactivate",
    tag = "Customers",
    operation_id = "customers_deactivate",
    summary = "Deactivates a customer, who can no longer log in, and ends their sessions; needs customer:write",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 204, description = "The customer is deactivated"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn deactivate(
    State(api): State<SignUpApi>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Error> {
    set_active(&api, &operator, &id, false).await
}

#[utoipa::path(
    post,
    path = "/v1/customers/{id}/activate",
    tag = "Customers",
    operation_id = "customers_activate",
    summary = "Activates a customer, who can log in again; needs customer:write",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 204, description = "The customer is active"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn activate(
    State(api): State<SignUpApi>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Error> {
    set_active(&api, &operator, &id, true).await
}

#[utoipa::path(
    delete,
    path = "/v1/customers/{id}",
    tag = "Customers",
    operation_id = "customers_erase",
    summary = "Erases a customer; needs customer:write",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 204, description = "The customer is erased"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn erase(
    State(api): State<SignUpApi>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Error> {
    operator.require(WRITE)?;
    let customer = find(&api, &operator, &id).await?;
    api.sign_up.erase_for(&operator.context, operator.name(), &customer).await?;
    Ok(done())
}

#[utoipa::path(
    delete,
    path = "/v1/customers/{id}/second-factor",
    tag = "Customers",
    operation_id = "customers_remove_second_factor",
    summary = "Removes the second factor of a customer who has lost it; needs customer:write",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 204, description = "The customer has no second factor"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn remove_second_factor(
    State(api): State<SignUpApi>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Error> {
    operator.require(WRITE)?;
    let customer = find(&api, &operator, &id).await?;
    api.sign_up.remove_second_factor_for(&operator.context, operator.name(), &customer).await?;
    Ok(done())
}

async fn set_active(
    api: &SignUpApi,
    operator: &Operator,
    id: &str,
    is_active: bool,
) -> Result<Response, Error> {
    operator.require(WRITE)?;
    let customer = find(api, operator, id).await?;
    api.sign_up.set_active(&operator.context, operator.name(), &customer, is_active).await?;
    Ok(done())
}

async fn find(api: &SignUpApi, operator: &Operator, id: &str) -> Result<Customer, Error> {
    let found = api.sign_up.customer(operator.tenant, super::id(id, "customer")?).await?;
    found.ok_or(Error::NoSuch("customer"))
}
