//! Billing accounts of a tenant.

use hyper::Method;

use super::{Action, Field, HISTORY, Operand, Request, Resource, Rows};
use crate::remote::Scope;

pub(super) const ACCOUNT: Operand = Operand::id("account", "The account's id");

const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/accountId"),
    ("KEY", "/externalKey"),
    ("NAME", "/name"),
    ("E-MAIL", "/email"),
    ("CURRENCY", "/currency"),
    ("SINCE", "/referenceTime"),
];

pub(super) static ACCOUNTS: Resource = Resource {
    name: "accounts",
    alias: None,
    about: "List, find, create and close billing accounts",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the accounts, the newest first",
            &[],
            ("/1.0/kb/accounts/pagination", Rows::Newest, COLUMNS),
        ),
        Action::list(
            "find",
            "Find accounts by a part of the name, the e-mail address or the key",
            &[Operand::id("text", "A part of the name, the e-mail address or the key")],
            ("/1.0/kb/accounts/search/{text}", Rows::Newest, COLUMNS),
        ),
        Action {
            name: "show",
            about: "Show an account",
            operands: &[ACCOUNT],
            options: &[],
            request: Request::Show { path: "/1.0/kb/accounts/{account}" },
        },
        Action::list(
            "history",
            "Show who changed the account, when and why",
            &[ACCOUNT],
            ("/1.0/kb/accounts/{account}/auditLogsWithHistory", Rows::Whole, HISTORY),
        ),
        Action {
            name: "create",
            about: "Create an account",
            operands: &[],
            options: &[
                Field::text("name", "name", "The customer's name"),
                Field::text("email", "email", "The customer's e-mail address"),
                Field::text("currency", "currency", "The currency of payments, such as USD"),
                Field::text("key", "externalKey", "Your key for it; the id by default"),
                Field::text("country", "country", "The country"),
                Field::text("time-zone", "timeZone", "The time zone, such as Europe/Paris"),
            ],
            request: Request::Send {
                method: Method::POST,
                path: "/1.0/kb/accounts",
                constants: &[],
            },
        },
        Action {
            name: "close",
            about: "Close an account: nothing new begins on it",
            operands: &[ACCOUNT],
            options: &[],
            request: Request::Send {
                method: Method::DELETE,
                path: "/1.0/kb/accounts/{account}",
                constants: &[],
            },
        },
    ],
};
