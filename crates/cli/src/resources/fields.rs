//! Custom fields: what a tenant stores of an account.

use hyper::Method;

use super::accounts::ACCOUNT;
use super::lists::List;
use super::{Action, Field, Operand, Request, Resource, Rows};
use crate::remote::Scope;

const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/customFieldId"),
    ("NAME", "/name"),
    ("VALUE", "/value"),
    ("OF", "/objectType"),
    ("OBJECT", "/objectId"),
];

const OF_ACCOUNT: &str = "/1.0/kb/accounts/{account}/customFields";

pub(super) static FIELDS: Resource = Resource {
    name: "fields",
    alias: None,
    about: "List, find, create and delete custom fields",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the fields of all objects",
            &[],
            List { path: "/1.0/kb/customFields/pagination", rows: Rows::Newest, columns: COLUMNS },
        ),
        Action::list(
            "find",
            "Find fields by a part of the name or the value",
            &[Operand::id("text", "A part of the name or the value")],
            List {
                path: "/1.0/kb/customFields/search/{text}",
                rows: Rows::Newest,
                columns: COLUMNS,
            },
        ),
        Action::list(
            "show",
            "Show the fields of an account",
            &[ACCOUNT],
            List { path: OF_ACCOUNT, rows: Rows::Whole, columns: COLUMNS },
        ),
        Action {
            name: "create",
            about: "Create a field of an account",
            operands: &[ACCOUNT],
            options: &[
                Field::text("name", "name", "The field's name").required(),
                Field::text("value", "value", "The field's value").required(),
            ],
            request: Request::SendList { method: Method::POST, path: OF_ACCOUNT },
        },
        Action {
            name: "set",
            about: "Give a field of an account another value",
            operands: &[ACCOUNT],
            options: &[
                Field::text("field", "customFieldId", "The field's id").required(),
                Field::text("value", "value", "The new value").required(),
            ],
            request: Request::SendList { method: Method::PUT, path: OF_ACCOUNT },
        },
        Action::delete(
            "delete",
            "Delete a field of an account",
            &[ACCOUNT, Operand::id("field", "The field's id")],
            "/1.0/kb/accounts/{account}/customFields?customField={field}",
        ),
    ],
};
