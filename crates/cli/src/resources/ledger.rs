//! The ledger of a tenant: balances and entries.

use super::lists::List;
use super::{Action, Field, Request, Resource, Rows};
use crate::remote::Scope;

pub(super) static LEDGER: Resource = Resource {
    name: "ledger",
    alias: None,
    about: "Show the ledger: balances of its accounts, and entries",
    scope: Scope::Tenant,
    actions: &[
        Action {
            name: "balances",
            about: "Show the balances of the ledger's accounts",
            operands: &[],
            options: &[ACCOUNT],
            request: Request::List(List {
                path: "/v1/ledger/accounts",
                rows: Rows::WholeNamed("accounts"),
                columns: &[
                    ("ACCOUNT", "/account"),
                    ("DEBIT", "/debit"),
                    ("CREDIT", "/credit"),
                    ("BALANCE", "/balance"),
                    ("CURRENCY", "/currency"),
                ],
            }),
        },
        Action {
            name: "entries",
            about: "List the entries, the oldest first",
            operands: &[],
            options: &[
                ACCOUNT,
                Field::query_text("payment", "payment", "Only this payment's, by its id"),
                Field::query_text("invoice", "invoice", "Only this invoice's, by its id"),
                Field::query_text("from", "from", "Written at or after this time or date"),
                Field::query_text("to", "to", "Written before this time or date"),
            ],
            request: Request::List(List {
                path: "/v1/ledger/entries",
                rows: Rows::Named("entries"),
                columns: &[
                    ("AT", "/at"),
                    ("DEBIT", "/debit"),
                    ("CREDIT", "/credit"),
                    ("AMOUNT", "/amount"),
                    ("CURRENCY", "/currency"),
                    ("PAYMENT", "/paymentId"),
                    ("INVOICE", "/invoiceId"),
                ],
            }),
        },
    ],
};

const ACCOUNT: Field =
    Field::query_text("account", "account", "Only this billing account's, by its id");
