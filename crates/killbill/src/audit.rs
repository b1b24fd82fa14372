//! Audit logs: who changed what, when, and with `auditLogsWithHistory` to what.

mod history;

use domain::account::Person;
use domain::payment::{Payment, PaymentState, Transaction, TransactionStatus, TransactionType};
use domain::state::Change;
use domain::tag::Tag;
use domain::{
    Account, EXTERNAL_PAYMENT, PaymentId, PaymentMethod, Rejection, TagId, TenantNo, TransactionId,
};
use engine::ports::{HistoryOf, HistoryRow, Queries, StoreError};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::call::Call;
use crate::date;
use crate::error::{ErrorJson, Failure};
use crate::reply::{self, Answered};
use crate::request::{Query, shown};

use history::HistoryJson;

/// Rows of an account's histories in one answer, at most.
pub(crate) const ACCOUNT_HISTORIES_MAX: usize = 10_000;

/// How much of the audit a read shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditLevel {
    /// Nothing.
    None,
    /// The first entry of each thing.
    Minimal,
    /// Every entry.
    Full,
}

impl AuditLevel {
    /// Reads `audit=`.
    ///
    /// # Errors
    /// Another word.
    pub(crate) fn of(query: Query<'_>) -> Result<Self, Failure> {
        let Some(text) = query.text("audit")? else { return Ok(Self::None) };
        match text.to_ascii_uppercase().as_str() {
            "" | "NONE" => Ok(Self::None),
            "MINIMAL" => Ok(Self::Minimal),
            "FULL" => Ok(Self::Full),
            _ => {
                let given = shown(&text);
                Err(Failure::illegal(format!("audit={given}: should be NONE, MINIMAL or FULL")))
            }
        }
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Minimal => "MINIMAL",
            Self::Full => "FULL",
        }
    }

    /// Reads the history of one thing, as far as this level shows it.
    ///
    /// # Errors
    /// Where the store cannot be asked.
    pub(crate) fn read(
        self,
        queries: &dyn Queries,
        tenant: TenantNo,
        of: HistoryOf,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        match self {
            Self::None => Ok(vec![]),
            Self::Minimal | Self::Full => queries.history(tenant, of),
        }
    }

    /// The entries that this level shows of one thing's history.
    pub(crate) fn logs(self, rows: &[HistoryRow]) -> Vec<AuditLogJson<'_>> {
        let shown = match self {
            Self::None => 0,
            Self::Minimal => 1,
            Self::Full => usize::MAX,
        };
        steps(rows).into_iter().take(shown).map(|step| step.log(None)).collect()
    }
}

/// One entry of the audit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditLogJson<'a> {
    #[schema(value_type = String)]
    change_type: &'static str,
    change_date: String,
    #[schema(value_type = String)]
    object_type: &'static str,
    object_id: Uuid,
    #[schema(value_type = String)]
    changed_by: &'a str,
    #[schema(value_type = Option<String>)]
    reason_code: Option<&'a str>,
    #[schema(value_type = Option<String>)]
    comments: Option<&'a str>,
    user_token: Uuid,
    #[schema(value_type = Option<Object>)]
    history: Option<HistoryJson<'a>>,
}

/// One entry of the audit, before it is shown.
struct Step<'a> {
    row: &'a HistoryRow,
    image: Image<'a>,
    change_type: &'static str,
    stage: Stage,
    /// A payment's state as the entry before showed it.
    state_before: Option<PaymentState>,
    /// A payment's last success as the entry before showed it.
    success_before: Option<PaymentState>,
}

/// What an entry shows of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A payment or transaction as it was opened, its outcome still to come.
    Opened,
    /// The thing as the row left it.
    AsWritten,
}

/// A thing that has a history.
#[derive(Clone, Copy)]
enum Image<'a> {
    Account(&'a Account, Option<&'a Person>),
    Tag(&'a Tag),
    PaymentMethod(&'a PaymentMethod),
    Payment(&'a Payment),
    Transaction(&'a Transaction),
}

impl<'a> Image<'a> {
    fn of(row: &'a HistoryRow) -> Self {
        match &row.image {
            Change::Account(account) => Self::Account(account, row.person.as_ref()),
            Change::Tag(tag) => Self::Tag(tag),
            Change::PaymentMethod(method) => Self::PaymentMethod(method),
            Change::Payment(payment) => Self::Payment(payment),
            Change::Transaction(transaction) => Self::Transaction(transaction),
            Change::Tenant(_)
            | Change::TenantValue(_)
            | Change::User(_)
            | Change::Role(_)
            | Change::Environment(_)
            | Change::Secret(_)
            | Change::Definition(_)
            | Change::ChangeRequest(_)
            | Change::Customer(_)
            | Change::Operation(_)
            | Change::Session(_)
            | Change::SessionEnded { .. }
            | Change::Mail(_)
            | Change::PersonForgotten { .. }
            | Change::ClaimReleased { .. }
            | Change::Person { .. }
            | Change::Posting(_)
            | Change::Claim { .. }
            | Change::Outstanding(_)
            | Change::OutstandingClosed { .. }
            | Change::ReplySettled { .. } => unreachable!("these have no history"),
        }
    }

    /// Kill Bill's object type and the thing's id.
    const fn object(self) -> (&'static str, Uuid) {
        match self {
            Self::Account(it, _) => ("ACCOUNT", it.id.uuid()),
            Self::Tag(it) => ("TAG", it.id.uuid()),
            Self::PaymentMethod(it) => ("PAYMENT_METHOD", it.id.uuid()),
            Self::Payment(it) => ("PAYMENT", it.id.uuid()),
            Self::Transaction(it) => ("TRANSACTION", it.id.uuid()),
        }
    }

    const fn change_type(self, first: bool) -> &'static str {
        match self {
            Self::PaymentMethod(method) if !method.active => "DELETE",
            Self::Tag(tag) if !tag.active => "DELETE",
            // One that comes back was added once more.
            Self::Tag(_) => "INSERT",
            Self::Account(..)
            | Self::PaymentMethod(_)
            | Self::Payment(_)
            | Self::Transaction(_) => {
                if first {
                    "INSERT"
                } else {
                    "UPDATE"
                }
            }
        }
    }

    /// What a row of this thing shows: each stage is an entry of its own.
    ///
    /// Kill Bill writes a payment and its transaction twice: as they are opened (the transaction
    /// UNKNOWN, the payment in the state it was in) and as they end. A gateway's payment passes
    /// both here too, in two commits. What settles within its commit (the external gateway,
    /// chargebacks and their reversals) has one row in the journal, which shows the end; both
    /// entries are made of that row.
    fn stages(self, first: bool) -> &'static [Stage] {
        const OPENED: &[Stage] = &[Stage::Opened];
        const ENDED: &[Stage] = &[Stage::AsWritten];
        const OPENED_AND_ENDED: &[Stage] = &[Stage::Opened, Stage::AsWritten];
        match self {
            Self::Account(..) | Self::Tag(_) | Self::PaymentMethod(_) => ENDED,
            Self::Payment(it) if it.state.status == TransactionStatus::InFlight => OPENED,
            Self::Payment(it) if it.gateway == EXTERNAL_PAYMENT => OPENED_AND_ENDED,
            Self::Payment(it) => match it.state.operation {
                TransactionType::Chargeback | TransactionType::ChargebackReversal => {
                    OPENED_AND_ENDED
                }
                TransactionType::Authorize
                | TransactionType::Capture
                | TransactionType::Purchase
                | TransactionType::Refund
                | TransactionType::Credit
                | TransactionType::Void => ENDED,
            },
            Self::Transaction(it) if it.status == TransactionStatus::InFlight => OPENED,
            Self::Transaction(_) if first => OPENED_AND_ENDED,
            Self::Transaction(_) => ENDED,
        }
    }
}

/// The entries that one thing's history makes, oldest first.
fn steps(rows: &[HistoryRow]) -> Vec<Step<'_>> {
    let mut steps = Vec::with_capacity(rows.len() + 1);
    let (mut state_before, mut success_before) = (None, None);
    for (at, row) in rows.iter().enumerate() {
        let image = Image::of(row);
        for (place, stage) in image.stages(at == 0).iter().enumerate() {
            let change_type = image.change_type(at == 0 && place == 0);
            let stage = *stage;
            steps.push(Step { row, image, change_type, stage, state_before, success_before });
        }
        if let Image::Payment(payment) = image
            && payment.state.status != TransactionStatus::InFlight
        {
            (state_before, success_before) = (Some(payment.state), payment.last_success);
        }
    }
    steps
}

impl<'a> Step<'a> {
    fn log(&self, history: Option<HistoryJson<'a>>) -> AuditLogJson<'a> {
        let (object_type, object_id) = self.image.object();
        AuditLogJson {
            change_type: self.change_type,
            change_date: date::to_the_second(self.row.at),
            object_type,
            object_id,
            changed_by: &self.row.actor.created_by,
            reason_code: self.row.actor.reason.as_deref(),
            comments: self.row.actor.comments.as_deref(),
            user_token: self.row.actor.token,
            history,
        }
    }
}

/// One thing's whole audit, each entry with the thing as it was.
pub(crate) fn with_history(rows: &[HistoryRow]) -> Vec<AuditLogJson<'_>> {
    steps(rows).iter().map(|step| step.log(Some(HistoryJson::of(step)))).collect()
}

/// The audit of an account and all that belongs to it, by object type as Kill Bill orders it.
fn of_account(rows: &[HistoryRow]) -> Vec<AuditLogJson<'_>> {
    let same = |one: &HistoryRow, next: &HistoryRow| {
        Image::of(one).object().1 == Image::of(next).object().1
    };
    let things = rows.chunk_by(same);
    let mut logs: Vec<_> = things.flat_map(steps).map(|step| step.log(None)).collect();
    logs.sort_by_key(|log| log.object_type);
    logs
}

/// The audit of an account and all that belongs to it.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/auditLogs", tag = "Account", operation_id = "audit_logs",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn account(call: Call) -> Answered {
    let id = call.param_id("accountId")?;
    let tenant = call.tenant();
    let rows = call
        .read(move |queries| queries.account_histories(tenant, id, ACCOUNT_HISTORIES_MAX))
        .await?;
    if rows.is_empty() {
        return Err(Failure::Refused(Box::new(Rejection::AccountNotFound { id })));
    }
    Ok(reply::ok(&of_account(&rows)))
}

/// The audit of an account itself, with its history.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/auditLogsWithHistory", tag = "Account", operation_id = "history",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn account_history(call: Call) -> Answered {
    let id = call.param_id("accountId")?;
    history(call, HistoryOf::Account(id), Rejection::AccountNotFound { id }).await
}

/// The audit of a payment method, with its history.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods/{paymentMethodId}/auditLogsWithHistory",
    tag = "PaymentMethod", operation_id = "history", params(("paymentMethodId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn payment_method_history(call: Call) -> Answered {
    let id = call.param_id("paymentMethodId")?;
    history(call, HistoryOf::PaymentMethod(id), Rejection::PaymentMethodNotFound { id }).await
}

/// The audit of a tag, with its history.
#[utoipa::path(get, path = "/1.0/kb/tags/{tagId}/auditLogsWithHistory", tag = "Tag", operation_id = "history",
    params(("tagId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn tag_history(call: Call) -> Answered {
    let id: TagId = call.param_id("tagId")?;
    let absent = Rejection::TagNotFound { name: id.to_string() };
    history(call, HistoryOf::Tag(id), absent).await
}

/// The audit of a payment, with its history.
#[utoipa::path(get, path = "/1.0/kb/payments/{paymentId}/auditLogsWithHistory", tag = "Payment", operation_id = "history",
    params(("paymentId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn payment_history(call: Call) -> Answered {
    let id: PaymentId = call.param_id("paymentId")?;
    let absent = Rejection::PaymentNotFound { payment: id.to_string() };
    history(call, HistoryOf::Payment(id), absent).await
}

/// The audit of a transaction, with its history.
#[utoipa::path(get, path = "/1.0/kb/paymentTransactions/{transactionId}/auditLogsWithHistory",
    tag = "PaymentTransaction", operation_id = "history", params(("transactionId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn transaction_history(call: Call) -> Answered {
    let id: TransactionId = call.param_id("transactionId")?;
    let absent = Rejection::TransactionNotFound { transaction: id.to_string() };
    history(call, HistoryOf::Transaction(id), absent).await
}

async fn history(call: Call, of: HistoryOf, absent: Rejection) -> Answered {
    let tenant = call.tenant();
    let rows = call.read(move |queries| queries.history(tenant, of)).await?;
    if rows.is_empty() {
        return Err(Failure::Refused(Box::new(absent)));
    }
    Ok(reply::ok(&with_history(&rows)))
}

#[cfg(test)]
mod tests;
