//! Payments of an account: the start of one (authorize, purchase, credit), and the account's list.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod follow_up;
pub(crate) mod read;
pub(crate) mod repair;
pub(crate) mod state;
pub(crate) mod view;

use axum::response::Response;
use domain::payment::{Initiate, TransactionType};
use domain::{AccountId, Command, Rejection};
use engine::ports::Page;
use http::StatusCode;

use crate::accounts::no_account_with_key;
use crate::call::Call;
use crate::error::{ErrorJson, Failure};
use crate::reply::{self, Answered};
use crate::request::{plugin_properties, refuse_control_plugins};

use body::{JSON, TransactionBody};
use repair::Subject;
use state::operation_name;
use view::{PaymentJson, Shown, TransactionJson};

/// Payments of an account in one answer, at most.
const PAYMENTS_OF_ACCOUNT_MAX: u64 = 10_000;

/// Starts a payment of an account.
#[utoipa::path(post, path = "/1.0/kb/accounts/{accountId}/payments", tag = "Account", operation_id = "start_payment",
    params(("accountId" = Uuid, Path), ("paymentMethodId" = Option<Uuid>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 201, description = "It worked, or is pending; Location names the payment"),
        (status = 402, description = "Declined", body = ErrorJson<'static>),
        (status = 502, description = "Not taken by the gateway", body = ErrorJson<'static>),
        (status = 503, description = "The outcome is not known", body = ErrorJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn start(call: Call) -> Answered {
    let account = call.param_id("accountId")?;
    start_on(&call, account).await
}

/// Starts a payment of an account that is named by its key.
#[utoipa::path(post, path = "/1.0/kb/accounts/payments", tag = "Account", operation_id = "start_payment_by_key",
    params(("externalKey" = String, Query), ("paymentMethodId" = Option<Uuid>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = TransactionJson<'static>,
    responses((status = 201, description = "It worked, or is pending; Location names the payment"),
        (status = 402, description = "Declined", body = ErrorJson<'static>),
        (status = 502, description = "Not taken by the gateway", body = ErrorJson<'static>),
        (status = 503, description = "The outcome is not known", body = ErrorJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn start_by_account_key(call: Call) -> Answered {
    let key = call.query().text("externalKey")?.map(|key| key.into_owned());
    let Some(key) = key else { return Err(no_account_with_key("null")) };
    let (tenant, wanted) = (call.tenant(), key.clone());
    let found = call.read(move |queries| queries.account_by_key(tenant, &wanted)).await?;
    let Some(found) = found else { return Err(no_account_with_key(&key)) };
    start_on(&call, found.account.id).await
}

async fn start_on(call: &Call, account: AccountId) -> Answered {
    refuse_control_plugins(call.query())?;
    let body: TransactionBody<'_> = call.body(JSON)?;
    let kind = body.transaction_type()?.ok_or_else(|| JSON.missing("transactionType"))?;
    let command: fn(Initiate) -> Command = match kind {
        TransactionType::Authorize => Command::Authorize,
        TransactionType::Purchase => Command::Purchase,
        TransactionType::Credit => Command::Credit,
        TransactionType::Capture
        | TransactionType::Refund
        | TransactionType::Void
        | TransactionType::Chargeback
        | TransactionType::ChargebackReversal => return Ok(not_a_start(kind)),
    };
    let start = || initiate(call, &body, account).map(command);
    let reply = repair::submit(call, Subject::Start(&body), start).await?;
    answer::of(call, reply)
}

fn initiate(
    call: &Call,
    body: &TransactionBody<'_>,
    account: AccountId,
) -> Result<Initiate, Failure> {
    body.check_ignored()?;
    let mut properties = body.properties()?;
    properties.extend(plugin_properties(call.query())?);
    Ok(Initiate {
        account,
        payment: body.payment_id()?,
        payment_method: call.query_id("paymentMethodId")?,
        payment_key: body.payment_key()?,
        transaction_key: body.transaction_key()?,
        amount: body.amount()?,
        currency: body.currency()?,
        properties,
    })
}

/// 412 with a sentence, as Kill Bill has it: the transaction's type is that of a follow-up.
fn not_a_start(kind: TransactionType) -> Response {
    let sentence =
        format!("TransactionType {} is not allowed for an account", operation_name(kind));
    reply::json(StatusCode::PRECONDITION_FAILED, &sentence)
}

/// Lists an account's payments.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/payments", tag = "Account", operation_id = "payments",
    params(("accountId" = Uuid, Path), ("withAttempts" = Option<bool>, Query),
        ("withPluginInfo" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [PaymentJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> Answered {
    let account: AccountId = call.param_id("accountId")?;
    let (shown, tenant) = (Shown::of(&call)?, call.tenant());
    let page = Page { offset: 0, limit: PAYMENTS_OF_ACCOUNT_MAX };
    let found = call.read(move |queries| {
        let files = queries.payments_of(tenant, account, page)?;
        if files.is_empty() && queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        let with_rows = |file| shown.with_rows(queries, file);
        files.into_iter().map(with_rows).collect::<Result<Vec<_>, _>>().map(Some)
    });
    match found.await? {
        Some(found) => {
            let body: Vec<_> = found.iter().map(|it| shown.json(it)).collect();
            Ok(reply::ok(&body))
        }
        None => Err(Failure::Refused(Box::new(Rejection::AccountNotFound { id: account }))),
    }
}
