//! Tags of accounts, and the definitions that they are of.

use hyper::Method;

use super::accounts::ACCOUNT;
use super::lists::List;
use super::{Action, ByKey, Field, Operand, Request, Resource, Rows};
use crate::remote::Scope;

const DEFINITIONS: &str = "/1.0/kb/tagDefinitions";

const DEFINITION: Operand = Operand {
    name: "definition",
    help: "The definition's id or name, such as AUTO_PAY_OFF",
    by_key: Some(ByKey { path: DEFINITIONS, rows: Rows::Whole, key: "/name", id: "/id" }),
};

const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/tagId"),
    ("TAG", "/tagDefinitionName"),
    ("OF", "/objectType"),
    ("OBJECT", "/objectId"),
];

pub(super) static TAGS: Resource = Resource {
    name: "tags",
    alias: None,
    about: "List, add and remove tags of accounts, and define them",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the tags of all objects",
            &[],
            List { path: "/1.0/kb/tags/pagination", rows: Rows::Newest, columns: COLUMNS },
        ),
        Action::list(
            "show",
            "Show the tags of an account",
            &[ACCOUNT],
            List { path: "/1.0/kb/accounts/{account}/tags", rows: Rows::Whole, columns: COLUMNS },
        ),
        Action {
            name: "add",
            about: "Add a tag to an account",
            operands: &[ACCOUNT, DEFINITION],
            options: &[],
            request: Request::SendId {
                path: "/1.0/kb/accounts/{account}/tags",
                operand: "definition",
            },
        },
        Action::delete(
            "remove",
            "Remove a tag from an account",
            &[ACCOUNT, DEFINITION],
            "/1.0/kb/accounts/{account}/tags?tagDef={definition}",
        ),
        Action::list(
            "definitions",
            "List the definitions of tags, control tags among them",
            &[],
            List {
                path: DEFINITIONS,
                rows: Rows::Whole,
                columns: &[
                    ("ID", "/id"),
                    ("NAME", "/name"),
                    ("CONTROL", "/isControlTag"),
                    ("APPLIES TO", "/applicableObjectTypes"),
                    ("DESCRIPTION", "/description"),
                ],
            },
        ),
        Action {
            name: "create",
            about: "Create a definition, whose tags are added to objects then",
            operands: &[],
            options: &[
                Field::text("name", "name", "Its name, in lower case").required(),
                Field::text("description", "description", "What it says of an object").required(),
                Field::texts(
                    "applies-to",
                    "applicableObjectTypes",
                    "What it applies to: ACCOUNT, PAYMENT, TRANSACTION",
                )
                .required(),
            ],
            request: Request::Send { method: Method::POST, path: DEFINITIONS, constants: &[] },
        },
        Action::delete(
            "delete",
            "Delete a definition that no object has",
            &[DEFINITION],
            "/1.0/kb/tagDefinitions/{definition}",
        ),
    ],
};
