//! Operators of the installation.

use hyper::Method;

use super::lists::List;
use super::{Action, Field, Operand, Request, Resource, Rows};
use crate::remote::Scope;

const USER: Operand = Operand::id("name", "The user's name");

const ROLES: Field = Field::texts("roles", "roles", "Their roles");
const PASSWORD: Field =
    Field::secret_file("new-password-file", "password", "A file that has the user's new password");

/// A change of a user that exists.
const fn change(
    name: &'static str,
    about: &'static str,
    method: Method,
    path: &'static str,
    options: &'static [Field],
) -> Action {
    let request = Request::Send { method, path, constants: &[] };
    Action { name, about, operands: &[USER], options, request }
}

pub(super) static USERS: Resource = Resource {
    name: "users",
    alias: None,
    about: "List, create, change and delete users, who call the APIs with a password",
    scope: Scope::Installation,
    actions: &[
        Action::list(
            "ls",
            "List the users, deleted ones too",
            &[],
            List {
                path: "/v1/users",
                rows: Rows::Named("users"),
                columns: &[
                    ("NAME", "/username"),
                    ("ROLES", "/roles"),
                    ("ACTIVE", "/active"),
                    ("CHANGED", "/updatedAt"),
                ],
            },
        ),
        Action::show("Show a user's roles", &[USER], "/1.0/kb/security/users/{name}/roles"),
        Action {
            name: "create",
            about: "Create a user",
            operands: &[],
            options: &[
                Field::text("name", "username", "The user's name").required(),
                PASSWORD.required(),
                ROLES,
            ],
            request: Request::Send {
                method: Method::POST,
                path: "/1.0/kb/security/users",
                constants: &[],
            },
        },
        change(
            "set-roles",
            "Give a user these roles in place of those before",
            Method::PUT,
            "/1.0/kb/security/users/{name}/roles",
            &[ROLES.required()],
        ),
        change(
            "set-password",
            "Give a user another password",
            Method::PUT,
            "/1.0/kb/security/users/{name}/password",
            &[PASSWORD.required()],
        ),
        change("delete", "Delete a user", Method::DELETE, "/1.0/kb/security/users/{name}", &[]),
    ],
};
