//! Pages of gateways on which customers enter their payment methods.

use std::collections::BTreeMap;

use domain::{
    AccountId, AccountRejection, PaymentMethodId, PaymentRejection, Properties, Rejection,
};
use engine::ports::{FormRequest, RequestRefused};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::accounts::{self, AccountBody};
use crate::call::Call;
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::json::{Json, Raw};
use crate::payment_methods::{self, PaymentMethodBody};
use crate::payment_rules::own_control_plugins;
use crate::payments::combo::account_found_or_made;
use crate::reply;
use crate::request::{plugin_properties, printable};

const JSON: Json = Json("HostedPaymentPageFields");
const COMBO_JSON: Json = Json("ComboHostedPaymentPageJson");

/// Kill Bill's `HostedPaymentPageFieldsJson`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = HostedPaymentPageFields)]
struct FieldsBody<'a> {
    /// The properties that the gateway needs for its page, such as `successUrl`
    #[serde(borrow, default)]
    #[schema(value_type = Option<Vec<Object>>)]
    form_fields: Option<&'a RawValue>,
}

impl FieldsBody<'_> {
    fn properties(&self) -> Result<Properties, Failure> {
        JSON.properties("formFields", self.form_fields)
    }
}

/// Kill Bill's `ComboHostedPaymentPageJson`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ComboHostedPaymentPage)]
struct ComboBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = AccountBody<'static>)]
    account: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = PaymentMethodBody<'static>)]
    payment_method: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<FieldsBody<'static>>)]
    hosted_payment_page_fields: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

/// Kill Bill's `HostedPaymentPageFormDescriptorJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HostedPaymentPageFormDescriptor)]
struct FormJson<'a> {
    kb_account_id: Uuid,
    form_method: &'static str,
    form_url: &'a str,
    form_fields: BTreeMap<&'a str, &'a str>,
    properties: BTreeMap<&'a str, &'a str>,
}

/// Has a gateway make a page for an account's customer, and returns where it is.
///
/// The gateway is that of `pluginName`, else that of the payment method, else that of the account's default.
#[utoipa::path(post, path = "/1.0/kb/paymentGateways/hosted/form/{accountId}", tag = "PaymentGateway",
    operation_id = "hosted_form",
    params(("accountId" = Uuid, Path), ("paymentMethodId" = Option<Uuid>, Query),
        ("pluginName" = Option<String>, Query, description = "The gateway whose page it is"), ("controlPluginName" = Option<Vec<String>>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = FieldsBody<'static>,
    responses((status = 200, body = FormJson<'static>),
        (status = "4XX", body = ErrorJson<'static>),
        (status = 503, body = ErrorJson<'static>, description = "The gateway cannot be asked now")))]
pub(crate) async fn of_account(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    own_control_plugins(call.query())?;
    let mut fields = call.body::<FieldsBody<'_>>(JSON)?.properties()?;
    fields.extend(plugin_properties(call.query())?);
    let name = gateway(&call, account).await?;
    form(&call, &name, (account, fields)).await
}

/// Has a gateway make a page for the customer of an account, which is made where it is new.
///
/// The account is named by its id or its key; the caller needs `account:create` too where it is made. The gateway is
/// that of `paymentMethod.pluginName`. No payment method is made: the customer has entered none yet.
#[utoipa::path(post, path = "/1.0/kb/paymentGateways/hosted/form", tag = "PaymentGateway",
    operation_id = "hosted_form_with_account",
    params(("controlPluginName" = Option<Vec<String>>, Query), ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = ComboBody<'static>,
    responses((status = 200, body = FormJson<'static>),
        (status = "4XX", body = ErrorJson<'static>),
        (status = 503, body = ErrorJson<'static>, description = "The gateway cannot be asked now")))]
pub(crate) async fn with_account(call: Call) -> HandlerResult {
    own_control_plugins(call.query())?;
    let body: ComboBody<'_> = call.body(COMBO_JSON)?;
    let _audit_logs = body.audit_logs;
    let fields: Option<FieldsBody<'_>> =
        COMBO_JSON.object("hostedPaymentPageFields", body.hosted_payment_page_fields, JSON)?;
    let mut fields = fields.map(|it| it.properties()).transpose()?.unwrap_or_default();
    fields.extend(plugin_properties(call.query())?);
    let method: Option<PaymentMethodBody<'_>> =
        COMBO_JSON.object("paymentMethod", body.payment_method, payment_methods::JSON)?;
    let name = method.map(|it| it.gateway()).transpose()?.flatten();
    let name = name.ok_or_else(|| COMBO_JSON.missing("paymentMethod.pluginName"))?;
    // Before anything is made.
    registered(&call, &name)?;
    let account: Option<AccountBody<'_>> =
        COMBO_JSON.object("account", body.account, accounts::JSON)?;
    let account = account.ok_or_else(|| COMBO_JSON.missing("account"))?;
    let account = account_found_or_made(&call, &account).await?;
    exists(&call, account).await?;
    form(&call, &name, (account, fields)).await
}

fn registered(call: &Call, name: &str) -> Result<(), Failure> {
    if call.api.engine().has_gateway(name) {
        return Ok(());
    }
    let refused = PaymentRejection::GatewayNotRegistered { gateway: name.to_owned() };
    Err(Failure::Refused(Box::new(Rejection::Payment(refused))))
}

async fn exists(call: &Call, account: AccountId) -> Result<(), Failure> {
    let tenant = call.tenant();
    let found = call.read(move |queries| queries.account(tenant, account)).await?;
    found.map(drop).ok_or_else(|| no_account(account))
}

fn no_account(id: AccountId) -> Failure {
    Failure::Refused(Box::new(AccountRejection::NotFound { id }.into()))
}

async fn form(
    call: &Call,
    name: &str,
    (account, fields): (AccountId, Properties),
) -> HandlerResult {
    registered(call, name)?;
    let (tenant, request) = (call.tenant(), call.name_of_request()?);
    let request = FormRequest { tenant, request, account, fields };
    let form = call.api.engine().ask_for_form(name, request).await?;
    let form = form.map_err(|refused| match refused {
        RequestRefused::Unsupported => Failure::illegal(format!("pluginName: {name} has no page")),
        RequestRefused::Invalid(reason) => Failure::illegal(printable(&reason)),
        RequestRefused::Unavailable(reason) | RequestRefused::Unfit(reason) => {
            tracing::warn!(gateway = name, reason, "failed to make a page for a customer");
            let code = code::plain(StatusCode::SERVICE_UNAVAILABLE, class::REJECTED);
            Failure::coded(code, "the gateway cannot be asked for a page now")
        }
    })?;
    let fields = form.fields.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Ok(reply::ok(&FormJson {
        kb_account_id: account.uuid(),
        form_method: "GET",
        form_url: &form.url,
        form_fields: fields.collect(),
        properties: BTreeMap::new(),
    }))
}

/// The name of the gateway whose page is meant.
async fn gateway(call: &Call, account: AccountId) -> Result<String, Failure> {
    let named = call.query().text("pluginName")?.map(|it| it.into_owned());
    let method = call.query().text("paymentMethodId")?;
    let method = method.map(|it| it.parse::<Uuid>().map(PaymentMethodId::new));
    let method = method.transpose().map_err(|_| Failure::illegal("paymentMethodId is no UUID"))?;
    let tenant = call.tenant();
    let found = call.read(move |queries| {
        let Some(view) = queries.account(tenant, account)? else { return Ok(None) };
        let Some(id) = method.or(view.account.payment_method_id) else { return Ok(Some(None)) };
        let own = queries.payment_method(tenant, id)?.map(|it| it.method);
        Ok(Some(own.filter(|it| it.account_id == account && it.active)))
    });
    let of_method = found.await?.ok_or_else(|| no_account(account))?;
    let Some(name) = named.or(of_method.map(|it| it.gateway)) else {
        let message = "pluginName needs to be set: the account has no such payment method";
        return Err(Failure::illegal(message));
    };
    Ok(name)
}
