//! How far the billing of a tenant is, and what it would invoice.

use std::collections::BTreeMap;

use anyhow::Context as _;
use domain::{AmountMinor, Currency};
use serde_json::{Value, json};

use super::{Action, Field, Request, Resource};
use crate::client::NOT_JSON;
use crate::output::{self, table};
use crate::remote::{Remote, Scope};

pub(super) static BILLING: Resource = Resource {
    name: "billing",
    alias: None,
    about: "Show what is due to be billed, which accounts cannot be billed, and what comes",
    scope: Scope::Tenant,
    actions: &[
        Action {
            name: "status",
            about: "Show what is due, how late it is, and the accounts that cannot be billed with the reason",
            operands: &[],
            options: &[],
            request: Request::Show { path: "/v1/billing?limit=1000" },
        },
        Action {
            name: "forecast",
            about: "Add up what the accounts would be invoiced until a day, if nothing changes",
            operands: &[],
            options: &[Field::query_text("to", "to", "The day, at most 36 months ahead").required()],
            request: Request::Forecast { path: "/v1/billing/forecast" },
        },
    ],
};

const HEADINGS: [&str; 4] = ["CURRENCY", "INVOICES", "CHARGED", "FROM CREDIT"];

/// Invoices, charges, and what credit pays of them, in minor units.
type Sums = (u64, i128, i128);

/// Reads all pages of a forecast, and prints their sums.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn forecast(remote: &mut Remote, path: &str, json: bool) -> anyhow::Result<()> {
    let (mut accounts, mut refused) = (0, 0);
    let mut sums: BTreeMap<Currency, Sums> = BTreeMap::new();
    let mut after = String::new();
    loop {
        let page: Value = remote.get(&format!("{path}{after}")).await?.json()?;
        accounts += page["accounts"].as_u64().context(NOT_JSON)?;
        refused += page["refused"].as_u64().context(NOT_JSON)?;
        for it in page["currencies"].as_array().into_iter().flatten() {
            add(&mut sums, it).context(NOT_JSON)?;
        }
        let Some(next) = page["nextAfter"].as_str() else { break };
        after = format!("&after={next}");
    }
    let rows = sums.iter().map(|(currency, (invoices, charged, credit))| {
        let amounts = [*charged, *credit].map(|it| currency.decimal(it));
        (currency.to_string(), *invoices, amounts)
    });
    if json {
        let rows = rows.map(|(currency, invoices, [charged, credit])| {
            json!({ "currency": currency, "invoices": invoices, "charged": charged, "fromCredit": credit })
        });
        let rows: Vec<Value> = rows.collect();
        let all = json!({ "accounts": accounts, "refused": refused, "currencies": rows });
        println!("{}", output::json(&all));
        return Ok(());
    }
    let cells = rows.map(|(currency, invoices, [charged, credit])| {
        vec![currency, invoices.to_string(), charged, credit]
    });
    print!("{}", table(&HEADINGS, &cells.collect::<Vec<_>>()));
    println!("{accounts} accounts, of which {refused} cannot be invoiced");
    Ok(())
}

/// Adds a currency of a page; `None`: it is none.
fn add(sums: &mut BTreeMap<Currency, Sums>, it: &Value) -> Option<()> {
    let currency = Currency::parse(it["currency"].as_str()?)?;
    let amount = |name: &str| {
        let parsed = AmountMinor::parse(it[name].as_str()?, currency).ok()?;
        Some(i128::from(parsed.0))
    };
    let (charged, credit) = (amount("charged")?, amount("fromCredit")?);
    let sum = sums.entry(currency).or_default();
    *sum = (sum.0 + it["invoices"].as_u64()?, sum.1 + charged, sum.2 + credit);
    Some(())
}
