//! Environments of feature flags, with the secrets that SDKs are configured with.

use super::lists::List;
use super::{Action, Field, Operand, Request, Resource, Rows};
use crate::remote::Scope;

const PROJECT: Field =
    Field::query_text("project", "project", "The project's key [default: default]");

pub(super) static ENVIRONMENTS: Resource = Resource {
    name: "environments",
    alias: None,
    about: "List environments of feature flags and show their secrets, which SDKs log in with",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the environments, the oldest first",
            &[],
            List {
                path: "/v1/environments",
                rows: Rows::Whole,
                columns: &[
                    ("KEY", "/key"),
                    ("PROJECT", "/project"),
                    ("NAME", "/name"),
                    ("ID", "/id"),
                    ("NEEDS APPROVAL", "/changesNeedApproval"),
                ],
            },
        ),
        Action {
            name: "show",
            about: "Show an environment and its secrets: server for programs, client for browsers",
            operands: &[Operand::id("environment", "The environment's key, such as dev")],
            options: &[PROJECT],
            request: Request::Show { path: "/v1/environments/{environment}" },
        },
    ],
};
