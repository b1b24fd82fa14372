//! Purchases of offers by accounts.

use hyper::Method;

use super::accounts::ACCOUNT;
use super::lists::List;
use super::{Action, Field, Operand, Pairs, Request, Resource, Rows};
use crate::remote::Scope;

const PURCHASE: Operand = Operand::id("purchase", "The purchase's id");

pub(super) static PURCHASES: Resource = Resource {
    name: "purchases",
    alias: None,
    about: "List what an account bought, and buy an offer for it",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the purchases of an account, the newest first",
            &[ACCOUNT],
            List {
                path: "/v1/accounts/{account}/purchases",
                rows: Rows::NewestNamed("purchases"),
                columns: &[
                    ("ID", "/purchaseId"),
                    ("AT", "/createdAt"),
                    ("OFFER", "/offer"),
                    ("VERSION", "/offerVersion"),
                    ("STATUS", "/status"),
                    ("FROM", "/from"),
                    ("UNTIL", "/until"),
                    ("PAYMENT", "/paymentId"),
                ],
            },
        ),
        Action::show(
            "Show a purchase",
            &[ACCOUNT, PURCHASE],
            "/v1/accounts/{account}/purchases/{purchase}",
        ),
        Action {
            name: "create",
            about: "Buy an offer for an account: payment, purchase and grants are one commit",
            operands: &[ACCOUNT],
            options: &[
                Field::text("offer", "offer", "The offer's key").required(),
                Field::decimal(
                    "price",
                    "expectedPrice/amount",
                    "The price that the buyer saw: another one is refused; not for a free offer",
                ),
                Field::text("currency", "expectedPrice/currency", "That price's currency"),
                Field::integer("offer-version", "version", "The version that the buyer saw"),
                Field::text(
                    "method",
                    "paymentMethodId",
                    "The payment method's id [default: the account's default]",
                ),
                Field::pairs(
                    "property",
                    "properties",
                    "A property for the payment's gateway; repeat for more",
                    Pairs::Texts,
                ),
            ],
            request: Request::Send {
                method: Method::POST,
                path: "/v1/accounts/{account}/purchases",
                constants: &[],
            },
        },
    ],
};
