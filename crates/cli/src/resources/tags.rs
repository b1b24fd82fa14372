//! Tags of accounts, and the definitions that they are of.

use hyper::Method;

use super::accounts::ACCOUNT;
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
            ("/1.0/kb/tags/pagination", Rows::Newest, COLUMNS),
        ),
        Action::list(
            "show",
            "Show the tags of an account",
            &[ACCOUNT],
            ("/1.0/kb/accounts/{account}/tags", Rows::Whole, COLUMNS),
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
        Action {
            name: "remove",
            about: "Remove a tag from an account",
            operands: &[ACCOUNT, DEFINITION],
            options: &[],
            request: Request::Send {
                method: Method::DELETE,
                path: "/1.0/kb/accounts/{account}/tags?tagDef={definition}",
                constants: &[],
            },
        },
        Action::list(
            "definitions",
            "List the definitions of tags, control tags among them",
            &[],
            (
                DEFINITIONS,
                Rows::Whole,
                &[
                    ("ID", "/id"),
                    ("NAME", "/name"),
                    ("CONTROL", "/isControlTag"),
                    ("APPLIES TO", "/applicableObjectTypes"),
                    ("DESCRIPTION", "/description"),
                ],
            ),
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
        Action {
            name: "delete",
            about: "Delete a definition that no object has",
            operands: &[DEFINITION],
            options: &[],
            request: Request::Send {
                method: Method::DELETE,
                path: "/1.0/kb/tagDefinitions/{definition}",
                constants: &[],
            },
        },
    ],
};
