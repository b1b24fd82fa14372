//! Explained invoices: how each item has its amount.

use axum::Json;
use axum::extract::Path;
use domain::billing::explain::{Cause, Unexplained, Working};
use domain::billing::invoice::{InvoiceItem, ItemKind};
use domain::billing::propose::Measured;
use domain::billing::{DayPart, EventKind};
use domain::{AmountMinor, Currency, InvoiceId};
use engine::explained_invoices::{self, ExplainedInvoice, ExplainedItem};
use engine::time::rfc3339;
use jiff::civil::Date;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::caller::Call;
use crate::error::Error;
use crate::openapi::{InvalidParameter, PageParameters, Unauthenticated};
use crate::parameters::{Parameters, id_of};

/// An invoice, and how its items have their amounts. Amounts are decimals of the currency's major unit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceExplanation {
    /// The invoice's id.
    invoice_id: Uuid,
    /// Its number.
    number: String,
    /// The billing account's id.
    account_id: Uuid,
    /// `DRAFT`, `COMMITTED` or `VOID`.
    status: &'static str,
    /// ISO 4217 code.
    currency: String,
    /// The account's day on which it was made.
    invoice_date: String,
    /// The day until which it charges what was due; `null`: it was not made by a run.
    target_date: Option<String>,
    /// The sum of its charges, less repairs and adjustments.
    charged: String,
    /// The change of the account's credit; negative where credit was used.
    credit: String,
    /// What was paid of it.
    paid: String,
    /// What is still to be paid.
    balance: String,
    /// The items of the page, in the order in which they were made.
    items: Vec<ItemExplanation>,
    /// Whether more follow after this page.
    more: bool,
}

/// An item, and how it has its amount. What does not apply is `null`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ItemExplanation {
    /// The item's id.
    item_id: Uuid,
    /// The type in Kill Bill's spelling, such as `RECURRING`.
    item_type: &'static str,
    /// The amount; below zero where the account gets something back.
    amount: String,
    /// The first day that it is for.
    start_date: String,
    /// The first day that it is not for.
    end_date: Option<String>,
    /// The subscription that it is of.
    subscription_id: Option<Uuid>,
    /// The plan that decided.
    plan: Option<String>,
    /// The phase of the plan.
    phase: Option<String>,
    /// Since when the version of the catalog is in force that decided (RFC 3339).
    catalog_effective_at: Option<String>,
    /// When it was made (RFC 3339).
    made_at: String,
    /// The number of the journal row that made it.
    journal: i64,
    /// Who asked for what made it.
    made_by: String,
    /// The event from which the charge follows, or after which the repaired days are charged no more.
    event: Option<EventExplanation>,
    /// The catalog's price, or the one that replaces it, of one.
    price: Option<String>,
    /// How many there are.
    quantity: Option<u32>,
    /// The price times the quantity.
    rate: Option<String>,
    /// How the amount is a part of another one.
    proration: Option<Proration>,
    /// The item that it repairs.
    repairs: Option<Uuid>,
    /// The item that it adjusts.
    adjusts: Option<Uuid>,
    /// For a change of the account's credit: the invoice's balance before.
    balance_before: Option<String>,
    /// What cannot be derived any more, and why.
    not_derived: Option<String>,
    /// All of it in a sentence.
    explanation: String,
}

/// An event of a subscription.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EventExplanation {
    /// `CREATE`, `TRANSFER`, `PHASE`, `CHANGE`, `BCD_CHANGE`, `QUANTITY`, `CANCEL`, `EXPIRED`, `BLOCKED` or `RESUMED`.
    kind: &'static str,
    /// The account's day.
    date: String,
}

/// A part of an amount by days.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Proration {
    /// The amount of which it is a part: the rate, or that of `ofStartDate` to `ofEndDate`.
    of: String,
    /// Where it is a part of a charge or an item: its first day.
    of_start_date: Option<String>,
    /// The first day that this is not for.
    of_end_date: Option<String>,
    /// How many days count.
    days: i32,
    /// How many days all of it has.
    of_days: i32,
    /// Days over days, with nine decimals, rounded half up.
    ratio: String,
    /// The part before it is rounded.
    exact: String,
    /// The part, rounded half up to the currency's decimals.
    rounded: String,
    /// Whether less than this was left of the item.
    is_limited: bool,
}

/// How each item of an invoice has its amount: events, catalog version, days over days, rate and rounding
#[utoipa::path(get, path = "/v1/invoices/{id}/explain", tag = "Billing", operation_id = "explain_invoice",
    params(("id" = Uuid, Path, description = "The invoice"), PageParameters),
    responses((status = 200, description = "The invoice", body = InvoiceExplanation),
        (status = 404, description = "No such invoice"), InvalidParameter, Unauthenticated))]
pub async fn explain(
    Call { api, context, uri, .. }: Call,
    Path(id): Path<String>,
) -> Result<Json<InvoiceExplanation>, Error> {
    let page = Parameters::only_page(&uri)?;
    let invoice: InvoiceId = id_of("invoice", &id)?;
    let of = (context.tenant.no, invoice);
    let read = api.engine.read(move |queries| explained_invoices::explain(queries, of, page));
    let found = read.await?.ok_or(Error::NotFound { what: "invoice", name: id })?;
    Ok(Json(describe(&found, page.offset)))
}

fn describe(it: &ExplainedInvoice, offset: u64) -> InvoiceExplanation {
    let invoice = &it.invoice;
    let amount = |it: AmountMinor| it.decimal(invoice.currency);
    InvoiceExplanation {
        invoice_id: invoice.id.uuid(),
        number: invoice.number.to_string(),
        account_id: invoice.account_id.uuid(),
        status: invoice.status.name(),
        currency: invoice.currency.to_string(),
        invoice_date: invoice.invoice_date.to_string(),
        target_date: invoice.target_date.map(|it| it.to_string()),
        charged: amount(invoice.charged),
        credit: amount(invoice.credit),
        paid: amount(invoice.paid()),
        balance: amount(invoice.balance()),
        items: it.items.iter().map(describe_item).collect(),
        more: offset.saturating_add(it.items.len() as u64) < it.all as u64,
    }
}

fn describe_item(explained: &ExplainedItem) -> ItemExplanation {
    let ExplainedItem { item: it, made, made_at, by, working } = explained;
    let of = it.of.as_ref();
    let manual = it.manual.as_deref();
    let is_repair = it.kind == ItemKind::RepairAdj;
    let plain = ItemExplanation {
        item_id: it.id.uuid(),
        item_type: it.kind.name(),
        amount: it.amount.decimal(it.currency),
        start_date: it.start.to_string(),
        end_date: it.end.map(|it| it.to_string()),
        subscription_id: of.map(|it| it.subscription.uuid()),
        plan: of.map(|it| it.plan.clone()),
        phase: of.map(|it| it.phase.clone()),
        catalog_effective_at: of.map(|it| rfc3339(it.catalog_effective_at)),
        made_at: rfc3339(*made_at),
        journal: made.0,
        made_by: by.clone(),
        event: None,
        price: None,
        quantity: None,
        rate: of.and_then(|it| it.rate).or_else(|| manual?.rate).map(|it| it.to_string()),
        proration: None,
        repairs: it.linked.filter(|_| is_repair).map(|it| it.uuid()),
        adjusts: it.linked.filter(|_| !is_repair).map(|it| it.uuid()),
        balance_before: None,
        not_derived: None,
        explanation: String::new(),
    };
    match working {
        Ok(working) => with_working(plain, it, working),
        Err(why) => without_working(plain, *why),
    }
}

fn with_working(plain: ItemExplanation, it: &InvoiceItem, working: &Working) -> ItemExplanation {
    let explained = match working {
        Working::Fixed { event, price, quantity } => ItemExplanation {
            event: Some(describe_event(event)),
            price: Some(price.to_string()),
            quantity: Some(*quantity),
            rate: Some(price.times(*quantity).to_string()),
            ..plain
        },
        Working::Recurring { event, price, quantity, measured } => ItemExplanation {
            event: Some(describe_event(event)),
            price: Some(price.to_string()),
            quantity: Some(*quantity),
            proration: Some(match *measured {
                Measured::OfRate(part) => {
                    let rate = price.times(*quantity);
                    let exact = rate.exact_part(part.ratio()).unwrap_or_default();
                    proration((rate.to_string(), None), part, (exact, it.amount), it.currency)
                }
                Measured::OfCharge { part, start, end, amount } => {
                    part_of((amount, Some((start, end))), part, it.currency)
                }
            }),
            ..plain
        },
        Working::Repair { event, part, amount, is_limited, .. } => {
            let part = part_of((*amount, None), *part, it.currency);
            let proration = Some(Proration { is_limited: *is_limited, ..part });
            ItemExplanation { event: Some(describe_event(event)), proration, ..plain }
        }
        Working::Credit { balance } => {
            ItemExplanation { balance_before: Some(balance.decimal(it.currency)), ..plain }
        }
        Working::ByHand => plain,
    };
    let explanation = sentence(&explained, working);
    ItemExplanation { explanation, ..explained }
}

fn without_working(plain: ItemExplanation, why: Unexplained) -> ItemExplanation {
    let reason = why.to_string();
    let explanation = format!("not derived: {reason}");
    ItemExplanation { not_derived: Some(reason), explanation, ..plain }
}

/// A part of an amount.
fn part_of(
    (amount, days): (AmountMinor, Option<(Date, Date)>),
    part: DayPart,
    currency: Currency,
) -> Proration {
    let (exact, rounded) =
        (part.ratio().exact_of(amount, currency), part.ratio().of_amount(amount));
    proration((amount.decimal(currency), days), part, (exact, rounded), currency)
}

fn proration(
    (of, days): (String, Option<(Date, Date)>),
    part: DayPart,
    (exact, rounded): (String, AmountMinor),
    currency: Currency,
) -> Proration {
    Proration {
        of,
        of_start_date: days.map(|(start, _)| start.to_string()),
        of_end_date: days.map(|(_, end)| end.to_string()),
        days: part.days,
        of_days: part.of_days,
        ratio: part.ratio().to_string(),
        exact,
        rounded: rounded.decimal(currency),
        is_limited: false,
    }
}

fn describe_event(it: &Cause) -> EventExplanation {
    let kind = match it.kind {
        EventKind::Create => "CREATE",
        EventKind::Transfer => "TRANSFER",
        EventKind::Phase => "PHASE",
        EventKind::Change => "CHANGE",
        EventKind::BcdChange => "BCD_CHANGE",
        EventKind::Quantity => "QUANTITY",
        EventKind::Cancel => "CANCEL",
        EventKind::Expired => "EXPIRED",
        EventKind::Disabled => "BLOCKED",
        EventKind::Enabled => "RESUMED",
    };
    EventExplanation { kind, date: it.date.to_string() }
}

fn sentence(it: &ItemExplanation, working: &Working) -> String {
    let amount = &it.amount;
    let event = it.event.as_ref().map(|it| format!("{} of {}", it.kind, it.date));
    let event = event.unwrap_or_default();
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let part = it.proration.as_ref().map(|it| {
        let Proration { of, days, of_days, ratio, exact, rounded, is_limited, .. } = it;
        let limit = if *is_limited { ", of which so much was left" } else { "" };
        format!("{days}/{of_days} days = {ratio} of {of} = {exact}, rounded {rounded}{limit}")
    });
    let part = part.unwrap_or_default();
    match working {
        Working::Fixed { .. } => {
            let quantity = it.quantity.unwrap_or_default();
            format!("{event}: {} once, {quantity} times = {amount}", text(&it.price))
        }
        Working::Recurring { .. } => format!("{event}: {part}"),
        Working::Repair { of, .. } => format!("{event}: gives back of item {of} {part}"),
        Working::Credit { balance } if balance.0 <= 0 => {
            format!(
                "the invoice was at {}: that is credit of the account",
                text(&it.balance_before)
            )
        }
        Working::Credit { .. } => {
            format!("credit of the account pays of {}", text(&it.balance_before))
        }
        Working::ByHand => match it.adjusts {
            Some(item) => format!("{} took back {amount} of item {item}", it.made_by),
            None => format!("{} set {amount}", it.made_by),
        },
    }
}
