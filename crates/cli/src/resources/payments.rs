//! Payments.

use clap::ArgMatches;
use hyper::Method;
use serde_json::Value;

use super::accounts::ACCOUNT;
use super::lists::{CUSTOMER, List, Raw, Window, list};
use super::{Action, Field, HISTORY, Operand, Pairs, Request, Resource, Rows};
use crate::remote::{Remote, Scope, encoded};

pub(super) const PAYMENT: Operand = Operand::id("payment", "The payment's id");

const AMOUNT: Field = Field::decimal("amount", "amount", "The amount, such as 12.50");
const PROPERTY: Field = Field::pairs(
    "property",
    "pluginProperty",
    "A property for the gateway; repeat for more",
    Pairs::Query,
);
const CURRENCY: Field = Field::text("currency", "currency", "The currency, such as USD");

pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("ID", "/paymentId"),
    ("AT", "/transactions/last/effectiveDate"),
    ("CUSTOMER", CUSTOMER),
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
    PROPERTY,
];

const OF_FOLLOW_UP: &[Field] = &[AMOUNT.required(), CURRENCY, PROPERTY];

/// The columns of transactions without an outcome.
const UNRESOLVED: &[(&str, &str)] = &[
    ("PAYMENT", "/paymentId"),
    ("TRANSACTION", "/transactionId"),
    ("SINCE", "/since"),
    ("STATUS", "/status"),
    ("TYPE", "/transactionType"),
    ("AMOUNT", "/amount"),
    ("CURRENCY", "/currency"),
    ("GATEWAY", "/gateway"),
];

/// Words for the outcome of a payment's last transaction: how the names of states end, and the statuses of the
/// transaction that are meant.
const OUTCOMES: &[(&str, &[&str], &[&str])] = &[
    ("SUCCESS", &["SUCCESS"], &["SUCCESS"]),
    ("PENDING", &["PENDING"], &["PENDING"]),
    ("DECLINED", &["FAILED"], &["PAYMENT_FAILURE"]),
    ("FAILED", &["FAILED", "ERRORED"], &["PAYMENT_FAILURE", "PLUGIN_FAILURE"]),
    ("PAYMENT_FAILURE", &["FAILED"], &["PAYMENT_FAILURE"]),
    ("PLUGIN_FAILURE", &["ERRORED"], &["PLUGIN_FAILURE"]),
    ("UNKNOWN", &["ERRORED", "INIT"], &["UNKNOWN"]),
];

/// How the names of states begin.
const OPERATIONS: [&str; 7] =
    ["AUTH", "CAPTURE", "PURCHASE", "REFUND", "CREDIT", "VOID", "CHARGEBACK"];

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
            "List the payments, the newest first",
            &[],
            List { path: "/1.0/kb/payments/pagination", rows: Rows::Newest, columns: COLUMNS },
        ),
        Action {
            name: "find",
            about: "Find payments by a key, a status, the customer's e-mail address or the account",
            operands: &[Operand::id(
                "text",
                "A key, the account's id, an e-mail address, a status such as DECLINED, PENDING or \
                 UNKNOWN, or a state such as PURCHASE_FAILED",
            )],
            options: &[],
            request: Request::FindPayments,
        },
        Action::list(
            "unresolved",
            "List the transactions whose outcome is unknown or pending, the oldest first",
            &[],
            List { path: "/v1/payments/unresolved", rows: Rows::Named("unresolved"), columns: UNRESOLVED },
        ),
        Action::show("Show a payment", &[PAYMENT], "/1.0/kb/payments/{payment}"),
        Action::list(
            "history",
            "Show who changed the payment, when and why",
            &[PAYMENT],
            List { path: "/1.0/kb/payments/{payment}/auditLogsWithHistory", rows: Rows::Whole, columns: HISTORY },
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
        Action::delete("void", "Void an authorization", &[PAYMENT], "/1.0/kb/payments/{payment}"),
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

/// The payments that a text names, the newest first, and whether there are more.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn find(remote: &mut Remote, matches: &ArgMatches) -> anyhow::Result<(Raw, bool)> {
    let text = matches.get_one::<String>("text").cloned().unwrap_or_default();
    let limit = matches.get_one("limit").copied().unwrap_or_default();
    let window = Window::of(limit);
    let outcome = OUTCOMES.iter().find(|(word, ..)| *word == text.to_uppercase());
    let (mut found, mut more) = (vec![], false);
    let mut searches = vec![];
    match outcome {
        Some((_, ends, _)) => {
            for operation in OPERATIONS {
                searches.extend(ends.iter().map(|end| search(&format!("{operation}_{end}"))));
            }
        }
        None if text.contains('@') => {
            for account in accounts_of(remote, &text).await? {
                searches.push((format!("/1.0/kb/accounts/{account}/payments"), Rows::Whole));
            }
        }
        None => searches.push(search(&text)),
    }
    for (path, rows) in &searches {
        // Those of an account are the oldest first.
        let of_search = if matches!(rows, Rows::Whole) { Window::ALL } else { window };
        let (rows, has_more) = list(remote, path, rows, of_search).await?;
        more |= has_more;
        for row in rows {
            found.push((newest_date(&row, outcome.map(|it| it.2))?, row));
        }
    }
    let mut found: Vec<_> =
        found.into_iter().filter_map(|(date, row)| Some((date?, row))).collect();
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    more |= found.len() > window.limit;
    found.truncate(window.limit);
    Ok((found.into_iter().map(|(_, row)| row).collect(), more))
}

fn search(text: &str) -> (String, Rows) {
    (format!("/1.0/kb/payments/search/{}", encoded(text)), Rows::Newest)
}

/// The ids of the accounts with an e-mail address.
async fn accounts_of(remote: &mut Remote, email: &str) -> anyhow::Result<Vec<String>> {
    let path = format!("/1.0/kb/accounts/search/{}", encoded(email));
    let (rows, _) = list(remote, &path, &Rows::Newest, Window::ALL).await?;
    let ids = super::values(&rows)?.into_iter();
    Ok(ids.filter_map(|it| Some(it.get("accountId")?.as_str()?.to_owned())).collect())
}

/// The date of a payment's last transaction, which has whole seconds, and the payment's id; none where that has another
/// status than those wanted.
fn newest_date(
    payment: &serde_json::value::RawValue,
    wanted: Option<&[&str]>,
) -> anyhow::Result<Option<(String, String)>> {
    let payment: Value = serde_json::from_str(payment.get())?;
    let of = |at| super::find(&payment, at).map(super::cell).unwrap_or_default();
    let status = of("/transactions/last/status");
    let is_wanted = wanted.is_none_or(|it| it.contains(&status.as_str()));
    Ok(is_wanted.then(|| (of("/transactions/last/effectiveDate"), of("/paymentId"))))
}
