//! Payment methods: how an account pays. Add, read, list, search, make the default, delete.

use domain::PaymentMethod;
use domain::account::payment_method::{
    CreatePaymentMethod, DeletePaymentMethod, MethodRefused, RefusalCause, SetDefaultPaymentMethod,
};
use domain::command::AccountCommand;
use domain::payment::MethodAtGateway;
use domain::payment::combo::ComboMethod;
use domain::reply::AccountReply;
use domain::{
    AccountId, AccountRejection, Command, EXTERNAL_PAYMENT, PaymentMethodId, PaymentRejection,
    Properties, Rejection, Reply, TenantNo,
};
use engine::ports::{HistoryOf, HistoryRow, MethodView, Page, Queries, RequestRefused, StoreError};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::audit::{AuditLevel, AuditLogJson};
use crate::call::{Call, unexpected};
use crate::error::{ErrorJson, Failure, HandlerResult, Problem, RETRY_AFTER_UNKNOWN, class, code};
use crate::json::{Json, PropertyBody, Raw, parse};
use crate::page::{self, RowFormat};
use crate::payment_rules::own_control_plugins;
use crate::reply;
use crate::request::{check_properties, plugin_properties, printable};

pub(crate) const JSON: Json = Json("PaymentMethodJson");
const DETAIL_JSON: Json = Json("PaymentMethodPluginDetailJson");

/// The meaning of `controlPluginName` here.
const CONTROL_PLUGIN: &str =
    "A control plugin that there is: they decide about payments, not about methods; repeatable";

/// The longest name of a gateway, in characters.
const PLUGIN_NAME_CHARS_MAX: usize = 255;

/// Kill Bill's `PaymentMethodJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaymentMethodJson<'a> {
    payment_method_id: Uuid,
    external_key: String,
    account_id: Uuid,
    is_default: bool,
    plugin_name: &'a str,
    plugin_info: Option<PluginDetailJson>,
    audit_logs: Vec<AuditLogJson<'a>>,
}

/// Kill Bill's `PaymentMethodPluginDetailJson`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginDetailJson {
    external_payment_method_id: &'static str,
    is_default_payment_method: bool,
    #[schema(value_type = Vec<Object>)]
    properties: [(); 0],
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PaymentMethodRequest)]
pub(crate) struct PaymentMethodBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    payment_method_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    external_key: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Uuid>)]
    account_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_default: Raw<'a>,
    /// Required where the method is made.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    plugin_name: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<PluginDetailBody<'static>>)]
    plugin_info: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    audit_logs: Raw<'a>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PluginDetailRequest)]
struct PluginDetailBody<'a> {
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    external_payment_method_id: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<bool>)]
    is_default_payment_method: Raw<'a>,
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<PropertyBody<'static>>>)]
    properties: Raw<'a>,
}

impl PaymentMethodBody<'_> {
    /// The method stores the plugin properties of the body, then those of the query.
    fn create(&self, call: &Call) -> Result<CreatePaymentMethod, Failure> {
        self.check_ignored()?;
        self.id()?;
        let gateway = self
            .gateway()?
            .ok_or_else(|| Failure::illegal("PaymentMethodJson pluginName should be specified"))?;
        let query = call.query();
        let (external_payment_method_id, mut properties) = self.detail()?;
        properties.extend(plugin_properties(query)?);
        check_properties("pluginInfo.properties", &properties)?;
        Ok(CreatePaymentMethod {
            account: call.param_id("accountId")?,
            external_key: self.key()?,
            gateway,
            external_payment_method_id,
            properties,
            is_default: query.flag("isDefault"),
            is_attached: false,
        })
    }

    /// The method of a combo payment, which stores the plugin properties of the body, then `more`.
    pub(crate) fn combo(&self, more: Properties) -> Result<ComboMethod, Failure> {
        self.check_ignored()?;
        let (external_payment_method_id, mut properties) = self.detail()?;
        properties.extend(more);
        check_properties("pluginInfo.properties", &properties)?;
        Ok(ComboMethod {
            id: self.id()?,
            external_key: self.key()?,
            gateway: self.gateway()?,
            external_payment_method_id,
            properties,
        })
    }

    /// Validates the ignored fields: an invalid id or flag is refused.
    fn check_ignored(&self) -> Result<(), Failure> {
        JSON.id::<domain::kind::Account>("accountId", self.account_id)?;
        JSON.boolean("isDefault", self.is_default)?;
        let _audit_logs = self.audit_logs;
        Ok(())
    }

    fn id(&self) -> Result<Option<PaymentMethodId>, Failure> {
        JSON.id("paymentMethodId", self.payment_method_id)
    }

    fn key(&self) -> Result<Option<String>, Failure> {
        JSON.key("externalKey", self.external_key, class::PAYMENT)
    }

    pub(crate) fn gateway(&self) -> Result<Option<String>, Failure> {
        let name = JSON.text("pluginName", self.plugin_name, PLUGIN_NAME_CHARS_MAX)?;
        Ok(name.filter(|name| !name.is_empty()))
    }

    fn detail(&self) -> Result<(Option<String>, Properties), Failure> {
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

/// The parts that a response includes beside the payment method.
#[derive(Clone, Copy)]
struct ReadOptions {
    audit: AuditLevel,
    plugin_info: bool,
}

impl RowFormat for ReadOptions {
    type Row = MethodView;
    type Audited = (MethodView, Vec<HistoryRow>);
    type Json<'a> = PaymentMethodJson<'a>;

    fn of(call: &Call) -> Result<Self, Failure> {
        let query = call.query();
        Ok(Self { audit: AuditLevel::of(query)?, plugin_info: query.flag("withPluginInfo") })
    }

    fn reads_audit(self) -> bool {
        self.audit != AuditLevel::None
    }

    fn with_audit(
        self,
        queries: &dyn Queries,
        view: MethodView,
    ) -> Result<Self::Audited, StoreError> {
        let of = HistoryOf::new::<PaymentMethod>(view.method.id.uuid());
        let rows = self.audit.read(queries, view.method.tenant, of)?;
        Ok((view, rows))
    }

    /// Details come from the gateway: the external gateway returns these constants, and no other
    /// gateway returns any. The properties that the client stored are for the gateway only.
    fn json(self, (view, rows): &Self::Audited) -> PaymentMethodJson<'_> {
        let method = &view.method;
        let detail = || PluginDetailJson {
            external_payment_method_id: "unknown",
            is_default_payment_method: false,
            properties: [],
        };
        let key = method.external_key.clone();
        let has_details = self.plugin_info && method.gateway == EXTERNAL_PAYMENT;
        PaymentMethodJson {
            payment_method_id: method.id.uuid(),
            external_key: key.unwrap_or_else(|| method.id.to_string()),
            account_id: method.account_id.uuid(),
            is_default: view.is_default,
            plugin_name: &method.gateway,
            plugin_info: has_details.then(detail),
            audit_logs: self.audit.logs(rows),
        }
    }
}

fn no_payment_method(name: &str) -> Failure {
    let message = format!("Payment method {name} does not exist");
    Failure::coded(code::NO_SUCH_PAYMENT_METHOD, message)
}

/// Adds a payment method to an account.
#[utoipa::path(post, path = "/1.0/kb/accounts/{accountId}/paymentMethods", tag = "Account", operation_id = "add_payment_method",
    params(
        ("accountId" = Uuid, Path),
        ("isDefault" = Option<bool>, Query, description = "Makes it the account's default"),
        ("controlPluginName" = Option<Vec<String>>, Query, description = CONTROL_PLUGIN),
        ("pluginProperty" = Option<Vec<String>>, Query)),
    request_body = PaymentMethodBody<'static>,
    responses((status = 201, description = "Created, and attached where its gateway does that; Location names it"),
        (status = 402, body = ErrorJson<'static>, description = "The gateway refuses it"),
        (status = 502, body = ErrorJson<'static>, description = "The gateway was not reached: it was not added"),
        (status = 504, body = ErrorJson<'static>, description = "Not known yet whether it was attached: active once it is; Location names it"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn create(call: Call) -> HandlerResult {
    own_control_plugins(call.query())?;
    let it = call.body::<PaymentMethodBody<'_>>(JSON)?.create(&call)?;
    let command = Command::Account(AccountCommand::CreatePaymentMethod(it));
    let Reply::Account(reply) = call.submit(command).await? else { unexpected() };
    let location =
        |id: PaymentMethodId| call.location(&["/1.0/kb/paymentMethods/", &id.to_string()]);
    match reply {
        AccountReply::PaymentMethodCreated(id) => Ok(reply::created(location(id))),
        AccountReply::PaymentMethodPending(id) => {
            let message = format!("Plugin timeout for payment method {id}: no answer in time");
            let problem = Problem::new(code::PLUGIN_TIMEOUT, message);
            let is_repeatable = call.is_repeatable();
            Err(Failure::Problem(Box::new(Problem {
                location: Some(location(id)),
                is_unknown: true,
                retry_after: is_repeatable.then_some(RETRY_AFTER_UNKNOWN),
                ..problem
            })))
        }
        AccountReply::PaymentMethodRefused(it) => Err(refused(&it)),
        AccountReply::Created(_) => unexpected(),
    }
}

/// A payment method that was not attached at its gateway.
fn refused(it: &MethodRefused) -> Failure {
    let (status, message) = match &it.cause {
        RefusalCause::Gateway { code } => {
            let code = code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
            let message = format!("Payment method refused by gateway{code}: {}", it.message);
            (StatusCode::PAYMENT_REQUIRED, message)
        }
        RefusalCause::Method => return Failure::illegal(it.message.clone()),
        RefusalCause::NotReached => {
            (StatusCode::BAD_GATEWAY, format!("Payment method was not added: {}", it.message))
        }
    };
    Failure::coded(code::plain(status, class::PAYMENT), message)
}

/// Lists an account's payment methods.
#[utoipa::path(get, path = "/1.0/kb/accounts/{accountId}/paymentMethods", tag = "Account", operation_id = "payment_methods",
    params(("accountId" = Uuid, Path), ("withPluginInfo" = Option<bool>, Query,
            description = "Fills `pluginInfo` of methods of `__EXTERNAL_PAYMENT__`; other gateways show none"),
        ("includedDeleted" = Option<bool>, Query), ("audit" = Option<String>, Query)),
    responses((status = 200, body = [PaymentMethodJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list_of_account(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    let includes_deleted = call.query().flag("includedDeleted");
    page::list_of_account::<ReadOptions>(&call, account, move |queries, tenant| {
        if queries.account(tenant, account)?.is_none() {
            return Ok(None);
        }
        let mut views = queries.payment_methods_of(tenant, account)?;
        // Kill Bill lists the newest first, but in the order of creation if deleted ones are included.
        if !includes_deleted {
            views.retain(|view| view.method.active);
            views.reverse();
        }
        Ok(Some(views))
    })
    .await
}

/// Reads a payment method.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods/{paymentMethodId}", tag = "PaymentMethod",
    params(("paymentMethodId" = Uuid, Path), ("includedDeleted" = Option<bool>, Query),
        ("withPluginInfo" = Option<bool>, Query,
            description = "Fills `pluginInfo` of methods of `__EXTERNAL_PAYMENT__`; other gateways show none"), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentMethodJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get(call: Call) -> HandlerResult {
    let id: PaymentMethodId = call.param_id("paymentMethodId")?;
    let name = id.to_string();
    read_one(&call, &name, move |queries, tenant| queries.payment_method(tenant, id)).await
}

/// Reads a payment method by its key.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods", tag = "PaymentMethod",
    params(("externalKey" = String, Query), ("includedDeleted" = Option<bool>, Query),
        ("withPluginInfo" = Option<bool>, Query,
            description = "Fills `pluginInfo` of methods of `__EXTERNAL_PAYMENT__`; other gateways show none"), ("audit" = Option<String>, Query)),
    responses((status = 200, body = PaymentMethodJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn get_by_key(call: Call) -> HandlerResult {
    let key = call.query().text("externalKey")?.map(|key| key.into_owned());
    let Some(key) = key else { return Err(no_payment_method("null")) };
    let wanted = key.clone();
    read_one(&call, &key, move |queries, tenant| queries.payment_method_by_key(tenant, &wanted))
        .await
}

async fn read_one(
    call: &Call,
    name: &str,
    find: impl FnOnce(&dyn Queries, TenantNo) -> Result<Option<MethodView>, StoreError> + Send + 'static,
) -> HandlerResult {
    let options = ReadOptions::of(call)?;
    let includes_deleted = call.query().flag("includedDeleted");
    let find = move |queries: &dyn Queries, tenant| {
        let view = find(queries, tenant)?;
        Ok(view.filter(|view| view.method.active || includes_deleted))
    };
    match page::read_one(call, options, find).await? {
        Some(found) => Ok(reply::ok(&options.json(&found))),
        None => Err(no_payment_method(name)),
    }
}

/// Lists payment methods.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods/pagination", tag = "PaymentMethod",
    params(("offset" = Option<u64>, Query), ("limit" = Option<u64>, Query),
        ("pluginName" = Option<String>, Query), ("withPluginInfo" = Option<bool>, Query,
            description = "Fills `pluginInfo` of methods of `__EXTERNAL_PAYMENT__`; other gateways show none"),
        ("audit" = Option<String>, Query)),
    responses((status = 200, body = [PaymentMethodJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn list(call: Call) -> HandlerResult {
    let options = ReadOptions::of(&call)?;
    let url = ("/1.0/kb/paymentMethods/pagination", options.audit.name());
    page::list_of_gateway(&call, options, url, |queries, tenant, page| {
        queries.payment_methods(tenant, page)
    })
    .await
}

/// Searches payment methods.
///
/// Finds one by its id, its account's id or its whole key. Where there is none, finds all whose key contains
/// the text, which looks at every payment method of the tenant.
#[utoipa::path(get, path = "/1.0/kb/paymentMethods/search/{searchKey}", tag = "PaymentMethod",
    params(("searchKey" = String, Path), ("offset" = Option<u64>, Query),
        ("limit" = Option<u64>, Query), ("audit" = Option<String>, Query), ("pluginName" = Option<String>, Query), ("withPluginInfo" = Option<bool>, Query,
            description = "Fills `pluginInfo` of methods of `__EXTERNAL_PAYMENT__`; other gateways show none")),
    responses((status = 200, body = [PaymentMethodJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> HandlerResult {
    let text = call.param("searchKey")?.into_owned();
    let window = page::parse(call.query())?;
    let options = ReadOptions::of(&call)?;
    let path = format!("/1.0/kb/paymentMethods/search/{}", reply::segment(&text));
    let more = [("pluginName", ""), ("audit", options.audit.name())];
    let gateway = page::gateway(&call)?;
    let (name, of) = (text.clone(), gateway.clone());
    let find = (
        move |queries: &dyn Queries, tenant, page: Page| {
            queries.payment_methods_named(tenant, &name, page.of_gateway(of.as_deref()))
        },
        move |queries: &dyn Queries, tenant, page: Page| {
            queries.search_payment_methods(tenant, &text, page.of_gateway(gateway.as_deref()))
        },
    );
    page::search(&call, options, window, (&path, &more), find).await
}

/// Makes a payment method the account's default.
#[utoipa::path(put, tag = "Account", operation_id = "set_default_payment_method",
    path = "/1.0/kb/accounts/{accountId}/paymentMethods/{paymentMethodId}/setDefault",
    params(
        ("accountId" = Uuid, Path), ("paymentMethodId" = Uuid, Path),
        ("controlPluginName" = Option<Vec<String>>, Query, description = CONTROL_PLUGIN),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    responses((status = 204, description = "It is the default"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn set_default(call: Call) -> HandlerResult {
    own_control_plugins(call.query())?;
    plugin_properties(call.query())?;
    let it = SetDefaultPaymentMethod {
        account: call.param_id("accountId")?,
        payment_method: call.param_id("paymentMethodId")?,
    };
    call.submit_change(Command::Account(AccountCommand::SetDefaultPaymentMethod(it))).await?;
    Ok(reply::no_content())
}

/// Adds the payment methods that the account's customer has at the gateway, and that are not known here.
///
/// Without `pluginName` at each gateway that keeps methods. None is deleted: one that is gone at the gateway is
/// declined there.
#[utoipa::path(put, path = "/1.0/kb/accounts/{accountId}/paymentMethods/refresh", tag = "Account", operation_id = "refresh_payment_methods",
    params(
        ("accountId" = Uuid, Path), ("pluginName" = Option<String>, Query),
        ("controlPluginName" = Option<Vec<String>>, Query, description = CONTROL_PLUGIN),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    responses((status = 204, description = "Those of the gateway are known here"),
        (status = "4XX", body = ErrorJson<'static>),
        (status = 503, body = ErrorJson<'static>, description = "The gateway cannot be asked now")))]
pub(crate) async fn refresh(call: Call) -> HandlerResult {
    let account: AccountId = call.param_id("accountId")?;
    own_control_plugins(call.query())?;
    plugin_properties(call.query())?;
    let named = call.query().text("pluginName")?.filter(|name| !name.is_empty());
    let gateways: Vec<String> = match &named {
        Some(name) => vec![name.clone().into_owned()],
        None => call.api.engine().settings().gateways.keys().cloned().collect(),
    };
    let tenant = call.tenant();
    if call.read(move |queries| queries.account(tenant, account)).await?.is_none() {
        let rejection = AccountRejection::NotFound { id: account };
        return Err(Failure::Refused(Box::new(Rejection::Account(rejection))));
    }
    for name in gateways {
        if !call.api.engine().has_gateway(&name) {
            let rejection = PaymentRejection::GatewayNotRegistered { gateway: name };
            return Err(Failure::Refused(Box::new(Rejection::Payment(rejection))));
        }
        match call.api.engine().ask_for_methods(&name, (tenant, account)).await? {
            Ok(found) => add_unknown(&call, (account, name), found).await?,
            Err(RequestRefused::Unsupported) => {}
            // The tenant does not use it.
            Err(RequestRefused::Invalid(_)) if named.is_none() => {}
            Err(RequestRefused::Invalid(reason)) => {
                return Err(Failure::illegal(printable(&reason)));
            }
            Err(RequestRefused::Unavailable(reason) | RequestRefused::Unfit(reason)) => {
                tracing::warn!(
                    gateway = name,
                    reason,
                    "failed to read a customer's payment methods"
                );
                let code = code::plain(StatusCode::SERVICE_UNAVAILABLE, class::REJECTED);
                return Err(Failure::coded(code, "the gateway cannot be asked now"));
            }
        }
    }
    Ok(reply::no_content())
}

/// Adds the methods of a gateway that no active method of the account stands for.
async fn add_unknown(
    call: &Call,
    (account, gateway): (AccountId, String),
    found: Vec<MethodAtGateway>,
) -> Result<(), Failure> {
    let tenant = call.tenant();
    let known = call.read(move |queries| queries.payment_methods_of(tenant, account)).await?;
    let is_known = |it: &MethodAtGateway| {
        let ids = known.iter().filter(|known| known.method.active);
        let mut ids = ids.filter_map(|it| it.method.external_payment_method_id.as_deref());
        ids.any(|id| id == it.external_id)
    };
    for MethodAtGateway { external_id, properties } in found.into_iter().filter(|it| !is_known(it))
    {
        let it = CreatePaymentMethod {
            account,
            external_key: None,
            gateway: gateway.clone(),
            external_payment_method_id: Some(external_id),
            properties,
            is_default: false,
            is_attached: true,
        };
        call.submit(Command::Account(AccountCommand::CreatePaymentMethod(it))).await?;
    }
    Ok(())
}

/// Deletes a payment method.
///
/// The default one only with `forceDefaultPmDeletion`, or with `deleteDefaultPmWithAutoPayOff`, which tags its
/// account `AUTO_PAY_OFF`.
#[utoipa::path(delete, path = "/1.0/kb/paymentMethods/{paymentMethodId}", tag = "PaymentMethod",
    params(
        ("paymentMethodId" = Uuid, Path),
        ("deleteDefaultPmWithAutoPayOff" = Option<bool>, Query,
            description = "Deletes a default method and tags its account `AUTO_PAY_OFF`"),
        ("forceDefaultPmDeletion" = Option<bool>, Query, description = "Deletes a default method"),
        ("controlPluginName" = Option<Vec<String>>, Query, description = CONTROL_PLUGIN),
        ("pluginProperty" = Option<Vec<String>>, Query,
            description = "Taken for Kill Bill's clients, and has no effect")),
    responses((status = 204, description = "Deleted"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete(call: Call) -> HandlerResult {
    let query = call.query();
    own_control_plugins(query)?;
    plugin_properties(query)?;
    let even_if_default = query.flag("forceDefaultPmDeletion");
    let suspends = query.flag("deleteDefaultPmWithAutoPayOff");
    let payment_method = call.param_id("paymentMethodId")?;
    let mut auto_pay_off = None;
    if suspends {
        let tenant = call.tenant();
        let read = call.read(move |queries| queries.payment_method(tenant, payment_method));
        let none =
            || Rejection::Account(AccountRejection::PaymentMethodNotFound { id: payment_method });
        let found = read.await?.ok_or_else(|| Failure::Refused(Box::new(none())))?;
        auto_pay_off = Some(found.method.account_id);
    }
    let it = DeletePaymentMethod { payment_method, even_if_default, auto_pay_off };
    call.submit_change(Command::Account(AccountCommand::DeletePaymentMethod(it))).await?;
    Ok(reply::no_content())
}
