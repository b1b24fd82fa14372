//! Payments: read one by id or key, list, search.

use domain::payment::PaymentFile;
use domain::{PaymentId, TenantNo};
use engine::has_open_transaction;
use engine::ports::{Page, Queries, StoreError};

use super::view::{Audited, NextAction, PaymentJson, ReadOptions};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, code, no_such_payment};
use crate::page::{self, RowFormat};
use crate::payment_states::states_named;
use crate::reply;
use crate::request::plugin_properties;

/// Reads a payment.
#[utoipa::path(get, path = "/1.0/kb/payments/{paymentId}", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: PaymentId = call.param_id("paymentId")?;
    one(&call, &id.to_string(), move |queries, tenant| queries.payment(tenant, id)).await
}

/// Reads a payment by its key.
#[utoipa::path(get, path = "/1.0/kb/payments", tag = "Payment",
    params(("externalKey" = String, Query), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_key(call: Call) -> HandlerResult {
    let key = call.query().text("externalKey")?.map(|key| key.into_owned());
    let Some(key) = key else {
        return Err(Failure::illegal("Payment externalKey needs to be specified"));
    };
    let wanted = key.clone();
    one(&call, &key, move |queries, tenant| queries.payment_by_key(tenant, &wanted)).await
}

/// Reads one payment. With `withPluginInfo`, the gateway is first asked about open transactions.
///
/// # Errors
/// 404 if `find` finds none.
pub(crate) async fn one<F>(call: &Call, name: &str, find: F) -> HandlerResult
where
    F: FnOnce(&dyn Queries, TenantNo) -> Result<Option<PaymentFile>, StoreError> + Send + 'static,
{
    let options = ReadOptions::of(call)?;
    Ok(reply::ok(&options.json(&found(call, name, find).await?)))
}

/// As [`one`], for a response of another form.
///
/// # Errors
/// 404 if `find` finds none.
pub(crate) async fn found<F>(call: &Call, name: &str, find: F) -> Result<Audited, Failure>
where
    F: FnOnce(&dyn Queries, TenantNo) -> Result<Option<PaymentFile>, StoreError> + Send + 'static,
{
    plugin_properties(call.query())?;
    let options = ReadOptions::of(call)?;
    let Some(mut found) = page::read_one(call, options, find).await? else {
        return Err(Failure::coded(code::NO_SUCH_PAYMENT, no_such_payment(name)));
    };
    if options.plugin_info && has_open_transaction(&found.file) {
        let id = found.file.payment.id;
        call.api.engine().refresh(call.tenant(), id).await?;
        let find = move |queries: &dyn Queries, tenant| queries.payment(tenant, id);
        found = page::read_one(call, options, find).await?.unwrap_or(found);
        found.next_actions = next_actions(call, id).await?;
    }
    Ok(found)
}

/// The customers' next actions before the payment's pending transactions go on.
async fn next_actions(call: &Call, payment: PaymentId) -> Result<Vec<NextAction>, Failure> {
    let Some(sealer) = call.api.settings().sealer.as_deref() else { return Ok(vec![]) };
    let tenant = call.tenant();
    let open = call.read(move |queries| queries.outstanding_of(tenant, payment)).await?;
    Ok(open.iter().filter_map(|it| NextAction::open(it, sealer)).collect())
}

/// Lists payments.
#[utoipa::path(get, path = "/1.0/kb/payments/pagination", tag = "Payment",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("pluginName" = Option<String>, Query), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [PaymentJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let options = ReadOptions::of(&call)?;
    let url = ("/1.0/kb/payments/pagination", options.audit.name());
    page::list_of_gateway(&call, options, url, |queries, tenant, page| {
        queries.payments(tenant, page)
    })
    .await
}

/// Searches payments.
///
/// Finds those of an id, a whole key, an account's id or a state. Where there are none, finds all whose payment method's
/// id is the text, or whose key contains it, which looks at every payment of the tenant. The states `_SUCCESS` and
/// `_INIT` of `AUTH`, `CAPTURE` and `PURCHASE` have no index: every payment is looked at, too.
#[utoipa::path(get, path = "/1.0/kb/payments/search/{searchKey}", tag = "Payment",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query),
        ("limit" = Option<u64>, Query), ("audit" = Option<String>, Query), ("pluginName" = Option<String>, Query), ("withPluginInfo" = Option<bool>, Query), ("withAttempts" = Option<bool>, Query)),
    responses((status = 200, body = [PaymentJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> HandlerResult {
    let text = call.param("searchKey")?.into_owned();
    let window = page::parse(call.query())?;
    let options = ReadOptions::of(&call)?;
    let gateway = page::gateway(&call)?;
    let path = format!("/1.0/kb/payments/search/{}", reply::segment(&text));
    let more = [("pluginName", ""), ("audit", options.audit.name())];
    let states = states_named(&text);
    if !states.is_empty() {
        let find = move |queries: &dyn Queries, tenant, page: Page| {
            queries.payments_in_state(tenant, &states, page.of_gateway(gateway.as_deref()))
        };
        return page::scan(&call, options, window, (&path, &more), find).await;
    }
    let (name, of) = (text.clone(), gateway.clone());
    let find = (
        move |queries: &dyn Queries, tenant, page: Page| {
            queries.payments_named(tenant, &name, page.of_gateway(of.as_deref()))
        },
        move |queries: &dyn Queries, tenant, page: Page| {
            queries.search_payments(tenant, &text, page.of_gateway(gateway.as_deref()))
        },
    );
    page::search(&call, options, window, (&path, &more), find).await
}
