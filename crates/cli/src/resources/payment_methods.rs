//! Payment methods of accounts.

use hyper::Method;

use super::accounts::ACCOUNT;
use super::lists::List;
use super::{Action, Field, Operand, Pairs, Request, Resource, Rows};
use crate::remote::Scope;

const METHOD: Operand = Operand::id("method", "The payment method's id");

pub(super) static PAYMENT_METHODS: Resource = Resource {
    name: "payment-methods",
    alias: Some("methods"),
    about: "List, create and delete payment methods of an account",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the payment methods of an account",
            &[ACCOUNT],
            List {
                path: "/1.0/kb/accounts/{account}/paymentMethods",
                rows: Rows::Whole,
                columns: &[
                    ("ID", "/paymentMethodId"),
                    ("GATEWAY", "/pluginName"),
                    ("DEFAULT", "/isDefault"),
                ],
            },
        ),
        Action::show("Show a payment method", &[METHOD], "/1.0/kb/paymentMethods/{method}"),
        Action {
            name: "set-default",
            about: "Make a payment method the account's default",
            operands: &[ACCOUNT, METHOD],
            options: &[],
            request: Request::Send {
                method: Method::PUT,
                path: "/1.0/kb/accounts/{account}/paymentMethods/{method}/setDefault",
                constants: &[],
            },
        },
        Action {
            name: "delete",
            about: "Delete a payment method",
            operands: &[METHOD],
            options: &[Field::query_flag(
                "even-if-default",
                "forceDefaultPmDeletion",
                "Delete it although it is the account's default",
            )],
            request: Request::Send {
                method: Method::DELETE,
                path: "/1.0/kb/paymentMethods/{method}",
                constants: &[],
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
                Field::text(
                    "token",
                    "pluginInfo/externalPaymentMethodId",
                    "The gateway's token for it, such as pm_card_visa of Stripe",
                ),
                Field::pairs(
                    "property",
                    "pluginInfo/properties",
                    "A property for the gateway; repeat for more",
                    Pairs::List,
                ),
            ],
            request: Request::Send {
                method: Method::POST,
                path: "/1.0/kb/accounts/{account}/paymentMethods",
                constants: &[],
            },
        },
    ],
};
