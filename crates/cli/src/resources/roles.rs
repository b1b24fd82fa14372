//! Roles of users: what they may do.

use hyper::Method;

use super::lists::List;
use super::{Action, Field, Operand, Request, Resource, Rows};
use crate::remote::Scope;

const PERMISSIONS: Field = Field::texts(
    "permissions",
    "permissions",
    "What it permits, such as account:create or payment:*; empty for nothing",
);
const OPTIONS: &[Field] =
    &[Field::text("name", "role", "The role's name").required(), PERMISSIONS.required()];

const fn put(name: &'static str, about: &'static str, method: Method) -> Action {
    let path = "/1.0/kb/security/roles";
    let request = Request::Send { method, path, constants: &[] };
    Action { name, about, operands: &[], options: OPTIONS, request }
}

pub(super) static ROLES: Resource = Resource {
    name: "roles",
    alias: None,
    about: "List, create and change roles, which permit something to users",
    scope: Scope::Installation,
    actions: &[
        Action::list(
            "ls",
            "List the roles",
            &[],
            List {
                path: "/1.0/kb/security/roles",
                rows: Rows::Whole,
                columns: &[("ROLE", "/role"), ("PERMISSIONS", "/permissions")],
            },
        ),
        Action::show(
            "Show a role",
            &[Operand::id("name", "The role's name")],
            "/1.0/kb/security/roles/{name}",
        ),
        put("create", "Create a role", Method::POST),
        put("set", "Give a role these permissions in place of those before", Method::PUT),
    ],
};
