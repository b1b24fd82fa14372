//! Offers: a price and the features that it gives.

use hyper::Method;

use super::lists::List;
use super::{Action, Field, Operand, Pairs, Request, Resource, Rows};
use crate::remote::Scope;

const OFFER: Operand = Operand::id("offer", "The offer's key");

const COLUMNS: &[(&str, &str)] = &[
    ("KEY", "/key"),
    ("VERSION", "/version"),
    ("NAME", "/name"),
    ("PRICE", "/price/amount"),
    ("CURRENCY", "/price/currency"),
    ("FEATURES", "/features"),
    ("WITHDRAWN", "/withdrawn"),
];

pub(super) static OFFERS: Resource = Resource {
    name: "offers",
    alias: None,
    about: "List and make offers: a price and the features that it gives",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the newest versions of the offers, by their keys",
            &[],
            List { path: "/v1/offers", rows: Rows::Named("offers"), columns: COLUMNS },
        ),
        Action {
            name: "show",
            about: "Show an offer in its newest version",
            operands: &[OFFER],
            options: &[Field::query_text("offer-version", "version", "Another version")],
            request: Request::Show { path: "/v1/offers/{offer}" },
        },
        Action::list(
            "versions",
            "List the versions of an offer, the newest first",
            &[OFFER],
            List {
                path: "/v1/offers/{offer}/versions",
                rows: Rows::Named("offers"),
                columns: COLUMNS,
            },
        ),
        Action {
            name: "set",
            about: "Make an offer, or its next version; what was bought keeps its own",
            operands: &[OFFER],
            options: &[
                Field::text("name", "name", "The name for people").required(),
                Field::decimal("price", "price/amount", "The price, such as 19.00 [default: free]"),
                Field::text("currency", "price/currency", "The price's currency, such as EUR"),
                Field::pairs(
                    "feature",
                    "features",
                    "A feature that it gives with its value, such as sso=true; repeat for more",
                    Pairs::Json,
                )
                .required(),
                Field::integer("days", "lasts/days", "How long it lasts [default: for ever]"),
                Field::integer("months", "lasts/months", "The same in calendar months"),
                Field::text("on-refund", "onRefund", "at-once, at-end or never"),
                Field::text("on-chargeback", "onChargeback", "at-once, at-end or never"),
                Field::text("again", "again", "Where an account has it: refuse or extend"),
                Field::json("once", "once", "true: an account has it once in all its time"),
                Field::json("for-newcomers", "forNewcomers", "true: signing up grants it"),
                Field::json("withdrawn", "withdrawn", "true: it is sold no more"),
            ],
            request: Request::Send {
                method: Method::PUT,
                path: "/v1/offers/{offer}",
                constants: &[],
            },
        },
    ],
};
