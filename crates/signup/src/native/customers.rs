//! `/v1/customers`: what operators see of their tenant's customers, and do with them.

use axum::extract::{Path, State};
use axum::response::Response;
use domain::customer::{Customer, CustomerStatus};
use engine::ports::Page;
use http::{StatusCode, Uri};
use serde::Serialize;
use utoipa::ToSchema;

use super::Native;
use super::asking::Operator;
use super::json::{answer, done, moment};
use super::problem::Problem;

const READ: &str = "customer:read";
const WRITE: &str = "customer:write";

/// Rows per answer, where the client does not say.
const LIMIT_DEFAULT: u64 = 100;
/// Rows per answer at most.
const LIMIT_MAX: u64 = 1_000;
/// Rows skipped at most.
const OFFSET_MAX: u64 = 1_000_000;

/// A customer, as operators see them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CustomerSeen {
    id: String,
    account_id: String,
    /// Nothing of the person where they are erased.
    #[serde(skip_serializing_if = "String::is_empty")]
    email: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    first_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    last_name: String,
    /// `active`, `deactivated` or `erased`
    status: &'static str,
    /// Whether the address is known to be theirs.
    verified: bool,
    second_factor: bool,
    created_at: String,
    updated_at: String,
}

/// Customers, oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Customers {
    customers: Vec<CustomerSeen>,
}

const fn label(status: CustomerStatus) -> &'static str {
    match status {
        CustomerStatus::Active => "active",
        CustomerStatus::Deactivated => "deactivated",
        CustomerStatus::Erased => "erased",
    }
}

fn seen(customer: Customer) -> CustomerSeen {
    CustomerSeen {
        id: customer.id.to_string(),
        account_id: customer.account.to_string(),
        second_factor: customer.needs_code(),
        email: customer.profile.email,
        first_name: customer.profile.first_name,
        last_name: customer.profile.last_name,
        status: label(customer.status),
        verified: customer.is_verified,
        created_at: moment(customer.created_at),
        updated_at: moment(customer.updated_at),
    }
}

/// `offset` and `limit`; anything else is refused.
fn page(uri: &Uri) -> Result<Page, Problem> {
    let mut page = Page { offset: 0, limit: LIMIT_DEFAULT };
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = |field: &'static str, max: u64| {
            let number = value.parse().ok().filter(|number| *number <= max);
            let reason = format!("is no number from 0 to {max}");
            number.ok_or(Problem::Invalid { field: field.into(), reason })
        };
        match name {
            "offset" => page.offset = number("offset", OFFSET_MAX)?,
            "limit" => page.limit = number("limit", LIMIT_MAX)?,
            _ => {
                let reason = "is not `offset` or `limit`".to_owned();
                return Err(Problem::Invalid { field: "query".into(), reason });
            }
        }
    }
    Ok(page)
}

#[utoipa::path(
    get,
    path = "/v1/customers",
    tag = "Customers",
    operation_id = "customers_list",
    summary = "The tenant's customers, oldest first, those that are erased too; needs customer:read",
    params(
        ("offset" = Option<u64>, Query, description = "How many to skip"),
        ("limit" = Option<u64>, Query, description = "How many at most; 100 by default, 1000 at most"),
    ),
    responses(
        (status = 200, description = "What was asked for", body = Customers),
        (status = 400, description = "A parameter is wrong"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
    )
)]
pub(super) async fn list(
    State(native): State<Native>,
    uri: Uri,
    operator: Operator,
) -> Result<Response, Problem> {
    operator.require(READ)?;
    let customers = native.signup.customers(operator.tenant, page(&uri)?).await?;
    let customers = customers.into_iter().map(seen).collect();
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
        (status = 200, description = "What was asked for", body = CustomerSeen),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn show(
    State(native): State<Native>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Problem> {
    operator.require(READ)?;
    Ok(answer(StatusCode::OK, &seen(find(&native, &operator, &id).await?)))
}

#[utoipa::path(
    post,
    path = "/v1/customers/{id}/deactivate",
    tag = "Customers",
    operation_id = "customers_deactivate",
    summary = "Does not let a customer log in any more, and ends their sessions; needs customer:write",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 204, description = "It is so"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn deactivate(
    State(native): State<Native>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Problem> {
    set_active(&native, &operator, &id, false).await
}

#[utoipa::path(
    post,
    path = "/v1/customers/{id}/activate",
    tag = "Customers",
    operation_id = "customers_activate",
    summary = "Lets a customer log in again; needs customer:write",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 204, description = "It is so"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn activate(
    State(native): State<Native>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Problem> {
    set_active(&native, &operator, &id, true).await
}

#[utoipa::path(
    delete,
    path = "/v1/customers/{id}",
    tag = "Customers",
    operation_id = "customers_erase",
    summary = "Forgets a customer; needs customer:write",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 204, description = "They are forgotten"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn erase(
    State(native): State<Native>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Problem> {
    operator.require(WRITE)?;
    let customer = find(&native, &operator, &id).await?;
    native.signup.erase_for(&operator.asked, operator.name(), &customer).await?;
    Ok(done())
}

#[utoipa::path(
    delete,
    path = "/v1/customers/{id}/second-factor",
    tag = "Customers",
    operation_id = "customers_remove_second_factor",
    summary = "Takes the second factor of a customer away who has lost it; needs customer:write",
    params(("id" = String, Path, description = "The customer")),
    responses(
        (status = 204, description = "There is none"),
        (status = 401, description = "User or tenant is missing or wrong"),
        (status = 403, description = "The user lacks the permission"),
        (status = 404, description = "No such customer of this tenant, or they are erased"),
    )
)]
pub(super) async fn remove_second_factor(
    State(native): State<Native>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<Response, Problem> {
    operator.require(WRITE)?;
    let customer = find(&native, &operator, &id).await?;
    native.signup.remove_second_factor_for(&operator.asked, operator.name(), &customer).await?;
    Ok(done())
}

async fn set_active(
    native: &Native,
    operator: &Operator,
    id: &str,
    is_active: bool,
) -> Result<Response, Problem> {
    operator.require(WRITE)?;
    let customer = find(native, operator, id).await?;
    native.signup.set_active(&operator.asked, operator.name(), &customer, is_active).await?;
    Ok(done())
}

async fn find(native: &Native, operator: &Operator, id: &str) -> Result<Customer, Problem> {
    let found = native.signup.customer(operator.tenant, super::id(id, "customer")?).await?;
    found.ok_or(Problem::NotFound("customer"))
}
