//! Payments.

use hyper::Method;

use super::accounts::ACCOUNT;
use super::{Action, Field, HISTORY, Operand, Request, Resource, Rows};
use crate::remote::Scope;

pub(super) const PAYMENT: Operand = Operand::id("payment", "The payment's id");

const AMOUNT: Field = Field::decimal("amount", "amount", "The amount, such as 12.50");
const CURRENCY: Field = Field::text("currency", "currency", "The currency, such as USD");

const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/paymentId"),
    ("ACCOUNT", "/accountId"),
    ("AUTHORIZED", "/authAmount"),
    ("CAPTURED", "/capturedAmount"),
    ("PURCHASED", "/purchasedAmount"),
    ("REFUNDED", "/refundedAmount"),
    ("CURRENCY", "/currency"),
    ("LAST", "/transactions/last/transactionType"),
    ("STATUS", "/transactions/last/status"),
];

/// A request about a payment that exists, with an amount.
const fn follow_up(name: &'static str, about: &'static str, path: &'static str) -> Action {
    Action {
        name,
        about,
        operands: &[PAYMENT],
        options: OF_FOLLOW_UP,
        request: Request::Send { method: Method::POST, path, constants: &[] },
    }
}

const OF_START: &[Field] = &[
    AMOUNT.required(),
    CURRENCY,
    Field::text("key", "paymentExternalKey", "Your key for the payment"),
    Field::query_text(
        "method",
        "paymentMethodId",
        "The payment method's id [default: the account's default]",
    ),
];

const OF_FOLLOW_UP: &[Field] = &[AMOUNT.required(), CURRENCY];

/// A request that starts a payment.
const fn start(
    name: &'static str,
    about: &'static str,
    constants: &'static [(&'static str, &'static str)],
) -> Action {
    Action {
        name,
        about,
        operands: &[ACCOUNT],
        options: OF_START,
        request: Request::Send {
            method: Method::POST,
            path: "/1.0/kb/accounts/{account}/payments",
            constants,
        },
    }
}

pub(super) static PAYMENTS: Resource = Resource {
    name: "payments",
    alias: None,
    about: "List, find and make payments: create, authorize, capture, refund, void, resolve",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "ls",
            "List the payments",
            &[],
            ("/1.0/kb/payments/pagination", Rows::All, COLUMNS),
        ),
        Action::list(
            "find",
            "Find payments by the account's id, a key, or a state such as PURCHASE_FAILED",
            &[Operand::id("text", "The account's id, a key, or a state")],
            ("/1.0/kb/payments/search/{text}", Rows::All, COLUMNS),
        ),
        Action {
            name: "show",
            about: "Show a payment",
            operands: &[PAYMENT],
            options: &[],
            request: Request::Show { path: "/1.0/kb/payments/{payment}" },
        },
        Action::list(
            "history",
            "Show who changed the payment, when and why",
            &[PAYMENT],
            ("/1.0/kb/payments/{payment}/auditLogsWithHistory", Rows::Whole, HISTORY),
        ),
        start(
            "create",
            "Take a payment from an account: authorize and capture in one",
            &[("transactionType", "PURCHASE")],
        ),
        start(
            "authorize",
            "Authorize a payment, to capture it later",
            &[("transactionType", "AUTHORIZE")],
        ),
        follow_up("capture", "Capture an amount of an authorization", "/1.0/kb/payments/{payment}"),
        follow_up("refund", "Refund an amount of a payment", "/1.0/kb/payments/{payment}/refunds"),
        Action {
            name: "void",
            about: "Void an authorization",
            operands: &[PAYMENT],
            options: &[],
            request: Request::Send {
                method: Method::DELETE,
                path: "/1.0/kb/payments/{payment}",
                constants: &[],
            },
        },
        Action {
            name: "resolve",
            about: "Give a transaction its status where the gateway does not report it",
            operands: &[
                PAYMENT,
                Operand::id("transaction", "The transaction's id, as `payments show` prints it"),
            ],
            options: &[Field::text(
                "status",
                "transactionStatus",
                "SUCCESS, PAYMENT_FAILURE (declined) or PLUGIN_FAILURE (it never reached the gateway)",
            )
            .required()],
            request: Request::Send {
                method: Method::PUT,
                path: "/1.0/kb/admin/payments/{payment}/transactions/{transaction}",
                constants: &[],
            },
        },
    ],
};
