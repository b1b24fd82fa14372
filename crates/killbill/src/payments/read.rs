//! Payments: read one by id or key, list, search.

use domain::payment::PaymentFile;
use domain::{PaymentId, TenantNo};
use engine::ports::{Queries, StoreError};

use super::repair::has_open;
use super::state::states_named;
use super::view::{PaymentJson, Shown};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, code, no_such_payment};
use crate::page;
use crate::reply::{self, Answered};
use crate::request::plugin_properties;

/// Reads a payment.
#[utoipa::path(get, path = "/1.0/kb/payments/{paymentId}", tag = "Payment",
    params(("paymentId" = Uuid, Path), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> Answered {
    let id: PaymentId = call.param_id("paymentId")?;
    one(&call, &id.to_string(), move |queries, tenant| queries.payment(tenant, id)).await
}

/// Reads a payment by its key.
#[utoipa::path(get, path = "/1.0/kb/payments", tag = "Payment",
    params(("externalKey" = String, Query), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_key(call: Call) -> Answered {
    let key = call.query().text("externalKey")?.map(|key| key.into_owned());
    let Some(key) = key else {
        return Err(Failure::illegal("Payment externalKey needs to be specified"));
    };
    let wanted = key.clone();
    one(&call, &key, move |queries, tenant| queries.payment_by_key(tenant, &wanted)).await
}

/// Reads one payment. With plugin info its gateway is asked first about what is open.
///
/// # Errors
/// 404 where `find` finds none.
pub(crate) async fn one<F>(call: &Call, name: &str, find: F) -> Answered
where
    F: FnOnce(&dyn Queries, TenantNo) -> Result<Option<PaymentFile>, StoreError> + Send + 'static,
{
    plugin_properties(call.query())?;
    let (shown, tenant) = (Shown::of(call)?, call.tenant());
    let found = call.read(move |queries| {
        let file = find(queries, tenant)?;
        file.map(|file| shown.with_rows(queries, file)).transpose()
    });
    let Some(mut found) = found.await? else {
        return Err(Failure::coded(code::NO_SUCH_PAYMENT, no_such_payment(name)));
    };
    if shown.plugin_info && has_open(&found.file) {
        let id = found.file.payment.id;
        call.door.engine().refresh(tenant, id).await?;
        let again = call.read(move |queries| {
            let file = queries.payment(tenant, id)?;
            file.map(|file| shown.with_rows(queries, file)).transpose()
        });
        found = again.await?.unwrap_or(found);
    }
    Ok(reply::ok(&shown.json(&found)))
}

/// Lists payments.
#[utoipa::path(get, path = "/1.0/kb/payments/pagination", tag = "Payment",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("pluginName" = Option<String>, Query), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [PaymentJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> Answered {
    let window = page::parse(call.query())?;
    let (shown, tenant) = (Shown::of(&call)?, call.tenant());
    let gateway = call.query().text("pluginName")?.unwrap_or_default().into_owned();
    let wanted = Some(gateway.clone()).filter(|name| !name.is_empty());
    let paged = call.read(move |queries| {
        let paged = queries.payments(tenant, wanted.as_deref(), window)?;
        page::with(paged, |file| shown.with_rows(queries, file))
    });
    let paged = paged.await?;
    let body: Vec<_> = paged.items.iter().map(|it| shown.json(it)).collect();
    let more = [("pluginName", gateway.as_str()), ("audit", shown.audit.name())];
    Ok(page::answer(&body, &paged, window, ("/1.0/kb/payments/pagination", &more)))
}

/// Searches payments.
#[utoipa::path(get, path = "/1.0/kb/payments/search/{searchKey}", tag = "Payment",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query),
        ("limit" = Option<u64>, Query), ("audit" = Option<String>, Query), ("pluginName" = Option<String>, Query), ("withPluginInfo" = Option<bool>, Query), ("withAttempts" = Option<bool>, Query)),
    responses((status = 200, body = [PaymentJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> Answered {
    let text = call.param("searchKey")?.into_owned();
    let window = page::parse(call.query())?;
    let (shown, tenant) = (Shown::of(&call)?, call.tenant());
    let (wanted, states) = (text.clone(), states_named(&text));
    let paged = call.read(move |queries| {
        let paged = match &states[..] {
            [] => queries.search_payments(tenant, &wanted, window)?,
            states => queries.payments_in_state(tenant, states, window)?,
        };
        page::with(paged, |file| shown.with_rows(queries, file))
    });
    let paged = paged.await?;
    let body: Vec<_> = paged.items.iter().map(|it| shown.json(it)).collect();
    let path = format!("/1.0/kb/payments/search/{}", reply::segment(&text));
    let more = [("pluginName", ""), ("audit", shown.audit.name())];
    Ok(page::answer(&body, &paged, window, (&path, &more)))
}
