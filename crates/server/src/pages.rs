//! Pages for people: `/` links to the other pages, `/docs` shows the API of `/openapi.json`.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Response};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    Components, ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, RefOr, Server,
};
use web::problem::MEDIA_TYPE;

const LANDING: &str = include_str!("pages/landing.html");
const DOCS: &str = include_str!("pages/docs.html");

/// The pages contain their scripts and styles, and load nothing from other servers. The policy names each
/// of these by its hash (CSP level 3, section 6.7.3.3): nothing else that gets into a page runs.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let (scripts, styles) = (hashes("script"), hashes("style"));
    let policy = format!(
        "default-src 'none'; connect-src 'self'; script-src {scripts}; style-src {styles}; \
         img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("a policy is ASCII")
});

/// The hashes of what the pages have between these tags, as a source list.
fn hashes(tag: &str) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let parts = [LANDING, DOCS].into_iter().flat_map(|page| page.split(&open).skip(1));
    let contents = parts.filter_map(|part| part.split(&close).next());
    let sources = contents.map(|content| {
        let digest = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
        format!("'sha256-{}'", BASE64.encode(digest))
    });
    sources.collect::<Vec<_>>().join(" ")
}

#[derive(utoipa::OpenApi)]
#[openapi(paths(crate::health::live, crate::health::ready, crate::operations::scrape))]
struct Operations;

/// The routes for operators. The refusal of one is a problem (RFC 9457).
fn operations() -> OpenApi {
    let mut document = <Operations as utoipa::OpenApi>::openapi();
    let operations = document.paths.paths.values_mut().filter_map(|path| path.get.as_mut());
    let refusals = operations.filter_map(|it| it.responses.responses.get_mut("401"));
    for response in refusals {
        if let RefOr::T(response) = response {
            let bodies = std::mem::take(&mut response.content).into_values();
            response.content.extend(bodies.map(|body| (MEDIA_TYPE.to_owned(), body)));
        }
    }
    document
}

/// The document of everything that is served.
#[must_use]
pub fn openapi() -> OpenApi {
    let mut document = v1::openapi();
    for api in [killbill::openapi(), signup::openapi(), flags::openapi()] {
        document.merge(api);
    }
    document.merge(operations());
    document.info = InfoBuilder::new()
        .title("Faregate")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Kill Bill's payment API under /1.0/kb, Faregate's own under /v1, sign-up by SaaSOdoo's \
             paths under /user and /billing, and feature flags for SDKs under /ofrep and /api/public. \
             Operators send a user (HTTP Basic) and mostly a tenant's key and secret, customers an \
             access token, SDKs a secret of their environment.",
        ))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .contact(Some(ContactBuilder::new().name(Some("Faregate")).build()))
        .build();
    let components = document.components.get_or_insert_with(Components::new);
    let basic = HttpBuilder::new().scheme(HttpAuthScheme::Basic).build();
    components.add_security_scheme("user", SecurityScheme::Http(basic));
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("metricsToken", SecurityScheme::Http(bearer.clone()));
    components.add_security_scheme("accessToken", SecurityScheme::Http(bearer));
    for (name, header) in [("environmentSecret", "X-API-Key"), ("sdkSecret", "Authorization")] {
        let scheme = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new(header)));
        components.add_security_scheme(name, scheme);
    }
    let schemes = [("tenantKey", "X-Killbill-ApiKey"), ("tenantSecret", "X-Killbill-ApiSecret")];
    let mut requirement = SecurityRequirement::new("user", NO_SCOPES);
    for (name, header) in schemes {
        let scheme = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new(header)));
        components.add_security_scheme(name, scheme);
        requirement = requirement.add(name, NO_SCOPES);
    }
    document.security = Some(vec![requirement]);
    document.servers = Some(vec![Server::new("/")]);
    document
}

const NO_SCOPES: [&str; 0] = [];

/// The document as it is sent. It is built on the first request, because it would cost every
/// start its time and every idle server its memory.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let json = openapi().to_json().expect("the document is plain JSON");
    Bytes::from(json)
});

const HTML: &str = "text/html; charset=utf-8";

/// Each page's path, media type and content.
type Page = (&'static str, &'static str, fn() -> Bytes);

/// The pages.
pub static PAGES: [Page; 3] = [
    ("/", HTML, || Bytes::from_static(LANDING.as_bytes())),
    ("/docs", HTML, || Bytes::from_static(DOCS.as_bytes())),
    ("/openapi.json", "application/json", || DOCUMENT.clone()),
];

/// The pages' routes.
pub fn router() -> Router {
    PAGES.iter().fold(Router::new(), |router, (path, content_type, content)| {
        router.route(path, get(async || page(content_type, content())))
    })
}

fn page(content_type: &'static str, content: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let nosniff = HeaderName::from_static("x-content-type-options");
    headers.insert(nosniff, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_openapi_3_1_and_names_both_apis() {
        let document: serde_json::Value =
            serde_json::from_str(&openapi().to_json().unwrap()).unwrap();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.contains_key("/v1/ledger/entries"));
        assert!(paths.contains_key("/1.0/kb/accounts"));
        assert_eq!(paths["/health/ready"]["get"]["security"], serde_json::json!([{}]));
        let of_metrics = &paths["/metrics"]["get"]["security"];
        assert_eq!(*of_metrics, serde_json::json!([{ "metricsToken": [] }]));
        assert_eq!(document["security"][0].as_object().unwrap().len(), 3);
        for path in ["/health/live", "/health/ready", "/metrics"] {
            assert!(paths.contains_key(path), "{path}");
        }
    }

    #[test]
    fn the_page_has_every_resource_under_what_it_is_for() {
        let document = serde_json::to_value(openapi()).unwrap();
        let paths = document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|it| it.as_object().unwrap().values());
        let tags = operations.filter_map(|it| it["tags"][0].as_str());
        let tags: std::collections::BTreeSet<&str> = tags.collect();
        let (_, jobs) = DOCS.split_once("const JOBS = [").unwrap();
        let (jobs, _) = jobs.split_once("];\n\n").unwrap();
        let missing: Vec<_> =
            tags.iter().filter(|it| !jobs.contains(&format!("\"{it}\""))).collect();
        assert!(missing.is_empty(), "{missing:?}: say in docs.html what they are for");
    }

    #[test]
    fn apis_that_share_a_schemas_name_share_the_schema() {
        let mut known = std::collections::BTreeMap::new();
        for api in [v1::openapi(), killbill::openapi(), signup::openapi(), flags::openapi()] {
            let api = serde_json::to_value(api).unwrap();
            for (name, schema) in api["components"]["schemas"].as_object().unwrap() {
                let before = known.insert(name.clone(), schema.clone());
                assert!(before.is_none_or(|it| it == *schema), "{name} is two schemas");
            }
        }
    }

    #[test]
    fn every_answer_with_a_body_and_every_body_has_a_schema() {
        let document = serde_json::to_value(openapi()).unwrap();
        let mut known = vec![];
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                if matches!(method.as_str(), "post" | "put" | "patch")
                    && operation["requestBody"].is_null()
                {
                    known.push(format!("{method} {path} takes no body"));
                }
                let answer = &operation["responses"]["200"];
                if answer.is_object() && answer["content"].is_null() {
                    known.push(format!("{method} {path} answers no body"));
                }
            }
        }
        expect_test::expect![[r#"
            put /1.0/kb/accounts/{accountId}/cbaRebalancing takes no body
            post /1.0/kb/accounts/{accountId}/invoicePayments takes no body
            put /1.0/kb/accounts/{accountId}/paymentMethods/refresh takes no body
            put /1.0/kb/accounts/{accountId}/paymentMethods/{paymentMethodId}/setDefault takes no body
            put /1.0/kb/admin/healthcheck takes no body
            post /1.0/kb/admin/invoices takes no body
            put /1.0/kb/bundles/{bundleId}/pause takes no body
            put /1.0/kb/bundles/{bundleId}/resume takes no body
            post /1.0/kb/invoices takes no body
            post /1.0/kb/invoices/group takes no body
            put /1.0/kb/invoices/{invoiceId}/commitInvoice takes no body
            put /1.0/kb/invoices/{invoiceId}/voidInvoice takes no body
            post /1.0/kb/paymentGateways/notification/{pluginName} answers no body
            put /1.0/kb/subscriptions/{subscriptionId}/uncancel takes no body
            put /1.0/kb/subscriptions/{subscriptionId}/undoChangePlan takes no body
            post /1.0/kb/tenants/registerNotificationCallback takes no body
            post /1.0/kb/test/clock takes no body
            put /1.0/kb/test/clock takes no body
            get /1.0/kb/test/queues answers no body
            post /api/public/insight/track answers no body
            post /plugins/killbill-payment-test/configure answers no body
            post /user/auth/logout takes no body
            post /user/users/deactivate takes no body
            post /v1/accounts/{accountId}/erase takes no body
            post /v1/accounts/{accountId}/reservations/{reservationId}/release takes no body
            post /v1/customers/{id}/activate takes no body
            post /v1/customers/{id}/deactivate takes no body
            post /v1/gateways/http/{name}/{endpoint} answers no body
            post /v1/gateways/stripe/{endpoint} answers no body
            post /v1/mails/{id}/resend takes no body"#]].assert_eq(&known.join("\n"));
    }

    #[test]
    fn operations_have_ids_of_their_own_and_answers_a_description() {
        let document = serde_json::to_value(openapi()).unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id), "{method} {path}: {id} is another one's");
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let description = response["description"].as_str().unwrap();
                    assert!(!description.is_empty(), "{method} {path}: {status}");
                }
            }
        }
    }

    #[test]
    fn the_pages_load_nothing_from_elsewhere() {
        for page in [LANDING, DOCS] {
            assert!(!page.contains("https://") && !page.contains("http://"), "{page}");
        }
    }

    #[test]
    fn the_policy_lets_the_pages_own_scripts_and_styles_run_only() {
        let policy = POLICY.to_str().unwrap();
        assert!(!policy.contains("unsafe"), "{policy}");
        let elements = |tag: &str| [LANDING, DOCS].map(|page| page.matches(tag).count());
        let (scripts, styles) = (elements("<script"), elements("<style"));
        let named = policy.matches("'sha256-").count();
        assert_eq!(named, scripts.iter().chain(&styles).sum::<usize>(), "{policy}");
        for attribute in [" style=", " onclick=", " onload=", "javascript:"] {
            assert_eq!(elements(attribute), [0, 0], "{attribute} has no hash");
        }
    }
}
