//! Plans and products of the catalog: the features that their subscriptions have.

use hyper::Method;

use super::lists::List;
use super::{Action, Field, Operand, Pairs, Request, Resource, Rows};
use crate::remote::Scope;

const PLAN: Operand = Operand::id("plan", "The plan's name in the catalog");
const PRODUCT: Operand = Operand::id("product", "The product's name in the catalog");

const COLUMNS: &[(&str, &str)] =
    &[("NAME", "/name"), ("VERSION", "/version"), ("FEATURES", "/features"), ("AT", "/createdAt")];

const FEATURE: Field = Field::pairs(
    "feature",
    "features",
    "A feature with what it gives, such as 'seats={\"value\": 5}'; repeat for more",
    Pairs::Json,
);

pub(super) static PLANS: Resource = Resource {
    name: "plans",
    alias: None,
    about: "Show and set the features that a plan gives; its entries win over its product's",
    scope: Scope::Tenant,
    actions: &[
        Action {
            name: "show",
            about: "Show the features of a plan in their newest version",
            operands: &[PLAN],
            options: &[Field::query_text("features-version", "version", "Another version")],
            request: Request::Show { path: "/v1/plans/{plan}/features" },
        },
        Action::list(
            "versions",
            "List the versions of a plan's features, the newest first",
            &[PLAN],
            List {
                path: "/v1/plans/{plan}/features/versions",
                rows: Rows::Named("versions"),
                columns: COLUMNS,
            },
        ),
        Action {
            name: "set",
            about: "Set all features of a plan; subscriptions have them with their next phase, change or period",
            operands: &[PLAN],
            options: &[FEATURE.required()],
            request: Request::Send {
                method: Method::PUT,
                path: "/v1/plans/{plan}/features",
                constants: &[],
            },
        },
    ],
};

pub(super) static PRODUCTS: Resource = Resource {
    name: "products",
    alias: None,
    about: "Show and set the features that all plans of a product give",
    scope: Scope::Tenant,
    actions: &[
        Action {
            name: "show",
            about: "Show the features of a product in their newest version",
            operands: &[PRODUCT],
            options: &[Field::query_text("features-version", "version", "Another version")],
            request: Request::Show { path: "/v1/products/{product}/features" },
        },
        Action::list(
            "versions",
            "List the versions of a product's features, the newest first",
            &[PRODUCT],
            List {
                path: "/v1/products/{product}/features/versions",
                rows: Rows::Named("versions"),
                columns: COLUMNS,
            },
        ),
        Action {
            name: "set",
            about: "Set all features of a product; subscriptions have them with their next phase, change or period",
            operands: &[PRODUCT],
            options: &[FEATURE.required()],
            request: Request::Send {
                method: Method::PUT,
                path: "/v1/products/{product}/features",
                constants: &[],
            },
        },
    ],
};
