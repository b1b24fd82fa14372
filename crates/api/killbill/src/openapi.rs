//! The OpenAPI document of this API.

use http::Method;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ArrayBuilder, Object, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, Header, Ref, RefOr, Required, Response};
use utoipa::{OpenApi, PartialSchema as _, ToSchema as _};

use crate::payments::{combo, follow_up, read, retries};
use crate::request::Audited;
use crate::route::{Credentials, Route};
use crate::routes;
use crate::{
    account_emails, account_related, accounts, admin, audit, blocking_states, caches, catalog,
    custom_fields, export, gateway_notifications, hosted_form, node_commands, overdue,
    payment_methods, payments, queues, security, system, tags, tenant_values, tenants, test_clock,
    test_plugin, transactions,
};

#[derive(OpenApi)]
#[openapi(paths(
    tenants::create,
    tenants::get,
    tenants::get_by_api_key,
    tenants::register_callback,
    tenants::get_callback,
    tenants::delete_callback,
    tenant_values::set_settings,
    tenant_values::settings,
    tenant_values::delete_settings,
    tenant_values::search,
    tenant_values::set_plugin,
    tenant_values::plugin,
    tenant_values::delete_plugin,
    tenant_values::set_state_machine,
    tenant_values::state_machine,
    tenant_values::delete_state_machine,
    tenant_values::append,
    tenant_values::of_key,
    tenant_values::delete_key,
    accounts::create,
    accounts::get,
    accounts::get_by_key,
    accounts::update,
    accounts::list,
    accounts::search,
    account_related::children,
    account_related::timeline,
    account_related::bundles,
    account_related::bundles_page,
    account_related::invoices,
    account_related::invoices_page,
    account_related::invoice_payments,
    account_related::rebalance_credit,
    overdue::configuration,
    overdue::xml,
    overdue::of_account,
    audit::account,
    audit::account_history,
    audit::payment_method_history,
    audit::payment_history,
    audit::transaction_history,
    audit::attempt_history,
    audit::tag_history,
    tags::of_account::list,
    tags::of_account::add,
    tags::of_account::remove,
    tags::of_payment::list,
    tags::of_payment::add,
    tags::of_payment::remove,
    tags::of_transaction::list,
    tags::of_transaction::add,
    tags::of_transaction::remove,
    tags::list_of_all,
    tags::page,
    tags::search,
    tags::define,
    tags::undefine,
    tags::definition_history,
    blocking_states::close,
    blocking_states::list,
    blocking_states::add,
    blocking_states::history,
    account_emails::list,
    account_emails::add,
    account_emails::remove,
    account_emails::history,
    custom_fields::of_account::list,
    custom_fields::of_account::add,
    custom_fields::of_account::update,
    custom_fields::of_account::remove,
    custom_fields::list_of_all,
    custom_fields::of_payment_method::list,
    custom_fields::of_payment_method::add,
    custom_fields::of_payment_method::update,
    custom_fields::of_payment_method::remove,
    custom_fields::of_payment::list,
    custom_fields::of_payment::add,
    custom_fields::of_payment::update,
    custom_fields::of_payment::remove,
    custom_fields::of_transaction::list,
    custom_fields::of_transaction::add,
    custom_fields::of_transaction::update,
    custom_fields::of_transaction::remove,
    custom_fields::page,
    custom_fields::search_by_name,
    custom_fields::search,
    audit::custom_field_history,
    tags::definitions,
    tags::definition,
    payment_methods::create,
    payment_methods::list_of_account,
    payment_methods::get,
    payment_methods::get_by_key,
    payment_methods::list,
    payment_methods::search,
    payment_methods::set_default,
    payment_methods::refresh,
    payment_methods::delete,
    payments::start,
    payments::start_by_account_key,
    payments::list_of_account,
    combo::start,
    retries::cancel,
    retries::cancel_by_key,
    follow_up::capture,
    follow_up::capture_by_key,
    follow_up::refund,
    follow_up::refund_by_key,
    follow_up::void,
    follow_up::void_by_key,
    follow_up::chargeback,
    follow_up::chargeback_by_key,
    follow_up::reverse_chargeback,
    follow_up::reverse_chargeback_by_key,
    follow_up::complete,
    follow_up::complete_by_key,
    read::get,
    read::get_by_key,
    read::list,
    read::search,
    transactions::get,
    transactions::get_by_key,
    transactions::notify,
    admin::fix_transaction,
    admin::leave_rotation,
    admin::join_rotation,
    queues::list,
    caches::drop_all,
    caches::drop_of_account,
    caches::drop_of_tenant,
    security::create_user,
    security::update_password,
    security::update_roles,
    security::delete_user,
    security::user_roles,
    security::create_role,
    security::update_role,
    security::role,
    security::roles,
    security::subject,
    security::permissions,
    export::account,
    catalog::upload,
    catalog::versions,
    catalog::delete,
    catalog::upload_xml,
    catalog::xml,
    system::nodes,
    gateway_notifications::process,
    hosted_form::of_account,
    hosted_form::with_account,
    node_commands::execute,
    system::plugins,
    system::health,
    system::metrics,
    test_clock::get,
    test_clock::set,
    test_clock::advance,
    test_clock::queues,
    test_plugin::configure,
))]
struct Api;

/// The OpenAPI document of the served routes. Headers and credentials come from the table of routes,
/// so that the handlers do not repeat them.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = Api::openapi();
    for route in routes::all() {
        let item = document.paths.paths.get_mut(route.path);
        let operation = item.and_then(|item| operation(item, &route.method));
        complete(operation.expect("every served route has a description"), route);
    }
    let components = document.components.get_or_insert_default();
    let unauthorized = (UnauthorizedJson::name().into_owned(), UnauthorizedJson::schema());
    components.schemas.extend([unauthorized]);
    document
}

web::shapes! {
    /// Why a caller may not: wrong credentials as the servlet container says it, or the exception for a
    /// permission that is missing.
    #[schema(rename_all = "camelCase")]
    UnauthorizedJson {
        message: String,
        servlet: Option<String>,
        url: Option<String>,
        status: Option<String>,
        class_name: Option<String>,
        code: Option<i32>,
        cause_class_name: Option<String>,
        cause_message: Option<String>,
        stack_trace: Option<Vec<String>>,
    }
}

/// The answer to wrong credentials.
fn unauthorized() -> Response {
    let body = Content::new(Some(Ref::from_schema_name(UnauthorizedJson::name())));
    let text =
        "Wrong credentials, with an empty body where the user's are; or a permission is missing";
    ResponseBuilder::new().description(text).content("application/json", body).build()
}

fn operation<'a>(item: &'a mut PathItem, method: &Method) -> Option<&'a mut Operation> {
    match *method {
        Method::GET => item.get.as_mut(),
        Method::POST => item.post.as_mut(),
        Method::PUT => item.put.as_mut(),
        Method::DELETE => item.delete.as_mut(),
        _ => None,
    }
}

fn complete(operation: &mut Operation, route: &Route) {
    let tag = operation.tags.iter().flatten().next().cloned().unwrap_or_default();
    if let Some(id) = &mut operation.operation_id {
        *id = format!("{}_{id}", snake(&tag));
    }
    operation.security = match route.credentials {
        Credentials::None => Some(vec![SecurityRequirement::default()]),
        Credentials::User => Some(vec![SecurityRequirement::new("user", [""; 0])]),
        // The document's default.
        Credentials::UserAndTenant => None,
    };
    let has = |parameters: &[RefOr<Parameter>], name: &str| {
        parameters.iter().any(|it| matches!(it, RefOr::T(it) if it.name == name))
    };
    if let Some(permission) = route.permission {
        let except = if route.is_open_to_its_user { ", except for one's own user" } else { "" };
        let needs = format!("Needs the permission `{permission}`{except}.");
        let before = operation.description.take().map(|it| format!("{}\n\n", it.trim_end()));
        operation.description = Some(before.unwrap_or_default() + &needs);
    }
    let parameters = operation.parameters.get_or_insert_default();
    // Kill Bill's clients send properties with a read that may ask the gateway.
    if has(parameters, "withPluginInfo") && !has(parameters, "pluginProperty") {
        parameters.push(plugin_property());
    }
    for parameter in parameters.iter_mut() {
        let RefOr::T(parameter) = parameter else { continue };
        let of_name = OF_METHODS.iter().filter(|_| route.path.contains("/paymentMethods"));
        let of_name = of_name.chain(&PARAMETERS).find(|(name, _)| *name == parameter.name);
        if let (None, Some((_, text))) = (&parameter.description, of_name) {
            parameter.description = Some((*text).to_owned());
        }
    }
    parameters.extend(headers(route).into_iter().map(RefOr::T));
    let is_paged = has(parameters, "offset");
    if !matches!(route.credentials, Credentials::None) {
        let responses = &mut operation.responses.responses;
        responses.insert("401".to_owned(), RefOr::T(unauthorized()));
    }
    let makes_transaction = operation.responses.responses.contains_key("504");
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        complete_response(response, status, is_paged, makes_transaction);
    }
}

/// The descriptions of parameters on the routes of payment methods.
const OF_METHODS: [(&str, &str); 1] = [(
    "controlPluginName",
    "A control plugin that there is: they decide about payments, not about methods; repeatable",
)];

/// Parameters that mean the same on every route.
const PARAMETERS: [(&str, &str); 66] = [
    ("accountEmailId", "The id of the further e-mail address"),
    ("accountId", "The account's id"),
    ("accountWithBalance", "Fills `accountBalance`, 0 as there are no invoices"),
    (
        "accountWithBalanceAndCBA",
        "Fills `accountBalance` and `accountCBA`, 0 as there are no invoices",
    ),
    ("apiKey", "The tenant's API key"),
    ("audit", "`NONE` (default), `MINIMAL` or `FULL`: fills `auditLogs`"),
    ("blockingId", "The id of the blocking state"),
    ("blockingStateSvcs", "A service whose states are listed; repeatable"),
    ("blockingStateTypes", "`ACCOUNT`, `SUBSCRIPTION_BUNDLE` or `SUBSCRIPTION`; repeatable"),
    ("cacheName", "`credentials`, which is the only one; all without it"),
    ("cancelAllSubscriptions", "Taken for Kill Bill's clients: there are no subscriptions"),
    ("cb", "The URL that events are sent to"),
    ("controlPluginName", "A control plugin that decides about the call; repeatable"),
    ("customField", "A field's id; repeatable"),
    ("customFieldId", "The custom field's id"),
    ("days", "Days to move by"),
    ("email", "The further e-mail address"),
    ("fieldName", "The field's name"),
    ("fieldValue", "The field's value"),
    (
        "deleteDefaultPmWithAutoPayOff",
        "Deletes a default method and tags its account `AUTO_PAY_OFF`",
    ),
    ("externalKey", "The key that the client gave"),
    ("forceDefaultPmDeletion", "Deletes a default method"),
    ("includedDeleted", "Deleted ones too"),
    ("isDefault", "Makes it the account's default"),
    ("itemAdjustUnpaidInvoices", "Taken for Kill Bill's clients: there are no invoices"),
    ("keyName", "A key of the tenant's own"),
    ("keyPrefix", "What the keys begin with"),
    ("limit", "100 by default, 10,000 at most"),
    ("localNodeOnly", "Taken for Kill Bill's clients: the command is for this node in any case"),
    ("maxDate", "Nothing later than this date, or date and time (ISO 8601)"),
    ("minDate", "Nothing earlier than this date, or date and time (ISO 8601)"),
    ("months", "Months to move by"),
    ("objectType", "Only tags of this type of object"),
    ("offset", "How many to skip; 1,000,000 at most"),
    ("parallel", "Taken for Kill Bill's clients, and has no effect"),
    ("paymentAttemptId", "The attempt's id"),
    ("paymentId", "The payment's id"),
    ("paymentMethodId", "The payment method's id; the account's default without it"),
    ("paymentTransactionId", "The transaction's id"),
    ("pluginName", "Only those of this gateway"),
    ("pluginProperty", "key=value, for the gateway; repeatable"),
    ("queueName", "Only notifications of this queue: `janitor` is the only one"),
    ("removeFutureNotifications", "Cancels what is scheduled for the account; `true` by default"),
    ("requestedDate", "A date, or a date and time (ISO 8601)"),
    ("role", "The role's name"),
    ("searchKey", "The text to search for"),
    ("serviceName", "Only notifications of this service: `payment-service` is the only one"),
    ("tagDef", "A definition's id; repeatable"),
    ("tagDefinitionId", "The definition's id"),
    ("tagId", "The tag's id"),
    ("tenantId", "The tenant's id"),
    ("timeZone", "Of the date in the answer; UTC by default"),
    ("timeoutSec", "Seconds to wait; 5 by default, 600 at most"),
    ("transactionExternalKey", "The key that the client gave the transaction"),
    ("transactionId", "The transaction's id"),
    ("treatNullAsReset", "Fields that are `null` or absent are emptied"),
    ("username", "The user's name"),
    ("weeks", "Weeks to move by"),
    ("withBusEvents", "`false` leaves `busEvents` empty"),
    ("withHistory", "Taken for Kill Bill's clients, and has no effect: what is done is not listed"),
    ("withInProcessing", "`false` leaves out transactions whose gateway call runs"),
    ("withNotifications", "`false` leaves `notifications` empty"),
    ("withAttempts", "Fills `paymentAttempts`, the calls that control plugins decided about"),
    (
        "withPluginInfo",
        "Asks the gateway about what is unknown or pending, and shows its references",
    ),
    ("years", "Years to move by"),
    ("writeOffUnpaidInvoices", "Taken for Kill Bill's clients: there are no invoices"),
];

/// `PaymentMethod` as `payment_method`.
fn snake(tag: &str) -> String {
    let mut snake = String::new();
    for letter in tag.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn plugin_property() -> RefOr<Parameter> {
    let texts = ArrayBuilder::new().items(Object::with_type(Type::String));
    let text = "Taken for Kill Bill's clients, and has no effect: what a gateway is asked about names itself";
    let parameter = ParameterBuilder::new()
        .name("pluginProperty")
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(text))
        .schema(Some(texts));
    RefOr::T(parameter.build())
}

/// The request headers without the credentials.
fn headers(route: &Route) -> Vec<Parameter> {
    let mut headers = vec![header(
        "X-Request-Id",
        "Repeated in the response; a UUID becomes the audit's userToken",
        Required::False,
    )];
    let is_audited = route.audited != Audited::Not;
    if is_audited {
        let (text, required) = match route.audited {
            Audited::ByHeaderOrUser => {
                ("The author of the change, for the audit; the user without it", Required::False)
            }
            Audited::ByHeader | Audited::Not => {
                ("The author of the change, for the audit", Required::True)
            }
        };
        headers.push(header("X-Killbill-CreatedBy", text, required));
        headers.push(header("X-Killbill-Reason", "The reason, for the audit", Required::False));
        headers.push(header("X-Killbill-Comment", "A comment for the audit", Required::False));
    }
    if is_audited && route.method == Method::POST {
        let text = "A retry with the same key returns the first response";
        headers.push(header("Idempotency-Key", text, Required::False));
    }
    headers
}

fn header(name: &str, description: &str, required: Required) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(required)
        .description(Some(description))
        .schema(Some(Object::with_type(Type::String)))
        .build()
}

fn complete_response(
    response: &mut Response,
    status: &str,
    is_paged: bool,
    makes_transaction: bool,
) {
    if response.description.is_empty() {
        response.description = default_description(status).to_owned();
    }
    let mut add = |name: &str, description: &str, kind| {
        response.headers.insert(name.to_owned(), RefOr::T(response_header(description, kind)));
    };
    add("X-Request-Id", "The request's id, or the server's if the request has none", Type::String);
    let is_error = !status.starts_with('2');
    if is_error && makes_transaction {
        let located =
            "The URL of the payment, if the request wrote a transaction whose gateway answered";
        add("Location", located, Type::String);
        let named = "The id of the payment, if the request wrote a transaction";
        add("X-Faregate-Payment", named, Type::String);
        let unknown = "`unknown`: whether money moved is not known";
        add("X-Faregate-Outcome", unknown, Type::String);
    }
    match status {
        "201" => add("Location", "The URL of the created resource", Type::String),
        "503" | "504" | "4XX" | "5XX" => {
            add("Retry-After", "Seconds before a retry, if a retry may succeed", Type::Integer)
        }
        "200" if is_paged => {
            add("X-Killbill-Pagination-CurrentOffset", "The offset of this page", Type::Integer);
            add("X-Killbill-Pagination-NextOffset", "The offset of the next page", Type::Integer);
            add(
                "X-Killbill-Pagination-TotalNbRecords",
                "The number of matching records",
                Type::Integer,
            );
            add("X-Killbill-Pagination-MaxNbRecords", "The number of all records", Type::Integer);
            add("X-Killbill-Pagination-NextPageUri", "The URL of the next page", Type::String);
        }
        _ => {}
    }
}

fn response_header(description: &str, kind: Type) -> Header {
    let schema = Object::with_type(kind);
    HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build()
}

/// The description of a status for which the handler gives none.
fn default_description(status: &str) -> &'static str {
    match status {
        "200" => "The requested resource",
        "4XX" => "Refused; the body has the reason",
        "500" => "The server cannot work now",
        "5XX" => "The gateway failed, or the server is unavailable; the body has the reason",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn described_and_served_routes_are_the_same() {
        let json = serde_json::to_value(openapi()).unwrap();
        let paths = json["paths"].as_object().unwrap();
        let described: BTreeSet<(&str, &str)> = paths
            .iter()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().unwrap().keys();
                methods.map(move |method| (method.as_str(), path.as_str()))
            })
            .collect();
        let served: Vec<_> = routes::all()
            .map(|route| (route.method.as_str().to_ascii_lowercase(), route.path))
            .collect();
        let served = served.iter().map(|(method, path)| (method.as_str(), *path)).collect();
        assert_eq!(described, served);
    }

    /// Each operation as JSON, with its method and path as the reference writes them.
    fn operations() -> Vec<(String, Value)> {
        let json = serde_json::to_value(openapi()).unwrap();
        let paths = json["paths"].as_object().unwrap().clone();
        let operations = paths.into_iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().clone();
            methods.into_iter().map(move |(method, operation)| {
                (format!("{} {path}", method.to_ascii_uppercase()), operation)
            })
        });
        operations.collect()
    }

    fn names(operation: &Value, location: &str) -> BTreeSet<String> {
        let parameters = operation["parameters"].as_array().unwrap();
        let matching = parameters.iter().filter(|it| it["in"] == location);
        matching.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn operation_ids_are_unique_and_responses_have_descriptions() {
        let mut ids = BTreeSet::new();
        for (name, operation) in operations() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{name}: {id} is used twice");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert_ne!(response["description"], "", "{name} {status}");
                assert!(response["headers"]["X-Request-Id"].is_object(), "{name} {status}");
            }
        }
        assert!(ids.contains("payment_method_get_by_key"), "{ids:?}");
    }

    #[test]
    fn operations_name_their_headers() {
        let operations = operations();
        let headers = |wanted: &str| {
            let (_, operation) = operations.iter().find(|(name, _)| name == wanted).unwrap();
            names(operation, "header").into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(headers("GET /1.0/kb/accounts"), "X-Request-Id");
        let audit = "X-Killbill-Comment X-Killbill-CreatedBy X-Killbill-Reason X-Request-Id";
        assert_eq!(headers("PUT /1.0/kb/payments"), audit);
        assert_eq!(headers("POST /1.0/kb/payments"), format!("Idempotency-Key {audit}"));
    }

    #[test]
    fn every_parameter_has_a_description() {
        let mut known = BTreeSet::new();
        for (name, operation) in operations() {
            for parameter in operation["parameters"].as_array().unwrap() {
                assert!(parameter["description"].is_string(), "{name}: {parameter}");
                known.insert(parameter["name"].as_str().unwrap().to_owned());
            }
        }
        for (name, _) in PARAMETERS {
            assert!(known.contains(name), "no operation has the parameter {name}");
        }
    }
}
