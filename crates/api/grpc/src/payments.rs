//! `PaymentService`: pay, authorize, capture, refund, void; read one or a page.

use std::sync::Arc;

use domain::command::PaymentCommand;
use domain::payment::{FollowUp, Initiate, PaymentFile, TransactionStatus};
use domain::reply::PaymentAborted;
use domain::{AccountId, Command, PaymentId, PaymentReply, PaymentResult, Reply};
use engine::ports::Page;
use prost::Message;
use tonic::{Request, Response, Status};

use crate::api::payment_service_server::PaymentService;
use crate::api::{
    AuthorizeRequest, AuthorizeResponse, CaptureRequest, CaptureResponse, GatewayFault, Outcome,
    PayRequest, PayResponse, Payment, PaymentServiceGetByKeyRequest,
    PaymentServiceGetByKeyResponse, PaymentServiceGetRequest, PaymentServiceGetResponse,
    PaymentServiceListRequest, PaymentServiceListResponse, RefundRequest, RefundResponse,
    VoidRequest, VoidResponse,
};
use crate::call::{Call, ServiceContext};
use crate::refusal::{Refusal, Resource};
use crate::{fields, view};

/// The permission to start, capture and void payments.
const TRIGGER: &str = "payment:trigger";
/// The permission to refund.
const REFUND: &str = "payment:refund";

/// Payments of a page if the request has no size.
const PAGE_SIZE_DEFAULT: u64 = 100;
/// The most payments of a page.
const PAGE_SIZE_MAX: u64 = 1_000;
/// The most payments before a page; those further away are listed by account.
const OFFSET_MAX: u64 = 1_000_000;

pub(crate) struct Payments {
    context: Arc<ServiceContext>,
}

impl Payments {
    pub(crate) const fn new(context: Arc<ServiceContext>) -> Self {
        Self { context }
    }

    /// Starts a payment as the request asks, read as one to pay.
    async fn start<M: Message + Into<PayRequest>>(
        &self,
        request: Request<M>,
        (method, make): (&str, fn(Initiate) -> PaymentCommand),
    ) -> Result<Outcome, Refusal> {
        let (call, it, idempotency) = Call::of_write(&self.context, request, (method, TRIGGER))?;
        let it: PayRequest = it.into();
        let (amount, currency) = fields::amount(it.amount.as_ref())?;
        call.check_currency("amount.currency_code", Some(currency))?;
        let command = make(Initiate {
            account: fields::id("account_id", &it.account_id)?,
            payment: None,
            payment_method: fields::optional_id("payment_method_id", &it.payment_method_id)?,
            payment_key: call.key("payment_key", it.payment_key)?,
            transaction_key: call.key("transaction_key", it.transaction_key)?,
            amount: Some(amount),
            currency: Some(currency),
            properties: fields::properties(it.properties)?,
            control: vec![],
            approved: vec![],
            gateways: vec![],
        });
        outcome(&call, call.submit(command.into(), idempotency).await?).await
    }

    /// Goes on with a payment as the request asks, read as one to capture.
    async fn follow_up<M: Message + Into<CaptureRequest>>(
        &self,
        request: Request<M>,
        (method, permission, make): (&str, &'static str, fn(FollowUp) -> PaymentCommand),
    ) -> Result<Outcome, Refusal> {
        let (call, it, idempotency) = Call::of_write(&self.context, request, (method, permission))?;
        let it: CaptureRequest = it.into();
        let (amount, currency) = fields::amount(it.amount.as_ref())?;
        let command = make(FollowUp {
            transaction_key: call.key("transaction_key", it.transaction_key)?,
            amount: Some(amount),
            currency: Some(currency),
            properties: fields::properties(it.properties)?,
            ..FollowUp::of(fields::id("payment_id", &it.payment_id)?)
        });
        outcome(&call, call.submit(command.into(), idempotency).await?).await
    }
}

#[tonic::async_trait]
impl PaymentService for Payments {
    async fn pay(&self, request: Request<PayRequest>) -> Result<Response<PayResponse>, Status> {
        let outcome = self.start(request, ("Pay", PaymentCommand::Purchase)).await?;
        Ok(Response::new(PayResponse { outcome: Some(outcome) }))
    }

    async fn authorize(
        &self,
        request: Request<AuthorizeRequest>,
    ) -> Result<Response<AuthorizeResponse>, Status> {
        let outcome = self.start(request, ("Authorize", PaymentCommand::Authorize)).await?;
        Ok(Response::new(AuthorizeResponse { outcome: Some(outcome) }))
    }

    async fn capture(
        &self,
        request: Request<CaptureRequest>,
    ) -> Result<Response<CaptureResponse>, Status> {
        let outcome =
            self.follow_up(request, ("Capture", TRIGGER, PaymentCommand::Capture)).await?;
        Ok(Response::new(CaptureResponse { outcome: Some(outcome) }))
    }

    async fn refund(
        &self,
        request: Request<RefundRequest>,
    ) -> Result<Response<RefundResponse>, Status> {
        let outcome = self.follow_up(request, ("Refund", REFUND, PaymentCommand::Refund)).await?;
        Ok(Response::new(RefundResponse { outcome: Some(outcome) }))
    }

    async fn void(&self, request: Request<VoidRequest>) -> Result<Response<VoidResponse>, Status> {
        let (call, it, idempotency) = Call::of_write(&self.context, request, ("Void", TRIGGER))?;
        let command = Command::Payment(PaymentCommand::Void(FollowUp {
            transaction_key: call.key("transaction_key", it.transaction_key)?,
            properties: fields::properties(it.properties)?,
            ..FollowUp::of(fields::id("payment_id", &it.payment_id)?)
        }));
        let outcome = outcome(&call, call.submit(command, idempotency).await?).await?;
        Ok(Response::new(VoidResponse { outcome: Some(outcome) }))
    }

    async fn get(
        &self,
        request: Request<PaymentServiceGetRequest>,
    ) -> Result<Response<PaymentServiceGetResponse>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        let (id, tenant): (PaymentId, _) =
            (fields::id("payment_id", &it.payment_id)?, call.tenant());
        let found = call.read(move |queries| queries.payment(tenant, id)).await?;
        let payment = Some(found_or_refused(found, it.payment_id)?);
        Ok(Response::new(PaymentServiceGetResponse { payment }))
    }

    async fn get_by_key(
        &self,
        request: Request<PaymentServiceGetByKeyRequest>,
    ) -> Result<Response<PaymentServiceGetByKeyResponse>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        let key = call.key("payment_key", it.payment_key)?;
        let key = key.ok_or_else(|| Refusal::field("payment_key", "needs to be set"))?;
        let (wanted, tenant) = (key.clone(), call.tenant());
        let found = call.read(move |queries| queries.payment_by_key(tenant, &wanted)).await?;
        let payment = Some(found_or_refused(found, key)?);
        Ok(Response::new(PaymentServiceGetByKeyResponse { payment }))
    }

    async fn list(
        &self,
        request: Request<PaymentServiceListRequest>,
    ) -> Result<Response<PaymentServiceListResponse>, Status> {
        let (call, it) = Call::of(&self.context, request)?;
        Ok(Response::new(list(&call, &it).await?))
    }
}

impl From<AuthorizeRequest> for PayRequest {
    fn from(it: AuthorizeRequest) -> Self {
        Self {
            account_id: it.account_id,
            amount: it.amount,
            payment_method_id: it.payment_method_id,
            payment_key: it.payment_key,
            transaction_key: it.transaction_key,
            properties: it.properties,
        }
    }
}

impl From<RefundRequest> for CaptureRequest {
    fn from(it: RefundRequest) -> Self {
        Self {
            payment_id: it.payment_id,
            amount: it.amount,
            transaction_key: it.transaction_key,
            properties: it.properties,
        }
    }
}

fn found_or_refused(found: Option<PaymentFile>, name: String) -> Result<Payment, Refusal> {
    let found = found.ok_or(Refusal::NotFound { what: Resource::Payment, name })?;
    Ok(view::payment(found))
}

async fn list(
    call: &Call<'_>,
    it: &PaymentServiceListRequest,
) -> Result<PaymentServiceListResponse, Refusal> {
    let account: Option<AccountId> = fields::optional_id("account_id", &it.account_id)?;
    let size = match u64::try_from(it.page_size) {
        Ok(0) => PAGE_SIZE_DEFAULT,
        Ok(size) if size <= PAGE_SIZE_MAX => size,
        Ok(_) | Err(_) => {
            let reason = format!("is no number from 0 to {PAGE_SIZE_MAX}");
            return Err(Refusal::field("page_size", reason));
        }
    };
    let offset = read_token(&it.page_token, account)?;
    // One more row shows whether there is another page.
    let (page, tenant) = (Page { offset, limit: size + 1 }, call.tenant());
    let found = call.read_page(page, move |queries| {
        let Some(account) = account else {
            return queries.payments(tenant, page.of_gateway(None)).map(|paged| Some(paged.items));
        };
        let files = queries.payments_of(tenant, account, page)?;
        if files.is_empty() && queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        Ok(Some(files))
    });
    let name = it.account_id.clone();
    let mut files = found.await?.ok_or(Refusal::NotFound { what: Resource::Account, name })?;
    let page_len = usize::try_from(size).unwrap_or(usize::MAX);
    let next_page_token =
        if files.len() > page_len { write_token(offset + size, account) } else { String::new() };
    files.truncate(page_len);
    let payments = files.into_iter().map(view::payment).collect();
    Ok(PaymentServiceListResponse { payments, next_page_token })
}

/// A page token: the number of payments before the page, and their account.
fn write_token(offset: u64, account: Option<AccountId>) -> String {
    match account {
        Some(account) => format!("{offset}.{}", account.uuid().simple()),
        None => format!("{offset}."),
    }
}

fn read_token(token: &str, account: Option<AccountId>) -> Result<u64, Refusal> {
    if token.is_empty() {
        return Ok(0);
    }
    let refused = |reason| Refusal::field("page_token", reason);
    let offset = token.split_once('.').and_then(|(offset, _)| offset.parse().ok());
    let offset = offset.ok_or_else(|| refused("is no token that was given out"))?;
    if write_token(offset, account) != token {
        return Err(refused("belongs to another list"));
    }
    if offset > OFFSET_MAX {
        return Err(refused("is too far away: list the payments of an account"));
    }
    Ok(offset)
}

/// The outcome of a transaction. The reply does not contain the gateway's error code, so it is read.
async fn outcome(call: &Call<'_>, reply: Reply) -> Result<Outcome, Refusal> {
    let begun = reply.of_payment().expect("the reply belongs to the command");
    let aborted = |it: PaymentAborted| Refusal::Aborted { plugin: it.plugin, reason: it.reason };
    let PaymentReply { payment, transaction, result } = begun.map_err(aborted)?;
    let (status, message, fault) = match result {
        PaymentResult::Status { status, message } => {
            (status, message.unwrap_or_default(), GatewayFault::Unspecified)
        }
        PaymentResult::AmountNotTaken { message } => {
            let message = message.unwrap_or_default();
            (TransactionStatus::PluginFailure, message, GatewayFault::Unspecified)
        }
        PaymentResult::GatewayFailed { message } => {
            (TransactionStatus::Unknown, message, GatewayFault::Failed)
        }
        PaymentResult::GatewayAnsweredNothing => {
            (TransactionStatus::Unknown, String::new(), GatewayFault::AnsweredNothing)
        }
        PaymentResult::GatewayTimedOut => {
            (TransactionStatus::Unknown, String::new(), GatewayFault::TimedOut)
        }
    };
    let mut gateway_error_code = String::new();
    if status.is_failed() {
        let tenant = call.tenant();
        let read = call.read(move |queries| queries.payment(tenant, payment)).await;
        // The outcome is complete without the code, so an error of the read is ignored.
        let file = read.ok().flatten();
        let found = file.as_ref().and_then(|file| file.transaction(transaction));
        gateway_error_code = found.and_then(|it| it.gateway_error_code.clone()).unwrap_or_default();
    }
    Ok(Outcome {
        payment_id: payment.to_string(),
        transaction_id: transaction.to_string(),
        status: view::status(status).into(),
        gateway_error_code,
        gateway_error_message: message,
        gateway_fault: fault.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_tokens_belong_to_their_list() {
        let account = Some(AccountId::new(uuid::Uuid::from_u128(7)));
        assert_eq!(read_token("", account).unwrap(), 0);
        assert_eq!(read_token(&write_token(5, account), account).unwrap(), 5);
        assert_eq!(read_token(&write_token(5, None), None).unwrap(), 5);
        let refused = |token: &str| read_token(token, None).unwrap_err().to_string();
        let other_list = "page_token: belongs to another list";
        assert_eq!(refused(&write_token(5, account)), other_list);
        for token in ["+5.", "05."] {
            assert_eq!(refused(token), other_list, "{token}");
        }
        for token in ["5", "x.", "-1."] {
            let expected = "page_token: is no token that was given out";
            assert_eq!(refused(token), expected, "{token}");
        }
        let expected = "page_token: is too far away: list the payments of an account";
        assert_eq!(refused("99999999."), expected);
    }
}
