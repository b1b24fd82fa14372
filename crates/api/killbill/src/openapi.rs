//! The OpenAPI document of this API.

use http::Method;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ArrayBuilder, Object, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, Header, OpenApi, Ref, RefOr, Required, Response};
use utoipa::{PartialSchema as _, ToSchema as _};

use crate::objects::ObjectNames;
use crate::request::Audited;
use crate::route::{Credentials, OBJECT_ID, Route};
use crate::routes;

/// The OpenAPI document of the served routes. Headers and credentials come from the list of routes,
/// so that the handlers do not repeat them.
#[must_use]
pub fn openapi() -> OpenApi {
    let mut document = OpenApi::default();
    for route in routes::all() {
        let mut described = (route.handler.describe)();
        for mut item in std::mem::take(&mut described.paths.paths).into_values() {
            operations(&mut item).for_each(|operation| complete(operation, route));
            described.paths.paths.insert(route.path.clone(), item);
        }
        document.merge(described);
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

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.delete].into_iter().flatten()
}

fn complete(operation: &mut Operation, route: &Route) {
    if let Some(kind) = route.object {
        name_object(operation, &ObjectNames::of(kind));
    }
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
        let of_name = PARAMETERS.iter().find(|(name, _)| *name == parameter.name);
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

/// Describes a route that several types of objects have as that of one.
fn name_object(operation: &mut Operation, names: &ObjectNames) {
    operation.tags = Some(vec![names.tag.to_owned()]);
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.name == OBJECT_ID
        {
            parameter.name = names.id.to_owned();
        }
    }
}

/// Parameters that several routes have in one meaning. A handler describes those that only its route has.
const PARAMETERS: [(&str, &str); 31] = [
    ("accountId", "The account's id"),
    ("accountWithBalance", "Fills `accountBalance`"),
    ("accountWithBalanceAndCBA", "Fills `accountBalance` and `accountCBA`"),
    ("audit", "`NONE` (default), `MINIMAL` or `FULL`: fills `auditLogs`"),
    ("bundleId", "The bundle"),
    ("controlPluginName", "A control plugin that decides about the call; repeatable"),
    ("externalKey", "The key that the client gave"),
    ("includedDeleted", "Deleted ones too"),
    ("invoiceId", "The invoice"),
    ("invoiceItemId", "The invoice's item"),
    ("keyName", "A key of the tenant's own"),
    ("limit", "100 by default, 10,000 at most"),
    ("objectType", "Only tags of this type of object"),
    ("offset", "How many to skip; 1,000,000 at most"),
    ("paymentId", "The payment's id"),
    ("paymentMethodId", "The payment method's id; the account's default without it"),
    ("paymentTransactionId", "The transaction's id"),
    ("pluginName", "Only those of this gateway"),
    ("pluginProperty", "key=value, for the gateway; repeatable"),
    ("requestedDate", "A date, or a date and time (ISO 8601)"),
    ("withChildrenItems", "Taken for Kill Bill's clients, and has no effect"),
    ("searchKey", "The text to search for"),
    ("subscriptionId", "The subscription"),
    ("tagDefinitionId", "The definition's id"),
    ("timeZone", "Of the date in the answer; UTC by default"),
    ("timeoutSec", "Seconds to wait; 5 by default, 600 at most"),
    ("transactionExternalKey", "The key that the client gave the transaction"),
    ("transactionId", "The transaction's id"),
    ("username", "The user's name"),
    ("withAttempts", "Fills `paymentAttempts`, the calls that control plugins decided about"),
    (
        "withPluginInfo",
        "Asks the gateway about what is unknown or pending, and shows its references",
    ),
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
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;

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
        let mut routes_with = BTreeMap::<String, usize>::new();
        for (name, operation) in operations() {
            for parameter in operation["parameters"].as_array().unwrap() {
                assert!(parameter["description"].is_string(), "{name}: {parameter}");
                let parameter = parameter["name"].as_str().unwrap();
                *routes_with.entry(parameter.to_owned()).or_default() += 1;
            }
        }
        for (name, _) in PARAMETERS {
            assert!(routes_with[name] > 1, "{name} is described at the one handler that has it");
        }
    }
}
