//! Tenants of the installation.

use super::lists::List;
use super::{Action, ByKey, Field, Operand, Request, Resource, Rows};
use crate::remote::Scope;

const TENANTS_LIST: &str = "/v1/tenants";

const TENANT: Operand = Operand {
    name: "tenant",
    help: "The tenant's id or API key",
    by_key: Some(ByKey {
        path: TENANTS_LIST,
        rows: Rows::Named("tenants"),
        key: "/apiKey",
        id: "/tenantId",
    }),
};

pub(super) static TENANTS: Resource = Resource {
    name: "tenants",
    alias: None,
    about: "List and create tenants, replace their secrets",
    scope: Scope::Installation,
    actions: &[
        Action::list(
            "ls",
            "List the tenants, the oldest first",
            &[],
            List {
                path: TENANTS_LIST,
                rows: Rows::Named("tenants"),
                columns: &[
                    ("ID", "/tenantId"),
                    ("API KEY", "/apiKey"),
                    ("EXTERNAL KEY", "/externalKey"),
                    ("ACTIVE", "/active"),
                    ("CREATED", "/createdAt"),
                ],
            },
        ),
        Action::show("Show a tenant", &[TENANT], "/v1/tenants/{tenant}"),
        Action {
            name: "create",
            about: "Create a tenant and draw its API secret, which is shown once",
            operands: &[],
            options: &[
                Field::text("key", "apiKey", "Its API key, which its requests send").required(),
                Field::text("external-key", "externalKey", "A name of your own for it"),
            ],
            request: Request::Credentials { path: TENANTS_LIST },
        },
        Action {
            name: "rotate-secret",
            about: "Draw a new API secret; the one before stays valid for another day",
            operands: &[TENANT],
            options: &[Field::integer(
                "overlap-seconds",
                "overlapSeconds",
                "How many seconds the secret before stays valid [default: 86400]",
            )],
            request: Request::Credentials { path: "/v1/tenants/{tenant}/secrets" },
        },
    ],
};
