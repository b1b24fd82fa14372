//! A tenant's values: its settings, configurations of plugins, and values under keys of its own.

use std::borrow::Cow;

use domain::Command;
use domain::command::TenantCommand;
use domain::tenant::payment_rules::{RulesPart, Settings};
use domain::tenant::{
    AppendTenantValue, CATALOG, CATALOG_TRANSLATION, INVOICE_MP_TEMPLATE, INVOICE_TEMPLATE,
    INVOICE_TRANSLATION, OVERDUE_CONFIG, PAYMENT_STATE_MACHINE, PLUGIN_CONFIGURATION,
    PUSH_CALLBACK, RulesSource, SETTINGS, SetTenantValue, TenantValue, VALUES_BYTES_MAX,
    WEBHOOK_ENDPOINTS, is_reserved_key,
};
use engine::ports::{Queries, RequestRefused};
use http::StatusCode;
use ring::digest;
use secrets::{Purpose, Sealer};

use crate::call::Call;
use crate::catalog;
use crate::currencies;
use crate::error::{ErrorJson, Failure, HandlerResult, class, code};
use crate::payment_rules;
use crate::reply;
use crate::request::printable;
use crate::routing::routing_rules;
use crate::tenants::TenantValueJson;

/// The longest key, in characters (Kill Bill's column).
const KEY_CHARS_MAX: usize = 255;
/// SHA-256 of Kill Bill's payment state machine, the only one that is executed here: `PaymentStates.xml` in
/// `org.kill-bill.billing:killbill-payment`, the same from 0.22.0 to 0.25.4.
const STATE_MACHINE_SHA256: [u8; 32] = [
    0x01, 0x38, 0x4a, 0x44, 0x0f, 0x00, 0x2d, 0xa5, 0xf0, 0xe0, 0xa9, 0xd4, 0x6b, 0x74, 0xb4, 0x4f,
    0xee, 0x58, 0x67, 0x39, 0x9e, 0x20, 0xdf, 0xaf, 0xa9, 0x59, 0x9d, 0x9e, 0xb7, 0x71, 0xaa, 0x52,
];

/// How many keys a search finds at most.
const FOUND_MAX: usize = 1_000;

/// Kill Bill's keys with what writes them, each by its name or by what it begins with. Their values are read by their
/// keys too, as those of a tenant's own.
const ROUTES_OF_KEYS: [(&str, &str); 10] = [
    (PUSH_CALLBACK, "/1.0/kb/tenants/registerNotificationCallback"),
    (SETTINGS, "/1.0/kb/tenants/uploadPerTenantConfig"),
    (CATALOG_TRANSLATION, "/1.0/kb/invoices/catalogTranslation/{locale}"),
    (CATALOG, "/1.0/kb/catalog/xml"),
    (OVERDUE_CONFIG, "/1.0/kb/overdue/xml"),
    (PLUGIN_CONFIGURATION, "/1.0/kb/tenants/uploadPluginConfig/{pluginName}"),
    (PAYMENT_STATE_MACHINE, "/1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/{pluginName}"),
    (INVOICE_MP_TEMPLATE, "/1.0/kb/invoices/manualPayTemplate"),
    (INVOICE_TEMPLATE, "/1.0/kb/invoices/template"),
    (INVOICE_TRANSLATION, "/1.0/kb/invoices/translation/{locale}"),
];

/// The permission to store values, and to read configurations of plugins whole.
const ADD: &str = "tenant_kvs:add";
/// The text that callers without it read in place of a plugin's configuration.
const MASKED: &str = "***";

/// Stores the tenant's settings, in place of those before: a JSON object of names with texts.
#[utoipa::path(post, path = "/1.0/kb/tenants/uploadPerTenantConfig", tag = "Tenant",
    operation_id = "set_settings",
    request_body(content = String, content_type = "text/plain"),
    responses((status = 201, description = "Stored"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn set_settings(call: Call) -> HandlerResult {
    let text = text(&call, "perTenantConfig")?;
    let settings = payment_rules::settings(&text)
        .map_err(|reason| Failure::illegal(format!("perTenantConfig {reason}")))?;
    currencies::check_setting(&text)
        .map_err(|reason| Failure::illegal(format!("perTenantConfig {reason}")))?;
    let rules = (settings != Settings::default()).then_some(RulesPart::Settings(settings));
    set(&call, SetTenantValue { key: SETTINGS.to_owned(), value: Some(text), rules }).await?;
    Ok(created(&call))
}

/// Reads the tenant's settings.
#[utoipa::path(get, path = "/1.0/kb/tenants/uploadPerTenantConfig", tag = "Tenant",
    operation_id = "settings",
    responses((status = 200, body = TenantValueJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn settings(call: Call) -> HandlerResult {
    read(call, SETTINGS.to_owned()).await
}

/// Deletes the tenant's settings.
#[utoipa::path(delete, path = "/1.0/kb/tenants/uploadPerTenantConfig", tag = "Tenant",
    operation_id = "delete_settings",
    responses((status = 204, description = "There are none now"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete_settings(call: Call) -> HandlerResult {
    delete(call, SETTINGS.to_owned()).await
}

/// Lists what is stored under keys that begin so, at most 1,000 keys.
#[utoipa::path(get, path = "/1.0/kb/tenants/uploadPerTenantConfig/{keyPrefix}/search", tag = "Tenant",
    operation_id = "search_values",
    params(("keyPrefix" = String, Path, description = "What the keys begin with")),
    responses((status = 200, body = [TenantValueJson<'static>]),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn search(call: Call) -> HandlerResult {
    let prefix = call.param("keyPrefix")?.into_owned();
    let tenant = call.tenant();
    let api = call.api.clone();
    // All values of a tenant are megabytes: they are read and written as JSON on the thread of a scan, a few at a
    // time, however many ask.
    let query = move |queries: &dyn Queries| {
        let found = queries.tenant_values(tenant, &prefix, FOUND_MAX)?;
        let found = found.iter().map(|it| json(&call, it)).collect::<Result<Vec<_>, _>>();
        Ok(found.map(|it| reply::encode(&it)))
    };
    Ok(reply::ok_encoded(api.engine().scan(tenant, query).await??))
}

/// Stores the configuration of a plugin, encrypted, in place of the one before. Any name is taken, also of
/// a plugin that is not here. Those of `faregate-rules` and `faregate-router` hold from the next payments on.
#[utoipa::path(post, path = "/1.0/kb/tenants/uploadPluginConfig/{pluginName}", tag = "Tenant",
    operation_id = "set_plugin_configuration",
    params(("pluginName" = String, Path)),
    request_body(content = String, content_type = "text/plain"),
    responses((status = 201, description = "Stored"),
        (status = "4XX", body = ErrorJson<'static>),
        (status = 501, body = ErrorJson<'static>, description = "There is no key to encrypt it with")))]
pub(crate) async fn set_plugin(call: Call) -> HandlerResult {
    let key = key_of_plugin(&call, PLUGIN_CONFIGURATION)?;
    let text = text(&call, "pluginConfig")?;
    let rules = match RulesSource::of(&key) {
        Some(RulesSource::FaregateRules) => Some(RulesPart::Limits(payment_rules::limits(&text)?)),
        Some(RulesSource::Gateway(name)) => merchant_account(&call, name, &text).await?,
        Some(RulesSource::Router) => Some(RulesPart::Routing(routing_rules(&text)?)),
        Some(RulesSource::Settings) | None => None,
    };
    let tenant = call.tenant.as_ref().expect("the route requires a tenant").id.uuid();
    let row = (tenant, key.as_str());
    let sealed = sealer(&call)?.seal_named(Purpose::PluginConfiguration, row, &text);
    let it = SetTenantValue { key, value: Some(sealed), rules };
    call.submit_secret(Command::Tenant(TenantCommand::SetValue(it)), ()).await?;
    Ok(created(&call))
}

/// The tenant's account at a gateway, as its configuration says. Names of plugins that are not here are taken too.
async fn merchant_account(
    call: &Call,
    name: &str,
    text: &str,
) -> Result<Option<RulesPart>, Failure> {
    match call.api.engine().ask_for_merchant_account((call.tenant(), name), text).await? {
        Ok(account) => Ok(account.map(RulesPart::MerchantAccount)),
        Err(RequestRefused::Unsupported) => Ok(None),
        Err(RequestRefused::Invalid(reason)) => {
            Err(Failure::illegal(format!("pluginConfig {}", printable(&reason))))
        }
        Err(RequestRefused::Unavailable(reason) | RequestRefused::Unfit(reason)) => {
            tracing::warn!(
                gateway = name,
                reason,
                "failed to check a configuration; nothing is stored"
            );
            let code = code::plain(StatusCode::SERVICE_UNAVAILABLE, class::REJECTED);
            Err(Failure::coded(code, "the gateway cannot be asked about the configuration now"))
        }
    }
}

/// Reads the configuration of a plugin: whole with `tenant_kvs:add`, `***` without.
#[utoipa::path(get, path = "/1.0/kb/tenants/uploadPluginConfig/{pluginName}", tag = "Tenant",
    operation_id = "plugin_configuration",
    params(("pluginName" = String, Path)),
    responses((status = 200, body = TenantValueJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn plugin(call: Call) -> HandlerResult {
    let key = key_of_plugin(&call, PLUGIN_CONFIGURATION)?;
    read(call, key).await
}

/// Deletes the configuration of a plugin.
#[utoipa::path(delete, path = "/1.0/kb/tenants/uploadPluginConfig/{pluginName}", tag = "Tenant",
    operation_id = "delete_plugin_configuration",
    params(("pluginName" = String, Path)),
    responses((status = 204, description = "There is none now"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete_plugin(call: Call) -> HandlerResult {
    let key = key_of_plugin(&call, PLUGIN_CONFIGURATION)?;
    delete(call, key).await
}

/// Stores the payment state machine of a plugin. It has to be Kill Bill's own, byte for byte: payments
/// follow that one.
#[utoipa::path(post, path = "/1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/{pluginName}",
    tag = "Tenant", operation_id = "set_payment_state_machine",
    params(("pluginName" = String, Path)),
    request_body(content = String, content_type = "text/plain"),
    responses((status = 201, description = "Stored"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn set_state_machine(call: Call) -> HandlerResult {
    let key = key_of_plugin(&call, PAYMENT_STATE_MACHINE)?;
    let text = text(&call, "paymentStateMachineConfig")?;
    if digest::digest(&digest::SHA256, text.as_bytes()).as_ref() != STATE_MACHINE_SHA256 {
        let message = "Failed to load payment state machine configuration: paymentStateMachineConfig is not \
                       Kill Bill's PaymentStates.xml, the only one that payments follow here";
        return Err(Failure::coded(code::PAYMENT_STATE_MACHINE, message));
    }
    set(&call, SetTenantValue::new(key, Some(text))).await?;
    Ok(created(&call))
}

/// Reads the payment state machine of a plugin.
#[utoipa::path(get, path = "/1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/{pluginName}",
    tag = "Tenant", operation_id = "payment_state_machine",
    params(("pluginName" = String, Path)),
    responses((status = 200, body = TenantValueJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn state_machine(call: Call) -> HandlerResult {
    let key = key_of_plugin(&call, PAYMENT_STATE_MACHINE)?;
    read(call, key).await
}

/// Deletes the payment state machine of a plugin.
#[utoipa::path(delete, path = "/1.0/kb/tenants/uploadPluginPaymentStateMachineConfig/{pluginName}",
    tag = "Tenant", operation_id = "delete_payment_state_machine",
    params(("pluginName" = String, Path)),
    responses((status = 204, description = "There is none now"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete_state_machine(call: Call) -> HandlerResult {
    let key = key_of_plugin(&call, PAYMENT_STATE_MACHINE)?;
    delete(call, key).await
}

/// Stores a value under a key of the tenant's own, after those that are there: at most 100, together at most
/// 256 KiB.
#[utoipa::path(post, path = "/1.0/kb/tenants/userKeyValue/{keyName}", tag = "Tenant",
    operation_id = "append_value",
    params(("keyName" = String, Path)),
    request_body(content = String, content_type = "text/plain"),
    responses((status = 201, description = "Stored"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn append(call: Call) -> HandlerResult {
    let it = AppendTenantValue { key: own_key(&call)?, value: text(&call, "value")? };
    call.submit_change(Command::Tenant(TenantCommand::AppendValue(it))).await?;
    Ok(created(&call))
}

/// Reads the values under a key of the tenant's own, the oldest first, or under one of Kill Bill's, such as `CATALOG`,
/// as the route shows them that writes it.
#[utoipa::path(get, path = "/1.0/kb/tenants/userKeyValue/{keyName}", tag = "Tenant",
    operation_id = "values_of_key",
    params(("keyName" = String, Path)),
    responses((status = 200, body = TenantValueJson<'static>),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn of_key(call: Call) -> HandlerResult {
    let key = name(&call, "keyName", KEY_CHARS_MAX)?;
    if is_reserved_key(&key) && route_of(&key).is_none() {
        return Err(reserved(&key));
    }
    read(call, key).await
}

/// Deletes the values under a key of the tenant's own.
#[utoipa::path(delete, path = "/1.0/kb/tenants/userKeyValue/{keyName}", tag = "Tenant",
    operation_id = "delete_values",
    params(("keyName" = String, Path)),
    responses((status = 204, description = "There are none now"),
        (status = "4XX", body = ErrorJson<'static>)))]
pub(crate) async fn delete_key(call: Call) -> HandlerResult {
    let key = own_key(&call)?;
    delete(call, key).await
}

async fn set(call: &Call, it: SetTenantValue) -> Result<(), Failure> {
    call.submit_change(Command::Tenant(TenantCommand::SetValue(it))).await
}

async fn delete(call: Call, key: String) -> HandlerResult {
    set(&call, SetTenantValue::new(key, None)).await?;
    Ok(reply::no_content())
}

async fn read(call: Call, key: String) -> HandlerResult {
    let (tenant, name) = (call.tenant(), key.clone());
    if key == CATALOG {
        let texts = call.read(move |queries| catalog::texts(queries, tenant)).await?;
        let texts = texts.into_iter().map(Cow::from).collect();
        return Ok(reply::ok(&TenantValueJson::new(&key, texts)));
    }
    match call.read(move |queries| queries.tenant_value(tenant, &name)).await? {
        Some(found) => Ok(reply::ok(&json(&call, &found)?)),
        None => Ok(reply::ok(&TenantValueJson::new(&key, vec![]))),
    }
}

fn json<'a>(call: &Call, found: &'a TenantValue) -> Result<TenantValueJson<'a>, Failure> {
    let values = match found.value.as_deref() {
        Some(_) if found.key == WEBHOOK_ENDPOINTS => vec![MASKED.into()],
        Some(_) if found.key.starts_with(PLUGIN_CONFIGURATION) && !call.caller.may(ADD) => {
            vec![MASKED.into()]
        }
        Some(sealed) if found.key.starts_with(PLUGIN_CONFIGURATION) => {
            vec![open(call, &found.key, sealed)?.into()]
        }
        Some(_) | None => found.values().map(Cow::from).collect(),
    };
    Ok(TenantValueJson::new(&found.key, values))
}

/// The sealed configuration of a plugin.
fn open(call: &Call, key: &str, sealed: &str) -> Result<String, Failure> {
    let tenant = call.tenant.as_ref().expect("the route requires a tenant").id.uuid();
    let opened = sealer(call)?.open_named(Purpose::PluginConfiguration, (tenant, key), sealed);
    opened.map_err(|_| {
        tracing::error!(key, "failed to decrypt a plugin's configuration: was the key replaced?");
        let code = code::plain(StatusCode::INTERNAL_SERVER_ERROR, class::ILLEGAL_STATE);
        Failure::coded(code, "the configuration was stored with another key than `flags.key_file`")
    })
}

fn sealer(call: &Call) -> Result<&Sealer, Failure> {
    call.api.settings().sealer.as_deref().ok_or_else(|| {
        let code = code::plain(StatusCode::NOT_IMPLEMENTED, class::UNSUPPORTED);
        Failure::coded(code, "configurations of plugins are encrypted: set `flags.key_file`")
    })
}

/// The body, as text of at most [`VALUES_BYTES_MAX`].
fn text(call: &Call, name: &str) -> Result<String, Failure> {
    let invalid = |reason: &str| Failure::illegal(format!("{name} {reason}"));
    if call.body.is_empty() {
        return Err(invalid("needs to be set"));
    }
    if call.body.len() > VALUES_BYTES_MAX {
        return Err(invalid("has more than 256 KiB"));
    }
    let text = std::str::from_utf8(&call.body).map_err(|_| invalid("is not valid UTF-8"))?;
    match text.contains('\0') {
        true => Err(invalid("has a character U+0000")),
        false => Ok(text.to_owned()),
    }
}

/// The key of what is stored for the plugin in the path.
fn key_of_plugin(call: &Call, prefix: &str) -> Result<String, Failure> {
    Ok(format!("{prefix}{}", name(call, "pluginName", KEY_CHARS_MAX - prefix.len())?))
}

/// The route that writes one of Kill Bill's keys.
fn route_of(key: &str) -> Option<&'static str> {
    let is_it = |it: &&(&str, &str)| match it.0.ends_with('_') {
        true => key.starts_with(it.0),
        false => key == it.0,
    };
    ROUTES_OF_KEYS.iter().find(is_it).map(|(_, route)| *route)
}

fn reserved(key: &str) -> Failure {
    Failure::illegal(match route_of(key) {
        Some(route) => format!("keyName: {key} is written by {route}"),
        None => format!("keyName: {key} is reserved"),
    })
}

/// A key of the tenant's own: others mean something, and are written by routes that check their values.
fn own_key(call: &Call) -> Result<String, Failure> {
    let key = name(call, "keyName", KEY_CHARS_MAX)?;
    match is_reserved_key(&key) {
        true => Err(reserved(&key)),
        false => Ok(key),
    }
}

/// A name in the path, of at most `room` characters.
fn name(call: &Call, parameter: &'static str, room: usize) -> Result<String, Failure> {
    let name = call.param(parameter)?;
    let is_valid = name.chars().count() <= room && !name.chars().any(char::is_control);
    match is_valid {
        true => Ok(name.into_owned()),
        false => Err(Failure::illegal(format!(
            "{parameter} has more than {room} characters, or control characters: {}",
            printable(&name)
        ))),
    }
}

fn created(call: &Call) -> axum::response::Response {
    let path = call.parts.uri.path();
    reply::created(call.location(&[path.strip_suffix('/').unwrap_or(path)]))
}
