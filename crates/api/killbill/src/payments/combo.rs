//! Combo payments: a payment whose account and payment method are made with it where they are new.

use domain::account::CreateAccount;
use domain::command::{AccountCommand, PaymentCommand};
use domain::payment::combo::{ComboAccount, ComboMethod, ExistingAccount, InitiateCombo};
use domain::reply::AccountReply;
use domain::{AccountId, AccountRejection, Command, Rejection, Reply};
use serde::Deserialize;
use utoipa::ToSchema;

use super::body::{JSON as TRANSACTION_JSON, TransactionBody};
use super::not_a_start;
use super::response::{self, TransactionResponses, UnknownResponses};
use crate::accounts::{self, AccountBody};
use crate::call::{Call, unexpected};
use crate::currencies;
use crate::error::{Failure, HandlerResult};
use crate::json::{Json, PropertyBody, Raw};
use crate::payment_methods::{self, PaymentMethodBody};
use crate::payment_rules::control_plugins;
use crate::routing::named_gateways;

const JSON: Json = Json("ComboPaymentTransactionJson");

/// The permission to make an account.
const CREATE_ACCOUNT: &str = "account:create";
/// The permission to make a payment method.
const CREATE_METHOD: &str = "payment_method:create";

/// Kill Bill's `ComboPaymentTransactionJson`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ComboPaymentRequest)]
pub(crate) struct ComboBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = AccountBody<'static>)]
    account: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<PaymentMethodBody<'static>>)]
    payment_method: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<PropertyBody<'static>>>)]
    payment_method_plugin_properties: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = TransactionBody<'static>)]
    transaction: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<PropertyBody<'static>>>)]
    transaction_plugin_properties: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

/// The account of a request: the id that it names, and what is to be made where it names none.
struct Named {
    id: Option<AccountId>,
    new: CreateAccount,
}

impl Named {
    /// The account of the key, where there is one.
    async fn find(&self, call: &Call) -> Result<Option<ComboAccount>, Failure> {
        let Some(key) = self.new.external_key.clone() else { return Ok(None) };
        let tenant = call.tenant();
        let found = call.read(move |queries| queries.account_by_key(tenant, &key)).await?;
        let existing = |id| ExistingAccount { id, external_key: None, currency: self.new.currency };
        Ok(found.map(|found| ComboAccount::Existing(existing(found.account.id))))
    }
}

impl<'a> ComboBody<'a> {
    fn account(&self) -> Result<Named, Failure> {
        let body: Option<AccountBody<'_>> = JSON.object("account", self.account, accounts::JSON)?;
        let body = body.ok_or_else(|| JSON.missing("account"))?;
        Ok(Named { id: body.id()?, new: body.create()? })
    }

    fn payment_method(&self) -> Result<Option<ComboMethod>, Failure> {
        let field = "paymentMethodPluginProperties";
        let properties = JSON.properties(field, self.payment_method_plugin_properties)?;
        let body: Option<PaymentMethodBody<'_>> =
            JSON.object("paymentMethod", self.payment_method, payment_methods::JSON)?;
        body.map(|body| body.combo(properties)).transpose()
    }

    fn transaction(&self) -> Result<TransactionBody<'a>, Failure> {
        let body = JSON.object("transaction", self.transaction, TRANSACTION_JSON)?;
        body.ok_or_else(|| JSON.missing("transaction"))
    }

    fn transaction_properties(&self) -> Result<domain::Properties, Failure> {
        let _audit_logs = self.audit_logs;
        JSON.properties("transactionPluginProperties", self.transaction_plugin_properties)
    }
}

/// The account that a request names by its id or its key, made where it is new.
pub(crate) async fn account_found_or_made(
    call: &Call,
    body: &AccountBody<'_>,
) -> Result<AccountId, Failure> {
    let named = Named { id: body.id()?, new: body.create()? };
    currencies::check(call, named.new.currency)?;
    let new = match account_of(call, &named).await? {
        ComboAccount::Existing(it) => return Ok(it.id),
        ComboAccount::New(new) => new,
    };
    match call.submit(Command::Account(AccountCommand::Create(new))).await {
        Ok(Reply::Account(AccountReply::Created(id))) => Ok(id),
        Ok(_) => unexpected(),
        Err(Failure::Refused(why))
            if matches!(*why, Rejection::Account(AccountRejection::AlreadyExists { .. })) =>
        {
            match named.find(call).await? {
                Some(ComboAccount::Existing(it)) => Ok(it.id),
                Some(ComboAccount::New(_)) | None => Err(Failure::Refused(why)),
            }
        }
        Err(failure) => Err(failure),
    }
}

/// Starts a payment, and makes its account and its payment method where they are new.
///
/// An account or a payment method that exists is named by its id or its key. The caller needs `account:create`
/// and `payment_method:create` too where they are made. A declined payment leaves both, and so does one that
/// a control plugin aborts; a refused one leaves neither.
#[utoipa::path(post, path = "/1.0/kb/payments/combo", tag = "Payment", operation_id = "start_combo_payment",
    params(("controlPluginName" = Option<Vec<String>>, Query)),
    request_body = ComboBody<'static>,
    responses(TransactionResponses, UnknownResponses))]
pub(crate) async fn start(call: Call) -> HandlerResult {
    let control = control_plugins(&call)?;
    let body: ComboBody<'_> = call.body(JSON)?;
    let named = body.account()?;
    let mut payment_method = body.payment_method()?;
    let transaction = body.transaction()?;
    let kind = transaction.transaction_type()?;
    let kind = kind.ok_or_else(|| TRANSACTION_JSON.missing("transactionType"))?;
    if !kind.is_initial() {
        return Ok(not_a_start(kind));
    }
    transaction.check_ignored()?;
    let mut properties = transaction.properties()?;
    properties.extend(body.transaction_properties()?);
    let gateways = named_gateways(&call, &mut properties)?;
    if let Some(payment_method) = &mut payment_method {
        bind_permission(&call, payment_method).await?;
    }
    let combo = InitiateCombo {
        kind,
        account: account_of(&call, &named).await?,
        payment_method,
        payment: transaction.payment_id()?,
        payment_key: transaction.payment_key()?,
        transaction_key: transaction.transaction_key()?,
        amount: transaction.amount()?,
        currency: transaction.currency()?,
        properties,
        control,
        approved: vec![],
        gateways,
    };
    let currency = combo.currency.or(named.new.currency);
    currencies::check(&call, combo.currency)?;
    currencies::check(&call, named.new.currency)?;
    let reply = submit(&call, combo, &named).await?;
    Ok(currencies::warn(&call, currency, response::of(&call, reply)?))
}

/// Submits the payment; a second time where the account that it would make exists.
async fn submit(call: &Call, mut combo: InitiateCombo, named: &Named) -> Result<Reply, Failure> {
    let command = |combo: &InitiateCombo| PaymentCommand::InitiateCombo(Box::new(combo.clone()));
    let reply = call.submit(command(&combo).into()).await;
    if let (ComboAccount::New(_), Err(Failure::Refused(why))) = (&combo.account, &reply)
        && matches!(**why, Rejection::Account(AccountRejection::AlreadyExists { .. }))
        && let Some(existing) = named.find(call).await?
    {
        combo.account = existing;
        return call.submit(command(&combo).into()).await;
    }
    reply
}

/// The account that the request names by id, or one to make. Whether its key is taken, the rules know: most
/// callers name a new account, and are spared a read. A caller who may make none is answered from a read.
async fn account_of(call: &Call, named: &Named) -> Result<ComboAccount, Failure> {
    if let Some(id) = named.id {
        let (external_key, currency) = (named.new.external_key.clone(), named.new.currency);
        return Ok(ComboAccount::Existing(ExistingAccount { id, external_key, currency }));
    }
    if call.caller.may(CREATE_ACCOUNT) {
        return Ok(ComboAccount::New(Box::new(named.new.clone())));
    }
    named.find(call).await?.ok_or_else(|| Failure::forbidden(CREATE_ACCOUNT))
}

/// A caller who may make no payment method pays with the one that was found here, or not at all.
async fn bind_permission(call: &Call, method: &mut ComboMethod) -> Result<(), Failure> {
    if method.id.is_some() || call.caller.may(CREATE_METHOD) {
        return Ok(());
    }
    let Some(key) = method.external_key.clone() else {
        return Err(Failure::forbidden(CREATE_METHOD));
    };
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.payment_method_by_key(tenant, &key)).await?;
    let found = found.ok_or_else(|| Failure::forbidden(CREATE_METHOD))?;
    method.id = Some(found.method.id);
    Ok(())
}
