//! Payment methods: how an account pays. Add, read, list, search, make the default, delete.

use domain::payment_method::{CreatePaymentMethod, DeletePaymentMethod, SetDefaultPaymentMethod};
use domain::{AccountId, Command, EXTERNAL_PAYMENT, PaymentMethodId, Rejection, Reply};
use engine::ports::{HistoryOf, HistoryRow, MethodView, Queries, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::{Call, unexpected};
use crate::error::{ErrorJson, Failure, class, code};
use crate::json::{Json, Raw, parse};
use crate::page;
use crate::reply::{self, Answered};
use crate::request::{check_properties, plugin_properties, refuse_control_plugins};

const JSON: Json = Json("PaymentMethodJson");
const DETAIL_JSON: Json = Json("PaymentMethodPluginDetailJson");

/// How long a gateway's name may be, in characters.
const PLUGIN_NAME_CHARS_MAX: usize = 255;

/// Kill Bill's `PaymentMethodJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaymentMethodJson<'a> {
    payment_method_id: Uuid,
    external_key: String,
    account_id: Uuid,
    is_default: bool,
    #[schema(value_type = String)]
    plugin_name: &'a str,
    plugin_info: Option<PluginDetailJson>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// Kill Bill's `PaymentMethodPluginDetailJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginDetailJson {
    #[schema(value_type = String)]
    external_payment_method_id: &'static str,
    is_default_payment_method: bool,
    #[schema(value_type = Vec<Object>)]
    properties: [(); 0],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PaymentMethodBody<'a> {
    #[serde(borrow)]
    payment_method_id: Raw<'a>,
    #[serde(borrow)]
    external_key: Raw<'a>,
    #[serde(borrow)]
    account_id: Raw<'a>,
    #[serde(borrow)]
    is_default: Raw<'a>,
    #[serde(borrow)]
    plugin_name: Raw<'a>,
    #[serde(borrow)]
    plugin_info: Raw<'a>,
    #[serde(borrow)]
    audit_logs: Raw<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginDetailBody<'a> {
    #[serde(borrow)]
    external_payment_method_id: Raw<'a>,
    #[serde(borrow)]
    is_default_payment_method: Raw<'a>,
    #[serde(borrow)]
    properties: Raw<'a>,
}

impl PaymentMethodBody<'_> {
    /// The plugin properties of the query are kept with the method, after those of the body.
    fn create(&self, call: &Call) -> Result<CreatePaymentMethod, Failure> {
        // Read, so that what is no id is refused; the ids themselves are not the client's to set.
        JSON.id::<domain::kind::PaymentMethod>("paymentMethodId", self.payment_method_id)?;
        JSON.id::<domain::kind::Account>("accountId", self.account_id)?;
        JSON.boolean("isDefault", self.is_default)?;
        let _audit_logs = self.audit_logs;
        let gateway = JSON.text("pluginName", self.plugin_name, PLUGIN_NAME_CHARS_MAX)?;
        let gateway = gateway
            .filter(|name| !name.is_empty())
            .ok_or_else(|| Failure::illegal("PaymentMethodJson pluginName should be specified"))?;
        let query = call.query();
        let (external_payment_method_id, mut properties) = self.detail()?;
        properties.extend(plugin_properties(query)?);
        check_properties("pluginInfo.properties", &properties)?;
        Ok(CreatePaymentMethod {
            account: call.param_id("accountId")?,
            external_key: JSON.key("externalKey", self.external_key, class::PAYMENT)?,
            gateway,
            external_payment_method_id,
            properties,
            is_default: query.flag("isDefault"),
        })
    }

    fn detail(&self) -> Result<(Option<String>, domain::Properties), Failure> {
        let Some(raw) = self.plugin_info else { return Ok((None, vec![])) };
        let Some(it) = parse::<PluginDetailBody<'_>>(DETAIL_JSON, raw.get().as_bytes())? else {
            return Ok((None, vec![]));
        };
        DETAIL_JSON.boolean("isDefaultPaymentMethod", it.is_default_payment_method)?;
        let id = DETAIL_JSON.key(
            "externalPaymentMethodId",
            it.external_payment_method_id,
            class::PAYMENT,
        )?;
        Ok((id, DETAIL_JSON.properties("pluginInfo.properties", it.properties)?))
    }
}

/// What a read shows of a payment method beside the method.
#[derive(Clone, Copy)]
struct Shown {
    audit: AuditLevel,
    plugin_info: bool,
}

impl Shown {
    fn of(call: &Call) -> Result<Self, Failure> {
        let query = call.query();
        Ok(Self { audit: AuditLevel::of(query)?, plugin_info: query.flag("withPluginInfo") })
    }

    /// Details are a gateway's to tell. The external one tells these constants, and no other tells
    /// any so far; what a client stored with a method is for its gateway, and is not shown.
    fn json(self, (view, rows): &(MethodView, Vec<HistoryRow>)) -> PaymentMethodJson<'_> {
        let method = &view.method;
        let detail = || PluginDetailJson {
            external_payment_method_id: "unknown",
            is_default_payment_method: false,
            properties: [],
        };
        let key = method.external_key.clone();
        let told = self.plugin_info && method.gateway == EXTERNAL_PAYMENT;
        PaymentMethodJson {
            payment_method_id: method.id.uuid(),
            external_key: key.unwrap_or_else(|| method.id.to_string()),
            account_id: method.account_id.uuid(),
            is_default: view.is_default,
            plugin_name: &method.gateway,
            plugin_info: told.then(detail),
            audit_logs: self.audit.logs(rows),
        }
    }
}

fn with_rows(
    queries: &dyn Queries,
    audit: AuditLevel,
    view: MethodView,
) -> Result<(MethodView, Vec<HistoryRow>), StoreError> {
    let of = HistoryOf::PaymentMethod(view.method.id);
    let rows = audit.read(queries, view.method.tenant, of)?;
    Ok((view, rows))
}

fn no_payment_method(name: &str) -> Failure {
    let message = format!("Payment method {name} does not exist");
    Failure::coded(code::NO_SUCH_PAYMENT_METHOD, message)
}

/// Adds a payment method to an account.
#[utoipa::path(post, path = "/1.0/kb/accounts/{accountId}/paymentMethods", tag = "Account", operation_id = "add_payment_method",
    params(("accountId" = Uuid, Path), ("isDefault" = Option<bool>, Query),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = PaymentMethodJson<'static>,
    responses((status = 201, description = "Created; Location names it"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create(call: Call) -> Answered {
    refuse_control_plugins(call.query())?;
    let it = call.body::<PaymentMethodBody<'_>>(JSON)?.create(&call)?;
    let Reply::PaymentMethodCreated(id) = call.submit(Command::CreatePaymentMethod(it)).await?
    else {
        unexpected()
    };
    let id = id.to_string();
    Ok(reply::created(call.location(&["/1.0/kb/paymentMethods/", &id])))
}

/// Lists an account's payment methods.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/paymentMethods", tag = "Account", operation_id = "payment_methods",
    params(("accountId" = Uuid, Path), ("withPluginInfo" = Option<bool>, Query),
        ("includedDeleted" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [PaymentMethodJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> Answered {
    let account: AccountId = call.param_id("accountId")?;
    let (shown, tenant) = (Shown::of(&call)?, call.tenant());
    let deleted_too = call.query().flag("includedDeleted");
    let found = call.read(move |queries| {
        if queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        let mut views = queries.payment_methods_of(tenant, account)?;
        // Kill Bill shows the newest first, but all of them in the order they were made.
        if !deleted_too {
            views.retain(|view| view.method.active);
            views.reverse();
        }
        let with_rows = |view| with_rows(queries, shown.audit, view);
        views.into_iter().map(with_rows).collect::<Result<Vec<_>, _>>().map(Some)
    });
    match found.await? {
        Some(found) => {
            let body: Vec<_> = found.iter().map(|it| shown.json(it)).collect();
            Ok(reply::ok(&body))
        }
        None => Err(Failure::Refused(Box::new(Rejection::AccountNotFound { id: account }))),
    }
}

/// Reads a payment method.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods/{paymentMethodId}", tag = "PaymentMethod",
    params(("paymentMethodId" = Uuid, Path), ("includedDeleted" = Option<bool>, Query),
        ("withPluginInfo" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentMethodJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> Answered {
    let id: PaymentMethodId = call.param_id("paymentMethodId")?;
    let name = id.to_string();
    read_one(call, name, move |queries, tenant| queries.payment_method(tenant, id)).await
}

/// Reads a payment method by its key.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods", tag = "PaymentMethod",
    params(("externalKey" = String, Query), ("includedDeleted" = Option<bool>, Query),
        ("withPluginInfo" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentMethodJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_key(call: Call) -> Answered {
    let key = call.query().text("externalKey")?.map(|key| key.into_owned());
    let Some(key) = key else { return Err(no_payment_method("null")) };
    let wanted = key.clone();
    read_one(call, key, move |queries, tenant| queries.payment_method_by_key(tenant, &wanted)).await
}

async fn read_one<F>(call: Call, name: String, find: F) -> Answered
where
    F: FnOnce(&dyn Queries, domain::TenantNo) -> Result<Option<MethodView>, StoreError>
        + Send
        + 'static,
{
    let (shown, tenant) = (Shown::of(&call)?, call.tenant());
    let deleted_too = call.query().flag("includedDeleted");
    let found = call.read(move |queries| {
        let view = find(queries, tenant)?.filter(|view| view.method.active || deleted_too);
        view.map(|view| with_rows(queries, shown.audit, view)).transpose()
    });
    match found.await? {
        Some(found) => Ok(reply::ok(&shown.json(&found))),
        None => Err(no_payment_method(&name)),
    }
}

/// Lists payment methods.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods/pagination", tag = "PaymentMethod",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("pluginName" = Option<String>, Query), ("withPluginInfo" = Option<bool>, Query),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [PaymentMethodJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> Answered {
    let window = page::parse(call.query())?;
    let (shown, tenant) = (Shown::of(&call)?, call.tenant());
    let gateway = call.query().text("pluginName")?.unwrap_or_default().into_owned();
    let wanted = Some(gateway.clone()).filter(|name| !name.is_empty());
    let paged = call.read(move |queries| {
        let paged = queries.payment_methods(tenant, wanted.as_deref(), window)?;
        page::with(paged, |view| with_rows(queries, shown.audit, view))
    });
    let paged = paged.await?;
    let body: Vec<_> = paged.items.iter().map(|it| shown.json(it)).collect();
    let more = [("pluginName", gateway.as_str()), ("audit", shown.audit.name())];
    Ok(page::answer(&body, &paged, window, ("/1.0/kb/paymentMethods/pagination", &more)))
}

/// Searches payment methods.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods/search/{searchKey}", tag = "PaymentMethod",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query),
        ("limit" = Option<u64>, Query), ("audit" = Option<String>, Query), ("pluginName" = Option<String>, Query), ("withPluginInfo" = Option<bool>, Query)),
    responses((status = 200, body = [PaymentMethodJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> Answered {
    let text = call.param("searchKey")?.into_owned();
    let window = page::parse(call.query())?;
    let (shown, tenant) = (Shown::of(&call)?, call.tenant());
    let wanted = text.clone();
    let paged = call.read(move |queries| {
        let paged = queries.search_payment_methods(tenant, &wanted, window)?;
        page::with(paged, |view| with_rows(queries, shown.audit, view))
    });
    let paged = paged.await?;
    let body: Vec<_> = paged.items.iter().map(|it| shown.json(it)).collect();
    let path = format!("/1.0/kb/paymentMethods/search/{}", reply::segment(&text));
    let more = [("pluginName", ""), ("audit", shown.audit.name())];
    Ok(page::answer(&body, &paged, window, (&path, &more)))
}

/// Makes a payment method the account's default.
#[utoipa::path(put, tag = "Account", operation_id = "set_default_payment_method",
    path = "/1.0/kb/accounts/{accountId}/paymentMethods/{paymentMethodId}/setDefault",
    params(("accountId" = Uuid, Path), ("paymentMethodId" = Uuid, Path), ("pluginProperty" = Option<Vec<String>>, Query)),
    responses((status = 204, description = "It is the default"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn set_default(call: Call) -> Answered {
    plugin_properties(call.query())?;
    let it = SetDefaultPaymentMethod {
        account: call.param_id("accountId")?,
        payment_method: call.param_id("paymentMethodId")?,
    };
    call.submit_change(Command::SetDefaultPaymentMethod(it)).await?;
    Ok(reply::no_content())
}

/// Asks gateways for methods that they know and we do not: no gateway so far keeps any of its own.
#[utoipa::path(put, path = "/1.0/kb/accounts/{accountId}/paymentMethods/refresh", tag = "Account", operation_id = "refresh_payment_methods",
    params(("accountId" = Uuid, Path), ("pluginName" = Option<String>, Query), ("pluginProperty" = Option<Vec<String>>, Query)),
    responses((status = 204, description = "Nothing had to change"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn refresh(call: Call) -> Answered {
    let account: AccountId = call.param_id("accountId")?;
    plugin_properties(call.query())?;
    if let Some(gateway) = call.query().text("pluginName")?.filter(|name| !name.is_empty())
        && call.door.engine().settings().gateway(&gateway).is_none()
    {
        let gateway = gateway.into_owned();
        return Err(Failure::Refused(Box::new(Rejection::GatewayNotRegistered { gateway })));
    }
    let tenant = call.tenant();
    match call.read(move |queries| queries.account(tenant, account)).await? {
        Some(_) => Ok(reply::no_content()),
        None => Err(Failure::Refused(Box::new(Rejection::AccountNotFound { id: account }))),
    }
}

/// Deletes a payment method.
#[utoipa::path(delete, path = "/1.0/kb/paymentMethods/{paymentMethodId}", tag = "PaymentMethod",
    params(("paymentMethodId" = Uuid, Path),
        ("deleteDefaultPmWithAutoPayOff" = Option<bool>, Query),
        ("forceDefaultPmDeletion" = Option<bool>, Query), ("pluginProperty" = Option<Vec<String>>, Query)),
    responses((status = 204, description = "Deleted"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete(call: Call) -> Answered {
    let query = call.query();
    plugin_properties(query)?;
    let even_if_default = query.flag("forceDefaultPmDeletion");
    let suspends = query.flag("deleteDefaultPmWithAutoPayOff");
    let payment_method = call.param_id("paymentMethodId")?;
    let mut auto_pay_off = None;
    if suspends {
        let tenant = call.tenant();
        let read = call.read(move |queries| queries.payment_method(tenant, payment_method));
        let none = || Rejection::PaymentMethodNotFound { id: payment_method };
        let found = read.await?.ok_or_else(|| Failure::Refused(Box::new(none())))?;
        auto_pay_off = Some(found.method.account_id);
    }
    let it = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
    call.submit_change(Command::DeletePaymentMethod(it)).await?;
    Ok(reply::no_content())
}
