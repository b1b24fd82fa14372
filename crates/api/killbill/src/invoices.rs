//! Invoices: what an account is charged.

use domain::billing::invoice::{Invoice, InvoiceItem, InvoiceStatus, ItemKind, Manual};
use domain::billing::subscription::{InvoiceOf, InvoiceUntil};
use domain::command::BillingCommand;
use domain::reply::BillingReply;
use domain::{AccountId, AmountMinor, Command, Currency, InvoiceId, Reply, TenantNo};
use engine::ports::{HistoryOf, HistoryRow, InvoiceFile, Page, Queries, StoreError};
use engine::time::rfc3339_second;
use jiff::civil::Date;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::accounts::check_account;
use crate::amount::{Decimal, Number};
use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::Call;
use crate::date;
use crate::error::{ErrorJson, Failure, HandlerResult, code};
use crate::page::{self, RowFormat};
use crate::reply;
use crate::request::printable;

/// How many invoices of an account are listed at most.
const INVOICES_MAX: u64 = 10_000;

/// Kill Bill's `InvoiceJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InvoiceJson<'a> {
    #[schema(value_type = f64)]
    amount: Decimal,
    currency: &'a str,
    status: &'static str,
    #[schema(value_type = f64)]
    credit_adj: Decimal,
    #[schema(value_type = f64)]
    refund_adj: Decimal,
    invoice_id: Uuid,
    invoice_date: String,
    target_date: Option<String>,
    invoice_number: Option<String>,
    #[schema(value_type = f64)]
    balance: Decimal,
    account_id: Uuid,
    #[schema(value_type = Option<String>)]
    bundle_keys: Option<()>,
    #[schema(value_type = Vec<Object>)]
    credits: [(); 0],
    items: Vec<ItemJson<'a>>,
    #[schema(value_type = Vec<String>)]
    tracking_ids: [(); 0],
    is_parent_invoice: bool,
    #[schema(value_type = Option<Uuid>)]
    parent_invoice_id: Option<()>,
    #[schema(value_type = Option<Uuid>)]
    parent_account_id: Option<()>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// Kill Bill's `InvoiceItemJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemJson<'a> {
    invoice_item_id: Uuid,
    invoice_id: Uuid,
    linked_invoice_item_id: Option<Uuid>,
    account_id: Uuid,
    #[schema(value_type = Option<Uuid>)]
    child_account_id: Option<()>,
    bundle_id: Option<Uuid>,
    subscription_id: Option<Uuid>,
    product_name: Option<&'a str>,
    plan_name: Option<&'a str>,
    phase_name: Option<&'a str>,
    #[schema(value_type = Option<String>)]
    usage_name: Option<()>,
    pretty_product_name: Option<&'a str>,
    pretty_plan_name: Option<&'a str>,
    pretty_phase_name: Option<&'a str>,
    #[schema(value_type = Option<String>)]
    pretty_usage_name: Option<()>,
    item_type: &'static str,
    description: String,
    start_date: String,
    end_date: Option<String>,
    #[schema(value_type = f64)]
    amount: Decimal,
    #[schema(value_type = Option<f64>)]
    rate: Option<Number>,
    currency: &'a str,
    #[schema(value_type = Option<f64>)]
    quantity: Option<Number>,
    item_details: Option<&'a str>,
    catalog_effective_date: Option<String>,
    #[schema(value_type = Option<Vec<Object>>)]
    child_items: Option<()>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

impl<'a> InvoiceJson<'a> {
    /// Of an invoice; `with_items`: and its items.
    pub(crate) fn of(file: &'a InvoiceFile, with_items: bool) -> Self {
        let it = &file.invoice;
        let amount = |amount| Decimal::new(amount, Some(it.currency));
        let items = file.items.iter().filter(|_| with_items);
        Self {
            // An invoice that only credits charges nothing.
            amount: amount(if credits(file) { AmountMinor::ZERO } else { it.charged }),
            currency: it.currency.code(),
            status: it.status.name(),
            credit_adj: amount(it.credit),
            refund_adj: amount(AmountMinor::ZERO),
            invoice_id: it.id.uuid(),
            invoice_date: it.invoice_date.to_string(),
            target_date: it.target_date.map(|it| it.to_string()),
            invoice_number: Some(it.number.to_string()),
            balance: amount(it.balance()),
            account_id: it.account_id.uuid(),
            bundle_keys: None,
            credits: [],
            items: items.map(ItemJson::of).collect(),
            tracking_ids: [],
            is_parent_invoice: false,
            parent_invoice_id: None,
            parent_account_id: None,
            audit_logs: vec![],
        }
    }
}

impl InvoiceJson<'_> {
    /// The same of an invoice that nobody wrote: it has no number.
    pub(crate) fn unwritten(self) -> Self {
        Self { invoice_number: None, ..self }
    }
}

/// Whether an invoice has a credit, and the change of the account's credit by it, alone.
fn credits(file: &InvoiceFile) -> bool {
    !file.items.is_empty() && file.items.iter().all(|it| it.kind.credits())
}

impl<'a> ItemJson<'a> {
    pub(crate) fn of(it: &'a InvoiceItem) -> Self {
        // An adjustment names the item that it adjusts, and nothing of its subscription.
        let of = it.of.as_ref().filter(|_| it.kind.charges());
        let manual = it.manual.as_deref();
        let said = |name: fn(&Manual) -> Option<&String>| manual.and_then(name).map(String::as_str);
        let product = of.map(|it| it.product.as_str()).or_else(|| said(|it| it.product.as_ref()));
        let plan = of.map(|it| it.plan.as_str()).or_else(|| said(|it| it.plan.as_ref()));
        let phase = of.map(|it| it.phase.as_str()).or_else(|| said(|it| it.phase.as_ref()));
        let bundle = of.map(|it| it.bundle).or_else(|| manual.and_then(|it| it.bundle));
        let subscription =
            of.map(|it| it.subscription).or_else(|| manual.and_then(|it| it.subscription));
        let rate = of.and_then(|it| it.rate).or_else(|| manual.and_then(|it| it.rate));
        Self {
            invoice_item_id: it.id.uuid(),
            invoice_id: it.invoice_id.uuid(),
            linked_invoice_item_id: it.linked.map(|it| it.uuid()),
            account_id: it.account_id.uuid(),
            child_account_id: None,
            bundle_id: bundle.map(|it| it.uuid()),
            subscription_id: subscription.map(|it| it.uuid()),
            product_name: product,
            plan_name: plan,
            phase_name: phase,
            usage_name: None,
            pretty_product_name: product,
            pretty_plan_name: plan,
            pretty_phase_name: phase,
            pretty_usage_name: None,
            item_type: it.kind.name(),
            description: description(it),
            start_date: it.start.to_string(),
            end_date: it.end.map(|it| it.to_string()),
            amount: Decimal::new(it.amount, Some(it.currency)),
            rate: rate.map(Number::of),
            currency: it.currency.code(),
            quantity: manual.and_then(|it| it.quantity).map(Number::of),
            item_details: it.details.as_deref(),
            catalog_effective_date: of.map(|it| rfc3339_second(it.catalog_effective_at)),
            child_items: None,
            audit_logs: vec![],
        }
    }
}

/// Somebody's words for an item, or else Kill Bill's.
fn description(it: &InvoiceItem) -> String {
    if let Some(words) = &it.description {
        return words.clone();
    }
    let phase = it.of.as_ref().map_or("", |it| it.phase.as_str());
    match it.kind {
        ItemKind::Fixed if it.amount.is_zero() => phase.to_owned(),
        ItemKind::Fixed => format!("{phase} (fixed price)"),
        ItemKind::Recurring => phase.to_owned(),
        ItemKind::RepairAdj => "Adjustment (subscription change)".to_owned(),
        ItemKind::CbaAdj if it.amount > AmountMinor::ZERO => {
            "Adjustment (account credit)".to_owned()
        }
        ItemKind::CbaAdj => "Adjustment (use of account credit)".to_owned(),
        ItemKind::ExternalCharge => "External charge".to_owned(),
        ItemKind::Tax => "Tax".to_owned(),
        ItemKind::CreditAdj => "Invoice adjustment".to_owned(),
        ItemKind::ItemAdj => "Invoice item adjustment".to_owned(),
    }
}

/// The parts of invoices that a response includes.
#[derive(Clone, Copy)]
pub(crate) struct ReadOptions {
    items: bool,
    audit: AuditLevel,
}

/// An invoice with the history that is its audit.
pub(crate) struct Audited {
    file: InvoiceFile,
    history: Vec<HistoryRow>,
}

impl ReadOptions {
    /// Those of a request; `items`: with the items.
    pub(crate) fn with_items(call: &Call, items: bool) -> Result<Self, Failure> {
        Ok(Self { items, audit: AuditLevel::of(call.query())? })
    }
}

impl RowFormat for ReadOptions {
    type Row = InvoiceFile;
    type Audited = Audited;
    type Json<'a> = InvoiceJson<'a>;

    fn of(call: &Call) -> Result<Self, Failure> {
        Self::with_items(call, call.query().flag("includeInvoiceComponents"))
    }

    fn reads_audit(self) -> bool {
        // Each is read with its items.
        true
    }

    fn with_audit(self, queries: &dyn Queries, file: InvoiceFile) -> Result<Audited, StoreError> {
        let of = HistoryOf::new::<Invoice>(file.invoice.id.uuid());
        let history = self.audit.read(queries, file.invoice.tenant, of)?;
        Ok(Audited { file, history })
    }

    fn json(self, row: &Audited) -> InvoiceJson<'_> {
        let audit_logs = self.audit.logs(&row.history);
        InvoiceJson { audit_logs, ..InvoiceJson::of(&row.file, self.items) }
    }
}

/// Lists the account's invoices, by target date, at most 10,000.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/invoices", tag = "Account", operation_id = "invoices",
    params(("accountId" = Uuid, Path), ("audit" = Option<String>, Query),
        ("includeInvoiceComponents" = Option<bool>, Query, description = "With their items"),
        ("includeVoidedInvoices" = Option<bool>, Query, description = "Also those that count no more"),
        ("unpaidInvoicesOnly" = Option<bool>, Query, description = "Only those of which something is to be paid")),
    responses((status = 200, body = [InvoiceJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let unpaid = call.query().flag("unpaidInvoicesOnly");
    let voided = call.query().flag("includeVoidedInvoices");
    let all = Page { offset: 0, limit: INVOICES_MAX };
    page::list_of_account::<ReadOptions>(&call, account, move |queries, tenant| {
        let mut found = queries.invoices_of(tenant, account, all)?;
        if found.is_empty() && queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        found.retain(|it| voided || it.invoice.status != InvoiceStatus::Void);
        found.retain(|it| !unpaid || it.invoice.balance() > AmountMinor::ZERO);
        Ok(Some(found))
    })
    .await
}

/// What the URL of a list's next page has always.
const AUDIT: [(&str, &str); 1] = [("audit", "NONE")];

/// Lists the account's invoices by page, by target date.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/invoices/pagination", tag = "Account",
    operation_id = "invoices_by_page",
    params(("accountId" = Uuid, Path), ("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [InvoiceJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn page_of_account(call: Call) -> HandlerResult {
    let (window, options) = (page::parse(call.query())?, ReadOptions::with_items(&call, false)?);
    check_account(&call).await?;
    let account: AccountId = call.param_id("accountId")?;
    let path = format!("/1.0/kb/accounts/{account}/invoices/pagination");
    let url = (path.as_str(), &AUDIT[..]);
    page::list(&call, options, window, url, move |queries, tenant, page| {
        queries.invoices(tenant, Some(account), page)
    })
    .await
}

/// Lists the tenant's invoices by page, by number.
#[utoipa::path(get, path = "/1.0/kb/invoices/pagination", tag = "Invoice", operation_id = "invoices",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [InvoiceJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let (window, options) = (page::parse(call.query())?, ReadOptions::with_items(&call, false)?);
    let url = ("/1.0/kb/invoices/pagination", &AUDIT[..]);
    page::list(&call, options, window, url, |queries, tenant, page| {
        queries.invoices(tenant, None, page)
    })
    .await
}

/// Searches invoices.
///
/// Finds those of an id, of an account's id or of a number. Where there are none, finds those in the currency of this
/// code, which looks at every invoice of the tenant.
#[utoipa::path(get, path = "/1.0/kb/invoices/search/{searchKey}", tag = "Invoice",
    operation_id = "search_invoices",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [InvoiceJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> HandlerResult {
    let text = call.param("searchKey")?.into_owned();
    let (window, options) = (page::parse(call.query())?, ReadOptions::with_items(&call, false)?);
    let path = format!("/1.0/kb/invoices/search/{}", reply::segment(&text));
    let url = (path.as_str(), &AUDIT[..]);
    let wanted = text.clone();
    let named =
        move |queries: &dyn Queries, tenant, page| queries.invoices_named(tenant, &wanted, page);
    if Currency::parse(&text).is_none() {
        return page::list(&call, options, window, url, named).await;
    }
    let in_currency =
        move |queries: &dyn Queries, tenant, page| queries.invoices_in(tenant, &text, page);
    page::search(&call, options, window, url, (named, in_currency)).await
}

/// Invoices what the account owes until a day, as one invoice: nothing splits it into several.
#[utoipa::path(post, path = "/1.0/kb/invoices/group", tag = "Invoice", operation_id = "create_invoice_group",
    params(("accountId" = Uuid, Query),
        ("targetDate" = Option<String>, Query, description = "A day, at most 36 months ahead; today by default"),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    responses((status = 201, description = "Location names the group of the invoice"),
        (status = 404, body = ErrorJson<'static>, description = "There is nothing to invoice"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create_group(call: Call) -> HandlerResult {
    let (account, invoice) = invoiced(&call).await?;
    let (account, invoice) = (account.to_string(), invoice.to_string());
    let path = ["/1.0/kb/invoices/", &invoice, "/group?accountId=", &account];
    Ok(reply::created(call.location(&path)))
}

/// Lists the invoices of a group with their items. Each invoice is a group of its own, which has its id.
#[utoipa::path(get, path = "/1.0/kb/invoices/{groupId}/group", tag = "Invoice", operation_id = "invoice_group",
    params(("groupId" = Uuid, Path, description = "The invoice"), ("accountId" = Uuid, Query),
        ("withChildrenItems" = Option<bool>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [InvoiceJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn group(call: Call) -> HandlerResult {
    let id: InvoiceId = call.param_id("groupId")?;
    let account = account_of_query(&call)?;
    let options = ReadOptions::with_items(&call, true)?;
    let find = move |queries: &dyn Queries, tenant| {
        let found = queries.invoice(tenant, id)?;
        Ok(found.filter(|it| it.invoice.account_id == account))
    };
    let found = read(&call, options, &id.to_string(), find).await?;
    Ok(reply::ok(&[options.json(&found)]))
}

fn account_of_query(call: &Call) -> Result<AccountId, Failure> {
    let account: Option<AccountId> = call.query_id("accountId")?;
    account.ok_or_else(|| Failure::illegal("accountId needs to be set"))
}

/// Invoices what the account of the query owes until the day of the query.
async fn invoiced(call: &Call) -> Result<(AccountId, InvoiceId), Failure> {
    let account = account_of_query(call)?;
    let target = target_date(call)?;
    let command = BillingCommand::InvoiceUntil(InvoiceUntil { account, target });
    let reply = call.submit(Command::Billing(command)).await?;
    let Reply::Billing(BillingReply::Invoiced(invoice)) = reply else {
        return Err(Failure::illegal("the invoice was answered by something else"));
    };
    Ok((account, invoice))
}

/// Invoices what the account owes until a day.
#[utoipa::path(post, path = "/1.0/kb/invoices", tag = "Invoice", operation_id = "create_invoice",
    params(("accountId" = Uuid, Query),
        ("targetDate" = Option<String>, Query, description = "A day, at most 36 months ahead; today by default")),
    responses((status = 201, description = "Location names the invoice"),
        (status = 404, body = ErrorJson<'static>, description = "There is nothing to invoice"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create(call: Call) -> HandlerResult {
    let (_, invoice) = invoiced(&call).await?;
    // Kill Bill's ends with a slash, and clients count on it.
    Ok(reply::created(call.location(&["/1.0/kb/invoices/", &invoice.to_string(), "/"])))
}

/// The day in `targetDate`.
pub(crate) fn target_date(call: &Call) -> Result<Option<Date>, Failure> {
    let Some(text) = call.query().text("targetDate")? else { return Ok(None) };
    let no_day = || Failure::parameter("targetDate", &format!("{} is no day", printable(&text)));
    date::day(&text).map(Some).ok_or_else(no_day)
}

/// Reads an invoice with its items.
#[utoipa::path(get, path = "/1.0/kb/invoices/{invoiceId}", tag = "Invoice", operation_id = "invoice",
    params(("invoiceId" = Uuid, Path, description = "The invoice"), ("withChildrenItems" = Option<bool>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = InvoiceJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: InvoiceId = call.param_id("invoiceId")?;
    show(&call, &id.to_string(), move |queries, tenant| queries.invoice(tenant, id)).await
}

/// Reads an invoice by its number, with its items.
#[utoipa::path(get, path = "/1.0/kb/invoices/byNumber/{invoiceNumber}", tag = "Invoice",
    operation_id = "invoice_by_number",
    params(("invoiceNumber" = String, Path, description = "Its number"), ("withChildrenItems" = Option<bool>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = InvoiceJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_number(call: Call) -> HandlerResult {
    let number = call.param("invoiceNumber")?.into_owned();
    let Ok(wanted) = number.parse() else { return Err(no_such_invoice(&number)) };
    show(&call, &number, move |queries, tenant| queries.invoice_by_number(tenant, wanted)).await
}

/// Shows the invoice that is found, with its items.
pub(crate) async fn show(call: &Call, name: &str, find: impl Find) -> HandlerResult {
    let options = ReadOptions::with_items(call, true)?;
    let found = read(call, options, name, find).await?;
    Ok(reply::ok(&options.json(&found)))
}

/// Reads the invoice that is found, which a refusal calls `name`.
async fn read(
    call: &Call,
    options: ReadOptions,
    name: &str,
    find: impl Find,
) -> Result<Audited, Failure> {
    let found = page::read_one(call, options, find).await?;
    found.ok_or_else(|| no_such_invoice(name))
}

/// Finds an invoice of a tenant.
pub(crate) trait Find:
    FnOnce(&dyn Queries, TenantNo) -> Result<Option<InvoiceFile>, StoreError> + Send + 'static
{
}

impl<F> Find for F where
    F: FnOnce(&dyn Queries, TenantNo) -> Result<Option<InvoiceFile>, StoreError> + Send + 'static
{
}

pub(crate) fn no_such_invoice(name: &str) -> Failure {
    let name = printable(name);
    Failure::coded(code::NO_SUCH_INVOICE, format!("No invoice could be found for id {name}."))
}

/// The invoice of the path, with its account.
pub(crate) async fn of_path(call: &Call) -> Result<(AccountId, InvoiceId), Failure> {
    let id: InvoiceId = call.param_id("invoiceId")?;
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.invoice(tenant, id)).await?;
    let found = found.ok_or_else(|| no_such_invoice(&id.to_string()))?;
    Ok((found.invoice.account_id, id))
}

/// Commits a draft: its credit counts, and its payment is started.
#[utoipa::path(put, path = "/1.0/kb/invoices/{invoiceId}/commitInvoice", tag = "Invoice", operation_id = "commit_invoice",
    params(("invoiceId" = Uuid, Path, description = "The draft")),
    responses((status = 204, description = "It is committed"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn commit(call: Call) -> HandlerResult {
    let (account, invoice) = of_path(&call).await?;
    let command = BillingCommand::CommitInvoice(InvoiceOf { account, invoice });
    call.submit_change(Command::Billing(command)).await?;
    Ok(reply::no_content())
}

/// Lets an invoice count no more, of which nothing was paid. The next run charges its days again.
#[utoipa::path(put, path = "/1.0/kb/invoices/{invoiceId}/voidInvoice", tag = "Invoice", operation_id = "void_invoice",
    params(("invoiceId" = Uuid, Path, description = "The invoice")),
    responses((status = 204, description = "It is void"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn void(call: Call) -> HandlerResult {
    let (account, invoice) = of_path(&call).await?;
    let command = BillingCommand::VoidInvoice(InvoiceOf { account, invoice });
    call.submit_change(Command::Billing(command)).await?;
    Ok(reply::no_content())
}
