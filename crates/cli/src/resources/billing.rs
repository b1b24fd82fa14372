//! How far the billing of a tenant is.

use super::{Action, Request, Resource};
use crate::remote::Scope;

pub(super) static BILLING: Resource = Resource {
    name: "billing",
    alias: None,
    about: "Show what is due to be billed, how late it is, and which accounts cannot be billed",
    scope: Scope::Tenant,
    actions: &[Action {
        name: "status",
        about: "Show what is due, how late it is, and the accounts that cannot be billed with the reason",
        operands: &[],
        options: &[],
        request: Request::Show { path: "/v1/billing?limit=1000" },
    }],
};
