//! Features that a tenant sells or grants.

use hyper::Method;

use super::lists::List;
use super::{Action, Field, Operand, Request, Resource, Rows};
use crate::remote::Scope;

const FEATURE: Operand = Operand::id("feature", "The feature's key");

pub(super) static FEATURES: Resource = Resource {
    name: "features",
    alias: None,
    about: "List and make what a tenant sells or grants: switches, values and limits",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the features, by their keys",
            &[],
            List {
                path: "/v1/features",
                rows: Rows::Named("features"),
                columns: &[
                    ("KEY", "/key"),
                    ("NAME", "/name"),
                    ("KIND", "/kind"),
                    ("UNIT", "/unit"),
                    ("RESETS", "/resets"),
                    ("ARCHIVED", "/archived"),
                ],
            },
        ),
        Action::show("Show a feature", &[FEATURE], "/v1/features/{feature}"),
        Action {
            name: "set",
            about: "Make a feature, or replace what it is",
            operands: &[FEATURE],
            options: &[
                Field::text("kind", "kind", "switch, value or limit; stays what it was").required(),
                Field::text("name", "name", "The name for people").required(),
                Field::text("type", "type", "Of a value: boolean, number, string or json"),
                Field::text("unit", "unit", "Of a limit: what is counted, such as seats"),
                Field::text("combine", "combine", "How grants add up: latest, largest or sum"),
                Field::text("resets", "resets", "Of a limit: never, day, week, month or year"),
                Field::json("overdraft", "overdraft", "Of a limit: true lets more be used"),
                Field::json("archived", "archived", "true: it is granted no more"),
            ],
            request: Request::Send {
                method: Method::PUT,
                path: "/v1/features/{feature}",
                constants: &[],
            },
        },
    ],
};
