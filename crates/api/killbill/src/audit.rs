//! Audit logs: the changes of a resource, with their actors; `auditLogsWithHistory` adds the values.

pub(crate) mod event;
mod history;

use domain::account::Person;
use domain::account::blocking_state::BlockingState;
use domain::account::custom_field::CustomField;
use domain::account::email::AccountEmail;
use domain::account::tag::{Tag, TagDefinition};
use domain::billing::bundle::Bundle;
use domain::billing::invoice::{Invoice, InvoiceItem};
use domain::billing::subscription::Subscription;
use domain::change::Image as _;
use domain::import::AuditKind;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::{Payment, PaymentState, Transaction, TransactionStatus, TransactionType};
use domain::{
    Account, AccountId, AccountRejection, AttemptId, BillingRejection, BundleId, CustomFieldId,
    EXTERNAL_PAYMENT, InvoiceId, InvoiceItemId, PaymentId, PaymentMethod, PaymentRejection,
    Rejection, SubscriptionId, TagId, TenantNo, TransactionId,
};
use engine::ports::{HistoryOf, HistoryRow, Queries, StoreError};
use engine::time::rfc3339_second;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, no_such_object};
use crate::reply;
use crate::request::{Query, printable};

pub(crate) use history::EventImage;
use history::HistoryJson;

/// The most rows of an account's histories in one response.
pub(crate) const ACCOUNT_HISTORIES_MAX: usize = 10_000;

/// How much of the audit a response includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditLevel {
    None,
    /// The first entry of each resource.
    Minimal,
    /// Every entry of each resource.
    Full,
}

impl AuditLevel {
    /// Parses `audit=`.
    ///
    /// # Errors
    /// 400 if the level is unknown.
    pub(crate) fn of(query: Query<'_>) -> Result<Self, Failure> {
        let Some(text) = query.text("audit")? else { return Ok(Self::None) };
        match text.to_ascii_uppercase().as_str() {
            "" | "NONE" => Ok(Self::None),
            "MINIMAL" => Ok(Self::Minimal),
            "FULL" => Ok(Self::Full),
            _ => {
                let value = printable(&text);
                Err(Failure::illegal(format!("audit={value}: should be NONE, MINIMAL or FULL")))
            }
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Minimal => "MINIMAL",
            Self::Full => "FULL",
        }
    }

    /// Reads the history of one resource if this level includes any.
    ///
    /// # Errors
    /// The store cannot be read.
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

    /// The entries of one resource's history that this level includes.
    pub(crate) fn logs(self, rows: &[HistoryRow]) -> Vec<AuditLogJson<'_>> {
        let count = match self {
            Self::None => 0,
            Self::Minimal => 1,
            Self::Full => usize::MAX,
        };
        entries(rows).into_iter().take(count).map(|entry| entry.log(None)).collect()
    }
}

/// Kill Bill's `AuditLogJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditLogJson<'a> {
    change_type: &'static str,
    change_date: String,
    object_type: &'static str,
    object_id: Uuid,
    changed_by: &'a str,
    reason_code: Option<&'a str>,
    comments: Option<&'a str>,
    user_token: Uuid,
    #[schema(value_type = Option<Object>)]
    history: Option<HistoryJson<'a>>,
}

/// One entry of the audit, before it is encoded.
struct Entry<'a> {
    row: &'a HistoryRow,
    image: Image<'a>,
    change_type: &'static str,
    stage: Stage,
    /// The payment's state in the previous entry.
    state_before: Option<PaymentState>,
    /// The payment's last success in the previous entry.
    success_before: Option<PaymentState>,
}

/// The stage of a resource that an entry records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A new payment or transaction that has no outcome yet.
    Opened,
    /// The resource as stored in the row.
    AsWritten,
}

/// A resource that has a history.
#[derive(Clone, Copy)]
enum Image<'a> {
    Account(&'a Account, Option<&'a Person>),
    Tag(&'a Tag),
    Email(&'a AccountEmail),
    BlockingState(&'a BlockingState),
    TagDefinition(&'a TagDefinition),
    CustomField(&'a CustomField),
    PaymentMethod(&'a PaymentMethod),
    Payment(&'a Payment),
    Transaction(&'a Transaction),
    Attempt(&'a PaymentAttempt),
    Bundle(&'a Bundle),
    Subscription(&'a Subscription),
    Invoice(&'a Invoice),
    InvoiceItem(&'a InvoiceItem),
}

impl<'a> Image<'a> {
    fn of(row: &'a HistoryRow) -> Self {
        let change = &row.image;
        let account = Account::of(change).map(|it| Self::Account(it, row.person.as_ref()));
        account
            .or_else(|| Tag::of(change).map(Self::Tag))
            .or_else(|| TagDefinition::of(change).map(Self::TagDefinition))
            .or_else(|| AccountEmail::of(change).map(Self::Email))
            .or_else(|| BlockingState::of(change).map(Self::BlockingState))
            .or_else(|| CustomField::of(change).map(Self::CustomField))
            .or_else(|| PaymentMethod::of(change).map(Self::PaymentMethod))
            .or_else(|| Payment::of(change).map(Self::Payment))
            .or_else(|| Transaction::of(change).map(Self::Transaction))
            .or_else(|| PaymentAttempt::of(change).map(Self::Attempt))
            .or_else(|| Bundle::of(change).map(Self::Bundle))
            .or_else(|| Subscription::of(change).map(Self::Subscription))
            .or_else(|| Invoice::of(change).map(Self::Invoice))
            .or_else(|| InvoiceItem::of(change).map(Self::InvoiceItem))
            .expect("Kill Bill shows no history of other entities")
    }

    /// Kill Bill's object type, and the id.
    const fn object(self) -> (&'static str, Uuid) {
        match self {
            Self::Account(it, _) => ("ACCOUNT", it.id.uuid()),
            Self::Tag(it) => ("TAG", it.id.uuid()),
            Self::Email(it) => ("ACCOUNT_EMAIL", it.id.uuid()),
            Self::BlockingState(it) => ("BLOCKING_STATES", it.id.uuid()),
            Self::TagDefinition(it) => ("TAG_DEFINITION", it.id.uuid()),
            Self::CustomField(it) => ("CUSTOM_FIELD", it.id.uuid()),
            Self::PaymentMethod(it) => ("PAYMENT_METHOD", it.id.uuid()),
            Self::Payment(it) => ("PAYMENT", it.id.uuid()),
            Self::Transaction(it) => ("TRANSACTION", it.id.uuid()),
            Self::Attempt(it) => ("PAYMENT_ATTEMPT", it.id.uuid()),
            Self::Bundle(it) => ("BUNDLE", it.id.uuid()),
            Self::Subscription(it) => ("SUBSCRIPTION", it.id.uuid()),
            Self::Invoice(it) => ("INVOICE", it.id.uuid()),
            Self::InvoiceItem(it) => ("INVOICE_ITEM", it.id.uuid()),
        }
    }

    const fn change_type(self, first: bool) -> &'static str {
        match self {
            Self::PaymentMethod(method) if !method.active => "DELETE",
            Self::Tag(tag) if !tag.active => "DELETE",
            Self::Email(it) if !it.active => "DELETE",
            Self::BlockingState(it) if !it.active => "DELETE",
            Self::TagDefinition(it) if !it.active => "DELETE",
            Self::CustomField(field) if !field.active => "DELETE",
            // Adding a removed tag again activates its row.
            Self::Tag(_) => "INSERT",
            Self::Account(..)
            | Self::Email(_)
            | Self::BlockingState(_)
            | Self::TagDefinition(_)
            | Self::CustomField(_)
            | Self::PaymentMethod(_)
            | Self::Payment(_)
            | Self::Attempt(_)
            | Self::Bundle(_)
            | Self::Subscription(_)
            | Self::Invoice(_)
            | Self::InvoiceItem(_)
            | Self::Transaction(_) => {
                if first {
                    "INSERT"
                } else {
                    "UPDATE"
                }
            }
        }
    }

    /// The stages that a row of this resource records, each as its own entry.
    ///
    /// Kill Bill writes a payment and its transaction twice: when they are opened (the transaction
    /// UNKNOWN, the payment in its previous state) and when they end. A gateway's payment is committed
    /// twice here too. A payment that settles within one commit (the external gateway, chargebacks and
    /// their reversals) has one row in the journal, with the end; it makes both entries.
    fn stages(self, first: bool) -> &'static [Stage] {
        const OPENED: &[Stage] = &[Stage::Opened];
        const ENDED: &[Stage] = &[Stage::AsWritten];
        const OPENED_AND_ENDED: &[Stage] = &[Stage::Opened, Stage::AsWritten];
        match self {
            Self::Account(..)
            | Self::Tag(_)
            | Self::Email(_)
            | Self::BlockingState(_)
            | Self::TagDefinition(_)
            | Self::CustomField(_)
            | Self::Attempt(_)
            | Self::Bundle(_)
            | Self::Subscription(_)
            | Self::Invoice(_)
            | Self::InvoiceItem(_)
            | Self::PaymentMethod(_) => ENDED,
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

/// The entries of one resource's history, oldest first.
fn entries(rows: &[HistoryRow]) -> Vec<Entry<'_>> {
    let mut entries = Vec::with_capacity(rows.len() + 1);
    let (mut state_before, mut success_before) = (None, None);
    for (at, row) in rows.iter().enumerate() {
        let image = Image::of(row);
        if let Some(kind) = row.imported {
            let (change_type, stage) = (imported_type(kind), Stage::AsWritten);
            entries.push(Entry { row, image, change_type, stage, state_before, success_before });
            continue;
        }
        for (position, stage) in image.stages(at == 0).iter().enumerate() {
            let change_type = image.change_type(at == 0 && position == 0);
            let stage = *stage;
            entries.push(Entry { row, image, change_type, stage, state_before, success_before });
        }
        if let Image::Payment(payment) = image
            && payment.state.status != TransactionStatus::InFlight
        {
            (state_before, success_before) = (Some(payment.state), payment.last_success);
        }
    }
    entries
}

const fn imported_type(kind: AuditKind) -> &'static str {
    match kind {
        AuditKind::Insert => "INSERT",
        AuditKind::Update => "UPDATE",
        AuditKind::Delete => "DELETE",
    }
}

impl<'a> Entry<'a> {
    fn log(&self, history: Option<HistoryJson<'a>>) -> AuditLogJson<'a> {
        let (object_type, object_id) = self.image.object();
        AuditLogJson {
            change_type: self.change_type,
            change_date: rfc3339_second(self.row.at),
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

/// The account of a resource.
pub(crate) fn account_of(row: &HistoryRow) -> AccountId {
    history::owner(Image::of(row)).1
}

/// All entries of one resource, each with the resource's values.
pub(crate) fn with_history(rows: &[HistoryRow]) -> Vec<AuditLogJson<'_>> {
    entries(rows).iter().map(|entry| entry.log(Some(HistoryJson::of(entry)))).collect()
}

/// The audit of an account and its resources, by object type as in Kill Bill.
fn of_account(rows: &[HistoryRow]) -> Vec<AuditLogJson<'_>> {
    let is_same = |one: &HistoryRow, next: &HistoryRow| {
        Image::of(one).object().1 == Image::of(next).object().1
    };
    let resources = rows.chunk_by(is_same);
    let mut logs: Vec<_> = resources.flat_map(entries).map(|entry| entry.log(None)).collect();
    logs.sort_by_key(|log| log.object_type);
    logs
}

/// The number that stands for Kill Bill's record of an object.
pub(crate) fn record_id(id: Uuid) -> u64 {
    id.as_u64_pair().1 & 0xffff_ffff
}

/// The audit of an account and all that belongs to it.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/auditLogs", tag = "Account", operation_id = "audit_logs",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn account(call: Call) -> HandlerResult {
    let id = call.param_id("accountId")?;
    let tenant = call.tenant();
    let rows = call
        .read(move |queries| queries.account_histories(tenant, id, ACCOUNT_HISTORIES_MAX))
        .await?;
    if rows.is_empty() {
        return Err(Failure::Refused(Box::new(Rejection::Account(AccountRejection::NotFound {
            id,
        }))));
    }
    Ok(reply::ok(&of_account(&rows)))
}

/// The audit of an account itself, with its history.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/auditLogsWithHistory", tag = "Account", operation_id = "history",
    params(("accountId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn account_history(call: Call) -> HandlerResult {
    let id = call.param_id("accountId")?;
    history(
        call,
        HistoryOf::new::<Account>(id.uuid()),
        Rejection::Account(AccountRejection::NotFound { id }),
    )
    .await
}

/// The audit of a payment method, with its history.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods/{paymentMethodId}/auditLogsWithHistory",
    tag = "PaymentMethod", operation_id = "history", params(("paymentMethodId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn payment_method_history(call: Call) -> HandlerResult {
    let id = call.param_id("paymentMethodId")?;
    history(
        call,
        HistoryOf::new::<PaymentMethod>(id.uuid()),
        Rejection::Account(AccountRejection::PaymentMethodNotFound { id }),
    )
    .await
}

/// The audit of a tag, with its history.
#[utoipa::path(get, path = "/1.0/kb/tags/{tagId}/auditLogsWithHistory", tag = "Tag", operation_id = "history",
    params(("tagId" = Uuid, Path, description = "The tag's id")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn tag_history(call: Call) -> HandlerResult {
    let id: TagId = call.param_id("tagId")?;
    let absent = Rejection::Account(AccountRejection::TagNotFound { name: id.to_string() });
    history(call, HistoryOf::new::<Tag>(id.uuid()), absent).await
}

/// The audit of a custom field, with its history.
#[utoipa::path(get, path = "/1.0/kb/customFields/{customFieldId}/auditLogsWithHistory",
    tag = "CustomField", operation_id = "history",
    params(("customFieldId" = Uuid, Path, description = "The custom field's id")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn custom_field_history(call: Call) -> HandlerResult {
    let id: CustomFieldId = call.param_id("customFieldId")?;
    let tenant = call.tenant();
    let of = HistoryOf::new::<CustomField>(id.uuid());
    let rows = call.read(move |queries| queries.history(tenant, of)).await?;
    if rows.is_empty() {
        return Err(no_such_object("CUSTOM_FIELD", &id));
    }
    Ok(reply::ok(&with_history(&rows)))
}

/// The audit of a payment, with its history.
#[utoipa::path(get, path = "/1.0/kb/payments/{paymentId}/auditLogsWithHistory", tag = "Payment", operation_id = "history",
    params(("paymentId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn payment_history(call: Call) -> HandlerResult {
    let id: PaymentId = call.param_id("paymentId")?;
    let absent = Rejection::Payment(PaymentRejection::NotFound { payment: id.to_string() });
    history(call, HistoryOf::new::<Payment>(id.uuid()), absent).await
}

/// The audit of the attempt of a controlled call, with its history.
#[utoipa::path(get, path = "/1.0/kb/payments/attempts/{paymentAttemptId}/auditLogsWithHistory",
    tag = "Payment", operation_id = "attempt_history",
    params(("paymentAttemptId" = Uuid, Path, description = "The attempt's id")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn attempt_history(call: Call) -> HandlerResult {
    let id: AttemptId = call.param_id("paymentAttemptId")?;
    let (tenant, of) = (call.tenant(), HistoryOf::new::<PaymentAttempt>(id.uuid()));
    let rows = call.read(move |queries| queries.history(tenant, of)).await?;
    if rows.is_empty() {
        return Err(no_such_object("PAYMENT_ATTEMPT", &id));
    }
    Ok(reply::ok(&with_history(&rows)))
}

/// The audit of a bundle, with its history. Former keys are not known: each state has the key of now.
#[utoipa::path(get, path = "/1.0/kb/bundles/{bundleId}/auditLogsWithHistory", tag = "Bundle",
    operation_id = "bundle_history", params(("bundleId" = Uuid, Path, description = "The bundle")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn bundle_history(call: Call) -> HandlerResult {
    let id: BundleId = call.param_id("bundleId")?;
    let absent = Rejection::Billing(BillingRejection::NoSuchBundle { bundle: id });
    history(call, HistoryOf::new::<Bundle>(id.uuid()), absent).await
}

/// The audit of a subscription, with its history.
#[utoipa::path(get, path = "/1.0/kb/subscriptions/{subscriptionId}/auditLogsWithHistory",
    tag = "Subscription", operation_id = "subscription_history",
    params(("subscriptionId" = Uuid, Path, description = "The subscription")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn subscription_history(call: Call) -> HandlerResult {
    let id: SubscriptionId = call.param_id("subscriptionId")?;
    let absent = Rejection::Billing(BillingRejection::NoSuchSubscription { subscription: id });
    history(call, HistoryOf::new::<Subscription>(id.uuid()), absent).await
}

/// The audit of an invoice, with its history.
#[utoipa::path(get, path = "/1.0/kb/invoices/{invoiceId}/auditLogsWithHistory", tag = "Invoice",
    operation_id = "invoice_history", params(("invoiceId" = Uuid, Path, description = "The invoice")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn invoice_history(call: Call) -> HandlerResult {
    let id: InvoiceId = call.param_id("invoiceId")?;
    let absent = Rejection::Billing(BillingRejection::NoSuchInvoice { invoice: id });
    history(call, HistoryOf::new::<Invoice>(id.uuid()), absent).await
}

/// The audit of an item of an invoice, with its history. Former descriptions are not known: each state has that of now.
#[utoipa::path(get, path = "/1.0/kb/invoiceItems/{invoiceItemId}/auditLogsWithHistory",
    tag = "InvoiceItem", operation_id = "invoice_item_history",
    params(("invoiceItemId" = Uuid, Path, description = "The invoice's item")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn invoice_item_history(call: Call) -> HandlerResult {
    let id: InvoiceItemId = call.param_id("invoiceItemId")?;
    let absent = Rejection::Billing(BillingRejection::NoSuchItem { item: id });
    history(call, HistoryOf::new::<InvoiceItem>(id.uuid()), absent).await
}

/// The audit of a transaction, with its history.
#[utoipa::path(get, path = "/1.0/kb/paymentTransactions/{transactionId}/auditLogsWithHistory",
    tag = "PaymentTransaction", operation_id = "history", params(("transactionId" = Uuid, Path)),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn transaction_history(call: Call) -> HandlerResult {
    let id: TransactionId = call.param_id("transactionId")?;
    let absent =
        Rejection::Payment(PaymentRejection::TransactionNotFound { transaction: id.to_string() });
    history(call, HistoryOf::new::<Transaction>(id.uuid()), absent).await
}

pub(crate) async fn history(call: Call, of: HistoryOf, absent: Rejection) -> HandlerResult {
    let tenant = call.tenant();
    let rows = call.read(move |queries| queries.history(tenant, of)).await?;
    if rows.is_empty() {
        return Err(Failure::Refused(Box::new(absent)));
    }
    Ok(reply::ok(&with_history(&rows)))
}

#[cfg(test)]
mod tests;
