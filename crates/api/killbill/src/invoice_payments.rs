//! Payments of invoices: those that a client asks for, and how they are read.

use domain::billing::invoice::Invoice;
use domain::billing::pay::PayInvoice;
use domain::command::BillingCommand;
use domain::payment::{Initiate, PaidFor, Payment, PaymentFile, TransactionStatus};
use domain::{
    AccountId, AccountRejection, AmountMinor, BillingRejection, Command, Currency, InvoiceId,
    PaymentId, PaymentMethodId, PaymentRejection, PaymentResult, Properties, Rejection, Reply,
    RequestId,
};
use engine::ports::{HistoryOf, Page, Queries, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::{self, AuditLogJson};
use crate::call::Call;
use crate::date;
use crate::error::{ErrorJson, Failure, HandlerResult, class};
use crate::json::{Json, Raw};
use crate::page::{self, RowFormat};
use crate::payment_rules::own_control_plugins;
use crate::payments::PAYMENTS_OF_ACCOUNT_MAX;
use crate::payments::body::{JSON as TRANSACTION, TransactionBody};
use crate::payments::read;
use crate::payments::response::{self, UnknownResponses};
use crate::payments::view::{
    Audited as AuditedPayment, PaymentJson, ReadOptions as PaymentOptions,
};
use crate::reply;
use crate::request::{plugin_properties, printable};
use crate::routing::named_gateways;

const JSON: Json = Json("InvoicePaymentJson");

/// How many invoices of an account are looked at.
const INVOICES_MAX: u64 = 10_000;

/// A request to pay an invoice: Kill Bill's `InvoicePaymentJson`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = InvoicePaymentRequest)]
pub(crate) struct InvoicePaymentBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Uuid)]
    account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    target_invoice_id: Raw<'a>,
    /// By default all that is to be paid
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    purchased_amount: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    currency: Raw<'a>,
    /// By default the account's default one
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    payment_method_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    payment_external_key: Raw<'a>,
    /// That of the one in `transactions` by default
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    transaction_external_key: Raw<'a>,
    /// At most one, of which the key is taken
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<TransactionBody<'static>>>)]
    transactions: Raw<'a>,
    /// These and the ones below come back from a read, and have no effect.
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    payment_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    payment_number: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    auth_amount: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    captured_amount: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    refunded_amount: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<f64>)]
    credited_amount: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    payment_attempts: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

impl InvoicePaymentBody<'_> {
    /// The payment that it asks for, without what the query says.
    fn initiate(&self, invoice: InvoiceId) -> Result<Initiate, Failure> {
        // They come back from a read.
        let _read = [self.payment_id, self.payment_number, self.payment_attempts, self.audit_logs];
        let _sums = [self.auth_amount, self.captured_amount];
        let _returned = [self.refunded_amount, self.credited_amount];
        let account = JSON.id("accountId", self.account_id)?;
        let target: Option<InvoiceId> = JSON.id("targetInvoiceId", self.target_invoice_id)?;
        if target.is_some_and(|it| it != invoice) {
            return Err(Failure::parameter("targetInvoiceId", "differs from that of the path"));
        }
        Ok(Initiate {
            payment_key: JSON.key(
                "paymentExternalKey",
                self.payment_external_key,
                class::PAYMENT,
            )?,
            transaction_key: self.transaction_key()?,
            amount: JSON.amount("purchasedAmount", self.purchased_amount)?,
            currency: JSON.currency("currency", self.currency)?,
            ..Initiate::of(account.ok_or_else(|| JSON.missing("accountId"))?)
        })
    }

    /// Kill Bill's clients name the transaction in the list of the payment's.
    fn transaction_key(&self) -> Result<Option<String>, Failure> {
        let field = "transactionExternalKey";
        let own = JSON.key(field, self.transaction_external_key, class::PAYMENT)?;
        let Some(raw) = self.transactions else { return Ok(own) };
        let listed: Vec<TransactionBody<'_>> = TRANSACTION.objects(raw.get().as_bytes())?;
        match listed.as_slice() {
            [] => Ok(own),
            [one] => Ok(own.or(one.transaction_key()?)),
            [..] => Err(Failure::parameter("transactions", "should be one at most")),
        }
    }
}

/// How invoices are to be paid: the parameters of the query that the routes share.
struct How {
    is_external: bool,
    method: Option<PaymentMethodId>,
    properties: Properties,
    gateways: Vec<String>,
    control: Vec<String>,
}

impl How {
    /// `method`: that of the body.
    fn of(call: &Call, method: Option<PaymentMethodId>) -> Result<Self, Failure> {
        let is_external = call.query().flag("externalPayment");
        let method = call.query_id("paymentMethodId")?.or(method);
        if is_external && method.is_some() {
            return Err(Failure::parameter("paymentMethodId", "an external payment takes none"));
        }
        let control = own_control_plugins(call.query())?;
        let mut properties = plugin_properties(call.query())?;
        let gateways = named_gateways(call, &mut properties)?;
        Ok(Self { is_external, method, properties, gateways, control })
    }

    fn command(&self, invoice: InvoiceId, call: Initiate) -> Command {
        let call = Initiate {
            payment_method: self.method,
            properties: self.properties.clone(),
            gateways: self.gateways.clone(),
            control: self.control.clone(),
            ..call
        };
        let it = PayInvoice { invoice, is_external: self.is_external, call };
        Command::Billing(BillingCommand::Pay(Box::new(it)))
    }
}

/// Kill Bill's `InvoicePaymentJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InvoicePaymentJson<'a> {
    #[serde(flatten)]
    payment: PaymentJson<'a>,
    /// The invoice that it is for; null where it is for none.
    target_invoice_id: Option<Uuid>,
}

/// Payments of invoices, with the parts that a payment's response includes.
#[derive(Clone, Copy)]
pub(crate) struct InvoicePayments(PaymentOptions);

impl RowFormat for InvoicePayments {
    type Row = PaymentFile;
    type Audited = AuditedPayment;
    type Json<'a> = InvoicePaymentJson<'a>;

    fn of(call: &Call) -> Result<Self, Failure> {
        PaymentOptions::of(call).map(Self)
    }

    fn reads_audit(self) -> bool {
        self.0.reads_audit()
    }

    fn with_audit(
        self,
        queries: &dyn Queries,
        row: PaymentFile,
    ) -> Result<AuditedPayment, StoreError> {
        self.0.with_audit(queries, row)
    }

    fn json(self, audited: &AuditedPayment) -> InvoicePaymentJson<'_> {
        let target_invoice_id = invoice_of(&audited.file).map(InvoiceId::uuid);
        InvoicePaymentJson { payment: self.0.json(audited), target_invoice_id }
    }
}

fn invoice_of(file: &PaymentFile) -> Option<InvoiceId> {
    match file.payment.paid_for? {
        PaidFor::Invoice { invoice } => Some(invoice),
        PaidFor::Purchase(_) => None,
    }
}

/// Pays an invoice, wholly or in part, whatever tags its account has.
#[utoipa::path(post, path = "/1.0/kb/invoices/{invoiceId}/payments", tag = "Invoice", operation_id = "pay_invoice",
    params(("invoiceId" = Uuid, Path, description = "The invoice"),
        ("externalPayment" = Option<bool>, Query, description = "The money came by another way: the account's method of `__EXTERNAL_PAYMENT__` is taken, and made where there is none"),
        ("paymentMethodId" = Option<Uuid>, Query, description = "In place of the one in the body"),
        ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = InvoicePaymentBody<'static>,
    responses((status = 201, description = "There is a payment, which may be declined; Location names it"),
        (status = 204, description = "Nothing is to be paid"), UnknownResponses))]
pub(crate) async fn pay(call: Call) -> HandlerResult {
    let invoice: InvoiceId = call.param_id("invoiceId")?;
    let body: InvoicePaymentBody<'_> = call.body(JSON)?;
    let asked = body.initiate(invoice)?;
    let how = How::of(&call, JSON.id("paymentMethodId", body.payment_method_id)?)?;
    let reply = call.submit(how.command(invoice, asked)).await?;
    match payment_made(&reply) {
        // Kill Bill's ends with a slash, and clients count on it.
        Some(payment) => {
            let path = ["/1.0/kb/invoicePayments/", &payment.to_string(), "/"];
            Ok(reply::created(call.location(&path)))
        }
        None => response::of(&call, reply),
    }
}

/// The payment that a reply is about, once it has an outcome. As in Kill Bill, one that was declined was made all the
/// same.
fn payment_made(reply: &Reply) -> Option<PaymentId> {
    let Reply::Payment(it) = reply else { return None };
    let PaymentResult::Status { status, .. } = it.result else { return None };
    match status {
        TransactionStatus::Success
        | TransactionStatus::Pending
        | TransactionStatus::PaymentFailure
        | TransactionStatus::PluginFailure => Some(it.payment),
        TransactionStatus::InFlight | TransactionStatus::Unknown => None,
    }
}

/// Pays the unpaid invoices of an account, the oldest first, each by a payment of its own.
#[utoipa::path(post, path = "/1.0/kb/accounts/{accountId}/invoicePayments", tag = "Account",
    operation_id = "pay_all_invoices",
    params(("accountId" = Uuid, Path),
        ("externalPayment" = Option<bool>, Query, description = "The money came by another way: the account's method of `__EXTERNAL_PAYMENT__` is taken, and made where there is none"),
        ("paymentAmount" = Option<f64>, Query, description = "How much to pay; by default all"),
        ("targetDate" = Option<String>, Query, description = "Only invoices with a target until this day"),
        ("paymentMethodId" = Option<Uuid>, Query), ("pluginProperty" = Option<Vec<String>>, Query)),
    responses((status = 201, description = "There are payments, which may be declined; Location lists them"),
        (status = 204, description = "Nothing is to be paid"), UnknownResponses))]
pub(crate) async fn pay_all(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let how = How::of(&call, None)?;
    let until = match call.query().text("targetDate")? {
        None => None,
        Some(text) => Some(date::day(&text).ok_or_else(|| {
            Failure::parameter("targetDate", &format!("{} is no day", printable(&text)))
        })?),
    };
    let (tenant, all) = (call.tenant(), Page { offset: 0, limit: INVOICES_MAX });
    let found = call.read(move |queries| {
        let Some(view) = queries.account(tenant, account)? else { return Ok(None) };
        let invoices = queries.invoices_of(tenant, account, all)?;
        Ok(Some((view.account.currency, invoices)))
    });
    let no_account =
        || Failure::Refused(Box::new(AccountRejection::NotFound { id: account }.into()));
    let (currency, invoices) = found.await?.ok_or_else(no_account)?;
    let mut invoices: Vec<Invoice> = invoices.into_iter().map(|it| it.invoice).collect();
    invoices.retain(|it| until.is_none_or(|until| it.target_date.is_some_and(|it| it <= until)));
    invoices.sort_by_key(|it| (it.invoice_date, it.number));
    let asked = currency.map(|currency| payment_amount(&call, currency)).transpose()?.flatten();
    let Parts { mut is_paid, parts } = Parts::of(&call, &invoices, (asked, how.is_external))?;
    for Part { id, invoice, amount } in parts {
        let asked = Initiate { amount: Some(amount), ..Initiate::of(account) };
        let reply = call.submit_part(id, how.command(invoice, asked)).await?;
        match payment_made(&reply) {
            Some(_) => is_paid = true,
            // Somebody else has paid it meanwhile, or it is not known what became of it.
            None => drop(response::of(&call, reply)?),
        }
    }
    if !is_paid {
        return Ok(reply::no_content());
    }
    let path = ["/1.0/kb/accounts/", &account.to_string(), "/invoicePayments"];
    Ok(reply::created(call.location(&path)))
}

/// The amount that a client wants to pay.
fn payment_amount(call: &Call, currency: Currency) -> Result<Option<AmountMinor>, Failure> {
    let Some(text) = call.query().text("paymentAmount")? else { return Ok(None) };
    match AmountMinor::parse(&text, currency) {
        Ok(amount) if amount > AmountMinor::ZERO => Ok(Some(amount)),
        Ok(_) => Err(Failure::parameter("paymentAmount", "should be greater than 0")),
        Err(error) => {
            Err(Failure::parameter("paymentAmount", &format!("{}: {error}", printable(&text))))
        }
    }
}

/// The payment of one of several invoices.
struct Part {
    id: RequestId,
    invoice: InvoiceId,
    amount: String,
}

/// The payments that are to be made.
struct Parts {
    /// Whether the same request has paid some already, when it was sent before.
    is_paid: bool,
    parts: Vec<Part>,
}

impl Parts {
    /// Shares an amount among invoices, which are in the order in which they are paid. Without one all are paid.
    fn of(
        call: &Call,
        invoices: &[Invoice],
        (asked, is_external): (Option<AmountMinor>, bool),
    ) -> Result<Self, Failure> {
        let mut it = Self { is_paid: false, parts: vec![] };
        let (mut left, mut open) = (asked.map(|it| it.0), vec![]);
        for invoice in invoices {
            let id = call.id_of_part(invoice.id.uuid())?;
            // The first thing that it makes, or the second one where it makes a method.
            let made = [0, 1].iter().find_map(|at| invoice.payments.get(&id.entity(*at)));
            match made {
                Some(made) => {
                    it.is_paid = true;
                    left = left.map(|left| left - made.paid.0 - made.in_flight.0);
                }
                None => open.push((id, invoice)),
            }
        }
        for (id, invoice) in open {
            let payable = invoice.payable();
            let amount = left.map_or(payable, |left| AmountMinor(payable.0.min(left)));
            if amount > AmountMinor::ZERO {
                left = left.map(|left| left - amount.0);
                let amount = amount.decimal(invoice.currency);
                it.parts.push(Part { id, invoice: invoice.id, amount });
            }
        }
        // Money that came and that nobody owes would be lost.
        if is_external && left.is_some_and(|left| left > 0) {
            return Err(Failure::parameter("paymentAmount", "is more than is to be paid"));
        }
        Ok(it)
    }
}

/// Lists the payments of an invoice, the oldest first.
#[utoipa::path(get, path = "/1.0/kb/invoices/{invoiceId}/payments", tag = "Invoice",
    operation_id = "payments_of_invoice",
    params(("invoiceId" = Uuid, Path, description = "The invoice"), ("withAttempts" = Option<bool>, Query),
        ("withPluginInfo" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [InvoicePaymentJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_invoice(call: Call) -> HandlerResult {
    let (invoice, tenant): (InvoiceId, _) = (call.param_id("invoiceId")?, call.tenant());
    let options = InvoicePayments::of(&call)?;
    if call.read(move |queries| queries.invoice(tenant, invoice)).await?.is_none() {
        let rejection = BillingRejection::NoSuchInvoice { invoice };
        return Err(Failure::Refused(Box::new(rejection.into())));
    }
    page::whole(&call, options, move |queries: &dyn Queries| {
        let Some(found) = queries.invoice(tenant, invoice)? else { return Ok(vec![]) };
        let ids = found.invoice.payments.keys();
        let files = ids.filter_map(|id| queries.payment(tenant, *id).transpose());
        let mut files = files.collect::<Result<Vec<_>, _>>()?;
        files.sort_by_key(|it| it.payment.number);
        Ok(files)
    })
    .await
}

/// Reads a payment with the invoice that it is for.
#[utoipa::path(get, path = "/1.0/kb/invoicePayments/{paymentId}", tag = "InvoicePayment",
    operation_id = "invoice_payment",
    params(("paymentId" = Uuid, Path, description = "The payment"), ("withPluginInfo" = Option<bool>, Query),
        ("withAttempts" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = InvoicePaymentJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: PaymentId = call.param_id("paymentId")?;
    let options = InvoicePayments::of(&call)?;
    let find = move |queries: &dyn Queries, tenant| queries.payment(tenant, id);
    let found = read::found(&call, &id.to_string(), find).await?;
    Ok(reply::ok(&options.json(&found)))
}

/// The audit of a payment of an invoice, with its history.
#[utoipa::path(get, path = "/1.0/kb/invoicePayments/{invoicePaymentId}/auditLogsWithHistory", tag = "InvoicePayment",
    operation_id = "history_of_invoice_payment",
    params(("invoicePaymentId" = Uuid, Path, description = "The payment")),
    responses((status = 200, body = [AuditLogJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn history(call: Call) -> HandlerResult {
    let id: PaymentId = call.param_id("invoicePaymentId")?;
    let absent = Rejection::Payment(PaymentRejection::NotFound { payment: id.to_string() });
    audit::history(call, HistoryOf::new::<Payment>(id.uuid()), absent).await
}

/// Lists the payments of the account's invoices, the oldest first; of its 10,000 oldest payments.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/invoicePayments", tag = "Account",
    operation_id = "invoice_payments",
    params(("accountId" = Uuid, Path), ("withAttempts" = Option<bool>, Query),
        ("withPluginInfo" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [InvoicePaymentJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let all = Page { offset: 0, limit: PAYMENTS_OF_ACCOUNT_MAX };
    page::list_of_account::<InvoicePayments>(&call, account, move |queries, tenant| {
        let mut files = queries.payments_of(tenant, account, all)?;
        if files.is_empty() && queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        files.retain(|it| invoice_of(it).is_some());
        Ok(Some(files))
    })
    .await
}
