//! `faregate explain payment ID`: what happened to a payment, in the order of the journal. `faregate explain invoice ID`:
//! how each item of an invoice has its amount.

use clap::ArgMatches;
use serde_json::{Value, json};

use super::payments::PAYMENT;
use super::{Action, Operand, Request, Resource, cell, find, money};
use crate::output::{self, table};
use crate::remote::{Remote, Scope, encoded};

pub(super) static EXPLAIN: Resource = Resource {
    name: "explain",
    alias: None,
    about: "Show what happened to a payment, or how an invoice has its amounts",
    scope: Scope::Tenant,
    actions: &[
        Action {
            name: "payment",
            about: "Show what happened to a payment, in order, with the journal's rows and the ledger's entries",
            operands: &[PAYMENT],
            options: &[],
            request: Request::Explain,
        },
        Action {
            name: "invoice",
            about: "Show how each item of an invoice has its amount: event, catalog, days, rate, rounding",
            operands: &[Operand::id("invoice", "The invoice's id")],
            options: &[],
            request: Request::ExplainInvoice,
        },
    ],
};

/// One thing that happened, by the row of the journal that wrote it.
struct Step {
    journal: i64,
    at: String,
    what: String,
    object: String,
    by: String,
    reason: String,
}

const HEADINGS: [&str; 6] = ["JOURNAL", "AT", "WHAT", "OBJECT", "BY", "REASON"];

const ITEM_HEADINGS: [&str; 9] =
    ["TYPE", "FROM", "UNTIL", "PHASE", "EVENT", "CATALOG", "DAYS", "AMOUNT", "EXPLANATION"];

/// Items per request: as many as a page has.
const ITEMS_MAX: usize = 1_000;

/// Ledger entries per request: more than a payment's transactions write.
const ENTRIES_MAX: usize = 1_000;

/// Reads and prints the steps.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn explain(
    remote: &mut Remote,
    matches: &ArgMatches,
    json: bool,
) -> anyhow::Result<()> {
    let id = matches.get_one::<String>("payment").map(|it| encoded(it)).unwrap_or_default();
    let payment: Value = remote.get(&format!("/1.0/kb/payments/{id}")).await?.json()?;
    let mut logs = history(remote, &format!("/1.0/kb/payments/{id}")).await?;
    let mut seen = vec![];
    for transaction in list(&payment, "/transactions") {
        let id = text(transaction, "/transactionId");
        // Attempts under one key have rows of their own.
        if !seen.contains(&id) {
            let path = format!("/1.0/kb/paymentTransactions/{}", encoded(&id));
            logs.extend(history(remote, &path).await?);
            seen.push(id);
        }
    }
    let entries = format!("/v1/ledger/entries?payment={id}&limit={ENTRIES_MAX}");
    let entries: Value = remote.get(&entries).await?.json()?;
    let mut steps: Vec<Step> = logs.iter().map(of_log).collect();
    steps.extend(list(&entries, "/entries").map(of_entry));
    // What one row of the journal wrote stays in the order of payment, transactions, ledger.
    steps.sort_by_key(|it| it.journal);
    if json {
        let steps: Vec<Value> = steps.iter().map(Step::json).collect();
        println!("{}", output::json(&json!({ "payment": payment, "steps": steps })));
        return Ok(());
    }
    print!("{}", table(&HEADINGS, &steps.into_iter().map(Step::cells).collect::<Vec<_>>()));
    if let Some(last) = list(&payment, "/transactions").last() {
        let of = |at| find(last, at).map(cell).unwrap_or_default();
        println!("now: {} is {}", of("/transactionType"), of("/status"));
    }
    Ok(())
}

/// Reads and prints how the items of an invoice have their amounts.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(super) async fn explain_invoice(
    remote: &mut Remote,
    matches: &ArgMatches,
    json: bool,
) -> anyhow::Result<()> {
    let id = matches.get_one::<String>("invoice").map(|it| encoded(it)).unwrap_or_default();
    let mut items: Vec<Value> = vec![];
    let invoice = loop {
        let path = format!("/v1/invoices/{id}/explain?limit={ITEMS_MAX}&offset={}", items.len());
        let mut page: Value = remote.get(&path).await?.json()?;
        let found = page.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
        let found = found.unwrap_or_default();
        let goes_on = !found.is_empty() && page["more"] == true;
        items.extend(found);
        if !goes_on {
            break page;
        }
    };
    if json {
        let mut invoice = invoice;
        invoice["items"] = items.into();
        println!("{}", output::json(&invoice));
        return Ok(());
    }
    let of = |at: &str| text(&invoice, at);
    println!("invoice {} of {}: {}", of("/number"), of("/invoiceDate"), of("/status"));
    print!("{}", table(&ITEM_HEADINGS, &items.iter().map(item_cells).collect::<Vec<_>>()));
    let currency = of("/currency");
    let sums = ["charged", "credit", "paid", "balance"];
    let sums = sums.map(|name| format!("{name} {}", of(&format!("/{name}"))));
    println!("{} {currency}", sums.join(", "));
    Ok(())
}

fn item_cells(item: &Value) -> Vec<String> {
    let of = |at| text(item, at);
    let event = format!("{} {}", of("/event/kind"), of("/event/date"));
    let days = match item["proration"].is_object() {
        true => format!("{}/{}", of("/proration/days"), of("/proration/ofDays")),
        false => String::new(),
    };
    let catalog = of("/catalogEffectiveAt");
    vec![
        of("/itemType"),
        of("/startDate"),
        of("/endDate"),
        of("/phase"),
        event.trim().to_owned(),
        catalog.split('T').next().unwrap_or_default().to_owned(),
        days,
        of("/amount"),
        of("/explanation"),
    ]
}

/// The rows of an object's history.
async fn history(remote: &mut Remote, path: &str) -> anyhow::Result<Vec<Value>> {
    remote.get(&format!("{path}/auditLogsWithHistory")).await?.json()
}

fn of_log(log: &Value) -> Step {
    let is_transaction = text(log, "/objectType") == "TRANSACTION";
    let history = log.get("history").unwrap_or(&Value::Null);
    let of = |at| text(history, at);
    let what = match is_transaction {
        true => {
            let amount = find(history, "/amount").filter(|it| !it.is_null());
            let amount = amount.map(|it| money(history, "amount", it).unwrap_or_else(|| cell(it)));
            let amount = amount.map(|it| format!(" {it} {}", of("/currency"))).unwrap_or_default();
            let message = match of("/gatewayErrorMsg") {
                none if none.is_empty() => none,
                message => format!(": {message}"),
            };
            let (kind, status) = (of("/transactionType"), of("/transactionStatus"));
            let begins = status == "UNKNOWN" && text(log, "/changeType") == "INSERT";
            match begins {
                true => format!("{kind}{amount} begins"),
                false => format!("{kind}{amount} is {status}{message}"),
            }
        }
        false if of("/stateName").is_empty() => "payment begins".to_owned(),
        false => format!("payment is {}", of("/stateName")),
    };
    Step {
        journal: find(history, "/recordId").and_then(Value::as_i64).unwrap_or_default(),
        at: text(log, "/changeDate"),
        what,
        object: text(log, "/objectId"),
        by: text(log, "/changedBy"),
        reason: text(log, "/reasonCode"),
    }
}

fn of_entry(entry: &Value) -> Step {
    let of = |at| text(entry, at);
    let (debit, credit) = (of("/debit"), of("/credit"));
    Step {
        journal: find(entry, "/seq").and_then(Value::as_i64).unwrap_or_default(),
        at: of("/at"),
        what: format!("ledger: {} {} from {credit} to {debit}", of("/amount"), of("/currency")),
        object: of("/transactionId"),
        by: String::new(),
        reason: String::new(),
    }
}

impl Step {
    fn cells(self) -> Vec<String> {
        vec![self.journal.to_string(), self.at, self.what, self.object, self.by, self.reason]
    }

    fn json(&self) -> Value {
        json!({
            "journal": self.journal,
            "at": self.at,
            "what": self.what,
            "object": self.object,
            "by": self.by,
            "reason": self.reason,
        })
    }
}

fn list<'a>(value: &'a Value, at: &str) -> impl DoubleEndedIterator<Item = &'a Value> {
    value.pointer(at).and_then(Value::as_array).into_iter().flatten()
}

/// A text for people; nothing where there is none.
fn text(value: &Value, at: &str) -> String {
    find(value, at).map(cell).unwrap_or_default()
}
