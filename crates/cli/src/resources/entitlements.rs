//! The entitlements of accounts: shown, granted and taken back by hand, and explained.

use clap::ArgMatches;
use hyper::Method;
use serde_json::{Value, json};

use super::accounts::ACCOUNT;
use super::lists::{List, Window, list, values};
use super::{Action, Field, Operand, Request, Resource, Rows, cell, find};
use crate::output::{self, table};
use crate::remote::{Remote, Scope, encoded};

const GRANT: Operand = Operand::id("grant", "The grant's id");
const FEATURE: Operand = Operand::id("feature", "The feature's key");

const HEADINGS: [&str; 6] = ["WHAT", "ID", "VALUE", "FROM", "UNTIL", "WHY"];

pub(super) static ENTITLEMENTS: Resource = Resource {
    name: "entitlements",
    alias: None,
    about: "Show what accounts may do, grant features by hand, and take them back",
    scope: Scope::Tenant,
    actions: &[
        Action::list(
            "show",
            "Show what an account may do now",
            &[ACCOUNT],
            List {
                path: "/v1/accounts/{account}/entitlements",
                rows: Rows::WholeNamed("features"),
                columns: &[
                    ("FEATURE", "/feature"),
                    ("VALUE", "/value"),
                    ("UNIT", "/unit"),
                    ("UNTIL", "/until"),
                ],
            },
        ),
        Action {
            name: "grant",
            about: "Grant a feature to an account",
            operands: &[ACCOUNT],
            options: &[
                Field::text("feature", "feature", "The feature's key").required(),
                Field::json("value", "value", "true for a switch, a number for a limit").required(),
                Field::text("code", "reason", "Why, as a code such as goodwill: without names")
                    .required(),
                Field::text("from", "from", "From when on (RFC 3339) [default: now]"),
                Field::text("until", "until", "Until when (RFC 3339) [default: for ever]"),
            ],
            request: Request::Send {
                method: Method::POST,
                path: "/v1/accounts/{account}/grants",
                constants: &[],
            },
        },
        Action::delete(
            "revoke",
            "Take back what was granted by hand",
            &[ACCOUNT, GRANT],
            "/v1/accounts/{account}/grants/{grant}",
        ),
        Action {
            name: "explain",
            about: "Show why an account may use a feature, or may not",
            operands: &[ACCOUNT, FEATURE],
            options: &[],
            request: Request::ExplainEntitlement,
        },
    ],
};

/// Reads and prints what an account's use of a feature follows from: its grants, and the purchases of offers that
/// give it.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn explain(
    remote: &mut Remote,
    matches: &ArgMatches,
    json: bool,
) -> anyhow::Result<()> {
    let given = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let (account, feature) =
        (format!("/v1/accounts/{}", encoded(&given("account"))), given("feature"));
    let path = format!("{account}/entitlements/{}", encoded(&feature));
    let check: Value = remote.get(&path).await?.json()?;
    let has: Value = remote.get(&format!("{account}/entitlements")).await?.json()?;
    let features = has.pointer("/features").and_then(Value::as_array).into_iter().flatten();
    let own = features.filter(|it| text(it, "/feature") == feature);
    let grants = own.filter_map(|it| it.pointer("/grants")?.as_array()).flatten();
    let grants: Vec<Value> = grants.cloned().collect();
    let (path, named) = (format!("{account}/purchases"), Rows::Named("purchases"));
    let mut purchases = values(&list(remote, &path, &named, Window::ALL).await?.0)?;
    purchases
        .retain(|it| it.pointer("/terms/features").is_some_and(|it| it.get(&feature).is_some()));
    if json {
        let explained = json!({ "check": check, "grants": grants, "purchases": purchases });
        println!("{}", output::json(&explained));
        return Ok(());
    }
    let mut rows: Vec<Vec<String>> = grants.iter().map(of_grant).collect();
    rows.extend(purchases.iter().map(of_purchase));
    print!("{}", table(&HEADINGS, &rows));
    let until = text(&check, "/until");
    match check.pointer("/allowed") == Some(&Value::Bool(true)) {
        true if until.is_empty() => println!("now: {feature} is allowed"),
        true => println!("now: {feature} is allowed until {until}"),
        false => println!("now: {feature} is not allowed: {}", text(&check, "/reason")),
    }
    Ok(())
}

fn of_grant(it: &Value) -> Vec<String> {
    let of = |at| text(it, at);
    let why = match of("/source").as_str() {
        "manual" => format!("by hand: {}", of("/reason")),
        source => format!("{source} {}, purchase {}", offer(it), of("/purchaseId")),
    };
    vec!["grant".to_owned(), of("/grantId"), of("/value"), of("/from"), of("/until"), why]
}

fn of_purchase(it: &Value) -> Vec<String> {
    let of = |at| text(it, at);
    let why = format!("{}: offer {}", of("/status"), offer(it));
    vec!["purchase".to_owned(), of("/purchaseId"), String::new(), of("/from"), of("/until"), why]
}

fn offer(it: &Value) -> String {
    format!("{} version {}", text(it, "/offer"), text(it, "/offerVersion"))
}

/// A text for people; nothing where there is none.
fn text(value: &Value, at: &str) -> String {
    find(value, at).map(cell).unwrap_or_default()
}
