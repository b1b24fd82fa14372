//! Purchases: accounts buy offers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use domain::command::PaymentCommand;
use domain::entitlement::purchase::{Buy, Purchase as Row};
use domain::payment::{Outstanding, PaymentFile};
use domain::reply::EntitlementReply;
use domain::{AccountId, Command, PaymentMethodId, PaymentReply, PaymentResult, PurchaseId, Reply};
use engine::ExpectedPurchase;
use engine::access::TenantRef;
use engine::entitlements::Document;
use engine::ports::{Bought as BoughtRows, BoughtBy};
use engine::time::rfc3339;
use http::StatusCode;
use http::header::LOCATION;
use secrets::Purpose;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::document::holding;
use super::offers::{OfferBody, PriceBody, body as offer_body};
use super::view::EntitlementsView;
use super::{AccountRequest, account_id, unexpected};
use crate::Api;
use crate::caller::Call;
use crate::error::{Error, FailedPurchase, PurchaseFailed};
use crate::openapi::{
    IdempotencyKey, InvalidField, InvalidParameter, ObjectRejections, PageParameters,
};
use crate::parameters::{id_of, invalid, next_offset};

/// How many properties of a payment a request has at most.
const PROPERTIES_MAX: usize = 100;

/// A purchase.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PurchaseView {
    purchase_id: Uuid,
    account_id: Uuid,
    /// The key of the offer
    offer: String,
    /// The version that was bought
    offer_version: i64,
    /// The offer as it was bought
    terms: OfferBody,
    /// Absent where it was free
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<Uuid>,
    /// `PENDING`, `FAILED`, `ACTIVE`, `RETURNED`, `DUPLICATE`: paid late, when the account had it already, or `CLOSED`:
    /// paid when the account was closed
    status: &'static str,
    /// From when on it holds (RFC 3339); `null` as long as it was never paid
    from: Option<String>,
    /// Until when (RFC 3339); `null`: for ever, or never paid
    until: Option<String>,
    /// When it was made (RFC 3339)
    created_at: String,
    /// When it last changed (RFC 3339)
    updated_at: String,
}

/// The payment of a purchase.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PurchasePayment {
    payment_id: Uuid,
    transaction_id: Uuid,
    /// The status of the transaction, such as `SUCCESS` or `PENDING`
    status: &'static str,
    /// The gateway that took it
    gateway: String,
    /// The customer's next action before the payment goes on, as values such as `redirectUrl` or `clientSecret`;
    /// absent where there is none
    #[serde(skip_serializing_if = "Option::is_none")]
    next_action: Option<BTreeMap<String, String>>,
}

/// A purchase that was made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bought {
    purchase: PurchaseView,
    /// Absent where it was free
    #[serde(skip_serializing_if = "Option::is_none")]
    payment: Option<PurchasePayment>,
    /// The account's entitlements now
    entitlements: EntitlementsView,
}

/// A page of purchases, oldest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PurchaseList {
    purchases: Vec<PurchaseView>,
    /// The `offset` of the next page, which may be empty; `null` after the last page
    next_offset: Option<u64>,
}

/// A purchase to be made.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewPurchase {
    /// The key of an offer
    offer: String,
    /// The version that the buyer saw; 409 where there is a newer one
    version: Option<i64>,
    /// The price that the buyer saw, absent where it is free; 409 where it is another now
    expected_price: Option<PriceBody>,
    /// The account's default where it is absent
    payment_method_id: Option<Uuid>,
    /// For the payment's gateway
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

/// Buys an offer: payment, purchase and grants are one commit
#[utoipa::path(post, path = "/v1/accounts/{accountId}/purchases", tag = "Entitlements", operation_id = "buy_offer",
    params(("accountId" = Uuid, Path), IdempotencyKey), request_body = NewPurchase,
    responses((status = 201, description = "Bought, paid and granted", body = Bought),
        (status = 202, description = "The payment is pending, or its outcome is not known yet: nothing is granted before. `Location` is the purchase", body = Bought),
        (status = 402, description = "The payment was declined. `Location` is the purchase; `known` names it, its payment and the transaction"),
        (status = 409, description = "The offer or its price is another now, the account has the offer or is buying it, it is not for this account, or the account is closed"),
        (status = 422, description = "The key was used for another request, or a control plugin aborted the payment"),
        (status = 502, description = "The gateway did not take the payment: no money moved. `Location` and `known` as with 402"),
        (status = 503, description = "The payment cannot be made now: nothing was begun. With `X-Faregate-Outcome: unknown` it was made and cannot be shown: look, and do not send it again without its key"),
        ObjectRejections, InvalidField))]
pub async fn create(call: Call, account: Path<String>, body: Body) -> Result<Response, Error> {
    let request =
        AccountRequest::<NewPurchase>::read(call, "entitlement:create", (&account, body)).await?;
    let AccountRequest { api, context, account, body: it, once } = request;
    if it.expected_price.is_some() {
        context.require("payment:trigger")?;
    }
    if it.properties.len() > PROPERTIES_MAX {
        return Err(invalid("properties", "are more than 100"));
    }
    let expected = it.expected_price.as_ref().map(|it| it.price("expectedPrice")).transpose()?;
    let command = Command::Payment(PaymentCommand::Buy(Box::new(Buy {
        account,
        offer: it.offer,
        version: it.version,
        expected,
        payment_method: it.payment_method_id.map(PaymentMethodId::new),
        properties: it.properties.into_iter().collect(),
    })));
    let id = api.engine.mint();
    let expected = api.engine.expect_purchase(id);
    let reply = context.submit_as(&api, id, (command, once)).await?;
    answer(&api, &context.tenant, (account, &expected), reply).await
}

async fn answer(
    api: &Api,
    tenant: &TenantRef,
    (account, expected): (AccountId, &ExpectedPurchase),
    reply: Reply,
) -> Result<Response, Error> {
    let no = tenant.no;
    let (by, paid) = if let Reply::Entitlement(EntitlementReply::Bought(id)) = reply {
        (BoughtBy::Purchase(id), None)
    } else {
        let begun = reply.of_payment().ok_or_else(unexpected)?.map_err(|it| {
            Error::PurchaseFailed(PurchaseFailed::Aborted { reason: it.reason }, None)
        })?;
        (BoughtBy::Payment(begun.payment), Some(begun))
    };
    let found = api.engine.read_bought((no, account), by, expected).await;
    let status = match (paid.as_ref(), paid.as_ref().map_or(Ok(StatusCode::CREATED), status_of)) {
        (Some(reply), Err(failed)) => return Err(failure(account, (reply, failed), found.ok())),
        (_, status) => status.map_err(|failed| Error::PurchaseFailed(failed, None))?,
    };
    let found = found.map_err(Error::after_commit)?;
    let purchase = found.purchase.as_ref().ok_or_else(unexpected)?;
    let location = format!("/v1/accounts/{account}/purchases/{}", purchase.id);
    let open = match paid.as_ref().filter(|_| status == StatusCode::ACCEPTED) {
        Some(&PaymentReply { payment, transaction, .. }) => {
            let open = api.engine.read(move |queries| queries.outstanding_of(no, payment)).await;
            open.map_err(Error::after_commit)?
                .into_iter()
                .find(|it| it.transaction_id == transaction)
        }
        None => None,
    };
    let next_action = open.as_ref().and_then(|it| next_action(api, it));
    let holding = holding(api, tenant.entitlements_held_us);
    let bought = Bought {
        purchase: view(purchase),
        payment: paid
            .as_ref()
            .zip(found.payment.as_ref())
            .map(|(reply, file)| PurchasePayment { next_action, ..payment_view(reply, file) }),
        entitlements: EntitlementsView::of(&Document::of(
            account,
            found.entitlements.as_ref(),
            holding,
        )),
    };
    Ok((status, [(LOCATION, location)], Json(bought)).into_response())
}

/// The failure of a payment, with the purchase where that can be read.
fn failure(
    account: AccountId,
    (reply, failed): (&PaymentReply, PurchaseFailed),
    found: Option<Arc<BoughtRows>>,
) -> Error {
    let transaction = |file: &PaymentFile| file.transaction(reply.transaction).cloned();
    let made = found.as_ref().and_then(|it| it.payment.as_ref()).and_then(transaction);
    let failed = match failed {
        PurchaseFailed::Declined { reason, code: _ } => {
            let code = made.and_then(|it| it.gateway_error_code);
            PurchaseFailed::Declined { reason, code }
        }
        failed @ (PurchaseFailed::NotTaken
        | PurchaseFailed::AmountNotTaken { .. }
        | PurchaseFailed::Aborted { .. }) => failed,
    };
    let purchase = found.as_ref().and_then(|it| it.purchase.as_ref());
    let made = purchase.map(|purchase| FailedPurchase {
        account,
        purchase: purchase.id,
        payment: reply.payment,
        transaction: reply.transaction,
    });
    Error::PurchaseFailed(failed, made.map(Box::new))
}

/// The status of the answer, by that of the payment.
fn status_of(reply: &PaymentReply) -> Result<StatusCode, PurchaseFailed> {
    use domain::payment::TransactionStatus as S;
    match &reply.result {
        PaymentResult::Status { status, message } => match status {
            S::Success => Ok(StatusCode::CREATED),
            S::Pending | S::Unknown | S::InFlight => Ok(StatusCode::ACCEPTED),
            S::PaymentFailure => {
                let reason = message.clone().unwrap_or_default();
                Err(PurchaseFailed::Declined { reason, code: None })
            }
            S::PluginFailure => Err(PurchaseFailed::NotTaken),
        },
        PaymentResult::AmountNotTaken { message } => {
            Err(PurchaseFailed::AmountNotTaken { reason: message.clone().unwrap_or_default() })
        }
        PaymentResult::GatewayFailed { .. }
        | PaymentResult::GatewayAnsweredNothing
        | PaymentResult::GatewayTimedOut => Ok(StatusCode::ACCEPTED),
    }
}

fn payment_view(reply: &PaymentReply, file: &PaymentFile) -> PurchasePayment {
    let transaction = file.transaction(reply.transaction);
    PurchasePayment {
        payment_id: reply.payment.uuid(),
        transaction_id: reply.transaction.uuid(),
        status: transaction.map_or("UNKNOWN", |it| it.status.name()),
        gateway: file.payment.gateway.clone(),
        next_action: None,
    }
}

/// The next action of a transaction's customer, decrypted; `None` where there is none or it cannot be decrypted.
fn next_action(api: &Api, of: &Outstanding) -> Option<BTreeMap<String, String>> {
    let (sealer, sealed) = (api.sealer.as_deref()?, of.next_action.as_ref()?);
    let row = (of.transaction_id.uuid(), "");
    let text = sealer.open_named(Purpose::NextAction, row, sealed).ok()?;
    let action: Vec<(String, String)> = serde_json::from_str(&text).ok()?;
    Some(action.into_iter().collect())
}

/// The purchases of an account, the oldest first
#[utoipa::path(get, path = "/v1/accounts/{accountId}/purchases", tag = "Entitlements", operation_id = "purchases",
    params(("accountId" = Uuid, Path), PageParameters),
    responses((status = 200, description = "The purchases", body = PurchaseList),
        ObjectRejections, InvalidParameter))]
pub async fn list(call: Call, Path(account): Path<String>) -> Result<Json<PurchaseList>, Error> {
    let (Call { api, context, .. }, page) = call.with_page("entitlement:read")?;
    let account = account_id(&account)?;
    let no = context.tenant.no;
    let read = move |queries: &dyn engine::ports::Queries| {
        let is_there = queries.account(no, account)?.is_some();
        Ok((is_there, queries.purchases(no, account, page)?))
    };
    let (is_there, rows) = api.engine.read(read).await?;
    if !is_there {
        return Err(Error::NotFound { what: "account", name: account.to_string() });
    }
    let next_offset = next_offset(page, rows.len());
    Ok(Json(PurchaseList { purchases: rows.iter().map(view).collect(), next_offset }))
}

/// A purchase of an account
#[utoipa::path(get, path = "/v1/accounts/{accountId}/purchases/{purchaseId}", tag = "Entitlements", operation_id = "purchase",
    params(("accountId" = Uuid, Path), ("purchaseId" = Uuid, Path)),
    responses((status = 200, description = "The purchase", body = PurchaseView), ObjectRejections))]
pub async fn show(
    call: Call,
    Path((account, id)): Path<(String, String)>,
) -> Result<Json<PurchaseView>, Error> {
    let Call { api, context, .. } = call.allowed("entitlement:read")?;
    let account = account_id(&account)?;
    let (no, purchase): (_, PurchaseId) = (context.tenant.no, id_of("purchase", &id)?);
    let found = api.engine.read(move |queries| queries.purchase(no, purchase)).await?;
    let found = found.filter(|it| it.account_id == account);
    found.as_ref().map(view).map(Json).ok_or_else(|| Error::not_found("purchase", &id))
}

fn view(it: &Row) -> PurchaseView {
    PurchaseView {
        purchase_id: it.id.uuid(),
        account_id: it.account_id.uuid(),
        offer: it.offer.clone(),
        offer_version: it.offer_version,
        terms: offer_body(&it.terms.offer),
        payment_id: it.payment_id.map(domain::PaymentId::uuid),
        status: it.status.name(),
        from: it.from.map(rfc3339),
        until: it.until.map(rfc3339),
        created_at: rfc3339(it.created_at),
        updated_at: rfc3339(it.updated_at),
    }
}
