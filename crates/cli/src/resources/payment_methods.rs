//! Payment methods of accounts.

use hyper::Method;

use super::accounts::ACCOUNT;
use super::{Action, Field, Request, Resource, Rows};
use crate::remote::Scope;

pub(super) static PAYMENT_METHODS: Resource = Resource {
    name: "payment-methods",
    about: "List and create payment methods of an account",
    scope: Scope::Tenant,
    actions: &[
        Action {
            name: "ls",
            about: "List the payment methods of an account",
            operands: &[ACCOUNT],
            options: &[],
            request: Request::List {
                path: "/1.0/kb/accounts/{account}/paymentMethods",
                rows: Rows::Whole,
                columns: &[
                    ("ID", "/paymentMethodId"),
                    ("GATEWAY", "/pluginName"),
                    ("DEFAULT", "/isDefault"),
                ],
            },
        },
        Action {
            name: "create",
            about: "Create a payment method of an account",
            operands: &[ACCOUNT],
            options: &[
                Field::text(
                    "gateway",
                    "pluginName",
                    "The gateway, such as __EXTERNAL_PAYMENT__ for payments made elsewhere",
                )
                .required(),
                Field::query_flag("default", "isDefault", "Make it the account's default"),
            ],
            request: Request::Send {
                method: Method::POST,
                path: "/1.0/kb/accounts/{account}/paymentMethods",
                constants: &[],
            },
        },
    ],
};
