//! Related objects of an account: its children and its timeline.

use domain::command::BillingCommand;
use domain::payment::PaymentFile;
use domain::{AccountId, Command};
use engine::ports::Page;
use serde::Serialize;
use utoipa::ToSchema;

use crate::accounts::{AccountJson, ReadOptions, check_account, not_found};
use crate::bundles::{BundleJson, Found as FoundBundle};
use crate::call::Call;
use crate::error::{ErrorJson, HandlerResult};
use crate::invoice_payments::{InvoicePaymentJson, InvoicePayments};
use crate::invoices::{self, InvoiceJson};
use crate::page::{self, RowFormat};
use crate::payments::PAYMENTS_OF_ACCOUNT_MAX;
use crate::reply;
use crate::subscriptions::view::AsOf;

/// How many children are listed at most.
const CHILDREN_MAX: u64 = 10_000;

/// Kill Bill's `AccountTimelineJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountTimelineJson<'a> {
    account: AccountJson<'a>,
    bundles: Vec<BundleJson<'a>>,
    invoices: Vec<InvoiceJson<'a>>,
    payments: Vec<InvoicePaymentJson<'a>>,
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

/// Reads the account with its bundles, invoices and payments, the oldest first, at most 10,000 of each.
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
    let (of_account, of_payments) = (ReadOptions::of(&call)?, InvoicePayments::of(&call)?);
    let (tenant, all) = (call.tenant(), Page { offset: 0, limit: PAYMENTS_OF_ACCOUNT_MAX });
    let (of_invoices, as_of) = (invoices::ReadOptions::with_items(&call, true)?, AsOf::of(&call)?);
    let found = call.read(move |queries| {
        let Some(view) = queries.account(tenant, account)? else { return Ok(None) };
        let with_audit = |file: PaymentFile| of_payments.with_audit(queries, file);
        let payments = queries.payments_of(tenant, account, all)?.into_iter().map(with_audit);
        let payments = payments.collect::<Result<Vec<_>, _>>()?;
        let bundles = FoundBundle::all_of(queries, (tenant, account), as_of)?;
        let invoices = queries.invoices_of(tenant, account, all)?.into_iter();
        let invoices = invoices.map(|it| of_invoices.with_audit(queries, it));
        let invoices = invoices.collect::<Result<Vec<_>, _>>()?;
        Ok(Some((of_account.with_audit(queries, view)?, bundles, invoices, payments)))
    });
    let (view, bundles, invoices, payments) = found.await?.ok_or_else(|| not_found(account))?;
    Ok(reply::ok(&AccountTimelineJson {
        account: of_account.json(&view),
        bundles: bundles.iter().map(FoundBundle::json).collect(),
        invoices: invoices.iter().map(|it| of_invoices.json(it)).collect(),
        payments: payments.iter().map(|it| of_payments.json(it)).collect(),
    }))
}

/// Uses the account's credit for its unpaid invoices, the oldest first.
#[utoipa::path(put, path = "/1.0/kb/accounts/{accountId}/cbaRebalancing", tag = "Account",
    operation_id = "rebalance_credit",
    params(("accountId" = Uuid, Path)),
    responses((status = 204, description = "It is used"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn rebalance_credit(call: Call) -> HandlerResult {
    check_account(&call).await?;
    let account: AccountId = call.param_id("accountId")?;
    call.submit_change(Command::Billing(BillingCommand::UseCredit(account))).await?;
    Ok(reply::no_content())
}
