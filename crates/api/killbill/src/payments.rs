//! Payments of an account: the start of one (authorize, purchase, credit), and the account's list.

pub(crate) mod attempt;
pub(crate) mod body;
pub(crate) mod combo;
pub(crate) mod follow_up;
pub(crate) mod read;
pub(crate) mod response;
pub(crate) mod retries;
pub(crate) mod view;

use axum::response::Response;
use domain::AccountId;
use domain::command::PaymentCommand;
use domain::payment::{Initiate, TransactionType};
use engine::ports::Page;
use http::StatusCode;

use crate::accounts::no_account_with_key;
use crate::call::Call;
use crate::currencies;
use crate::error::{ErrorJson, Failure, HandlerResult};
use crate::page;
use crate::payment_rules::control_plugins;
use crate::reply;
use crate::request::plugin_properties;
use crate::routing::named_gateways;

use body::{JSON, TransactionBody};
use response::{TransactionResponses, UnknownResponses};
use view::{PaymentJson, ReadOptions};

/// The most payments in the list of an account.
pub(crate) const PAYMENTS_OF_ACCOUNT_MAX: u64 = 10_000;

/// Starts a payment of an account.
#[utoipa::path(post, path = "/1.0/kb/accounts/{accountId}/payments", tag = "Account", operation_id = "start_payment",
    params(("accountId" = Uuid, Path), ("paymentMethodId" = Option<Uuid>, Query),
        ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses(TransactionResponses, UnknownResponses))]
pub(crate) async fn start(call: Call) -> HandlerResult {
    let account = call.param_id("accountId")?;
    start_on(&call, account).await
}

/// Starts a payment of an account that is named by its key.
#[utoipa::path(post, path = "/1.0/kb/accounts/payments", tag = "Account", operation_id = "start_payment_by_key",
    params(("externalKey" = String, Query), ("paymentMethodId" = Option<Uuid>, Query),
        ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionBody<'static>,
    responses(TransactionResponses, UnknownResponses))]
pub(crate) async fn start_by_account_key(call: Call) -> HandlerResult {
    let key = call.query().text("externalKey")?.map(|key| key.into_owned());
    let Some(key) = key else { return Err(no_account_with_key("null")) };
    let (tenant, wanted) = (call.tenant(), key.clone());
    let found = call.read(move |queries| queries.account_by_key(tenant, &wanted)).await?;
    let Some(found) = found else { return Err(no_account_with_key(&key)) };
    start_on(&call, found.account.id).await
}

async fn start_on(call: &Call, account: AccountId) -> HandlerResult {
    let control = control_plugins(call)?;
    let body: TransactionBody<'_> = call.body(JSON)?;
    let kind = body.transaction_type()?.ok_or_else(|| JSON.missing("transactionType"))?;
    let command: fn(Initiate) -> PaymentCommand = match kind {
        TransactionType::Authorize => PaymentCommand::Authorize,
        TransactionType::Purchase => PaymentCommand::Purchase,
        TransactionType::Credit => PaymentCommand::Credit,
        TransactionType::Capture
        | TransactionType::Refund
        | TransactionType::Void
        | TransactionType::Chargeback
        | TransactionType::ChargebackReversal => return Ok(not_a_start(kind)),
    };
    let it = initiate(call, &body, (account, control))?;
    let currency = it.currency;
    currencies::check(call, currency)?;
    let reply = call.submit(command(it).into()).await?;
    Ok(currencies::warn(call, currency, response::of(call, reply)?))
}

fn initiate(
    call: &Call,
    body: &TransactionBody<'_>,
    (account, control): (AccountId, Vec<String>),
) -> Result<Initiate, Failure> {
    body.check_ignored()?;
    let mut properties = body.properties()?;
    properties.extend(plugin_properties(call.query())?);
    let gateways = named_gateways(call, &mut properties)?;
    Ok(Initiate {
        account,
        payment: body.payment_id()?,
        payment_method: call.query_id("paymentMethodId")?,
        payment_key: body.payment_key()?,
        transaction_key: body.transaction_key()?,
        amount: body.amount()?,
        currency: body.currency()?,
        properties,
        control,
        approved: vec![],
        gateways,
    })
}

/// 412 with a bare string, as in Kill Bill: the transaction type does not start a payment.
fn not_a_start(kind: TransactionType) -> Response {
    let message = format!("TransactionType {} is not allowed for an account", kind.killbill_name());
    reply::json(StatusCode::PRECONDITION_FAILED, &message)
}

/// Lists an account's payments.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/payments", tag = "Account", operation_id = "payments",
    params(("accountId" = Uuid, Path), ("withAttempts" = Option<bool>, Query),
        ("withPluginInfo" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [PaymentJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let all = Page { offset: 0, limit: PAYMENTS_OF_ACCOUNT_MAX };
    page::list_of_account::<ReadOptions>(&call, account, move |queries, tenant| {
        let files = queries.payments_of(tenant, account, all)?;
        if files.is_empty() && queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        Ok(Some(files))
    })
    .await
}
