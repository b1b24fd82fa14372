//! Billing accounts of a tenant.

use hyper::Method;

use super::lists::List;
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
            List { path: "/1.0/kb/accounts/pagination", rows: Rows::Newest, columns: COLUMNS },
        ),
        Action::list(
            "find",
            "Find accounts by a part of the name, the e-mail address or the key",
            &[Operand::id("text", "A part of the name, the e-mail address or the key")],
            List { path: "/1.0/kb/accounts/search/{text}", rows: Rows::Newest, columns: COLUMNS },
        ),
        Action::show("Show an account", &[ACCOUNT], "/1.0/kb/accounts/{account}"),
        Action::list(
            "history",
            "Show who changed the account, when and why",
            &[ACCOUNT],
            List {
                path: "/1.0/kb/accounts/{account}/auditLogsWithHistory",
                rows: Rows::Whole,
                columns: HISTORY,
            },
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
        Action::delete(
            "close",
            "Close an account: nothing new begins on it",
            &[ACCOUNT],
            "/1.0/kb/accounts/{account}",
        ),
    ],
};
