//! What somebody puts on invoices, and takes back: charges, taxes, credits and adjustments.

use domain::billing::invoice::Manual;
use domain::billing::subscription::{
    AddItems, AdjustItem, DeleteCredit, ITEMS_MAX, ManualKind, NewItem,
};
use domain::catalog::price::Price;
use domain::command::BillingCommand;
use domain::reply::BillingReply;
use domain::{AccountId, BundleId, Command, InvoiceItemId, Reply, SubscriptionId};
use engine::ports::{InvoiceFile, Queries};
use jiff::civil::Date;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::call::Call;
use crate::date;
use crate::error::{ErrorJson, Failure, HandlerResult, code};
use crate::invoices::{self, ItemJson};
use crate::json::{Json, Raw};
use crate::reply;
use crate::request::printable;
use crate::subscriptions::when;

const JSON: Json = Json("InvoiceItemJson");

/// How many characters an item's description has at most.
const DESCRIPTION_CHARS_MAX: usize = 255;
/// How many characters an item's details have at most.
const DETAILS_CHARS_MAX: usize = 4_096;
/// How many characters the name of a product, a plan or a phase has at most.
const NAME_CHARS_MAX: usize = 255;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = InvoiceItemRequest)]
pub(crate) struct ItemBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    invoice_item_id: Raw<'a>,
    /// A draft; a new invoice where it is not given
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    invoice_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    bundle_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    subscription_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    product_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    plan_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    phase_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    description: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    item_details: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    start_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    end_date: Raw<'a>,
    /// Above 0
    #[serde(borrow)]
    #[schema(value_type = f64)]
    amount: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    rate: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    quantity: Raw<'a>,
    /// The account's, where it is given
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    currency: Raw<'a>,
    /// These and the ones below come back from a read, and have no effect.
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    linked_invoice_item_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    child_account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    usage_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pretty_product_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pretty_plan_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pretty_phase_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pretty_usage_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    item_type: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    catalog_effective_date: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    child_items: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

impl ItemBody<'_> {
    fn new_item(&self, account: AccountId) -> Result<NewItem, Failure> {
        // They come back from a read.
        let _ids = [self.invoice_item_id, self.linked_invoice_item_id, self.child_account_id];
        let _names = [self.pretty_product_name, self.pretty_plan_name, self.pretty_phase_name];
        let _usage = [self.usage_name, self.pretty_usage_name, self.item_type];
        let _rest = [self.catalog_effective_date, self.child_items, self.audit_logs];
        let of: Option<AccountId> = JSON.id("accountId", self.account_id)?;
        if of.is_some_and(|of| of != account) {
            return Err(Failure::parameter("accountId", "should be the same in all items"));
        }
        let name = |field, raw| JSON.text(field, raw, NAME_CHARS_MAX);
        let subscription: Option<SubscriptionId> =
            JSON.id("subscriptionId", self.subscription_id)?;
        let bundle: Option<BundleId> = JSON.id("bundleId", self.bundle_id)?;
        Ok(NewItem {
            invoice: JSON.id("invoiceId", self.invoice_id)?,
            amount: JSON.amount("amount", self.amount)?,
            currency: JSON.currency("currency", self.currency)?,
            description: JSON.text("description", self.description, DESCRIPTION_CHARS_MAX)?,
            details: JSON.text("itemDetails", self.item_details, DETAILS_CHARS_MAX)?,
            start: day("startDate", self.start_date)?,
            end: day("endDate", self.end_date)?,
            manual: Manual {
                subscription,
                bundle,
                product: name("productName", self.product_name)?,
                plan: name("planName", self.plan_name)?,
                phase: name("phaseName", self.phase_name)?,
                quantity: number("quantity", self.quantity)?,
                rate: number("rate", self.rate)?,
            },
        })
    }
}

fn day(field: &'static str, raw: Raw<'_>) -> Result<Option<Date>, Failure> {
    let Some(text) = JSON.text(field, raw, NAME_CHARS_MAX)? else { return Ok(None) };
    let day = date::day(&text);
    let no_day = || Failure::parameter(field, &format!("{} is no day", printable(&text)));
    day.map(Some).ok_or_else(no_day)
}

fn number(field: &'static str, raw: Raw<'_>) -> Result<Option<Price>, Failure> {
    let Some(text) = JSON.amount(field, raw)? else { return Ok(None) };
    let no_number = || Failure::parameter(field, "should have at most nine decimals");
    Price::parse(&text).map(Some).ok_or_else(no_number)
}

/// Credits an account: with what an invoice of its own, or a draft, says.
#[utoipa::path(post, path = "/1.0/kb/credits", tag = "Credit", operation_id = "create_credits",
    params(("autoCommit" = Option<bool>, Query, description = "Whether the new invoice is committed, and no draft; `false` by default"),
        ("requestedDate" = Option<String>, Query, description = "The day; today by default"),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body = [ItemBody<'static>],
    responses((status = 200, body = [ItemJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn credit(call: Call) -> HandlerResult {
    let bodies: Vec<ItemBody<'_>> = JSON.objects(&call.body)?;
    let account = match bodies.first() {
        Some(first) => JSON.id("accountId", first.account_id)?,
        None => None,
    };
    let account = account.ok_or_else(|| JSON.missing("accountId"))?;
    add(&call, account, ManualKind::Credit).await
}

/// Charges an account: on a new invoice, or on a draft.
#[utoipa::path(post, path = "/1.0/kb/invoices/charges/{accountId}", tag = "Invoice", operation_id = "create_charges",
    params(("accountId" = Uuid, Path),
        ("autoCommit" = Option<bool>, Query, description = "Whether the new invoice is committed, and no draft; `false` by default"),
        ("requestedDate" = Option<String>, Query, description = "The day; today by default"),
        ("payInvoice" = Option<bool>, Query, description = "Taken for Kill Bill's clients: a committed invoice is paid"),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body = [ItemBody<'static>],
    responses((status = 200, body = [ItemJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn charge(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    add(&call, account, ManualKind::Charge).await
}

/// Puts taxes on a new invoice, or on a draft.
#[utoipa::path(post, path = "/1.0/kb/invoices/taxes/{accountId}", tag = "Invoice", operation_id = "create_taxes",
    params(("accountId" = Uuid, Path),
        ("autoCommit" = Option<bool>, Query, description = "Whether the new invoice is committed, and no draft; `false` by default"),
        ("requestedDate" = Option<String>, Query, description = "The day; today by default"),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body = [ItemBody<'static>],
    responses((status = 200, body = [ItemJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn tax(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    add(&call, account, ManualKind::Tax).await
}

async fn add(call: &Call, account: AccountId, kind: ManualKind) -> HandlerResult {
    let bodies: Vec<ItemBody<'_>> = JSON.objects(&call.body)?;
    if bodies.is_empty() || bodies.len() > ITEMS_MAX {
        return Err(Failure::illegal(format!("the body should have 1 to {ITEMS_MAX} items")));
    }
    let items = bodies.iter().map(|it| it.new_item(account)).collect::<Result<_, _>>()?;
    let commits = call.query().flag("autoCommit");
    let it = AddItems { account, kind, items, commits, day: when(call, "requestedDate")? };
    let reply = call.submit(Command::Billing(BillingCommand::AddItems(Box::new(it)))).await?;
    let Reply::Billing(BillingReply::Added(added)) = reply else {
        return Err(Failure::illegal("the items were answered by something else"));
    };
    let tenant = call.tenant();
    let files = call.read(move |queries| {
        let mut invoices: Vec<_> = added.iter().map(|(invoice, _)| *invoice).collect();
        invoices.sort_unstable();
        invoices.dedup();
        let found = invoices.into_iter().map(|it| queries.invoice(tenant, it));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        Ok((added, found.into_iter().flatten().collect::<Vec<InvoiceFile>>()))
    });
    let (added, files) = files.await?;
    let item = |id: InvoiceItemId| files.iter().flat_map(|it| &it.items).find(|it| it.id == id);
    let items = added.iter().filter_map(|(_, id)| item(*id)).map(ItemJson::of);
    Ok(reply::ok(&items.collect::<Vec<_>>()))
}

/// Reads a credit.
#[utoipa::path(get, path = "/1.0/kb/credits/{creditId}", tag = "Credit", operation_id = "credit",
    params(("creditId" = Uuid, Path, description = "The item that credits")),
    responses((status = 200, body = ItemJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_credit(call: Call) -> HandlerResult {
    let id: InvoiceItemId = call.param_id("creditId")?;
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.invoice_of_item(tenant, id)).await?;
    let items = found.iter().flat_map(|it| &it.items);
    let credit = items.filter(|it| it.id == id && it.kind.credits()).map(ItemJson::of).next();
    let missing = || Failure::coded(code::NO_SUCH_CREDIT, format!("there is no credit {id}"));
    Ok(reply::ok(&credit.ok_or_else(missing)?))
}

/// Takes back a part of an item, or all that is left of it. What was paid of that becomes the account's credit.
#[utoipa::path(post, path = "/1.0/kb/invoices/{invoiceId}", tag = "Invoice", operation_id = "adjust_item",
    params(("invoiceId" = Uuid, Path, description = "The invoice"),
        ("requestedDate" = Option<String>, Query, description = "The day; today by default"),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    request_body = ItemBody<'static>,
    responses((status = 201, description = "Adjusted; Location names the invoice"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn adjust(call: Call) -> HandlerResult {
    let (account, invoice) = invoices::of_path(&call).await?;
    let body: ItemBody<'_> = call.body(JSON)?;
    let new = body.new_item(account)?;
    let item = JSON.id("invoiceItemId", body.invoice_item_id)?;
    let it = AdjustItem {
        account,
        invoice,
        item: item.ok_or_else(|| JSON.missing("invoiceItemId"))?,
        amount: new.amount,
        currency: new.currency,
        description: new.description,
        details: new.details,
        day: when(&call, "requestedDate")?,
    };
    call.submit_change(Command::Billing(BillingCommand::AdjustItem(Box::new(it)))).await?;
    Ok(reply::created(call.location(&["/1.0/kb/invoices/", &invoice.to_string(), "/"])))
}

/// Takes back the account's credit that an item made, or that it used.
#[utoipa::path(delete, path = "/1.0/kb/invoices/{invoiceId}/{invoiceItemId}/cba", tag = "Invoice",
    operation_id = "delete_credit",
    params(("invoiceId" = Uuid, Path), ("invoiceItemId" = Uuid, Path), ("accountId" = Uuid, Query)),
    responses((status = 204, description = "Taken back"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete_credit(call: Call) -> HandlerResult {
    let (account, invoice) = invoices::of_path(&call).await?;
    let asked: Option<AccountId> = call.query_id("accountId")?;
    let asked = asked.ok_or_else(|| Failure::illegal("accountId needs to be set"))?;
    if asked != account {
        return Err(invoices::no_such_invoice(&invoice.to_string()));
    }
    let it = DeleteCredit { account, invoice, item: call.param_id("invoiceItemId")? };
    call.submit_change(Command::Billing(BillingCommand::DeleteCredit(it))).await?;
    Ok(reply::no_content())
}

/// Reads the invoice of an item.
#[utoipa::path(get, path = "/1.0/kb/invoices/byItemId/{itemId}", tag = "Invoice", operation_id = "invoice_by_item",
    params(("itemId" = Uuid, Path, description = "The item"), ("withChildrenItems" = Option<bool>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = invoices::InvoiceJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn invoice_by_item(call: Call) -> HandlerResult {
    let id: InvoiceItemId = call.param_id("itemId")?;
    let find = move |queries: &dyn Queries, tenant| queries.invoice_of_item(tenant, id);
    invoices::show(&call, &id.to_string(), find).await
}
