//! Related objects of an account: its children, its timeline, and lists that are empty because there are no
//! subscriptions and no invoices.

use domain::payment::PaymentFile;
use domain::{AccountId, AccountRejection, Rejection};
use engine::ports::Page;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::accounts::{AccountJson, ReadOptions};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::page::{self, RowFormat as _};
use crate::payments::PAYMENTS_OF_ACCOUNT_MAX;
use crate::payments::view::{PaymentJson, ReadOptions as PaymentOptions};
use crate::reply;

/// How many children are listed at most.
const CHILDREN_MAX: u64 = 10_000;

/// Kill Bill's `AccountTimelineJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountTimelineJson<'a> {
    account: AccountJson<'a>,
    /// Always empty: there are no subscriptions.
    #[schema(value_type = Vec<Object>)]
    bundles: [(); 0],
    /// Always empty: there are no invoices.
    #[schema(value_type = Vec<Object>)]
    invoices: [(); 0],
    payments: Vec<TimelinePaymentJson<'a>>,
}

/// Kill Bill's `InvoicePaymentJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimelinePaymentJson<'a> {
    #[serde(flatten)]
    payment: PaymentJson<'a>,
    /// Always null: there are no invoices.
    target_invoice_id: Option<Uuid>,
}

/// Lists the accounts whose parent the account is, at most 10,000.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/children", tag = "Account", operation_id = "children",
    params(("accountId" = Uuid, Path), ("accountWithBalance" = Option<bool>, Query),
        ("accountWithBalanceAndCBA" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [AccountJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn children(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let all = Page { offset: 0, limit: CHILDREN_MAX };
    page::list_of_account::<ReadOptions>(&call, account, move |queries, tenant| {
        let found = queries.children(tenant, account, all)?;
        if found.is_empty() && queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        Ok(Some(found))
    })
    .await
}

/// Reads the account with its payments, the oldest first, at most 10,000.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/timeline", tag = "Account", operation_id = "timeline",
    params(
        ("accountId" = Uuid, Path),
        ("parallel" = Option<bool>, Query,
            description = "Taken for Kill Bill's clients, and has no effect"),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = AccountTimelineJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn timeline(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let (of_account, of_payments) = (ReadOptions::of(&call)?, PaymentOptions::of(&call)?);
    let (tenant, all) = (call.tenant(), Page { offset: 0, limit: PAYMENTS_OF_ACCOUNT_MAX });
    let found = call.read(move |queries| {
        let Some(view) = queries.account(tenant, account)? else { return Ok(None) };
        let with_audit = |file: PaymentFile| of_payments.with_audit(queries, file);
        let payments = queries.payments_of(tenant, account, all)?.into_iter().map(with_audit);
        let payments = payments.collect::<Result<Vec<_>, _>>()?;
        Ok(Some((of_account.with_audit(queries, view)?, payments)))
    });
    let (view, payments) = found.await?.ok_or_else(|| not_found(account))?;
    let payments = payments
        .iter()
        .map(|it| TimelinePaymentJson { payment: of_payments.json(it), target_invoice_id: None });
    Ok(reply::ok(&AccountTimelineJson {
        account: of_account.json(&view),
        bundles: [],
        invoices: [],
        payments: payments.collect(),
    }))
}

/// Lists the account's bundles: none, as there are no subscriptions.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/bundles", tag = "Account", operation_id = "bundles",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, body = [Object]), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn bundles(call: Call) -> HandlerResult {
    none(call).await
}

/// Lists the account's bundles by page: none, as there are no subscriptions.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/bundles/pagination", tag = "Account",
    operation_id = "bundles_by_page",
    params(("accountId" = Uuid, Path), ("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query)),
    responses((status = 200, body = [Object]), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn bundles_page(call: Call) -> HandlerResult {
    empty_page(call).await
}

/// Lists the account's invoices by page: none, as there are no subscriptions.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/invoices/pagination", tag = "Account",
    operation_id = "invoices_by_page",
    params(("accountId" = Uuid, Path), ("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query)),
    responses((status = 200, body = [Object]), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn invoices_page(call: Call) -> HandlerResult {
    empty_page(call).await
}

/// Lists the payments of the account's invoices: none, as there are no invoices.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/invoicePayments", tag = "Account",
    operation_id = "invoice_payments",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, body = [Object]), (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn invoice_payments(call: Call) -> HandlerResult {
    none(call).await
}

/// Uses the account's credit for its unpaid invoices: there are neither, and nothing changes.
#[utoipa::path(put, path = "/1.0/kb/accounts/{accountId}/cbaRebalancing", tag = "Account",
    operation_id = "rebalance_credit",
    params(("accountId" = Uuid, Path)),
    responses((status = 204, description = "Nothing was to be done"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn rebalance_credit(call: Call) -> HandlerResult {
    check_account(&call).await?;
    Ok(reply::no_content())
}

async fn none(call: Call) -> HandlerResult {
    check_account(&call).await?;
    Ok(reply::ok(&[(); 0]))
}

async fn empty_page(call: Call) -> HandlerResult {
    let window = page::parse(call.query())?;
    check_account(&call).await?;
    Ok(page::empty(window))
}

/// Refuses an account that the tenant does not have.
pub(crate) async fn check_account(call: &Call) -> Result<(), Failure> {
    check_account_of(call, call.param_id("accountId")?).await
}

/// The same, of an account that the path does not name.
pub(crate) async fn check_account_of(call: &Call, account: AccountId) -> Result<(), Failure> {
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.account(tenant, account)).await?;
    found.map(|_| ()).ok_or_else(|| not_found(account))
}

pub(crate) fn not_found(account: AccountId) -> Failure {
    Failure::Refused(Box::new(Rejection::Account(AccountRejection::NotFound { id: account })))
}
